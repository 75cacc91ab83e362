"""Infinite width: the training program on conditioned matrices, which solves the mean-field equations exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import check
from ..conditioned import Conditioned
from ..errors import InvalidInput
from ..fields import State
from ..observe import Observer
from ..precision import double_precision
from ..runner import Runner, record_bytes
from ..training import Program, compile_problem
from ..trajectory import Trajectory, averaged, from_outcome
from .base import Theory

if TYPE_CHECKING:
    from ..problem import Problem
    from ..session import Session

LAZY_RICHNESS = 1e-6
"""Stands in for gamma_0 = 0: the kernels move by gamma_0^2, which is beyond the accuracy of everything else."""


@dataclass(frozen=True)
class InfiniteWidth(Theory, kind="infinite-width"):
    """The limit of infinite width (dynamical mean field theory, BP22 eq. (10), BP23 eq. (5)), for discrete steps.

    Args:
        particles: neurons that represent a layer; errors fall faster than particles^(-1/2). A power of 2 is best.
        replicas: independent solutions; their scatter gives the standard error of every number.
        rank_tolerance: directions weaker than this fraction of a vector are not followed; at least 1e-7, where
            rounding begins to look like new directions.
        first_seed: of the replicas first_seed, first_seed + 1, ...
    """

    particles: int = 2048
    replicas: int = 8
    rank_tolerance: float = 1e-2
    first_seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put: Any = object.__setattr__
        put(self, "particles", check.integer("particles", self.particles, least=2))
        put(self, "replicas", check.integer("replicas", self.replicas, least=1))
        put(self, "rank_tolerance", check.number("rank_tolerance", self.rank_tolerance, least=1e-7, most=1.0))
        put(self, "first_seed", check.integer("first_seed", self.first_seed, most=2**62))

    @property
    def label(self) -> str:
        """Width infinity."""
        return "width ∞"

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Solve the equations."""
        if problem.optimiser.temperature and problem.network.hidden_layers > 1:
            raise InvalidInput(
                f"optimiser.temperature = {problem.optimiser.temperature}: Langevin noise at infinite width is "
                "available for one hidden layer only; set it to 0, or use FiniteWidth"
            )
        network = problem.network
        lazy = network.richness == 0 or network.parameterisation == "ntk"
        times = problem.record.at(problem.optimiser.steps)
        with double_precision():
            program = compile_problem(problem, LAZY_RICHNESS if lazy else network.richness, network.ratios, "float64")
            observer = Observer(program, jnp.asarray(problem.samples.y_test), problem.record)
            start = ConditionedStart(program, self.particles, self.rank_tolerance)
            groups = [[self.first_seed + k] for k in range(self.replicas)]
            state = jax.tree.map(lambda leaf: leaf[0], start(groups[0]))
            needed = record_bytes(observer, state, len(times), self.replicas)
            check.memory("records", needed, "record less often (record.every) or fewer samples (record.samples)")
            outcome = Runner(observer, start, groups, times, session, self.fingerprint(problem)).run()
        return averaged(from_outcome(problem, self, outcome, [seeds[0] for seeds in groups]))


def initial_capacity(program: Program) -> int:
    """Directions that a matrix will be applied to, roughly: ten for every sample. More room is made when needed."""
    return 32 * (1 + 10 * program.inputs.shape[0] // 32)


class ConditionedStart(eqx.Module):
    """Makes the initial state of one replica."""

    program: Program
    particles: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __call__(self, seeds: Sequence[int]) -> State:
        """Draw the sources of the one seed given."""
        (seed,) = seeds
        capacity = initial_capacity(self.program)
        while True:
            substrate = Conditioned.create(
                seed, self.particles, self.program.ratios, tolerance=self.tolerance, capacity=capacity
            )
            state = _start(self.program, substrate)
            if not bool(state.substrate.exhausted):
                batched: State = jax.tree.map(lambda leaf: leaf[None], state)
                return batched
            capacity *= 2


@eqx.filter_jit
def _start(program: Program, substrate: Conditioned) -> State:
    return program.start(substrate)
