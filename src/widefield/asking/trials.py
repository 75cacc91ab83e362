"""Short runs of one problem at many learning rates."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..base import check
from ..base.errors import InvalidInput
from ..base.session import Session
from ..data.arrays import Data
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem, Record
from ..theories.finite_width import FiniteWidth
from ..theories.infinite_width import InfiniteWidth
from ..theories.lazy import Lazy

if TYPE_CHECKING:
    from ..problem.theory import Theory
    from ..trajectory.trajectory import Trajectory

_RANK_TOLERANCE = 0.1
_LEAST_PARTICLES = 256
_ROOMY = 1.6
"""Particles for each independent vector that a population sees, see `InfiniteWidth`."""

_STAND_IN, _MANY = 512, 1000
"""Width of networks that stand in for infinite width; half of it beyond so many samples."""


@dataclass(frozen=True)
class Ran:
    """Losses of one run: before training, at the end, and the largest over the last tenth of the steps."""

    first: float
    last: float
    largest: float

    @property
    def failed(self) -> bool:
        """Whether it diverged: the largest loss of the last tenth exceeds the first, or is no number."""
        return not self.largest <= self.first


class Trials:
    """One problem at constant learning rates, on networks or replicas with the seeds 0, 1, ..."""

    def __init__(self, problem: Problem, width: float = math.inf, steps: int | None = None) -> None:
        if not isinstance(problem, Problem):
            raise InvalidInput(f"problem = {check.shown(problem)} must be a Problem")
        check_layers(problem)
        if not isinstance(problem.optimiser, SGD):
            raise InvalidInput(
                f"optimiser = {problem.optimiser.kind!r} has no learning rate; give SGD(learning_rate=..., steps=...)"
            )
        self.width = whole_width("width", width)
        count = problem.optimiser.steps if steps is None else check.integer("steps", steps, least=1)
        self.steps, self.problem, self._optimiser = count, _at_rest(problem, count), problem.optimiser
        self._theory = self._chosen()

    @property
    def method(self) -> str:
        """Who is asked, in words."""
        theory = self._theory
        if isinstance(theory, Lazy):
            return "the lazy limit"
        if isinstance(theory, InfiniteWidth):
            return f"solutions of infinite width with {theory.particles} particles"
        assert isinstance(theory, FiniteWidth)
        stands = ", which stand in for infinite width" if math.isinf(self.width) else ""
        return f"networks of width {theory.width}{stands}"

    @property
    def alike(self) -> bool:
        """Whether all seeds give the same answer."""
        return isinstance(self._theory, Lazy)

    def run(self, rate: float, seed: int = 0) -> Ran:
        """Train at this rate."""
        optimiser = dataclasses.replace(self._optimiser, learning_rate=rate, steps=self.steps)
        asked = dataclasses.replace(self.problem, optimiser=optimiser)
        with np.errstate(over="ignore", invalid="ignore"):
            answer: Trajectory = self._seeded(seed).predict(asked, Session())
        losses = answer.mean("loss").values
        if answer.status != "complete":
            first = losses[0] if len(losses) else math.nan
            return Ran(float(first), math.nan, math.nan)
        return Ran(float(losses[0]), float(losses[-1]), float(losses[1:].max()))

    def _seeded(self, seed: int) -> Theory:
        return self._theory if self.alike else dataclasses.replace(self._theory, seed=seed)  # type: ignore[call-arg]

    def _chosen(self) -> Theory:
        """The theory that answers: infinite width where it is quick, else networks.

        Near divergence every step asks for new directions of the matrices between layers, and infinite width would
        have to be compiled again and again to find room for them (a minute a run, where networks take a second). With
        one hidden layer there are no such matrices, and it takes a thirtieth of a second.
        """
        if math.isfinite(self.width):
            return FiniteWidth(int(self.width), dtype="float32")
        network, samples = self.problem.network, self.problem.samples
        lazy = network.richness == 0 or network.parameterisation == "ntk"
        obstacles = Lazy().scope.reasons(self.problem) if lazy else []
        if lazy and not obstacles:
            return Lazy()
        if network.richness == 0:
            raise InvalidInput(
                f"richness = 0 is answered by the lazy limit alone, but {obstacles[0]}; give a small one"
            )
        if network.hidden_layers == 1 and not lazy:
            particles = max(_LEAST_PARTICLES, 1 << math.ceil(math.log2(_ROOMY * samples.samples)))
            engine = InfiniteWidth(particles=particles, replicas=1, rank_tolerance=_RANK_TOLERANCE, dtype="float32")
            if not engine.scope.reasons(self.problem):
                return engine
        return FiniteWidth(stand_in(samples.samples), dtype="float32")


def check_layers(problem: Problem) -> None:
    """Refuse networks whose tangent kernel at the start is not known without training them."""
    if not isinstance(problem.network, MLP):
        raise InvalidInput(
            f"network = {problem.network.heading!r}: learning rates are found for networks of the kind 'mlp' only; "
            "give a number, below 2 over the largest eigenvalue of `ntk` at step 0 of wf.FiniteWidth"
        )


def whole_width(name: str, width: float) -> float:
    """A number of neurons, or infinity."""
    if isinstance(width, float) and (math.isinf(width) or width.is_integer()):
        return math.inf if width == math.inf else check.integer(name, int(width), least=1)
    return check.integer(name, width, least=1)


def stand_in(samples: int) -> int:
    """Width of networks that stand in for infinite width: less where there are many samples."""
    return _STAND_IN if samples <= _MANY else _STAND_IN // 2


def _at_rest(problem: Problem, steps: int) -> Problem:
    """The training samples alone, and records of the loss before training and over the last tenth."""
    last = tuple(range(steps - max(1, steps // 10) + 1, steps + 1))
    assert isinstance(problem.optimiser, SGD)
    return dataclasses.replace(
        problem,
        data=Data(problem.samples.x, problem.samples.y) if problem.samples.test_samples else problem.data,
        optimiser=dataclasses.replace(problem.optimiser, learning_rate=1.0, steps=steps),
        record=Record(steps=last, samples=1, kernels=False, neurons=0),
    )
