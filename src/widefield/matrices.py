"""Random matrices between populations of neurons: all that a training program needs to know about width.

A program asks a `Substrate` for Gaussian vectors over a population, and for products of random matrices and of
their transposes with vectors. It never sees a weight. `Dense` answers with arrays of N neurons.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .optimisers import SGD


def inner(a: Float[Array, "*rows n"], b: Float[Array, "*cols n"]) -> Float[Array, "*rows *cols"]:
    """<a, b> = (1/n) sum_i a_i b_i for every pair of vectors over one population."""
    return jnp.tensordot(a, b, axes=(-1, -1)) / a.shape[-1]


class Substrate(eqx.Module):
    """Populations of neurons and the random matrices between them. Immutable: every change returns a new one.

    With n_s and n_t the sizes of the source and target population of a matrix W, vectors are rows over neurons
    (any leading axes), and

        apply            v -> W v / sqrt(n_s)
        apply_transpose  u -> W^T u / sqrt(n_t)
        update           dW/dt = strength / sqrt(n_s) sum_p left_p right_p^T

    so that W <- W + eta dW/dt adds eta strength sum_p left_p <right_p, v> to `apply`: all three have a limit as
    the sizes grow at a fixed ratio. Sources and matrices go by name: equal names give equal numbers, whatever
    else is drawn.
    """

    @abstractmethod
    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "count n"], Substrate]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""

    @abstractmethod
    def with_matrix(
        self, name: str, source: int, target: int, scale: float, optimiser: SGD, *, adjoint: bool
    ) -> Substrate:
        """Add a matrix between two populations with entries N(0, scale^2), to be trained by the optimiser.

        `adjoint` promises that the left vectors of an update have been given to `apply_transpose` before.
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

    @abstractmethod
    def update(
        self, name: str, gradient: OuterProducts, rate: Float[Array, ""], optimiser: SGD, step: Array
    ) -> Substrate:
        """One step of the optimiser along dW/dt."""


class OuterProducts(eqx.Module):
    """The direction strength / sqrt(n_s) sum_p left_p right_p^T in the space of matrices, kept as its factors."""

    left: Float[Array, "p m"]
    right: Float[Array, "p n"]
    strength: float = eqx.field(static=True)


class DenseMatrix(eqx.Module):
    """An explicit array, target by source, with its velocity if the optimiser has momentum."""

    value: Float[Array, "m n"]
    velocity: Float[Array, "m n"] | None


class Dense(Substrate):
    """Finitely many neurons and explicit arrays: running a program on it is training a real network."""

    seed: Int[Array, ""]
    sizes: tuple[int, ...] = eqx.field(static=True)
    dtype: str = eqx.field(static=True, default="float64")
    matrices: dict[str, DenseMatrix] = eqx.field(default_factory=dict)

    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "count n"], Dense]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""
        return self._draw(name, (count, self.sizes[population]), step), self

    def with_matrix(
        self, name: str, source: int, target: int, scale: float, optimiser: SGD, *, adjoint: bool = True
    ) -> Dense:
        """Add a matrix with entries N(0, scale^2)."""
        del adjoint
        value = scale * self._draw(name, (self.sizes[target], self.sizes[source]))
        return self._with(name, DenseMatrix(value, optimiser.rest(value)))

    def with_partner(self, name: str, partner: str, scale: float, correlation: float) -> Dense:
        """Add a frozen matrix correlated with the present value of another one."""
        value = self.matrices[partner].value
        fresh = scale * self._draw(name, value.shape)
        return self._with(name, DenseMatrix(correlation * value + math.sqrt(1 - correlation**2) * fresh, None))

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Dense]:
        """W v / sqrt(n_s) for every row v."""
        value = self.matrices[name].value
        return (vectors @ value.T) / math.sqrt(value.shape[1]), self

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Dense]:
        """W^T u / sqrt(n_t) for every row u."""
        value = self.matrices[name].value
        return (vectors @ value) / math.sqrt(value.shape[0]), self

    def update(self, name: str, gradient: OuterProducts, rate: Float[Array, ""], optimiser: SGD, step: Array) -> Dense:
        """One step of the optimiser along dW/dt."""
        old = self.matrices[name]
        strength = gradient.strength / math.sqrt(old.value.shape[1])
        array = (strength * gradient.left).T @ gradient.right
        value, velocity = optimiser.advance(old.value, old.velocity, array, rate)
        if optimiser.temperature:
            value = value + optimiser.noise(self._draw(f"{name} noise", value.shape, step), rate)
        return self._with(name, DenseMatrix(value, velocity))

    def _draw(self, name: str, shape: tuple[int, ...], step: Array | None = None) -> Array:
        # Keys follow from seed, name and step alone, so that a resumed run repeats them.
        key = jax.random.fold_in(jax.random.key(self.seed), zlib.crc32(name.encode()))
        key = key if step is None else jax.random.fold_in(key, step)
        # Always drawn in double precision: a seed is the same network in both.
        return jax.random.normal(key, shape, "float64").astype(self.dtype)

    def _with(self, name: str, matrix: DenseMatrix) -> Dense:
        return Dense(self.seed, self.sizes, self.dtype, {**self.matrices, name: matrix})
