"""The plan of a network: populations, parameters and places, known before anything is computed; and its checks."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .fields import Field
from .parts import Line, MatrixSpec, Population, VectorSpec, is_inside
from .sources import SAMPLES, Probe
from .tape import Local, Read, Source, Tape, Use

_APART = 1e-8
"""By how much a function of one neuron, or of one sample, may differ from that of all; relative."""


class Forward(Protocol):
    """A network: something with a forward pass."""

    def forward(self, net: Any, x: Any) -> Any:
        """Outputs from inputs."""


@dataclass(frozen=True)
class Place:
    """A field that is recorded: its population, and how many positions it has along every axis."""

    name: str
    population: Population
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """A matrix that is applied in the forward pass, to so many positions of every sample."""

    matrix: str
    transposed: bool
    positions: int


@dataclass(frozen=True)
class Plan:
    """What a network is made of, for inputs of a shape (*positions, D) and a number of outputs.

    `graph` identifies the network's equations; `reducible` says that inputs enter through `x @ vectors` alone, so that
    any coordinates with the same inner products will do; `readers` are the names of those vectors. `read` is the number
    of all vectors that numbers are multiplied with.
    """

    inputs: tuple[int, ...]
    outputs: int
    populations: tuple[Population, ...]
    vectors: tuple[VectorSpec, ...]
    matrices: tuple[MatrixSpec, ...]
    questions: tuple[Question, ...]
    places: tuple[Place, ...]
    readers: tuple[str, ...]
    read: int
    reducible: bool
    graph: str = field(repr=False)

    def widths(self, width: int) -> tuple[int, ...]:
        """Neurons of every population at nominal width N."""
        return tuple(max(1, round(float(p.ratio) * width)) for p in self.populations)

    def parameters(self, width: int) -> int:
        """Numbers that networks of this width are made of, fixed ones included."""
        n = self.widths(width)
        vectors = sum(spec.count * n[spec.population.index] for spec in self.vectors)
        return vectors + sum(n[spec.source.index] * n[spec.target.index] for spec in self.matrices)

    def positions(self, matrix: str) -> int:
        """About how many vectors of every sample a matrix is asked in a pass, all its uses together."""
        return sum(question.positions for question in self.questions if question.matrix == matrix)

    def uses(self, matrix: str) -> int:
        """How often a matrix is applied in a pass."""
        return sum(question.matrix == matrix for question in self.questions)


def plan_of(network: Any, inputs: tuple[int, ...], outputs: int) -> Plan:
    """Trace a network; nothing is computed."""
    try:
        return _traced(network, inputs, outputs)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    raise InvalidInput(
        f"network = {type(network).__name__}: its fields must be hashable (numbers, texts, tuples), so that programs "
        "compiled for equal networks are shared"
    )


def check_network(network: Any, inputs: tuple[int, ...], outputs: int) -> Plan:
    """Trace a network and run it on a handful of neurons; raise, with the line, for what has no limit."""
    plan = plan_of(network, inputs, outputs)
    _checked(network, inputs, outputs)
    return plan


def run(network: Forward, source: Source, x: Float[Array, "..."], outputs: int) -> tuple[Tape, Field]:
    """The forward pass on inputs (samples, *positions, D); its outputs are scalars (samples, outputs, 1)."""
    tape = Tape(source, outputs)
    try:
        out = network.forward(tape, tape.data(x[..., None]))
    except TypeError as error:
        if "Field" not in str(error):
            raise
        where = _last_line(error)
        raise InvalidInput(f"{where}: a field is not an array; write net.map(function, field)") from error
    if not isinstance(out, Field) or out.tape is not tape or out.shape != (outputs,) or out.population.index >= 0:
        shape = f", and not {out!r}" if isinstance(out, Field) else f", and not {type(out).__name__}"
        raise InvalidInput(
            f"{type(network).__name__}.forward must return {outputs} numbers for every sample{shape}: end with "
            "net.inner(features, readout), with readout = net.vectors(name, population, net.outputs)"
        )
    return tape, out


@lru_cache(maxsize=256)
def _traced(network: Forward, inputs: tuple[int, ...], outputs: int) -> Plan:
    tapes: list[Tape] = []

    def trace(x: Float[Array, "..."]) -> Any:
        tape, out = run(network, Probe(), x, outputs)
        tapes.append(tape)
        return tape.values[out.index]

    with double_precision():
        x = jnp.zeros((SAMPLES, *inputs))
        text = re.sub(r"0x[0-9a-f]+", "", str(jax.make_jaxpr(trace)(x)))
        jax.eval_shape(lambda x: trace(x), x)
    first, second = (_described(tape) for tape in tapes)
    if first != second:
        different = next((f"{a}, then {b}" for a, b in zip(first, second, strict=False) if a != b), "")
        counted = different or f"it had {len(first)} parts, then {len(second)}"
        raise InvalidInput(f"{type(network).__name__}.forward gave another graph the second time: {counted}")
    tape = tapes[0]
    if not tape.populations:
        raise InvalidInput(f"{type(network).__name__}.forward has no neurons: see net.population(name)")
    for name in tape.matrix_specs:
        if not any(use.spec.name == name for _, use in tape.uses):
            raise InvalidInput(f"matrix {name!r} is declared but never applied: use it or leave it out")
    places = [Place(name, tape.over[k], tape.values[k].shape[1:-1]) for name, k in tape.places.items()]
    return Plan(
        inputs,
        outputs,
        tuple(tape.populations.values()),
        tuple(tape.vector_specs.values()),
        tuple(tape.matrix_specs.values()),
        tuple(Question(use.spec.name, use.transposed, _number(tape.values[k].shape[1:-1])) for k, use in tape.uses),
        tuple(places),
        *_readers(tape),
        tape.reducible,
        hashlib.sha256(("\n".join(first) + text).encode()).hexdigest(),
    )


@lru_cache(maxsize=256)
def _checked(network: Forward, inputs: tuple[int, ...], outputs: int) -> None:
    """Probe a network; what is found wrong is raised."""
    notes: list[tuple[str, Callable[[float], bool]]] = []

    def probe(x: Float[Array, "..."]) -> list[Float[Array, ""]]:
        notes.clear()
        tape, out = run(network, Probe(), x, outputs)
        found = []
        for index, node in enumerate(tape.nodes):
            if isinstance(node, Local) and node.line is not None:
                for message, amount in _mixings(tape, index, node, node.line):
                    notes.append((message, lambda amount: amount <= _APART))
                    found.append(amount)
        for message, amount in _influences(tape, out):
            notes.append((message, lambda amount: 0 < amount < np.inf))
            found.append(amount)
        return found

    with double_precision():
        amounts = jax.jit(probe)(Probe().inputs(inputs)[..., 0])
    for (message, good), amount in zip(notes, map(float, amounts), strict=True):
        if not good(amount):
            if np.isnan(amount):
                message += " (a value or derivative is not finite at random inputs)"
            raise InvalidInput(message)


def _mixings(tape: Tape, index: int, node: Local, line: Line) -> list[tuple[str, Float[Array, ""]]]:
    """How much a function changes if it sees one neuron, or one sample, instead of all."""
    inputs, whole = [tape.values[i] for i in node.inputs], tape.values[index]
    found = []
    if whole.shape[-1] > 1:
        cut = [v[..., -1:] if v.shape[-1] > 1 else v for v in inputs]
        message = f"{line}: the function mixes neurons; use net.mean or net.inner for averages over neurons"
        found.append((message, _difference(node.function, cut, whole[..., -1:], line, "neurons")))
    if not tape.fixed[index]:
        cut = [v if tape.fixed[i] else v[-1:] for i, v in zip(node.inputs, inputs, strict=True)]
        message = f"{line}: the function mixes samples; networks see one sample at a time"
        found.append((message, _difference(node.function, cut, whole[-1:], line, "samples")))
    return found


def _difference(
    function: Callable[..., Any], inputs: Sequence[Array], expected: Array, line: Line, what: str
) -> Float[Array, ""]:
    """Between the function of some inputs and what it was for them among all, relative."""
    try:
        value = function(*inputs)
        reason = "" if value.shape == expected.shape else f"shape {value.shape} instead of {expected.shape}"
    except Exception as error:
        reason = str(error).partition("\n")[0]
    if reason:
        raise InvalidInput(
            f"{line}: the function fails on one of the {what} alone ({reason}), so it mixes {what} or holds an array "
            "of their number; pass arrays as fields"
        )
    apart = jnp.max(jnp.abs(value - expected)) / jnp.maximum(jnp.max(jnp.abs(expected)), 1e-300)
    return jnp.where(jnp.isnan(apart) & jnp.all(jnp.isfinite(expected)), np.inf, apart)


def _influences(tape: Tape, out: Field) -> list[tuple[str, Float[Array, ""]]]:
    """The largest derivative of the outputs by every parameter that learns."""
    identity = jnp.eye(tape.outputs)[None, :, :, None]
    signal = jnp.broadcast_to(identity, (SAMPLES, *identity.shape[1:]))
    ratios = [Probe().neurons(p) / 7 for p in tape.populations.values()]
    cotangents = tape.backward({out.index: signal}, ratios)
    nothing = jnp.zeros(())
    found = []
    for name, spec in tape.vector_specs.items():
        if spec.trained:
            value = cotangents.get(tape.vector_at[name])
            message = f"vectors {name!r} have no influence on the outputs; use them or give trained=False"
            found.append((message, nothing if value is None else jnp.max(jnp.abs(value))))
    for name, matrix in tape.matrix_specs.items():
        if matrix.trained:
            uses = [(k, use) for k, use in tape.uses if use.spec == matrix and k in cotangents]
            moved = [_moved(tape.values[use.input], cotangents[k]) for k, use in uses]
            message = f"matrix {name!r} has no influence on the outputs; use it or give trained=False"
            found.append((message, sum(moved, nothing)))
    return found


def _moved(given: Array, cotangent: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(given)) * jnp.max(jnp.abs(cotangent))


def _described(tape: Tape) -> list[str]:
    """Every node in words."""
    specs = [f"vectors {n!r}: {s}" for n, s in tape.vector_specs.items()]
    specs += [f"matrix {n!r}: {s}" for n, s in tape.matrix_specs.items()]
    nodes = []
    for index, node in enumerate(tape.nodes):
        over = f"over {tape.over[index].name!r}, positions {tape.values[index].shape[1:-1]}"
        if isinstance(node, Use):
            nodes.append(f"matrix {node.spec.name!r}{'.T' if node.transposed else ''} @ value {node.input}")
        elif isinstance(node, Local):
            nodes.append(f"{'read' if isinstance(node, Read) else 'function'} of values {node.inputs} {over}")
        else:
            nodes.append(f"parameter or data {over}")
    return [*specs, *nodes, *(f"place {name!r} is value {k}" for name, k in tape.places.items())]


def _readers(tape: Tape) -> tuple[tuple[str, ...], int]:
    """Names of vectors that read inputs, and how many read numbers of any kind."""
    names = {k: name for name, k in tape.vector_at.items()}
    reads = [node.inputs for node in tape.nodes if isinstance(node, Read)]
    inputs = dict.fromkeys(names[vectors] for x, vectors in reads if x in tape.raw and vectors in names)
    return tuple(inputs), sum(_number(tape.values[k].shape[1:-1]) for k in {vectors for _, vectors in reads})


def _number(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _last_line(error: BaseException) -> Line | str:
    """Of the innermost frame in a traceback that is neither of this room nor of a library."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_inside(frame.filename)]
    return Line(own[-1].filename, own[-1].lineno or 0) if own else "forward"
