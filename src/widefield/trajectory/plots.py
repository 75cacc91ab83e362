"""Figures. Every function draws into the axes that it is given (or new ones) and returns them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from ..base.drawing import COLOURS, axes_or_new, style
from ..base.errors import InvalidInput
from ..problem.network import MLP
from .labels import labels as labelled
from .labels import shared
from .trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def losses(
    trajectories: Sequence[Trajectory],
    axes: Axes | None = None,
    name: str = "loss",
    *,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Loss curves on a logarithmic axis, called by `labels` or else by what differs between the trajectories."""
    axes = axes_or_new(axes)
    for trajectory, label in zip(trajectories, labelled(trajectories, labels), strict=True):
        curve(trajectory, name, axes, label=label)
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
    label: str | None = None,
) -> Axes:
    """A kernel at the last time as a heat map, samples sorted by target so that classes show as blocks.

    The title ends with `label`, or with that of the trajectory.
    """
    axes = axes_or_new(axes)
    matrix = _matrix(trajectory.mean(name).isel(time=-1), layer)
    order = np.argsort(-trajectory.data["targets"].values[:, 0], kind="stable")
    matrix = matrix[np.ix_(order, order)]
    limit = float(np.abs(matrix).max()) if limit is None else limit
    image = axes.imshow(matrix, vmin=-limit, vmax=limit, cmap="RdBu_r")
    axes.spines[:].set_visible(True)
    axes.set_xlabel("sample")
    axes.set_ylabel("sample")
    axes.locator_params(integer=True)
    if colorbar:
        axes.figure.colorbar(image, ax=axes, shrink=0.85)
    shown = trajectory.label if label is None else label
    axes.set_title(f"{name.replace('_', ' ')}{'' if layer is None else f', layer {layer}'}: {shown}")
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


def compare(
    *trajectories: Trajectory,
    labels: Sequence[str] | None = None,
    known: Mapping[str, Mapping[Trajectory, xr.DataArray]] | None = None,
) -> Figure:
    """Several answers side by side: loss curves, and the last layer's final feature kernels.

    If networks are among them, also how far the others are from the first of these, over time, for all answers about
    the same samples; the axes say whose distance from what it is. `known` holds these distances if they were computed
    before. Curves and kernels are called by `labels`, one for each trajectory, or else by what differs: theory, rule,
    richness, depth, or whatever fields of problem and theory are not the same for all.
    """
    if not trajectories:
        raise InvalidInput("compare needs at least one trajectory")
    import matplotlib.pyplot as plt

    names = labelled(trajectories, labels)
    apart = _Apart.among(trajectories, names)
    top = 1 + (0 if apart is None else len(apart.quantities))
    bottom = max(1, sum("feature_kernel" in t.data for t in trajectories))
    with style():
        figure = plt.figure(figsize=(max(3.2 * top, 2.6 * bottom), 6.4), layout="constrained")
        halves: Any = figure.subfigures(2, 1)
        upper, lower = halves
        panels = upper.subplots(1, top, squeeze=False)[0]
        losses(trajectories, panels[0], labels=names)
        panels[0].get_legend().remove()
        if apart is not None:
            for name, axes in zip(apart.quantities, panels[1:], strict=True):
                apart.draw(name, axes, known)
        _shared_legend(upper, panels, shared(trajectories, names))
        _kernels(lower, trajectories, names, None if apart is None else apart.networks, max(top, bottom))
    return figure


class _Apart(NamedTuple):
    """Whose distance from which networks is drawn, under which labels and in which colours."""

    networks: Trajectory
    theories: list[Trajectory]
    labels: list[str]
    colours: list[str]

    @classmethod
    def among(cls, trajectories: Sequence[Trajectory], labels: Sequence[str]) -> _Apart | None:
        """The first networks, and all other answers about the same samples; None if there is nothing to measure."""
        place = next((k for k, t in enumerate(trajectories) if "seed" in t.data.dims), None)
        if place is None:
            return None
        networks = trajectories[place]
        others = [k for k, t in enumerate(trajectories) if k != place and _about_the_same(t, networks)]
        colours = [COLOURS[k % len(COLOURS)] for k in others]
        names = [*(labels[k] for k in others), labels[place]]
        return cls(networks, [trajectories[k] for k in others], names, colours) if others else None

    @property
    def quantities(self) -> list[str]:
        return [name for name in _DISTANCES if name in self.networks.data]

    def draw(self, name: str, axes: Axes, known: Mapping[str, Mapping[Trajectory, xr.DataArray]] | None) -> None:
        distances(self.theories, self.networks, name, axes, known=known, labels=self.labels, colours=self.colours)


