"""Estimators: scikit-learn's own checks, direct formulas, PDLT's numbers, and hyperparameters of known data."""

import io
import math
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.special
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pages
import widefield as wf
from widefield import KernelClassifier, KernelRegressor
from widefield.base.errors import InvalidInput, UnknownName
from widefield.estimators import covariance, regression
from widefield.estimators.classifier import largest
from widefield.kernels import Blocks, StaticKernel, log_evidence, posterior, trained

SMALL = wf.MLP(hidden_layers=2, activation="relu", weight_variances=1.5, bias_variances=0.2, train_biases=True)


@parametrize_with_checks([KernelRegressor(), KernelClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_scikit_learn_is_imported_when_it_is_needed():
    code = "import sys, widefield; print('sklearn' in sys.modules); widefield.KernelRegressor"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.strip() == b"False"
    with pytest.raises(AttributeError, match="no attribute 'KernelRegresor'"):
        wf.KernelRegresor  # noqa: B018


def data(samples=40, outputs=None, dimension=3, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(samples, dimension))
    shape = (dimension,) if outputs is None else (dimension, outputs)
    return x, np.sin(2 * x @ random.normal(size=shape)) + 0.1


# PDLT's predictions: the same inputs and targets for three activations


@pytest.mark.parametrize(
    ("activation", "variance", "kernel", "mean", "covariance"),
    [
        ("relu", 2.0, "ntk", [0.1348634826, 0.3696793245], [0.1022488181, 0.0057384846, 0.6731956570]),
        ("tanh", 1.0, "ntk", [0.1574391819, 0.6319535876], [0.0123213450, 0.0146272831, 0.1888100132]),
        ("tanh", 1.0, "nngp", [0.1609284214, 0.7194729310], [0.0122665791, 0.0153624528, 0.1764816204]),
        ("sin", 1.0, "ntk", [0.1559344704, 0.6192256689], [0.0160730361, 0.0194271786, 0.2388980380]),
    ],
)
def test_two_samples_predict_two_others(activation, variance, kernel, mean, covariance):
    x = np.array([[1, 0.5, -0.4], [-0.2, 0.9, 0.7], [0.5, 0.6, 0.3], [0.9, -0.8, 0.1]])
    network = wf.MLP(2, activation, weight_variances=variance, bias_variances=0.1, train_biases=True)
    model = KernelRegressor(network, kernel=kernel, ridge=0.0).fit(x[:2], [0.9, -0.6])
    found, spread = model.predict(x[2:], return_cov=True)
    np.testing.assert_allclose(found, mean, rtol=1e-8)
    np.testing.assert_allclose([spread[0, 0], spread[0, 1], spread[1, 1]], covariance, rtol=2e-8)
    assert spread[0, 1] == spread[1, 0]
    np.testing.assert_allclose(model.predict(x[2:], return_std=True)[1] ** 2, np.diag(spread), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_predictions_are_those_of_the_formulas(kernel, outputs, monkeypatch):
    monkeypatch.setattr(regression, "_ENTRIES", 40 * 8)  # several blocks
    x, y = data(outputs=outputs)
    new = data(samples=20, seed=1)[0]
    model = KernelRegressor(SMALL, kernel=kernel, ridge=0.03).fit(x, y)
    nngp, ntk = (
        Blocks.of(lambda a, b, name=name: getattr(StaticKernel(SMALL)(a, b), name), x, new) for name in ("nngp", "ntk")
    )
    expected = posterior(nngp, y, ridge=0.03) if kernel == "nngp" else trained(nngp, ntk, y, ridge=0.03)
    mean, deviation = model.predict(new, return_std=True)
    assert mean.shape == deviation.shape == (20, *y.shape[1:])
    np.testing.assert_allclose(mean.reshape(20, -1), expected.mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(deviation.reshape(20, -1)[:, -1], expected.deviation, rtol=1e-7)
    np.testing.assert_allclose(model.predict(new, return_cov=True)[1], expected.covariance, atol=1e-11)
    np.testing.assert_array_equal(model.predict(new), mean)
    train = (nngp if kernel == "nngp" else ntk).train
    np.testing.assert_allclose(model.log_evidence_, log_evidence(train, y, ridge=0.03), rtol=1e-10)


@pytest.mark.parametrize("rule", [wf.GradientDescent(), wf.FeedbackAlignment(correlation=0.4), wf.GatedLinear()])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_diagonals_of_kernels(rule, activation):
    x = data(samples=9)[0]
    kernel = StaticKernel(wf.MLP(3, activation, weight_variances=1.7, bias_variances=0.3, train_biases=True), rule)
    found, full = kernel.diagonal(x), kernel(x)
    np.testing.assert_allclose(found.nngp, np.diag(full.nngp), rtol=1e-11)
    np.testing.assert_allclose(found.ntk, np.diag(full.ntk), rtol=1e-11)


def test_padding_changes_nothing():
    x = data(samples=70)[0]
    pair, full = covariance.NetworkKernel(SMALL, "ntk")(x[:20], x[20:]), StaticKernel(SMALL)(x[:20], x[20:])
    np.testing.assert_allclose(pair.kernel, full.ntk, rtol=1e-13)
    np.testing.assert_allclose(pair.prior, full.nngp, rtol=1e-13)


# Hyperparameters


TRUTH = np.array([1.4, 0.5, 0.05])
"""Variances of weights and biases, and the ridge."""


def covariance_of_targets(kernel, x, values):
    weights, biases, ridge = values
    network = wf.MLP(1, "relu", weight_variances=weights, bias_variances=biases, train_biases=True)
    return getattr(StaticKernel(network)(x), kernel) + ridge * np.eye(len(x))


def errors_of_logarithms(kernel, x, values, draws, step=1e-4):
    """Cramer-Rao: F_ij = draws / 2 tr(K^-1 dK/dlog v_i K^-1 dK/dlog v_j), errors sqrt(diag F^-1)."""
    up, down = (
        np.array([covariance_of_targets(kernel, x, values * np.exp(sign * shift)) for shift in step * np.eye(3)])
        for sign in (1, -1)
    )
    slopes = np.linalg.solve(covariance_of_targets(kernel, x, values), (up - down) / (2 * step))
    return np.sqrt(np.diag(np.linalg.inv(draws / 2 * np.einsum("iab,jba->ij", slopes, slopes))))


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
def test_evidence_finds_the_variances_of_the_prior(kernel):
    """Within 4 standard errors: a factor of 1.03 (weights), 1.1 (biases) or 1.03 (ridge) is noticed."""
    random, draws = np.random.default_rng(3), 2000
    x = random.normal(size=(120, 2))
    covariance = covariance_of_targets(kernel, x, TRUTH)
    y = np.linalg.cholesky(covariance) @ random.normal(size=(len(x), draws))
    start = wf.MLP(1, "relu", weight_variances=4.0, bias_variances=0.05, train_biases=True)
    options = {"network": start, "kernel": kernel, "ridge": 0.5, "restarts": 1, "random_state": 0}
    model = KernelRegressor(**options, optimise=True).fit(x, y)
    assert model.network == start
    found = np.array([model.network_.weight_variances, model.network_.bias_variances, model.ridge_])
    errors = errors_of_logarithms(kernel, x, TRUTH, draws)
    assert np.all(errors < (0.0065, 0.023, 0.0075))
    assert np.all(np.abs(np.log(found / TRUTH)) < 4 * errors), (found, errors)
    # Twice the gain over the truth is chi-squared with three degrees of freedom: mean 3, deviation sqrt(6).
    assert 0 <= model.log_evidence_ - log_evidence(covariance, y) < (3 + 4 * math.sqrt(6)) / 2
    again = clone(model).fit(x, y)
    assert (again.network_, again.ridge_) == (model.network_, model.ridge_)


def test_what_is_zero_stays_zero_and_ratios_of_layers_stay():
    x, y = data(samples=12)
    network = wf.MLP(1, "relu", weight_variances=(1.0, 3.0))
    model = KernelRegressor(network, ridge=0.0, optimise=True, restarts=0).fit(x, y)
    assert model.ridge_ == 0
    assert model.network_.bias_variances == 0
    first, second = model.network_.weight_variances
    assert second == pytest.approx(3 * first)
    assert model.log_evidence_ > KernelRegressor(network, ridge=0.0).fit(x, y).log_evidence_


def test_the_ridge_of_your_own_kernel():
    x, y = data(samples=80)
    y = y + np.random.default_rng(0).normal(size=80) * 0.3
    model = KernelRegressor(kernel=rbf_kernel, ridge=1e-3, optimise=True).fit(x, y)
    values = [KernelRegressor(kernel=rbf_kernel, ridge=model.ridge_ * f).fit(x, y).log_evidence_ for f in (0.9, 1.1)]
    assert model.log_evidence_ > max(values)
    assert model.network_ is None
    fixed = KernelRegressor(kernel=rbf_kernel, ridge=0.0, optimise=True).fit(x, y)
    assert fixed.ridge_ == 0


# With the rest of scikit-learn


def test_your_own_kernel_gives_a_gaussian_process():
    x, y = data()
    new = data(samples=7, seed=2)[0]
    reference = GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None).fit(x, y)
    model = KernelRegressor(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.5), ridge=0.01).fit(x, y)
    for found, expected in zip(
        model.predict(new, return_std=True), reference.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert model.log_evidence_ == pytest.approx(reference.log_marginal_likelihood_value_)


def test_grid_search_over_networks_and_their_fields():
    x, y = data(samples=30)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    grid = {"kernelregressor__network": [SMALL, None], "kernelregressor__network__hidden_layers": [1, 3]}
    search = GridSearchCV(make_pipeline(StandardScaler(), KernelRegressor()), grid, cv=2, error_score="raise")
    best = search.fit(frame, y).best_estimator_[-1]
    assert best.network.hidden_layers == search.best_params_["kernelregressor__network__hidden_layers"]
    assert len(search.cv_results_["params"]) == 4
    plain = KernelRegressor(SMALL).fit(frame, y)
    assert list(plain.feature_names_in_) == ["a", "b", "c"]
    assert plain.n_features_in_ == 3


def test_fields_of_the_network_are_parameters():
    model = KernelRegressor(SMALL, ridge=0.5)
    assert model.get_params()["network__hidden_layers"] == 2
    assert "network__hidden_layers" not in model.get_params(deep=False)
    model.set_params(network__hidden_layers=4, kernel="nngp")
    assert (model.network.hidden_layers, model.network.weight_variances, model.kernel) == (4, 1.5, "nngp")
    assert SMALL.hidden_layers == 2
    assert clone(model).network == model.network
    assert KernelRegressor().set_params(network__activation="tanh").network.activation == "tanh"


@pytest.mark.parametrize("estimator", [KernelRegressor(kernel="nngp"), KernelClassifier()])
def test_pickling(estimator):
    x, y = data(samples=20)
    model = estimator.fit(x, (y > 0).astype(int))
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).predict(x), model.predict(x))


# Classification


def test_digits():
    """Outputs of a kernel ridge regression, and as many right labels as the probabilities promise, 492.9 +- 3.5 of 512.

    Within 4 standard errors: deviations of the outputs that are twice too small or too large would be noticed.
    """
    x, y = load_digits(return_X_y=True)
    x, order = x / 16, np.random.default_rng(0).permutation(len(x))
    train, new = order[:300], order[300:812]
    labels = np.array([f"digit {label}" for label in y])
    model = KernelClassifier().fit(x[train], labels[train])
    outputs = model.decision_function(x[new])
    kernel = StaticKernel(model.network_)
    targets = np.eye(10)[y[train]] - 0.1
    reference = KernelRidge(alpha=model.ridge_, kernel="precomputed").fit(kernel(x[train]).ntk, targets)
    np.testing.assert_allclose(outputs, reference.predict(kernel(x[new], x[train]).ntk), atol=1e-9)
    found = model.predict(x[new])
    np.testing.assert_array_equal(found, model.classes_[outputs.argmax(axis=1)])
    probabilities = model.predict_proba(x[new])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    mean, scatter = KernelRegressor().fit(x[train], targets).predict(x[new], return_std=True)
    np.testing.assert_allclose(probabilities, largest(mean / scatter), atol=1e-12)
    promised = probabilities.max(axis=1)
    deviation = math.sqrt(np.sum(promised * (1 - promised)))
    assert deviation < 4
    assert abs(np.sum(found == labels[new]) - promised.sum()) < 4 * deviation


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
def test_two_classes(kernel):
    x, y = data()
    new = data(samples=15, seed=5)[0]
    model = KernelClassifier(SMALL, kernel=kernel, ridge=0.1).fit(x, y > 0)
    single = KernelRegressor(SMALL, kernel=kernel, ridge=0.1).fit(x, np.where(y > 0, 1.0, -1.0))
    mean, deviation = single.predict(new, return_std=True)
    variance = deviation**2 + (0.1 if kernel == "nngp" else 0.0)
    score = model.decision_function(new)
    np.testing.assert_allclose(score, mean / np.sqrt(2 * variance), rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], scipy.special.ndtr(score), atol=1e-14)
    np.testing.assert_array_equal(model.predict(new), mean > 0)


