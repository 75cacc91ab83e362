"""Residual networks: recursions against PDLT's numbers, the plain network and networks that are drawn."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import register
from widefield.base.errors import InvalidInput
from widefield.effective.aspect_ratio import (
    critical_block,
    fluctuation_rate,
    kernel_coefficient,
    optimal_aspect_ratio,
    optimal_depth,
    optimal_gamma,
)
from widefield.effective.residual import (
    BlockLayer,
    block_strength,
    kernel_flow,
    measured_strength,
    residual_flow,
    susceptibilities,
)
from widefield.effective.residual_inputs import residual_inputs_flow
from widefield.effective.residual_sampler import Estimates, sample_residual
from widefield.effective.single_input import SingleInput
from widefield.effective.universality import critical_point
from widefield.effective.vertex_flow import flow
from widefield.problem.network import MLP

VERTICES = [
    ("relu", 1.0, 0.5, {2: (3.5625, 3.5625), 3: (7.125, 8.5574), 5: (14.25, 20.3377)}),
    ("relu", 1.0, 0.8, {5: (6.2784, 9.0453)}),
    ("relu", 1.0, -0.5, {5: (14.25, 11.0271)}),
    ("tanh", 0.5, 0.5, {5: (0.0646, 0.0646)}),
    ("relu", 1.0, 0.0, {2: (5, 5), 3: (10, 10), 5: (20, 20)}),
]


def lopsided():
    """sin z + 0.6 (1 - cos z): K* = 0 class, not odd."""
    return register("lopsided_sine", _lopsided, universality_class="zero-kernel")


def _lopsided(z):
    return jnp.sin(z) + 0.6 * (1 - jnp.cos(z))


@pytest.mark.parametrize(("activation", "K", "gamma", "expected"), VERTICES)
def test_vertices(activation, K, gamma, expected):
    block = critical_block(activation, gamma)
    full = residual_flow(activation, K, 5, gamma, block)
    book = residual_flow(activation, K, 5, gamma, block, three_point=False)
    for layer, (printed, corrected) in expected.items():
        assert book.vertex[layer - 1] == pytest.approx(printed, abs=6e-5)
        assert full.vertex[layer - 1] == pytest.approx(corrected, abs=6e-5)
    if activation == "tanh":
        assert np.abs(full.three_point).max() < 1e-14


def test_three_point_function_of_relu():
    X = residual_flow("relu", 1.0, 5, 0.5, critical_block("relu", 0.5)).three_point
    assert X[[0, 1, 2, 4]] == pytest.approx([0, 0.5984, 0.8976, 1.1220], abs=5e-5)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "leaky_relu(0.3)"])
def test_no_skip_is_the_plain_network(activation):
    """gamma = 0: PDLT eqs. (5.108)-(5.110), written out."""
    single, C_b, C_W = SingleInput.of(activation), 0.1, 1.2
    flow = residual_flow(activation, 0.7, 4, 0.0, BlockLayer(C_b, C_W))
    K, V, G1 = 0.7, 0.0, 0.0
    for layer in range(4):
        assert flow.K[layer] == pytest.approx(K, rel=1e-12)
        assert flow.vertex[layer] == pytest.approx(V, rel=1e-9)
        assert flow.metric[layer] == pytest.approx(G1, rel=1e-8, abs=1e-12)
        chi, g = C_W * float(single.square_slope(K)), float(single.square(K))
        G1 = chi * G1 + C_W * float(single.square_curvature(K)) * V / 2
        V = chi**2 * V + C_W**2 * (float(single.fourth(K)) - g**2)
        K = C_b + C_W * g


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_strong_skip_changes_nothing(activation):
    """gamma -> 1 on the critical line: blocks fade, and with them everything that is not Gaussian, like 1 - gamma^2."""
    sizes = []
    for gamma in (0.999, 0.9999):
        flow = residual_flow(activation, 0.8, 6, gamma, critical_block(activation, gamma))
        np.testing.assert_allclose(flow.K, 0.8, rtol=20 * (1 - gamma**2))
        sizes.append(flow.vertex[-1] / (1 - gamma**2))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
    still = residual_flow(activation, 0.8, 6, 1.0, BlockLayer(0.0, 0.0))
    np.testing.assert_allclose(still.K, 0.8, rtol=1e-14)
    assert np.all(still.vertex == 0)


def _fixed_kernel(activation):
    """K*, a small one in the K* = 0 class, and 1 where every kernel is fixed."""
    K = critical_point(activation).kernel
    return 1.0 if K is None else max(K, 1e-9)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sin", "erf", "gelu", "swish", "leaky_relu(0.2)"])
@pytest.mark.parametrize("gamma", [-0.6, 0.0, 0.5])
def test_both_susceptibilities_are_one_on_the_critical_line(activation, gamma):
    K = _fixed_kernel(activation)
    for layers in (1, 3):
        block = critical_block(activation, gamma, layers)
        parallel, perpendicular = susceptibilities(activation, K, gamma, block)
        assert (float(parallel), float(perpendicular)) == pytest.approx((1, 1), abs=3e-8)
        flow = kernel_flow(activation, [[K]], 3, gamma, block)
        np.testing.assert_allclose(flow, K, rtol=1e-7)


RATES = [
    (0.0, 0.666667, 2.0, 5.0, 5.0),
    (0.25, 0.664063, 1.992188, 4.628906, 6.120984),
    (0.5, 0.625, 1.875, 3.5625, 6.427289),
    (0.75, 0.455729, 1.367188, 1.941406, 4.865878),
    (0.9, 0.229267, 0.6878, 0.7961, 2.450802),
]


@pytest.mark.parametrize(("gamma", "tanh", "linear", "printed", "corrected"), RATES)
def test_rates(gamma, tanh, linear, printed, corrected):
    found = [fluctuation_rate(name, gamma) for name in ("tanh", "linear", "relu")]
    assert found == pytest.approx([tanh, linear, corrected], abs=6e-7)
    assert fluctuation_rate("relu", gamma, three_point=False) == pytest.approx(printed, abs=6e-7)
    best = optimal_aspect_ratio("relu", 10, gamma)
    assert best.aspect_ratio * best.rate == pytest.approx(4 / 50)


def test_rate_of_relu_is_not_monotone():
    assert max(fluctuation_rate("relu", g) for g in np.linspace(0, 0.99, 34)) == pytest.approx(6.4781, abs=0.01)
    assert fluctuation_rate("relu", 0.4377) == pytest.approx(6.4781, abs=1e-4)
    assert fluctuation_rate("relu", 0.7383) == pytest.approx(5, abs=2e-3)
    assert fluctuation_rate("relu", 0.9999) / (1 - 0.9999**2) == pytest.approx(14.19, abs=0.01)


@pytest.mark.parametrize("activation", ["relu", "abs", "gelu", "leaky_relu(0.2)"])
def test_rate_of_deep_recursions(activation):
    """V / K^2 grows by nu with every block once X has settled; also for blocks of three layers."""
    for gamma, layers in ((0.5, 1), (0.7, 3)):
        flow = residual_flow(
            activation, _fixed_kernel(activation), 45, gamma, critical_block(activation, gamma, layers)
        )
        growth = flow.fluctuation[-1] - flow.fluctuation[-2]
        assert growth == pytest.approx(fluctuation_rate(activation, gamma, block_layers=layers), rel=1e-6)


@pytest.mark.parametrize(("gamma", "layers"), [(0.0, 1), (0.5, 1), (0.5, 2)])
def test_deep_kernels_of_sin(gamma, layers):
    """K -> c / l and V / (K^2 l) -> nu, up to log(l) / l."""
    depth = 1500
    flow = residual_flow("sin", 0.5, depth, gamma, critical_block("sin", gamma, layers))
    assert flow.K[-1] * depth == pytest.approx(kernel_coefficient("sin", gamma, block_layers=layers), rel=0.02)
    rate = fluctuation_rate("sin", gamma, block_layers=layers)
    assert flow.fluctuation[-1] / depth == pytest.approx(rate, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "rate"), [(0.0, 0.666521), (0.5, 0.624761), (0.9, 0.228758)])
def test_very_deep_tanh(gamma, rate):
    flow = residual_flow("tanh", 0.5, 20001, gamma, critical_block("tanh", gamma))
    assert flow.fluctuation[-1] / 20001 == pytest.approx(rate, abs=2e-5)
    assert rate == pytest.approx(fluctuation_rate("tanh", gamma), rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "rate", "skew"), [(0.5, 0.625306, 1.349981), (0.8, 0.393863, 2.591643)])
def test_very_deep_lopsided(gamma, rate, skew):
    flow = residual_flow(lopsided(), 0.5, 20001, gamma, critical_block(lopsided(), gamma))
    assert flow.fluctuation[-1] / 20001 == pytest.approx(rate, abs=1e-4)
    assert flow.three_point[-1] / flow.K[-1] ** 2 == pytest.approx(skew, abs=1e-4)


@pytest.mark.slow
def test_deep_lopsided():
    gamma, depth = 0.5, 120
    flow = residual_flow(lopsided(), 0.02, depth, gamma, critical_block(lopsided(), gamma))
    assert flow.three_point[-1] / flow.K[-1] ** 2 == pytest.approx(3 * gamma * (1 + gamma) * 0.6, rel=0.01)


@pytest.mark.parametrize(("K", "C_W"), [(0.5, 1.2), pytest.param(1e5, 1e5, marks=pytest.mark.slow)])
def test_deep_flows_use_an_accurate_rule(K, C_W):
    """Deep flows of smooth activations take a fixed rule, unless the kernel is too large for it."""
    deep, shallow = (residual_flow("tanh", K, depth, 0.5, BlockLayer(0.1, C_W)) for depth in (101, 12))
    np.testing.assert_allclose(deep.K[:12], shallow.K, rtol=1e-11)
    np.testing.assert_allclose(deep.vertex[:12], shallow.vertex, rtol=1e-8)


def test_optimal_gamma():
    for name, ratio, expected in (
        ("tanh", 0.12, 0.0),
        ("tanh", 0.05, 0.0),
        ("tanh", 0.2, 0.7952707),
        ("tanh", 1.0, 0.9685469),
        ("linear", 0.2, 0.9457416),
    ):
        best = optimal_gamma(name, ratio, 10)
        assert best.skip == pytest.approx(expected, abs=6e-8)
        if best.skip:
            assert best.information == pytest.approx(1 / 150)
    c = 4 / (50 * 0.2)
    assert optimal_gamma("tanh", 0.2, 10).skip == pytest.approx((1 - 1.5 * c) ** 0.25)
    book = optimal_gamma("relu", 0.2, 10, three_point=False).skip
    assert 1 - book**2 == pytest.approx(-2 + math.sqrt(4 + c))


def test_optimal_gamma_of_relu_below_the_plain_ratio():
    """Too shallow for any gamma below 0.7718 r*(0); then the larger of two solutions, beyond 0.7383 the only one."""
    plain = optimal_aspect_ratio("relu", 10).aspect_ratio
    assert optimal_gamma("relu", 0.7 * plain, 10).skip == pytest.approx(0.4377, abs=1e-4)
    assert optimal_gamma("relu", 0.7 * plain, 10).information < 1 / 150
    found = [optimal_gamma("relu", x * plain, 10) for x in (0.773, 0.9, 1.0, 1.1, 3.0)]
    assert [best.skip for best in found] == sorted(best.skip for best in found)
    assert found[2].skip == pytest.approx(0.7383, abs=1e-4)
    assert all(best.information == pytest.approx(1 / 150) for best in found)


def test_optimal_depth_with_skips():
    """The largest information over the recursion's depths is near n r*(gamma)."""
    best, ratio = optimal_depth("relu", 1500, 10, skip=0.8), optimal_aspect_ratio("relu", 10, 0.8)
    assert best.aspect_ratio == pytest.approx(ratio.aspect_ratio, abs=4 / 1500)
    assert best.information == pytest.approx(ratio.information, rel=5e-3)