def _about_the_same(one: Trajectory, other: Trajectory) -> bool:
    a, b = one.problem, other.problem
    return a is b or (a.samples == b.samples and a.recorded_samples == b.recorded_samples)


def _shared_legend(figure: Any, panels: Sequence[Axes], title: str) -> None:
    """One legend for all panels: curves of the first, and the grey band of the others."""
    entries = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    bands = zip(*panels[-1].get_legend_handles_labels(), strict=True)
    entries |= {label: handle for handle, label in bands if label.startswith(_BAND)}
    longest = max(map(len, entries))
    columns = max(1, min(len(entries), int(32 * len(panels) / (longest + 6))))
    legend = figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)
    legend.set_title(title)


def _kernels(
    figure: Any, trajectories: Sequence[Trajectory], labels: Sequence[str], networks: Trajectory | None, places: int
) -> None:
    """Final feature kernels of the last layer, on one scale of colours."""
    shown = [(t, label) for t, label in zip(trajectories, labels, strict=True) if "feature_kernel" in t.data]
    # A theory that is far off must not wash out the others.
    scale = [t for t, _ in shown if networks is None or t is networks][:1]
    limit = max((float(np.abs(_last_kernel(t)).max()) for t in scale), default=1.0)
    panels = figure.subplots(1, places, squeeze=False)[0]
    for spare in panels[len(shown) :]:
        spare.remove()
    for place, ((trajectory, label), axes) in enumerate(zip(shown, panels, strict=False), 1):
        layer = int(trajectory.data["layer"].max())
        kernel(trajectory, "feature_kernel", axes, layer=layer, limit=limit, colorbar=place == len(shown))
        axes.set_title(textwrap.fill(label, 30))
    depths = {int(t.data["layer"].max()) for t, _ in shown}
    which = f"layer {depths.pop()}" if len(depths) == 1 else "last layer"
    figure.suptitle(f"final feature kernel, {which}", fontsize=9)


_DISTANCES = {"outputs": "outputs", "feature_kernel": "feature kernel, last layer", "ntk": "neural tangent kernel"}

_BAND = "standard error of "


def distances(
    theories: Sequence[Trajectory],
    networks: Trajectory,
    name: str,
    axes: Axes | None = None,
    *,
    known: Mapping[str, Mapping[Trajectory, xr.DataArray]] | None = None,
    labels: Sequence[str] | None = None,
    colours: Sequence[str] = COLOURS[1:] + COLOURS[:1],
) -> Axes:
    """|X - X_N| / max_t |X_N| over time, and what the number of networks leaves of it uncertain.

    X_N is the mean over `networks`, which the axis names. `labels` are those of the theories, then of the networks; by
    default what differs.
    """
    from .distances import distance, uncertainty

    axes = axes_or_new(axes)
    *words, measured_from = labelled([*theories, networks], labels)
    for theory, label, colour in zip(theories, words, cycle(colours), strict=False):
        if name in theory.data:
            found = distance(theory, networks, name) if known is None else known[name][theory]
            axes.plot(found["time"], np.maximum(found, 1e-6), color=colour, label=label)
    floor = uncertainty(networks, name)
    if np.all(np.isfinite(floor)):
        band = np.maximum(floor, 1e-6)
        axes.fill_between(floor["time"], 1e-6, band, color="0.85", linewidth=0, label=f"{_BAND}{measured_from}")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-4)
    axes.set_xlabel("time (steps × learning rate)")
    axes.set_ylabel("relative distance from\n" + textwrap.fill(measured_from, 36))
    axes.set_title(_DISTANCES.get(name, name.replace("_", " ")))
    return axes


def _last_kernel(trajectory: Trajectory) -> xr.DataArray:
    return trajectory.mean("feature_kernel").isel(time=-1, layer=-1)


def summary(trajectory: Trajectory) -> Figure:
    """One trajectory on a page: losses, final kernels of the last layer, how far kernels moved."""
    import matplotlib.pyplot as plt

    network = trajectory.problem.network
    depth = network.hidden_layers if isinstance(network, MLP) else 0
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