def test_probability_of_being_the_largest():
    """Against draws, within 4 standard errors: an error of 0.002 is noticed."""
    means = np.array([[0.3, -0.5, 0.8, 0.1], [0.0, 0.0, 0.0, 0.0], [50.0, 0.0, 49.0, 1.0], [1e9, 0.0, 1e9, -1e9]])
    found = largest(means)
    draws = np.random.default_rng(0).normal(size=(1_000_000, 4))
    for row, probabilities in zip(means, found, strict=True):
        share = np.bincount((row + draws).argmax(axis=1), minlength=4) / len(draws)
        error = np.sqrt(probabilities * (1 - probabilities) / len(draws))
        assert np.all(np.abs(probabilities - share) <= 4 * error + 1e-12), (row, probabilities, share)
    np.testing.assert_allclose(found[1], 0.25, rtol=1e-13)
    np.testing.assert_allclose(found[3], [0.5, 0, 0.5, 0], atol=1e-15)


def test_probabilities_where_networks_interpolate():
    x = data(samples=10)[0]
    model = KernelClassifier(SMALL, ridge=0.0).fit(x, np.arange(10) % 3)
    np.testing.assert_allclose(model.predict_proba(x), np.eye(3)[np.arange(10) % 3], atol=1e-6)
    alone = KernelClassifier(SMALL).fit(x, np.full(10, "only"))
    assert set(alone.predict(x)) == {"only"}
    np.testing.assert_array_equal(alone.predict_proba(x), np.ones((10, 1)))


