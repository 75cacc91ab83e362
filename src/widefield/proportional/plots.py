"""Figures of the proportional limit. Functions draw into the axes that they are given (or new ones) and return them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..plots import COLOURS, style
from .dynamics import Dynamics
from .setting import LinearNetwork, LinearTask
from .transfer import RateSweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

PARTS = {
    "bias": "bias",
    "width_variance": "variance over networks",
    "data_variance": "variance over data sets",
    "noise": "label noise",
}
"""What the test loss is the sum of, in words."""

TIME = r"training time $\eta t$"

_FLOOR = 1e-12
"""Fraction of the first loss below which nothing is drawn: rounding."""

_DECADES = 6
"""How far below the test loss at the end parts of it are still of interest."""

_TITLE = 100
"""Letters that fit above two panels."""

_MARKS = 12
"""Most points of simulated networks on a curve."""


def loss_plot(
    *dynamics: Dynamics,
    simulated: Dynamics | Sequence[Dynamics] | None = None,
    labels: Sequence[str] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Test loss (lines) and training loss (dashed) over time; means of simulated networks with two standard errors.

    Args:
        dynamics: answers of `solve`, `solve_long` or `gradient_flow`.
        simulated: answers of `simulate`, for the first ones of `dynamics`, in the same order.
        labels: for the legend; what the networks and tasks differ in if there are none.
        axes: to draw into.
    """
    if not dynamics:
        raise InvalidInput("loss_plot needs at least one answer")
    runs = [] if simulated is None else [simulated] if isinstance(simulated, Dynamics) else list(simulated)
    names = list(labels) if labels is not None else _labels(dynamics)
    if len(names) != len(dynamics) or len(runs) > len(dynamics):
        raise InvalidInput(f"there are {len(dynamics)} curves, {len(names)} labels and {len(runs)} simulated ones")
    if any("test_loss_error" not in run.data for run in runs):
        raise InvalidInput("simulated has no errors: take answers of `simulate`")
    axes = _wide(axes)
    handles = [_losses(axes, one, _colour(k), names[k]) for k, one in enumerate(dynamics)]
    for k, run in enumerate(runs):
        _points(axes, run, _colour(k))
    _floor(axes, [one.test_loss for one in dynamics] + [one.train_loss for one in dynamics])
    axes.set(xlabel=TIME, ylabel="loss", yscale="log")
    _plain_ticks(axes.yaxis)
    keys = [*(h for h, name in zip(handles, names, strict=True) if name), *_keys(dynamics, runs)]
    _legend(axes, keys)
    return axes


def split_plot(dynamics: Dynamics, axes: Axes | None = None) -> Axes:
    """The test loss and the parts that it is the sum of, BP25 eq. (13); parts that are zero are left out."""
    missing = [name for name in PARTS if name not in dynamics.data]
    if missing:
        raise InvalidInput("simulated networks do not split the loss: take an answer of `solve`")
    axes = _wide(axes)
    time, test = dynamics.data["time"].values, dynamics.test_loss
    handles = axes.plot(time, test, color="k", linewidth=2.2, label="test loss")
    for colour, (name, words) in zip(COLOURS, PARTS.items(), strict=False):
        part = np.where(np.isfinite(test), dynamics.data[name].values, np.nan)
        if np.nanmax(part) > _FLOOR * test[0]:
            handles += axes.plot(time, _positive(part), color=colour, label=words)
    axes.set(xlabel=TIME, ylabel="part of the test loss", yscale="log")
    least = max(0.5 * float(np.nanmin(test)) * 10.0**-_DECADES, _FLOOR * float(test[0]))
    axes.set_ylim(bottom=max(least, axes.get_ylim()[0]))
    _plain_ticks(axes.yaxis)
    _legend(axes, handles)
    return axes


def transfer_plot(
    sweep: RateSweep, simulated: RateSweep | None = None, axes: tuple[Axes, Axes] | None = None
) -> tuple[Axes, Axes]:
    """Loss over learning rates, and the best and largest working rates over widths or depths; the title is the verdict.

    Args:
        sweep: of `lr_sweep`.
        simulated: of `simulated_sweep`, any of the same widths or depths: points with two standard errors.
        axes: a pair to draw into, alone in its figure or subfigure, whose title is set.
    """
    if simulated is not None and simulated.over != sweep.over:
        raise InvalidInput(f"sweep is over {sweep.over}, simulated over {simulated.over}")
    if simulated is not None and "loss_error" not in simulated.data:
        raise InvalidInput("simulated has no errors: take an answer of `simulated_sweep`")
    left, right = _pair()[1] if axes is None else axes
    colours = _sequence(len(sweep.values))
    handles = _rate_curves(left, sweep, colours)
    _optima(right, sweep, colours)
    keys = [
        _key(marker="*", markersize=9, color="0.2", linestyle="-", label="best rate"),
        _key(marker="v", color="0.55", linestyle="--", label="largest that works"),
    ]
    if simulated is not None:
        _rate_points(left, sweep, simulated, colours)
        keys.append(_key(marker="o", markersize=4, color="0.2", label="networks, ± 2 errors"))
    left.figure.suptitle(_lines(sweep.verdict.replace("inf", "∞")), fontsize=9)
    _legend(right, [*handles, *keys], title=_symbol(sweep))
    return left, right


