"""Networks with one hidden layer: exact solutions, without conditioned matrices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import check, ode
from ..base.arrays import Arrays
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..problem.gradient_flow import GradientFlow
from ..problem.optimisers import SGD
from ..problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, GradientDescent, Hebb
from ..problem.theory import LAYERED, OPTIONS, Clause, Scope, Theory
from ..solvers.two_layer import flow, neurons
from ..solvers.two_layer.measured import Measured, freezes_biases
from ..solvers.two_layer.particles import Layout, Neurons, Process, Vectors, advance, discrete
from ..trajectory import two_time
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import Variables, from_arrays, joined, over_replicas, pooled

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


METHODS = ("auto", "ode", "grid", "sampled")

_NEURONS = Scope(
    rules=(GradientDescent, FeedbackAlignment, DirectFeedbackAlignment, GatedLinear, Hebb),
    optimisers=(SGD, GradientFlow),
    options=frozenset(OPTIONS) - {LAYERED},
    hidden_layers=1,
    parameterisations=("mean-field",),
    richness="positive",
    cost="replicas T P^2 S",
    error="exact on grids, else standard errors",
)

_MOMENTS = replace(
    _NEURONS,
    optimisers=(GradientFlow,),
    activations="linear",
    outputs=1,
    records=_NEURONS.records - {"two_time", "responses"},
    also=(
        Clause(
            "network.bias_variances",
            lambda problem: freezes_biases(problem.network, problem.optimiser),
            "biases are frozen while weights decay, so that second moments do not close",
        ),
    ),
    words={
        "network.activation": "second moments close for linear networks; use method = 'auto'",
        "optimiser": "second moments are followed along gradient flow; use method = 'auto'",
        "network.outputs": "second moments are followed for one output; use method = 'auto'",
        "record.two_time": "second moments are followed at equal times; use method = 'auto'",
        "record.responses": "second moments are followed at equal times; use method = 'auto'",
    },
    cost="T P^2",
    error="exact",
)

_GRID = replace(
    _NEURONS,
    options=_NEURONS.options - {"temperature"},
    words={"optimiser.temperature": "noise on the weights has to be sampled; use method = 'sampled'"},
)
_MOMENTS_TOLERANCE = 1e-11
"""Of second moments, at no cost."""

_KINKED_TOLERANCE = 1e-4
"""Of gradient flow with kinks: neurons that stay at a kink, pushed back from both sides, make steps short."""


@renamed(first_seed="seed", accuracy="tolerance")
@dataclass(frozen=True)
class TwoLayer(Theory, kind="two-layer"):
    """One hidden layer at infinite width: neurons in the field of their own averages (BP22 App. E, F; BP23 App. F).

    Only equal-time averages couple the neurons of one hidden layer, so there is nothing to condition on and nothing to
    truncate. Three methods, of which "auto" takes the first that applies:

        "ode"      linear activation, one output, `GradientFlow`: equations of second moments, exact to `tolerance`
        "grid"     up to 3 Gaussian numbers a neuron (rank of the input kernel of all samples, test samples included,
                   plus outputs, plus gates), no kinks, no noise: averages by a rule that converges exponentially
        "sampled"  everything else: scrambled Sobol points with exact second moments, standard errors from replicas;
                   exact for linear networks

    Under gradient flow neurons may slide along a kink of their activation, pushed back from both sides. Outputs and
    features are well defined then, to 1e-3; phi', and with it the gradient kernels, are not.

    Args:
        particles: sampled neurons (a power of 2 is best).
        replicas: independent samples of neurons.
        seed: of the replicas seed, seed + 1, ...
        spacing: of the grid, in standard deviations; None is 0.05 (up to two numbers a neuron) or 0.15 (three).
        tolerance: error of a step of `GradientFlow`, instead of the optimiser's own; 1e-4 at least if there are kinks.
        method: "auto", "ode", "grid" or "sampled".
    """

    particles: int = 2**14
    replicas: int = 4
    seed: int = 0
    spacing: float | None = None
    tolerance: float = 1e-9
    method: str = "auto"

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=4))
        put(self, replicas=check.integer("replicas", self.replicas, least=1))
        put(self, seed=check.integer("seed", self.seed, most=2**62))
        if self.spacing is not None:
            put(self, spacing=check.number("spacing", self.spacing, least=1e-3, most=2.0))
        put(self, tolerance=check.number("tolerance", self.tolerance, least=1e-13, most=1e-2))
        check.choice("method", self.method, METHODS)

    @property
    def label(self) -> str:
        """One hidden layer, exactly."""
        return "two-layer"

    @property
    def scope(self) -> Scope:
        """One hidden layer; and what the method can do."""
        return {"ode": _MOMENTS, "grid": _GRID}.get(self.method, _NEURONS)

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Follow moments or neurons."""
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        with double_precision():
            method, layout = self._chosen(problem)
            statistics: dict[str, float] = {}
            count = self.replicas if method == "sampled" else 1
            Recorder(problem).check_memory(count)
            runs = [_Run(problem, steps, self.seed + k) for k in range(count)]
            for k, run in enumerate(runs):
                course = self._moments(problem, steps) if layout is None else self._neurons(layout, method, k, steps)
                run.follow(course, partial(_report, session, k * int(steps[-1]), count * int(steps[-1])))
            if layout is not None:
                statistics = {"dimensions": layout.dimensions, "replicas": count}
                statistics["particles"] = (
                    self.particles if method == "sampled" else neurons.grid_size(layout.dimensions, self.spacing)
                )
            arrays = over_replicas([run.arrays() for run in runs]) | pooled([run.neurons() for run in runs])
            factors = joined([run.factors() for run in runs])
        statistics["seconds"] = time.perf_counter() - began
        answer = from_arrays(problem, self, arrays, steps, statistics, factors)
        answer.data.attrs["method"] = method
        return answer

    def _chosen(self, problem: Problem) -> tuple[str, Layout | None]:
        """The method, and how neurons begin if there are any."""
        if self.method in ("auto", "ode") and not _MOMENTS.reasons(problem):
            return "ode", None
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
        if problem.record.between_times:
            times, signals = len(problem.record.at(problem.optimiser.steps)), 2 * layout.outputs * (1 + layout.outputs)
            fields = 8 * times * problem.recorded_samples * count * (1 + signals)
            check.memory("fields at all times", fields, "record less often or fewer samples, or reduce particles")
        return method, layout

    def _moments(self, problem: Problem, steps: NDArray[np.int64]) -> Iterator[_Seen]:
        equation, state = flow.linear_flow(problem)
        rates = problem.optimiser.rates()
        tolerance = min(self.tolerance, _MOMENTS_TOLERANCE)
        yield _Seen(_measure(equation, state))
        for start, stop in pairwise(steps):
            state = ode.after(equation, state, float(np.sum(rates[start:stop])), tolerance)
            yield _Seen(_measure(equation, state))

    def _neurons(self, layout: Layout, method: str, replica: int, steps: NDArray[np.int64]) -> Iterator[_Seen]:
        optimiser, seed = layout.problem.optimiser, self.seed + replica
        if method == "grid":
            process, state = layout.start(*neurons.grid(layout.dimensions, self.spacing))
        else:
            process, state = layout.start(neurons.sampled(layout.dimensions, self.particles, seed), None)
        record = layout.problem.record
        # The points of a grid are not equally likely: they are no sample of the neurons.
        count = min(record.neurons, self.particles) if method == "sampled" else 0

        def seen(measured: Measured, state: Any) -> _Seen:
            vectors = _vectors(process, state) if record.between_times else None
            return _Seen(measured, vectors, process.neurons(state, count) if count else None)

        if isinstance(optimiser, GradientFlow):
            yield seen(_measure(process, state), state)
            rates = optimiser.rates()
            tolerance = max(self.tolerance, _KINKED_TOLERANCE) if layout.problem.network.phi.kinks else self.tolerance
            for start, stop in pairwise(steps):
                state = ode.after(process, state, float(np.sum(rates[start:stop])), tolerance)
                yield seen(_measure(process, state), state)
            return
        assert isinstance(optimiser, SGD)
        walk = discrete(process, optimiser, layout.problem.samples.samples, seed)
        carry = (state, jax.tree.map(jnp.zeros_like, state))
        for start, stop in pairwise([0, *steps]):
            carry, measured = advance(walk, carry, jnp.asarray(start, int), jnp.asarray(stop, int))
            yield seen(measured, carry[0])


