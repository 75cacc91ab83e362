"""First and second derivatives of the kernel recursion: how fluctuations of a metric reach the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian.jacobians import Slopes, slope_orders
from ..gaussian.pair_table import along, average_derivatives
from ..gaussian.sample_pairs import Pairs
from .single_input import SingleInput

_SECOND = ((4, 0), (3, 1), (2, 2), (1, 3), (0, 4))


@dataclass(frozen=True, eq=False)
class Curvature:
    """d^2<f_a f_b>/dK_q dK_r of p = (a, b), f = s or s': q and r are (a, a), (a, b) or (b, b), six numbers for each p.

    `values` holds them for (q, r) = (aa, aa), (aa, ab), (aa, bb), (ab, ab), (ab, bb), (bb, bb); of p = (a, a) only the
    first is not 0.
    """

    pairs: Pairs
    values: Float[Floats, "6 q"]

    def contracted(self, covariance: Float[Floats, "*r q q"]) -> Float[Floats, "*r q"]:
        """sum_qr (d^2<f_a f_b>/dK_q dK_r) V_qr of every pair."""
        own = np.arange(len(self.pairs))
        first, second = (self.pairs.diagonal[end] for end in (self.pairs.rows, self.pairs.columns))
        total = np.zeros(covariance.shape[:-1])
        places = ((first, first), (first, own), (first, second), (own, own), (own, second), (second, second))
        for value, (q, r), count in zip(self.values, places, (1, 2, 2, 1, 2, 1), strict=True):
            total += count * value * covariance[..., q, r]
        return total


def derivatives(
    activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, order: int = 0
) -> tuple[Slopes, Curvature]:
    """Price's theorem, once and twice, for f = s, or f = s' if `order` is 1:

        d/dK12 = <f'_1 f'_2>                  d/dK11 = <f''_1 f_2> / 2
        d2/dK12^2 = <f''_1 f''_2>             d2/dK11 dK12 = <f'''_1 f'_2> / 2
        d2/dK11 dK22 = <f''_1 f''_2> / 4      d2/dK11^2 = <f''''_1 f_2> / 4

    (the derivative forms of PDLT eqs. (4.119) and (4.115)), in one table of averages.
    """
    second = tuple((i + order, j + order) for i, j in _SECOND)
    table = average_derivatives(activation, K, pairs, (*slope_orders(order), *second))
    outer, left, cross, right, other = (table[orders] for orders in second)
    bends = np.stack([outer / 4, left / 2, cross / 4, cross, right / 2, other / 4])
    bends[0] += along(activation, K, pairs, order, 4) / 4
    variances, single = np.diagonal(K), SingleInput(activation)
    alive = variances > 0  # a sample without variance has none to lose
    bends[:, pairs.diagonal] = 0.0
    own = (single.square_curvature, single.slope_square_curvature)[order]
    bends[0, pairs.diagonal[alive]] = own(variances[alive])
    return Slopes.of(activation, K, pairs, table, order), Curvature(pairs, bends)
