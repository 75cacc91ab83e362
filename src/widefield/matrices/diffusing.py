"""What is known of a random matrix that Langevin noise keeps changing.

Without its learned part the matrix at time t is W(t) = sum_k a_k(t) W_k: slot 0 holds the initial matrix, every kick of
the noise is another slot, and all W_k have independent entries N(0, 1). Asking W(t) about v is asking the wide matrix
(W_0, W_1, ...) about the long vector a(t) x v, whose inner products are (a . a') <v, v'>. So W(t) v has a Gaussian part
with covariance Q(t, s) Phi(t, s), Q = a(t) . a(s), and the response

    sum_s Q(t, s) A(t, s) g(s),      A(t, s) = <d phi(t) / d r(s)> = sum_j <phi(t) F_j> (L^-1)_js,      r = L F,

of BP22 App. K. Every step asks about a new matrix: the number of directions grows with the time.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .knowledge import Answer, Pools, Question, put
from .spans import cleared, in_blocks, inverse_root, pad_to, put_rows
from .substrate import inner


class Questions(eqx.Module):
    """Questions (a, v), orthonormal combinations of them (rows of `axes`), and the noise of their images."""

    vectors: Float[Array, "capacity s"]
    slots: Float[Array, "capacity slots"]
    axes: Float[Array, "capacity capacity"]
    noise: Float[Array, "capacity t"]
    rank: Int[Array, ""]
    full: Bool[Array, ""]

    @classmethod
    def nothing(cls, capacity: int, slots: int, here: int, there: int, dtype: Any) -> Questions:
        """None yet."""
        vectors, coefficients, axes, noise = (
            jnp.zeros((capacity, length), dtype) for length in (here, slots, capacity, there)
        )
        return cls(vectors, coefficients, axes, noise, jnp.zeros((), jnp.int32), jnp.zeros((), bool))

    def coordinates(self, slots: Float[Array, " slots"], vectors: Float[Array, "p s"]) -> Float[Array, "p capacity"]:
        """Of the long vectors slots x v among the orthonormal combinations."""
        return ((self.slots @ slots)[None, :] * inner(vectors, self.vectors)) @ self.axes.T

    def appended(
        self, slots: Float[Array, " slots"], vectors: Float[Array, "p s"], axes: Float[Array, "p p"], noise: Array
    ) -> Questions:
        """With questions whose parts outside of what is known are combined by `axes`."""
        fits = self.rank + len(vectors) <= len(self.vectors)
        along = self.coordinates(slots, vectors)
        own = put_rows(jnp.zeros((len(self.axes), len(axes)), axes.dtype), axes.T, self.rank, fits).T
        rows = own - axes @ along @ self.axes
        repeated = jnp.broadcast_to(slots[None, :], (len(vectors), len(slots)))
        return Questions(
            put_rows(self.vectors, vectors, self.rank, fits),
            put_rows(self.slots, repeated, self.rank, fits),
            put_rows(self.axes, rows, self.rank, fits),
            put_rows(self.noise, noise, self.rank, fits),
            self.rank + jnp.where(fits, len(vectors), 0),
            self.full | ~fits,
        )

    def with_room(self, rows: int) -> Questions:
        """With room for other numbers of questions."""
        tall = [cleared(array, self.rank, rows) for array in (self.vectors, self.slots, self.axes, self.noise)]
        axes = pad_to(tall[2], (rows, rows))
        return Questions(tall[0], tall[1], axes, tall[3], self.rank, jnp.zeros((), bool))


class DiffusingKnowledge(eqx.Module):
    """Everything that W(t) and its transpose were asked at any time."""

    sides: tuple[Questions, Questions]

    @classmethod
    def nothing(cls, room: tuple[int, int], slots: int, source: int, target: int, dtype: Any) -> DiffusingKnowledge:
        """Never asked."""
        forward = Questions.nothing(room[0], slots, source, target, dtype)
        return cls((forward, Questions.nothing(room[1], slots, target, source, dtype)))

    @property
    def room(self) -> tuple[int, int]:
        """Capacities for questions, forward and backward."""
        return len(self.sides[0].vectors), len(self.sides[1].vectors)

    @property
    def full(self) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Whether there was too little room, forward and backward."""
        return self.sides[0].full, self.sides[1].full

    @property
    def ranks(self) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Number of questions asked, forward and backward."""
        return self.sides[0].rank, self.sides[1].rank

    def with_room(self, room: tuple[int, int]) -> DiffusingKnowledge:
        """With room for other numbers of questions."""
        return DiffusingKnowledge((self.sides[0].with_room(room[0]), self.sides[1].with_room(room[1])))

    def ask(
        self, question: Question, slots: Float[Array, " slots"], vectors: Float[Array, "p s"], pools: Pools
    ) -> tuple[Answer, DiffusingKnowledge, Pools]:
        """W(t) v / sqrt(n_here), where `slots` are a(t); they know the scale already."""
        side, there = question.side, question.there
        asked, other = self.sides[side], self.sides[1 - side]
        along = asked.coordinates(slots, vectors)
        size = jnp.sum(slots**2)
        values, axes = jnp.linalg.eigh(size * inner(vectors, vectors) - along @ along.T)
        values, axes = values[::-1], axes[:, ::-1]
        kept = values > question.tolerance**2 * size * jnp.mean(vectors**2)
        count = question.agree(jnp.sum(kept, dtype=jnp.int32))

        def learn(carry: tuple[Questions, Pools], vectors: Array, _: Array) -> tuple[Questions, Pools]:
            questions, pools = carry
            pool, fresh = pools[there].draw(len(vectors), count)
            rows = (axes * inverse_root(values, kept)[None, :]).T
            return questions.appended(slots, vectors, rows, fresh), put(pools, there, pool)

        once = jnp.minimum(count, 1)
        asked, pools = in_blocks(learn, (asked, pools), vectors, once, len(vectors))
        weights = (question.factor * inner(vectors, other.noise)) @ other.axes
        response = weights * (other.slots @ slots)[None, :]
        coordinates = asked.coordinates(slots, vectors)
        known = DiffusingKnowledge((asked, other) if side == 0 else (other, asked))
        return Answer(coordinates, response, coordinates), known, pools

    def image(self, side: int, noise: Float[Array, "p q"], along: Float[Array, "p r"]) -> Float[Array, "p t"]:
        """sum_i noise_i e_i + sum_j along_j r_j."""
        return noise @ self.sides[side].noise + along @ self.sides[1 - side].vectors
