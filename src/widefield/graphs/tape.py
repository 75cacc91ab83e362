"""A tape: runs the forward pass of a network and remembers it, so that backward passes follow.

Every value is an array (samples, *positions, neurons). Parameters have one sample, scalars one neuron. With F the
output in front of its scale 1/gamma_0, the cotangent of a field h over n neurons is hhat = n dF/dh, so that
dF = <hhat, dh>: of order one at any width. Every node passes it back by one rule, the plain vector-Jacobian product
times n_in / n_out, with n = 1 for scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..base import check
from ..base.numbers import Number, present, root
from .fields import Field, Matrix, inner_of, mean_of, read
from .parts import SCALARS, Line, MatrixSpec, Population, VectorSpec, complaint, line_outside

Value = Float[Array, "..."]
Cotangents = dict[int, Value]
"""By value: (samples, signals, *positions, neurons)."""


@dataclass(frozen=True, eq=False)
class Local:
    """A function of numbers that belong to one neuron (and of scalars), or an average; `line` if users wrote it."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    line: Line | None = None


@dataclass(frozen=True, eq=False)
class Read(Local):
    """x @ vectors: the first input is x."""


@dataclass(frozen=True, eq=False)
class Use:
    """A matrix, or its transpose, applied to a value."""

    spec: MatrixSpec
    transposed: bool
    input: int


class Source(Protocol):
    """Where the numbers of vectors and the products of matrices come from."""

    def vectors(self, spec: VectorSpec) -> Value:
        """(1, *shape, neurons)."""

    def apply(self, spec: MatrixSpec, transposed: bool, vectors: Value) -> Value:
        """W v / sqrt(n_s), or W^T u / sqrt(n_t)."""


