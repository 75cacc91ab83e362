"""A function averaged over a normal variable around a moving mean, as a table of Chebyshev polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base.arrays import Floats
from .nested import Function, Nested, evaluate

_DEGREE = 15
_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
_TO_COEFFICIENTS = np.linalg.inv(np.polynomial.chebyshev.chebvander(_NODES, _DEGREE))
_TAIL = 3e-15
"""Panels are cut until the last two coefficients are this small."""


class Smoothed:
    """m -> <f(m + width x)>, x ~ N(0, 1), for |m| <= reach.

    The innermost integral of <f1(z1) ... fn(zn)> depends on the outer variables through the conditional mean m
    alone: one table replaces an integral for each point of the outer ones. `error` estimates that of the table,
    relative to the larger of the local values and the typical one, |m| <= `spread`.
    """

    def __init__(
        self, f: Function, width: float, kinks: Sequence[float], reach: float, spread: float, tolerance: float
    ) -> None:
        self._f, self._width, self._kinks, self._tolerance = f, width, tuple(kinks), tolerance
        typical = float(np.max(np.abs(self._exact(np.linspace(-spread, spread, 65)))))
        table, self.error = self._build(*self._start(reach), typical)
        # Panels that are never reached fill up to a power of two, so that few shapes are compiled.
        spare = 2 ** math.ceil(math.log2(len(table))) - len(table)
        self._low = np.append(table[:, 0], np.full(spare, np.inf))
        self._high, self._coefficients = table[:, 1], table[:, 2:]
        self._high = np.append(self._high, np.full(spare, np.inf))
        self._coefficients = np.pad(self._coefficients, ((0, spare), (0, 0)))

    def __call__(self, m: Any) -> Any:
        """Evaluate the table."""
        return _clenshaw(m, self._low, self._high, self._coefficients)

    def _exact(self, m: Floats) -> Floats:
        factor, zero = np.full((len(m), 1, 1), self._width), np.zeros((len(m), 1))
        problem = Nested(factor, zero, (self._kinks,), lambda _, z: evaluate(self._f, z[0]), m[:, None])
        return problem.average(tolerance=self._tolerance, levels=30)[0]

    def _build(self, low: Floats, high: Floats, typical: float) -> tuple[Floats, float]:
        """Cut panels until the series converge; return rows (low, high, coefficients) and the largest tail."""
        tables, error = [], 0.0
        for left in range(13, -1, -1):
            nodes = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * _NODES
            coefficients = self._exact(nodes.ravel()).reshape(nodes.shape) @ _TO_COEFFICIENTS.T
            size = np.maximum(np.abs(coefficients).max(axis=1), typical)
            tail = np.abs(coefficients[:, -2:]).sum(axis=1) / np.where(size > 0, size, 1.0)
            done = (tail < _TAIL) | (left == 0)
            tables.append(np.column_stack([low, high, coefficients])[done])
            error = max(error, float(tail[done].max(initial=0.0)))
            low, high = low[~done], high[~done]
            if not len(low):
                break
            middle = 0.5 * (low + high)
            low, high = np.append(low, middle), np.append(middle, high)
        table = np.concatenate(tables)
        return table[np.argsort(table[:, 0])], error

    def _start(self, reach: float) -> tuple[Floats, Floats]:
        """Panels whose lengths double away from the kinks, at which f varies on the scale of `width`."""
        points = [np.array([-reach, reach])]
        for centre in {0.0, *self._kinks}:
            finest = self._width if centre in self._kinks else max(self._width, 1.0)
            steps = finest * 2.0 ** np.arange(max(1, math.ceil(math.log2(2 * reach / finest))))
            points += [centre + steps, centre - steps, np.array([centre])]
        breaks = np.unique(np.clip(np.concatenate(points), -reach, reach))
        breaks = breaks[np.append(True, np.diff(breaks) > 1e-14 * reach)]
        return breaks[:-1], breaks[1:]


@jax.jit
def _clenshaw(m: Any, low: Any, high: Any, coefficients: Any) -> Any:
    """Piecewise Chebyshev series by Clenshaw's recurrence."""
    panel = jnp.searchsorted(low[1:], m, side="right")
    start, end, rows = low[panel], high[panel], coefficients[panel]
    t = (2 * m - start - end) / (end - start)
    above, value = jnp.zeros_like(t), jnp.zeros_like(t)
    for k in range(_DEGREE, 0, -1):
        above, value = value, rows[..., k] + 2 * t * value - above
    return rows[..., 0] + t * value - above
