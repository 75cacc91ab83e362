"""Alternating Monte Carlo: the published way to solve the infinite-width equations."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Arrays
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate
from ..base.precision import double_precision
from ..kernels.static import StaticKernel
from ..problem.optimisers import SGD
from ..problem.theory import Theory
from ..solvers.alternating.equations import Equations, Rule
from ..solvers.alternating.iteration import Iteration, Solution, alternate
from ..solvers.alternating.noise import Sampling, counts
from ..solvers.alternating.order import Order
from ..trajectory.trajectory import Trajectory
from .recording import from_arrays, over_replicas

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


RESPONSES = ("auto", "jacobian", "stein")
_JITTER = {"jacobian": 1e-6, "stein": 1e-4}


@dataclass(frozen=True)
class AlternatingMonteCarlo(Theory, kind="alternating-monte-carlo"):
    """Infinite width by fixed-point iteration over all times at once (BP22 Algorithm 1, BP23 Algorithm 1).

    Every iteration draws the fields of each layer from the kernels and responses of the last one, estimates these anew,
    and moves a fraction `damping` of the way. An independent check of `InfiniteWidth`, which solves the same equations
    in one pass and much faster: here an iteration costs (P T)^3, and errors fall as samples^(-1/2) at best.

    Attributes of the answer: `iterations`, `change` (relative change of the kernels in the last one), `converged`.

    Args:
        samples: of the fields of a layer in every iteration.
        damping: fraction of the way to the new estimates that all order parameters move.
        iterations: most iterations.
        tolerance: stop at this relative change of the kernels; `NotAccurate` warns if it was not reached.
        seed: of the replicas seed, seed + 1, ...
        responses: "jacobian" (implicit differentiation of samples), "stein" (correlations with the noise) or "auto":
            Jacobians, but Stein's lemma for activations with kinks, whose phi'' no sample sees.
        fresh: new random numbers in every iteration, as published; otherwise the same ones, with which it converges.
        matched: make second moments of the noise exact (and linear networks); needs more samples than sources.
        settle: after so many iterations the damping falls as 1/k, which averages noise away; never, if at least
            `iterations`.
        jitter: added to the diagonals of covariances, relative to their means; None: 1e-6, or 1e-4 with "stein".
        jacobian_samples: how many samples are differentiated.
        replicas: independent solutions, whose scatter gives the standard error of every number.
    """

    samples: int = 2000
    damping: float = 0.6
    iterations: int = 50
    tolerance: float = 5e-3
    seed: int = 0
    responses: str = "auto"
    fresh: bool = True
    matched: bool = False
    settle: int = 20
    jitter: float | None = None
    jacobian_samples: int = 100
    replicas: int = 4

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        for name in ("samples", "iterations", "jacobian_samples", "replicas"):
            put(self, **{name: check.integer(name, getattr(self, name), least=1)})
        put(self, damping=check.number("damping", self.damping, above=0.0, most=1.0))
        put(self, tolerance=check.number("tolerance", self.tolerance, least=0.0))
        put(self, seed=check.integer("seed", self.seed, most=2**62))
        check.choice("responses", self.responses, RESPONSES)
        check.flag("fresh", self.fresh)
        check.flag("matched", self.matched)
        put(self, settle=check.integer("settle", self.settle))
        if self.jitter is not None:
            put(self, jitter=check.number("jitter", self.jitter, above=0.0, most=1.0))

    @property
    def label(self) -> str:
        """Alternating Monte Carlo."""
        return "alternating Monte Carlo"

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Iterate to a fixed point, once for every replica."""
        check_supported(problem)
        self._check_memory(problem)
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        sampling = self.sampling(problem)
        iteration = Iteration(self.damping, self.iterations, self.tolerance, self.fresh, self.settle)
        samples, found, solutions = problem.samples, [], []
        with double_precision():
            equations = Equations.of(problem)
            self._check_matching(equations)
            start = StaticKernel(problem.network, problem.rule).layers(samples.everything)
            for replica in range(self.replicas):
                watch = _Reporter(problem, session, replica * self.iterations, self.replicas * self.iterations)
                solution = alternate(equations, start, sampling, iteration, seed=self.seed + replica, watch=watch)
                found.append(_recorded(problem, equations, solution, steps))
                solutions.append(solution)
        change = max(float(solution.change[-1]) for solution in solutions)
        statistics = {
            "seconds": time.perf_counter() - began,
            "iterations": max(len(solution.change) for solution in solutions),
            "change": change,
            "converged": int(change <= self.tolerance),
            "replicas": self.replicas,
        }
        if change > self.tolerance:
            warnings.warn(
                f"tolerance = {self.tolerance:g} was not reached: kernels still change by {change:.2g} after "
                f"{self.iterations} iterations; use more samples or iterations, or InfiniteWidth",
                NotAccurate,
                stacklevel=3,
            )
        return from_arrays(problem, self, over_replicas(found), steps, statistics)

    def sampling(self, problem: Problem) -> Sampling:
        """The settings of one estimate, with a choice made where there is one."""
        phi, gated = problem.network.phi, problem.rule.gated
        smooth = gated or not phi.kinks
        if self.responses == "jacobian" and not smooth and problem.network.hidden_layers > 1:
            raise InvalidInput(
                f"responses = 'jacobian' misses phi'', a delta function, at the kink of activation = {phi.name!r}; "
                "use 'stein' or 'auto'"
            )
        by_jacobian = self.responses == "jacobian" or (self.responses == "auto" and smooth)
        responses: Literal["jacobian", "stein"] = "jacobian" if by_jacobian else "stein"
        jitter = _JITTER[responses] if self.jitter is None else self.jitter
        differentiated = min(self.jacobian_samples, self.samples)
        return Sampling(self.samples, responses, self.matched, jitter, differentiated)

    def _check_matching(self, equations: Equations) -> None:
        """Raise if there are more sources to match than samples to do it with."""
        depth = equations.depth
        sizes = [counts(equations, first=k == 1, last=k == depth) for k in range(1, depth + 1)]
        sources = max(sum(size.values()) for size in sizes)
        if self.matched and self.samples <= sources:
            raise InvalidInput(
                f"samples = {self.samples} must exceed the {sources} sources of a layer if matched = true; use more "
                "samples or matched = false"
            )

    def _check_memory(self, problem: Problem) -> None:
        """Raise before starting what would not fit."""
        rule, depth = Rule.of(problem.rule), problem.network.hidden_layers
        n = (problem.samples.samples + problem.samples.test_samples) * (problem.optimiser.steps + 1)
        kept = 3 if rule.exact else 4 + 3 * (rule.kind == "feedback")
        matrices = 2 * depth * kept + 16  # both iterates of every layer, and what a layer needs
        needed = 8 * (matrices * n**2 + 16 * n * self.samples)
        check.memory("kernels between all times", needed, "use fewer steps, samples or test samples, or InfiniteWidth")


