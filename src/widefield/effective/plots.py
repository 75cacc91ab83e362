"""Figures of the effective theory. Every function draws into the axes that it is given (or new ones)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib import patheffects
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.drawing import COLOURS, axes_or_new, style
from ..base.errors import InvalidInput
from ..base.renamed import former_names
from .aspect_ratio import information_of_ratio
from .phases import PHASES
from .universality import criticality

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .advice import Advice
    from .agreement import Check
    from .differential_result import DifferentialFlow
    from .gradients_of_layers import GradientMoments
    from .tangent_result import NTKFlow
    from .vertex_flow import Flow


__getattr__ = former_names(__name__, phase_diagram_plot="phase_diagram", advice_plot="advice")


def phase_diagram(diagram: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Draw log chi_perp at the fixed point over (C_W, C_b): blue ordered, red chaotic, grey without a fixed point.

    Stars are critical points, open ones unstable.
    """
    missing = {"perpendicular", "phase"} - set(diagram)
    if missing:
        raise InvalidInput(f"not a phase diagram: it lacks {', '.join(sorted(missing))}")
    axes = axes_or_new(axes)
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


def advice(advice: Advice) -> Figure:
    """Signals and gradients through the layers, their scatter over seeds, and the shape against the optimal one."""
    with style():
        gaps = {"wspace": 0.06}
        figure, (sizes, spread, shape) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", gridspec_kw=gaps)
        layers, marker = np.arange(1, advice.depth + 1), "." if advice.depth <= 20 else None
        signal = advice.kernels / advice.kernels[0]
        sizes.plot(layers, signal, color=COLOURS[0], marker=marker, label="signal, relative to the first layer")
        label = "gradient, relative to the last layer"
        sizes.plot(layers, advice.gradients, "--", color=COLOURS[1], marker=marker, label=label)
        smallest = float(min(signal.min(), advice.gradients.min()))
        if smallest < 0.2:
            sizes.set(yscale="log", ylim=(0.5 * smallest, 8))
        else:
            sizes.set(ylim=(0, 1.6))
        sizes.set(xlabel="layer", ylabel="mean square")
        sizes.legend(frameon=False, fontsize="small", loc="upper left")
        _spread_panel(spread, layers, advice.kernel_deviation, marker)
        for axes in (sizes, spread):
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlim(0, advice.depth + 1)
        _shape_panel(shape, advice)
        plural = "layers" if advice.depth > 1 else "layer"
        name = f"{advice.activation}: {advice.depth} {plural}, {advice.width} wide"
        figure.suptitle(name + (f", skip connections times {advice.skip:.4g}" if advice.skip else ""))
        return figure


def layers_of_flow(flow: Flow) -> Figure:
    """Mean squares through the layers, at infinite width and at this one, and their scatter over networks."""
    with style():
        figure, (sizes, spread) = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
        layers, equal = np.arange(1, flow.depth + 1), flow.pairs.diagonal
        kernel = flow.pairs.of(flow.kernels)[:, equal]
        metric = kernel + flow.shifts[:, equal]
        scatter = np.sqrt(np.maximum(flow.covariances[:, equal, equal], 0.0)) / kernel
        for sample in range(len(equal)):
            colour = COLOURS[sample % len(COLOURS)]
            sizes.plot(layers, kernel[:, sample], color=colour, label="infinite width" if sample == 0 else None)
            sizes.plot(
                layers, metric[:, sample], "--", color=colour, label="mean at this width" if sample == 0 else None
            )
            spread.plot(layers, 100 * scatter[:, sample], color=colour)
        sizes.set(xlabel="layer", ylabel="mean square preactivation")
        spread.set(xlabel="layer", ylabel="scatter over networks, %", ylim=(0, None))
        sizes.legend(frameon=False, fontsize="small")
        for axes in (sizes, spread):
            axes.xaxis.get_major_locator().set_params(integer=True)
        figure.suptitle(flow.heading)
    return figure


def gradient_moments(moments: GradientMoments) -> Figure:
    """Mean squared gradients of every layer, and their scatter over networks."""
    with style():
        figure, (means, spread) = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
        layers = moments.data["layer"].values
        for colour, group in zip(COLOURS, ("bias", "weight"), strict=False):
            part = moments.data.sel(group=group)
            means.semilogy(layers, part["mean"].values, color=colour, label=f"{group}, mean")
            means.semilogy(layers, part["typical"].values, "--", color=colour, label=f"{group}, typical")
            spread.plot(layers, 100 * np.sqrt(part["relative_variance"].values), color=colour)
        means.set(xlabel="layer", ylabel="squared gradient of an output")
        spread.set(xlabel="layer", ylabel="scatter over networks, %", ylim=(0, None))
        means.legend(frameon=False, fontsize="small")
        figure.suptitle(moments.heading)
    return figure


