"""First and second derivatives of the kernel recursion: how fluctuations of a metric reach the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian.jacobians import Slopes, along, average_derivatives, slope_orders
from ..gaussian.sample_pairs import Pairs
from .single_input import SingleInput

_SECOND = ((4, 0), (3, 1), (2, 2), (1, 3), (0, 4))


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

    (the derivative forms of PDLT eqs. (4.119) and (4.115)), in one table of averages.
    """
    table = average_derivatives(activation, K, pairs, (*slope_orders(0), *_SECOND))
    outer, left, cross, right, other = (table[orders] for orders in _SECOND)
    bends = np.stack([outer / 4, left / 2, cross / 4, cross, right / 2, other / 4])
    bends[0] += along(activation, K, pairs, 0, 4) / 4
    variances = np.diagonal(K)
    alive = variances > 0  # a sample without variance has none to lose
    bends[:, pairs.diagonal] = 0.0
    bends[0, pairs.diagonal[alive]] = SingleInput(activation).square_curvature(variances[alive])
    return Slopes.of(activation, K, pairs, table), Curvature(pairs, bends)
