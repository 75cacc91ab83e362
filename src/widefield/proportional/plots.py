"""Figures of the proportional limit. Functions draw into the axes that they are given (or new ones) and return them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..base.arrays import Floats
from ..base.drawing import COLOURS, style
from ..base.errors import InvalidInput
from ..base.renamed import former_names
from ..base.tables import number
from .drawing import FLOOR, key, legend, positive
from .plots_transfer import _plain_ticks, sweep_summary, transfer
from .result import Dynamics
from .setting import LinearNetwork, LinearTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["losses", "split", "summary", "sweep_summary", "transfer"]

__getattr__ = former_names(
    __name__,
    loss_plot="losses",
    split_plot="split",
    summary_plot="summary",
    transfer_plot="transfer",
    transfer_figure="sweep_summary",
)


PARTS = {
    "bias": "bias",
    "width_variance": "variance over networks",
    "data_variance": "variance over data sets",
    "noise": "label noise",
}
"""What the test loss is the sum of, in words."""

TIME = r"training time $\eta t$"


_DECADES = 6
"""How far below the test loss at the end parts of it are still of interest."""

_MARKS = 12
"""Most points of simulated networks on a curve."""


def losses(
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
        raise InvalidInput("losses needs at least one answer")
    runs = [] if simulated is None else [simulated] if isinstance(simulated, Dynamics) else list(simulated)
    names = list(labels) if labels is not None else _labels(dynamics)
    if len(names) != len(dynamics) or len(runs) > len(dynamics):
        raise InvalidInput(f"there are {len(dynamics)} curves, {len(names)} labels and {len(runs)} simulated ones")
    if any("test_loss_error" not in run.data for run in runs):
        raise InvalidInput("simulated has no errors: take answers of `simulate`")
    axes = _wide(axes)
    handles = [_curves(axes, one, _colour(k), names[k]) for k, one in enumerate(dynamics)]
    for k, run in enumerate(runs):
        _points(axes, run, _colour(k))
    _floor(axes, [one.test_loss for one in dynamics] + [one.train_loss for one in dynamics])
    axes.set(xlabel=TIME, ylabel="loss", yscale="log")
    _plain_ticks(axes.yaxis)
    keys = [*(h for h, name in zip(handles, names, strict=True) if name), *_keys(dynamics, runs)]
    legend(axes, keys)
    return axes


def split(dynamics: Dynamics, axes: Axes | None = None) -> Axes:
    """The test loss and the parts that it is the sum of, BP25 eq. (13); parts that are zero are left out."""
    if not dynamics.splits:
        raise InvalidInput("simulated networks do not split the loss: take an answer of `solve`")
    axes = _wide(axes)
    time, test = dynamics.data["time"].values, dynamics.test_loss
    handles = axes.plot(time, test, color="k", linewidth=2.2, label="test loss")
    for colour, (name, words) in zip(COLOURS, PARTS.items(), strict=False):
        part = np.where(np.isfinite(test), dynamics.data[name].values, np.nan)
        if np.nanmax(part) > FLOOR * test[0]:
            handles += axes.plot(time, positive(part), color=colour, label=words)
    axes.set(xlabel=TIME, ylabel="part of the test loss", yscale="log")
    least = max(0.5 * float(np.nanmin(test)) * 10.0**-_DECADES, FLOOR * float(test[0]))
    axes.set_ylim(bottom=max(least, axes.get_ylim()[0]))
    _plain_ticks(axes.yaxis)
    legend(axes, handles)
    return axes


def summary(dynamics: Dynamics, simulated: Dynamics | None = None) -> Figure:
    """Losses, beside them the parts of the test loss, which real networks do not tell."""
    if not dynamics.splits:
        axes = losses(dynamics)
        return cast("Figure", axes.figure)
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.2, 3.1), layout="constrained")
        losses(dynamics, simulated=simulated, axes=left)
        split(dynamics, right)
    return figure


def _wide(axes: Axes | None) -> Axes:
    """Axes with room for a legend beside them."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    with style():
        return plt.subplots(figsize=(5.4, 3.0), layout="constrained")[1]


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _same(dynamics: Dynamics) -> bool:
    """Whether training loss and test loss are one: all samples are fresh."""
    return math.isinf(dynamics.task.samples)


def _curves(axes: Axes, dynamics: Dynamics, colour: str, label: str) -> Any:
    time = dynamics.data["time"].values
    (line,) = axes.plot(time, positive(dynamics.test_loss), color=colour, label=label)
    if not _same(dynamics):
        axes.plot(time, positive(dynamics.train_loss), color=colour, linestyle="--")
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
        axes.errorbar(time, positive(mean), bars, fmt="o", color=colour, mfc=face, markersize=4, linewidth=1, zorder=3)


def _floor(axes: Axes, losses: Sequence[Floats]) -> None:
    """Keep rounding errors and explosions from taking all the room."""
    first = max(float(loss[0]) for loss in losses)
    values = np.concatenate([loss[np.isfinite(loss) & (loss > FLOOR * first)] for loss in losses])
    axes.set_ylim(0.6 * float(values.min()), min(1.6 * float(values.max()), 1e3 * first))


def _keys(dynamics: Sequence[Dynamics], runs: Sequence[Dynamics]) -> list[Any]:
    """What lines, dashes and points mean."""
    keys = []
    if not all(_same(one) for one in dynamics):
        keys += [key(linestyle="-", color="0.3", label="test"), key(linestyle="--", color="0.3", label="training")]
    elif runs:
        keys.append(key(linestyle="-", color="0.3", label="theory"))
    if runs:
        keys.append(key(marker="o", markersize=4, color="0.3", label="networks, ± 2 errors"))
    if any(one.diverged is not None for one in dynamics):
        keys.append(key(marker="x", color="0.3", label="diverges"))
    return keys


def _labels(dynamics: Sequence[Dynamics]) -> list[str]:
    """The fields in which networks and tasks differ; nothing for a single one."""
    told = [{**_network_words(one.network), **_task_words(one.task)} for one in dynamics]
    differing = [name for name in told[0] if len({table[name] for table in told}) > 1]
    return [", ".join(table[name] for name in differing if table[name]) for table in told]


def _network_words(network: LinearNetwork) -> dict[str, str]:
    widths = network.width if isinstance(network.width, tuple) else (network.width,)
    return {
        "layers": f"$L$ = {number(network.hidden_layers)}",
        "width": rf"$\nu$ = {', '.join(map(number, widths))}",
        "richness": f"richness {network.richness:g}",
        "parameterisation": network.parameterisation,
        "branch": "" if network.branch is None else rf"$\beta$ = {network.branch:g}",
        "scaled": r"$\beta \propto L^{-1/2}$" if network.depth_scaled else "",
        "centred": "centred" if network.centred else "",
    }


def _task_words(task: LinearTask) -> dict[str, str]:
    return {
        "samples": rf"$\alpha$ = {number(task.samples)}",
        "batch": rf"$\alpha_B$ = {number(task.batch_size)}",
        "noise": rf"$\sigma$ = {task.noise:g}",
    }
