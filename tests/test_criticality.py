"""Criticality, universality classes and single-input flows (PDLT chapter 5)."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.effective.asymptotics import (
    ZeroKernel,
    exponents,
    half_stable_approach,
    renormalised_weight_variance,
)
from widefield.effective.criticality import (
    NotCritical,
    critical_point,
    critical_ratio,
    criticality,
)
from widefield.effective.layer_table import layer_table
from widefield.effective.phases import PHASES, critical_lines, phase_diagram
from widefield.effective.plots import phase_diagram_plot
from widefield.effective.single_flow import ScaleInvariant, scale_invariant_moments, single_flow
from widefield.effective.single_input import moments, taylor_coefficients
from widefield.effective.susceptibilities import susceptibilities
from widefield.effective.two_inputs import (
    GAMMA,
    angle_flow,
    crossover_depth,
    difference_flow,
    first_layer,
    from_gamma,
    pair_flow,
    to_gamma,
)
from widefield.errors import InvalidInput, UnknownName

SWISH = (14.3201736180258, 0.55514317072153, 1.98800467826949, 2.84979218941e-6)
GELU = ((3 + math.sqrt(17)) / 2, 0.172922390756067, 1.98305825743755, -1.43626418732e-4)


def swish(beta):
    return Activation(f"swish_{beta}", lambda z: z * jax.nn.sigmoid(beta * z))


def shifted_tanh(c):
    """tanh(z + c) - tanh(c): its a1 is 9 t^2 - 2 with t = tanh(c)."""
    return Activation(f"shifted_tanh_{c}", lambda z: jnp.tanh(z + c) - math.tanh(c))


SOFTPLUS_AT_ZERO = Activation("softplus_at_zero", lambda z: jax.nn.softplus(z) - math.log(2))
SIGMOID_AT_ZERO = Activation("sigmoid_at_zero", lambda z: jax.nn.sigmoid(z) - 0.5)
HARD_TANH = Activation("hard_tanh", lambda z: jnp.clip(z, -1.0, 1.0), kinks=(-1.0, 1.0))


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
    K, step, C_b, C_W = 0.8, 1e-3, 0.1, 1.3
    low, at, high = (
        susceptibilities(activation, k, bias_variance=C_b, weight_variance=C_W) for k in (K - step, K, K + step)
    )
    difference = {
        "parallel": (high.next_kernel - low.next_kernel) / (2 * step),
        "h": (high.perpendicular - low.perpendicular) / (4 * step),
        "j": 4 * K**2 * (high.parallel - low.parallel) / (2 * step),
    }
    for name, value in difference.items():
        np.testing.assert_allclose(getattr(at, name), value, rtol=1e-6, atol=4e-6)
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
        lambda: single_flow("tanh", [[1.0]], 3),
        lambda: single_flow("tanh", float("inf"), 3),
        lambda: single_flow("tanh", 1.0, 0),
        lambda: single_flow("tanh", 1.0, 3, weight_variance=[1.0]),
        lambda: single_flow("tanh", 1.0, 3, bias_variance=-0.1),
        lambda: single_flow("tanh", 1.0, 3, widths=[4, 0]),
        lambda: single_flow("tanh", 1.0, 3, weight_correction=float("nan")),
        lambda: single_flow("relu", 1.0, 1000, weight_variance=8.0),
        lambda: scale_invariant_moments("tanh", 1.0, [4]),
        lambda: scale_invariant_moments("relu", 1.0, [0.0]),
        lambda: angle_flow("relu", 4.0, 3),
        lambda: angle_flow("tanh", 1.0, 3),
        lambda: pair_flow("tanh", [[1.0, 0.0], [0.5, 1.0]], 3),
        lambda: to_gamma([1.0, 2.0]),
        lambda: from_gamma([1.0, 2.0]),
        lambda: first_layer([1.0], [1.0, 2.0], 1.0),
        lambda: phase_diagram("tanh", [-1.0], [0.0]),
        lambda: phase_diagram("tanh", [], [0.0]),
        lambda: phase_diagram("tanh", [1.0], [float("nan")]),
        lambda: ZeroKernel.of("sigmoid"),
        lambda: ZeroKernel.of("swish").kernel(10, 1.0),
        lambda: ZeroKernel.of("tanh").kernel(0, 1.0),
        lambda: ZeroKernel.of("tanh").onset(10, -1.0),
        lambda: exponents("softplus"),
        lambda: exponents("tanh", semi_critical=True),
        lambda: half_stable_approach(critical_point("tanh"), 10),
        lambda: renormalised_weight_variance("swish", 10),
        lambda: renormalised_weight_variance("tanh", 0),
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
    assert "stable" in found.explanation


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
        ("monomial(60)", "1.98333"),
        pytest.param("cos", "stays below 1", marks=pytest.mark.slow),
        (SOFTPLUS_AT_ZERO, "unstable"),
        (Activation("raised_tanh", lambda z: jnp.tanh(z) + 0.5), "C_b = -0.25 < 0"),
        (Activation("moved_tanh", lambda z: jnp.tanh(z + 0.5)), "stays below 1"),
        (Activation("affine", lambda z: z + 1.0), "C_b = -1 < 0"),
        (Activation("sign", jnp.sign, kinks=(0.0,)), "jumps by 2"),
    ],
)
def test_not_critical(activation, words):
    found = criticality(activation)
    assert found.universality_class == "none"
    assert found.best is None
    assert words in found.explanation
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


# Flows of one input

TANH = {
    2: (0.394294490398, 0.0975237380859, 0.0),
    3: (0.236450410499, 0.0678074938921, -0.0309325198661),
    4: (0.166656353802, 0.0501465964673, -0.0526824673413),
    5: (0.127904735299, 0.0393984430357, -0.0682253713605),
    10: (0.0580118478402, 0.0185887275859, -0.107133750309),
    100: (0.00512071566599, 0.00169927176681, -0.158688439582),
    1000: (0.000501666534947, 0.00016714568178, -0.165816387675),
}
SIN = {
    2: (0.432332358382, 0.120463023106, 0.0),
    3: (0.289403626088, 0.105953701558, -0.0507381517133),
    10: (0.0921811387302, 0.0500900685579, -0.193357975409),
    1000: (0.000997643527276, 0.000663550376351, -0.331140923095),
}


@pytest.mark.parametrize(("name", "expected"), [("tanh", TANH), ("sin", SIN)])
def test_flow(name, expected):
    flow = single_flow(name, 1.0, 1000).isel(input=0)
    for layer, values in expected.items():
        found = [float(flow[key].sel(layer=layer)) for key in ("kernel", "vertex", "correction")]
        np.testing.assert_allclose(found, values, atol=1e-11)


def test_renormalised_flow():
    flow = single_flow("tanh", 1.0, 1000, weight_correction=ZeroKernel.of("tanh").weight_correction)
    expected = {2: 0.262862993599, 10: 0.0949913920313, 100: 0.0117097820302, 1000: 0.0012250443297}
    for layer, value in expected.items():
        np.testing.assert_allclose(float(flow["correction"].sel(layer=layer)[0]), value, atol=1e-11)


def test_flow_of_many_inputs_equals_one_at_a_time():
    kernels = np.array([0.0, 0.3, 3.0])
    together = single_flow("tanh", kernels, 12, bias_variance=0.1, weight_variance=1.5)
    for i, kernel in enumerate(kernels):
        alone = single_flow("tanh", kernel, 12, bias_variance=0.1, weight_variance=1.5)
        for name in together:
            np.testing.assert_allclose(together[name][:, i], alone[name][:, 0], atol=1e-12)


@pytest.mark.parametrize("activation", [pytest.param(a, marks=pytest.mark.slow) for a in ("tanh", "gelu", swish(5.0))])
def test_compiled_flow_equals_adaptive_quadrature(activation):
    table = layer_table(activation, [0.5, 30.0], 5, 0.2, 1.9)
    exact = moments(activation, table.kernel[:-1])
    for name in ("square", "square_slope", "square_curvature", "slope_square", "slope_square_slope", "fourth"):
        np.testing.assert_allclose(getattr(table.moments, name), getattr(exact, name), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(table.kernel[1:], 0.2 + 1.9 * exact.square, rtol=1e-11)


def test_flow_with_kinks_needs_no_homogeneity():
    flow = single_flow(HARD_TANH, 1.0, 4, weight_variance=1.2)
    direct = single_flow("relu", 1.0, 4, weight_variance=2.0)
    assert np.isfinite(flow["correction"]).all()
    np.testing.assert_allclose(direct["kernel"], 1)
    K = float(flow["kernel"][1, 0])
    np.testing.assert_allclose(flow["kernel"][2, 0], 1.2 * moments(HARD_TANH, K).square, rtol=1e-12)


def test_variances_by_layer():
    flow = single_flow("sin", 1.0, 4, bias_variance=[0.0, 0.1, 0.2], weight_variance=[1.0, 2.0, 3.0])
    K = 1.0
    for i, (C_b, C_W) in enumerate([(0.0, 1.0), (0.1, 2.0), (0.2, 3.0)]):
        K = C_b + C_W * (1 - math.exp(-2 * K)) / 2
        np.testing.assert_allclose(flow["kernel"][i + 1, 0], K, rtol=1e-12)


def test_unequal_widths():
    """vhat' = chi_par^2 vhat + S / n, ghat' = chi_par ghat + C_W g'' vhat / 2 for vhat = V / n, ghat = G1 / n."""
    widths, C_b, C_W = np.array([4.0, 10.0, 7.0]), 0.1, 1.4
    flow = single_flow("tanh", 0.7, 4, bias_variance=C_b, weight_variance=C_W, widths=widths)
    K, v, c = 0.7, 0.0, 0.0
    for i, n in enumerate(widths):
        at = susceptibilities("tanh", K, bias_variance=C_b, weight_variance=C_W)
        c = float(at.parallel * c + C_W * moments("tanh", K).square_curvature * v / 2)
        v = float(at.parallel**2 * v + at.source / n)
        K = float(at.next_kernel)
        np.testing.assert_allclose(flow["variance"][i + 1, 0], v, rtol=1e-9)
        np.testing.assert_allclose(flow["mean"][i + 1, 0], K + c, rtol=1e-11)
        np.testing.assert_allclose(flow["relative_variance"][i + 1, 0], v / K**2, rtol=1e-9)


def test_uniform_widths_change_nothing():
    plain, wide = single_flow("tanh", 1.0, 6), single_flow("tanh", 1.0, 6, widths=64)
    for name in plain:
        np.testing.assert_allclose(plain[name], wide[name], rtol=1e-14)


def test_predictions_that_samples_confirmed():
    """Values that Monte Carlo with 4e5 networks reproduced within its errors."""
    tanh = single_flow("tanh", 1.0, 32, widths=64).isel(input=0)
    found = [float(tanh[name].sel(layer=8)) for name in ("vertex", "correction")]
    np.testing.assert_allclose(found, [0.02364, -0.09618], atol=5e-6)
    np.testing.assert_allclose(tanh["mean"].sel(layer=[8, 16, 32]), [0.072977, 0.032711, 0.014348], atol=1e-6)
    np.testing.assert_allclose(tanh["kernel"].sel(layer=[8, 16, 32]), [0.074480, 0.034676, 0.016598], atol=1e-6)
    np.testing.assert_allclose(tanh["relative_variance"].sel(layer=[8, 16, 32]), [0.0666, 0.1464, 0.3096], atol=6e-5)
    tuned = single_flow("tanh", 1.0, 32, widths=64, weight_correction=2 / 3).isel(input=0)
    np.testing.assert_allclose(tuned["mean"].sel(layer=[8, 16, 32]), [0.076262, 0.035670, 0.017132], atol=1e-6)
    sin = single_flow("sin", 0.5, 6).isel(input=0, layer=-1)
    np.testing.assert_allclose([sin["vertex"], sin["correction"]], [0.06626, -0.13916], atol=5e-6)
    biased = single_flow("tanh", 0.05 + 1.2, 4, bias_variance=0.05, weight_variance=1.2, widths=16)
    last = biased.isel(input=0, layer=-1)
    np.testing.assert_allclose(
        [last["mean"], last["variance"], 3 * last["variance"]], [0.33482, 0.00648, 0.01944], atol=6e-6
    )


@pytest.mark.slow
def test_unequal_widths_against_samples():
    """Layer by layer G_hat = C_b + (C_W / n) sum_j s(z_j)^2 with z ~ N(0, G_hat); the second layer is exact."""
    rng, draws, widths, C_b, C_W = np.random.default_rng(1), 200_000, (96, 48, 64), 0.1, 1.3
    flow = single_flow("tanh", 0.9, 4, bias_variance=C_b, weight_variance=C_W, widths=widths).isel(input=0)
    metric = np.full(draws, 0.9)
    for layer, n in enumerate(widths, start=2):
        total = np.zeros(draws)
        for _ in range(n):
            total += np.tanh(np.sqrt(metric) * rng.standard_normal(draws)) ** 2
        metric = C_b + C_W / n * total
        at = flow.sel(layer=layer)
        variance = metric.var()
        error = variance * math.sqrt(2 / draws)
        assert abs(metric.mean() - float(at["mean"])) < 4 * math.sqrt(variance / draws) + 2 / n**2 * (layer > 2)
        assert abs(variance - float(at["variance"])) < 5 * error + 2 / n**2 * (layer > 2) * variance * n


def test_scale_invariant_kernel_in_closed_form():
    """K = chi^(l-1) K1 + C_b (chi^(l-1) - 1) / (chi - 1)."""
    chi, C_b, power = 0.8, 0.3, np.arange(20)
    flow = single_flow("relu", 2.0, 20, bias_variance=C_b, weight_variance=2 * chi)
    np.testing.assert_allclose(flow["kernel"][:, 0], chi**power * 2 + C_b * (chi**power - 1) / (chi - 1), rtol=1e-13)


def test_scale_invariant_flow():
    nu = {"linear": 2.0, "relu": 5.0, "leaky_relu(0.1)": 4.88236447, "leaky_relu(0.01)": 4.99880024, "abs": 2.0}
    rho = {"linear": 0.0, "relu": 1 / math.pi, "leaky_relu(0.1)": 0.25527823, "leaky_relu(0.01)": 0.31194433}
    for name, value in nu.items():
        np.testing.assert_allclose(ScaleInvariant.of(name).nu, value, atol=5e-9)
        C_W = critical_point(name).weight_variance
        flow = single_flow(name, 2.0, 30, weight_variance=C_W)
        np.testing.assert_allclose(flow["vertex"][:, 0], np.arange(30) * ScaleInvariant.of(name).nu * 4, rtol=1e-12)
        assert (flow["correction"] == 0).all()
    for name, value in rho.items():
        np.testing.assert_allclose(ScaleInvariant.of(name).rho, value, atol=5e-9)


def test_semi_critical_flow():
    """K = K1 + (l - 1) C_b and V = nu sum K^2, so that V / K^2 ~ (nu / 3) l."""
    flow = single_flow("relu", 1.0, 4000, bias_variance=0.3, weight_variance=2.0).isel(input=0)
    np.testing.assert_allclose(flow["kernel"], 1 + 0.3 * np.arange(4000), rtol=1e-11)
    np.testing.assert_allclose(flow["vertex"][-1], 5 * (flow["kernel"][:-1] ** 2).sum(), rtol=1e-11)
    ratio = float(flow["vertex"][-1] / flow["kernel"][-1] ** 2 / 4000)
    expected = exponents("relu", semi_critical=True)
    np.testing.assert_allclose(ratio, expected.relative_variance, rtol=2e-3)
    assert (expected.kernel, expected.vertex) == (-1, -3)


def test_exact_scale_invariant_moments():
    linear = scale_invariant_moments("linear", 1.0, [5, 8, 6]).isel(input=0)
    np.testing.assert_allclose(linear["second_moment"][-1], 7 / 3, rtol=1e-14)
    np.testing.assert_allclose(linear["third_moment"][-1], 10.5, rtol=1e-14)
    assert (ScaleInvariant.of("linear").third, ScaleInvariant.of("relu").third) == (8, 44)
    for n, expected in ((32, 56.41), (64, 44.36)):
        relu = scale_invariant_moments("relu", 1.0, [n] * 7)
        np.testing.assert_allclose(n * relu["variance"][-1, 0], n * ((1 + 5 / n) ** 7 - 1), rtol=1e-13)
        np.testing.assert_allclose(n * relu["variance"][-1, 0], expected, atol=0.005)
    np.testing.assert_allclose(scale_invariant_moments("relu", 1.0, [10])["third_moment"][-1, 0], 2.94, rtol=1e-14)
    wide = scale_invariant_moments("linear", 1.0, [200] * 100)
    np.testing.assert_allclose([wide["log_mean"][-1], wide["log_variance"][-1]], [-0.5, 1.0])


def test_exact_moments_reduce_to_the_vertex():
    """At large widths the product formula is the leading vertex, unequal widths and any C_W included."""
    widths = np.array([4e6, 7e6, 1e6])
    exact = scale_invariant_moments("leaky_relu(0.3)", [0.5, 2.0], widths, weight_variance=1.5)
    flow = single_flow("leaky_relu(0.3)", [0.5, 2.0], 4, weight_variance=1.5, widths=widths)
    np.testing.assert_allclose(exact["mean"], flow["kernel"], rtol=1e-13)
    np.testing.assert_allclose(exact["variance"][1:], flow["variance"][1:], rtol=1e-5)


def test_exact_moments_against_samples():
    rng = np.random.default_rng(0)
    n, draws = 5, 200_000
    metric = np.ones(draws)
    for _ in range(3):
        metric *= 2 / n * (np.maximum(rng.standard_normal((draws, n)), 0) ** 2).sum(1)
    exact = scale_invariant_moments("relu", 1.0, [n] * 3).isel(layer=-1, input=0)
    for power, name in ((1, "mean"), (2, "second_moment")):
        error = (metric**power).std() / math.sqrt(draws)
        assert abs((metric**power).mean() - float(exact[name])) < 4 * error


# Large depth


def test_taylor_coefficients():
    root = math.sqrt(2 * math.pi)
    expected = {
        "tanh": ((0, 1, 0, -2, 0, 16), -2, 17 / 3, -2),
        "sin": ((0, 1, 0, -1, 0, 1), -1, 2 / 3, -1),
        "swish": ((0, 0.5, 0.5, 0, -0.5, 0), 0.75, -0.625, 1),
        "gelu": ((0, 0.5, 2 / root, 0, -4 / root, 0), 6 / math.pi, -10 / math.pi, 8 / math.pi),
        SOFTPLUS_AT_ZERO: ((0, 0.5, 0.25, 0, -0.125, 0), 3 / 16, -5 / 64, 0.25),
        SIGMOID_AT_ZERO: ((0, 0.25, 0, -0.125, 0, 0.25), -0.5, 17 / 48, -0.5),
    }
    for activation, (s, a1, a2, b1) in expected.items():
        np.testing.assert_allclose(taylor_coefficients(activation), s, atol=1e-13)
        zero = ZeroKernel.of(activation)
        np.testing.assert_allclose((zero.a1, zero.a2, zero.b1), (a1, a2, b1), rtol=1e-12)
        assert zero.stable == (a1 < 0)


@pytest.mark.parametrize(
    ("name", "onsets"),
    [("tanh", (1.7034, 0.34386, 0.13746)), pytest.param("sin", (0.09120, 0.83848, 1.67108), marks=pytest.mark.slow)],
)
def test_asymptotics(name, onsets):
    """One onset, fitted to the kernel, also fixes the vertex to 1e-6 at l = 20000."""
    layer, zero = 20_000, ZeroKernel.of(name)
    flow = single_flow(name, [0.5, 1.0, 2.0], layer)
    for i, expected in enumerate(onsets):
        onset = zero.onset(layer, float(flow["kernel"][-1, i]))
        np.testing.assert_allclose(onset, expected, rtol=2e-4)
        np.testing.assert_allclose(zero.vertex(layer, onset), flow["vertex"][-1, i], rtol=1e-6)
        middle = flow.isel(input=i).sel(layer=2000)
        np.testing.assert_allclose(zero.kernel(2000, onset), middle["kernel"], rtol=1e-5)
    np.testing.assert_allclose(flow["correction"][-1], zero.bare_correction, rtol=1e-3)
    tuned = single_flow(name, 1.0, layer, weight_correction=zero.weight_correction)
    np.testing.assert_allclose(tuned["correction"][-1, 0] * layer, zero.renormalised_correction, rtol=2e-3)


def test_relative_variance_of_tanh():
    flow = single_flow("tanh", 1.0, 10_000).isel(input=0)
    ratio = flow["vertex"] / flow["kernel"] ** 2 / flow["layer"]
    np.testing.assert_allclose(ratio.sel(layer=[1000, 10_000]), [0.66414805, 0.66635064], atol=1e-8)


def test_renormalised_coefficients():
    assert ZeroKernel.of("tanh").renormalised_correction == pytest.approx(89 / 72, rel=1e-12)
    assert ZeroKernel.of("sin").renormalised_correction == pytest.approx(20 / 9, rel=1e-12)
    np.testing.assert_allclose(renormalised_weight_variance("tanh", 64), 1 + 2 / 192)
    assert renormalised_weight_variance("relu", 64) == 2


def test_differences_at_large_depth():
    layer, zero = 20_000, ZeroKernel.of("tanh")
    parallel = difference_flow("tanh", 1.0, 1.0, 0.0, layer).isel(pair=0)
    perpendicular = difference_flow("tanh", 1.0, 0.0, 1.0, layer).isel(pair=0)
    np.testing.assert_allclose(parallel["parallel"][-1] * layer**2, 0.3577, atol=1e-4)
    np.testing.assert_allclose(perpendicular["perpendicular"][-1] * layer, 0.7062, atol=1e-4)
    np.testing.assert_allclose(perpendicular["perpendicular"][-1] / perpendicular["kernel"][-1], 1.4121, atol=2e-4)
    onset = zero.onset(layer, float(parallel["kernel"][-1]))
    for flow, name in ((parallel, "parallel"), (perpendicular, "perpendicular")):
        ratio = flow[name].sel(layer=[5000, layer]) / getattr(zero, name)([5000, layer], onset)
        np.testing.assert_allclose(ratio[0], ratio[1], rtol=1e-3)


def fitted(values, low=10_000, high=20_000):
    """The exponent p between two layers, for l^(-p)."""
    return -math.log(float(values.sel(layer=high) / values.sel(layer=low))) / math.log(high / low)


@pytest.mark.parametrize(
    "activation", ["tanh", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sin", shifted_tanh(0.2)))]
)
def test_fitted_exponents_of_zero_kernel(activation):
    expected, C_W = exponents(activation), critical_point(activation).weight_variance
    flow = single_flow(activation, 0.5, 20_000, weight_variance=C_W).isel(input=0)
    assert fitted(flow["kernel"]) == pytest.approx(expected.kernel, abs=1e-3)
    assert fitted(flow["vertex"]) == pytest.approx(expected.vertex, abs=2e-3)
    assert fitted(flow["correction"]) == pytest.approx(expected.correction, abs=2e-3)
    two = difference_flow(activation, 0.5, [1.0, 0.0], [0.0, 1.0], 20_000, weight_variance=C_W)
    assert fitted(two["parallel"][:, 0]) == pytest.approx(expected.parallel, abs=2e-3)
    assert fitted(two["perpendicular"][:, 1]) == pytest.approx(expected.perpendicular, abs=2e-3)
    assert expected.vertex - 2 * expected.kernel == -1


@pytest.mark.slow
def test_fine_tuned():
    """s = z - c z^5 has a1 = 0 and a2 = -30 c < 0: K ~ (-2 a2 l)^(-1/2)."""
    tuned = Activation("fine_tuned", lambda z: z * jnp.exp(-0.01 * z**4))
    zero = ZeroKernel.of(tuned)
    assert zero.a1 == 0
    assert criticality(tuned).points[0].stability == "stable"
    flow = single_flow(tuned, 0.2, 4096)
    np.testing.assert_allclose(flow["kernel"][-1, 0] * math.sqrt(4096), zero.fine_tuned_coefficient, rtol=0.03)


@pytest.mark.parametrize(("name", "side"), [("gelu", 1), ("swish", -1)])
@pytest.mark.slow
def test_half_stable_flow(name, side):
    """On the attracting side 1 / (K - K*) grows by -a in every layer, as 1 / (-a l) says; V grows by S(K*)."""
    point = critical_point(name)
    variances = {"bias_variance": point.bias_variance, "weight_variance": point.weight_variance}
    flow = single_flow(name, point.kernel + side * 0.02, 1025, **variances).isel(input=0)
    inverse = 1 / (flow["kernel"] - point.kernel)
    growth = float(inverse[-1] - inverse[0]) / 1024
    np.testing.assert_allclose(growth, 1 / half_stable_approach(point, 1.0), rtol=0.1)
    assert side * growth > 0
    ratio = float(flow["vertex"][-1]) / 1024 / point.kernel**2
    np.testing.assert_allclose(ratio, exponents(name).relative_variance, rtol=0.1)


def test_half_stable_exponents():
    for name, nu in (("gelu", 4.904226), ("swish", 4.923187)):
        assert exponents(name).relative_variance == pytest.approx(nu, abs=1e-6)
        assert exponents(name).vertex == -1


# Two inputs


def test_gamma_basis():
    products = np.einsum("aij,bji->ab", GAMMA, GAMMA)
    np.testing.assert_array_equal(products, np.diag([4.0, 2.0, 4.0]))
    K = np.array([[[1.0, 0.6], [0.6, 1.5]], [[2.0, -0.1], [-0.1, 0.3]]])
    np.testing.assert_allclose(from_gamma(to_gamma(K)), K, rtol=1e-15)
    np.testing.assert_allclose(to_gamma(K)[0], [(2.5 + 1.2) / 4, -0.25, (2.5 - 1.2) / 4])


def test_difference_flow_against_two_inputs():
    """PDLT eqs. (5.46)-(5.48) hold up to relative corrections of second order: halving the difference quarters them."""
    errors = []
    for delta in (0.2, 0.1, 0.05):
        first, second = 0.8 * delta, 0.6 * delta**2
        exact = to_gamma(pair_flow("tanh", from_gamma([0.8, first, second]), 2, weight_variance=1.3)[1])
        flow = difference_flow("tanh", 0.8, first, second, 2, weight_variance=1.3).isel(layer=1, pair=0)
        errors.append([float(exact[1] / flow["parallel"]) - 1, float(exact[2] / flow["perpendicular"]) - 1])
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    np.testing.assert_allclose(ratios, 4, rtol=0.1)
    assert np.abs(errors[-1]).max() < 2e-3


def test_first_layer():
    x, dx = np.array([1.0, 2.0, -1.0]), np.array([0.1, 0.0, 0.2])
    plus, minus = x + dx / 2, x - dx / 2
    K = 0.2 + 1.5 / 3 * np.array([[plus @ plus, plus @ minus], [minus @ plus, minus @ minus]])
    found = first_layer(x, dx, 1.5, 0.2)
    np.testing.assert_allclose(to_gamma(K)[1:], found[1:], rtol=1e-12)
    np.testing.assert_allclose(found[0], 0.2 + 0.5 * (x @ x))


def test_angle_of_relu():
    flow = angle_flow("relu", [np.pi, np.pi / 2, 0.1], 10_000)["angle"]
    np.testing.assert_allclose(flow[1:5, 0], [np.pi / 2, 1.2468502199, 1.0544212640, 0.9212493238], atol=1e-9)
    np.testing.assert_allclose(
        flow.sel(layer=[10, 100, 1000])[:, 1], [0.5456131971, 0.0853822318, 0.0092968059], atol=1e-9
    )
    scaled = flow[:, 1] * flow["layer"] / (3 * math.pi)
    np.testing.assert_allclose(scaled.sel(layer=[1000, 10_000]), [0.986422, 0.998282], atol=1e-6)
    np.testing.assert_allclose(flow.sel(layer=[10, 100])[:, 2], [0.0911547818, 0.0484885823], atol=1e-9)
    np.testing.assert_allclose(crossover_depth("relu", 0.1), 30 * math.pi)
    assert crossover_depth("linear", 0.1) == math.inf


def test_distance_of_relu_decays_like_inverse_square():
    flow = angle_flow("leaky_relu(0.1)", 1.0, 20_000, kernel=2.0).isel(pair=0)
    rho = ScaleInvariant.of("leaky_relu(0.1)").rho
    assert fitted(flow["distance"]) == pytest.approx(exponents("leaky_relu(0.1)").perpendicular, abs=5e-3)
    np.testing.assert_allclose(flow["distance"][-1] * 20_000**2, 2.0 * 9 / (4 * rho**2), rtol=0.01)
    np.testing.assert_allclose(flow["sum"][-1], 2.0, rtol=1e-6)
    assert exponents("linear").perpendicular == 0
    np.testing.assert_allclose(angle_flow("linear", 0.7, 50)["angle"], 0.7, rtol=1e-13)


@pytest.mark.parametrize(("C_b", "C_W"), [(0.0, 2.0), (0.3, 2.0), (0.1, 1.2)])
def test_angle_flow_is_the_kernel_flow(C_b, C_W):
    K = 1.5 * np.array([[1.0, math.cos(0.9)], [math.cos(0.9), 1.0]])
    exact = pair_flow("relu", K, 8, bias_variance=C_b, weight_variance=C_W)
    flow = angle_flow("relu", 0.9, 8, kernel=1.5, bias_variance=C_b, weight_variance=C_W)
    np.testing.assert_allclose(flow["kernel"], exact[:, 0, 0], rtol=1e-13)
    np.testing.assert_allclose(np.cos(flow["angle"][:, 0]), exact[:, 0, 1] / exact[:, 0, 0], atol=1e-13)
    np.testing.assert_allclose(flow["distance"][:, 0], to_gamma(exact)[:, 2], atol=1e-13)


# Phases


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
    axes = phase_diagram_plot(diagram)
    axes.figure.savefig(tmp_path / "phases.png")
    assert axes.get_xlabel() == "$C_W$"
    with pytest.raises(InvalidInput, match="phase diagram"):
        phase_diagram_plot(diagram.drop_vars("phase"))
