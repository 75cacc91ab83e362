"""Roots of covariances, also of singular ones and of nothing at all, and samples with exact second moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widefield.base.errors import InvalidInput
from widefield.gaussian import roots
from widefield.gaussian.sobol import matched, normals


def covariance(size, rank, seed=0, scale=1.0):
    x = np.random.default_rng(seed).standard_normal((size, rank))
    return scale * x @ x.T / max(rank, 1)


SHAPES = [(1, 1), (3, 3), (5, 2), (7, 1), (4, 0), (40, 10)]


def triangular(K):
    with jax.enable_x64(True):
        return np.asarray(roots.triangular_root(jnp.asarray(K)[None])[0])


@pytest.mark.parametrize(("size", "rank"), SHAPES)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_roots_give_the_covariance(size, rank, scale):
    K = covariance(size, rank, scale=scale)
    for A in (roots.root(K), roots.root(K, thin=True), roots.symmetric_root(K), triangular(K)):
        np.testing.assert_allclose(A @ A.T, K, rtol=0, atol=1e-13 * size * scale)


@pytest.mark.parametrize(("size", "rank"), SHAPES)
def test_thin_roots_have_as_many_columns_as_the_rank(size, rank):
    K = covariance(size, rank)
    assert roots.root(K, thin=True).shape == (size, rank)
    assert np.count_nonzero(np.abs(roots.root(K)).max(axis=0)) == rank
    assert np.count_nonzero(np.abs(triangular(K)).max(axis=0)) == rank


def test_what_is_zero():
    """Below 1e-14 of the largest for every variable a variance is rounding, above it is not; also a negative one."""
    for small, rank in ((3e-14, 2), (1e-14, 1), (0.0, 1), (-1e-3, 1)):
        assert roots.root(5 * np.diag([small, 1.0]), thin=True).shape[1] == rank
    np.testing.assert_array_equal(roots.root(np.zeros((3, 3))), np.zeros((3, 3)))
    np.testing.assert_array_equal(roots.root(np.diag([-1.0, -2.0])), np.zeros((2, 2)))
    np.testing.assert_array_equal(roots.root(np.array([[-1e-20]])), [[0.0]])


def test_the_widest_direction_comes_first():
    lengths = np.linalg.norm(roots.root(covariance(6, 6)), axis=0)
    assert (np.diff(lengths) < 0).all()


def test_many_matrices_at_once():
    K = np.stack([covariance(4, rank, seed=rank) for rank in range(5)])
    many = roots.root(K)
    for one, found in zip(K, many, strict=True):
        np.testing.assert_allclose(found @ found.T, one, atol=1e-13)
    np.testing.assert_array_equal(roots.root(np.full((3, 1, 1), 4.0)), np.full((3, 1, 1), 2.0))


def test_the_symmetric_root_is_symmetric():
    A = roots.symmetric_root(covariance(6, 4))
    np.testing.assert_allclose(A, A.T, atol=1e-14)
    assert np.linalg.eigvalsh(A).min() > -1e-12


@given(angle=st.floats(-3.2, 3.2), one=st.floats(1e-6, 1e6), two=st.floats(0, 1e6))
def test_pairs(angle, one, two):
    k12 = np.cos(angle) * np.sqrt(one * two)
    L = roots.pair_factor(np.array([one]), np.array([k12]), np.array([two]))[0]
    np.testing.assert_allclose(L @ L.T, [[one, k12], [k12, two]], rtol=1e-12, atol=1e-15 * (one + two))
    assert L[0, 1] == 0


def test_pivots():
    K = covariance(4, 2) + 0.0
    order, L = roots.pivoted_factor(K)
    assert L.shape == (4, 2)
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-14)


def test_matched_samples():
    points = normals(3, 0, 5, 64)
    known = [np.ones((1, 64)), np.random.default_rng(0).standard_normal((2, 64))]
    for others in ([], known):
        found = matched(points, others)
        np.testing.assert_allclose(found @ found.T / 64, np.eye(5), atol=1e-13)
        for rows in others:
            np.testing.assert_allclose(found @ rows.T / 64, 0, atol=1e-13)
        assert np.abs(found - points).max() < 1.5  # and are not far from where they were
    assert matched(np.zeros((0, 4))).shape == (0, 4)
    with pytest.raises(InvalidInput, match="particles = 5 must exceed the 5 sources"):
        matched(points[:, :5])
