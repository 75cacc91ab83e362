"""Normal numbers for the particles: scrambled Sobol points, which fill space more evenly than random ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import ndtri

from ..base.arrays import Floats
from ..base.errors import InvalidInput

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


def matched(points: Float[Floats, "k s"], known: Sequence[Float[Floats, "_ s"]] = ()) -> Float[Floats, "k s"]:
    """With <x_i x_j> = delta_ij over the particles, exactly, and <x_i y> = 0 for all rows y of `known`.

    The latter must hold in the limit of infinitely many particles; a row of ones takes out the means.
    """
    count, particles = points.shape
    if particles <= count:
        raise InvalidInput(f"particles = {particles} must exceed the {count} sources of a layer")
    if known:
        span = np.concatenate(known)
        for _ in range(2):  # twice is enough
            points = points - np.linalg.lstsq(span.T, points.T, rcond=1e-12)[0].T @ span
    return np.asarray(np.linalg.solve(np.linalg.cholesky(points @ points.T / particles), points))


def _block(seed: int, population: int, start: int, stop: int, particles: int) -> NDArray[np.float64]:
    from scipy.stats import qmc  # slow to import

    generator = np.random.default_rng([seed, population, start])
    points = qmc.Sobol(stop, rng=generator).random(particles)[:, start:]
    # Points lie on a grid of spacing 2^-64 or coarser; keep them off 0 and 1.
    tiny = np.finfo(np.float64).eps / 2
    return np.asarray(ndtri(np.clip(points.T, tiny, 1 - tiny)))
