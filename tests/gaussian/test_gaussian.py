"""Gaussian averages against closed forms, published values and independent integrators."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from widefield import gaussian
from widefield.activations import get, register
from widefield.base.errors import InvalidInput

VARIANCES = np.array([1e-12, 1e-6, 1e-3, 0.3, 1.0, 14.0, 300.0, 1e4])
CORRELATIONS = np.array([-1, -1 + 1e-9, -0.99, -0.5, 0, 0.3, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12, 1])
CLOSED = ["relu", "perceptron", "abs", "leaky_relu(0.3)", "gelu", "erf", "sin", "cos", "monomial(3)", "linear"]
OPEN = ["tanh", "sigmoid", "softplus", "swish"]


# One variable --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "K", "square", "slope_of_square", "slope_square", "fourth", "curvature"),
    [
        ("tanh", 0.5, 0.273676307937, 0.324629995989, 0.592425793372, 0.139778409245, -0.472909814131),
        ("tanh", 1, 0.394294490398, 0.181797688140, 0.464402902448, 0.252991883244, -0.171293448377),
        ("tanh", 2, 0.519975745664, 0.088476384568, 0.349508297747, 0.389459789075, -0.049963828419),
        ("sin", 1, 0.432332358382, 0.135335283237, 0.567667641618, 0.307374291210, -0.270670566473),
        ("sigmoid", 1, 0.293379035858, 0.031198241980, 0.044836241350, 0.131594313066, -0.016094993312),
        ("softplus", 1, 0.921245908859, 0.453301972480, 0.293379035858, 2.337752153832, 0.018334038377),
        ("swish", 1, 0.355775519817, 0.417180259132, 0.379482351633, 0.919164411256, 0.072979621133),
        ("gelu", 1, 0.425221482570, 0.486480248728, 0.455850865649, 1.304679097217, 0.038286728849),
    ],
)
def test_published_moments(name, K, square, slope_of_square, slope_square, fourth, curvature):
    """Reference values; g' = <z s s'>/K and g'' = <d^4(s^2)/dz^4>/4."""
    d = [get(name).derivative(n) for n in range(5)]
    assert gaussian.square(name, K) == pytest.approx(square, abs=6e-13)
    assert gaussian.slope_square(name, K) == pytest.approx(slope_square, abs=6e-13)
    assert gaussian.fourth(name, K) == pytest.approx(fourth, abs=6e-13)
    first = gaussian.average(lambda z: z * d[0](z) * d[1](z), K, kinks=()) / K
    assert first == pytest.approx(slope_of_square, abs=6e-13)
    second = gaussian.average(lambda z: 2 * d[0](z) * d[4](z) + 8 * d[1](z) * d[3](z) + 6 * d[2](z) ** 2, K)
    assert second / 4 == pytest.approx(curvature, abs=6e-13)


@pytest.mark.parametrize("name", CLOSED)
def test_moments_against_closed_forms(name):
    s = get(name)
    square = gaussian.average(lambda z: s(z) ** 2, VARIANCES, kinks=s.kinks)
    np.testing.assert_allclose(square, s.square(VARIANCES), rtol=1e-13)
    if s.fourth is not None:
        fourth = gaussian.average(lambda z: s(z) ** 4, VARIANCES, kinks=s.kinks)
        np.testing.assert_allclose(fourth, s.fourth(VARIANCES), rtol=1e-13)
    if name != "perceptron":
        slope = gaussian.average(lambda z: s.derivative(1)(z) ** 2, VARIANCES, kinks=s.kinks)
        np.testing.assert_allclose(slope, s.slope_square(VARIANCES), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("K", [0.3, 14.0, 1e4])
def test_moments_against_quad(name, K):
    """scipy's adaptive Gauss-Kronrod rule, in pieces around the origin."""
    s = get(name)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda z: s(z) ** 2 * jnp.exp(-0.5 * z * z / K) / math.sqrt(2 * math.pi * K))
        edges = np.array([0, 1, 3, 10, 30, 100, 300, 1500])
        edges = np.append(edges[edges < 14 * math.sqrt(K)], 14 * math.sqrt(K))
        edges = np.concatenate([-edges[:0:-1], edges])
        expected = sum(
            integrate.quad(lambda z: float(compiled(z)), a, b, epsabs=0, epsrel=1e-13, limit=200)[0]
            for a, b in itertools.pairwise(edges)
        )
    assert gaussian.square(name, K) == pytest.approx(expected, rel=1e-12)


