"""Independent solutions at infinite width, side by side in one compiled program, and what they will cost."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..base import check
from ..base.errors import TooFewParticles
from ..base.numbers import double_precision
from ..gaussian.sobol import normals
from ..matrices.conditioned import Conditioned
from ..matrices.spans import Room, block_size, on_ladder
from ..matrices.substrate import State
from ..problem.network import MLP
from ..problem.rules import hidden
from ..training import kinds
from ..training.course import Course
from ..training.observe import Observer
from ..training.program import Program
from ..training.runner import AXIS, Outcome, Runner, over_seeds
from ..training.steps import Steps
from ..trajectory.two_time import Factors
from . import graph_rooms
from .folded_fields import FieldSizes, FoldedFields

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

LAZY_RICHNESS = 1e-6
"""Stands in for gamma_0 = 0: the kernels move by gamma_0^2, which is beyond the error of everything else."""

_SIDE_BY_SIDE = 4096
"""Particles, of all replicas together, that run side by side: more gain nothing and need memory."""

_LONG = 30.0
"""Seconds from which on it is worth telling."""

_USING, _FINDING = 0.62, 11.0
"""Work of a moment once all directions are found, and, in such moments, of finding them; at `speed`, measured on 256
digits in single precision: 9.1 s for T = 20, 225 s for T = 500."""

_LISTENING = 0.1
"""Seconds to find the speed of this machine."""

_FEW = 24
"""Directions for which there is always room: they cost next to nothing."""

_WORKSPACE = 1.25
"""What compiled programs need beside the states that they work on, as a factor; measured."""


@dataclass(frozen=True)
class Settings:
    """How finely a problem is solved, see `InfiniteWidth`."""

    particles: int
    rank_tolerance: float
    seed: int
    dtype: str = "float64"
    substrate: type[Conditioned] = Conditioned
    program: type[Program] = Program

    @property
    def group(self) -> int:
        """Replicas that run side by side: a power of 2, at most 4 (8 took 15% to 30% longer, and stop less finely)."""
        most = max(1, _SIDE_BY_SIDE // self.particles)
        return min(4, 1 << (most.bit_length() - 1))

    def whole_groups(self, replicas: float) -> int:
        """At least so many replicas, in groups that are full: a group that was run is not taken up again."""
        return self.group * math.ceil(replicas / self.group)


class Replicas:
    """Solutions of a problem with some settings, as many as are wanted so far."""

    def __init__(self, settings: Settings, problem: Problem, session: Session, fingerprint: str) -> None:
        self.settings, self.problem = settings, problem
        network, optimiser = problem.network, problem.optimiser
        lazy = network.richness == 0 or network.parameterisation == "ntk"
        steps = problem.record.at(optimiser.steps)
        if lazy:  # first outputs vanish in the limit, but not those of a few particles divided by this richness
            problem = dataclasses.replace(problem, network=dataclasses.replace(network, centred=True))
        with double_precision():
            richness = LAZY_RICHNESS if lazy else network.richness
            ratios = kinds.limiting_ratios(problem)
            program = kinds.program_of(problem, richness, ratios, settings.dtype, settings.program)
            observer = kinds.observer_of(problem, program, settings.dtype)
            _check_particles(settings.particles, problem)
            if isinstance(program, Program):
                room = first_room(program, expected_directions(problem, settings.rank_tolerance), settings.particles)
            else:
                directions = partial(expected_directions, problem, settings.rank_tolerance)
                room = graph_rooms.first_room(problem, directions, settings.particles)
            self.start = ConditionedStart(program, settings, room)
            itemsize = observer.test_targets.dtype.itemsize
            each = itemsize * observer.numbers((settings.particles,) * len(ratios))
            course = Course(optimiser.rates(), optimiser.batches(problem.samples.samples), steps)
            self.fields = self._keeper(problem) if problem.record.between_times else None
            self.runner = Runner(observer, self.start, [], course, session, fingerprint, each, self.fields)
            self.runner.remarks["particles"] = settings.particles

    def cost(self, replicas: int) -> Cost:
        """Of so many of them."""
        runner, program, room = self.runner, self.start.program, self.start.room
        rows, outputs = program.inputs.shape[0], program.targets.shape[1]
        together = isinstance(program, Program) and program.one_pass
        flops = sum(
            flops_of_run(
                moments=runner.course.moments,
                rows=rows * asked,
                backward=rows * asked * (1 if together else 1 + outputs),
                particles=self.settings.particles,
                rooms=[sizes],
                replicas=replicas,
            )
            for asked, sizes in self._rooms(room)
        )
        times, group = len(runner.course.recorded), min(replicas, self.settings.group)
        widths = (self.settings.particles,) * len(room.pools)
        observer = runner.observer
        plain = observer.numbers_without_fields(widths) if isinstance(observer, Observer) else observer.numbers(widths)
        # In the end all replicas are there, and their mean and error.
        records = (replicas + 2) * times * plain * np.dtype(self.settings.dtype).itemsize + runner.buffer_bytes(group)
        if self.fields is not None:
            sizes = self._field_sizes(self.fields)
            flops, records = flops + replicas * sizes.flops, records + 8 * sizes.numbers(group)
        return Cost(flops, self.start.bytes(group), records)

    def _rooms(self, room: Room) -> list[tuple[int, tuple[int, int]]]:
        """Of every matrix, about how many vectors of a sample it is asked, and its capacities."""
        named = dict(room.matrices)
        if isinstance(self.start.program, Program):
            names = {hidden(layer): 1 for layer in range(1, len(room.pools))}
        else:
            names = {spec.name: self.problem.plan.positions(spec.name) for spec in self.problem.plan.matrices}
        return [(asked, named.get(name, room.usual)[:2]) for name, asked in names.items()]

    def _field_sizes(self, keeper: FoldedFields) -> FieldSizes:
        observer = self.runner.observer
        assert isinstance(observer, Observer)
        forward, backward = expected_directions(self.problem, keeper.folding.tolerance)
        both = forward + backward if observer.record.responses else forward
        rows = observer.field_rows(len(self.start.room.pools))
        families = [family for features, gradients in rows for family in ((features, both), (gradients, backward))]
        return FieldSizes(tuple(families), self.settings.particles, len(self.runner.course.recorded))

    def upto(self, count: int) -> Outcome:
        """So many of them, with what there was before."""
        group, seeds = self.settings.group, self.seeds(count)
        self.runner.groups = [seeds[k : k + group] for k in range(0, count, group)]
        # Threads of BLAS and those of XLA are in each other's way: 2 ms for the eigenvalues of 256 vectors become 30.
        with double_precision(), threadpool_limits(1, user_api="blas"):
            return self.runner.run()

    def seeds(self, count: int) -> list[int]:
        """Of so many replicas."""
        return [self.settings.seed + k for k in range(count)]

    @property
    def factors(self) -> Factors:
        """Of two-time kernels and response functions, if they were asked for."""
        return {} if self.fields is None else self.fields.factors

    def _keeper(self, problem: Problem) -> FoldedFields:
        return FoldedFields(kinds.limiting_ratios(problem), problem.rule.exact, self.settings.rank_tolerance)

    @property
    def crowding(self) -> float:
        """Independent vectors that a population has seen, for each of its particles, at most."""
        return self.runner.crowding


def _check_particles(particles: int, problem: Problem) -> None:
    """Refuse fewer particles than there are independent vectors before the first step."""
    if isinstance(problem.network, MLP):
        least = max(problem.samples.reduced_inputs[-1], problem.samples.outputs)
    else:
        least = graph_rooms.most_vectors(problem.plan)
    if particles < least:
        raise TooFewParticles(
            f"particles = {particles} are too few: inputs and outputs alone have {least} independent directions; "
            "raise particles"
        )


def expected_directions(
    problem: Problem, rank_tolerance: float, asked: int = 1, spread: float = 1.0
) -> tuple[float, float]:
    """How many directions a matrix and its transpose will be asked about, roughly.

    `asked` are vectors of one sample, `spread` over so many times as many dimensions as the inputs have.

    Measured at 0.0566, both directions of both matrices of three layers: 202 for 10 samples on a sphere from T = 100
    on, 805 (T = 50) and 848 (T = 250 and 1000) for 40; 779, 864, 981, 1075 for 64 digits (T = 20, 60, 180, 500), 1323,
    1559, 1769 for 128 (T = 20, 100, 500), 2097, 2501, 2950 for 256. 1.35 times as many at 0.042 as at 0.07,
    twice as many at 0.01. Langevin noise needs one for every sample and step.
    """
    samples = problem.samples
    rows = (samples.samples + samples.test_samples) * asked
    dimension = spread * _effective_dimension(samples.everything.reshape(-1, samples.dimension))
    finer = (0.07 / max(rank_tolerance, 1e-3)) ** 0.45
    steps = min(max(problem.optimiser.steps, 20), 500)
    more = max(0.8, 0.36 * rows**0.19) * (steps / 20) ** 0.1 * finer
    least, backward_rows = max(rows * problem.optimiser.shakes, _FEW), rows * samples.outputs
    forward = min(1.4 * rows**0.235 * dimension**1.3, 4.5 * rows) * more
    backward = min(4.1 * backward_rows**0.46 * dimension**0.81, 7.5 * backward_rows) * more
    return max(forward, least), max(backward, least)


def _effective_dimension(x: Float[NDArray[np.float64], "p d"]) -> float:
    """(sum_i s_i)^2 / sum_i s_i^2 of the singular values, the number of directions among which inputs are spread."""
    x = x / max(float(np.abs(x).max(initial=0.0)), np.finfo(np.float64).tiny)
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x
    strengths = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0))
    square = float(np.sum(strengths**2))
    return float(np.sum(strengths)) ** 2 / square if square > 0 else 1.0


def first_room(program: Program, expected: tuple[float, float], particles: int) -> Room:
    """Capacities to begin with. More room is made when needed."""
    block = block_size(program.inputs.shape[0])
    depth, statics = len(program.ratios), program.inputs.shape[1] + program.targets.shape[1] + block
    seen = on_ladder(min(2, depth - 1) * sum(expected) + 2 * statics)
    room = Room((min(seen, particles),) * depth, _sizes(expected, particles, block))
    if depth > 2 and program.rule.exact:  # the first features and the last gradients have fewer directions
        forward, backward = expected
        room = room.having(hidden(1), (*_sizes((0.7 * forward, backward), particles, block), 0, 0))
        room = room.having(hidden(depth - 1), (*_sizes((forward, 0.74 * backward), particles, block), 0, 0))
    return room


def _sizes(expected: tuple[float, float], particles: int, block: int) -> tuple[int, int]:
    forward, backward = (min(on_ladder(count + block), particles) for count in expected)
    return forward, backward


@dataclass(frozen=True)
class ConditionedStart:
    """Makes the initial states of replicas."""

    program: Steps
    settings: Settings
    room: Room

    def __call__(self, seeds: Sequence[int], room: Room | None) -> State:
        """Draw the sources of seeds."""
        room, tolerance = room or self.room, jnp.asarray(self.settings.rank_tolerance, self.settings.dtype)
        while True:
            streams = self._streams(seeds, room)
            state = _start((self.program, tolerance, jnp.asarray(seeds), room, self.settings.substrate), streams)
            if not bool(state.substrate.exhausted):
                return state
            assert isinstance(state.substrate, Conditioned)
            room = state.substrate.larger_room()

    def enlarged(self, seeds: Sequence[int], state: State, room: Room) -> State:
        """The same states with other room."""
        return _enlarged((self.program, self._streams(seeds, room)), state, room)

    def _streams(self, seeds: Sequence[int], room: Room) -> tuple[Float[Array, "seeds _ s"], ...]:
        """Normal numbers for every population."""
        return tuple(jnp.asarray(self._stream(seeds, population, count)) for population, count in enumerate(room.pools))

    def _stream(self, seeds: Sequence[int], population: int, count: int) -> NDArray[Any]:
        made = np.empty((len(seeds), count, self.settings.particles), self.settings.dtype)

        def draw(number: int) -> None:
            made[number] = normals(seeds[number], population, count, self.settings.particles)

        with ThreadPoolExecutor(max_workers=min(len(seeds), os.cpu_count() or 1)) as threads:
            list(threads.map(draw, range(len(seeds))))
        return made

    def bytes(self, replicas: int) -> int:
        """Memory of states side by side: what populations have seen and will draw, and both sides of matrices."""
        known = sum(sum(sizes[:2]) for _, sizes in self.room.matrices)
        if isinstance(self.program, Program):
            known = sum(self.room.usual) * (len(self.room.pools) - 1)
        held = 2 * sum(self.room.pools) + 2 * known
        fields = 6 * self.program.inputs.shape[0] * self.program.targets.shape[1] * len(self.room.pools)
        size = np.dtype(self.settings.dtype).itemsize * replicas * self.settings.particles
        return int(_WORKSPACE * size * (held + fields))


@eqx.filter_jit(donate="all-except-first")
def _start(
    kept: tuple[Steps, Float[Array, ""], Int[Array, " seeds"], Room, type[Conditioned]],
    streams: tuple[Float[Array, "seeds _ s"], ...],
) -> State:
    program, tolerance, seeds, room, substrate = kept

    def one(both: tuple[Array, tuple[Array, ...]]) -> State:
        ratios = jnp.stack(program.ratios)
        return program.start(substrate.create(*both, ratios, tolerance=tolerance, room=room, axis=AXIS))

    return over_seeds(one, (seeds, streams), alone=False)


@eqx.filter_jit
def _enlarged(kept: tuple[Steps, tuple[Float[Array, "seeds _ s"], ...]], state: State, room: Room) -> State:
    program, streams = kept

    def one(both: tuple[State, tuple[Array, ...]]) -> State:
        state, streams = both
        assert isinstance(state.substrate, Conditioned)
        return program.on_larger(state, state.substrate.with_room(room, streams))

    return over_seeds(one, (state, streams), alone=False)


@dataclass(frozen=True)
class Cost:
    """Floating point operations and bytes of memory: of states that run side by side, and of all records."""

    flops: float
    state_bytes: int
    record_bytes: int

    @property
    def bytes(self) -> int:
        """In all."""
        return self.state_bytes + self.record_bytes

    @property
    def seconds(self) -> float:
        """At the speed of products of matrices on this machine, which is measured, without compilation."""
        return self.flops / speed()

    def check_memory(self) -> None:
        """Raise `InvalidInput` for what would not fit."""
        check.memory("particles", self.state_bytes, "reduce particles or samples, or raise rank_tolerance")
        advice = "record less often (record.every) or fewer samples (record.samples)"
        check.memory("records", self.record_bytes, advice)

    def __str__(self) -> str:
        """For people who wait."""
        spent, size = _time(self.seconds), self.bytes / 2**30
        return f"about {spent} and {size:.1f} GiB ({self.flops / 1e12:.2g} TFlop at {speed() / 1e9:.0f} GFlop/s)"

    @property
    def long(self) -> bool:
        """Whether somebody should be told."""
        return self.seconds > _LONG


def flops_of_run(
    *, moments: int, rows: int, backward: int, particles: int, rooms: list[tuple[int, int]], replicas: int
) -> float:
    """Flops of replicas: two products a question, with [q; f] and [e; r] of the given room, forward and backward."""
    per_moment = sum(4 * (rows + backward) * particles * sum(room) + 2 * rows * room[0] * room[1] for room in rooms)
    return replicas * (_USING * moments + _FINDING) * float(per_moment)


@lru_cache
def speed() -> float:
    """Flops a second of products like those of a step: of one core, many times, as others may be at work; times all."""
    rows, size, particles = 64, 512, 1024
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, particles)), rng.standard_normal((size, particles))
    with threadpool_limits(1, user_api="blas"):
        best, end = math.inf, time.perf_counter() + _LISTENING
        while (began := time.perf_counter()) < end:
            a @ b.T
            best = min(best, time.perf_counter() - began)
    return 2.0 * rows * size * particles * _cores() / best


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
