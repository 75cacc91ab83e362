"""The largest learning rates that train, against networks that share no code; and learning_rate = "auto"."""

import dataclasses
import math
import re

import numpy as np
import pytest

import widefield as wf
from references import diverging
from references.diverging import Setting
from widefield.asking.rate_words import limit_in_words
from widefield.asking.stable_rates import bracket
from widefield.kernels.stability import kernel_limit

LOSSES = {"squared": wf.SquaredError(), "logistic": wf.Logistic()}
STEPS = 100


def problem_of(setting, steps=STEPS, samples=10, dimension=25):
    return wf.Problem(
        wf.MLP(setting.hidden_layers, setting.phi, setting.richness),
        wf.data.sphere(samples=samples, dimension=dimension, seed=0),
        loss=LOSSES[setting.loss],
        rule=wf.GradientDescent() if setting.feedback is None else wf.FeedbackAlignment(setting.feedback),
        optimiser=wf.SGD("auto", steps, momentum=setting.momentum),
    )


def measured(setting, problem, near, *, width=512, seeds=16, span=1.6, count=11):
    """The first rate at which half of real networks diverge, to about a percent: rates around a guess, then between."""
    rates = near * np.geomspace(1 / span, span, count)
    for _ in range(2):
        samples, steps = problem.samples, problem.optimiser.steps
        curves = diverging.losses(setting, samples.x, samples.y, rates, steps, width=width, seeds=seeds)
        half = diverging.failed(curves).mean(axis=1) >= 0.5
        assert half.any()
        assert not half[0]
        first = int(np.argmax(half))
        low, high = rates[first - 1 : first + 1]
        rates = np.geomspace(low, high, 6)
    return math.sqrt(low * high)


def test_search_finds_the_first_limit():
    tried = []

    def fails(rate):
        tried.append(rate)
        return rate > 0.3

    low, high = bracket(fails, 1.0, 0.5, 0.01)
    assert low <= 0.3 < high <= 1.01 * low
    assert len(tried) == len(set(tried)) < 20
    low, high = bracket(lambda rate: rate > 5, 1.0, 0.5, 0.01)
    assert low <= 5 < high
    assert bracket(lambda rate: False, 1.0, 0.5, 0.01)[1] == math.inf
    # a rate above the limit at which a run happens to end well is not taken for one that trains
    low, high = bracket(lambda rate: rate > 0.1 and not 0.45 < rate < 0.55, 1.0, 0.5, 0.01)
    assert low <= 0.1 < high
    with pytest.raises(wf.InvalidInput, match="fails at all learning rates"):
        bracket(lambda rate: True, 1.0, 0.5, 0.01)


def test_kernels_that_stand_still_have_the_limit_of_the_kernel():
    """Up to what a mode at its limit does in a finite number of steps."""
    for change in ({"richness": 0.0}, {"parameterisation": "ntk"}):
        problem = problem_of(Setting(2, "relu", 1.0, momentum=0.5), steps=1000)
        found = wf.stable_rate(dataclasses.replace(problem, network=dataclasses.replace(problem.network, **change)))
        assert found.repetitions == 1
        assert found.rate == pytest.approx(found.kernel_rate, rel=0.03)


def test_against_networks():
    setting = Setting(1, "tanh", 1.0)
    problem = problem_of(setting, steps=40, samples=6, dimension=8)
    found = wf.stable_rate(problem, repetitions=4)
    real = measured(setting, problem, found.rate, width=256)
    assert found.rate - found.error <= real
    assert found.rate == pytest.approx(real, rel=0.15)
    networks = wf.stable_rate(problem, 256, repetitions=4)
    assert networks.rate == pytest.approx(real, rel=0.15)
    assert "width 256" in str(networks)
    assert f"{found.rate:.3g}" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width"),
        ({"repetitions": 0}, "repetitions"),
        ({"resolution": 0}, "resolution"),
        ({"steps": 0}, "steps"),
    ],
)
def test_what_is_refused(change, message, small_problem):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.stable_rate(small_problem, **change)


def test_what_has_no_learning_rate_is_refused(small_problem):
    with pytest.raises(wf.InvalidInput, match="has no learning rate"):
        wf.stable_rate(dataclasses.replace(small_problem, optimiser=wf.GradientFlow(1.0)))
    with pytest.raises(wf.InvalidInput, match="must be a Problem"):
        wf.stable_rate(3)
    still = dataclasses.replace(
        small_problem, network=wf.MLP(2, "tanh", 0.0), optimiser=wf.SGD(0.1, 5, weight_decay=0.1)
    )
    with pytest.raises(wf.InvalidInput, match=r"richness = 0 .* optimiser.weight_decay = 0.1"):
        wf.stable_rate(still)
    with pytest.raises(wf.InvalidInput, match="are all inputs zero"):
        wf.stable_rate(dataclasses.replace(small_problem, data=wf.Data(np.zeros((2, 2)), [1.0, -1.0])))


