"""Adaptive integration of ordinary differential equations, by diffrax."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

State = TypeVar("State")

_MOST_STEPS = 10**6
"""A solution that needs more has blown up."""


class Equation(Protocol[State]):
    """A pytree that knows d(state)/dt."""

    def slope(self, state: State) -> State:
        """d(state)/dt."""


@eqx.filter_jit
def solutions(equation: Equation[State], start: State, times: Float[Array, " t"], accuracy: float) -> State:
    """The states at `times`, stacked; the first time is that of `start`. Infinite where there is no solution.

    `accuracy` bounds the error of a step, absolute and relative, on average over the entries of an array: for arrays
    over neurons only averages count, and one neuron at a kink of its activation should not shorten the steps of all.
    """
    import diffrax

    found = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda time, state, equation: equation.slope(state)),
        diffrax.Dopri8(),
        t0=times[0],
        t1=times[-1],
        dt0=None,
        y0=start,
        args=equation,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=accuracy, atol=accuracy, norm=_mean_error),
        max_steps=_MOST_STEPS,
        adjoint=diffrax.ForwardMode(),
        throw=False,
    )
    states: State = found.ys
    return states


def after(equation: Equation[State], start: State, duration: float, accuracy: float) -> State:
    """The state after some time."""
    ends: State = solutions(equation, start, jnp.asarray([0.0, duration]), accuracy)
    last: State = jax.tree.map(lambda leaf: leaf[1], ends)
    return last


def _mean_error(errors: Any) -> Array:
    leaves = [jnp.mean(jnp.abs(leaf)) for leaf in jax.tree.leaves(errors) if np.size(leaf)]
    return jnp.max(jnp.stack(leaves))
