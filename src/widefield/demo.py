"""The default problem, solved and shown: what `make demo` runs."""

from __future__ import annotations

from importlib.resources import files as package_files
from pathlib import Path

import numpy as np

from . import files, plots
from .problem import Problem
from .solving import solve
from .theories import FiniteWidth
from .trajectory import Trajectory

WIDTHS = (64, 256, 1024)
SEEDS = (64, 32, 16)


def template() -> str:
    """The commented TOML file of the default problem (P = 10, L = 3, tanh, gamma_0 = 1)."""
    return package_files("widefield").joinpath("template.toml").read_text(encoding="utf-8")


def default_problem() -> Problem:
    """The problem that the template describes."""
    return Problem.from_toml(template())


def networks(problem: Problem, *, progress: bool | None = None) -> list[Trajectory]:
    """Networks of several widths, with more seeds where they are cheap."""
    pairs = zip(WIDTHS, SEEDS, strict=True)
    return [solve(problem, FiniteWidth(width, seeds=seeds), progress=progress) for width, seeds in pairs]


def kernel_spread(trajectory: Trajectory) -> float:
    """Relative deviation of one network's final feature kernel (last layer) from the mean over networks."""
    final = trajectory.variable("feature_kernel").isel(time=-1, layer=-1)
    mean = final.mean("seed")
    variance = ((final - mean) ** 2).sum("seed") / (final.sizes["seed"] - 1)
    return float(np.sqrt(variance.sum() / (mean**2).sum()))


def figure(trajectories: list[Trajectory], path: Path) -> None:
    """Loss curves, final kernel, preactivation density, and spread against width."""
    import matplotlib.pyplot as plt

    widest, depth = trajectories[-1], trajectories[0].problem.network.hidden_layers
    with plots.style():
        page, panels = plt.subplots(2, 2, figsize=(7.4, 5.8), layout="constrained")
        plots.losses(trajectories, panels[0, 0])
        panels[0, 0].set_title("learning curves do not depend on the width")
        plots.kernel(widest, "feature_kernel", panels[0, 1], layer=depth)
        plots.preactivation_density(widest, depth, panels[1, 0])
        panels[1, 0].set_title(f"features move: {widest.label}")
        spreads = [kernel_spread(t) for t in trajectories]
        plots.against_width(WIDTHS, spreads, panels[1, 1], label="feature kernel of one network")
        panels[1, 1].set_ylabel("relative deviation from the mean")
        panels[1, 1].set_title("networks differ less as they widen")
        with files.atomic(path) as temporary:
            page.savefig(temporary, format="png")
        plt.close(page)
