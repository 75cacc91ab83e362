"""Normal numbers of particles: even within a stream, independent between streams, the same for the same seed."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import kstest, qmc

from widefield.gaussian.sobol import _as_normals, normals

PINNED = [-1.7041313420394353, 0.5667734939039353, 0.7237055470347019, 0.4381764409894396]

LAST_OF_SCIPY = 21201
"""Dimensions of the longest Sobol sequence that scipy has."""


@pytest.mark.parametrize("particles", [1, 2, 100, 256])
def test_more_vectors_leave_the_earlier_ones(particles):
    many = normals(3, 1, 700, particles)
    for count in (0, 1, 2, 127, 128, 129, 255, 256, 257, 600):
        np.testing.assert_array_equal(normals(3, 1, count, particles), many[:count])
    assert (many.dtype, many.shape) == (np.float64, (700, particles))


def test_more_vectors_than_a_sobol_sequence_has():
    count, particles = LAST_OF_SCIPY + 3000, 16
    found = normals(0, 2, count, particles)
    np.testing.assert_array_equal(found[:40], normals(0, 2, 40, particles))
    last = found[LAST_OF_SCIPY - 2000 :]
    assert kstest(last.ravel(), ndtr).pvalue > 1e-3
    assert len(np.unique(last)) == last.size  # nothing comes twice


def test_numbers_are_those_of_the_seed():
    """On every run and every machine; seeds and populations do not stand in for each other."""
    found = normals(7, 1, 300, 8)
    np.testing.assert_allclose(found[[0, 0, 1, 299], [0, 7, 3, 5]], PINNED, rtol=1e-12)
    keys = [(5, 0), (5, 1), (5, 2**32), (5 + 2**32, 0), (5 + 2**32, 1), (2**62, 0), (2**62 - 1, 0), (0, 5), (1, 5)]
    first = {normals(*key, 1, 1).item() for key in keys}
    later = {normals(*key, 300, 1)[-1].item() for key in keys}
    assert len(first) == len(later) == len(keys)


def test_streams_are_independent_particle_by_particle():
    """Correlations of vectors of different streams have the law of independent normals."""
    particles, dimensions = 256, 30
    streams = [normals(seed, population, dimensions, particles) for seed in range(8) for population in range(3)]
    pairs = [(a, b) for k, b in enumerate(streams) for a in streams[:k]]
    found = np.abs([a @ b.T for a, b in pairs]) / np.sqrt(particles)
    same = np.eye(dimensions, dtype=bool)
    for chosen in (found[:, same], found[:, ~same]):
        error = 0.5 / (0.6357 * np.sqrt(chosen.size))  # 0.6357 is the density of |x| at its median
        assert np.median(chosen) == pytest.approx(0.6745, abs=4 * error + 0.002)
        assert chosen.max() < 6


def test_every_vector_of_the_first_256_is_even():
    """One of 2^m numbers is in each of 2^m quantiles; a later vector leaves many empty."""
    quantiles = np.floor(ndtr(normals(1, 0, 300, 128)) * 128)
    filled = [len(np.unique(row)) for row in quantiles]
    assert set(filled[:256]) == {128}
    assert max(filled[256:]) < 110


def test_the_first_two_vectors_fill_all_rectangles_evenly():
    """A (0, m, 2)-net: one point in every rectangle of area 2^-m. So particles have the same order in both."""
    one, two = ndtr(normals(4, 2, 2, 256))
    for bits in range(9):
        places = np.floor(one * 2**bits) * 2 ** (8 - bits) + np.floor(two * 2 ** (8 - bits))
        assert len(np.unique(places)) == 256


def test_places_within_quantiles_are_random():
    """By the matrix: a shift alone moves all numbers to the same place of their quantiles."""
    inside = (ndtr(normals(5, 0, 1, 512)) * 512) % 1
    assert inside.std() == pytest.approx(12**-0.5, rel=0.15)


def test_a_particle_is_normal_over_seeds():
    found = np.concatenate([normals(seed, 0, 3, 4).ravel() for seed in range(400)])
    assert kstest(found, ndtr).pvalue > 1e-2
    moments, errors = np.mean(found[:, None] ** [1, 2, 3, 4], axis=0), np.sqrt(np.array([1, 2, 15, 96]) / found.size)
    assert (np.abs(moments - [0, 1, 0, 3]) < 4 * errors).all()


CASES = [(2, 256, 5), (6, 256, 1.7), (6, 2000, 2), (40, 1024, 1.8)]


@pytest.mark.parametrize(("dimensions", "particles", "gain"), CASES)
def test_averages_are_as_good_as_those_of_scipy(dimensions, particles, gain):
    """Its own scrambling is slow and leaves particles of different streams alike, but is no better."""

    def error(points):
        x = np.array([points(seed) for seed in range(64)])
        return np.std(np.mean(np.tanh(x.sum(axis=1)) ** 2 * (1 + x[:, 0] ** 2), axis=1))

    def of_scipy(seed):
        sequence = qmc.Sobol(dimensions, rng=np.random.default_rng(seed)).random_base2((particles - 1).bit_length())
        return ndtri(np.clip(sequence[:particles].T, 1e-16, 1 - 1e-16))

    found = error(lambda seed: normals(seed, 0, dimensions, particles))
    assert found < 1.4 * error(of_scipy)
    assert gain * found < error(lambda seed: np.random.default_rng(seed).normal(size=(dimensions, particles)))


def test_numbers_are_finite():
    ends = np.empty((1, 2))
    _as_normals(np.array([[0, 2**32 - 1]], np.uint32), ends)
    np.testing.assert_allclose(ends, [[-6.3379, 6.3379]], atol=1e-4)
    assert np.isfinite(normals(0, 0, 300, 4096)).all()
