"""Where Rcrit is 1: roots that cross, touch or nearly do, kinks, and activations that a user might make."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf

from made_activations import HARD_TANH, SOFTPLUS_AT_ZERO, swish
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective.layer_table import layer_table
from widefield.effective.probes import kinks
from widefield.effective.single_input import SingleInput
from widefield.effective.susceptibilities import susceptibilities
from widefield.effective.universality import critical_point, critical_ratio, criticality
from widefield.gaussian import average, average_derivative

ELU = Activation("elu_1", lambda z: jnp.where(z > 0, z, jnp.expm1(jnp.minimum(z, 0.0))), kinks=(0.0,))
SHRINK = Activation("shrink", lambda z: jnp.sign(z) * jnp.maximum(jnp.abs(z) - 0.5, 0.0), kinks=(-0.5, 0.5))
BENT = Activation("bent", lambda z: jnp.where(z > 0.3, jnp.tanh(z), 2 * z + math.tanh(0.3) - 0.6), kinks=(0.3,))
KINKED = (HARD_TANH, ELU, SHRINK, BENT)

TOUCHING = 0.16613767590549647
"""The c at which Rcrit of SWISH(z) + c tanh(z) has a minimum of 1, at K = 1.27137338: a zero of the largest c(K) for
which -<s s''>, a quadratic polynomial in c, vanishes."""


def mixed(c):
    return Activation(f"swish_and_{c}_tanh", lambda z: z * jax.nn.sigmoid(z) + c * jnp.tanh(z))


def assert_critical(point, tolerance=1e-9):
    """chi_par = chi_perp = 1, and K* stays where it is."""
    kernel = 1.0 if point.kernel is None else point.kernel
    variances = {"bias_variance": point.bias_variance, "weight_variance": point.weight_variance}
    at = susceptibilities(point.activation, kernel, **variances)
    np.testing.assert_allclose([at.parallel, at.perpendicular], 1, atol=tolerance)
    np.testing.assert_allclose(at.next_kernel, kernel, rtol=1e-12)


# Roots


def test_touching_root():
    found = criticality(mixed(TOUCHING))
    zero, point = found.points
    assert (zero.kernel, point.universality_class, point.touching) == (0.0, "half-stable", True)
    assert 1e-6 < point.uncertainty < 1e-3
    assert abs(point.kernel - 1.27137338) < point.uncertainty
    assert "touches 1 to within 1e-10" in found.verdict
    assert_critical(point)
    beside = critical_ratio(point.activation, point.kernel * np.array([0.9, 1.1]))
    assert (beside > 1).all()


@pytest.mark.parametrize("excess", [1e-8, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_near_misses_are_no_roots(excess):
    """Rcrit stays above 1, by 6e-9 with the smaller excess."""
    found = criticality(mixed(TOUCHING + excess))
    assert [point.kernel for point in found.points] == [0.0]
    assert not found.rejected


@pytest.mark.parametrize("deficit", [1e-8, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_two_roots_between_neighbours_on_the_grid(deficit):
    activation = mixed(TOUCHING - deficit)
    _, low, high = criticality(activation).points
    assert not low.touching
    assert 1e-4 < high.kernel - low.kernel < 0.2
    np.testing.assert_allclose([low.kernel, high.kernel], 1.2714, rtol=0.1)
    for point in (low, high):
        assert point.uncertainty < 1e-3 * (high.kernel - low.kernel)
        assert_critical(point, 1e-11)
    signs = np.sign(
        critical_ratio(activation, [low.kernel / 1.01, (low.kernel + high.kernel) / 2, high.kernel * 1.01]) - 1
    )
    np.testing.assert_array_equal(signs, [1, -1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1e-3, 1e-5])
def test_roots_far_out(beta):
    point = critical_point(swish(beta))
    np.testing.assert_allclose(point.kernel * beta**2, 14.3201736180258, rtol=1e-9)


def test_range_and_precision_are_stated():
    assert "searched K from 1e-10 to 7.5e+13" in criticality("swish").verdict
    point = critical_point("swish")
    assert abs(point.kernel - 14.3201736180258) < point.uncertainty < 1e-9


def test_a_line_of_critical_points():
    """Shrinkage has s s'' = 0: Rcrit = 1 at every K, with C_b > 0."""
    np.testing.assert_allclose(critical_ratio(SHRINK, [0.1, 1.0, 30.0]), 1, rtol=1e-11)
    found = criticality(SHRINK)
    assert found.everywhere
    assert "at every K" in found.verdict
    (point,) = found.points
    assert (point.kernel, point.stability) == (1.0, "stable from below")
    assert point.bias_variance > 0
    assert_critical(point)


# Kinks


@pytest.mark.parametrize("activation", [BENT, *(pytest.param(a, marks=pytest.mark.slow) for a in KINKED[:3])], ids=str)
def test_averages_with_kinks_at_many_kernels(activation):
    """All kernels at once give what one integral for each gives, relative to the average of the absolute value."""
    single, kernels = SingleInput(activation), np.geomspace(0.01, 1e4, 7)
    polynomials = {1: lambda x: x**2 - 1, 2: lambda x: x**4 - 6 * x**2 + 3}
    for name, order, times in (("square_slope", 0, 1), ("square_curvature", 0, 2), ("slope_square_slope", 1, 1)):
        f = activation.derivative(order)
        for K, found in zip(kernels, getattr(single, name)(kernels), strict=True):

            def integrand(z, f=f, K=K, times=times):
                return f(z) ** 2 * polynomials[times](z / math.sqrt(K))

            expected = float(average(integrand, K, kinks=activation.kinks)) / (2 * K) ** times
            size = float(average(lambda z, f=f: f(z) ** 2, K, kinks=activation.kinks)) / K**times
            assert abs(found - expected) < 1e-12 * size


def test_hard_tanh_in_closed_form():
    """g = erf(a) (K - 1) + 1 - sqrt(2 K / pi) e^(-a^2) and g' = <s'^2> - sqrt(2 / (pi K)) e^(-a^2), a^2 = 1 / 2K."""
    K = np.geomspace(0.05, 1e4, 25)
    a, single = 1 / np.sqrt(2 * K), SingleInput(HARD_TANH)
    edge = np.sqrt(2 * K / np.pi) * np.exp(-(a**2))
    np.testing.assert_allclose(single.square(K), erf(a) * (K - 1) + 1 - edge, rtol=1e-10)
    np.testing.assert_allclose(single.slope_square(K), erf(a), rtol=1e-12)
    np.testing.assert_allclose(single.bend(K), -edge / K, rtol=1e-10)
    np.testing.assert_allclose(single.slope_square_slope(K), -edge / (2 * K**2), rtol=1e-8)
    np.testing.assert_allclose(single.square_slope(K), erf(a) - edge / K, rtol=1e-8)
    np.testing.assert_allclose(single.square_curvature(K), -edge / (2 * K**2) / K, rtol=1e-4)


@pytest.mark.parametrize("activation", [*KINKED, SOFTPLUS_AT_ZERO], ids=str)
def test_bend_is_what_slopes_differ_by(activation):
    single, K = SingleInput(activation), np.geomspace(0.1, 100, 6)
    scale = single.slope_square(K)
    np.testing.assert_allclose(single.bend(K) / scale, (single.square_slope(K) - scale) / scale, atol=1e-12)


def test_limits_at_kinks():
    (kink,) = kinks(BENT)
    assert kink.jump == 0
    np.testing.assert_allclose(kink.slope, [2, 1 - math.tanh(0.3) ** 2], rtol=1e-13)
    np.testing.assert_allclose(kink.value, math.tanh(0.3), rtol=1e-13)


def test_kinks_of_the_second_derivative():
    found = criticality(ELU)
    assert found.universality_class == "zero-kernel"
    np.testing.assert_allclose(found.best.weight_variance, 1, rtol=1e-14)


def test_derivative_of_an_average():
    found = [float(average_derivative(lambda z: z**4, 3.0, order)) for order in (1, 2)]  # <z^4> = 3 K^2
    np.testing.assert_allclose(found, [18, 6], rtol=1e-12)
    with pytest.raises(InvalidInput, match="must be > 0"):
        average_derivative(np.abs, 0.0, 1)


@pytest.mark.parametrize(
    ("activation", "words"),
    [
        (Activation("undeclared", lambda z: jnp.clip(z, -1.0, 1.0)), "declare all kinks"),
        (Activation("root", lambda z: jnp.sqrt(1 - z**2)), "not finite at z = "),
        (Activation("half", lambda z: jnp.log(z + 3)), "not finite at z = -3"),
        (Activation("nan", lambda z: jnp.full_like(z, jnp.nan)), "not finite at z = 0"),
    ],
)
def test_no_activations(activation, words):
    with pytest.raises(InvalidInput, match=words):
        criticality(activation)


# Activations that a user might make


def assert_stays(point):
    """Kernels that start near K*, on the attracting side, do not move away in 64 layers."""
    if point.universality_class == "scale-invariant":
        return
    scale = point.kernel or min(1.0, 1 / abs(point.curvature or 1.0))
    side = -1 if point.stability == "stable from below" else 1
    start = point.kernel + side * 1e-3 * scale
    table = layer_table(point.activation, start, 64, point.bias_variance, point.weight_variance)
    distance = side * (table.kernel[:, 0] - point.kernel)
    assert (np.diff(distance) <= 1e-12 * scale).all()
    assert (distance >= -1e-12 * scale).all()


def critical_or_explained(a, b, c, frequency):
    def function(z):
        return a * jnp.tanh(z) + b * z + c * jnp.sin(frequency * z)

    found = criticality(Activation(f"random_{a}_{b}_{c}_{frequency}", function))
    assert found.verdict.startswith(found.activation.name)
    for point in found.points:
        assert_critical(point)
    if found.best is None:
        assert found.universality_class == "none"
        assert "no critical initialisation" in found.verdict or "constant" in found.verdict
    else:
        assert found.universality_class == found.best.universality_class
        assert_stays(found.best)
    odd_slope = a + b + c * frequency
    if odd_slope and found.universality_class != "scale-invariant":
        assert found.points[0].kernel == 0
        np.testing.assert_allclose(found.points[0].weight_variance, odd_slope**-2, rtol=1e-10)


COEFFICIENTS = st.integers(-8, 8).map(lambda i: i / 4)


@given(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=2)
def test_some_smooth_activations(a, b, c, frequency):
    critical_or_explained(a, b, c, frequency)


@pytest.mark.slow
@given(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=20)
def test_many_smooth_activations(a, b, c, frequency):
    critical_or_explained(a, b, c, frequency)


@pytest.mark.slow
@given(st.floats(-3, 3).map(lambda x: 10.0**x))
@settings(max_examples=5)
def test_swish_of_any_scale(beta):
    """z sigmoid(beta z): K*(beta) = K*(1) / beta^2."""
    point = critical_point(swish(beta))
    assert point.universality_class == "half-stable"
    np.testing.assert_allclose(point.kernel * beta**2, 14.3201736180258, rtol=1e-9)
    np.testing.assert_allclose(point.weight_variance, 1.98800467826949, rtol=1e-11)


@pytest.mark.slow
@given(st.floats(-2, 2).map(lambda x: 10.0**x), st.floats(0.1, 10))
@settings(max_examples=5)
def test_scaled_softplus_is_unstable(beta, height):
    """h [softplus(beta z) - log 2]: K* = 0 with C_W = 4 / (h beta)^2 and a1 = 3 beta^2 / 16 > 0, and nothing else."""
    activation = Activation(f"softplus_{beta}_{height}", lambda z: height * (jax.nn.softplus(beta * z) - math.log(2)))
    found = criticality(activation)
    (point,) = found.points
    assert (found.universality_class, point.kernel, point.stability) == ("none", 0.0, "unstable")
    np.testing.assert_allclose(point.weight_variance * (height * beta) ** 2, 4, rtol=1e-10)
    np.testing.assert_allclose(point.curvature / beta**2, 3 / 16, rtol=1e-9)
