"""Real networks: the training program on dense matrices, several seeds at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from ..base import check
from ..base.describe import put
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..matrices.dense import Dense
from ..matrices.spans import Room
from ..matrices.substrate import State
from ..problem.network import MLP
from ..problem.rules import FeedbackAlignment, hidden
from ..problem.theory import RECORDS, Scope, Theory
from ..training import kinds
from ..training.course import Course
from ..training.program import bias_name
from ..training.roles import Keeper
from ..training.runner import Runner, over_seeds
from ..training.steps import Steps
from ..trajectory.trajectory import Trajectory
from .recording import from_outcome

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

DTYPES = ("float64", "float32")
_CACHE = 24 * 2**20
"""Bytes of weights that are worth training side by side: beyond the cache a step waits for memory."""

_DRAWN = 4 * 8
"""Bytes for every weight when networks are drawn, in either precision: twice to five times the weights; measured."""


@renamed(first_seed="seed", precision="dtype")
@dataclass(frozen=True)
class FiniteWidth(Theory, kind="finite-width"):
    """Train `seeds` real networks of the given width.

    Args:
        width: number N of neurons in a hidden layer (times its `width_ratios`).
        seeds: number of independent networks; results carry their mean and standard error.
        seed: networks have the seeds seed, seed + 1, ...
        dtype: "float64", or "float32" (faster, about 1e-5 accurate).
        parallel: networks trained side by side in one compiled program; None takes as many as fit into the
            processor's cache, which is fastest.
    """

    resumes: ClassVar[bool] = True

    width: int
    seeds: int = 1
    seed: int = 0
    dtype: str = "float64"
    parallel: int | None = None

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, width=check.integer("width", self.width, least=1))
        put(self, seeds=check.integer("seeds", self.seeds, least=1))
        put(self, seed=check.integer("seed", self.seed, most=2**62))
        check.choice("dtype", self.dtype, DTYPES)
        if self.parallel is not None:
            put(self, parallel=check.integer("parallel", self.parallel, least=1))

    @property
    def label(self) -> str:
        """Width N."""
        return f"width {self.width}"

    @property
    def scope(self) -> Scope:
        """Everything that can be trained and measured."""
        return Scope(
            networks=None,
            richness="positive",
            records=frozenset(RECORDS) - {"responses"},
            words={
                "network.richness": "is the lazy limit, which no finite network reaches; give a small value",
                "record.responses": "response functions belong to infinite width only",
            },
            cost="seeds T P N^2",
            error="standard errors",
        )

    def initial_weights(self, problem: Problem, seed: int | None = None) -> dict[str, NDArray[np.float64]]:
        """All that a network of this width starts from, in the notation of docs/conventions.md.

        `W0` (N_1, D), `W1` .. (N_{l+1}, N_l), the readout `w` (C, N), biases `b0` .. `bL` if there are any; and what
        the learning rule holds fixed, under its own names: "feedback l" from layer l + 1 to l, or (C, N_l) from the
        outputs, "gate l" (N_l, D). Of `W0` and gates only what acts on samples is drawn; the rest is 0. Parameters of
        networks other than `MLP` have the names that their `forward` gives them, and shapes (*shape, n) or (target,
        source).

        Args:
            problem: what the network is trained on.
            seed: of the network; that of the first one if None.
        """
        self.check(problem)
        number = self.seed if seed is None else check.integer("seed", seed, most=2**62)
        with double_precision():
            program, widths = self._program(problem)
            state = DenseStart(program, widths, self.dtype).one(jnp.asarray(number))
            return (_by_symbol if isinstance(problem.network, MLP) else _by_name)(problem, state)

    def _program(self, problem: Problem) -> tuple[Steps, tuple[int, ...]]:
        """The program at this width, and the widths of all layers or populations."""
        richness, ratios = kinds.richness_at(problem, self.width), kinds.ratios_at(problem, self.width)
        return kinds.program_of(problem, richness, ratios, self.dtype), kinds.widths_of(problem, self.width)

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Train the networks."""
        runner = self.runner(problem, session, self.identity(problem, session))
        needed = len(runner.course.recorded) * self.seeds * runner.bytes_per_record
        check.memory("records", needed, "reduce seeds, or record less often (record.every) or fewer samples")
        runner.groups = self._groups(problem)
        with double_precision():
            outcome = runner.run()
        return from_outcome(problem, self, outcome, range(self.seed, self.seed + self.seeds))

    def runner(self, problem: Problem, session: Session, fingerprint: str, keeper: Keeper | None = None) -> Runner:
        """What trains networks, of whatever groups of seeds it is given."""
        steps = problem.record.at(problem.optimiser.steps)
        with double_precision():
            program, widths = self._program(problem)
            observer = kinds.observer_of(problem, program, self.dtype)
            start = DenseStart(program, widths, self.dtype)
            each = observer.numbers(widths) * observer.test_targets.dtype.itemsize
            course = Course(problem.optimiser.rates(), problem.optimiser.batches(problem.samples.samples), steps)
            return Runner(observer, start, [], course, session, fingerprint, each, keeper)

    def _groups(self, problem: Problem) -> list[range]:
        """Seeds that are trained side by side."""
        copies = problem.optimiser.copies + isinstance(problem.rule, FeedbackAlignment)
        itemsize = 8 if self.dtype == "float64" else 4
        entries = self._entries(problem)
        weights = copies * itemsize * entries
        size = min(self.seeds, self.parallel or max(1, _CACHE // weights))
        check.memory("weights", _DRAWN * size * copies * entries, "reduce width or parallel")
        count = -(-self.seeds // size)  # groups of nearly equal size, so that few sizes have to be compiled
        bounds = [self.seed + self.seeds * k // count for k in range(count + 1)]
        return [range(low, high) for low, high in pairwise(bounds)]

    def _entries(self, problem: Problem) -> int:
        """Weights of one network, roughly."""
        if not isinstance(problem.network, MLP):
            return problem.plan.parameters(self.width)
        widths = problem.network.widths(self.width)
        return sum(a * b for a, b in zip(widths, (*widths[1:], problem.samples.outputs), strict=True))


def _by_name(problem: Problem, state: State) -> dict[str, NDArray[np.float64]]:
    """Parameters of a network that is a graph; vectors that only read inputs in the coordinates of the inputs."""
    plan, found = problem.plan, _arrays({**state.weights, **state.frozen})
    directions = problem.samples.directions() if plan.reducible else None
    for spec in plan.vectors:
        value = found[spec.name].reshape(*spec.shape, -1)
        if directions is not None and spec.name in plan.readers:
            value = np.einsum("rd,rn->dn", directions, value)
        found[spec.name] = value
    return found | _arrays(state.substrate.values)


def _by_symbol(problem: Problem, state: State) -> dict[str, NDArray[np.float64]]:
    """Weights of a state under the names of the docs, and what the rule holds fixed under its own."""
    depth, directions = problem.network.hidden_layers, problem.samples.directions()
    weights, matrices, fixed = (_arrays(part) for part in (state.weights, state.substrate.values, state.frozen))
    found = {"W0": weights["input"].T @ directions}
    found |= {f"W{layer}": matrices.pop(hidden(layer)) for layer in range(1, depth)}
    found["w"] = weights["readout"]
    if problem.network.has_biases:
        found |= {f"b{layer - 1}": weights[bias_name(layer)][0] for layer in range(1, depth + 1)}
        outputs = weights[bias_name(depth + 1)]  # a vector over neurons whose mean counts
        found[f"b{depth}"] = outputs.mean(axis=1) * np.sqrt(outputs.shape[1])
    gates = {name: value.T @ directions for name, value in fixed.items() if name.startswith("gate ")}
    return {**found, **matrices, **fixed, **gates}


def _arrays(values: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    return {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}


class DenseStart(eqx.Module):
    """Makes the initial states of networks. A module, so that equal settings share their compiled code."""

    program: Steps
    widths: tuple[int, ...] = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def one(self, seed: Int[Array, ""]) -> State:
        """Draw the weights of one seed."""
        return self.program.start(Dense(seed, self.widths, self.dtype))

    def __call__(self, seeds: Sequence[int], room: Room | None = None) -> State:
        """Draw the weights of several seeds."""
        del room
        return _start(self, jnp.asarray(seeds))

    def enlarged(self, seeds: Sequence[int], state: State, room: Room) -> State:
        """Arrays never run out of room."""
        del seeds, room
        return state


@eqx.filter_jit
def _start(start: DenseStart, seeds: Int[Array, " seeds"]) -> State:
    return over_seeds(start.one, seeds)
