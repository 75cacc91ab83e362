"""`widefield solve`, `show`, `new`, `demo`: one problem, one answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base import files, tables
from .options import LeaveOut, Overwrite, Plot, ProblemFile, Quiet, Seeds, Target, TestSamples
from .terminal import (
    check_answer,
    check_figure,
    check_new,
    console,
    errors,
    fail,
    last,
    notes,
    print_result,
    save_figure,
)

if TYPE_CHECKING:
    from ..problem.question import Question
    from ..problem.theory import Theory

OutputFile = Annotated[Path, typer.Option("--output", "-o", help="Where the answer goes (NetCDF).")]


def solve(
    problem: ProblemFile,
    output: OutputFile,
    target: Target = None,
    leave_out: LeaveOut = None,
    test_samples: TestSamples = 0,
    width: Annotated[str | None, typer.Option(help="Neurons in a hidden layer, or inf, which is the default.")] = None,
    theory: Annotated[str | None, typer.Option(help="Another theory, by its kind: lazy, perturbative, ...")] = None,
    seeds: Seeds[int | None] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the first network or replica; 0.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; networks are trained in float64.")] = None,
    particles: Annotated[int | None, typer.Option(help="Neurons that represent a layer at width inf.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Independent solutions at width inf, for error bars.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Relative error allowed at width inf; 0.02.")] = None,
    method: Annotated[
        str | None, typer.Option(help="At width inf: conditioned, networks (a mean of many), or auto, the cheaper one.")
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Between checkpoints: what is lost at most if the run is killed.")
    ] = 60.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Solve a problem at a width, finite (one network, or --seeds) or inf, or by another theory.

    The problem is a TOML file, or your own data: a CSV file and the column to predict, --target. Ctrl-C saves;
    --resume goes on.
    """
    from ..asking.solving import solve as run
    from ..asking.solving import what_helps
    from ..base.errors import NotSaved
    from ..problem.problem import Problem

    check_answer(output)
    checkpoint = output.with_name(f"{output.name}.checkpoint")
    described = problem_or_data(problem, target, test_samples, words(leave_out))
    if isinstance(described, Problem):
        options = {"width": _neurons(width), "seeds": seeds, "seed": seed, "dtype": dtype, "particles": particles}
        chosen = _theory(theory, options | {"replicas": replicas, "tolerance": tolerance, "method": method})
    else:
        chosen = _linear_theory(described, theory, width, seeds, seed or 0, tolerance)
    _check_output(output, checkpoint, resume=resume, overwrite=overwrite)
    show = not quiet
    try:
        with notes():
            answer = run(
                described,
                chosen,
                throw=False,
                progress=show,
                checkpoint=checkpoint,
                output=output,
                checkpoint_seconds=checkpoint_seconds,
            )
    except NotSaved as problem:
        print_result(problem.result)  # at least the numbers that matter most
        fail(str(problem), 2)
    except KeyboardInterrupt:
        left = f"{checkpoint} holds it up to its last checkpoint: go on with --resume" if checkpoint.exists() else ""
        fail(f"stopped at once; {left or 'there was no checkpoint yet, so nothing is left of this run'}", 130)
    if answer.status == "interrupted":
        resume_hint = " Go on with the same command and --resume." if chosen.resumes else ""
        errors.print(f"{answer.message}; saved {output}.{resume_hint}", soft_wrap=True, markup=False)
        raise SystemExit(128 + int(answer.data.attrs.get("signal", 2)))
    print_result(answer)
    console.print(f"saved {output}", highlight=False, soft_wrap=True)
    if answer.status == "diverged":
        fail(f"{answer.message}; {what_helps(answer)}", 1)


def problem_or_data(path: Path, target: str | None, test_samples: int, leave_out: Sequence[str]) -> Question:
    """The problem that a TOML file describes, or one to begin with for the data of another file."""
    from ..asking.loading import TABLES, problem_of_data, read_problem

    if path.suffix.lower() in TABLES:
        return problem_of_data(path, targets(target), test_samples, leave_out)
    if target is not None or test_samples or leave_out:
        fail(f"--target, --leave-out and --test-samples belong to files of data; in {path} [data] says it", 2)
    return read_problem(path)


def targets(target: str | None) -> str | list[str]:
    """One column, or several by commas."""
    names = words(target or "y")
    return names[0] if len(names) == 1 else names


def words(given: str | None) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in (given or "").split(",") if word.strip()]


def _theory(kind: str | None, options: dict[str, Any]) -> Theory:
    """The theory that is named, or networks if there is a width; what it would not look at is refused."""
    from ..asking import comparison
    from ..theories.finite_width import FiniteWidth

    given = {name: value for name, value in options.items() if value is not None}
    if kind is None:
        kind = FiniteWidth.kind if "width" in given else "infinite-width"
    (usual,) = comparison.named([kind], *([given["width"]] if "width" in given else []))
    known = [field.name for field in dataclasses.fields(usual)]
    if isinstance(usual, FiniteWidth):
        usual = FiniteWidth(usual.width)
    for name in given:
        if name not in known:
            fail(f"--{name}: the theory {kind} has no {name}; leave it out", 2)
    return dataclasses.replace(usual, **given)


