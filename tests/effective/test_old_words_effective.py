"""Words of the effective theory that were used before: each works, means the same, and says what to write now."""

import dataclasses

import numpy as np
import pytest

from old_words import assert_takes_old_word
from widefield.effective import (
    aspect_ratio,
    deep_linear,
    monte_carlo,
    plots,
    residual,
    residual_inputs,
    residual_sampler,
    sampler,
)
from widefield.effective.advice import advise
from widefield.effective.agreement import Correlator
from widefield.effective.universality import criticality
from widefield.effective.vertex_flow import flow
from widefield.problem.network import MLP

BLOCK, NETWORK, X = residual.BlockLayer(0.0, 1.5), MLP(1, "relu"), [[1.0]]
LINEAR = deep_linear.DeepLinear((4, 4), 1.0)
KERNEL = np.array([[1.0, 0.3], [0.3, 1.0]])
SKIP, DRAWS, RATIO, LAYERS = (
    ("gamma", "skip", 0.5),
    ("draws", "seeds", 100),
    ("ratio", "aspect_ratio", 0.2),
    ("layers", "block_layers", 2),
)
FUNCTIONS = {
    "critical_block": (lambda **w: aspect_ratio.critical_block("relu", **w)[0].weight_variance, SKIP),
    "critical_block, layers": (lambda **w: len(aspect_ratio.critical_block("relu", 0.5, **w)), LAYERS),
    "fluctuation_rate": (lambda **w: aspect_ratio.fluctuation_rate("relu", **w), SKIP),
    "fluctuation_rate, layers": (lambda **w: aspect_ratio.fluctuation_rate("relu", **w), LAYERS),
    "kernel_coefficient": (lambda **w: aspect_ratio.kernel_coefficient("tanh", **w), SKIP),
    "kernel_coefficient, layers": (lambda **w: aspect_ratio.kernel_coefficient("tanh", **w), LAYERS),
    "information_of_ratio": (lambda **w: aspect_ratio.information_of_ratio(1.0, neurons=(5, 5), **w), RATIO),
    "optimal_aspect_ratio": (lambda **w: aspect_ratio.optimal_aspect_ratio("tanh", 10, **w).aspect_ratio, SKIP),
    "optimal_aspect_ratio, layers": (lambda **w: aspect_ratio.optimal_aspect_ratio("tanh", 10, **w).rate, LAYERS),
    "optimal_gamma": (lambda **w: aspect_ratio.optimal_gamma("tanh", outputs=10, **w).skip, RATIO),
    "optimal_gamma, layers": (lambda **w: aspect_ratio.optimal_gamma("relu", 0.2, 10, **w).skip, LAYERS),
    "optimal_depth": (lambda **w: aspect_ratio.optimal_depth("relu", 20, 10, **w).depth, SKIP),
    "residual_flow": (lambda **w: residual.residual_flow("relu", 1.0, 4, block=BLOCK, **w).vertex, SKIP),
    "residual_inputs_flow": (
        lambda **w: residual_inputs.residual_inputs_flow("relu", KERNEL, 3, block=BLOCK, **w).vertex,
        SKIP,
    ),
    "kernel_flow": (lambda **w: residual.kernel_flow("relu", KERNEL, 3, block=BLOCK, **w), SKIP),
    "susceptibilities": (lambda **w: residual.susceptibilities("relu", 1.0, block=BLOCK, **w), SKIP),
    "block_strength": (lambda **w: residual.block_strength(1.0, 2.0, 0.3, **w), SKIP),
    "measured_strength": (lambda **w: residual.measured_strength([1.0, 2.0], [0.5, 2.0], **w), SKIP),
    "sample_residual": (
        lambda **w: residual_sampler.sample_residual("relu", 1.0, 3, block=BLOCK, width=4, seeds=20, **w).kernel[0],
        SKIP,
    ),
    "sample_residual, networks": (
        lambda **w: residual_sampler.sample_residual("relu", 1.0, 3, 0.5, BLOCK, width=4, **w).kernel[0],
        ("networks", "seeds", 20),
    ),
    "check": (lambda **w: monte_carlo.check(NETWORK, X, 4, seed=0, **w)["vertex"].measured, DRAWS),
    "metrics": (lambda **w: sampler.metrics(NETWORK, X, 4, seed=0, **w), DRAWS),
    "networks": (lambda **w: sampler.networks(NETWORK, X, 4, seed=0, **w).outputs, DRAWS),
    "outputs": (lambda **w: sampler.outputs(NETWORK, X, 4, seed=0, **w), DRAWS),
    "DeepLinear.sample": (lambda **w: LINEAR.sample(layer=2, seed=0, **w), DRAWS),
    "sample_double_scaling": (lambda **w: deep_linear.sample_double_scaling(aspect_ratio=0.2, seed=0, **w), DRAWS),
    "sample_double_scaling, ratio": (lambda **w: deep_linear.sample_double_scaling(10, seed=0, **w), RATIO),
    "double_scaling": (lambda **w: deep_linear.double_scaling(2, **w), RATIO),
    "double_scaling_connected": (lambda **w: deep_linear.double_scaling_connected(2, **w), RATIO),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    call, words = FUNCTIONS[name]
    assert_takes_old_word(call, *words)


RECORDS = [
    residual.BlockLayer(0.1, 1.5),
    residual.residual_flow("relu", 1.0, 3, 0.5, BLOCK),
    residual_sampler.sample_residual("relu", 1.0, 2, 0.5, BLOCK, width=4, seeds=20),
    aspect_ratio.optimal_aspect_ratio("tanh", 10, 0.5),
    aspect_ratio.optimal_depth("relu", 20, 10, skip=0.5),
    advise("relu", 5, 20),
    criticality("relu"),
    Correlator("metric", *(np.full(2, float(k)) for k in range(5))),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records(record):
    cls = type(record)
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    assert cls.old_words
    for old, new in cls.old_words.items():
        with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}.{old} is now called {cls.__name__}.{new}"):
            assert getattr(record, old) is fields[new]
        in_old_words = {old if name == new else name: value for name, value in fields.items()}
        with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}\({old}=...\) is now called {new}=..."):
            made = cls(**in_old_words)
        assert all(getattr(made, name) is value for name, value in fields.items())


