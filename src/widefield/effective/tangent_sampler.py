"""Random networks with all their weights, and the exact neural tangent kernel of every layer: no theory.

For one network and the inputs 1, 2 the NTK of the preactivations of a layer follows from that of the layer below,

    H'_ij;12 = delta_ij (lambda_b + lambda_W / n sum_k s_k1 s_k2) + sum_kl W_ik W_jl s'_k1 s'_l2 H_kl;12    PDLT (8.12)

Averages over the weights W of that last step alone are taken by hand, which is exact at any width and quiets
estimates: X = lambda_b + lambda_W <s s> + C_W <s' s' H_jj> in the place of H'_ii, and for two different neurons

    E[H'_ij;12 H'_ij;34] = (C_W / n)^2 sum_kl Y_kl;12 Y_kl;34
    E[z'_i1 z'_j2 H'_ij;34] = (C_W / n)^2 sum_kl s_k1 s_l2 Y_kl;34

with Y_kl;12 = s'_k1 s'_l2 H_kl;12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..problem.network import MLP, per_weight_layer, widths_of
from .sampler import Report, silent

_AT_ONCE = 2**20
"""Entries of the NTKs of a layer that are held at once."""


@dataclass(frozen=True, eq=False)
class TangentNetworks:
    """Of the layers 2 .. L+1 of networks: metrics and X of each, means and standard errors of paired estimates."""

    metrics: Float[Floats, "seeds l p p"]
    tangents: Float[Floats, "seeds l p p"]
    cross_paired: tuple[Float[Floats, "l p p p p"], Float[Floats, "l p p p p"]]
    """E[z_i;1 z_k;2 H_ik;34] of two neurons in the order 1 3 2 4, and its standard error."""

    variance_paired: tuple[Float[Floats, "l p p p p"], Float[Floats, "l p p p p"]]
    """E[H_ik;12 H_ik;34], the same."""


def tangent_networks(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    seeds: int,
    seed: int,
    report: Report = silent,
) -> TangentNetworks:
    """Draw so many networks with these rates (see `ntk_flow`)."""
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    seeds, count = check.integer("seeds", seeds, least=2), len(inputs)
    rates = rates_of(network, weight_rates, bias_rates)
    check.memory("metrics and NTKs of all networks", 16 * seeds * len(sizes) * count**2, "use fewer seeds")
    generator = np.random.Generator(np.random.SFC64(check.integer("seed", seed)))
    found = np.empty((2, seeds, len(sizes), count, count))
    sums = np.zeros((2, 2, len(sizes), *(count,) * 4))
    step = min(seeds, max(1, _AT_ONCE // (count**2 * max(sizes) ** 2)))
    with double_precision():
        for start in range(0, seeds, step):
            batch = slice(start, min(start + step, seeds))
            drawn, paired = _draw(network, inputs, sizes, rates, generator, step)
            kept = batch.stop - batch.start
            found[:, batch] = drawn[:, :kept]
            for power in (1, 2):
                sums[power - 1] += np.sum(paired[:, :kept] ** power, axis=1)
            report(batch.stop)
    mean, square = sums / seeds
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / (seeds - 1))
    return TangentNetworks(found[0], found[1], (mean[0], error[0]), (mean[1], error[1]))


def rates_of(
    network: MLP, weight_rates: float | tuple[float, ...], bias_rates: float | tuple[float, ...] | None
) -> list[tuple[float, float]]:
    """lambda_W and lambda_b of every layer."""
    biases = float(network.train_biases) if bias_rates is None else bias_rates
    both = (("weight_rates", weight_rates), ("bias_rates", biases))
    found = [per_weight_layer(name, value, network.hidden_layers, least=0.0) for name, value in both]
    return list(zip(*found, strict=True))


def _draw(
    network: MLP,
    x: Float[Floats, "p d"],
    sizes: tuple[int, ...],
    rates: list[tuple[float, float]],
    generator: np.random.Generator,
    batch: int,
) -> tuple[Float[Floats, "2 b l p p"], Float[Floats, "2 b l p p p p"]]:
    """Metrics and X, then the two paired estimates, of one batch of networks."""
    scales = list(zip(network.weight_scales, network.bias_scales, strict=True))
    metric = x @ x.T / x.shape[1]
    normal = generator.standard_normal((batch, sizes[0], x.shape[1] + 1))
    z = jnp.asarray(_first(x, normal, scales[0]))
    H = jnp.asarray((rates[0][0] * metric + rates[0][1])[None, :, :, None, None] * np.eye(sizes[0]))
    H = jnp.broadcast_to(H, (batch, *H.shape[1:]))
    found = []
    for layer, n in enumerate(sizes):
        constants = jnp.asarray([*np.square(scales[layer + 1]), *rates[layer + 1]])
        *estimates, features, Y = _measured(network.phi, z, H, constants)
        found.append(estimates)
        if layer + 1 < len(sizes):
            above = sizes[layer + 1]
            weights = generator.standard_normal((batch, above, n)) * (scales[layer + 1][0] * n**-0.5)
            biases = generator.standard_normal((batch, above)) * scales[layer + 1][1]
            z, H = _passed(features, Y, jnp.asarray(weights), jnp.asarray(biases), constants)
    parts = [np.stack([np.asarray(layer[k]) for layer in found], axis=1) for k in range(4)]
    return np.stack(parts[:2]), np.stack(parts[2:])


def _first(x: Floats, normal: Floats, scales: tuple[float, float]) -> Floats:
    """z_jp of the first layer."""
    weight, bias = scales
    weights, shifts = normal[..., :-1], normal[..., -1]
    return np.asarray(weight * x.shape[1] ** -0.5 * np.einsum("bjd,pd->bpj", weights, x) + bias * shifts[:, None, :])


@partial(jax.jit, static_argnums=0)
def _measured(
    activation: Activation,
    z: Float[Array, "b p n"],
    H: Float[Array, "b p p n n"],
    constants: Float[Array, " 4"],
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Metric, X, F and B of the layer above over its fan-in, with features and Y of this one."""
    C_W, C_b, rate, bias_rate = constants
    n = z.shape[2]
    s, slope = activation(z), activation.derivative(1)(z)
    Y = slope[:, :, None, :, None] * slope[:, None, :, None, :] * H
    products = jnp.einsum("bpj,bqj->bpq", s, s) / n
    X = bias_rate + rate * products + C_W * jnp.trace(Y, axis1=3, axis2=4) / n
    flat = Y.reshape(len(z), z.shape[1] ** 2, n * n)
    shape = (len(z), *(z.shape[1],) * 4)
    B = (C_W / n) ** 2 * jnp.einsum("bpj,bqj->bpq", flat, flat).reshape(shape)
    F = (C_W / n) ** 2 * jnp.einsum("bpj,brsjk,bqk->bpqrs", s, Y, s, optimize=True)
    return C_b + C_W * products, X, jnp.swapaxes(F, 2, 3), jnp.swapaxes(B, 2, 3), s, Y