# Input that cannot work


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": -1.0}, "ridge = -1.0 must be >= 0"),
        ({"ridge": "auto"}, "ridge = 'auto' is not a number"),
        ({"kernel": "ntkk"}, "unknown kernel 'ntkk'; did you mean 'ntk'"),
        ({"kernel": 3}, "kernel = 3 must be 'nngp', 'ntk', or a function"),
        ({"network": "mlp"}, "network = 'mlp' is not a network"),
        ({"optimise": 1}, "optimise = 1 must be true or false"),
        ({"restarts": -1}, "restarts = -1 must be a whole number"),
        ({"kernel": lambda a, b: np.ones(len(a))}, r"kernel\(X1, X2\) has shape \(12,\).*must be \(12, 12\)"),
        ({"kernel": lambda a, b: np.full((len(a), len(b)), np.nan)}, r"kernel\(X1, X2\) holds 144 values"),
        ({"kernel": lambda a, b: StaticKernel(SMALL)(a, b)}, r"kernel\(X1, X2\) is not an array of numbers"),
        ({"kernel": lambda a, b: a[:, :1] + 2 * b[:, 0]}, r"kernel\(X, X\) is not symmetric"),
        ({"kernel": lambda a, b: -rbf_kernel(a, b)}, r"kernel\(X, X\) is not positive semidefinite.*eigenvalue is -"),
        ({"kernel": lambda a, b: a @ b.T, "ridge": 0.0}, "ridge = 0 is too small: the kernel of the 12 training"),
    ],
)
def test_bad_parameters(kind, parameters, message):
    x, y = data(samples=12)
    model = kind(**parameters)
    with pytest.raises(InvalidInput, match=message):
        model.fit(x, y > 0)


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("kernel", ["nngp", "ntk", rbf_kernel])
def test_duplicates_need_a_ridge(kernel, optimise):
    x, y = data(samples=12)
    x[3] = x[7]
    with pytest.raises(InvalidInput, match=r"ridge = 0 is too small.*duplicate.*try ridge ="):
        KernelRegressor(SMALL, kernel=kernel, ridge=0.0, optimise=optimise).fit(x, y)
    KernelRegressor(SMALL, kernel=kernel, ridge=1e-6).fit(x, y)


