"""Theories: each predicts a `Trajectory` from a `Problem`. One file a theory.

Whoever takes `Theory` or `Trajectory` from here knows all of them: files and tables name theories by their kind.
"""

from ..problem.theory import Theory
from ..trajectory.trajectory import Trajectory
from .alternating import AlternatingMonteCarlo
from .closed_linear import ClosedLinear
from .effective_theory import EffectiveTheory
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
    "EffectiveTheory",
    "FiniteWidth",
    "Fluctuations",
    "GradientIndependence",
    "InfiniteWidth",
    "Lazy",
    "Perturbative",
    "Theory",
    "Trajectory",
    "TwoLayer",
]
