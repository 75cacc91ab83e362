"""What is run within a number of minutes: sizes of the runs, and what every question costs, from a measured pilot."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..asking.solving import solve
from ..base.errors import FileProblem
from ..problem.network import MLP
from .training import KERNEL_SEEDS, RATES, SEARCH_STEPS, Bench, Choice


@dataclass(frozen=True)
class Grid:
    """What is tried: richness, 0 being the lazy limit, depths, widths, and learning rules beside gradient descent."""

    richness: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
    depths: tuple[int, ...] = (1, 2, 3, 4)
    widths: tuple[int, ...] = (32, 64, 128, 256)
    rules: tuple[str, ...] = ()


WIDTH_SPLITS, WIDTH_SEEDS = 3, 6
TEST_SHARE = 0.2
WIDTH = 128
NETWORK = MLP(hidden_layers=2, activation="tanh", richness=1.0, bias_variances=0.1, train_biases=True)
"""What is varied if no network is given: it has biases, because tables have no symmetry under x -> -x."""

QUESTIONS = ("scale", "rate", "baselines", "richness", "depth", "width", "rule")
"""In the order in which they are asked: what matters most comes first, what there is no time for is left out."""

_SEARCHES = 16
"""Runs until the largest rate is found, about."""

_LADDER = 3
"""Rates that are too large for smooth training, about, of rich networks."""

_STRUCTURES = 3
"""Programs to be compiled for a network of new shape: for the search, for losses, for kernels."""

_LEAST_COMPILING = 2.0
"""Seconds for a program: the pilot may find its own on disk, others then are still to be compiled."""

_SHARE = 0.75
"""Of the time that there is may be planned: estimates are rough."""


@dataclass(frozen=True)
class Sizes:
    """How much is run for every choice: rows of the data, splits of them, networks for each, steps."""

    rows: int
    splits: int
    seeds: int
    steps: int


LEVELS = (
    Sizes(60, 6, 1, 150),
    Sizes(100, 8, 1, 250),
    Sizes(150, 12, 1, 400),
    Sizes(250, 16, 1, 500),
    Sizes(400, 16, 2, 600),
    Sizes(600, 20, 2, 800),
    Sizes(1000, 20, 4, 1000),
)
"""Splits before networks: intervals shrink with splits, from 6 to 16 by half, and a network more for each split only
averages over what is random in one of them."""


@dataclass(frozen=True)
class Pilot:
    """Measured: seconds a step of one network with so many training samples takes, and to compile one program."""

    samples: int
    step: float
    compiling: float

    def at(self, samples: int) -> float:
        """Seconds a step with other samples: in proportion, but for a part that does not shrink."""
        return self.step * (0.3 + 0.7 * samples / self.samples)


def measured(bench: Bench, choice: Choice, steps: int = 40) -> Pilot:
    """Train for a few steps, twice: the first time there is something to compile."""
    small = dataclasses.replace(bench, steps=steps)
    problem = small.problem(choice, 0, 1e-3, small.losses_only)
    first = solve(problem, small.networks, throw=False, progress=False).statistics
    compiling = first["seconds_tracing"] + first["seconds_compiling"]
    began = time.perf_counter()
    solve(problem, small.networks, throw=False, progress=False)
    each = (time.perf_counter() - began) / (steps * small.seeds)
    return Pilot(small.splits[0].load().samples, each, max(compiling, _LEAST_COMPILING))


@dataclass(frozen=True)
class Costs:
    """Seconds that parts take, by the pilot."""

    pilot: Pilot
    sizes: Sizes
    width: int
    layers: int
    grid: Grid

    @property
    def _step(self) -> float:
        return self.pilot.at(round((1 - TEST_SHARE) * self.sizes.rows))

    @property
    def search(self) -> float:
        """The largest rate of one choice."""
        return _SEARCHES * min(SEARCH_STEPS, self.sizes.steps) * self._step

    @property
    def choice(self) -> float:
        """One choice on all splits, with its rate and its kernels."""
        tried = _LADDER * self.sizes.seeds  # rates that turn out to be too large, on one split each
        networks = RATES * self.sizes.splits * self.sizes.seeds + tried + KERNEL_SEEDS
        return self.search + networks * self.sizes.steps * self._step

    def question(self, name: str) -> float:
        """A question as a whole."""
        compiled = _STRUCTURES * self.pilot.compiling
        if name == "rate":
            return 3 * self.search + self.pilot.compiling
        if name == "baselines":
            return 6.0 + self.sizes.splits * (1.0 + 2.0 * (self.sizes.rows / 150) ** 2)
        if name == "richness":
            return max(1, len(self.grid.richness) - 1) * self.choice + compiled + self.sizes.splits * 0.5
        if name == "depth":
            return sum(self.depth(depth) for depth in self.grid.depths if depth != self.layers)
        if name == "width":
            return sum(self.widened(width) for width in self.grid.widths) + 8.0
        if name == "rule":
            return len(self.grid.rules) * (self.choice + compiled)
        return 0.2

    def depth(self, layers: int) -> float:
        """Networks of another depth."""
        return _STRUCTURES * self.pilot.compiling * layers / self.layers + self.choice * layers / self.layers

    def widened(self, width: int) -> float:
        """Networks of another width, in proportion to its square where that counts."""
        runs = WIDTH_SPLITS * WIDTH_SEEDS * self.sizes.steps * self._step
        return self.pilot.compiling + runs * (0.3 + 0.7 * (width / self.width) ** 2)


@dataclass(frozen=True)
class Plan:
    """What is to be run: sizes, and for every question the seconds that it is expected to take."""

    sizes: Sizes
    seconds: Mapping[str, float]
    left_out: tuple[str, ...]

    @property
    def total(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())


def planned(pilot: Pilot, rows: int, budget: float, width: int, layers: int, grid: Grid) -> Plan:
    """The largest sizes at which all questions fit into `budget` seconds; else the smallest, and fewer questions."""
    wanted = [name for name in QUESTIONS if name != "rule" or grid.rules]
    levels = [dataclasses.replace(level, rows=min(level.rows, rows)) for level in LEVELS]

    def costs(sizes: Sizes) -> dict[str, float]:
        known = Costs(pilot, sizes, width, layers, grid)
        return {name: known.question(name) for name in wanted}

    fitting = [level for level in levels if sum(costs(level).values()) <= _SHARE * budget]
    if fitting:
        return Plan(fitting[-1], costs(fitting[-1]), ())
    seconds = costs(levels[0])
    kept: dict[str, float] = {}
    for name in wanted:  # the first question that does not fit ends it, so that the order is that of importance
        if sum(kept.values()) + seconds[name] > _SHARE * budget:
            break
        kept[name] = seconds[name]
    return Plan(levels[0], kept, tuple(name for name in wanted if name not in kept))


def to_table(pilot: Pilot, sizes: Sizes) -> dict[str, Any]:
    """Plain values of what must not change when a study goes on."""
    return {"pilot": dataclasses.asdict(pilot), "sizes": dataclasses.asdict(sizes)}


def from_table(table: Mapping[str, Any]) -> tuple[Pilot, Sizes]:
    """What `to_table` made."""
    try:
        return Pilot(**table["pilot"]), Sizes(**table["sizes"])
    except (KeyError, TypeError):
        raise FileProblem("the plan in study.toml is damaged: choose another folder, or overwrite this one") from None


class Clock:
    """Time since a study began, against its budget; estimates are mended by what parts have really taken."""

    def __init__(self, minutes: float) -> None:
        self.began, self.budget = time.monotonic(), 60 * minutes
        self._expected, self._taken = 0.0, 0.0

    @property
    def elapsed(self) -> float:
        """Seconds."""
        return time.monotonic() - self.began

    @property
    def ratio(self) -> float:
        """What parts have taken over what was expected of them."""
        return min(max(self._taken / self._expected, 0.25), 4.0) if self._expected > 5 else 1.0

    def allows(self, seconds: float) -> bool:
        """Whether there is time for something that is expected to take so long."""
        return self.elapsed + self.ratio * seconds <= self.budget

    def learn(self, expected: float, taken: float) -> None:
        """Note how long a part has taken."""
        self._expected, self._taken = self._expected + expected, self._taken + taken


def in_words(seconds: float) -> str:
    """A time that a person can compare.

    >>> in_words(42), in_words(200)
    ('42 s', '3.3 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
