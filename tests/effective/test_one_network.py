"""One real network: its own training predicted from its tensors at initialisation."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import network_course, network_differentials
from widefield.effective.parameter_features import network_features

SHIFTED = Activation("shifted sine", lambda z: jnp.sin(z + 0.3))
X = np.array([(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4), (0.3, -0.4, 1.5)])
RATES = {"weight_rates": (1.5, 0.8, 0.9), "bias_rates": (0.5, 0.1, 0.2)}


def drawn(sizes, seed):
    generator = np.random.default_rng(seed)
    weights = [generator.normal(size=(b, a)) * (1.1 / a) ** 0.5 for a, b in pairwise(sizes)]
    return weights, [0.3 * generator.normal(size=b) for b in sizes[1:]]


def forward(weights, biases, x):
    z = x @ weights[0].T + biases[0]
    for W, b in zip(weights[1:], biases[1:], strict=True):
        z = np.sin(z + 0.3) @ W.T + b
    return z


def trained(weights, biases, push, steps, known):
    """Outputs at all samples before every step and after the last, of the real network."""
    found = [forward(weights, biases, X)]
    for step in range(steps):
        w = push(step, found[-1][:known])
        features = network_features(SHIFTED, weights, biases, X[:known])
        moves = []
        for layer, (W, rate_W, rate_b) in enumerate(
            zip(weights, RATES["weight_rates"], RATES["bias_rates"], strict=True), start=1
        ):
            gradient = np.einsum("pikj,pi->kj", features.weight(layer), w)
            moves.append((rate_W / W.shape[1] * gradient, rate_b * np.einsum("pik,pi->k", features.bias(layer), w)))
        weights = [W - move[0] for W, move in zip(weights, moves, strict=True)]
        biases = [b - move[1] for b, move in zip(biases, moves, strict=True)]
        found.append(forward(weights, biases, X))
    return np.stack(found)


def logistic(eta):
    """One sample at a time after three steps, with a rate that falls."""
    labels = np.array([[1.0, -1.0], [-1.0, 1.0]])

    def push(step, z):
        w = eta / (1 + 0.05 * step) * -labels / (1 + np.exp(labels * z))
        if step >= 3:
            w[step % 2] = 0
        return w

    return push


def test_small_steps():
    """Any loss, schedule and minibatches, two outputs: what is left falls like the fourth power of the rates."""
    weights, biases = drawn((3, 4, 3, 2), 0)
    network = network_differentials(SHIFTED, weights, biases, X, **RATES)
    left = []
    for eta in (0.04, 0.02):
        found = network_course(network, logistic(eta), 5, trained=2)
        real = trained(weights, biases, logistic(eta), 5, 2)
        left.append(np.abs(found.outputs - real)[-1].max())
        assert left[-1] < 0.02 * np.abs(found.frozen - real)[-1].max()
    assert np.log2(left[0] / left[1]) == pytest.approx(4, abs=0.3)


def test_the_frozen_kernel():
    weights, biases = drawn((3, 4, 3, 2), 1)
    network = network_differentials(SHIFTED, weights, biases, X, **RATES)
    found = network_course(network, logistic(1e-3), 1, trained=2)
    w = logistic(1e-3)(0, network.outputs[:2])
    moved = network.outputs - np.einsum("xaij,aj->xi", network.ntk[:, :2], w)
    np.testing.assert_allclose(found.frozen[1], moved, rtol=1e-12)
    assert 0 < found.expansion < 0.01
    assert network_course(network, logistic(0.1), 0, trained=2).expansion == 0


@pytest.mark.slow
def test_wide_networks():
    """Twelve steps of logistic loss: errors fall like 1/n with a frozen kernel, like 1/n^2 with one that learns."""
    rows = []
    for width in (32, 256):
        errors = []
        for seed in range(24):
            weights, biases = drawn((3, width, width, 1), seed)
            network = network_differentials(SHIFTED, weights, biases, X, **RATES)

            def push(step, z):
                labels = np.array([[1.0], [-1.0]])
                return 0.2 / (1 + 0.05 * step) * -labels / (1 + np.exp(labels * z))

            found = network_course(network, push, 12, trained=2)
            real = trained(weights, biases, push, 12, 2)
            errors.append([np.abs(part - real)[-1].max() for part in (found.frozen, found.outputs)])
        rows.append(np.mean(np.log2(errors), axis=0))  # a few networks are several times as far off as most
    frozen, learning = (rows[0] - rows[1]) / 3
    assert 0.6 < frozen < 1.3
    assert learning > 1.6
    assert rows[1][1] < rows[1][0] - 4


def test_wrong_pushes():
    weights, biases = drawn((3, 4, 3, 2), 1)
    network = network_differentials(SHIFTED, weights, biases, X, **RATES)
    with pytest.raises(InvalidInput, match="push gives an array of shape"):
        network_course(network, lambda step, z: z[:, 0], 1, trained=2)
    with pytest.raises(InvalidInput, match="trained"):
        network_course(network, logistic(0.1), 1, trained=4)
