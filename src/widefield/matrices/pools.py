"""The Gaussian vectors of a population of infinitely many neurons, represented by particles."""

from __future__ import annotations

import dataclasses
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..gaussian.sobol import normals
from .spans import Span, new_directions, orthonormalised

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
    def empty(cls, seed: int | None, population: int, capacity: int, particles: int) -> Pool:
        """Nothing drawn yet; without a seed there is nothing to draw."""
        one = jnp.ones((), jnp.int32)
        seen = Span.empty(capacity, particles).appended(jnp.ones((1, particles)), one)
        shape = seen.rows.shape
        stream = jnp.zeros(shape) if seed is None else jnp.asarray(normals(seed, population, *shape))
        return cls(seen, stream, jnp.zeros((), jnp.int32))

    def draw(self, rows: int, count: Int[Array, ""]) -> tuple[Self, Float[Array, "{rows} s"]]:
        """The next `count` Gaussian vectors, and zero rows after those."""
        start = (self.drawn, jnp.zeros_like(self.drawn))
        raw = jax.lax.dynamic_slice(self.stream, start, (rows, self.stream.shape[1]))
        fresh = orthonormalised(self.seen.residual(raw))
        fresh = jnp.where((jnp.arange(rows, dtype=count.dtype) < count)[:, None], fresh, 0.0)
        pool = dataclasses.replace(self, seen=self.seen.appended(fresh, count), drawn=self.drawn + count)
        return pool, fresh

    def having_seen(self, directions: Float[Array, "p s"]) -> Pool:
        """After vectors over the population were asked about."""
        rows, count = new_directions(self.seen, directions, _SEEN)
        return Pool(self.seen.appended(rows, count), self.stream, self.drawn)

    def grown(self, after: Pool, seed: int, population: int) -> Pool:
        """With room for more vectors, if it did not suffice for `after`."""
        return self.with_room(len(self.seen.grown(after.seen).rows), seed, population)

    def with_room(self, rows: int, seed: int, population: int) -> Pool:
        """With room for `rows` vectors."""
        if rows == len(self.stream):
            return self
        seen = self.seen.with_room(rows)
        return Pool(seen, jnp.asarray(normals(seed, population, *seen.rows.shape)), self.drawn)


Pools = tuple[Pool, ...]


def put(pools: Pools, population: int, pool: Pool) -> Pools:
    """With another pool of one population."""
    return tuple(pool if k == population else old for k, old in enumerate(pools))
