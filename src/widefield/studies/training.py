"""Networks of one choice, trained on all splits of the data at a learning rate that was found for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..asking.solving import solve
from ..asking.stable_rates import StableRate, stable_rate
from ..base.arrays import Floats
from ..base.errors import NoLearningRate
from ..data.scaling import Standardised, are_classes
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem, Record
from ..problem.rules import GradientDescent, LearningRule
from ..problem.theory import Theory
from ..theories.finite_width import FiniteWidth
from ..theories.lazy import Lazy
from ..trajectory.trajectory import Trajectory

RECORDS, KERNEL_RECORDS = 80, 2
"""Moments of training at which losses, and kernels, are kept."""

KERNEL_ROWS = 64
"""Rows of kernels at most: samples times outputs."""

SEARCH_STEPS, SEARCH_RESOLUTION = 100, 0.1
KERNEL_SEEDS = 4
HALVINGS = 8
"""How often a learning rate is halved if networks of some split spike or diverge at it."""

SPIKE = 0.05
"""A training loss that rises so far above the lowest before, in units of the loss of the mean, is a spike."""

SLOWER, RATES = 4, 2
"""The second rate that is tried is the first over this; so many rates in all."""


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
    """Losses over (rate, split, seed, step); networks of the first split with kernels go to the file `network`.

    The same rule for all choices. First the largest of rate, rate / 2, rate / 4, ... at which no training loss of any
    split spikes: in rich networks the kernel grows while they learn, up to several times, so that what is stable at
    the start is not later on. Where features follow the gradient smoothly, smaller rates pass through the same networks
    and only take longer; the second rate, a quarter of the first, is there to see that. `learning_rate` among the
    attributes is the better one on average over splits. Learning rules that do not descend may spike at any rate: then
    `smooth` is 0, and the first rate is the largest of these at which nothing diverges.
    """
    taken, runs, smooth = _settled(bench, choice, rate)
    rates, tried = [taken], [xr.concat(runs, dim="split")]
    slower = list(_runs(bench, choice, taken / SLOWER, spikes=True))
    finite = [part for part in slower if part is not None]
    if len(finite) == len(bench.splits):
        rates, tried = [taken / SLOWER, taken], [xr.concat(finite, dim="split"), *tried]
    found = xr.concat(tried, dim="rate").assign_coords(rate=rates)
    better = rates[chosen(found)[0]]
    found = found.assign_attrs(learning_rate=better, smooth=int(smooth))
    return found if network is None else found.assign(_with_kernels(bench, choice, better, network))


def chosen(part: xr.Dataset) -> tuple[int, int]:
    """Numbers of the rate and of the step with the lowest test loss on average over networks and splits."""
    losses = part["test_loss"].mean(("seed", "split")).transpose("rate", "step").values
    place = int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))
    return place // losses.shape[1], place % losses.shape[1]


def _settled(bench: Bench, choice: Choice, rate: float) -> tuple[float, list[xr.Dataset], bool]:
    """The largest rate without spikes, its losses on every split, and True; or False, if there are always spikes."""
    for spikes in (False, True):
        for halved in range(HALVINGS):
            taken = rate / 2**halved
            runs = list(_runs(bench, choice, taken, spikes=spikes))
            whole = [part for part in runs if part is not None]
            if len(whole) == len(bench.splits):
                return taken, whole, not spikes
    raise NoLearningRate(
        f"networks with {choice.label} diverge at learning rates down to {taken:g}: look at the scale of the data"
    )


def spiking(losses: Float[Floats, "... steps"]) -> bool:
    """Whether any of these training losses rises by more than `SPIKE` above the lowest before it."""
    lowest = np.minimum.accumulate(losses, axis=-1)
    return bool((losses - lowest > SPIKE).any())


def _runs(bench: Bench, choice: Choice, rate: float, *, spikes: bool) -> Iterator[xr.Dataset | None]:
    """One split after the other, up to the first that diverges, or spikes where that is not allowed: None for it."""
    theory: Theory = Lazy() if choice.lazy else bench.networks
    for split in range(len(bench.splits)):
        problem = bench.problem(choice, split, rate, bench.losses_only)
        answer = solve(problem, theory, throw=False, progress=False)
        if answer.status == "interrupted":
            raise KeyboardInterrupt
        losses = None if answer.status == "diverged" else _losses(answer, bench.classified)
        if losses is None or (not spikes and spiking(losses["train_loss"].values)):
            yield None
            return
        yield losses


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
