"""Code is compiled for shapes and architectures, never for numbers: another value of a number compiles nothing."""

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np
import pytest

import widefield as wf

THEORIES = [wf.FiniteWidth(5, seeds=2), wf.InfiniteWidth(particles=64, replicas=2, rank_tolerance=0.3)]

_COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compilations():
    """Names nothing, counts everything: an item for every program that jax compiles, small ones included."""
    found = []

    def listen(event, seconds, **details):
        if event == _COMPILED:
            found.append(details)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


SGD = wf.SGD(0.1, 4, batch_size=3, momentum=0.5, weight_decay=0.1, temperature=0.2)
PROBLEM = wf.Problem(
    network=wf.MLP(2, "tanh", weight_variances=1.2, bias_variances=(0.3, 0.0, 0.1), train_biases=True),
    data=wf.data.sphere(samples=4, dimension=6, test_samples=2, seed=1),
    loss=wf.Huber(0.5),
    rule=wf.FeedbackAlignment(0.4),
    optimiser=SGD,
    record=wf.Record(every=2, neurons=2),
)
FLOW = dataclasses.replace(
    PROBLEM, rule=wf.GradientDescent(), optimiser=wf.GradientFlow(1.0, steps=3, weight_decay=0.1)
)

LAYERED = dataclasses.replace(
    PROBLEM, optimiser=dataclasses.replace(SGD, weight_rates=(1.0, 2.0, 3.0), bias_rates=(0.4, 0.5, 0.6))
)


def changed(problem, **sections):
    """A problem some of whose sections have other values."""
    parts = {name: dataclasses.replace(getattr(problem, name), **values) for name, values in sections.items()}
    return dataclasses.replace(problem, **parts)


CHANGES = {
    "learning rate": (PROBLEM, {"optimiser": {"learning_rate": 0.05}}),
    "schedule": (PROBLEM, {"optimiser": {"learning_rate": wf.Cosine(peak=0.1)}}),
    "momentum": (PROBLEM, {"optimiser": {"momentum": 0.9}}),
    "weight decay": (PROBLEM, {"optimiser": {"weight_decay": 0.3}}),
    "temperature": (PROBLEM, {"optimiser": {"temperature": 0.01}}),
    "order of batches": (PROBLEM, {"optimiser": {"seed": 3}}),
    "richness": (PROBLEM, {"network": {"richness": 2.0}}),
    "outputs in words": (PROBLEM, {"network": {"outputs": 1}}),
    "weight variance": (PROBLEM, {"network": {"weight_variances": 0.8}}),
    "weight variances": (PROBLEM, {"network": {"weight_variances": (0.8, 1.5, 1.0)}}),
    "bias variances": (PROBLEM, {"network": {"bias_variances": (0.7, 0.0, 0.2)}}),
    "data": (PROBLEM, {"data": {"seed": 2}}),
    "threshold": (PROBLEM, {"loss": {"threshold": 0.1}}),
    "correlation": (PROBLEM, {"rule": {"correlation": -0.7}}),
    "time of a flow": (FLOW, {"optimiser": {"t_end": 2.0}}),
    "tolerance of a flow": (FLOW, {"optimiser": {"tolerance": 1e-2}}),
    "rates of layers": (LAYERED, {"optimiser": {"weight_rates": (0.3, 1.5, 0.7), "bias_rates": 0.2}}),
    "rates of layers where there were none": (
        PROBLEM,
        {"optimiser": {"weight_rates": (0.3, 1.5, 0.7), "bias_rates": (0.2, 1.0, 3.0)}},
    ),
    "rates of layers of a flow": (FLOW, {"optimiser": {"weight_rates": 0.5, "bias_rates": (0.2, 1.0, 3.0)}}),
    "decay of a flow": (FLOW, {"optimiser": {"weight_decay": 0.2}}),
}


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: theory.kind)
@pytest.mark.parametrize("change", CHANGES)
def test_another_number_compiles_nothing(change, theory, compilations):
    problem, sections = CHANGES[change]
    before = wf.solve(problem, theory).data
    compilations.clear()
    after = wf.solve(changed(problem, **sections), theory).data
    assert not compilations
    assert before.outputs.equals(after.outputs) == (change == "outputs in words")


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: theory.kind)
def test_another_seed_compiles_nothing(theory, compilations):
    before = wf.solve(PROBLEM, theory).data
    compilations.clear()
    after = wf.solve(PROBLEM, dataclasses.replace(theory, seed=7)).data
    assert not compilations
    assert abs(before.outputs.values - after.outputs.values).max() > 1e-3


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: theory.kind)
def test_other_numbers_of_steps_compile_nothing(theory, compilations):
    """Training comes in stretches of one length, whatever the number of steps and records."""
    calm = changed(PROBLEM, optimiser={"temperature": 0.0, "batch_size": 2})
    wf.solve(calm, theory)
    compilations.clear()
    wf.solve(changed(calm, optimiser={"steps": 150}, record={"every": 7}), theory)
    assert not compilations


def test_other_sizes_compile_few_programs(compilations):
    """Capacities are on a ladder: between 5 and 12 samples it has few steps, and other tolerances are like sizes."""
    few = wf.Record(steps=(0,), neurons=0)
    problems = [
        wf.Problem(wf.MLP(2, "tanh"), wf.data.sphere(samples=6, dimension=5, seed=seed), record=few) for seed in (0, 1)
    ]
    compilations.clear()
    for tolerance in (0.3, 0.2, 0.15, 0.1):
        for problem in problems:
            wf.solve(problem, wf.InfiniteWidth(256, 2, tolerance))
    assert len(compilations) < 40


ABSENT = {
    "momentum": {"optimiser": {"momentum": 0.0}},
    "temperature": {"optimiser": {"temperature": 0.0}},
    "weight decay": {"optimiser": {"weight_decay": 0.0}},
    "a layer": {"network": {"hidden_layers": 3, "bias_variances": 0.3}},
}


@pytest.mark.parametrize("change", ABSENT)
def test_what_is_absent_is_another_program(change, compilations):
    """Otherwise these tests count nothing."""
    wf.solve(PROBLEM, THEORIES[0])
    compilations.clear()
    wf.solve(changed(PROBLEM, **ABSENT[change]), THEORIES[0])
    assert compilations


@dataclass(frozen=True)
class PlainSGD(wf.SGD):
    """A class of a user's own, whose numbers are compiled in."""


@dataclass(frozen=True)
class PlainHuber(wf.Huber):
    """The same for a loss."""


@dataclass(frozen=True)
class PlainFeedback(wf.FeedbackAlignment):
    """The same for a rule."""


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-12), ("float32", 1e-4)])
def test_numbers_that_are_compiled_in_give_the_same_answers(dtype, rounding):
    sections = {"optimiser": PlainSGD, "loss": PlainHuber, "rule": PlainFeedback}
    parts = {name: kind(**vars(getattr(PROBLEM, name))) for name, kind in sections.items()}
    theory = dataclasses.replace(THEORIES[0], dtype=dtype)
    ours, plain = (wf.solve(problem, theory).data for problem in (PROBLEM, dataclasses.replace(PROBLEM, **parts)))
    for name in ("outputs", "loss", "ntk", "pseudo_gradient_kernel", "preactivation"):
        np.testing.assert_allclose(ours[name], plain[name], rtol=rounding, atol=rounding)


def test_a_flow_in_single_precision():
    single, double = (wf.solve(FLOW, wf.FiniteWidth(5, dtype=dtype)).data for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single.outputs, double.outputs, rtol=0, atol=1e-4)
