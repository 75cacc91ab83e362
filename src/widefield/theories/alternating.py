"""Alternating Monte Carlo: the published way to solve the infinite-width equations."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Arrays
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..kernels.static import StaticKernel
from ..problem.optimisers import SGD
from ..problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, GradientDescent, Hebb
from ..problem.theory import Clause, Scope, Theory
from ..solvers.alternating.equations import Equations, Rule
from ..solvers.alternating.iteration import Iteration, Solution, alternate
from ..solvers.alternating.noise import Sampling, counts
from ..solvers.alternating.order import Order
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import from_arrays, over_replicas

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem


RESPONSES = ("auto", "jacobian", "stein")
_JITTER = {"jacobian": 1e-6, "stein": 1e-4}


@renamed(samples="particles", jacobian_samples="jacobian_particles")
@dataclass(frozen=True)
class AlternatingMonteCarlo(Theory, kind="alternating-monte-carlo"):
    """Infinite width by fixed-point iteration over all times at once (BP22 Algorithm 1, BP23 Algorithm 1).

    Every iteration draws the fields of each layer from the kernels and responses of the last one, estimates these anew,
    and moves a fraction `damping` of the way. An independent check of `InfiniteWidth`, which solves the same equations
    in one pass and much faster: here an iteration costs (P T)^3, and errors fall as particles^(-1/2) at best.

    Attributes of the answer: `iterations`, `change` (relative change of the kernels in the last one), `converged`.

    Args:
        particles: samples of the fields of a layer in every iteration.
        damping: fraction of the way to the new estimates that all order parameters move.
        iterations: most iterations.
        tolerance: stop at this relative change of the kernels; `NotAccurate` warns if it was not reached.
        seed: of the replicas seed, seed + 1, ...
        responses: "jacobian" (implicit differentiation of particles), "stein" (correlations with the noise) or "auto":
            Jacobians, but Stein's lemma for activations with kinks, whose phi'' no particle sees.
        fresh: new random numbers in every iteration, as published; otherwise the same ones, with which it converges.
        matched: make second moments of the noise exact (and linear networks); needs more particles than sources.
        settle: after so many iterations the damping falls as 1/k, which averages noise away; never, if at least
            `iterations`.
        jitter: added to the diagonals of covariances, relative to their means; None: 1e-6, or 1e-4 with "stein".
        jacobian_particles: how many of them are differentiated.
        replicas: independent solutions, whose scatter gives the standard error of every number.
    """

    particles: int = 2000
    damping: float = 0.6
    iterations: int = 50
    tolerance: float = 5e-3
    seed: int = 0
    responses: str = "auto"
    fresh: bool = True
    matched: bool = False
    settle: int = 20
    jitter: float | None = None
    jacobian_particles: int = 100
    replicas: int = 4

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        for name in ("particles", "iterations", "jacobian_particles", "replicas"):
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

    @property
    def scope(self) -> Scope:
        """The published equations, on a grid of times."""
        return Scope(
            rules=(GradientDescent, FeedbackAlignment, DirectFeedbackAlignment, GatedLinear, Hebb),
            optimisers=(SGD,),
            options=frozenset({"momentum", "weight_decay", "batch_size"}),
            outputs=1,
            parameterisations=("mean-field",),
            richness="positive",
            also=(
                Clause(
                    "network.activation",
                    self._misses_kinks,
                    "responses = 'jacobian' misses phi'', a delta function, at its kink; use 'stein' or 'auto'",
                ),
            ),
            cost="replicas (P T)^3 L an iteration",
            error="standard errors, tolerance",
        )

    def _misses_kinks(self, problem: Problem) -> bool:
        """Whether samples would have to be differentiated where they cannot."""
        kinked = bool(problem.network.phi.kinks) and not problem.rule.gated
        return self.responses == "jacobian" and kinked and problem.network.hidden_layers > 1

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Iterate to a fixed point, once for every replica."""
        self._check_memory(problem)
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        sampling = self.sampling(problem)
        iteration = Iteration(self.damping, self.iterations, self.tolerance, self.fresh, self.settle)
        samples, recorder = problem.samples, Recorder(problem)
        recorder.check_memory(self.replicas)
        found: list[Arrays] = []
        between: list[Arrays] = []
        solutions: list[Solution] = []
        with double_precision():
            equations = Equations.of(problem)
            self._check_matching(equations)
            start = StaticKernel(problem.network, problem.rule).layers(samples.everything)
            for replica in range(self.replicas):
                watch = _Reporter(problem, session, replica * self.iterations, self.replicas * self.iterations)
                solution = alternate(equations, start, sampling, iteration, seed=self.seed + replica, watch=watch)
                answer = _Found(problem, equations, solution, steps)
                found.append(answer.recorded(recorder))
                between += [answer.between_times()] if problem.record.between_times else []
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
                f"{self.iterations} iterations; use more particles or iterations, or InfiniteWidth",
                NotAccurate,
                stacklevel=3,
            )
        means = {name: np.mean([one[name] for one in between], axis=0) for name in between[0]} if between else {}
        return from_arrays(problem, self, over_replicas(found), steps, statistics, recorder.two_time(means))

    def sampling(self, problem: Problem) -> Sampling:
        """The settings of one estimate, with a choice made where there is one."""
        phi, gated = problem.network.phi, problem.rule.gated
        smooth = gated or not phi.kinks
        by_jacobian = self.responses == "jacobian" or (self.responses == "auto" and smooth)
        responses: Literal["jacobian", "stein"] = "jacobian" if by_jacobian else "stein"
        jitter = _JITTER[responses] if self.jitter is None else self.jitter
        differentiated = min(self.jacobian_particles, self.particles)
        all_times = problem.record.between_times
        return Sampling(self.particles, responses, self.matched, jitter, differentiated, all_times)

    def _check_matching(self, equations: Equations) -> None:
        """Raise if there are more sources to match than particles to do it with."""
        depth = equations.depth
        sizes = [counts(equations, first=k == 1, last=k == depth) for k in range(1, depth + 1)]
        sources = max(sum(size.values()) for size in sizes)
        if self.matched and self.particles <= sources:
            raise InvalidInput(
                f"particles = {self.particles} must exceed the {sources} sources of a layer if matched = true; use "
                "more particles or matched = false"
            )

    def _check_memory(self, problem: Problem) -> None:
        """Raise before starting what would not fit."""
        rule, depth = Rule.of(problem.rule), problem.network.hidden_layers
        n = (problem.samples.samples + problem.samples.test_samples) * (problem.optimiser.steps + 1)
        kept = 3 if rule.exact else 4 + 3 * (rule.kind == "feedback")
        matrices = 2 * depth * kept + 16  # both iterates of every layer, and what a layer needs
        needed = 8 * (matrices * n**2 + 16 * n * self.particles)
        check.memory("kernels between all times", needed, "use fewer steps, samples or test samples, or InfiniteWidth")


