"""What a solution means, in a sentence."""

from __future__ import annotations

import numpy as np
import xarray as xr

from .setting import LinearNetwork, LinearTask

ADVICE = {
    "bias": "bias: the target is not learned yet, and more steps would help",
    "width_variance": "variance over networks: wider ones, or the mean of several, would do better",
    "data_variance": "variance over data sets: more data would do better",
}

_LOWER = 0.99
"""A test loss that was lower than at the end by this factor is worth going back to."""


TYPICAL = 1000
"""The dimension of networks that people have in mind when they ask for the limit."""

_FAR = 0.02
"""A share of the loss by which typical networks are off for a warning. Small networks tell too little, if at all."""


def exploded(step: int) -> str:
    """How a run ended whose loss grew beyond all bounds."""
    return f"the loss has exploded at step {step}"


def verdict(data: xr.Dataset) -> str:
    """Which part of the test loss is largest at the end, what would help, and whether training went on for too long.

    Empty for real networks, which do not split the loss.
    """
    if not set(ADVICE) <= set(data.variables):
        return ""
    test, bounds = data["test_loss"].values, data.get("test_loss_bound")
    if bounds is not None and test[-1] <= bounds[-1]:
        return f"the test loss at the end is below what extrapolation can tell, {float(bounds[-1]):.1g}"
    parts = {name: float(data[name][-1]) for name in ADVICE}
    name, noise = max(parts, key=lambda part: parts[part]), float(data["noise"])
    share = parts[name] / max(test[-1] - noise, parts[name], 1e-300)
    said = f"at the end {share:.0%} of the test loss is {ADVICE[name]}"
    if noise:
        said = (
            f"at the end {noise / test[-1]:.0%} of the test loss is label noise, {share:.0%} of the rest {ADVICE[name]}"
        )
    best = int(np.argmin(test))
    if test[best] < _LOWER * test[-1]:
        time = float(data["time"][best])
        said += f"; it was lowest at time {time:.3g}, {test[best]:.4g}: stop there"
    return said


def of_network(network: LinearNetwork) -> str:
    """A network in a line."""
    widths = network.width if isinstance(network.width, tuple) else (network.width,)
    plural = "" if network.hidden_layers == 1 else "s"
    said = [f"{network.hidden_layers:g} hidden layer{plural}", f"width {', '.join(f'{width:g}' for width in widths)}"]
    said += [f"richness {network.richness:g}", network.parameterisation]
    if network.branch is not None:
        said.append(f"branches times {network.branch:g}" + (" / sqrt(L)" if network.depth_scaled else ""))
    return ", ".join([*said, *(["centred"] if network.centred else [])])


def of_task(task: LinearTask) -> str:
    """A task in a line."""
    said = ["gradient of the population"]
    if np.isfinite(task.samples):
        said = [f"{task.samples:g} samples"]
    if task.online:
        said = [f"{task.batch_size:g} fresh samples in every step"]
    if task.spectrum is None:
        said[0] += "" if said[0].startswith("gradient") else " (sizes over the dimension)"
    else:
        said.append(f"{task.spectrum.multiplicities.sum():g} modes")
    return ", ".join([*said, *([f"noise {task.noise:g}"] if task.noise else [])])


def distance(crossover: float, dimension: float) -> float:
    """The share of the loss by which networks are off.

    >>> distance(300.0, 1000), distance(0.0, 1000)
    (0.23076923076923078, 0.0)
    """
    return crossover / (crossover + dimension)


def doubt(crossover: float | None) -> str:
    """What to say of an answer; empty if typical networks are close to it."""
    if crossover is None or distance(crossover, TYPICAL) <= _FAR:
        return ""
    return (
        f"networks with D = {TYPICAL} are expected to be about {distance(crossover, TYPICAL):.0%} off the limit, those "
        f"with D = {TYPICAL // 10} {distance(crossover, TYPICAL / 10):.0%}: a smaller learning rate brings them closer"
    )
