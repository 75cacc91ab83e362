"""First and second derivatives of the kernel recursion: how fluctuations of a metric reach the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import sparse

from ..activations import Activation
from ..activations.moments import determinant
from ..base.arrays import Floats
from ..base.precision import double_precision
from ..gaussian import average_product, feature_kernel
from ..gaussian.jacobians import PARALLEL, TOLERANCE, density, feature_jacobian, given, slope_jacobian
from ..gaussian.pairs import products, profile
from ..gaussian.sample_pairs import Pairs
from .single_input import SingleInput


@dataclass(frozen=True, eq=False)
class Slopes:
    """J_pq = d<s_a s_b>/dK_q of p = (a, b): only q = (a, a), (a, b), (b, b) count, so that a row has three entries."""

    pairs: Pairs
    first: Float[Floats, " q"]
    """<s''_1 s_2> / 2, 0 for (a, a)."""

    both: Float[Floats, " q"]
    """<s'_1 s'_2>; for (a, a) d<s^2>/dK."""

    second: Float[Floats, " q"]
    """<s_1 s''_2> / 2, 0 for (a, a)."""

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


@dataclass(frozen=True, eq=False)
class Curvature:
    """d^2<s_a s_b>/dK_q dK_r of p = (a, b): q and r are (a, a), (a, b) or (b, b), six numbers for each p.

    `values` holds them for (q, r) = (aa, aa), (aa, ab), (aa, bb), (ab, ab), (ab, bb), (bb, bb); of p = (a, a) only the
    first is not 0.
    """

    pairs: Pairs
    values: Float[Floats, "6 q"]

    def contracted(self, covariance: Float[Floats, "*r q q"]) -> Float[Floats, "*r q"]:
        """sum_qr (d^2<s_a s_b>/dK_q dK_r) V_qr of every pair."""
        own = np.arange(len(self.pairs))
        first, second = (self.pairs.diagonal[end] for end in (self.pairs.rows, self.pairs.columns))
        total = np.zeros(covariance.shape[:-1])
        places = ((first, first), (first, own), (first, second), (own, own), (own, second), (second, second))
        for value, (q, r), count in zip(self.values, places, (1, 2, 2, 1, 2, 1), strict=True):
            total += count * value * covariance[..., q, r]
        return total


def derivatives(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> tuple[Slopes, Curvature]:
    """Price's theorem, once and twice:

        d/dK12 = <s'_1 s'_2>                  d/dK11 = <s''_1 s_2> / 2
        d2/dK12^2 = <s''_1 s''_2>             d2/dK11 dK12 = <s'''_1 s'_2> / 2
        d2/dK11 dK22 = <s''_1 s''_2> / 4      d2/dK11^2 = <s''''_1 s_2> / 4

    (the derivative forms of PDLT eqs. (4.119) and (4.115)). Smooth activations have Hermite series at every sample,
    from which all pairs follow; with kinks, what has delta functions is integrated by parts.
    """
    slopes, bends = (_bent if activation.kinks else _smooth)(activation, K, pairs)
    variances = np.diagonal(K)
    alive = variances > 0  # a sample without variance has none to lose
    slopes[:, pairs.diagonal], bends[:, pairs.diagonal] = 0.0, 0.0
    here = pairs.diagonal[alive]
    slopes[1, here], bends[0, here] = _squares(activation, variances[alive])
    return Slopes(pairs, *slopes), Curvature(pairs, bends)


def _squares(activation: Activation, variances: Float[Floats, " p"]) -> tuple[Float[Floats, " p"], Float[Floats, " p"]]:
    """d<s^2>/dK and d^2<s^2>/dK^2."""
    single, q = SingleInput(activation), activation.homogeneity
    if q is None:
        return single.square_slope(variances), single.square_curvature(variances)
    slope = q * single.square(variances) / variances  # <s^2> goes like K^q
    return slope, (q - 1) * slope / variances


def off_diagonal(
    activation: Activation, K: Float[Floats, "p p"], orders: Sequence[tuple[int, int]]
) -> list[Float[Floats, "p p"]]:
    """<s^(i)_a s^(j)_b>, a != b, of a smooth activation for some orders (i, j), from Hermite series at every sample."""
    variances = np.diagonal(K).copy()
    s = [activation.derivative(order) for order in range(1 + max(map(max, orders)))]
    with double_precision():
        apart = jnp.asarray(K - np.diag(variances))  # the diagonal is not used, and would need many terms
        profiles = [profile(f, variances, ()) for f in s]
        return [np.asarray(products(s[i], s[j], profiles[i], apart, profiles[j], ())) for i, j in orders]


def _smooth(activation: Activation, K: Floats, pairs: Pairs) -> tuple[Float[Floats, "3 q"], Float[Floats, "6 q"]]:
    """From the Hermite series of s and its derivatives at every sample."""
    a, b = pairs.rows, pairs.columns
    even, bent, cross, uneven, outer = off_diagonal(activation, K, ((1, 1), (2, 0), (2, 2), (3, 1), (4, 0)))
    both, left, right = cross[a, b], uneven[a, b] / 2, uneven[b, a] / 2
    return (
        np.stack([bent[a, b] / 2, even[a, b], bent[b, a] / 2]),
        np.stack([outer[a, b] / 4, left, both / 4, both, right, outer[b, a] / 4]),
    )


def _bent(activation: Activation, K: Floats, pairs: Pairs) -> tuple[Float[Floats, "3 q"], Float[Floats, "6 q"]]:
    """From first derivatives of <s s> and <s' s'>, and <z_1^2 s''_1 s_2>."""
    k11, k12, k22 = pairs.entries(K)
    first, second, own = pairs.diagonal[pairs.rows], pairs.diagonal[pairs.columns], np.arange(len(pairs))
    J = feature_jacobian(activation, K, pairs)
    slopes, bends = np.stack([J[own, first], J[own, own], J[own, second]]), np.zeros((6, len(pairs)))
    alive = (k11 > 0) & (k22 > 0) & ~pairs.equal
    parallel = alive & (determinant(k11, k12, k22) <= PARALLEL * k11 * k22)
    (here,) = np.nonzero(parallel)
    bends[0, here] = _along(activation, k11[here], k12[here], k22[here])
    (here,) = np.nonzero(alive & ~parallel)
    if len(here):
        onwards = slope_jacobian(activation, K, pairs)
        cross, left, right = onwards[here, here], onwards[here, first[here]], onwards[here, second[here]]
        one, both, two = k11[here], k12[here], k22[here]
        bends[0, here] = _repeated(activation, (one, both, two), slopes[0, here], cross, left)
        bends[1:5, here] = left, cross / 4, cross, right
        bends[5, here] = _repeated(activation, (two, both, one), slopes[2, here], cross, right)
    return slopes, bends


def _repeated(
    activation: Activation, entries: tuple[Floats, Floats, Floats], feature: Floats, cross: Floats, left: Floats
) -> Floats:
    """<s''''_1 s_2> / 4 with <z_1 F> = K_11 <d_1 F> + K_12 <d_2 F>, which takes derivatives off s_1.

    `feature` is <s''_1 s_2>/2, `cross` <s''_1 s''_2> and `left` <s'''_1 s'_2>/2.
    """
    k11, k12, _ = entries
    bent = 2 * k11 * left + k12 * cross  # <z_1 s''_1 s'_2>
    third = (_square_bent(activation, *entries) - k12 * bent) / k11 - 2 * feature  # <z_1 s'''_1 s_2>
    return (third - 2 * k12 * left) / (4 * k11)


def _square_bent(activation: Activation, k11: Floats, k12: Floats, k22: Floats) -> Floats:
    """<z_1^2 s''_1 s_2> with the delta functions of s''."""
    s, second, q = activation.derivative(0), activation.derivative(2), activation.homogeneity
    if q is not None:  # z^2 s'' = q (q - 1) s
        return q * (q - 1) * feature_kernel(activation, k11, k12, k22)
    value = average_product(lambda z: z**2 * second(z), s, k11, k12, k22, kinks=activation.kinks, tolerance=TOLERANCE)
    for place, jump in activation.jumps:
        if place:
            value = value + place**2 * jump * density(place, k11) * given(s, place, k11, k12, k22, activation)
    return value


def _along(activation: Activation, k11: Floats, k12: Floats, k22: Floats) -> Floats:
    """d^2<s_1 s_2>/dK_11^2 when z_2 / z_1 stays fixed: <He_4(z_1 / sqrt K_11) s_1 s_2> / 4 K_11^2."""
    s, q = activation.derivative(0), activation.homogeneity
    if q is not None:
        return q * (q - 1) * feature_kernel(activation, k11, k12, k22) / k11**2

    def power(degree: int) -> Floats:
        kinks = activation.kinks
        return average_product(lambda z: z**degree * s(z), s, k11, k12, k22, kinks=kinks, tolerance=TOLERANCE)

    return (power(4) / k11**2 - 6 * power(2) / k11 + 3 * power(0)) / (4 * k11**2)
