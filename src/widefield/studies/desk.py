"""What all questions of a study work with: the bench, the folder, the clock, and what was found so far."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from ..base.errors import NoLearningRate
from ..data.samples import Samples
from ..problem.network import MLP
from .answers import Answer
from .judging import Judgement, judged, over_splits, stopped
from .keeping import Folder
from .plan import TEST_SHARE, Clock, Costs, Grid, in_words
from .training import Bench, Choice, chosen, searched, trained


@dataclass(eq=False)
class Desk:
    """One study at work.

    Attributes:
        raw: the data as they came.
        bench: splits, width, networks, steps.
        folder: where parts are kept.
        clock: how much time is left.
        costs: what parts are expected to take.
        network: what is varied.
        grid: what is tried.
        say: prints a line of progress.
        answers: those that were found.
        left_out: what there was no time for.
        failed: choices that train at no learning rate, and why.
    """

    raw: Samples
    columns: tuple[str, ...] | None
    bench: Bench
    folder: Folder
    clock: Clock
    costs: Costs
    network: MLP
    grid: Grid
    say: Callable[[str], None]
    answers: dict[str, Answer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def part(self, name: str, title: str, expected: float, found: Callable[[], xr.Dataset]) -> xr.Dataset | None:
        """A part that is kept, or a new one if there is time for it; None if not."""
        if self.folder.has(name):
            return self.folder.part(name, title, found)
        if not self.clock.allows(expected):
            return None
        began = time.monotonic()
        made = self.folder.part(name, title, found)
        taken = time.monotonic() - began
        self.clock.learn(expected, taken)
        spent = f"{in_words(taken)}, {self.clock.elapsed / 60:.1f} of {self.clock.budget / 60:g} min"
        self.say(f"  {title}: {_brief(made)}{spent}")
        return made

    def choice(self, choice: Choice, expected: float) -> xr.Dataset | None:
        """Losses of a choice on all splits; None if there is no time, or if it `failed`."""
        if choice.label in self.failed:
            return None

        def found() -> xr.Dataset:
            limit = searched(self.bench, choice)
            made = trained(self.bench, choice, limit.suggested, self.folder.file("networks", choice.name))
            return made.assign_attrs(stable_rate=limit.rate, kernel_rate=limit.kernel_rate)

        try:
            return self.part(choice.name, choice.label, expected, found)
        except NoLearningRate as error:  # of one choice: all others still have an answer
            self.failed[choice.label] = str(error)
            self.say(f"  {choice.label}: {error}")
            return None

    def scan(self, question: str, choices: Sequence[Choice], costs: Sequence[float], first: int) -> Scan | None:
        """Choices one after the other, the one numbered `first` first; those without time are left out."""
        order = [first, *(place for place in range(len(choices)) if place != first)]
        done: dict[int, xr.Dataset] = {}
        for place in order:
            found = self.choice(choices[place], costs[place])
            if found is not None:
                done[place] = found
        absent = [choices[place].label for place in order if place not in done]
        if late := [label for label in absent if label not in self.failed]:
            self.left_out[question] = f"no time for {', '.join(late)}" if done else "no time"
        elif not done:
            self.left_out[question] = self.failed[absent[0]]
        if not done:
            return None
        kept = sorted(done)
        failed = tuple(label for label in absent if label in self.failed)
        return Scan(tuple(choices[place] for place in kept), tuple(done[place] for place in kept), failed)

    @property
    def layers(self) -> int:
        """Advised, or those that there were from the start."""
        return int(self.answers["depth"].advice) if "depth" in self.answers else self.network.hidden_layers

    @property
    def richness(self) -> float:
        """Advised, or that from the start; networks need a positive one."""
        found = float(self.answers["richness"].advice) if "richness" in self.answers else self.network.richness
        positive = [value for value in self.grid.richness if value > 0]
        return found if found > 0 else min(positive, default=0.1)

    def advised(self) -> MLP:
        """The network, as far as it is decided."""
        return dataclasses.replace(self.network, richness=self.richness, hidden_layers=self.layers)


@dataclass(frozen=True, eq=False)
class Scan:
    """Several choices on the same splits."""

    choices: tuple[Choice, ...]
    parts: tuple[xr.Dataset, ...]
    failed: tuple[str, ...] = ()
    """Those that train at no learning rate, by their words."""

    def at_stop(self, name: str) -> np.ndarray:
        """A quantity, mean over networks, (choice, split), at the rate and step that are best on all other splits."""
        found = []
        for part in self.parts:
            _, places = stopped(_in_a_row(part, "test_loss"))
            found.append(_in_a_row(part, name)[np.arange(len(places)), places])
        return np.array(found)

    def stops(self) -> list[int]:
        """The step at which training of every choice is stopped, the best on average over splits."""
        return [int(part["step"].values[chosen(part)[1]]) for part in self.parts]

    def judgement(self) -> Judgement:
        """Which is best."""
        return judged(self.at_stop("test_loss"), TEST_SHARE)

    def rates(self) -> list[float]:
        """Learning rates, the best on average over splits."""
        return [float(part.attrs["learning_rate"]) for part in self.parts]

    def unfinished(self) -> list[int]:
        """Choices whose test loss was still falling at the last step."""
        return [place for place, part in enumerate(self.parts) if self.stops()[place] >= int(part["step"].values[-1])]

    def spiking(self) -> list[int]:
        """Choices whose training losses spike at all rates."""
        return [place for place, part in enumerate(self.parts) if not part.attrs["smooth"]]

    def _curves(self, name: str) -> np.ndarray:
        """Means over networks, (choice, split, step), at the learning rate of every choice."""
        return np.stack([p[name].isel(rate=chosen(p)[0]).mean("seed").values for p in self.parts])

    def data(self, axis: str, values: Sequence[float | str]) -> xr.Dataset:
        """Everything in one table, over the choices under the name `axis`."""
        variables: dict[str, object] = {
            "test_loss": ((axis, "split"), self.at_stop("test_loss")),
            "train_loss": ((axis, "split"), self.at_stop("train_loss")),
            "stopping_step": (axis, self.stops()),
            "learning_rate": (axis, self.rates()),
            "test_curve": ((axis, "split", "step"), self._curves("test_loss")),
            "train_curve": ((axis, "split", "step"), self._curves("train_loss")),
        }
        if "test_accuracy" in self.parts[0]:
            variables["test_accuracy"] = ((axis, "split"), self.at_stop("test_accuracy"))
        for name in ("ntk_alignment", "feature_kernel_alignment"):
            pairs = [part[name].values for part in self.parts]
            for end, moment in (("before", 0), ("after", -1)):
                means = [values[moment].mean() for values in pairs]
                errors = [_error(values[moment]) for values in pairs]
                variables[f"{name}_{end}"] = (axis, means)
                variables[f"{name}_{end}_error"] = (axis, errors)
        labels = list(values)
        return xr.Dataset(variables, {axis: labels, "step": self.parts[0]["step"].values})


def _error(values: np.ndarray) -> float:
    """Over networks; one that has no scatter has no error."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _in_a_row(part: xr.Dataset, name: str) -> np.ndarray:
    """Means over networks, (split, rate and step), the steps of the largest rate last."""
    values = part[name].mean("seed").transpose("split", "rate", "step").values
    return np.asarray(values.reshape(len(values), -1))


def _brief(part: xr.Dataset) -> str:
    """The test loss, if that is what it holds."""
    if "test_loss" not in part or "rate" not in part["test_loss"].dims:
        return ""
    losses, _ = stopped(_in_a_row(part, "test_loss"))
    return f"test loss {over_splits(losses, TEST_SHARE)}, "
