"""Figures of trajectories. Every function draws into the axes that it is given, or new ones, and returns them."""

from .base.drawing import COLOURS, style
from .trajectory.plots import against_width, compare, curve, distances, kernel, losses, preactivation_density, summary

__all__ = [
    "COLOURS",
    "against_width",
    "compare",
    "curve",
    "distances",
    "kernel",
    "losses",
    "preactivation_density",
    "style",
    "summary",
]
