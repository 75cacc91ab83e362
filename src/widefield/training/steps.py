"""What training programs of all kinds share: errors, steps, noise, room."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, Int

from ..base.numbers import Number, root, with_arrays
from ..matrices.spans import pad_to
from ..matrices.substrate import State, Substrate
from ..problem.architecture import Network
from ..problem.losses import Loss
from ..problem.optimisers import Optimiser, Values

Rows = Int[Array, " p"] | slice
"""Some of the samples: their numbers, or a slice (which costs nothing)."""


class Moment(eqx.Module):
    """When a step is made, and how: its number, its learning rate, and the rows of its batch (None: all of them)."""

    number: Int[Array, ""]
    rate: Float[Array, ""]
    batch: Int[Array, " b"] | None


class Steps(eqx.Module):
    """A problem, ready to run on a substrate; a member says how it starts and what dW/dt is.

    `inputs` are the training rows and then the test rows of x / sqrt(D); `ratios` are the relative sizes of the
    populations.
    """

    inputs: Float[Array, "all *positions r"]
    targets: Float[Array, "p c"]
    richness: Float[Array, ""]
    network: Network
    loss: Loss
    optimiser: Optimiser
    ratios: tuple[Number, ...]

    def __post_init__(self) -> None:
        """Make arrays of all numbers."""
        for name in ("network", "loss", "rule", "optimiser", "ratios"):
            if hasattr(self, name):
                setattr(self, name, with_arrays(getattr(self, name), self.inputs.dtype))

    def start(self, substrate: Substrate) -> State:
        """Draw all weights."""
        raise NotImplementedError(f"{type(self).__name__} must define start")

    def gradient(self, state: State, rows: Rows) -> tuple[Values, Float[Array, ""], State]:
        """dW/dt of all that learns from some of the samples (BP23 eq. (2)), and their loss."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient")

    @property
    def learning(self) -> Mapping[str, int | None]:
        """Names of all that learns: of vectors their population, of matrices None."""
        raise NotImplementedError(f"{type(self).__name__} must define learning")

    def rate_of(self, name: str) -> Number:
        """By which the learning rate of something is multiplied."""
        del name
        return 1.0

    def errors(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta of every sample, with its weight in the total loss."""
        return self.loss.weight(targets.shape[0]) * self.loss.error(outputs, targets)

    def step(self, state: State, moment: Moment) -> tuple[State, Float[Array, ""]]:
        """One step of training; also returns the loss of its batch before the step."""
        rows = slice(self.targets.shape[0]) if moment.batch is None else moment.batch
        state, loss = self.optimiser.step(lambda state: self.gradient(state, rows), state, moment.rate)
        return self._after(state, moment), loss

    def moved(self, state: State, directions: Values, loss: Float[Array, ""], moment: Moment) -> State:
        """After a step along directions that are known already."""
        state, _ = self.optimiser.step(lambda state: (directions, loss, state), state, moment.rate)
        return self._after(state, moment)

    def exploded(self, loss: Float[Array, "..."]) -> Bool[Array, "..."]:
        """Whether a loss will not come back, see `Loss.hopeless`."""
        failed: Bool[Array, "..."] = self.loss.hopeless(loss, self.targets)
        return failed

    def on_larger(self, state: State, substrate: Substrate) -> State:
        """The same state on a substrate with other room."""
        larger = state.on(substrate)
        if state.memory is None:
            return larger
        memory = jax.tree.map(lambda leaf, like: pad_to(leaf, like.shape), state.memory, self.memory(larger))
        return dataclasses.replace(larger, memory=memory)

    def memory(self, state: State) -> Any:
        """What the optimiser remembers at the start."""
        return self.optimiser.rest({name: state.values[name] for name in self.learning})

    def _after(self, state: State, moment: Moment) -> State:
        return self._shaken(state, moment) if self.optimiser.shakes else state

    def _shaken(self, state: State, moment: Moment) -> State:
        """Add the optimiser's noise to all that learns."""
        amount, substrate, values = self.optimiser.noise(moment.rate), state.substrate, {}
        for name, population in self.learning.items():
            size = amount * root(self.rate_of(name))
            if population is None:
                substrate = substrate.shaken(name, size, moment.number)
                continue
            value = state.weights[name]
            normals, substrate = substrate.gaussian(f"{name} noise", population, len(value), moment.number)
            values[name] = value + size * normals
        return state.on(substrate).with_values(values)
