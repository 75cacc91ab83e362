"""The lazy limit: kernels stand still, and the outputs obey a linear model."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..base import check
from ..base.arrays import Arrays, Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..base.statistics import mean_and_error
from ..kernels import dynamics
from ..kernels.dynamics import NOT_STILL
from ..kernels.linear_model import LinearModel
from ..kernels.static import StaticKernel
from ..problem.gradient_flow import GradientFlow
from ..problem.optimisers import SGD
from ..problem.theory import LAYERED, Clause, Scope, Theory
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import Variables, from_arrays

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


@renamed(draws="particles")
@dataclass(frozen=True)
class Lazy(Theory, kind="lazy"):
    """The limit gamma_0 -> 0: the kernels of infinite width at initialisation, frozen (BP22 section 5, BP23 Table 2).

    The richness of the problem is ignored: comparing with `InfiniteWidth` shows what feature learning does. Outputs
    are exact for the frozen kernel: df/dt = K Delta by modes of K (squared loss), or by steps or an adaptive solver.

    Networks in the "ntk" parameterisation that are not `centred` start from random outputs: the prior N(0, nngp) over
    networks is then pushed through training (PDLT eqs. (10.40), (10.41)). `outputs` are means over networks,
    `outputs_deviation` their standard deviations, and the loss is the mean over networks.

    Args:
        particles: initial outputs that are drawn where the mean and the deviation have no closed form, that is with
            random initial outputs and another loss than the squared one, or with minibatches.
        seed: of those.
    """

    particles: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=2))
        put(self, seed=check.integer("seed", self.seed))

    @property
    def label(self) -> str:
        """The lazy limit."""
        return "lazy"

    @property
    def scope(self) -> Scope:
        """Where a fixed kernel says it all."""
        return Scope(
            optimisers=(SGD, GradientFlow),
            options=frozenset({"momentum", "batch_size", LAYERED}),
            activations="no jumps",
            richness="ignored",
            also=(Clause("rule", _unknown, "it does not define `transmission`, so that its static NTK is unknown"),),
            words={"optimiser.weight_decay": NOT_STILL, "optimiser.temperature": NOT_STILL},
            cost="P^3",
            error="exact",
        )

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Train the linear model."""
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        _check_memory(problem, len(steps))
        with double_precision():
            model, recorder = LinearModel(problem, steps, session.report), Recorder(problem)
            if not problem.network.starts_at_random:
                arrays = recorder.predictions(model.from_zero())
            elif dynamics.solvable(problem):
                arrays = _over_networks(recorder, model)
            else:
                arrays = _over_draws(recorder, model.drawn(self.particles, self.seed))
            factors: Variables = {}
            if problem.record.kernels or problem.record.between_times:
                still = _Still(problem, arrays["outputs"])
                arrays |= still.kernels(recorder)
                factors = still.over_times(recorder)
        session.report(problem.optimiser.steps, problem.optimiser.steps, float(arrays["loss"][-1]))
        return from_arrays(problem, self, arrays, steps, {"seconds": time.perf_counter() - began}, factors)


def _check_memory(problem: Problem, times: int) -> None:
    """Refuse kernels that do not fit, before the first of them is computed. How many there are at once was measured."""
    samples, network = problem.samples, problem.network
    outputs = 4 * times * (samples.samples + samples.test_samples) * samples.outputs
    check.memory("outputs at all recorded times", 8 * outputs, "record less often (record.every), or use fewer samples")
    numbers = 14 * (samples.samples + samples.test_samples) ** 2
    if problem.record.kernels or problem.record.between_times:
        pairs = len(problem.kernel_rows) * problem.recorded_samples
        numbers += network.hidden_layers * pairs * (11 + (4 + times) * samples.outputs**2)
    remedy = "use fewer samples, or record fewer of them (record.samples) or no kernels (record.kernels)"
    check.memory("kernels between all samples", 8 * numbers, remedy)


def _over_networks(recorder: Recorder, model: LinearModel) -> Arrays:
    """Mean and deviation over networks that begin with random outputs, in closed form."""
    problem, variance = recorder.problem, model.variance()
    outputs = problem.samples.outputs
    arrays = recorder.predictions(model.from_zero())
    arrays |= recorder.outputs(np.repeat(np.sqrt(variance)[:, :, None], outputs, axis=2), "_deviation")
    for part in recorder.parts:
        # E (f - y)^2 = (E f - y)^2 + variance
        weight = problem.loss.weight(part.rows.stop - (part.rows.start or 0))
        name = f"{part.prefix}loss"
        arrays[name] = arrays[name] + 0.5 * weight * outputs * variance[:, part.rows].sum(axis=1)
    return arrays


