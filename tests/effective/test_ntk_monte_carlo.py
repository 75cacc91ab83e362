"""Statistics of the NTK against random networks with all their weights: every correlator, within 4 standard errors."""

import numpy as np
import pytest

from widefield.effective import NTKFlow, check, critical_point, ntk_flow, tangent_check
from widefield.effective.tangent_sampler import network_ntk, tangent_networks
from widefield.problem.network import MLP

ACTIVATIONS = ("tanh", "relu", "gelu", "swish", "sin", "linear")
KERNEL = np.array([[1.0, 0.6, -0.3, 0.1], [0.6, 1.5, 0.2, -0.4], [-0.3, 0.2, 0.8, 0.3], [0.1, -0.4, 0.3, 1.2]])
NAMES = {"metric", "nlo_metric", "vertex", "ntk", "nlo_ntk", "cross_shared", "cross_paired"}
NAMES |= {"variance_shared", "variance_paired", "between_layers"}
RATES = {"weight_rates": 0.8, "bias_rates": 1.0}


def critical(activation, layers, samples):
    point = critical_point(activation)
    bias, weight = point.bias_variance, point.weight_variance
    network = MLP(layers - 1, activation, bias_variances=bias, weight_variances=weight)
    K = (point.kernel or 1.0) * KERNEL[:samples, :samples]
    return network, np.sqrt(samples) * np.linalg.cholesky((K - bias) / weight)


def assert_notices(found, **most):
    assert found.agrees, str(found)
    table = found.summary().to_dataframe()["noticed"]
    assert set(table.index) == NAMES
    for name, share in most.items():
        assert table[name] < share, str(found)


@pytest.mark.parametrize(
    ("activation", "samples"),
    [("tanh", 2), ("relu", 1), *(pytest.param(n, 2, marks=pytest.mark.slow) for n in ACTIVATIONS)],
)
def test_every_correlator(activation, samples):
    """Four layers."""
    network, x = critical(activation, 4, samples)
    found = check(network, x, 16, seeds=2500, seed=ACTIVATIONS.index(activation), ntk=True, **RATES)
    assert_notices(found, ntk=0.02, variance_paired=0.25, variance_shared=0.6, cross_paired=0.3)
    assert isinstance(found.flow, NTKFlow)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("samples", "layers", "seeds"), [(1, 12, 8000), (3, 6, 6000), (4, 3, 8000)])
def test_many_inputs_and_depth(activation, samples, layers, seeds):
    network, x = critical(activation, layers, samples)
    width = 64 if layers == 12 else 32
    found = check(
        network, x, width, seeds=seeds, seed=100 + ACTIVATIONS.index(activation), ntk=True, threshold=4.5, **RATES
    )
    assert_notices(found, ntk=0.02, variance_paired=0.15, variance_shared=0.5)


@pytest.mark.parametrize("width", [2, 5])
def test_second_layer_is_exact_at_any_width(width):
    network, x = MLP(1, "tanh", weight_variances=1.2, bias_variances=0.1), [[1, 0.5, -0.3], [0.2, -0.9, 1.1]]
    found = ntk_flow(network, x, width, **RATES)
    drawn = tangent_networks(network, x, width, seeds=40_000, seed=width, **RATES)
    G, X = (found.pairs.of(part)[:, 0] for part in (drawn.metrics, drawn.tangents))
    for one, other, expected in (
        (G, G, found.vertex(2)),
        (G, X, found.cross_shared(2)),
        (X, X, found.variance_shared(2)),
    ):
        products = (one - one.mean(0))[:, :, None] * (other - other.mean(0))[:, None, :]
        error = products.std(0) / np.sqrt(len(products))
        assert np.all(np.abs(products.mean(0) - expected / width) < 4 * error)
    for (value, error), expected in (
        (drawn.cross_paired, found.cross_paired(2)),
        (drawn.variance_paired, found.variance_paired(2)),
    ):
        assert np.all(np.abs(value[0] - expected / width) < 4 * error[0])
        assert np.all(error[0] < 0.02 * np.abs(expected).max() / width)


