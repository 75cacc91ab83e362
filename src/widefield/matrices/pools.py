"""The Gaussian vectors of a population of infinitely many neurons, represented by particles."""

from __future__ import annotations

import dataclasses
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .spans import Agree, Span, new_directions, orthonormalised, rounding

_SEEN = 1e-6
"""Parts of a vector below this fraction count as seen already."""


class Pool(eqx.Module):
    """The Gaussian vectors of a population.

    A new one is made orthogonal to every vector over the population that was ever drawn or asked about, and
    normalised; the constant vector counts as seen, so that its mean is zero. All this holds in the limit of many
    particles; imposing it makes first and second moments exact for any number of them. `stream` holds the raw
    normal numbers, of which `drawn` rows have been used.
    """

    seen: Span
    stream: Float[Array, "capacity s"]
    drawn: Int[Array, ""]

    @classmethod
    def empty(cls, stream: Float[Array, "capacity s"]) -> Pool:
        """Nothing drawn yet."""
        one, zero = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32)
        nothing = Span.empty(len(stream), stream.shape[1], stream.dtype)
        seen = nothing.appended(jnp.ones_like(stream[:1]), one)
        return cls(seen, stream, zero)

    def draw(self, rows: int, count: Int[Array, ""]) -> tuple[Self, Float[Array, "{rows} s"]]:
        """The next `count` Gaussian vectors, and zero rows after those."""
        start = (self.drawn, jnp.zeros_like(self.drawn))
        raw = jax.lax.dynamic_slice(self.stream, start, (rows, self.stream.shape[1]))
        fresh = orthonormalised(raw - self.seen.coordinates(raw) @ self.seen.rows)
        fresh = jnp.where((jnp.arange(rows, dtype=count.dtype) < count)[:, None], fresh, 0.0)
        pool = dataclasses.replace(self, seen=self.seen.appended(fresh, count), drawn=self.drawn + count)
        return pool, fresh

    def having_seen(self, directions: Float[Array, "p s"], agree: Agree) -> Pool:
        """After vectors over the population were asked about."""
        coordinates = self.seen.coordinates(directions)
        tolerance = jnp.asarray(max(_SEEN, rounding(directions.dtype)), directions.dtype)
        rows, count = new_directions(self.seen.rows, directions, coordinates, tolerance, agree)
        return dataclasses.replace(self, seen=self.seen.appended(rows, count))

    def with_room(self, stream: Float[Array, "more s"]) -> Pool:
        """With as much room as a longer stream of the same numbers has."""
        return Pool(self.seen.with_room(len(stream)), stream, self.drawn)


Pools = tuple[Pool, ...]


def put(pools: Pools, population: int, pool: Pool) -> Pools:
    """With another pool of one population."""
    return tuple(pool if k == population else old for k, old in enumerate(pools))
