"""Learning rates of the equivalence principle, PDLT eqs. (9.94)-(9.96), in real networks of fifty layers that learn."""

import numpy as np
import pytest

from references.deep_training import moved
from widefield.effective import equivalent_rates, ntk_contributions

DEPTH, WIDTH, TARGET = 50, 256, 0.1
CRITICAL = {"tanh": 1.0, "relu": 2.0}
SHOWN = [0, 4, 9, 24, 39, 49]


def drawn(activation, rates, depth=DEPTH, networks=30, **options):
    """Of every network: how much each layer moved the output, its part of the NTK, and what is left of the error."""
    rng, every = np.random.default_rng(0), [np.broadcast_to(rate, depth) for rate in rates]
    given = WIDTH, depth, CRITICAL[activation], np.ones(4), activation, *every
    found = [moved(rng, *given, target=TARGET, **options) for _ in range(networks)]
    moves, parts = (np.array([each[place] for each in found]) for place in (0, 1))
    return moves, parts, np.mean([abs(last) for _, _, last in found]) / TARGET


def shares(values):
    """Of the layers in the sum of all, times the depth, from means over networks; and their standard errors."""
    count, depth = values.shape
    mean = values.mean(axis=0) / values.mean(axis=0).sum()
    apart = values - mean * values.sum(axis=1, keepdims=True)
    return depth * mean, depth * apart.std(axis=0) / values.mean(axis=0).sum() / count**0.5


def predicted(activation, rates):
    C_W, (weights, biases) = CRITICAL[activation], rates
    found = ntk_contributions(activation, C_W, DEPTH, weight_variance=C_W, weight_rates=weights, bias_rates=biases)
    total = (found["weight"] + found["bias"]).values[:, 0]
    return DEPTH * total / total.sum()


@pytest.mark.slow
@pytest.mark.parametrize("activation", CRITICAL)
def test_every_layer_contributes_alike_to_the_ntk(activation):
    """Of 150 networks; a share that is off by 40% would be noticed, even of the first layers of ReLU."""
    rates = equivalent_rates(activation, DEPTH)
    found, error = shares(drawn(activation, rates, networks=150, steps=1)[1])
    print(activation, "NTK", found[SHOWN].round(3), "errors", error[SHOWN].round(3))
    expected = predicted(activation, rates)
    assert expected.max() < 1.25 * expected.min()
    assert np.all(np.abs(found - expected) < 4 * error + 0.05)
    assert error.max() < 0.1


@pytest.mark.slow
def test_with_equal_rates_the_last_layers_of_tanh_contribute_most():
    """Forty times as much as the first ones."""
    found, error = shares(drawn("tanh", (1.0, 1.0), networks=150, steps=1)[1])
    print("tanh, equal rates: NTK", found[SHOWN].round(3), "errors", error[SHOWN].round(3))
    assert np.all(np.abs(found - predicted("tanh", (1.0, 1.0))) < 4 * error + 0.05)
    assert found[-1] > 30 * found[0]


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "spread"), [("tanh", 1.5), ("relu", 2.8)])
def test_every_layer_moves_the_output_while_it_learns(activation, spread):
    """While errors fall to a tenth; with equal rates the last layers of tanh move it thirty times as much as the first.

    Squared gradients scatter by nu depth / width over networks, which is 1 for ReLU here: a network's own NTK, which is
    what it learns with, is then less even than the mean over networks, and leaves .6 to 1.5.
    """
    moves, _, last = drawn(activation, equivalent_rates(activation, DEPTH))
    found, error = shares(moves)
    print(activation, "training", found[SHOWN].round(3), "errors", error[SHOWN].round(3), "left", round(last, 3))
    assert last < 0.15
    assert found.max() < spread * found.min()
    if activation == "tanh":
        assert np.all(np.abs(found - 1) < 4 * error)
        plain, _, last = drawn(activation, (1.0, 1.0))
        assert last < 0.15
        assert shares(plain)[0][-1] > 20 * shares(plain)[0][0]


@pytest.mark.slow
def test_with_equal_rates_the_ntk_of_relu_grows_with_depth():
    """Layers of critical ReLU networks are alike with equal rates too; but ten times as deep, ten times the NTK.

    With the principle's 1 / depth the NTK, and with it the largest learning rate, stays the same.
    """
    rates = {"equal": lambda depth: (1.0, 1.0), "principle": lambda depth: equivalent_rates("relu", depth)}
    grown = {}
    for name, rate in rates.items():
        low, high = (drawn("relu", rate(d), d, 100, steps=1)[1].sum(axis=1) for d in (5, DEPTH))
        error = np.hypot(low.std() / low.mean(), high.std() / high.mean()) / 10
        grown[name] = high.mean() / low.mean(), high.mean() / low.mean() * error
    print("relu, 50 layers over 5:", grown)
    assert abs(grown["equal"][0] - 10) < 4 * grown["equal"][1]
    assert abs(grown["principle"][0] - 1) < 4 * grown["principle"][1]
    assert grown["principle"][1] < 0.15