def summary_plot(dynamics: Dynamics, simulated: Dynamics | None = None) -> Figure:
    """Losses, beside them the parts of the test loss."""
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.2, 3.1), layout="constrained")
        loss_plot(dynamics, simulated=simulated, axes=left)
        split_plot(dynamics, right)
    return figure


def transfer_figure(sweep: RateSweep, simulated: RateSweep | None = None) -> Figure:
    """`transfer_plot` in a figure of its own."""
    figure, axes = _pair()
    transfer_plot(sweep, simulated, axes)
    return figure


def _lines(verdict: str) -> str:
    """In two lines if it is long."""
    return verdict if len(verdict) <= _TITLE else ",\n".join(verdict.rsplit(", ", 1))


def _wide(axes: Axes | None) -> Axes:
    """Axes with room for a legend beside them."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    with style():
        return plt.subplots(figsize=(5.4, 3.0), layout="constrained")[1]


def _pair() -> tuple[Figure, tuple[Axes, Axes]]:
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.1), layout="constrained")
    return figure, (left, right)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _key(**options: Any) -> Any:
    """An entry of a legend that is no curve."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "", "color": "none", **options})


def _legend(axes: Axes, handles: Sequence[Any], title: str | None = None) -> None:
    """Beside the axes, never on curves."""
    place: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "alignment": "left"}
    axes.legend(handles=list(handles), title=title, fontsize="small", title_fontsize="small", frameon=False, **place)


def _positive(values: Floats) -> Floats:
    """Without what a logarithm cannot show."""
    return np.where(values > 0, values, np.nan)


def _same(dynamics: Dynamics) -> bool:
    """Whether training loss and test loss are one: all samples are fresh."""
    return math.isinf(dynamics.task.samples)


def _losses(axes: Axes, dynamics: Dynamics, colour: str, label: str) -> Any:
    time = dynamics.data["time"].values
    (line,) = axes.plot(time, _positive(dynamics.test_loss), color=colour, label=label)
    if not _same(dynamics):
        axes.plot(time, _positive(dynamics.train_loss), color=colour, linestyle="--")
    if dynamics.diverged is not None:
        last = max(0, int(np.isfinite(dynamics.test_loss).sum()) - 1)
        axes.plot(time[last], dynamics.test_loss[last], "x", color=colour, markersize=7, clip_on=False)
    return line


def _points(axes: Axes, run: Dynamics, colour: str) -> None:
    """At some times, with two standard errors; training losses open."""
    chosen = np.unique(np.linspace(0, len(run.test_loss) - 1, _MARKS).round().astype(int))
    time = run.data["time"].values[chosen]
    for name, face in (("test_loss", colour), ("train_loss", "w")):
        if name == "train_loss" and _same(run):
            continue
        mean, error = run.data[name].values[chosen], run.data[f"{name}_error"].values[chosen]
        bars = np.stack([np.minimum(2 * error, mean * (1 - 1e-3)), 2 * error])
        axes.errorbar(time, _positive(mean), bars, fmt="o", color=colour, mfc=face, markersize=4, linewidth=1, zorder=3)


def _floor(axes: Axes, losses: Sequence[Floats]) -> None:
    """Keep rounding errors and explosions from taking all the room."""
    first = max(float(loss[0]) for loss in losses)
    values = np.concatenate([loss[np.isfinite(loss) & (loss > _FLOOR * first)] for loss in losses])
    axes.set_ylim(0.6 * float(values.min()), min(1.6 * float(values.max()), 1e3 * first))


def _keys(dynamics: Sequence[Dynamics], runs: Sequence[Dynamics]) -> list[Any]:
    """What lines, dashes and points mean."""
    keys = []
    if not all(_same(one) for one in dynamics):
        keys += [_key(linestyle="-", color="0.3", label="test"), _key(linestyle="--", color="0.3", label="training")]
    elif runs:
        keys.append(_key(linestyle="-", color="0.3", label="theory"))
    if runs:
        keys.append(_key(marker="o", markersize=4, color="0.3", label="networks, ± 2 errors"))
    if any(one.diverged is not None for one in dynamics):
        keys.append(_key(marker="x", color="0.3", label="diverges"))
    return keys


def _labels(dynamics: Sequence[Dynamics]) -> list[str]:
    """The fields in which networks and tasks differ; nothing for a single one."""
    told = [{**_network_words(one.network), **_task_words(one.task)} for one in dynamics]
    differing = [name for name in told[0] if len({table[name] for table in told}) > 1]
    return [", ".join(table[name] for name in differing if table[name]) for table in told]


