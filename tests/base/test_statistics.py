"""Means with their errors, and agreement."""

import math

import numpy as np
import pytest

from widefield.base.statistics import Difference, mean_and_error, standard_errors


def test_mean_and_error_along_any_axis():
    values = np.random.default_rng(0).standard_normal((5, 3, 4))
    for axis in range(3):
        mean, error = mean_and_error(values, axis)
        count = values.shape[axis]
        centred = values - values.sum(axis, keepdims=True) / count
        np.testing.assert_allclose(mean, values.sum(axis) / count, rtol=1e-14)
        np.testing.assert_allclose(error**2, (centred**2).sum(axis) / (count - 1) / count, rtol=1e-13)


def test_the_error_is_that_of_the_mean():
    """The scatter of many means is the error of one."""
    many = np.random.default_rng(1).normal(2.0, 3.0, (4000, 9))
    means, errors = mean_and_error(many, axis=1)
    assert means.std() == pytest.approx(1.0, rel=5 / math.sqrt(2 * 4000))
    assert np.mean(errors**2) == pytest.approx(1.0, rel=5 * math.sqrt(2 / 8 / 4000))


def test_one_repetition_has_no_error_of_its_own():
    one = np.ones((1, 2))
    assert np.isnan(mean_and_error(one)[1]).all()
    np.testing.assert_array_equal(mean_and_error(one, alone=0.0)[1], [0.0, 0.0])


def test_differences():
    assert Difference("ntk", 0.1, 0.1).agrees
    assert not Difference("ntk", 0.11, 0.1).agrees
    assert not Difference("ntk", math.nan, 0.1).agrees
    assert Difference("ntk", 0.3, 0.1).excess == pytest.approx(3.0)
    assert Difference("ntk", 0.0, 0.0).excess == 0
    assert Difference("ntk", 1e-300, 0.0).excess == math.inf


def test_distances_in_standard_errors():
    found = standard_errors([1.2, 3.0, 3.0, -1.0, 0.0], [1.0, 3.0, 2.0, 1.0, 0.0], [0.1, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(found, [2.0, 0.0, math.inf, -math.inf, 0.0])
    assert standard_errors(1.0 + 1e-10, 1.0, 1e-16) == 0
