"""Samples of the Gaussian sources of a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.lax.linalg import triangular_solve
from jaxtyping import Array, Float

from .equations import Equations, Surroundings
from .triangular import cholesky, gram, lower_times


@dataclass(frozen=True)
class Sampling:
    """How one estimate of the order parameters is made.

    Args:
        particles: number S of samples of the sources of a layer.
        responses: "jacobian" (implicit differentiation of some particles, smooth activations) or "stein" (correlations
            with the noise that was drawn, any activation).
        matched: make the second moments of the noise exact.
        jitter: added to the diagonal of covariances, relative to its mean.
        jacobian_particles: how many of them "jacobian" differentiates; None: all.
        all_times: keep kernels of pseudo-gradients at pairs of times that no equation needs too.
    """

    particles: int = 1000
    responses: Literal["jacobian", "stein"] = "jacobian"
    matched: bool = False
    jitter: float = 1e-6
    jacobian_particles: int | None = 32
    all_times: bool = False


class Sources(NamedTuple):
    """Sources of a layer, (n, S), and the noise that responses are correlated with.

    Args:
        u: of the preactivations.
        r: of the pre-gradients.
        signal: of the feedback, sqrt(1 - rho^2) zeta + rho v or xi; None if a rule has none.
        gates: phi'(m) of gated networks, (P, S).
        below: noise and factor of u; factor is lower triangular unless the source is static.
        above: noise and factor of r (gradient descent) or v (feedback alignment).
    """

    u: Float[Array, "n s"]
    r: Float[Array, "n s"]
    signal: Float[Array, "n s"] | None
    gates: Float[Array, "p s"] | None
    below: tuple[Array, Array]
    above: tuple[Array, Array] | None


def counts(equations: Equations, *, first: bool, last: bool) -> dict[str, int]:
    """How many independent normals each source of a layer takes."""
    n, rule, inputs = equations.times * equations.count, equations.rule, equations.inputs.shape[1]
    found = {"u": inputs + equations.has_biases if first else n, "r": 1 if last else n}
    if rule.returns and not last:
        found["v"] = n
    if rule.strays:
        found["zeta"] = 1 if last else n
    if rule.kind == "direct":
        found["xi"] = 1
    if rule.gated:
        found["gate"] = inputs
    return found


def normals(
    equations: Equations, sampling: Sampling, seed: tuple[int, ...], *, first: bool, last: bool
) -> Float[Array, "k s"]:
    """Independent N(0, 1), a row for every source of a layer."""
    rows = sum(counts(equations, first=first, last=last).values())
    return jnp.asarray(np.random.default_rng(seed).standard_normal((rows, sampling.particles)))


def draw(
    normals: Float[Array, "k s"],
    equations: Equations,
    around: Surroundings,
    sampling: Sampling,
    *,
    first: bool,
    last: bool,
) -> Sources:
    """u ~ GP(0, Phi^{l-1}), (r, v) ~ GP(0, [[G, Gt], [Gt^T, Gtt]]^{l+1}), zeta ~ GP(0, Gtt^{l+1}) (BP23 eq. (5))."""
    noise = _parts(normals, counts(equations, first=first, last=last), matched=sampling.matched)
    factor_u = _input_factor(equations) if first else _factor(around.below, sampling.jitter)
    u = _source(factor_u, noise["u"])
    gates = equations.phi.derivative(1)(equations.inputs @ noise["gate"]) if equations.rule.gated else None
    if last:
        r, signal = _readout(equations, noise)
        return Sources(u, r, signal, gates, (noise["u"], factor_u), None)
    rule, above = equations.rule, around.above
    assert above is not None
    if not rule.returns:
        factor_r = _factor(above, sampling.jitter)
        r, v = lower_times(factor_r, noise["r"]), None
        behind = (noise["r"], factor_r)
    else:
        behind = (noise["v"], _factor(around.feedback, sampling.jitter))
        v = lower_times(behind[1], behind[0])
        assert around.mixed is not None
        # r given v: what v explains, and the rest.
        explained = triangular_solve(behind[1], around.mixed.T, left_side=True, lower=True)
        rest = cholesky(above - explained.T @ explained, sampling.jitter, jnp.mean(jnp.diagonal(above)))
        r = explained.T @ behind[0] + lower_times(rest, noise["r"])
    return Sources(u, r, _signal(equations, around, noise, v, sampling), gates, (noise["u"], factor_u), behind)


def _parts(rows: Float[Array, "k s"], sizes: dict[str, int], *, matched: bool) -> dict[str, Array]:
    """The normals of every source; if matched, with second moments of exactly 1 and no correlations."""
    if matched:
        rows = triangular_solve(jnp.linalg.cholesky(gram(rows)), rows, left_side=True, lower=True)
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name] = rows[start : start + size]
        start += size
    return parts


def _input_factor(equations: Equations) -> Float[Array, "n k"]:
    """Of u^1, whose randomness is that of the initial weights and biases: dec(t) sigma_0 x / sqrt(D) and beta_0."""
    columns = jnp.kron(equations.decay[:, None], jnp.sqrt(equations.weights[0]) * equations.inputs)
    if not equations.has_biases:
        return columns
    decay = equations.decay if equations.train_biases else jnp.ones_like(equations.decay)
    biases = jnp.repeat(jnp.sqrt(equations.biases[0]) * decay, equations.count)
    return jnp.concatenate([columns, biases[:, None]], axis=1)


def _readout(equations: Equations, noise: dict[str, Array]) -> tuple[Array, Array | None]:
    """r^L = dec(t) sigma_L w and the signal of layer L; v^L = sigma_L w."""
    rule, scale, n = equations.rule, jnp.sqrt(equations.weights[-1]), equations.times * equations.count
    readout = scale * noise["r"]
    r = jnp.repeat(equations.decay, equations.count)[:, None] * readout
    signal = None
    if rule.kind == "direct":
        signal = noise["xi"]
    elif rule.kind == "feedback":
        signal = rule.rho * readout
        if rule.strays:
            signal = signal + math.sqrt(1 - rule.rho**2) * scale * noise["zeta"]
    return r, None if signal is None else jnp.broadcast_to(signal, (n, signal.shape[1]))


def _signal(
    equations: Equations, around: Surroundings, noise: dict[str, Array], v: Array | None, sampling: Sampling
) -> Array | None:
    """sqrt(1 - rho^2) zeta + rho v below the last layer, or xi."""
    rule, n = equations.rule, equations.times * equations.count
    if rule.kind == "direct":
        return jnp.broadcast_to(noise["xi"], (n, sampling.particles))
    if rule.kind != "feedback":
        return None
    signal = jnp.zeros((), jnp.float64) if v is None else rule.rho * v
    if rule.strays:
        zeta = lower_times(_factor(around.feedback, sampling.jitter), noise["zeta"])
        signal = signal + math.sqrt(1 - rule.rho**2) * zeta
    return signal


def _factor(covariance: Array | None, jitter: float) -> Array:
    assert covariance is not None
    return cholesky(covariance, jitter, jnp.mean(jnp.diagonal(covariance)))


def _source(factor: Array, noise: Array) -> Array:
    return lower_times(factor, noise) if factor.shape[0] == factor.shape[1] else factor @ noise