def _over_draws(recorder: Recorder, outputs: Floats) -> Arrays:
    """Mean, its error and deviation from drawn initial outputs."""
    losses = recorder.losses(outputs)
    arrays = recorder.outputs(outputs.mean(axis=1)) | {name: loss.mean(axis=1) for name, loss in losses.items()}
    arrays |= recorder.outputs(outputs.std(axis=1, ddof=1), "_deviation")
    arrays |= recorder.outputs(_paired_error(outputs), "_error")
    return arrays | {f"{name}_error": _paired_error(loss) for name, loss in losses.items()}


def _paired_error(values: Floats) -> Floats:
    """Standard error of the mean over draws (axis 1), which come in pairs of opposite sign."""
    pairs = 0.5 * (values[:, : values.shape[1] // 2] + values[:, values.shape[1] // 2 :])
    return mean_and_error(pairs, axis=1)[1]


def _unknown(problem: Problem) -> bool:
    """Whether nobody has said what the rule's tangent kernel is before learning."""
    try:
        return math.isnan(problem.rule.transmission)
    except InvalidInput:
        return True


class _Still:
    """Kernels that keep their initial values; those of pseudo-gradients may follow the errors, as Hebb's do."""

    def __init__(self, problem: Problem, outputs: Floats) -> None:
        self.problem, samples = problem, problem.samples
        x, kernel = samples.x[: problem.recorded_samples], StaticKernel.of(problem)
        self.layers, self.identity = kernel.layers(x), np.eye(samples.outputs)
        self.tested = kernel.layers(samples.x_test, x) if len(problem.kernel_rows) > len(x) else None
        targets = jnp.asarray(samples.y[: len(x)])
        errors = jax.vmap(lambda f: problem.loss.error(f, targets))(jnp.asarray(outputs))
        self.errors = problem.loss.weight(samples.samples) * errors

    def kernels(self, recorder: Recorder) -> Arrays:
        """At every recorded time, as views of one array."""
        feature, ntk = self._rows("feature"), np.einsum("ab,cd->acbd", self._rows("ntk"), self.identity)
        gradient, alignment = (self._signals(self._rows(name)) for name in ("gradient", "alignment"))
        found = recorder.kernels(feature, gradient, alignment, ntk=ntk)
        if not found:
            return {}
        times = len(self.errors)
        arrays = {name: np.broadcast_to(value, (times, *value.shape)) for name, value in found.items()}
        pseudo = self.problem.rule.static_pseudo_kernel(self.layers, self.errors)
        return arrays | {"pseudo_gradient_kernel": np.asarray(pseudo)}

    def over_times(self, recorder: Recorder) -> Variables:
        """Between all times."""
        if not self.problem.record.between_times:
            return {}
        pseudo = None if self.problem.rule.exact else self._pseudo()
        return recorder.unmoved(self.layers.feature, self.layers.gradient, self.layers.alignment, pseudo)

    def _pseudo(self) -> Floats:
        """<gt(t) gt(s)>: the rule's own formula for samples that are repeated at all times."""
        times, samples, outputs = self.errors.shape
        needed = 8 * len(self.layers.feature) * (times * samples * outputs) ** 2
        check.memory("two-time kernels of pseudo-gradients", 3 * needed, "record less often, or fewer samples")
        kernels = (self.layers.feature, self.layers.slope, self.layers.gradient)
        tiled = _Repeated(*(np.tile(kernel, (1, times, times)) for kernel in kernels))
        found = self.problem.rule.static_pseudo_kernel(tiled, self.errors.reshape(1, -1, outputs))
        return np.asarray(found).reshape(-1, times, samples, outputs, times, samples, outputs)

    def _rows(self, name: str) -> Floats:
        """Of all rows that kernels have."""
        parts = [getattr(layers, name) for layers in (self.layers, self.tested) if layers is not None]
        return np.concatenate(parts, axis=-2)

    def _signals(self, kernel: Floats) -> Floats:
        """The same for every output, and none between outputs."""
        return np.asarray(np.einsum("lpq,ab->lpaqb", kernel, self.identity))


class _Repeated(NamedTuple):
    """What a rule asks of static kernels."""

    feature: Floats
    slope: Floats
    gradient: Floats
