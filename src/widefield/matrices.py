"""Random matrices between populations of neurons: all that a training program needs to know about width.

A program asks a `Substrate` for Gaussian vectors over a population, and for products of random matrices and of
their transposes with vectors. It never sees a weight. `Dense` answers with arrays of N neurons.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .errors import InvalidInput


def inner(a: Float[Array, "*rows n"], b: Float[Array, "*cols n"]) -> Float[Array, "*rows *cols"]:
    """<a, b> = (1/n) sum_i a_i b_i for every pair of vectors over one population."""
    return jnp.tensordot(a, b, axes=(-1, -1)) / a.shape[-1]


class Substrate(eqx.Module):
    """Populations of neurons and the random matrices between them. Immutable: every change returns a new one.

    With n_s and n_t the sizes of the source and target population of a matrix W, vectors are rows over neurons
    (any leading axes), and

        apply            v -> W v / sqrt(n_s)
        apply_transpose  u -> W^T u / sqrt(n_t)
        direction        dW/dt = strength / sqrt(n_s) sum_p left_p right_p^T

    so that W <- W + eta dW/dt adds eta strength sum_p left_p <right_p, v> to `apply`: all three have a limit as
    the sizes grow at a fixed ratio. What moves in training are the `values`; directions have the same structure, so
    that any optimiser or integrator may combine them. Sources and matrices go by name: equal names give equal
    numbers, whatever else is drawn.
    """

    @abstractmethod
    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "count n"], Substrate]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""

    @abstractmethod
    def with_matrix(
        self, name: str, source: int, target: int, scale: float, *, adjoint: bool, shakes: int
    ) -> Substrate:
        """Add a matrix between two populations with entries N(0, scale^2).

        `adjoint` promises that the left vectors of a direction have been given to `apply_transpose` before;
        `shakes` is how often the matrix will be shaken.
        """

    @abstractmethod
    def with_partner(self, name: str, partner: str, scale: float, correlation: float) -> Substrate:
        """Add the frozen matrix correlation W(0) + sqrt(1 - correlation^2) W', W = `partner`, W' of that scale."""

    @abstractmethod
    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Substrate]:
        """W v / sqrt(n_s) for every row v."""

    @abstractmethod
    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Substrate]:
        """W^T u / sqrt(n_t) for every row u."""

    grows: ClassVar[bool] = False
    """Whether it may run out of room."""

    @property
    def exhausted(self) -> Bool[Array, ""]:
        """Whether the substrate ran out of room, so that what it answered last is void."""
        return jnp.zeros((), bool)

    def grown(self, exhausted: Substrate) -> Substrate:
        """With more room where `exhausted`, which came from this one, ran out of it."""
        del exhausted
        return self

    def with_room_of(self, other: Substrate) -> Substrate:
        """With as much room as another one has."""
        del other
        return self

    def initial_transpose(
        self, name: str, vectors: Float[Array, "*rows m"]
    ) -> tuple[Float[Array, "*rows n"], Substrate]:
        """W(0)^T u / sqrt(n_t) for every row u."""
        raise InvalidInput("record.responses: response functions are known at infinite width only; use InfiniteWidth")

    @property
    def ranks(self) -> Int[Array, "matrices 2"] | None:
        """Number of directions that every matrix and its transpose are known along, if that is how they are known."""
        return None

    @property
    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Present values of the matrices."""

    @abstractmethod
    def with_values(self, values: dict[str, Any]) -> Substrate:
        """With other values of the matrices that are named."""

    @abstractmethod
    def direction(self, name: str, gradient: OuterProducts) -> tuple[Any, Substrate]:
        """dW/dt, in the form of `values`."""

    @abstractmethod
    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Substrate:
        """Add a matrix with fresh entries N(0, amount^2)."""


class OuterProducts(eqx.Module):
    """The direction strength / sqrt(n_s) sum_p left_p right_p^T in the space of matrices, kept as its factors."""

    left: Float[Array, "p m"]
    right: Float[Array, "p n"]
    strength: Float[Array, ""]


class Dense(Substrate):
    """Finitely many neurons and explicit arrays: running a program on it is training a real network."""

    seed: Int[Array, ""]
    sizes: tuple[int, ...] = eqx.field(static=True)
    dtype: str = eqx.field(static=True, default="float64")
    arrays: dict[str, Float[Array, "m n"]] = eqx.field(default_factory=dict)

    @property
    def values(self) -> dict[str, Array]:
        """The arrays themselves."""
        return self.arrays

    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "count n"], Dense]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""
        return self._draw(name, (count, self.sizes[population]), step), self

    def with_matrix(
        self, name: str, source: int, target: int, scale: float, *, adjoint: bool = True, shakes: int = 0
    ) -> Dense:
        """Add a matrix with entries N(0, scale^2)."""
        del adjoint, shakes
        return self.with_values({name: scale * self._draw(name, (self.sizes[target], self.sizes[source]))})

    def with_partner(self, name: str, partner: str, scale: float, correlation: float) -> Dense:
        """Add a frozen matrix correlated with the present value of another one."""
        value = self.arrays[partner]
        fresh = scale * self._draw(name, value.shape)
        return self.with_values({name: correlation * value + math.sqrt(1 - correlation**2) * fresh})

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Dense]:
        """W v / sqrt(n_s) for every row v."""
        value = self.arrays[name]
        return (vectors @ value.T) / math.sqrt(value.shape[1]), self

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Dense]:
        """W^T u / sqrt(n_t) for every row u."""
        value = self.arrays[name]
        return (vectors @ value) / math.sqrt(value.shape[0]), self

    def with_values(self, values: dict[str, Array]) -> Dense:
        """With other values of the matrices that are named."""
        return Dense(self.seed, self.sizes, self.dtype, {**self.arrays, **values})

    def direction(self, name: str, gradient: OuterProducts) -> tuple[Float[Array, "m n"], Dense]:
        """dW/dt."""
        strength = gradient.strength / math.sqrt(self.arrays[name].shape[1])
        return (strength * gradient.left).T @ gradient.right, self

    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Dense:
        """Add a matrix with fresh entries N(0, amount^2)."""
        value = self.arrays[name]
        return self.with_values({name: value + amount * self._draw(f"{name} noise", value.shape, step)})

    def _draw(self, name: str, shape: tuple[int, ...], step: Array | None = None) -> Array:
        # Keys follow from seed, name and step alone, so that a resumed run repeats them.
        key = jax.random.fold_in(jax.random.key(self.seed), zlib.crc32(name.encode()))
        key = key if step is None else jax.random.fold_in(key, step)
        # Always drawn in double precision: a seed is the same network in both.
        return jax.random.normal(key, shape, "float64").astype(self.dtype)
