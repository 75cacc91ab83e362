"""Nearly Gaussian distributions: actions with quartic (and higher) couplings, to first order in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..gaussian.averages import ROUNDING
from ..gaussian.roots import root
from .wick import checked_covariance, inverse, moment_tensor

Observable = Callable[[Floats], Any]
"""Of the preactivations of one neuron: an array (points, samples) to one number for each point."""

_MOST_NODES = 2**22


@dataclass(frozen=True, eq=False)
class QuarticAction:
    """p(z) ~ exp(-S), S = K^ab z_a z_b / 2 + V^abcd z_a z_b z_c z_d / 4!, PDLT eq. (1.71), to first order in V.

    `K` has lower indices (it is the covariance without the coupling), `coupling` = V upper ones, with the small
    parameter in it; it is symmetric in all four.

    >>> action = QuarticAction([[1.3]], np.full((1, 1, 1, 1), 0.7e-3))
    >>> round(action.partition, 7), round(float(action.two_point[0, 0]), 6)
    (0.9998521, 1.299231)
    """

    K: Floats
    coupling: Floats

    def __post_init__(self) -> None:
        """Check shapes and symmetry."""
        K = checked_covariance(self.K)
        put(self, K=K)
        put(self, coupling=_symmetric(self.coupling, 4, len(K)))

    @classmethod
    def from_correlators(cls, two_point: Any, connected: Any) -> QuarticAction:
        """The action with these correlators: V^abcd = -K^a1 K^b2 K^c3 K^d4 E[z_1 z_2 z_3 z_4]_c, and K to match."""
        G = checked_covariance(two_point)
        lowered = _symmetric(connected, 4, len(G))
        # The two-point function is K + E[..]_c K^34 / 2, and K^34 = G^34 at this order.
        K = G - 0.5 * np.einsum("abcd,cd->ab", lowered, inverse(G))
        return cls(K, -_transformed(lowered, inverse(G)))

    @cached_property
    def lowered(self) -> Float[Floats, "a a a a"]:
        """V^1234 K_a1 K_b2 K_c3 K_d4."""
        return _transformed(self.coupling, self.K)

    @property
    def partition(self) -> float:
        """Z / sqrt(det 2 pi K) = 1 - V^1234 K_12 K_34 / 8, PDLT eq. (1.73)."""
        return 1.0 - float(np.einsum("abcd,ab,cd->", self.coupling, self.K, self.K)) / 8

    @cached_property
    def two_point(self) -> Float[Floats, "a a"]:
        """E[z_a z_b] = K_ab - V^1234 K_a1 K_b2 K_34 / 2, PDLT eq. (1.74)."""
        return np.asarray(self.K - 0.5 * np.einsum("abcd,ia,jb,cd->ij", self.coupling, self.K, self.K, self.K))

    @property
    def connected(self) -> Float[Floats, "a a a a"]:
        """E[z_a z_b z_c z_d]_c = -V^1234 K_a1 K_b2 K_c3 K_d4, PDLT eq. (1.78)."""
        return -self.lowered

    @property
    def four_point(self) -> Float[Floats, "a a a a"]:
        """E[z_a z_b z_c z_d], PDLT eq. (1.77), all to first order."""
        K, shift = self.K, self.two_point - self.K
        total = self.connected.copy()
        for left, right in (("ab", "cd"), ("ac", "bd"), ("ad", "bc")):
            for one, two in ((K, K), (K, shift), (shift, K)):
                total += np.einsum(f"{left},{right}->abcd", one, two)
        return total

    def __call__(self, z: Any) -> Floats:
        """S(z) of vectors, the last axis of z."""
        z = np.asarray(z, dtype=np.float64)
        quadratic = np.einsum("ab,...a,...b->...", inverse(self.K), z, z)
        return np.asarray(quadratic / 2 + np.einsum("abcd,...a,...b,...c,...d->...", self.coupling, z, z, z, z) / 24)


@dataclass(frozen=True, eq=False)
class NearlyGaussian:
    """S = K^ab z_a z_b / 2 + sum_m s^(a_1..a_2m) z .. z / (2m)!, PDLT eq. (1.81), to first order in the couplings.

    `couplings` holds symmetric tensors with raised indices by their order 4, 6, ...
    """

    K: Floats
    couplings: Mapping[int, Floats]

    def __post_init__(self) -> None:
        """Check shapes and symmetry."""
        K = checked_covariance(self.K)
        for order in self.couplings:
            if check.integer("order of a coupling", order, least=4) % 2:
                raise InvalidInput(f"the coupling of order {order} is odd; only even ones are treated")
        kept = {order: _symmetric(s, order, len(K)) for order, s in sorted(self.couplings.items())}
        put(self, K=K)
        put(self, couplings=MappingProxyType(kept))

    @property
    def partition(self) -> float:
        """Z / sqrt(det 2 pi K) = 1 - sum s <z .. z> / (2m)!."""
        return 1.0 - sum(
            float(np.sum(s * moment_tensor(self.K, order))) / math.factorial(order)
            for order, s in self.couplings.items()
        )

    def moments(self, order: int) -> Floats:
        """E[z .. z] = <z .. z> - sum s (<z .. z  z .. z> - <z .. z> <z .. z>) / (2m)!, by Wick's theorem."""
        free = moment_tensor(self.K, order)
        total = free.copy()
        for degree, s in self.couplings.items():
            both = moment_tensor(self.K, degree + order)
            mixed = np.tensordot(s, both, axes=degree) - np.sum(s * moment_tensor(self.K, degree)) * free
            total -= mixed / math.factorial(degree)
        return total

    @property
    def strengths(self) -> dict[int, float]:
        """Largest |s| of every order for variables of unit variance; nearly Gaussian if << 1, PDLT eq. (1.82)."""
        units = root(self.K).T
        return {order: float(np.abs(_transformed(s, units)).max()) for order, s in self.couplings.items()}