def test_identities():
    """tanh, sigmoid and softplus are related exactly."""
    K = VARIANCES
    g, fourth = gaussian.square("tanh", K), gaussian.fourth("tanh", K)
    np.testing.assert_allclose(gaussian.slope_square("tanh", K), 1 - 2 * g + fourth, rtol=1e-12)
    np.testing.assert_allclose(gaussian.square("sigmoid", K), 1 / 4 + gaussian.square("tanh", K / 4) / 4, rtol=1e-13)
    quarter = gaussian.slope_square("tanh", K / 4)
    np.testing.assert_allclose(gaussian.slope_square("sigmoid", K), quarter / 16, rtol=1e-13)
    np.testing.assert_allclose(gaussian.slope_square("softplus", K), gaussian.square("sigmoid", K), rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "K", "C_b", "C_W"),
    [
        ("swish", 14.3201736180258, 0.55514317072153, 1.98800467826949),
        ("gelu", (3 + math.sqrt(17)) / 2, 0.172922390756067, 1.98305825743755),
    ],
)
def test_half_stable_points(name, K, C_b, C_W):
    """Reference values: chi_perp = chi_par = 1 at K*."""
    s = get(name)
    assert 1 / gaussian.slope_square(name, K) == pytest.approx(C_W, rel=1e-12)
    assert K - gaussian.square(name, K) * C_W == pytest.approx(C_b, abs=1e-11)
    parallel = C_W / K * gaussian.average(lambda z: z * s(z) * s.derivative(1)(z), K)
    assert parallel == pytest.approx(1, abs=1e-12)


def test_products_with_kinks_and_growth():
    relu, tanh = get("relu"), get("tanh")
    one = gaussian.average(lambda z: relu(z) * tanh(z), VARIANCES)
    two = gaussian.average(lambda z: abs(z) * np.tanh(np.abs(z)) / 2, VARIANCES)
    np.testing.assert_allclose(one, two, rtol=1e-13)
    powers = gaussian.average(lambda z: z**40, np.array([0.5, 2.0]))
    np.testing.assert_allclose(powers, special.factorial2(39) * np.array([0.5, 2.0]) ** 20, rtol=1e-12)


def test_kinks_away_from_the_origin_and_undeclared():
    """<max(z - 1, 0)> = s phi(1/s) - Phi(-1/s), declared and not."""
    K = np.array([0.01, 1.0, 100.0])
    s = np.sqrt(K)
    exact = s * np.exp(-0.5 / K) / math.sqrt(2 * math.pi) - special.ndtr(-1 / s)
    for kinks in ((1.0,), ()):
        value = gaussian.average(lambda z: np.maximum(z - 1, 0), K, kinks=kinks)
        np.testing.assert_allclose(value, exact, rtol=1e-11)


def test_shapes_zero_variance_and_no_change_of_jax():
    K = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    value = gaussian.average(get("cos"), K)
    assert value.shape == K.shape
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, np.exp(-K / 2), rtol=1e-14)
    assert gaussian.average(get("cos"), 1.0).shape == ()
    assert gaussian.average(get("cos"), np.zeros((0, 2))).shape == (0, 2)
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32
    assert gaussian.average(lambda z: 3.0, 1.0) == pytest.approx(3.0, rel=1e-14)


