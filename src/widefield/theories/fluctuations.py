"""Fluctuations: how much networks of finite width differ from one another, at leading order, in the lazy limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Arrays, Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..gaussian.sample_pairs import Pairs
from ..kernels.fluctuations import KernelFluctuations, SaddlePoint, kernel_fluctuations, saddle_point
from ..problem.losses import SquaredError
from ..problem.optimisers import SGD
from ..problem.rules import GradientDescent
from ..problem.theory import Clause, Scope, Theory
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import from_arrays

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


@renamed(first_seed="seed")
@dataclass(frozen=True)
class Fluctuations(Theory, kind="fluctuations"):
    """Mean and standard deviation over networks of one width: kernels scatter by N^(-1/2) (BP22 App. P.7, BP23 App. H).

    Gradient descent with the squared loss in the lazy limit (whatever `network.richness` is), where kernels keep their
    initial values. Means are those of infinite width. With every variable X there is `X_deviation`, the standard
    deviation of X over networks, for feature_kernel, gradient_kernel, ntk, outputs and test_outputs; outputs follow the
    fluctuations dK of the NTK by linear response,

        f(t+1) = f(t) + eta K Delta(t),        df(t+1) = df(t) + eta [dK Delta(t) - K df(t)].

    `feature_kernel_covariance`, `gradient_kernel_covariance` and `feature_gradient_covariance` hold the covariances of
    all layers and pairs of training samples, and `ntk_covariance` that of the NTK; the samples of a pair are in
    `pair_sample` and `pair_sample_`.

    For one or two samples (training and test) there is no sampling; otherwise attribute `relative_error` is that of
    variances, a standard error. Corrections are of relative order depth / width. Time and memory grow with the square
    of the number of pairs of samples: meant for up to about 20 samples.

    Args:
        width: number N of neurons in a hidden layer (times its `width_ratios`).
        points: Sobol points for averages of four functions; a power of 2.
        replicas: independent sets of these.
        seed: of the replicas seed, seed + 1, ...
    """

    width: int
    points: int = 2**14
    replicas: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, width=check.integer("width", self.width, least=1))
        put(self, points=check.integer("points", self.points, least=2))
        if self.points & (self.points - 1):
            raise InvalidInput(f"points = {self.points} must be a power of 2, for example {2**14}")
        put(self, replicas=check.integer("replicas", self.replicas, least=2))
        put(self, seed=check.integer("seed", self.seed, most=2**62))

    @property
    def label(self) -> str:
        """Fluctuations at width N."""
        return f"fluctuations at width {self.width}"

    @property
    def scope(self) -> Scope:
        """Gradient descent of lazy networks."""
        return Scope(
            rules=(GradientDescent,),
            losses=(SquaredError,),
            optimisers=(SGD,),
            options=frozenset(),
            activations="no jumps",
            outputs=1,
            richness="ignored",
            random_start=False,
            also=(
                Clause(
                    "network.centred",
                    lambda problem: not problem.network.centred and not problem.network.starts_at_random,
                    "at finite width the first outputs scatter too; set it to true",
                ),
            ),
            cost="(P^2)^2 S",
            error="of relative order L / N",
        )

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Compute the covariance of the kernels and what it does to the outputs."""
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        samples, network = problem.samples, problem.network
        widths = network.widths(self.width)
        x = samples.everything
        point = saddle_point(network, x)
        pairs = Pairs.within(samples.samples, samples.test_samples)
        unknown = problem.optimiser.steps, float("nan")
        found = kernel_fluctuations(
            point,
            tuple(n / widths[-1] for n in widths),
            pairs,
            points=self.points,
            replicas=self.replicas,
            seed=self.seed,
            # Nearly all of the time goes into layers, none into steps.
            report=lambda done, total: session.report(done * problem.optimiser.steps // (total + 1), *unknown),
        )
        lazy = _Lazy(problem, point, found, samples.kernel(everything=True), widths[-1])
        recorder = Recorder(problem)
        with double_precision(), np.errstate(over="ignore", invalid="ignore"):
            arrays = lazy.training(recorder, steps)
        if problem.record.kernels:
            arrays |= lazy.kernels(recorder, len(steps))
        session.report(problem.optimiser.steps, problem.optimiser.steps, float(arrays["loss"][-1]))
        statistics = {"relative_error": found.relative_error, "seconds": time.perf_counter() - began}
        factors = recorder.unmoved(point.feature_kernel, point.gradient_kernel)
        factors |= lazy.covariances() if problem.record.kernels else {}
        return from_arrays(problem, self, arrays, steps, statistics, factors)


@dataclass(frozen=True, eq=False)
class _Lazy:
    """Everything that is written down, from the kernels and their covariance. Rows: training samples, then test."""

    problem: Problem
    point: SaddlePoint
    found: KernelFluctuations
    inputs: Float[Floats, "n n"]
    width: int

    def ntk(self) -> tuple[Float[Floats, "n n"], Float[Floats, "q q"]]:
        """The NTK and the covariance of its pairs at this width."""
        biases = self.problem.network.train_biases
        gradients = np.concatenate([self.point.gradient_kernel, np.ones_like(self.inputs)[None]])
        features = np.concatenate([self.inputs[None], self.point.feature_kernel]) + (1.0 if biases else 0.0)
        covariance = self.found.ntk(self.point, self.inputs, train_biases=biases) / self.width
        return np.sum(gradients * features, axis=0), covariance

    def training(self, recorder: Recorder, steps: NDArray[np.int64]) -> Arrays:
        """Outputs, their deviations and losses at the recorded steps."""
        samples = self.problem.samples
        kernel, covariance = self.ntk()
        rates = self.problem.optimiser.rates() * self.problem.loss.weight(samples.samples)
        wanted, outputs, deviations = set(steps.tolist()), [], []
        for step, (f, response) in enumerate(_descent(kernel, samples.y[:, 0], self.found.pairs, rates)):
            if step in wanted:
                outputs.append(f)
                variance = np.einsum("nq,nq->n", response @ covariance, response)
                deviations.append(np.sqrt(np.maximum(variance, 0.0)))
        values, scatter = (np.stack(found)[..., None] for found in (outputs, deviations))
        return recorder.predictions(values) | recorder.outputs(scatter, "_deviation")

    def kernels(self, recorder: Recorder, times: int) -> Arrays:
        """Kernels of the recorded samples, which do not move, and their deviations."""
        gradient = self.point.gradient_kernel[..., :, None, :, None]
        found = recorder.kernels(self.point.feature_kernel, gradient)
        variances = np.einsum("ilpilp->ilp", self.found.covariance) / self.width
        rows, columns = recorder.rows, np.arange(recorder.recorded)
        moving = {"feature_kernel": variances[0], "gradient_kernel": variances[1], "ntk": np.diagonal(self.ntk()[1])}
        for name, variance in moving.items():
            deviation = self.found.pairs.matrix(np.sqrt(np.maximum(variance, 0.0)))[..., rows, :][..., columns]
            several = name != "feature_kernel"
            value = deviation[..., :, None, :, None] if several else deviation
            found |= recorder.by_part(f"{name}_deviation", value, 4 if several else 2)
        return {name: np.broadcast_to(value, (times, *value.shape)) for name, value in found.items()}

    def covariances(self) -> dict[str, Any]:
        """Of all layers and pairs of recorded samples."""
        kept, fewer = self._recorded()
        joint = self.found.covariance[:, :, kept][..., kept] / self.width
        paired = ("layer", "pair", "layer_", "pair_")
        return {
            "feature_kernel_covariance": (paired, joint[0, :, :, 0]),
            "gradient_kernel_covariance": (paired, joint[1, :, :, 1]),
            "feature_gradient_covariance": (paired, joint[0, :, :, 1]),
            "ntk_covariance": (("pair", "pair_"), self.ntk()[1][np.ix_(kept, kept)]),
            "pair_sample": ("pair", fewer.rows),
            "pair_sample_": ("pair", fewer.columns),
        }

    def _recorded(self) -> tuple[NDArray[np.intp], Pairs]:
        """Numbers of the pairs of recorded samples, and these pairs."""
        pairs = self.found.pairs
        kept = np.flatnonzero(pairs.columns < self.problem.recorded_samples)
        return kept, Pairs(pairs.rows[kept], pairs.columns[kept])


def _descent(
    kernel: Float[Floats, "n n"], targets: Float[Floats, " p"], pairs: Pairs, rates: Float[Floats, " t"]
) -> Iterator[tuple[Float[Floats, " n"], Float[Floats, "n q"]]]:
    """Outputs f of gradient descent and df/dK over the pairs of K, before every step and after the last."""
    train = len(targets)
    outputs, response = np.zeros(len(kernel)), np.zeros((len(kernel), len(pairs)))
    yield outputs, response
    numbers, apart = np.arange(len(pairs)), np.flatnonzero(~pairs.equal)
    for rate in rates:
        errors = np.concatenate([targets - outputs[:train], np.zeros(len(kernel) - train)])
        direct = np.zeros_like(response)  # d(K Delta)/dK: a pair (a, b) is K_ab and K_ba
        direct[pairs.rows, numbers] = errors[pairs.columns]
        direct[pairs.columns[apart], apart] = errors[pairs.rows[apart]]
        response = response + rate * (direct - kernel[:, :train] @ response[:train])
        outputs = outputs + rate * kernel @ errors
        yield outputs, response
