"""Matrices of finite size: arrays, so that running a program on them is training a real network."""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..base.numbers import Number, root
from .substrate import OuterProducts, Substrate


class Dense(Substrate):
    """Finitely many neurons and explicit arrays: running a program on it is training a real network."""

    seed: Int[Array, ""]
    sizes: tuple[int, ...] = eqx.field(static=True)
    dtype: str = eqx.field(static=True, default="float64")
    arrays: dict[str, Float[Array, "_ _"]] = eqx.field(default_factory=dict)

    @property
    def values(self) -> dict[str, Array]:
        """The arrays themselves."""
        return self.arrays

    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "{count} n"], Self]:
        """Independent standard normal vectors over a population; another set for every `step` if one is given."""
        return self._draw(name, (count, self.sizes[population]), step), self

    def with_matrix(
        self, name: str, source: int, target: int, scale: Number, *, adjoint: bool = True, shakes: int = 0
    ) -> Self:
        """Add a matrix with entries N(0, scale^2)."""
        del adjoint, shakes
        return self.with_values({name: self._own(scale) * self._draw(name, (self.sizes[target], self.sizes[source]))})

    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add a frozen matrix correlated with the present value of another one."""
        value, own = self.arrays[partner], self._own(correlation)
        fresh = self._own(scale) * self._draw(name, value.shape)
        return self.with_values({name: own * value + root(1 - own**2) * fresh})

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Self]:
        """W v / sqrt(n_s) for every row v."""
        value = self.arrays[name]
        return (vectors @ value.T) / math.sqrt(value.shape[1]), self

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t) for every row u."""
        value = self.arrays[name]
        return (vectors @ value) / math.sqrt(value.shape[0]), self

    def with_values(self, values: dict[str, Array]) -> Self:
        """With other values of the matrices that are named."""
        return dataclasses.replace(self, arrays={**self.arrays, **values})

    def direction(self, name: str, gradient: OuterProducts) -> tuple[Float[Array, "m n"], Self]:
        """dW/dt."""
        left, right = (v.reshape(-1, v.shape[-1]) for v in (gradient.left, gradient.right))
        strength = gradient.strength / math.sqrt(right.shape[1])
        return (strength * gradient.weights[:, None] * left).T @ right, self

    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Self:
        """Add a matrix with fresh entries N(0, amount^2)."""
        value = self.arrays[name]
        return self.with_values({name: value + amount * self._draw(f"{name} noise", value.shape, step)})

    def _own(self, number: Number) -> Float[Array, ""]:
        return jnp.asarray(number, self.dtype)

    def _draw(self, name: str, shape: tuple[int, ...], step: Array | None = None) -> Array:
        # Keys follow from seed, name and step alone, so that a resumed run repeats them.
        key = jax.random.fold_in(jax.random.key(self.seed), zlib.crc32(name.encode()))
        key = key if step is None else jax.random.fold_in(key, step)
        # Always drawn in double precision: a seed is the same network in both.
        return jax.random.normal(key, shape, "float64").astype(self.dtype)