def test_auto_is_a_number_in_the_answer(tmp_path):
    problem = problem_of(Setting(1, "tanh", 1.0), steps=40, samples=6, dimension=8)
    with pytest.raises(wf.InvalidInput, match="'auto' is no number yet"):
        problem.optimiser.rates()
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    answers = [wf.solve(problem, theory) for theory in (wf.FiniteWidth(32), wf.Lazy(), wf.InfiniteWidth(256, 2))]
    assert len({answer.problem.optimiser.learning_rate for answer in answers}) == 1
    first = answers[0]
    rate = first.problem.optimiser.learning_rate
    assert first.data["time"].values[1] == rate
    numbers = first.statistics
    smaller = min(numbers["stable_rate"], numbers["kernel_rate"])
    assert rate == numbers["learning_rate"] == pytest.approx(numbers["learning_rate_fraction"] * smaller, rel=0.01)
    assert f"became {rate:g}" in first.verdict
    first.save(tmp_path / "run.nc")
    assert wf.load(tmp_path / "run.nc").verdict == first.verdict
    for answer in answers:
        losses = answer.mean("loss").values
        assert losses[-1] < 0.1 * losses[0]
    with pytest.raises(wf.InvalidInput, match="unknown learning_rate"):
        wf.SGD("automatic", 10)


def test_after_a_divergence_the_limit_is_named():
    problem = problem_of(Setting(1, "relu", 1.0), steps=40)
    limit = kernel_limit(problem).rate
    problem = dataclasses.replace(problem, optimiser=wf.SGD(50.0, 40))
    with pytest.raises(wf.Diverged, match=r"allows a learning_rate of [\d.]+ .*this was 50; wf.stable_rate") as caught:
        wf.solve(problem, wf.FiniteWidth(32))
    assert f"allows a learning_rate of {limit:.3g} " in str(caught.value)


def test_where_the_kernel_allows_the_rate_the_limit_of_training_is_named():
    """A rate below what the kernel allows diverges, and one below the number in the message does not."""
    rich = problem_of(Setting(1, "relu", 100.0), steps=40)
    rich = dataclasses.replace(rich, optimiser=wf.SGD(0.5, 40))
    assert kernel_limit(rich).rate > 0.5
    with pytest.raises(wf.Diverged, match="but features that grow make the limit smaller") as caught:
        wf.solve(rich, wf.FiniteWidth(128))
    named = float(re.search(r"trains 40 steps at up to ([\d.e-]+), this was 0.5;", str(caught.value))[1])
    assert named < 0.1
    wf.solve(dataclasses.replace(rich, optimiser=wf.SGD(0.8 * named, 40)), wf.FiniteWidth(128))
    with pytest.raises(wf.Diverged):
        wf.solve(dataclasses.replace(rich, optimiser=wf.SGD(2 * named, 40)), wf.FiniteWidth(128))
    many = dataclasses.replace(rich, data=wf.data.sphere(samples=300, dimension=3), optimiser=wf.SGD(1e-2, 10))
    assert kernel_limit(many).rate > 1e-2
    assert "a smaller learning_rate than 0.01 helps" in limit_in_words(many)  # networks would take too long


TWELVE = [
    Setting(1, "tanh", 0.1),
    Setting(2, "relu", 0.1, momentum=0.9),
    Setting(3, "gelu", 0.1),
    Setting(4, "tanh", 0.1),
    Setting(1, "relu", 1.0),
    Setting(2, "tanh", 1.0, momentum=0.9),
    Setting(3, "relu", 1.0, "logistic"),
    Setting(2, "tanh", 1.0, feedback=0.5),
    Setting(1, "gelu", 3.0),
    Setting(2, "gelu", 3.0, "logistic"),
    Setting(3, "tanh", 3.0),
    Setting(4, "gelu", 3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", TWELVE, ids=str)
def test_twelve_problems_against_networks_of_width_512(setting):
    """The rate at which half of 16 networks of width 512 diverge; printed as a row of docs/rates.md."""
    problem = problem_of(setting)
    found = wf.stable_rate(problem)
    real = measured(setting, problem, found.rate)
    print(f"| {setting} | {found.kernel_rate:.3g} | {found.rate:.3g} ± {found.error:.2g} | {real:.3g} |")
    assert found.rate - found.error <= real
    assert found.rate == pytest.approx(real, rel=0.1 if setting.richness == 0.1 else 0.2)


@pytest.mark.slow
def test_a_limit_that_differs_widely_between_networks_says_so():
    """Logistic loss near the lazy limit: a tenth of the networks fails at a rate, nine tenths at three times of it."""
    setting = Setting(3, "gelu", 0.1, "logistic")
    problem = problem_of(setting)
    found = wf.stable_rate(problem)
    real = measured(setting, problem, found.rate)
    print(f"| {setting} | {found.kernel_rate:.3g} | {found.rate:.3g} ± {found.error:.2g} | {real:.3g} |")
    assert found.highest > 1.5 * found.lowest
    assert abs(found.rate - real) <= found.error
