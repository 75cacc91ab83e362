"""Leading order in the richness gamma_0: how features begin to move."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..base import check
from ..base.arrays import Arrays, Floats
from ..base.describe import put
from ..base.errors import NotAccurate
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..gaussian.sobol import matched, normals
from ..kernels.dynamics import NOT_STILL
from ..kernels.static import LayerKernels, StaticKernel
from ..problem.gradient_flow import GradientFlow
from ..problem.optimisers import SGD
from ..problem.rules import GradientDescent
from ..problem.theory import RECORDS, Clause, Scope, Theory
from ..solvers.perturbation.linear import LinearCorrection
from ..solvers.perturbation.nonlinear import SampledCorrection, sampled
from ..solvers.perturbation.order import Correction, Kernels
from ..solvers.perturbation.outputs import Course, follow
from ..solvers.perturbation.static import layers
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import from_arrays, over_replicas

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

_LARGE = 0.5
"""A correction of this fraction of the kernel makes the next ones a concern."""


@renamed(first_seed="seed")
@dataclass(frozen=True)
class Perturbative(Theory, kind="perturbative"):
    """Kernels and outputs at infinite width to order gamma_0^2 (BP22 section 5.2 and App. P, completed).

    f = f_0 + gamma_0^2 f_2 and K = K_0 + gamma_0^2 K_2, where f_0, K_0 are those of the lazy limit. The error is of
    order gamma_0^4; `NotAccurate` warns where the correction of a kernel exceeds half of it. Discrete steps are exact
    at each order. Deep linear networks with unit variances are solved in closed form; otherwise the correction is an
    average over sampled neurons, with standard errors from replicas. Needs gradient descent and a smooth activation.

    Args:
        particles: sampled neurons of a layer (a power of 2 is best).
        replicas: independent samples, whose scatter gives standard errors.
        seed: of the replicas seed, seed + 1, ...
        published: use the coefficients printed in BP22 eq. (12), which leave out response functions (linear networks).
    """

    particles: int = 4096
    replicas: int = 4
    seed: int = 0
    published: bool = False

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=2))
        put(self, replicas=check.integer("replicas", self.replicas, least=2))
        put(self, seed=check.integer("seed", self.seed))
        check.flag("published", self.published)

    @property
    def label(self) -> str:
        """Leading order."""
        return "perturbative"

    @property
    def scope(self) -> Scope:
        """Where the expansion is known."""
        return Scope(
            rules=(GradientDescent,),
            optimisers=(SGD, GradientFlow),
            options=frozenset({"batch_size"}),
            activations="smooth",
            random_start=False,
            records=frozenset(RECORDS) - {"responses"},
            also=(Clause("network", self._unpublished, "published = true is for plain linear networks"),),
            words={"optimiser.weight_decay": NOT_STILL, "optimiser.temperature": NOT_STILL},
            cost="replicas T P^2 S",
            error="of order gamma_0^4, standard errors",
        )

    def _unpublished(self, problem: Problem) -> bool:
        """Whether coefficients are asked for that are printed for unit variances, no biases and equal widths only."""
        return self.published and not _closed(problem)

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Follow the correction along the lazy solution."""
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        network, samples = problem.network, problem.samples
        richness = network.richness if network.parameterisation == "mean-field" else 0.0
        recorder, count = Recorder(problem), 1 if _closed(problem) else self.replicas
        recorder.check_memory(count)
        with double_precision():
            x = samples.everything
            static = StaticKernel(network, problem.rule).layers(x)
            expansion = _Expansion(recorder, static, richness**2)
            found: list[Arrays] = []
            between: list[Arrays] = []
            total = int(steps[-1]) * count
            for correction in self._corrections(problem, static, x):
                records, states = [], []
                for step, course in zip(steps, follow(correction, static.ntk, problem, steps), strict=True):
                    records.append(expansion.at(correction, course))
                    session.report(int(len(found) * steps[-1] + step), total, float(records[-1]["loss"]))
                    states += [course.state] if problem.record.between_times else []
                found.append({name: np.stack([record[name] for record in records]) for name in records[0]})
                between += [expansion.between(correction, states)] if states else []
            means = {name: np.mean([one[name] for one in between], axis=0) for name in between[0]} if between else {}
            factors = expansion.recorder.two_time(means)
        arrays = over_replicas(found)
        size = float(arrays.pop("correction").max())
        arrays.pop("correction_error", None)
        if size > _LARGE:
            warnings.warn(
                f"richness = {richness:g}: the correction of order gamma_0^2 changes kernels by up to {size:.0%}, so "
                "that higher orders matter; use InfiniteWidth",
                NotAccurate,
                stacklevel=3,
            )
        statistics = {"seconds": time.perf_counter() - began, "correction": size}
        return from_arrays(problem, self, arrays, steps, statistics, factors)

    def _corrections(self, problem: Problem, static: LayerKernels, x: Floats) -> Iterator[Correction]:
        network, outputs = problem.network, problem.samples.outputs
        input_kernel = problem.samples.kernel(everything=True)
        if _closed(problem):
            yield LinearCorrection(jnp.asarray(input_kernel), outputs, network.hidden_layers, self.published)
            return
        dimensions = len(x) * (1 + outputs)
        # Four derivatives and r; four fields at three points of a step; and what the kernels between them need.
        held = 8 * network.hidden_layers * self.particles * (20 * len(x) + 25 * len(x) * outputs)
        check.memory("sampled neurons", held, "reduce particles or samples")
        statics = layers(network, static, input_kernel)
        for seed in range(self.seed, self.seed + self.replicas):
            points = [matched(normals(seed, k, dimensions, self.particles)).T for k in range(len(statics))]
            sources = tuple(sampled(network.phi, s, p, outputs) for s, p in zip(statics, points, strict=True))
            yield SampledCorrection(statics, sources, jnp.asarray(input_kernel), network.train_biases)


