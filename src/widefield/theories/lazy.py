"""The lazy limit: kernels stand still, and the outputs obey a linear model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.precision import double_precision
from ..kernels import dynamics
from ..kernels.linear_model import LinearModel
from ..kernels.static import StaticKernel
from ..problem.theory import Theory
from ..trajectory.trajectory import Trajectory
from .recording import from_arrays

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

Arrays = dict[str, Floats]


@dataclass(frozen=True)
class Lazy(Theory, kind="lazy"):
    """The limit gamma_0 -> 0: the kernels of infinite width at initialisation, frozen (BP22 section 5, BP23 Table 2).

    The richness of the problem is ignored: comparing with `InfiniteWidth` shows what feature learning does. Outputs
    are exact for the frozen kernel: df/dt = K Delta by modes of K (squared loss), or by steps or an adaptive solver.

    Networks in the "ntk" parameterisation that are not `centred` start from random outputs: the prior N(0, nngp) over
    networks is then pushed through training (PDLT eqs. (10.40), (10.41)). `outputs` are means over networks,
    `outputs_deviation` their standard deviations, and the loss is the mean over networks.

    Args:
        draws: initial outputs that are drawn where the mean and the deviation have no closed form, that is with random
            initial outputs and another loss than the squared one, or with minibatches.
        seed: of those draws.
    """

    draws: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, draws=check.integer("draws", self.draws, least=2))
        put(self, seed=check.integer("seed", self.seed))

    @property
    def label(self) -> str:
        """The lazy limit."""
        return "lazy"

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Train the linear model."""
        dynamics.check_supported(problem, "the lazy limit")
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        with double_precision():
            model = LinearModel(problem, steps, session.report)
            if not model.random:
                arrays = model.from_zero()
            elif dynamics.solvable(problem):
                arrays = model.ensemble()
            else:
                arrays = model.drawn(self.draws, self.seed)
            arrays |= kernels_over_time(problem, arrays["outputs"])
        session.report(problem.optimiser.steps, problem.optimiser.steps, float(arrays["loss"][-1]))
        return from_arrays(problem, self, arrays, steps, {"seconds": time.perf_counter() - began})


def kernels_over_time(problem: Problem, outputs: Floats) -> Arrays:
    """The static kernels at every recorded time, as views of one array."""
    record, recorded, samples = problem.record, problem.recorded_samples, problem.samples
    if not record.kernels:
        return {}
    x = samples.x[:recorded]
    kernel = StaticKernel(problem.network, problem.rule)
    found = {"": kernel.layers(x)}
    if record.test_kernels and samples.test_samples:
        found["test_"] = kernel.layers(samples.x_test, x)
    arrays: Arrays = {}
    for part, layers in found.items():
        arrays[f"{part}feature_kernel"] = layers.feature
        identity = np.eye(samples.outputs)
        for name in ("gradient", "alignment"):
            arrays[f"{part}{name}_kernel"] = np.einsum("lpq,ab->lpaqb", getattr(layers, name), identity)
        arrays[f"{part}ntk"] = np.einsum("pq,ab->paqb", layers.ntk, identity)
    arrays = {name: np.broadcast_to(value, (len(outputs), *value.shape)) for name, value in arrays.items()}
    targets = jnp.asarray(samples.y[:recorded])
    errors = jax.vmap(lambda f: problem.loss.error(f, targets))(jnp.asarray(outputs))
    pseudo = problem.rule.static_pseudo_kernel(found[""], problem.loss.weight(samples.samples) * errors)
    return arrays | {"pseudo_gradient_kernel": np.asarray(pseudo)}
