"""Two nearby inputs of smooth networks: known values, exact kernels of two inputs, and large depth."""

import numpy as np
import pytest
import scipy.integrate

from made_activations import MIXED
from widefield.base.errors import InvalidInput
from widefield.effective import (
    Expansion,
    beside_training_input,
    equivalent_rates,
    expansion_at,
    expansion_flow,
    interpolation_weights,
)
from widefield.effective.robustness_asymptotics import (
    critical_robustness,
    exponential_integral,
    near_critical_robustness,
    uniform_rates_robustness,
)
from widefield.effective.two_inputs import to_gamma
from widefield.kernels import StaticKernel
from widefield.problem.network import MLP

MIDDLE = np.array([1, 0.6, -0.3])
EQUAL, UNEQUAL = np.array([0.6, -1, 0]), np.array([0.8, 0.5, 0.3])
COMPONENTS = [f"{name}_{part}" for name in ("kernel", "ntk") for part in ("sum", "norms", "distance")]


def critical(depth):
    """C_b = 0, C_W = 1, lambda_b = 1/l, lambda_W = 1."""
    return {"C_b": 0.0, "C_W": 1.0, "bias_rates": tuple(1 / layer for layer in range(1, depth + 1)),
            "weight_rates": (1.0,) * depth}  # fmt: skip


def away(depth):
    return {"C_b": 0.15, "C_W": 1.4, "bias_rates": (0.5,) * depth, "weight_rates": (0.8,) * depth}


def expanded(activation, direction, delta, depth, C_b, C_W, bias_rates, weight_rates):
    step = delta * direction / np.linalg.norm(direction)
    first = Expansion.of_inputs(MIDDLE, step, weight_variance=C_W, bias_variance=C_b, weight_rate=weight_rates[0],
                                bias_rate=bias_rates[0])  # fmt: skip
    flow = expansion_flow(activation, first, depth, bias_variance=C_b, weight_variance=C_W,
                          weight_rates=weight_rates, bias_rates=bias_rates)  # fmt: skip
    return expansion_at(flow, depth)


def exact_kernel(activation, depth, C_b, C_W, bias_rates, weight_rates):
    network = MLP(depth - 1, activation, weight_variances=C_W, bias_variances=C_b)
    return StaticKernel(network, weight_rates=weight_rates, bias_rates=bias_rates)


def exact(activation, direction, delta, depth, **setting):
    step = delta * direction / np.linalg.norm(direction)
    return exact_kernel(activation, depth, **setting)(np.stack([MIDDLE + step / 2, MIDDLE - step / 2]))


@pytest.mark.parametrize(
    ("activation", "setting", "diagonal", "first", "second", "robustness", "variance"),
    [
        ("sin", critical, (0.132980365417, 2.105449485233), (0.022240649102, -0.038386057809),
         (-0.019786329788, 0.011598089122, -0.108262578605, 0.142672894599), (0.000469271683, 0.000471227807),
         (4.661804049e-4, 4.724753132e-4)),
        ("sin", away, (0.665679390806, 3.602590903533), (0.002054275753, 0.047314062370),
         (-0.038512649029, 0.037645448676, -0.363402166797, 0.398558077032), (-0.003515111025, -0.003524228590),
         (1.504213160e-3, 1.506426552e-3)),
        ("tanh", critical, (0.090954163326, 1.657884659949), (0.014221759168, -0.070745392651),
         (-0.010109836110, 0.006503848235, -0.050689254294, 0.083582145419), (0.003276077868, 0.003277118741),
         (2.714442464e-4, 2.739475618e-4)),
    ],
)  # fmt: skip
def test_unequal_norms(activation, setting, diagonal, first, second, robustness, variance):
    """Reference values, L = 6."""
    found = expanded(activation, UNEQUAL, 1.0, 6, **setting(6))
    np.testing.assert_allclose((found.kernel, found.ntk), diagonal, rtol=1e-10)
    np.testing.assert_allclose((found.kernel_norms, found.ntk_norms), first, atol=2e-12)
    np.testing.assert_allclose(
        (found.kernel_sum, found.kernel_distance, found.ntk_sum, found.ntk_distance), second, atol=2e-12
    )
    near, kernels = (f(activation, UNEQUAL, 0.1, 6, **setting(6)) for f in (expanded, exact))
    whole = beside_training_input(kernels.nngp, kernels.ntk)
    np.testing.assert_allclose((whole.robustness, near.robustness()), robustness, atol=2e-12)
    np.testing.assert_allclose((whole.variance, near.variance()), variance, rtol=1e-8)


