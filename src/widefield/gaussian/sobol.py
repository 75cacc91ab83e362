"""Normal numbers for the particles: scrambled Sobol points, which fill space more evenly than random ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, UInt32
from numpy.typing import NDArray
from scipy.special import ndtri

from ..base.arrays import Floats
from ..base.errors import InvalidInput

_Points = NDArray[np.uint32]

_QUASI = 256
"""Vectors of a stream that are Sobol points; later ones are independent normals: docs/infinite-width.md has why."""

_BITS = 32
"""Of the coordinates of a Sobol point, in [0, 1)."""


def normals(seed: int, population: int, count: int, particles: int) -> NDArray[np.float64]:
    """`count` vectors of standard normals over the particles of a population, the same for the same seed.

    Vector k uses dimension k of a Sobol sequence: the earliest draws, which matter most, get the best dimensions.
    Asking for more vectors does not change the earlier ones. Streams of different seeds or populations are independent.
    """
    source = np.random.SeedSequence(seed, spawn_key=(population,))
    order, scrambling, later = (np.random.default_rng(child) for child in source.spawn(3))
    found = np.empty((count, particles))
    points = _scrambled_points(scrambling, min(count, _QUASI), particles)
    # Scrambling leaves points near their places in the sequence: without a new order, which is the same for all vectors
    # of a stream, a particle would have similar numbers in all streams.
    _as_normals(np.take(points, order.permutation(particles), axis=1), found[:_QUASI])
    later.standard_normal(out=found[_QUASI:])
    return found


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


def _as_normals(points: UInt32[_Points, "d s"], out: Float[Floats, "d s"]) -> None:
    """Normals of which these are the probabilities, in units of 2^-32: in the middle of their steps, off 0 and 1."""
    np.add(points, 0.5, out=out)
    out *= 2.0**-_BITS
    ndtri(out, out=out)


def _scrambled_points(generator: np.random.Generator, dimensions: int, particles: int) -> UInt32[_Points, "_ _"]:
    """Coordinates (dimension, point) of a scrambled Sobol sequence in units of 2^-32, to the next power of 2 in points.

    Point i is the exclusive or of the direction numbers of all bits of i. The binary digits of every dimension are
    multiplied by a random triangular matrix, and random ones are added (Matousek 1998).
    """
    bits = (particles - 1).bit_length()
    random = generator.integers(2**_BITS, size=(dimensions, 1 + bits), dtype=np.uint32)
    directions = _times_triangular(_directions(bits)[:dimensions], random[:, 1:])
    points = np.empty((dimensions, 2**bits), np.uint32)
    points[:, 0] = random[:, 0]
    for bit in range(bits):
        half = 2**bit
        np.bitwise_xor(points[:, :half], directions[:, bit, None], out=points[:, half : 2 * half])
    return points


def _times_triangular(numbers: UInt32[_Points, "d b"], random: UInt32[_Points, "d b"]) -> UInt32[_Points, "d b"]:
    """The first b binary digits of numbers, times a matrix for every row: ones on its diagonal, random digits below."""
    product = np.zeros_like(numbers)
    for digit in range(numbers.shape[1]):
        place = _BITS - 1 - digit
        column = (random[:, digit] >> (digit + 1)) | np.uint32(1 << place)
        product ^= ((numbers >> place) & 1) * column[:, None]
    return product


@lru_cache
def _directions(bits: int) -> UInt32[_Points, "_ {bits}"]:
    """Direction numbers (dimension, bit) of the Sobol sequence, for 2^bits points; number k has k + 1 digits."""
    from scipy.stats import qmc  # slow to import

    sequence = qmc.Sobol(_QUASI, scramble=False, bits=_BITS)
    found = np.empty((_QUASI, bits), np.uint32)
    for bit in range(bits):
        # scipy goes through the bits of i ^ (i >> 1), and here only the highest of them is set.
        sequence.fast_forward(2 ** (bit + 1) - 1 - sequence.num_generated)
        found[:, bit] = sequence.random(1)[0] * 2.0**_BITS
    found.flags.writeable = False
    return found