@pytest.mark.parametrize("sharpness", [1.0, 5.0, 20.0])
def test_sharp_but_smooth_functions_are_refined_until_they_are_exact(sharpness):
    """<erf(a z1) erf(a z2)> = (2/pi) asin(2 a^2 k12 / (1 + 2 a^2 k)), whose nearest wiggles are 1/a apart."""
    k12 = np.array([-0.3, 0.9, 0.999])
    exact = 2 / np.pi * np.arcsin(2 * sharpness**2 * k12 / (1 + 2 * sharpness**2))
    f = lambda z: special.erf(sharpness * z)  # noqa: E731
    np.testing.assert_allclose(gaussian.average_product(f, f, 1.0, k12, 1.0, kinks=()), exact, rtol=1e-11)


@pytest.mark.parametrize("f", [np.abs, np.sign, lambda z: 1 / (1 + np.abs(z)) ** 2, lambda z: np.maximum(z - 1, 0)])
def test_kinks_that_are_not_declared_are_given_up_soon(f):
    """Errors fall as a power of the length of panels: a million evaluations say so, and 1e9 would not do."""
    evaluated = 0

    def counted(z):
        nonlocal evaluated
        evaluated += z.size
        return f(z)

    with pytest.raises(InvalidInput, match="declare every kink"):
        gaussian.average_product(counted, counted, 1.0, np.array([-0.3, 0.9]), 1.0, kinks=())
    assert 1e3 < evaluated < 2e6


def test_says_when_it_cannot():
    with pytest.raises(InvalidInput, match="relative error"):
        gaussian.average(lambda z: np.sin(1e7 * z) ** 2, 1.0)
    with pytest.raises(InvalidInput, match="relative error"):
        gaussian.average(lambda z: np.exp(z * z), 1.0)
    with pytest.raises(InvalidInput, match="float32"):
        gaussian.average(lambda z: np.float32(z), 1.0)
    with pytest.raises(InvalidInput, match="variance = -1 is negative"):
        gaussian.average(np.tanh, [1.0, -1.0])
    with pytest.raises(InvalidInput, match="NaN"):
        gaussian.average(np.tanh, math.nan)


# Two variables -------------------------------------------------------------------------------------------


def pairs(scale, k11=1.3, k22=0.7):
    return k11 * scale, CORRELATIONS * math.sqrt(k11 * k22) * scale, k22 * scale


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 100.0])
def test_pairs_against_closed_forms(name, scale):
    s, K = get(name), pairs(scale)
    size = np.sqrt(s.square(K[0]) * s.square(K[2]))
    value = gaussian.average_product(s, s, *K, kinks=s.kinks)
    np.testing.assert_allclose(value / size, s.feature_moment(*K) / size, rtol=0, atol=1e-13)
    if name != "perceptron":
        d = s.derivative(1)
        value = gaussian.average_product(d, d, *K, kinks=s.kinks)
        size = np.sqrt(s.slope_square(K[0]) * s.slope_square(K[2]))
        np.testing.assert_allclose(value / size, s.slope_moment(*K) / size, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["relu", "erf"])
def test_large_variance_pairs(name):
    s, K = get(name), pairs(1e4)
    size = np.sqrt(s.square(K[0]) * s.square(K[2]))
    value = gaussian.average_product(s, s, *K, kinks=s.kinks)
    np.testing.assert_allclose(value / size, s.feature_moment(*K) / size, rtol=0, atol=1e-13)


def test_closed_forms_of_lazy_dynamics():
    """dmft, section 7: ReLU and erf as functions of the angle."""
    k11, k12, k22 = 1.3, -0.4, 0.7
    c = k12 / math.sqrt(k11 * k22)
    th = math.acos(c)
    relu = math.sqrt(k11 * k22) * (math.sin(th) + (math.pi - th) * c) / (2 * math.pi)
    assert gaussian.feature_kernel("relu", k11, k12, k22) == pytest.approx(relu, rel=1e-14)
    assert gaussian.slope_kernel("relu", k11, k12, k22) == pytest.approx((math.pi - th) / (2 * math.pi), rel=1e-14)
    root = (1 + 2 * k11) * (1 + 2 * k22)
    erf = 2 / math.pi * math.asin(2 * k12 / math.sqrt(root))
    assert gaussian.feature_kernel("erf", k11, k12, k22) == pytest.approx(erf, rel=1e-14)
    slope = 4 / math.pi / math.sqrt(root - 4 * k12**2)
    assert gaussian.slope_kernel("erf", k11, k12, k22) == pytest.approx(slope, rel=1e-14)


