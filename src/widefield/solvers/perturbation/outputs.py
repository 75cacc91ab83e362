"""Outputs to leading order in gamma_0, and the states along the way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from ...base import ode
from ...problem.gradient_flow import GradientFlow
from ...problem.losses import Loss
from ...problem.problem import Problem
from .order import Correction

_ACCURACY = 1e-6
"""Error of a step of gradient flow."""


class Course(eqx.Module):
    """Where training stands: outputs f = zeroth + gamma_0^2 second of all samples, and what the correction keeps."""

    zeroth: Float[Array, "a c"]
    second: Float[Array, "a c"]
    state: Any


class _Training(eqx.Module):
    """Everything that a step needs."""

    correction: Correction
    ntk: Float[Array, "a a"]
    targets: Float[Array, "p c"]
    rates: Float[Array, " steps"]
    batches: Int[Array, "batches b"]
    loss: Loss = eqx.field(static=True)

    def errors(self, course: Course, rows: Int[Array, " b"]) -> tuple[Float[Array, "a c"], Float[Array, "a c"]]:
        """Delta of orders 0 and 2, zero for samples that are not trained on."""
        targets, weight = self.targets[rows], self.loss.weight(len(rows))
        chosen = course.zeroth[rows], course.second[rows]
        value, slope = jax.jvp(lambda f: self.loss.error(f, targets), chosen[:1], chosen[1:])
        nothing = jnp.zeros_like(course.zeroth)
        return nothing.at[rows].set(weight * value), nothing.at[rows].set(weight * slope)

    def step(self, number: Array, course: Course) -> Course:
        """One step of gradient descent, exact at each order.

        f changes by int_0^1 K(t + u, t) du Delta, the kernel between the weights on the way to the next ones and the
        present ones; that is a polynomial of second degree in u, so that Simpson's rule is exact.
        """
        rows, rate = self.batches[number % len(self.batches)], self.rates[number]
        delta, change = self.errors(course, rows)
        x = rate * delta
        ways = [course.state, self.correction.moved(course.state, 0.5 * x), self.correction.moved(course.state, x)]
        kernels = [self.correction.kernels(way, course.state).ntk for way in ways]
        average = (kernels[0] + 4 * kernels[1] + kernels[2]) / 6
        second = rate * (self.ntk @ change) + jnp.einsum("mcnd,nd->mc", average, x)
        return Course(course.zeroth + self.ntk @ x, course.second + second, ways[-1])

    def slope(self, course: Course) -> Course:
        """d/dt of everything, for gradient flow."""
        delta, change = self.errors(course, jnp.arange(len(self.targets)))
        kernel = self.correction.kernels(course.state, course.state).ntk
        moved = jax.jvp(lambda u: self.correction.moved(course.state, u * delta), (jnp.zeros(()),), (jnp.ones(()),))[1]
        second = self.ntk @ change + jnp.einsum("mcnd,nd->mc", kernel, delta)
        return Course(self.ntk @ delta, second, moved)


def follow(
    correction: Correction, ntk: NDArray[np.float64], problem: Problem, steps: NDArray[np.int64]
) -> Iterator[Course]:
    """The course at every recorded step, for the static kernel `ntk` over training and test samples."""
    batches = problem.optimiser.batches(problem.samples.samples)
    every = np.arange(problem.samples.samples)[None, :]
    training = _Training(
        correction,
        jnp.asarray(ntk),
        jnp.asarray(problem.samples.y),
        jnp.asarray(problem.optimiser.rates()),
        jnp.asarray(every if batches is None else batches),
        problem.loss,
    )
    nothing = jnp.zeros((len(ntk), problem.samples.outputs))
    course = Course(nothing, nothing, correction.start())
    yield course
    for first, last in pairwise(steps):
        if isinstance(problem.optimiser, GradientFlow):
            course = ode.after(training, course, jnp.sum(training.rates[first:last]), _ACCURACY)
        else:
            course = _advance(training, course, jnp.asarray(first), jnp.asarray(last))
        yield course


@eqx.filter_jit
def _advance(training: _Training, course: Course, first: Array, last: Array) -> Course:
    end: Course = jax.lax.fori_loop(first, last, lambda number, course: training.step(number, course), course)
    return end
