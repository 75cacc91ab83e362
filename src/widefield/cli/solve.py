"""`widefield solve`, `show`, `new`, `demo`: one problem, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..base import tables
from .options import ProblemFile
from .terminal import check_new, console, errors, fail, last, save_figure

if TYPE_CHECKING:
    import xarray as xr

    from ..trajectory.trajectory import Trajectory

OutputFile = Annotated[Path, typer.Option("--output", "-o", help="Where the trajectory goes (NetCDF).")]


def solve(
    problem: ProblemFile,
    output: OutputFile,
    width: Annotated[str, typer.Option(help="Neurons in a hidden layer, or inf.")] = "inf",
    theory: Annotated[str | None, typer.Option(help="Instead of a width: lazy, perturbative, ...")] = None,
    seeds: Annotated[int, typer.Option(help="Number of independent networks.")] = 1,
    first_seed: Annotated[int, typer.Option(help="Seed of the first network or replica.")] = 0,
    precision: Annotated[str, typer.Option(help="float64 or float32, of networks.")] = "float64",
    particles: Annotated[int, typer.Option(help="Neurons that represent a layer at width inf.")] = 2048,
    replicas: Annotated[int, typer.Option(help="Independent solutions at width inf, for error bars.")] = 8,
    tolerance: Annotated[float | None, typer.Option(help="Relative accuracy wanted at width inf.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Solve a problem at a width, finite or inf, or by another theory. Ctrl-C saves; --resume goes on."""
    from ..asking import comparison
    from ..asking.solving import solve as run
    from ..base import files
    from ..problem.problem import Problem
    from ..problem.theory import Theory
    from ..theories.finite_width import FiniteWidth
    from ..theories.infinite_width import InfiniteWidth

    checkpoint = output.with_name(f"{output.name}.checkpoint")
    described = Problem.from_toml(problem)
    chosen: Theory
    if theory is not None:
        (chosen,) = comparison.named([theory])
    elif width in ("inf", "infinity", "∞"):
        chosen = InfiniteWidth(particles, replicas, first_seed=first_seed, tolerance=tolerance)
    else:
        chosen = FiniteWidth(_whole(width), seeds=seeds, first_seed=first_seed, precision=precision)
    _check_output(output, checkpoint, resume=resume, overwrite=overwrite)
    files.check_writable(output)
    trajectory = run(described, chosen, throw=False, progress=not quiet, checkpoint=checkpoint)
    trajectory.save(output)
    if trajectory.status == "interrupted":
        errors.print(f"{trajectory.message}; saved {output}. Go on with the same command and --resume.", soft_wrap=True)
        raise SystemExit(130)
    _print_summary(trajectory)
    console.print(f"saved {output}", highlight=False, soft_wrap=True)
    if trajectory.status == "diverged":
        fail(f"{trajectory.message}; a smaller learning_rate nearly always helps", 1)


def _whole(width: str) -> int:
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
        checkpoint.unlink()
    if output.exists() and not (resume or overwrite):
        fail(f"{output} exists: add --overwrite to replace it", 2)


def show(
    trajectory: Annotated[Path, typer.Argument(help="A file written by `widefield solve`.")],
    plot: Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, pdf, svg).")] = None,
) -> None:
    """Print what a trajectory holds, and draw it."""
    from ..theories import Trajectory

    loaded = Trajectory.load(trajectory)
    _print_summary(loaded)
    if plot is not None:
        from ..trajectory import plots

        save_figure(plots.summary(loaded), plot)


def new(
    problem: Annotated[Path, typer.Argument(help="The file to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented problem to begin with."""
    from ..base import files
    from .demo import template

    check_new(problem, overwrite=overwrite)
    files.write_text(problem, template())
    console.print(f"wrote {problem}; now: widefield solve {problem} --width 1024 --seeds 8 -o run.nc", soft_wrap=True)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("demo"),
) -> None:
    """Solve the default problem, print a table and save a figure."""
    from . import demo as demonstration

    problem = demonstration.default_problem()
    folder.mkdir(parents=True, exist_ok=True)
    theory, networks = demonstration.answers(problem)
    headings = ("width", "runs", "final loss", "kernel error", "seconds")
    table = tables.table(headings, "10 points on a sphere, three hidden tanh layers, gamma_0 = 1")
    for trajectory in (theory, *networks):
        runs = trajectory.data.attrs["replicas"] if trajectory is theory else trajectory.data.sizes["seed"]
        table.add_row(
            trajectory.label.removeprefix("width "),
            str(runs),
            last(trajectory, "loss"),
            "" if trajectory is theory else f"{demonstration.kernel_error(trajectory, theory):.2%}",
            f"{trajectory.data.attrs['seconds']:.1f}",
        )
    console.print(table)
    console.print("kernel error: distance of one network's final feature kernel (layer 3) from width ∞")
    path = folder / "demo.png"
    demonstration.figure(theory, networks, path)
    console.print(f"saved {path}", highlight=False, soft_wrap=True)


def _over_seeds(value: xr.DataArray) -> xr.DataArray:
    return value.mean("seed") if "seed" in value.dims else value


def _print_summary(trajectory: Trajectory) -> None:
    problem, data = trajectory.problem, trajectory.data
    network, samples = problem.network, problem.samples
    console.print(
        f"[bold]{trajectory.label}[/]: {network.hidden_layers} hidden layers, {network.activation}, "
        f"richness {network.richness:g}; {samples.samples} samples of dimension {samples.dimension}; "
        f"{problem.rule.kind}; {problem.optimiser.steps} steps",
        highlight=False,
    )
    ending = "" if trajectory.status == "complete" else f" ({trajectory.message})"
    accuracy = f", largest error bar {data.attrs['accuracy']:.2%}" if data.attrs.get("accuracy", 0) > 0 else ""
    console.print(f"{trajectory.status}{ending}, {data.attrs['seconds']:.1f} s{accuracy}", highlight=False)
    if not data.sizes["time"]:
        return
    names = [name for name in ("loss", "test_loss") if name in data]
    kernels = [name for name in ("feature_kernel", "ntk") if name in data]
    alignments = {name: _over_seeds(trajectory.target_alignment(name)) for name in kernels}
    headings = ("step", "time", *names, *(f"{name} alignment" for name in kernels))
    table = tables.table([heading.replace("_", " ") for heading in headings])
    for index in tables.rows(data.sizes["time"], 11):
        row = [str(int(data["step"][index])), f"{float(data['time'][index]):.4g}"]
        row += [f"{float(trajectory.mean(name)[index]):.4g}" for name in names]
        for value in alignments.values():
            last = value.isel(layer=-1) if "layer" in value.dims else value
            row.append(f"{float(last[index]):.4f}")
        table.add_row(*row)
    console.print(table)
