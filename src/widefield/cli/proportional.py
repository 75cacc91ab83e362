"""`widefield proportional` and `widefield lr-transfer`: deep linear networks in the proportional limit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from .terminal import check_figure, check_new, console, fail, save_figure, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..proportional import Dynamics, LinearNetwork, LinearTask, RateSweep

Result = TypeVar("Result", "Dynamics", "RateSweep")

Layers = Annotated[str | None, typer.Option(help="Hidden layers L, or inf with --depth-scaled; 2 if not given.")]
Width = Annotated[float | None, typer.Option(help="Width over dimension, N/D, of all hidden layers; inf if not given.")]
Steps = Annotated[int, typer.Option(help="Steps of gradient descent.")]
Richness = Annotated[float, typer.Option(help="gamma_0; gamma with --parameterisation ntk.")]
Parameterisation = Annotated[str, typer.Option(help="mean-field or ntk.")]
Samples = Annotated[float | None, typer.Option(help="Samples of a fixed training set over dimension, P/D.")]
Batch = Annotated[float | None, typer.Option(help="Fresh samples in every step over dimension, B/D.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of label noise.")]
Branch = Annotated[float | None, typer.Option(help="Scale of the branches of a residual network.")]
DepthScaled = Annotated[bool, typer.Option("--depth-scaled", help="Branches are divided by sqrt(L).")]
Centred = Annotated[bool, typer.Option("--centred", help="The network at the start is subtracted.")]
PowerLaw = Annotated[
    str | None, typer.Option(help="capacity,source,modes of the inputs; sizes are then N, P and B, not over D.")
]
Simulate = Annotated[int | None, typer.Option(help="Train networks of this input dimension D as well.")]
Networks = Annotated[int, typer.Option(help="How many of them.")]
Seed = Annotated[int, typer.Option(help="Of the networks.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Save to this file (NetCDF).")]
Plot = Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, pdf, svg).")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

_SIMULATED_RATES = 9
"""About as many learning rates are tried with real networks."""


def proportional(
    rate: Annotated[float, typer.Option(help="Learning rate eta.")],
    steps: Steps,
    layers: Layers = None,
    width: Width = None,
    widths: Annotated[str | None, typer.Option(help="One width for every hidden layer, separated by commas.")] = None,
    richness: Richness = 1.0,
    parameterisation: Parameterisation = "mean-field",
    samples: Samples = None,
    batch: Batch = None,
    noise: Noise = 0.0,
    branch: Branch = None,
    depth_scaled: DepthScaled = False,
    centred: Centred = False,
    power_law: PowerLaw = None,
    long: Annotated[bool, typer.Option("--long", help="Many steps, extrapolated from fewer and larger ones.")] = False,
    simulate: Simulate = None,
    networks: Networks = 16,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Losses of a deep linear network when width, data and dimension are all large. Exit code 1: it diverges."""
    from .. import proportional as theory
    from ..proportional import plots
    from ..proportional.transfer import remedy
    from . import proportional_tables as tables

    network = theory.LinearNetwork(
        *_shape(layers, width, widths), richness, parameterisation, branch, depth_scaled, centred
    )
    task = _task(samples, batch, noise, power_law)
    _check_files(output, plot, simulate, overwrite=overwrite)
    _check_simulation(network, task, simulate, networks)
    found, trained, stopped = _solve(network, task, rate, steps, long=long, progress=not quiet), None, None
    console.print(found.table())
    if simulate is not None and found.diverged is None:
        options: Any = {"dimension": simulate, "networks": networks, "seed": seed, "progress": not quiet}
        trained, stopped = _trained(lambda: theory.simulate(network, task, rate, steps, **options))
        console.print(tables.of_networks(found, trained, networks))
    _save(found, trained, output)
    if plot is not None:
        save_figure(plots.summary_plot(found, trained), plot)
    if stopped is not None:
        fail(stopped, 130)
    if found.diverged is not None:
        fail(f"{found.verdict}; {remedy(network, task, rate, steps)}", 1)
    say(found.verdict)