FLOW = flow(NETWORK, X, 4)
INPUTS = residual_inputs.residual_inputs_flow("relu", KERNEL, 2, 0.5, BLOCK)
CHECK = monte_carlo.check(NETWORK, X, 4, seeds=100, seed=0)
ATTRIBUTES = {
    "Flow.accuracy": (FLOW, "relative_error"),
    "Flow.covariance_errors": (FLOW, "covariance_error"),
    "Flow.shift_errors": (FLOW, "shift_error"),
    "Flow.layers": (FLOW, "depth"),
    "InputsFlow.vertex_errors": (INPUTS, "vertex_error"),
    "InputsFlow.shift_errors": (INPUTS, "shift_error"),
    "Check.draws": (CHECK, "seeds"),
    "Advice.ratio": (advise("relu", 5, 20), "aspect_ratio"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    owner, new = ATTRIBUTES[name]
    kind, old = name.split(".")
    with pytest.warns(DeprecationWarning, match=rf"{name} is now called {kind}.{new}"):
        np.testing.assert_array_equal(getattr(owner, old), getattr(owner, new))


def test_the_old_table_of_a_check_has_its_old_columns():
    with pytest.warns(DeprecationWarning, match="summary"):
        before = CHECK.dataset()
    np.testing.assert_array_equal(before["relative_bias"], CHECK.summary()["relative_higher_order"])


@pytest.mark.parametrize(("old", "new"), [("phase_diagram_plot", "phase_diagram"), ("advice_plot", "advice")])
def test_figures(old, new):
    with pytest.warns(DeprecationWarning, match=rf"{old} is now called widefield.effective.plots.{new}"):
        assert getattr(plots, old) is getattr(plots, new)
