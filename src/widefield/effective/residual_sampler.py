"""Residual networks drawn at initialisation: what the recursions of `residual` predict, at any width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import check
from ..activations import Activation, get
from ..precision import double_precision
from .residual import BlockLayer, block_layers, check_gamma

Floats = NDArray[np.float64]

_NUMBERS = 1_000_000
"""Of a batch: fits the cache better than larger ones and costs no speed."""


@dataclass(frozen=True)
class ResidualSample:
    """Estimates at the layers 1, ..., depth, with standard errors in the fields that end in `_error`.

    `kernel` is E[z_i^2]; `three_point` and `vertex` are n E[z_i^2 z_j] and n Cov(z_i^2, z_j^2) over i != j.
    """

    width: int
    networks: int
    kernel: Floats
    kernel_error: Floats
    three_point: Floats
    three_point_error: Floats
    vertex: Floats
    vertex_error: Floats


def sample_residual(
    activation: str | Activation,
    first_kernel: float,
    depth: int,
    gamma: float,
    block: BlockLayer | Sequence[BlockLayer],
    *,
    width: int,
    networks: int,
    seed: int = 0,
    weights: bool = False,
) -> ResidualSample:
    """Draw networks that see one input and estimate kernel, three-point and four-point vertex of every layer.

    Given a layer, the sums sum_j W_ij s(z_j) + b_i are independent normals of variance C_b + C_W mean s^2: no weights
    are drawn, the law is exactly that of the network. `weights=True` draws them all the same, n times slower.
    """
    s, layers, gamma = get(activation), block_layers(block), check_gamma(gamma)
    K1, L = check.number("first_kernel", first_kernel, above=0), check.integer("depth", depth, least=1)
    n, total = check.integer("width", width, least=2), check.integer("networks", networks, least=2)
    generator = np.random.default_rng(check.integer("seed", seed))
    largest = n * max(1.0, *(1 / layer.inverse_width if layer.inverse_width else 1.0 for layer in layers))
    size = max(1, int(_NUMBERS // (largest * (largest if weights else 1))))
    moments = []
    for start in range(0, total, size):
        count = min(size, total - start)
        z = np.sqrt(K1) * generator.standard_normal((count, n))
        found = [_moments(z)]
        for _ in range(L - 1):
            z = _block(s, layers, z, generator, weights) + gamma * z
            found.append(_moments(z))
        moments.append(np.stack(found))
    return _estimate(np.concatenate(moments, axis=-1), n)


def _block(
    s: Activation, layers: tuple[BlockLayer, ...], z: Floats, generator: np.random.Generator, weights: bool
) -> Floats:
    """R(z), (networks, n)."""
    width = z.shape[1]
    sizes = [round(width / layer.inverse_width) if layer.inverse_width else width for layer in layers[1:]]
    for layer, neurons in zip(layers, [*sizes, width], strict=True):
        with double_precision():
            features = np.asarray(s(z))
        if weights:
            matrix = generator.standard_normal((len(z), neurons, features.shape[1]))
            biases = np.sqrt(layer.C_b) * generator.standard_normal((len(z), neurons))
            z = np.sqrt(layer.C_W / features.shape[1]) * (matrix @ features[:, :, None])[:, :, 0] + biases
        else:
            metric = layer.C_b + layer.C_W * np.mean(features**2, axis=1, keepdims=True)
            z = np.sqrt(metric) * generator.standard_normal((len(z), neurons))
    return z


def _moments(z: Floats) -> Floats:
    """Sums over the neurons of every network of z, z^2, z^3 and z^4."""
    square = z * z
    return np.stack([z.sum(1), square.sum(1), np.einsum("ij,ij->i", square, z), np.einsum("ij,ij->i", square, square)])


def _estimate(sums: Floats, n: int) -> ResidualSample:
    """From sums (depth, 4, networks); squares are centred first, which takes most of the noise out."""
    one, two, three, four = (sums[:, power] for power in range(4))
    kernel = two / n
    K = kernel.mean(1, keepdims=True)
    centred, squares = two - n * K, four - 2 * K * two + n * K**2
    covariance = (centred**2 - squares) / (n - 1)
    skewed = (centred * one - (three - K * one)) / (n - 1)
    networks = sums.shape[-1]
    values = []
    for quantity in (kernel, skewed, covariance):
        values += [quantity.mean(1), quantity.std(1, ddof=1) / np.sqrt(networks)]
    return ResidualSample(n, networks, *values)


@dataclass(frozen=True)
class InputsSample:
    """Estimates for several inputs, with the axes of `InputsFlow`, and their standard errors."""

    width: int
    networks: int
    kernel: Floats
    kernel_error: Floats
    three_point: Floats
    three_point_error: Floats
    vertex: Floats
    vertex_error: Floats


def sample_residual_inputs(
    activation: str | Activation,
    first_kernel: Any,
    depth: int,
    gamma: float,
    layer: BlockLayer,
    *,
    width: int,
    networks: int,
    seed: int = 0,
) -> InputsSample:
    """Draw networks that see several inputs: given a layer, the neurons of the block are normal with the same metric.

    All networks are held in memory at once.
    """
    s, gamma, K = get(activation), check_gamma(gamma), check.array("first_kernel", first_kernel, ndim=2)
    n, total = check.integer("width", width, least=2), check.integer("networks", networks, least=2)
    generator = np.random.default_rng(check.integer("seed", seed))
    check.memory("networks", 6 * 8 * total * n * len(K), "draw fewer networks")
    z = generator.standard_normal((total, n, len(K))) @ _root(K).T
    found = [_tensors(z)]
    for _ in range(check.integer("depth", depth, least=1) - 1):
        with double_precision():
            features = np.asarray(s(z))
        metric = layer.C_b + layer.C_W * np.swapaxes(features, 1, 2) @ features / n
        z = generator.standard_normal(z.shape) @ np.swapaxes(_root(metric), 1, 2) + gamma * z
        found.append(_tensors(z))
    kinds = [np.stack(values) for values in zip(*found, strict=True)]
    return InputsSample(n, total, *(values[:, i] for values in kinds for i in (0, 1)))


def _root(metric: Floats) -> Floats:
    """A factor L with L L^T = metric, which may be singular."""
    values, vectors = np.linalg.eigh(metric)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return root


def _tensors(z: Floats) -> list[Floats]:
    """Mean and standard error over networks of z z, n z z z and n (z z)(z z) between different neurons."""
    n, inputs = z.shape[1:]
    kernel = np.swapaxes(z, 1, 2) @ z / n
    y = (z[:, :, :, None] * z[:, :, None, :] - kernel.mean(0)).reshape(len(z), n, inputs**2)
    sums, ones = y.sum(1), z.sum(1)
    three = (sums[:, :, None] * ones[:, None, :] - np.swapaxes(y, 1, 2) @ z) / (n - 1)
    four = (sums[:, :, None] * sums[:, None, :] - np.swapaxes(y, 1, 2) @ y) / (n - 1)
    shapes = ((inputs,) * 2, (inputs,) * 3, (inputs,) * 4)
    return [
        np.stack([values.mean(0), values.std(0, ddof=1) / np.sqrt(len(z))]).reshape(2, *shape)
        for values, shape in zip((kernel, three, four), shapes, strict=True)
    ]
