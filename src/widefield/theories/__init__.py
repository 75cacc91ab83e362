"""Theories: each predicts a `Trajectory` from a `Problem`. One file a theory."""

from .base import Theory
from .finite_width import FiniteWidth
from .infinite_width import InfiniteWidth

__all__ = ["FiniteWidth", "InfiniteWidth", "Theory"]
