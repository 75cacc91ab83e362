"""Networks of infinite width asked after training: closed equations, the engine itself, and real networks."""

import pickle

import numpy as np
import pytest

import widefield as wf
from widefield.base.session import Session
from widefield.theories.replicas import Settings
from widefield.theories.trained import train


def arrays(dimension, samples=4, new=3, outputs=1, seed=0):
    random = np.random.default_rng(seed)
    x, x_new = random.normal(size=(samples, dimension)), random.normal(size=(new, dimension))
    return x, random.normal(size=(samples, outputs)), x_new, random.normal(size=(new, outputs))


def problem_of(network, data, steps=12, rate=0.05, **options):
    record = wf.Record(kernels=False, neurons=0)
    return wf.Problem(network, data, optimiser=wf.SGD(rate, steps, **options), record=record)


def networks_at(problem, at, *, particles=256, replicas=2, tolerance=1e-6, dtype="float64", seed=0, look=None):
    """The networks after each number of steps."""
    found = {}

    def keep(step, network):
        found[step] = network
        return look is not None and look(step)

    settings = Settings(particles, tolerance, seed, dtype)
    ended = train(problem, settings, replicas, Session(), at=at, look=keep)
    return found, ended


@pytest.mark.parametrize(
    ("options", "dimension"),
    [
        ({"hidden_layers": 1}, 2),
        ({"hidden_layers": 3, "weight_variances": (1.3, 0.8, 1.2, 0.7), "width_ratios": (2.0, 0.5, 1.0)}, 2),
        ({"hidden_layers": 2, "bias_variances": 0.3, "train_biases": True}, 7),
    ],
)
def test_linear_networks_are_those_of_closed_equations(options, dimension):
    """Which never sampled a neuron, and were told the new samples before."""
    x, y, x_new, y_new = arrays(dimension, outputs=2)
    network = wf.MLP(activation="linear", richness=0.8, **options)
    known = wf.solve(problem_of(network, (x, y, x_new, y_new)), wf.ClosedLinear()).data
    found = networks_at(problem_of(network, (x, y)), [12])[0][12]
    for rows, expected in ((x_new, known["test_outputs"]), (x, known["outputs"])):
        outputs = found.outputs(rows)
        assert outputs.shape == (2, len(rows), 2)
        np.testing.assert_allclose(outputs, np.broadcast_to(expected.values[-1], outputs.shape), atol=1e-7)


@pytest.mark.slow
def test_momentum_and_weight_decay_are_remembered():
    x, y, x_new, y_new = arrays(3)
    network, options = wf.MLP(2, "linear"), {"momentum": 0.6, "weight_decay": 0.4, "batch_size": 2}
    known = wf.solve(problem_of(network, (x, y, x_new, y_new), **options), wf.ClosedLinear()).data
    found = networks_at(problem_of(network, (x, y), **options), [12])[0][12]
    np.testing.assert_allclose(found.outputs(x_new)[0], known["test_outputs"].values[-1], atol=1e-7)


@pytest.mark.parametrize(
    ("layers", "dimension", "tolerance"),
    [
        (1, 3, 0.05),
        pytest.param(2, 3, 0.02, marks=pytest.mark.slow),
        pytest.param(3, 9, 0.05, marks=pytest.mark.slow),
    ],
)
def test_nonlinear_networks_are_those_that_were_told_the_samples_before(layers, dimension, tolerance):
    """Within 4 standard errors of both, which are below 5% of the outputs, and what truncation does.

    For training samples, too, the engine has errors of this size.
    """
    x, y, x_new, y_new = arrays(dimension, samples=dimension + 1, new=6)
    network = wf.MLP(layers, "tanh", richness=1.0, bias_variances=0.1, train_biases=True)
    theory = wf.InfiniteWidth(particles=1024 if layers > 2 else 512, replicas=8, rank_tolerance=tolerance)
    known = wf.solve(problem_of(network, (x, y, x_new, y_new), steps=25, rate=0.05), theory)
    mean, error = (part("test_outputs").values[-1] for part in (known.mean, known.standard_error))
    options = {"particles": theory.particles, "replicas": 8, "tolerance": tolerance, "seed": 100}
    found = networks_at(problem_of(network, (x, y), steps=25, rate=0.05), [25], **options)[0][25].outputs(x_new)
    both = np.hypot(error, found.std(axis=0, ddof=1) / np.sqrt(8))
    assert both.max() < 0.05 * np.abs(mean).max()
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4 * both + 1.5 * tolerance**2)