@pytest.mark.parametrize("setting", [critical, away])
@pytest.mark.parametrize("activation", ["sin", "tanh", MIXED])
@pytest.mark.parametrize("direction", [EQUAL, UNEQUAL])
def test_errors_fall_as_they_should(activation, setting, direction):
    """With the fourth, third and fourth power of the difference; robustness and variance with the third at least."""

    def components(delta):
        near, kernels = (f(activation, direction, delta, 4, **setting(4)) for f in (expanded, exact))
        parts = []
        for M, middle in ((kernels.nngp, near.kernel), (kernels.ntk, near.ntk)):
            gamma = to_gamma((M + M.T) / 2)
            parts += [gamma[0] - middle, gamma[1], gamma[2]]
        return np.array(parts) - [getattr(near, name) for name in COMPONENTS]

    def sides(delta):
        near, kernels = (f(activation, direction, delta, 4, **setting(4)) for f in (expanded, exact))
        found = []
        for side, order in ((1, slice(None)), (-1, slice(None, None, -1))):
            whole = beside_training_input(kernels.nngp[order, order], kernels.ntk[order, order])
            found += [whole.robustness - near.robustness(side), whole.variance - near.variance(side)]
        return np.array(found)

    # Third and fourth orders of what stands beside an input cancel at 0.1.
    for errors, deltas, powers in ((components, (0.1, 0.05), (16, 8, 16) * 2), (sides, (0.01, 0.005), (8,) * 4)):
        large, small = (np.abs(errors(delta)) for delta in deltas)
        tiny = large < 1e-11  # equal norms: nothing to expand
        assert np.all(tiny | (large > 0.7 * np.array(powers) * small)), (large, small)


def test_equal_norms():
    """Reference values, L = 8."""
    found = expanded("tanh", EQUAL, 1.0, 8, **critical(8))
    np.testing.assert_allclose((found.kernel, found.ntk), (0.06768104, 1.63531867), atol=6e-9)
    expected = (0.01382763, 0.16405402, -0.01186944, -0.18441432)
    measured = (found.kernel_distance, found.ntk_distance, found.kernel_sum, found.ntk_sum)
    np.testing.assert_allclose(measured, expected, atol=6e-9)
    near, kernels = (f("tanh", EQUAL, 0.1, 8, **critical(8)) for f in (expanded, exact))
    whole = beside_training_input(kernels.nngp, kernels.ntk)
    np.testing.assert_allclose((whole.robustness, whole.variance), (-0.00200038316, 5.510580619e-4), rtol=1e-8)
    np.testing.assert_allclose((near.robustness(), near.variance()), (-0.00200638598, 5.531052669e-4), rtol=1e-8)
    half, kernels = (f("tanh", EQUAL, 0.05, 8, **critical(8)) for f in (expanded, exact))
    whole = beside_training_input(kernels.nngp, kernels.ntk).robustness
    np.testing.assert_allclose((whole, half.robustness()), (-5.0122034e-4, -5.0159650e-4), rtol=1e-7)


