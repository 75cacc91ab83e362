"""Susceptibilities, critical points and universality classes (PDLT chapter 5)."""

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from made_activations import HARD_TANH, SIGMOID_AT_ZERO, SOFTPLUS_AT_ZERO, shifted_tanh, swish
from widefield.activations import Activation
from widefield.base.errors import InvalidInput, UnknownName
from widefield.effective.asymptotics import ZeroKernel
from widefield.effective.critical_points import NotCritical
from widefield.effective.single_input import moments
from widefield.effective.susceptibilities import susceptibilities
from widefield.effective.universality import critical_point, critical_ratio, criticality

SWISH = (14.3201736180258, 0.55514317072153, 1.98800467826949, 2.84979218941e-6)
GELU = ((3 + math.sqrt(17)) / 2, 0.172922390756067, 1.98305825743755, -1.43626418732e-4)


# Susceptibilities


@pytest.mark.parametrize(
    ("name", "K", "expected"),
    [
        ("tanh", 0.5, (0.273676307937, 0.324629995989, 0.592425793372, 0.139778409245, -0.472909814131)),
        ("tanh", 1.0, (0.394294490398, 0.181797688140, 0.464402902448, 0.252991883244, -0.171293448377)),
        ("tanh", 2.0, (0.519975745664, 0.088476384568, 0.349508297747, 0.389459789075, -0.049963828419)),
        ("sin", 1.0, (0.432332358382, 0.135335283237, 0.567667641618, 0.307374291210, -0.270670566473)),
        ("sigmoid", 1.0, (0.293379035858, 0.031198241980, 0.044836241350, 0.131594313066, -0.016094993312)),
        ("softplus", 1.0, (0.921245908859, 0.453301972480, 0.293379035858, 2.337752153832, 0.018334038377)),
        ("swish", 1.0, (0.355775519817, 0.417180259132, 0.379482351633, 0.919164411256, 0.072979621133)),
        ("gelu", 1.0, (0.425221482570, 0.486480248728, 0.455850865649, 1.304679097217, 0.038286728849)),
    ],
)
def test_averages(name, K, expected):
    at = moments(name, K)
    found = (at.square, at.square_slope, at.slope_square, at.fourth, at.square_curvature)
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu", "monomial(3)", HARD_TANH])
def test_susceptibilities_are_derivatives(activation):
    K, step, C_b, C_W = 0.8, 1e-2, 0.1, 1.3
    at = susceptibilities(activation, K, bias_variance=C_b, weight_variance=C_W)
    near = susceptibilities(activation, K + step * np.arange(-2, 3), bias_variance=C_b, weight_variance=C_W)

    def slope(values):
        return np.array([1, -8, 0, 8, -1]) @ values / (12 * step)

    expected = {
        "parallel": slope(near.next_kernel),
        "h": slope(near.perpendicular) / 2,
        "j": 4 * K**2 * slope(near.parallel),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(at, name), value, rtol=1e-6, atol=1e-6)
    averages = moments(activation, K)
    np.testing.assert_allclose(at.source, C_W**2 * (averages.fourth - averages.square**2))


def test_tanh_h():
    np.testing.assert_allclose(susceptibilities("tanh", 0.8, weight_variance=1.3).h, -0.1492653874, atol=1e-9)


