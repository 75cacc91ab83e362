"""Bayesian inference at finite width against tables, integrals and the form that is printed."""

import dataclasses
import math

import numpy as np
import pytest

import widefield as wf
from bayes_problems import MANY, SIN, TABLES, TEST, X, Y
from references import posterior as reference
from widefield import effective
from widefield.base.errors import InvalidInput, NotAccurate
from widefield.effective.bayes_posterior import expansion_parameter, observed
from widefield.effective.couplings import raised
from widefield.effective.vertex_flow import Flow
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels import Blocks, StaticKernel, log_evidence, posterior


def asked(layers=2, noise=0.0, n=MANY, x=X, y=Y, test=TEST):
    return effective.finite_posterior(wf.MLP(layers - 1, **SIN), x, y, test, n, noise=noise)


def integrated(x, n):
    """The flow of one hidden layer of sin for any inputs, by quadrature; `flow` samples a part of the vertex."""
    K = np.array(0.1 + 1.5 / 2 * x @ x.T)
    two, four = reference.neuron_moments(np.sin, K)
    pairs = Pairs.within(len(x))
    V = pairs.of(np.moveaxis(pairs.of(four), -1, 0)) - np.outer(pairs.of(two), pairs.of(two))
    covariances, nothing = np.stack([0 * V, 1.5**2 / n * V]), np.zeros((2, len(pairs)))
    return Flow.of(
        wf.MLP(1, **SIN), [n], np.stack([K, 0.1 + 1.5 * two]), covariances, nothing, 0 * covariances, nothing
    )


@pytest.mark.parametrize("name", TABLES)
def test_tables(name):
    (settings, *expected), close = TABLES[name], {"atol": 2e-9, "rtol": 0}
    x, y, test = (settings.get(key, value) for key, value in (("x", X), ("y", Y), ("test", TEST)))
    sampled = asked(**settings)
    if "layers" in settings:
        found, close = sampled, {"rtol": 1e-2, "atol": 5e-4}
    else:
        found = effective.inferred(integrated(np.concatenate([x, test]), MANY), y, noise=settings.get("noise", 0.0))
        np.testing.assert_allclose(sampled.mean_shift, found.mean_shift, rtol=1e-2, atol=1e-3 / MANY)
    infinite, evidence, means, own, wired = expected
    np.testing.assert_allclose(found.infinite_log_evidence, infinite, atol=1e-9)
    np.testing.assert_allclose(MANY * found.log_evidence_shift, evidence, **close)
    np.testing.assert_allclose(MANY * found.mean_shift[0], means, **close)
    shared = MANY * found.shared_shift
    np.testing.assert_allclose((shared[0, 0] + MANY * found.wired[0, 0, 0, 0], *shared[0]), own, **close)
    np.testing.assert_allclose(MANY * found.wired[0, 1, 0], wired, **close)
    np.testing.assert_allclose(found.covariance(0, 1), found.covariance(1, 0).T)


def test_evidence_of_two_inputs_is_not_sampled():
    found = effective.flow(wf.MLP(1, **SIN), X, MANY)
    for noise, expected in ((0.0, -0.3948219221), (0.1, -0.0649663131)):
        np.testing.assert_allclose(MANY * observed(found, Y, noise=noise).log_evidence(), expected, atol=2e-9)
    deep = effective.flow(wf.MLP(2, **SIN), X, MANY)
    np.testing.assert_allclose(MANY * observed(deep, Y, noise=0.1).log_evidence(), -0.4319904711, atol=2e-9)


def test_infinite_width_is_that_of_kernels():
    found, network = asked(3, 0.1), wf.MLP(2, **SIN)
    kernel = StaticKernel(network).nngp
    expected = posterior(Blocks.of(kernel, X, TEST), Y, ridge=0.1)
    np.testing.assert_allclose(found.infinite.mean, expected.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.infinite.covariance, expected.covariance, rtol=0, atol=1e-12)
    assert abs(found.infinite_log_evidence - log_evidence(kernel(X), Y, ridge=0.1)) < 1e-12


