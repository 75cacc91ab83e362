"""What is known of a random matrix that stays as it is: the answers to all that it has been asked.

Answers are made of the Gaussian vectors of a population of infinitely many neurons, which is represented by particles.
Each population has a `Pool` of them, from which all of its matrices draw.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .spans import (
    WORTH,
    Agree,
    Span,
    block_size,
    cleared,
    in_blocks,
    new_directions,
    orthonormalised,
    put_rows,
    refined,
    rounding,
)
from .substrate import inner

_SEEN = 1e-6
"""Parts of a vector below this fraction count as seen already."""

_LEAST_FREE, _LIGHT, _HEAVY = 0.02, 0.05, 20.0
"""Bounds of what is left free of a particle, and of its weight: in crowded populations the formula for it is rough."""


class Pool(eqx.Module):
    """The Gaussian vectors of a population.

    A new one is made orthogonal to every vector over the population that was ever drawn or asked about, and
    normalised; the constant vector counts as seen, so that its mean is zero. All this holds in the limit of many
    particles; imposing it makes first and second moments exact for any number of them. `stream` holds the raw
    normal numbers, of which `drawn` rows have been used.

    `leverage` is sum_k seen_ki^2 / S: how much of particle i the vectors seen take up. In their orthogonal complement a
    normal vector has the variance 1 - leverage_i there, and particles with large fields, of large leverage, would get
    less noise than others. Weights of the raw numbers make up for that.
    """

    seen: Span
    leverage: Float[Array, " s"]
    stream: Float[Array, "capacity s"]
    drawn: Int[Array, ""]

    @classmethod
    def empty(cls, stream: Float[Array, "capacity s"]) -> Pool:
        """Nothing drawn yet."""
        one, zero = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32)
        nothing = Span.empty(len(stream), stream.shape[1], stream.dtype)
        seen = nothing.appended(jnp.ones_like(stream[:1]), one)
        return cls(seen, jnp.ones_like(stream[0]) / stream.shape[1], stream, zero)

    def draw(self, rows: int, count: Int[Array, ""]) -> tuple[Self, Float[Array, "{rows} s"]]:
        """The next `count` Gaussian vectors, and zero rows after those."""
        start = (self.drawn, jnp.zeros_like(self.drawn))
        raw = jax.lax.dynamic_slice(self.stream, start, (rows, self.stream.shape[1]))
        raw = raw * jnp.sqrt(self._weights)[None, :]
        fresh = orthonormalised(raw - self.seen.coordinates(raw) @ self.seen.rows)
        fresh = jnp.where((jnp.arange(rows, dtype=count.dtype) < count)[:, None], fresh, 0.0)
        return dataclasses.replace(self._appended(fresh, count), drawn=self.drawn + count), fresh

    @property
    def _weights(self) -> Float[Array, " s"]:
        """w with sum_j P_ij^2 w_j the same for all i, P the projector on the complement: equal variances.

        With l the leverage, P_ii^2 = (1 - l_i)^2, and the other P_ij^2 of a row sum up to l_i (1 - l_i): those are
        spread over many particles, whose mean weight is 1.
        """
        free = jnp.maximum(1.0 - self.leverage, _LEAST_FREE)
        return jnp.clip((jnp.mean(free) - (1.0 - free) * free) / free**2, _LIGHT, _HEAVY)

    def _appended(self, rows: Float[Array, "p s"], count: Int[Array, ""]) -> Self:
        leverage = self.leverage + jnp.sum(rows**2, axis=0) / rows.shape[1]
        return dataclasses.replace(self, seen=self.seen.appended(rows, count), leverage=leverage)

    def having_seen(self, directions: Float[Array, "p s"], agree: Agree) -> Self:
        """After vectors over the population were asked about."""
        coordinates = self.seen.coordinates(directions)
        tolerance = jnp.asarray(max(_SEEN, rounding(directions.dtype)), directions.dtype)
        return self._appended(*new_directions(self.seen.rows, directions, coordinates, tolerance, agree))

    def with_room(self, stream: Float[Array, "more s"]) -> Pool:
        """With as much room as a longer stream of the same numbers has."""
        return Pool(self.seen.with_room(len(stream)), self.leverage, stream, self.drawn)


Pools = tuple[Pool, ...]


def put(pools: Pools, population: int, pool: Pool) -> Pools:
    """With another pool of one population."""
    return tuple(pool if k == population else old for k, old in enumerate(pools))


class Question(NamedTuple):
    """What W (side 0) or its transpose (side 1) is asked.

    `here` and `there` are the populations of the vectors and of the answer, `factor` is sqrt(n_here/n_there), `scale`
    the standard deviation of the entries; directions weaker than `tolerance` are not followed.
    """

    side: int
    here: int
    there: int
    factor: Float[Array, ""]
    scale: Float[Array, ""]
    tolerance: Float[Array, ""]
    agree: Agree


class Answer(NamedTuple):
    """W v = noise [e] + response [r]: weights of the noise of directions asked on this side, and along the others.

    `coordinates` are those of v among the orthonormal directions asked about on this side.
    """

    noise: Float[Array, "p q"]
    response: Float[Array, "p r"]
    coordinates: Float[Array, "p q"]


class Knowledge(eqx.Module):
    """All that is known of a matrix: rows [q; f] over its source and [e; r] over its target.

    The matrix was applied to the orthonormal q_i, each with fresh noise e_i, and its transpose to the orthonormal r_j,
    each with fresh noise f_j. There is room for `split` of the first kind; of both kinds `ranks` are there.
    """

    rows: tuple[Float[Array, "capacity n"], Float[Array, "capacity m"]]
    ranks: tuple[Int[Array, ""], Int[Array, ""]]
    full: tuple[Bool[Array, ""], Bool[Array, ""]]
    split: int = eqx.field(static=True)

    @classmethod
    def nothing(cls, room: tuple[int, int], source: int, target: int, dtype: Any) -> Knowledge:
        """Never asked; populations are represented by `source` and `target` particles."""
        none, false = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        rows = jnp.zeros((sum(room), source), dtype), jnp.zeros((sum(room), target), dtype)
        return cls(rows, (none, none), (false, false), room[0])

    @property
    def room(self) -> tuple[int, int]:
        """Capacities for directions asked about, forward and backward."""
        return self.split, len(self.rows[0]) - self.split

    def asked(self, side: int) -> Float[Array, "q s"]:
        """Orthonormal directions asked about: q over the source, or r over the target."""
        return self.rows[side][self._block(side)]

    def _block(self, side: int) -> slice:
        return slice(None, self.split) if side == 0 else slice(self.split, None)

    def with_room(self, room: tuple[int, int]) -> Knowledge:
        """With room for other numbers of directions."""
        both = [
            [cleared(rows[self._block(side)], self.ranks[side], room[side]) for side in (0, 1)] for rows in self.rows
        ]
        false = jnp.zeros((), bool)
        over_source, over_target = (jnp.concatenate(parts) for parts in both)
        return Knowledge((over_source, over_target), self.ranks, (false, false), room[0])

    def ask(self, question: Question, vectors: Float[Array, "p s"], pools: Pools) -> tuple[Answer, Knowledge, Pools]:
        """W v / sqrt(n_here), as weights of what is known."""
        side, own, other = question.side, self._block(question.side), self._block(1 - question.side)
        along = inner(vectors, self.rows[side])
        coordinates = along[:, own]
        # Cheap and cautious: what is outside the span, by Pythagoras. `new_directions` then looks closely.
        squares = jnp.mean(vectors**2, axis=1)
        news = jnp.any(
            squares - jnp.sum(coordinates**2, axis=1) > (WORTH * question.tolerance) ** 2 * jnp.mean(squares)
        )
        directions, count = jax.lax.cond(
            question.agree(news.astype(jnp.int32)) > 0,
            lambda: new_directions(self.asked(side), vectors, coordinates, question.tolerance, question.agree),
            lambda: (jnp.zeros_like(vectors), jnp.zeros((), jnp.int32)),
        )

        def learn(carry: tuple[Knowledge, Pools, Array], block: Array, count: Array) -> tuple[Knowledge, Pools, Array]:
            known, pools, coordinates = carry
            block = refined(block, known.asked(side))
            at = (jnp.zeros_like(count), known.ranks[side])
            coordinates = jax.lax.dynamic_update_slice(coordinates, inner(vectors, block), at)
            pools = put(pools, question.here, pools[question.here].having_seen(block, question.agree))
            pool, fresh = pools[question.there].draw(len(block), count)
            known = known._with_answers(side, block, question.scale * fresh, count)
            return known, put(pools, question.there, pool), coordinates

        size = block_size(len(vectors))
        known, pools, coordinates = in_blocks(learn, (self, pools, coordinates), directions, count, size)
        return Answer(coordinates, question.factor * along[:, other], coordinates), known, pools

    def _with_answers(
        self, side: int, directions: Float[Array, "b s"], noise: Float[Array, "b t"], count: Int[Array, ""]
    ) -> Knowledge:
        """After W (or its transpose) was applied to new directions."""
        fits = self.ranks[side] + len(directions) <= self.room[side]
        at = self.ranks[side] + (0 if side == 0 else self.split)
        mine, theirs = self.rows[side], self.rows[1 - side]
        mine, theirs = put_rows(mine, directions, at, fits), put_rows(theirs, noise, at, fits)
        rank = self.ranks[side] + jnp.where(fits, count, jnp.zeros_like(count))
        full = self.full[side] | ~fits
        return dataclasses.replace(
            self,
            rows=(mine, theirs) if side == 0 else (theirs, mine),
            ranks=(rank, self.ranks[1]) if side == 0 else (self.ranks[0], rank),
            full=(full, self.full[1]) if side == 0 else (self.full[0], full),
        )

    def image(self, side: int, noise: Float[Array, "p q"], along: Float[Array, "p r"]) -> Float[Array, "p t"]:
        """sum_i noise_i e_i + sum_j along_j r_j, one product for both."""
        parts = (noise, along) if side == 0 else (along, noise)
        return jnp.concatenate(parts, axis=1) @ self.rows[1 - side]