class _Reporter:
    """Tells the session about every iteration."""

    def __init__(self, problem: Problem, session: Session, done: int, total: int) -> None:
        self.problem, self.session, self.done, self.total = problem, session, done, total

    def __call__(self, order: Order, outputs: Any) -> None:
        """Report the loss at the last time."""
        samples = self.problem.samples
        last = outputs[len(outputs) - samples.samples - samples.test_samples :][: samples.samples, None]
        self.done += 1
        self.session.report(self.done, self.total, float(self.problem.losses(last)["loss"]))


@dataclass(frozen=True)
class _Found:
    """Kernels and responses of a solution at the recorded steps."""

    problem: Problem
    equations: Equations
    solution: Solution
    steps: NDArray[np.int64]

    def recorded(self, recorder: Recorder) -> Arrays:
        """Outputs, losses and equal-time kernels."""
        order = self.solution.order
        kernels = (order.features, order.gradients, order.aligned, order.pseudo or order.gradients)
        powers = (0, 0, 1, 2)
        feature, *others = (
            self._scale**power * self._at_equal_times(kernel) for kernel, power in zip(kernels, powers, strict=True)
        )
        signals = [kernel[..., :, None, :, None] for kernel in others]
        arrays = recorder.predictions(self.solution.outputs[self.steps, :, None])
        return arrays | recorder.kernels(feature, *signals)

    def between_times(self) -> Arrays:
        """Kernels and responses at all pairs of recorded times, in the normalisation of `Trajectory.two_time`."""
        order, rule = self.solution.order, self.equations.rule
        kernels = {"gradient_kernel": order.gradients, "alignment_kernel": order.aligned}
        kernels |= {"pseudo_gradient_kernel": order.pseudo or order.gradients}
        powers = {"alignment_kernel": 1, "pseudo_gradient_kernel": 2}
        found = {
            name: self._scale ** powers.get(name, 0) * self._pairs(kernel)[..., None, :, :, None]
            for name, kernel in kernels.items()
        }
        found["feature_kernel"] = self._pairs(order.features)
        return found | self._responses(rule)

    def _responses(self, rule: Rule) -> Arrays:
        """W phi = u + a g, W^T g = r + b phi: with the variances and widths that `Equations.surroundings` adds."""
        order, decay = self.solution.order, np.asarray(self.equations.decay)[self.steps]
        if not order.backward:
            return {}
        known = {"gradient_response": order.backward}
        if rule.through_weights:
            known["feature_response" if rule.exact else "pseudo_feature_response"] = order.forward
        if order.returned:
            known["pseudo_gradient_response"] = order.returned
        found = {}
        for name, kernels in known.items():
            forward = name.endswith("feature_response")
            ratios = np.asarray(self.equations.ratios)[1:-1]
            echo = np.sqrt(ratios[:-1] / ratios[1:]) if forward else np.sqrt(ratios[1:] / ratios[:-1])
            strength = echo * np.asarray(self.equations.weights)[1:-1]
            # Frozen feedback does not decay with the weights that it was drawn with.
            left = np.ones_like(decay) if name == "pseudo_feature_response" else decay
            value = strength[:, None, None, None, None] * self._pairs(kernels) * left[:, None]
            found[name] = value[..., None] if forward else value[:, :, :, None]
        return found

    @property
    def _scale(self) -> float:
        """Pseudo-gradients of Hebb's rule hold the weight of a sample: here that of a step, recorded that of all."""
        if self.equations.rule.kind != "hebb":
            return 1.0
        return self.problem.loss.weight(self.problem.samples.samples) / float(self.equations.weight)

    def _pairs(self, kernels: tuple[Any, ...]) -> NDArray[np.float64]:
        """(layer, time, sample, time, sample) at the recorded steps."""
        times, count = self.equations.times, self.equations.count
        shaped = np.stack([np.asarray(kernel) for kernel in kernels]).reshape(-1, times, count, times, count)
        return shaped[:, self.steps][:, :, :, self.steps]

    def _at_equal_times(self, kernels: tuple[Any, ...]) -> NDArray[np.float64]:
        """(time, layer, sample, sample) at the recorded steps."""
        found = np.moveaxis(np.asarray(self.solution.order.at_equal_times(kernels, self.equations.times)), 0, 1)
        return found[self.steps]
