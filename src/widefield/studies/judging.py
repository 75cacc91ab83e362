"""Which of several choices is best, judged over random splits of the data, and where there is no difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.statistics import quantile

LEVEL = 0.95
"""Of intervals, shared by all pairs of choices of one question (Bonferroni)."""


@dataclass(frozen=True)
class Estimate:
    """A mean over splits, its standard error, and from how many splits it comes."""

    mean: float
    error: float
    splits: int

    def half(self, level: float = LEVEL) -> float:
        """Half of the interval that holds the truth with this probability (Student's t)."""
        return math.inf if self.splits < 2 else self.error * quantile(level, self.splits)

    def __str__(self) -> str:
        """Both to the same digits."""
        if not math.isfinite(self.error) or self.error <= 0:
            return f"{self.mean:.3g}"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        return f"{self.mean:.{min(digits, 6)}f} ± {self.error:.{min(digits, 6)}f}"


def over_splits(values: Float[Floats, " splits"], test_share: float) -> Estimate:
    """Mean over random splits, and its standard error sqrt[(1/R + q/(1-q)) s^2].

    s^2 is the variance over R splits and q the share of test samples. Splits overlap, so that s / sqrt(R) would be too
    small; the second term is the correction of Nadeau and Bengio, Machine Learning 52, 239 (2003).

    >>> str(over_splits(np.array([1.0, 2.0, 3.0]), 0.2))
    '2.00 ± 0.76'
    """
    count = len(values)
    if count < 2:
        return Estimate(float(np.mean(values)), math.nan, count)
    factor = 1 / count + test_share / (1 - test_share)
    return Estimate(float(np.mean(values)), math.sqrt(factor * float(np.var(values, ddof=1))), count)


@dataclass(frozen=True)
class Judgement:
    """Choices in order, what each leaves of the loss, the best of them, and those that are as good within error bars.

    Attributes:
        losses: of every choice.
        best: number of the lowest mean.
        alike: numbers of the choices whose difference from the best is within its error bar; the best among them.
        differences: from the best, of every choice, paired split by split.
        halves: half of the interval of every difference, at the level shared by all comparisons.
    """

    losses: tuple[Estimate, ...]
    best: int
    alike: tuple[int, ...]
    differences: tuple[Estimate, ...]
    halves: tuple[float, ...]

    @property
    def simplest(self) -> int:
        """The first of those that are as good as the best."""
        return self.alike[0]

    @property
    def undecided(self) -> bool:
        """Whether all choices are alike."""
        return len(self.alike) == len(self.losses)

    def same(self, choice: int, other: int) -> bool:
        """Whether two choices are alike, one of which is the best."""
        return {choice, other} <= set(self.alike)


def judged(losses: Float[Floats, "choices splits"], test_share: float) -> Judgement:
    """Judge losses of choices over the same splits. Choices that were not finite anywhere are never alike to others.

    The difference of every choice from the best is taken split by split, which removes what all choices share, and
    compared with its error over splits at the level 1 - 0.05 / pairs, pairs = choices (choices - 1) / 2: which one
    is best is known only afterwards, so that any pair may be the one that is compared.
    """
    means = np.where(np.isfinite(losses).all(axis=1), losses.mean(axis=1), np.inf)
    best = int(np.argmin(means))
    pairs = max(1, len(losses) * (len(losses) - 1) // 2)
    level = 1 - (1 - LEVEL) / pairs
    differences, halves, alike = [], [], []
    for number, row in enumerate(losses):
        found = over_splits(row - losses[best], test_share)
        half = 0.0 if number == best else found.half(level)
        differences.append(found)
        halves.append(half)
        if number == best or found.mean <= half:
            alike.append(number)
    return Judgement(
        tuple(over_splits(row, test_share) for row in losses), best, tuple(alike), tuple(differences), tuple(halves)
    )


def stopped(
    curves: Float[Floats, "splits steps"],
) -> tuple[Float[Floats, " splits"], Int[NDArray[np.int64], " splits"]]:
    """Test losses at the step that was best on average over all other splits, and the numbers of these steps.

    So no split has a say in when its own training ends. A single split ends with the last step.
    """
    count = len(curves)
    if count < 2:
        last = np.full(count, curves.shape[1] - 1)
        return curves[:, -1], last
    others = (curves.sum(axis=0) - curves) / (count - 1)
    others = np.where(np.isfinite(others), others, np.inf)
    steps = np.argmin(others, axis=1)
    return curves[np.arange(count), steps], steps
