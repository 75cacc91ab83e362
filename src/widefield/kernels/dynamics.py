"""Training with a fixed kernel: f = f(0) + K V, where V collects the errors of the training samples over time.

    V(t) = sum of learning rate times Delta, dV/dt = Delta(f(0) + K V)

for every output, whatever the loss, the batches and the momentum; only the squared loss is solvable in closed form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from ..base import check, ode
from ..base.arrays import Floats
from ..base.session import Report
from ..problem.gradient_flow import GradientFlow
from ..problem.losses import Loss, SquaredError
from ..problem.optimisers import SGD
from ..problem.problem import Problem
from ..problem.schedules import elapsed
from .prediction import learned

_ACCURACY = 1e-9
"""Relative error of a step of an adaptive solution."""


NOT_STILL = "moves the weights even where nothing is learned, so that no kernel stands still"
"""What weight decay and noise do to a theory that begins with a fixed kernel."""


def solvable(problem: Problem) -> bool:
    """Whether modes of the kernel learn independently: squared loss, and all samples in every step."""
    batches = problem.optimiser.batches(problem.samples.samples)
    return isinstance(problem.loss, SquaredError) and batches is None


def mode_weights(values: Floats, problem: Problem, steps: NDArray[np.int64]) -> Floats:
    """s_k(t), with V = U s U^T (y - f(0)) and U, `values` the modes of the kernel; (recorded time, mode).

    Flow: [1 - exp(-lambda t)] / lambda; steps: [1 - prod_s (1 - eta_s lambda)] / lambda, and with momentum the same
    recurrence as for the weights.
    """
    weight, optimiser = problem.loss.weight(problem.samples.samples), problem.optimiser
    if isinstance(optimiser, GradientFlow):
        times = elapsed(optimiser.rates())[steps]
        return weight * np.stack([learned(weight * values, time) for time in times])
    assert isinstance(optimiser, SGD)
    found = _recurrence(jnp.asarray(weight * values), jnp.asarray(optimiser.rates()), optimiser.momentum, steps)
    return weight * np.asarray(found)


def _recurrence(values: Array, rates: Array, momentum: float, steps: NDArray[np.int64]) -> Floats:
    state = (jnp.zeros_like(values), jnp.zeros_like(values))
    found = [state[0]]
    for start, stop in pairwise(steps):
        state = _steps_of_modes(values, rates, jnp.asarray(momentum), state, jnp.asarray(start), jnp.asarray(stop))
        found.append(state[0])
    return np.stack([np.asarray(s) for s in found])


@jax.jit
def _steps_of_modes(
    values: Array, rates: Array, momentum: Array, state: tuple[Array, Array], start: Array, stop: Array
) -> tuple[Array, Array]:
    def step(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        weights, velocity = state
        velocity = momentum * velocity + (1 - momentum) * (1 - values * weights)
        return weights + rates[number] * velocity, velocity

    last: tuple[Array, Array] = jax.lax.fori_loop(start, stop, step, state)
    return last


def accumulated(
    kernel: Floats,
    initial: Float[NDArray[Any], "draws p c"],
    problem: Problem,
    steps: NDArray[np.int64],
    report: Report = lambda done, total, loss: None,
) -> Float[NDArray[Any], "times draws p c"]:
    """V at the recorded times for any loss and batches, for several initial outputs at once."""
    check.memory("errors collected over time", 8 * len(steps) * initial.size, "record less often, or fewer draws")
    model = _Model(jnp.asarray(kernel), jnp.asarray(problem.samples.y), problem.loss)
    start = jnp.asarray(initial)
    if isinstance(problem.optimiser, GradientFlow):
        times = elapsed(problem.optimiser.rates())[steps]
        return np.asarray(ode.solutions(_Flow(model, start), jnp.zeros_like(start), times, _ACCURACY))
    optimiser = problem.optimiser
    assert isinstance(optimiser, SGD)
    batches = optimiser.batches(problem.samples.samples)
    every = np.arange(problem.samples.samples)[None, :]
    runner = _Steps(model, start, jnp.asarray(optimiser.rates()), jnp.asarray(every if batches is None else batches))
    state = tuple(jnp.zeros_like(start) for _ in range(4))
    found = [np.asarray(state[0])]
    for first, last in pairwise(steps):
        state = _advance(runner, jnp.asarray(optimiser.momentum), state, jnp.asarray(first), jnp.asarray(last))
        found.append(np.asarray(state[0]))
        report(int(last), int(steps[-1]), float(problem.losses(start + state[1])["loss"].mean()))
    return np.stack(found)


class _Model(eqx.Module):
    """Outputs follow from V by the kernel, errors from outputs by the loss."""

    kernel: Float[Array, "p p"]
    targets: Float[Array, "p c"]
    loss: Loss = eqx.field(static=True)

    def errors(self, outputs: Float[Array, "draws b c"], rows: Int[Array, " b"]) -> Float[Array, "draws b c"]:
        """Delta of some samples, with their weight in the loss of the batch."""
        targets = self.targets[rows]
        each: Array = jax.vmap(lambda f: self.loss.error(f, targets))(outputs)
        return self.loss.weight(len(rows)) * each


class _Steps(eqx.Module):
    model: _Model
    initial: Float[Array, "draws p c"]
    rates: Float[Array, " steps"]
    batches: Int[Array, "batches b"]

    def __call__(self, number: Array, momentum: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        """One step of V, K V and their velocities, at a cost of P times the batch."""
        v, kv, dv, dkv = state
        rows = self.batches[number % len(self.batches)]
        errors = self.model.errors((self.initial + kv)[:, rows], rows)
        dv = (momentum * dv).at[:, rows].add((1 - momentum) * errors)
        dkv = momentum * dkv + (1 - momentum) * jnp.einsum("pb,dbc->dpc", self.model.kernel[:, rows], errors)
        return v + self.rates[number] * dv, kv + self.rates[number] * dkv, dv, dkv


@eqx.filter_jit
def _advance(steps: _Steps, momentum: Array, state: tuple[Array, ...], start: Array, stop: Array) -> tuple[Array, ...]:
    last: tuple[Array, ...] = jax.lax.fori_loop(start, stop, lambda n, s: steps(n, momentum, s), state)
    return last


class _Flow(eqx.Module):
    """dV/dt = Delta(f(0) + K V)."""

    model: _Model
    initial: Float[Array, "draws p c"]

    def slope(self, v: Float[Array, "draws p c"]) -> Float[Array, "draws p c"]:
        """Of V."""
        outputs = self.initial + jnp.einsum("pq,dqc->dpc", self.model.kernel, v)
        return self.model.errors(outputs, jnp.arange(self.model.targets.shape[0]))
