"""How Gaussian averages of activations change with the covariance.

By Price's theorem derivatives in the covariance are averages of derivatives,

    d<F>/dK_12 = <d_1 d_2 F>,      d<F>/dK_11 = <d_1 d_1 F> / 2

so that one table of averages <s^(i)_1 s^(j)_2>, `average_derivatives`, holds all of them. Nothing in it is multiplied
by an inverse of K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import sparse

from ..activations import Activation
from ..activations.moments import determinant
from ..base.arrays import Booleans, Floats
from . import average, average_derivative, average_product, feature_kernel, slope_kernel
from .kinked import TOLERANCE, Entries, KinkedAverages, times
from .pairs import derivative_products
from .sample_pairs import Pairs

PARALLEL = 1e-13
"""Samples with a squared sine below this are the same sample up to a factor."""

Orders = tuple[int, int]
"""Of the derivatives of s at the two samples of a pair."""


def average_derivatives(
    activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, orders: Sequence[Orders]
) -> dict[Orders, Float[Floats, " q"]]:
    """<s^(i)_a s^(j)_b> of the pairs (a, b), a != b, for some orders (i, j); with kinks i + j may be 4 at most.

    Smooth activations have Hermite series at every sample, from which all pairs follow. With kinks, samples without
    variance have 0, and so have derivatives beyond the first of parallel samples, which may be infinite: those samples
    are parallel in every network, and `along` has the derivatives in their common direction. (a, a) has a meaning for
    neither.
    """
    if not activation.kinks:
        matrices = derivative_products(activation, np.diagonal(K), K - np.diag(np.diagonal(K)), orders)
        return {order: matrix[pairs.rows, pairs.columns] for order, matrix in zip(orders, matrices, strict=True)}
    found = {order: np.zeros(len(pairs)) for order in orders}
    apart, parallel = _directions(K, pairs)
    for chosen, most in ((apart, 4), (parallel, 1)):
        averages = KinkedAverages(activation, _some(K, pairs, chosen))
        for i, j in orders:
            if chosen.any() and max(i, j) <= most:
                found[i, j][chosen] = averages(i, j)
    return found


def _directions(K: Floats, pairs: Pairs) -> tuple[Booleans, Booleans]:
    """Pairs of two different samples that both have a variance: in two directions, and in one."""
    k11, k12, k22 = pairs.entries(K)
    alive = (k11 > 0) & (k22 > 0) & ~pairs.equal
    line = determinant(k11, k12, k22) <= PARALLEL * k11 * k22
    return alive & ~line, alive & line


def _some(K: Floats, pairs: Pairs, chosen: Booleans) -> Entries:
    k11, k12, k22 = pairs.entries(K)
    return k11[chosen], k12[chosen], k22[chosen]


def along(activation: Activation, K: Floats, pairs: Pairs, order: int, degree: int) -> Float[Floats, " q"]:
    """Of parallel samples <d^m F / dz_1^m>, F = s^(p)_1 s^(p)_2, p = `order`, m = `degree`, when z_2 / z_1 stays fixed:

    <He_m(z_1 / sqrt K_11) F> / K_11^(m/2), which needs no derivatives of F. Half of that for m = 2 is d<F>/dK_11. All
    other pairs have 0, and so have all of a smooth activation, for which the table holds everything.
    """
    found, (_, parallel) = np.zeros(len(pairs)), _directions(K, pairs)
    if activation.kinks and parallel.any():
        found[parallel] = _along(activation, order, degree, _some(K, pairs, parallel))
    return found


def _along(activation: Activation, order: int, degree: int, entries: Entries) -> Floats:
    k11, q, f = entries[0], activation.homogeneity, activation.derivative(order)

    def moment(power: int) -> Floats:
        return average_product(times(f, power), f, *entries, kinks=activation.kinks, tolerance=TOLERANCE)

    if q is not None and degree % 2 == 0:  # <F> goes like K_11^(q - p)
        return math.prod(2 * (q - order - k) for k in range(degree // 2)) * moment(0) / k11 ** (degree // 2)
    polynomial = enumerate(np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0]))
    return np.asarray(sum(c * moment(n) / k11 ** ((degree + n) / 2) for n, c in polynomial if c))


@dataclass(frozen=True, eq=False)
class Slopes:
    """J_pq = d<f_a f_b>/dK_q of p = (a, b): only q = (a, a), (a, b), (b, b) count, so that a row has three entries."""

    pairs: Pairs
    first: Float[Floats, " q"]
    """<f''_1 f_2> / 2, 0 for (a, a)."""

    both: Float[Floats, " q"]
    """<f'_1 f'_2>; for (a, a) d<f^2>/dK."""

    second: Float[Floats, " q"]
    """<f_1 f''_2> / 2, 0 for (a, a)."""

    @classmethod
    def of(cls, activation: Activation, K: Floats, pairs: Pairs, table: dict[Orders, Floats], order: int = 0) -> Slopes:
        """For f = s^(order), from the averages of `slope_orders(order)`."""
        first, both, second = (table[orders].copy() for orders in slope_orders(order))
        onwards = along(activation, K, pairs, order, 2)
        if activation.kinks:
            both[_directions(K, pairs)[1]] = 0.0
        first, second, own = (first + onwards) / 2, second / 2, pairs.diagonal
        first[own], both[own], second[own] = 0.0, _squares(activation, order, np.diagonal(K)), 0.0
        return cls(pairs, first, both, second)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """J."""
        count = len(self.pairs)
        first, second = (self.pairs.diagonal[end] for end in (self.pairs.rows, self.pairs.columns))
        values = np.stack([self.first, self.both, self.second], axis=1).ravel()
        columns = np.stack([first, np.arange(count), second], axis=1).ravel()
        return sparse.csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, count))

    def __matmul__(self, kernels: Float[Floats, "*r q c"]) -> Float[Floats, "*r q c"]:
        """J X."""
        total = np.empty(kernels.shape)
        for place in np.ndindex(kernels.shape[:-2]):
            total[place] = self.matrix @ kernels[place]
        return total

    def carried(self, covariance: Float[Floats, "*r q q"]) -> Float[Floats, "*r q q"]:
        """J V J^T."""
        half = np.swapaxes(self @ covariance, -1, -2)
        return self @ np.ascontiguousarray(half)


def slope_orders(order: int) -> tuple[Orders, Orders, Orders]:
    """Which averages the derivatives of <s^(p)_1 s^(p)_2> with K_11, K_12, K_22 are, p = `order`."""
    return (order + 2, order), (order + 1, order + 1), (order, order + 2)


def _squares(activation: Activation, order: int, variances: Float[Floats, " p"]) -> Float[Floats, " p"]:
    """d<f^2>/dK of f = s^(order), 0 for a sample without variance."""
    found, alive = np.zeros(len(variances)), variances > 0
    K, q, f, kinks = variances[alive], activation.homogeneity, activation.derivative(order), activation.kinks
    if q is not None:
        found[alive] = (q - order) * (feature_kernel, slope_kernel)[order](activation, K, K, K) / K if q != order else 0
    elif kinks:
        found[alive] = average_derivative(lambda z: f(z) ** 2, K, 1, kinks=kinks, tolerance=TOLERANCE)
    else:
        slope, bend = activation.derivative(order + 1), activation.derivative(order + 2)
        found[alive] = average(lambda z: slope(z) ** 2 + f(z) * bend(z), K, kinks=(), tolerance=TOLERANCE)
    return found


def feature_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi_a phi_b> / dK_cd over pairs (a, b), (c, d): M / C_W of PDLT eq. (4.119) in its derivative form."""
    return _jacobian(activation, K, pairs, 0)


def slope_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi'_a phi'_b> / dK_cd."""
    return _jacobian(activation, K, pairs, 1)


def _jacobian(activation: Activation, K: Floats, pairs: Pairs, order: int) -> Floats:
    table = average_derivatives(activation, K, pairs, slope_orders(order))
    return np.asarray(Slopes.of(activation, K, pairs, table, order).matrix.toarray())
