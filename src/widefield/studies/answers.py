"""What a study answers: a sentence, a table, the numbers behind them, and the calls that lead there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from ..base import tables
from ..problem.network import MLP
from ..problem.problem import Problem
from .plan import Plan, in_words


@dataclass(frozen=True, eq=False)
class Table:
    """Cells in words; the row of the choice that is advised is marked."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one question.

    Attributes:
        question: its name: "scale", "rate", "baselines", "richness", "depth", "width" or "rule".
        title: the question in words.
        verdict: sentences that a person can act on.
        advice: the choice itself: a rate, a richness, a number of layers, ...
        table: what the verdict rests on.
        data: the numbers, as they are in `parts/answer-<question>.nc`.
        calls: public calls that give these numbers.
        seconds: that it took, of this run and those before.
    """

    question: str
    title: str
    verdict: str
    advice: Any
    table: Table
    data: xr.Dataset
    calls: str
    seconds: float = 0.0

    def __str__(self) -> str:
        made = tables.table(self.table.headings, words=1)
        for row in self.table.rows:
            made.add_row(*row)
        return tables.as_text(self.title, made, self.verdict)


@dataclass(frozen=True, eq=False)
class Study:
    """All answers of a study; see `widefield.study`.

    Attributes:
        folder: where the report, the figures and the NetCDF files are.
        answers: by question, in the order in which they were asked.
        left_out: questions, or parts of them, that there was no time for, and why.
        plan: sizes and expected seconds.
        problem: what is advised, as a problem to go on from, on the first split.
        setup: calls with which those of all answers begin.
        heading: the data in a line.
        again: the command or call that answers what was left out.
        seconds: that it took.
    """

    folder: Path
    answers: dict[str, Answer]
    left_out: dict[str, str]
    plan: Plan
    problem: Problem
    setup: str
    heading: str
    again: str
    seconds: float
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def report(self) -> Path:
        """The report, which a browser opens."""
        return self.folder / "report.html"

    @property
    def network(self) -> MLP:
        """The network that is advised."""
        network: MLP = self.problem.network
        return network

    @property
    def learning_rate(self) -> float | str:
        """Goes with it, for losses summed over the training samples of a split; "auto" if none was found in time."""
        rate = self.problem.optimiser.learning_rate  # type: ignore[attr-defined]
        return rate if isinstance(rate, str) else float(rate)

    @property
    def verdicts(self) -> dict[str, str]:
        """Sentences by question."""
        return {name: answer.verdict for name, answer in self.answers.items()}

    def __str__(self) -> str:
        lines = [self.heading, ""]
        for answer in self.answers.values():
            lines += [answer.title, f"  {answer.verdict}", ""]
        for name, why in self.left_out.items():
            lines.append(f"left out: {name} ({why})")
        if self.left_out:
            lines.append(f"  to answer it: {self.again}")
        lines.append(f"{in_words(self.seconds)}; report: {self.report}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Study of {self.heading}: {', '.join(self.answers)}; {self.report}>"
