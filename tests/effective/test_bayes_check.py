"""`check` of evidence, posterior, learned metrics, gradients: agreement, what it would notice, and wrong theories."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield import effective
from widefield.base.errors import InvalidInput
from widefield.effective import bayes_check, check, gradient_check

X = np.array([[1.0, 0.5, -0.3], [0.2, -0.9, 1.1], [0.7, 0.4, 0.9], [-0.5, 0.3, 0.6]])
Y = np.array([[0.9, -0.4], [-0.6, 0.3], [0.5, 0.8]])
NETWORKS = {
    "tanh": {"weight_variances": 1.3, "bias_variances": 0.2},
    "relu": {"weight_variances": 2.0, "bias_variances": 0.1},
    "gelu": {"weight_variances": 2.0, "bias_variances": 0.2},
    "swish": {"weight_variances": 2.0, "bias_variances": 0.2},
    "sin": {"weight_variances": 1.5, "bias_variances": 0.1},
    "linear": {"weight_variances": 1.0, "bias_variances": 0.1},
}
BAYES = {"log_evidence", "learned_metric", "posterior_mean", "posterior_covariance"}
ORDERS = {"nlo_log_evidence", "nlo_posterior_mean", "nlo_posterior_covariance"}


def networks(activation, layers, samples, n, seeds, seed, **options):
    network = wf.MLP(layers, activation, **NETWORKS[activation])
    y = Y[: max(1, samples - 1)]
    return check(network, X[:samples], n, seeds=seeds, seed=seed, y=y, noise=0.3, **options)


def noticed(found):
    return found.summary().to_dataframe()["noticed"]


def test_posterior_of_networks():
    found = networks("sin", 1, 2, 24, 40_000, 0)
    assert found.agrees, str(found)
    assert set(found.summary()["correlator"].values) > BAYES | ORDERS
    table = noticed(found)
    assert table["log_evidence"] < 0.001
    assert table["nlo_posterior_covariance"] < 0.3, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("activation", NETWORKS)
@pytest.mark.parametrize(("samples", "layers"), [(1, 11), (2, 3), (3, 2), (4, 2)])
def test_posteriors_of_every_activation(activation, samples, layers):
    """One to four inputs, up to twelve layers."""
    n = 192 if layers == 11 else 64
    found = networks(activation, layers, samples, n, 60_000, list(NETWORKS).index(activation))
    assert found.agrees, str(found)
    table = noticed(found)
    assert table["log_evidence"] < 0.005, str(found)
    assert samples == 1 or table["posterior_covariance"] < 0.05, str(found)


def test_gradients_of_networks():
    network = wf.MLP(2, "tanh", **NETWORKS["tanh"])
    found = check(network, X[:2], 16, seeds=500, seed=1, gradients=True)
    assert found.agrees, str(found)
    assert found["gradients"].measured.shape == (2 * (2 + 3),)
    table = noticed(found)
    assert table["gradients"] < 0.04
    assert table["gradient_variance"] < 0.2
    size = float(np.mean(X[0] ** 2))
    variances = {"bias_variance": 0.2, "weight_variance": 1.3}
    moments = effective.gradient_moments("tanh", 0.2 + 1.3 * size, 3, 16, **variances)
    variance = 16 * float(moments.data["relative_variance"].sel(group="bias").values[0])
    bias = moments.data["mean"].sel(group="bias").values[0]
    assert found["gradient_variance"].predicted[0] == pytest.approx(variance * bias**2, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("activation", NETWORKS)
@pytest.mark.parametrize(("layers", "n", "seeds"), [(3, 24, 6000), (11, 48, 1500)])
def test_gradients_of_every_activation(activation, layers, n, seeds):
    network = wf.MLP(layers, activation, **NETWORKS[activation])
    found = check(network, X[:1], n, seeds=seeds, seed=3, gradients=True, threshold=4.5)
    assert found.agrees, str(found)
    assert noticed(found)["gradients"] < 0.05


def wrong(function, name, factor):
    """One prediction, times a factor."""

    def changed(*arguments):
        found = function(*arguments)
        value, order, uncertain = found[name]
        return found | {name: (value + (factor - 1) * order, factor * order, uncertain)}

    return changed


@pytest.mark.parametrize(
    ("name", "seen", "factor"),
    [
        ("log_evidence", "nlo_log_evidence", 0.5),
        ("posterior_covariance", "nlo_posterior_covariance", 0.8),
        ("learned_metric", "learned_metric", 0.0),
    ],
)
def test_wrong_posteriors_are_noticed(monkeypatch, name, seen, factor):
    """Of targets that surprise: half of the order 1/n is too little, and so is 80%, or nothing."""
    right = bayes_check.predicted_posterior
    monkeypatch.setattr(bayes_check, "predicted_posterior", wrong(right, name, factor))
    network = wf.MLP(1, "sin", **NETWORKS["sin"])
    found = check(network, X[:2], 24, seeds=40_000, seed=0, y=3 * Y[:1], noise=0.1)
    assert found[seen].worst > 4
    assert "DIFFERS" in found.verdict


def test_wrong_gradients_are_noticed(monkeypatch):
    def more(*arguments, **options):
        return 1.1 * effective.single_ntk(*arguments, **options)

    monkeypatch.setattr(gradient_check, "single_ntk", more)
    found = check(wf.MLP(1, "tanh"), X[:1], 12, seeds=1000, seed=1, gradients=True)
    assert found["gradients"].worst > 4
    assert found["gradient_variance"].worst > 4


def test_all_at_once_and_files(tmp_path):
    network = dataclasses.replace(wf.MLP(2, "relu"), **NETWORKS["relu"])
    found = check(network, X[:2], 8, seeds=200, seed=0, ntk=True, gradients=True, y=Y[:2, 0], noise=0.5)
    names = set(found.summary()["correlator"].values)
    assert {"log_evidence", "learned_metric", "between_layers", "gradients", "variance_paired"} < names
    assert "posterior_mean" not in names  # nothing is left to predict
    found.save(tmp_path / "check.nc")
    again = wf.load(tmp_path / "check.nc")
    for name in names:
        np.testing.assert_array_equal(again[name].measured, found[name].measured)
    assert again.plot().axes
    with pytest.raises(InvalidInput, match="y has 3 rows; there are 2 inputs"):
        check(network, X[:2], 8, seeds=200, seed=0, y=Y)
