"""How products of activations answer to a shift of the preactivations: averages that vanish unless parity is broken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian.pair_table import along, average_derivatives
from ..gaussian.sample_pairs import Pairs
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
    table = average_derivatives(activation, K, pairs, ((1, 0), (0, 1), (3, 0), (2, 1), (1, 2), (0, 3)))
    one, two, first, left, right, second = table.values()
    slopes = np.stack([np.stack([first / 2, left, right / 2]), np.stack([left / 2, right, second / 2])])
    slopes[0, 0] += along(activation, K, pairs, 0, 3) / 2
    variances, single, own = np.diagonal(K), SingleInput(activation), pairs.diagonal
    alive = variances > 0
    one[own], two[own], slopes[:, :, own] = 0.0, 0.0, 0.0
    one[own[alive]] = tilt(single, variances[alive])
    slopes[0, 0, own[alive]] = tilt_slope(single, variances[alive])
    return Tilts(pairs, one, two, slopes)
