"""Random matrices of infinite size, of which only the consequences are kept.

A population is represented by S particles, independent copies of its typical neuron; vectors over it are arrays of
length S and <a, b> = (1/S) sum_i a_i b_i. A Gaussian matrix W is known by what it has been asked: Q, orthonormal
vectors that it was applied to, and R, orthonormal vectors that its transpose was applied to. With populations of
equal size and products normalised as in `Substrate`,

    W q_i = sum_j M_ij r_j + E_i,        W^T r_j = sum_i M_ij q_i + F_j,        E orthogonal to R, F to Q,

and for any v with coordinates c = <Q, v>, exactly but for the last term,

    W v = sum_j ( <F_j, v> + sum_i c_i M_ij ) r_j + sum_i c_i E_i + |p| e,        p = v - sum_i c_i q_i,

where e is a fresh Gaussian vector: the law of W given all that it has been asked before. A direction p that counts is
added to Q, with e its E; the noise of one below the tolerance is left out, which changes kernels by the square of the
tolerance. The terms along r_j are the responses of the mean-field theory (A and B of BP22 eq. (10), in their Stein
form, eq. (53)). Cost and memory follow the number of directions, which stops growing, and not the time.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .matrices import OuterProducts, Substrate, inner
from .optimisers import SGD
from .sources import normals
from .spans import Span, new_directions, orthonormalised, pad_to, put_rows

_SEEN = 1e-6
"""Parts of a vector below this fraction count as seen already."""


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
    """All that is known of W(0): both sides, and M_ij = <W q_i, r_j>."""

    forward: Asked
    backward: Asked
    cross: Float[Array, "q r"]

    def turned(self, factor: float) -> Knowledge:
        """The same for the transpose; `factor` is sqrt(n_s/n_t) of the matrix at hand."""
        return Knowledge(self.backward, self.forward, self.cross.T / factor)


class ConditionedMatrix(eqx.Module):
    """W(t) = weight W(0) + left^T core right; `right` are the directions that W was applied to.

    `left` is a span of its own, or None for the directions that W^T was applied to, if the left vectors of updates
    are always among them.
    """

    known: Knowledge
    left: Span | None
    weight: Float[Array, ""]
    weight_velocity: Float[Array, ""] | None
    core: Float[Array, "left right"]
    core_velocity: Float[Array, "left right"] | None
    source: int = eqx.field(static=True)
    target: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    @property
    def left_span(self) -> Span:
        """Basis of the left vectors of updates."""
        return self.known.backward.span if self.left is None else self.left

    @property
    def right_span(self) -> Span:
        """Basis of the right vectors of updates."""
        return self.known.forward.span

    def grown(self, after: ConditionedMatrix) -> ConditionedMatrix:
        """With room for more directions wherever it did not suffice for `after`."""
        forward = self.known.forward.grown(after.known.forward)
        backward = self.known.backward.grown(after.known.backward)
        cross = pad_to(self.known.cross, (len(forward.span.rows), len(backward.span.rows)))
        left = None if self.left is None or after.left is None else self.left.grown(after.left)
        larger = dataclasses.replace(self, known=Knowledge(forward, backward, cross), left=left)
        shape = (len(larger.left_span.rows), len(larger.right_span.rows))
        velocity = None if self.core_velocity is None else pad_to(self.core_velocity, shape)
        return dataclasses.replace(larger, core=pad_to(self.core, shape), core_velocity=velocity)


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
    def empty(cls, seed: int, population: int, capacity: int, particles: int) -> Pool:
        """Nothing drawn yet."""
        one = jnp.ones((), jnp.int32)
        seen = Span.empty(capacity, particles).appended(jnp.ones((1, particles)), one)
        stream = jnp.asarray(normals(seed, population, *seen.rows.shape))
        return cls(seen, stream, jnp.zeros((), jnp.int32))

    def draw(self, rows: int, count: Int[Array, ""]) -> tuple[Pool, Float[Array, "rows s"]]:
        """The next `count` Gaussian vectors, and zero rows after those."""
        start = (self.drawn, jnp.zeros_like(self.drawn))
        raw = jax.lax.dynamic_slice(self.stream, start, (rows, self.stream.shape[1]))
        fresh = orthonormalised(self.seen.residual(raw))
        fresh = jnp.where((jnp.arange(rows, dtype=count.dtype) < count)[:, None], fresh, 0.0)
        return Pool(self.seen.appended(fresh, count), self.stream, self.drawn + count), fresh

    def having_seen(self, directions: Float[Array, "p s"]) -> Pool:
        """After vectors over the population were asked about."""
        rows, count = new_directions(self.seen, directions, _SEEN)
        return Pool(self.seen.appended(rows, count), self.stream, self.drawn)

    def grown(self, after: Pool, seed: int, population: int) -> Pool:
        """With room for more vectors, if it did not suffice for `after`."""
        seen = self.seen.grown(after.seen)
        enough = len(seen.rows) == len(self.stream)
        stream = self.stream if enough else jnp.asarray(normals(seed, population, *seen.rows.shape))
        return Pool(seen, stream, self.drawn)


class Conditioned(Substrate):
    """Infinite populations: running a program on it solves the mean-field equations.

    `ratios` are the relative sizes of the populations.
    """

    grows: ClassVar[bool] = True

    seed: Int[Array, ""]
    pools: tuple[Pool, ...]
    ratios: tuple[float, ...] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    partners: tuple[tuple[str, str, float], ...] = eqx.field(static=True, default=())
    sources: dict[str, Array] = eqx.field(default_factory=dict)
    matrices: dict[str, ConditionedMatrix] = eqx.field(default_factory=dict)

    @classmethod
    def create(
        cls, seed: int, particles: int, ratios: tuple[float, ...], *, tolerance: float, capacity: int
    ) -> Conditioned:
        """Populations of the given relative sizes about which nothing is known yet."""
        pools = tuple(Pool.empty(seed, k, 3 * capacity, particles) for k in range(len(ratios)))
        return cls(jnp.asarray(seed), pools, ratios, tolerance, capacity)

    def _with(self, **changes: Any) -> Conditioned:
        return dataclasses.replace(self, **changes)

    @property
    def exhausted(self) -> Bool[Array, ""]:
        """Whether a span ran out of room, so that the last results are wrong and have to be repeated."""
        spans = [pool.seen for pool in self.pools]
        for matrix in self.matrices.values():
            spans += [matrix.right_span, matrix.known.backward.span, matrix.left_span]
        return jnp.any(jnp.stack([span.full for span in spans]))

    def grown(self, exhausted: Substrate) -> Conditioned:
        """With room for more directions wherever it did not suffice for `exhausted`."""
        assert isinstance(exhausted, Conditioned)
        pairs = zip(self.pools, exhausted.pools, strict=True)
        pools = tuple(pool.grown(after, int(self.seed), k) for k, (pool, after) in enumerate(pairs))
        matrices = {name: matrix.grown(exhausted.matrices[name]) for name, matrix in self.matrices.items()}
        return self._with(pools=pools, matrices=matrices)

    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "count n"], Conditioned]:
        """Standard normal vectors over a population, orthogonal to all earlier ones."""
        if step is None and name in self.sources:
            return self.sources[name], self
        pool, drawn = self.pools[population].draw(count, jnp.asarray(count, jnp.int32))
        after = self._with(pools=_put(self.pools, population, pool))
        if step is None:
            after = after._with(sources={**self.sources, name: drawn})
        return drawn, after

    def with_matrix(
        self, name: str, source: int, target: int, scale: float, optimiser: SGD, *, adjoint: bool
    ) -> Conditioned:
        """Add a matrix of which nothing is known yet."""
        s, t = (self.pools[population].stream.shape[1] for population in (source, target))
        forward, backward = Asked.nothing(self.capacity, s, t), Asked.nothing(self.capacity, t, s)
        known = Knowledge(forward, backward, jnp.zeros((len(forward.noise), len(backward.noise))))
        left = None if adjoint else Span.empty(self.capacity, t)
        rows = len(backward.noise) if left is None else len(left.rows)
        one, core = jnp.ones(()), jnp.zeros((rows, len(forward.noise)))
        moving = (one, optimiser.rest(one), core, optimiser.rest(core))
        matrix = ConditionedMatrix(known, left, *moving, source, target, scale)
        return self._with(matrices={**self.matrices, name: matrix})

    def with_partner(self, name: str, partner: str, scale: float, correlation: float) -> Conditioned:
        """Add a frozen matrix correlated with the initial value of another one."""
        other, never = self.matrices[partner], SGD(learning_rate=1.0, steps=1)
        fresh = self.with_matrix(f"{name} fresh", other.source, other.target, scale, never, adjoint=True)
        return fresh._with(partners=(*self.partners, (name, partner, correlation)))

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Conditioned]:
        """W v / sqrt(n_s) for every row v."""
        rows = vectors.reshape(-1, vectors.shape[-1])
        coordinates, initial, substrate = self._ask(name, rows, transposed=False)
        matrix = substrate.matrices[name]
        learned = (coordinates @ matrix.core.T) @ matrix.left_span.rows
        return (matrix.weight * initial + learned).reshape(*vectors.shape[:-1], -1), substrate

    def apply_transpose(
        self, name: str, vectors: Float[Array, "*rows m"]
    ) -> tuple[Float[Array, "*rows n"], Conditioned]:
        """W^T u / sqrt(n_t) for every row u."""
        rows = vectors.reshape(-1, vectors.shape[-1])
        for known, partner, correlation in self.partners:
            if known == name:
                _, own, substrate = self._ask(partner, rows, transposed=True)
                _, fresh, substrate = substrate._ask(f"{name} fresh", rows, transposed=True)
                mixed = correlation * own + math.sqrt(1 - correlation**2) * fresh
                return mixed.reshape(*vectors.shape[:-1], -1), substrate
        coordinates, initial, substrate = self._ask(name, rows, transposed=True)
        matrix = substrate.matrices[name]
        if matrix.left is not None:
            coordinates = matrix.left.coordinates(rows)
        learned = (coordinates @ matrix.core) @ matrix.right_span.rows / self._factor(matrix)
        return (matrix.weight * initial + learned).reshape(*vectors.shape[:-1], -1), substrate

    def _factor(self, matrix: ConditionedMatrix) -> float:
        """sqrt(n_s/n_t)."""
        return math.sqrt(self.ratios[matrix.source] / self.ratios[matrix.target])

    def _ask(
        self, name: str, vectors: Float[Array, "p n"], *, transposed: bool
    ) -> tuple[Float[Array, "p capacity"], Float[Array, "p m"], Conditioned]:
        """W(0) v / sqrt(n_s) (or its transpose), after the coordinates of v among the known directions."""
        matrix = self.matrices[name]
        here, there = (matrix.target, matrix.source) if transposed else (matrix.source, matrix.target)
        factor = self._factor(matrix) ** (-1 if transposed else 1)
        known = matrix.known.turned(1 / factor) if transposed else matrix.known

        def learn(_: Array) -> tuple[Knowledge, tuple[Pool, ...], Array]:
            directions, count = new_directions(known.forward.span, vectors, self.tolerance)
            pools = _put(self.pools, here, self.pools[here].having_seen(directions))
            pool, fresh = pools[there].draw(len(vectors), count)
            after = _learned(known, directions, matrix.scale * fresh, count, factor)
            return after, _put(pools, there, pool), after.forward.span.coordinates(vectors)

        def know(coordinates: Array) -> tuple[Knowledge, tuple[Pool, ...], Array]:
            return known, self.pools, coordinates

        coordinates = known.forward.span.coordinates(vectors)
        # Cheap and cautious: what is outside the span, by Pythagoras. `learn` then looks closely.
        squares = jnp.mean(vectors**2, axis=1)
        news = jnp.any(squares - jnp.sum(coordinates**2, axis=1) > self.tolerance**2 * jnp.mean(squares))
        known, pools, coordinates = jax.lax.cond(news, learn, know, coordinates)
        response = factor * inner(vectors, known.backward.noise) + coordinates @ known.cross
        image = coordinates @ known.forward.noise + response @ known.backward.span.rows
        matrix = dataclasses.replace(matrix, known=known.turned(factor) if transposed else known)
        substrate = self._with(pools=pools, matrices={**self.matrices, name: matrix})
        return coordinates, image, substrate

    def update(
        self, name: str, gradient: OuterProducts, rate: Float[Array, ""], optimiser: SGD, step: Array
    ) -> Conditioned:
        """One step of the optimiser along dW/dt, in the coordinates of the spans."""
        matrix = self.matrices[name]
        if matrix.left is not None:
            directions, count = new_directions(matrix.left, gradient.left, self.tolerance)
            matrix = dataclasses.replace(matrix, left=matrix.left.appended(directions, count))
        left = matrix.left_span.coordinates(gradient.left)
        direction = gradient.strength * left.T @ matrix.right_span.coordinates(gradient.right)
        core, core_velocity = optimiser.advance(matrix.core, matrix.core_velocity, direction, rate)
        nothing = jnp.zeros_like(matrix.weight)
        weight, weight_velocity = optimiser.advance(matrix.weight, matrix.weight_velocity, nothing, rate)
        changed = dataclasses.replace(
            matrix, core=core, core_velocity=core_velocity, weight=weight, weight_velocity=weight_velocity
        )
        return self._with(matrices={**self.matrices, name: changed})


def _learned(
    known: Knowledge, directions: Float[Array, "p n"], noise: Float[Array, "p m"], count: Int[Array, ""], factor: float
) -> Knowledge:
    """What is known after W was applied to new directions: M gets rows <F, q>, and F loses its part along q."""
    asked, backward = known.forward, known.backward
    along = inner(directions, backward.noise)
    forward = Asked(asked.span.appended(directions, count), put_rows(asked.noise, noise, asked.span.rank))
    backward = Asked(backward.span, backward.noise - along.T @ directions)
    return Knowledge(forward, backward, put_rows(known.cross, factor * along, asked.span.rank))


def _put(pools: tuple[Pool, ...], population: int, pool: Pool) -> tuple[Pool, ...]:
    return tuple(pool if k == population else old for k, old in enumerate(pools))