@pytest.mark.slow
def test_real_networks():
    """Width 1024, and two hidden layers of ReLU: within 4 standard errors and 1/N."""
    x, y, x_new, y_new = arrays(4, samples=8, new=6)
    network = wf.MLP(2, "relu", richness=1.0, weight_variances=2.0)
    real = wf.solve(problem_of(network, (x, y, x_new, y_new), steps=60), wf.FiniteWidth(1024, seeds=32))
    mean, error = (part("test_outputs").values[-1] for part in (real.mean, real.standard_error))
    options = {"particles": 1024, "replicas": 8, "tolerance": 0.02}
    found = networks_at(problem_of(network, (x, y), steps=60), [60], **options)[0][60].outputs(x_new)
    both = np.hypot(error, found.std(axis=0, ddof=1) / np.sqrt(8))
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4 * both + 0.01)


def test_training_samples_have_the_outputs_that_they_were_trained_to():
    x, y, _, _ = arrays(3)
    found, ended = networks_at(problem_of(wf.MLP(2, "tanh", richness=1.5), (x, y)), [12])
    outputs = ended.outcome.records["outputs"]
    np.testing.assert_allclose(found[12].outputs(x), outputs[:, -1], atol=1e-5)
    assert np.abs(outputs[:, -1] - outputs[:, -2]).max() > 1e-3


def test_every_sample_is_answered_for_itself():
    x, y, _, _ = arrays(3)
    found = networks_at(problem_of(wf.MLP(2, "tanh"), (x, y)), [12])[0][12]
    new = np.random.default_rng(1).normal(size=(70, 3))
    whole, order = found.outputs(new), np.random.default_rng(2).permutation(70)
    np.testing.assert_allclose(found.outputs(new[order]), whole[:, order], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.outputs(new[[5]]), whole[:, [5]], rtol=1e-11, atol=1e-13)
    assert found.outputs(new[:0]).shape == (2, 0, 1)


def test_looks_on_the_way_change_nothing_and_keep_what_they_saw():
    """Room for directions is far too small at first, so that the state moves while it is looked at."""
    x, y, x_new, _ = arrays(3)
    problem = problem_of(wf.MLP(2, "tanh"), (x, y))
    every = networks_at(problem, range(1, 13))[0]
    assert sorted(every) == list(range(1, 13))
    for step in (4, 12):
        alone = networks_at(problem, [step])[0][step]
        np.testing.assert_array_equal(alone.outputs(x_new), every[step].outputs(x_new))
    again = pickle.loads(pickle.dumps(every[4]))
    np.testing.assert_array_equal(again.outputs(x_new), every[4].outputs(x_new))
    assert np.abs(every[4].outputs(x_new) - every[12].outputs(x_new)).max() > 0.01


def test_whoever_looks_ends_the_run():
    x, y, _, _ = arrays(3)
    found, ended = networks_at(problem_of(wf.MLP(2, "tanh"), (x, y)), [2, 5, 8], look=lambda step: step == 5)
    assert sorted(found) == [2, 5]
    assert ended.outcome.status == "complete"
    assert ended.outcome.message == "ended after step 5"
    assert 0 < ended.crowding < 1


def test_a_run_that_diverges_says_so():
    x, y, _, _ = arrays(3)
    ended = networks_at(problem_of(wf.MLP(1, "relu", richness=3.0), (x, y), steps=60, rate=50.0), [60])[1]
    assert ended.outcome.status == "diverged"


def test_lazy_networks_are_those_of_the_kernel():
    x, y, x_new, y_new = arrays(3)
    network = wf.MLP(1, "relu", richness=0.0, weight_variances=2.0)
    known = wf.solve(problem_of(network, (x, y, x_new, y_new)), wf.Lazy()).mean("test_outputs").values[-1]
    found = networks_at(problem_of(network, (x, y)), [12], particles=1024, replicas=8)[0][12].outputs(x_new)
    error = found.std(axis=0, ddof=1) / np.sqrt(8)
    assert np.all(np.abs(found.mean(axis=0) - known) < 4 * error + 1e-3)
    assert error.max() < 0.02