def test_strength_of_any_block():
    assert block_strength(1.5, 2.0, 0.1, 0.6) == pytest.approx(0.8846260505, abs=1e-10)
    for gamma in (-0.7, 0.0, 0.3, 0.95):
        for overlap in (-0.4, 0.0, 0.4):
            xi = block_strength(1.5, 2.0, overlap, gamma)
            assert xi > 0
            assert gamma**2 * 2 + 2 * gamma * xi * overlap + xi**2 * 1.5 == pytest.approx(2.0, rel=1e-13)
    z = np.random.default_rng(0).normal(size=(50, 40))
    R = np.tanh(z) + 0.2
    xi = measured_strength(R, z, 0.6)
    assert np.mean((xi * R + 0.6 * z) ** 2) == pytest.approx(np.mean(z**2), rel=1e-12)


def extrapolated(small, large):
    """Value and error in the limit of large width, from two widths of ratio 2."""
    return 2 * large.value - small.value, np.hypot(2 * large.error, small.error)


@pytest.mark.parametrize(
    ("activation", "K", "gamma", "layers"),
    [
        ("relu", 1.0, 0.5, 1),
        ("relu", 1.0, 0.8, 1),
        ("relu", 1.0, -0.5, 1),
        ("tanh", 0.5, 0.5, 1),
        ("gelu", 3.0, 0.6, 1),
        ("relu", 1.0, 0.6, 2),
        ("tanh", 1.0, 0.6, 3),
    ],
)
def test_drawn_networks(activation, K, gamma, layers):
    """Kernel, X and V at two widths, extrapolated to 1/n -> 0, within four standard errors."""
    block, depth = critical_block(activation, gamma, layers), 4
    flow = residual_flow(activation, K, depth, gamma, block)
    small, large = (sample_residual(activation, K, depth, gamma, block, width=n, seeds=6000, seed=n) for n in (64, 128))
    for sample in (small, large):
        expected = flow.K + flow.metric / sample.width
        allowed = 4 * sample.kernel.error + 8 * K * np.arange(depth) ** 2 / sample.width**2
        assert np.all(np.abs(sample.kernel.value - expected) < allowed)
    for name in ("vertex", "three_point"):
        value, error = extrapolated(getattr(small, name), getattr(large, name))
        assert np.all(np.abs(value - getattr(flow, name)) < 4 * error), name
    # Layer 2 is exact at any width if the block has one layer.
    if layers == 1:
        assert abs(small.vertex.value[1] - flow.vertex[1]) < 4 * small.vertex.error[1]


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 0.8, -0.5])
def test_drawn_networks_to_a_percent(gamma):
    """Tells the corrected from the printed vertex of ReLU by many standard errors, and sees the metric's order 1/n."""
    block = critical_block("relu", gamma)
    flow, book = (residual_flow("relu", 1.0, 5, gamma, block, three_point=full) for full in (True, False))
    small, large = (sample_residual("relu", 1.0, 5, gamma, block, width=n, seeds=200_000, seed=n) for n in (128, 256))
    value, error = extrapolated(small.vertex, large.vertex)
    assert np.all(np.abs(value - flow.vertex) < 4 * error)
    assert abs(value[-1] - book.vertex[-1]) > 10 * error[-1]
    shift = 128 * (small.kernel.value - 1)
    assert np.all(np.abs(shift - flow.metric) < 128 * 4 * small.kernel.error + 0.1 * np.abs(flow.metric))
    assert abs(shift[-1]) > 4 * 128 * small.kernel.error[-1]


