"""Test errors over networks: known values, draws of outputs, and networks that were really trained."""

import numpy as np
import pytest

import widefield as wf
from learning_problems import INPUTS, TARGETS, blocks, network
from references.trained_ensembles import train
from widefield.base.errors import InvalidInput
from widefield.kernels import (
    Prediction,
    StaticKernel,
    error_cumulants,
    error_map,
    loss_statistics,
    trained,
    trained_network,
)

TWO = np.array([[0.9, 0.2], [-0.6, 0.5]]), np.array([[0.1, -0.3], [0.4, 0.6]])
TESTS = np.array([0.1, 0.4])


def prediction(activation, y=TARGETS):
    found = StaticKernel(network(activation), weight_rates=0.5, bias_rates=0.5)(INPUTS)
    return trained(blocks(found.nngp), blocks(found.ntk), y)


@pytest.mark.parametrize(
    ("activation", "y", "y_test", "expected"),
    [
        ("tanh", TARGETS, TESTS, (0.129116542286, 0.028703336647, 0.012889285835)),
        ("sin", TARGETS, TESTS, (0.153079816525, 0.041050866992, 0.022580778457)),
        ("tanh", *TWO, (0.531631535063, 0.075121101622, 0.033002132548)),
    ],
)
def test_cumulants(activation, y, y_test, expected):
    """Reference values."""
    found = prediction(activation, y)
    np.testing.assert_allclose(error_cumulants(found, y_test), expected, rtol=1e-8)
    assert error_cumulants(found, y_test, 1)[0] == pytest.approx(sum(found.squared_error(y_test)), rel=1e-14)


def draws(found, seed, count):
    normal = np.random.default_rng(seed).standard_normal((count, *found.mean.shape))
    return found.mean + np.einsum("qp,npi->nqi", np.linalg.cholesky(found.covariance), normal)


def test_cumulants_of_drawn_outputs():
    """4 standard errors; the variance without correlations between test samples would be more than 20 of them off."""
    found = Prediction(np.array([[0.3], [-0.2]]), np.array([[0.5, 0.4], [0.4, 0.6]]))
    errors = 0.5 * np.sum(draws(found, 0, 400_000)[:, :, 0] ** 2, axis=1)
    mean, variance, third = error_cumulants(found, [0.0, 0.0])
    apart = errors - errors.mean()
    for power, value in ((2, variance), (3, third)):
        estimate = apart**power
        assert abs(estimate.mean() - value) < 4 * estimate.std() / 400_000**0.5
    assert abs(errors.mean() - mean) < 4 * errors.std() / 400_000**0.5
    alone = error_cumulants(Prediction(found.mean, np.diag(np.diag(found.covariance))), [0.0, 0.0])[1]
    assert abs(alone - variance) > 20 * (apart**2).std() / 400_000**0.5


def test_any_loss():
    """The squared loss is exact; of the cross-entropy the error falls as the square of the covariance (by draws)."""
    found = prediction("tanh", TWO[0])
    squared = loss_statistics(found, TWO[1], wf.SquaredError())
    np.testing.assert_allclose((squared.mean, squared.variance), error_cumulants(found, TWO[1], 2), rtol=1e-12)
    halved = loss_statistics(found, TWO[1], wf.SquaredError(reduction="mean"))
    np.testing.assert_allclose((halved.mean, halved.variance), (squared.mean / 2, squared.variance / 4), rtol=1e-12)
    p = np.array([[0.3, 0.7], [0.9, 0.1]])
    for size, allowed in ((0.01, 2e-6), (0.04, 3.2e-5)):
        small = Prediction(found.mean, size * found.covariance)
        spread = np.random.default_rng(1).standard_normal((100_000, *found.mean.shape))
        spread = np.concatenate([spread, -spread])
        z = small.mean + np.einsum("qp,npi->nqi", np.linalg.cholesky(small.covariance), spread)
        losses = -np.sum(p * (z - np.log(np.exp(z).sum(-1, keepdims=True))), axis=(1, 2))
        paired = losses.reshape(2, -1).mean(axis=0)
        statistics = loss_statistics(small, p, wf.SoftmaxCrossEntropy())
        error = 4 * paired.std() / 100_000**0.5
        assert abs(losses.mean() - statistics.mean) < error + allowed
        assert statistics.spread > 10 * (error + allowed)
        assert losses.var() == pytest.approx(statistics.variance, rel=0.02 + size)


