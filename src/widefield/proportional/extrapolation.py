"""Limits from a few coarse solutions: small steps in layer time, small or zero learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats


def neville(steps: Sequence[float], values: Sequence[Floats], target: float = 0.0) -> Floats:
    """The polynomial in the step through all values, at `target`."""
    points, table = list(steps), [np.asarray(value) for value in values]
    for order in range(1, len(points)):
        table = [
            (left * (target - points[i + order]) - right * (target - points[i])) / (points[i] - points[i + order])
            for i, (left, right) in enumerate(pairwise(table))
        ]
    return table[0]


def best_polynomial(
    steps: Sequence[float], values: Sequence[Floats], target: float, size: Floats | float
) -> tuple[Floats, Floats]:
    """Values with errors that are power series in the step, coarse to fine: extrapolated to `target`, and an error.

    Coarse values, which may oscillate, can do more harm than good. Polynomials through all of them, without the first,
    without the first two, .. are compared, and the one that agrees best with the next two is taken, relative to `size`.
    The error is twice its distance from the further of them: one alone may be close by accident.
    """
    table = [neville(steps[i:], values[i:], target) for i in range(len(steps))]
    apart = [np.abs(longer - shorter) for longer, shorter in pairwise(table)]
    errors = [np.maximum(*pair) for pair in pairwise(apart)] or apart
    best = int(np.argmin([np.max(error / size) for error in errors]))
    return table[best], 2 * errors[best]


def heun_limit(values: Sequence[Float[Floats, "*n"]]) -> tuple[Floats, Floats]:
    """The limit of values at steps h, h/2, h/4, .. with errors c_2 h^2 + c_3 h^3 + .., and an estimate of the error."""
    table = [np.asarray(value) for value in values]
    previous = table[-1]
    for power in range(2, len(values) + 1):
        previous, gain = table[-1], 2.0**power
        table = [(gain * fine - coarse) / (gain - 1) for coarse, fine in pairwise(table)]
    return table[0], np.abs(table[0] - previous)
