"""Responses from correlations with the noise that was drawn."""

from __future__ import annotations

import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from jaxtyping import Array, Float

from .equations import Equations, nonlinearity
from .jacobian import Responses
from .marching import Fields
from .noise import Sources
from .triangular import lower_outer


def by_stein(equations: Equations, sources: Sources, fields: Fields, *, first: bool, last: bool) -> Responses:
    """Stein's lemma (BP22 eq. (53), BP23 eq. (39)), for any activation: a = <phi r^T> G^{-1}, b = <g u^T> Phi^{-1}, ...

    phi(u), phi'(u) r and phi'(u) signal are subtracted first: their correlations vanish in the mean and are noise
    otherwise.
    Since phi(h) does not see r under feedback alignment, correlations with v alone give c.
    """
    rule = equations.rule
    features, slopes = nonlinearity(equations.phi, sources.u, sources.gates)
    forward = backward = returned = None
    if rule.through_weights and not last:
        assert sources.above is not None
        forward = _response(fields.features - features, *sources.above)
    if not first:
        backward = _response(fields.gradients - slopes * sources.r, *sources.below)
        if rule.returns:
            assert sources.signal is not None
            returned = _response(fields.pseudo - slopes * sources.signal, *sources.below)
    return Responses(forward, backward, returned)


def _response(field: Float[Array, "n s"], noise: Float[Array, "n s"], factor: Float[Array, "n n"]) -> Array:
    """<d field / d source> = <field noise^T> factor^{-1} for source = factor noise; causality zeroes the upper half."""
    correlation = jnp.tril(lower_outer(field, noise)) / field.shape[1]
    response: Array = triangular_solve(factor, correlation, left_side=False, lower=True)
    return response
