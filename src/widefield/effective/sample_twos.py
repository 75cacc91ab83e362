"""Groups of two samples each: what is of order 1/n in means needs no more, and everything in it is integrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..base.arrays import Floats, Integers
from ..gaussian.jacobians import Slopes
from ..gaussian.sample_pairs import Pairs
from .curvature import Curvature

_PAIR = np.array([[0, 1], [1, 2]])
"""Number of the pair of two labels among (0, 0), (0, 1), (1, 1)."""


@dataclass(frozen=True, eq=False)
class BlockSlopes:
    """J of groups of two samples: three pairs each, and a matrix with the interface of `Slopes`."""

    matrix: Float[Floats, "g 3 3"]

    def __matmul__(self, kernels: Float[Floats, "g 3 c"]) -> Float[Floats, "g 3 c"]:
        """J X."""
        return np.asarray(self.matrix @ kernels)

    def carried(self, covariance: Float[Floats, "g 3 3"]) -> Float[Floats, "g 3 3"]:
        """J V J^T."""
        return np.asarray(self.matrix @ covariance @ np.swapaxes(self.matrix, -1, -2))


@dataclass(frozen=True, eq=False)
class BlockCurvature:
    """Second derivatives of groups of two samples, as `Curvature` has them: (a, a), (a, b), (b, b), six each."""

    values: Float[Floats, "6 3 g"]

    def contracted(self, covariance: Float[Floats, "g 3 3"]) -> Float[Floats, "g 3"]:
        """sum_qr H_pqr V_qr."""
        V = np.moveaxis(covariance, 0, -1)
        own = self.values[0, 0] * V[0, 0], self.values[0, 2] * V[2, 2]
        places = ((0, 0, 1), (0, 1, 2), (0, 2, 2), (1, 1, 1), (1, 2, 2), (2, 2, 1))
        between = sum(n * v * V[q, r] for v, (q, r, n) in zip(self.values[:, 1], places, strict=True))
        return np.stack([own[0], np.asarray(between), own[1]], axis=-1)


@dataclass(frozen=True, eq=False)
class Twos:
    """All groups of two different samples, or of one sample twice if there is no other."""

    a: Int[Integers, " g"]
    b: Int[Integers, " g"]
    numbers: Int[Integers, "g 3"]
    """Of the pairs (a, a), (a, b), (b, b) in the list of all pairs."""

    @classmethod
    def of(cls, pairs: Pairs) -> Twos:
        """From the list of all unordered pairs."""
        apart = np.flatnonzero(~pairs.equal) if len(pairs) > 1 else np.zeros(1, np.intp)
        a, b = pairs.rows[apart], pairs.columns[apart]
        return cls(a, b, np.stack([pairs.diagonal[a], apart, pairs.diagonal[b]], axis=1))

    def within(self, matrix: Float[Floats, "p p"]) -> Float[Floats, "g 2 2"]:
        """Entries of a matrix over samples."""
        labels = np.stack([self.a, self.b], axis=1)
        return np.asarray(matrix[labels[:, :, None], labels[:, None, :]])

    def over(self, pairs: Float[Floats, " q"]) -> Float[Floats, "g 3"]:
        """Entries of a vector over pairs."""
        return np.asarray(pairs[self.numbers])

    def gathered(self, values: Float[Floats, "g 3"], size: int) -> Float[Floats, " q"]:
        """Back to a vector over all pairs; (a, a) is the same in all groups."""
        found = np.zeros(size)
        found[self.numbers] = values
        return found

    def slopes(self, slopes: Slopes) -> BlockSlopes:
        """J of every group."""
        first, both, second = (self.over(part) for part in (slopes.first, slopes.both, slopes.second))
        matrix = np.zeros((len(self.a), 3, 3))
        matrix[:, 0, 0], matrix[:, 2, 2] = both[:, 0], both[:, 2]
        matrix[:, 1] = np.stack([first[:, 1], both[:, 1], second[:, 1]], axis=1)
        return BlockSlopes(matrix)

    def bends(self, curvature: Curvature) -> BlockCurvature:
        """Second derivatives of every group."""
        values = np.moveaxis(curvature.values[:, self.numbers], 1, 2)
        if self.a[0] == self.b[0]:  # one sample: (a, b) is (a, a)
            only = values[0, 0]
            values = np.zeros(values.shape)
            values[0, 0], values[3, 1], values[0, 2] = only, only, only
        return BlockCurvature(np.ascontiguousarray(values))


def with_labels(fours: Float[Floats, "g 3 3"]) -> Float[Floats, "g 2 2 2 2"]:
    """Matrices over pairs of two samples with sample indices, 1 2 3 4."""
    return np.asarray(fours[:, _PAIR][:, :, :, _PAIR])


def covariances(fours: Floats, left: Float[Floats, "g 3"], right: Float[Floats, "g 3"]) -> Float[Floats, "g 3 3"]:
    """Less the product of the means."""
    return np.asarray(fours - left[:, :, None] * right[:, None, :])