class Tape:
    """What `forward(self, net, x)` is given as `net`."""

    def __init__(self, source: Source, outputs: int) -> None:
        self.source, self.outputs = source, outputs
        self.populations: dict[str, Population] = {}
        self.vector_specs: dict[str, VectorSpec] = {}
        self.matrix_specs: dict[str, MatrixSpec] = {}
        self.places: dict[str, int] = {}
        self.vector_at: dict[str, int] = {}
        self.values: list[Value] = []
        self.over: list[Population] = []
        self.nodes: list[Local | Use | None] = []
        self.fixed: list[bool] = []
        self.raw: set[int] = set()
        self.reducible = True

    # What networks are written with.

    def population(self, name: str, ratio: Number = 1.0) -> Population:
        """A population of neurons, `ratio` times as many as the width says."""
        found = self.populations.setdefault(_named(name), Population(name, len(self.populations), ratio))
        if isinstance(ratio, int | float):
            check.number(f"ratio of population {name!r}", ratio, above=0.0)
            if found.ratio != ratio:
                raise complaint(f"population {name!r} had the ratio {found.ratio:g} before, now {ratio:g}")
        return found

    def vectors(
        self,
        name: str,
        population: Population,
        *shape: int,
        scale: Number = 1.0,
        mean: Number = 0.0,
        trained: bool = True,
    ) -> Field:
        """Vectors over a population with entries N(mean, scale^2): input weights, readouts, biases, gains."""
        spec = VectorSpec(_named(name), self._known(population), tuple(map(int, shape)), trained, scale, mean)
        self._same(name, self.vector_specs.setdefault(name, spec), spec, self.matrix_specs)
        if name not in self.vector_at:
            self.vector_at[name] = self._add(None, self.source.vectors(spec), population, fixed=True).index
        return Field(self, self.vector_at[name])

    def matrix(
        self, name: str, source: Population, target: Population, *, scale: Number = 1.0, trained: bool = True
    ) -> Matrix:
        """A matrix from one population to another with entries N(0, scale^2)."""
        spec = MatrixSpec(_named(name), self._known(source), self._known(target), trained, scale)
        self._same(name, self.matrix_specs.setdefault(name, spec), spec, self.vector_specs)
        return Matrix(self, self.matrix_specs[name])

    def map(self, function: Callable[..., Any], *fields: Field) -> Field:
        """A function of arrays (samples, *positions, neurons), the same for every sample and every neuron."""
        return self.local(function, fields, line_outside())

    def mean(self, field: Field) -> Field:
        """The average over neurons, a scalar."""
        return self._averaged(mean_of, (field,))

    def inner(self, a: Field, b: Field) -> Field:
        """<a, b>, the average of the product over neurons, for every pair of positions."""
        return self._averaged(inner_of, (a, b))

    def name(self, name: str, field: Field) -> Field:
        """Record what this field does, under a name."""
        if _named(name).endswith(("_error", "_deviation")):
            raise complaint(f"{name!r}: names that end like this are those of error bars")
        if self.places.setdefault(name, self._own((field,))[0].index) != field.index:
            raise complaint(f"{name!r} is the name of another field already")
        self.reducible &= field.index not in self.raw
        return field

    # What the graph is made of.

    def data(self, value: Value) -> Field:
        """Inputs (samples, *positions, 1)."""
        found = self._add(None, value, SCALARS, fixed=False)
        self.raw.add(found.index)
        return found

    def local(self, function: Callable[..., Any], fields: Sequence[Field], line: Line | None = None) -> Field:
        """A local function; `line` is where users wrote it."""
        population = self._common(fields)
        self.reducible &= not any(field.index in self.raw for field in fields)
        inputs = [self.values[field.index] for field in fields]
        value = function(*inputs)
        samples = max(len(v) for v in inputs)
        neurons = max(v.shape[-1] for v in inputs)
        if getattr(value, "ndim", 0) < 2 or (value.shape[0], value.shape[-1]) != (samples, neurons):
            raise complaint(
                f"the function made {check.shown(value)}; its first axis must stay that of samples, and its last that "
                "of neurons (use net.mean or net.inner for averages over neurons)"
            )
        return self._add(Local(function, _indices(fields), line), value, population, self._all_fixed(fields))

    def chosen(self, field: Field, at: tuple[Any, ...]) -> Field:
        """Some positions."""
        value = self.values[field.index][at]
        found = self._add(Local(lambda v: v[at], (field.index,)), value, field.population, self.fixed[field.index])
        if field.index in self.raw:
            self.raw.add(found.index)
        return found

    def read(self, x: Field, vectors: Field) -> Field:
        """x @ vectors."""
        self._own((x, vectors))
        if x.population != SCALARS or not x.shape:
            raise complaint("x @ vectors: the left side must be numbers, such as the inputs x, and no field of neurons")
        if not self.fixed[vectors.index] or vectors.shape != x.shape[-1:]:
            given = f"net.vectors(name, population, {x.shape[-1]})"
            raise complaint(f"x @ vectors: the right side must be {given}, and has the shape {vectors.shape}")
        spec = next((s for n, s in self.vector_specs.items() if self.vector_at[n] == vectors.index), None)
        # Only vectors without a preferred direction cannot tell the inputs' coordinates from others.
        self.reducible &= x.index not in self.raw or (spec is not None and not present(spec.mean))
        value = read(self.values[x.index], self.values[vectors.index])
        return self._add(Read(read, _indices((x, vectors))), value, vectors.population, self._all_fixed((x, vectors)))

    def use(self, spec: MatrixSpec, transposed: bool, field: Field) -> Field:
        """A matrix or its transpose applied to a field."""
        here, there = (spec.target, spec.source) if transposed else (spec.source, spec.target)
        if self._own((field,))[0].population != here:
            raise complaint(
                f"matrix {spec.name!r}{' transposed' if transposed else ''} takes vectors over population "
                f"{here.name!r}; this one is over {field.population.name!r}"
            )
        value = self.source.apply(spec, transposed, self.values[field.index])
        return self._add(Use(spec, transposed, field.index), value, there, self.fixed[field.index])

    # What follows from it.

    @property
    def uses(self) -> list[tuple[int, Use]]:
        """All questions to matrices, with the values that they gave."""
        return [(index, node) for index, node in enumerate(self.nodes) if isinstance(node, Use)]

    def only(self, rows: Int[Array, " q"]) -> None:
        """Keep the values of some samples."""
        pairs = zip(self.values, self.fixed, strict=True)
        self.values = [value if fixed else value[rows] for value, fixed in pairs]

    def backward(self, signals: Mapping[int, Value], ratios: Sequence[Number], *, apart: bool = False) -> Cotangents:
        """Cotangents of all values that the signals depend on; of parameters for each sample if they stay `apart`."""
        cotangents: Cotangents = dict(signals)
        for index in reversed(range(len(self.nodes))):
            node = self.nodes[index]
            if node is None or index not in cotangents:
                continue
            if isinstance(node, Use):
                source, target = ratios[node.spec.source.index], ratios[node.spec.target.index]
                factor = root(target / source if node.transposed else source / target)
                back = self.source.apply(node.spec, not node.transposed, cotangents[index])
                _accumulate(cotangents, node.input, factor * back)
                continue
            inputs = [self.values[i] for i in node.inputs]
            alone = apart and any(self.fixed[i] for i in node.inputs)
            for i, part in zip(node.inputs, _pulled(node.function, inputs, cotangents[index], alone), strict=True):
                _accumulate(cotangents, i, self.values[i].shape[-1] / self.values[index].shape[-1] * part)
        return cotangents

    # Checks.

    def _add(self, node: Local | Use | None, value: Value, population: Population, fixed: bool) -> Field:
        self.nodes.append(node)
        self.values.append(value)
        self.over.append(population)
        self.fixed.append(fixed)
        return Field(self, len(self.values) - 1)

    def _averaged(self, function: Callable[..., Any], fields: Sequence[Field]) -> Field:
        self._common(fields)
        self.reducible &= not any(field.index in self.raw for field in fields)
        value = function(*(self.values[field.index] for field in fields))
        return self._add(Local(function, _indices(fields)), value, SCALARS, self._all_fixed(fields))

    def _all_fixed(self, fields: Sequence[Field]) -> bool:
        return all(self.fixed[field.index] for field in fields)

    def _own(self, fields: Sequence[Any]) -> Sequence[Field]:
        for field in fields:
            if not isinstance(field, Field) or field.tape is not self:
                raise complaint(f"{check.shown(field)} is not a field of this network")
        return fields

    def _common(self, fields: Sequence[Field]) -> Population:
        """The one population that fields live on, beside scalars."""
        if not fields:
            raise complaint("there is no field: a function needs at least one")
        found = [p for p in dict.fromkeys(f.population for f in self._own(fields)) if p != SCALARS]
        if len(found) > 1:
            raise complaint(
                f"fields over the populations {found[0].name!r} and {found[1].name!r} meet in one function; connect "
                "them by a matrix or by averages"
            )
        return found[0] if found else SCALARS

    def _known(self, population: Any) -> Population:
        if not isinstance(population, Population) or self.populations.get(population.name) != population:
            raise complaint(f"{check.shown(population)} is no population of this network: see net.population(name)")
        return population

    def _same(self, name: str, before: Any, now: Any, others: Mapping[str, Any]) -> None:
        kind = "vectors" if isinstance(now, VectorSpec) else "matrix"
        if name in others:
            raise complaint(f"{name!r} is the name of both vectors and a matrix")
        if before != now:
            raise complaint(f"{kind} {name!r} was {before} before, now {now}")


