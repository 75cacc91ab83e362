"""Gradient independence: the mean-field equations without their response functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..kernels.dynamics import check_supported
from ..matrices.conditioned import Conditioned
from ..matrices.decoupled import Decoupled
from ..training.program import Program
from ..training.tangent import TangentProgram
from .infinite_width import InfiniteWidth

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem
    from ..trajectory.trajectory import Trajectory


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

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Solve the equations."""
        check_supported(problem, "gradient independence")
        return super().predict(problem, session)