@pytest.mark.parametrize(("a_plus", "a_minus"), [(1.0, 0.0), (1.0, 0.3), (1.0, -1.0), (1.5, -0.5)])
def test_finite_angle_recursion(a_plus, a_minus):
    """PDLT eqs. (5.159), (5.161) as printed, on equal norms."""
    psi = np.linspace(0, np.pi, 13)
    name, K = f"scale_invariant({a_plus}, {a_minus})", 2.7
    jump, mean = (a_plus - a_minus) ** 2 / (2 * np.pi), (a_plus**2 + a_minus**2) / 2
    feature = K * (jump * (np.sin(psi) - psi * np.cos(psi)) + mean * np.cos(psi))
    value = gaussian.feature_kernel(name, K, K * np.cos(psi), K)
    np.testing.assert_allclose(value, feature, rtol=0, atol=1e-14 * K)
    slope = gaussian.slope_kernel(name, K, K * np.cos(psi), K)
    np.testing.assert_allclose(slope, mean - psi * jump, rtol=0, atol=1e-7)
    np.testing.assert_allclose(slope[1:-1], (mean - psi * jump)[1:-1], rtol=0, atol=1e-14)


def test_relu_angles():
    """Reference values: psi = pi -> pi/2 -> 1.2468502199 -> ..."""
    cosine, angles = -1.0, []
    for _ in range(4):
        cosine = float(2 * gaussian.feature_kernel("relu", 1.0, cosine, 1.0))
        angles.append(math.acos(cosine))
    expected = [math.pi / 2, 1.2468502199, 1.0544212640, 0.9212493238]
    assert angles == pytest.approx(expected, abs=6e-11)


def test_published_two_input_kernels():
    """Reference values: tanh from K = [[1, .6], [.6, 1.5]], two layers."""
    K = np.array([1.0, 0.6, 1.5])
    for expected in (
        [0.394294490398, 0.196571605627, 0.468288210531],
        [0.236450410499, 0.111269614827, 0.263137202852],
    ):
        cross = gaussian.feature_kernel("tanh", *K)
        K = np.array([gaussian.square("tanh", K[0]), cross, gaussian.square("tanh", K[2])])
        np.testing.assert_allclose(K, expected, rtol=0, atol=6e-13)


def test_pair_against_dblquad():
    """A kinked, non-product function at correlation 0.8 against scipy, quadrant by quadrant."""
    K = np.array([[1.0, 0.8], [0.8, 1.0]])
    P, norm = np.linalg.inv(K), 1 / (2 * math.pi * math.sqrt(np.linalg.det(K)))

    def f(z1, z2):
        return np.maximum(z1, 0.2 * z1) * np.tanh(z2) * np.exp(-np.abs(z1 * z2))

    def density(z2, z1):
        return f(z1, z2) * norm * math.exp(-0.5 * (P[0, 0] * z1 * z1 + 2 * P[0, 1] * z1 * z2 + P[1, 1] * z2 * z2))

    quadrants = itertools.product(((-9, 0), (0, 9)), repeat=2)
    expected = sum(integrate.dblquad(density, *one, *two, epsabs=1e-13, epsrel=1e-12)[0] for one, two in quadrants)
    assert gaussian.average_pair(f, 1.0, 0.8, 1.0) == pytest.approx(expected, abs=1e-11)


