"""Limits from a few coarse solutions: small steps in layer time, small or zero learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def neville(steps: Sequence[float], values: Sequence[Floats], target: float = 0.0) -> tuple[Floats, Floats]:
    """The polynomial in the step through all values, at `target`, and an estimate of its error.

    A value computed with a step h whose error is a power series in h is extrapolated to other steps that way; the
    estimate is twice the distance from the polynomial without the first value.
    """
    points, table = list(steps), [np.asarray(value) for value in values]
    previous = table[-1]
    for order in range(1, len(points)):
        previous = table[-1]
        table = [
            (left * (target - points[i + order]) - right * (target - points[i])) / (points[i] - points[i + order])
            for i, (left, right) in enumerate(pairwise(table))
        ]
    return table[0], 2 * np.abs(table[0] - previous)


def heun_limit(values: Sequence[Float[Floats, "*n"]]) -> tuple[Floats, Floats]:
    """The limit of values at steps h, h/2, h/4, .. with errors c_2 h^2 + c_3 h^3 + .., and an estimate of the error."""
    table = [np.asarray(value) for value in values]
    previous = table[-1]
    for power in range(2, len(values) + 1):
        previous, gain = table[-1], 2.0**power
        table = [(gain * fine - coarse) / (gain - 1) for coarse, fine in pairwise(table)]
    return table[0], np.abs(table[0] - previous)
