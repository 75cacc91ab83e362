"""`widefield proportional` and `widefield lr-transfer`: deep linear networks in the proportional limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from .linear_options import LinearOptions, numbers, whole
from .options import taking
from .terminal import check_answer, check_figure, check_new, console, fail, notes, save_figure, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..base.rate_curves import RateCurves
    from ..proportional import Dynamics, LinearNetwork, LinearTask, RateSweep

Result = TypeVar("Result", "Dynamics", "RateSweep")

_NEARLY_INFINITE = 16
"""A sweep whose smallest width N/D is larger has nothing to compare; somebody who asks for it means neurons."""

_OF_PROBLEMS = ("steps", "seeds", "output", "plot", "overwrite", "quiet")
"""Options of `lr-transfer` that a problem of any network has a use for."""

_SIMULATED_RATES = 9
"""About as many learning rates are tried with real networks."""


@taking(LinearOptions)
def proportional(
    options: LinearOptions,
    learning_rate: Annotated[float, typer.Option(help="eta.")],
    widths: Annotated[str | None, typer.Option(help="One width for every hidden layer, separated by commas.")] = None,
    long: Annotated[bool, typer.Option("--long", help="Many steps, extrapolated from fewer and larger ones.")] = False,
) -> None:
    """Losses of a deep linear network when width, data and dimension are all large. Exit code 1: it diverges."""
    from .. import proportional as theory
    from ..proportional import plots
    from ..proportional.transfer import remedy
    from . import proportional_tables as tables

    network, task, steps = _network(options, widths), options.task(), options.steps
    options.check([network], task)
    found, trained, stopped = (
        _solve(network, task, learning_rate, steps, long=long, progress=not options.quiet),
        None,
        None,
    )
    console.print(found.table())
    if options.simulate is not None and found.diverged is None:
        given: Any = {"dimension": options.simulate, "seeds": options.seeds, "seed": options.seed}
        given["progress"] = not options.quiet
        trained, stopped = _trained(lambda: theory.simulate(network, task, learning_rate, steps, **given))
        console.print(tables.of_networks(found, trained, options.seeds))
    options.save(found, trained)
    if options.plot is not None:
        save_figure(plots.summary(found, trained), options.plot)
    if stopped is not None:
        fail(stopped, 130)
    if found.diverged is not None:
        fail(f"{found.verdict}; {remedy(network, task, learning_rate, steps)}", 1)
    say(found.verdict)


@taking(LinearOptions, seeds=8, steps=None)
def lr_transfer(
    options: LinearOptions,
    values: Annotated[
        str,
        typer.Option(help="Widths N/D (N with --power-law or a problem) or depths L, by commas; the last may be inf."),
    ],
    problem: Annotated[
        Path | None, typer.Argument(help="A problem in TOML, of any network; a deep linear one if not given.")
    ] = None,
    over: Annotated[str, typer.Option(help="What changes: width or depth.")] = "width",
    learning_rates: Annotated[str | None, typer.Option(help="lowest,highest,count; found out if not given.")] = None,
) -> None:
    """Whether the best learning rate of one width or depth is that of another. Exit code 1: no rate works.

    Of a problem, final training losses of real networks of these widths N and of infinite width; the problem says
    which network, data and parameterisation. Without one, test losses of deep linear networks.
    """
    grid = None if learning_rates is None else _rates(learning_rates)
    if problem is not None:
        return _of_problem(problem, options, values, over, grid)
    if options.steps is None:
        fail("--steps is needed: the number of steps of gradient descent", 2)
    return _of_linear_network(options, over, values, grid)


def _of_problem(path: Path, options: LinearOptions, values: str, over: str, grid: NDArray[np.float64] | None) -> None:
    """Losses of one problem over learning rates, at several widths."""
    from ..asking.best_rates import best_rate
    from .compare import general_problem

    if over != "width":
        fail(f"--over {over}: of a problem the width changes; its depth is `hidden_layers` of the section [network]", 2)
    described, widths = general_problem(path), numbers("--values", values)
    unused = [name for name, value in vars(options).items() if name not in _OF_PROBLEMS and value != _default(name)]
    if unused:
        fail(f"--{unused[0].replace('_', '-')} belongs to deep linear networks; {path} describes all of the problem", 2)
    check_answer(options.output)
    check_new(options.output, overwrite=options.overwrite)
    check_figure(options.plot, overwrite=options.overwrite)
    given: Any = {"steps": options.steps, "repetitions": options.seeds, "progress": not options.quiet}
    found = best_rate(described, widths, learning_rates=grid, **given)
    console.print(found.table())
    options.save(found, None)
    if options.plot is not None:
        save_figure(found.plot(), options.plot)
    _judge(found)


def _default(name: str) -> Any:
    """Of an option of deep linear networks."""
    return next(field.default for field in fields(LinearOptions) if field.name == name)


def _of_linear_network(options: LinearOptions, over: str, values: str, grid: NDArray[np.float64] | None) -> None:
    """Losses of deep linear networks in the proportional limit."""
    from .. import proportional as theory
    from ..proportional import plots
    from . import proportional_tables as tables

    varied, steps = _varied(options, over, values), options.steps
    depth, width = (varied[0], options.width) if over == "depth" else (options.depth, 1.0)
    network, task = options.network(depth, width), options.task()
    trainable = _finite(network, over, varied)
    options.check(trainable, task)
    if options.simulate is not None and not trainable:
        fail(f"--simulate needs a finite {over} in --values", 2)
    sweep, trained, stopped = _sweep(network, task, grid, steps, over, varied, progress=not options.quiet), None, None
    console.print(sweep.table())
    if options.simulate is not None:
        given: Any = {"dimension": options.simulate, "seeds": options.seeds, "seed": options.seed}
        given |= {
            "progress": not options.quiet,
            "over": over,
            "values": [value for value in varied if math.isfinite(value)],
        }
        some = sweep.learning_rates[:: max(1, round(len(sweep.learning_rates) / _SIMULATED_RATES))]
        trained, stopped = _trained(lambda: theory.simulated_sweep(network, task, some, steps, **given))
        console.print(tables.of_simulated_rates(sweep, trained, options.seeds))
    options.save(sweep, trained)
    if options.plot is not None:
        save_figure(plots.sweep_summary(sweep, trained), options.plot)
    if stopped is not None:
        fail(stopped, 130)
    _judge(sweep)


def _judge(sweep: RateCurves) -> None:
    """Whether the best rate transfers, unless none works."""
    if all(math.isnan(largest) for largest in sweep.largest):
        low, high = sweep.learning_rates[[0, -1]]
        fail(f"training diverges at all rates from {low:g} to {high:g}: try smaller ones", 1)
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

    with notes():
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

    with notes():
        if rates is None:
            rates = suggested_rates(network, task, steps, over=over, values=values, progress=progress)
        return lr_sweep(network, task, rates, steps, over=over, values=values, progress=progress)


def _network(options: LinearOptions, widths: str | None) -> LinearNetwork:
    """With one width for all layers, or one for each."""
    if widths is None:
        return options.network(options.depth, options.width)
    if options.width is not None:
        fail("--width and --widths exclude each other: give one of them", 2)
    several = tuple(numbers("--widths", widths))
    return options.network(options.depth if options.hidden_layers else len(several), several)


def _varied(options: LinearOptions, over: str, values: str) -> list[float]:
    """Widths or depths."""
    from ..base import check

    check.choice("--over", over, ("width", "depth"))
    fixed = {"width": options.width, "depth": options.hidden_layers}[over]
    if fixed is not None:
        option = "--width" if over == "width" else "--hidden-layers"
        fail(f"--over {over} takes every {over} from --values: leave {option} out", 2)
    found = numbers("--values", values)
    if over == "depth":
        return [whole(value) for value in found]
    _check_unit(values, [value for value in found if math.isfinite(value)], neurons=options.power_law is not None)
    return found


def _check_unit(text: str, widths: list[float], *, neurons: bool) -> None:
    """Refuse widths that are numbers of neurons where ratios are asked for, and the other way round."""
    if neurons and any(0 < width < 1 for width in widths):
        fail(f"--values {text}: with --power-law widths are numbers of neurons N, not N/D: give 1 or more", 2)
    if not neurons and widths and min(widths) >= _NEARLY_INFINITE:
        fail(
            f"--values {text}: widths are over the input dimension, N/D, and from N/D = {_NEARLY_INFINITE} on all are "
            "nearly infinite: divide numbers of neurons by D, as in 0.5,1,2,4,inf (with --power-law widths are N)",
            2,
        )


def _rates(text: str) -> NDArray[np.float64]:
    import numpy as np

    found = numbers("--learning-rates", text)
    if len(found) != 3 or not all(map(math.isfinite, found)) or found[2] != int(found[2]):
        fail(f"--learning-rates = {text!r} must be lowest,highest,count such as 0.01,1,25", 2)
    low, high, count = found
    if not 0 < low < high or count < 3:
        fail(f"--learning-rates = {text!r}: rates must be positive and increase, and there must be three or more", 2)
    return np.geomspace(low, high, int(count))


def _finite(network: LinearNetwork, over: str, values: list[float]) -> list[LinearNetwork]:
    """Networks that can be trained."""
    from dataclasses import replace

    finite = [value for value in values if math.isfinite(value)]
    if over == "width":
        return [replace(network, width=value) for value in finite]
    return [replace(network, hidden_layers=value) for value in finite]