def test_susceptibilities_at_zero():
    at = susceptibilities("tanh", [0.0, 1e-8])
    np.testing.assert_allclose(at.parallel, 1, atol=1e-7)
    np.testing.assert_allclose(at.perpendicular, 1, atol=1e-7)
    assert at.j[0] == 0
    relu = susceptibilities("relu", [0.0, 2.0], weight_variance=2.0)
    np.testing.assert_allclose(relu.parallel, 1)
    np.testing.assert_allclose(relu.source, [0, 5 * 4.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: susceptibilities("tanh", float("nan")),
        lambda: susceptibilities("tanh", -1.0),
        lambda: susceptibilities("tanh", 1.0, weight_variance=-1.0),
        lambda: susceptibilities("tanh", 1.0, bias_variance=float("inf")),
        lambda: critical_ratio("tanh", 0.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()


def test_unknown_name():
    with pytest.raises(UnknownName, match="tanh"):
        criticality("tahn")


# The ratio and the classes


def test_critical_ratio():
    K = np.array([0.5, 1, 2, 5, 10])
    table = {
        "tanh": [1.824926, 2.554504, 3.950300, 8.017319, 14.717789],
        "sigmoid": [1.229478, 1.437140, 1.824926, 2.908473, 4.635403],
        "softplus": [0.623050, 0.647204, 0.682329, 0.742942, 0.793242],
        "swish": [0.914791, 0.909636, 0.923569, 0.961591, 0.989497],
        "gelu": [0.909264, 0.937039, 0.974802, 1.009623, 1.018514],
    }
    for name, expected in table.items():
        np.testing.assert_allclose(critical_ratio(name, K), expected, atol=6e-7)
    np.testing.assert_allclose(critical_ratio("sigmoid", K), critical_ratio("tanh", K / 4), rtol=1e-10)
    for p in (2, 3, 4):
        np.testing.assert_allclose(critical_ratio(f"monomial({p})", K), p / (2 * p - 1), rtol=1e-12)
    np.testing.assert_allclose(critical_ratio("leaky_relu(0.3)", K), 1, rtol=1e-12)
    np.testing.assert_allclose(critical_ratio("softplus", 1e-8), 1 / (1 + math.log(2)), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "side", "K", "ratio"),
    [
        ("swish", 1, 0.8598, 0.909165),
        ("swish", -1, 57.36, 1.014207),
        ("gelu", 1, 0.3177, 0.903760),
        ("gelu", -1, 13.79, 1.019226),
    ],
)
def test_extrema_of_the_critical_ratio(name, side, K, ratio):
    found = minimize_scalar(lambda x: side * float(critical_ratio(name, math.exp(x))), bounds=np.log([K / 3, 3 * K]))
    np.testing.assert_allclose(math.exp(found.x), K, rtol=3e-4)
    np.testing.assert_allclose(side * found.fun, ratio, atol=6e-7)


@pytest.mark.parametrize(
    ("activation", "C_W"),
    [
        ("linear", 1.0),
        ("relu", 2.0),
        ("abs", 1.0),
        ("leaky_relu(0.1)", 2 / 1.01),
        ("scale_invariant(1.5, -0.5)", 2 / 2.5),
        (Activation("twice", lambda z: 2.0 * z), 0.25),
        (Activation("kinked", lambda z: jnp.where(z > 0, z, 0.5 * z), kinks=(0.0,)), 1.6),
    ],
)
def test_scale_invariant_class(activation, C_W):
    point = critical_point(activation)
    assert point.universality_class == "scale-invariant"
    assert point.kernel is None
    assert point.bias_variance == 0
    np.testing.assert_allclose(point.weight_variance, C_W, rtol=1e-12)


@pytest.mark.parametrize(
    ("activation", "C_W", "a1"),
    [
        ("tanh", 1.0, -2.0),
        ("sin", 1.0, -1.0),
        ("erf", math.pi / 4, -2.0),
        pytest.param(SIGMOID_AT_ZERO, 16.0, -0.5, marks=pytest.mark.slow),
        (shifted_tanh(0.3), 1 / (1 - math.tanh(0.3) ** 2) ** 2, 9 * math.tanh(0.3) ** 2 - 2),
    ],
)
def test_zero_kernel_class(activation, C_W, a1):
    found = criticality(activation)
    assert found.universality_class == "zero-kernel"
    point = found.best
    assert (point.kernel, point.bias_variance, point.stability) == (0.0, 0.0, "stable")
    np.testing.assert_allclose([point.weight_variance, point.curvature], [C_W, a1], rtol=1e-12)
    assert "stable" in found.verdict


@pytest.mark.slow
def test_zero_kernel_without_taylor_series():
    assert criticality(HARD_TANH).universality_class == "zero-kernel"
    elu = Activation("elu", lambda z: jnp.where(z > 0, z, 0.5 * jnp.expm1(jnp.minimum(z, 0.0))), kinks=(0.0,))
    first = criticality(elu).points[0]
    assert first.kernel == 0
    np.testing.assert_allclose(first.weight_variance, 1.6, rtol=1e-8)
    with pytest.raises(InvalidInput, match="kink"):
        ZeroKernel.of(elu)


@pytest.mark.parametrize(("name", "expected", "side"), [("swish", SWISH, "below"), ("gelu", GELU, "above")])
def test_half_stable_class(name, expected, side):
    found = criticality(name)
    zero, point = found.points
    assert (zero.kernel, zero.bias_variance, zero.stability, zero.universality_class) == (
        0.0,
        0.0,
        "unstable",
        "zero-kernel",
    )
    np.testing.assert_allclose(zero.weight_variance, 4)
    assert found.universality_class == point.universality_class == "half-stable"
    assert found.best is point
    assert point.stability == f"stable from {side}"
    np.testing.assert_allclose(point.kernel, expected[0], atol=1e-11)
    np.testing.assert_allclose([point.bias_variance, point.weight_variance], expected[1:3], atol=1e-12)
    np.testing.assert_allclose(point.curvature, expected[3], atol=1e-14)
    at = susceptibilities(name, point.kernel, bias_variance=point.bias_variance, weight_variance=point.weight_variance)
    np.testing.assert_allclose([at.parallel, at.perpendicular, at.next_kernel / point.kernel], 1, atol=1e-13)


@pytest.mark.parametrize("beta", [0.1, *(pytest.param(b, marks=pytest.mark.slow) for b in (0.02, 2.0, 30.0, 500.0))])
def test_swish_scales(beta):
    """z sigmoid(beta z) = SWISH(beta z) / beta: K* and C_b scale as 1 / beta^2, C_W not at all, at1 as beta^2."""
    point = critical_point(swish(beta))
    assert point.universality_class == "half-stable"
    found = [point.kernel * beta**2, point.bias_variance * beta**2, point.weight_variance, point.curvature / beta**2]
    np.testing.assert_allclose(found[:3], SWISH[:3], rtol=1e-10)
    np.testing.assert_allclose(found[3], SWISH[3], rtol=1e-7)


@pytest.mark.parametrize(
    ("activation", "words"),
    [
        ("perceptron", "diverges"),
        ("sigmoid", "C_b = -4 < 0 and C_W = 16"),
        ("softplus", "stays above 1"),
        ("monomial(2)", "is 1.5 at every K"),
        ("monomial(3)", "is 1.66667 at every K"),
        ("monomial(4)", "is 1.75 at every K"),
        ("monomial(60)", "1.98333"),
        pytest.param("cos", "stays below 1", marks=pytest.mark.slow),
        (SOFTPLUS_AT_ZERO, "unstable"),
        (Activation("raised_tanh", lambda z: jnp.tanh(z) + 0.5), "C_b = -0.25 < 0"),
        (Activation("moved_tanh", lambda z: jnp.tanh(z + 0.5)), "stays below 1"),
        (Activation("affine", lambda z: z + 1.0), "C_b = -1 < 0"),
        (Activation("sign", jnp.sign, kinks=(0.0,)), "jumps by 2"),
        (Activation("small_step", lambda z: 1e-7 * (z + jnp.heaviside(z - 0.5, 1.0)), kinks=(0.5,)), "jumps by 1e-07"),
        (Activation("seven", lambda z: jnp.full_like(z, 7.0)), "constant"),
        (Activation("nothing", jnp.zeros_like), "constant"),
    ],
)
def test_not_critical(activation, words):
    found = criticality(activation)
    assert found.universality_class == "none"
    assert found.best is None
    assert words in found.verdict
    with pytest.raises(NotCritical, match=re.escape(found.activation.name)):
        critical_point(activation)


@pytest.mark.parametrize("function", [jnp.log, lambda z: jnp.sqrt(jnp.abs(z)) * jnp.sign(z)])
def test_not_finite_at_zero(function):
    with pytest.raises(InvalidInput, match="not finite"):
        criticality(Activation(f"bad_{id(function)}", function))


def test_perceptron_has_infinite_perpendicular_susceptibility():
    at = susceptibilities("perceptron", [0.5, 2.0])
    np.testing.assert_array_equal(at.next_kernel, 0.5)
    np.testing.assert_array_equal(at.parallel, 0)
    assert np.isinf(at.perpendicular).all()
    assert np.isnan(critical_ratio("perceptron", 1.0)) or np.isinf(critical_ratio("perceptron", 1.0))


def test_softplus_at_zero_is_unstable_only():
    (point,) = criticality(SOFTPLUS_AT_ZERO).points
    assert (point.kernel, point.stability) == (0.0, "unstable")
    np.testing.assert_allclose([point.weight_variance, point.curvature], [4, 3 / 16], rtol=1e-12)


@pytest.mark.slow
def test_shifted_tanh_beyond_its_stable_range():
    """a1 = 9 t^2 - 2 > 0 from t^2 = 2/9 on; beyond t^2 = 1/4 Rcrit starts below 1 and must come back."""
    c = math.atanh(math.sqrt(0.4))
    found = criticality(shifted_tanh(c))
    assert found.points[0].stability == "unstable"
    roots = [p.kernel for p in found.points[1:]] + [bad.kernel for bad in found.rejected]
    assert len(roots) == 1
    np.testing.assert_allclose(critical_ratio(shifted_tanh(c), roots[0]), 1, atol=1e-12)


@pytest.mark.slow
def test_activation_that_overflows():
    grows = Activation("sinh", jnp.sinh)
    found = criticality(grows)
    assert found.points[0].stability == "unstable"
    assert found.universality_class == "none"