def test_degenerate_pairs():
    tanh, relu = get("tanh"), get("relu")
    one = gaussian.average(lambda z: tanh(z) * relu(2 * z), 0.9)
    assert gaussian.average_product(tanh, relu, 0.9, 1.8, 3.6) == pytest.approx(one, rel=1e-13)
    two = gaussian.average(lambda z: tanh(z) * relu(-2 * z), 0.9)
    assert gaussian.average_product(tanh, relu, 0.9, -1.8, 3.6) == pytest.approx(two, rel=1e-13)
    softplus = get("softplus")
    alone = math.log(2) * gaussian.average(softplus, 1.7)
    for entries in ((0.0, 0.0, 1.7), (1.7, 0.0, 0.0)):
        assert gaussian.average_product(softplus, softplus, *entries) == pytest.approx(alone, rel=1e-13)
    nothing = gaussian.average_pair(lambda x, y: softplus(x) * softplus(y), 0.0, 0.0, 0.0)
    assert nothing == pytest.approx(math.log(2) ** 2, rel=1e-14)


def test_pair_shapes_and_agreement():
    tanh, relu = get("tanh"), get("relu")
    k11, k22 = np.array([[0.5], [2.0]]), np.array([1.0, 3.0, 0.0])
    k12 = 0.6 * np.sqrt(k11 * k22)
    product = gaussian.average_product(tanh, relu, k11, k12, k22)
    assert product.shape == (2, 3)
    pair = gaussian.average_pair(lambda x, y: tanh(x) * relu(y), k11, k12, k22)
    np.testing.assert_allclose(pair, product, rtol=1e-13, atol=1e-16)
    np.testing.assert_array_equal(gaussian.average_pair((tanh, relu), k11, k12, k22), product)
    swapped = gaussian.average_product(relu, tanh, k22, k12, k11)
    np.testing.assert_allclose(swapped, product, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("name", ["tanh", "swish"])
@settings(max_examples=8, deadline=None)
@given(k11=st.floats(0.05, 10), k22=st.floats(0.05, 10), c=st.floats(-0.95, 0.95))
def test_pair_properties(name, k11, k22, c):
    """Symmetry, Cauchy-Schwarz, and Price's theorem by differences."""
    k12, h = c * math.sqrt(k11 * k22), 1e-3 * math.sqrt(k11 * k22)
    at = gaussian.feature_kernel(name, k11, k12 + h * np.arange(-2, 3), k22)
    size = math.sqrt(gaussian.square(name, k11) * gaussian.square(name, k22))
    assert abs(at[2]) <= size * (1 + 1e-13)
    assert gaussian.feature_kernel(name, k22, k12, k11) == pytest.approx(at[2], abs=1e-13 * size)
    slope = (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * h)
    assert gaussian.slope_kernel(name, k11, k12, k22) == pytest.approx(slope, rel=1e-8, abs=1e-13 * size / h)


def test_user_activation_with_a_kink_off_zero():
    """Moments of max(z, 1) by quadrature, through the table."""
    register("floor_one", lambda z: jnp.maximum(z, 1.0), kinks=(1.0,), overwrite=True)
    exact = special.ndtr(1.0) + math.exp(-0.5) / math.sqrt(2 * math.pi)  # <max(z, 1)>
    independent = gaussian.feature_kernel("floor_one", 1.0, 0.0, 1.0)
    assert independent == pytest.approx(exact**2, rel=1e-13)
    assert gaussian.slope_square("floor_one", 1.0) == pytest.approx(special.ndtr(-1.0), rel=1e-13)


def test_no_covariance():
    for function in (gaussian.feature_kernel, gaussian.slope_kernel):
        for name in ("relu", "tanh"):
            with pytest.raises(InvalidInput, match=r"k11 = 1, k22 = 4 and k12 = 2\.1"):
                function(name, 1.0, 2.1, 4.0)
    with pytest.raises(InvalidInput, match="k22 = -4 is negative"):
        gaussian.average_product(np.tanh, np.tanh, 1.0, 0.0, -4.0)
    rounded = gaussian.feature_kernel("tanh", 1.0, 1.0 + 1e-15, 1.0)
    assert rounded == pytest.approx(gaussian.square("tanh", 1.0), rel=1e-13)


# Four variables ------------------------------------------------------------------------------------------

K4 = np.array([[1.0, 0.3, -0.2, 0.5], [0.3, 0.8, 0.1, 0.2], [-0.2, 0.1, 1.5, 0.4], [0.5, 0.2, 0.4, 1.2]])


def equicorrelated(rho):
    return np.full((4, 4), rho) + (1 - rho) * np.eye(4)


def sines(K):
    """<sin sin sin sin> from the characteristic function."""
    signs = np.array(list(itertools.product((1, -1), repeat=4)))
    return np.sum(signs.prod(axis=1) * np.exp(-0.5 * np.einsum("si,ij,sj->s", signs, K, signs))) / 16


def test_four_linear_and_sines():
    z, sin = get("linear"), get("sin")
    wick = K4[0, 1] * K4[2, 3] + K4[0, 2] * K4[1, 3] + K4[0, 3] * K4[1, 2]
    assert gaussian.average_four(z, z, z, z, K4) == pytest.approx(wick, abs=1e-13)
    for K in (K4, equicorrelated(1 - 1e-9)):
        assert gaussian.average_four(sin, sin, sin, sin, K) == pytest.approx(sines(K), abs=1e-13)


@pytest.mark.parametrize("rho", [0.5, 0.999])
def test_four_kinked_against_one_factor_model(rho):
    """Equal correlations: z_i = sqrt(rho) u + sqrt(1 - rho) e_i reduces the average to one dimension."""
    step, relu, s = get("perceptron"), get("relu"), math.sqrt(rho / (1 - rho))
    kinks = (0.0, *(k / s for k in (-8, -4, -2, 2, 4, 8)))
    orthant = gaussian.average(lambda u: special.ndtr(s * u) ** 4, 1.0, kinks=kinks)
    if rho == 0.5:
        assert orthant == pytest.approx(1 / 5, rel=1e-13)
    assert gaussian.average_four(step, step, step, step, equicorrelated(rho)) == pytest.approx(orthant, rel=1e-12)

    def ramp(u):
        t = s * u
        return (t * special.ndtr(t) + np.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)) * math.sqrt(1 - rho)

    expected = gaussian.average(lambda u: ramp(u) ** 4, 1.0, kinks=kinks)
    value, error = gaussian.average_four(relu, relu, relu, relu, equicorrelated(rho), with_error=True)
    assert value == pytest.approx(expected, rel=1e-12)
    assert abs(value - expected) <= error + 1e-14 * expected
    assert error < 1e-12 * value


