"""The default problem, solved at width infinity and on real networks: what `make demo` runs."""

from __future__ import annotations

from importlib.resources import files as package_files
from pathlib import Path

import numpy as np

from .. import plots
from ..asking.solving import solve
from ..base import files
from ..problem.problem import Problem
from ..theories.finite_width import FiniteWidth
from ..theories.infinite_width import InfiniteWidth
from ..trajectory.trajectory import Trajectory

WIDTHS = (256, 1024, 4096)
SEEDS = (16, 8, 2)
THEORY = InfiniteWidth()


def template() -> str:
    """The commented TOML file of the default problem (P = 10, L = 3, tanh, gamma_0 = 1)."""
    return package_files("widefield.cli").joinpath("template.toml").read_text(encoding="utf-8")


def default_problem() -> Problem:
    """The problem that the template describes."""
    return Problem.from_toml(template())


def answers(problem: Problem) -> tuple[Trajectory, list[Trajectory]]:
    """Width infinity, and networks of several widths, with more seeds where they are cheap."""
    theory = solve(problem, THEORY)
    return theory, [solve(problem, FiniteWidth(n, seeds=k)) for n, k in zip(WIDTHS, SEEDS, strict=True)]


def kernel_error(networks: Trajectory, theory: Trajectory) -> float:
    """Relative distance of one network's final feature kernel (last layer) from width infinity, rms over seeds."""
    exact = theory.mean("feature_kernel").isel(time=-1, layer=-1)
    distance = networks.variable("feature_kernel").isel(time=-1, layer=-1) - exact
    squares = (distance**2).sum(["sample", "sample_"]).mean("seed")
    return float(np.sqrt(squares / (exact**2).sum()))


def figure(theory: Trajectory, networks: list[Trajectory], path: Path) -> None:
    """Loss curves, final kernels side by side, preactivation density, and distance from infinity against width."""
    import matplotlib.pyplot as plt

    widest, depth = networks[-1], theory.problem.network.hidden_layers
    limit = float(np.abs(theory.mean("feature_kernel").isel(time=-1, layer=-1)).max())
    with plots.style():
        page, panels = plt.subplots(2, 3, figsize=(10.5, 5.8), layout="constrained")
        plots.losses(networks, panels[0, 0])
        plots.curve(theory, "loss", panels[0, 0], color="black", linestyle="--")
        panels[0, 0].legend()
        for trajectory, axes in ((theory, panels[0, 1]), (widest, panels[0, 2])):
            plots.kernel(trajectory, "feature_kernel", axes, layer=depth, limit=limit)
        for trajectory, axes in ((theory, panels[1, 0]), (networks[0], panels[1, 1])):
            plots.preactivation_density(trajectory, depth, axes)
            axes.set_title(f"preactivations: {trajectory.label}")
        panels[1, 1].sharex(panels[1, 0])
        errors = [kernel_error(trajectory, theory) for trajectory in networks]
        plots.against_width(WIDTHS, errors, panels[1, 2], label="one network")
        panels[1, 2].set_ylabel("kernel distance from width ∞")
        with files.atomic(path) as temporary:
            page.savefig(temporary, format="png")
        plt.close(page)
