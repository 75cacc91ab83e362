"""Variances of a network and the ridge, by marginal likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize

from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..kernels.prediction import evidence
from .covariance import Source
from .regression import factorised

_STEP = 1e-4
"""Of finite differences of the logarithms: moves the maximum by half of it, far above rounding."""

_GAIN = 1e-4
"""In log evidence, below which an iteration is the last."""


def maximised(
    source: Source, x: Floats, y: Floats, ridge: float, restarts: int, random: np.random.RandomState
) -> tuple[Source, float]:
    """The source and ridge of largest log N(y; 0, K + ridge), K the kernel of the regression.

    Varied are the logarithms of the ridge, of a common factor of all weight variances and of one of all bias
    variances, from the given values and from `restarts` others nearby. What is zero stays zero.
    """
    search = _Search(source, x, y, ridge)
    search(np.zeros(len(search.bounds)))
    options = {"eps": _STEP, "maxiter": 100, "ftol": _GAIN / y.size}
    starts = [np.zeros(len(search.bounds)), *random.normal(size=(restarts, len(search.bounds)))]
    for start in starts if len(search.bounds) else []:
        inside = np.clip(start, *np.transpose(search.bounds))
        scipy.optimize.minimize(search.cost, inside, method="L-BFGS-B", bounds=search.bounds, options=options)
    return search.at(search.best[1])


class _Search:
    """Remembers the best point, and the last kernel, since a new ridge does not need a new one."""

    def __init__(self, source: Source, x: Floats, y: Floats, ridge: float) -> None:
        self.source, self.x, self.y, self.ridge = source, x, y, ridge
        self.bounds = bounds(source, ridge, y)
        self.best: tuple[float, Floats] = (-np.inf, np.zeros(len(self.bounds)))
        self._kernel: tuple[Any, Floats] | None = None

    def at(self, point: Floats) -> tuple[Source, float]:
        """Source and ridge of a point."""
        return moved(self.source, self.ridge, point)

    def cost(self, point: Floats) -> float:
        """Per target; a large number where the kernel is singular or overflows, as it did not at the given values."""
        try:
            return -self(point) / self.y.size
        except InvalidInput:
            return 1e6

    def __call__(self, point: Floats) -> float:
        """The log evidence."""
        source, ridge = self.at(point)
        value = evidence(factorised(self._evaluated(source).copy(), ridge), self.y)
        if value > self.best[0]:
            self.best = (value, np.array(point))
        return value

    def _evaluated(self, source: Source) -> Floats:
        if self._kernel is None or self._kernel[0] != source:
            self._kernel = None
            self._kernel = (source, source(self.x).kernel)
        return self._kernel[1]


def moved(source: Source, ridge: float, point: Floats) -> tuple[Source, float]:
    """Source and ridge after factors exp(point); that of the ridge, if there is one, comes first."""
    factors = np.exp(point)
    if ridge == 0:
        return source.scaled(factors.tolist()), 0.0
    return source.scaled(factors[1:].tolist()), ridge * float(factors[0])


def bounds(source: Source, ridge: float, y: Floats) -> list[tuple[float, float]]:
    """Of the logarithms of these factors. The ridge is first, so that its finite difference follows its own kernel."""
    found = [] if ridge == 0 else [_ridge_bounds(ridge, y)]
    return found + [(-np.log(span), np.log(span)) for span in source.spans]


def _ridge_bounds(ridge: float, y: Floats) -> tuple[float, float]:
    """Noise is not much more than the targets, and not less than what keeps the kernel regular."""
    size = float(np.mean(y**2)) or ridge
    return min(0.0, np.log(1e-8 * size / ridge)), max(0.0, np.log(10 * size / ridge))