def test_four_independent():
    for name, K in itertools.product(("softplus", "relu"), (np.eye(4), np.diag([1.0, 2.0, 0.5, 1e-8]))):
        f = get(name)
        expected = np.prod(gaussian.average(f, np.diag(K)))
        assert gaussian.average_four(f, f, f, f, K) == pytest.approx(expected, rel=1e-12)


def test_four_jumps_of_nearly_equal_samples():
    """K in double precision fixes the angle between two samples to about 1e-16 / angle; the error says so."""
    step, angle = get("perceptron"), 1e-5
    K = np.eye(4)
    K[0, 1] = K[1, 0] = math.cos(angle)
    exact_angle = math.atan2(math.sqrt((1 - K[0, 1]) * (1 + K[0, 1])), K[0, 1])
    expected = (0.5 - exact_angle / (2 * math.pi)) / 4
    value, error = gaussian.average_four(step, step, step, step, K, with_error=True)
    assert abs(value - expected) <= error < 1e-9
    with pytest.raises(InvalidInput, match="relative error"):
        gaussian.average_four(step, step, step, step, K)


def test_four_with_repeated_samples():
    tanh, relu = get("tanh"), get("relu")
    index = [0, 1, 0, 1]
    value = gaussian.average_four(relu, tanh, tanh, relu, K4[np.ix_(index, index)])
    expected = gaussian.average_product(
        lambda z: relu(z) * tanh(z), lambda z: tanh(z) * relu(z), K4[0, 0], K4[0, 1], K4[1, 1]
    )
    assert value == pytest.approx(float(expected), rel=1e-12)
    ones = np.ones((4, 4))
    assert gaussian.average_four(tanh, tanh, tanh, tanh, ones) == pytest.approx(0.252991883244, abs=6e-13)
    signs = np.array([1, -2, 3, 1])
    value = gaussian.average_four(relu, relu, tanh, relu, np.outer(signs, signs))
    assert value == 0.0
    value = gaussian.average_four(relu, tanh, tanh, relu, np.outer(signs, signs))
    expected = gaussian.average(lambda z: relu(z) * tanh(-2 * z) * tanh(3 * z) * relu(z), 1.0)
    assert value == pytest.approx(float(expected), rel=1e-12)


