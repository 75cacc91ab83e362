"""The first step in the last hidden layer, and networks as linear models of their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

import widefield as wf
from made_activations import MIXED
from references.trained_ensembles import hidden_change
from widefield.base.errors import InvalidInput
from widefield.base.numbers import double_precision
from widefield.effective import first_hidden_update, network_features, weight_decay_pull
from widefield.effective.tangent_sampler import network_ntk
from widefield.kernels import StaticKernel

X, Y = np.array([[1, 0.5, -0.4], [0.2, 0.9, 0.7]]), np.array([0.9, -0.6])
RATES = {"weight_rates": 0.8, "bias_rates": 0.7}


def network(activation, layers):
    """So many layers of weights."""
    return wf.MLP(layers - 1, activation, weight_variances=1.1, bias_variances=0.2)


@pytest.mark.parametrize(
    ("layers", "printed", "corrected"), [(2, 1.1142, 1.1142), (3, 2.6360, 3.1720), (4, 4.1240, 5.7164)]
)
def test_covariance(layers, printed, corrected):
    """Reference values."""
    found = first_hidden_update(network("tanh", layers), X, Y, 50, **RATES)
    assert 50 * found.covariance[0, 0] == pytest.approx(corrected, abs=6e-5)
    assert 50 * found.without_pairs[0, 0] == pytest.approx(printed, abs=6e-5)
    np.testing.assert_allclose(found.mean, 0, atol=1e-12)


@pytest.mark.parametrize(("layers", "expected"), [(2, (-0.43320, -0.42872)), (3, (-0.68294, -0.68038))])
def test_mean(layers, expected):
    """Reference values."""
    found = first_hidden_update(network(MIXED, layers), X, Y, 50, **RATES)
    np.testing.assert_allclose(50 * found.mean, expected, atol=6e-6)


def test_other_samples_outputs_and_rates():
    """Those asked for are rows of all; twice the learning rate; two outputs; unequal widths."""
    given = network(MIXED, 3)
    both = first_hidden_update(given, X, Y, (40, 60), **RATES)
    one = first_hidden_update(given, X, Y, (40, 60), x_test=X[1:], learning_rate=2.0, **RATES)
    np.testing.assert_allclose(one.mean, 2 * both.mean[1:], rtol=1e-12)
    np.testing.assert_allclose(one.without_pairs, 4 * both.without_pairs[1:, 1:], rtol=1e-12)
    np.testing.assert_allclose(one.covariance, 4 * both.covariance[1:, 1:], rtol=5e-3)  # B of three inputs is sampled
    equal = first_hidden_update(given, X, Y, 60, **RATES)
    pairs, others = (found.covariance - found.without_pairs for found in (equal, both))
    np.testing.assert_allclose(others, 60 / 40 * pairs, rtol=1e-9)
    two = first_hidden_update(given, X, np.stack([Y, 0 * Y], axis=1), 60, **RATES)
    np.testing.assert_allclose(two.mean, 2 * equal.mean, rtol=1e-12)


def test_cross_entropy():
    """Averages over outputs against independent draws of them: 4 standard errors."""
    given, p = network(MIXED, 2), np.array([[0.1, 0.9], [0.7, 0.3]])
    found = first_hidden_update(given, X, p, 50, loss=wf.SoftmaxCrossEntropy(), **RATES)
    squared = first_hidden_update(given, X, p, 50, **RATES)
    K = StaticKernel(given).nngp(X)
    normal = np.random.default_rng(0).standard_normal((200_000, 2, 2))
    q = softmax(np.einsum("ab,nbi->nai", np.linalg.cholesky(K), normal), axis=-1)
    layers = StaticKernel(given, **RATES).layers(X)
    theta, slope = layers.tangents[0], layers.slope[0]
    sources = np.einsum("nai,nbi->nab", q - p, q - p)
    moments = 1.1 * np.einsum("xa,nab,yb->nxy", theta, sources * slope, theta)
    error = 4 * moments.std(axis=0) / 200_000**0.5
    assert np.all(np.abs(50 * found.covariance - moments.mean(axis=0)) < error)
    curvature = np.sum(q * (1 - q), axis=-1)
    crossed = np.linalg.solve(theta, -50 * squared.mean / 1.1) / 2
    expected = -1.1 * (curvature * crossed) @ theta
    assert np.all(np.abs(50 * found.mean - expected.mean(axis=0)) < 4 * expected.std(axis=0) / 200_000**0.5)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 3])
def test_networks(layers):
    """8000 networks of width 64. Allowed: 4 standard errors, and 2/n of the value for what is of higher order.

    An error of 9% of mean and covariance would be noticed; what print leaves out for three layers is 17%.
    """
    setting = {"layers": layers, "C_b": 0.2, "C_W": 1.1, "rate_b": 0.7, "rate_W": 0.8}
    for activation, theirs in (("tanh", "tanh"), (MIXED, "mixed")):
        rng = np.random.default_rng(layers)
        parts = [hidden_change(rng, 500, 64, X, Y, activation=theirs, **setting) for _ in range(16)]
        change = np.concatenate(parts)
        found = first_hidden_update(network(activation, layers), X, Y, 64, **RATES)
        means = change.mean(axis=2)
        squares = np.einsum("naj,nbj->nab", change, change) / 64
        for values, theory in ((means, found.mean), (squares, found.covariance)):
            allowed = 4 * values.std(axis=0) / len(values) ** 0.5 + 2 / 64 * np.abs(theory)
            assert np.all(np.abs(values.mean(axis=0) - theory) < allowed)


# Networks as linear models -------------------------------------------------------------------------------


def weights(seed):
    rng = np.random.default_rng(seed)
    shapes = [(5, 3), (4, 5), (2, 4)]
    return [rng.normal(size=shape) for shape in shapes], [rng.normal(size=shape[0]) for shape in shapes]


def outputs(parameters, x):
    z = x
    for number, (W, b) in enumerate(zip(*parameters, strict=True)):
        z = (jnp.tanh(z) if number else z) @ W.T + b[None]
    return z


def test_features_are_derivatives():
    """Against jax; their kernel is the NTK of PDLT eq. (8.12), and that of the last layer the metric."""
    W, b = weights(0)
    found = network_features("tanh", W, b, X)
    with double_precision():
        parameters = [jnp.asarray(w) for w in W], [jnp.asarray(v) for v in b]
        by_weights, by_biases = jax.jacobian(outputs)(parameters, jnp.asarray(X))
    for layer in (1, 2, 3):
        np.testing.assert_allclose(found.weight(layer), by_weights[layer - 1], atol=1e-12)
        np.testing.assert_allclose(found.bias(layer), by_biases[layer - 1], atol=1e-12)
    w, v = (0.5, 1.2, 0.8), (0.3, 0.0, 1.0)
    _, ntk = network_ntk("tanh", W, b, X, weight_rates=w, bias_rates=v)
    np.testing.assert_allclose(found.kernel(w, v), ntk, rtol=1e-12, atol=1e-12)
    last = found.kernel((0, 0, 1.1), (0, 0, 0.2))
    metric = 0.2 + 1.1 * found.below[-1] @ found.below[-1].T / 4
    np.testing.assert_allclose(last, metric[:, :, None, None] * np.eye(2), atol=1e-14)


def test_weight_decay():
    """sum lambda a theta dz/dtheta is the derivative of the outputs along lambda a theta."""
    W, b = weights(1)
    w, v, a, c = (0.5, 1.2, 0.8), (0.3, 0.4, 1.0), (0.1, 0.2, 0.3), (0.4, 0.0, 0.6)
    with double_precision():
        parameters = [jnp.asarray(m) for m in W], [jnp.asarray(m) for m in b]
        along = (
            [rate * decay / m.shape[1] * m for rate, decay, m in zip(w, a, parameters[0], strict=True)],
            [rate * decay * m for rate, decay, m in zip(v, c, parameters[1], strict=True)],
        )
        _, expected = jax.jvp(lambda p: outputs(p, jnp.asarray(X)), (parameters,), (along,))
    found = weight_decay_pull("tanh", W, b, X, weight_rates=w, bias_rates=v, weight_decays=a, bias_decays=c)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_refusals():
    W, b = weights(2)
    with pytest.raises(InvalidInput, match="shapes"):
        network_features("tanh", W[1:], b[1:], X)
    with pytest.raises(InvalidInput, match="one a layer"):
        weight_decay_pull(
            "tanh", W, b, X, weight_rates=(1.0,), bias_rates=(1.0,), weight_decays=(1.0,), bias_decays=(1.0,)
        )
    with pytest.raises(InvalidInput, match="layers"):
        network_features("tanh", W, b, X).kernel((1.0,), (1.0,))
    with pytest.raises(InvalidInput, match="as many"):
        first_hidden_update(network("tanh", 2), X, [1.0], 10)
