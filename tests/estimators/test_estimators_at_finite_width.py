"""Estimators with a width: the posterior of finite networks, against the full vertex and networks that were drawn."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import widefield as wf
from references import posterior as reference
from widefield import KernelClassifier, KernelRegressor, effective
from widefield.base.errors import InvalidInput, NotAccurate
from widefield.estimators.classifier import largest, largest_correlated
from widefield.kernels import Blocks, StaticKernel, trained

NETWORK = wf.MLP(1, "sin", weight_variances=1.5, bias_variances=0.1)
X, Y = np.eye(2), np.array([[1.0, 0.5], [-0.5, 0.25]])
NEW = np.array([[0.6, 0.8], [-0.8, 0.6]])
WIDE = 10**6  # nothing warns, and every line is run


@pytest.mark.slow
@parametrize_with_checks(
    [
        KernelRegressor(kernel="nngp", width=WIDE, hidden_layers=1),
        KernelClassifier(kernel="nngp", width=WIDE, hidden_layers=1),
        KernelRegressor(rule=wf.FeedbackAlignment(0.5)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_posterior_is_that_of_finite_networks():
    """Against `finite_posterior`, whose order 1/n of these samples is integrated: within 3% of that order."""
    model = KernelRegressor(NETWORK, kernel="nngp", width=40, ridge=0.1).fit(X, Y)
    exact = effective.finite_posterior(NETWORK, X, Y, NEW, 40, noise=0.1)
    mean, deviation = model.predict(NEW, return_std=True)
    assert np.abs(mean - exact.mean).max() < 0.03 * np.abs(exact.mean_shift).max()
    scale = np.abs(exact.deviation() - exact.infinite.deviation[:, None]).max()
    assert np.abs(deviation - exact.deviation()).max() < 0.03 * scale
    assert abs(model.log_evidence_ - exact.log_evidence) < 0.03 * abs(exact.log_evidence_shift)
    assert model.regression_.fitted.expansion == pytest.approx(exact.expansion, rel=0.05)
    noisy = model.predict(NEW, return_std=True, with_noise=True)[1]
    np.testing.assert_allclose(noisy**2, deviation**2 + 0.1)
    found = model.predict(NEW, return_cov=True)[1]
    assert found.shape == (2, 2, 2)
    for output in range(2):
        change = np.abs(exact.covariance(output) - exact.infinite.covariance).max()
        np.testing.assert_allclose(found[:, :, output], exact.covariance(output), atol=0.03 * change)
    alone = KernelRegressor(NETWORK, kernel="nngp", width=40, ridge=0.1).fit(X, Y[:, 0])
    assert alone.predict(NEW, return_cov=True)[1].shape == (2, 2)
    assert np.abs(alone.predict(NEW) - mean[:, 0]).max() > 1e-4  # outputs wire together


def test_drawn_networks():
    """Importance sampling of networks with their weights: what is left is of order 1/n^2, infinite width is far off."""
    gaps = {}
    for width in (16, 64):
        model = KernelRegressor(NETWORK, kernel="nngp", width=width, ridge=0.1).fit(X, Y)
        exact = reference.sampled(np.sin, np.concatenate([X, NEW[:1]]), Y, width, 0.1, 1.5, 0.1, 20_000, 0)
        mean, deviation = model.predict(NEW[:1], return_std=True)
        infinite = KernelRegressor(NETWORK, kernel="nngp", ridge=0.1).fit(X, Y).predict(NEW[:1], return_std=True)
        spread = np.sqrt(np.einsum("iiqq->qi", exact["covariance"][0]))
        gaps[width] = [mean - exact["mean"][0], deviation - spread, infinite[0] - exact["mean"][0]]
        error = 4 * np.linalg.norm(exact["mean"][1])
    left, scatter, without = (np.linalg.norm(gap) for gap in gaps[64])
    assert left < np.linalg.norm(gaps[16][0]) / 16 * 1.5 + error
    assert scatter < np.linalg.norm(gaps[16][1]) / 16 * 1.5 + error
    assert left < 0.2 * without


def test_hyperparameters_of_the_largest_corrected_evidence():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 3))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=5)
    model = KernelRegressor(NETWORK, kernel="nngp", width=60, ridge=0.05, optimise=True, restarts=0)
    infinite = clone(model).set_params(width=None).fit(x, y)
    model.fit(x, y)

    def evidence(network, ridge):
        return effective.finite_posterior(network, x, y, x[:1], 60, noise=ridge).log_evidence

    best = evidence(model.network_, model.ridge_)
    assert model.log_evidence_ == pytest.approx(best, abs=0.02)
    assert best > evidence(infinite.network_, infinite.ridge_) - 0.01
    for factor in (0.8, 1.25):
        other = dataclasses.replace(model.network_, weight_variances=factor * model.network_.weight_variances)
        assert best > evidence(other, model.ridge_) - 0.01
        assert best > evidence(model.network_, factor * model.ridge_) - 0.01
    with pytest.raises(InvalidInput, match="width = 1 is too small to choose hyperparameters"):
        model.set_params(width=1).fit(x, y)


def test_predictions_do_not_depend_on_their_company():
    new = np.random.default_rng(0).normal(size=(9, 2))
    model = KernelRegressor(NETWORK, kernel="nngp", width=100, ridge=0.1).fit(X, Y)
    together = model.predict(new, return_std=True)
    alone = [np.concatenate(part) for part in zip(*(model.predict(n[None], return_std=True) for n in new), strict=True)]
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-8)
    np.testing.assert_allclose(together[1], alone[1], rtol=1e-8)


def test_classes():
    """Two classes: d = (m_1 - m_0) / sqrt(2 Var), and wiring moves the probabilities by the order 1/n."""
    x, labels = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), np.array(["a", "b", "a"])
    model = KernelClassifier(NETWORK, kernel="nngp", width=200, ridge=0.1).fit(x, labels)
    wide = KernelClassifier(NETWORK, kernel="nngp", ridge=0.1).fit(x, labels)
    probabilities = model.predict_proba(NEW)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    targets = np.eye(2)[[0, 1, 0]] - 0.5
    exact = effective.finite_posterior(NETWORK, x, targets, NEW, 200, noise=0.1)
    apart = exact.variance.sum(axis=1) - 2 * np.diagonal(exact.covariance(0, 1)) + 0.2
    score = (exact.mean[:, 1] - exact.mean[:, 0]) / np.sqrt(apart)
    infinite = wide.decision_function(NEW)
    assert np.abs(model.decision_function(NEW) - score).max() < 0.05 * np.abs(score - infinite).max()
    assert 1e-4 < np.abs(probabilities - wide.predict_proba(NEW)).max() < 0.05


def test_the_largest_of_outputs_that_know_each_other():
    """Against draws, within 4 standard errors of 0.0005; independent outputs are those of `largest`."""
    rng = np.random.default_rng(1)
    means = np.array([[0.3, -0.5, 0.8], [0.0, 0.0, 0.1]])
    mixing = rng.normal(size=(2, 3, 3)) * 0.3
    covariances = mixing @ np.swapaxes(mixing, 1, 2) + np.array([0.5, 1.0])[:, None, None] * np.eye(3)
    found = largest_correlated(means, covariances)
    for mean, covariance, probabilities in zip(means, covariances, found, strict=True):
        drawn = mean + rng.normal(size=(1_000_000, 3)) @ np.linalg.cholesky(covariance).T
        share = np.bincount(drawn.argmax(axis=1), minlength=3) / len(drawn)
        assert np.abs(share - probabilities).max() < 4 * 0.0005
    np.testing.assert_allclose(largest_correlated(means, 0.7 * np.stack([np.eye(3)] * 2)),
                               largest(means / np.sqrt(0.7)), atol=2e-3)  # fmt: skip


@pytest.mark.parametrize("rule", [wf.FeedbackAlignment(0.4), wf.DirectFeedbackAlignment(), wf.GatedLinear()])
def test_rules(rule):
    """The effective NTK of a rule moves outputs, the NNGP kernel says how they start: the formulas of `trained`."""
    rng = np.random.default_rng(0)
    x, new, y = rng.normal(size=(9, 3)), rng.normal(size=(4, 3)), rng.normal(size=9)
    network = wf.MLP(2, "relu", weight_variances=1.5, bias_variances=0.2, train_biases=True)
    model = KernelRegressor(network, kernel="ntk", rule=rule, ridge=0.1).fit(x, y)
    kernel = StaticKernel(network, rule)
    nngp, ntk = (Blocks.of(lambda a, b, n=name: getattr(kernel(a, b), n), x, new) for name in ("nngp", "ntk"))
    expected = trained(nngp, ntk, y, ridge=0.1)
    mean, deviation = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected.mean[:, 0], rtol=1e-9)
    np.testing.assert_allclose(deviation, expected.deviation, rtol=1e-7)
    plain = KernelRegressor(network, kernel="ntk", ridge=0.1).fit(x, y)
    assert np.abs(plain.predict(new) - mean).max() > 1e-3
    assert clone(model).get_params()["rule"] == rule
    bayesian = KernelRegressor(network, kernel="nngp", rule=rule, ridge=0.1).fit(x, y).predict(new)
    same = KernelRegressor(network, kernel="nngp", ridge=0.1).fit(x, y).predict(new)
    assert (np.abs(bayesian - same).max() < 1e-12) == (not rule.gated)


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"width": 0, "kernel": "nngp"}, "width = 0 must be a whole number of at least 1"),
        ({"width": 64, "kernel": "ntk"}, "width is given with kernel = 'ntk': at order 1/n the NTK moves"),
        ({"width": 64, "kernel": lambda a, b: a @ b.T}, "a function has no width"),
        ({"width": 64, "kernel": "nngp", "rule": wf.GatedLinear()}, "width is given with rule = 'gated-linear'"),
        ({"rule": "hebb"}, "rule = 'hebb' is no learning rule"),
        ({"rule": wf.Hebb(), "kernel": lambda a, b: a @ b.T}, "a kernel of your own, which knows nothing of it"),
    ],
)
def test_refusals(kind, parameters, message):
    with pytest.raises(InvalidInput, match=message):
        kind(**parameters).fit(X, [0, 1])


def test_narrow_networks_warn():
    with pytest.warns(NotAccurate, match=r"widths \(2,\) are small for 2 samples and 2 outputs"):
        KernelRegressor(NETWORK, kernel="nngp", width=2, ridge=0.1).fit(X, Y)
