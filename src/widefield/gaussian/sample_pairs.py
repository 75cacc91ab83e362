"""Pairs of samples: symmetric kernels are vectors over unordered pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ..base.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs p = (`rows[p]`, `columns[p]`), rows <= columns unless they are `ordered`; every (a, a) is among them.

    >>> pairs = Pairs.within(2)
    >>> pairs.rows, pairs.columns
    (array([0, 0, 1]), array([0, 1, 1]))
    """

    rows: Int[Integers, " q"]
    columns: Int[Integers, " q"]

    @classmethod
    def within(cls, first: int, others: int = 0) -> Pairs:
        """Pairs among the `first` samples and between these and the `others` after them, and every (a, a)."""
        rows, columns = np.triu_indices(first + others)
        kept = (rows < first) | (rows == columns)
        return cls(rows[kept], columns[kept])

    @classmethod
    def ordered(cls, samples: int) -> Pairs:
        """All (a, b), in both orders."""
        rows, columns = (places.ravel() for places in np.indices((samples, samples)))
        return cls(rows, columns)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Which pairs are (a, a)."""
        return np.equal(self.rows, self.columns)

    @property
    def diagonal(self) -> Int[Integers, " p"]:
        """Number of the pair (a, a), by a."""
        return np.flatnonzero(self.equal)

    def of(self, kernel: Float[Floats, "*l p p"]) -> Float[Floats, "*l q"]:
        """Entries of symmetric matrices."""
        return np.asarray(kernel[..., self.rows, self.columns])

    def entries(self, kernel: Float[Floats, "*l p p"]) -> tuple[Floats, Floats, Floats]:
        """k11, k12, k22 of every pair."""
        variance = np.einsum("...aa->...a", kernel)
        return variance[..., self.rows], self.of(kernel), variance[..., self.columns]

    def matrix(self, values: Float[Floats, "*l q"]) -> Float[Floats, "*l p p"]:
        """Symmetric matrices with these entries, 0 where there is no pair."""
        samples = len(self.diagonal)
        kernel = np.zeros((*values.shape[:-1], samples, samples))
        kernel[..., self.rows, self.columns] = values
        kernel[..., self.columns, self.rows] = values
        return kernel

    def tensor(self, values: Float[Floats, "*l q q"]) -> Float[Floats, "*l p p p p"]:
        """Matrices between pairs (a, b) and (c, d) as tensors abcd; all pairs must be there."""
        number = self.matrix(np.arange(len(self), dtype=np.float64)).astype(np.intp)
        return np.asarray(values[..., number[:, :, None, None], number[None, None]])