def check_supported(problem: Problem) -> None:
    """Raise if the problem has something that these equations, or this way to solve them, do not cover."""
    network, optimiser, record = problem.network, problem.optimiser, problem.record
    Rule.of(problem.rule)
    if not isinstance(optimiser, SGD):
        raise InvalidInput(
            f"optimiser = {optimiser.kind!r} has no steps on a grid of times; use SGD with a small learning_rate, or "
            "InfiniteWidth"
        )
    refused = {
        f"optimiser.temperature = {optimiser.temperature:g}: Langevin noise is": optimiser.temperature > 0,
        f"network.outputs = {problem.samples.outputs}: several outputs are": problem.samples.outputs > 1,
        f"network.parameterisation = {network.parameterisation!r}: networks that are lazy at infinite width are": (
            network.parameterisation != "mean-field"
        ),
        "record.two_time = true: two-time kernels as factors are": record.two_time,
        "record.responses = true: response functions as factors are": record.responses,
    }
    for what, unwanted in refused.items():
        if unwanted:
            raise InvalidInput(f"{what} not available in alternating Monte Carlo; use InfiniteWidth")
    if network.richness == 0:
        raise InvalidInput("network.richness = 0: the outputs are divided by it; use Lazy, or a small richness")


class _Reporter:
    """Tells the session about every iteration."""

    def __init__(self, problem: Problem, session: Session, done: int, total: int) -> None:
        self.problem, self.session, self.done, self.total = problem, session, done, total

    def __call__(self, order: Order, outputs: Any) -> None:
        """Report the loss at the last time."""
        samples = self.problem.samples
        last = outputs[len(outputs) - samples.samples - samples.test_samples :][: samples.samples, None]
        self.done += 1
        self.session.report(self.done, self.total, float(self.problem.loss.total(last, jnp.asarray(samples.y))))


