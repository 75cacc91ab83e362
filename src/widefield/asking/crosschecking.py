"""All solvers that apply to a problem, against each other: numbers that independent code agrees on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import xarray as xr

from ..base import statistics
from ..base.renamed import former
from ..problem.gradient_flow import GradientFlow
from ..problem.network import MLP
from ..problem.problem import Problem
from ..problem.theory import Theory
from ..theories.alternating import AlternatingMonteCarlo
from ..theories.closed_linear import ClosedLinear
from ..theories.infinite_width import InfiniteWidth
from ..theories.lazy import Lazy
from ..theories.two_layer import TwoLayer
from ..trajectory import metrics
from ..trajectory.trajectory import Trajectory
from .comparison import answered

if TYPE_CHECKING:
    from ..base.drawing import Figure

QUANTITIES = ("outputs", "test_outputs", "feature_kernel", "gradient_kernel", "alignment_kernel", "ntk")

STANDARD_ERRORS = 4.0
"""So many of them may lie between two answers."""

_SHARPEST = 1e-7
_ROUNDING = 1e-9


def solvers(problem: Problem) -> list[Theory]:
    """Independent solvers of infinite width, each with settings for this problem. Their scopes say which apply."""
    if not isinstance(problem.network, MLP):
        return [InfiniteWidth(4096, 8)]
    linear = problem.network.activation == "linear"
    # Linear networks are exact with any particles, up to the rank tolerance.
    infinite = InfiniteWidth(1024, 2, rank_tolerance=_SHARPEST) if linear else InfiniteWidth(4096, 8)
    # All particles of a linear network have the same Jacobian.
    alternating = AlternatingMonteCarlo(replicas=8, jacobian_particles=1 if linear else 100)
    known = [infinite, ClosedLinear(), ClosedLinear("fixed-point"), TwoLayer(), alternating]
    # A static kernel solves the same equations only where kernels stand still.
    network = problem.network
    return [*known, Lazy()] if network.richness == 0 or network.parameterisation == "ntk" else known


@dataclass(frozen=True)
class Difference(statistics.Difference):
    """How far two answers are apart in one quantity, at all times together (Frobenius norm, relative to the larger).

    Args:
        name: of the variable.
        difference: between them.
        allowed: 4 standard errors of both, plus what both say they may be off by.
        first: label of one solver.
        second: label of the other.
    """

    first: str
    second: str

    quantity = former("Difference", "quantity", "name")


@dataclass(frozen=True)
class Crosscheck:
    """Answers, why other solvers gave none, and all pairwise differences."""

    answers: tuple[Trajectory, ...]
    refusals: dict[str, str]
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether there is something to compare, and everything agrees."""
        return bool(self.differences) and all(difference.agrees for difference in self.differences)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.differences:
            count = len(self.answers)
            return f"Nothing to check: {count} solver{'s apply' if count != 1 else ' applies'} to this problem."
        apart = [difference for difference in self.differences if not difference.agrees]
        if not apart:
            loosest = max(difference.allowed for difference in self.differences)
            return (
                f"{len(self.answers)} solvers agree in all {len(self.differences)} comparisons, "
                f"of which the loosest would notice {loosest:.1g}."
            )
        worst = max(apart, key=lambda difference: difference.excess)
        return (
            f"{len(apart)} of {len(self.differences)} comparisons DISAGREE; the worst: {worst.first} and "
            f"{worst.second} differ by {worst.difference:.2g} in {worst.name}, {worst.allowed:.2g} is allowed."
        )

    def table(self) -> Any:
        """Every solver with its final loss, and all differences beside what is allowed."""
        from ..base import tables

        numbers = {answer.label: str(number) for number, answer in enumerate(self.answers, 1)}
        names = [name for name in QUANTITIES if any(d.name == name for d in self.differences)]
        solvers = tables.table(("", "solver", "final loss", "s"), words=2)
        for answer in self.answers:
            mean, error = (float(f("loss").isel(time=-1)) for f in (answer.mean, answer.standard_error))
            seconds = f"{answer.data.attrs['seconds']:.1f}"
            solvers.add_row(numbers[answer.label], answer.label, tables.with_error(mean, error), seconds)
        if not self.differences:
            return solvers
        headings = ("", *(name.replace("_kernel", "").replace("_", " ") for name in names))
        apart = tables.table(headings, "relative difference/allowed")
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for d in self.differences:
            cell = f"{tables.brief(d.difference)}/{tables.brief(d.allowed)}"
            cells.setdefault((d.first, d.second), {})[d.name] = cell if d.agrees else f"[bold red]{cell}[/]"
        for (first, second), row in cells.items():
            apart.add_row(f"{numbers[first]}-{numbers[second]}", *(row.get(name, "") for name in names))
        return tables.stacked(solvers, apart)

    def plot(self) -> Figure:
        """Losses of all solvers, and every difference against what is allowed."""
        from . import plots

        ratios: dict[str, list[float]] = {}
        for d in self.differences:
            ratios.setdefault(d.name, []).append(d.difference / d.allowed)
        return plots.agreement(self.answers, ratios)


def crosscheck(
    problem: Problem, theories: Sequence[Theory] | None = None, *, progress: bool | None = None
) -> Crosscheck:
    """Solve a problem with every solver that applies to it, and compare all pairs.

    Args:
        problem: what is studied.
        theories: solvers of the same equations; None takes those of `solvers(problem)`.
        progress: as in `solve`.
    """
    asked = solvers(problem) if theories is None else theories
    answers, refusals = answered(problem, asked, progress=progress)
    # Under gradient descent the pseudo-gradients are the gradients, and one kernel says it all.
    names = [name for name in QUANTITIES if not (problem.rule.exact and name == "alignment_kernel")]
    differences = [
        difference(first, second, name)
        for first, second in combinations(answers, 2)
        for name in names
        if name in first.data and name in second.data
    ]
    return Crosscheck(answers, refusals, tuple(differences))


def difference(first: Trajectory, second: Trajectory, name: str) -> Difference:
    """Compare one quantity of two answers."""
    one, other = metrics.at_common_times(first.mean(name), second.mean(name))
    errors = metrics.at_common_times(*(answer.standard_error(name).fillna(0.0) for answer in (first, second)))
    size = max(_norm(one), _norm(other)) or 1.0
    error = STANDARD_ERRORS * float((sum(_norm(e) ** 2 for e in errors)) ** 0.5)
    slack = systematic(first) + systematic(second)
    return Difference(name, _norm(one - other) / size, error / size + slack, first.label, second.label)


def systematic(answer: Trajectory) -> float:
    """Relative error of a solver that its standard errors do not show, as far as it is known."""
    theory, attributes = answer.theory, answer.data.attrs
    slack = float(attributes.get("gates_bound", 0.0)) + _ROUNDING
    if isinstance(answer.problem.optimiser, GradientFlow):
        slack += answer.problem.optimiser.tolerance
    if isinstance(theory, InfiniteWidth):
        slack += float(attributes["rank_tolerance"])
    if isinstance(theory, ClosedLinear) and theory.method == "fixed-point":
        # An iteration that still moves by `change` may have several times that to go.
        slack += 10 * float(attributes["change"])
    return slack


def _norm(value: xr.DataArray) -> float:
    return float((value**2).sum() ** 0.5)
