"""Theories: each predicts a `Trajectory` from a `Problem`. One file a theory."""

from ..problem.theory import Theory
from .alternating import AlternatingMonteCarlo
from .closed_linear import ClosedLinear
from .finite_width import FiniteWidth
from .fluctuations import Fluctuations
from .gradient_independence import GradientIndependence
from .infinite_width import InfiniteWidth
from .lazy import Lazy
from .perturbative import Perturbative
from .two_layer import TwoLayer

__all__ = [
    "AlternatingMonteCarlo",
    "ClosedLinear",
    "FiniteWidth",
    "Fluctuations",
    "GradientIndependence",
    "InfiniteWidth",
    "Lazy",
    "Perturbative",
    "Theory",
    "TwoLayer",
]
