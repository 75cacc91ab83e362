"""What there is to say of critical initialisation: the points, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from ..activations import Activation
from ..base.errors import InvalidInput
from ..base.renamed import renamed


class NotCritical(InvalidInput):
    """A critical initialisation was asked for and the activation has none."""

    __module__ = "widefield.effective"


@dataclass(frozen=True)
class CriticalPoint:
    """chi_par(K*) = chi_perp(K*) = 1 at a fixed point K* = C_b + C_W g(K*), PDLT eqs. (5.55)-(5.56)."""

    activation: Activation
    universality_class: str
    """"scale-invariant", "zero-kernel" or "half-stable"."""

    kernel: float | None
    """K*; None where every K is a fixed point (scale-invariant)."""

    bias_variance: float
    """C_b."""

    weight_variance: float
    """C_W."""

    stability: str
    """"neutral", "stable", "unstable", "stable from below" or "stable from above"."""

    curvature: float
    """a in Delta K' = Delta K + a Delta K^2: C_W g''(K*) / 2, PDLT eqs. (5.102) and (5.83); NaN with a kink at 0."""

    uncertainty: float = 0.0
    """How far the root of Rcrit(K) = 1 may be from `kernel`, given the error of the averages."""

    touching: bool = False
    """Whether Rcrit touches 1 here without crossing it: chi_par is then 1 to within 1e-10."""

    @property
    def usable(self) -> bool:
        """Whether kernels from at least one side stay near K*."""
        return self.stability != "unstable"


@dataclass(frozen=True)
class Rejected:
    """A K with chi_par = chi_perp = 1 whose C_b is negative: no variance."""

    kernel: float
    bias_variance: float
    weight_variance: float


@renamed(explanation="verdict")
@dataclass(frozen=True)
class Criticality:
    """All critical points of an activation, or why there is none."""

    activation: Activation
    universality_class: str
    """"scale-invariant", "zero-kernel", "half-stable" or "none": that of the first usable point."""

    points: tuple[CriticalPoint, ...]
    """By increasing K*, unstable ones included."""

    rejected: tuple[Rejected, ...]
    """Solutions with C_b < 0."""

    verdict: str
    """In words and numbers."""

    everywhere: bool = False
    """Whether Rcrit = 1 at every K (s s'' = 0, as for shrinkage): `points` then holds one of a line of points."""

    @property
    def best(self) -> CriticalPoint | None:
        """The first point that a network can be initialised at."""
        return next((point for point in self.points if point.usable), None)
