"""Networks of infinite width that can be asked about new samples after training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..matrices.conditioned import Conditioned
from ..matrices.substrate import State
from ..matrices.trained import Trained
from ..training.program import Program, compile_problem
from ..training.runner import Outcome, over_seeds
from .replicas import LAZY_RICHNESS, Replicas, Settings

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

_BLOCKS = (16, 64, 256)
"""Samples that are asked about at once, filled up with zeros: for every number another program is compiled."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A network of infinite width after some steps, as replicas, whose outputs at any samples can be asked for.

    A new sample is pushed through the matrices as they were trained: along directions that they were asked about they
    are known, and along the rest of it Gaussian (`matrices/trained.py`). So this is the law of the mean-field theory,
    BP22 eq. (10), for a test point that is thought of only after training. Every sample is answered for itself.
    """

    problem: Problem
    state: State
    """Of all replicas, in arrays of numpy."""

    def outputs(self, x: Float[Floats, "q d"]) -> Float[Floats, "replicas q c"]:
        """Outputs of every replica; the answer of infinite width is their mean."""
        found = []
        rows = self._inputs(x)
        size = next((size for size in _BLOCKS if size >= len(rows)), _BLOCKS[-1])
        with double_precision():
            program = _program(self.problem, "float64")
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                block = np.concatenate([part, np.zeros((size - len(part), rows.shape[1]))])
                outputs = _outputs(program, jnp.asarray(block), self.state)
                found.append(np.asarray(outputs)[:, : len(part)])
        return np.concatenate(found, axis=1) if found else np.empty((self._replicas, 0, self.problem.samples.outputs))

    @property
    def _replicas(self) -> int:
        return len(self.state.weights["readout"])

    def _inputs(self, x: Float[Floats, "q d"]) -> Float[Floats, "q r"]:
        """x / sqrt(D) in the coordinates of the training samples, and the length of what is outside of them."""
        directions = self.problem.samples.directions()
        points = x / math.sqrt(x.shape[1])
        inside = points @ directions.T
        outside = np.sqrt(np.sum((points - inside @ directions) ** 2, axis=1))
        return np.concatenate([inside, outside[:, None]], axis=1)


Look = Callable[[int, TrainedNetwork], bool]
"""Asked on the way with the steps that were made and the network as it is then; True ends the training."""


@dataclass(frozen=True)
class Ended:
    """How training ended; `crowding` are the vectors seen for each particle, see `infinite_width.roomy`."""

    outcome: Outcome
    crowding: float


def train(
    problem: Problem, settings: Settings, replicas: int, session: Session, *, at: Sequence[int], look: Look
) -> Ended:
    """Train networks of infinite width side by side, and `look` at them after each of the numbers `at` of steps."""
    run = Replicas(settings, problem, session, "")
    cost = run.cost(replicas)
    cost.check_memory()
    if cost.long:
        sizes = f"{replicas} replicas of {settings.particles} particles"
        session.note(f"{sizes}: {cost}; fewer steps or samples take less")
    seeds = run.seeds(replicas)
    watch = _Watch(run, seeds, tuple(sorted(at)), look)
    run.runner.groups, run.runner.watch = [seeds], watch
    with double_precision():
        outcome = run.runner.run()
    return Ended(outcome, watch.crowding)


@dataclass
class _Watch:
    run: Replicas
    seeds: Sequence[int]
    at: tuple[int, ...]
    look: Look
    crowding: float = 0.0

    def ahead(self, position: int) -> int:
        """Until the next look; after the last there is nothing to wait for."""
        return next((step - position for step in self.at if step > position), 1)

    def ends(self, state: State, position: int) -> bool:
        """Whether whoever looks has seen enough."""
        if position not in self.at:
            return False
        self.crowding = max(self.crowding, state.substrate.crowding)
        return self.look(position, TrainedNetwork(self.run.problem, self._settled(state)))

    def _settled(self, state: State) -> State:
        """What is known after training, in double precision; room for another draw is made if there is none."""
        while True:
            kept, after = _settled(state)
            if not bool(after.exhausted):
                return _in_numpy(kept)
            state = self.run.start.enlarged(self.seeds, state, after.larger_room())


def _program(problem: Problem, dtype: str) -> Program:
    """The program whose states are asked, at infinite width."""
    network = problem.network
    lazy = network.richness == 0 or network.parameterisation == "ntk"
    return compile_problem(problem, LAZY_RICHNESS if lazy else network.richness, network.normalised_width_ratios, dtype)


@eqx.filter_jit
def _settled(state: State) -> tuple[State, Conditioned]:
    def one(state: State) -> tuple[State, Conditioned]:
        assert isinstance(state.substrate, Conditioned)
        trained, after = Trained.of(state.substrate)
        return dataclasses.replace(state.on(trained), memory=None, initial_outputs=state.initial_outputs[:0]), after

    return over_seeds(one, state, alone=False)


@eqx.filter_jit
def _outputs(program: Program, rows: Float[Array, "q r"], state: State) -> Float[Array, "replicas q c"]:
    """f(t) - f(0) of rows whose last coordinate is the part outside of the training samples, those of the program."""
    asked = dataclasses.replace(program, inputs=rows)
    zero = jnp.zeros((len(rows), program.targets.shape[1]), rows.dtype)

    def one(state: State) -> Array:
        substrate = state.substrate
        assert isinstance(substrate, Trained)
        initial, _ = program.initial_weights(substrate)
        outside = program.network.weight_scales[0] * substrate.fresh[0][None, :]

        def outputs(weights: dict[str, Array], matrices: Trained) -> Array:
            wider = {**weights, "input": jnp.concatenate([weights["input"], outside])}
            wanted = State(wider, None, state.frozen, matrices, zero)
            return asked.forward(wanted, slice(None))[0].outputs

        return outputs(state.weights, substrate) - outputs(initial, substrate.at_start())

    return over_seeds(one, state, alone=False)


def _in_numpy(state: State) -> State:
    """A copy, whose memory no program uses again."""

    def copied(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return np.array(array, np.float64 if array.dtype.kind == "f" else array.dtype)

    kept: State = jax.tree.map(copied, state)
    return kept
