"""`widefield compare`, `crosscheck`: one problem, several answers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..base import tables
from .options import ProblemFile
from .terminal import check_new, console, last, save_figure

if TYPE_CHECKING:
    from ..asking.comparison import Comparison
    from ..asking.crosschecking import Crosscheck


def compare(
    problem: ProblemFile,
    theories: Annotated[
        str, typer.Option(help="Names, separated by commas; also alternating, two-layer, closed-linear.")
    ] = "dmft,lazy,perturbative,gradient-independence",
    width: Annotated[int, typer.Option(help="Neurons in a hidden layer of the networks.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Number of networks.")] = 8,
    plot: Annotated[Path, typer.Option(help="Where the figure goes (png, pdf, svg).")] = Path("compare.png"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing figure.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Ask several theories and real networks the same question: one table and one figure."""
    from ..asking import comparison
    from ..base.errors import NotAccurate
    from ..problem.problem import Problem
    from ..theories.finite_width import FiniteWidth
    from ..trajectory import plots

    chosen = comparison.named(theories)
    described, networks = Problem.from_toml(problem), FiniteWidth(width, seeds=seeds)
    check_new(plot, overwrite=overwrite)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotAccurate)
        found = comparison.compare(described, chosen, networks, progress=not quiet)
    _print_comparison(found)
    for warning in caught:
        console.print(f"note: {warning.message}", highlight=False, soft_wrap=True)
    save_figure(plots.compare(found.networks, *found.answers), plot)


def _print_comparison(found: Comparison) -> None:
    from ..asking import comparison
    from ..trajectory import distances

    names = [name for name in comparison.QUANTITIES if name in found.networks.data]
    short = {"feature_kernel": "features", "gradient_kernel": "gradients"}
    headings = ("", "loss", *(short.get(name, name) for name in names), "s")
    table = tables.table(headings, "largest distance from the networks over time", words=1)
    for trajectory in (found.networks, *found.answers):
        row = [trajectory.label, f"{float(trajectory.mean('loss').isel(time=-1)):.3g}"]
        for name in names:
            if trajectory is found.networks:
                row.append(f"± {float(distances.uncertainty(trajectory, name).max()):.1%}")
            else:
                row.append(f"{float(distances.distance(trajectory, found.networks, name).max()):.1%}")
        table.add_row(*row, f"{trajectory.data.attrs['seconds']:.1f}")
    console.print(table)
    console.print(
        "loss at the end; kernels of features and gradients of the last layer; ± is due to the number of networks",
        highlight=False,
    )
    for label, reason in found.refusals.items():
        console.print(f"{label} cannot answer: {reason}", highlight=False, soft_wrap=True)


def crosscheck(
    problem: ProblemFile,
    theories: Annotated[
        str | None, typer.Option(help="Names, separated by commas: dmft, closed-linear, two-layer, alternating, lazy.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Solve a problem with every independent solver that applies, and compare all pairs. Exit code 1: they disagree."""
    from ..asking import comparison, crosschecking
    from ..base.errors import NotAccurate
    from ..problem.problem import Problem

    described = Problem.from_toml(problem)
    chosen = None if theories is None else comparison.named(theories)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotAccurate)
        found = crosschecking.crosscheck(described, chosen, progress=not quiet)
    _print_crosscheck(found)
    for warning in caught:
        console.print(f"note: {warning.message}", highlight=False, soft_wrap=True)
    console.print(f"[bold]{found.verdict}[/]", highlight=False, soft_wrap=True)
    if found.differences and not found.agrees:
        raise SystemExit(1)


def _print_crosscheck(found: Crosscheck) -> None:
    from ..asking.crosschecking import QUANTITIES

    numbers = {answer.label: str(number) for number, answer in enumerate(found.answers, 1)}
    table = tables.table(("", "solver", "final loss", "s"), words=2)
    for answer in found.answers:
        seconds = f"{answer.data.attrs['seconds']:.1f}"
        table.add_row(numbers[answer.label], answer.label, last(answer, "loss"), seconds)
    console.print(table)
    for reason in dict.fromkeys(found.refusals.values()):
        labels = " and ".join(label for label, other in found.refusals.items() if other == reason)
        console.print(f"not {labels}: {reason}", highlight=False, soft_wrap=True)
    if not found.differences:
        return
    names = [name for name in QUANTITIES if any(d.quantity == name for d in found.differences)]
    headings = ("", *(name.replace("_kernel", "").replace("_", " ") for name in names))
    table = tables.table(headings, "relative difference/allowed")
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for d in found.differences:
        cell = f"{tables.brief(d.difference)}/{tables.brief(d.allowed)}"
        cells.setdefault((d.first, d.second), {})[d.quantity] = cell if d.agrees else f"[bold red]{cell}[/]"
    for (first, second), row in cells.items():
        table.add_row(f"{numbers[first]}-{numbers[second]}", *(row.get(name, "") for name in names))
    console.print(table)
