"""Means over independent repetitions, their errors, and whether two numbers agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9
"""Numbers are the same if they differ by no more than this fraction of the larger."""


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


def quantile(level: float, repetitions: int | None = None) -> float:
    """Standard errors on either side that hold a share `level`: Student's t, or normal for errors that are known.

    >>> [round(quantile(0.95, n), 2) for n in (4, 8, None)]
    [3.18, 2.36, 1.96]
    """
    from scipy.special import ndtri, stdtrit

    upper = 0.5 + level / 2
    return float(ndtri(upper) if repetitions is None else stdtrit(repetitions - 1, upper))


TWO_SIGMA = 0.9544997361036416
"""What two standard errors hold if they are known."""


def widening(replicas: int) -> float:
    """By how much error bars from few replicas are widened, so that two of them hold 95% (Student's t).

    >>> [round(widening(n), 2) for n in (2, 4, 8, 32)]
    [6.98, 1.65, 1.21, 1.04]
    """
    return quantile(TWO_SIGMA, replicas) / 2 if replicas > 1 else 1.0


def standard_errors(value: Any, expected: Any, error: Any) -> NDArray[np.float64]:
    """(value - expected) / error: 0 where both agree but for rounding, infinite where they differ without any error.

    >>> standard_errors([1.2, 3.0, 3.0], [1.0, 3.0, 2.0], [0.1, 0.0, 0.0]).round(9)
    array([ 2.,  0., inf])
    """
    value, expected, error = (np.asarray(part, dtype=np.float64) for part in (value, expected, error))
    gap, safe = value - expected, np.where(error > 0, error, 1.0)
    same = np.abs(gap) <= ROUNDING * np.maximum(np.abs(value), np.abs(expected))
    return np.where(same, 0.0, np.where(error > 0, gap / safe, np.copysign(np.inf, gap)))


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


def covariance_and_error(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cov(x_p, y_q) over the rows of two arrays, and its standard error from the scatter of the products."""
    count = len(one)
    x, y = one - one.mean(axis=0), other - other.mean(axis=0)
    covariance = x.T @ y / (count - 1)
    square = np.square(x).T @ np.square(y) / count
    return covariance, np.sqrt(np.maximum(square - covariance**2, 0.0) / count)
