"""Posterior and evidence from drawn fluctuations of the metric: known values, closed forms, and the full vertex."""

import numpy as np
import pytest

import widefield as wf
from bayes_problems import MANY, SIN, TABLES, TEST, X, Y
from widefield import effective
from widefield.base.errors import InvalidInput, NotAccurate
from widefield.effective import drawn_posterior

CLOSE = 5.5
"""Standard errors from eight replicas: Student's t of 7 degrees of freedom is beyond that once in a thousand."""


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("together", [False, True])
def test_tables(name, together):
    """Coefficients of 1/n. Errors are below 2.5% of the largest of their kind, so that one of 14% would be noticed."""
    settings, infinite, evidence, means, own, wired = TABLES[name]
    x, y, test = (settings.get(key, value) for key, value in (("x", X), ("y", Y), ("test", TEST)))
    network = wf.MLP(settings.get("layers", 2) - 1, **SIN)
    found = drawn_posterior(network, x, y, test, MANY, noise=settings.get("noise", 0.0), together=together)
    assert found.infinite_log_evidence == pytest.approx(infinite, abs=1e-9)
    error = MANY * found.log_evidence_shift_error
    assert abs(MANY * found.log_evidence_shift - evidence) < CLOSE * error < CLOSE * 0.025 * max(abs(evidence), 0.2)
    error = MANY * found.mean_shift_error[0]
    assert np.all(np.abs(MANY * found.mean_shift[0] - means) < CLOSE * error)
    assert error.max() < 0.025 * np.abs(means).max()
    size = 0.025 * max(np.abs(own))
    errors = MANY * found.covariance_error
    assert errors.max() < size
    here = (0, 0) if together else (0,)
    assert abs(MANY * (found.shared_shift[here] + found.wired[(0, 0, *here)]) - own[0]) < CLOSE * errors[(0, 0, *here)]
    assert abs(MANY * found.wired[(0, 1, *here)] - wired[0]) < CLOSE * errors[(0, 1, *here)]
    if together:
        assert abs(MANY * found.shared_shift[0, 1] - own[2]) < CLOSE * size
        assert abs(MANY * found.wired[0, 1, 0, 1] - wired[1]) < CLOSE * errors[0, 1, 0, 1]


@pytest.mark.parametrize(
    ("activation", "layers", "samples"),
    [("relu", 3, 5), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("gelu", 2, 6), ("tanh", 2, 4)))],
)
def test_the_full_vertex_says_the_same(activation, layers, samples):
    """`finite_posterior` integrates what is drawn here, up to half a percent."""
    rng = np.random.default_rng(samples)
    network = wf.MLP(layers, activation, weight_variances=1.5, bias_variances=0.1)
    x, test, y = rng.normal(size=(samples, 3)), rng.normal(size=(2, 3)), rng.normal(size=(samples, 2))
    exact = effective.finite_posterior(network, x, y, test, MANY, noise=0.3)
    found = drawn_posterior(network, x, y, test, MANY, noise=0.3, together=True)
    whole = np.array([[exact.covariance(i, k) for k in range(2)] for i in range(2)])
    assert found.expansion == pytest.approx(exact.expansion, rel=0.05)
    for one, other, error in (
        (found.log_evidence, exact.log_evidence, found.log_evidence_shift_error),
        (found.mean, exact.mean, found.mean_shift_error),
        (found.covariance, whole, found.covariance_error),
    ):
        shift = np.abs(np.asarray(other) - np.asarray(one)) - CLOSE * np.asarray(error)
        assert np.max(shift) < 0.01 * exact.expansion


def test_many_samples_of_a_linear_network():
    """One hidden layer has V_(ab)(cd) = K_ac K_bd + K_ad K_bc: with k = F^-1 K F^-T, e = F^-1 y, S = e e^T - 1,

    n dlog p = tr(S k S k) / 4 + ((tr k)^2 + tr k^2) / 4 - (e.k e tr k + e.k^2 e) / 2
    """
    rng, samples, noise = np.random.default_rng(0), 60, 0.5
    x, test, y = rng.normal(size=(samples, 80)), rng.normal(size=(3, 80)), rng.normal(size=samples)
    found = drawn_posterior(wf.MLP(1, "linear"), x, y, test, MANY, noise=noise)
    K, cross = x @ x.T / 80, x @ test.T / 80
    inverse = np.linalg.inv(np.linalg.cholesky(K + noise * np.eye(samples)))
    k, e, a = inverse @ K @ inverse.T, inverse @ y, inverse @ cross
    S, one = np.outer(e, e) - np.eye(samples), np.eye(samples)
    evidence = (np.trace(S @ k @ S @ k) + np.trace(k) ** 2 + np.sum(k * k)) / 4
    evidence -= (e @ k @ e * np.trace(k) + e @ k @ k @ e) / 2
    t = inverse @ cross - k @ a
    # V with one index a predicted sample and three observed ones: T^T e (S.U) / 2 - T^T U e.
    mean = (t.T @ (S @ k @ e)) - (t.T @ (np.trace(k) * one + k) @ e)
    assert abs(MANY * found.log_evidence_shift - evidence) < CLOSE * MANY * found.log_evidence_shift_error
    assert MANY * found.log_evidence_shift_error < 0.1 * abs(evidence)
    assert np.all(np.abs(MANY * found.mean_shift[:, 0] - mean) < CLOSE * MANY * found.mean_shift_error[:, 0])
    assert np.all(found.mean_shift_error[:, 0] < 0.3 * np.abs(found.mean_shift[:, 0]).max())
    assert found.expansion * MANY == pytest.approx(expansion_of(k), rel=0.1)


def expansion_of(k):
    """sqrt(tr k^2 / 24) with the four-point function k_ac k_bd + k_ad k_bc and all permutations of it, one output."""
    square, fourth = np.sum(k * k), np.sum((k @ k) ** 2)
    # sum V_(ab)(cd)^2 = 2 (tr k^2)^2 + 2 tr k^4;  sum V_(ab)(cd) V_(ac)(bd) = 3 tr k^4 + (tr k^2)^2
    return np.sqrt((3 * (2 * square**2 + 2 * fourth) + 6 * (3 * fourth + square**2)) / 24)


def test_who_else_is_asked_for_changes_nothing():
    network, rng = wf.MLP(2, "relu", weight_variances=1.5), np.random.default_rng(1)
    x, test, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=5)
    options = {"noise": 0.1, "points": 64, "replicas": 2}
    all_of_them = drawn_posterior(network, x, y, test, 1000, **options)
    alone = drawn_posterior(network, x, y, test[2:3], 1000, **options)
    np.testing.assert_allclose(all_of_them.mean[2], alone.mean[0], rtol=1e-9)
    np.testing.assert_allclose(all_of_them.covariance[..., 2], alone.covariance[..., 0], rtol=1e-8)
    nobody = drawn_posterior(network, x, y, None, 1000, **options)
    assert nobody.mean.shape == (0, 1)
    assert nobody.log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)


def test_bad_input():
    with pytest.warns(NotAccurate, match=r"widths \(2,\) are small for 2 samples and 2 outputs"):
        found = drawn_posterior(wf.MLP(1, **SIN), X, 3 * Y, TEST, 2, noise=0.01, points=64)
    with pytest.raises(InvalidInput, match="they need as many"):
        drawn_posterior(wf.MLP(1), X, np.ones(3), TEST, 10)
    with pytest.raises(InvalidInput, match="jumps"):
        drawn_posterior(wf.MLP(1, "perceptron"), X, Y, TEST, 10)
    assert found.expansion > 0.3
