"""Ratios of two ways to the same end, measured in interleaved pairs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from claims.floors import Floor, Verdict
from claims.intervals import Interval, median_interval

Cost = Callable[[], float]
"""Does the work once and returns what it cost, in seconds or another unit."""


@dataclass(frozen=True)
class Claim:
    """Two ways to the same end, both warmed up, if they are to be warm, by whoever makes the claim."""

    ours: Cost
    theirs: Cost
    unit: str = "s"
    notes: list[str] = field(default_factory=list)
    """What else the reader of the table should know."""


@dataclass(frozen=True)
class Measured:
    """What came out."""

    floor: Floor
    ours: float
    theirs: float
    ratio: float
    interval: Interval
    unit: str
    notes: list[str]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds."""
        return self.floor.verdict(self.interval)


def measure(claim: Claim, floor: Floor) -> Measured:
    """Run pairs in the order A B, B A, A B, ..., so that a machine that slowly changes hits both alike.

    The ratio is the median over pairs of the ratios within pairs.
    """
    pairs = [_pair(claim, ours_first=number % 2 == 0) for number in range(floor.pairs)]
    ratios = [floor.ratio(ours, theirs) for ours, theirs in pairs]
    ours, theirs = (statistics.median(costs) for costs in zip(*pairs, strict=True))
    interval = median_interval(ratios)
    return Measured(floor, ours, theirs, statistics.median(ratios), interval, claim.unit, claim.notes)


def _pair(claim: Claim, *, ours_first: bool) -> tuple[float, float]:
    if ours_first:
        ours = claim.ours()
        return ours, claim.theirs()
    theirs = claim.theirs()
    return claim.ours(), theirs


def seconds(work: Callable[[], Any]) -> Cost:
    """The cost of some work, by the clock."""

    def cost() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return cost
