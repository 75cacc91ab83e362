"""Estimators that learn features: scikit-learn's checks, the engine, early stopping, and data as they come."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import widefield as wf
from widefield import FeatureLearningClassifier, FeatureLearningRegressor, InvalidInput

QUICK = {"hidden_layers": 1, "steps": 60, "learning_rate": 0.004, "particles": 256, "replicas": 2}
SMALL = [FeatureLearningRegressor(**QUICK), FeatureLearningClassifier(**QUICK)]
OFTEN = (
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_fit2d_1sample",
    "check_estimators_unfitted",
)
"""Checks of which others differ in data only; every data set is compiled anew."""


def chosen(*estimators):
    """Those checks, for each of the estimators."""
    every = [pair for estimator in estimators for pair in estimator_checks_generator(estimator)]
    found = [(estimator, check) for estimator, check in every if check.func.__name__ in OFTEN]
    assert {check.func.__name__ for _, check in found} == set(OFTEN)
    return [pytest.param(*pair, id=f"{type(pair[0]).__name__}-{pair[1].func.__name__}") for pair in found]


@pytest.mark.parametrize(("estimator", "check"), chosen(*SMALL))
def test_scikit_learn_checks_that_matter_most(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([FeatureLearningRegressor(), FeatureLearningClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(samples=16, dimension=3, seed=0):
    """Far from the scale of the theories."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(samples, dimension)) * [0.01, 20.0, 1.0][:dimension] + 7.0
    return x, 150 + 40 * np.tanh((x[:, 1] - 7) / 20) + 3 * (x[:, 2] - 7)


