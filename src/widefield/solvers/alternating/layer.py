"""One layer of one iteration: draw, march, average."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .equations import Equations, Surroundings, nonlinearity
from .jacobian import Responses, by_jacobians
from .marching import Fields, march
from .noise import Sampling, Sources, draw
from .stein import by_stein
from .triangular import gram, lower_outer


class Estimate(NamedTuple):
    """New kernels and responses of a layer, as in `Order`; None where there is none."""

    features: Float[Array, "n n"]
    gradients: Float[Array, "n n"]
    alignment: Float[Array, "n n"] | None
    pseudo: Array | None
    responses: Responses
    readout: Float[Array, " n"] | None


@eqx.filter_jit
def estimate(
    normals: Float[Array, "k s"],
    equations: Equations,
    around: Surroundings,
    errors: Float[Array, " n"],
    sampling: Sampling,
    *,
    first: bool,
    last: bool,
) -> Estimate:
    """Average over samples of the fields of a layer. Inner layers share their compiled code."""
    sources = draw(normals, equations, around, sampling, first=first, last=last)
    fields = march(equations, around, sources, errors, first=first, last=last)
    if sampling.responses == "jacobian":
        responses = by_jacobians(
            equations, around, sources, fields, errors, sampling.jacobian_particles, first=first, last=last
        )
    else:
        responses = by_stein(equations, sources, fields, first=first, last=last)
    return Estimate(
        gram(fields.features),
        gram(fields.gradients),
        *_pseudo_kernels(equations, fields, all_times=sampling.all_times),
        _causal(equations, responses),
        _readout(equations, sources, fields) if last else None,
    )


def _pseudo_kernels(equations: Equations, fields: Fields, *, all_times: bool) -> tuple[Array | None, Array | None]:
    """<g gt> and <gt gt>, as far as `Order` keeps them."""
    rule, count, samples = equations.rule, equations.count, fields.features.shape[1]
    if rule.exact:
        return None, None
    if rule.returns or all_times:
        alignment = fields.gradients @ fields.pseudo.T / samples
    else:
        times = jnp.arange(len(fields.pseudo)) // count
        lower = lower_outer(fields.gradients, fields.pseudo, count) / samples
        alignment = jnp.where(times[:, None] >= times[None, :], lower, 0.0)
    if rule.kind == "feedback" or all_times:
        return alignment, gram(fields.pseudo)
    now = fields.pseudo.reshape(equations.times, count, samples)
    return alignment, jnp.einsum("tps,tqs->tpq", now, now) / samples


def _causal(equations: Equations, responses: Responses) -> Responses:
    """At equal times phi(h) does not see r, and g, gt of a sample see u of that sample only."""
    causal = equations.causal()
    weakly = causal | jnp.eye(len(causal), dtype=bool)
    forward, *others = responses
    return Responses(
        None if forward is None else jnp.where(causal, forward, 0.0),
        *(None if response is None else jnp.where(weakly, response, 0.0) for response in others),
    )


def _readout(equations: Equations, sources: Sources, fields: Fields) -> Array:
    """<r^L phi(h^L)>; phi(u^L) is independent of r^L and takes noise away. Exactly 0 if phi(h^L) never sees r^L."""
    if not equations.rule.through_weights:
        return jnp.zeros_like(sources.r[:, 0])
    return jnp.mean(sources.r * (fields.features - nonlinearity(equations.phi, sources.u, sources.gates)[0]), axis=1)