@eqx.filter_jit
def _measure(equation: flow.LinearFlow | Process, state: Any) -> Measured:
    return equation.measure(state)


@eqx.filter_jit
def _vectors(process: Process, state: Any) -> Vectors:
    return process.vectors(state)


class _Seen(NamedTuple):
    """What is looked at at a recorded time; None: was not asked for, or is not there."""

    measured: Measured
    vectors: Vectors | None = None
    neurons: Neurons | None = None


def _report(session: Session, before: int, total: int, step: int, loss: float) -> None:
    session.report(before + step, total, loss)


class _Run:
    """One replica: what is seen on its way."""

    def __init__(self, problem: Problem, steps: NDArray[np.int64], seed: int) -> None:
        self.problem, self.steps, self.seed, self.recorder = problem, steps, seed, Recorder(problem)
        self.seen: list[_Seen] = []

    def follow(self, course: Iterator[_Seen], report: Callable[[int, float], None]) -> None:
        """Keep everything, until the loss explodes."""
        for step, seen in zip(self.steps, course, strict=False):
            self.seen.append(jax.tree.map(np.asarray, seen))
            loss = self.recorder.losses(np.asarray(seen.measured.outputs))["loss"]
            report(int(step), float(loss))
            if self.problem.exploded(loss):
                break

    def arrays(self) -> Arrays:
        """Outputs, losses and kernels; what comes after an explosion is not a number."""
        found = self._over_time("measured", np.nan)
        kernels = (found.features, found.gradients, found.alignment, found.pseudo)
        arrays = self.recorder.predictions(found.outputs)
        return arrays | self.recorder.kernels(*(kernel[:, None] for kernel in kernels))

    def factors(self) -> Variables:
        """Of two-time kernels."""
        if self.seen[0].vectors is None:
            return {}
        found = self._over_time("vectors", 0.0)
        named = {"features": found.features, "gradients": found.gradients, "pseudo_gradients": found.pseudo}
        fields = {f"{name} 1": field[None] for name, field in named.items()}
        return two_time.factors(fields, exact=self.problem.rule.exact)

    def neurons(self) -> Arrays:
        """h and z = z' + w of some neurons; z is the same for all samples."""
        if self.seen[0].neurons is None:
            return {}
        found = self._over_time("neurons", np.nan)
        rest = np.random.default_rng(self.seed).standard_normal(found.readout.shape[1:]) * found.rest[:, None, None]
        shape = (len(found.readout), 1, found.preactivations.shape[1], *found.readout.shape[1:])
        z = np.broadcast_to((found.readout + rest)[:, None, None], shape)
        return {"preactivation": found.preactivations[:, None], "pregradient": z}

    def _over_time(self, name: str, missing: float) -> Any:
        """Arrays with a leading axis of time, with a number in the place of what is missing."""
        found = [getattr(seen, name) for seen in self.seen]
        nothing = jax.tree.map(lambda leaf: np.full_like(leaf, missing), found[0])
        return jax.tree.map(lambda *leaves: np.stack(leaves), *found, *[nothing] * (len(self.steps) - len(found)))


def _against_grid(problem: Problem, layout: Layout) -> str:
    if problem.optimiser.shakes:
        return "noise on the weights has to be sampled"
    if layout.dimensions > neurons.GRID_DIMENSIONS:
        return f"a neuron begins with {layout.dimensions} Gaussian numbers, a grid affords {neurons.GRID_DIMENSIONS}"
    return ""
