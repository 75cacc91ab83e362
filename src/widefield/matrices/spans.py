"""Growing sets of orthonormal vectors in arrays of fixed size, and how large these arrays are.

Replicas that run side by side share the number of directions that they know, so that a loop over new ones is one loop
for all of them: each takes as many as the one that needs most. `Agree` is how they find out. Programs are compiled for
the sizes of arrays: `Room` holds them, and one that did not suffice is made `larger`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..base.errors import TooFewParticles
from .substrate import inner

WORTH, _MORE = 1.2, 0.85
"""To look for directions is dear: it is done where one is this much above the tolerance, and takes those below too."""

_STEP = 1.2
"""Capacities grow by this factor: few sizes have to be compiled, and little is computed in vain."""

_NEARLY = {1: 0.9, 2: 0.75}
"""What is filled to this fraction is nearly full, by the rungs that it is to grow."""


def rounding(dtype: Any) -> float:
    """Directions below this fraction of a vector are rounding errors: 1e-7 in double precision, 3e-3 in single.

    They come from the roots of squares.
    """
    return 8 * math.sqrt(float(np.finfo(dtype).eps))


Agree = Callable[[Int[Array, ""]], Int[Array, ""]]
"""The largest of a whole number over all replicas that run side by side."""

Carry = TypeVar("Carry")


class Span(eqx.Module):
    """Orthonormal vectors over a population: the first `rank` rows; the others are zero, to be filled later.

    `full` says that vectors had to be left out for want of room: whatever was computed since is void. Rows that were
    there before stay untouched, so that going back means to take back the rank, and to make room (`with_room`).
    """

    rows: Float[Array, "capacity s"]
    rank: Int[Array, ""]
    full: Bool[Array, ""]

    @classmethod
    def empty(cls, capacity: int, particles: int, dtype: Any) -> Span:
        """Nothing yet."""
        return cls(jnp.zeros((capacity, particles), dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool))

    def coordinates(self, vectors: Float[Array, "p s"]) -> Float[Array, "p capacity"]:
        """<v, row> for every vector and row."""
        return inner(vectors, self.rows)

    def appended(self, rows: Float[Array, "p s"], count: Int[Array, ""]) -> Span:
        """With the first `count` of the given orthonormal rows; the others must be zero."""
        fits = self.rank + len(rows) <= len(self.rows)
        added = jnp.where(fits, count, jnp.zeros_like(count))
        return Span(put_rows(self.rows, rows, self.rank, fits), self.rank + added, self.full | ~fits)

    def extended(self, vectors: Float[Array, "p s"], tolerance: Float[Array, ""], agree: Agree) -> Span:
        """With the directions of the vectors outside of it, see `new_directions`."""
        rows, count = new_directions(self.rows, vectors, self.coordinates(vectors), tolerance, agree)

        def learn(span: Span, block: Array, number: Array) -> Span:
            return span.appended(refined(block, span.rows), number)

        return in_blocks(learn, self, rows, count, block_size(len(vectors)))

    def with_room(self, rows: int) -> Span:
        """With room for `rows` vectors."""
        return Span(cleared(self.rows, self.rank, rows), self.rank, jnp.zeros((), bool))


def cleared(rows: Float[Array, "capacity s"], rank: Int[Array, ""], room: int) -> Float[Array, "{room} s"]:
    """Rows with another capacity, zero behind the rank."""
    known = jnp.where((jnp.arange(len(rows), dtype=rank.dtype) < rank)[:, None], rows, 0.0)
    return pad_to(known, (room, rows.shape[1]))


def pad_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Add zeros at the end of every axis."""
    if array.shape == shape:
        return array
    return jnp.pad(array, tuple((0, new - old) for new, old in zip(shape, array.shape, strict=True)))


def put_rows(
    array: Float[Array, "capacity s"], rows: Float[Array, "p s"], at: Int[Array, ""], where: Bool[Array, ""]
) -> Float[Array, "capacity s"]:
    """Write rows into an array from row `at` on; without room for them, `where` false, all stays as it is."""
    start = (at, jnp.zeros_like(at))
    kept = jnp.where(where, rows, jax.lax.dynamic_slice(array, start, rows.shape))
    return jax.lax.dynamic_update_slice(array, kept, start)


def orthonormalised(vectors: Float[Array, "p s"]) -> Float[Array, "p s"]:
    """G^(-1/2) v with G = <v, v>: the orthonormal vectors nearest to v; zero vectors stay zero."""
    values, axes = jnp.linalg.eigh(inner(vectors, vectors))
    root: Array = (axes * inverse_root(values, values > 1e-20 * jnp.max(values))[None, :]) @ axes.T
    return root @ vectors


def inverse_root(values: Float[Array, " p"], where: Bool[Array, " p"]) -> Float[Array, " p"]:
    """1/sqrt(value), or 0 elsewhere."""
    return jnp.where(where, jnp.where(where, values, jnp.ones_like(values)) ** -0.5, jnp.zeros_like(values))


