"""Neurons that stand for all the neurons of an infinitely wide layer: the points at which averages are taken."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ...base.arrays import Floats
from ...base.errors import InvalidInput
from ...gaussian.sobol import matched, normals

GRID_DIMENSIONS = 3
"""A grid in more dimensions has too many points."""

_CUTOFF = 8.5
"""Standard deviations at which a grid ends: beyond lie 2e-17 of all neurons."""

_SPACING = (0.05, 0.05, 0.15)
"""Of a grid in 1, 2, 3 dimensions. For tanh after strong feature learning, errors of kernels are below 1e-10 (2) and
3e-4 (3), of outputs 2e-6 (3); they fall exponentially with 1 / spacing."""


def grid(dimensions: int, spacing: float | None) -> tuple[Floats, Floats]:
    """Normals (dimension, neuron) on a tensor grid, and the weight of every neuron.

    The trapezoidal rule along every axis: for functions that are analytic in a strip of half-width d, the error is
    of the order of exp(-2 pi d / spacing), and of exp(-2 pi^2 / spacing^2) for polynomials.
    """
    if dimensions == 0:
        return np.zeros((0, 1)), np.ones(1)
    step = _SPACING[dimensions - 1] if spacing is None else spacing
    count = int(np.ceil(_CUTOFF / step))
    axis = (np.arange(-count, count) + 0.5) * step
    weights = np.exp(-(axis**2) / 2)
    points = np.stack([x.ravel() for x in np.meshgrid(*[axis] * dimensions, indexing="ij")])
    return points, reduce(lambda a, b: np.multiply.outer(a, b).ravel(), [weights / weights.sum()] * dimensions)


def grid_size(dimensions: int, spacing: float | None) -> int:
    """Number of neurons of a grid."""
    if dimensions == 0:
        return 1
    step = _SPACING[dimensions - 1] if spacing is None else spacing
    return int((2 * int(np.ceil(_CUTOFF / step))) ** dimensions)


def sampled(dimensions: int, particles: int, seed: int) -> Floats:
    """Scrambled Sobol normals (dimension, neuron) with means, variances and correlations that are exact."""
    if particles < 2 * dimensions + 2:
        raise InvalidInput(
            f"particles = {particles} are too few for {dimensions} Gaussian dimensions; take at least "
            f"{2 * dimensions + 2}"
        )
    return matched(normals(seed, 0, dimensions, particles), [np.ones((1, particles))])