def test_four_without_variance_and_three_distinct():
    cos, tanh = get("cos"), get("tanh")
    K = K4.copy()
    K[2] = K[:, 2] = 0
    three = gaussian.average_four(tanh, tanh, cos, cos, K)
    K[2, 2] = 1e-30
    assert three == pytest.approx(gaussian.average_four(tanh, tanh, cos, cos, K), rel=1e-12)
    assert gaussian.average_four(cos, cos, cos, cos, np.zeros((4, 4))) == 1.0


def test_four_linearly_dependent():
    """z3 = z1 + z2 and z4 = z1 - z2: rank 2 without equal samples; the order of the variables must not matter."""
    A = np.array([[1.0, 0.0], [0.2, 0.9], [1.2, 0.9], [0.8, -0.9]])
    K, relu = A @ A.T, get("relu")

    def angular(t):
        return np.prod(np.maximum(A @ [math.cos(t), math.sin(t)], 0))

    edges = np.sort(np.concatenate([[0, 2 * np.pi], np.arctan2(-A[:, 0], A[:, 1]) % np.pi]))
    edges = np.unique(np.concatenate([edges, edges[:-1] + np.pi]).clip(0, 2 * np.pi))
    around = sum(integrate.quad(angular, a, b, epsabs=1e-15)[0] for a, b in itertools.pairwise(edges))
    expected = 8 * around / (2 * np.pi)  # <r^4> = 8
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        value = gaussian.average_four(relu, relu, relu, relu, K[np.ix_(order, order)])
        assert value == pytest.approx(expected, rel=1e-12)


def test_vertex_source():
    """Reference values: V at l = 2 is <s1 s2 s3 s4> - <s1 s2><s3 s4>, two inputs."""
    K, tanh = np.array([[1.0, 0.6], [0.6, 1.5]]), get("tanh")
    order = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (1, 1, 1, 1)]
    values = []
    for a, b, c, d in order:
        index = [a, b, c, d]
        full = gaussian.average_four(tanh, tanh, tanh, tanh, K[np.ix_(index, index)])
        split = [gaussian.feature_kernel(tanh, K[i, i], K[i, j], K[j, j]) for i, j in ((a, b), (c, d))]
        values.append(full - float(split[0] * split[1]))
    expected = [0.097523738, 0.057803205, 0.017258236, 0.163261301, 0.058041792, 0.112152156]
    np.testing.assert_allclose(values, expected, rtol=0, atol=6e-10)


def test_four_refuses():
    s = [get("tanh")] * 4
    bad = K4.copy()
    bad[0, 1] = bad[1, 0] = 1.0
    with pytest.raises(InvalidInput, match=r"K\[1, 0\] = 1 exceeds"):
        gaussian.average_four(*s, bad)
    bad = equicorrelated(-0.5)
    with pytest.raises(InvalidInput, match=r"negative eigenvalue -0\.5"):
        gaussian.average_four(*s, bad)
    bad = K4.copy()
    bad[2, 3] += 0.1
    with pytest.raises(InvalidInput, match=r"not symmetric: K\[3, 2\] = 0.4, K\[2, 3\] = 0.5"):
        gaussian.average_four(*s, bad)
    with pytest.raises(InvalidInput, match="shape"):
        gaussian.average_four(*s, np.eye(3))