def _linear_theory(
    problem: Question, name: str | None, width: str | None, seeds: int | None, seed: int, tolerance: float | None
) -> Theory:
    """Who answers a problem in the proportional limit."""
    from ..base import check
    from ..proportional.problem import ProportionalLimit, ProportionalNetworks

    if width is not None:
        fail("--width: the width of a deep linear network is `width` of the section [network]", 2)
    kinds = (ProportionalLimit.kind, ProportionalNetworks.kind)
    chosen: str = problem.default_theory().kind if name is None else check.choice("theory", name, kinds)
    if chosen == ProportionalNetworks.kind:
        return ProportionalNetworks(seed=seed, **({} if seeds is None else {"seeds": seeds}))
    if seeds is not None:
        fail(f"--seeds: the limit has no networks; add --theory {ProportionalNetworks.kind}", 2)
    return ProportionalLimit(tolerance=tolerance)


def _neurons(width: str | None) -> int | None:
    """The width of networks; None is infinity."""
    if width in (None, "inf", "infinity", "∞"):
        return None
    try:
        return int(width)
    except ValueError:
        fail(f"width = {width!r} must be a whole number or inf", 2)


def _check_output(output: Path, checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    if resume and overwrite:
        fail("--resume and --overwrite exclude each other", 2)
    if resume and not checkpoint.exists():
        fail(f"there is nothing to resume: {checkpoint} does not exist", 2)
    if not resume and checkpoint.exists():
        if not overwrite:
            fail(f"{checkpoint} holds an interrupted run: add --resume to go on, or --overwrite to start again", 2)
        with files.claimed(output):  # not that of a run that is still at work
            checkpoint.unlink()
    if output.exists() and not (resume or overwrite):
        fail(f"{output} exists: add --overwrite to replace it", 2)


def show(
    answer: Annotated[Path, typer.Argument(help="A file that `widefield solve`, `proportional`, ... or `save` wrote.")],
    plot: Plot = None,
) -> None:
    """Print what a file of any kind holds, and draw it."""
    from ..asking.loading import load

    check_figure(plot, overwrite=True)
    loaded = load(answer)
    print_result(loaded)
    if plot is not None:
        save_figure(loaded.plot(), plot)


def new(
    problem: Annotated[Path, typer.Argument(help="The file to write.")],
    data: Annotated[Path | None, typer.Option(help="Your own data: a CSV or NPZ file, beside which it stays.")] = None,
    target: Target = None,
    leave_out: LeaveOut = None,
    test_samples: TestSamples = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write a commented problem to begin with, the default one or one about your own data."""
    from .demo import template, template_of_data

    check_new(problem, overwrite=overwrite)
    if data is None and (target is not None or test_samples or leave_out):
        fail("--target, --leave-out and --test-samples belong to --data, a CSV or NPZ file", 2)
    text = template()
    if data is not None:
        without = words(leave_out)
        problem_or_data(data, target, test_samples, without)  # whatever is wrong with the file is said now
        text = template_of_data(problem, data, targets(target), test_samples, without)
    files.write_text(problem, text)
    console.print(f"wrote {problem}; now: widefield solve {problem} --width 1024 --seeds 8 -o run.nc", soft_wrap=True)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("demo"),
) -> None:
    """Solve the default problem, print a table and save a figure."""
    from . import demo as demonstration

    problem = demonstration.default_problem()
    folder.mkdir(parents=True, exist_ok=True)
    theory, networks = demonstration.answers(problem)
    headings = ("width", "runs", "final loss", "kernel error", "seconds", "compiling")
    table = tables.table(headings, "10 points on a sphere, three hidden tanh layers, gamma_0 = 1")
    for trajectory in (theory, *networks):
        attributes = trajectory.data.attrs
        compiling = attributes["seconds_tracing"] + attributes["seconds_compiling"]
        table.add_row(
            trajectory.label.removeprefix("width "),
            str(attributes["replicas"] if trajectory is theory else trajectory.data.sizes["seed"]),
            last(trajectory, "loss"),
            "" if trajectory is theory else f"{demonstration.kernel_error(trajectory, theory):.2%}",
            f"{attributes['seconds'] - compiling:.1f}",
            f"{compiling:.1f}",
        )
    console.print(table)
    console.print("kernel error: distance of one network's final feature kernel (layer 3) from width ∞")
    console.print(demonstration.verdict(theory, networks))
    path = folder / "demo.png"
    demonstration.figure(theory, networks, path)
    console.print(f"saved {path}", highlight=False, soft_wrap=True)
