"""`widefield compare`, `crosscheck`: one problem, several answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Overwrite, ProblemFile, Quiet, Seeds
from .terminal import check_figure, console, notes, save_figure, say

if TYPE_CHECKING:
    from ..problem.problem import Problem


def compare(
    problem: ProblemFile,
    theories: Annotated[
        str, typer.Option(help="Kinds of theories, separated by commas; an unknown one lists all.")
    ] = "infinite-width,lazy,perturbative,gradient-independence",
    width: Annotated[int, typer.Option(help="Neurons in a hidden layer of the networks.")] = 1000,
    seeds: Seeds[int] = 8,
    plot: Annotated[Path, typer.Option(help="Where the figure goes (png, pdf, svg).")] = Path("compare.png"),
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Ask several theories and real networks the same question: one table and one figure."""
    from ..asking import comparison
    from ..theories.finite_width import FiniteWidth

    chosen = comparison.named(theories, width)
    described, networks = general_problem(problem), FiniteWidth(width, seeds=seeds)
    check_figure(plot, overwrite=overwrite)
    with notes():
        found = comparison.compare(described, chosen, networks, progress=not quiet)
        console.print(found.table())
        say("loss at the end; kernels of features and gradients of the last layer; ± is due to the number of networks")
        for label, reason in found.refusals.items():
            say(f"{label} cannot answer: {reason}")
    say(found.verdict)
    save_figure(found.plot(), plot)


def crosscheck(
    problem: ProblemFile,
    theories: Annotated[
        str | None, typer.Option(help="Kinds of theories, separated by commas; dmft and alternating are short for two.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Solve a problem with every independent solver that applies, and compare all pairs. Exit code 1: they disagree."""
    from ..asking import comparison, crosschecking

    described = general_problem(problem)
    chosen = None if theories is None else comparison.named(theories)
    with notes():
        found = crosschecking.crosscheck(described, chosen, progress=not quiet)
        console.print(found.table())
        for reason in dict.fromkeys(found.refusals.values()):
            labels = " and ".join(label for label, other in found.refusals.items() if other == reason)
            say(f"not {labels}: {reason}")
    console.print(f"[bold]{found.verdict}[/]", highlight=False, soft_wrap=True)
    if found.differences and not found.agrees:
        raise SystemExit(1)


def general_problem(path: Path) -> Problem:
    """A problem that several theories may answer."""
    from ..asking.loading import read_problem
    from ..base.errors import InvalidInput
    from ..problem.problem import Problem

    found = read_problem(path)
    if not isinstance(found, Problem):
        raise InvalidInput(f"{path} describes a {type(found).__name__}, which only `widefield solve` answers")
    return found
