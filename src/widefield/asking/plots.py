"""Figures of answers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base.drawing import style
from ..trajectory import plots
from ..trajectory.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALLEST = 1e-6
"""Ratios below it are drawn there."""


def agreement(answers: Sequence[Trajectory], ratios: Mapping[str, Sequence[float]]) -> Figure:
    """Losses of all solvers; and difference over what is allowed, of every pair and quantity: above 1 they disagree."""
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.2), layout="constrained")
        plots.losses(answers, left)
        left.legend(fontsize="small")
        for place, values in enumerate(ratios.values()):
            spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
            right.plot(place + spread, np.maximum(values, _SMALLEST), "o", markersize=4)
        right.axhline(1.0, color="0.5", linewidth=1, zorder=0)
        right.set_xticks(range(len(ratios)), [name.replace("_", "\n") for name in ratios], fontsize="small")
        right.set(yscale="log", ylabel="difference / allowed")
    return figure
