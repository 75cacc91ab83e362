"""Steps on dense matrices are those of jax.grad, the tangent kernel is N J J^T: every architecture, unequal ratios."""

import dataclasses
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import made_networks as made
import widefield as wf
from references import architectures
from widefield.matrices.dense import Dense
from widefield.training import kinds
from widefield.training.graph_program import compile_graph
from widefield.training.steps import Moment

WIDTH, GAMMA, RATE, STEPS = 12, 1.5, 0.1, 3
CASES = {
    "residual": (made.Residual(depth=2), architectures.residual, (4,), {"depth": 2}),
    "recurrent": (made.Recurrent(), architectures.recurrent, (4, 2), {}),
    "cnn": (made.CNN(ratio=1.5), architectures.cnn, (4, 2), {}),
    "transformer, rms norm": (made.Transformer(), architectures.transformer, (3, 4), {}),
    "transformer, layer norm, query = key": (
        made.Transformer(norm="layer", gains=False, shared=True),
        architectures.transformer,
        (3, 4),
        {"norm": "layer", "gains": False, "shared": True},
    ),
    "gated": (made.Gated(), architectures.gated, (4,), {}),
    "tied": (made.Tied(), architectures.tied, (4,), {}),
    "tied, residual": (made.Tied(skip=True), architectures.tied, (4,), {"skip": True}),
    "W and its transpose": (made.Auto(), architectures.auto, (4,), {}),
    "mlp": (
        wf.MLP(3, width_ratios=(2.0, 0.5, 1.0), train_biases=True, bias_variances=0.3, weight_variances=1.3),
        partial(architectures.mlp, layers=3),
        (4,),
        {},
    ),
}
FAST = ("residual", "recurrent", "W and its transpose")


def problem_of(network, shape, outputs=2, samples=4):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((samples, *shape)), rng.standard_normal((samples, outputs))
    network = dataclasses.replace(network, richness=GAMMA)
    return wf.Problem(network, (x, y), optimiser=wf.SGD(RATE, STEPS), record=wf.Record(neurons=0))


def program_and_state(problem, width=WIDTH, seed=3):
    """On the tape, also of an MLP."""
    widths = problem.plan.widths(width)
    program = compile_graph(problem, GAMMA, tuple(n / width for n in widths), "float64")
    return program, eqx.filter_jit(program.start)(Dense(jnp.asarray(seed), widths, "float64"))


def parameters(problem, program, state):
    """By name, vectors (*shape, n)."""
    shapes = {spec.name: spec.shape for spec in problem.plan.vectors}
    vectors = {**state.weights, **state.frozen}
    found = {name: value.reshape(*shapes[name], value.shape[-1]) for name, value in vectors.items()}
    return {**found, **state.substrate.values}


@pytest.mark.parametrize("case", [c if c in FAST else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_steps_are_those_of_autodiff_and_the_kernel_is_that_of_the_jacobian(case, double):
    network, reference, shape, options = CASES[case]
    problem = problem_of(network, shape)
    reference = partial(reference, **options)
    program, state = program_and_state(problem)
    before = parameters(problem, program, state)
    x, y = jnp.asarray(problem.samples.x), jnp.asarray(problem.samples.y)
    step = eqx.filter_jit(program.step)
    losses = []
    for number in range(STEPS):
        state, loss = step(state, Moment(jnp.asarray(number), jnp.asarray(RATE), None))
        losses.append(float(loss))
    after = parameters(problem, program, state)
    expected, expected_losses = architectures.trained(
        reference, before, x, y, richness=GAMMA, width=WIDTH, rate=RATE, steps=STEPS
    )
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-12)
    assert set(after) == set(expected)
    for name, value in after.items():
        change = np.abs(np.asarray(expected[name] - before[name])).max()
        assert change > 1e-6, name
        np.testing.assert_allclose(value - before[name], expected[name] - before[name], atol=1e-12 * max(change, 1.0))
    measured, _ = eqx.filter_jit(kinds.observer_of(problem, program, "float64"))(state)
    kernel = architectures.tangent_kernel(reference, after, x, width=WIDTH)
    np.testing.assert_allclose(measured["ntk"], kernel, rtol=1e-11, atol=1e-11 * float(jnp.abs(kernel).max()))
