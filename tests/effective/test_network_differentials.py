"""Differentials of one network: by derivatives and layer by layer, and what they say about steps of descent."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.base.numbers import double_precision
from widefield.effective import forward_differentials, network_differentials
from widefield.effective.parameter_features import network_features
from widefield.effective.tangent_sampler import network_ntk

BENT = Activation("bent sine", lambda z: jnp.sin(z) + 0.3 * (1 - jnp.cos(z)))
PARTS = ("outputs", "ntk", "dntk", "first_ddntk", "second_ddntk")
RATES = {"weight_rates": (0.8, 1.2, 0.7), "bias_rates": (0.7, 0.5, 0.9)}


def drawn(sizes, samples, seed):
    generator = np.random.default_rng(seed)
    weights = [generator.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    biases = [0.3 * generator.normal(size=b) for b in sizes[1:]]
    return weights, biases, generator.normal(size=(samples, sizes[0]))


@pytest.mark.parametrize("activation", [BENT, "tanh", "linear"])
def test_both_ways_are_the_same(activation):
    weights, biases, x = drawn((2, 3, 4, 2), 2, 0)
    one = network_differentials(activation, weights, biases, x, **RATES)
    two = forward_differentials(activation, weights, biases, x, **RATES)
    for part in PARTS:
        np.testing.assert_allclose(getattr(one, part), getattr(two[-1], part), rtol=1e-11, atol=1e-13)
    assert not two[0].dntk.any()
    z, H = network_ntk(activation, weights, biases, x, **RATES)
    np.testing.assert_allclose(one.outputs, z, rtol=1e-12)
    np.testing.assert_allclose(one.ntk, H, rtol=1e-12)


def test_symmetries():
    found = forward_differentials("tanh", *drawn((2, 3, 3, 2), 2, 1), **RATES)[-1]
    np.testing.assert_allclose(found.dntk, found.dntk.transpose(0, 2, 1, 3, 5, 4), atol=1e-14)
    for order in ((0, 2, 1, 3), (0, 3, 1, 2)):
        moved = found.first_ddntk.transpose(*order, *(4 + k for k in order))
        np.testing.assert_allclose(found.first_ddntk, moved, atol=1e-14)
    np.testing.assert_allclose(found.second_ddntk, found.second_ddntk.transpose(1, 0, 3, 2, 5, 4, 7, 6), atol=1e-14)


def stepped(weights, biases, x, errors, eta):
    """Parameters after theta - eta lambda dz/dtheta . errors, errors over (sample, output)."""
    features = network_features(BENT, weights, biases, x)
    for layer, (w, b) in enumerate(zip(RATES["weight_rates"], RATES["bias_rates"], strict=True), start=1):
        W = weights[layer - 1]
        gradient = np.einsum("pikj,pi->kj", features.weight(layer), errors)
        weights = [*weights[: layer - 1], W - eta * w / W.shape[1] * gradient, *weights[layer:]]
        push = eta * b * np.einsum("pik,pi->k", features.bias(layer), errors)
        biases = [*biases[: layer - 1], biases[layer - 1] - push, *biases[layer:]]
    return weights, biases


@pytest.mark.parametrize("part", ["outputs", "ntk", "dntk"])
def test_one_step_of_descent(part):
    """PDLT eqs. (inf.4), (inf.6), (inf.9): what is left of z, H, dH falls like eta^4, eta^3, eta^2."""
    weights, biases, x = drawn((2, 3, 4, 2), 2, 3)
    errors = np.array([[0.5, -0.3], [0.2, 0.7]])
    start = network_differentials(BENT, weights, biases, x, **RATES)
    H, dH, one, two = start.ntk, start.dntk, start.first_ddntk, start.second_ddntk
    left = []
    for eta in (0.02, 0.01):
        after = network_differentials(BENT, *stepped(weights, biases, x, errors, eta), x, **RATES)
        w = eta * errors
        if part == "outputs":
            change = -np.einsum("abij,bj->ai", H, w) + np.einsum("abcijk,bj,ck->ai", dH, w, w) / 2
            change -= np.einsum("abcdijkm,bj,ck,dm->ai", one, w, w, w) / 6
        elif part == "ntk":
            moved = -np.einsum("abcijk,ck->abij", dH, w) + np.einsum("abcdijkm,ck,dm->abij", one, w, w) / 2
            change = moved + moved.transpose(1, 0, 3, 2) + np.einsum("abcdijkm,ck,dm->abij", two, w, w)
        else:
            crossed = np.einsum("abcdijkm,dm->abcijk", two, w)
            change = -np.einsum("abcdijkm,dm->abcijk", one, w) - crossed - crossed.transpose(0, 2, 1, 3, 5, 4)
        left.append(np.abs(getattr(after, part) - getattr(start, part) - change).max())
    order = {"outputs": 4, "ntk": 3, "dntk": 2}[part]
    assert np.log2(left[0] / left[1]) == pytest.approx(order, abs=0.15)


def test_second_derivatives_of_a_network_by_brute_force():
    """dH and ddII against the matrix of all second derivatives, which exists for 2-2-1 networks alone."""
    weights, biases, x = drawn((2, 2, 1), 2, 5)
    rates = {"weight_rates": (0.8, 1.2), "bias_rates": (0.7, 0.5)}
    with double_precision():
        flat = jnp.concatenate([jnp.asarray(part).ravel() for part in (weights[0], biases[0], weights[1], biases[1])])

        def z(theta):
            W, b, V, c = theta[:4].reshape(2, 2), theta[4:6], theta[6:8], theta[8]
            return jnp.sin(x @ W.T + b[None]) @ V + c

        J, second, third = jax.jacobian(z)(flat), jax.hessian(z)(flat), jax.jacobian(jax.hessian(z))(flat)
        lam = np.array([0.4] * 4 + [0.7] * 2 + [0.6] * 2 + [0.5])
        v = lam[None] * J
        found = network_differentials("sin", weights, biases, x, **rates)
        np.testing.assert_allclose(found.dntk[..., 0, 0, 0], np.einsum("amn,bm,cn->abc", second, v, v), atol=1e-13)
        expected = np.einsum("amnr,bm,cn,dr->abcd", third, v, v, v)
        np.testing.assert_allclose(found.first_ddntk[..., 0, 0, 0, 0], expected, atol=1e-13)
        expected = np.einsum("amr,r,bnr,cm,dn->abcd", second, lam, second, v, v)
        np.testing.assert_allclose(found.second_ddntk[..., 0, 0, 0, 0], expected, atol=1e-13)


def test_shapes_that_do_not_fit():
    weights, biases, x = drawn((2, 3, 4, 2), 2, 0)
    with pytest.raises(InvalidInput, match="weights and biases have shapes"):
        network_differentials("tanh", weights, biases, x[:, :1], **RATES)
    with pytest.raises(InvalidInput, match="use a smaller network"):
        forward_differentials("tanh", *drawn((2, 300, 1), 3, 0), weight_rates=(1, 1), bias_rates=(1, 1))
