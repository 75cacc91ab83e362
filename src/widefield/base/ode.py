"""Adaptive integration of ordinary differential equations, by diffrax."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

State = TypeVar("State")

_MOST_STEPS = 10**6
"""A solution that needs more has blown up."""


class Equation(Protocol[State]):
    """A pytree that knows d(state)/dt."""

    def slope(self, state: State) -> State:
        """d(state)/dt."""


def after(equation: Equation[State], start: State, duration: Any, tolerance: float) -> State:
    """The state after some time, infinite if the solution does not reach so far.

    `tolerance` bounds the error of a step, absolute and relative, on average over the entries of an array: for arrays
    over neurons only averages count, and one neuron at a kink of its activation should not shorten the steps of all.
    """
    return _after(equation, start, jnp.asarray(duration, float), jnp.asarray(tolerance, float))


def solutions(equation: Equation[State], start: State, times: Iterable[float], tolerance: float) -> State:
    """The states at increasing times, stacked; the first time is that of `start`."""
    states = [start]
    for earlier, later in pairwise(times):
        states.append(after(equation, states[-1], later - earlier, tolerance))
    stacked: State = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    return stacked


@eqx.filter_jit
def _after(equation: Equation[State], start: State, duration: Array, tolerance: Array) -> State:
    import diffrax

    found = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda time, state, equation: equation.slope(state)),
        diffrax.Dopri8(scan_kind="lax"),
        t0=jnp.zeros_like(duration),
        t1=duration,
        dt0=None,
        y0=start,
        args=equation,
        # Interpolation between steps would cost digits, and take longer to compile than all the rest.
        saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance, norm=_mean_error),
        max_steps=_MOST_STEPS,
        adjoint=diffrax.ForwardMode(),
        throw=False,
    )
    end: State = jax.tree.map(lambda leaf: leaf[0], found.ys)
    # A solver that gave up leaves the last state it had.
    good = found.result == diffrax.RESULTS.successful
    checked: State = jax.tree.map(lambda leaf: jnp.where(good, leaf, jnp.inf), end)
    return checked


def _mean_error(errors: Any) -> Array:
    leaves = [jnp.mean(jnp.abs(leaf)) for leaf in jax.tree.leaves(errors) if np.size(leaf)]
    return jnp.max(jnp.stack(leaves))
