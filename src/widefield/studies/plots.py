"""Figures of a study: one for every question that has curves."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..base.drawing import COLOURS, style
from ..base.result import Result
from .answers import Answer
from .judging import over_splits
from .plan import TEST_SHARE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOSS = "loss / loss of the mean (1 − R²)"


def figure(answer: Answer) -> Figure | None:
    """What belongs to an answer; None if there is nothing to draw."""
    drawn = {
        "rate": _rate,
        "baselines": _baselines,
        "richness": _richness,
        "depth": _depth,
        "width": _width,
        "rule": _rule,
    }
    return drawn[answer.question](answer.data) if answer.question in drawn else None


def part(kept: Result) -> Figure:
    """Every variable of a part over its last axis, the mean over all others."""
    import matplotlib.pyplot as plt

    names = [name for name, value in kept.data.data_vars.items() if value.ndim and value.dtype.kind in "fiu"]
    with style():
        drawn, panels = plt.subplots(1, max(len(names), 1), figsize=(3.2 * max(len(names), 1), 2.6), squeeze=False)
        for axes, name in zip(panels[0], names, strict=False):
            value = kept.data[name]
            mean = value.mean(value.dims[:-1])
            axes.plot(np.arange(mean.size), mean.values, "o-", ms=3, color=COLOURS[0])
            axes.set(xlabel=str(value.dims[-1]), title=str(name))
        drawn.set_layout_engine("constrained")
    return drawn


def png(drawn: Figure) -> bytes:
    """The figure as a file."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=160)
    plt.close(drawn)
    return buffer.getvalue()


def _new(panels: int) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    with style():
        made, axes = plt.subplots(1, panels, figsize=(3.4 * panels, 2.8), layout="constrained", squeeze=False)
    return made, list(axes[0])


def _rate(data: xr.Dataset) -> Figure:
    made, (axes,) = _new(1)
    with style():
        start = float(data["initial_loss"])
        loss, error = data["loss"].values / start, np.nan_to_num(data["loss_error"].values) / start
        axes.errorbar(data["rate"].values, loss, error, marker="o", markersize=4, color=COLOURS[0])
        axes.axvline(data.attrs["limit"], color=COLOURS[1], linestyle="--", label="largest that trains")
        axes.axvline(data.attrs["suggested"], color=COLOURS[2], linestyle=":", label="suggested")
        axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="training loss, end / start")
        axes.minorticks_off()
        axes.set_xticks(data["rate"].values[::2], [f"{rate:.2g}" for rate in data["rate"].values[::2]])
        low, high = axes.get_ylim()
        _few_ticks(axes, low, high)
        axes.legend(fontsize=7)
    return made


def _baselines(data: xr.Dataset) -> Figure:
    made, (axes,) = _new(1)
    with style():
        for place in range(data.sizes["machine"]):
            _point(axes, place, data["test_loss"].values[place], COLOURS[0])
        axes.set_xticks(range(data.sizes["machine"]), [_broken(str(name)) for name in data["machine"].values])
        axes.set(ylabel=f"test {_LOSS}", xlim=(-0.5, data.sizes["machine"] - 0.5))
        axes.set_ylim(bottom=0)
    return made


def _richness(data: xr.Dataset) -> Figure:
    made, (losses, curves, kernels) = _new(3)
    values = data["richness"].values
    places = np.arange(len(values))
    words = ["lazy\nlimit" if value == 0 else f"{value:g}" for value in values]
    with style():
        _losses(losses, data, words)
        losses.set_xlabel("richness γ₀")
        _curves(curves, data, ["lazy limit" if value == 0 else f"γ₀ = {value:g}" for value in values])
        for name, colour, label in (("ntk", COLOURS[0], "tangent kernel"), ("feature_kernel", COLOURS[1], "features")):
            for end, marker, word in (("before", "o", "before"), ("after", "s", "after")):
                mean, error = (data[f"{name}_alignment_{end}{what}"].values for what in ("", "_error"))
                filled = colour if end == "after" else "white"
                kernels.errorbar(
                    places, mean, error, color=colour, marker=marker, markersize=4, markerfacecolor=filled,
                    linestyle="-" if end == "after" else ":", label=f"{label}, {word}",
                )  # fmt: skip
        kernels.set_xticks(places, words)
        kernels.set(xlabel="richness γ₀", ylabel="alignment with the targets")
        low, high = kernels.get_ylim()
        kernels.set_ylim(low, high + 0.45 * (high - low))  # room for the legend
        kernels.legend(fontsize=7, ncols=2, loc="upper center", columnspacing=1.0)
    return made


