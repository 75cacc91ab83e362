"""Bayes in the space of parameters: prior, likelihood, and the parameters that make either or both largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..data.samples import column
from ..problem.network import MLP, widths_of

_Layer = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Parameters:
    """Of a network in the book's units, z' = b + W s(z) with W ~ N(0, C_W / fan-in), and what they are worth."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    log_prior: float
    log_likelihood: float
    outputs: Floats

    converged: bool


def regularisers(network: MLP, dimension: int, widths: int | Sequence[int]) -> tuple[tuple[float, float], ...]:
    """a of the penalties a W^2 and a b^2 of every layer that the prior amounts to: n_{l-1} / 2 C_W and 1 / 2 C_b.

    PDLT eqs. (6.6), (6.22); infinite for biases that start at zero.

    >>> regularisers(MLP(1, weight_variances=4.0, bias_variances=0.25), 3, 8)
    ((0.375, 2.0), (1.0, 2.0))
    """
    below = check.integer("dimension", dimension, least=1), *widths_of(network, widths)
    scales = zip(below, network.weight_scales, network.bias_scales, strict=True)
    return tuple((n / (2 * C_W**2), 1 / (2 * C_b**2) if C_b else math.inf) for n, C_W, C_b in scales)


def log_prior(network: MLP, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike]) -> float:
    """Sum of log N(b; 0, C_b) and log N(W; 0, C_W / fan-in), PDLT eq. (6.6); biases that start at zero do not count."""
    total = 0.0
    for layer, (one, two) in enumerate(zip(weights, biases, strict=True)):
        W, b = check.array("weights", one, ndim=2), check.array("biases", two, ndim=1)
        of_weights, of_biases = network.weight_scales[layer] ** 2 / W.shape[1], network.bias_scales[layer] ** 2
        for values, variance in ((W, of_weights), (b, of_biases)):
            if variance:
                total -= 0.5 * float(np.sum(values**2) / variance + values.size * math.log(2 * math.pi * variance))
            elif values.any():
                return -math.inf
    return total


def log_likelihood(outputs: ArrayLike, y: ArrayLike, noise: float) -> float:
    """Sum over samples and outputs of log N(y; f, noise), the negative of the loss of PDLT eqs. (6.16), (6.17)."""
    f, targets = column("outputs", outputs), column("y", y)
    if f.shape != targets.shape:
        raise InvalidInput(f"outputs has shape {f.shape} and y has shape {targets.shape}: they must be the same")
    variance = check.number("noise", noise, above=0.0)
    return -0.5 * (float(np.sum((f - targets) ** 2)) / variance + f.size * math.log(2 * math.pi * variance))


def most_probable(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    widths: int | Sequence[int],
    *,
    noise: float,
    seed: int = 0,
    prior: bool = True,
    steps: int = 2000,
) -> Parameters:
    """Parameters of the largest posterior (MAP, PDLT eq. (6.22)) or, without the `prior`, likelihood (MLE, eq. (6.21)).

    L-BFGS from a network drawn with `seed`: one of possibly many maxima. Outputs are times gamma, as in `flow`.
    """
    inputs, targets = check.inputs(x, None)[0], column("y", y)
    if len(inputs) != len(targets):
        raise InvalidInput(f"x has {len(inputs)} rows and y {len(targets)}: they need as many")
    variance, sizes = check.number("noise", noise, above=0.0), widths_of(network, widths)
    layout = (inputs.shape[1], *sizes, targets.shape[1])
    drawn = np.random.default_rng(check.integer("seed", seed)).standard_normal(_count(layout))
    with double_precision():
        scales = tuple(zip(network.weight_scales, network.bias_scales, strict=True))
        data = jnp.asarray(inputs), jnp.asarray(targets), jnp.asarray(variance)

        def cost(theta: Floats) -> tuple[float, Floats]:
            value, slope = _cost(network.phi, layout, scales, prior, jnp.asarray(theta), *data)
            return float(value), np.asarray(slope)

        options = {"maxiter": check.integer("steps", steps, least=1), "maxfun": 10 * steps, "ftol": 1e-15, "gtol": 1e-9}
        found = scipy.optimize.minimize(cost, drawn, jac=True, method="L-BFGS-B", options=options)
        layers = _layers(layout, scales, jnp.asarray(found.x))
        f = np.asarray(_outputs(network.phi, layers, data[0]))
    weights, biases = (tuple(np.asarray(layer[end]) for layer in layers) for end in (0, 1))
    worth = log_prior(network, weights, biases), log_likelihood(f, targets, variance)
    return Parameters(weights, biases, *worth, f, bool(found.success))


def _count(layout: tuple[int, ...]) -> int:
    return sum((below + 1) * above for below, above in pairwise(layout))


def _layers(layout: tuple[int, ...], scales: Any, theta: Array) -> list[_Layer]:
    """Weights and biases from numbers that are N(0, 1) under the prior."""
    found = []
    for (below, above), (weight, bias) in zip(pairwise(layout), scales, strict=True):
        W, b, theta = theta[: below * above], theta[below * above : (below + 1) * above], theta[(below + 1) * above :]
        found.append((weight * below**-0.5 * W.reshape(above, below), bias * b))
    return found


def _outputs(activation: Activation, layers: list[_Layer], x: Float[Array, "p d"]) -> Float[Array, "p i"]:
    signal = z = x
    for W, b in layers:
        z = signal @ W.T + b[None, :]
        signal = activation(z)
    return z


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _cost(
    activation: Activation, layout: Any, scales: Any, prior: bool, theta: Array, x: Array, y: Array, noise: Array
) -> tuple[Array, Array]:
    def value(theta: Array) -> Array:
        f = _outputs(activation, _layers(layout, scales, theta), x)
        return jnp.sum((f - y) ** 2) / (2 * noise) + (jnp.sum(theta**2) / 2 if prior else 0.0)

    found: tuple[Array, Array] = jax.value_and_grad(value)(theta)
    return found
