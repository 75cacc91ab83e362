"""Random matrices between populations of neurons: all that a training program needs to know about width.

A program asks a `Substrate` for Gaussian vectors over a population, and for products of random matrices and of
their transposes with vectors. It never sees a weight. `Forward` and `Backward` are what lives on the neurons in one
pass, and `State` is what training changes.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..base.numbers import Number


def inner(a: Float[Array, "*rows n"], b: Float[Array, "*cols n"]) -> Float[Array, "..."]:
    """<a, b> = (1/n) sum_i a_i b_i for every pair of vectors over one population; (*rows, *cols)."""
    return jnp.tensordot(a, b, axes=(-1, -1)) / a.shape[-1]


class Substrate(eqx.Module):
    """Populations of neurons and the random matrices between them. Immutable: every change returns a new one.

    With n_s and n_t the sizes of the source and target population of a matrix W, vectors are rows over neurons
    (any leading axes), and

        apply            v -> W v / sqrt(n_s)
        apply_transpose  u -> W^T u / sqrt(n_t)
        direction        dW/dt = strength / sqrt(n_s) sum_p weights_p left_p right_p^T

    so that W <- W + eta dW/dt adds eta strength sum_p left_p <right_p, v> to `apply`: all three have a limit as
    the sizes grow at a fixed ratio. What moves in training are the `values`; directions have the same structure, so
    that any optimiser or integrator may combine them. Sources and matrices go by name: equal names give equal
    numbers, whatever else is drawn.
    """

    @abstractmethod
    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "{count} n"], Self]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""

    @abstractmethod
    def with_matrix(self, name: str, source: int, target: int, scale: Number, *, adjoint: bool, shakes: int) -> Self:
        """Add a matrix between two populations with entries N(0, scale^2).

        `adjoint` promises that the left vectors of a direction have been given to `apply_transpose` before;
        `shakes` is how often the matrix will be shaken.
        """

    @abstractmethod
    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add the frozen matrix correlation W(0) + sqrt(1 - correlation^2) W', W = `partner`, W' of that scale."""

    @abstractmethod
    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Self]:
        """W v / sqrt(n_s) for every row v."""

    @abstractmethod
    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t) for every row u."""

    grows: ClassVar[bool] = False
    """Whether it may run out of room."""

    @property
    def exhausted(self) -> Bool[Array, ""]:
        """Whether the substrate ran out of room, so that what it answered last is void."""
        return jnp.zeros((), bool)

    @property
    def crowding(self) -> float:
        """Independent vectors that a population has seen, for each of its particles, at most."""
        return 0.0

    def settled(self) -> Self:
        """Without what it keeps for the rest of a step only."""
        return self

    def initial_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W(0)^T u / sqrt(n_t) for every row u; asked by response functions, at infinite width only."""
        raise NotImplementedError(f"{type(self).__name__} must define initial_transpose for response functions")

    @property
    def ranks(self) -> Int[Array, "matrices 2"] | None:
        """Number of directions that every matrix and its transpose are known along, if that is how they are known."""
        return None

    @property
    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Present values of the matrices."""

    @abstractmethod
    def with_values(self, values: dict[str, Any]) -> Self:
        """With other values of the matrices that are named."""

    @abstractmethod
    def direction(self, name: str, gradient: OuterProducts) -> tuple[Any, Self]:
        """dW/dt, in the form of `values`."""

    @abstractmethod
    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Self:
        """Add a matrix with fresh entries N(0, amount^2)."""


class OuterProducts(eqx.Module):
    """The direction strength / sqrt(n_s) sum_p weights_p left_p right_p^T in the space of matrices, as its factors.

    Given the very arrays that `apply` and `apply_transpose` were given before, a substrate may know them again.
    """

    left: Float[Array, "*_ m"]
    right: Float[Array, "*_ n"]
    weights: Float[Array, " p"]
    strength: Float[Array, ""]


Weights = dict[str, Float[Array, "_ _"]]
"""Named vectors over populations that a program keeps beside its substrate: input weights, readout, biases."""

Gradients = tuple[Float[Array, "p k _"], ...]
"""A field for every layer (layer 1 first), sample and output signal."""


class State(eqx.Module):
    """All that changes in training, and the frozen randomness that it runs with.

    `weights` are vectors over populations that learn, `frozen` those that do not; the matrices between populations
    are in `substrate`; `memory` is what the optimiser keeps from one step to the next.
    """

    weights: Weights
    memory: Any
    frozen: Weights
    substrate: Substrate
    initial_outputs: Float[Array, "all c"]

    def on(self, substrate: Substrate) -> State:
        """The same state after the substrate has been used."""
        return dataclasses.replace(self, substrate=substrate)

    def settled(self) -> State:
        """Without what the substrate keeps for the rest of a step only."""
        return self.on(self.substrate.settled())

    @property
    def values(self) -> dict[str, Any]:
        """All that learns, by name."""
        return {**self.weights, **self.substrate.values}

    def with_values(self, values: dict[str, Any]) -> State:
        """With other values of what is named."""
        weights = {name: values.get(name, old) for name, old in self.weights.items()}
        matrices = {name: value for name, value in values.items() if name not in weights}
        return dataclasses.replace(self, weights=weights, substrate=self.substrate.with_values(matrices))


class Forward(eqx.Module):
    """Fields of a forward pass, layer 1 first: h, phi(h) and phi'(h); and the network's outputs."""

    preactivations: tuple[Float[Array, "p _"], ...]
    features: tuple[Float[Array, "p _"], ...]
    slopes: tuple[Float[Array, "p _"], ...]
    outputs: Float[Array, "p c"]


class Backward(eqx.Module):
    """Fields of a backward pass, layer 1 first: z and g = phi'(h) z."""

    pregradients: Gradients
    gradients: Gradients
