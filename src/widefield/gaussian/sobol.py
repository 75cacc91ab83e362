"""Normal numbers for the particles: scrambled Sobol points, which fill space more evenly than random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

_BLOCK = 128
"""Dimensions come in blocks of this size, then its doubles, so that asking for more never changes the earlier ones."""


def normals(seed: int, population: int, count: int, particles: int) -> NDArray[np.float64]:
    """`count` vectors of standard normals over the particles of a population, the same for the same seed.

    Vector k uses dimension k of a Sobol sequence: the earliest draws, which matter most, get the best dimensions.
    """
    blocks: list[NDArray[np.float64]] = []
    start = 0
    while start < count:
        stop = max(_BLOCK, 2 * start)
        blocks.append(_block(seed, population, start, stop, particles)[: count - start])
        start = stop
    return np.concatenate(blocks)


def _block(seed: int, population: int, start: int, stop: int, particles: int) -> NDArray[np.float64]:
    from scipy.stats import qmc  # slow to import

    generator = np.random.default_rng([seed, population, start])
    points = qmc.Sobol(stop, rng=generator).random(particles)[:, start:]
    # Points lie on a grid of spacing 2^-64 or coarser; keep them off 0 and 1.
    tiny = np.finfo(np.float64).eps / 2
    return np.asarray(ndtri(np.clip(points.T, tiny, 1 - tiny)))