def new_directions(
    rows: Float[Array, "capacity s"],
    vectors: Float[Array, "p s"],
    coordinates: Float[Array, "p capacity"],
    tolerance: Float[Array, ""],
    agree: Agree,
) -> tuple[Float[Array, "p s"], Int[Array, ""]]:
    """Orthonormal directions of the vectors outside the span of `rows`, strongest first, and how many there are.

    `coordinates` are those of the vectors. The weakest directions are left out, so many that no vector loses more than
    `tolerance` times the root mean square of all: their rows are zero. Weak ones are orthogonal to `rows` up to
    rounding errors of the vectors, see `refined`.
    """
    rest = vectors - coordinates @ rows
    values, axes = jnp.linalg.eigh(inner(rest, rest))
    values, axes = values[::-1], axes[:, ::-1]
    size = jnp.mean(vectors**2)
    # What is left of each vector if directions from the k-th on are left out.
    left = jnp.cumsum((axes**2 * values[None, :])[:, ::-1], axis=1)[:, ::-1]
    count = agree(jnp.sum(jnp.max(left, axis=0) > (_MORE * tolerance) ** 2 * size, dtype=jnp.int32))
    kept = (jnp.arange(len(values), dtype=count.dtype) < count) & (values > rounding(vectors.dtype) ** 2 * size)
    return (axes * inverse_root(values, kept)[None, :]).T @ rest, count


def refined(found: Float[Array, "b s"], rows: Float[Array, "capacity s"]) -> Float[Array, "b s"]:
    """New directions without the rounding errors that they have along those known before, and among each other."""
    found = found - inner(found, rows) @ rows
    # All but orthonormal (or zero): one step of Newton's iteration for G^(-1/2) suffices.
    return 1.5 * found - 0.5 * (inner(found, found) @ found)


def block_size(vectors: int) -> int:
    """New directions are taken up in blocks: most questions bring few, and what is not there should cost nothing.

    >>> [block_size(n) for n in (3, 10, 64, 256)]
    [3, 8, 16, 32]
    """
    return min(vectors, 8 if vectors <= 16 else 16 if vectors <= 96 else 32)


def in_blocks(
    learn: Callable[[Carry, Float[Array, "b s"], Int[Array, ""]], Carry],
    carry: Carry,
    rows: Float[Array, "p s"],
    count: Int[Array, ""],
    size: int,
) -> Carry:
    """carry = learn(carry, block, number of rows in it) for blocks of the first `count` rows.

    A loop changes large arrays in place, which a branch does not.
    """
    padded = pad_to(rows, (size * -(-len(rows) // size), rows.shape[1]))

    def body(block: Array, carry: Carry) -> Carry:
        start = block * size
        return learn(carry, jax.lax.dynamic_slice_in_dim(padded, start, size), jnp.minimum(count - start, size))

    result: Carry = jax.lax.fori_loop(0, -(-count // size), body, carry)
    return result


MatrixRoom = tuple[int, int, int, int]
"""Capacities of a matrix, see `Room`."""


@dataclass(frozen=True)
class Room:
    """Capacities: vectors that a population has seen, and directions of each kind for a matrix.

    The four of a matrix: directions that it and its transpose were applied to, left and right vectors of its updates (0
    where they are among the former). `usual` are those of matrices that are not named yet, forward and backward.
    """

    pools: tuple[int, ...]
    usual: tuple[int, int]
    matrices: tuple[tuple[str, MatrixRoom], ...] = ()

    def of(self, name: str, asked: tuple[bool, bool], learned: tuple[bool, bool]) -> MatrixRoom:
        """Of a matrix; `asked` and `learned` say which of the four kinds it has."""
        forward, backward = self.usual
        stated = dict(self.matrices).get(name, (0, 0, 0, 0))
        kinds = zip(stated, (forward, backward, backward, forward), (*asked, *learned), strict=True)
        a, b, c, d = ((known or usual) if there else 0 for known, usual, there in kinds)
        return a, b, c, d

    def having(self, name: str, sizes: MatrixRoom) -> Room:
        """With a matrix of these capacities."""
        return replace(self, matrices=tuple({**dict(self.matrices), name: sizes}.items()))

    def as_table(self) -> dict[str, Any]:
        """In plain lists, for a checkpoint."""
        return {"pools": list(self.pools), "usual": list(self.usual), "matrices": dict(self.matrices)}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Room:
        """The inverse of `as_table`."""
        matrices = {name: (int(a), int(b), int(c), int(d)) for name, (a, b, c, d) in table["matrices"].items()}
        forward, backward = table["usual"]
        return cls(tuple(map(int, table["pools"])), (int(forward), int(backward)), tuple(matrices.items()))


def larger(size: int, rank: int, *, full: bool, most: int, rungs: int = 1) -> int:
    """The next capacity if this one did not suffice, so many rungs up the ladder; at most the number of particles.

    One that is nearly full grows too: to compile for one more size is dearer than some room in vain. To go up several
    rungs is to expect that all will be needed.
    """
    if full and size >= most:
        raise TooFewParticles(
            f"particles = {most} are too few: this problem has more independent directions than that; "
            "raise particles or rank_tolerance"
        )
    for _ in range(rungs if full or rank >= _NEARLY[rungs] * size else 0):
        size = min(on_ladder(size + 1), max(size, most))
    return size


def on_ladder(count: float) -> int:
    """The next size that capacities have: multiples of 8, each larger than the one before by about `_STEP`.

    >>> [on_ladder(n) for n in (1, 17, 50, 200, 1000)]
    [8, 24, 56, 232, 1192]
    """
    size = 8
    while size < count:
        size = max(size + 8, 8 * round(_STEP * size / 8))
    return size
