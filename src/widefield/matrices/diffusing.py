"""What is known of a random matrix that Langevin noise keeps changing.

Without its learned part the matrix at time t is W(t) = sum_k a_k(t) W_k: slot 0 holds the initial matrix, every kick of
the noise is another slot, and all W_k have independent entries N(0, 1). Asking W(t) about v is asking the wide matrix
(W_0, W_1, ...) about the long vector a(t) x v, whose inner products are (a . a') <v, v'>. So W(t) v has a Gaussian part
with covariance Q(t, s) Phi(t, s), Q = a(t) . a(s), and the response

    sum_s Q(t, s) A(t, s) g(s),      A(t, s) = <d phi(t) / d r(s)> = sum_j <phi(t) F_j> (L^-1)_js,      r = L F,

of BP22 App. K. Every step asks about a new matrix: the number of directions grows with the time.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..base.traced import Number
from .knowledge import Answer
from .pools import Pools, put
from .spans import enlarged, in_blocks, inverse_root, pad_to, put_rows
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
    def nothing(cls, capacity: int, slots: int, here: int, there: int) -> Questions:
        """None yet."""
        vectors, coefficients = jnp.zeros((capacity, here)), jnp.zeros((capacity, slots))
        axes, noise = jnp.zeros((capacity, capacity)), jnp.zeros((capacity, there))
        return cls(vectors, coefficients, axes, noise, jnp.zeros((), jnp.int32), jnp.zeros((), bool))

    def coordinates(self, slots: Float[Array, " slots"], vectors: Float[Array, "p s"]) -> Float[Array, "p capacity"]:
        """Of the long vectors slots x v among the orthonormal combinations."""
        return ((self.slots @ slots)[None, :] * inner(vectors, self.vectors)) @ self.axes.T

    def appended(
        self, slots: Float[Array, " slots"], vectors: Float[Array, "p s"], axes: Float[Array, "p p"], noise: Array
    ) -> Questions:
        """With questions whose parts outside of what is known are combined by `axes`."""
        along = self.coordinates(slots, vectors)
        own = put_rows(jnp.zeros((len(self.axes), len(axes))), axes.T, self.rank).T
        rows = own - axes @ along @ self.axes
        repeated = jnp.broadcast_to(slots[None, :], (len(vectors), len(slots)))
        return Questions(
            put_rows(self.vectors, vectors, self.rank),
            put_rows(self.slots, repeated, self.rank),
            put_rows(self.axes, rows, self.rank),
            put_rows(self.noise, noise, self.rank),
            self.rank + len(vectors),
            self.full | (self.rank + len(vectors) > len(self.vectors)),
        )

    def grown(self, after: Questions) -> Questions:
        """With more room, if it did not suffice for `after`."""
        if not bool(after.full):
            return self
        rows = enlarged(len(self.vectors))
        tall = [pad_to(array, (rows, array.shape[1])) for array in (self.vectors, self.slots, self.noise)]
        return Questions(tall[0], tall[1], pad_to(self.axes, (rows, rows)), tall[2], self.rank, self.full)


class DiffusingKnowledge(eqx.Module):
    """Everything that W(t) was asked at any time, forward and backward."""

    forward: Questions
    backward: Questions

    @classmethod
    def nothing(cls, capacity: int, slots: int, source: int, target: int) -> DiffusingKnowledge:
        """Never asked."""
        return cls(
            Questions.nothing(capacity, slots, source, target), Questions.nothing(capacity, slots, target, source)
        )

    @property
    def full(self) -> Array:
        """Whether there was too little room."""
        return self.forward.full | self.backward.full

    @property
    def ranks(self) -> Int[Array, " 2"]:
        """Number of questions asked, forward and backward."""
        return jnp.stack([self.forward.rank, self.backward.rank])

    def turned(self, factor: Number) -> DiffusingKnowledge:
        """The same for the transpose."""
        del factor
        return DiffusingKnowledge(self.backward, self.forward)

    def grown(self, after: DiffusingKnowledge) -> DiffusingKnowledge:
        """With more room wherever it did not suffice for `after`."""
        return DiffusingKnowledge(self.forward.grown(after.forward), self.backward.grown(after.backward))

    def ask(
        self,
        slots: Float[Array, " slots"],
        vectors: Float[Array, "p n"],
        pools: Pools,
        there: int,
        factor: Number,
        tolerance: float,
    ) -> tuple[Answer, DiffusingKnowledge, Pools]:
        """W(t) v / sqrt(n_s), where `slots` are a(t); `there` is the population of the answer."""
        along = self.forward.coordinates(slots, vectors)
        size = jnp.sum(slots**2)
        values, axes = jnp.linalg.eigh(size * inner(vectors, vectors) - along @ along.T)
        values, axes = values[::-1], axes[:, ::-1]
        kept = values > tolerance**2 * size * jnp.mean(vectors**2)
        count = jnp.sum(kept, dtype=jnp.int32)

        def learn(carry: tuple[Questions, Pools], vectors: Array, _: Array) -> tuple[Questions, Pools]:
            questions, pools = carry
            pool, fresh = pools[there].draw(len(vectors), count)
            rows = (axes * inverse_root(values, kept)[None, :]).T
            return questions.appended(slots, vectors, rows, fresh), put(pools, there, pool)

        once = jnp.minimum(count, 1)
        forward, pools = in_blocks(learn, (self.forward, pools), vectors, once, len(vectors))
        known = DiffusingKnowledge(forward, self.backward)
        weights = (factor * inner(vectors, self.backward.noise)) @ self.backward.axes
        response = weights * (self.backward.slots @ slots)[None, :]
        coordinates = forward.coordinates(slots, vectors)
        return Answer(coordinates @ forward.noise, response, coordinates), known, pools
