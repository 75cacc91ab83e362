"""Leading order in the richness gamma_0: how features begin to move."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate
from ..base.precision import double_precision
from ..gaussian.sobol import matched, normals
from ..kernels.dynamics import check_supported
from ..kernels.static import LayerKernels, StaticKernel
from ..problem.rules import GradientDescent
from ..problem.theory import Theory
from ..solvers.perturbation.linear import LinearCorrection
from ..solvers.perturbation.nonlinear import SampledCorrection, sampled
from ..solvers.perturbation.order import Correction
from ..solvers.perturbation.outputs import Course, follow
from ..solvers.perturbation.static import layers
from ..trajectory.trajectory import Trajectory
from .recording import from_arrays, over_replicas

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

Arrays = dict[str, Floats]

_LARGE = 0.5
"""A correction of this fraction of the kernel makes the next ones a concern."""


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
        first_seed: of the replicas first_seed, first_seed + 1, ...
        published: use the coefficients printed in BP22 eq. (12), which leave out response functions (linear networks).
    """

    particles: int = 4096
    replicas: int = 4
    first_seed: int = 0
    published: bool = False

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, particles=check.integer("particles", self.particles, least=2))
        put(self, replicas=check.integer("replicas", self.replicas, least=2))
        put(self, first_seed=check.integer("first_seed", self.first_seed))
        check.flag("published", self.published)

    @property
    def label(self) -> str:
        """Leading order."""
        return "perturbative"

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Follow the correction along the lazy solution."""
        self._check(problem)
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        network, samples = problem.network, problem.samples
        richness = network.richness if network.parameterisation == "mean-field" else 0.0
        with double_precision():
            x = samples.everything
            static = StaticKernel(network, problem.rule).layers(x)
            recorder = _Recorder(problem, static, richness)
            found: list[Arrays] = []
            total = int(steps[-1]) * (1 if _closed(problem) else self.replicas)
            for correction in self._corrections(problem, static, x):
                records = []
                for step, course in zip(steps, follow(correction, static.ntk, problem, steps), strict=True):
                    records.append(recorder.at(correction, course))
                    session.report(int(len(found) * steps[-1] + step), total, float(records[-1]["loss"]))
                found.append({name: np.stack([record[name] for record in records]) for name in records[0]})
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
        return from_arrays(problem, self, arrays, steps, statistics)

    def _check(self, problem: Problem) -> None:
        check_supported(problem, "perturbation theory")
        if type(problem.rule) is not GradientDescent:
            raise InvalidInput(f"rule = {problem.rule.kind!r}: perturbation theory is known for gradient descent only")
        momentum = getattr(problem.optimiser, "momentum", 0.0)
        if momentum:
            raise InvalidInput(
                f"optimiser.momentum = {momentum:g}: perturbation theory is not available with momentum; "
                "use InfiniteWidth"
            )
        phi = problem.network.phi
        if phi.kinks:
            raise InvalidInput(
                f"activation = {phi.name!r} has a kink: its second derivative is not a function, and the expansion "
                "in gamma_0 needs it; use a smooth activation such as gelu, or InfiniteWidth"
            )
        if self.published and not _closed(problem):
            raise InvalidInput(
                "published = true: the printed coefficients are for linear networks with unit variances, no biases and "
                f"equal widths; activation = {phi.name!r}"
            )

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
        for seed in range(self.first_seed, self.first_seed + self.replicas):
            points = [matched(normals(seed, k, dimensions, self.particles)).T for k in range(len(statics))]
            sources = tuple(sampled(network.phi, s, p, outputs) for s, p in zip(statics, points, strict=True))
            yield SampledCorrection(statics, sources, jnp.asarray(input_kernel), network.train_biases)


def _closed(problem: Problem) -> bool:
    network = problem.network
    plain = network.weight_variances == 1.0 or set(network.weight_scales) == {1.0}
    return network.activation == "linear" and plain and not network.has_biases and set(network.ratios) == {1.0}


class _Recorder:
    """Turns a state along a course into recorded arrays."""

    def __init__(self, problem: Problem, static: LayerKernels, richness: float) -> None:
        self.problem, self.static, self.square = problem, static, richness**2

    def at(self, correction: Correction, course: Course) -> Arrays:
        """Everything that the record asks for, and how large the correction is."""
        samples, loss = self.problem.samples, self.problem.loss
        train, recorded = samples.samples, self.problem.recorded_samples
        outputs = course.zeroth + self.square * course.second
        arrays: dict[str, Any] = {
            "outputs": outputs[:recorded],
            "loss": loss.total(outputs[:train], jnp.asarray(samples.y)),
        }
        if samples.test_samples:
            arrays["test_outputs"] = outputs[train:]
            arrays["test_loss"] = loss.total(outputs[train:], jnp.asarray(samples.y_test))
        change = _kernels(correction, course.state)
        identity = np.eye(samples.outputs)
        starts: dict[str, tuple[Floats, Array]] = {
            "feature_kernel": (self.static.feature, change.feature),
            "gradient_kernel": (np.einsum("lmn,cd->lmcnd", self.static.gradient, identity), change.gradient),
            "ntk": (np.einsum("mn,cd->mcnd", self.static.ntk, identity), change.ntk),
        }
        sizes = [float(jnp.linalg.norm(c) / np.linalg.norm(s)) for s, c in starts.values()]
        kernels = {name: s + self.square * np.asarray(c) for name, (s, c) in starts.items()}
        if self.problem.record.kernels:
            arrays |= self._kernels(kernels, train, recorded)
        plain = {name: np.asarray(value) for name, value in arrays.items()}
        return plain | {"correction": np.asarray(self.square * max(sizes))}

    def _kernels(self, kernels: Arrays, train: int, recorded: int) -> Arrays:
        rows = {"": slice(recorded)} | ({"test_": slice(train, None)} if self.problem.record.test_kernels else {})
        kernels = kernels | {"alignment_kernel": kernels["gradient_kernel"]}
        arrays: Arrays = {}
        for part, chosen in rows.items():
            arrays[f"{part}ntk"] = kernels["ntk"][chosen, :, :recorded]
            arrays[f"{part}feature_kernel"] = kernels["feature_kernel"][:, chosen, :recorded]
            for name in ("gradient_kernel", "alignment_kernel"):
                arrays[f"{part}{name}"] = kernels[name][:, chosen, :, :recorded]
        return arrays | {"pseudo_gradient_kernel": arrays["gradient_kernel"]}


@eqx.filter_jit
def _kernels(correction: Correction, state: Any) -> Any:
    return correction.kernels(state, state)
