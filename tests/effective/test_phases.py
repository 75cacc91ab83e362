"""Fixed points and phases over the plane of variances (PDLT chapter 5)."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_activations import HARD_TANH
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import plots
from widefield.effective.phases import PHASES, critical_lines, phase_diagram
from widefield.effective.single_input import moments
from widefield.effective.susceptibilities import susceptibilities
from widefield.effective.universality import critical_point


def test_critical_lines_of_tanh():
    lines = critical_lines("tanh", [0.1, 0.5, 1.0])
    expected = {
        "perpendicular_weight_variance": [1.17756910, 1.68797512, 2.15330265],
        "perpendicular_bias_variance": [0.00083228, 0.03804120, 0.15096463],
        "parallel_weight_variance": [1.39655235, 3.08043007, 5.50062000],
        "parallel_bias_variance": [-0.01760916, -0.34304073, -1.16886416],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(lines[name], values, atol=6e-9)


def test_critical_lines_of_tanh_meet():
    """Near (1, 0) they are C_b = (C_W - 1)^3 / 6 and -(C_W - 1)^2 / 8."""
    lines = critical_lines("tanh", [1e-3])
    for name, power, coefficient in (("perpendicular", 3, 1 / 6), ("parallel", 2, -1 / 8)):
        distance = lines[f"{name}_weight_variance"] - 1
        np.testing.assert_allclose(lines[f"{name}_bias_variance"] / distance**power, coefficient, rtol=0.01)


def test_phases_of_tanh():
    diagram = phase_diagram("tanh", [0.5, 1.0, 1.68797512, 3.0], [0.0, 0.03804120, 0.5])
    K, phase = diagram["kernel"].values, diagram["phase"].values
    C_W, C_b = np.meshgrid(diagram["weight_variance"], diagram["bias_variance"], indexing="ij")
    exact = susceptibilities("tanh", K).next_kernel
    np.testing.assert_allclose(C_b + C_W * exact, K, atol=1e-9)
    assert PHASES[phase[0, 0]] == PHASES[phase[0, 2]] == "ordered"
    assert PHASES[phase[3, 0]] == PHASES[phase[2, 0]] == "chaotic"
    np.testing.assert_allclose(diagram["perpendicular"][2, 1], 1, atol=1e-7)
    np.testing.assert_allclose(K[2, 1], 0.5, atol=1e-6)
    assert K[0, 0] == 0
    np.testing.assert_allclose(diagram["perpendicular"][0, 0], 0.5)
    np.testing.assert_allclose(diagram["perpendicular_length"][0, 0], 1 / math.log(2))


def test_phases_of_relu():
    diagram = phase_diagram("relu", [1.0, 2.0, 3.0], [0.0, 0.2])
    names = [[PHASES[i] for i in row] for row in diagram["phase"].values]
    assert names == [["ordered", "ordered"], ["critical", "exploding"], ["exploding", "exploding"]]
    np.testing.assert_allclose(diagram["kernel"][0], [0, 0.4], atol=1e-12)
    np.testing.assert_allclose(diagram["kernel"][1, 0], 1)
    assert np.isinf(diagram["perpendicular_length"][1, 0])


def test_phases_with_kinks():
    diagram = phase_diagram(HARD_TANH, [0.8, 1.5], [0.0, 0.1])
    np.testing.assert_allclose(diagram["perpendicular"][0, 0], 0.8, rtol=1e-9)
    K = float(diagram["kernel"][1, 1])
    np.testing.assert_allclose(0.1 + 1.5 * moments(HARD_TANH, K).square, K, rtol=1e-9)


BUMP = Activation("bump", lambda z: jnp.exp(-(z**2)))
ODD_BUMP = Activation("odd_bump", lambda z: z * jnp.exp(-(z**2)))
RISING_BUMP = Activation("rising_bump", lambda z: jnp.exp(-(z**2)) + 0.05 * z**2)
FALLING = {
    BUMP: lambda K: (1 + 4 * K) ** -0.5,
    ODD_BUMP: lambda K: K * (1 + 4 * K) ** -1.5,
    RISING_BUMP: lambda K: (1 + 4 * K) ** -0.5 + 0.1 * K * (1 + 2 * K) ** -1.5 + 0.0075 * K**2,
}
"""Activations whose g(K) does not rise everywhere, and g."""


def follow(g, C_W, C_b, K, layers=4000):
    """Where the kernel is after many layers."""
    for _ in range(layers):
        K = np.where(K < 1e7, C_b + C_W * g(np.minimum(K, 1e7)), np.inf)
    return K


@pytest.mark.parametrize("activation", FALLING, ids=str)
@pytest.mark.parametrize("start", [0.01, 50.0])
def test_kernels_that_do_not_rise(activation, start):
    diagram = phase_diagram(activation, [0.3, 0.9, 3.0, 10.0, 100.0, 1e4], [0.0, 0.1, 1.0, 5.0], start=start)
    C_W, C_b = np.meshgrid(diagram["weight_variance"], diagram["bias_variance"], indexing="ij")
    expected = follow(FALLING[activation], C_W, C_b, np.full(C_W.shape, start))
    np.testing.assert_allclose(diagram["kernel"], expected, rtol=1e-10, atol=1e-100)
    assert diagram["settled"].all()
    assert ((diagram["phase"] == PHASES.index("exploding")) == np.isinf(expected)).all()
    assert diagram["parallel"].min() > -0.5


def test_kernels_leap_over_a_stable_fixed_point():
    """From 0.01 the kernel passes K = 5.46, which attracts what is near, and explodes; from 1 it stays there."""
    near, far = (phase_diagram(RISING_BUMP, [10.0], [1.0], start=start).squeeze() for start in (1.0, 0.01))
    np.testing.assert_allclose(near["kernel"], 5.463, atol=1e-3)
    assert abs(near["parallel"]) < 1
    assert np.isinf(far["kernel"])
    assert near["fixed_points"] == far["fixed_points"] == 2


def test_numbers_of_fixed_points():
    found = phase_diagram("tanh", [0.5, 2.0], [0.0, 0.1])["fixed_points"]
    np.testing.assert_array_equal(found, [[1, 1], [2, 1]])


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_average_squares_fall_slowly(seed):
    """K g'/g >= -1/2, whatever the activation: here s^2 is any sum of bumps."""
    rng = np.random.default_rng(seed)
    z, K = np.linspace(-40, 40, 8001), np.geomspace(0.05, 20, 40)[:, None]
    square = rng.random(5) @ np.exp(-rng.uniform(0.1, 4, (5, 1)) * (z - rng.uniform(-4, 4, (5, 1))) ** 2)
    density = np.exp(-(z**2) / (2 * K)) / np.sqrt(2 * np.pi * K)
    g, slope = density @ square, (density * (z**2 / K - 1) / (2 * K)) @ square
    assert (K[:, 0] * slope / g >= -0.5).all()
    assert (np.diff(np.log(g)) >= -0.5 * np.diff(np.log(K[:, 0])) - 1e-12).all()


@pytest.mark.parametrize(
    ("name", "start", "expected", "chi"), [("gelu", 2.0, 3.034981, 0.9999056), ("swish", 20.0, 14.593105, 1 - 7.58e-7)]
)
def test_other_fixed_points_at_half_stable_criticality(name, start, expected, chi):
    point = critical_point(name)
    diagram = phase_diagram(name, [point.weight_variance], [point.bias_variance], start=start)
    np.testing.assert_allclose(diagram["kernel"], expected, atol=2e-6)
    np.testing.assert_allclose(diagram["parallel"], chi, atol=1e-7 if name == "gelu" else 1e-9)


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_plot(name, tmp_path):
    diagram = phase_diagram(name, np.linspace(0.5, 3, 9), np.linspace(0, 0.5, 7))
    axes = plots.phase_diagram(diagram)
    axes.figure.savefig(tmp_path / "phases.png")
    assert axes.get_xlabel() == "$C_W$"
    with pytest.raises(InvalidInput, match="phase diagram"):
        plots.phase_diagram(diagram.drop_vars("phase"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: phase_diagram("tanh", [-1.0], [0.0]),
        lambda: phase_diagram("tanh", [], [0.0]),
        lambda: phase_diagram("tanh", [1.0], [float("nan")]),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
