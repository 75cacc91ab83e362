"""An interval of the median that assumes nothing about how times are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.95
"""Coverage that an interval should have at least, if there are enough pairs (6)."""


class Interval(NamedTuple):
    """Covers the true median with the stated probability."""

    low: float
    high: float
    coverage: float


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The tightest pair of order statistics x_(k), x_(n+1-k) that covers the median with probability `level`.

    Each of n independent values lies below the median with probability 1/2, so the pair covers it with probability
    1 - 2 P(Binomial(n, 1/2) < k). With too few values it is the whole range, and `coverage` says how little that is.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 9.0])
    Interval(low=1.0, high=9.0, coverage=0.96875)
    """
    ordered, count = sorted(values), len(values)
    chosen = next((k for k in range((count + 1) // 2, 1, -1) if coverage(count, k) >= level), 1)
    return Interval(ordered[chosen - 1], ordered[count - chosen], coverage(count, chosen))


def coverage(count: int, k: int) -> float:
    """Probability that the median lies between the k-th smallest and the k-th largest of `count` values."""
    return 1.0 - 2.0 * sum(math.comb(count, j) for j in range(k)) / math.pow(2.0, count)