def _recorded(problem: Problem, equations: Equations, solution: Solution, steps: NDArray[np.int64]) -> Arrays:
    """What the record asks for, at the recorded steps."""
    samples, loss, outputs = problem.samples, problem.loss, solution.outputs[steps, :, None]
    train, recorded = samples.samples, problem.recorded_samples

    def total(part: slice, targets: NDArray[np.float64]) -> NDArray[Any]:
        return np.array([float(loss.total(jnp.asarray(f), jnp.asarray(targets))) for f in outputs[:, part]])

    arrays = {"outputs": outputs[:, :recorded], "loss": total(slice(train), samples.y)}
    if samples.test_samples:
        arrays["test_outputs"] = outputs[:, train:]
        arrays["test_loss"] = total(slice(train, None), samples.y_test)
    if not problem.record.kernels:
        return arrays
    kernels = _equal_time_kernels(problem, equations, solution.order, steps)
    parts = {"": slice(recorded)} | ({"test_": slice(train, None)} if problem.record.test_kernels else {})
    for part, rows in parts.items():
        for name, kernel in kernels.items():
            if not (part and name == "pseudo_gradient_kernel"):
                arrays[f"{part}{name}"] = kernel[..., rows, :, :recorded, :]
    for name in ("feature_kernel", "test_feature_kernel"):
        if name in arrays:
            arrays[name] = arrays[name][..., 0, :, 0]
    return arrays


def _equal_time_kernels(
    problem: Problem, equations: Equations, order: Order, steps: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Kernels (time, layer, sample, 1, sample, 1) of all samples, and the NTK (BP23 eq. (4))."""
    # Pseudo-gradients of Hebb's rule hold the weight of a sample: of the whole set in a record, of the batch in a step.
    scale = problem.loss.weight(problem.samples.samples) / float(equations.weight)
    scale = scale if equations.rule.kind == "hebb" else 1.0

    def at(kernels: tuple[Any, ...]) -> NDArray[Any]:
        found = np.moveaxis(np.asarray(order.at_equal_times(kernels, equations.times)), 0, 1)
        return found[steps]

    features, gradients, alignment = at(order.features), at(order.gradients), at(order.aligned)
    pseudo = at(order.pseudo) if order.pseudo else gradients
    alignment = alignment * scale
    inputs = np.asarray(equations.inputs @ equations.inputs.T)
    below = np.concatenate([np.broadcast_to(inputs, features[:, :1].shape), features], axis=1)
    above = np.concatenate([alignment, np.ones_like(features[:, :1])], axis=1)
    ntk = np.sum(above * (below + problem.network.train_biases), axis=1)
    kernels = {
        "feature_kernel": features,
        "gradient_kernel": gradients,
        "alignment_kernel": alignment,
        "pseudo_gradient_kernel": pseudo * scale**2,
        "ntk": ntk,
    }
    return {name: kernel[..., :, None, :, None] for name, kernel in kernels.items()}
