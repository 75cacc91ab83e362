"""Flows of one input at finite width and at large depth (PDLT chapter 5)."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from made_activations import HARD_TANH, SIGMOID_AT_ZERO, SOFTPLUS_AT_ZERO, shifted_tanh, swish
from widefield import effective
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import stochastic_metric
from widefield.effective.asymptotics import ZeroKernel, exponents, half_stable_approach, renormalised_weight_variance
from widefield.effective.layer_table import layer_table
from widefield.effective.single_input import moments, taylor_coefficients
from widefield.effective.single_input_flow import ScaleInvariant, scale_invariant_moments, single_flow
from widefield.effective.susceptibilities import susceptibilities
from widefield.effective.two_inputs import difference_flow
from widefield.effective.universality import critical_point, criticality

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
    flow = single_flow(name, 1.0, 1000).isel(sample=0)
    for layer, values in expected.items():
        found = [float(flow[key].sel(layer=layer)) for key in ("kernel", "vertex", "correction")]
        np.testing.assert_allclose(found, values, rtol=0, atol=2e-12)


def test_axes_are_called_as_everywhere():
    """Samples, as in `effective.flow`."""
    alike = effective.flow(wf.MLP(2, "tanh"), np.eye(2), widths=64).data["kernel"].dims[:2]
    flow = single_flow("tanh", [1.0, 2.0], 3)
    assert {flow[name].dims for name in flow} == {alike} == {("layer", "sample")}
    third = stochastic_metric.third_cumulant_flow("tanh", [1.0, 2.0], 3)["third"]
    moment = scale_invariant_moments("relu", [1.0, 2.0], [8, 8])["third_moment"]
    assert third.dims == moment.dims == alike
    assert third.sizes == moment.sizes == {"layer": 3, "sample": 2}


def test_renormalised_flow():
    flow = single_flow("tanh", 1.0, 1000, weight_correction=ZeroKernel.of("tanh").weight_correction)
    expected = {2: 0.262862993599, 10: 0.0949913920313, 100: 0.0117097820302, 1000: 0.0012250443297}
    for layer, value in expected.items():
        np.testing.assert_allclose(float(flow["correction"].sel(layer=layer)[0]), value, rtol=0, atol=2e-12)


def test_flow_of_many_inputs_equals_one_at_a_time():
    kernels = np.array([0.0, 0.3, 3.0])
    together = single_flow("tanh", kernels, 12, bias_variance=0.1, weight_variance=1.5)
    for i, kernel in enumerate(kernels):
        alone = single_flow("tanh", kernel, 12, bias_variance=0.1, weight_variance=1.5)
        for name in together:
            np.testing.assert_allclose(together[name][:, i], alone[name][:, 0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("activation", [pytest.param(a, marks=pytest.mark.slow) for a in ("tanh", "gelu", swish(5.0))])
def test_compiled_flow_equals_adaptive_quadrature(activation):
    table = layer_table(activation, [0.5, 30.0], 5, 0.2, 1.9)
    exact = moments(activation, table.kernel[:-1])
    for name in ("square", "square_slope", "square_curvature", "slope_square", "slope_square_slope", "fourth"):
        np.testing.assert_allclose(getattr(table.moments, name), getattr(exact, name), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(table.kernel[1:], 0.2 + 1.9 * exact.square, rtol=1e-13)


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
        np.testing.assert_allclose(flow["kernel"][i + 1, 0], K, rtol=1e-14)


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
        np.testing.assert_allclose(flow["variance"][i + 1, 0], v, rtol=1e-13)
        np.testing.assert_allclose(flow["mean"][i + 1, 0], K + c, rtol=1e-13)
        np.testing.assert_allclose(flow["relative_variance"][i + 1, 0], v / K**2, rtol=1e-13)


def test_uniform_widths_change_nothing():
    plain, wide = single_flow("tanh", 1.0, 6), single_flow("tanh", 1.0, 6, widths=64)
    for name in plain:
        np.testing.assert_allclose(plain[name], wide[name], rtol=1e-14)


def test_predictions_that_samples_confirmed():
    """Values that Monte Carlo with 4e5 networks reproduced within its errors."""
    tanh = single_flow("tanh", 1.0, 32, widths=64).isel(sample=0)
    found = [float(tanh[name].sel(layer=8)) for name in ("vertex", "correction")]
    np.testing.assert_allclose(found, [0.02364, -0.09618], rtol=0, atol=5e-6)
    np.testing.assert_allclose(tanh["mean"].sel(layer=[8, 16, 32]), [0.072977, 0.032711, 0.014348], rtol=0, atol=5e-7)
    np.testing.assert_allclose(tanh["kernel"].sel(layer=[8, 16, 32]), [0.074480, 0.034676, 0.016598], rtol=0, atol=5e-7)
    relative = tanh["relative_variance"].sel(layer=[8, 16, 32])
    np.testing.assert_allclose(relative, [0.0666, 0.1464, 0.3096], rtol=0, atol=5e-5)
    tuned = single_flow("tanh", 1.0, 32, widths=64, weight_correction=2 / 3).isel(sample=0)
    np.testing.assert_allclose(tuned["mean"].sel(layer=[8, 16, 32]), [0.076262, 0.035670, 0.017132], rtol=0, atol=5e-7)
    sin = single_flow("sin", 0.5, 6).isel(sample=0, layer=-1)
    np.testing.assert_allclose([sin["vertex"], sin["correction"]], [0.06626, -0.13916], rtol=0, atol=5e-6)
    biased = single_flow("tanh", 0.05 + 1.2, 4, bias_variance=0.05, weight_variance=1.2, widths=16)
    last = biased.isel(sample=0, layer=-1)
    np.testing.assert_allclose(
        [last["mean"], last["variance"], 3 * last["variance"]], [0.33482, 0.00648, 0.01944], rtol=0, atol=5e-6
    )


@pytest.mark.slow
def test_unequal_widths_against_samples():
    """Layer by layer G_hat = C_b + (C_W / n) sum_j s(z_j)^2 with z ~ N(0, G_hat); the second layer is exact."""
    rng, draws, widths, C_b, C_W = np.random.default_rng(1), 200_000, (96, 48, 64), 0.1, 1.3
    flow = single_flow("tanh", 0.9, 4, bias_variance=C_b, weight_variance=C_W, widths=widths).isel(sample=0)
    metric = np.full(draws, 0.9)
    for layer, n in enumerate(widths, start=2):
        total = np.zeros(draws)
        for _ in range(n):
            total += np.tanh(np.sqrt(metric) * rng.standard_normal(draws)) ** 2
        metric = C_b + C_W / n * total
        at = flow.sel(layer=layer)
        variance = metric.var()
        error = variance * math.sqrt(2 / draws)
        assert abs(metric.mean() - float(at["mean"])) < 4 * math.sqrt(variance / draws) + 0.5 / n**2 * (layer > 2)
        assert abs(variance - float(at["variance"])) < 4 * error + 0.5 / n * (layer > 2) * variance


def test_scale_invariant_kernel_in_closed_form():
    """K = chi^(l-1) K1 + C_b (chi^(l-1) - 1) / (chi - 1)."""
    chi, C_b, power = 0.8, 0.3, np.arange(20)
    flow = single_flow("relu", 2.0, 20, bias_variance=C_b, weight_variance=2 * chi)
    np.testing.assert_allclose(flow["kernel"][:, 0], chi**power * 2 + C_b * (chi**power - 1) / (chi - 1), rtol=1e-14)


def test_scale_invariant_flow():
    nu = {"linear": 2.0, "relu": 5.0, "leaky_relu(0.1)": 4.88236447, "leaky_relu(0.01)": 4.99880024, "abs": 2.0}
    nu |= {"leaky_relu(0.2)": 4.55621302, "leaky_relu(0.3)": 4.09098561}
    rho = {"linear": 0.0, "relu": 1 / math.pi, "leaky_relu(0.1)": 0.25527823, "leaky_relu(0.01)": 0.31194433}
    rho |= {"leaky_relu(0.2)": 0.19588301, "leaky_relu(0.3)": 0.14309344, "abs": 0.63661977}
    for name, value in nu.items():
        np.testing.assert_allclose(ScaleInvariant.of(name).nu, value, rtol=0, atol=5e-9)
        C_W = critical_point(name).weight_variance
        flow = single_flow(name, 2.0, 30, weight_variance=C_W)
        np.testing.assert_allclose(flow["vertex"][:, 0], np.arange(30) * ScaleInvariant.of(name).nu * 4, rtol=1e-14)
        assert (flow["correction"] == 0).all()
    for name, value in rho.items():
        np.testing.assert_allclose(ScaleInvariant.of(name).rho, value, rtol=0, atol=5e-9)


def test_semi_critical_flow():
    """K = K1 + (l - 1) C_b and V = nu sum K^2, so that V / K^2 ~ (nu / 3) l."""
    flow = single_flow("relu", 1.0, 4000, bias_variance=0.3, weight_variance=2.0).isel(sample=0)
    np.testing.assert_allclose(flow["kernel"], 1 + 0.3 * np.arange(4000), rtol=3e-13)
    np.testing.assert_allclose(flow["vertex"][-1], 5 * (flow["kernel"][:-1] ** 2).sum(), rtol=2e-14)
    ratio = float(flow["vertex"][-1] / flow["kernel"][-1] ** 2 / 4000)
    expected = exponents("relu", semi_critical=True)
    np.testing.assert_allclose(ratio, expected.relative_variance, rtol=8e-4)
    assert (expected.kernel, expected.vertex) == (-1, -3)


def test_exact_scale_invariant_moments():
    linear = scale_invariant_moments("linear", 1.0, [5, 8, 6]).isel(sample=0)
    np.testing.assert_allclose(linear["second_moment"][-1], 7 / 3, rtol=1e-14)
    np.testing.assert_allclose(linear["third_moment"][-1], 10.5, rtol=1e-14)
    assert (ScaleInvariant.of("linear").third, ScaleInvariant.of("relu").third) == (8, 44)
    for n, expected in ((32, 56.41), (64, 44.36)):
        relu = scale_invariant_moments("relu", 1.0, [n] * 7)
        np.testing.assert_allclose(n * relu["variance"][-1, 0], n * ((1 + 5 / n) ** 7 - 1), rtol=1e-13)
        np.testing.assert_allclose(n * relu["variance"][-1, 0], expected, rtol=0, atol=0.005)
    np.testing.assert_allclose(scale_invariant_moments("relu", 1.0, [10])["third_moment"][-1, 0], 2.94, rtol=1e-14)
    wide = scale_invariant_moments("linear", 1.0, [200] * 100)
    np.testing.assert_allclose([wide["log_mean"][-1], wide["log_variance"][-1]], [-0.5, 1.0], rtol=1e-14)


def test_exact_moments_reduce_to_the_vertex():
    """At large widths the product formula is the leading vertex, unequal widths and any C_W included."""
    widths = np.array([4e6, 7e6, 1e6])
    exact = scale_invariant_moments("leaky_relu(0.3)", [0.5, 2.0], widths, weight_variance=1.5)
    flow = single_flow("leaky_relu(0.3)", [0.5, 2.0], 4, weight_variance=1.5, widths=widths)
    np.testing.assert_allclose(exact["mean"], flow["kernel"], rtol=1e-13)
    np.testing.assert_allclose(exact["variance"][1:], flow["variance"][1:], rtol=5e-6)


def test_exact_moments_against_samples():
    rng = np.random.default_rng(0)
    n, draws = 5, 200_000
    metric = np.ones(draws)
    for _ in range(3):
        metric *= 2 / n * (np.maximum(rng.standard_normal((draws, n)), 0) ** 2).sum(1)
    exact = scale_invariant_moments("relu", 1.0, [n] * 3).isel(layer=-1, sample=0)
    for power, name in ((1, "mean"), (2, "second_moment")):
        error = (metric**power).std() / math.sqrt(draws)
        assert abs((metric**power).mean() - float(exact[name])) < 4 * error


@pytest.mark.parametrize(
    "call",
    [
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
    ("name", "onsets", "last_digit"),
    [
        ("tanh", (1.7034, 0.34386, 0.13746), (1e-4, 1e-5, 1e-5)),
        pytest.param("sin", (0.09120, 0.83848, 1.67108), (1e-5, 1e-5, 1e-5), marks=pytest.mark.slow),
    ],
)
def test_asymptotics(name, onsets, last_digit):
    """One onset, fitted to the kernel, also fixes the vertex to 1e-6 at l = 20000."""
    layer, zero = 20_000, ZeroKernel.of(name)
    flow = single_flow(name, [0.5, 1.0, 2.0], layer)
    for i, expected in enumerate(onsets):
        onset = zero.onset(layer, float(flow["kernel"][-1, i]))
        np.testing.assert_allclose(onset, expected, atol=last_digit[i] / 2, rtol=0)
        np.testing.assert_allclose(zero.vertex(layer, onset), flow["vertex"][-1, i], rtol=4e-7)
        middle = flow.isel(sample=i).sel(layer=2000)
        np.testing.assert_allclose(zero.kernel(2000, onset), middle["kernel"], rtol=4e-7)
    np.testing.assert_allclose(flow["correction"][-1], zero.bare_correction, rtol=1e-3)
    tuned = single_flow(name, 1.0, layer, weight_correction=zero.weight_correction)
    np.testing.assert_allclose(tuned["correction"][-1, 0] * layer, zero.renormalised_correction, rtol=2e-3)


def test_relative_variance_of_tanh():
    flow = single_flow("tanh", 1.0, 10_000).isel(sample=0)
    ratio = flow["vertex"] / flow["kernel"] ** 2 / flow["layer"]
    np.testing.assert_allclose(ratio.sel(layer=[1000, 10_000]), [0.66414805, 0.66635064], rtol=0, atol=5e-9)


def test_approach_to_the_renormalised_coefficient_of_sin():
    """l G1 at l = 1e3 and 1e4 on its way to 20/9, with C_W = 1 + 2 / (3 n)."""
    flow = single_flow("sin", 1.0, 10_000, weight_correction=2 / 3)["correction"][:, 0]
    np.testing.assert_allclose(flow.sel(layer=1000) * 1000, 2.1922, rtol=0, atol=5e-5)
    np.testing.assert_allclose(flow.sel(layer=10_000) * 10_000, 2.21812, rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("tanh", (1 / 2, 1 / 6, -1 / 6)), ("sin", (1, 2 / 3, -1 / 3)), (SIGMOID_AT_ZERO, (2, 8 / 3, -2 / 3))],
)
def test_large_depth_coefficients(activation, expected):
    """The limits of K l, V l and G1."""
    zero = ZeroKernel.of(activation)
    layer = 1e12
    found = zero.kernel(layer, 1.0) * layer, zero.vertex(layer, 1.0) * layer, zero.bare_correction
    np.testing.assert_allclose(found, expected, rtol=5e-11)


@pytest.mark.parametrize("activation", ["tanh", "sin", pytest.param(shifted_tanh(0.2), marks=pytest.mark.slow)])
def test_small_kernels(activation):
    """S = 2 K^2 + (60 b1 - 52 a1) K^3 and j / (8 K^2) = a1 + 3 a2 K at C_W = 1 / s_1^2, PDLT section 5.4."""
    zero, K = ZeroKernel.of(activation), np.array([1e-4, 2e-4])
    at = susceptibilities(activation, K, weight_variance=zero.weight_variance)
    source = (at.source / K**2 - 2) / K
    np.testing.assert_allclose(2 * source[0] - source[1], 60 * zero.b1 - 52 * zero.a1, rtol=5e-6)
    bend = (at.j / (8 * K**2) - zero.a1) / K
    np.testing.assert_allclose(2 * bend[0] - bend[1], 3 * zero.a2, rtol=5e-6)


def test_renormalised_coefficients():
    assert ZeroKernel.of("tanh").renormalised_correction == pytest.approx(89 / 72, rel=1e-12)
    assert ZeroKernel.of("sin").renormalised_correction == pytest.approx(20 / 9, rel=1e-12)
    np.testing.assert_allclose(renormalised_weight_variance("tanh", 64), 1 + 2 / 192)
    assert renormalised_weight_variance("relu", 64) == 2


def test_differences_at_large_depth():
    layer, zero = 20_000, ZeroKernel.of("tanh")
    parallel = difference_flow("tanh", 1.0, 1.0, 0.0, layer).isel(pair=0)
    perpendicular = difference_flow("tanh", 1.0, 0.0, 1.0, layer).isel(pair=0)
    np.testing.assert_allclose(parallel["parallel"][-1] * layer**2, 0.3577, rtol=0, atol=5e-5)
    np.testing.assert_allclose(perpendicular["perpendicular"][-1] * layer, 0.7062, rtol=0, atol=5e-5)
    angle = perpendicular["perpendicular"][-1] / perpendicular["kernel"][-1]
    np.testing.assert_allclose(angle, 1.4121, rtol=0, atol=5e-5)
    onset = zero.onset(layer, float(parallel["kernel"][-1]))
    for flow, name in ((parallel, "parallel"), (perpendicular, "perpendicular")):
        ratio = flow[name].sel(layer=[5000, layer]) / getattr(zero, name)([5000, layer], onset)
        np.testing.assert_allclose(ratio[0], ratio[1], rtol=2.5e-4)


def fitted(values, low=10_000, high=20_000):
    """The exponent p between two layers, for l^(-p)."""
    return -math.log(float(values.sel(layer=high) / values.sel(layer=low))) / math.log(high / low)


@pytest.mark.parametrize(
    "activation", ["tanh", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sin", shifted_tanh(0.2)))]
)
def test_fitted_exponents_of_zero_kernel(activation):
    expected, C_W = exponents(activation), critical_point(activation).weight_variance
    flow = single_flow(activation, 0.5, 20_000, weight_variance=C_W).isel(sample=0)
    assert fitted(flow["kernel"]) == pytest.approx(expected.kernel, abs=1e-3)
    assert fitted(flow["vertex"]) == pytest.approx(expected.vertex, abs=2e-3)
    assert fitted(flow["correction"]) == pytest.approx(expected.correction, abs=2e-3)
    two = difference_flow(activation, 0.5, [1.0, 0.0], [0.0, 1.0], 20_000, weight_variance=C_W)
    assert fitted(two["parallel"][:, 0]) == pytest.approx(expected.parallel, abs=2e-3)
    assert fitted(two["perpendicular"][:, 1]) == pytest.approx(expected.perpendicular, abs=1.2e-3)
    assert expected.vertex - 2 * expected.kernel == -1


@pytest.mark.slow
def test_fine_tuned():
    """s = z - c z^5 has a1 = 0 and a2 = -30 c < 0: K ~ (-2 a2 l)^(-1/2)."""
    tuned = Activation("fine_tuned", lambda z: z * jnp.exp(-0.01 * z**4))
    zero = ZeroKernel.of(tuned)
    assert zero.a1 == 0
    assert criticality(tuned).points[0].stability == "stable"
    flow = single_flow(tuned, 0.2, 4096)
    np.testing.assert_allclose(flow["kernel"][-1, 0] * math.sqrt(4096), zero.fine_tuned_coefficient, rtol=0.02)


@pytest.mark.parametrize(("name", "side"), [("gelu", 1), ("swish", -1)])
@pytest.mark.slow
def test_half_stable_flow(name, side):
    """On the attracting side 1 / (K - K*) grows by -a in every layer, as 1 / (-a l) says; V grows by S(K*)."""
    point = critical_point(name)
    variances = {"bias_variance": point.bias_variance, "weight_variance": point.weight_variance}
    flow = single_flow(name, point.kernel + side * 0.02, 1025, **variances).isel(sample=0)
    inverse = 1 / (flow["kernel"] - point.kernel)
    growth = float(inverse[-1] - inverse[0]) / 1024
    np.testing.assert_allclose(growth, 1 / half_stable_approach(point, 1.0), rtol=0.1)
    assert side * growth > 0
    ratio = float(flow["vertex"][-1]) / 1024 / point.kernel**2
    np.testing.assert_allclose(ratio, exponents(name).relative_variance, rtol=0.02)


def test_half_stable_exponents():
    for name, nu in (("gelu", 4.904226), ("swish", 4.923187)):
        assert exponents(name).relative_variance == pytest.approx(nu, abs=5e-7)
        assert exponents(name).vertex == -1
