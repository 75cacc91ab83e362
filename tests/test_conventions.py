"""docs/conventions.md is all that one needs to write the same network: plain NumPy, from the initial weights."""

import numpy as np
import pytest

import widefield as wf
from references import conventions as reference

RULES = {
    "gradient-descent": wf.GradientDescent(),
    "feedback-alignment": wf.FeedbackAlignment(0.4),
    "direct-feedback-alignment": wf.DirectFeedbackAlignment(),
    "gated-linear": wf.GatedLinear(),
    "hebb": wf.Hebb(),
}
RATES = (0.1, 0.05, 0.08, 0.1, 0.02)
NETWORK = {"hidden_layers": 3, "activation": "tanh", "richness": 1.3, "weight_variances": (1.0, 1.5, 0.7, 2.0)}
SETTINGS = {
    "plain": {},
    "decay": {"decay": 0.3},
    "momentum and decay": {"decay": 0.3, "momentum": 0.6},
    "minibatches": {"batch_size": 2},
    "one pass": {"batch_size": 1, "one_pass": True},
    "minibatches, mean, decay": {"batch_size": 2, "mean": True, "decay": 0.2},
    "mean": {"mean": True},
    "unequal widths": {"width_ratios": (2.0, 0.5, 1.0)},
    "biases": {"bias_variances": 0.5, "train_biases": True, "decay": 0.2},
    "fixed biases": {"bias_variances": 0.5},
    "ntk, not centred": {"parameterisation": "ntk", "centred": False},
    "one layer, relu": {"hidden_layers": 1, "activation": "relu", "weight_variances": 1.0},
}


def asked(
    rule, *, samples=5, dimension=4, decay=0.0, momentum=0.0, batch_size=None, one_pass=False, mean=False, **network
):
    """A problem with two outputs; five samples, so that minibatches of two leave one out in every epoch."""
    return wf.Problem(
        wf.MLP(**{**NETWORK, **network}),
        wf.data.gaussian(samples=samples, dimension=dimension, outputs=2, labels="random-gaussian", seed=2),
        wf.SquaredError(reduction="mean" if mean else "sum"),
        RULES[rule],
        wf.SGD(RATES, len(RATES), batch_size, one_pass, momentum, decay, seed=11),
        wf.Record(every=1, neurons=0, kernels=False),
    )


def by_hand(problem, theory, seed):
    """What the page says."""
    network, optimiser, samples = problem.network, problem.optimiser, problem.samples
    weights = theory.initial_weights(problem, seed)
    gamma0 = (
        network.richness
        if network.parameterisation == "mean-field"
        else network.richness / weights["w"].shape[1] ** 0.5
    )
    rows = None
    if optimiser.batch_size:
        rows = reference.batches(samples.samples, optimiser.batch_size, optimiser.steps, optimiser.seed)
    if optimiser.one_pass:
        rows = np.arange(optimiser.steps * optimiser.batch_size).reshape(optimiser.steps, optimiser.batch_size)
    return reference.train(
        weights,
        samples.x,
        samples.y,
        rule=problem.rule.kind,
        activation=network.activation,
        gamma0=gamma0,
        rates=RATES,
        decay=optimiser.weight_decay,
        momentum=optimiser.momentum,
        rows=rows,
        mean=problem.loss.reduction == "mean",
        biases=network.train_biases,
        centred=network.centred,
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_network_written_from_the_page(rule, setting):
    problem, theory = asked(rule, **SETTINGS[setting]), wf.FiniteWidth(6, seeds=2, seed=3)
    answer = wf.solve(problem, theory).data["outputs"]
    for number, seed in enumerate((3, 4)):
        expected = by_hand(problem, theory, seed)
        np.testing.assert_allclose(answer.isel(seed=number), expected, rtol=1e-9, atol=1e-11)
        assert np.abs(expected[-1] - expected[0]).max() > 1e-3  # something was learned


@pytest.mark.parametrize("rule", ["gradient-descent", "gated-linear"])
def test_inputs_of_many_dimensions(rule):
    """More dimensions than samples: what does not act on samples is zero."""
    problem, theory = asked(rule, samples=3, dimension=9, decay=0.2), wf.FiniteWidth(6)
    np.testing.assert_allclose(
        wf.solve(problem, theory).data["outputs"].isel(seed=0), by_hand(problem, theory, 0), rtol=1e-9, atol=1e-11
    )
    weights = theory.initial_weights(problem)
    assert weights["W0"].shape == (6, 9)
    assert np.linalg.matrix_rank(weights["W0"]) == 3


def test_initial_weights_have_the_variances_of_the_page():
    variances = (1.0, 1.5, 0.7, 2.0)
    problem = asked("feedback-alignment", samples=40, dimension=30, bias_variances=0.5, width_ratios=(1.0, 2.0, 1.0))
    theory = wf.FiniteWidth(200)
    weights = theory.initial_weights(problem, 5)
    shapes = {"W0": (200, 30), "W1": (400, 200), "W2": (200, 400), "w": (2, 200), "b0": (200,), "b3": (2,)}
    assert {name: weights[name].shape for name in shapes} == shapes
    for name, variance in zip(("W0", "W1", "W2", "w"), variances, strict=True):
        assert weights[name].var() == pytest.approx(variance, rel=6 * np.sqrt(2 / weights[name].size))
    own = 0.4 * weights["W1"]
    fresh = (weights["feedback 1"] - own) / np.sqrt(1 - 0.4**2)
    assert np.mean(fresh * weights["W1"]) == pytest.approx(0, abs=6 * 1.5 / np.sqrt(fresh.size))
    assert fresh.var() == pytest.approx(1.5, rel=0.03)
    again = theory.initial_weights(problem, 5)
    assert all(np.array_equal(again[name], value) for name, value in weights.items())
    assert not np.array_equal(theory.initial_weights(problem)["W1"], weights["W1"])


def test_single_precision_starts_from_the_same_weights():
    problem = asked("direct-feedback-alignment")
    double, single = (wf.FiniteWidth(6, dtype=dtype).initial_weights(problem) for dtype in ("float64", "float32"))
    for name, value in double.items():
        np.testing.assert_allclose(single[name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("samples", "size"), [(5, 2), (6, 3), (7, 7), (9, 4)])
def test_order_of_minibatches(samples, size):
    expected = reference.batches(samples, size, 8, 11)
    found = wf.SGD(0.1, 8, size, seed=11).batches(samples)
    np.testing.assert_array_equal(found, expected)
    epoch = np.concatenate(expected[: samples // size])
    assert len(set(epoch.tolist())) == len(epoch)
