"""Responses by implicit differentiation of every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .equations import Equations, Surroundings
from .marching import Fields
from .noise import Sources
from .triangular import lower_lower, unit_lower_inverse

_ELEMENTS = 2**16
"""Elements of the matrices that are treated side by side: small ones are quicker together."""


class Responses(NamedTuple):
    """a or c, b and d of a layer; None where there is none, or where nobody needs it."""

    forward: Float[Array, "n n"] | None
    backward: Float[Array, "n n"] | None
    returned: Float[Array, "n n"] | None


class _Sample(NamedTuple):
    """phi'(h), phi''(h) z and dgt/dh at fixed feedback of one sample, (n,)."""

    slope: Array
    curvature: Array
    direct: Array


def by_jacobians(
    equations: Equations,
    around: Surroundings,
    sources: Sources,
    fields: Fields,
    errors: Float[Array, " n"],
    samples: int | None,
    *,
    first: bool,
    last: bool,
) -> Responses:
    """Means over samples of the derivatives of fields with respect to their sources.

        Sg = dg/dh  = diag(phi'' z) + phi' B phi'
        St = dgt/dh = Sg | diag(phi'' zt) + phi' D phi' | diag(phi'' xi) | diag(Delta phi')
        M = I - F St,      dphi/dr = phi' M^{-1} F phi',      dg/du = Sg M^{-1},      dgt/du = St M^{-1}

    All are lower triangular, so that a sample costs about n^3/3 flops for each product and inverse; single precision is
    far below the noise. phi'' must be a function: the delta function of a kink is missed.
    """
    rule = equations.rule
    wanted = (rule.through_weights and not last, not first, rule.returns and not first)
    if not any(wanted):
        return Responses(None, None, None)
    chosen = _samples(equations, around, sources, fields, errors, samples)
    f, b, d = (None if m is None else m.astype(jnp.float32) for m in (around.forward, around.backward, around.returned))
    assert f is not None
    assert b is not None
    identity = jnp.eye(len(f), dtype=f.dtype)
    wants = Responses(*(identity if one else None for one in wanted))

    def of(sample: _Sample) -> Responses:
        slope = sample.slope
        own = jnp.diag(sample.curvature) + slope[:, None] * b * slope[None, :]
        if rule.exact:
            pseudo = own
        else:
            pseudo = (
                jnp.diag(sample.direct) if d is None else jnp.diag(sample.direct) + slope[:, None] * d * slope[None, :]
            )
        # A diagonal matrix needs no product.
        step = f * sample.direct[None, :] if not rule.exact and d is None else lower_lower(f, pseudo)
        inverse = unit_lower_inverse(identity - step)
        return Responses(
            None if wants.forward is None else slope[:, None] * lower_lower(inverse, f) * slope[None, :],
            None if wants.backward is None else lower_lower(own, inverse),
            None if wants.returned is None else lower_lower(pseudo, inverse),
        )

    sums = _sum(of, chosen, jax.tree.map(jnp.zeros_like, wants))
    means: Responses = jax.tree.map(lambda x: (x / len(chosen.slope)).astype(jnp.float64), sums)
    if rule.returns and means.forward is not None:
        return means._replace(forward=rule.rho * means.forward)  # v enters gt with the factor rho
    return means


def _samples(
    equations: Equations,
    around: Surroundings,
    sources: Sources,
    fields: Fields,
    errors: Float[Array, " n"],
    samples: int | None,
) -> _Sample:
    """What the derivatives of each sample need, (samples, n)."""
    phi, rule = equations.phi, equations.rule
    h, features = fields.preactivations[:, :samples], fields.features[:, :samples]
    z = sources.r[:, :samples] + around.backward @ features
    if sources.gates is None:
        slopes, bends = phi.derivative(1)(h), phi.derivative(2)(h)
    else:
        slopes = jnp.tile(sources.gates[:, :samples], (equations.times, 1))
        bends = jnp.zeros_like(slopes)
    if rule.kind == "hebb":
        direct = errors[:, None] * slopes
    elif sources.signal is None:
        direct = jnp.zeros_like(slopes)
    else:
        signal = sources.signal[:, :samples]
        direct = bends * (signal if around.returned is None else signal + around.returned @ features)
    return _Sample(*(x.T.astype(jnp.float32) for x in (slopes, bends * z, direct)))


def _sum(of: Callable[[_Sample], Responses], samples: _Sample, start: Responses) -> Responses:
    """Sum of a function of every sample, a few samples at a time."""
    count, n = samples.slope.shape
    most = max(1, _ELEMENTS // n**2)
    together = max(size for size in range(1, most + 1) if count % size == 0)

    def add(total: Responses, group: _Sample) -> tuple[Responses, None]:
        found = jax.vmap(of)(group)
        return jax.tree.map(lambda x, y: x + jnp.sum(y, axis=0), total, found), None

    groups = jax.tree.map(lambda x: x.reshape(-1, together, n), samples)
    sums: Responses = jax.lax.scan(add, start, groups)[0]
    return sums