def test_bad_samples():
    x, y = data(samples=12)
    with pytest.raises(NotFittedError):
        KernelRegressor().predict(x)
    with pytest.raises(NotFittedError):
        KernelClassifier().decision_function(x)
    with pytest.raises(ValueError, match="contains NaN"):
        KernelRegressor().fit(np.where(x > 1, np.nan, x), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelRegressor().fit(x, y[:5])
    with pytest.raises(ValueError, match="Unknown label type"):
        KernelClassifier().fit(x, y)
    model = KernelRegressor(SMALL).fit(x, y)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(x[:, :2])
    with pytest.raises(InvalidInput, match="ask for one"):
        model.predict(x, return_std=True, return_cov=True)
    with pytest.raises(UnknownName, match="unknown field of the network 'hidden_layer'; did you mean 'hidden_layers'"):
        model.set_params(network__hidden_layer=2)
    with pytest.raises(ValueError, match="Invalid parameter 'rigde'"):
        model.set_params(rigde=2)
    with pytest.raises(InvalidInput, match="network = 'mlp' is not a network"):
        model.set_params(network="mlp", network__hidden_layers=2)


def test_changing_the_samples_later_changes_nothing():
    x, y = data(samples=12)
    model = KernelRegressor(SMALL).fit(x, y)
    new, before = x.copy(), model.predict(x)
    x[:] = 0.0
    np.testing.assert_array_equal(model.predict(new), before)


def test_targets_of_zero():
    x = data(samples=12)[0]
    model = KernelRegressor(SMALL, optimise=True, restarts=0).fit(x, np.zeros(12))
    np.testing.assert_array_equal(model.predict(x), 0.0)


# Plain names of the network's fields


def test_plain_names_describe_the_network():
    x, y = data(samples=20)
    fields = {"hidden_layers": 2, "activation": "tanh", "weight_variances": 1.3, "bias_variances": 0.2}
    plain = KernelRegressor(**fields, train_biases=False).fit(x, y)
    assert plain.network is None
    assert plain.network_ == wf.MLP(**fields)
    np.testing.assert_array_equal(plain.predict(x), KernelRegressor(wf.MLP(**fields)).fit(x, y).predict(x))
    assert KernelRegressor().fit(x, y).network_ == wf.MLP(
        3, "relu", weight_variances=2.0, bias_variances=0.1, train_biases=True
    )
    assert KernelClassifier(activation="erf").fit(x, y > 0).network_.activation == "erf"
    assert clone(plain).get_params() == plain.get_params()
    assert plain.get_params()["hidden_layers"] == 2


def test_a_network_and_plain_names_together_are_refused():
    x, y = data(samples=12)
    with pytest.raises(InvalidInput, match=r"network = MLP\(.*is given and hidden_layers = 2 and activation = 'erf'"):
        KernelRegressor(SMALL, hidden_layers=2, activation="erf").fit(x, y)
    model = KernelRegressor(hidden_layers=2).set_params(network__activation="erf")
    with pytest.raises(InvalidInput, match="network__hidden_layers in a grid search"):
        model.fit(x, y)
    assert model.set_params(hidden_layers=None).fit(x, y).network_.activation == "erf"


def test_the_grid_search_of_the_docs(tmp_path, monkeypatch):
    """Depth, activation and variances by plain names, without a network; the best is the one with the best score."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in pages.blocks("docs/start.md"):
        if "load_diabetes" in block.code:
            exec(block.code.partition("problem =")[0], names)
        if "GridSearchCV" in block.code:
            pages.run(block, names, "docs/start.md")
            break
    search = names["search"]
    asked = {"kernelregressor__hidden_layers", "kernelregressor__activation", "kernelregressor__weight_variances"}
    assert asked <= set(search.best_params_)
    best = search.cv_results_["mean_test_score"].argmax()
    assert search.cv_results_["params"][best] == search.best_params_
    assert search.best_estimator_[-1].network_.hidden_layers == search.best_params_["kernelregressor__hidden_layers"]


# Deviations that include the noise


def test_the_noise_of_a_new_observation_is_that_of_a_gaussian_process():
    """scikit-learn's, whose deviations include the noise if it is part of the kernel."""
    x, y = data()
    new = data(samples=7, seed=2)[0]
    reference = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), alpha=0.0, optimizer=None).fit(x, y)
    model = KernelRegressor(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.5), ridge=0.04).fit(x, y)
    _, found = model.predict(new, return_std=True, with_noise=True)
    np.testing.assert_allclose(found, reference.predict(new, return_std=True)[1], rtol=1e-8)
    _, covariance = model.predict(new, return_cov=True, with_noise=True)
    np.testing.assert_allclose(covariance, reference.predict(new, return_cov=True)[1], atol=1e-9)
    with pytest.raises(InvalidInput, match="with_noise = True adds to deviations"):
        model.predict(new, with_noise=True)


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
def test_the_noise_in_closed_form(kernel):
    """A linear network without biases: NNGP w^2 x.x'/D, NTK 2 w x.x'/D, and inverses written out."""
    x, y = data(samples=9, outputs=2)
    new, ridge, w = data(samples=4, seed=2)[0], 0.3, 1.4
    model = KernelRegressor(
        hidden_layers=1, activation="linear", weight_variances=w, bias_variances=0.0, train_biases=False
    )
    model.set_params(kernel=kernel, ridge=ridge).fit(x, y)
    inner, cross, own = (a @ b.T / 3 for a, b in ((x, x), (new, x), (new, new)))
    factor = w**2 if kernel == "nngp" else 2 * w
    A = factor * cross @ np.linalg.inv(factor * inner + ridge * np.eye(9))
    scatter = w**2 * (own - A @ cross.T - cross @ A.T + A @ inner @ A.T)
    if kernel == "nngp":
        scatter = w**2 * own - A @ (w**2 * cross.T)
    for noise, added in ((False, 0.0), (True, ridge)):
        mean, deviation = model.predict(new, return_std=True, with_noise=noise)
        np.testing.assert_allclose(mean, A @ y, rtol=1e-10)
        expected = np.sqrt(np.diag(scatter) + added)
        np.testing.assert_allclose(deviation, np.stack([expected, expected], axis=1), rtol=1e-9)
