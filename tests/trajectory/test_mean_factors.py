"""Factors of means over replicas: the right mean, and as many columns as it needs, not as there are replicas."""

import numpy as np
import pytest

from widefield.trajectory import mean_factors
from widefield.trajectory.mean_factors import MeanFactors, fewer_columns, fewer_pairs

DIMS = {
    "features_factor": ("seed", "layer", "time", "sample", "feature_rank"),
    "gradients_factor": ("seed", "layer", "time", "sample", "output", "gradient_rank"),
    "pseudo_gradients_factor": ("seed", "layer", "time", "sample", "output", "gradient_rank"),
    "gradient_response_left_factor": ("seed", "lower_layer", "time", "sample", "output", "rank"),
    "gradient_response_right_factor": ("seed", "lower_layer", "time", "sample", "rank"),
    "pseudo_feature_response_left_factor": ("seed", "lower_layer", "time", "sample", "rank"),
    "pseudo_feature_response_right_factor": ("seed", "lower_layer", "time", "sample", "output", "rank"),
}
PRODUCTS = [
    ("features", "features"),
    ("gradients", "gradients"),
    ("gradients", "pseudo_gradients"),
    ("gradient_response_left", "gradient_response_right"),
    ("pseudo_feature_response_left", "pseudo_feature_response_right"),
]


def replica(seed, rank=5, noise=0.3, times=30):
    """Two layers; what replicas have in common, and noise, with columns in an arbitrary order and sign."""
    common, own = np.random.default_rng(0), np.random.default_rng(seed + 1)
    sizes = {"layer": 2, "lower_layer": 1, "time": times, "sample": 4, "output": 1}
    turn = np.linalg.qr(own.standard_normal((rank, rank)))[0]
    made = {}
    for name, dims in DIMS.items():
        shape = (1, *(sizes[dim] for dim in dims[1:-1]), rank)
        scale = 1e-3 if name.startswith("pseudo_gradients") else 1.0
        values = common.standard_normal(shape) + noise * own.standard_normal(shape)
        made[name] = dims, scale * values @ turn
    return made


def product(values, left, right, layer=0):
    left, right = (values[f"{name}_factor"][layer] for name in (left, right))
    return left.reshape(-1, left.shape[-1]) @ right.reshape(-1, right.shape[-1]).T


def mean_of(replicas, left, right):
    return np.mean([product({k: v[1][0] for k, v in one.items()}, left, right) for one in replicas], axis=0)


def gathered(replicas, tolerance):
    mean = MeanFactors(tolerance)
    for one in replicas:
        mean.add(one)
    return mean


@pytest.mark.parametrize("count", [1, 3, 40])
def test_small_problems_are_exact(count):
    """At most 64 columns, because there are no more rows: nothing is lost, however many replicas."""
    replicas = [replica(seed, times=8) for seed in range(count)]
    mean = gathered(replicas, 1e-2)
    for pair in PRODUCTS:
        expected = mean_of(replicas, *pair)
        np.testing.assert_allclose(product(mean.values, *pair), expected, atol=1e-12 * np.abs(expected).max())
    assert mean.factors["gradients_factor"][0] == DIMS["gradients_factor"][1:]
    assert mean.values["features_factor"].shape[-1] <= min(5 * count, 32)


def test_many_replicas_keep_to_the_tolerance_together(monkeypatch):
    monkeypatch.setattr(mean_factors, "_FREE", 4)
    replicas = [replica(seed, noise=0.02) for seed in range(60)]
    mean = gathered(replicas, 0.1)
    assert mean.values["features_factor"].shape[-1] < 20
    assert mean.values["gradient_response_left_factor"].shape[-1] < 20
    for left, right in PRODUCTS[:3]:
        expected, found = mean_of(replicas, left, right), product(mean.values, left, right)
        size = np.sqrt(np.trace(mean_of(replicas, left, left)) * np.trace(mean_of(replicas, right, right)))
        assert 1e-12 < np.linalg.norm(found - expected, "nuc") / size < 2 * 0.1**2
    causes = mean.values["features_factor"][0].reshape(120, -1)
    found, expected = product(mean.values, *PRODUCTS[3]) @ causes, mean_of(replicas, *PRODUCTS[3]) @ causes
    assert 1e-12 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.1


def test_columns_that_few_rows_need():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((2, 3, 50)), 1e-5 * rng.standard_normal((4, 1, 50))]
    found = fewer_columns(parts, 0.0)
    assert [part.shape for part in found] == [(2, 3, 10), (4, 1, 10)]
    flat, ours = ([part.reshape(-1, part.shape[-1]) for part in both] for both in (parts, found))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        np.testing.assert_allclose(ours[i] @ ours[j].T, flat[i] @ flat[j].T, atol=1e-17, rtol=1e-9)


def test_a_response_counts_in_front_of_fields(monkeypatch):
    """What fields cannot see goes; large entries that cancel there do not come in the way."""
    monkeypatch.setattr(mean_factors, "_FREE", 0)
    rng = np.random.default_rng(2)
    fields = np.diag([1.0, 1.0, 1e-9, 0.0])[:, :3]
    right = np.eye(4)
    left = np.diag([1.0, 0.5, 1e3, 1e6])[rng.permutation(4)]
    ours = fewer_pairs(left, right, fields, 1e-6)
    assert ours[0].shape == ours[1].shape == (4, 2)
    np.testing.assert_allclose(ours[0] @ (ours[1].T @ fields), left @ fields, atol=2e-6)


def test_it_can_be_kept_and_restored():
    mean = gathered([replica(0), replica(1)], 1e-2)
    again = MeanFactors(1e-2)
    again.restore(mean.arrays())
    for one in (mean, again):
        one.add(replica(2))
    assert again.labels == mean.labels
    for name, value in mean.values.items():
        np.testing.assert_array_equal(again.values[name], value)
