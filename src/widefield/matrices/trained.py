"""Random matrices of infinite size after training: asked about new vectors, one at a time, and not changed by it."""

from __future__ import annotations

import dataclasses
from typing import Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from .conditioned import Conditioned, Value
from .knowledge import Answer, Knowledge
from .substrate import inner


class Trained(Conditioned):
    """All that is known of matrices, and one Gaussian vector over every population that nobody has seen.

    With q, e, r, f as in `conditioned`, and p the part of v outside of all q_i,

        W(t) v = sum_i <q_i, v> e_i + sum_j <f_j, v> r_j + |p| e + what was learned

    is the law of W(t) v given all that was asked in training, for any one v: e is the vector of the target population
    that nobody has seen. The same e serves all vectors, so the answer to one does not depend on what else is asked.
    Averages over neurons that belong to one vector are therefore those of the limit; averages over two, such as
    kernels between new samples, are not to be had from here. All of |p| counts: nothing is left out below a tolerance.
    """

    fresh: tuple[Float[Array, " _"], ...] = ()

    @classmethod
    def of(cls, substrate: Conditioned) -> tuple[Self, Conditioned]:
        """What a substrate knows; and that substrate afterwards, which may be exhausted by the draw."""
        one = jnp.ones((), jnp.int32)
        drawn = [pool.draw(1, one) for pool in substrate.pools]
        kept = {field.name: getattr(substrate, field.name) for field in dataclasses.fields(Conditioned)}
        kept |= {"pools": (), "recent": {}}
        trained = cls(**kept, fresh=tuple(vectors[0] for _, vectors in drawn))
        return trained, dataclasses.replace(substrate, pools=tuple(pool for pool, _ in drawn))

    def at_start(self) -> Self:
        """The same matrices before training."""
        values = {}
        for name, value in self.values.items():
            first = jnp.zeros_like(value.weight).at[0].set(1.0)
            values[name] = Value(first, jnp.zeros_like(value.core))
        return self.with_values(values)

    def apply(self, name: str, vectors: Float[Array, "p n"]) -> tuple[Float[Array, "p m"], Self]:
        """W v / sqrt(n_s) for every row v, each for itself."""
        image, after = super().apply(name, vectors)
        matrix, coordinates = self.matrices[name], after.recent[f"{name} 0"].coordinates
        outside = jnp.maximum(jnp.mean(vectors**2, axis=1) - jnp.sum(coordinates**2, axis=1), 0.0)
        strength = matrix.value.weight[0] * matrix.scale * jnp.sqrt(outside)
        return image + strength[:, None] * self.fresh[matrix.target][None, :], self

    def _ask(
        self, name: str, weight: Float[Array, " slots"], vectors: Float[Array, "*rows n"], side: int
    ) -> tuple[Answer, Self]:
        """What is known to come of vectors. Nothing is learned from the question."""
        matrix = self.matrices[name]
        assert isinstance(matrix.known, Knowledge), "noise on weights is not followed after training"
        assert side == 0, "a network that has been trained is asked forward only"
        along = inner(vectors, matrix.known.rows[0])
        coordinates, others = along[:, : matrix.known.split], along[:, matrix.known.split :]
        response = weight[0] * self._factor(matrix, 0) * others
        return Answer(weight[0] * coordinates, response, coordinates), self
