"""Means over independent repetitions, their errors, and whether two numbers agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_and_error(values: NDArray[Any], axis: int = 0, alone: float = math.nan) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean over independent repetitions along `axis`, and its standard error, the deviation / sqrt(count).

    A single one says nothing of its error: `alone` is what takes its place, 0 for numbers without scatter.

    >>> mean_and_error(np.array([1.0, 2.0, 3.0, 6.0]))
    (np.float64(3.0), np.float64(1.0801234497346435))
    """
    mean, count = values.mean(axis=axis), values.shape[axis]
    if count == 1:
        return mean, np.full_like(mean, alone)
    return mean, values.std(axis=axis, ddof=1) / math.sqrt(count)


@dataclass(frozen=True)
class Difference:
    """How far two answers are apart in what is called `name`, and how far they may be."""

    name: str
    difference: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is allowed; one that is not a number never is."""
        return self.difference <= self.allowed

    @property
    def excess(self) -> float:
        """The difference in units of what is allowed, infinite if nothing is."""
        if self.allowed > 0:
            return self.difference / self.allowed
        return 0.0 if self.difference == 0 else math.inf