@jax.jit
def _passed(
    s: Float[Array, "b p n"],
    Y: Float[Array, "b p p n n"],
    W: Float[Array, "b m n"],
    biases: Float[Array, "b m"],
    constants: Float[Array, " 4"],
) -> tuple[Float[Array, "b p m"], Float[Array, "b p p m m"]]:
    """Preactivations and the NTK of the layer above."""
    _, _, rate, bias_rate = constants
    z = jnp.einsum("bij,bpj->bpi", W, s) + biases[:, None, :]
    own = bias_rate + rate * jnp.einsum("bpj,bqj->bpq", s, s) / s.shape[2]
    through = jnp.einsum("bij,bpqjk,blk->bpqil", W, Y, W, optimize=True)
    return z, through + own[:, :, :, None, None] * jnp.eye(W.shape[1])[None, None, None]


def network_ntk(
    activation: str | Activation,
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    x: ArrayLike,
    *,
    weight_rates: Sequence[float],
    bias_rates: Sequence[float],
) -> tuple[Float[Floats, "p m"], Float[Floats, "p p m m"]]:
    """Outputs and NTK H_ij;ab, (a, b, i, j), of one network z' = W s(z) + b with these weights, PDLT eq. (8.12).

    Learning rates are lambda_b for biases and lambda_W / fan-in for weights.

    >>> rates = {"weight_rates": (1.0, 1.0), "bias_rates": (0.0, 0.0)}
    >>> z, H = network_ntk("linear", [[[2.0]], [[3.0]]], [[0.0], [0.0]], [[1.0]], **rates)
    >>> float(z[0, 0]), float(H[0, 0, 0, 0])
    (6.0, 13.0)
    """
    s, inputs = get(activation), check.inputs(x, None)[0]
    matrices = [check.array("weights", W, ndim=2) for W in weights]
    shifts = [check.array("biases", b, ndim=1) for b in biases]
    counts = {len(part) for part in (matrices, shifts, weight_rates, bias_rates)}
    fits = all(low.shape[0] == high.shape[1] for low, high in pairwise(matrices))
    if len(counts) != 1 or not fits or matrices[0].shape[1] != inputs.shape[1]:
        shapes = [W.shape for W in matrices]
        raise InvalidInput(
            f"weights have shapes {shapes} for inputs of dimension {inputs.shape[1]}, with {counts} layers"
        )
    with double_precision():
        first = jnp.asarray(weight_rates[0] * inputs @ inputs.T / inputs.shape[1] + bias_rates[0])
        z = jnp.asarray(inputs @ matrices[0].T + shifts[0])[None]
        H = (first[:, :, None, None] * jnp.eye(len(matrices[0]))[None, None])[None]
        for W, b, rate, bias_rate in list(zip(matrices, shifts, weight_rates, bias_rates, strict=True))[1:]:
            features, slope = s(z), s.derivative(1)(z)
            Y = slope[:, :, None, :, None] * slope[:, None, :, None, :] * H
            constants = jnp.asarray([0.0, 0.0, float(rate), float(bias_rate)])
            z, H = _passed(features, Y, jnp.asarray(W)[None], jnp.asarray(b)[None], constants)
        return np.asarray(z[0]), np.asarray(H[0])
