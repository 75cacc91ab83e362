"""Mean and spread of trained networks of finite width, as a theory."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield.effective import trained_ensemble

X, Y, X_TEST = [[1.2, 0.3, -0.5], [-0.7, 1.3, 0.4]], [[0.5], [-0.3]], [[0.3, -0.4, 1.5]]


def problem(steps=None, data=None, **network):
    defaults = {"parameterisation": "ntk", "centred": False, "weight_variances": 1.3}
    data = data or wf.Data(x=X, y=Y, x_test=X_TEST, y_test=[[0.2]])
    own, steps = wf.MLP(1, "tanh", **(defaults | network)), steps or wf.SGD(0.5, 4)
    return wf.Problem(own, data, optimiser=steps, record=wf.Record(kernels=False))


def at_end(run, name):
    return np.ravel(run.data[name].values[-1])


def test_outputs_are_those_of_the_ensemble_in_other_units():
    """f = z / richness, and the loss there is a sum over samples."""
    asked = problem(richness=0.5)
    share = asked.loss.weight(2)
    found = wf.solve(asked, wf.EffectiveTheory(20, seed=3))
    rate = 0.5 * share
    direct = trained_ensemble(
        asked.network, X, 0.5 * np.array(Y), X_TEST, widths=20, learning_rate=rate, time=4 * rate, seed=3
    )
    for name, part in (("outputs", slice(2)), ("test_outputs", slice(2, 3))):
        np.testing.assert_allclose(at_end(found, name), direct.mean[part, 0] / 0.5, rtol=1e-10)
        deviation = np.sqrt(direct.variance[part, 0]) / 0.5
        np.testing.assert_allclose(at_end(found, f"{name}_deviation"), deviation, rtol=1e-10)
    mean, spread = at_end(found, "outputs"), at_end(found, "outputs_deviation")
    expected = share * np.sum((mean - np.ravel(Y)) ** 2 + spread**2) / 2
    assert float(found.data.loss[-1]) == pytest.approx(expected, rel=1e-12)


def test_very_wide_networks_are_lazy():
    asked = problem()
    found, lazy = (wf.solve(asked, theory) for theory in (wf.EffectiveTheory(10**9), wf.Lazy()))
    for name in ("outputs", "test_outputs", "outputs_deviation", "test_outputs_deviation", "loss"):
        np.testing.assert_allclose(found.data[name].values, lazy.data[name].values, atol=1e-7)


NETWORKS = {
    "random first outputs": {},
    "centred": {"centred": True, "richness": 0.5},
    "mean-field": {"centred": True, "richness": 0.3, "parameterisation": "mean-field"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", list(NETWORKS))
def test_real_networks(case):
    """Width 64, 4000 networks: means within 4 standard errors and 1/n of what is added, deviations within 5%."""
    asked = problem(wf.SGD(0.5, 6), **NETWORKS[case])
    found, lazy = wf.solve(asked, wf.EffectiveTheory(64)), wf.solve(asked, wf.Lazy())
    drawn = wf.solve(asked, wf.FiniteWidth(64, seeds=4000)).data
    for name in ("outputs", "test_outputs"):
        mean, spread = drawn[name].mean("seed").values[-1], drawn[name].std("seed").values[-1]
        added = np.abs(found.data[name].values[-1] - lazy.data[name].values[-1])
        error = 4 * spread / np.sqrt(4000) + 0.2 * added
        assert np.all(np.abs(mean - found.data[name].values[-1]) < error)
        ratio = found.data[f"{name}_deviation"].values[-1] / spread
        assert np.all(np.abs(ratio - 1) < 0.13)
    loss, theory, limit = (float(run["loss"].values[..., -1].mean()) for run in (drawn, found.data, lazy.data))
    assert abs(theory - loss) < 0.3 * abs(limit - loss)


def test_flow_is_the_limit_of_small_steps():
    data, theory = wf.Data(x=X, y=Y), wf.EffectiveTheory(20)
    flow = wf.solve(problem(wf.GradientFlow(2.0, 4), data), theory)
    coarse, fine = (wf.solve(problem(wf.SGD(2.0 / steps, steps), data), theory) for steps in (20, 40))
    for name in ("outputs", "outputs_deviation"):
        ratio = (at_end(coarse, name) - at_end(flow, name)) / (at_end(fine, name) - at_end(flow, name))
        np.testing.assert_allclose(ratio, 2, atol=0.3)


def test_rates_of_layers():
    """Ten times slower hidden layers with ten times the step are networks whose readout learns ten times faster."""
    slow = problem(wf.SGD(0.5, 4, weight_rates=(0.1, 1.0)))
    fast = problem(wf.SGD(0.05, 4, weight_rates=(1.0, 10.0)))
    one, two = (wf.solve(asked, wf.EffectiveTheory(20)) for asked in (slow, fast))
    np.testing.assert_allclose(at_end(two, "outputs"), at_end(one, "outputs"), rtol=1e-9)


def test_what_is_refused():
    kinked = dataclasses.replace(problem(), network=wf.MLP(1, "relu"))
    changing = problem(wf.SGD(wf.Cosine(0.1), 4))
    for asked, message in (
        (kinked, "network.activation = 'relu': it has a kink"),
        (changing, "one learning rate for all times"),
        (problem(richness=0.0), "nothing moves"),
    ):
        with pytest.raises(wf.NotInScope, match=message):
            wf.solve(asked, wf.EffectiveTheory(20))
    with pytest.raises(wf.InvalidInput, match="must be below 2 / "):
        wf.solve(problem(wf.SGD(50.0, 4)), wf.EffectiveTheory(20))


def test_large_corrections_are_told():
    asked = problem(wf.SGD(0.5, 8), centred=True, richness=10.0, parameterisation="mean-field")
    with pytest.warns(wf.NotAccurate, match="of infinite width"):
        wf.solve(asked, wf.EffectiveTheory(8))


def test_kernels_are_left_out_and_that_is_said():
    asked = dataclasses.replace(problem(), record=wf.Record())
    assert "it predicts outputs alone" in wf.solve(asked, wf.EffectiveTheory(20)).data.attrs["left_out"]
