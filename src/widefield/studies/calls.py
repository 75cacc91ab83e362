"""The public calls behind every answer, as a reader would type them."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..problem.rules import GradientDescent
from .plan import TEST_SHARE, Sizes
from .training import KERNEL_SEEDS, SEARCH_RESOLUTION, SEARCH_STEPS, Bench, Choice


def written(value: Any) -> str:
    """A description as the call that makes it, without what is left at its default.

    >>> from widefield.problem.network import MLP
    >>> written(MLP(hidden_layers=2, richness=0.3))
    "wf.MLP(hidden_layers=2, activation='tanh', richness=0.3)"
    """
    always = ("hidden_layers", "activation", "richness")
    given = []
    for field in dataclasses.fields(value):
        now = getattr(value, field.name)
        if field.name in always or now != field.default:
            given.append(f"{field.name}={now!r}")
    return f"wf.{type(value).__name__}({', '.join(given)})"


def setup(data: str, bench: Bench, sizes: Sizes, rows: int, seed: int) -> str:
    """What all other calls begin with; `data` is the call that loads the data."""
    few = f", rows={sizes.rows}" if sizes.rows < rows else ""
    record = bench.losses_only
    return "\n".join(
        (
            "import numpy as np",
            "import widefield as wf",
            "",
            f"data = {data}",
            f"splits = wf.data.splits(data, {sizes.splits}, test_share={TEST_SHARE}{few}, seed={seed})",
            f"networks = {written(bench.networks)}",
            f"record = wf.Record(steps={record.steps}, samples=1, kernels=False, neurons=0)",
            "",
            "def relative(run, name, y):  # loss over that of predicting the mean: 1 - R^2",
            '    """Over time, mean over networks."""',
            "    return 2 * run.mean(name).values / np.sum((y - run.problem.samples.y.mean(axis=0)) ** 2)",
        )
    )


def rate(bench: Bench, choice: Choice, repetitions: int = 1) -> str:
    """The learning rate of a choice."""
    width = "np.inf" if choice.lazy else str(bench.width)
    steps = min(SEARCH_STEPS, bench.steps)
    return "\n".join(
        (
            f"network = {written(choice.network)}",
            f"problem = wf.Problem(network, splits[0]{_rule(choice)}, optimiser=wf.SGD(1.0, steps={bench.steps}))",
            f"limit = wf.stable_rate(problem, {width}, steps={steps}, repetitions={repetitions}, "
            f"resolution={SEARCH_RESOLUTION})",
            "print(limit)",
        )
    )


def training(bench: Bench, choice: Choice, taken: float, folder: str) -> str:
    """Losses of a choice on all splits, and the networks whose kernels were kept."""
    theory = "wf.Lazy()" if choice.lazy else "networks"
    kept = f"{folder}/networks/{choice.name}.nc"
    return "\n".join(
        (
            rate(bench, choice),
            f"optimiser = wf.SGD({taken!r}, steps={bench.steps})  # limit.suggested, halved until no loss spikes",
            "runs = [",
            f"    wf.solve(wf.Problem(network, split{_rule(choice)}, optimiser=optimiser, record=record), {theory})",
            "    for split in splits",
            "]",
            'test_loss = [relative(run, "test_loss", run.problem.samples.y_test) for run in runs]',
            "",
            f"kept = wf.load({kept!r})  # split 0, {1 if choice.lazy else KERNEL_SEEDS} networks, with kernels",
            'alignment = kept.target_alignment("ntk")',
        )
    )


def _rule(choice: Choice) -> str:
    return "" if type(choice.rule) is GradientDescent else f", rule={written(choice.rule)}"
