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
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..base.traced import Number, root
from .diffusing import DiffusingKnowledge
from .knowledge import Answer, Knowledge
from .pools import Pool, Pools, put
from .spans import Span, in_blocks, new_directions, pad_to
from .substrate import OuterProducts, Substrate


class Value(eqx.Module):
    """What moves in W(t) = weight W(0) + left^T core right. Noise adds entries to `weight`: see `diffusing`."""

    weight: Float[Array, " slots"]
    core: Float[Array, "left right"]


class ConditionedMatrix(eqx.Module):
    """A matrix from population `source` to `target` with initial entries N(0, scale^2).

    `left` and `right` are spans of the vectors of updates, or None for the directions that W^T or W was applied to, if
    the vectors of updates are always among them.
    """

    known: Knowledge | DiffusingKnowledge
    left: Span | None
    right: Span | None
    value: Value
    source: int = eqx.field(static=True)
    target: int = eqx.field(static=True)
    scale: Float[Array, ""]

    @property
    def left_span(self) -> Span:
        """Basis of the left vectors of updates."""
        if self.left is not None:
            return self.left
        assert isinstance(self.known, Knowledge)
        return self.known.backward.span

    @property
    def right_span(self) -> Span:
        """Basis of the right vectors of updates."""
        if self.right is not None:
            return self.right
        assert isinstance(self.known, Knowledge)
        return self.known.forward.span

    @property
    def full(self) -> Bool[Array, ""]:
        """Whether there was too little room."""
        return self.known.full | self.left_span.full | self.right_span.full

    def grown(self, after: ConditionedMatrix) -> ConditionedMatrix:
        """With room for more directions wherever it did not suffice for `after`."""
        known: Any = self.known.grown(after.known)  # type: ignore[arg-type]
        left, right = _grown(self.left, after.left), _grown(self.right, after.right)
        larger = dataclasses.replace(self, known=known, left=left, right=right)
        core = pad_to(self.value.core, (len(larger.left_span.rows), len(larger.right_span.rows)))
        return dataclasses.replace(larger, value=Value(self.value.weight, core))


def _grown(span: Span | None, after: Span | None) -> Span | None:
    return None if span is None or after is None else span.grown(after)


class Partner(eqx.Module):
    """The frozen matrix correlation W(0) + sqrt(1 - correlation^2) W': the name of W, and the correlation."""

    matrix: str = eqx.field(static=True)
    correlation: Float[Array, ""]

    @classmethod
    def of(cls, matrix: str, correlation: Number) -> Partner:
        """With an array for the correlation."""
        return cls(matrix, jnp.asarray(correlation, float))


