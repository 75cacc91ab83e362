"""Residual networks drawn at initialisation: what the recursions of `residual` predict, at any width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..gaussian.roots import root
from ..gaussian.sample_pairs import Pairs
from .cumulants import Estimate
from .residual import BlockLayer, block_layers, check_gamma, kernel_flow
from .wick import checked_covariance

_NUMBERS = 1_000_000
"""Of a batch: fits the cache better than larger ones and costs no speed."""


Estimates = Estimate[Floats]


@renamed(networks="seeds")
@dataclass(frozen=True)
class ResidualSample:
    """Estimates at the layers 1, ..., depth.

    `kernel` is E[z_i;a z_i;b]; `three_point` and `vertex` are n E[z_i;a z_i;b z_j;c] and
    n Cov(z_i;a z_i;b, z_j;c z_j;d) over neurons i != j. Axes are layer, a, b, c, d; for one input, given by a number,
    only the layer.
    """

    width: int
    seeds: int
    kernel: Estimates
    three_point: Estimates
    vertex: Estimates


@renamed(gamma="skip", networks="seeds")
def sample_residual(
    activation: str | Activation,
    first_kernel: Any,
    depth: int,
    skip: float,
    block: BlockLayer | Sequence[BlockLayer],
    *,
    width: int,
    seeds: int,
    seed: int = 0,
    weights: bool = False,
) -> ResidualSample:
    """Draw networks and estimate kernel, three-point and four-point vertex of every layer.

    `first_kernel` is that of layer 1: a number for one input, (N, N) for several. Given a layer, the sums
    sum_j W_ij s(z_j) + b_i are independent normals of covariance C_b + C_W mean s s: no weights are drawn, the law is
    exactly that of the network. `weights=True` draws them all the same, n times slower.
    """
    s, layers, skip = get(activation), block_layers(block), check_gamma(skip)
    one = np.ndim(first_kernel) == 0
    K = checked_covariance([[check.number("first_kernel", first_kernel, above=0)]] if one else first_kernel)
    n, total = check.integer("width", width, least=2), check.integer("seeds", seeds, least=2)
    generator = np.random.default_rng(check.integer("seed", seed))
    references, pairs = kernel_flow(s, K, depth, skip, layers), Pairs.within(len(K))
    largest = max([n, *_sizes(layers, n)])
    size = max(1, int(_NUMBERS // (largest * (largest if weights else len(pairs)))))
    sums: list[Floats] = []
    for start in range(0, total, size):
        z = generator.standard_normal((min(size, total - start), n, len(K))) @ root(K).T
        found = [_moments(z, references[0], pairs)]
        for reference in references[1:]:
            z = _block(s, layers, z, generator, weights) + skip * z
            found.append(_moments(z, reference, pairs))
        batch = [np.stack(values) for values in zip(*found, strict=True)]
        sums = [old + new for old, new in zip(sums, batch, strict=True)] if sums else batch
    estimates = _estimates(sums, references, pairs, n, total)
    if one:
        estimates = [Estimate(*(part.reshape(len(references)) for part in estimate)) for estimate in estimates]
    return ResidualSample(n, total, *estimates)


def _sizes(layers: tuple[BlockLayer, ...], width: int) -> list[int]:
    """Neurons of the layers inside a block."""
    return [round(width / layer.inverse_width) if layer.inverse_width else width for layer in layers[1:]]


def _block(
    s: Activation, layers: tuple[BlockLayer, ...], z: Floats, generator: np.random.Generator, weights: bool
) -> Floats:
    """R(z), (networks, n, inputs)."""
    seeds, width, inputs = z.shape
    for layer, neurons in zip(layers, [*_sizes(layers, width), width], strict=True):
        with double_precision():
            features = np.asarray(s(z))
        below = features.shape[1]
        if weights:
            matrix = generator.standard_normal((seeds, neurons, below))
            biases = np.sqrt(layer.bias_variance) * generator.standard_normal((seeds, neurons, 1))
            z = np.sqrt(layer.weight_variance / below) * (matrix @ features) + biases
        else:
            metric = layer.bias_variance + layer.weight_variance * np.swapaxes(features, 1, 2) @ features / below
            z = generator.standard_normal((seeds, neurons, inputs)) @ np.swapaxes(root(metric), 1, 2)
    return z


def _moments(z: Float[Floats, "b n p"], reference: Float[Floats, "p p"], pairs: Pairs) -> list[Floats]:
    """Of y = z z - reference, n y y' and n y z' between different neurons: sums over networks, and of the squares."""
    n = z.shape[1]
    y = z[:, :, pairs.rows] * z[:, :, pairs.columns] - pairs.of(reference)
    turned, sums, ones = np.swapaxes(y, 1, 2), y.sum(1), z.sum(1)
    three = (sums[:, :, None] * ones[:, None, :] - turned @ z) / (n - 1)
    four = (sums[:, :, None] * sums[:, None, :] - turned @ y) / (n - 1)
    return [np.stack([values.sum(0), np.square(values).sum(0)]) for values in (sums / n, three, four)]


def _estimates(
    sums: list[Floats], references: Float[Floats, "l p p"], pairs: Pairs, n: int, seeds: int
) -> list[Estimates]:
    """The reference takes most of the noise out; what it differs from the mean by is subtracted here."""
    (shift, shift_error), (three, three_error), (four, four_error) = (_mean_and_error(part, seeds) for part in sums)
    four = four - n * shift[:, :, None] * shift[:, None, :]
    skews = [np.moveaxis(pairs.matrix(np.swapaxes(part, 1, 2)), 1, -1) for part in (three, three_error)]
    return [
        Estimate(references + pairs.matrix(shift), pairs.matrix(shift_error)),
        Estimate(*skews),
        Estimate(pairs.tensor(four), pairs.tensor(four_error)),
    ]


def _mean_and_error(sums: Float[Floats, "l 2 *q"], seeds: int) -> tuple[Floats, Floats]:
    mean, square = sums[:, 0] / seeds, sums[:, 1] / seeds
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0) / (seeds - 1))
