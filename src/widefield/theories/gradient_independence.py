"""Gradient independence: the mean-field equations without their response functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..base.renamed import renamed
from ..kernels.dynamics import NOT_STILL
from ..matrices.conditioned import Conditioned
from ..matrices.decoupled import Decoupled
from ..problem.gradient_flow import GradientFlow
from ..problem.optimisers import SGD
from ..problem.theory import LAYERED, RECORDS, Scope
from ..training.program import Program
from ..training.tangent import TangentProgram
from .infinite_width import InfiniteWidth


@renamed(first_seed="seed", bias="particle_bias")
@dataclass(frozen=True)
class GradientIndependence(InfiniteWidth, kind="gradient-independence"):
    """Infinite width with A = B = 0: what forward and backward passes draw from W(0) is independent (BP22 section 5.1).

    Exact for one hidden layer, and as gamma_0 -> 0; at large richness and depth it underestimates how far kernels
    move. Outputs follow df/dt = K Delta, because reading them from the last layer needs the responses: for gradient
    flow that is exact, for discrete steps it has an error of the order of the learning rate.

    The arguments are those of `InfiniteWidth`.
    """

    substrate: ClassVar[type[Conditioned]] = Decoupled
    program: ClassVar[type[Program]] = TangentProgram

    @property
    def label(self) -> str:
        """Gradient independence."""
        return "gradient independence"

    @property
    def scope(self) -> Scope:
        """Where outputs follow from a kernel."""
        return Scope(
            optimisers=(SGD, GradientFlow),
            options=frozenset({"momentum", "batch_size", LAYERED}),
            random_start=False,
            records=frozenset(RECORDS) - {"responses"},
            words={
                "optimiser.weight_decay": NOT_STILL,
                "optimiser.temperature": NOT_STILL,
                "record.responses": "gradient independence sets all response functions to zero",
            },
            cost="replicas T P S rank",
            error="exact as gamma_0 -> 0, standard errors",
        )
