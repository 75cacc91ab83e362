"""The NTK of scale-invariant networks at any angle: known values, exact kernels, and what its cusp does to outputs."""

import numpy as np
import pytest

from widefield.base.errors import InvalidInput
from widefield.effective import kinked_interpolation, ntk_angle_flow, ntk_cusp, weights_at
from widefield.kernels import StaticKernel
from widefield.problem.network import MLP


def on_circle(angles, mean_square=1.0):
    return np.sqrt(2 * mean_square) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize(
    ("depth", "angle", "cosine", "variance", "accuracy"),
    [
        (2, 0.9159999080, 0.6522494453, 0.6309924091, 1e-10),
        (3, 0.8176936755, 0.5886988639, 0.5413373930, 1e-10),
        (5, 0.6778941501, 0.5104292267, 0.4653963102, 1e-10),
        (10, 0.4820778985, 0.4200014882, 0.4321304911, 1e-10),
        (100, 0.0838063741, 0.2788444589, 0.5220226349, 1e-10),
        (1000, 0.0092780, 0.2538167, 0.5568113, 6e-8),
    ],
)
def test_relu(depth, angle, cosine, variance, accuracy):
    """Reference values."""
    found = ntk_angle_flow("relu", np.pi / 3, depth, mean_square=1.0).isel(layer=-1, pair=0)
    values = (found["angle"], found["cosine"], found["variance"], found["robustness"])
    np.testing.assert_allclose([float(v) for v in values], (angle, cosine, variance, cosine - 1), atol=accuracy)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)"])
def test_limits(activation):
    """1/4, -3/4 and 9/16 for every angle and any rates; corrections are of order 1 / depth."""
    found = ntk_angle_flow(activation, [0.3, 2.0], 30_000, weight_rates=0.4, bias_rates=1.7).isel(layer=-1)
    np.testing.assert_allclose(found["cosine"], 0.25, atol=2e-3)
    np.testing.assert_allclose(found["variance"], 9 / 16, atol=4e-3)


def test_linear_networks_keep_their_cosine():
    found = ntk_angle_flow("linear", np.pi / 3, 40, weight_rates=0.8, bias_rates=0.8)["cosine"]
    np.testing.assert_allclose(found, 0.75, rtol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "linear"])
def test_exact_kernels(activation):
    """`StaticKernel`, with variances and rates that differ from layer to layer, to 1e-12."""
    C_W, C_b, w, b = (1.8, 1.2, 2.5, 0.9), (0.2, 0.0, 0.1, 0.4), (0.5, 1.0, 0.0, 2.0), (0.3, 0.0, 0.7, 1.0)
    angles = np.array([0.0, 0.2, 1.1, 2.9])
    kernel = StaticKernel(MLP(3, activation, weight_variances=C_W, bias_variances=C_b), weight_rates=w, bias_rates=b)
    exact = kernel(on_circle(np.zeros(1), 0.7), on_circle(angles, 0.7))
    found = ntk_angle_flow(activation, angles, 4, mean_square=0.7, weight_variance=C_W, bias_variance=C_b,
                           weight_rates=w, bias_rates=b).isel(layer=-1)  # fmt: skip
    size = float(found["ntk"])
    np.testing.assert_allclose(found["cosine"] * size, exact.ntk[0], atol=1e-12 * size)
    np.testing.assert_allclose(np.cos(found["angle"]) * float(found["kernel"]), exact.nngp[0], atol=1e-12)


@pytest.mark.parametrize(
    ("depth", "measured", "slope"),
    [(2, 0.159322, 0.159155), (3, 0.318420, 0.318310), (5, 0.636449, 0.636620), (10, 1.430537, 1.432394)],
)
def test_cusp(depth, measured, slope):
    """Reference values."""
    found = ntk_angle_flow("relu", 0.001, depth, mean_square=0.5).isel(layer=-1, pair=0)
    assert -float(found["robustness"]) / 0.001 == pytest.approx(measured, abs=6e-7)
    assert ntk_cusp("relu", depth) == pytest.approx(slope, abs=6e-7)
    assert ntk_cusp("relu", depth, weight_rates=0.3, bias_rates=2.0) == pytest.approx(slope, abs=6e-7)


def test_cusp_away_from_criticality():
    """Reference values."""
    setting = {"mean_square": 0.5, "weight_variance": 1.8, "bias_variance": 0.2, "weight_rates": 0.7, "bias_rates": 0.3}
    slope = ntk_cusp("relu", 6, **setting)
    assert slope == pytest.approx(0.475459950, abs=1e-6)
    for angle in (1e-4, 1e-5):
        found = ntk_angle_flow("relu", angle, 6, **setting).isel(layer=-1, pair=0)
        assert -float(found["robustness"]) / angle == pytest.approx(slope, rel=3 * angle)


RELU = StaticKernel(MLP(2, "relu", weight_variances=2.0), bias_rates=1.0)


def test_between_and_beyond_two_inputs():
    """Reference values, and the leading order of small angles."""
    at = np.array([0.5, 1.5])
    found = weights_at(RELU, on_circle(np.array([0.1, 0.0]), 0.5), on_circle(0.1 * at, 0.5))
    np.testing.assert_allclose(found.weights, [[0.500123927467] * 2, [1.005414054151, -0.022328207903]], atol=1e-10)
    np.testing.assert_allclose(found.variance, (5.274485e-5, 2.490846e-3), rtol=1e-6)
    assert RELU.diagonal(on_circle(np.zeros(1), 0.5)).nngp[0] == pytest.approx(1.0)


def test_extrapolation_is_flat():
    """Leading orders are reached with corrections that halve with the angle, inside and outside."""
    at, errors = np.array([0.25, 0.5, 1.5, -0.7]), []
    for angle in (0.02, 0.01):
        exact = weights_at(RELU, on_circle(np.array([angle, 0.0]), 0.5), on_circle(angle * at, 0.5))
        near = kinked_interpolation("relu", 3, angle, at)
        errors.append((np.abs(exact.weights - near.weights).max(axis=1), np.abs(exact.variance / near.variance - 1)))
    (weights, spread), (finer_weights, finer_spread) = errors
    assert np.all(weights < 1.5 * 0.02)
    assert np.all(finer_weights < 0.6 * weights)
    assert np.all(finer_spread < 0.6 * spread)


def test_refusals():
    with pytest.raises(InvalidInput, match="weight_variance = 0"):
        ntk_angle_flow("relu", 0.1, 3, weight_variance=0.0)
    with pytest.raises(InvalidInput, match="zero"):
        ntk_angle_flow("relu", 0.1, 3, weight_rates=0.0, bias_rates=(0.0, 1.0, 1.0))
    with pytest.raises(InvalidInput, match="no kink"):
        kinked_interpolation("linear", 3, 0.1, 0.5)
