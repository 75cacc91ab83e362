"""The stochastic metric beyond its covariance: third cumulant, inverse and determinant."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import multigammaln
from scipy.stats import multivariate_normal

from widefield.base.errors import InvalidInput
from widefield.effective.cumulants import from_samples
from widefield.effective.deep_linear import DeepLinear
from widefield.effective.sampler import metrics
from widefield.effective.single_input_flow import ScaleInvariant, scale_invariant_moments
from widefield.effective.stochastic_metric import (
    chain_log_density,
    inverse_expansion,
    mean_inverse,
    mean_root_determinant,
    root_determinant_expansion,
    second_layer_third_cumulant,
    third_cumulant_flow,
)
from widefield.gaussian.sample_pairs import Pairs
from widefield.problem.network import MLP


def test_third_cumulants_of_relu():
    """PDLT 4.59 and its continuation: 44, 238, 1076, 5796 in the layers 2, 3, 5, 10 for K = 1, C_W = 2."""
    third = third_cumulant_flow("relu", [1.0, 2.0], 10, weight_variance=2.0)["third"].values
    np.testing.assert_allclose(third[[0, 1, 2, 4, 9], 0], [0, 44, 238, 1076, 5796], rtol=1e-12)
    np.testing.assert_allclose(third[:, 1], 8 * third[:, 0], rtol=1e-12)


@pytest.mark.parametrize("activation", ["linear", "relu", "leaky_relu(0.3)"])
def test_third_cumulants_against_exact_moments(activation):
    """Exact third moments of scale-invariant networks give the leading order, as 1/n -> 0 with error 1/n."""
    critical = 1 / ScaleInvariant.of(activation).mean_power(2)
    ratios = np.array([1.0, 0.5, 2.0, 1.5])
    gaps = []
    for n in (1e4, 2e4):
        widths = n * ratios
        exact = scale_invariant_moments(activation, 1.3, widths)
        mean, second, third = (exact[name].values[:, 0] for name in ("mean", "second_moment", "third_moment"))
        cumulant = third - 3 * second * mean + 2 * mean**3
        flow = third_cumulant_flow(activation, 1.3, 5, weight_variance=critical, widths=widths)
        gaps.append(np.abs(flow["third_cumulant"].values[1:, 0] / cumulant[1:] - 1))
    assert np.all(gaps[0] < 40 / 1e4)
    np.testing.assert_allclose(gaps[1][1:], gaps[0][1:] / 2, rtol=0.05)
    assert gaps[0][0] < 1e-6  # the second layer is exact


def test_third_cumulants_of_deep_linear_networks():
    """12 (l-1)^2 - 4 (l-1), and the all-order cumulant of `DeepLinear` at a large width."""
    third = third_cumulant_flow("linear", 1.0, 6)["third"].values[:, 0]
    below = np.arange(6)
    np.testing.assert_allclose(third, 12 * below**2 - 4 * below, rtol=1e-12)
    network = DeepLinear((10_000,) * 5)
    assert 1e8 * network.connected(3, 6) == pytest.approx(third[-1], rel=5e-3)


def compare_with_draws(activation, biases, weights, draws):
    """n^2 kappa_3 of drawn metrics: the second layer is exact at any width, the third is extrapolated from two."""
    K = biases + weights / 4
    flow = third_cumulant_flow(activation, K, 3, bias_variance=biases, weight_variance=weights)
    network = MLP(2, activation, weight_variances=weights, bias_variances=biases)
    found = []
    for width in (16, 32):
        drawn = metrics(network, [[0.5]], width, seeds=draws, seed=width)[:, :, 0, 0]
        found.append(np.array([width**2 * np.array(from_samples(drawn, (row,) * 3)) for row in (1, 2)]))
    second, third = flow["third"].values[1:, 0]
    for value, error in (found[0][0], found[1][0]):
        assert abs(value - second) < 4 * error
        assert 4 * error < second
    (small, small_error), (large, large_error) = found[0][1], found[1][1]
    error = math.hypot(2 * large_error, small_error)
    assert abs(2 * large - small - third) < 4 * error + abs(large - small) / 4
    assert error < 0.2 * abs(third)


def test_third_cumulants_of_drawn_metrics():
    compare_with_draws("relu", 0.2, 1.7, 60_000)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "biases", "weights"), [("tanh", 0.1, 1.8), ("gelu", 0.0, 2.0)])
def test_third_cumulants_of_many_drawn_metrics(activation, biases, weights):
    compare_with_draws(activation, biases, weights, 400_000)


def test_third_cumulants_of_two_inputs():
    """PDLT eq. (4.59): for a linear network that of a Wishart matrix, and the diagonal is the one of one input."""
    K, n = np.array([[1.0, 0.4], [0.4, 0.7]]), 5
    pairs = Pairs.within(2)
    found = second_layer_third_cumulant("linear", K, 1.5, n)
    expected = np.empty((3, 3, 3))
    for place in np.ndindex(3, 3, 3):
        (a, b), (c, d), (e, f) = ((pairs.rows[i], pairs.columns[i]) for i in place)
        cycles = [(p, q, r) for p in ((a, b), (b, a)) for q in ((c, d), (d, c)) for r in ((e, f), (f, e))]
        # Each of the eight ways to close a ring through the three pairs: 8 tr K^3 for one input.
        expected[place] = sum(K[p[1], q[0]] * K[q[1], r[0]] * K[r[1], p[0]] for p, q, r in cycles)
    np.testing.assert_allclose(found.value, 1.5**3 * expected / n**2, rtol=1e-9)
    assert not found.error.any()
    gelu = second_layer_third_cumulant("gelu", K, 1.5, n).value
    for a, place in ((0, 0), (1, 2)):
        single = third_cumulant_flow("gelu", K[a, a], 2, weight_variance=1.5)["third"].values[1, 0]
        assert gelu[place, place, place] == pytest.approx(single / n**2, rel=1e-9)


def test_third_cumulants_of_three_inputs_are_sampled():
    K = np.array([[1.0, 0.4, -0.2], [0.4, 0.7, 0.1], [-0.2, 0.1, 1.5]])
    found = second_layer_third_cumulant("tanh", K, 1.2, 4, points=2**11, replicas=16)
    exact = second_layer_third_cumulant("tanh", K[:2, :2], 1.2, 4).value
    chosen = np.ix_([0, 1, 3], [0, 1, 3], [0, 1, 3])  # the pairs (0, 0), (0, 1) and (1, 1)
    gap = np.abs(found.value[chosen] - exact)
    assert np.all(gap < 5 * found.error[chosen])
    assert np.all(found.error < 0.05 * np.abs(found.value).max())


def test_expansions_of_inverse_and_determinant():
    """PDLT eqs. (4.55), (4.57): what is left is of third order in the change."""
    generator = np.random.default_rng(3)
    root, change = generator.normal(size=(2, 3, 3))
    G, D = root @ root.T + np.eye(3), change + change.T
    left = []
    for size in (1e-3, 5e-4):
        matrix = np.abs(inverse_expansion(G, size * D) - np.linalg.inv(G + size * D)).max()
        ratio = (np.linalg.det(G + size * D) / np.linalg.det(G)) ** (5 / 2)
        left.append((matrix, abs(root_determinant_expansion(G, size * D, 5) - ratio)))
    np.testing.assert_allclose(np.array(left[0]) / left[1], 8, rtol=0.05)


def test_means_of_inverse_and_determinant():
    """The metric of the second layer of a linear network is Wishart: E[Ghat^-1] and E|Ghat|^(m/2) are known."""
    K, m = np.array([[1.0, 0.4], [0.4, 0.7]]), 3
    gaps = []
    for n in (100, 200):
        covariance = DeepLinear((n,)).metric_covariance(2, K)
        exact = n / (n - 3) * np.linalg.inv(K)
        power = multigammaln((n + m) / 2, 2) - multigammaln(n / 2, 2) + m * math.log(2 / n)
        gaps.append(
            (
                np.abs(mean_inverse(K, covariance) - exact).max(),
                abs(mean_root_determinant(K, covariance, m) - math.exp(power)),
            )
        )
    np.testing.assert_allclose(np.array(gaps[0]) / gaps[1], 4, rtol=0.2)
    assert gaps[1][0] < 1e-3


def test_density_of_all_layers():
    """Against scipy's normal densities; and over z^2 of a chain of single neurons it integrates to that of z^1."""
    generator = np.random.default_rng(5)
    K = np.array([[1.0, 0.4], [0.4, 0.7]])
    layers = [generator.normal(size=(n, 2)) for n in (4, 3, 5)]
    expected = multivariate_normal([0, 0], K).logpdf(layers[0]).sum()
    for below, above in pairwise(layers):
        metric = 0.3 + 1.2 * np.tanh(below).T @ np.tanh(below) / len(below)
        expected += multivariate_normal([0, 0], metric).logpdf(above).sum()
    found = chain_log_density("tanh", K, layers, bias_variance=0.3, weight_variance=1.2)
    assert found == pytest.approx(expected, rel=1e-12)
    grid = np.linspace(-12, 12, 601)
    joint = [chain_log_density("tanh", [[1.0]], [[[0.8]], [[z]]], bias_variance=0.1) for z in grid]
    first = math.exp(chain_log_density("tanh", [[1.0]], [[[0.8]]]))
    assert np.exp(joint).sum() * 0.04 == pytest.approx(first, rel=1e-10)


BAD = [
    lambda: chain_log_density("tanh", [[1.0]], [np.ones((3, 2))]),
    lambda: chain_log_density("tanh", [[1.0]], [np.ones((2, 1))], weight_variance=-1.0),
    lambda: third_cumulant_flow("tanh", 0.0, 3),
    lambda: third_cumulant_flow("tanh", 1.0, 3, widths=[4]),
    lambda: second_layer_third_cumulant("tanh", [[1.0, 2.0], [2.0, 1.0]], 1.0, 4),
    lambda: second_layer_third_cumulant("tanh", [[1.0]], 1.0, 0),
    lambda: second_layer_third_cumulant("tanh", np.eye(3), 1.0, 4, replicas=1),
    lambda: inverse_expansion(np.eye(2), [[0.0, 1.0], [0.0, 0.0]]),
    lambda: inverse_expansion(np.zeros((2, 2)), np.eye(2)),
    lambda: root_determinant_expansion(np.eye(2), np.eye(3), 2),
    lambda: mean_root_determinant(np.eye(2), np.zeros((2, 2, 2, 2)), 0),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
