"""Infinite width: the training program on conditioned matrices, which solves the mean-field equations exactly."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ..base import check
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate, TooFewParticles
from ..base.renamed import renamed
from ..base.session import Session
from ..matrices.conditioned import Conditioned
from ..problem.network import MLP
from ..problem.theory import Clause, Scope, Theory
from ..training import checkpoint
from ..training.program import Program
from ..trajectory.trajectory import Trajectory
from . import graph_rooms, recording
from .ensemble import Ensemble, no_networks
from .recording import averaged, from_outcome
from .replicas import Cost, Replicas, Settings, expected_directions

if TYPE_CHECKING:
    from ..problem.problem import Problem

TOLERANCE = 0.02
"""Relative error of outputs and kernels that is asked for if nothing is said."""

_PARTICLES, _REPLICAS, _RANK_TOLERANCE = 2048, 8, 1e-2
"""Where one of the first two is given, and no tolerance, these are the others."""

_MOST_PARTICLES, _MOST_REPLICAS = 2**15, 256

METHODS = ("auto", "conditioned", "networks")
_WORTH_TRYING = 1e12
"""Floating point operations, about ten seconds, below which no other method is tried."""

_DEARER = 2.5
"""How many times fewer operations networks must need. One of theirs takes 1.0 to 1.4 times as long, bookkeeping as much
again, and at the same tolerance particles have the smaller error."""

DTYPES = ("float64", "float32")
_COARSEST = 1e-2
"""Smallest tolerance, and smallest rank tolerance, in single precision."""

_TRUNCATED = 2.5
"""What truncation does to kernels, over rank_tolerance^2: about that (up to 1.3% at 0.07, against real networks)."""

_RANK_SHARE = 0.4
"""Rank tolerance over the root of a tolerance: what is left out takes a third of the error: less costs more."""

_ROUNDED_OFF = 0.115
"""The most that it does, over rank_tolerance, at small ones: there it falls more slowly than as a square. Softplus
networks under direct feedback alignment, at 0.01: 4e-4 (features) to 8e-4 (pseudo-gradients); at 0.03: 3.4e-3."""

_MADE, _WORTH_TELLING = 1.5, 30.0
"""Seconds to trace and compile a hidden layer (12 s for 6 of them, 71 s for 50), and from which on that is told."""

_ROOMY = 1.15
"""Particles for each independent vector that a population sees: without room, nothing new can be drawn."""

_MARGIN = 1.03
"""More than that to begin with: to begin again costs more."""


@renamed(first_seed="seed", bias="particle_bias")
@dataclass(frozen=True)
class InfiniteWidth(Theory, kind="infinite-width"):
    """The limit of infinite width (dynamical mean field theory, BP22 eq. (10), BP23 eq. (5)).

    Every number comes with a standard error. `relative_error` in `Trajectory.data.attrs` is the largest relative
    error of outputs and kernels: `statistical_error` and `truncation_error` together; `particles`, `replicas` and
    `rank_tolerance` are what was taken to reach it. `truncation_bound` is what truncation does where it does most;
    intervals are wider by it. Dynamics that escape from a plateau make more of both: see docs/infinite-width.md.

    Args:
        particles: neurons that represent a layer; None takes as many as the problem needs.
        replicas: independent solutions; their scatter gives the standard error of every number. None adds more until
            the tolerance is reached.
        rank_tolerance: directions weaker than this fraction of a vector are not followed; at least 1e-7, where
            rounding begins to look like new directions. None follows from the tolerance.
        seed: of the replicas seed, seed + 1, ...
        tolerance: the relative error allowed, 0.02 if neither particles nor replicas are given. If it is out of
            reach, `NotAccurate` warns and attribute `reached` is 0.
        particle_bias: whether to estimate how much the finite number of particles adds to the error, by solving again
            with half as many; as attribute `particle_bias`.
        dtype: "float64", or "float32": about twice as fast, for rank tolerances of 0.01 and more. None is "float32"
            where a tolerance of 0.01 or more decides, of which rounding errors are no part that counts, else "float64".
        method: "conditioned" solves the equations on particles. "networks" averages real networks of width 128 until
            the tolerance is reached; narrower ones tell their bias, which is part of the error. "auto" takes networks
            where the tolerance decides and a pilot says that they are cheaper, as with hundreds of samples; attribute
            `method` says what was taken. The choice follows from the problem and the seed, not from a clock.
    """

    resumes: ClassVar[bool] = True
    substrate: ClassVar[type[Conditioned]] = Conditioned
    program: ClassVar[type[Program]] = Program

    particles: int | None = None
    replicas: int | None = None
    rank_tolerance: float | None = None
    seed: int = 0
    tolerance: float | None = None
    particle_bias: bool = False
    dtype: str | None = None
    method: str = "auto"

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        if self.particles is not None:
            put(self, particles=check.integer("particles", self.particles, least=2))
        if self.replicas is not None:
            put(self, replicas=check.integer("replicas", self.replicas, least=1))
        if self.rank_tolerance is not None:
            put(self, rank_tolerance=check.number("rank_tolerance", self.rank_tolerance, least=1e-7, most=1.0))
        put(self, seed=check.integer("seed", self.seed, most=2**62))
        if self.tolerance is not None:
            put(self, tolerance=check.number("tolerance", self.tolerance, above=0.0, most=1.0))
        check.flag("particle_bias", self.particle_bias)
        if self.dtype is not None:
            check.choice("dtype", self.dtype, DTYPES)
        check.choice("method", self.method, METHODS)
        if self.method == "networks" and self._of_particles:
            given = ", ".join(self._of_particles)
            raise InvalidInput(f"method = 'networks' has no {given}: leave it out, or take method = 'conditioned'")
        if self.dtype == "float32" and (self.rank_tolerance or 1.0) < _COARSEST:
            raise InvalidInput(
                f"rank_tolerance = {self.rank_tolerance:g} is below the rounding errors of dtype = 'float32': "
                f"take at least {_COARSEST:g}, or dtype = 'float64'"
            )

    @property
    def label(self) -> str:
        """Width infinity."""
        return "width ∞"

    @property
    def scope(self) -> Scope:
        """Everything but what has no limit, or random outputs in it."""
        return Scope(
            networks=None,
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
        network = problem.network
        layers = network.hidden_layers if isinstance(network, MLP) else len(problem.plan.questions)
        if _MADE * layers > _WORTH_TELLING:
            session.note(
                f"jax first compiles {layers} layers: about {_MADE * layers:.0f} s, unless it has done so before"
            )
        if self._fixed:
            settings = self._settings(self.particles or _PARTICLES, self.rank_tolerance or _RANK_TOLERANCE)
            run = Replicas(settings, problem, session, self.identity(problem, session))
            replicas = self.replicas or _REPLICAS
            self._announce(run, replicas, session)
            answer = self._answer(problem, run, replicas)
        else:
            ensemble = self._by_networks(problem, session)
            if ensemble is not None:
                return self._reached(ensemble, self.tolerance or TOLERANCE)
            answer, run = self._to_tolerance(problem, session)
            replicas = answer.data.attrs["replicas"]
        if not self.particle_bias or answer.status != "complete":
            return answer
        halved = dataclasses.replace(run.settings, particles=run.settings.particles // 2)
        aside = Replicas(halved, problem, dataclasses.replace(session, checkpoint=None), "")
        return _judged(answer, self._answer(problem, aside, replicas), run.settings.particles / halved.particles)

    def cost(self, problem: Problem) -> Cost:
        """What the (first) replicas will cost: time, memory; nothing is solved."""
        settings = self._first(problem, self.tolerance or TOLERANCE)
        if self._fixed:
            settings = self._settings(self.particles or _PARTICLES, self.rank_tolerance or _RANK_TOLERANCE)
        run = Replicas(settings, problem, Session(), "")
        return run.cost(
            (self.replicas or _REPLICAS) if self._fixed else settings.whole_groups(max(self.replicas or 0, 4))
        )

    def _announce(self, run: Replicas, replicas: int, session: Session, *, done: int = 0) -> None:
        """Refuse what does not fit into memory, and say beforehand what takes long."""
        run.cost(replicas).check_memory()
        cost = run.cost(replicas - done)
        if cost.long:
            sizes = f"{replicas} replicas of {run.settings.particles} particles"
            saves = "a larger tolerance (the time falls with its square), fewer steps or samples"
            if run.settings.dtype == "float64":
                saves += ", or dtype = 'float32'"
            session.note(f"{sizes}: {cost}; to wait less: {saves}")

    def _settings(self, particles: int, rank_tolerance: float) -> Settings:
        wanted = TOLERANCE if self.tolerance is None else self.tolerance
        coarse = not self._fixed and min(wanted, rank_tolerance) >= _COARSEST
        dtype = self.dtype or ("float32" if coarse else "float64")
        return Settings(particles, rank_tolerance, self.seed, dtype, self.substrate, self.program)

    @property
    def _fixed(self) -> bool:
        """Whether no tolerance decides, but the numbers given."""
        return self.tolerance is None and bool(self.particles or self.replicas)

    @property
    def _of_particles(self) -> list[str]:
        """Settings given that have a meaning for particles only."""
        given = {"particles": self.particles, "replicas": self.replicas, "rank_tolerance": self.rank_tolerance}
        flags = {"particle_bias": self.particle_bias, "dtype": self.dtype == "float64"}
        return [name for name, value in (given | flags).items() if value]

    def _by_networks(self, problem: Problem, session: Session) -> Trajectory | None:
        """The answer of real networks, if they are asked for or cheaper."""
        reasons = no_networks(problem) if self.program is Program else "another theory needs its own equations"
        if self.method == "networks" and reasons:
            raise InvalidInput(f"method = 'networks' cannot answer this: {reasons}; take method = 'conditioned'")
        wanted = self.tolerance or TOLERANCE
        if self.method == "networks":
            return Ensemble(problem, self, session, self.seed, wanted).answer()
        if self.method == "conditioned" or reasons or self._of_particles or _begun_with(session):
            return None
        flops = self.cost(problem).flops
        ensemble = Ensemble(problem, self, session, self.seed, wanted, limit=flops / _DEARER)
        return ensemble.answer() if flops > _WORTH_TRYING and ensemble.expected_flops < ensemble.limit else None

    def _answer(self, problem: Problem, run: Replicas, replicas: int) -> Trajectory:
        """The mean of so many replicas."""
        outcome, settings = run.upto(replicas), run.settings
        found = from_outcome(problem, self, outcome, run.seeds(replicas), run.factors)
        answer = averaged(found)
        used = {"particles": settings.particles, "rank_tolerance": settings.rank_tolerance, "dtype": settings.dtype}
        statistical = recording.relative_error(answer)
        truncation = _TRUNCATED * settings.rank_tolerance**2
        attributes = {"method": "conditioned", **used, "statistical_error": statistical, "truncation_error": truncation}
        attributes["relative_error"] = math.hypot(statistical, truncation)
        attributes["truncation_bound"] = max(truncation, _ROUNDED_OFF * settings.rank_tolerance)
        return dataclasses.replace(answer, data=answer.data.assign_attrs(attributes))

    def _to_tolerance(self, problem: Problem, session: Session) -> tuple[Trajectory, Replicas]:
        """More replicas until the error is small enough; and more particles where replicas would be too many."""
        wanted = self.tolerance or TOLERANCE
        settings = _resumed(self._first(problem, wanted), session)
        fingerprint = self.identity(problem, session)
        while True:
            run = Replicas(settings, problem, session, fingerprint)
            replicas = settings.whole_groups(max(self.replicas or 0, 4))
            self._announce(run, replicas, session)
            try:
                answer = self._answer(problem, run, replicas)
            except TooFewParticles:
                if self.particles or settings.particles >= _MOST_PARTICLES:
                    raise
                settings = dataclasses.replace(settings, particles=2 * settings.particles)
                continue
            more = self._more_particles(answer, run, wanted)
            if more <= settings.particles:
                break
            settings = dataclasses.replace(settings, particles=more)
        while answer.status == "complete" and replicas < _MOST_REPLICAS:
            attributes = answer.data.attrs
            if attributes["relative_error"] <= wanted:
                break
            # Not to stop by chance, aim a little lower; where truncation alone is too much, replicas do not help.
            aim = math.sqrt(max(wanted**2 - attributes["truncation_error"] ** 2, 0.0))
            if aim == 0:
                break
            # The error is itself a guess from few replicas: never more than twice as many at once.
            needed = replicas * min(2.0, (attributes["statistical_error"] / (0.95 * aim)) ** 2)
            done, replicas = replicas, min(_MOST_REPLICAS, settings.whole_groups(max(needed, replicas + 1)))
            self._announce(run, replicas, session, done=done)
            answer = self._answer(problem, run, replicas)
        return self._reached(answer, wanted), run

    def _first(self, problem: Problem, wanted: float) -> Settings:
        """Settings to begin with."""
        least = _COARSEST if self.dtype == "float32" else 1e-3
        rank_tolerance = self.rank_tolerance or min(0.1, max(least, _RANK_SHARE * math.sqrt(wanted)))
        return self._settings(self.particles or first_particles(problem, rank_tolerance), rank_tolerance)

    def _more_particles(self, answer: Trajectory, run: Replicas, wanted: float) -> int:
        """How many particles are better than those of the first replicas."""
        particles = run.settings.particles
        if self.particles or answer.status != "complete":
            return particles
        missing = (answer.data.attrs["relative_error"] / wanted) ** 2 / 16
        return min(_MOST_PARTICLES, max(roomy(run.crowding, particles), _rounded(particles * min(missing, 16.0))))

    def _reached(self, answer: Trajectory, wanted: float) -> Trajectory:
        """With what was asked for, and whether it was reached."""
        if answer.status != "complete":
            return answer
        error = answer.data.attrs["relative_error"]
        reached = error <= wanted
        if not reached:
            number, particles = answer.data.attrs["replicas"], answer.data.attrs.get("particles")
            what = "networks" if particles is None else f"replicas of {particles} particles"
            warnings.warn(
                f"tolerance = {wanted:g} was not reached: the relative error is about {error:.2g} with {number} {what}",
                NotAccurate,
                stacklevel=5,
            )
        return dataclasses.replace(answer, data=answer.data.assign_attrs(tolerance=wanted, reached=int(reached)))


def first_particles(problem: Problem, rank_tolerance: float) -> int:
    """How many particles a problem will need, roughly; see `roomy`."""
    if not isinstance(problem.network, MLP):
        seen = graph_rooms.most_seen(problem, partial(expected_directions, problem, rank_tolerance))
        return _rounded(max(256.0, _MARGIN * _ROOMY * seen))
    matrices = min(2, problem.network.hidden_layers - 1)
    seen = matrices * sum(expected_directions(problem, rank_tolerance)) + problem.samples.samples
    return _rounded(max(256.0, _MARGIN * _ROOMY * seen))


def roomy(crowding: float, particles: int) -> int:
    """How many particles a problem needs, from how crowded so many turned out to be."""
    return _rounded(_ROOMY * crowding * particles)


def _rounded(particles: float) -> int:
    """2^k, from 1024 on also 5/4, 3/2 and 7/4 of it, at least so many."""
    size = 1 << math.ceil(math.log2(max(particles, 2.0)))
    return size if size <= 1024 else size // 8 * math.ceil(8 * particles / size)


def _resumed(settings: Settings, session: Session) -> Settings:
    """With the particles of the interrupted run, if there is one."""
    particles = _begun_with(session)
    return settings if particles is None else dataclasses.replace(settings, particles=particles)


def _begun_with(session: Session) -> int | None:
    """Particles of an interrupted run that is on its way, if it solves the equations."""
    if session.checkpoint is None or not session.checkpoint.exists():
        return None
    particles = checkpoint.load(session.checkpoint)[0].get("particles")
    return None if particles is None else int(particles)


def _judged(answer: Trajectory, coarse: Trajectory, ratio: float) -> Trajectory:
    """With an estimate of its bias from a coarser answer."""
    attributes = (
        {"particle_bias": recording.particle_bias(answer, coarse, ratio)} if coarse.status == "complete" else {}
    )
    return dataclasses.replace(answer, data=answer.data.assign_attrs(attributes))
