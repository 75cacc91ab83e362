"""Growing sets of orthonormal vectors in arrays of fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..base.errors import InvalidInput
from .substrate import inner

BLOCK = 16
"""New directions are taken up in blocks: most questions bring few, and what is not there should cost nothing."""


Carry = TypeVar("Carry")


class Span(eqx.Module):
    """Orthonormal vectors over a population: the first `rank` rows; the others are zero, to be filled later.

    `full` says that vectors had to be dropped because the rows did not suffice: whatever was computed since is wrong,
    and must be repeated from an earlier state with more rows (`grown`).
    """

    rows: Float[Array, "capacity s"]
    rank: Int[Array, ""]
    full: Bool[Array, ""]

    @classmethod
    def empty(cls, capacity: int, particles: int) -> Span:
        """Nothing yet. There are no more independent vectors than particles."""
        return cls(jnp.zeros((min(capacity, particles), particles)), jnp.zeros((), jnp.int32), jnp.zeros((), bool))

    def coordinates(self, vectors: Float[Array, "p s"]) -> Float[Array, "p capacity"]:
        """<v, row> for every vector and row."""
        return inner(vectors, self.rows)

    def residual(self, vectors: Float[Array, "p s"]) -> Float[Array, "p s"]:
        """What is left of the vectors outside the span, up to rounding errors of their size."""
        return vectors - self.coordinates(vectors) @ self.rows

    def appended(self, rows: Float[Array, "p s"], count: Int[Array, ""]) -> Span:
        """With the first `count` of the given orthonormal rows; the others must be zero."""
        full = self.full | (self.rank + len(rows) > len(self.rows))
        return Span(put_rows(self.rows, rows, self.rank), self.rank + count, full)

    def grown(self, after: Span) -> Span:
        """With half as many rows again, if they did not suffice for `after`."""
        if not bool(after.full):
            return self
        capacity, particles = self.rows.shape
        if capacity == particles:
            raise InvalidInput(
                f"particles = {particles} are too few: this problem has more independent directions than that; "
                "raise particles or rank_tolerance"
            )
        return self.with_room(min(enlarged(capacity), particles))

    def with_room(self, rows: int) -> Span:
        """With room for `rows` vectors."""
        return Span(pad_to(self.rows, (rows, self.rows.shape[1])), self.rank, self.full)


def enlarged(capacity: int) -> int:
    """Half as much again, a multiple of 32."""
    return 32 * (-(-3 * capacity // 64))


def pad_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Add zeros at the end of every axis."""
    if array.shape == shape:
        return array
    return jnp.pad(array, tuple((0, new - old) for new, old in zip(shape, array.shape, strict=True)))


def put_rows(array: Float[Array, "capacity s"], rows: Float[Array, "p s"], at: Int[Array, ""]) -> Array:
    """Write rows into an array from row `at` on."""
    return jax.lax.dynamic_update_slice(array, rows, (at, jnp.zeros_like(at)))


def orthonormalised(vectors: Float[Array, "p s"]) -> Float[Array, "p s"]:
    """G^(-1/2) v with G = <v, v>: the orthonormal vectors nearest to v; zero vectors stay zero."""
    values, axes = jnp.linalg.eigh(inner(vectors, vectors))
    root: Array = (axes * inverse_root(values, values > 1e-20 * jnp.max(values))[None, :]) @ axes.T
    return root @ vectors


def inverse_root(values: Float[Array, " p"], where: Bool[Array, " p"]) -> Float[Array, " p"]:
    """1/sqrt(value), or 0 elsewhere."""
    return jnp.where(where, jnp.where(where, values, jnp.ones_like(values)) ** -0.5, jnp.zeros_like(values))


def new_directions(
    span: Span, vectors: Float[Array, "p s"], tolerance: float
) -> tuple[Float[Array, "p s"], Int[Array, ""]]:
    """Orthonormal directions of the vectors outside the span, strongest first, and how many there are.

    Directions along which the vectors have less than `tolerance` times their root mean square are left out: their
    rows are zero. Projecting again after normalising keeps rounding errors out.
    """
    rest = span.residual(vectors)
    values, axes = jnp.linalg.eigh(inner(rest, rest))
    values, axes = values[::-1], axes[:, ::-1]
    kept = values > tolerance**2 * jnp.mean(vectors**2)
    rows = span.residual((axes * inverse_root(values, kept)[None, :]).T @ rest)
    return orthonormalised(rows), jnp.sum(kept, dtype=jnp.int32)


def in_blocks(
    learn: Callable[[Carry, Float[Array, "b s"], Int[Array, ""]], Carry],
    carry: Carry,
    rows: Float[Array, "p s"],
    count: Int[Array, ""],
    size: int = BLOCK,
) -> Carry:
    """carry = learn(carry, block, number of rows in it) for blocks of the first `count` rows.

    A loop changes large arrays in place, which a branch does not.
    """
    size = min(size, len(rows))
    padded = pad_to(rows, (size * -(-len(rows) // size), rows.shape[1]))

    def body(block: Array, carry: Carry) -> Carry:
        start = block * size
        return learn(carry, jax.lax.dynamic_slice_in_dim(padded, start, size), jnp.minimum(count - start, size))

    result: Carry = jax.lax.fori_loop(0, -(-count // size), body, carry)
    return result