def test_outputs_wire_together():
    flow = integrated(np.concatenate([X, TEST]), MANY)
    alone, together = (effective.inferred(flow, Y * [1.0, other]) for other in (0.0, 1.0))
    np.testing.assert_allclose(MANY * alone.mean_shift[0, 0], 0.0979544257, atol=2e-9)
    np.testing.assert_allclose(alone.infinite.mean[:, 0], together.infinite.mean[:, 0], rtol=1e-12)


def test_what_is_observed_without_noise_is_known():
    found = asked(test=X)
    np.testing.assert_allclose(found.mean, Y, atol=1e-12)
    np.testing.assert_allclose(found.covariance(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.wired, 0.0, atol=1e-12)


def test_the_printed_form():
    """PDLT eq. (6.88), with the naive posterior and inverse metrics of all samples; both are the same to order 1/n."""
    test, gaps = TEST[:1], []
    for n, expected in ((10**3, 0.1103421988), (10**5, 0.1099834415)):
        flow = integrated(np.concatenate([X, test]), n)
        naive = effective.naive_posterior(flow, Y)
        v = raised(flow.metric_covariance(2), flow.kernel(2))
        phi, g, b = np.concatenate([Y, naive.mean]), naive.covariance.item(), 2
        first = 0.5 * g * np.einsum("abc,ai,bk,ck->i", v[b], phi, phi, phi)
        second = 0.5 * (2 * g * g + 2 * g * g) * v[b, b, b] @ phi
        shift = n * (naive.mean[0] + first + second - posterior_of(flow).mean[0])
        np.testing.assert_allclose(shift[0], expected, rtol=1e-6)
        gaps.append(shift - n * effective.inferred(flow, Y).mean_shift[0])
    np.testing.assert_allclose(gaps[0], 100 * gaps[1], rtol=0.2)  # the difference is of order 1/n


def posterior_of(flow):
    K = flow.kernel(flow.depth)
    return posterior(Blocks(K[:2, :2], K[2:, :2], K[2:, 2:]), Y)


# One input, and integrals


def test_one_input():
    """log p(y) = log N(y; 0, G) + V / (8 n G^2) (s^2 - 2 (n_L + 2) s + n_L (n_L + 2)), s = |y|^2 / G."""
    flow, y = effective.flow(wf.MLP(1, "tanh", weight_variances=1.5, bias_variances=0.1), [[1.0]], 50), [[1.2, 0.7, -1]]
    K, V, s = flow.kernel(2).item(), flow.vertex(2).item(), np.sum(np.square(y)) / flow.kernel(2).item()
    expected = V / (8 * 50 * K**2) * (s**2 - 10 * s + 15)
    np.testing.assert_allclose(observed(flow, y).log_evidence(), expected, rtol=1e-12)
    assert expansion_parameter(observed(flow, y)) == pytest.approx(math.sqrt(15 / 8) * V / (50 * K**2))


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_linear_networks_against_integrals(layers, noise):
    y, widths = [1.2, -0.7], (80, 160, 320)
    errors = {"log_evidence": [], "mean": [], "covariance": [], "metric": []}
    for n in widths:
        flow = effective.flow(wf.MLP(layers - 1, "linear"), [[1.0], [1.0]], n)
        found, exact = effective.inferred(flow, [y], noise=noise), reference.linear_integrals(n, layers, y, noise)
        errors["log_evidence"].append(exact["log_evidence"] - found.log_evidence)
        learned = effective.learned_representation(flow, [y], noise=noise).metrics[-1, 0, 0]
        errors["metric"].append(exact["metric"] - 1 - learned)
        if noise:
            errors["mean"].append(exact["mean"][0] - found.mean[0, 0])
            for i, k in ((0, 0), (0, 1)):
                errors["covariance"].append(exact["covariance"][i, k] - found.covariance(i, k)[0, 0])
    if (layers, noise) == (2, 0.3):
        assert exact["log_evidence"] == pytest.approx(-2.843329545988, abs=1e-10)
        coefficients = (
            found.log_evidence_shift,
            found.mean_shift[0, 0],
            found.shared_shift[0, 0],
            found.wired[0, 1, 0, 0],
        )
        expected = (-0.2474615735, -0.4121704426, -0.1030426106, -0.0529393204)
        np.testing.assert_allclose(320 * np.array(coefficients), expected, atol=1e-9)
    for name, values in errors.items():
        for one in np.reshape(values, (len(widths), -1)).T if values else []:
            slopes = np.diff(np.log(np.abs(one))) / np.log(2)
            assert (slopes < -1.85).all(), (name, slopes)


# Inside the network


def test_hebb():
    """E[z_2^2 | z_1] = G + (z_1^2 - G) V / (2 n G^2), and its integral over metrics of linear networks."""
    flow = effective.flow(wf.MLP(1, "tanh", weight_variances=1.5, bias_variances=0.1), [[1.0]], 100)
    G, V = flow.metric(2).item(), flow.vertex(2).item()
    found = 100 * (effective.conditional_metric(flow, [[2.0]]).item() - G)
    assert found == pytest.approx(0.5 * (4 - G) * V / G**2)
    assert effective.conditional_metric(flow, [[math.sqrt(G)]]).item() == pytest.approx(G)
    gaps = []
    for n in (80, 160):
        linear = effective.flow(wf.MLP(1, "linear"), [[1.0]], n)
        exact = reference.linear_integrals(n, 2, [2.0], 0.0)["metric"]
        gaps.append(exact - effective.conditional_metric(linear, [[2.0]]).item())
    assert np.log2(gaps[1] / gaps[0]) < -1.85


def test_learned_features():
    flow = integrated(np.concatenate([X, TEST[:1]]), 1)
    changes = flow.pairs.of(effective.learned_representation(flow, Y).features[0])
    expected = (-0.003541217, -0.2579710706, -0.1431767288, -0.17314943, -0.240796369, -0.2061099118)
    np.testing.assert_allclose(changes, expected, atol=2e-9)


def test_all_hidden_layers_learn_at_order_1_over_n():
    """Tables of three layers: tanh, and linear networks, of which every layer's norm counts alike."""
    tanh = wf.MLP(2, "tanh", weight_variances=1.5, bias_variances=0.1)
    x = [[math.sqrt(0.9 / 1.5)]]  # K^1 = 1
    first = effective.learned_representation(effective.flow(tanh, x, 1), [[1.0, math.sqrt(2)]]).features[0]
    assert first.item() == pytest.approx(0.1430, abs=5e-5)
    linear = effective.learned_representation(effective.flow(wf.MLP(2, "linear"), [[1.0]], 1), [[math.sqrt(3)]])
    np.testing.assert_allclose(linear.features.ravel(), [2.0, 4.0], rtol=1e-12)


# Comparing networks


def test_evidence_at_infinite_width():
    y = [[1.0, -0.5, 0.2]]
    assert log_evidence([[1.0]], y) == pytest.approx(-3.401815599614, abs=1e-11)
    assert log_evidence([[0.43]], y) == pytest.approx(-2.990860494172, abs=1e-11)
    K, two = np.array([[1.3, 0.4], [0.4, 0.7]]), np.array([[1.0, -0.5], [0.3, 0.8]])
    k, q = (0.7, 0.3, 0.3), (0.445, 0.26, 0.545)
    det = 4 * k[0] * k[2] - k[1] ** 2
    closed = -math.log(4 * math.pi**2 * det) - (4 * k[0] * q[2] + 4 * k[2] * q[0] - 2 * k[1] * q[1]) / (2 * det)
    assert log_evidence(K, two) == pytest.approx(closed, abs=1e-12) == pytest.approx(-4.657405393700, abs=1e-11)


def test_regression_with_relu():
    tables = {1: (0.120779934374, 0.124906745463, -2.657026456855, 0.121713464036, -2.653122744743)}
    tables[2] = (0.093795881169, 0.148757630969, -2.851083094333, 0.105389460928, -2.787722439480)
    for layers, expected in tables.items():
        kernel = StaticKernel(wf.MLP(layers, "relu", weight_variances=2.0)).nngp
        blocks = Blocks.of(kernel, X, TEST[:1])
        plain, noisy = (posterior(blocks, [1.0, -0.5], ridge=r) for r in (0.0, 0.1))
        evidences = (log_evidence(blocks.train, [1.0, -0.5], ridge=r) for r in (0.0, 0.1))
        found = plain.mean.item(), plain.covariance.item(), next(evidences), noisy.mean.item(), next(evidences)
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_maps():
    ranges = {"weight_variances": [1.0, 2.0, 4.0], "bias_variances": [0.0], "hidden_layers": [9]}
    network = wf.MLP(1, "relu")
    found = effective.evidence_map(network, [[math.sqrt(0.5)]], [1.0], **ranges)
    expected = (-509.4532026304, -1.4189385332, -4.3851627173)
    np.testing.assert_allclose(found.log_evidence.values.ravel(), expected, rtol=1e-10)
    wide = effective.evidence_map(network, [[math.sqrt(0.5)]], [1.0], width=1000, **ranges)
    np.testing.assert_allclose(wide.log_evidence, found.log_evidence)
    assert wide.expansion.values.ravel() == pytest.approx(math.sqrt(3 / 8) * 5 * 9 / 1000)
    singular = effective.evidence_map(network, [[1.0], [1.0]], [1.0, 1.0], **ranges)
    assert np.isnan(singular.log_evidence).all()
    assert effective.posterior_odds(-2.0, -1.0, prior_odds=3.0) == pytest.approx(3 / math.e)
    assert effective.posterior_odds(1000.0, -1000.0) == math.inf


def test_the_best_weight_variance():
    for depth, expected in ((1, 4.0), (10, 2.143546925073), (100, 2.013911100113)):
        assert effective.best_weight_variance("relu", 0.5, 2.0, depth) == pytest.approx(expected, abs=1e-11)
    for depth, expected in ((5, 1.28312015), (10, 1.41881878), (100, 1.44078813)):
        assert effective.best_weight_variance("tanh", 1.0, 0.25, depth) == pytest.approx(expected, abs=1e-7)
    with pytest.raises(InvalidInput, match="mean_square_target = 1e\\+06"):
        effective.best_weight_variance("tanh", 1.0, 1e6, 3)


# Parameters


def test_most_probable_parameters():
    """One linear neuron: w_1 = +- w_2, and (w^2 x - y) x / noise + 1 = 0."""
    network, x, y, noise = wf.MLP(1, "linear"), 1.5, 2.0, 0.1
    found = effective.most_probable(network, [[x]], [y], 1, noise=noise)
    square = (y - noise / x) / x
    np.testing.assert_allclose([W.item() ** 2 for W in found.weights], square, rtol=1e-6)
    assert found.log_prior == pytest.approx(-square - math.log(2 * math.pi))
    assert found.log_likelihood == pytest.approx(-((square * x - y) ** 2) / 0.2 - 0.5 * math.log(0.2 * math.pi))
    likely = effective.most_probable(wf.MLP(2, "tanh"), X, Y, 8, noise=0.1, prior=False)
    np.testing.assert_allclose(likely.outputs, Y, atol=1e-5)
    assert effective.log_prior(network, [[[1.0]], [[1.0]]], [[0.5], [0.0]]) == -math.inf


def test_the_prior_is_that_of_its_penalties():
    network = wf.MLP(1, weight_variances=2.0, bias_variances=0.5)
    shapes, random = ((4, 3), (2, 4)), np.random.default_rng(0)
    weights, biases = [random.normal(size=s) for s in shapes], [random.normal(size=s[0]) for s in shapes]
    penalties = effective.regularisers(network, 3, 4)
    expected = sum(a * np.sum(W**2) + b * np.sum(c**2) for (a, b), W, c in zip(penalties, weights, biases, strict=True))
    zeros = effective.log_prior(network, [0 * W for W in weights], [0 * b for b in biases])
    assert zeros - effective.log_prior(network, weights, biases) == pytest.approx(expected)


def test_bad_input():
    with pytest.warns(NotAccurate, match="scatters by"):
        asked(n=2, noise=0.1)
    flow = effective.flow(wf.MLP(1, **SIN), X, MANY)
    broken = dataclasses.replace(effective.inferred(flow, [0.0]), shared_shift=np.full((1, 1), -10.0))
    with pytest.raises(InvalidInput, match="posterior variance is"):
        broken.deviation()
    with pytest.raises(InvalidInput, match="y has 3 rows"):
        observed(flow, np.ones(3))
    with pytest.raises(InvalidInput, match="is singular"):
        asked(x=[[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(InvalidInput, match="they must be the same"):
        effective.log_likelihood([1.0], [1.0, 2.0], 0.1)
