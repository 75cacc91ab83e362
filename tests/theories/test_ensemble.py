"""Width infinity from real networks: against the equations, and against itself after an interruption."""

import dataclasses
import math
import os
import signal

import numpy as np
import pytest

import widefield as wf
from widefield.theories import ensemble, infinite_width
from widefield.theories.ensemble import RATIO, Both, Means

PROBLEM = wf.Problem(
    wf.MLP(hidden_layers=2, activation="tanh"),
    wf.data.sphere(samples=6, dimension=10),
    optimiser=wf.SGD(learning_rate=0.05, steps=12),
    record=wf.Record(every=4, neurons=3),
)
NETWORKS = wf.InfiniteWidth(method="networks", tolerance=0.06)
EQUATIONS = wf.InfiniteWidth(method="conditioned")
NAMES = ("outputs", "loss", "feature_kernel", "gradient_kernel", "ntk")


@pytest.fixture(scope="module")
def networks():
    return wf.solve(PROBLEM, NETWORKS)


@pytest.fixture(scope="module")
def equations():
    return wf.solve(PROBLEM, EQUATIONS)


def test_networks_agree_with_the_equations_within_error_bars(networks, equations):
    """Errors are 3% to 4%: a bias of 8% in any of these would be noticed."""
    for name in NAMES:
        apart = (networks.mean(name) - equations.mean(name)).values
        bars = np.hypot(networks.standard_error(name), equations.standard_error(name)).values
        assert math.sqrt(np.sum(apart**2) / np.sum(bars**2)) < 2, name
        assert networks.data[name].dims == equations.data[name].dims


def test_the_answer_says_how_it_was_come_by(networks, equations):
    attributes = networks.data.attrs
    assert attributes["method"] == "networks"
    assert attributes["reached"] == 1
    assert attributes["width"] == 128
    assert attributes["networks"] >= 32
    whole = math.hypot(attributes["statistical_error"], attributes["width_bias"])
    assert attributes["relative_error"] <= min(0.06, whole * (1 + 1e-12))
    assert equations.data.attrs["method"] == "conditioned"
    assert networks.data.sizes["neuron"] == 3 * 16
    assert networks.data["outputs"].dtype == np.float64


def test_other_seeds_are_other_networks(networks):
    other = wf.solve(PROBLEM, dataclasses.replace(NETWORKS, seed=1))
    apart = np.abs(other.data.outputs - networks.data.outputs).values[1:]
    assert 0 < apart.max() < 0.2
    own = wf.solve(PROBLEM, wf.FiniteWidth(128, seeds=32))
    assert np.abs(own.data.outputs.mean("seed") - networks.data.outputs).values[1:].max() > 1e-4


def interrupt_at(number):
    """A progress function that presses Ctrl-C at one of its calls; later ones too come to it."""
    calls = []

    def report(done, total, loss):
        calls.append(done)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGINT)

    return report


def test_resuming_gives_the_same_bits(networks, tmp_path, monkeypatch):
    monkeypatch.setattr("widefield.training.runner._CALL_SECONDS", 0.0)
    path, statuses = tmp_path / "run.checkpoint", []
    for number in (1, 14, 20, 31, 38):
        partial = wf.solve(PROBLEM, NETWORKS, progress=interrupt_at(number), checkpoint=path, throw=False)
        statuses.append(partial.status)
        resumed = partial if partial.status == "complete" else wf.solve(PROBLEM, NETWORKS, checkpoint=path)
        for name, value in networks.data.variables.items():
            assert np.array_equal(value.values, resumed.data.variables[name].values, equal_nan=True), name
        assert list(tmp_path.iterdir()) == []
    assert statuses.count("interrupted") >= 4  # in both widths, and in both groups of one


def test_a_bias_that_falls_as_one_over_the_width_is_found():
    """1/N times a constant beside noise: 5% of the kernel, found to a fifth."""
    rng = np.random.default_rng(0)
    truth, shape = rng.standard_normal((1, 5, 2, 12, 12)), (64, 5, 2, 12, 12)
    narrow, bias = Means(5), 0.05
    both = Both(narrow)
    for means, factor in ((narrow, RATIO), (both, 1)):
        for _ in range(2):
            noise = 0.1 * rng.standard_normal(shape)
            means.take({"feature_kernel": (truth * (1 + factor * bias) + noise).astype(np.float32)})
            means.finish_group()
    (first, second) = both.relative()
    for noise, squared in (first, second):
        assert math.sqrt(squared) == pytest.approx(bias / (1 + bias), rel=0.2)
        assert math.sqrt(noise) == pytest.approx(0.1 / math.sqrt(128) / np.sqrt(np.mean(truth**2)), rel=0.2)
    assert both.needed(0.04) == math.inf
    assert both.needed(0.1) < both.count


