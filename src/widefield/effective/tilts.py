"""How products of activations answer to a shift of the preactivations: averages that vanish unless parity is broken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..activations.moments import determinant
from ..base.arrays import Floats
from ..gaussian import average_product
from ..gaussian.jacobians import PARALLEL, TOLERANCE, density, given
from ..gaussian.nested import Function
from ..gaussian.sample_pairs import Pairs
from .curvature import off_diagonal
from .residual import tilt, tilt_slope
from .single_input import SingleInput


@dataclass(frozen=True, eq=False)
class Tilts:
    """D_pc = <d(s_a s_b)/dz_c> of p = (a, b), where c is a or b, and dD_pc/dK_q, where q is (a, a), (a, b) or (b, b).

    Nothing is divided by a determinant, so that inputs may be parallel. Those are parallel in every network, and
    derivatives are taken along their common direction alone.
    """

    pairs: Pairs
    first: Float[Floats, " q"]
    """<s'_1 s_2>; for (a, a) <2 s s'>."""

    second: Float[Floats, " q"]
    """<s_1 s'_2>, 0 for (a, a)."""

    slopes: Float[Floats, "2 3 q"]
    """Derivatives of `first` and `second` with K_11, K_12, K_22; for (a, a) only the first is not 0."""

    def __matmul__(self, vectors: Float[Floats, "p c"]) -> Float[Floats, "q c"]:
        """D x."""
        rows, columns = self.pairs.rows, self.pairs.columns
        return np.asarray(self.first[:, None] * vectors[rows] + self.second[:, None] * vectors[columns])

    def contracted(self, skew: Float[Floats, "q p"]) -> Float[Floats, " q"]:
        """sum_qc (dD_pc/dK_q) X_qc of every pair p."""
        ends, own = (self.pairs.rows, self.pairs.columns), np.arange(len(self.pairs))
        places = (self.pairs.diagonal[ends[0]], own, self.pairs.diagonal[ends[1]])
        total = np.zeros(len(self.pairs))
        for slopes, end in zip(self.slopes, ends, strict=True):
            for slope, place in zip(slopes, places, strict=True):
                total += slope * skew[place, end]
        return total


def tilts(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Tilts:
    """By Price's theorem d<s'_1 s_2>/d(K11, K12, K22) = <s'''_1 s_2>/2, <s''_1 s'_2>, <s'_1 s''_2>/2."""
    means, slopes = (_bent if activation.kinks else _smooth)(activation, K, pairs)
    variances, single = np.diagonal(K), SingleInput(activation)
    alive = variances > 0
    means[:, pairs.diagonal], slopes[:, :, pairs.diagonal] = 0.0, 0.0
    means[0, pairs.diagonal[alive]] = tilt(single, variances[alive])
    slopes[0, 0, pairs.diagonal[alive]] = tilt_slope(single, variances[alive])
    return Tilts(pairs, means[0], means[1], slopes)


def _smooth(activation: Activation, K: Floats, pairs: Pairs) -> tuple[Float[Floats, "2 q"], Float[Floats, "2 3 q"]]:
    """From the Hermite series of s and its derivatives at every sample."""
    a, b = pairs.rows, pairs.columns
    once, mixed, thrice = off_diagonal(activation, K, ((1, 0), (2, 1), (3, 0)))
    return np.stack([once[a, b], once[b, a]]), _arranged(mixed[a, b], mixed[b, a], thrice[a, b], thrice[b, a])


def _bent(activation: Activation, K: Floats, pairs: Pairs) -> tuple[Float[Floats, "2 q"], Float[Floats, "2 3 q"]]:
    """With the delta functions of s''."""
    k11, k12, k22 = pairs.entries(K)
    s, slope = activation.derivative(0), activation.derivative(1)
    means, slopes = np.zeros((2, len(pairs))), np.zeros((2, 3, len(pairs)))
    alive = (k11 > 0) & (k22 > 0) & ~pairs.equal
    parallel = determinant(k11, k12, k22) <= PARALLEL * k11 * k22
    (here,) = np.nonzero(alive)
    one, both, two = k11[here], k12[here], k22[here]
    means[:, here] = [_product(slope, s, entries, activation) for entries in ((one, both, two), (two, both, one))]
    (here,) = np.nonzero(alive & parallel)
    slopes[0, 0, here] = _along(activation, (k11[here], k12[here], k22[here]))
    (here,) = np.nonzero(alive & ~parallel)
    one, both, two = k11[here], k12[here], k22[here]
    left, right = (_distributions(activation, *entries) for entries in ((one, both, two), (two, both, one)))
    slopes[:, :, here] = _arranged(left[0], right[0], left[1], right[1])
    return means, slopes


def _arranged(left: Floats, right: Floats, first: Floats, second: Floats) -> Float[Floats, "2 3 q"]:
    """From <s''_1 s'_2>, <s'_1 s''_2>, <s'''_1 s_2> and <s_1 s'''_2>."""
    return np.stack([np.stack([first / 2, left, right / 2]), np.stack([left / 2, right, second / 2])])


def _distributions(activation: Activation, k11: Floats, k12: Floats, k22: Floats) -> tuple[Floats, Floats]:
    """<s''_1 s'_2>, and <s'''_1 s_2> by parts: K_11 <s'''_1 s_2> = <z_1 s''_1 s_2> - K_12 <s''_1 s'_2>."""
    s, slope, curvature = (activation.derivative(order) for order in range(3))
    mixed, raised = np.zeros((2, len(k11)))
    if activation.homogeneity != 1:  # else straight on both sides of the kink
        entries = (k11, k12, k22)
        mixed += _product(curvature, slope, entries, activation)
        raised += _product(lambda z: z * curvature(z), s, entries, activation)
    for place, jump in activation.jumps:
        weight = jump * density(place, k11)
        mixed += weight * given(slope, place, k11, k12, k22, activation)
        if place:
            raised += place * weight * given(s, place, k11, k12, k22, activation)
    return mixed, (raised - k12 * mixed) / k11


def _along(activation: Activation, entries: tuple[Floats, Floats, Floats]) -> Floats:
    """d<F'>/dK_11 of F = s_1 s_2 when z_2 / z_1 stays fixed: <F (z^3 / K - 3 z)> / 2 K^2."""
    s, k11 = activation.derivative(0), entries[0]
    cubic = _product(lambda z: z**3 * s(z), s, entries, activation)
    linear = _product(lambda z: z * s(z), s, entries, activation)
    return (cubic / k11 - 3 * linear) / (2 * k11**2)


def _product(f: Function, g: Function, entries: tuple[Floats, Floats, Floats], activation: Activation) -> Floats:
    return average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)
