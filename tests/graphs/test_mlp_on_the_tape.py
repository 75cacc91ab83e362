"""An MLP that is run as a graph gives the numbers of its own program, on real matrices and on infinite ones."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.gaussian.sobol import normals
from widefield.matrices.conditioned import Conditioned
from widefield.matrices.dense import Dense
from widefield.matrices.spans import Room
from widefield.training.graph_program import compile_graph
from widefield.training.observe import Observer
from widefield.training.places import PlaceObserver
from widefield.training.program import compile_problem
from widefield.training.steps import Moment

PLAIN = wf.MLP(3, "tanh", 1.5)
CASES = {
    "plain": (PLAIN, {}),
    "ratios and biases": (
        dataclasses.replace(PLAIN, width_ratios=(2.0, 0.5, 1.0), train_biases=True, bias_variances=0.4),
        {},
    ),
    "momentum, decay, batches": (PLAIN, {"momentum": 0.5, "weight_decay": 0.3, "batch_size": 2}),
    "noise": (dataclasses.replace(PLAIN, hidden_layers=2), {"temperature": 0.2}),
}
SLOW = ("plain", "momentum, decay, batches", "noise")


def problem_of(network, options, steps=4):
    data = wf.data.sphere(samples=4, dimension=6, test_samples=2, seed=1)
    return wf.Problem(network, data, optimiser=wf.SGD(0.1, steps, **options), record=wf.Record(neurons=0))


def pair(problem, ratios):
    """Program and observer, its own and those of a graph."""
    tested = jnp.asarray(problem.samples.y_test)
    own = compile_problem(problem, 1.5, ratios, "float64")
    graph = compile_graph(problem, 1.5, ratios, "float64")
    return (own, Observer(own, tested, problem.record)), (graph, PlaceObserver(graph, tested, problem.record))


def played(program, observer, state, problem):
    """Records after some steps."""
    step, observe = eqx.filter_jit(program.step), eqx.filter_jit(observer)
    batches = problem.optimiser.batches(problem.samples.samples)
    for number in range(problem.optimiser.steps):
        batch = None if batches is None else jnp.asarray(batches[number])
        state, _ = step(state, Moment(jnp.asarray(number), jnp.asarray(0.1), batch))
        assert not bool(state.substrate.exhausted)
    return observe(state)[0]


def assert_equal(own, graph, layers, tolerance):
    for name in ("outputs", "test_outputs", "loss", "test_loss", "ntk"):
        np.testing.assert_allclose(graph[name], own[name], rtol=tolerance, atol=tolerance, err_msg=name)
    for name, field in (("feature_kernel", "phi"), ("gradient_kernel", "h")):
        for layer in range(layers):
            size = float(jnp.abs(own[name][layer]).max())
            found = graph[f"{name}:{field} {layer + 1}"]
            np.testing.assert_allclose(found, own[name][layer], atol=tolerance * size, err_msg=f"{name} {layer}")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES])
def test_on_real_matrices(case, double):
    network, options = CASES[case]
    problem = problem_of(network, options)
    widths = network.widths(10)
    found = []
    for program, observer in pair(problem, tuple(n / widths[-1] for n in widths)):
        state = eqx.filter_jit(program.start)(Dense(jnp.asarray(2), widths, "float64"))
        found.append(played(program, observer, state, problem))
    assert_equal(*found, network.hidden_layers, 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_on_infinite_matrices(case, double):
    network, options = CASES[case]
    problem, particles = problem_of(network, options, steps=3), 256
    ratios = network.normalised_width_ratios
    room = Room((200,) * len(ratios), (56, 56))
    found = []
    for program, observer in pair(problem, ratios):
        streams = tuple(jnp.asarray(normals(4, population, 200, particles)) for population in range(len(ratios)))
        populations = jnp.asarray(ratios)
        substrate = Conditioned.create(jnp.asarray(4), streams, populations, tolerance=jnp.asarray(1e-3), room=room)
        state = eqx.filter_jit(program.start)(substrate)
        found.append(played(program, observer, state, problem))
    assert_equal(*found, network.hidden_layers, 1e-11 if options.get("temperature") else 1e-12)