def layers_of_ntk(flow: NTKFlow) -> Figure:
    """The diagonal of the NTK through the layers, at infinite width and at this one, and its scatter over networks."""
    with style():
        figure, (sizes, spread) = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
        layers, equal = range(1, flow.depth + 1), flow.pairs.diagonal
        below = flow.data["width_below"].values[:, None]
        theta, mean = (np.stack([np.diagonal(part(layer)) for layer in layers]) for part in (flow.ntk, flow.mean_ntk))
        for style_of_line, part in (("-", flow.one_neuron), ("--", flow.variance_shared)):
            variance = np.stack([part(layer)[equal, equal] for layer in layers]) / below
            scatter = 100 * np.sqrt(np.maximum(variance, 0.0)) / theta
            for sample, colour in zip(range(len(equal)), COLOURS, strict=False):
                label = ("of one neuron" if style_of_line == "-" else "shared by neurons") if sample == 0 else None
                spread.plot(layers, scatter[:, sample], style_of_line, color=colour, label=label)
        for sample, colour in zip(range(len(equal)), COLOURS, strict=False):
            sizes.plot(layers, theta[:, sample], color=colour, label="infinite width" if sample == 0 else None)
            sizes.plot(layers, mean[:, sample], "--", color=colour, label="mean at this width" if sample == 0 else None)
        sizes.set(xlabel="layer", ylabel="NTK of an input with itself")
        spread.set(xlabel="layer", ylabel="scatter over networks, %", ylim=(0, None))
        for axes in (sizes, spread):
            axes.legend(frameon=False, fontsize="small")
        figure.suptitle(flow.heading)
    return figure


def layers_of_differentials(flow: DifferentialFlow) -> Figure:
    """How much a step moves the NTK (P, Q) and what moves it (R .. U) through the layers, relative to the NTK."""
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
        layers = range(1, flow.depth + 1)
        found = [flow.ratios(layer) for layer in layers]
        groups = (("PQ", "dNTK / NTK$^2$, %"), ("RSTU", "ddNTK $K$ / NTK$^3$, %"))
        for axes, (names, label) in zip(panels, groups, strict=True):
            shown = [name for name in names if name in flow.names]
            for name, colour in zip(shown, COLOURS, strict=False):
                axes.plot(layers, [100 * ratio[name] for ratio in found], ".-", color=colour, label=name)
            axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
            axes.set(xlabel="layer", ylabel=label)
            axes.xaxis.get_major_locator().set_params(integer=True)
            if shown:
                axes.legend(frameon=False, fontsize="small")
        figure.suptitle(flow.heading)
    return figure


def agreement(check: Check) -> Figure:
    """Distances of all predictions from the networks in standard errors, and the band within which they agree."""
    with style():
        figure, axes = plt.subplots(figsize=(5.4, 3.0), layout="constrained")
        axes.axhspan(-check.threshold, check.threshold, color="0.92", zorder=0)
        for place, correlator in enumerate(check.correlators):
            z = np.clip(correlator.z.ravel(), -1e3, 1e3)  # infinite where networks have no scatter, and theory differs
            axes.plot(place + np.linspace(-0.3, 0.3, z.size), z, ".", markersize=4)
        names = [correlator.name.replace("_", " ") for correlator in check.correlators]
        axes.set_xticks(range(len(names)), names)
        axes.set(ylabel="(networks - theory) / standard error")
        figure.suptitle(check.flow.heading)
    return figure


def _spread_panel(axes: Axes, layers: NDArray[np.int_], fluctuations: Floats, marker: str | None) -> None:
    """Scatter of the variance that all neurons of a layer share, and where it is too much for an expansion."""
    axes.plot(layers, 100 * fluctuations, color=COLOURS[0], marker=marker)
    top = max(10.0, 110 * float(fluctuations.max()))
    if top > 50:
        axes.axhspan(50, top, color="0.9", zorder=0)
        axes.text(0.03, 0.97, "grey: expansion in 1/n fails", transform=axes.transAxes, fontsize="small", va="top")
    axes.set(xlabel="layer", ylabel="scatter of the variance over seeds, %", ylim=(0, top))


def _shape_panel(axes: Axes, advice: Advice) -> None:
    """Mutual information between two halves of the outputs against L / n, where its expansion makes sense."""
    best, end = advice.optimal_aspect_ratio, 1.5
    rate = 4 / (20 + 3 * advice.outputs) / best
    ratios = np.linspace(0, end * best, 200)
    halves = (advice.outputs // 2, advice.outputs - advice.outputs // 2)
    values = np.array([1000 * information_of_ratio(rate, r, halves, unit="bits") for r in ratios])
    axes.plot(ratios / best, values, color=COLOURS[0])
    top = 1.1 * float(values.max())
    axes.vlines(1, 0, top, color="0.6", linewidth=1, linestyle="--", label=f"optimal, L/n = {best:.2g}")
    place, label = advice.aspect_ratio / best, f"here, L/n = {advice.aspect_ratio:.2g}"
    if place <= end:
        axes.vlines(place, 0, top, color=COLOURS[1], linewidth=1.5, label=label)
    elif advice.depth > 1:  # one layer is Gaussian whatever the width
        label += f", outside: {place:.2g} times the optimal"
        axes.plot([end], [top / 2], ">", color=COLOURS[1], clip_on=False, label=label)
    axes.set(xlabel="(L/n) / optimal", ylim=(0, 1.35 * top), xlim=(0, end))
    axes.set_ylabel("information of halves of the outputs,\nto third order, millibits")
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
