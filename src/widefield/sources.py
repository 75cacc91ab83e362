"""Normal numbers for the particles: scrambled Sobol points, which fill space more evenly than random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

_BLOCK = 128
"""Dimensions are generated in blocks, so that asking for more never changes the earlier ones."""


def normals(seed: int, population: int, count: int, particles: int) -> NDArray[np.float64]:
    """`count` vectors of standard normals over the particles of a population, the same for the same seed.

    Vector k uses dimension k of a Sobol sequence: the earliest draws, which matter most, get the best dimensions.
    """
    blocks = [_block(seed, population, block, particles) for block in range(-(-count // _BLOCK))]
    return np.concatenate(blocks)[:count]


def _block(seed: int, population: int, block: int, particles: int) -> NDArray[np.float64]:
    generator = np.random.default_rng([seed, population, block])
    points = qmc.Sobol((block + 1) * _BLOCK, rng=generator).random(particles)[:, -_BLOCK:]
    # Points lie on a grid of spacing 2^-64 or coarser; keep them off 0 and 1.
    tiny = np.finfo(np.float64).eps / 2
    return np.asarray(ndtri(np.clip(points, tiny, 1 - tiny)).T)
