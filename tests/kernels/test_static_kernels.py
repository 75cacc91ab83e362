"""Static kernels against published values, slow independent recursions, real networks, and what must hold for all."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import integrate, special

import widefield as wf
from widefield import gaussian
from widefield.activations import get, names, register
from widefield.base.errors import InvalidInput
from widefield.kernels import StaticKernel
from widefield.problem.network import MLP

NORMALISED = "scale_invariant(1.4142135623730951, 0)"
INPUTS = np.array([[1, 0.5, -0.4], [-0.2, 0.9, 0.7], [0.5, 0.6, 0.3], [0.9, -0.8, 0.1]])
VARIANCES = {"weight_variances": (1.3, 0.7, 1.1), "bias_variances": (0.2, 0.05, 0.3)}
RATES = {"weight_rates": (0.8, 1.2, 0.7), "bias_rates": (0.7, 0.0, 0.9)}

for name, function, kinks in [
    ("test_odd_mixture", lambda z: jnp.tanh(z) + 0.5 * jnp.tanh(z) ** 2, ()),
    ("test_elu", lambda z: jnp.where(z > 0, z, jnp.expm1(jnp.minimum(z, 0.0))), (0.0,)),
    ("test_steep_half", lambda z: jnp.where(z > 0, jnp.tanh(40 * z), 0.0), (0.0,)),
    ("test_hard_tanh", lambda z: jnp.clip(z, -1.0, 1.0), (-1.0, 1.0)),
    ("test_steep", lambda z: jnp.tanh(40 * z), ()),
]:
    register(name, function, kinks=kinks, overwrite=True)


def network(activation="relu", layers=2, weights=1.0, biases=0.0):
    return MLP(hidden_layers=layers, activation=activation, weight_variances=weights, bias_variances=biases)


def gram(*rows):
    """Inputs x with x x^T / D equal to the given matrix."""
    matrix = np.array(rows)
    return np.linalg.cholesky(len(matrix) * matrix)


def angle(kernel):
    """Between the first two samples."""
    return math.acos(kernel[0, 1] / math.sqrt(kernel[0, 0] * kernel[1, 1]))


# Published values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "weights", "nngp", "ntk"),
    [
        (
            "relu",
            2.0,
            "1.24 1.1933333333 .7666666667 1.2733333333 .7188661673 .8134585184 .8632808481 .7949790579 .5853757219 "
            ".6110277440",
            "2.28 2.245 1.925 2.305 1.1964934029 1.5551986393 1.3872140724 1.5385470666 .9962731715 1.1769336309",
        ),
        ("tanh", 1.0, ".3368375871 .3341576831 - - .1851563652 - - - - .1946684977", "1.2958695025 - - - .9984183970 "
         "- - - - 1.0424853151"),
        ("sin", 1.0, "- - - - - - - - - -", "1.4633725150 - - - 1.0789188539 - - - - 1.1351455573"),
    ],
)  # fmt: skip
def test_four_inputs(activation, weights, nngp, ntk):
    """Reference values: entries 11, 22, 33, 44, 12, 13, 14, 23, 24, 34."""
    found = StaticKernel(network(activation, 2, weights, 0.1), weight_rates=0.5, bias_rates=0.5)(INPUTS)
    rows, columns = np.triu_indices(4, 1)
    for kernel, listed in ((found.nngp, nngp), (found.ntk, ntk)):
        entries = np.concatenate([np.diag(kernel), kernel[rows, columns]])
        for entry, expected in zip(entries, listed.split(), strict=True):
            assert expected == "-" or entry == pytest.approx(float(expected), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize(
    ("layers", "psi", "cosine", "tolerance"),
    [
        (2, 0.9159999080, 0.6522494453, 1e-9),
        (3, 0.8176936755, 0.5886988639, 1e-9),
        (5, 0.6778941501, 0.5104292267, 1e-9),
        (10, 0.4820778985, 0.4200014882, 1e-9),
        (100, 0.0838063741, 0.2788444589, 1e-9),
        pytest.param(1000, 0.0092780, 0.2538167, 6e-8, marks=pytest.mark.slow),
    ],
)
def test_finite_angle(layers, psi, cosine, tolerance):
    """Reference values; the diagonal of the tangent kernel is l (1 + |x|^2/D) exactly."""
    x = gram([1, 0.5], [0.5, 1])
    # |x|^2/D = 1 in the kernel of the first layer, where the weights' variance is 2 as everywhere.
    found = StaticKernel(network("relu", layers - 1, 2.0), weight_rates=1.0, bias_rates=1.0)(x)
    assert angle(found.nngp) == pytest.approx(psi, abs=tolerance)
    assert found.ntk[0, 1] / found.ntk[0, 0] == pytest.approx(cosine, abs=tolerance)
    np.testing.assert_allclose(np.diag(found.ntk), 2 * layers, rtol=1e-12)


@pytest.mark.parametrize("layers", [1, 4, 30])
def test_linear_networks_keep_angles(layers):
    """Reference values."""
    found = StaticKernel(network("linear", layers), bias_rates=1.0)(gram([1, 0.5], [0.5, 1]))
    assert found.ntk[0, 1] / found.ntk[0, 0] == pytest.approx(0.75, rel=1e-14)


def displaced(direction, delta):
    middle, step = np.array([1, 0.6, -0.3]), np.array(direction)
    step = delta * step / np.linalg.norm(step)
    return np.stack([middle + step / 2, middle - step / 2])


def critical_tanh(layers):
    rates = tuple(1 / layer for layer in range(1, layers + 1))
    return StaticKernel(network("tanh", layers - 1), weight_rates=1.0, bias_rates=rates)


@pytest.mark.parametrize(
    ("delta", "robustness", "variance"), [(0.1, -0.00200038316, 5.510580619e-4), (0.05, -5.0122034e-4, None)]
)
def test_nearby_inputs(delta, robustness, variance):
    """Reference values: a training and a test input that are close to each other."""
    found = critical_tanh(8)(displaced([0.6, -1, 0], delta))
    ratio = found.ntk[1, 0] / found.ntk[0, 0]
    assert ratio - 1 == pytest.approx(robustness, abs=1e-11)
    if variance is not None:
        k = found.nngp
        assert k[1, 1] - 2 * ratio * k[0, 1] + ratio**2 * k[0, 0] == pytest.approx(variance, rel=1e-9)


def test_expansion_in_a_small_displacement():
    """Reference values: sums and differences of kernels, extrapolated from two displacements."""
    single = critical_tanh(8)(displaced([0.6, -1, 0], 0.0)[:1])
    assert single.nngp[0, 0] == pytest.approx(0.06768104, abs=6e-9)
    assert single.ntk[0, 0] == pytest.approx(1.63531867, abs=6e-9)

    def extrapolated(coefficient):
        coarse, fine = (coefficient(delta) for delta in (0.04, 0.02))
        return (4 * fine - coarse) / 3

    def even(kernel, sign, at_rest):
        def coefficient(delta):
            k = getattr(critical_tanh(8)(displaced([0.6, -1, 0], delta)), kernel)
            return ((k[0, 0] + k[1, 1] + sign * 2 * k[0, 1]) / 4 - at_rest) / delta**2

        return extrapolated(coefficient)

    def odd(kernel):
        def coefficient(delta):
            k = getattr(critical_tanh(6)(displaced([0.8, 0.5, 0.3], delta)), kernel)
            return (k[0, 0] - k[1, 1]) / 2 / delta

        return extrapolated(coefficient)

    assert even("nngp", -1, 0.0) == pytest.approx(0.01382763, abs=1e-7)
    assert even("ntk", -1, 0.0) == pytest.approx(0.16405402, abs=1e-6)
    assert even("nngp", 1, single.nngp[0, 0]) == pytest.approx(-0.01186944, abs=1e-7)
    assert even("ntk", 1, single.ntk[0, 0]) == pytest.approx(-0.18441432, abs=1e-6)
    assert odd("nngp") == pytest.approx(0.0142217592, abs=1e-7)
    assert odd("ntk") == pytest.approx(-0.0707453927, abs=1e-7)


@pytest.mark.parametrize(("activation", "ratio"), [("tanh", 2.0043), ("sin", 1.556)])
def test_robustness_of_deep_networks(activation, ratio):
    """Reference values: rates 1 in every layer, equal norms."""
    angle = 1e-3
    x = math.sqrt(2) * np.array([[1, 0], [math.cos(angle), math.sin(angle)]])
    found = StaticKernel(network(activation, 99), bias_rates=1.0)(x)
    second = [(k[0, 0] + k[1, 1] - 2 * k[0, 1]) / 4 for k in (found.ntk, found.nngp)]
    assert second[0] / (100 * second[1]) == pytest.approx(ratio, abs=6e-4)


@pytest.mark.parametrize("layers", [1, 5, 50])
def test_sine_keeps_its_tangent_kernel(layers):
    """Reference values."""
    found = StaticKernel(network("sin", layers))(math.sqrt(2) * np.array([[1.0, 0.0]]))
    assert found.ntk[0, 0] == pytest.approx(1.0, rel=1e-14 * layers)
    if layers == 1:
        assert found.nngp[0, 0] == pytest.approx(0.4323323584, abs=1e-10)


@pytest.mark.parametrize(
    ("activation", "feature", "slope"),
    [
        ("gelu", 0.188060676735, 0.324817221804),
        ("sin", 0.151107336076, 0.397704300018),
        ("leaky_relu(0.3)", 0.250035264844, 0.456243687888),
        ("perceptron", 0.318864669159, None),
    ],
)
def test_two_inputs(activation, feature, slope):
    """Reference values."""
    x = gram([1.3, 0.4], [0.4, 0.7])
    found = StaticKernel(network(activation, 1), rule=wf.DirectFeedbackAlignment()).layers(x)
    assert found.feature[0, 0, 1] == pytest.approx(feature, abs=1e-11)
    if slope is not None:
        assert found.slope[0, 0, 1] == pytest.approx(slope, abs=1e-11)


@pytest.mark.parametrize(
    ("activation", "kernels"),
    [
        ("tanh", {2: 0.394294490398, 3: 0.236450410499, 4: 0.166656353802, 5: 0.127904735299, 10: 0.0580118478402,
                  100: 0.00512071566599}),
        pytest.param("sin", {2: 0.432332358382, 3: 0.289403626088, 10: 0.0921811387302, 1000: 0.000997643527276},
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_depth(activation, kernels):
    """Reference values."""
    found = StaticKernel(network(activation, max(kernels) - 1)).layers(np.ones((1, 1))).feature[:, 0, 0]
    for layer, expected in kernels.items():
        assert found[layer - 2] == pytest.approx(expected, rel=1e-10)


def test_two_inputs_and_two_layers():
    """Reference values."""
    found = StaticKernel(network("tanh", 2)).layers(gram([1, 0.6], [0.6, 1.5])).feature
    expected = [(0.394294490398, 0.196571605627, 0.468288210531), (0.236450410499, 0.111269614827, 0.263137202852)]
    for kernel, (first, both, second) in zip(found, expected, strict=True):
        np.testing.assert_allclose(kernel, [[first, both], [both, second]], atol=1e-11)


@pytest.mark.parametrize(
    ("start", "angles"),
    [
        (math.pi, {2: math.pi / 2, 3: 1.2468502199, 4: 1.0544212640, 5: 0.9212493238}),
        (math.pi / 2, {10: 0.5456131971, 100: 0.0853822318}),
        pytest.param(math.pi / 2, {1000: 0.0092968059}, marks=pytest.mark.slow),
        (0.1, {10: 0.0911547818, 100: 0.0484885823}),
    ],
)
def test_relu_angles(start, angles):
    """Reference values, "ReLU angle"."""
    found = StaticKernel(network(NORMALISED, max(angles) - 1)).by_angle([start, 0.0]).feature_kernel.values
    for layer, expected in angles.items():
        assert math.acos(found[layer - 2, 0] / found[layer - 2, 1]) == pytest.approx(expected, abs=1e-9)


ANGLE_KERNELS = {
    0.0: ["1 .755409 .318310 0", "1 .792174 .493731 .318310", "1 .820913 .604826 .493731"],
    0.5: ["1.5 1.020574 .318310 0", "1.75 1.186402 .589720 .318310", "1.875 1.290165 .800721 .589720"],
    1.0: ["2 1.285739 .318310 0", "3 1.785487 .685709 .318310", "4 2.233324 1.060388 .685709",
          "5 2.645120 1.430390 1.060388"],
}  # fmt: skip


@pytest.mark.parametrize("rho", ANGLE_KERNELS)
def test_angle_kernels(rho):
    """Reference values, "Lazy angle kernels"; normalised ReLU."""
    rules = [wf.FeedbackAlignment(rho)] + [wf.GradientDescent()] * (rho == 1)
    rules += [wf.DirectFeedbackAlignment(), wf.Hebb()] * (rho == 0)
    for layers, listed in enumerate(ANGLE_KERNELS[rho], start=1):
        for rule in rules:
            found = StaticKernel(network(NORMALISED, layers), rule).by_angle([0, math.pi / 4, math.pi / 2, math.pi])
            np.testing.assert_allclose(found.ntk, [float(v) for v in listed.split()], atol=6e-7)


@pytest.mark.parametrize(("layers", "expected"), [(1, 0.530330), (2, 0.397748), (3, 0.298311), (4, 0.223733)])
def test_gated_angle_kernels(layers, expected):
    """Reference values, "GLN/(L+1)"."""
    found = StaticKernel(network(NORMALISED, layers), wf.GatedLinear()).by_angle([math.pi / 4, 0.0])
    assert found.ntk.values[0] / (layers + 1) == pytest.approx(expected, abs=6e-7)
    assert found.ntk.values[1] == pytest.approx(layers + 1, rel=1e-14)


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_linear_networks(rho):
    """Reference values, f(1): K^x times the sum of rho^k, and L + 1 for gradient descent."""
    x, factor = gram([1, 0.5], [0.5, 1]), sum(rho**k for k in range(4))
    found = StaticKernel(network("linear", 3), wf.FeedbackAlignment(rho))(x).ntk
    np.testing.assert_allclose(found, factor * np.array([[1, 0.5], [0.5, 1]]), rtol=1e-14)


# Independent recursions ----------------------------------------------------------------------------------


def pairs(activation, order, kernel):
    """<f f> of all pairs by integrals in two dimensions."""
    f, variances = get(activation).derivative(order), np.diag(kernel)
    return gaussian.average_product(
        f, f, variances[:, None], kernel, variances[None, :], kinks=get(activation).kinks
    )  # fmt: skip


def recursion(given, x, moments=pairs, rho=1.0, weight_rates=(1.0,) * 9, bias_rates=(0.0,) * 9, tangent=True):
    """NNGP and NTK, written out."""
    weights, biases = (np.array(scales) ** 2 for scales in (given.weight_scales, given.bias_scales))
    k0 = x @ x.T / x.shape[1]
    k, t = weights[0] * k0 + biases[0], weight_rates[0] * k0 + bias_rates[0]
    for layer in range(1, given.hidden_layers + 1):
        feature = moments(given.activation, 0, k)
        if tangent:
            slope = moments(given.activation, 1, k)
            t = weight_rates[layer] * feature + bias_rates[layer] + rho * weights[layer] * slope * t
        k = weights[layer] * feature + biases[layer]
    return k, t


def examples():
    values = {"leaky_relu(a)": "leaky_relu(-0.3)", "monomial(p)": "monomial(3)",
              "scale_invariant(a_plus, a_minus)": "scale_invariant(1.5, -0.5)"}  # fmt: skip
    listed = [n for n in names() if not n.startswith("test_")]
    return [values.get(n, n) for n in listed] + ["test_odd_mixture", "test_elu"]


@pytest.mark.parametrize("activation", examples())
def test_every_activation(activation):
    """Biases, unequal variances and rates, one duplicate pair of samples and one opposite pair."""
    given = network(activation, 2, *VARIANCES.values())
    x = np.concatenate([INPUTS[:2], -INPUTS[1:2], INPUTS[:1]])
    if activation == "perceptron":
        nngp = recursion(given, INPUTS, tangent=False)[0]
        for kernel in (StaticKernel(given, wf.Hebb()), StaticKernel(given, weight_rates=(0.0, 0.0, 1.1))):
            np.testing.assert_allclose(kernel(INPUTS).nngp, nngp, rtol=1e-12)
        with pytest.raises(InvalidInput, match=r"perceptron.*no neural tangent kernel"):
            StaticKernel(given)(INPUTS)
        return
    nngp, ntk = recursion(given, x, **RATES)
    found = StaticKernel(given, **RATES)(x)
    scale = [np.sqrt(np.multiply.outer(np.diag(k), np.diag(k))) for k in (nngp, ntk)]
    np.testing.assert_allclose(found.nngp / scale[0], nngp / scale[0], atol=2e-12)
    np.testing.assert_allclose(found.ntk / scale[1], ntk / scale[1], atol=3e-8 if get(activation).kinks else 2e-12)
    if get(activation).kinks:  # of the duplicates, where our reference sees an angle of 1e-8, we know better
        np.testing.assert_allclose(found.ntk[:, 3], found.ntk[:, 0], rtol=1e-12)


def steep_pairs(activation, order, kernel):
    """The trapezoidal rule in two dimensions."""
    step = 0.005
    grid = np.arange(-8, 8, step)
    weight = step * np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi)

    def f(z):
        return np.tanh(40 * z) if order == 0 else 40 / np.cosh(np.clip(40 * z, -300, 300)) ** 2

    k11, k12, k22 = kernel[0, 0], kernel[0, 1], kernel[1, 1]
    rest = math.sqrt(k22 - k12**2 / k11)
    second = f(k12 / math.sqrt(k11) * grid[:, None] + rest * grid[None, :]) @ weight
    diagonal = [f(math.sqrt(k) * grid) ** 2 @ weight for k in (k11, k22)]
    both = (weight * f(math.sqrt(k11) * grid)) @ second
    return np.array([[diagonal[0], both], [both, diagonal[1]]])


def hard_pairs(activation, order, kernel):
    """One integral done by hand, the other by scipy."""
    density = lambda z, k: math.exp(-0.5 * z * z / k) / math.sqrt(2 * math.pi * k)  # noqa: E731

    def outer(f, k):
        edges = [-14 * math.sqrt(k), -1.0, 1.0, 14 * math.sqrt(k)]
        parts = itertools.pairwise(edges)
        pieces = [integrate.quad(lambda z: f(z) * density(z, k), a, b, epsabs=1e-14, epsrel=1e-13) for a, b in parts]
        return sum(piece[0] for piece in pieces)

    def inner(mean, width):
        if order == 1:
            return special.ndtr((1 - mean) / width) - special.ndtr((-1 - mean) / width)

        def above(a):
            return (mean - a) * special.ndtr((mean - a) / width) + width**2 * density(mean - a, width**2)

        return -1 + above(-1) - above(1)

    def f(z):
        return float(np.clip(z, -1, 1)) if order == 0 else float(abs(z) < 1)

    k11, k12, k22 = kernel[0, 0], kernel[0, 1], kernel[1, 1]
    width = math.sqrt(k22 - k12**2 / k11)
    both = outer(lambda z: f(z) * inner(k12 / k11 * z, width), k11)
    return np.array([[outer(lambda z: f(z) ** 2, k11), both], [both, outer(lambda z: f(z) ** 2, k22)]])


@pytest.mark.parametrize(("activation", "moments"), [("test_steep", steep_pairs), ("test_hard_tanh", hard_pairs)])
def test_difficult_activations(activation, moments):
    given = network(activation, 2, *VARIANCES.values())
    nngp, ntk = recursion(given, INPUTS[:2], moments, **RATES)
    found = StaticKernel(given, **RATES)(INPUTS[:2])
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-11)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-11)


def test_steep_beside_a_kink():
    """<s^2> = <tanh(40 z)^2> / 2 and so on, whose reference has no kink."""
    found = StaticKernel(network("test_steep_half", 1)).layers(INPUTS[:1])
    kernel = np.array([[INPUTS[0] @ INPUTS[0] / 3, 0.0], [0.0, 1.0]])
    assert found.feature[0, 0, 0] == pytest.approx(steep_pairs("", 0, kernel)[0, 0] / 2, rel=1e-12)
    assert found.slope[0, 0, 0] == pytest.approx(steep_pairs("", 1, kernel)[0, 0] / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("rule", "rho"),
    [
        (wf.FeedbackAlignment(0.0), 0.0),
        (wf.FeedbackAlignment(0.5), 0.5),
        (wf.FeedbackAlignment(1.0), 1.0),
        (wf.GradientDescent(), 1.0),
        (wf.DirectFeedbackAlignment(), 0.0),
        (wf.Hebb(), 0.0),
    ],
)
def test_rules(rule, rho):
    given = network("gelu", 2, *VARIANCES.values())
    nngp, ntk = recursion(given, INPUTS, lambda s, order, k: closed(s, order, k), rho=rho, **RATES)
    found = StaticKernel(given, rule, **RATES)(INPUTS)
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-12)


def closed(activation, order, kernel):
    moment = (gaussian.feature_kernel, gaussian.slope_kernel)[order]
    return moment(activation, np.diag(kernel)[:, None], kernel, np.diag(kernel)[None, :])


@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_gates(activation):
    """Gates see the inputs, without variances or biases."""
    given, k0 = network(activation, 2, *VARIANCES.values()), INPUTS @ INPUTS.T / 3
    gate = closed(activation, 1, k0)
    nngp, ntk = recursion(given, INPUTS, lambda s, order, k: gate * k if order == 0 else gate, **RATES)
    found = StaticKernel(given, wf.GatedLinear(), **RATES)(INPUTS)
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-11)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-11)


def test_layers_add_up_to_the_tangent_kernel():
    """NTK = sum_l G~^{l+1} Phi^l, docs/conventions.md."""
    given = network("swish", 3, (1.3, 0.7, 1.1, 0.8), (0.2, 0.05, 0.3, 0.1))
    for rule in (wf.GradientDescent(), wf.FeedbackAlignment(0.5), wf.GatedLinear(), wf.Hebb()):
        kernel = StaticKernel(given, rule, bias_rates=1.0)
        layers, both = kernel.layers(INPUTS), kernel(INPUTS)
        signal = [*layers.alignment, np.ones((4, 4))]
        features = [INPUTS @ INPUTS.T / 3, *layers.feature]
        total = sum(g * (phi + 1) for g, phi in zip(signal, features, strict=True))
        np.testing.assert_allclose(total, both.ntk, rtol=1e-12)
        np.testing.assert_allclose(layers.ntk, both.ntk, rtol=1e-12)
        np.testing.assert_allclose(layers.nngp, both.nngp, rtol=1e-12)


# Real networks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "activation"),
    [
        (wf.FeedbackAlignment(0.5), "gelu"),
        pytest.param(wf.GradientDescent(), "tanh", marks=pytest.mark.slow),
        pytest.param(wf.GradientDescent(), "relu", marks=pytest.mark.slow),
        pytest.param(wf.FeedbackAlignment(0.0), "relu", marks=pytest.mark.slow),
        pytest.param(wf.DirectFeedbackAlignment(), "tanh", marks=pytest.mark.slow),
        pytest.param(wf.Hebb(), "tanh", marks=pytest.mark.slow),
        pytest.param(wf.GatedLinear(), "relu", marks=pytest.mark.slow),
        pytest.param(wf.GatedLinear(), "swish", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_real_networks(rule, activation):
    given = MLP(hidden_layers=2, activation=activation, train_biases=True, **VARIANCES)
    data = wf.data.Data(INPUTS[:3], [1.0, -1.0, 0.5])
    problem = wf.Problem(
        network=given, data=data, rule=rule, optimiser=wf.SGD(0.01, 1), record=wf.Record(neurons=0)
    )  # fmt: skip
    measured = wf.solve(problem, wf.FiniteWidth(768, seeds=8, parallel=1)).data.ntk.isel(time=0).values
    expected = StaticKernel(given, rule)(INPUTS[:3]).ntk
    error = measured.std(axis=0, ddof=1) / math.sqrt(len(measured))
    assert np.all(np.abs(measured.mean(axis=0) - expected) < 4 * error + 0.02 * np.abs(expected).max())


# Extreme inputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "erf", "tanh", "test_elu"])
@pytest.mark.parametrize("scale", [1e-6, 100.0])
def test_norms(activation, scale):
    given = network(activation, 1, 1.3, 0.0)
    x = scale * INPUTS
    nngp, ntk = recursion(given, x)
    found = StaticKernel(given)(x)
    np.testing.assert_allclose(found.nngp, nngp, rtol=0, atol=1e-11 * np.diag(nngp).max())
    np.testing.assert_allclose(found.ntk, ntk, rtol=0, atol=3e-8 * np.diag(ntk).max())


@pytest.mark.parametrize("activation", ["relu", "gelu", "erf", "tanh", "sigmoid", "test_elu", "test_hard_tanh"])
def test_zero_input(activation):
    """Without biases it has zero variance: f(0) f(z), and the derivative at zero."""
    x = np.array([[0.0, 0.0], [1.0, 0.5]])
    found = StaticKernel(network(activation, 1)).layers(x)
    s, slope = get(activation), get(activation).derivative(1)
    with jax.enable_x64(True):
        at_rest = float(s(jnp.asarray(0.0)))
        at_rest_slope = float(slope(jnp.asarray(0.0)))
    mean = float(gaussian.average(s, x[1] @ x[1] / 2, kinks=s.kinks))
    assert found.feature[0, 0, 0] == pytest.approx(at_rest**2, abs=1e-14)
    assert found.feature[0, 0, 1] == pytest.approx(at_rest * mean, abs=1e-14)
    assert np.all(np.isfinite(found.ntk))
    if not s.kinks or activation == "test_hard_tanh":
        assert found.slope[0, 0, 0] == pytest.approx(at_rest_slope**2, rel=1e-14)


@pytest.mark.parametrize("activation", ["relu", "abs", "gelu", "leaky_relu(0.1)"])
@pytest.mark.parametrize("layers", [1, 4])
def test_duplicates_and_opposites(activation, layers):
    """Duplicates are exactly as alike as a sample and itself, wherever they stand."""
    x = np.random.default_rng(0).normal(size=(4, 37)) * np.array([1, 1, 3, 0.2])[:, None]
    x = np.concatenate([x, x[::-1], -x])
    kernel = StaticKernel(network(activation, layers, 1.7, 0.0))
    square, apart = kernel(x), kernel(x, x)
    for found in (square.nngp, square.ntk):
        np.testing.assert_allclose(found[:4, 4:8], found[:4, :4][:, ::-1], rtol=1e-12)
    for found, expected in ((apart.nngp, square.nngp), (apart.ntk, square.ntk)):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    if activation == "relu" and layers == 1:
        np.testing.assert_allclose(np.diag(square.ntk[:4, 8:]), 0.0, atol=1e-14)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.1)"])
def test_diagonal_is_exact(activation):
    """Rounding of a covariance by 1e-16 would be an angle of 1e-8."""
    x = np.random.default_rng(1).normal(size=(50, 30))
    s, norms = get(activation), np.mean(x**2, axis=1)
    found = StaticKernel(network(activation, 6, 1 / float(s.square(1.0))))(x).ntk
    np.testing.assert_allclose(np.diag(found), 7 * norms, rtol=1e-13)


def test_one_sample():
    found = StaticKernel(network("tanh", 1))([[1.0, 1.0]])
    assert found.nngp.shape == found.ntk.shape == (1, 1)
    assert found.nngp[0, 0] == pytest.approx(0.394294490398, abs=1e-12)


# Blocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "erf", "gelu", "tanh", "test_elu"])
def test_blocks(activation):
    x = np.random.default_rng(2).normal(size=(12, 9))
    kernel = StaticKernel(network(activation, 2, 1.5, 0.1), bias_rates=1.0)
    whole = kernel(x)
    for part in (whole.nngp, whole.ntk):
        np.testing.assert_array_equal(part, part.T)
    for block in (4, 3) if get(activation).feature_moment else (4,):  # the others take long to compile
        found = kernel(x, block=block)
        np.testing.assert_array_equal(found.ntk, found.ntk.T)
        np.testing.assert_allclose(found.nngp, whole.nngp, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found.ntk, whole.ntk, rtol=1e-13, atol=1e-13)
    rectangle = kernel(x[:8], x[4:], block=4)
    np.testing.assert_allclose(rectangle.nngp, whole.nngp[:8, 4:], rtol=1e-12)
    np.testing.assert_allclose(rectangle.ntk, whole.ntk[:8, 4:], rtol=1e-12)


def test_uneven_blocks():
    """Of 7, 7 and 6 samples."""
    x = np.random.default_rng(4).normal(size=(20, 3))
    kernel = StaticKernel(network("relu", 2, 1.5, 0.1))
    np.testing.assert_allclose(kernel(x, block=9).ntk, kernel(x).ntk, rtol=1e-13)


def test_precision_of_the_user_does_not_matter():
    x = np.random.default_rng(3).normal(size=(5, 4))
    kernel = StaticKernel(network("tanh", 2))
    with jax.enable_x64(False):
        single = kernel(x)
    with jax.enable_x64(True):
        double = kernel(jnp.asarray(x))
    assert single.ntk.dtype == np.float64
    np.testing.assert_array_equal(single.ntk, double.ntk)


# Properties ----------------------------------------------------------------------------------------------

NUMBERS = st.floats(-3, 3, allow_nan=False).map(lambda v: round(v, 3))
SAMPLES = arrays.arrays(np.float64, (5, 3), elements=NUMBERS)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@settings(max_examples=15)
@given(x=SAMPLES, biases=st.floats(0, 2))
def test_positive(activation, x, biases):
    """Positive semidefinite, with |K12|^2 <= K11 K22."""
    found = StaticKernel(network(activation, 2, 1.2, biases), bias_rates=1.0)(x)
    for kernel in (found.nngp, found.ntk):
        size = np.sqrt(np.diag(kernel))
        assert np.linalg.eigvalsh(kernel).min() >= -1e-12 * np.trace(kernel)
        assert np.all(np.abs(kernel) <= np.multiply.outer(size, size) * (1 + 1e-12) + 1e-300)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@settings(max_examples=15)
@given(x=SAMPLES, seed=st.integers(0, 1000))
def test_rotations(activation, x, seed):
    """Only inner products of inputs matter (to the square root of rounding where the activation has a kink)."""
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    kernel = StaticKernel(network(activation, 2, 1.2, 0.1))
    first, second = kernel(x), kernel(x @ rotation)
    np.testing.assert_allclose(first.nngp, second.nngp, rtol=0, atol=1e-12 * first.nngp.max())
    tolerance = 1e-6 if activation == "relu" else 1e-12
    np.testing.assert_allclose(first.ntk, second.ntk, rtol=0, atol=tolerance * first.ntk.max())


# Bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        (([[np.nan, 1.0]],), {}, "x holds"),
        (([[1.0, 1.0]], [[np.inf, 1.0]]), {}, "x2 holds"),
        (([1.0, 2.0],), {}, "x has shape"),
        (([[1.0, 2.0]], [1.0, 2.0]), {}, "x2 has shape"),
        ((np.zeros((0, 3)),), {}, "x has shape"),
        ((np.zeros((3, 0)),), {}, "x has shape"),
        ((np.ones((2, 3)), np.zeros((0, 3))), {}, "x2 has shape"),
        ((np.ones((2, 3)), np.ones((2, 4))), {}, "x2"),
        ((["a", "b"],), {}, "x is not"),
        ((np.ones((2, 3)),), {"block": 0}, "block"),
        ((np.ones((2, 3)),), {"block": 1.5}, "block"),
    ],
)
def test_bad_inputs(arguments, options, named):
    with pytest.raises(InvalidInput, match=named):
        StaticKernel(network())(*arguments, **options)


@pytest.mark.parametrize("name", ["weight_rates", "bias_rates"])
@pytest.mark.parametrize("value", [(1.0, 1.0), [1.0] * 4, -1.0, (1.0, 1.0, -1.0), math.nan, "fast"])
def test_bad_rates(name, value):
    with pytest.raises(InvalidInput, match=name):
        StaticKernel(network(layers=2), **{name: value})


def test_bad_angles():
    with pytest.raises(InvalidInput, match="angles"):
        StaticKernel(network()).by_angle([[0.0]])


def test_nngp_alone():
    """The same numbers without slopes, also for an activation whose slopes have no average."""
    x = np.random.default_rng(3).normal(size=(6, 4))
    for activation in ("relu", "tanh", "erf"):
        kernel = StaticKernel(wf.MLP(3, activation, bias_variances=0.2))
        np.testing.assert_allclose(kernel.nngp(x, x[:2], block=2), kernel(x).nngp[:, :2], rtol=1e-13)
    step = StaticKernel(wf.MLP(1, "perceptron", weight_variances=(1.0, 3.0)))
    cosine = x @ x.T / np.sqrt(np.outer(np.sum(x**2, axis=1), np.sum(x**2, axis=1)))
    expected = 3 * (0.25 + np.arcsin(np.clip(cosine, -1, 1)) / (2 * np.pi))
    np.testing.assert_allclose(step.nngp(x), expected, atol=1e-7)
    np.testing.assert_allclose(step.diagonal(x).nngp, 1.5, rtol=1e-14)


def test_diagonals():
    x = np.random.default_rng(4).normal(size=(6, 4))
    for rule, activation in ((wf.FeedbackAlignment(0.3), "tanh"), (wf.GatedLinear(), "relu")):
        kernel = StaticKernel(wf.MLP(3, activation, bias_variances=0.2, train_biases=True), rule)
        whole, diagonal = kernel(x), kernel.diagonal(x)
        np.testing.assert_allclose(diagonal.nngp, np.diag(whole.nngp), rtol=1e-13)
        np.testing.assert_allclose(diagonal.ntk, np.diag(whole.ntk), rtol=1e-13)


@pytest.mark.parametrize(("depth", "expected"), [(10, 0.0580118478402), (100, 0.00512071566599)])
def test_kernel_of_deep_tanh_networks(depth, expected):
    """K^(l) of PDLT's recursion at (C_b, C_W) = (0, 1) from K^(1) = 1: layer l is the output of l - 1 hidden layers."""
    found = StaticKernel(wf.MLP(depth - 1, "tanh")).diagonal(np.ones((1, 1))).nngp
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.slow
def test_kernel_of_a_very_deep_tanh_network():
    found = StaticKernel(wf.MLP(999, "tanh")).diagonal(np.ones((1, 1))).nngp
    np.testing.assert_allclose(found, 0.000501666534947, rtol=1e-10)
