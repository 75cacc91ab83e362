"""What `forward` computes with: fields over populations, and matrices between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..base import check
from .parts import MatrixSpec, Population, complaint


class Graph(Protocol):
    """What keeps the values that fields stand for: a tape."""

    values: list[Float[Array, "..."]]
    over: list[Population]

    def local(self, function: Callable[..., Any], fields: Sequence[Field]) -> Field:
        """A local function."""

    def chosen(self, field: Field, at: tuple[Any, ...]) -> Field:
        """Some positions."""

    def read(self, x: Field, vectors: Field) -> Field:
        """x @ vectors."""

    def use(self, spec: MatrixSpec, transposed: bool, field: Field) -> Field:
        """A matrix or its transpose applied to a field."""


@dataclass(frozen=True, eq=False)
class Field:
    """A value of a network: for every sample and position one number for each neuron of a population.

    Fields over one population are added and multiplied neuron by neuron, and by numbers and scalars; positions are
    matched from the last on, as in numpy. `field[at]` takes positions, and `x @ vectors` multiplies scalars with the
    last axis of positions D by D vectors.
    """

    tape: Graph
    index: int

    @property
    def population(self) -> Population:
        """Its neurons."""
        return self.tape.over[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of positions along every axis, without samples and neurons."""
        return self.tape.values[self.index].shape[1:-1]

    def __repr__(self) -> str:
        return f"<Field over {self.population.name!r}, positions {self.shape}>"

    def __len__(self) -> int:
        if not self.shape:
            raise complaint("this field has no positions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Field]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, at: Any) -> Field:
        places = at if isinstance(at, tuple) else (at,)
        if len(places) > len(self.shape):
            raise complaint(f"{len(places)} indices for a field with {len(self.shape)} axes of positions")
        for place, size in zip(places, self.shape, strict=False):
            if isinstance(place, int) and not -size <= place < size:
                raise complaint(f"position {place} does not exist; there are {size}")
            if not isinstance(place, int | slice):
                raise complaint(f"positions are whole numbers and slices, not {check.shown(place)}")
        return self.tape.chosen(self, (slice(None), *places))

    def __add__(self, other: Any) -> Field:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Field:
        return self._with(operator.add, other)

    def __sub__(self, other: Any) -> Field:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Field:
        return self._with(lambda a, b: b - a, other)

    def __mul__(self, other: Any) -> Field:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Field:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> Field:
        return self._with(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Field:
        return self._with(lambda a, b: b / a, other)

    def __pow__(self, other: Any) -> Field:
        return self._with(operator.pow, other)

    def __neg__(self) -> Field:
        return self.tape.local(operator.neg, (self,))

    def __matmul__(self, vectors: Any) -> Field:
        if not isinstance(vectors, Field):
            raise complaint(f"x @ {check.shown(vectors)}: the right side must be net.vectors(...)")
        return self.tape.read(self, vectors)

    def _with(self, function: Callable[[Any, Any], Any], other: Any) -> Field:
        if isinstance(other, Field):
            return self.tape.local(lambda a, b: function(*aligned(a, b)), (self, other))
        plain = isinstance(other, int | float | np.number) and not isinstance(other, bool)
        if plain or (isinstance(other, jax.Array) and other.ndim == 0):
            return self.tape.local(lambda a: function(a, other), (self,))
        raise complaint(f"{check.shown(other)} is neither a field nor a number; write net.map(function, field)")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A random matrix: `W @ field` is W v / sqrt(n_source), and `W.T @ field` is W^T u / sqrt(n_target)."""

    tape: Graph
    spec: MatrixSpec
    transposed: bool = False

    @property
    def T(self) -> Matrix:  # noqa: N802
        """The transpose of the same matrix."""
        return Matrix(self.tape, self.spec, not self.transposed)

    def __matmul__(self, field: Any) -> Field:
        if not isinstance(field, Field):
            raise complaint(f"matrix {self.spec.name!r} @ {check.shown(field)}: the right side must be a field")
        return self.tape.use(self.spec, self.transposed, field)


def aligned(a: Float[Array, "..."], b: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """With as many axes: new ones go between samples and positions."""
    rank = max(a.ndim, b.ndim)
    return tuple(jnp.reshape(v, (v.shape[0], *(1,) * (rank - v.ndim), *v.shape[1:])) for v in (a, b))  # type: ignore[return-value]


def read(x: Float[Array, "p *at d 1"], vectors: Float[Array, "1 d n"]) -> Float[Array, "p *at n"]:
    """sum_d x_d u_d: scalars along their last axis of positions, times as many vectors."""
    return x[..., 0] @ vectors[0]


def inner_of(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """<a, b> = (1/n) sum_i a_i b_i for every sample, and every pair of positions: (samples, *of a, *of b, 1)."""
    rows, columns = (jnp.reshape(v, (v.shape[0], -1, v.shape[-1])) for v in (a, b))
    if len(columns) == 1:
        found = jnp.tensordot(rows, columns[0], axes=(-1, -1))
    elif len(rows) == 1:
        found = jnp.einsum("an,pbn->pab", rows[0], columns)
    else:
        found = jnp.einsum("pan,pbn->pab", rows, columns)
    return jnp.reshape(found / a.shape[-1], (found.shape[0], *a.shape[1:-1], *b.shape[1:-1], 1))


def mean_of(a: Float[Array, "*p n"]) -> Float[Array, "*p 1"]:
    """(1/n) sum_i a_i."""
    return jnp.mean(a, axis=-1, keepdims=True)
