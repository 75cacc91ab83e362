"""Networks of one choice, trained on all splits of the data at a learning rate that was found for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr

from ..asking.solving import solve
from ..asking.stable_rates import StableRate, stable_rate
from ..base.errors import InvalidInput
from ..data.scaling import Standardised, are_classes
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem, Record
from ..problem.rules import GradientDescent, LearningRule
from ..problem.theory import Theory
from ..theories.finite_width import FiniteWidth
from ..theories.lazy import Lazy
from ..trajectory.trajectory import Trajectory

RECORDS, KERNEL_RECORDS = 40, 2
"""Moments of training at which losses, and kernels, are kept."""

KERNEL_ROWS = 64
"""Rows of kernels at most: samples times outputs."""

SEARCH_STEPS, SEARCH_RESOLUTION = 100, 0.1
KERNEL_SEEDS = 4
_HALVINGS = 5
"""How often a learning rate is halved if networks of some split diverge at it."""


@dataclass(frozen=True)
class Choice:
    """A network and a rule, with the name that their files have and the word that tables have.

    Richness 0 stands for the lazy limit, which theory answers.
    """

    name: str
    label: str
    network: MLP
    rule: LearningRule = dataclasses.field(default_factory=GradientDescent)

    @property
    def lazy(self) -> bool:
        """Whether it is the lazy limit."""
        return self.network.richness == 0


@dataclass(frozen=True)
class Bench:
    """What all choices of a study share: splits, width, number of networks for each split, steps."""

    splits: tuple[Standardised, ...]
    width: int
    seeds: int
    steps: int

    @property
    def networks(self) -> FiniteWidth:
        """Those that are trained on every split."""
        return FiniteWidth(self.width, seeds=self.seeds, dtype="float32")

    @property
    def classified(self) -> bool:
        """Whether targets are classes."""
        data = self.splits[0]
        return bool(data.classes) or are_classes(data.load().y)

    def problem(
        self, choice: Choice, split: int, rate: float | Literal["auto"], record: Record | None = None
    ) -> Problem:
        """What is trained on one split."""
        optimiser = SGD(learning_rate=rate, steps=self.steps)
        return Problem(choice.network, self.splits[split], rule=choice.rule, optimiser=optimiser, record=record)

    @property
    def losses_only(self) -> Record:
        """Losses and test outputs at moments whose distances grow."""
        return Record(steps=moments(self.steps, RECORDS), samples=1, kernels=False, neurons=0)

    @property
    def with_kernels(self) -> Record:
        """Kernels of some training samples at few moments."""
        samples = self.splits[0].load()
        few = max(2, min(samples.samples, KERNEL_ROWS // samples.outputs))
        return Record(steps=moments(self.steps, KERNEL_RECORDS), samples=few, neurons=0)


def moments(steps: int, count: int) -> tuple[int, ...]:
    """Step 0 and steps up to the last, at growing distances."""
    return (0, *np.unique(np.geomspace(1, steps, count).round().astype(int)).tolist())


def searched(bench: Bench, choice: Choice, repetitions: int = 1) -> StableRate:
    """The largest rate that trains networks of this choice on the first split."""
    problem = bench.problem(choice, 0, 1.0)
    steps = min(bench.steps, SEARCH_STEPS)
    width = np.inf if choice.lazy else bench.width
    return stable_rate(problem, width, steps=steps, repetitions=repetitions, resolution=SEARCH_RESOLUTION)


def trained(bench: Bench, choice: Choice, rate: float, network: Path | None = None) -> xr.Dataset:
    """Losses over (split, seed, step); networks of the first split with kernels go to the file `network`.

    Where networks diverge all begin again with half the rate. `data.attrs["learning_rate"]` is the one that was taken.
    """
    for halved in range(_HALVINGS):
        taken = rate / 2**halved
        runs = [part for part in _runs(bench, choice, taken) if part is not None]
        if len(runs) == len(bench.splits):
            found = xr.concat(runs, dim="split").assign_attrs(learning_rate=taken, halved=halved)
            if network is None:
                return found
            return found.assign(_with_kernels(bench, choice, taken, network))
    raise InvalidInput(
        f"networks with {choice.label} diverge at learning rates down to {taken:g}: look at the scale of the data"
    )


def _runs(bench: Bench, choice: Choice, rate: float) -> Iterator[xr.Dataset | None]:
    """One split after the other, up to the first that diverges."""
    theory: Theory = Lazy() if choice.lazy else bench.networks
    for split in range(len(bench.splits)):
        problem = bench.problem(choice, split, rate, bench.losses_only)
        answer = solve(problem, theory, throw=False, progress=False)
        if answer.status == "interrupted":
            raise KeyboardInterrupt
        if answer.status == "diverged":
            yield None
            return
        yield _losses(answer, bench.classified)


def _losses(answer: Trajectory, classified: bool) -> xr.Dataset:
    """Train and test loss over (seed, step), each over that of predicting the mean of the training targets: 1 - R^2."""
    samples = answer.problem.samples
    centre = samples.y.mean(axis=0)
    data = answer.data
    found = {
        "train_loss": 2 * data["loss"] / float(np.sum((samples.y - centre) ** 2)),
        "test_loss": 2 * data["test_loss"] / float(np.sum((samples.y_test - centre) ** 2)),
    }
    if classified:
        found["test_accuracy"] = answer.accuracy("test")
    steps = data["step"].values.astype(np.int64)
    plain = {}
    for name, value in found.items():
        value = value if "seed" in value.dims else value.expand_dims("seed")
        plain[name] = (("seed", "step"), value.transpose("seed", "time").values.astype(np.float64))
    return xr.Dataset(plain, {"step": steps})


def _with_kernels(bench: Bench, choice: Choice, rate: float, path: Path) -> dict[str, xr.DataArray]:
    """Alignment of kernels with the targets before and after training, over (moment, network)."""
    problem = bench.problem(choice, 0, rate, bench.with_kernels)
    theory: Theory = Lazy()
    if not choice.lazy:
        theory = FiniteWidth(bench.width, seeds=KERNEL_SEEDS, dtype="float32")
    answer = solve(problem, theory, throw=False, progress=False, output=path)
    if answer.status == "interrupted":
        raise KeyboardInterrupt
    found = {}
    for name in ("ntk", "feature_kernel"):
        value = answer.target_alignment(name)
        value = value.isel(layer=-1) if "layer" in value.dims else value
        value = value if "seed" in value.dims else value.expand_dims("seed")
        numbers = value.transpose("time", "seed").values.astype(np.float64)
        found[f"{name}_alignment"] = xr.DataArray(numbers, dims=("moment", "network"))
    return found


def mean_curves(parts: Sequence[xr.Dataset], name: str = "test_loss") -> list[np.ndarray]:
    """Means over networks, (split, step), of several choices."""
    return [part[name].mean("seed").values for part in parts]