def test_unequal_widths_inside_a_block():
    block = (BlockLayer(0.1, 1.4), BlockLayer(0.05, 0.9, inverse_width=4.0))
    flow = residual_flow("relu", 1.0, 3, 0.5, block)
    small, large = (sample_residual("relu", 1.0, 3, 0.5, block, width=n, seeds=8000, seed=n) for n in (64, 128))
    value, error = extrapolated(small.vertex, large.vertex)
    assert np.all(np.abs(value - flow.vertex) < 4 * error)


def test_weights_give_the_same_law():
    block = (BlockLayer(0.1, 1.2), BlockLayer(0.0, 0.8, inverse_width=2.0))
    runs = [
        sample_residual("relu", 1.0, 3, 0.6, block, width=16, seeds=8000, seed=seed, weights=weights)
        for seed, weights in ((1, False), (2, True))
    ]
    for name in ("kernel", "three_point", "vertex"):
        drawn, explicit = (getattr(run, name) for run in runs)
        assert np.all(np.abs(drawn.value - explicit.value) < 4 * np.hypot(drawn.error, explicit.error)), name


def test_readout_is_a_plain_layer():
    """V of a plain layer on top, against draws of its metric: n Var(G)."""
    gamma, n, block = 0.7, 100, critical_block("relu", 0.7)
    flow = residual_flow("relu", 1.0, 3, gamma, block).readout(BlockLayer(0.2, 2.0))
    generator = np.random.default_rng(5)
    z = generator.normal(size=(20_000, n))
    for _ in range(2):
        metric = block[0].weight_variance * np.mean(np.maximum(z, 0) ** 2, 1, keepdims=True)
        z = np.sqrt(metric) * generator.normal(size=z.shape) + gamma * z
    G = 0.2 + 2.0 * np.mean(np.maximum(z, 0) ** 2, 1)
    V, error = n * G.var(), n * np.std((G - G.mean()) ** 2) / math.sqrt(len(G))
    assert flow.K[-1] == pytest.approx(1.2)
    assert flow.three_point[-1] == 0
    assert abs(flow.vertex[-1] - V) < 4 * error + 0.05 * V
    assert abs(G.mean() - flow.K[-1] - flow.metric[-1] / n) < 4 * G.std() / math.sqrt(len(G)) + 1e-3