@pytest.mark.parametrize("layers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_predictions_are_those_of_infinite_width(layers):
    """Of `solve`, told the new samples before, in the units of the data, within 4 standard errors."""
    (x, y), (new, y_new) = data(), data(samples=6, seed=1)
    network = wf.MLP(layers, "tanh", richness=1.0, bias_variances=0.1, train_biases=True)
    model = FeatureLearningRegressor(network, steps=30, learning_rate=0.05, replicas=8).fit(x, y)
    problem = wf.Problem(network, wf.data.standardised(x, y, new, y_new), optimiser=wf.SGD(0.05, steps=30))
    known = wf.solve(problem, wf.InfiniteWidth(replicas=8, particles=512, rank_tolerance=0.05, seed=99)).in_data_units()
    mean, error = model.predict(new, return_std=True)
    expected, other = (known[name].values[-1, :, 0] for name in ("test_outputs", "test_outputs_error"))
    both = np.hypot(error, other)
    assert np.all(np.abs(mean - expected) < 4 * both + 0.3)
    assert both.max() < 1.5
    assert np.abs(expected - y.mean()).max() > 30
    np.testing.assert_array_equal(model.predict(new), mean)


def test_units_and_shapes():
    x, y = data()
    model = FeatureLearningRegressor(**QUICK).fit(x, y)
    other = clone(model).fit(1000 * x - 3, 0.01 * y + 5)
    np.testing.assert_allclose(other.predict(1000 * x - 3), 0.01 * model.predict(x) + 5, rtol=1e-6)
    both = clone(model).fit(x, np.stack([y, -y], axis=1))
    assert both.predict(x).shape == (16, 2)
    raw = FeatureLearningRegressor(**QUICK, standardise=False)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
    np.testing.assert_allclose(raw.fit(*scaled).predict(scaled[0]) * y.std() + y.mean(), model.predict(x), rtol=1e-6)


def test_early_stopping_keeps_the_best_step():
    """Noise as targets: the loss of the part held out rises from early on."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 6)), random.normal(size=40)
    y += x[:, 0]
    options = {"hidden_layers": 1, "steps": 100, "learning_rate": 0.03, "replicas": 2, "early_stopping": True}
    model = FeatureLearningRegressor(**options, patience=None, validation_fraction=0.25).fit(x, y)
    assert model.validation_steps_.tolist() == list(range(2, 101, 2))
    assert model.best_step_ == model.validation_steps_[np.argmin(model.validation_loss_)]
    assert model.best_step_ < 100
    held = train_test_split(x, y, test_size=0.25, random_state=np.random.RandomState(0).randint(2**31 - 1))
    loss = np.mean((model.predict(held[1]) - held[3]) ** 2) / 2 / held[2].std() ** 2
    assert loss == pytest.approx(model.validation_loss_.min(), rel=1e-6)
    np.testing.assert_allclose(model.scaling_.input_mean, held[0].mean(axis=0))
    short = clone(model).set_params(patience=3).fit(x, y)
    assert len(short.validation_loss_) == int(np.argmin(model.validation_loss_)) + 4
    assert short.best_step_ == model.best_step_
    np.testing.assert_array_equal(short.predict(x), model.predict(x))
    assert not hasattr(short.set_params(early_stopping=False).fit(x, y), "validation_loss_")


def test_two_classes_by_the_logistic_loss():
    x, y = data(samples=24)
    labels = np.where(y > 150, "high", "low")
    model = FeatureLearningClassifier(**{**QUICK, "learning_rate": 0.1}).fit(x, labels)
    outputs, error = model.decision_function(x, return_std=True)
    assert outputs.shape == error.shape == (24,)
    np.testing.assert_allclose(model.predict_proba(x)[:, 1], 1 / (1 + np.exp(-outputs)), rtol=1e-12)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(x, labels) == 1.0
    with pytest.raises(InvalidInput, match="all 24 labels are 'high', 1 class: training needs at least two"):
        model.fit(x, np.full(24, "high"))


def test_three_classes_by_cross_entropy():
    x, y = load_iris(return_X_y=True)
    train, test, labels, expected = train_test_split(x, y, train_size=45, random_state=0, stratify=y)
    model = FeatureLearningClassifier(steps=60, replicas=2).fit(train, labels)
    probabilities = model.predict_proba(test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert np.mean(model.predict(test) == expected) > 0.92
    assert model.decision_function(test).shape == (105, 3)


def test_plain_names_in_a_grid_search():
    x, y = load_diabetes(return_X_y=True)
    grid = {"richness": [0.3, 1.0], "activation": ["tanh"]}
    search = GridSearchCV(FeatureLearningRegressor(**QUICK), grid, cv=2, error_score="raise").fit(x[:30], y[:30])
    assert search.best_estimator_.network_.activation == "tanh"
    assert search.best_estimator_.network_.richness == search.best_params_["richness"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"network": wf.MLP(1), "richness": 2.0}, "network = MLP.*is given and richness = 2.0 too"),
        ({"network": wf.MLP(1, parameterisation="ntk")}, "parameterisation = 'ntk' learns no features"),
        ({"richness": -1.0}, "richness = -1.0 must be >= 0"),
        ({"steps": 0}, "steps = 0 must be a whole number of at least 1"),
        ({"learning_rate": "fast"}, "unknown learning_rate 'fast'"),
        ({"replicas": 0}, "replicas = 0 must be a whole number of at least 1"),
        ({"particles": 1}, "particles = 1 must be a whole number of at least 2"),
        ({"early_stopping": True, "validation_fraction": 1.5}, "validation_fraction = 1.5 must be"),
        ({"early_stopping": True, "patience": 0}, "patience = 0 must be a whole number of at least 1"),
        ({"standardise": "yes"}, "standardise = 'yes' must be true or false"),
    ],
)
def test_bad_parameters_of_learning(parameters, message):
    x, y = data()
    with pytest.raises(InvalidInput, match=message):
        FeatureLearningRegressor(**{**QUICK, "hidden_layers": None, **parameters}).fit(x, y)


def test_what_cannot_be_said():
    x, y = data()
    model = FeatureLearningRegressor(**{**QUICK, "replicas": 1}).fit(x, y)
    with pytest.raises(InvalidInput, match="return_std = True needs at least two replicas"):
        model.predict(x, return_std=True)
    with pytest.raises(wf.Diverged, match=r"the loss exploded at step .*learning_rate of"):
        FeatureLearningRegressor(**{**QUICK, "learning_rate": 50.0, "richness": 3.0}).fit(x, y)
    with pytest.warns(wf.NotAccurate, match="particles = 8 are few for this problem.*take"):
        FeatureLearningRegressor(**{**QUICK, "particles": 8}).fit(x, y)
