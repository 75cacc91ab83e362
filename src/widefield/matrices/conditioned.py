"""Random matrices of infinite size, of which only the consequences are kept.

A population is represented by S particles, independent copies of its typical neuron; vectors over it are arrays of
length S and <a, b> = (1/S) sum_i a_i b_i. A Gaussian matrix W is known by what it has been asked: orthonormal
vectors q_i that it was applied to, and orthonormal vectors r_j that its transpose was applied to. With populations of
equal size and products normalised as in `Substrate`, for any v with p its part outside of all q_i,

    W v   = sum_i <q_i, v> e_i + sum_j <f_j, v> r_j + |p| e,
    W^T u = sum_j <r_j, u> f_j + sum_i <e_i, u> q_i + ...,

where e is a fresh Gaussian vector, orthogonal to all that its population has seen. This is the law of W given all
that it has been asked before: a p that counts becomes the next q, with e its e_i; the same with the transpose gives
r_j and f_j. (No answer contradicts an older one: e_i is orthogonal to all r_j that were there before, f_j to all q_i.)
The noise of a p below the tolerance is left out, which changes kernels by the square of the
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

from ..base.numbers import Number
from .diffusing import DiffusingKnowledge
from .knowledge import Answer, Knowledge, Pool, Pools, Question, put
from .spans import Room, Span, larger, pad_to
from .substrate import OuterProducts, Substrate, inner


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
    scale: Float[Array, ""]
    source: int = eqx.field(static=True)
    target: int = eqx.field(static=True)

    def updates(self, side: int) -> Float[Array, "u s"]:
        """Basis of the right (0) or left (1) vectors of updates."""
        span = self.left if side else self.right
        if span is not None:
            return span.rows
        assert isinstance(self.known, Knowledge)
        return self.known.asked(side)

    @property
    def full(self) -> list[Bool[Array, ""]]:
        """Whether there was too little room, for each of the four kinds of `Room`."""
        never = jnp.zeros((), bool)
        return [*self.known.full, *(never if span is None else span.full for span in (self.left, self.right))]

    @property
    def ranks(self) -> list[Int[Array, ""]]:
        """How much of the room is taken, for each of the four kinds."""
        none = jnp.zeros((), jnp.int32)
        return [*self.known.ranks, *(none if span is None else span.rank for span in (self.left, self.right))]

    @property
    def room(self) -> tuple[int, int, int, int]:
        """Capacities of the four kinds of `Room`."""
        left, right = (0 if span is None else len(span.rows) for span in (self.left, self.right))
        return (*self.known.room, left, right)

    def with_room(self, room: tuple[int, int, int, int]) -> ConditionedMatrix:
        """With other capacities."""
        known: Any = self.known.with_room(room[:2])
        left = None if self.left is None else self.left.with_room(room[2])
        right = None if self.right is None else self.right.with_room(room[3])
        wider = dataclasses.replace(self, known=known, left=left, right=right)
        core = pad_to(self.value.core, (len(wider.updates(1)), len(wider.updates(0))))
        return dataclasses.replace(wider, value=Value(self.value.weight, core))


class Recent(eqx.Module):
    """Vectors that a matrix was asked about in this step, and their coordinates, which its update needs again."""

    vectors: Float[Array, "..."]
    coordinates: Float[Array, "p q"]


class Conditioned(Substrate):
    """Infinite populations: running a program on it solves the mean-field equations.

    `ratios` are the relative sizes of the populations. Replicas side by side, under `jax.vmap` with the name `axis`,
    take up equal numbers of directions.
    """

    grows: ClassVar[bool] = True

    seed: Int[Array, ""]
    pools: Pools
    ratios: Float[Array, " populations"]
    tolerance: Float[Array, ""]
    room: Room = eqx.field(static=True)
    axis: str | None = eqx.field(static=True, default=None)
    partners: dict[str, Float[Array, ""]] = eqx.field(default_factory=dict)
    partner_of: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    sources: dict[str, Array] = eqx.field(default_factory=dict)
    matrices: dict[str, ConditionedMatrix] = eqx.field(default_factory=dict)
    recent: dict[str, Recent] = eqx.field(default_factory=dict)

    @classmethod
    def create(
        cls,
        seed: Int[Array, ""],
        streams: tuple[Float[Array, "_ s"], ...],
        ratios: Float[Array, " populations"],
        *,
        tolerance: Float[Array, ""],
        room: Room,
        axis: str | None = None,
    ) -> Self:
        """Populations of these relative sizes about which nothing is known yet; `streams` are their normal numbers."""
        return cls(seed, tuple(map(Pool.empty, streams)), ratios, tolerance, room, axis)

    def _with(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def _agree(self, number: Int[Array, ""]) -> Int[Array, ""]:
        """The largest of all replicas."""
        if self.axis is None:
            return number
        most: Array = jax.lax.pmax(number, self.axis)  # type: ignore[no-untyped-call]
        return most

    @property
    def exhausted(self) -> Bool[Array, ""]:
        """Whether a span ran out of room, so that the last results are wrong and have to be repeated."""
        full = [pool.seen.full for pool in self.pools]
        for matrix in self.matrices.values():
            full += matrix.full
        return jnp.any(jnp.stack(full))

    def larger_room(self, rungs: int = 1) -> Room:
        """Room that suffices longer than that of this substrate, which ran out of it: so many rungs up the ladder."""
        particles = [pool.stream.shape[-1] for pool in self.pools]
        pools = (
            larger(size, int(pool.seen.rank), full=bool(pool.seen.full), most=count, rungs=rungs)
            for size, pool, count in zip(self.room.pools, self.pools, particles, strict=True)
        )
        room = dataclasses.replace(self.room, pools=tuple(pools))
        for name, sizes in self.room.matrices:
            matrix = self.matrices[name]
            s, t = particles[matrix.source], particles[matrix.target]
            kinds = zip(sizes, map(int, matrix.ranks), map(bool, matrix.full), (s, t, t, s), strict=True)
            a, b, c, d = (
                larger(size, rank, full=full, most=most, rungs=rungs) if size else 0 for size, rank, full, most in kinds
            )
            room = room.having(name, (a, b, c, d))
        return room

    def with_room(self, room: Room, streams: tuple[Float[Array, "_ s"], ...]) -> Self:
        """With other capacities; `streams` begin with the numbers that there were."""
        pools = tuple(pool.with_room(stream) for pool, stream in zip(self.pools, streams, strict=True))
        matrices = {name: self.matrices[name].with_room(sizes) for name, sizes in room.matrices}
        return self._with(pools=pools, matrices=matrices, room=room)

    @property
    def crowding(self) -> float:
        """Independent vectors that a population has seen, for each of its particles, at most."""
        return max(int(pool.seen.rank) / pool.stream.shape[-1] for pool in self.pools)

    def settled(self) -> Self:
        """Without what was kept for the rest of a step."""
        return self._with(recent={})

    @property
    def ranks(self) -> Int[Array, "matrices 2"] | None:
        """Number of directions that every matrix and its transpose were asked about."""
        return (
            jnp.stack([jnp.stack(matrix.known.ranks) for matrix in self.matrices.values()]) if self.matrices else None
        )

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
        learned = bool(shakes) or not adjoint, bool(shakes)
        return self._with_matrix(name, (source, target), scale, (True, True), learned, shakes)

    def _with_matrix(
        self,
        name: str,
        ends: tuple[int, int],
        scale: Number,
        asked: tuple[bool, bool],
        learned: tuple[bool, bool] = (False, False),
        shakes: int = 0,
    ) -> Self:
        """Add a matrix that is `asked` forward or backward, and has left and right spans of its own if `learned`."""
        s, t = (self.pools[population].stream.shape[1] for population in ends)
        sizes, dtype = self.room.of(name, asked, learned), self.tolerance.dtype
        known: Knowledge | DiffusingKnowledge = Knowledge.nothing(sizes[:2], s, t, dtype)
        if shakes:
            known = DiffusingKnowledge.nothing(sizes[:2], 1 + shakes, s, t, dtype)
        left = Span.empty(sizes[2], t, dtype) if learned[0] else None
        right = Span.empty(sizes[3], s, dtype) if learned[1] else None
        core = jnp.zeros((sizes[2] if learned[0] else sizes[1], sizes[3] if learned[1] else sizes[0]), dtype)
        value = Value(jnp.zeros(1 + shakes, dtype).at[0].set(1.0), core)
        matrix = ConditionedMatrix(known, left, right, value, jnp.asarray(scale, dtype), *ends)
        return self._with(matrices={**self.matrices, name: matrix}, room=self.room.having(name, sizes))

    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add a frozen matrix correlated with the initial value of another one."""
        return self._with_partner(name, partner, self.matrices[partner], scale, correlation)

    def _with_partner(
        self, name: str, partner: str, like: ConditionedMatrix, scale: Number, correlation: Number
    ) -> Self:
        fresh = self._with_matrix(f"{name} fresh", (like.source, like.target), scale, (False, True))
        partners = {**self.partners, name: jnp.asarray(correlation, self.tolerance.dtype)}
        return fresh._with(partners=partners, partner_of=(*self.partner_of, (name, partner)))

    def apply(self, name: str, vectors: Float[Array, "*rows n"]) -> tuple[Float[Array, "*rows m"], Self]:
        """W v / sqrt(n_s) for every row v."""
        return self._apply(name, vectors, 0)

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t) for every row u."""
        if name in self.partners:
            return self._feedback(name, vectors)
        return self._apply(name, vectors, 1)

    def _apply(self, name: str, vectors: Float[Array, "*rows n"], side: int) -> tuple[Float[Array, "*rows m"], Self]:
        answer, substrate = self._ask(name, self.matrices[name].value.weight, vectors, side)
        matrix = substrate.matrices[name]
        separate = matrix.left is not None, matrix.right is not None
        rows = vectors.reshape(-1, vectors.shape[-1])
        coordinates = inner(rows, matrix.updates(side)) if separate[1 - side] else answer.coordinates
        learned = coordinates @ (matrix.value.core if side else matrix.value.core.T)
        if side:
            learned = learned / self._factor(matrix, 0)
        if separate[side]:
            image = matrix.known.image(side, answer.noise, answer.response) + learned @ matrix.updates(1 - side)
        else:
            image = matrix.known.image(side, answer.noise, answer.response + learned)
        if not separate[1 - side]:
            substrate = substrate._with(recent={**substrate.recent, f"{name} {side}": Recent(vectors, coordinates)})
        return image.reshape(*vectors.shape[:-1], -1), substrate

    def initial_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W(0)^T u / sqrt(n_t) for every row u."""
        weight = self.matrices[name].value.weight
        return self._initial(name, jnp.zeros_like(weight).at[0].set(1.0), vectors)

    def _initial(
        self, name: str, weight: Float[Array, " slots"], vectors: Float[Array, "*rows m"]
    ) -> tuple[Float[Array, "*rows n"], Self]:
        answer, substrate = self._ask(name, weight, vectors, 1)
        image = substrate.matrices[name].known.image(1, answer.noise, answer.response)
        return image.reshape(*vectors.shape[:-1], -1), substrate

    def _feedback(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """(rho W(0) + sqrt(1 - rho^2) W')^T u / sqrt(n_t)."""
        partner, correlation = dict(self.partner_of)[name], self.partners[name]
        weight = self.matrices[partner].value.weight
        own, substrate = self._initial(partner, jnp.zeros_like(weight).at[0].set(correlation), vectors)
        rest = jnp.sqrt(1 - correlation**2)[None]
        other, substrate = substrate._initial(f"{name} fresh", rest, vectors)
        return own + other, substrate

    def _factor(self, matrix: ConditionedMatrix, side: int) -> Float[Array, ""]:
        """sqrt(n_s/n_t), or its inverse for the transpose."""
        ends = (matrix.target, matrix.source) if side else (matrix.source, matrix.target)
        return jnp.sqrt(self.ratios[ends[0]] / self.ratios[ends[1]])

    def _ask(
        self, name: str, weight: Float[Array, " slots"], vectors: Float[Array, "*rows n"], side: int
    ) -> tuple[Answer, Self]:
        """What the random part of W, with the given weight, makes of vectors."""
        matrix, rows = self.matrices[name], vectors.reshape(-1, vectors.shape[-1])
        here, there = (matrix.target, matrix.source) if side else (matrix.source, matrix.target)
        factor = self._factor(matrix, side)
        question = Question(side, here, there, factor, matrix.scale, self.tolerance, self._agree)
        known: Any
        if isinstance(matrix.known, DiffusingKnowledge):
            slots = jnp.concatenate([matrix.scale * weight[:1], weight[1:]])
            answer, known, pools = matrix.known.ask(question, slots, rows, self.pools)
        else:
            answer, known, pools = matrix.known.ask(question, rows, self.pools)
            answer = Answer(weight[0] * answer.noise, weight[0] * answer.response, answer.coordinates)
        matrix = dataclasses.replace(matrix, known=known)
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
        left, right = (
            None if span is None else span.extended(vectors.reshape(-1, vectors.shape[-1]), self.tolerance, self._agree)
            for span, vectors in ((matrix.left, gradient.left), (matrix.right, gradient.right))
        )
        matrix = dataclasses.replace(matrix, left=left, right=right)
        after = self._with(matrices={**self.matrices, name: matrix})
        rows = after._coordinates(name, 0, gradient.right)
        columns = gradient.weights[:, None] * after._coordinates(name, 1, gradient.left)
        return Value(jnp.zeros_like(matrix.value.weight), gradient.strength * (columns.T @ rows)), after

    def _coordinates(self, name: str, side: int, vectors: Float[Array, "*rows n"]) -> Float[Array, "p q"]:
        """Of vectors of an update; those of vectors that the matrix was just asked about are known."""
        known = self.recent.get(f"{name} {side}")
        if known is not None and known.vectors is vectors:
            return known.coordinates
        return inner(vectors.reshape(-1, vectors.shape[-1]), self.matrices[name].updates(side))

    def shaken(self, name: str, amount: Float[Array, ""], step: Array) -> Self:
        """Add a matrix with fresh entries N(0, amount^2): another slot of weight `amount`."""
        value = self.matrices[name].value
        return self.with_values({name: Value(value.weight.at[1 + step].add(amount), value.core)})