def test_errors_over_initialisations():
    """Each entry is that of `trained`; deep tanh networks are best near criticality, C_W = 1 without biases."""
    given = (INPUTS[:2], TARGETS), (INPUTS[2:], TESTS)
    one = error_map("tanh", *given, weight_variances=[1.0, 1.5], bias_variances=0.1, hidden_layers=2,
                    weight_rate=0.5, bias_rate=0.5)  # fmt: skip
    expected = prediction("tanh").squared_error(TESTS)
    found = one.sel(weight_variance=1.0)
    np.testing.assert_allclose((found["bias"].item(), found["variance"].item()), expected, rtol=1e-12)
    variances = np.array([0.5, 1.0, 3.0])
    deep = error_map("tanh", *given, weight_variances=variances, hidden_layers=25)["error"][0, :, 0]
    assert variances[int(np.argmin(deep.values))] == 1.0


def test_refusals():
    with pytest.raises(InvalidInput, match="shape"):
        error_cumulants(prediction("tanh"), [1.0])
    with pytest.raises(InvalidInput, match="shape"):
        loss_statistics(prediction("tanh"), [1.0], wf.SquaredError())


# Networks ------------------------------------------------------------------------------------------------

WIDE = {"layers": 3, "C_b": 0.1, "C_W": 1.0, "rate_b": 0.5, "rate_W": 0.5}


@pytest.mark.slow
def test_trained_networks_have_this_mean_and_spread():
    """2000 tanh networks of width 64, each at a quarter of the limit of its own kernel.

    Allowed: 4 standard errors, and as bias of order 1/n twice (layers / n) of the value, 9%. An error of the mean error
    of 21%, of its variance of about a half, of the mean outputs of 0.025 and 0.1 would be noticed.
    """
    rng, y = np.random.default_rng(0), TARGETS
    parts = [train(rng, 200, 64, INPUTS, y, **WIDE) for _ in range(10)]
    assert max(worst for _, _, worst in parts) < 1e-4
    outputs = np.concatenate([last for _, last, _ in parts])[:, 2:]
    theory, count, bias = prediction("tanh"), len(outputs), 2 * 3 / 64
    errors = 0.5 * np.sum((outputs - TESTS) ** 2, axis=1)
    mean, variance = error_cumulants(theory, TESTS, 2)
    assert abs(errors.mean() - mean) < 4 * errors.std() / count**0.5 + bias * mean
    squares = (errors - errors.mean()) ** 2
    assert abs(squares.mean() - variance) < 4 * squares.std() / count**0.5 + bias * variance
    apart = outputs.mean(axis=0) - theory.mean[:, 0]
    assert np.all(np.abs(apart) < 4 * outputs.std(axis=0) / count**0.5 + bias * np.abs(theory.mean[:, 0]))


@pytest.mark.slow
def test_single_networks_end_where_their_first_outputs_say():
    """Distances from PDLT eq. (10.39) halve when the width grows four times: their ratio lies between 1.6 and 2.5."""
    ntk = blocks(StaticKernel(network("tanh"), weight_rates=0.5, bias_rates=0.5)(INPUTS).ntk)
    distances = []
    for width, count in ((32, 300), (128, 300)):
        first, last, worst = train(np.random.default_rng(1), count, width, INPUTS, TARGETS, **WIDE)
        assert worst < 1e-4
        expected = np.stack([trained_network(ntk, TARGETS, z[:2], z[2:])[:, 0] for z in first])
        distances.append(np.sqrt(np.mean((last[:, 2:] - expected) ** 2)))
    assert 1.6 < distances[0] / distances[1] < 2.5
    assert distances[1] < 0.07
