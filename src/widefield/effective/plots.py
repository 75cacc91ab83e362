"""Figures of the effective theory. Every function draws into the axes that it is given (or new ones)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib import patheffects
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..plots import COLOURS, _axes, style
from .aspect_ratio import information_of_ratio
from .criticality import criticality
from .phases import PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .advice import Advice

Floats = NDArray[np.float64]


def phase_diagram_plot(diagram: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Draw log chi_perp at the fixed point over (C_W, C_b): blue ordered, red chaotic, grey without a fixed point.

    Stars are critical points, open ones unstable.
    """
    missing = {"perpendicular", "phase"} - set(diagram)
    if missing:
        raise InvalidInput(f"not a phase diagram: it lacks {', '.join(sorted(missing))}")
    axes = _axes(axes)
    x, y = diagram["weight_variance"].values, diagram["bias_variance"].values
    chi, phase = diagram["perpendicular"].values.T, diagram["phase"].values.T
    exploding = phase == PHASES.index("exploding")
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(exploding, np.nan, np.log(chi))
    axes.set_facecolor("0.8")
    finite = np.abs(log[np.isfinite(log)])
    limit = min(1.0, max(1e-3, float(finite.max()))) if finite.size else 1.0
    image = axes.pcolormesh(x, y, log, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="nearest", rasterized=True)
    axes.figure.colorbar(image, ax=axes, label=r"$\log\,\chi_\perp(K^\star)$", extend="both")
    if min(chi.shape) > 1 and np.nanmin(log) < 0 < np.nanmax(log):
        axes.contour(x, y, log, levels=[0.0], colors="k", linewidths=0.8)
    _mark_points(axes, diagram.attrs["activation"], x, y)
    _name_phases(axes, x, y, phase)
    axes.set(xlabel=r"$C_W$", ylabel=r"$C_b$", title=diagram.attrs["activation"])
    return axes


def advice_plot(advice: Advice) -> Figure:
    """Signals and gradients through the layers, their scatter over seeds, and the shape against the optimal one."""
    with style():
        figure, (sizes, spread, shape) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
        layers = np.arange(1, advice.depth + 1)
        sizes.plot(layers, advice.kernels / advice.kernels[0], color=COLOURS[0], label="signal, relative to layer 1")
        label = "gradient, relative to the last layer"
        sizes.plot(layers, advice.gradients, color=COLOURS[1], linestyle="--", label=label)
        smallest = min(float((advice.kernels / advice.kernels[0]).min()), float(advice.gradients.min()))
        sizes.set(xlabel="layer", ylabel="mean square", yscale="log", ylim=(min(0.5, 0.7 * smallest), None))
        sizes.legend(frameon=False, fontsize="small")
        spread.plot(layers, advice.fluctuations, color=COLOURS[0])
        spread.set(xlabel="layer", ylabel="relative scatter over seeds", ylim=(0, None))
        _shape_panel(shape, advice)
        name = f"{advice.activation}, {advice.depth} layers of {advice.width}"
        figure.suptitle(name + (f", skip connections of {advice.gamma:.2f}" if advice.gamma else ""))
        return figure


def _shape_panel(axes: Axes, advice: Advice) -> None:
    """Mutual information between two halves of the outputs against L / n, where its expansion makes sense."""
    best = advice.optimal_ratio
    rate = 4 / (20 + 3 * advice.outputs) / best
    ratios = np.linspace(0, 1.5 * best, 200)
    halves = (advice.outputs // 2, advice.outputs - advice.outputs // 2)
    axes.plot(ratios / best, [information_of_ratio(rate, r, halves, unit="bits") for r in ratios], color=COLOURS[0])
    axes.axvline(1, color="0.6", linewidth=1, linestyle="--", label=f"optimal, L/n = {best:.2g}")
    place = advice.ratio / best
    label = f"here, L/n = {advice.ratio:.2g}" + (" (outside)" if place > 1.5 else "")
    axes.axvline(min(place, 1.5), color=COLOURS[1], linewidth=1.5, label=label)
    top = 1.4 * information_of_ratio(rate, best, halves, unit="bits")
    axes.set(xlabel="(L/n) / optimal", ylabel="information of outputs, bits", ylim=(0, top), xlim=(0, 1.55))
    axes.legend(frameon=False, fontsize="small", loc="upper left")


def _name_phases(axes: Axes, x: Floats, y: Floats, phase: NDArray[np.int_]) -> None:
    """Write the name of every phase into its middle, where it is wide enough to hold it."""
    for name in ("ordered", "chaotic", "exploding"):
        inside = phase == PHASES.index(name)
        if not inside.any():
            continue
        row, column = np.median(np.argwhere(inside), axis=0).astype(int)
        if inside[row].mean() > 0.2:
            text = axes.text(x[column], y[row], name, ha="center", va="center", fontsize="small", color="0.15")
            text.set_path_effects([patheffects.withStroke(linewidth=3, foreground="w", alpha=0.8)])


def _mark_points(axes: Axes, activation: str, x: Floats, y: Floats) -> None:
    """Critical points inside the frame: filled if signals stay near them, open if not."""
    for point in criticality(activation).points:
        C_W, C_b = point.weight_variance, point.bias_variance
        if x.min() <= C_W <= x.max() and y.min() <= C_b <= y.max():
            face = COLOURS[4] if point.usable else "none"
            axes.plot(C_W, C_b, "*", markersize=11, markerfacecolor=face, markeredgecolor="k", clip_on=False, zorder=5)