def test_means_of_groups_are_means_of_all():
    rng = np.random.default_rng(1)
    values, means = rng.standard_normal((24, 3, 4)), Means(3)
    for group in np.split(values, [8, 12]):
        means.take({"outputs": group[:, :2]})
        means.take({"outputs": group[:, 2:]})
        means.finish_group()
    np.testing.assert_allclose(means.mean["outputs"], values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(means.variance("outputs"), values.var(axis=0, ddof=1) / 24, rtol=1e-12)
    again = Means(3)
    again.restore(means.arrays())
    np.testing.assert_array_equal(again.variance("outputs"), means.variance("outputs"))


@pytest.fixture
def tried(monkeypatch):
    """Networks are tried however small a problem is."""
    monkeypatch.setattr(infinite_width, "_WORTH_TRYING", 0.0)


def test_small_problems_are_not_worth_a_pilot(equations, monkeypatch):
    monkeypatch.setattr(ensemble.Ensemble, "answer", lambda self: pytest.fail("networks were trained"))
    same = wf.solve(PROBLEM)
    np.testing.assert_array_equal(same.data.outputs, equations.data.outputs)


def test_auto_takes_networks_where_they_are_cheaper(tried, monkeypatch):
    """By flops: made so cheap here that they are."""
    monkeypatch.setattr(infinite_width, "_DEARER", 1e-9)
    found = wf.solve(PROBLEM, wf.InfiniteWidth(tolerance=0.06))
    assert found.data.attrs["method"] == "networks"


def test_auto_goes_back_to_the_equations_where_networks_would_not_do(tried, equations, monkeypatch, tmp_path):
    """A bias larger than the tolerance: the answer and its bits are those of the equations."""
    monkeypatch.setattr(infinite_width, "_DEARER", 1e-9)
    monkeypatch.setattr(Both, "needed", lambda self, wanted: math.inf)
    monkeypatch.setattr(Both, "error", 1.0)
    path = tmp_path / "run.checkpoint"
    found = wf.solve(PROBLEM, checkpoint=path, checkpoint_seconds=0)
    assert found.data.attrs["method"] == "conditioned"
    np.testing.assert_array_equal(found.data.outputs, equations.data.outputs)
    assert list(tmp_path.iterdir()) == []


def test_auto_goes_back_to_the_equations_where_narrow_networks_diverge(tried, monkeypatch):
    monkeypatch.setattr(infinite_width, "_DEARER", 1e-9)
    steep = dataclasses.replace(PROBLEM, optimiser=wf.SGD(learning_rate=1e3, steps=12))
    found = wf.solve(steep, throw=False)
    assert found.status == "diverged"
    assert "particles" in found.data.attrs or "replicas" in found.data.attrs


def test_what_is_out_of_reach_is_said(monkeypatch):
    monkeypatch.setattr(ensemble, "_MOST", 32)
    with pytest.warns(wf.NotAccurate, match="with 32 networks"):
        found = wf.solve(PROBLEM, wf.InfiniteWidth(method="networks", tolerance=0.02))
    assert found.data.attrs["reached"] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"record": wf.Record(two_time=True)}, "two_time"),
        ({"optimiser": wf.GradientFlow(t_end=1.0)}, "gradient-flow"),
        ({"network": wf.MLP(hidden_layers=2, richness=0.0)}, "lazy"),
    ],
)
def test_networks_refuse_what_they_cannot_answer(change, words):
    with pytest.raises(wf.InvalidInput, match=words):
        wf.solve(dataclasses.replace(PROBLEM, **change), NETWORKS)


def test_settings_that_would_be_ignored_are_refused():
    with pytest.raises(wf.InvalidInput, match="particles, replicas"):
        wf.InfiniteWidth(64, 2, method="networks")
    with pytest.raises(wf.InvalidInput, match="method"):
        wf.InfiniteWidth(method="magic")