def test_between_two_training_inputs():
    """Reference values, L = 5; print has four times the curvature, which these weights exclude."""
    found = expanded("tanh", EQUAL, 0.1, 5, **critical(5))
    middle, norms, distance = to_gamma(exact("tanh", EQUAL, 0.1, 5, **critical(5)).ntk)
    np.testing.assert_allclose((found.ntk, middle - found.ntk, distance),
                               (1.6701555722, -1.8092608e-3, 1.6716539e-3), rtol=1e-7)  # fmt: skip
    assert abs(norms) < 1e-14
    np.testing.assert_allclose((found.ntk_sum, found.ntk_distance), (middle - found.ntk, distance), rtol=0.004)
    step = 0.1 * EQUAL / np.linalg.norm(EQUAL)
    whole = interpolation_weights(exact_kernel("tanh", 5, **critical(5)), MIDDLE + step / 2, MIDDLE - step / 2, [0.3])
    np.testing.assert_allclose(whole.weights[0], (0.2999868638, 0.7004678212), atol=1e-9)
    assert whole.variance[0] / 0.1**4 == pytest.approx(8.070e-4, abs=6e-8)
    assert whole.weights[0].sum() - 1 == pytest.approx(4.5468492e-4, abs=1e-10)
    assert found.interpolated(0.3, 1.0, 1.0) - 1 == pytest.approx(4.5468492e-4, rel=0.004)
    errors = []
    for delta in (0.1, 0.05):
        step = delta * EQUAL / np.linalg.norm(EQUAL)
        near = expanded("tanh", EQUAL, delta, 5, **critical(5))
        kernel = exact_kernel("tanh", 5, **critical(5))
        weights = interpolation_weights(kernel, MIDDLE + step / 2, MIDDLE - step / 2, [-0.5, 0.3, 1.4]).weights
        y = np.array([1.0, 1.0 + delta])
        errors.append([w @ y - near.interpolated(s, *y) for s, w in zip((-0.5, 0.3, 1.4), weights, strict=True)])
    assert np.all(np.abs(errors[0]) > 6.5 * np.abs(errors[1]))


# Depth ---------------------------------------------------------------------------------------------------

DEEP = 100_000


def deep(activation, weight_rates, bias_rates):
    """From |x_0|^2 / n_0 = 1 and a squared distance of 4, lambda of the first layer as given."""
    first = Expansion(1.0, weight_rates[0] + bias_rates[0], kernel_distance=1.0, ntk_distance=weight_rates[0])
    return expansion_at(expansion_flow(activation, first, DEEP, weight_rates=weight_rates, bias_rates=bias_rates), DEEP)


@pytest.mark.parametrize(("activation", "expected"), [("tanh", 2.0), ("sin", 1.5001)])
def test_equal_rates_in_all_layers(activation, expected):
    """Reference values, which print has as 1: the curvature of the activation meets an NTK that grows with depth."""
    found, theory = deep(activation, (1.0,) * DEEP, (1.0,) * DEEP), uniform_rates_robustness(activation, DEEP)
    delta = DEEP * found.kernel_distance
    assert found.ntk_distance / delta == pytest.approx(expected, abs=1e-3)
    assert found.ntk_distance / delta == pytest.approx(theory.ntk_distance, rel=1e-3)
    assert found.robustness() / delta == pytest.approx(theory.robustness, rel=1e-3)


@pytest.mark.parametrize(
    ("activation", "power", "ratio", "ntk"), [("tanh", 1.0, 1.0003, 1.4998), ("sin", 1.0, 1.0002, 2.0002)]
)
def test_rates_that_make_layers_equal(activation, power, ratio, ntk):
    """Reference values, and leading powers of the depth."""
    found, theory = deep(activation, *equivalent_rates(activation, DEEP)), critical_robustness(activation, DEEP)
    delta = DEEP**power * found.kernel_distance
    assert found.ntk_distance / delta == pytest.approx(ratio, abs=1e-3)
    assert found.ntk == pytest.approx(ntk, abs=1e-4)
    np.testing.assert_allclose((found.ntk, found.ntk_distance / delta), theory[:2], rtol=1e-3)
    assert found.ntk_sum / found.ntk_distance == pytest.approx(-1, abs=2e-3)


def test_activations_that_are_not_odd_are_less_robust_with_depth():
    """Reference values: robustness grows like the depth to the power 1 - p_perp = 0.2."""
    found, theory = deep(MIXED, *equivalent_rates(MIXED, DEEP)), critical_robustness(MIXED, DEEP)
    delta = DEEP**0.8 * found.kernel_distance
    assert found.robustness() / delta / DEEP**0.2 == pytest.approx(-2.5922, abs=2e-4)
    assert theory.robustness / DEEP**0.2 == pytest.approx(-2.592593, abs=1e-6)