def _named(name: Any) -> str:
    if not isinstance(name, str) or not name or "/" in name or ":" in name:
        raise complaint(f"{check.shown(name)} is no name: a text without / and :")
    return name


def _indices(fields: Sequence[Field]) -> tuple[int, ...]:
    return tuple(field.index for field in fields)


def _accumulate(cotangents: Cotangents, index: int, part: Value) -> None:
    cotangents[index] = cotangents[index] + part if index in cotangents else part


def _pulled(function: Callable[..., Any], inputs: Sequence[Value], cotangent: Value, alone: bool) -> Sequence[Value]:
    """Vector-Jacobian products for every signal; sample by sample if parameters are not to be summed over."""
    if not alone:
        _, pull = jax.vjp(function, *inputs)
        found: Sequence[Value] = jax.vmap(pull, in_axes=1, out_axes=1)(cotangent)
        return found

    def one(cotangent: Value, *values: Value) -> list[Value]:
        _, pull = jax.vjp(function, *(value[None] for value in values))
        return [part[0] for part in jax.vmap(pull, in_axes=1, out_axes=1)(cotangent[None])]

    samples = len(cotangent)
    every = [jnp.broadcast_to(value, (samples, *value.shape[1:])) for value in inputs]
    apart: Sequence[Value] = jax.vmap(one)(cotangent, *every)
    return apart