def _network_words(network: LinearNetwork) -> dict[str, str]:
    widths = network.width if isinstance(network.width, tuple) else (network.width,)
    return {
        "layers": f"$L$ = {_number(network.hidden_layers)}",
        "width": rf"$\nu$ = {', '.join(map(_number, widths))}",
        "richness": f"richness {network.richness:g}",
        "parameterisation": network.parameterisation,
        "branch": "" if network.branch is None else rf"$\beta$ = {network.branch:g}",
        "scaled": r"$\beta \propto L^{-1/2}$" if network.depth_scaled else "",
        "centred": "centred" if network.centred else "",
    }


def _task_words(task: LinearTask) -> dict[str, str]:
    return {
        "samples": rf"$\alpha$ = {_number(task.samples)}",
        "batch": rf"$\alpha_B$ = {_number(task.batch)}",
        "noise": rf"$\sigma$ = {task.noise:g}",
    }


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:g}"


def _symbol(sweep: RateSweep) -> str:
    """What is varied, and in which units."""
    if sweep.over == "depth":
        return "hidden layers $L$"
    return r"width $\nu = N/D$" if sweep.task.spectrum is None else "width $N$"


def _sequence(count: int) -> list[Any]:
    """Colours from light to dark, so that order can be seen."""
    import matplotlib as mpl

    return list(mpl.colormaps["viridis_r"](np.linspace(0.08, 1.0, count)))


def _rate_curves(axes: Axes, sweep: RateSweep, colours: Sequence[Any]) -> list[Any]:
    losses, start = sweep.data["loss"].values, sweep.data["initial_loss"].values
    lowest = _FLOOR * float(start.max())
    if np.isfinite(losses).any():
        lowest = max(float(np.nanmin(losses)), lowest)
    star: Any = {"markersize": 9, "mec": "k", "mew": 0.4, "zorder": 4, "clip_on": False}
    handles = []
    for row, best, value, colour in zip(losses, sweep.optimal, sweep.values, colours, strict=True):
        handles += axes.plot(sweep.rates, _positive(row), color=colour, label=_number(value))
        if np.isfinite(row).any():
            axes.plot(best, max(float(np.nanmin(row)), 0.4 * lowest), "*", color=colour, **star)
    axes.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta$", ylabel="test loss after training")
    axes.set_ylim(0.4 * lowest, 3 * float(start.max()))
    _plain_ticks(axes.xaxis)
    return handles


def _rate_points(axes: Axes, sweep: RateSweep, simulated: RateSweep, colours: Sequence[Any]) -> None:
    for value, row, error in zip(
        simulated.values, simulated.data["loss"].values, simulated.data["loss_error"].values, strict=True
    ):
        place = np.flatnonzero(sweep.values == value)
        if not len(place):
            raise InvalidInput(f"simulated has {sweep.over} = {value:g}, which the sweep has not")
        bars = np.stack([np.minimum(2 * error, row * (1 - 1e-3)), 2 * error])
        axes.errorbar(
            simulated.rates, row, bars, fmt="o", color=colours[place[0]], markersize=3.5, linewidth=1, mec="k", mew=0.3
        )


def _optima(axes: Axes, sweep: RateSweep, colours: Sequence[Any]) -> None:
    """Best and largest working rates; infinity has a place of its own at the end."""
    places = _places(sweep.values)
    finite, optimal = np.isfinite(sweep.values), sweep.optimal
    for rates, dashes, shade in ((optimal, "-", "0.2"), (sweep.largest, "--", "0.55")):
        axes.plot(places[finite], rates[finite], dashes, color=shade, linewidth=1)
        if not finite.all():
            axes.plot(places[-2:], rates[-2:], ":", color=shade, linewidth=1)
    for place, best, largest, colour in zip(places, optimal, sweep.largest, colours, strict=True):
        axes.plot(place, best, "*", color=colour, markersize=9, mec="k", mew=0.4)
        axes.plot(place, largest, "v", color=colour, markersize=5, mec="0.4", mew=0.4)
    axes.set(xscale="log", yscale="log", xlabel=_symbol(sweep), ylabel=r"learning rate $\eta$")
    axes.minorticks_off()
    axes.set_xticks(places, [_number(value) for value in sweep.values])
    _plain_ticks(axes.yaxis)


def _plain_ticks(axis: Axis) -> None:
    """0.05 rather than 5 x 10^-2, if all are within a few factors of ten."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low > 300:
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 5 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def _places(values: Floats) -> Floats:
    """Where widths are drawn: themselves, and infinity as far beyond the last as is usual between them."""
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values
    step = float(finite[-1] / finite[-2]) if len(finite) > 1 else 2.0
    return np.append(finite, (finite[-1] if len(finite) else 1.0) * max(step, 2.0))