def test_near_criticality():
    """Reference values: a flow of 400 layers."""
    first = Expansion(0.3, 1.51, kernel_distance=1.0, ntk_distance=0.7 / 1.0025)
    rates = tuple(1.3 / layer for layer in range(1, 401))
    flow = expansion_flow("sin", first, 400, weight_variance=1.0025, weight_rates=0.7, bias_rates=rates)
    found = expansion_at(flow, 400)
    assert found.kernel == pytest.approx(0.003930928047, abs=1e-12)
    assert found.ntk == pytest.approx(2.827469035502, abs=1e-11)
    np.testing.assert_allclose((found.kernel_sum, found.kernel_distance), (-0.014621736490, 0.014678282390), atol=2e-12)
    np.testing.assert_allclose((found.ntk_sum, found.ntk_distance), (-4.544534669165, 4.283878615851), atol=2e-10)


@pytest.mark.parametrize(("x", "formula"), [(-4, 0.10866), (-1, 0.29006), (0, 0.35), (1, 0.40332), (4, 0.52263)])
def test_at_a_distance_from_criticality(x, formula):
    """L = 1600, where corrections of order log L / L are 1%."""
    L = 1600
    first = Expansion(0.3, 1.51, kernel_distance=1.0, ntk_distance=0.7)
    rates = tuple(1.3 / layer for layer in range(1, L + 1))
    flow = expansion_flow("sin", first, L, weight_variance=1 + x / L, weight_rates=0.7, bias_rates=rates)
    found, theory = expansion_at(flow, L), near_critical_robustness("sin", x, weight_rate=0.7, bias_rate=1.3)
    u = (x / L) / -np.expm1(-x) if x else 1 / L
    c = found.kernel_distance / u
    assert theory.robustness / -2 == pytest.approx(formula, abs=6e-6)
    assert found.ntk_distance / (c * found.ntk) == pytest.approx(formula, rel=0.012)
    assert found.ntk / theory.ntk == pytest.approx(1, abs=0.015)
    assert found.ntk_sum / found.ntk_distance == pytest.approx(-1, abs=0.025)


@pytest.mark.parametrize("x", [-30.0, -3.0, -0.5, -0.1, 0.1, 0.5, 2.0, 40.0])
def test_exponential_integral(x):
    expected = scipy.integrate.quad(lambda t: -np.expm1(-t) / t if t else 1.0, 0, x, epsabs=1e-14, epsrel=1e-12)[0]
    assert exponential_integral(x) == pytest.approx(expected, rel=1e-11)


def test_norms_are_forgotten_faster_than_angles():
    """Reference values: t1 falls like log(l) / l; slope of l t1 in log l at l = 1000, for two rates of biases."""
    slopes = []
    for rate in (1.0, 2.0):
        first = Expansion(1.0, 1 + rate, kernel_norms=1.0, ntk_norms=1.0)
        rates = tuple(rate / layer for layer in range(1, 1101))
        flow = expansion_flow("sin", first, 1100, weight_rates=1.0, bias_rates=rates)
        scaled = (flow["layer"] * flow["ntk_norms"]).values
        decay = float(flow["layer"][-1] ** 2 * flow["kernel_norms"][-1])
        slopes.append((scaled[1099] - scaled[909]) / np.log(1100 / 910) / decay)
    assert slopes[1] / slopes[0] == pytest.approx(2, rel=0.05)
    np.testing.assert_allclose(slopes, [-1.0, -2.0], rtol=0.06)


def test_refusals():
    with pytest.raises(InvalidInput, match="kinks"):
        expansion_flow("relu", Expansion(1.0, 1.0), 3)
    with pytest.raises(InvalidInput, match="exact"):
        Expansion(1.0, 1.0, kernel_norms=0.1).interpolated(0.5, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="trained = 0"):
        Expansion(1.0, 1.0).robustness(0)
    with pytest.raises(InvalidInput, match="odd"):
        uniform_rates_robustness(MIXED, 10)
    with pytest.raises(InvalidInput, match=r"\(2, 2\)"):
        beside_training_input(np.eye(3), np.eye(3))
