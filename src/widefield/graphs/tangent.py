"""The tangent kernel of any network: K = N J J^T of the function F in front of the output scale."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.numbers import Number, root
from ..matrices.substrate import inner
from .parts import VectorSpec
from .tape import Cotangents, Read, Tape, Use, Value

Rows = Float[Array, "_ _ _ _"]
"""Vectors of samples, signals (or one for all) and places where a parameter is used."""


def tangent_kernel(
    tape: Tape, cotangents: Cotangents, ratios: Sequence[Number], columns: int
) -> Float[Array, "q c k c"]:
    """K_{pc,qd} of all samples by the first so many.

        K = sum_{vectors} (1/a) <vhat, vhat'> + sum_{matrices} (1/a_t) sum_{x,y} <left_x, left_y'> <right_x, right_y'>

    with a = n/N, and x, y over the uses and positions of a matrix; `cotangents` are those of single samples and
    outputs. Vectors that only multiply numbers, as input weights do, count as a matrix: then right are the numbers.
    """
    terms = []
    for spec in tape.vector_specs.values():
        if spec.trained and tape.vector_at[spec.name] in cotangents:
            terms.append(_of_vectors(tape, cotangents, spec, columns) / ratios[spec.population.index])
    for matrix in tape.matrix_specs.values():
        uses = [(k, use) for k, use in tape.uses if use.spec == matrix and k in cotangents]
        pairs = [factors(tape, cotangents, k, use, ratios) for k, use in uses]
        if matrix.trained and pairs:
            left, right = (_joined(parts) for parts in zip(*pairs, strict=True))
            product = inner(left, left[:columns]) * inner(right, right[:columns])
            terms.append(jnp.sum(product, axis=(2, 5)) / ratios[matrix.target.index])
    return sum(terms[1:], terms[0])


def factors(tape: Tape, cotangents: Cotangents, index: int, use: Use, ratios: Sequence[Number]) -> tuple[Rows, Rows]:
    """(left, right) with dF/dW = sum left right^T / (n_t sqrt(n_s)) for one use of a matrix."""
    hat = _rows(cotangents[index])
    given = _rows(tape.values[use.input][:, None], len(hat))
    if not use.transposed:
        return hat, given
    return root(ratios[use.spec.target.index] / ratios[use.spec.source.index]) * given, hat


def _of_vectors(tape: Tape, cotangents: Cotangents, spec: VectorSpec, columns: int) -> Float[Array, "q c k c"]:
    at = tape.vector_at[spec.name]
    asked = [(k, node) for k, node in enumerate(tape.nodes) if node is not None and at in _inputs(node)]
    reads = [(k, node) for k, node in asked if isinstance(node, Read) and k in cotangents]
    if len(reads) == len(asked):
        left = _joined([_rows(cotangents[k]) for k, _ in reads])
        numbers = [tape.values[node.inputs[0]][..., 0] for _, node in reads]
        right = _joined([_rows(x[:, None], len(left)) for x in numbers])
        product = inner(left, left[:columns]) * (right.shape[-1] * inner(right, right[:columns]))
        return jnp.sum(product, axis=(2, 5))
    hat = _rows(cotangents[at])
    return jnp.einsum("pcxn,qdxn->pcqd", hat, hat[:columns]) / hat.shape[-1]


def _inputs(node: Read | Use | object) -> tuple[int, ...]:
    return (node.input,) if isinstance(node, Use) else getattr(node, "inputs", ())


def _rows(value: Value, samples: int | None = None) -> Rows:
    """All positions in one axis; the same for all samples if there is only one."""
    rows = jnp.reshape(value, (*value.shape[:2], -1, value.shape[-1]))
    return rows if samples is None else jnp.broadcast_to(rows, (samples, *rows.shape[1:]))


def _joined(parts: Sequence[Rows]) -> Rows:
    """Places of several uses side by side; where some have signals, the others are the same for all."""
    signals = max(part.shape[1] for part in parts)
    every = [jnp.broadcast_to(part, (len(part), signals, *part.shape[2:])) for part in parts]
    return jnp.concatenate(every, axis=2)
