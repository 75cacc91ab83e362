"""Networks with one hidden layer: exact solutions, without conditioned matrices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import check, ode
from ..base.arrays import Arrays
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.precision import double_precision
from ..problem.gradient_flow import GradientFlow
from ..problem.optimisers import SGD
from ..problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, GradientDescent, Hebb
from ..problem.theory import Theory
from ..solvers.two_layer import flow, neurons
from ..solvers.two_layer.particles import Layout, Process, advance, discrete
from ..solvers.two_layer.recording import Measured, recorded
from ..trajectory.trajectory import Trajectory
from .recording import from_arrays, over_replicas

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


METHODS = ("auto", "ode", "grid", "sampled")

_RULES = (GradientDescent, FeedbackAlignment, DirectFeedbackAlignment, GatedLinear, Hebb)
_MOMENTS_ACCURACY = 1e-11
"""Of second moments, at no cost."""

_KINKED_ACCURACY = 1e-4
"""Of gradient flow with kinks: neurons that stay at a kink, pushed back from both sides, make steps short."""


@dataclass(frozen=True)
class TwoLayer(Theory, kind="two-layer"):
    """One hidden layer at infinite width: neurons in the field of their own averages (BP22 App. E, F; BP23 App. F).

    Only equal-time averages couple the neurons of one hidden layer, so there is nothing to condition on and nothing to
    truncate. Three methods, of which "auto" takes the first that applies:

        "ode"      linear activation, one output, `GradientFlow`: equations of second moments, exact to `accuracy`
        "grid"     up to 3 Gaussian numbers a neuron (rank of the input kernel of all samples, test samples included,
                   plus outputs, plus gates), no kinks, no noise: averages by a rule that converges exponentially
        "sampled"  everything else: scrambled Sobol points with exact second moments, standard errors from replicas;
                   exact for linear networks

    Under gradient flow neurons may slide along a kink of their activation, pushed back from both sides. Outputs and
    features are well defined then, to 1e-3; phi', and with it the gradient kernels, are not.

    Args:
        particles: sampled neurons (a power of 2 is best).
        replicas: independent samples of neurons.
        first_seed: of the replicas first_seed, first_seed + 1, ...
        spacing: of the grid, in standard deviations; None is 0.05 (up to two numbers a neuron) or 0.15 (three).
        accuracy: error of a step of `GradientFlow`, instead of the optimiser's own; 1e-4 at least if there are kinks.
        method: "auto", "ode", "grid" or "sampled".
    """

    particles: int = 2**14
    replicas: int = 4
    first_seed: int = 0
    spacing: float | None = None
    accuracy: float = 1e-9
    method: str = "auto"

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=4))
        put(self, replicas=check.integer("replicas", self.replicas, least=1))
        put(self, first_seed=check.integer("first_seed", self.first_seed, most=2**62))
        if self.spacing is not None:
            put(self, spacing=check.number("spacing", self.spacing, least=1e-3, most=2.0))
        put(self, accuracy=check.number("accuracy", self.accuracy, least=1e-13, most=1e-2))
        check.choice("method", self.method, METHODS)

    @property
    def label(self) -> str:
        """One hidden layer, exactly."""
        return "two-layer"

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Follow moments or neurons."""
        _check(problem)
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        with double_precision():
            method, layout = self._chosen(problem)
            if layout is None:
                arrays = _over_time(problem, steps, self._moments(problem, steps), session, 0, 1)
                statistics: dict[str, float] = {}
            else:
                count = self.replicas if method == "sampled" else 1
                found = [
                    _over_time(problem, steps, self._neurons(layout, method, k, steps), session, k, count)
                    for k in range(count)
                ]
                arrays = over_replicas(found)
                statistics = {"dimensions": layout.dimensions, "replicas": count}
                statistics["particles"] = (
                    self.particles if method == "sampled" else neurons.grid_size(layout.dimensions, self.spacing)
                )
        answer = from_arrays(problem, self, arrays, steps, statistics | {"seconds": time.perf_counter() - began})
        answer.data.attrs["method"] = method
        return answer

    def _chosen(self, problem: Problem) -> tuple[str, Layout | None]:
        """The method, and how neurons begin if there are any."""
        obstacle = flow.applies(problem)
        if self.method in ("auto", "ode") and not obstacle:
            return "ode", None
        if self.method == "ode":
            raise InvalidInput(f"method = 'ode': {obstacle}; use method = 'auto'")
        layout = Layout(problem)
        obstacle = _against_grid(problem, layout)
        if self.method == "grid" and obstacle:
            raise InvalidInput(f"method = 'grid': {obstacle}; use method = 'sampled'")
        method = self.method
        if method == "auto":
            method = "sampled" if obstacle or problem.network.phi.kinks else "grid"
        count = neurons.grid_size(layout.dimensions, self.spacing) if method == "grid" else self.particles
        held = 8 * count * (12 * len(layout.inputs) * (1 + layout.outputs) + 20 * layout.outputs)
        check.memory("neurons", held, "reduce particles, or widen the spacing of the grid")
        return method, layout

    def _moments(self, problem: Problem, steps: NDArray[np.int64]) -> Iterator[Measured]:
        equation, state = flow.linear_flow(problem)
        rates = problem.optimiser.rates()
        accuracy = min(self.accuracy, _MOMENTS_ACCURACY)
        yield _measure(equation, state)
        for start, stop in pairwise(steps):
            state = ode.after(equation, state, float(np.sum(rates[start:stop])), accuracy)
            yield _measure(equation, state)

    def _neurons(self, layout: Layout, method: str, replica: int, steps: NDArray[np.int64]) -> Iterator[Measured]:
        optimiser, seed = layout.problem.optimiser, self.first_seed + replica
        if method == "grid":
            process, state = layout.start(*neurons.grid(layout.dimensions, self.spacing))
        else:
            process, state = layout.start(neurons.sampled(layout.dimensions, self.particles, seed), None)
        if isinstance(optimiser, GradientFlow):
            yield _measure(process, state)
            rates = optimiser.rates()
            accuracy = max(self.accuracy, _KINKED_ACCURACY) if layout.problem.network.phi.kinks else self.accuracy
            for start, stop in pairwise(steps):
                state = ode.after(process, state, float(np.sum(rates[start:stop])), accuracy)
                yield _measure(process, state)
            return
        assert isinstance(optimiser, SGD)
        walk = discrete(process, optimiser, layout.problem.samples.samples, seed)
        carry = (state, jax.tree.map(jnp.zeros_like, state))
        for start, stop in pairwise([0, *steps]):
            carry, measured = advance(walk, carry, jnp.asarray(start, int), jnp.asarray(stop, int))
            yield measured