@dataclass(frozen=True, eq=False)
class NeuronAction:
    """The quartic action of `neurons` = n neurons of one layer, PDLT eqs. (4.44), (4.80), to first order in v:

        S = g^ab sum_i z_ia z_ib / 2 - v^(ab)(cd) sum_ij z_ia z_ib z_jc z_jd / 8

    with g_ab (lower indices) in `g` and v^(ab)(cd) (upper indices) in `v`, which has the symmetries a <-> b, c <-> d
    and (ab) <-> (cd).
    """

    g: Floats
    v: Floats
    neurons: int

    def __post_init__(self) -> None:
        """Check shapes and symmetries."""
        g = checked_covariance(self.g)
        v = check.array("v", self.v, ndim=4)
        if v.shape != (len(g),) * 4:
            raise InvalidInput(f"v has shape {v.shape}; with g of {len(g)} samples it must be {(len(g),) * 4}")
        for axes in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)):
            if np.abs(v - v.transpose(axes)).max() > ROUNDING * np.abs(v).max():
                raise InvalidInput("v^(ab)(cd) must not change under a <-> b, c <-> d and (ab) <-> (cd)")
        put(self, g=g)
        put(self, v=v)
        check.integer("neurons", self.neurons, least=1)

    @cached_property
    def lowered(self) -> Float[Floats, "p p p p"]:
        """v_(ab)(cd): Cov(z_ia z_ib, z_jc z_jd) of two different neurons."""
        return _transformed(self.v, self.g)

    @property
    def two_point(self) -> Float[Floats, "p p"]:
        """E[z_ia z_ib] = g_ab + v^(12)(34) (n g_a1 g_b2 g_34 + 2 g_a1 g_b3 g_24) / 2, PDLT eq. (4.47)."""
        g, v = self.g, self.v
        alone = np.einsum("ijkl,ai,bj,kl->ab", v, g, g, g, optimize=True)
        exchanged = np.einsum("ijkl,ai,bk,jl->ab", v, g, g, g, optimize=True)
        return np.asarray(g + 0.5 * (self.neurons * alone + 2 * exchanged))

    def connected(self, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[z_1 z_2 z_3 z_4]_c of these four neurons for all samples, PDLT eq. (4.48)."""
        return spread_over_neurons(self.lowered, neurons)

    def mean(self, F: Observable, *, nodes: int = 48) -> float:
        """E[F(z_i)] of one neuron's observable, PDLT eq. (4.61) for F in the place of s_a s_b:

            <F> + v^(12)(34) {<F (z1 z2 - g12)(z3 z4 - g34)> + 2n <F (z1 z2 - g12)> g34 - 2 <F> g13 g24} / 8

        Gaussian averages by `nodes` Gauss-Hermite nodes for every sample, which suits smooth F.
        """
        values, quadratic, weights = self._nodes(F, nodes)
        weighted, v = weights * values, self.v
        bent = np.einsum("x,xij,xkl,ijkl->", weighted, quadratic, quadratic, v, optimize=True)
        slope = np.einsum("x,xij,kl,ijkl->", weighted, quadratic, self.g, v, optimize=True)
        loop = np.einsum("ik,jl,ijkl->", self.g, self.g, v, optimize=True)
        free = float(weighted.sum())
        return free + float(bent + 2 * self.neurons * slope - 2 * free * loop) / 8

    def covariance(self, F: Observable, H: Observable, *, nodes: int = 48) -> float:
        """Cov[F(z_i), H(z_j)] = v^(12)(34) <(z1 z2 - g12) F> <(z3 z4 - g34) H> / 4, i != j, PDLT eq. (4.64).

        With products of two activations this is PDLT eq. (4.63).
        """
        sides = []
        for observable in (F, H):
            values, quadratic, weights = self._nodes(observable, nodes)
            sides.append(np.einsum("x,xij->ij", weights * values, quadratic))
        return float(np.einsum("ijkl,ij,kl->", self.v, *sides)) / 4

    def as_quartic(self) -> QuarticAction:
        """The same as an action of n * samples variables, neuron by neuron."""
        n, p = self.neurons, len(self.g)
        total = np.zeros((n, p) * 4)
        for i in range(n):
            for j in range(n):
                total[i, :, i, :, j, :, j, :] -= self.v
                total[i, :, j, :, i, :, j, :] -= self.v.transpose(0, 2, 1, 3)
                total[i, :, j, :, j, :, i, :] -= self.v.transpose(0, 2, 3, 1)
        return QuarticAction(np.asarray(np.kron(np.eye(n), self.g), dtype=np.float64), total.reshape((n * p,) * 4))

    def _nodes(self, F: Observable, nodes: int) -> tuple[Floats, Floats, Floats]:
        """F, z z^T - g and weights at all nodes."""
        samples = len(self.g)
        if check.integer("nodes", nodes, least=2) ** samples > _MOST_NODES:
            raise InvalidInput(
                f"{nodes} nodes for {samples} samples are too many; restrict the action to fewer samples"
            )
        points, weights = np.polynomial.hermite_e.hermegauss(nodes)
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * samples, indexing="ij")], axis=1)
        product = np.ones(1)
        for _ in range(samples):
            product = np.multiply.outer(product, weights / weights.sum()).ravel()
        z = grid @ root(self.g).T
        return np.asarray(F(z), dtype=np.float64), z[:, :, None] * z[:, None, :] - self.g, product


def spread_over_neurons(
    pairs: Float[Floats, "p p p p"], neurons: tuple[int, int, int, int]
) -> Float[Floats, "p p p p"]:
    """d12 d34 X_(12)(34) + d13 d24 X_(13)(24) + d14 d23 X_(14)(23), as in PDLT eqs. (4.48) and (4.77)."""
    i, j, k, m = (check.integer("neuron", neuron) for neuron in neurons)
    total = np.zeros_like(pairs)
    if i == j and k == m:
        total += pairs
    if i == k and j == m:
        total += pairs.transpose(0, 2, 1, 3)
    if i == m and j == k:
        total += pairs.transpose(0, 2, 3, 1)
    return total


def _transformed(tensor: Floats, matrix: Floats) -> Floats:
    """Every index of the tensor contracted with the second index of the matrix."""
    for _ in range(tensor.ndim):
        tensor = np.tensordot(tensor, matrix, axes=(0, 1))
    return tensor


def _symmetric(tensor: Any, order: int, size: int) -> Floats:
    tensor = check.array("coupling", tensor, ndim=order)
    if tensor.shape != (size,) * order:
        raise InvalidInput(f"the coupling has shape {tensor.shape}; {size} variables need {(size,) * order}")
    mean = np.mean([tensor.transpose(axes) for axes in permutations(range(order))], axis=0)
    if np.abs(tensor - mean).max() > ROUNDING * np.abs(tensor).max():
        raise InvalidInput("the coupling must be symmetric in all of its indices")
    return np.asarray(mean)