def lr_transfer(
    over: Annotated[str, typer.Option(help="What changes: width or depth.")],
    values: Annotated[str, typer.Option(help="Widths or depths, separated by commas; the last may be inf.")],
    steps: Steps,
    layers: Layers = None,
    width: Width = None,
    rates: Annotated[str | None, typer.Option(help="lowest,highest,count; found out if not given.")] = None,
    richness: Richness = 1.0,
    parameterisation: Parameterisation = "mean-field",
    samples: Samples = None,
    batch: Batch = None,
    noise: Noise = 0.0,
    branch: Branch = None,
    depth_scaled: DepthScaled = False,
    centred: Centred = False,
    power_law: PowerLaw = None,
    simulate: Simulate = None,
    networks: Networks = 8,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Whether the best learning rate of one width or depth is that of another. Exit code 1: no rate works."""
    from .. import proportional as theory
    from ..proportional import plots
    from . import proportional_tables as tables

    varied = _varied(over, values, layers, width)
    depth, size = (varied[0], width) if over == "depth" else (_depth(layers or "2"), 1.0)
    size = math.inf if size is None else size
    network = theory.LinearNetwork(depth, size, richness, parameterisation, branch, depth_scaled, centred)
    task, grid = _task(samples, batch, noise, power_law), None if rates is None else _rates(rates)
    _check_files(output, plot, simulate, overwrite=overwrite)
    trainable = _finite(network, over, varied)
    if simulate is not None and not trainable:
        fail(f"--simulate needs a finite {over} in --values", 2)
    for one in trainable:
        _check_simulation(one, task, simulate, networks)
    sweep, trained, stopped = _sweep(network, task, grid, steps, over, varied, progress=not quiet), None, None
    console.print(sweep.table())
    if simulate is not None:
        options: Any = {"dimension": simulate, "seeds": networks, "seed": seed, "progress": not quiet}
        some = sweep.rates[:: max(1, round(len(sweep.rates) / _SIMULATED_RATES))]
        options[f"{over}s"] = [value for value in varied if math.isfinite(value)]
        trained, stopped = _trained(lambda: theory.simulated_sweep(network, task, some, steps, **options))
        console.print(tables.of_simulated_rates(sweep, trained, networks))
    _save(sweep, trained, output)
    if plot is not None:
        save_figure(plots.transfer_figure(sweep, trained), plot)
    if stopped is not None:
        fail(stopped, 130)
    if all(math.isnan(largest) for largest in sweep.largest):
        fail(f"training diverges at all rates from {sweep.rates[0]:g} to {sweep.rates[-1]:g}: try smaller ones", 1)
    say(sweep.verdict)


def _trained(train: Callable[[], Result]) -> tuple[Result, str | None]:
    """Networks, or those finished before Ctrl-C and the reason why there are no more."""
    from ..base.errors import Interrupted

    try:
        return train(), None
    except Interrupted as error:
        return cast("Result", error.result), str(error)


def _solve(
    network: LinearNetwork, task: LinearTask, rate: float, steps: int, *, long: bool, progress: bool
) -> Dynamics:
    """What there is, also if training diverges."""
    from ..base.errors import Diverged
    from ..proportional import Dynamics, solve, solve_long

    with _notes():
        try:
            return (solve_long if long else solve)(network, task, rate, steps, progress=progress)
        except Diverged as error:
            found = error.result
    return cast(Dynamics, found)


def _sweep(
    network: LinearNetwork,
    task: LinearTask,
    rates: NDArray[np.float64] | None,
    steps: int,
    over: str,
    values: list[float],
    *,
    progress: bool,
) -> RateSweep:
    from ..proportional import lr_sweep, suggested_rates

    widths, depths = (values, None) if over == "width" else (None, values)
    with _notes():
        if rates is None:
            rates = suggested_rates(network, task, steps, widths=widths, depths=depths, progress=progress)
        return lr_sweep(network, task, rates, steps, widths=widths, depths=depths, progress=progress)


@contextmanager
def _notes() -> Iterator[None]:
    """Print warnings about accuracy as notes, each once."""
    from ..base.errors import NotAccurate

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotAccurate)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"note: {message}")


def _shape(layers: str | None, width: float | None, widths: str | None) -> tuple[float, float | tuple[float, ...]]:
    """Depth, and the width of all layers or of each."""
    if widths is None:
        return _depth(layers or "2"), math.inf if width is None else width
    if width is not None:
        fail("--width and --widths exclude each other: give one of them", 2)
    several = tuple(_numbers("--widths", widths))
    return _depth(layers or str(len(several))), several


def _varied(over: str, values: str, layers: str | None, width: float | None) -> list[float]:
    """Widths or depths."""
    from ..base import check

    check.choice("--over", over, ("width", "depth"))
    fixed = {"width": width, "depth": layers}[over]
    if fixed is not None:
        option = "--width" if over == "width" else "--layers"
        fail(f"--over {over} takes every {over} from --values: leave {option} out", 2)
    found = _numbers("--values", values)
    if over == "width":
        return found
    return [int(value) if math.isfinite(value) and value == int(value) else value for value in found]


def _task(samples: float | None, batch: float | None, noise: float, power_law: str | None) -> LinearTask:
    from .. import proportional as theory

    spectrum = None
    if power_law is not None:
        found = _numbers("--power-law", power_law)
        if len(found) != 3 or not math.isfinite(found[2]) or found[2] != int(found[2]):
            fail(f"--power-law = {power_law!r} must be capacity,source,modes such as 1.5,0.5,100", 2)
        spectrum = theory.power_law(found[0], found[1], int(found[2]))
    if samples is not None and batch is not None:
        fail("--samples and --batch exclude each other: a fixed training set, or fresh samples in every step", 2)
    return theory.LinearTask(
        math.inf if samples is None else samples, math.inf if batch is None else batch, noise, spectrum=spectrum
    )


def _rates(text: str) -> NDArray[np.float64]:
    import numpy as np

    found = _numbers("--rates", text)
    if len(found) != 3 or not all(map(math.isfinite, found)) or found[2] != int(found[2]):
        fail(f"--rates = {text!r} must be lowest,highest,count such as 0.01,1,25", 2)
    low, high, count = found
    if not 0 < low < high or count < 3:
        fail(f"--rates = {text!r}: rates must be positive and increase, and there must be three or more", 2)
    return np.geomspace(low, high, int(count))


def _depth(text: str) -> float:
    (value,) = _numbers("--layers", text)[:1]
    return int(value) if math.isfinite(value) and value == int(value) else value


def _numbers(option: str, text: str) -> list[float]:
    try:
        found = [float(part.replace("∞", "inf")) for part in text.split(",")]
    except ValueError:
        fail(f"{option} = {text!r} must be numbers separated by commas", 2)
    if any(math.isnan(value) for value in found):
        fail(f"{option} = {text!r} must be numbers separated by commas", 2)
    return found


def _finite(network: LinearNetwork, over: str, values: list[float]) -> list[LinearNetwork]:
    """Networks that can be trained."""
    from dataclasses import replace

    finite = [value for value in values if math.isfinite(value)]
    if over == "width":
        return [replace(network, width=value) for value in finite]
    return [replace(network, hidden_layers=value) for value in finite]


def _check_simulation(network: LinearNetwork, task: LinearTask, dimension: int | None, networks: int) -> None:
    """Refuse before any work what could not be trained after it."""
    if dimension is None:
        return
    from ..base import check
    from ..proportional.simulation import Sizes

    check.integer("networks", networks, least=2)
    Sizes.of(network, task, check.integer("simulate", dimension, least=1))


def _check_files(output: Path | None, plot: Path | None, simulate: int | None, *, overwrite: bool) -> None:
    check_new(output, overwrite=overwrite)
    if output is not None and simulate is not None:
        check_new(_beside(output), overwrite=overwrite)
    check_figure(plot, overwrite=overwrite)


def _beside(output: Path) -> Path:
    """Where networks go."""
    return output.with_stem(f"{output.stem}-networks")


def _save(found: Dynamics | RateSweep, trained: Dynamics | RateSweep | None, output: Path | None) -> None:
    if output is None:
        return
    found.save(output)
    say(f"saved {output}")
    if trained is not None:
        trained.save(_beside(output))
        say(f"saved {_beside(output)}")
