"""Figures. Every function draws into the axes that it is given (or new ones) and returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..base.drawing import COLOURS, axes_or_new, style
from ..base.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .trajectory import Trajectory


def curve(trajectory: Trajectory, name: str, axes: Axes | None = None, **options: Any) -> Axes:
    """A variable over time: the mean over seeds, and a band of one standard error where there is one."""
    axes = axes_or_new(axes)
    mean, error = trajectory.mean(name), trajectory.standard_error(name)
    if mean.dims != ("time",):
        raise InvalidInput(f"{name} has dimensions {mean.dims}; a curve needs a variable over time alone")
    (line,) = axes.plot(mean["time"], mean, **{"label": trajectory.label, **options})
    if np.any(np.isfinite(error) & (error > 0)):
        low, high = mean - error, mean + error
        axes.fill_between(mean["time"], low, high, color=line.get_color(), alpha=0.25, linewidth=0)
    axes.set_xlabel("time (steps × learning rate)")
    axes.set_ylabel(name.replace("_", " "))
    return axes


def losses(trajectories: Sequence[Trajectory], axes: Axes | None = None, name: str = "loss") -> Axes:
    """Loss curves on a logarithmic axis."""
    axes = axes_or_new(axes)
    for trajectory in trajectories:
        curve(trajectory, name, axes)
    axes.set_yscale("log")
    axes.legend()
    return axes


def kernel(
    trajectory: Trajectory,
    name: str,
    axes: Axes | None = None,
    *,
    layer: int | None = None,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """A kernel at the last time as a heat map, samples sorted by target so that classes show as blocks."""
    axes = axes_or_new(axes)
    matrix = _matrix(trajectory.mean(name).isel(time=-1), layer)
    order = np.argsort(-trajectory.data["targets"].values[:, 0], kind="stable")
    matrix = matrix[np.ix_(order, order)]
    limit = float(np.abs(matrix).max()) if limit is None else limit
    image = axes.imshow(matrix, vmin=-limit, vmax=limit, cmap="RdBu_r")
    axes.spines[:].set_visible(True)
    axes.set_xlabel("sample")
    axes.set_ylabel("sample")
    axes.locator_params(axis="x", integer=True)
    if colorbar:
        axes.figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set_title(f"{name.replace('_', ' ')}{'' if layer is None else f', layer {layer}'}: {trajectory.label}")
    return axes


def _matrix(value: xr.DataArray, layer: int | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    if "layer" in value.dims:
        if layer is None:
            raise InvalidInput(f"{value.name} has one kernel for every layer: say which with layer=")
        value = value.sel(layer=layer)
    for dim in ("output", "output_"):
        if dim in value.dims:
            value = value.isel({dim: 0})
    return np.asarray(value.values)


def preactivation_density(
    trajectory: Trajectory, layer: int, axes: Axes | None = None, *, times: Sequence[int] = (0, -1), bins: int = 41
) -> Axes:
    """Histograms of the preactivations of a layer at the first and last recorded time, over samples and seeds."""
    axes = axes_or_new(axes)
    field = trajectory.variable("preactivation").sel(layer=layer)
    span = float(np.quantile(np.abs(field.isel(time=list(times))), 0.999))
    edges = list(np.linspace(-span, span, bins))
    for time in times:
        now = field.isel(time=time)
        label = f"t = {float(now['time']):.3g}"
        axes.hist(now.values.ravel(), bins=edges, density=True, histtype="step", label=label)
    axes.set_xlabel(f"preactivation, layer {layer}")
    axes.set_ylabel("density")
    axes.legend()
    return axes


def against_width(
    widths: Sequence[int], values: Sequence[float], axes: Axes | None = None, *, label: str = "", guide: bool = True
) -> Axes:
    """Something that should fall with the width, on logarithmic axes, with the N^(-1/2) guide."""
    axes = axes_or_new(axes)
    axes.plot(widths, values, "o", label=label)
    if guide:
        reference = np.exp(np.mean(np.log(values) + 0.5 * np.log(widths)))
        axes.plot(widths, reference / np.sqrt(widths), "--", color="0.5", linewidth=1, label="$N^{-1/2}$")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("width $N$")
    axes.legend()
    return axes


def compare(*trajectories: Trajectory, known: Mapping[str, Mapping[Trajectory, xr.DataArray]] | None = None) -> Figure:
    """Several answers to one problem side by side: loss curves, and the last layer's final feature kernels.

    If networks are among them, also how far the others are from these networks, over time; `known` holds these
    distances if they were computed before.
    """
    if not trajectories:
        raise InvalidInput("compare needs at least one trajectory")
    import matplotlib.pyplot as plt

    depth = trajectories[0].problem.network.hidden_layers
    shown = [t for t in trajectories if "feature_kernel" in t.data]
    networks = next((t for t in trajectories if "seed" in t.data.dims and len(trajectories) > 1), None)
    names = [] if networks is None else [n for n in _DISTANCES if n in networks.data]
    top, bottom = 1 + len(names), max(1, len(shown))
    with style():
        figure = plt.figure(figsize=(max(3.2 * top, 2.6 * bottom), 6.2), layout="constrained")
        halves: Any = figure.subfigures(2, 1)
        upper, lower = halves
        panels = upper.subplots(1, top, squeeze=False)[0]
        losses(trajectories, panels[0])
        panels[0].get_legend().remove()
        for name, axes in zip(names, panels[1:], strict=True):
            assert networks is not None
            distances([t for t in trajectories if t is not networks], networks, name, axes, known=known)
        shared = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
        shared |= {
            label: h for h, label in zip(*panels[-1].get_legend_handles_labels(), strict=True) if "error" in label
        }
        upper.legend(shared.values(), shared.keys(), loc="outside upper center", ncols=len(shared))
        # A theory that is far off must not wash out the others.
        scale = shown[:1] if networks is None else [networks]
        limit = max((float(np.abs(_last_kernel(t)).max()) for t in scale if t in shown), default=1.0)
        places = lower.subplots(1, max(top, bottom), squeeze=False)[0]
        for spare in places[len(shown) :]:
            spare.remove()
        for trajectory, axes in zip(shown, places, strict=False):
            kernel(trajectory, "feature_kernel", axes, layer=depth, limit=limit, colorbar=trajectory is shown[-1])
            axes.set_title(trajectory.label)
        lower.suptitle(f"final feature kernel, layer {depth}", fontsize=9)
    return figure


_DISTANCES = {"outputs": "outputs", "feature_kernel": "feature kernel, last layer", "ntk": "neural tangent kernel"}


def distances(
    theories: Sequence[Trajectory],
    networks: Trajectory,
    name: str,
    axes: Axes | None = None,
    *,
    known: Mapping[str, Mapping[Trajectory, xr.DataArray]] | None = None,
) -> Axes:
    """Distance of theories from the mean over networks, with what the number of networks leaves uncertain."""
    from .distances import distance, uncertainty

    axes = axes_or_new(axes)
    colours = iter(COLOURS[1:] + COLOURS[:1])
    for theory in theories:
        if name in theory.data:
            found = distance(theory, networks, name) if known is None else known[name][theory]
            axes.plot(found["time"], np.maximum(found, 1e-6), color=next(colours), label=theory.label)
    floor = uncertainty(networks, name)
    if np.all(np.isfinite(floor)):
        label = f"standard error of {networks.label}"
        axes.fill_between(floor["time"], 1e-6, np.maximum(floor, 1e-6), color="0.85", linewidth=0, label=label)
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-4)
    axes.set_xlabel("time (steps × learning rate)")
    axes.set_ylabel("relative distance from networks")
    axes.set_title(_DISTANCES.get(name, name.replace("_", " ")))
    return axes


def _last_kernel(trajectory: Trajectory) -> xr.DataArray:
    return trajectory.mean("feature_kernel").isel(time=-1, layer=-1)


def summary(trajectory: Trajectory) -> Figure:
    """One trajectory on a page: losses, final kernels of the last layer, how far kernels moved."""
    import matplotlib.pyplot as plt

    depth = trajectory.problem.network.hidden_layers
    with style():
        figure, ((top, features), (moved, gradients)) = plt.subplots(2, 2, figsize=(7.2, 5.6), layout="constrained")
        if "test_loss" in trajectory.data:
            curve(trajectory, "test_loss", top, linestyle="--", color=COLOURS[1], label="test")
        curve(trajectory, "loss", top, color=COLOURS[0], label="training")
        top.set_yscale("log")
        top.set_title(trajectory.label)
        top.legend()
        if "feature_kernel" not in trajectory.data:
            for axes in (features, moved, gradients):
                axes.set_axis_off()
            return figure
        kernel(trajectory, "feature_kernel", features, layer=depth)
        kernel(trajectory, "gradient_kernel", gradients, layer=depth)
        movement = trajectory.kernel_movement("feature_kernel")
        movement = movement.mean("seed") if "seed" in movement.dims else movement
        for layer in movement["layer"].values:
            moved.plot(movement["time"], movement.sel(layer=layer), label=f"layer {layer}")
        moved.set_xlabel("time (steps × learning rate)")
        moved.set_ylabel("relative change of feature kernel")
        moved.legend()
    return figure
