"""Random networks of finite width without weights: each layer is drawn from the metric of the one below."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from .. import check
from ..activations import Activation
from ..errors import InvalidInput
from ..kernels.static import inputs_of
from ..network import MLP
from ..precision import double_precision

Floats = NDArray[np.float64]

_AT_ONCE = 2**19
"""Preactivations of a layer that are held at once: more fall out of the cache."""

_NEGLIGIBLE = 1e-13
"""A variance given earlier samples below this fraction of the whole is rounding."""

_FEW = 4
"""Up to so many samples products are taken elementwise."""

LAWS = ("normal", "uniform")


def metrics(
    network: MLP, x: ArrayLike, widths: int | Sequence[int], *, draws: int, seed: int
) -> Float[Floats, "draws l p p"]:
    """Stochastic metrics Ghat^l of all layers l = 1 .. L+1 in random networks, exact at any width.

    Given the layer below, preactivations are N(0, Ghat^l), independent from neuron to neuron, with

        Ghat^{l+1}_ab = C_b + C_W sum_j s(z_ja) s(z_jb) / n_l

    (PDLT eqs. (4.69), (4.70)): n_l vectors for each layer take the place of n_l n_{l-1} weights. The last metric is
    that of the outputs (times gamma).
    """
    inputs, sizes = inputs_of(x, None)[0], widths_of(network, widths)
    draws = check.integer("draws", draws, least=1)
    samples, layers = len(inputs), len(sizes) + 1
    check.memory("metrics of all draws", 8 * draws * layers * samples**2, "use fewer draws")
    batch = min(draws, max(1, _AT_ONCE // (max(sizes) * samples)))
    result = np.empty((draws, layers, samples, samples))
    with double_precision():
        first, weights, biases = _constants(network, inputs)
        # Layers are drawn with as many neurons as the widest has; a neuron's share in the mean is 1/n_l or nothing.
        below = np.array(sizes, dtype=np.float64)[:, None]
        shares = jnp.asarray((np.arange(max(sizes)) < below) / below)
        root = jax.random.key(check.integer("seed", seed))
        for number, start in enumerate(range(0, draws, batch)):
            key = jax.random.fold_in(root, number)
            drawn = _climb(network.phi, max(sizes), batch, key, first, weights, biases, shares)
            stop = min(start + batch, draws)
            result[start:stop] = np.asarray(drawn)[: stop - start]
    return result


@partial(jax.jit, static_argnums=(0, 1, 2))
def _climb(
    activation: Activation,
    width: int,
    batch: int,
    key: PRNGKeyArray,
    first: Float[Array, "p p"],
    weights: Float[Array, " l"],
    biases: Float[Array, " l"],
    shares: Float[Array, "l n"],
) -> Float[Array, "batch l p p"]:
    """All layers in one loop."""

    def layer(metric: Array, constants: tuple[PRNGKeyArray, Array, Array, Array]) -> tuple[Array, Array]:
        key, weight, bias, share = constants
        features = activation(preactivations(key, metric, width))
        above = bias + weight * _products(features * jnp.sqrt(share)[None, None, :])
        return above, above

    start = jnp.broadcast_to(first, (batch, *first.shape))
    keys = jax.random.split(key, len(weights))
    _, metrics = jax.lax.scan(layer, start, (keys, weights, biases, shares))
    return jnp.moveaxis(jnp.concatenate([start[None], metrics]), 0, 1)


def preactivations(key: PRNGKeyArray, metric: Float[Array, "b p p"], width: int) -> Float[Array, "b p n"]:
    """Draw z ~ N(0, metric) for so many neurons."""
    normals = jax.random.normal(key, (*metric.shape[:2], width), dtype=metric.dtype)
    size = metric.shape[1]
    if size == 1:
        return jnp.sqrt(metric) * normals
    factor = _factor(metric)
    if size > _FEW:
        return jnp.einsum("bpq,bqn->bpn", factor, normals)
    rows = [sum(factor[:, p, q, None] * normals[:, q] for q in range(p + 1)) for p in range(size)]
    return jnp.stack([jnp.asarray(row) for row in rows], axis=1)


def _products(features: Float[Array, "b p n"]) -> Float[Array, "b p p"]:
    """sum_j s_ja s_jb; few samples elementwise, since matrix products of tiny matrices are slow."""
    size = features.shape[1]
    if size > _FEW:
        return jnp.einsum("bpn,bqn->bpq", features, features)
    entries = {(p, q): jnp.sum(features[:, p] * features[:, q], axis=-1) for p in range(size) for q in range(p + 1)}
    rows = [jnp.stack([entries[max(p, q), min(p, q)] for q in range(size)], axis=-1) for p in range(size)]
    return jnp.stack(rows, axis=1)


def _factor(metric: Float[Array, "b p p"]) -> Float[Array, "b p p"]:
    """Lower triangular root of every metric; samples that earlier ones determine get no column of their own."""
    size = metric.shape[1]
    whole = jnp.diagonal(metric, axis1=1, axis2=2)

    def column(number: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, columns = state
        variance = rest[:, number, number]
        alive = variance > _NEGLIGIBLE * whole[:, number]
        scale = jnp.where(alive, jax.lax.rsqrt(jnp.where(alive, variance, 1.0)), 0.0)
        new = rest[:, :, number] * scale[:, None]
        return rest - new[:, :, None] * new[:, None, :], columns.at[:, :, number].set(new)

    state = metric, jnp.zeros_like(metric)
    if size > _FEW:
        state = jax.lax.fori_loop(0, size, column, state)
    else:
        for number in range(size):
            state = column(number, state)
    return state[1]


def outputs(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    draws: int,
    seed: int,
    neurons: int = 2,
    law: str = "normal",
) -> Float[Floats, "draws neurons p"]:
    """Outputs (times gamma) of random networks from explicit weights and biases: slow, but no theory.

    `law` is that of the weights: "normal", or "uniform" with the same variance (biases stay normal).
    """
    inputs, sizes = inputs_of(x, None)[0], widths_of(network, widths)
    draws, neurons = check.integer("draws", draws, least=1), check.integer("neurons", neurons, least=1)
    check.choice("law", law, LAWS)
    layout = (inputs.shape[1], *sizes, neurons)
    largest = sum(a * b for a, b in pairwise(layout))
    batch = min(draws, max(1, 8 * _AT_ONCE // largest))
    result = np.empty((draws, neurons, len(inputs)))
    with double_precision():
        scales = tuple(zip(network.weight_scales, network.bias_scales, strict=True))
        root = jax.random.key(check.integer("seed", seed))
        for number, start in enumerate(range(0, draws, batch)):
            stop = min(start + batch, draws)
            key = jax.random.fold_in(root, number)
            drawn = _forward(network.phi, layout, scales, law, batch, key, jnp.asarray(inputs))
            result[start:stop] = np.asarray(drawn)[: stop - start]
    return result


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _forward(
    activation: Activation,
    layout: tuple[int, ...],
    scales: tuple[tuple[float, float], ...],
    law: str,
    batch: int,
    key: PRNGKeyArray,
    x: Float[Array, "p d"],
) -> Float[Array, "batch neurons p"]:
    shapes = list(pairwise(layout))
    first, second = jax.random.split(key)
    # One call for all layers: the code of a generator takes long to compile.
    count = (batch, sum(below * above for below, above in shapes))
    if law == "normal":
        entries = jax.random.normal(first, count, dtype=x.dtype)
    else:
        entries = jax.random.uniform(first, count, dtype=x.dtype, minval=-(3**0.5), maxval=3**0.5)
    shifts = jax.random.normal(second, (batch, sum(layout[1:])), dtype=x.dtype)
    features = z = jnp.broadcast_to(x.T, (batch, *x.T.shape))
    for (below, above), (weight, bias) in zip(shapes, scales, strict=True):
        W, entries = entries[:, : below * above], entries[:, below * above :]
        b, shifts = shifts[:, :above, None], shifts[:, above:]
        z = weight * below**-0.5 * jnp.einsum("bij,bjp->bip", W.reshape(batch, above, below), features) + bias * b
        features = activation(z)
    return z


def widths_of(network: MLP, widths: int | Sequence[int]) -> tuple[int, ...]:
    """n_1 .. n_L of the hidden layers, from one nominal width or from all of them."""
    if not isinstance(widths, Sequence | np.ndarray):
        return network.widths(check.integer("widths", widths, least=1))
    sizes = tuple(check.integer("widths", n, least=1) for n in widths)
    if len(sizes) != network.hidden_layers:
        raise InvalidInput(f"widths has {len(sizes)} entries; the network has {network.hidden_layers} hidden layers")
    return sizes


def _constants(network: MLP, x: Float[Floats, "p d"]) -> tuple[Array, Array, Array]:
    """Ghat^1, and C_W and C_b of the layers above."""
    weights, biases = (np.square(scales) for scales in (network.weight_scales, network.bias_scales))
    first = biases[0] + weights[0] * (x @ x.T) / x.shape[1]
    return jnp.asarray(first), jnp.asarray(weights[1:]), jnp.asarray(biases[1:])
