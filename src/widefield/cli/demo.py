"""The default problem, solved at width infinity and on real networks: what `make demo` runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from .. import plots
from ..asking.solving import solve
from ..base import files
from ..problem.problem import Problem
from ..theories.finite_width import FiniteWidth
from ..theories.infinite_width import InfiniteWidth
from ..trajectory.trajectory import Trajectory

WIDTHS = (128, 512, 2048)
SEEDS = (128, 16, 2)
THEORY = InfiniteWidth()


def template() -> str:
    """The commented TOML file of the default problem (P = 10, L = 3, tanh, gamma_0 = 1)."""
    return package_files("widefield.cli").joinpath("template.toml").read_text(encoding="utf-8")


def template_of_data(
    problem: Path, data: Path, target: str | list[str], test_samples: int, leave_out: Sequence[str]
) -> str:
    """The same about a file of data: standardised, and at a learning rate that is found when it is solved."""
    place = os.path.relpath(data.expanduser().absolute(), problem.expanduser().absolute().parent)
    chosen: dict[str, Any] = {"kind": "file", "path": Path(place).as_posix(), "target": target, "standardise": True}
    chosen |= {"test_samples": test_samples} if test_samples else {}
    chosen |= {"leave_out": list(leave_out)} if leave_out else {}
    notes = "# inputs = [...]              # all other columns if it is not given\n"
    notes += "# classes = true              # numbers are names of classes; words always are\n"
    head, _, rest = template().partition("[data]\n")
    _, mark, tail = rest.partition("\n[loss]\n")
    text = f"{head}[data]\n{tomli_w.dumps(chosen)}{notes}{mark}{tail}"
    rate = text.index("learning_rate = "), text.index("\n", text.index("learning_rate = "))
    auto = 'learning_rate = "auto"        # half of the largest that trains; or a number'
    return text[: rate[0]] + auto + text[rate[1] :]


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


def verdict(theory: Trajectory, networks: list[Trajectory]) -> str:
    """What one sees, in a sentence or two."""
    loss, alignment = theory.mean("loss"), theory.target_alignment("feature_kernel").isel(layer=-1)
    turned = f"from {float(alignment[0]):.2f} to {float(alignment[-1]):.2f}"
    errors = [kernel_error(trajectory, theory) for trajectory in networks]
    power = np.polyfit(np.log(WIDTHS), np.log(errors), 1)[0]
    return (
        f"While the loss falls from {float(loss[0]):.2g} to {float(loss[-1]):.2g}, the features of the last layer turn "
        f"towards the targets (alignment {turned}): features are learned. Real networks do the same; one of them is "
        f"{errors[0]:.1%} away from width ∞ at {WIDTHS[0]} neurons and {errors[-1]:.1%} at {WIDTHS[-1]}, "
        f"falling as width^({power:.2f})."
    )


def figure(theory: Trajectory, networks: list[Trajectory], path: Path) -> None:
    """Loss, alignment with the targets, final kernels side by side, preactivations, and distance against width."""
    import matplotlib.pyplot as plt

    widest, depth = networks[-1], theory.problem.network.hidden_layers
    limit = float(np.abs(theory.mean("feature_kernel").isel(time=-1, layer=-1)).max())
    with plots.style():
        page, panels = plt.subplots(2, 3, figsize=(10.5, 5.8), layout="constrained")
        plots.losses(networks, panels[0, 0])
        plots.curve(theory, "loss", panels[0, 0], color="black", linestyle="--")
        panels[0, 0].legend()
        for trajectory, axes, bar in ((theory, panels[0, 1], False), (widest, panels[0, 2], True)):
            plots.kernel(trajectory, "feature_kernel", axes, layer=depth, limit=limit, colorbar=bar)
            axes.set_aspect("auto")  # squares would leave holes
        _alignment(theory, widest, panels[1, 0])
        plots.preactivation_density(theory, depth, panels[1, 1])
        panels[1, 1].set_title(f"preactivations: {theory.label}")
        errors = [kernel_error(trajectory, theory) for trajectory in networks]
        plots.against_width(WIDTHS, errors, panels[1, 2], label="one network")
        panels[1, 2].set_ylabel("kernel distance from width ∞")
        with files.atomic(path) as temporary:
            page.savefig(temporary, format="png")
        plt.close(page)


def _alignment(theory: Trajectory, networks: Trajectory, axes: Any) -> None:
    """How far the features of every layer have turned towards the targets: lines are width infinity."""
    for layer in theory.data["layer"].values:
        line, dots = (t.target_alignment("feature_kernel").sel(layer=layer) for t in (theory, networks))
        if "seed" in dots.dims:
            dots = dots.mean("seed")
        (drawn,) = axes.plot(line["time"], line, label=f"layer {layer}")
        axes.plot(dots["time"][::10], dots[::10], "o", markersize=3.5, color=drawn.get_color())
    axes.plot([], [], "o", markersize=3.5, color="0.4", label=networks.label)
    axes.set_xlabel("time (steps × learning rate)")
    axes.set_ylabel("alignment with the targets")
    axes.legend()
