"""Which of several choices is best, judged over random splits of the data, and where there is no difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.statistics import quantile

LEVEL = 0.95
"""Of intervals."""

_ALARMS = 0.04
"""Share of questions with equal choices that may see a difference: below 1 - LEVEL, as losses are not Gaussian."""

_DRAWS = 40_000


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


@cache
def critical(choices: int, splits: int) -> float:
    """By how many standard errors equal choices differ from the lowest of them, at most, in 96% of cases.

    Which one is lowest is known only afterwards, so Student's t would be too small. What is done is done with random
    numbers: means m ~ N(0, 1) of all choices, S / (R - 1) with S a Wishart matrix of R - 1 degrees of freedom for
    their covariance over R splits, and the largest of (m_i - m_b) / sqrt(S_ii + S_bb - 2 S_ib), m_b the lowest. (With
    the error bars of `over_splits` the overlap of splits cancels.) That is Tukey's range test with an error bar for
    each pair; two choices give Student's t. Numbers are always the same.

    >>> round(critical(2, 10), 1), round(critical(6, 10), 1)
    (2.4, 3.9)
    """
    if choices < 2 or splits < 2:
        return 0.0 if choices < 2 else math.inf
    if choices == 2:
        return quantile(1 - _ALARMS, splits)
    random = np.random.default_rng(20030901)
    means = random.standard_normal((_DRAWS, choices))
    lowest = means.argmin(axis=1)
    scatter = random.standard_normal((_DRAWS, splits - 1, choices))
    apart = scatter - np.take_along_axis(scatter, lowest[:, None, None], axis=2)
    error = np.sqrt((apart**2).sum(axis=1) / (splits - 1))
    error[np.arange(_DRAWS), lowest] = 1.0
    largest = ((means - means.min(axis=1, keepdims=True)) / error).max(axis=1)
    return float(np.quantile(largest, 1 - _ALARMS))


def judged(losses: Float[Floats, "choices splits"], test_share: float) -> Judgement:
    """Judge losses of choices over the same splits. Choices that were not finite anywhere are never alike to others.

    The difference of every choice from the best is taken split by split, which removes what all choices share, and
    compared with its error over splits times `critical`. That is done step by step, as Holm's test is: the choice that
    is furthest off first, with the number that belongs to all choices; if it differs, the next with that of one choice
    fewer; the first that does not differ ends it.
    """
    finite = np.asarray(np.isfinite(losses).all(axis=1))
    means = np.where(finite, losses.mean(axis=1), np.inf)
    best = int(np.argmin(means))
    differences = tuple(over_splits(row - losses[best], test_share) for row in losses)
    others = [place for place in range(len(losses)) if place != best and finite[place]]
    others.sort(key=lambda place: -_errors_apart(differences[place]))
    halves, alike, open_ = [math.nan] * len(losses), {best}, True
    halves[best] = 0.0
    factor = 0.0
    for done, place in enumerate(others):
        found = differences[place]
        factor = critical(len(others) + 1 - done, found.splits) if open_ else factor
        open_ = open_ and _errors_apart(found) > factor
        halves[place] = math.inf if found.splits < 2 else factor * found.error
        alike |= set() if open_ else {place}
    return Judgement(
        tuple(over_splits(row, test_share) for row in losses), best, tuple(sorted(alike)), differences, tuple(halves)
    )


def _errors_apart(found: Estimate) -> float:
    """A difference in standard errors; a single split has none, and choices without scatter differ or are the same."""
    if found.splits < 2:
        return 0.0
    if found.error > 0:
        return found.mean / found.error
    return math.inf if found.mean > 0 else 0.0


def stopped(
    curves: Float[Floats, "splits steps"],
) -> tuple[Float[Floats, " splits"], Int[NDArray[np.int64], " splits"]]:
    """Test losses at the step that was best on average over all other splits, and the numbers of these steps.

    So no split has a say in when its own training ends. A single split ends with the last step. With several learning
    rates their steps stand one after the other, and the rate is chosen in the same way.
    """
    count = len(curves)
    if count < 2:
        last = np.full(count, curves.shape[1] - 1)
        return curves[:, -1], last
    others = (curves.sum(axis=0) - curves) / (count - 1)
    others = np.where(np.isfinite(others), others, np.inf)
    steps = np.argmin(others, axis=1)
    return curves[np.arange(count), steps], steps
