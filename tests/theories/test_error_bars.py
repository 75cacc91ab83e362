"""Error bars at infinite width hold what they promise: two of them 95%, from few replicas too."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield.base.statistics import widening

SHALLOW = [
    wf.Problem(
        network=wf.MLP(1, activation, richness=richness),
        data=wf.data.gram(kernel=[[1.0]], y=[target]),
        optimiser=wf.SGD(0.3, 4),
        record=wf.Record(steps=(0,), neurons=0),
    )
    for activation in ("tanh", "erf")
    for richness, target in ((0.5, 1.0), (1.0, -0.7), (1.5, 1.2), (2.0, 0.6), (3.0, 1.0))
]
"""One hidden layer and one point: known to 1e-9 by integration."""

DEEP = [
    wf.Problem(
        network=wf.MLP(layers, "tanh", richness=richness),
        data=wf.data.sphere(samples=3, dimension=5, seed=seed),
        optimiser=wf.SGD(0.1, 10),
        record=wf.Record(steps=(0,), neurons=0),
    )
    for layers in (2, 3)
    for seed, richness in enumerate((0.7, 1.0, 1.4, 2.0, 2.5))
]
"""Known from a hundred times as many particles, followed ten times as closely."""


def held(problem, truth, replicas, rounds):
    """Which fraction of outputs and kernels at the end is within two error bars of the truth."""
    found = []
    for number in range(rounds):
        answer = wf.solve(problem, wf.InfiniteWidth(256, replicas, 0.05, seed=1000 + 100 * number)).data
        for name in ("outputs", "feature_kernel", "gradient_kernel"):
            last = {key: answer[key].isel(time=-1).values for key in (name, f"{name}_error")}
            away = np.abs(last[name] - truth[name].isel(time=-1).values)
            found.append(np.mean(away <= 2 * last[f"{name}_error"] + 1e-9))
    return np.mean(found)


@pytest.mark.parametrize("replicas", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_two_error_bars_hold_most_of_what_is_known_exactly(replicas):
    """Too narrow by a third, or too wide by a third, they would hold 82% or 99%."""
    fractions = [held(problem, wf.solve(problem, wf.TwoLayer()).data, replicas, 30) for problem in SHALLOW]
    assert 0.9 <= np.mean(fractions) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [4, 8])
def test_two_error_bars_hold_most_of_what_deep_networks_do(replicas):
    sharp = wf.InfiniteWidth(4096, 32, 5e-3, seed=10**6)
    fractions = [held(problem, wf.solve(problem, sharp).data, replicas, 12) for problem in DEEP]
    assert 0.9 <= np.mean(fractions) <= 0.98


def test_few_replicas_have_wide_error_bars():
    problem = dataclasses.replace(SHALLOW[0], record=wf.Record(steps=(4,), neurons=0))
    answer = wf.solve(problem, wf.InfiniteWidth(256, 3, 0.05))
    singles = [wf.solve(problem, wf.InfiniteWidth(256, 1, 0.05, seed=k)).data.outputs.values for k in range(3)]
    plain = np.std(singles, axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(answer.data.outputs_error, widening(3) * plain, rtol=1e-6, atol=1e-12)
    assert widening(3) == pytest.approx(4.53 / 2, rel=1e-3)  # two-sided 95.45% of Student's t with 2 degrees


@pytest.mark.slow
def test_intervals_hold_what_they_promise_for_few_networks():
    """Groups of 4 of 2000 networks: their intervals hold the mean of all as often as they say, within 4 errors."""
    problem = dataclasses.replace(DEEP[0], record=wf.Record(steps=(0, 10), neurons=0))
    whole = wf.solve(problem, wf.FiniteWidth(8, seeds=2000), progress=False)
    truth = whole.mean("outputs").isel(time=-1)
    for level in (0.5, 0.9, 0.95):
        held = []
        for first in range(0, 2000, 4):
            group = dataclasses.replace(whole, data=whole.data.isel(seed=slice(first, first + 4)))
            low, high = (bound.isel(time=-1) for bound in group.interval("outputs", level))
            held.append(float(((low <= truth) & (truth <= high)).mean()))
        assert abs(np.mean(held) - level) < 4 * np.std(held) / np.sqrt(len(held)) + 0.01


def test_intervals_at_infinite_width_know_truncation():
    """They take widened error bars apart, and add what truncation may do."""
    answer = wf.solve(DEEP[0], wf.InfiniteWidth(256, 4, 0.1), progress=False)
    low, high = answer.interval("loss", 0.9544997361036416)
    half = 2 * answer.standard_error("loss") + answer.data.attrs["truncation_bound"] * abs(answer.mean("loss"))
    np.testing.assert_allclose((high - low) / 2, half, rtol=1e-6)
    alone = wf.solve(DEEP[0], wf.FiniteWidth(8), progress=False)
    with pytest.raises(wf.InvalidInput, match="a single network or replica says nothing"):
        alone.interval("loss")
    with pytest.raises(wf.InvalidInput, match="level = 2"):
        answer.interval("loss", 2)
