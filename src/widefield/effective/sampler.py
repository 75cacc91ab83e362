"""Random networks of finite width without weights: each layer is drawn from the metric of the one below."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..gaussian.roots import triangular_root
from ..problem.network import MLP, widths_of

_AT_ONCE = 2**18
"""Random numbers that are held at once: more fall out of the cache."""

_FEW = 4
"""Up to so many samples products are taken elementwise."""

LAWS = ("normal", "uniform")

Report = Callable[[int], None]
"""Called now and then with the number of networks drawn so far."""


def silent(done: int) -> None:
    """Report nothing."""


@renamed(draws="seeds")
def metrics(
    network: MLP, x: ArrayLike, widths: int | Sequence[int], *, seeds: int, seed: int, report: Report = silent
) -> Float[Floats, "seeds l p p"]:
    """Stochastic metrics Ghat^l of all layers l = 1 .. L+1 in random networks, exact at any width.

    Given the layer below, preactivations are N(0, Ghat^l), independent from neuron to neuron, with

        Ghat^{l+1}_ab = C_b + C_W sum_j s(z_ja) s(z_jb) / n_l

    (PDLT eqs. (4.69), (4.70)): n_l vectors for each layer take the place of n_l n_{l-1} weights. The last metric is
    that of the outputs (times gamma).
    """
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    seeds, generator = check.integer("seeds", seeds, least=1), _generator(seed)
    result = _room(seeds, len(sizes) + 1, len(inputs))
    with double_precision():
        first, weights, biases = _constants(network, inputs)
        # Layers are drawn with as many neurons as the widest has; a neuron's share in the mean is 1/n_l or nothing.
        below = np.array(sizes, dtype=np.float64)[:, None]
        shares = jnp.asarray((np.arange(max(sizes)) < below) / below)
        for start, stop, batch in _batches(seeds, len(sizes) * max(sizes) * len(inputs)):
            normals = generator.standard_normal((len(sizes), batch, len(inputs), max(sizes)))
            drawn = _climb(network.phi, normals, first, weights, biases, shares)
            result[start:stop] = np.asarray(drawn)[: stop - start]
            report(stop)
    return result


@partial(jax.jit, static_argnums=0)
def _climb(
    activation: Activation,
    normals: Float[Array, "l b p n"],
    first: Float[Array, "p p"],
    weights: Float[Array, " l"],
    biases: Float[Array, " l"],
    shares: Float[Array, "l n"],
) -> Float[Array, "b l+1 p p"]:
    """All layers in one loop."""

    def layer(metric: Array, constants: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        normal, weight, bias, share = constants
        features = activation(_coloured(metric, normal))
        above = bias + weight * _products(features * jnp.sqrt(share)[None, None, :])
        return above, above

    start = jnp.broadcast_to(first, (normals.shape[1], *first.shape))
    _, metrics = jax.lax.scan(layer, start, (normals, weights, biases, shares))
    return jnp.moveaxis(jnp.concatenate([start[None], metrics]), 0, 1)


def preactivations(metric: Float[Floats, "b p p"], neurons: int, *, seed: int) -> Float[Floats, "b neurons p"]:
    """Draw z ~ N(0, metric) for so many neurons of every network."""
    shape = (*metric.shape[:2], check.integer("neurons", neurons, least=1))
    check.memory("preactivations of all networks", 4 * 8 * math.prod(shape), "use fewer seeds")
    normals = _generator(seed).standard_normal(shape)
    with double_precision():
        return np.asarray(_compiled(jnp.asarray(metric), normals)).swapaxes(1, 2)


def _coloured(metric: Float[Array, "b p p"], normals: Float[Array, "b p n"]) -> Float[Array, "b p n"]:
    """A root of the metric times independent normals."""
    size = metric.shape[1]
    if size == 1:
        return jnp.sqrt(metric) * normals
    factor = triangular_root(metric)
    if size > _FEW:
        return jnp.einsum("bpq,bqn->bpn", factor, normals)
    rows = [sum(factor[:, p, q, None] * normals[:, q] for q in range(p + 1)) for p in range(size)]
    return jnp.stack([jnp.asarray(row) for row in rows], axis=1)


_compiled = jax.jit(_coloured)


def _products(features: Float[Array, "b p n"]) -> Float[Array, "b p p"]:
    """sum_j s_ja s_jb; few samples elementwise, since matrix products of tiny matrices are slow."""
    size = features.shape[1]
    if size > _FEW:
        return jnp.einsum("bpn,bqn->bpq", features, features)
    entries = {(p, q): jnp.sum(features[:, p] * features[:, q], axis=-1) for p in range(size) for q in range(p + 1)}
    rows = [jnp.stack([entries[max(p, q), min(p, q)] for q in range(size)], axis=-1) for p in range(size)]
    return jnp.stack(rows, axis=1)


class Networks(NamedTuple):
    """Random networks: metrics of the layers 1 .. L+1, as their activations give them, and outputs (times gamma)."""

    metrics: Float[Floats, "seeds l p p"]
    outputs: Float[Floats, "seeds neurons p"]


@renamed(draws="seeds")
def networks(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    seeds: int,
    seed: int,
    neurons: int = 2,
    law: str = "normal",
    report: Report = silent,
) -> Networks:
    """Random networks with explicit weights and biases: slow, but no theory.

    `neurons` is the number of outputs and `law` that of the weights: "normal", or "uniform" with the same variance
    (biases stay normal).
    """
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    seeds, neurons = check.integer("seeds", seeds, least=1), check.integer("neurons", neurons, least=1)
    check.choice("law", law, LAWS)
    layout = (inputs.shape[1], *sizes, neurons)
    count = sum(below * above for below, above in pairwise(layout))
    check.memory("outputs of all networks", 8 * seeds * neurons * len(inputs), "use fewer seeds")
    generator, metrics = _generator(seed), _room(seeds, len(sizes) + 1, len(inputs))
    outputs = np.empty((seeds, neurons, len(inputs)))
    with double_precision():
        scales = tuple(zip(network.weight_scales, network.bias_scales, strict=True))
        for start, stop, batch in _batches(seeds, count):
            entries = _entries(generator, law, (batch, count))
            shifts = generator.standard_normal((batch, sum(layout[1:])))
            drawn = _forward(network.phi, layout, scales, entries, shifts, jnp.asarray(inputs))
            metrics[start:stop], outputs[start:stop] = (np.asarray(part)[: stop - start] for part in drawn)
            report(stop)
    return Networks(metrics, outputs)


@renamed(draws="seeds")
def outputs(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    seeds: int,
    seed: int,
    neurons: int = 2,
    law: str = "normal",
) -> Float[Floats, "seeds neurons p"]:
    """The outputs of `networks`."""
    return networks(network, x, widths, seeds=seeds, seed=seed, neurons=neurons, law=law).outputs


@partial(jax.jit, static_argnums=(0, 1, 2))
def _forward(
    activation: Activation,
    layout: tuple[int, ...],
    scales: tuple[tuple[float, float], ...],
    entries: Float[Array, "b weights"],
    shifts: Float[Array, "b biases"],
    x: Float[Array, "p d"],
) -> tuple[Float[Array, "b l p p"], Float[Array, "b neurons p"]]:
    batch, metrics = len(entries), []
    features = z = jnp.broadcast_to(x.T, (batch, *x.T.shape))
    for (below, above), (weight, bias) in zip(pairwise(layout), scales, strict=True):
        W, entries = entries[:, : below * above], entries[:, below * above :]
        b, shifts = shifts[:, :above, None], shifts[:, above:]
        metrics.append(bias**2 + weight**2 / below * jnp.einsum("bjp,bjq->bpq", features, features))
        z = weight * below**-0.5 * jnp.einsum("bij,bjp->bip", W.reshape(batch, above, below), features) + bias * b
        features = activation(z)
    return jnp.stack(metrics, axis=1), z


def _entries(generator: np.random.Generator, law: str, shape: tuple[int, int]) -> Floats:
    """Independent numbers of variance 1."""
    return generator.standard_normal(shape) if law == "normal" else generator.uniform(-(3**0.5), 3**0.5, shape)


def _generator(seed: int) -> np.random.Generator:
    """The fastest of numpy's; normals of jax take two to three times as long."""
    return np.random.Generator(np.random.SFC64(check.integer("seed", seed)))


def _room(seeds: int, layers: int, samples: int) -> Float[Floats, "seeds l p p"]:
    check.memory("metrics of all networks", 8 * seeds * layers * samples**2, "use fewer seeds")
    return np.empty((seeds, layers, samples, samples))


def _batches(seeds: int, numbers: int) -> Iterator[tuple[int, int, int]]:
    """Start, stop and size of batches, for so many random numbers in every network. The last one may stop early."""
    batch = min(seeds, max(1, _AT_ONCE // numbers))
    for start in range(0, seeds, batch):
        yield start, min(start + batch, seeds), batch


def _constants(network: MLP, x: Float[Floats, "p d"]) -> tuple[Array, Array, Array]:
    """Ghat^1, and C_W and C_b of the layers above."""
    weights, biases = (np.square(scales) for scales in (network.weight_scales, network.bias_scales))
    first = biases[0] + weights[0] * (x @ x.T) / x.shape[1]
    return jnp.asarray(first), jnp.asarray(weights[1:]), jnp.asarray(biases[1:])
