"""The command line: `widefield solve`, `compare`, `crosscheck`, `advise`, `show`, `new`, `demo`; more in siblings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from . import cli_proportional
from .terminal import check_new, console, errors, fail, save_figure

if TYPE_CHECKING:
    import xarray as xr

    from .comparison import Comparison
    from .crosschecking import Crosscheck
    from .effective.advice import Advice
    from .trajectory import Trajectory

app = typer.Typer(
    help="Predict what wide neural networks do, and check it on real networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli_proportional.register(app)

ProblemFile = Annotated[Path, typer.Argument(help="A problem in TOML; `widefield new` writes one to begin with.")]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="Where the trajectory goes (NetCDF).")]


def main() -> None:
    """Entry point: errors that widefield raises on purpose become one line and an exit code."""
    from .errors import Interrupted, WidefieldError

    try:
        app()
    except Interrupted as error:
        fail(str(error), 130)
    except WidefieldError as error:
        fail(str(error), 2)


@app.command()
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
    from . import comparison, files
    from . import solve as run
    from .problem import Problem
    from .theories import FiniteWidth, InfiniteWidth, Theory

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


@app.command()
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
    from . import comparison, plots
    from .errors import NotAccurate
    from .problem import Problem
    from .theories import FiniteWidth

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
    from . import comparison

    names = [name for name in comparison.QUANTITIES if name in found.networks.data]
    table = Table(title="largest distance from the networks over time", box=box.SIMPLE, padding=(0, 1, 0, 0))
    short = {"feature_kernel": "features", "gradient_kernel": "gradients"}
    for heading in ("", "loss", *(short.get(name, name) for name in names), "s"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for trajectory in (found.networks, *found.answers):
        row = [trajectory.label, f"{float(trajectory.mean('loss').isel(time=-1)):.3g}"]
        for name in names:
            if trajectory is found.networks:
                row.append(f"± {float(comparison.uncertainty(trajectory, name).max()):.1%}")
            else:
                row.append(f"{float(comparison.distance(trajectory, found.networks, name).max()):.1%}")
        table.add_row(*row, f"{trajectory.data.attrs['seconds']:.1f}")
    console.print(table)
    console.print(
        "loss at the end; kernels of features and gradients of the last layer; ± is due to the number of networks",
        highlight=False,
    )
    for label, reason in found.refusals.items():
        console.print(f"{label} cannot answer: {reason}", highlight=False, soft_wrap=True)


@app.command()
def crosscheck(
    problem: ProblemFile,
    theories: Annotated[
        str | None, typer.Option(help="Names, separated by commas: dmft, closed-linear, two-layer, alternating, lazy.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Solve a problem with every independent solver that applies, and compare all pairs. Exit code 1: they disagree."""
    from . import comparison, crosschecking
    from .errors import NotAccurate
    from .problem import Problem

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
    from .crosschecking import QUANTITIES

    numbers = {answer.label: str(number) for number, answer in enumerate(found.answers, 1)}
    table = Table(box=box.SIMPLE)
    for heading in ("", "solver", "final loss", "s"):
        table.add_column(heading, justify="right" if heading in ("final loss", "s") else "left", no_wrap=True)
    for answer in found.answers:
        seconds = f"{answer.data.attrs['seconds']:.1f}"
        table.add_row(numbers[answer.label], answer.label, _with_error(answer, "loss"), seconds)
    console.print(table)
    for reason in dict.fromkeys(found.refusals.values()):
        labels = " and ".join(label for label, other in found.refusals.items() if other == reason)
        console.print(f"not {labels}: {reason}", highlight=False, soft_wrap=True)
    if not found.differences:
        return
    names = [name for name in QUANTITIES if any(d.quantity == name for d in found.differences)]
    table = Table(title="relative difference/allowed", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in ("", *(name.replace("_kernel", "").replace("_", " ") for name in names)):
        table.add_column(heading, justify="right", no_wrap=True)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for d in found.differences:
        cell = f"{_brief(d.difference)}/{_brief(d.allowed)}"
        cells.setdefault((d.first, d.second), {})[d.quantity] = cell if d.agrees else f"[bold red]{cell}[/]"
    for (first, second), row in cells.items():
        table.add_row(f"{numbers[first]}-{numbers[second]}", *(row.get(name, "") for name in names))
    console.print(table)


def _brief(value: float) -> str:
    return f"{value:.2%}" if value >= 1e-4 else f"{value:.0e}".replace("e-0", "e-")


@app.command()
def advise(
    activation: Annotated[str, typer.Option(help="Name of an activation: relu, gelu, tanh, ...")],
    depth: Annotated[int, typer.Option(help="Layers of weights.")],
    width: Annotated[int, typer.Option(help="Neurons of a hidden layer.")],
    outputs: Annotated[int, typer.Option(help="Neurons of the last layer.")] = 10,
    residual: Annotated[
        bool, typer.Option("--residual", help="With skip connections, as strong as suits depth / width.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, pdf, svg).")] = None,
) -> None:
    """How to initialise a network, and what its depth, width and activation will do to signals and gradients."""
    from . import files
    from .effective.advice import advise as ask

    if plot is not None:
        files.check_writable(plot)
    advice = ask(activation, depth, width, outputs=outputs, residual=residual)
    _print_advice(advice)
    if plot is not None:
        from .effective import plots

        save_figure(plots.advice_plot(advice), plot)


def _print_advice(advice: Advice) -> None:
    kind = f"{advice.point.universality_class} class, {advice.point.stability}"
    console.print(f"[bold]{advice.activation}[/]: {kind}", highlight=False)
    console.print(_variances(advice))
    if advice.depth > 1:
        console.print(_expectations(advice))
    console.print(advice.verdict, highlight=False)
    console.print("\n[bold]Variances of all layers[/], inputs scaled to mean square 1", highlight=False)
    console.print(advice.variances, highlight=False, markup=False, soft_wrap=True)
    for framework, code in advice.snippets().items():
        console.print(f"\n[bold]{framework}[/]", highlight=False)
        rest = code.removeprefix(advice.variances + "\n")
        console.print(rest, highlight=False, markup=False, soft_wrap=True)


def _variances(advice: Advice) -> Table:
    table = Table("layer", "weights", "biases", box=box.SIMPLE)
    rows = (("first", advice.first, 0), ("hidden", advice.hidden, 2), ("last", advice.output, 1))
    for name, layer, below in rows:
        if advice.depth > below:
            biases = f"N(0, {layer.C_b:.10g})" if layer.C_b else "0"
            table.add_row(name, f"N(0, {layer.C_W:.10g} / fan-in)", biases)
    return table


def _expectations(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_row("skip connections", f"times {advice.gamma:.10g}" if advice.gamma else "none")
    table.add_row("mean square signal, last over first", f"{advice.kernels[-1] / advice.kernels[0]:.4g}")
    table.add_row("mean square gradient, first over last", f"{advice.gradients[0]:.4g}")
    table.add_row("scatter of the output variance", f"{advice.fluctuations[-1]:.1%} from seed to seed")
    table.add_row("depth / width", f"{advice.ratio:.3g}; optimal {advice.optimal_ratio:.3g}")
    return table


@app.command()
def show(
    trajectory: Annotated[Path, typer.Argument(help="A file written by `widefield solve`.")],
    plot: Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, pdf, svg).")] = None,
) -> None:
    """Print what a trajectory holds, and draw it."""
    from .trajectory import Trajectory

    loaded = Trajectory.load(trajectory)
    _print_summary(loaded)
    if plot is not None:
        from . import plots

        save_figure(plots.summary(loaded), plot)


@app.command()
def new(
    problem: Annotated[Path, typer.Argument(help="The file to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented problem to begin with."""
    from . import files
    from .demo import template

    check_new(problem, overwrite=overwrite)
    files.write_text(problem, template())
    console.print(f"wrote {problem}; now: widefield solve {problem} --width 1024 --seeds 8 -o run.nc", soft_wrap=True)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("demo"),
) -> None:
    """Solve the default problem, print a table and save a figure."""
    from . import demo as demonstration

    problem = demonstration.default_problem()
    folder.mkdir(parents=True, exist_ok=True)
    theory, networks = demonstration.answers(problem)
    table = Table(title="10 points on a sphere, three hidden tanh layers, gamma_0 = 1")
    for heading in ("width", "runs", "final loss", "kernel error", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for trajectory in (theory, *networks):
        runs = trajectory.data.attrs["replicas"] if trajectory is theory else trajectory.data.sizes["seed"]
        table.add_row(
            trajectory.label.removeprefix("width "),
            str(runs),
            _with_error(trajectory, "loss"),
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


def _with_error(trajectory: Trajectory, name: str) -> str:
    mean = float(trajectory.mean(name).isel(time=-1))
    error = float(trajectory.standard_error(name).isel(time=-1))
    return f"{mean:.4g} ± {error:.1g}" if error > 0 else f"{mean:.4g}"


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
    table = Table()
    names = [name for name in ("loss", "test_loss") if name in data]
    kernels = [name for name in ("feature_kernel", "ntk") if name in data]
    alignments = {name: _over_seeds(trajectory.target_alignment(name)) for name in kernels}
    for heading in ("step", "time", *names, *(f"{name} alignment" for name in kernels)):
        table.add_column(heading.replace("_", " "), justify="right")
    count = data.sizes["time"]
    for index in sorted({round(i * (count - 1) / min(10, count)) for i in range(min(10, count) + 1)}):
        row = [str(int(data["step"][index])), f"{float(data['time'][index]):.4g}"]
        row += [f"{float(trajectory.mean(name)[index]):.4g}" for name in names]
        for value in alignments.values():
            last = value.isel(layer=-1) if "layer" in value.dims else value
            row.append(f"{float(last[index]):.4f}")
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
