"""One step of gradient descent with rates of layers: outputs, loss and hidden layers, by jax's gradients.

What the NTK says is of first order in the learning rate: halving it quarters what is left.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widefield.effective.tangent_sampler import network_ntk

WIDTHS = (3, 5, 4, 2)
RATES = {"weight_rates": (0.8, 1.5, 0.6), "bias_rates": (0.7, 0.4, 0.9)}
X = np.random.default_rng(0).normal(size=(4, 3))
Y = np.random.default_rng(1).normal(size=(3, 2))


@pytest.fixture(scope="module")
def parameters():
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=(high, low)) / low**0.5 for low, high in pairwise(WIDTHS)]
    return weights, [0.3 * rng.normal(size=high) for high in WIDTHS[1:]]


def layers(parameters, x):
    """Preactivations of all layers."""
    found, signal = [], x
    for W, b in zip(*parameters, strict=True):
        found.append(signal @ W.T + b[None])
        signal = jnp.tanh(found[-1])
    return found


def squared(z):
    return 0.5 * jnp.sum((z - Y) ** 2)


def cross_entropy(z):
    p = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
    return -jnp.sum(p * jax.nn.log_softmax(z))


def stepped(parameters, loss, eta):
    """After one step on the first samples, PDLT eqs. (7.8), (7.11), (8.6)."""
    slopes = jax.grad(lambda p: loss(layers(p, X[: len(Y)])[-1]))(parameters)
    weights, biases = (
        [np.asarray(p - eta * r * g / n) for p, r, g, n in zip(part, rates, slope, below, strict=True)]
        for part, rates, slope, below in zip(
            parameters, (RATES["weight_rates"], RATES["bias_rates"]), slopes, (WIDTHS[:-1], (1, 1, 1)), strict=True
        )
    )
    return weights, biases


@pytest.mark.parametrize("loss", [squared, cross_entropy])
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_a_step_is_that_of_the_ntk(parameters, loss, layer):
    """dz^l_i;a = -eta sum_jb H^l_ij;ab dL/dz^l_j;b, PDLT eqs. (7.20), (8.3); at unseen samples too."""
    with jax.enable_x64(True):
        part = [p[:layer] for p in parameters]
        H = network_ntk("tanh", *part, X, **{name: rate[:layer] for name, rate in RATES.items()})[1]

        def above(z):
            for W, b in zip(*(p[layer:] for p in parameters), strict=True):
                z = jnp.tanh(z) @ W.T + b[None]
            return loss(z)

        start = np.asarray(layers(parameters, X)[layer - 1])
        signal = np.asarray(jax.grad(above)(jnp.asarray(start[: len(Y)])))
        change = -np.einsum("abij,bj->ai", H[:, : len(Y)], signal)
        left = []
        for eta in (2e-3, 1e-3):
            after = np.asarray(layers(stepped(parameters, loss, eta), X)[layer - 1])
            left.append(np.abs(after - start - eta * change).max())
        assert left[1] < 0.02 * np.abs(1e-3 * change).max()
        if layer == 1:  # linear in its parameters
            assert left[1] < 1e-14
        else:
            assert 3.8 < left[0] / left[1] < 4.2


@pytest.mark.parametrize("loss", [squared, cross_entropy])
def test_the_loss_falls_by_the_errors_in_the_ntk(parameters, loss):
    """dL = -eta eps H eps with eps = dL/dz, PDLT eqs. (7.12), (7.14)-(7.16): z - y, or softmax less p."""
    with jax.enable_x64(True):
        H = network_ntk("tanh", *parameters, X[: len(Y)], **RATES)[1]
        z = np.asarray(layers(parameters, X[: len(Y)])[-1])
        q, p = (np.exp(each) / np.exp(each).sum(1, keepdims=True) for each in (z, Y))
        eps = z - Y if loss is squared else q - p
        slope = -np.einsum("ai,abij,bj->", eps, H, eps)
        assert slope < 0
        left = [
            float(loss(layers(stepped(parameters, loss, eta), X[: len(Y)])[-1])) - float(loss(z)) - eta * slope
            for eta in (2e-3, 1e-3)
        ]
        assert 3.8 < left[0] / left[1] < 4.2