def test_third_layer_of_linear_networks_to_all_orders():
    """n V = 4 + 4/n, D = 6 + 8/n, F = 6 + 4/n, B = 20 + 6/n, A = 10 + 20/n at n = 4, where leading orders fail."""
    drawn = tangent_networks(MLP(2, "linear"), [[1.0]], 4, seeds=200_000, seed=3, weight_rates=1.0, bias_rates=1.0)
    G, X = drawn.metrics[:, 1, 0, 0], drawn.tangents[:, 1, 0, 0]
    for one, other, expected in ((G, G, 5.0), (G, X, 8.0), (X, X, 15.0)):
        products = 4 * (one - one.mean()) * (other - other.mean())
        assert abs(products.mean() - expected) < 4 * products.std() / np.sqrt(len(products))
        assert products.std() / np.sqrt(len(products)) < 0.02 * expected
    for (value, error), expected in ((drawn.cross_paired, 7.0), (drawn.variance_paired, 21.5)):
        assert abs(4 * value[1].item() - expected) < 16 * error[1].item()


def test_estimates_are_averages_over_the_last_weights():
    """One hidden layer: the NTK of two outputs of networks with weights, drawn here, has the same mean and products."""
    generator, x = np.random.default_rng(0), np.array([[1.0, -0.5], [0.3, 0.9]])
    rates = {"weight_rates": (0.8, 1.5), "bias_rates": (0.7, 0.4)}
    found = []
    for _ in range(1500):
        weights = (generator.normal(size=(3, 2)) / 2**0.5, generator.normal(size=(2, 3)) / 3**0.5)
        biases = (np.zeros(3), np.zeros(2))
        z, H = network_ntk("tanh", weights, biases, x, **rates)
        found.append([H[0, 1, 0, 0], H[0, 0, 0, 1] * H[0, 1, 0, 1], z[0, 0] * z[1, 1] * H[0, 1, 0, 1]])
    found = np.array(found)
    mean, error = found.mean(0), found.std(0) / np.sqrt(len(found))
    drawn = tangent_networks(MLP(1, "tanh"), x, 3, seeds=40_000, seed=1, **rates)
    expected = (
        drawn.tangents[:, 0, 0, 1].mean(),
        drawn.variance_paired[0][0, 0, 0, 0, 1],
        drawn.cross_paired[0][0, 0, 0, 1, 1],
    )
    assert np.all(np.abs(mean - expected) < 4.5 * error)


def test_between_layers():
    """The covariance of neighbouring layers through T is that of `NTKFlow.between_layers`, and wrong ones show."""
    network, x = critical("tanh", 3, 2)
    found = check(network, x, 12, seeds=3000, seed=5, ntk=True, **RATES)["between_layers"]
    assert found.measured.shape == (1, 2, 3, 2, 3)
    assert found.worst < 4
    assert 4 * found.resolution < 0.4
    np.testing.assert_allclose(found.predicted[0], ntk_flow(network, x, 12, **RATES).between_layers(2, 3))


@pytest.mark.parametrize("name", ["nlo_ntk", "cross_shared", "cross_paired", "variance_shared", "variance_paired"])
def test_wrong_theories_are_noticed(monkeypatch, name):
    """A correlator that is 1.6 times too large, or a mean with something in it that is not there."""

    def wrong(*arguments, **options):
        theory = ntk_flow(*arguments, **options)
        value = theory.data[name] + 1.0 if name == "nlo_ntk" else 1.6 * theory.data[name]
        return NTKFlow(theory.data.assign({name: value}), theory.network)

    monkeypatch.setattr(tangent_check, "ntk_flow", wrong)
    network, x = critical("tanh", 3, 1)
    found = check(network, x, 12, seeds=4000, seed=0, ntk=True, **RATES)
    assert found[name].worst > 4
    assert not found.agrees


def test_files_of_checks(tmp_path):
    network, x = critical("sin", 3, 2)
    found = check(network, x, 8, seeds=200, seed=0, ntk=True)
    found.save(tmp_path / "check.nc")
    again = type(found).load(tmp_path / "check.nc")
    for name in NAMES:
        np.testing.assert_array_equal(again[name].measured, found[name].measured)
    assert again["cross_paired"].predicted.shape == (2, 2, 2, 2, 2)
    assert again.plot().axes
