"""The search for kernels with Rcrit(K) = 1: where it crosses 1, and where it touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize_scalar

from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .single_input import SingleInput

_AT_LEAST, _AT_MOST = 6, 14
"""Decades searched on either side of K = 1; beyond the first, only while the ratio still changes."""

_PER_DECADE = 8

RESOLVED = 1e-9
"""A difference 1 - 1/Rcrit below this has no trustworthy sign."""

TOUCHES = 1e-10
"""An extremum of 1 - 1/Rcrit below this counts as zero: a hundred times the error of the averages."""

_ERROR = 1e-12
"""Error of 1 - 1/Rcrit."""

_NEAR = 0.1
"""Extrema of 1 - 1/Rcrit on the grid beyond this are too far from zero to be refined."""


@dataclass(frozen=True)
class Scan:
    """1 - 1/Rcrit = -<s s''> / <s'^2> over the kernels that were searched."""

    kernels: Floats
    """Increasing."""

    values: Floats

    @property
    def everywhere(self) -> bool:
        """Whether Rcrit is 1 at every K."""
        return bool((np.abs(self.values) <= RESOLVED).all())


@dataclass(frozen=True)
class Root:
    """A kernel with Rcrit = 1."""

    kernel: float
    uncertainty: float
    """How far from `kernel` the root may be, given the error of the averages."""

    touching: bool
    """Whether Rcrit - 1 keeps its sign, as far as can be told."""


def scan(single: SingleInput) -> Scan:
    """Tabulate 1 - 1/Rcrit on both sides of K = 1, as far as the averages are finite and accurate."""
    if single.activation.homogeneity is not None:
        K = np.ones(1)  # The ratio does not depend on K.
        return Scan(K, relative_difference(single, K))
    parts = [*_outwards(single, -1)[::-1], *_outwards(single, 1)]
    if not parts:
        name = single.activation.name
        raise InvalidInput(f"{name}: its averages are not accurate anywhere near K = 1; are all kinks declared?")
    return Scan(np.concatenate([part.kernels for part in parts]), np.concatenate([part.values for part in parts]))


def _outwards(single: SingleInput, side: int) -> list[Scan]:
    """Decade by decade from K = 1, until the averages fail or nothing changes any more."""
    parts: list[Scan] = []
    for count in range(_AT_MOST):
        if count >= _AT_LEAST and _settled(parts[-1].values):
            break
        K = 10.0 ** (side * count + np.arange(_PER_DECADE) / _PER_DECADE - (side < 0))
        try:
            values = relative_difference(single, K)
        except InvalidInput:
            break
        if not np.isfinite(values).all():
            break
        parts.append(Scan(K, values))
    return parts


def _settled(values: Floats) -> bool:
    """Whether the ratio has reached 1, or another limit."""
    return bool(np.abs(values).max() <= RESOLVED or np.ptp(values) <= 1e-6 * np.abs(values).max())


def relative_difference(single: SingleInput, K: Floats) -> Floats:
    """1 - 1/Rcrit = -<s s''> / <s'^2>."""
    with np.errstate(all="ignore"):
        return np.asarray(-single.bend(K) / single.slope_square(K))


def roots(single: SingleInput, table: Scan) -> list[Root]:
    """All kernels with Rcrit = 1, in order: sign changes of 1 - 1/Rcrit, and extrema that are zero.

    A cubic spline through the table says where the extrema are, so that two roots between neighbours of equal sign
    are told apart from one that touches and from a near miss.
    """
    if len(table.kernels) < 2:
        return []

    def difference(log_K: float) -> float:
        return float(relative_difference(single, np.asarray(np.exp(log_K))))

    x, f = _with_extrema(single, table)
    found: list[float] = [_between(difference, x[i], x[i + 1]) for i in range(len(x) - 1) if f[i] * f[i + 1] < 0]
    touching: list[Root] = []
    for low, high in _candidates(x, f):
        sign = np.sign(difference(low))
        best = minimize_scalar(
            lambda t, sign=sign: sign * difference(t), bounds=(low, high), method="bounded", options={"xatol": 1e-9}
        )
        if best.fun < -TOUCHES:
            found += [_between(difference, low, best.x), _between(difference, best.x, high)]
        elif best.fun <= TOUCHES:
            touching.append(_touching(difference, float(best.x)))
    crossing = [_crossing(single, float(np.exp(t))) for t in found]
    return sorted(crossing + touching, key=lambda root: root.kernel)


def _with_extrema(single: SingleInput, table: Scan) -> tuple[Floats, Floats]:
    """log K and 1 - 1/Rcrit where its sign is sure: on the grid, and at the extrema of its interpolant."""
    x, f = np.log(table.kernels), table.values
    turning = CubicSpline(x, f).derivative().roots(extrapolate=False)
    turning = np.unique(turning[np.isfinite(turning)])
    x, f = np.append(x, turning), np.append(f, relative_difference(single, np.exp(turning)))
    x, first = np.unique(x, return_index=True)
    f = f[first]
    sure = np.abs(f) > RESOLVED
    return x[sure], f[sure]


def _candidates(x: Floats, f: Floats) -> list[tuple[float, float]]:
    """Intervals with ends of one sign in which |f| has a minimum near zero; none overlaps another."""
    size, sign = np.abs(f), np.sign(f)
    found: list[tuple[float, float]] = []
    for i in range(1, len(x) - 1):
        lowest = size[i] <= min(size[i - 1], size[i + 1]) and size[i] < _NEAR
        if lowest and sign[i - 1] == sign[i] == sign[i + 1]:
            found.append((x[i - 1], x[i + 1]))
    gaps = np.nonzero((np.diff(x) > 1.5 * np.log(10) / _PER_DECADE) & (sign[:-1] == sign[1:]))[0]
    found += [(x[i], x[i + 1]) for i in gaps]
    return _merged(sorted(found))


def _merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for low, high in intervals:
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _between(difference: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(difference, low, high, xtol=1e-15, rtol=1e-15))


def _crossing(single: SingleInput, K: float) -> Root:
    """Its uncertainty is the error of 1 - 1/Rcrit over the slope there, (d<s'^2>/dK - g'') / <s'^2>."""
    slope = single.slope_square_slope(K) - single.square_curvature(K)
    with np.errstate(divide="ignore"):
        error = float(_ERROR * single.slope_square(K) / np.abs(slope))
    return Root(K, max(error, 1e-15 * K), touching=False)


def _touching(difference: Callable[[float], float], log_K: float) -> Root:
    """Its uncertainty is how far an extremum that is zero to within `TOUCHES` may be from a root, or a pair of them."""
    step = 0.05
    here, left, right = (difference(log_K + shift) for shift in (0.0, -step, step))
    curvature = abs(left + right - 2 * here) / step**2
    K = float(np.exp(log_K))
    return Root(K, K * float(np.sqrt(2 * TOUCHES / max(curvature, TOUCHES))), touching=True)
