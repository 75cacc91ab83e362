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

_SMALLEST = 1e-16
"""Differences below it are drawn there."""


def agreement(answers: Sequence[Trajectory], differences: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Losses of all solvers; and pairs (difference, allowed) of every quantity: those above the line disagree."""
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0), layout="constrained")
        plots.losses(answers, left)
        for name, pairs in differences.items():
            apart, allowed = np.maximum(np.array(pairs).T, _SMALLEST)
            right.plot(allowed, apart, "o", markersize=4, label=name.replace("_", " "))
        if differences:
            ends = np.array(right.get_xlim())
            right.plot(ends, ends, color="0.5", linewidth=1, zorder=0)
            right.set(xscale="log", yscale="log", xlabel="allowed", ylabel="relative difference")
            right.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0))
        else:
            right.set_axis_off()
    return figure