def test_kernels_of_several_inputs():
    first = np.array([[1.0, 0.3], [0.3, 0.6]])
    for layers in (1, 2):
        block = critical_block("tanh", 0.5, layers)
        K = kernel_flow("tanh", first, 4, 0.5, block)
        assert K.shape == (4, 2, 2)
        for a in (0, 1):
            single = residual_flow("tanh", first[a, a], 4, 0.5, block).K
            assert K[:, a, a] == pytest.approx(single, rel=1e-11)
    relu = kernel_flow("relu", first, 2, 0.8, critical_block("relu", 0.8))
    assert np.diagonal(relu[1]) == pytest.approx(np.diagonal(first))


TWO = np.array([[1.0, 0.4], [0.4, 0.7]])
THREE = np.array([[1.0, 0.4, -0.2], [0.4, 0.7, 0.1], [-0.2, 0.1, 1.5]])
PAIR = (BlockLayer(0.1, 1.4), BlockLayer(0.05, 0.9, inverse_width=2.0))


@pytest.mark.parametrize(
    ("activation", "block"),
    [
        ("relu", BlockLayer(0.1, 1.5)),
        ("relu", PAIR),
        pytest.param("gelu", BlockLayer(0.1, 1.5), marks=pytest.mark.slow),
        ("gelu", PAIR),
        pytest.param("tanh", PAIR, marks=pytest.mark.slow),
    ],
)
def test_several_inputs_contain_each_one(activation, block):
    """Two inputs that differ, and two with opposite directions: a singular first kernel."""
    for K in (TWO, np.array([[1.0, -2.0], [-2.0, 4.0]])):
        flow = residual_inputs_flow(activation, K, 3, -0.6, block)
        np.testing.assert_allclose(flow.K, kernel_flow(activation, K, 3, -0.6, block), rtol=1e-12)
        for a in (0, 1):
            single = residual_flow(activation, K[a, a], 3, -0.6, block)
            np.testing.assert_allclose(flow.three_point[:, a, a, a], single.three_point, rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(flow.vertex[:, a, a, a, a], single.vertex, rtol=1e-11)
            np.testing.assert_allclose(flow.metric[:, a, a], single.metric, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", pytest.param("swish", marks=pytest.mark.slow)])
def test_equal_inputs_are_one_input(activation):
    """Kernels, vertices and the order 1/n of duplicates agree, and those of inputs of no variance are finite."""
    flow = residual_inputs_flow(activation, np.ones((2, 2)), 4, 0.7, PAIR)
    single = residual_flow(activation, 1.0, 4, 0.7, PAIR)
    for name in ("three_point", "vertex", "metric"):
        found, expected = getattr(flow, name).reshape(4, -1), getattr(single, name)[:, None]
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-10, atol=1e-12)
    dead = residual_inputs_flow(activation, [[1.0, 0.0], [0.0, 0.0]], 4, 0.7, PAIR)
    np.testing.assert_allclose(dead.vertex[:, 0, 0, 0, 0], single.vertex, rtol=1e-11)
    assert np.all(np.isfinite(dead.vertices))
    assert np.all(np.isfinite(dead.skews))


@pytest.mark.parametrize("activation", ["relu", pytest.param("swish", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "x", [[[1.0, 0.3], [0.2, -0.8]], [[1.0, 0.3], [1.0, 0.3]], [[1.0, 0.3], [0.2, -0.8], [-2.0, -0.6]]]
)
def test_several_inputs_without_skips_are_the_plain_network(activation, x):
    """gamma = 0 and blocks of one layer, also with sampled averages, whose points are the same."""
    plain = flow(MLP(2, activation, weight_variances=1.7), x, 50, points=2**9)
    found = residual_inputs_flow(activation, plain.kernel(1), 3, 0.0, BlockLayer(0.0, 1.7), points=2**9)
    np.testing.assert_allclose(found.K, plain.kernels, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.vertices, 50 * plain.covariances, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.shifts, 50 * plain.shifts, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.vertex_error, 50 * plain.covariance_error, rtol=1e-6, atol=1e-12)
    assert np.any(found.vertex_error > 0) == (len(x) > 2)


def test_linear_networks_seen_by_several_inputs():
    """No skip: V_(12)(34) = (l - 1)(K_13 K_24 + K_14 K_23) exactly. With one: the same times 1 - gamma^4."""
    for K in (TWO, np.array([[1.0, 0.5], [0.5, 0.25]]), THREE):
        wick = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
        for gamma in (0.0, 0.6):
            flow = residual_inputs_flow("linear", K, 3, gamma, BlockLayer(0.0, 1 - gamma**2), points=2**9, replicas=24)
            for layer in range(3):
                np.testing.assert_allclose(flow.K[layer], K, rtol=1e-11)
                gap = np.abs(flow.vertex[layer] - layer * (1 - gamma**4) * wick)
                errors = flow.pairs.tensor(flow.vertex_error[layer])
                assert np.all(gap < 1e-10 + 5 * errors)
                assert np.all(errors < 0.1)
            assert np.abs(flow.skews).max() < 1e-11
            assert np.abs(flow.shifts).max() < 1e-11


def compare_inputs(activation, K, gamma, block, networks):
    """Everything at four standard errors of the draws and of the averages of four activations."""
    flow = residual_inputs_flow(activation, K, 3, gamma, block)
    small, large = (sample_residual(activation, K, 3, gamma, block, width=n, seeds=networks, seed=n) for n in (64, 128))
    sampled = 4 * flow.pairs.tensor(flow.vertex_error) + 1e-12
    for name, more in (("three_point", 1e-12), ("vertex", sampled)):
        value, error = extrapolated(getattr(small, name), getattr(large, name))
        assert np.all(np.abs(value - getattr(flow, name)) < 4 * error + more), name
    shifts = (Estimates(r.width * (r.kernel.value - flow.K), r.width * r.kernel.error) for r in (small, large))
    value, error = extrapolated(*shifts)
    sampled = 4 * flow.pairs.matrix(flow.shift_error) + 1e-10
    assert np.all(np.abs(value - flow.metric) < 4 * error + sampled)


@pytest.mark.parametrize("block", [BlockLayer(0.1, 1.5), PAIR])
def test_drawn_networks_seen_by_two_inputs(block):
    compare_inputs("relu", TWO, 0.5, block, 3000)


SINGULAR = np.array([[1.0, 0.4, -0.5], [0.4, 0.7, -0.2], [-0.5, -0.2, 0.25]])
"""The third input is minus half the first."""


@pytest.mark.slow
@pytest.mark.parametrize("block", [BlockLayer(0.0, 1.5), PAIR])
@pytest.mark.parametrize(
    ("activation", "K", "gamma"),
    [("relu", TWO, 0.7), ("swish", TWO, 0.6), ("tanh", TWO, -0.5), ("relu", THREE, 0.6), ("gelu", SINGULAR, 0.6)],
)
def test_many_drawn_networks_seen_by_several_inputs(activation, K, gamma, block):
    compare_inputs(activation, K, gamma, block, 20_000)


def test_explicit_weights_seen_by_two_inputs():
    """The draws of metrics and those of weights have the same law."""
    runs = [
        sample_residual("relu", TWO, 3, 0.6, PAIR, width=12, seeds=4000, seed=seed, weights=weights)
        for seed, weights in ((1, False), (2, True))
    ]
    for name in ("kernel", "three_point", "vertex"):
        drawn, explicit = (getattr(run, name) for run in runs)
        assert np.all(np.abs(drawn.value - explicit.value) < 4 * np.hypot(drawn.error, explicit.error)), name


PLAIN = BlockLayer(0.0, 1.0)
BAD = [
    lambda: residual_flow("tanh", math.nan, 3, 0.5, PLAIN),
    lambda: residual_flow("tanh", 0.0, 3, 0.5, PLAIN),
    lambda: residual_flow("tanh", 1.0, 0, 0.5, PLAIN),
    lambda: residual_flow("tanh", 1.0, 3, 1.5, PLAIN),
    lambda: residual_flow("tanh", 1.0, 3, math.nan, PLAIN),
    lambda: residual_flow("tangent", 1.0, 3, 0.5, PLAIN),
    lambda: residual_flow("tanh", 1.0, 3, 0.5, ()),
    lambda: residual_flow("tanh", 1.0, 3, 0.5, 1.0),
    lambda: residual_flow("relu", 1.0, 400, 0.5, BlockLayer(0.0, 8.0)),
    lambda: BlockLayer(-0.1, 1.0),
    lambda: BlockLayer(0.0, math.nan),
    lambda: critical_block("relu", 1.0),
    lambda: critical_block("sigmoid", 0.5),
    lambda: critical_block("relu", 0.5, 0),
    lambda: kernel_coefficient("relu"),
    lambda: optimal_gamma("relu", -0.1, 10),
    lambda: optimal_gamma("relu", 0.1, 0),
    lambda: block_strength(1.0, 1.0, 2.0, 0.5),
    lambda: block_strength(0.0, 1.0, 0.0, 0.5),
    lambda: measured_strength(np.ones(3), np.ones(4), 0.5),
    lambda: kernel_flow("relu", np.ones((2, 3)), 3, 0.5, PLAIN),
    lambda: residual_inputs_flow("relu", [[1.0, 2.0], [2.0, 1.0]], 3, 0.5, PLAIN),
    lambda: residual_inputs_flow("relu", [[1.0, 0.2], [0.1, 1.0]], 3, 0.5, PLAIN),
    lambda: residual_inputs_flow("perceptron", np.eye(2), 3, 0.5, PLAIN),
    lambda: residual_inputs_flow("relu", np.ones(2), 3, 0.5, PLAIN),
    lambda: residual_inputs_flow("relu", np.eye(2), 3, 0.5, (PLAIN, 1.0)),
    lambda: residual_inputs_flow("relu", np.eye(2), 3, -1.5, PLAIN),
    lambda: sample_residual("relu", np.eye(2), 3, 0.5, PLAIN, width=1, seeds=10),
    lambda: sample_residual("relu", [[math.nan]], 3, 0.5, PLAIN, width=4, seeds=10),
    lambda: sample_residual("relu", 1.0, 3, 0.5, PLAIN, width=-4, seeds=10),
    lambda: sample_residual("relu", 1.0, 3, 0.5, PLAIN, width=4, seeds=1),
    lambda: sample_residual("relu", 1.0, 3, 0.5, PLAIN, width=4, seeds=10, seed=-1),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
