"""Figures of learning-rate sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.rate_curves import RateCurves
from ..base.tables import number
from .drawing import FLOOR, key, legend, pair, positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_TITLE = 100
"""Letters that fit above two panels."""


def transfer(
    sweep: RateCurves, simulated: RateCurves | None = None, axes: tuple[Axes, Axes] | None = None
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
    left, right = pair()[1] if axes is None else axes
    colours = _sequence(len(sweep.values))
    handles = _rate_curves(left, sweep, colours)
    _optima(right, sweep, colours)
    keys = [
        key(marker="*", markersize=9, color="0.2", linestyle="-", label="best rate"),
        key(marker="v", color="0.55", linestyle="--", label="largest that works"),
    ]
    if simulated is not None:
        _rate_points(left, sweep, simulated, colours)
        keys.append(key(marker="o", markersize=4, color="0.2", label="networks, ± 2 errors"))
    left.figure.suptitle(_lines(sweep.verdict.replace("inf", "∞")), fontsize=9)
    legend(right, [*handles, *keys], title=sweep.symbol)
    return left, right


def sweep_summary(sweep: RateCurves, simulated: RateCurves | None = None) -> Figure:
    """`transfer` in a figure of its own."""
    figure, axes = pair()
    transfer(sweep, simulated, axes)
    return figure


def _lines(verdict: str) -> str:
    """A line for each part, two if it is long."""
    parts = verdict.split("; ")
    return ";\n".join(part if len(part) <= _TITLE else ",\n".join(part.rsplit(", ", 1)) for part in parts)


def _sequence(count: int) -> list[Any]:
    """Colours from light to dark, so that order can be seen."""
    import matplotlib as mpl

    return list(mpl.colormaps["viridis_r"](np.linspace(0.08, 1.0, count)))


def _rate_curves(axes: Axes, sweep: RateCurves, colours: Sequence[Any]) -> list[Any]:
    losses, start = sweep.data["loss"].values, sweep.data["initial_loss"].values
    lowest = FLOOR * float(start.max())
    if np.isfinite(losses).any():
        lowest = max(float(np.nanmin(losses)), lowest)
    star: Any = {"markersize": 9, "mec": "k", "mew": 0.4, "zorder": 4, "clip_on": False}
    handles = []
    rows = zip(losses, sweep.loss_errors, sweep.optimal, sweep.values, colours, strict=True)
    for row, error, best, value, colour in rows:
        handles += axes.plot(sweep.learning_rates, positive(row), color=colour, label=number(value))
        if (error > 0).any():  # 95%
            below, above = np.maximum(row - 2 * error, 0.1 * lowest), row + 2 * error
            axes.fill_between(sweep.learning_rates, below, above, color=colour, alpha=0.2, linewidth=0)
        if np.isfinite(row).any():
            axes.plot(best, max(float(np.nanmin(row)), 0.4 * lowest), "*", color=colour, **star)
    axes.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta$", ylabel=sweep.quantity)
    axes.set_ylim(0.4 * lowest, 3 * float(start.max()))
    _plain_ticks(axes.xaxis)
    return handles


def _rate_points(axes: Axes, sweep: RateCurves, simulated: RateCurves, colours: Sequence[Any]) -> None:
    for value, row, error in zip(
        simulated.values, simulated.data["loss"].values, simulated.data["loss_error"].values, strict=True
    ):
        place = np.flatnonzero(sweep.values == value)
        if not len(place):
            raise InvalidInput(f"simulated has {sweep.over} = {value:g}, which the sweep has not")
        bars = np.stack([np.minimum(2 * error, row * (1 - 1e-3)), 2 * error])
        axes.errorbar(
            simulated.learning_rates,
            row,
            bars,
            fmt="o",
            color=colours[place[0]],
            markersize=3.5,
            linewidth=1,
            mec="k",
            mew=0.3,
        )


def _optima(axes: Axes, sweep: RateCurves, colours: Sequence[Any]) -> None:
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
    axes.set(xscale="log", yscale="log", xlabel=sweep.symbol, ylabel=r"learning rate $\eta$")
    axes.minorticks_off()
    axes.set_xticks(places, [number(value) for value in sweep.values])
    _plain_ticks(axes.yaxis)


def _plain_ticks(axis: Axis) -> None:
    """0.05 rather than 5 x 10^-2, if all are within a few factors of ten."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low > 300:
        return
    few = (1.0, 3.0) if high / low > 60 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=few if high / low > 5 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def _places(values: Floats) -> Floats:
    """Where widths are drawn: themselves, and infinity as far beyond the last as is usual between them."""
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values
    step = float(finite[-1] / finite[-2]) if len(finite) > 1 else 2.0
    return np.append(finite, (finite[-1] if len(finite) else 1.0) * max(step, 2.0))
