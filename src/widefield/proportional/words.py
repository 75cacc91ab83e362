"""What a solution means, in a sentence."""

from __future__ import annotations

import numpy as np

from ..base.errors import InvalidInput
from .result import Dynamics
from .transfer import largest_stable_rate

ADVICE = {
    "bias": "bias: the target is not learned yet, and more steps would help",
    "width_variance": "variance over networks: wider ones, or the mean of several, would do better",
    "data_variance": "variance over data sets: more data would do better",
}

_ENOUGH = 100
"""Steps that resolve the edge of stability well enough for advice."""

_LOWER = 0.99
"""A test loss that was lower than at the end by this factor is worth going back to."""


def interpretation(dynamics: Dynamics) -> str:
    """Which part of the test loss is largest at the end, what would help, and whether training went on for too long."""
    if dynamics.diverged is not None:
        return f"training diverges: the loss has exploded at step {dynamics.diverged}"
    test, errors = dynamics.test_loss, dynamics.data.get("test_loss_error")
    if errors is not None and test[-1] <= errors[-1]:
        return f"the test loss at the end is below what extrapolation can tell, {float(errors[-1]):.1g}"
    parts = {name: float(dynamics.data[name][-1]) for name in ADVICE}
    name, noise = max(parts, key=lambda part: parts[part]), float(dynamics.data["noise"])
    share = parts[name] / max(test[-1] - noise, parts[name], 1e-300)
    said = f"at the end {share:.0%} of the test loss is {ADVICE[name]}"
    if noise:
        said = (
            f"at the end {noise / test[-1]:.0%} of the test loss is label noise, {share:.0%} of the rest {ADVICE[name]}"
        )
    best = int(np.argmin(test))
    if test[best] < _LOWER * test[-1]:
        time = float(dynamics.data["time"][best])
        said += f"; it was lowest at time {time:.3g}, {test[best]:.4g}: stop there"
    return said


def remedy(dynamics: Dynamics, rate: float, steps: int) -> str:
    """The largest rate that works in as many steps, but a hundred at most, for a run that diverges at `rate`."""
    network, task, steps = dynamics.network, dynamics.task, min(steps, _ENOUGH)
    try:
        limit = largest_stable_rate(network, task, steps, low=1e-4 * rate, high=rate)
    except InvalidInput:
        return f"a rate far below {rate:g} may help"
    return f"the largest rate that works in {steps} steps is {limit:.3g}"