def _depth(data: xr.Dataset) -> Figure:
    made, (losses, curves) = _new(2)
    with style():
        words = [str(value) for value in data["hidden_layers"].values]
        _losses(losses, data, words)
        losses.set_xlabel("hidden layers")
        _curves(curves, data, [f"{word} layer{'' if word == '1' else 's'}" for word in words])
    return made


def _rule(data: xr.Dataset) -> Figure:
    made, (losses, curves) = _new(2)
    with style():
        words = [str(value) for value in data["rule"].values]
        _losses(losses, data, [_broken(word.replace("-", " ")) for word in words])
        _curves(curves, data, words)
    return made


def _width(data: xr.Dataset) -> Figure:
    made, (losses, scatters) = _new(2)
    widths = data["width"].values
    with style():
        for place, value in enumerate(widths):
            _point(losses, value, data["test_loss"].values[place], COLOURS[0])
            _point(scatters, value, 100 * data["scatter"].values[place], COLOURS[0])
        limit = data.attrs["infinite_width_loss"]
        losses.axhspan(
            0.95 * limit, 1.05 * limit, color=COLOURS[2], alpha=0.2, linewidth=0, label="infinite width ± 5%"
        )
        losses.axhline(limit, color=COLOURS[2], linewidth=1)
        losses.set(xscale="log", xlabel="width", ylabel=f"test {_LOSS}")
        enough = data.attrs["output_width"]
        reach = np.geomspace(widths[0], (max(widths[-1], enough) if np.isfinite(enough) else widths[-1]) * 1.2, 50)
        if np.isfinite(enough):
            law = 5 * np.sqrt(enough / reach)
            scatters.plot(reach, law, color=COLOURS[0], linewidth=1, label="networks, ∝ 1/√width")
        if data.attrs["theory"] > 0:
            lazy = 5 * np.sqrt(data.attrs["theory"] / reach)
            scatters.plot(
                reach,
                lazy,
                color=COLOURS[1],
                linestyle="--",
                label=f"fluctuations, {int(data.attrs['theory_samples'])} samples alone (lazy theory)",
            )
        scatters.axhline(5, color=COLOURS[2], linewidth=1, linestyle=":", label="5%")
        scatters.set(xscale="log", yscale="log", xlabel="width", ylabel="scatter between networks (%)")
        for axes in (losses, scatters):
            axes.set_xticks(widths, [str(value) for value in widths], minor=False)
            axes.minorticks_off()
            axes.legend(fontsize=7)
    return made


def _few_ticks(axes: Axes, low: float, high: float) -> None:
    """Three plain numbers on a logarithmic axis, also where it has less than a decade."""
    places = np.geomspace(low, high, 5)[1:-1]
    axes.set_yticks(places, [f"{place:.2g}" for place in places])


def _losses(axes: Axes, data: xr.Dataset, words: list[str]) -> None:
    """Test and train losses of all choices, with error bars over splits."""
    for place in range(len(words)):
        _point(axes, place, data["test_loss"].values[place], COLOURS[0], "test" if place == 0 else None)
        _point(axes, place, data["train_loss"].values[place], COLOURS[1], "train" if place == 0 else None)
    axes.set_xticks(range(len(words)), words)
    axes.set_ylabel(_LOSS)
    axes.set_xlim(-0.5, len(words) - 0.5)
    axes.set_ylim(bottom=0)
    axes.legend()


def _curves(axes: Axes, data: xr.Dataset, labels: list[str]) -> None:
    """Test losses over steps, means over splits."""
    for place, label in enumerate(labels):
        colour = COLOURS[place % len(COLOURS)]
        curve = data["test_curve"].values[place].mean(axis=0)
        axes.plot(np.maximum(data["step"].values, 0.7), curve, color=colour, label=label)
        stop = int(data["stopping_step"].values[place])
        nearest = int(np.argmin(np.abs(data["step"].values - stop)))
        axes.plot([max(stop, 0.7)], [curve[nearest]], color=colour, marker="o", markersize=4, linestyle="none")
    low, high = np.nanmin(data["test_curve"].values.mean(axis=1)), 1.3
    axes.set(xscale="log", xlabel="step (dot: where training stops)", ylabel=f"test {_LOSS}")
    axes.set_ylim(max(0.0, 0.8 * low), high)
    axes.legend(fontsize=7)


def _point(axes: Axes, x: float, values: np.ndarray, colour: str, label: str | None = None) -> None:
    """A mean with its error bar, and the splits behind it."""
    found = over_splits(values, TEST_SHARE)
    axes.plot([x] * len(values), values, ".", color=colour, alpha=0.3, markersize=3)
    axes.errorbar([x], [found.mean], [np.nan_to_num(found.error)], marker="o", markersize=4, color=colour, label=label)


def _broken(words: str) -> str:
    """In short lines."""
    return words.replace(" (", "\n(").replace(" ", "\n", 1)
