"""Networks of one finite width to order 1/n: mean and spread of their outputs while they train."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..base import check
from ..base.arrays import Arrays
from ..base.describe import put
from ..base.errors import NotAccurate
from ..base.numbers import double_precision
from ..kernels.dynamics import NOT_STILL
from ..problem.gradient_flow import GradientFlow
from ..problem.losses import SquaredError
from ..problem.optimisers import SGD
from ..problem.rules import GradientDescent
from ..problem.schedules import elapsed
from ..problem.theory import LAYERED, RECORDS, Clause, Scope, Theory
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import from_arrays

if TYPE_CHECKING:
    from ..base.session import Session
    from ..effective.trained_networks import TrainedEnsemble
    from ..problem.problem import Problem

_LARGE = 0.5
"""An order 1/n of this fraction of infinite width makes the next ones a concern."""


@dataclass(frozen=True)
class EffectiveTheory(Theory, kind="effective-theory"):
    """Outputs of networks of a finite width to order 1/n: mean and deviation over initialisations (PDLT chapter inf).

    Infinite width in the lazy limit, plus fluctuations of the tangent kernel from network to network, plus its learning
    at leading order. `outputs` are means over networks, `outputs_deviation` standard deviations, and the loss is the
    mean over networks. In the parameterisation "mean-field" features learn by gamma_0^2 at any width, so that the
    richness must be small as for `Perturbative`. `NotAccurate` warns where a part of order 1/n is large.

    Time and memory go like the fourth power of the number of samples; `effective.trained_outputs` has the end of
    training for many samples.

    Args:
        width: of the hidden layers (times `network.width_ratios`).
        replicas: independent samples for averages of four activations, whose scatter gives standard errors.
        seed: of the first.
    """

    width: int
    replicas: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, width=check.integer("width", self.width, least=1))
        put(self, replicas=check.integer("replicas", self.replicas, least=2))
        put(self, seed=check.integer("seed", self.seed))

    @property
    def label(self) -> str:
        """The order that is taken."""
        return f"order 1/n, N = {self.width}"

    @property
    def scope(self) -> Scope:
        """Where the expansion is known."""
        return Scope(
            rules=(GradientDescent,),
            losses=(SquaredError,),
            optimisers=(SGD, GradientFlow),
            options=frozenset({LAYERED}),
            activations="smooth",
            richness="positive",
            records=frozenset(RECORDS) - {"test_kernels", "two_time", "responses"},
            also=(Clause("optimiser.learning_rate", _changing, "its steps have one learning rate for all times"),),
            words={"optimiser.weight_decay": NOT_STILL, "optimiser.temperature": NOT_STILL},
            cost="(P + tests)^4 L, and P^4 for each recorded time",
            error="of order 1/n^2, standard errors",
        )

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Tensors before training, and at every recorded time what training makes of them."""
        from ..effective.trained_networks import Initial

        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        network, samples = problem.network, problem.samples
        with double_precision():
            rates = problem.optimiser.layer_rates(network)
            initial = Initial.of(
                network,
                samples.everything,
                network.widths(self.width),
                weight_rates=tuple(map(float, rates.weights)),
                bias_rates=tuple(map(float, rates.biases)),
                replicas=self.replicas,
                seed=self.seed,
                progress=False,
            )
            if network.centred:
                initial = initial.centred()
            scale = network.richness * (math.sqrt(initial.width) if network.parameterisation == "mean-field" else 1.0)
            weight = problem.loss.weight(samples.samples)
            found = []
            for now in steps:
                found.append(initial.trained(scale * samples.y, **_until(problem, int(now), weight)))
                session.report(int(now), problem.optimiser.steps, math.nan)
            arrays = _arrays(problem, found, scale)
        largest = max(each.expansion for each in found)
        if largest > _LARGE:
            warnings.warn(
                f"parts of order 1/n are {largest:.0%} of infinite width: take a larger width or smaller richness",
                NotAccurate,
                stacklevel=2,
            )
        seconds = time.perf_counter() - began
        return from_arrays(problem, self, arrays, steps, {"seconds": seconds, "expansion": largest})


def _changing(problem: Problem) -> bool:
    """Whether steps of descent have several learning rates; for flow time alone counts."""
    return isinstance(problem.optimiser, SGD) and bool(np.ptp(problem.optimiser.rates()) > 0)


def _until(problem: Problem, now: int, weight: float) -> dict[str, float]:
    """Time and rate in units of the loss sum (z - y)^2 / 2."""
    optimiser = problem.optimiser
    if isinstance(optimiser, GradientFlow):
        return {"time": weight * float(elapsed(optimiser.rates())[now])}
    assert isinstance(optimiser, SGD)
    rate = weight * float(optimiser.rates()[0])
    return {"time": now * rate, "learning_rate": rate}


def _arrays(problem: Problem, found: list[TrainedEnsemble], scale: float) -> Arrays:
    """Means, deviations, errors, and losses: E (f - y)^2 = (E f - y)^2 + variance."""
    recorder = Recorder(problem)
    variance = np.stack([each.variance for each in found]) / scale**2
    arrays = recorder.predictions(np.stack([each.mean for each in found]) / scale)
    arrays |= recorder.outputs(np.sqrt(variance), "_deviation")
    if any(each.mean_error.any() for each in found):
        arrays |= recorder.outputs(np.stack([each.mean_error for each in found]) / scale, "_error")
    for part in recorder.parts:
        share = problem.loss.weight(part.rows.stop - (part.rows.start or 0))
        name = f"{part.prefix}loss"
        arrays[name] = arrays[name] + 0.5 * share * variance[:, part.rows].sum(axis=(1, 2))
    return arrays
