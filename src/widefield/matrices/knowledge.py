"""What is known of a random matrix that stays as it is: the answers to all that it has been asked."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..base.traced import Number
from .pools import Pools, put
from .spans import Span, in_blocks, new_directions, pad_to, put_rows
from .substrate import inner


class Answer(eqx.Module):
    """W v: noise + response R, and the coordinates <Q, v>, where R, Q are the directions asked about on both sides."""

    noise: Float[Array, "p m"]
    response: Float[Array, "p r"]
    coordinates: Float[Array, "p q"]


class Asked(eqx.Module):
    """Directions that a matrix (or its transpose) was applied to, and the noise E (or F) of their images."""

    span: Span
    noise: Float[Array, "capacity t"]

    @classmethod
    def nothing(cls, capacity: int, here: int, there: int) -> Asked:
        """Not applied to anything yet."""
        span = Span.empty(capacity, here)
        return cls(span, jnp.zeros((len(span.rows), there)))

    def grown(self, after: Asked) -> Asked:
        """With room for more directions, if it did not suffice for `after`."""
        span = self.span.grown(after.span)
        return Asked(span, pad_to(self.noise, (len(span.rows), self.noise.shape[1])))


class Knowledge(eqx.Module):
    """All that is known of a matrix with entries N(0, scale^2): both sides, and M_ij = <W q_i, r_j>."""

    forward: Asked
    backward: Asked
    cross: Float[Array, "q r"]

    @classmethod
    def nothing(cls, capacity: int, source: int, target: int) -> Knowledge:
        """Never asked; populations are represented by `source` and `target` particles."""
        forward, backward = Asked.nothing(capacity, source, target), Asked.nothing(capacity, target, source)
        return cls(forward, backward, jnp.zeros((len(forward.noise), len(backward.noise))))

    @property
    def spans(self) -> tuple[Span, Span]:
        """Directions asked about, forward and backward."""
        return self.forward.span, self.backward.span

    @property
    def full(self) -> Array:
        """Whether there was too little room."""
        return self.forward.span.full | self.backward.span.full

    @property
    def ranks(self) -> Int[Array, " 2"]:
        """Number of directions asked about, forward and backward."""
        return jnp.stack([self.forward.span.rank, self.backward.span.rank])

    def turned(self, factor: Number) -> Knowledge:
        """The same for the transpose; `factor` is sqrt(n_s/n_t) of the matrix at hand."""
        return Knowledge(self.backward, self.forward, self.cross.T / factor)

    def grown(self, after: Knowledge) -> Knowledge:
        """With room for more directions wherever it did not suffice for `after`."""
        forward, backward = self.forward.grown(after.forward), self.backward.grown(after.backward)
        return Knowledge(forward, backward, pad_to(self.cross, (len(forward.noise), len(backward.noise))))

    def ask(
        self,
        weight: Float[Array, " 1"],
        vectors: Float[Array, "p n"],
        pools: Pools,
        between: tuple[int, int],
        factor: Number,
        scale: Number,
        tolerance: float,
    ) -> tuple[Answer, Knowledge, Pools]:
        """weight W v / sqrt(n_s); `between` are the populations of v and of the answer, factor is sqrt(n_s/n_t)."""
        here, there = between

        def learn(
            carry: tuple[Knowledge, Pools, Array], directions: Array, count: Array
        ) -> tuple[Knowledge, Pools, Array]:
            known, pools, coordinates = carry
            at = (jnp.zeros_like(count), known.forward.span.rank)
            coordinates = jax.lax.dynamic_update_slice(coordinates, inner(vectors, directions), at)
            pools = put(pools, here, pools[here].having_seen(directions))
            pool, fresh = pools[there].draw(len(directions), count)
            known = known._with_answers(directions, scale * fresh, count, factor)
            return known, put(pools, there, pool), coordinates

        coordinates = self.forward.span.coordinates(vectors)
        # Cheap and cautious: what is outside the span, by Pythagoras. `new_directions` then looks closely.
        squares = jnp.mean(vectors**2, axis=1)
        news = jnp.any(squares - jnp.sum(coordinates**2, axis=1) > tolerance**2 * jnp.mean(squares))
        directions, count = jax.lax.cond(
            news,
            lambda: new_directions(self.forward.span, vectors, tolerance),
            lambda: (jnp.zeros_like(vectors), jnp.zeros((), jnp.int32)),
        )
        known, pools, coordinates = in_blocks(learn, (self, pools, coordinates), directions, count)
        response = factor * inner(vectors, known.backward.noise) + coordinates @ known.cross
        answer = Answer(weight[0] * (coordinates @ known.forward.noise), weight[0] * response, coordinates)
        return answer, known, pools

    def _with_answers(
        self, directions: Float[Array, "p n"], noise: Float[Array, "p m"], count: Int[Array, ""], factor: Number
    ) -> Knowledge:
        """After W was applied to new directions: M gets rows <F, q>, and F loses its part along q."""
        asked, along = self.forward, inner(directions, self.backward.noise)
        forward = Asked(asked.span.appended(directions, count), put_rows(asked.noise, noise, asked.span.rank))
        backward = Asked(self.backward.span, self.backward.noise - along.T @ directions)
        return Knowledge(forward, backward, put_rows(self.cross, factor * along, asked.span.rank))
