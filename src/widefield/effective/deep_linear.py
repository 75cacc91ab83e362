"""Deep linear networks: correlators of any order, exact at any width and depth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.renamed import renamed
from .cumulants import connected
from .wick import checked_covariance, double_factorial


def growth(half: int, width: int) -> float:
    """c_2m(n) = prod_{s=1}^{m-1} (1 + 2s/n), m = `half`: what a layer of n neurons does to G_2m, PDLT eq. (3.46).

    >>> growth(2, 4), growth(3, 4), growth(4, 4)
    (1.5, 3.0, 7.5)
    """
    n = check.integer("width", width, least=1)
    return math.prod(1 + 2 * s / n for s in range(1, check.integer("half", half)))


@renamed(ratio="aspect_ratio")
def double_scaling(half: int, aspect_ratio: float) -> float:
    """G_2m / G_2^m -> exp(m (m-1) r) for n, L -> inf at fixed r = L/n, m = `half`, PDLT eq. (3.55)."""
    m = check.integer("half", half)
    return math.exp(m * (m - 1) * check.number("aspect_ratio", aspect_ratio, least=0.0))


@renamed(ratio="aspect_ratio")
def double_scaling_connected(half: int, aspect_ratio: float) -> float:
    """The connected 2m-point correlator over G_2^m in the same limit, PDLT eqs. (3.56)-(3.57) for m = 2, 3."""
    return _cumulant(check.integer("half", half, least=1), lambda m: double_scaling(m, aspect_ratio))


@dataclass(frozen=True)
class DeepLinear:
    """z^l = W^l .. W^1 x without biases, Var W^l = C_W^l / n_{l-1}; layers are l = 1, 2, ..

    Args:
        widths: n_1, n_2, .. of the layers; layer l depends on those below it.
        weight_variances: C_W, one for all layers or one for each of the layers 1 .. len(widths) + 1.

    >>> network = DeepLinear((5, 8, 6))
    >>> round(network.ratio(2, 4), 12), round(network.ratio(3, 4), 12)
    (2.333333333333, 10.5)
    """

    widths: tuple[int, ...]
    weight_variances: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        """Check and normalise."""
        widths = tuple(check.integer("widths", n, least=1) for n in self.widths)
        given = self.weight_variances
        values = tuple(given) if isinstance(given, list | tuple) else (given,) * (len(widths) + 1)
        if len(values) != len(widths) + 1:
            raise InvalidInput(f"weight_variances has {len(values)} entries; {len(widths)} widths need one more")
        put(self, widths=widths)
        put(self, weight_variances=tuple(check.number("C_W", c, above=0.0) for c in values))

    def two_point(self, layer: int, input_kernel: ArrayLike = 1.0) -> Floats:
        """G^l = C_W^1 .. C_W^l G^0 for any inputs, G^0_ab = x_a . x_b / n_0, PDLT eqs. (3.9), (3.15)."""
        return np.asarray(math.prod(self._variances[: self._layer(layer)]) * check.array("input_kernel", input_kernel))

    def ratio(self, half: int, layer: int) -> float:
        """G_2m / G_2^m = prod_{l' < l} c_2m(n_l'), PDLT eq. (3.47); (3.25) and (3.43) for m = 2, 3."""
        return math.prod(growth(half, n) for n in self.widths[: self._layer(layer) - 1])

    def correlator(self, half: int, layer: int, input_norm: float = 1.0) -> float:
        """G_2m of one input with |x|^2 / n_0 = `input_norm`, PDLT eq. (3.47)."""
        return self.ratio(half, layer) * float(self.two_point(layer, input_norm)) ** half

    def moment(self, neurons: Sequence[int], layer: int, input_norm: float = 1.0) -> float:
        """E[z_i1 .. z_i2m] = (sum over pairings of prod delta) G_2m, PDLT eq. (3.44)."""
        pairings = math.prod(double_factorial(power) for power in Counter(neurons).values())
        return pairings * self.correlator(len(neurons) // 2, layer, input_norm) if pairings else 0.0

    def connected(self, half: int, layer: int, input_norm: float = 1.0) -> float:
        """What stands in the place of G_2m in the connected correlator, PDLT eqs. (3.29), (3.57).

        Neurons are Gaussian given the metric, so that this is the m-th cumulant of the metric.
        """
        return _cumulant(check.integer("half", half, least=1), lambda m: self.correlator(m, layer, input_norm))

    def mean_square(self, layer: int, input_norm: float = 1.0) -> tuple[float, float]:
        """Mean and variance of O = sum_j z_j^2 / n over the n = n_l neurons of a layer, PDLT eqs. (3.31)-(3.33)."""
        if self._layer(layer) > len(self.widths):
            raise InvalidInput(f"layer = {layer} has no width; there are {len(self.widths)}")
        two, four = (self.correlator(m, layer, input_norm) for m in (1, 2))
        return two, 2 / self.widths[layer - 1] * four + four - two**2

    def metric_products(self, layer: int, input_kernel: ArrayLike) -> Float[Floats, "p p p p"]:
        """A_abcd = E[Ghat_ab Ghat_cd] of several inputs, exact:

        A'_abcd = C_W^2 [A_abcd + (A_acbd + A_adbc) / n_l],  A^1 = G^1_ab G^1_cd.

        It is what PDLT eq. (3.24) becomes for more than one input.
        """
        first = self._variances[0] * checked_covariance(input_kernel)
        A = np.multiply.outer(first, first)
        for n, variance in zip(self.widths[: self._layer(layer) - 1], self._variances[1:], strict=False):
            A = variance**2 * (A + (A.transpose(0, 2, 1, 3) + A.transpose(0, 2, 3, 1)) / n)
        return A

    def metric_covariance(self, layer: int, input_kernel: ArrayLike) -> Float[Floats, "p p p p"]:
        """Cov(Ghat_ab, Ghat_cd) = V_(ab)(cd) / n_{l-1}, to all orders in 1/n."""
        G = self.two_point(layer, checked_covariance(input_kernel))
        return np.asarray(self.metric_products(layer, input_kernel) - np.multiply.outer(G, G))

    @renamed(draws="seeds")
    def sample(self, seeds: int, layer: int, *, input_norm: float = 1.0, seed: int) -> Float[Floats, " seeds"]:
        """Ghat^l of one input in random networks: G_2 times a product of independent chi^2_n / n."""
        generator = np.random.default_rng(check.integer("seed", seed))
        metric = np.full(check.integer("seeds", seeds, least=1), float(self.two_point(layer, input_norm)))
        for n in self.widths[: layer - 1]:
            metric *= generator.chisquare(n, size=seeds) / n
        return metric

    @property
    def _variances(self) -> tuple[float, ...]:
        assert isinstance(self.weight_variances, tuple)
        return self.weight_variances

    def _layer(self, layer: int) -> int:
        return check.integer("layer", layer, least=1, most=len(self.widths) + 1)


@renamed(draws="seeds", ratio="aspect_ratio")
def sample_double_scaling(seeds: int, aspect_ratio: float, *, seed: int) -> Float[Floats, " seeds"]:
    """Ghat / G_2 for n, L -> inf at r = L/n: its logarithm is N(-r, 2r), which has the moments (3.55)."""
    r = check.number("aspect_ratio", aspect_ratio, least=0.0)
    normal = np.random.default_rng(check.integer("seed", seed)).normal(size=check.integer("seeds", seeds, least=1))
    return np.asarray(np.exp(-r + math.sqrt(2 * r) * normal))


def _cumulant(order: int, moment: Callable[[int], float]) -> float:
    return connected(lambda block: moment(len(block)), (0,) * order)
