"""Limits of functions of one variable from the left and from the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.arrays import Floats

NEAR = 1e-8
"""Distance from a point, relative to max(1, |point|), at which one-sided values are taken."""


def one_sided(
    function: Callable[[Floats], Floats], points: Sequence[float], near: float = NEAR
) -> list[tuple[float, float]]:
    """The limits at points from the left and from the right, extrapolated linearly: 2 f(d) - f(2 d).

    >>> one_sided(np.sign, (0.0, 3.0))
    [(-1.0, 1.0), (1.0, 1.0)]
    """
    steps = near * np.maximum(1.0, np.abs(points)) * np.array([-1.0, 1.0, -2.0, 2.0])[:, None]
    values = function(np.asarray(points, dtype=np.float64) + steps)
    left, right = 2 * values[:2] - values[2:]
    return list(zip(left.tolist(), right.tolist(), strict=True))
