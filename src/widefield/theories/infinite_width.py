"""Infinite width: the training program on conditioned matrices, which solves the mean-field equations exactly."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import psutil

from ..base import check
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate
from ..base.precision import double_precision
from ..base.renamed import renamed
from ..matrices.conditioned import Conditioned
from ..matrices.substrate import State
from ..problem.scope import Clause, Scope
from ..problem.theory import Theory
from ..training.observe import Observer
from ..training.program import Program, compile_problem
from ..training.runner import Runner, record_bytes
from ..trajectory.trajectory import Trajectory
from . import recording
from .recording import averaged, from_outcome

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem
    from ..problem.record import Record

LAZY_RICHNESS = 1e-6
"""Stands in for gamma_0 = 0: the kernels move by gamma_0^2, which is beyond the error of everything else."""

_PILOT_PARTICLES, _PILOT_REPLICAS = 512, 4
_MOST_PARTICLES, _MOST_REPLICAS = 2**15, 64


@renamed(first_seed="seed", bias="particle_bias")
@dataclass(frozen=True)
class InfiniteWidth(Theory, kind="infinite-width"):
    """The limit of infinite width (dynamical mean field theory, BP22 eq. (10), BP23 eq. (5)).

    Every number comes with a standard error. Two more are in `Trajectory.data.attrs`: `relative_error`, the largest
    relative standard error of outputs and kernels, and `particle_bias`, how much the finite number of particles adds to
    that (if it was asked for by `particle_bias` or `tolerance`).

    Args:
        particles: neurons that represent a layer; errors fall faster than particles^(-1/2). A power of 2 is best.
        replicas: independent solutions; their scatter gives the standard error of every number.
        rank_tolerance: directions weaker than this fraction of a vector are not followed; at least 1e-7, where
            rounding begins to look like new directions.
        seed: of the replicas seed, seed + 1, ...
        tolerance: the relative error allowed, for example 0.01; particles, replicas and rank_tolerance are then chosen
            such that it is reached, as far as possible: if not, `NotAccurate` warns and attribute `reached` is 0.
        particle_bias: whether to estimate that of the answer, by solving again with half as many particles.
    """

    resumes: ClassVar[bool] = True
    substrate: ClassVar[type[Conditioned]] = Conditioned
    program: ClassVar[type[Program]] = Program

    particles: int = 2048
    replicas: int = 8
    rank_tolerance: float = 1e-2
    seed: int = 0
    tolerance: float | None = None
    particle_bias: bool = False

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=2))
        put(self, replicas=check.integer("replicas", self.replicas, least=1))
        put(self, rank_tolerance=check.number("rank_tolerance", self.rank_tolerance, least=1e-7, most=1.0))
        put(self, seed=check.integer("seed", self.seed, most=2**62))
        if self.tolerance is not None:
            put(self, tolerance=check.number("tolerance", self.tolerance, above=0.0, most=1.0))
        check.flag("particle_bias", self.particle_bias)

    @property
    def label(self) -> str:
        """Width infinity."""
        return "width ∞"

    @property
    def scope(self) -> Scope:
        """Everything but what has no limit, or random outputs in it."""
        return Scope(
            random_start=False,
            also=(
                Clause(
                    "record.responses",
                    lambda problem: problem.record.responses and bool(problem.optimiser.shakes),
                    "response functions with Langevin noise are not available",
                ),
            ),
            cost="replicas T P S rank",
            error="standard errors",
        )

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Solve the equations."""
        if self.tolerance is not None:
            return self._to_tolerance(problem, session, self.tolerance)
        answer = _Replicas(self, problem, session, self.identity(problem, session)).upto(self.replicas)
        if not self.particle_bias or answer.status != "complete":
            return answer
        halved = dataclasses.replace(self, particles=self.particles // 2, particle_bias=False)
        aside = dataclasses.replace(session, checkpoint=None)
        coarse = _Replicas(halved, problem, aside, "").upto(self.replicas)
        return _judged(answer, coarse, self.particles / halved.particles)

    def _to_tolerance(self, problem: Problem, session: Session, wanted: float) -> Trajectory:
        """A pilot run tells how many particles are needed; then replicas are added until the error is small enough."""
        # What truncation does to kernels is of the order of rank_tolerance^2.
        rank_tolerance = min(3e-2, max(1e-3, math.sqrt(wanted) / 5))
        pilot = dataclasses.replace(self, particles=_PILOT_PARTICLES, rank_tolerance=rank_tolerance, tolerance=None)
        coarse = _roomy(pilot, problem, dataclasses.replace(session, checkpoint=None))
        if coarse.status != "complete":
            return coarse
        error = recording.relative_error(coarse) * math.sqrt(_PILOT_REPLICAS)
        chosen = coarse.theory
        assert isinstance(chosen, InfiniteWidth)
        aim = 0.8 * wanted  # a standard error from few replicas is itself uncertain
        particles = recording.enough_particles(
            2 * chosen.particles, error / 2**0.7, aim * math.sqrt(_PILOT_REPLICAS), _MOST_PARTICLES
        )
        refined = dataclasses.replace(chosen, particles=particles)
        run = _Replicas(refined, problem, session, self.identity(problem, session))
        replicas = _PILOT_REPLICAS
        while True:
            answer = run.upto(replicas)
            if answer.status != "complete":
                return answer
            answer = _judged(answer, coarse, particles / chosen.particles)
            reached = math.hypot(answer.data.attrs["relative_error"], answer.data.attrs["particle_bias"])
            if reached <= wanted or replicas == _MOST_REPLICAS:
                break
            ratio = (answer.data.attrs["relative_error"] / aim) ** 2
            replicas = min(_MOST_REPLICAS, max(replicas + 2, math.ceil(replicas * min(ratio, 4.0))))
        settings: dict[str, Any] = {"particles": particles, "rank_tolerance": rank_tolerance}
        settings["seconds"] = answer.data.attrs["seconds"] + coarse.data.attrs["seconds"]
        settings["reached"] = int(reached <= wanted)
        answer = dataclasses.replace(answer, data=answer.data.assign_attrs(settings), theory=self)
        if reached > wanted:
            warnings.warn(
                f"tolerance = {wanted:g} was not reached: the relative error is about {reached:.2g} with "
                f"{particles} particles and {replicas} replicas",
                NotAccurate,
                stacklevel=4,
            )
        return answer


def _roomy(pilot: InfiniteWidth, problem: Problem, session: Session) -> Trajectory:
    """The pilot run; with more particles if the problem has more directions than there are particles."""
    while True:
        try:
            return _Replicas(pilot, problem, session, "").upto(_PILOT_REPLICAS)
        except InvalidInput:
            if pilot.particles >= _MOST_PARTICLES:
                raise
            pilot = dataclasses.replace(pilot, particles=2 * pilot.particles)


def _judged(answer: Trajectory, coarse: Trajectory, ratio: float) -> Trajectory:
    """With an estimate of its bias from a coarser answer."""
    attributes = (
        {"particle_bias": recording.particle_bias(answer, coarse, ratio)} if coarse.status == "complete" else {}
    )
    return dataclasses.replace(answer, data=answer.data.assign_attrs(attributes))


class _Replicas:
    """Independent solutions, as many as are wanted so far."""

    def __init__(self, theory: InfiniteWidth, problem: Problem, session: Session, fingerprint: str) -> None:
        self.theory, self.problem = theory, problem
        network = problem.network
        lazy = network.richness == 0 or network.parameterisation == "ntk"
        steps = problem.record.at(problem.optimiser.steps)
        with double_precision():
            richness = LAZY_RICHNESS if lazy else network.richness
            program = compile_problem(problem, richness, network.normalised_width_ratios, "float64", theory.program)
            if lazy:  # first outputs vanish in the limit, but not those of a few particles divided by this richness
                program = dataclasses.replace(program, network=dataclasses.replace(program.network, centred=True))
            observer = Observer(program, jnp.asarray(problem.samples.y_test), problem.record)
            start = ConditionedStart(program, theory.particles, theory.rank_tolerance, theory.substrate)
            start.check_memory(observer, len(steps), theory.replicas)
            self.runner = Runner(observer, start, [], steps, session, fingerprint)

    def upto(self, replicas: int) -> Trajectory:
        """The mean of so many replicas, with what there was before."""
        seeds = [self.theory.seed + k for k in range(replicas)]
        self.runner.groups = [[seed] for seed in seeds]
        with double_precision():
            outcome = self.runner.run()
        theory = dataclasses.replace(self.theory, replicas=replicas)
        answer = averaged(from_outcome(self.problem, theory, outcome, seeds, theory.rank_tolerance))
        return dataclasses.replace(
            answer, data=answer.data.assign_attrs(relative_error=recording.relative_error(answer))
        )


def initial_capacity(program: Program, tolerance: float) -> int:
    """Directions that a matrix will be applied to, roughly. More room is made when needed.

    Measured: 14 for each of 10 samples at a tolerance of 1e-2, falling with its square root and, for more samples, with
    their number. Noise needs one for every sample and step.
    """
    rows = program.inputs.shape[0]
    room = max(28 * rows**0.8 * math.sqrt(1e-2 / max(tolerance, 1e-3)), rows * program.optimiser.shakes)
    return 32 * -(-int(room) // 32)


class ConditionedStart(eqx.Module):
    """Makes the initial state of one replica."""

    program: Program
    particles: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    substrate: type[Conditioned] = eqx.field(static=True, default=Conditioned)

    def __call__(self, seeds: Sequence[int]) -> State:
        """Draw the sources of the one seed given."""
        (seed,) = seeds
        capacity = initial_capacity(self.program, self.tolerance)
        while True:
            state = _start(self.program, self._substrate(seed, capacity))
            if not bool(state.substrate.exhausted):
                batched: State = jax.tree.map(lambda leaf: leaf[None], state)
                return batched
            capacity *= 2

    def _substrate(self, seed: int, capacity: int, *, empty: bool = False) -> Conditioned:
        ratios, particles = self.program.ratios, self.particles
        return self.substrate.create(seed, particles, ratios, tolerance=self.tolerance, capacity=capacity, empty=empty)

    def check_memory(self, observer: Observer, records: int, replicas: int) -> None:
        """Raise before starting what would not fit."""
        capacity = initial_capacity(self.program, self.tolerance)
        if self._surely_fits(observer.record, capacity, records * replicas):
            return
        state = eqx.filter_eval_shape(lambda: self.program.start(self._substrate(0, capacity, empty=True)))
        held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state) if hasattr(leaf, "dtype"))
        # The state before a chunk of steps is kept until the chunk has succeeded, and the steps need room themselves.
        check.memory("particles", 3 * held, "reduce particles or samples, or raise rank_tolerance")
        needed = record_bytes(observer, state, records, replicas)
        check.memory("records", needed, "record less often (record.every) or fewer samples (record.samples)")

    def _surely_fits(self, record: Record, capacity: int, records: int) -> bool:
        """A bound that is quick to compute: measuring sizes exactly takes half a second."""
        rows, layers = self.program.inputs.shape[0] * self.program.targets.shape[1], len(self.program.ratios)
        neurons = self.particles if record.two_time or record.responses else record.neurons
        most = records * 40 * layers * (rows**2 + rows * neurons) + 100 * layers * capacity * self.particles
        return 8 * most < psutil.virtual_memory().available / 4


@eqx.filter_jit
def _start(program: Program, substrate: Conditioned) -> State:
    return program.start(substrate)
