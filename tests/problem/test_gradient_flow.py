"""Gradient flow: against closed forms, an independent integrator, and small steps."""

import dataclasses
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import widefield as wf
from references import linear as linear_reference
from widefield.matrices.dense import Dense
from widefield.training.program import compile_problem


def problem(layers=1, richness=2.0, activation="linear", kernel=((1.0,),), y=(1.0,), **flow):
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, richness=richness),
        data=wf.data.gram(kernel=kernel, y=y),
        optimiser=wf.GradientFlow(**flow),
        record=wf.Record(every=1, neurons=0),
    )


SHARP = wf.InfiniteWidth(particles=64, replicas=1, rank_tolerance=1e-6)


def test_one_hidden_linear_layer_follows_its_differential_equation():
    """df/dt = 2 sqrt(1 + gamma_0^2 f^2) (1 - f) for one point (BP22 App. F); the error follows the tolerance."""
    errors = []
    for tolerance in (1e-3, 1e-5):
        data = wf.solve(problem(t_end=2.0, steps=10, tolerance=tolerance), SHARP).data
        exact = solve_ivp(
            lambda t, f: 2 * np.sqrt(1 + 4 * f * f) * (1 - f), (0, 2), [0.0], rtol=1e-11, atol=1e-12, t_eval=data.time
        )
        errors.append(np.abs(data.outputs.values[:, 0, 0] - exact.y[0]).max())
    assert errors[0] < 5e-3
    assert errors[1] < 5e-5


@pytest.mark.slow
def test_three_hidden_linear_layers_are_the_limit_of_small_steps():
    """Richardson extrapolation of the closed discrete equations."""
    kernel, y = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([1.0, -0.7])
    steps = [linear_reference.sweep(kernel, y, depth=3, gamma0=1.5, eta=1 / n, steps=n).f[-1] for n in (20, 40, 80)]
    first = 2 * np.array(steps[1:]) - np.array(steps[:-1])
    limit = (4 * first[1] - first[0]) / 3
    flow = problem(3, 1.5, kernel=kernel, y=y, t_end=1.0, steps=4, tolerance=1e-5)
    data = wf.solve(flow, dataclasses.replace(SHARP, particles=256)).data
    np.testing.assert_allclose(data.outputs.values[-1, :, 0], limit, rtol=0, atol=5e-5)


def test_a_real_network_with_decay_follows_an_independent_integrator(double):
    flow = wf.GradientFlow(t_end=1.5, steps=3, tolerance=1e-6, weight_decay=0.3)
    given = dataclasses.replace(
        problem(2, 1.2, "tanh", kernel=((1.0, 0.4), (0.4, 1.0)), y=(1.0, -1.0), t_end=1.0), optimiser=flow
    )
    data = wf.solve(given, wf.FiniteWidth(5)).data
    program = compile_problem(given, 1.2, (1.0, 1.0), "float64")
    state = program.start(Dense(jnp.asarray(0), (5, 5)))
    names = ("input", "readout", "hidden 1")
    start = {name: np.asarray(state.values[name]) for name in names}
    shapes = [start[name].shape for name in names]
    ends = np.cumsum([start[name].size for name in names])[:-1]
    x, y = np.asarray(program.inputs), np.asarray(program.targets)[:, 0]

    def unpack(flat):
        return [part.reshape(shape) for part, shape in zip(jnp.split(flat, ends), shapes, strict=True)]

    def output(flat):
        first, last, hidden = unpack(flat)
        return jnp.tanh(jnp.tanh(x @ first) @ hidden.T / np.sqrt(5)) @ last[0] / (1.2 * 5)

    initial = np.concatenate([start[name].ravel() for name in names])
    offset = output(jnp.asarray(initial))
    slope = jax.jit(jax.grad(lambda flat: 0.5 * jnp.sum((output(flat) - offset - y) ** 2)))
    exact = solve_ivp(
        lambda t, w: -(1.2**2) * 5 * np.asarray(slope(jnp.asarray(w))) - 0.3 * w,
        (0, 1.5),
        initial,
        rtol=1e-9,
        atol=1e-11,
        t_eval=data.time,
    )
    expected = [np.asarray(output(jnp.asarray(w)) - offset) for w in exact.y.T]
    np.testing.assert_allclose(data.outputs.values[0, :, :, 0], expected, rtol=0, atol=2e-5)


def test_a_flow_survives_a_file_and_its_times_are_those_asked_for():
    flow = problem(t_end=2.0, steps=8)
    assert wf.Problem.from_toml(flow.to_toml()) == flow
    np.testing.assert_allclose(wf.solve(flow, wf.FiniteWidth(3)).data.time, np.linspace(0, 2, 9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t_end": 0.0}, "t_end = 0.0 must be > 0"),
        ({"steps": 0}, "steps = 0 must be a whole number of at least 1"),
        ({"tolerance": 0.0}, "tolerance = 0.0 must be"),
        ({"weight_decay": -1.0}, "weight_decay = -1.0 must be"),
    ],
)
def test_flows_that_cannot_work(change, message):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.GradientFlow(**{"t_end": 1.0, **change})


def test_resuming_a_flow_gives_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("widefield.training.runner._CALL_SECONDS", 0.0)  # a call for every interval
    flow = problem(2, 1.5, "tanh", t_end=2.0, steps=6)
    theory = wf.InfiniteWidth(particles=64, replicas=2)
    whole = wf.solve(flow, theory)
    path = tmp_path / "run.checkpoint"
    calls = []

    def stop(done, total, loss):
        calls.append(done)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(wf.Interrupted):
        wf.solve(flow, theory, progress=stop, checkpoint=path)
    assert path.exists()
    resumed = wf.solve(flow, theory, checkpoint=path)
    np.testing.assert_array_equal(whole.data.outputs, resumed.data.outputs)