class Conditioned(Substrate):
    """Infinite populations: running a program on it solves the mean-field equations.

    `ratios` are the relative sizes of the populations.
    """

    grows: ClassVar[bool] = True

    seed: Int[Array, ""]
    pools: Pools
    ratios: Float[Array, " populations"]
    tolerance: float = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    partners: dict[str, Partner] = eqx.field(default_factory=dict)
    sources: dict[str, Array] = eqx.field(default_factory=dict)
    matrices: dict[str, ConditionedMatrix] = eqx.field(default_factory=dict)

    @classmethod
    def create(
        cls,
        seed: int,
        particles: int,
        ratios: tuple[Number, ...],
        *,
        tolerance: float,
        capacity: int,
        empty: bool = False,
    ) -> Self:
        """Populations of the given relative sizes about which nothing is known yet.

        `empty` leaves out the random numbers, for when only sizes are of interest.
        """
        pools = tuple(Pool.empty(None if empty else seed, k, 3 * capacity, particles) for k in range(len(ratios)))
        sizes = jnp.stack([jnp.asarray(ratio, float) for ratio in ratios])
        return cls(jnp.asarray(seed), pools, sizes, tolerance, capacity)

    def _with(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    @property
    def exhausted(self) -> Bool[Array, ""]:
        """Whether a span ran out of room, so that the last results are wrong and have to be repeated."""
        full = [pool.seen.full for pool in self.pools] + [matrix.full for matrix in self.matrices.values()]
        return jnp.any(jnp.stack(full))

    def grown(self, exhausted: Substrate) -> Self:
        """With room for more directions wherever it did not suffice for `exhausted`."""
        assert isinstance(exhausted, Conditioned)
        pairs = zip(self.pools, exhausted.pools, strict=True)
        pools = tuple(pool.grown(after, int(self.seed), k) for k, (pool, after) in enumerate(pairs))
        matrices = {name: matrix.grown(exhausted.matrices[name]) for name, matrix in self.matrices.items()}
        return self._with(pools=pools, matrices=matrices)

    def with_room_of(self, other: Substrate) -> Self:
        """With as much room as another one has."""
        assert isinstance(other, Conditioned)
        pairs = zip(self.pools, other.pools, strict=True)
        pools = tuple(pool.with_room(len(like.stream), int(self.seed), k) for k, (pool, like) in enumerate(pairs))
        matrices = jax.tree.map(lambda leaf, like: pad_to(leaf, like.shape), self.matrices, other.matrices)
        return self._with(pools=pools, matrices=matrices)

    @property
    def ranks(self) -> Int[Array, "matrices 2"] | None:
        """Number of directions that every matrix and its transpose were asked about."""
        return jnp.stack([matrix.known.ranks for matrix in self.matrices.values()]) if self.matrices else None

    def gaussian(
        self, name: str, population: int, count: int, step: Array | None = None
    ) -> tuple[Float[Array, "{count} n"], Self]:
        """Standard normal vectors over a population, orthogonal to all earlier ones."""
        if step is None and name in self.sources:
            return self.sources[name], self
        pool, drawn = self.pools[population].draw(count, jnp.asarray(count, jnp.int32))
        after = self._with(pools=put(self.pools, population, pool))
        if step is None:
            after = after._with(sources={**self.sources, name: drawn})
        return drawn, after

    def with_matrix(
        self, name: str, source: int, target: int, scale: Number, *, adjoint: bool = True, shakes: int = 0
    ) -> Self:
        """Add a matrix of which nothing is known yet."""
        s, t = (self.pools[population].stream.shape[1] for population in (source, target))
        left = Span.empty(self.capacity, t) if shakes or not adjoint else None
        right = Span.empty(self.capacity, s) if shakes else None
        known: Knowledge | DiffusingKnowledge = Knowledge.nothing(self.capacity, s, t)
        if shakes:
            known = DiffusingKnowledge.nothing(self.capacity, 1 + shakes, s, t)
        core = jnp.zeros((min(self.capacity, t), min(self.capacity, s)))
        value = Value(jnp.zeros(1 + shakes).at[0].set(1.0), core)
        matrix = ConditionedMatrix(known, left, right, value, source, target, jnp.asarray(scale, float))
        return self._with(matrices={**self.matrices, name: matrix})

    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add a frozen matrix correlated with the initial value of another one."""
        other = self.matrices[partner]
        fresh = self.with_matrix(f"{name} fresh", other.source, other.target, scale)
        return fresh._with(partners={**self.partners, name: Partner.of(partner, correlation)})

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Self]:
        """W v / sqrt(n_s) for every row v."""
        rows = vectors.reshape(-1, vectors.shape[-1])
        answer, substrate = self._ask(name, self.matrices[name].value.weight, rows, transposed=False)
        matrix = substrate.matrices[name]
        coordinates = answer.coordinates if matrix.right is None else matrix.right.coordinates(rows)
        image = composed(answer, matrix, coordinates @ matrix.value.core.T, matrix.left, transposed=False)
        return image.reshape(*vectors.shape[:-1], -1), substrate

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t) for every row u."""
        rows = vectors.reshape(-1, vectors.shape[-1])
        if name in self.partners:
            image, substrate = self._feedback(f"{name} fresh", self.partners[name], rows)
            return image.reshape(*vectors.shape[:-1], -1), substrate
        answer, substrate = self._ask(name, self.matrices[name].value.weight, rows, transposed=True)
        matrix = substrate.matrices[name]
        coordinates = answer.coordinates if matrix.left is None else matrix.left.coordinates(rows)
        learned = coordinates @ matrix.value.core / self._factor(matrix)
        image = composed(answer, matrix, learned, matrix.right, transposed=True)
        return image.reshape(*vectors.shape[:-1], -1), substrate

    def initial_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W(0)^T u / sqrt(n_t) for every row u."""
        rows, weight = vectors.reshape(-1, vectors.shape[-1]), self.matrices[name].value.weight
        answer, substrate = self._ask(name, jnp.zeros_like(weight).at[0].set(1.0), rows, transposed=True)
        image = composed(answer, substrate.matrices[name], None, None, transposed=True)
        return image.reshape(*vectors.shape[:-1], -1), substrate

    def _feedback(self, fresh: str, partner: Partner, rows: Float[Array, "p m"]) -> tuple[Float[Array, "p n"], Self]:
        """(rho W(0) + sqrt(1 - rho^2) W')^T u / sqrt(n_t)."""
        weight = self.matrices[partner.matrix].value.weight
        initial = jnp.zeros_like(weight).at[0].set(partner.correlation)
        own, substrate = self._ask(partner.matrix, initial, rows, transposed=True)
        image = composed(own, substrate.matrices[partner.matrix], None, None, transposed=True)
        rest = jnp.full(1, root(1 - partner.correlation**2))
        other, substrate = substrate._ask(fresh, rest, rows, transposed=True)
        return image + composed(other, substrate.matrices[fresh], None, None, transposed=True), substrate

    def _factor(self, matrix: ConditionedMatrix) -> Float[Array, ""]:
        """sqrt(n_s/n_t)."""
        return root(self.ratios[matrix.source] / self.ratios[matrix.target])

    def _ask(
        self, name: str, weight: Float[Array, " slots"], vectors: Float[Array, "p n"], *, transposed: bool
    ) -> tuple[Answer, Self]:
        """What the random part of W, with the given weight, makes of vectors."""
        matrix = self.matrices[name]
        here, there = (matrix.target, matrix.source) if transposed else (matrix.source, matrix.target)
        factor = self._factor(matrix) ** (-1 if transposed else 1)
        known: Any = matrix.known.turned(1 / factor) if transposed else matrix.known
        if isinstance(known, DiffusingKnowledge):
            slots = jnp.concatenate([matrix.scale * weight[:1], weight[1:]])
            answer, known, pools = known.ask(slots, vectors, self.pools, there, factor, self.tolerance)
        else:
            between = (here, there)
            answer, known, pools = known.ask(weight, vectors, self.pools, between, factor, matrix.scale, self.tolerance)
        matrix = dataclasses.replace(matrix, known=known.turned(factor) if transposed else known)
        return answer, self._with(pools=pools, matrices={**self.matrices, name: matrix})

    @property
    def values(self) -> dict[str, Value]:
        """What moves in every matrix."""
        return {name: matrix.value for name, matrix in self.matrices.items()}

    def with_values(self, values: dict[str, Value]) -> Self:
        """With other values of the matrices that are named."""
        changed = {name: dataclasses.replace(self.matrices[name], value=value) for name, value in values.items()}
        return self._with(matrices={**self.matrices, **changed})

    def direction(self, name: str, gradient: OuterProducts) -> tuple[Value, Self]:
        """dW/dt in the coordinates of the spans."""
        matrix = self.matrices[name]
        left, right = matrix.left, matrix.right
        if left is not None:
            left = _extended(left, gradient.left, self.tolerance)
        if right is not None:
            right = _extended(right, gradient.right, self.tolerance)
        matrix = dataclasses.replace(matrix, left=left, right=right)
        coordinates = matrix.left_span.coordinates(gradient.left).T @ matrix.right_span.coordinates(gradient.right)
        moving = Value(jnp.zeros_like(matrix.value.weight), gradient.strength * coordinates)
        return moving, self._with(matrices={**self.matrices, name: matrix})

    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Self:
        """Add a matrix with fresh entries N(0, amount^2): another slot of weight `amount`."""
        value = self.matrices[name].value
        return self.with_values({name: Value(value.weight.at[1 + step].add(amount), value.core)})


def composed(
    answer: Answer, matrix: ConditionedMatrix, learned: Array | None, span: Span | None, *, transposed: bool
) -> Float[Array, "p m"]:
    """noise + response R + learned (coordinates in `span`, or along R too if that is None)."""
    asked: Any = matrix.known.forward if transposed else matrix.known.backward
    rows: Array = asked.span.rows if isinstance(matrix.known, Knowledge) else asked.vectors
    if learned is None:
        return answer.noise + answer.response @ rows
    if span is None:
        return answer.noise + (answer.response + learned) @ rows
    return answer.noise + answer.response @ rows + learned @ span.rows


def _extended(span: Span, vectors: Float[Array, "p s"], tolerance: float) -> Span:
    """With the directions of the vectors outside of it."""
    rows, count = new_directions(span, vectors, tolerance)
    return in_blocks(lambda span, block, number: span.appended(block, number), span, rows, count)
