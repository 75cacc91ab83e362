"""The fields of a layer, sample by sample, forward in time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .equations import Equations, Surroundings, nonlinearity
from .noise import Sources
from .triangular import lower_times

MARCH_ROWS = 100
"""Rows that are marched together: their past enters by one product."""


class Fields(NamedTuple):
    """h, phi(h), g, gt of a layer, (n, S); gt is g for gradient descent."""

    preactivations: Float[Array, "n s"]
    features: Float[Array, "n s"]
    gradients: Float[Array, "n s"]
    pseudo: Float[Array, "n s"]


def march(
    equations: Equations,
    around: Surroundings,
    sources: Sources,
    errors: Float[Array, " n"],
    *,
    first: bool,
    last: bool,
) -> Fields:
    """Solve the equations of `equations.py` for the fields; those of rules other than gradient descent need no z."""
    rule = equations.rule
    if rule.exact:
        h, features, gradients = _solve(
            equations, around.forward, around.backward, sources, sources.r, None, first, last
        )
        return Fields(h, features, gradients, gradients)
    factors = errors if rule.kind == "hebb" else None
    h, features, pseudo = _solve(
        equations, around.forward, around.returned, sources, sources.signal, factors, first, False
    )
    slopes = nonlinearity(equations.phi, h, sources.gates)[1]
    gradients = slopes * (sources.r + lower_times(around.backward, features))
    return Fields(h, features, gradients, pseudo)


def _solve(
    equations: Equations,
    forward: Float[Array, "n n"],
    coupling: Float[Array, "n n"] | None,
    sources: Sources,
    signal: Float[Array, "n s"] | None,
    factors: Float[Array, " n"] | None,
    static_below: bool,
    static_above: bool,
) -> tuple[Array, Array, Array]:
    """h = u + forward gt and gt = phi'(h) (signal + coupling phi(h)), or gt = factors phi(h), by blocks of times.

    The past of a block enters by one matrix product, its own times by a scan. Where the kernel of the coupling is
    static and steps are not forgotten, the past acts alike on all times of a block, so one of them is enough.
    """
    count, n = equations.count, len(sources.u)
    span = count * max(1, MARCH_ROWS // count)
    features, pseudo, fields = jnp.zeros_like(sources.u), jnp.zeros_like(sources.u), []
    for start in range(0, n, span):
        rows = slice(start, min(start + span, n))
        h, z = sources.u[rows], None if signal is None else signal[rows]
        if start:
            h = h + _past(forward[rows, :start], pseudo[:start], count, static_below and equations.plain)
            if z is not None and coupling is not None:
                z = z + _past(coupling[rows, :start], features[:start], count, static_above and equations.plain)
        own = (h, z, forward[rows, rows], None if coupling is None else coupling[rows, rows])
        now = [None if part is None else part.reshape(-1, count, part.shape[1]) for part in own]
        scale = None if factors is None else factors[rows].reshape(-1, count, 1)
        block, marched = _march_block(equations, (jnp.zeros_like(h),) * 2, (*now, scale), sources.gates)
        features, pseudo = features.at[rows].set(block[0]), pseudo.at[rows].set(block[1])
        fields.append(marched.reshape(h.shape))
    return jnp.concatenate(fields), features, pseudo


def _march_block(
    equations: Equations, block: tuple[Array, Array], rows: tuple[Array | None, ...], gates: Array | None
) -> tuple[tuple[Array, Array], Array]:
    """One time after the other: rows of the block that lie in the future are zero, so they need no mask."""

    def step(block: tuple[Array, Array], now: tuple[Any, ...]) -> tuple[tuple[Array, Array], Array]:
        features, pseudo = block
        row, h, z, forward, coupling, scale = now
        h = h + forward @ pseudo
        value, slope = nonlinearity(equations.phi, h, gates)
        features = jax.lax.dynamic_update_slice_in_dim(features, value, row, axis=0)
        if scale is None:
            z = z if coupling is None else z + coupling @ features
        new = slope * z if scale is None else scale * value
        return (features, jax.lax.dynamic_update_slice_in_dim(pseudo, new, row, axis=0)), h

    numbers = jnp.arange(0, len(block[0]), equations.count)
    found: tuple[tuple[Array, Array], Array] = jax.lax.scan(step, block, (numbers, *rows))
    return found


def _past(coupling: Array, fields: Array, count: int, static: bool) -> Array:
    rows = count if static else len(coupling)
    return jnp.tile(coupling[:rows] @ fields, (len(coupling) // rows, 1))
