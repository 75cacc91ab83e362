"""The truths that there are: of which problem, and how much work goes into each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import widefield as wf
from claims import problems, truth_files, truths
from claims.problems import Sizes
from claims.truths import Effort, Truth

KEPT_SAMPLES = 32
"""Outputs and kernels of so many samples stand for all, so that files stay small."""


@dataclass(frozen=True)
class Known:
    """A problem whose truth is kept in a file."""

    problem: Callable[[Sizes], wf.Problem]
    records: int
    narrow: int = 64
    tolerance: float = 0.02
    """What width infinity is asked for."""

    error: float = 0.003
    """Of the truth, at most a fifth of the errors that width infinity turns out to have."""

    def effort(self, sizes: Sizes) -> Effort:
        """What is recorded, and the narrowest of three widths."""
        problem = self.problem(sizes)
        steps = problem.optimiser.steps
        chosen = tuple(sorted({round(steps * k / self.records) for k in range(self.records + 1)}))
        record = wf.Record(steps=chosen, samples=min(KEPT_SAMPLES, problem.samples.samples), neurons=0)
        effort = Effort(record, self.narrow, error=self.error)
        return dataclasses.replace(effort, narrow=8, error=1.0, batch=4) if sizes.quick else effort


def _digits(rate: str) -> Callable[[Sizes], wf.Problem]:
    return lambda sizes: problems.digits(sizes, sizes.digits, sizes.digit_steps, rate)


def _more_digits(rate: str) -> Callable[[Sizes], wf.Problem]:
    return lambda sizes: problems.digits(sizes, sizes.more_digits, sizes.few_digit_steps, rate)


KNOWN = {
    "default": Known(problems.default, records=10),
    "sphere": Known(problems.sphere, records=5),
    "digits-64-small": Known(_digits("small"), records=4, error=0.0033),
    "digits-64-large": Known(_digits("large"), records=4, error=0.0026),
    "digits-256-small": Known(_more_digits("small"), records=4, error=0.0033),
    "digits-256-large": Known(_more_digits("large"), records=4, error=0.0033),
}


def load(name: str, sizes: Sizes) -> tuple[wf.Problem, Truth]:
    """A problem and its truth; tiny ones are computed on the spot."""
    problem = KNOWN[name].problem(sizes)
    if sizes.quick:
        return problem, truths.compute(problem, KNOWN[name].effort(sizes))
    return problem, truth_files.load(problem, truth_files.path_of(name))


def compute(name: str, sizes: Sizes, folder: Path) -> Truth:
    """Compute a truth and keep it."""
    truth = truths.compute(KNOWN[name].problem(sizes), KNOWN[name].effort(sizes))
    folder.mkdir(exist_ok=True)
    truth_files.save(truth, truth_files.path_of(name, folder))
    return truth