@eqx.filter_jit
def _measure(equation: flow.LinearFlow | Process, state: Any) -> Measured:
    return equation.measure(state)


def _over_time(
    problem: Problem,
    steps: NDArray[np.int64],
    course: Iterator[Measured],
    session: Session,
    replica: int,
    replicas: int,
) -> Arrays:
    """Records of one replica; what comes after an explosion is not a number."""
    inputs = problem.samples.kernel(everything=True)
    records: list[Arrays] = []
    for step, measured in zip(steps, course, strict=False):
        records.append(recorded(problem, measured, inputs))
        loss = float(records[-1]["loss"])
        session.report(int(replica * steps[-1] + step), int(replicas * steps[-1]), loss)
        if problem.exploded(records[-1]["loss"]):
            break
    records += [{name: np.full_like(value, np.nan) for name, value in records[0].items()}] * (len(steps) - len(records))
    return {name: np.stack([record[name] for record in records]) for name in records[0]}


def _against_grid(problem: Problem, layout: Layout) -> str:
    if problem.optimiser.shakes:
        return "noise on the weights has to be sampled"
    if layout.dimensions > neurons.GRID_DIMENSIONS:
        return f"a neuron begins with {layout.dimensions} Gaussian numbers, a grid affords {neurons.GRID_DIMENSIONS}"
    return ""


def _check(problem: Problem) -> None:
    network, record = problem.network, problem.record
    if network.hidden_layers != 1:
        raise InvalidInput(
            f"hidden_layers = {network.hidden_layers}: TwoLayer is for one hidden layer; use InfiniteWidth"
        )
    if network.parameterisation != "mean-field":
        raise InvalidInput(
            f"parameterisation = {network.parameterisation!r} becomes lazy at infinite width; use Lazy, or "
            'parameterisation = "mean-field"'
        )
    if network.richness == 0:
        raise InvalidInput("richness = 0: features do not move in the lazy limit; use Lazy, or a richness > 0")
    if type(problem.rule) not in _RULES:
        raise InvalidInput(f"rule = {problem.rule.kind!r} is unknown to TwoLayer; use InfiniteWidth")
    if not isinstance(problem.optimiser, SGD | GradientFlow):
        raise InvalidInput(f"optimiser = {problem.optimiser.kind!r} is unknown to TwoLayer; use SGD or GradientFlow")
    for name in ("two_time", "responses"):
        if getattr(record, name):
            raise InvalidInput(f"record.{name} = true: TwoLayer keeps equal times only; use InfiniteWidth")
