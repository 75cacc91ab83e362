"""The table of activations: values, derivatives, closed moments, names."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widefield.activations import Activation, get, names, register
from widefield.activations.moments import determinant
from widefield.activations.standard import SYNONYMS
from widefield.base.errors import InvalidInput, UnknownName

PLAIN = [name for name in names() if "(" not in name]
ALL = [*PLAIN, "leaky_relu(0.1)", "scale_invariant(1.5, -0.5)", "monomial(2)", "monomial(3)"]
SMOOTH = [name for name in ALL if not get(name).kinks]
CLOSED = [name for name in ALL if get(name).feature_moment]


def f64(function, *arguments):
    with jax.enable_x64(True):
        return np.asarray(function(*(jnp.asarray(a, dtype=jnp.float64) for a in arguments)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("perceptron", 1.0),
        ("sigmoid", 1 / (1 + math.exp(-0.7))),
        ("tanh", math.tanh(0.7)),
        ("sin", math.sin(0.7)),
        ("cos", math.cos(0.7)),
        ("linear", 0.7),
        ("relu", 0.7),
        ("leaky_relu(0.1)", 0.7),
        ("scale_invariant(1.5, -0.5)", 1.05),
        ("abs", 0.7),
        ("softplus", math.log1p(math.exp(0.7))),
        ("swish", 0.7 / (1 + math.exp(-0.7))),
        ("elu", 0.7),
        ("selu", 1.0507009873554805 * 0.7),
        ("mish", 0.7 * math.tanh(math.log1p(math.exp(0.7)))),
        ("gelu", 0.35 * (1 + math.erf(0.7 / math.sqrt(2)))),
        ("erf", math.erf(0.7)),
        ("monomial(3)", 0.343),
    ],
)
def test_values(name, value):
    assert f64(get(name), 0.7) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("perceptron", 0),
        ("relu", 0),
        ("leaky_relu(0.1)", -0.2),
        ("scale_invariant(1.5, -0.5)", 1.0),
        ("abs", 2),
        ("elu", math.expm1(-2)),
        ("selu", 1.0507009873554805 * 1.6732632423543772 * math.expm1(-2)),
    ],
)
def test_values_below_a_kink(name, below):
    assert f64(get(name), -2.0) == pytest.approx(below, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "taylor"),
    [
        ("tanh", (0, 1, 0, -2, 0, 16)),
        ("sin", (0, 1, 0, -1, 0, 1)),
        ("swish", (0, 1 / 2, 1 / 2, 0, -1 / 2, 0)),
        ("gelu", (0, 1 / 2, 2 / math.sqrt(2 * math.pi), 0, -4 / math.sqrt(2 * math.pi), 0)),
        ("softplus", (math.log(2), 1 / 2, 1 / 4, 0, -1 / 8, 0)),
        ("sigmoid", (1 / 2, 1 / 4, 0, -1 / 8, 0, 1 / 4)),
    ],
)
def test_taylor_data(name, taylor):
    """The table of PDLT section 5.3."""
    assert [float(f64(get(name).derivative(p), 0.0)) for p in range(6)] == pytest.approx(taylor, abs=1e-14)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_derivatives_against_differences(name, order):
    activation, z, h = get(name), np.array([-2.3, -0.6, 0.4, 1.7]), 1e-3
    below = activation.derivative(order - 1)
    offsets, weights = np.array([-3, -2, -1, 1, 2, 3]), np.array([-1, 9, -45, 45, -9, 1]) / 60
    difference = sum(w * f64(below, z + o * h) for o, w in zip(offsets, weights, strict=True)) / h
    np.testing.assert_allclose(f64(activation.derivative(order), z), difference, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_dtype_shape_and_finite_gradients(name):
    activation = get(name)
    z = np.array([[-80.0, -1.0, 0.0], [1e-9, 1.0, 80.0]])
    for order in range(4):
        f = activation.derivative(order)
        single = f(jnp.asarray(z, dtype=jnp.float32))
        assert single.dtype == jnp.float32
        assert single.shape == z.shape
        with jax.enable_x64(True):
            double = f(jnp.asarray(z))
            assert double.dtype == jnp.float64
        assert np.all(np.isfinite(double))
        np.testing.assert_allclose(single, double, rtol=2e-5, atol=2e-6)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.vmap(jax.grad(activation)))(z.ravel())
    np.testing.assert_allclose(gradient, f64(activation.derivative(1), z).ravel(), rtol=1e-14, atol=1e-300)


def test_strict_promotion_and_integers():
    with jax.numpy_dtype_promotion("strict"):
        for name in ALL:
            get(name)(jnp.ones(3))
            get(name).derivative(2)(jnp.ones(3))
    assert get("tanh").derivative(1)(0) == 1.0


@pytest.mark.parametrize("name", [n for n in ALL if get(n).homogeneity is not None])
def test_homogeneity(name):
    activation, z = get(name), np.array([-1.3, 0.2, 4.0])
    scaled = 2.5**activation.homogeneity * f64(activation, z)
    np.testing.assert_allclose(f64(activation, 2.5 * z), scaled, rtol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_jumps_of_the_first_derivative(name):
    activation = get(name)
    assert dict(activation.jumps).keys() <= set(activation.kinks)  # all that there is to say of smooth ones
    for kink in activation.kinks:
        slopes = f64(activation.derivative(1), np.array([kink - 1e-9, kink + 1e-9]))
        assert dict(activation.jumps).get(kink, 0.0) == pytest.approx(slopes[1] - slopes[0], abs=4e-9)


@pytest.mark.parametrize("name", [name for name in ALL if get(name).kinks])
def test_jumps_that_are_not_stated_are_measured(name):
    known = get(name)
    found = Activation("unstated", known.function, kinks=known.kinks)
    assert known.slope_jumps == known.jumps
    np.testing.assert_allclose(found.slope_jumps, known.jumps, rtol=1e-15)


@pytest.mark.parametrize(
    ("function", "kinks", "jumps"),
    [
        (lambda z: jnp.clip(z, -1.0, 1.0), (-1.0, 1.0), ((-1.0, 1.0), (1.0, -1.0))),
        (lambda z: jnp.where(z > 0.3, jnp.tanh(z), 2 * z), (0.3,), ((0.3, -1 - math.tanh(0.3) ** 2),)),
        (lambda z: 100 * jnp.abs(z - 7) + z**2, (7.0,), ((7.0, 200.0),)),
        (lambda z: jnp.where(z > 0, z, jnp.expm1(jnp.minimum(z, 0.0))), (0.0,), ()),  # its second derivative jumps
        (lambda z: jnp.maximum(z, 0.0) ** 2, (0.0,), ()),
        (lambda z: jnp.sign(z) + z, (0.0,), ()),
        (jnp.tanh, (), ()),
    ],
)
def test_measured_jumps(function, kinks, jumps):
    found = Activation("measured", function, kinks=kinks).slope_jumps
    assert [place for place, _ in found] == [place for place, _ in jumps]
    np.testing.assert_allclose(found, jumps, rtol=1e-13)


def test_jumps_that_are_stated_stay():
    hard = Activation("half_stated", lambda z: jnp.clip(z, -1.0, 1.0), kinks=(-1.0, 1.0), jumps=((1.0, -0.5),))
    assert hard.slope_jumps == ((-1.0, 1.0), (1.0, -0.5))
    root = Activation("root", lambda z: jnp.sqrt(jnp.abs(z)), kinks=(0.0,))
    with pytest.raises(InvalidInput, match="slope of the activation 'root' has no limit at its kink z = 0"):
        assert root.slope_jumps
    with pytest.raises(InvalidInput, match=r"jumps: there is one at z = 2, which is not among kinks = \(1,\)"):
        register("stray", jnp.abs, kinks=(1,), jumps=((2, 1),))


def test_universality_classes():
    classes = {
        "scale-invariant": ["linear", "relu", "leaky_relu(0.3)", "abs", "monomial(1)"],
        "zero-kernel": ["tanh", "sin", "erf"],
        "half-stable": ["swish", "gelu"],
        "none": ["perceptron", "sigmoid", "softplus", "cos", "monomial(2)"],
    }
    for label, members in classes.items():
        assert {get(name).universality_class for name in members} == {label}


# Closed moments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "feature", "slope"),
    [
        ("gelu", 0.188060676735, 0.324817221804),
        ("sin", 0.151107336076, 0.397704300018),
        ("cos", 0.397704300018, 0.151107336076),
        ("leaky_relu(0.3)", 0.250035264844, 0.456243687888),
        ("perceptron", 0.318864669159, None),
    ],
)
def test_two_input_oracles(name, feature, slope):
    """Reference values."""
    activation = get(name)
    assert activation.feature_moment(1.3, 0.4, 0.7) == pytest.approx(feature, abs=6e-13)
    if slope is not None:
        assert activation.slope_moment(1.3, 0.4, 0.7) == pytest.approx(slope, abs=6e-13)


@pytest.mark.parametrize("name", CLOSED)
@given(k11=st.floats(1e-6, 50), k22=st.floats(1e-6, 50), c=st.floats(-1, 1))
def test_symmetry_and_cauchy_schwarz(name, k11, k22, c):
    activation, k12 = get(name), c * math.sqrt(k11 * k22)
    value = activation.feature_moment(k11, k12, k22)
    bound = math.sqrt(activation.square(k11) * activation.square(k22))
    assert value == pytest.approx(activation.feature_moment(k22, k12, k11), rel=1e-12, abs=1e-14 * bound)
    assert abs(value) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("name", CLOSED)
@given(k11=st.floats(0.1, 5), k22=st.floats(0.1, 5), c=st.floats(-0.9, 0.9))
def test_price_theorem(name, k11, k22, c):
    """d<s s>/dk12 = <s' s'>, PDLT after eq. (4.112)."""
    activation, k12, h = get(name), c * math.sqrt(k11 * k22), 1e-3 * math.sqrt(k11 * k22)
    at = [activation.feature_moment(k11, k12 + n * h, k22) for n in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    size = math.sqrt(activation.square(k11) * activation.square(k22)) / h
    assert activation.slope_moment(k11, k12, k22) == pytest.approx(slope, rel=1e-7, abs=1e-14 * size)


@pytest.mark.parametrize("name", CLOSED)
def test_moments_work_in_jax_and_keep_the_dtype(name):
    activation = get(name)
    entries = [np.array(v) for v in ([1.3, 1.0, 2.0], [0.4, -0.2, 1.0], [0.7, 1.0, 0.9])]
    for moment in (activation.feature_moment, activation.slope_moment):
        expected = np.asarray(moment(*entries))
        np.testing.assert_allclose(f64(jax.jit(moment), *entries), expected, rtol=1e-13)
        for single in ([np.float32(e) for e in entries], [jnp.float32(e) for e in entries]):
            assert moment(*single).dtype == np.float32
            np.testing.assert_allclose(moment(*single), expected, rtol=1e-5)
    if activation.fourth is not None:
        np.testing.assert_allclose(f64(activation.fourth, entries[0]), activation.fourth(entries[0]), rtol=1e-14)


@pytest.mark.parametrize("name", [n for n in CLOSED if n != "perceptron"])
def test_gradient_on_the_diagonal_is_the_slope(name):
    activation = get(name)
    with jax.enable_x64(True):
        for c in (1.0, 0.0, -1.0):
            slope = jax.grad(activation.feature_moment, 1)(2.0, 2.0 * c, 2.0)
            assert slope == pytest.approx(activation.slope_moment(2.0, 2.0 * c, 2.0), rel=1e-13, abs=1e-14)
        everything = jax.grad(lambda k: activation.feature_moment(*k))(jnp.zeros(3))
    assert np.all(np.isfinite(everything))


@pytest.mark.parametrize("name", CLOSED)
def test_moments_at_the_edges(name):
    """Zero variance, equal samples, and correlations just above 1 through rounding."""
    activation = get(name)
    k = np.array([1e-12, 1e-3, 1.0, 1e4])
    for sign in (1, -1):
        edge = activation.feature_moment(k, sign * k, k)
        assert np.all(np.isfinite(edge))
        np.testing.assert_allclose(activation.feature_moment(k, sign * k * (1 + 3e-16), k), edge, rtol=1e-10)
    np.testing.assert_allclose(activation.feature_moment(k, k, k), activation.square(k), rtol=1e-15)
    if activation.homogeneity != 0:
        at_zero = float(f64(activation, 0.0)) ** 2
        assert activation.feature_moment(0.0, 0.0, 0.0) == pytest.approx(at_zero, abs=1e-15)
        assert activation.square(0.0) == pytest.approx(at_zero, abs=1e-15)
    assert np.isfinite(activation.feature_moment(0.0, 0.0, 1.0))


def test_slopes_of_a_vanishing_sample():
    relu = get("relu")
    assert relu.slope_moment(0.0, 0.0, 0.0) == 0.5
    assert relu.slope_moment(0.0, 0.0, 2.0) == 0.25
    assert get("perceptron").slope_moment(1.0, 1.0, 1.0) == math.inf


@pytest.mark.parametrize(("k11", "k22"), [(1.0, 1.0), (2.0, 0.5), (3.0, 1 / 3)])
@pytest.mark.parametrize("bits", [20, 30, 40, 50])
def test_nearly_parallel_samples_keep_all_digits(k11, k22, bits):
    """sin^2 psi in exact fractions; the plain determinant, or acos, keeps only half of the digits."""
    k12 = 1 - 2.0**-bits
    product = Fraction(k11) * Fraction(k22)
    psi = math.asin(math.sqrt((product - Fraction(k12) ** 2) / product))
    assert get("relu").slope_moment(k11, k12, k22) == pytest.approx(0.5 - psi / (2 * math.pi), rel=1e-15)
    angle = math.pi * (1 - 2 * get("perceptron").feature_moment(k11, k12, k22))
    assert angle == pytest.approx(psi, abs=1e-15)
    assert get("relu").slope_moment(k11, -k12, k22) == pytest.approx(psi / (2 * math.pi), rel=1e-14)


def test_opposite_samples_keep_all_digits():
    """<relu relu> = (sin chi - chi cos chi)/2 pi ~ chi^3/(6 pi) at small chi."""
    delta = np.array([2.0**-30, 2.0**-20, 2.0**-10])
    chi = 2 * np.arcsin(np.sqrt(delta / 2))
    series = chi**3 / 3 - chi**5 / 30 + chi**7 / 840 - chi**9 / 45360
    np.testing.assert_allclose(get("relu").feature_moment(1.0, delta - 1, 1.0), series / (2 * np.pi), rtol=1e-14)


@given(k11=st.integers(1, 2**26), k22=st.integers(1, 2**26), k12=st.integers(-(2**26), 2**26))
def test_determinant_is_exact(k11, k22, k12):
    assert determinant(float(k11), float(k12), float(k22)) == max(k11 * k22 - k12**2, 0)


def test_wick():
    """Reference values, K = [[2, 1], [1, 3]]."""
    assert get("monomial(2)").feature_moment(2.0, 1.0, 3.0) == 8.0
    assert get("monomial(3)").feature_moment(2.0, 1.0, 3.0) == 60.0
    assert get("monomial(3)").square(2.0) == 120.0
    assert get("monomial(2)").fourth(2.0) == 105 * 16
    assert get("monomial(2)").slope_square(2.0) == 8.0


# Names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_name_identifies(name):
    activation = get(name)
    assert get(activation.name) is activation
    assert get(activation) is activation
    assert activation == get(name)
    assert hash(activation) == hash(get(name))
    assert pickle.loads(pickle.dumps(activation)) is activation


@pytest.mark.parametrize(("word", "name"), SYNONYMS.items())
def test_synonyms(word, name):
    listed = "(0.1)" if name == "leaky_relu" else ""
    assert get(word.upper() + listed) is get(name + listed)
    assert word not in names()
    with pytest.raises(InvalidInput, match="exists already"):
        register(word, lambda z: z)


def test_spelling():
    assert get("ReLU") is get("relu")
    assert get("Leaky-ReLU( 0.10 )") is get("leaky_relu(0.1)")
    assert get("scale invariant(1.4142135623730951,0)").name == "scale_invariant(1.4142135623730951, 0)"
    assert get("monomial(3.0)").name == "monomial(3)"
    assert get("leaky_relu(0.1)") != get("leaky_relu(0.2)")
    assert get("relu") != "relu"


@pytest.mark.parametrize(
    ("name", "hint"), [("rleu", "relu"), ("tahn", "tanh"), ("leaky_rleu(0.1)", "leaky_relu"), ("relu(1)", "relu")]
)
def test_unknown_names_suggest(name, hint):
    with pytest.raises(UnknownName, match=f"unknown activation .*did you mean '{hint}"):
        get(name)


@pytest.mark.parametrize("name", [None, 3, "", "()", "relu)"])
def test_nonsense_names(name):
    with pytest.raises(UnknownName):
        get(name)


@pytest.mark.parametrize(
    "name",
    [
        "leaky_relu",
        "leaky_relu()",
        "leaky_relu(a)",
        "leaky_relu(nan)",
        "leaky_relu(1, 2)",
        "monomial(0)",
        "monomial(2.5)",
        "monomial(-1)",
        "scale_invariant(1)",
        "scale_invariant(0, 0)",
    ],
)
def test_bad_parameters(name):
    with pytest.raises(InvalidInput):
        get(name)


def test_register():
    def bent(z):
        return jnp.where(z > 1, 2 * z - 1, z)

    activation = register("My-Bent", bent, kinks=(1,), jumps=((1, 1),))
    assert activation.name == "my_bent"
    assert get("my_bent") is activation
    assert "my_bent" in names()
    assert activation.universality_class == "unknown"
    assert activation.square is None
    assert activation.derivative(1)(jnp.float32(2.0)) == 2.0
    again = register("my_bent", bent, kinks=(1,), jumps=((1, 1),))
    assert again == activation
    with pytest.raises(InvalidInput, match="exists"):
        register("my_bent", jnp.tanh)
    other = register("my_bent", jnp.tanh, overwrite=True)
    assert other != activation
    with pytest.raises(InvalidInput, match="exists"):
        register("relu", jnp.tanh)
    with pytest.raises(InvalidInput, match="exists"):
        register("monomial", jnp.tanh, overwrite=True)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda z: jnp.sum(z), "not elementwise"),
        (lambda z: z - jnp.mean(z), "neighbours"),
        (lambda z: jnp.log(z), "not finite at z = -3"),
        (lambda z: math.tanh(z), "traced"),
    ],
)
def test_register_refuses(function, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        register("refused", function)
    with pytest.raises(UnknownName):
        get("refused")


def test_register_checks_names_and_classes():
    with pytest.raises(InvalidInput, match="name"):
        register("bad(name)", jnp.tanh)
    with pytest.raises(InvalidInput, match="class"):
        register("classless", jnp.tanh, universality_class="half-stabel")
    with pytest.raises(InvalidInput):
        get("tanh").derivative(-1)


def test_activations_are_static_arguments():
    apply = jax.jit(lambda activation, z: activation(z), static_argnums=0)
    assert apply(get("relu"), -1.0) == 0.0
    assert isinstance(get("relu"), Activation)