def _closed(problem: Problem) -> bool:
    network = problem.network
    plain = network.weight_variances == 1.0 or set(network.weight_scales) == {1.0}
    return (
        network.activation == "linear"
        and plain
        and not network.has_biases
        and set(network.normalised_width_ratios) == {1.0}
    )


@dataclass(frozen=True)
class _Expansion:
    """K = K_0 + gamma_0^2 K_2 around static kernels, and what is recorded of it."""

    recorder: Recorder
    static: LayerKernels
    square: float

    def at(self, correction: Correction, course: Course) -> Arrays:
        """Everything that the record asks for at one time, and how large the correction is."""
        change = _kernels(correction, course.state, course.state)
        outputs = np.asarray(course.zeroth + self.square * course.second)
        feature, gradient, ntk = self._moved(change)
        arrays = self.recorder.predictions(outputs)
        arrays |= self.recorder.kernels(feature, gradient, ntk=ntk)
        changes = (change.feature, change.gradient, change.ntk)
        sizes = [float(jnp.linalg.norm(c) / np.linalg.norm(s)) for s, c in zip(self._start, changes, strict=True)]
        return arrays | {"correction": np.asarray(self.square * max(sizes))}

    def between(self, correction: Correction, states: list[Any]) -> Arrays:
        """Kernels of the recorded samples at all pairs of times, from the states at these times."""
        kept, times = self.recorder.recorded, len(states)
        held = sum(leaf.size for leaf in jax.tree.leaves(states)) + times * self._start[1].size
        check.memory("states at all recorded times", 2 * 8 * held, "record less often, or reduce particles or samples")
        early = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        rows: list[tuple[Floats, Floats, Floats]] = []
        for late in states:
            feature, gradient, ntk = self._moved(_kernels_with_all(correction, late, early))
            gradient, ntk = (kernel[..., :kept, :, :kept, :] for kernel in (gradient, ntk))
            rows.append((feature[..., :kept, :kept], gradient, ntk))
        feature, gradient, ntk = (np.stack(parts) for parts in zip(*rows, strict=True))
        gradient = np.einsum("tslpcqd->ltpcsqd", gradient)
        found = {"feature_kernel": np.einsum("tslpq->ltpsq", feature), "ntk": np.einsum("tspcqd->tpcsqd", ntk)[None]}
        return found | {f"{name}_kernel": gradient for name in ("gradient", "alignment", "pseudo_gradient")}

    def _moved(self, change: Kernels) -> tuple[Floats, Floats, Floats]:
        """Kernels of features and gradients, and the NTK, with their corrections."""
        changes = (change.feature, change.gradient, change.ntk)
        feature, gradient, ntk = (s + self.square * np.asarray(c) for s, c in zip(self._start, changes, strict=True))
        return feature, gradient, ntk

    @cached_property
    def _start(self) -> tuple[Floats, Floats, Floats]:
        """The static kernels."""
        return self.static.feature, self._signals(self.static.gradient), self._signals(self.static.ntk)

    def _signals(self, kernel: Floats) -> Floats:
        """The same for every output, and none between outputs."""
        return np.asarray(np.einsum("...mn,cd->...mcnd", kernel, np.eye(self.recorder.problem.samples.outputs)))


@eqx.filter_jit
def _kernels(correction: Correction, late: Any, early: Any) -> Kernels:
    return correction.kernels(late, early)


@eqx.filter_jit
def _kernels_with_all(correction: Correction, late: Any, early: Any) -> Kernels:
    """Between a state and each of several, stacked."""
    found: Kernels = jax.lax.map(lambda state: correction.kernels(late, state), early)
    return found
