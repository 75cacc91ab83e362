"""Figures of the effective theory. Every function draws into the axes that it is given (or new ones)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib import patheffects
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..plots import COLOURS, _axes
from .criticality import criticality
from .phases import PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
