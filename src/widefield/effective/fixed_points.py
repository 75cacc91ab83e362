"""Fixed points of the kernel's recursion K' = C_b + C_W g(K), and which of them a first kernel reaches.

g need not increase with K. It cannot fall fast, though: K g'/g = <s^2 (x^2 - 1)> / (2 <s^2>) with x = z / sqrt K
is at least -1/2, and so is the slope of log K' against log K. Hence chi_par >= -1/2 at every fixed point, there is no
cycle of two layers (between its kernels the slope would be -1 on average), and by Coppel's theorem on maps of an
interval without such a cycle every kernel settles at a fixed point or explodes. It may leap over fixed points before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from ..activations import Activation
from ..base.arrays import Booleans, Floats, Integers
from .single_input import SingleInput

_DECADES, _PER_DECADE = 6, 24
"""The table of g reaches this many decades to either side of the first kernel."""

_LAYERS, _ROUNDS = 64, 64
"""Layers that are iterated before looking again whether the limit is certain, and how often."""

_NEARLY = 1e-2
"""How far from chi_par = 1 a fixed point is well-conditioned."""


@dataclass(frozen=True)
class Reached:
    """Where the kernel goes, for each pair of variances."""

    kernel: Floats
    """The fixed point; infinity where the kernel explodes."""

    settled: Booleans
    """Whether that is certain: False where the kernel was still on its way after 4096 layers."""

    count: Integers
    """Fixed points from 0 to 1e6 times the first kernel, reached or not; two within a tenth of K may be missed."""


def reached(activation: Activation, weight: Floats, bias: Floats, start: float) -> Reached:
    """The fixed points that K' = C_b + C_W g(K), PDLT eq. (5.4), reaches from K = `start`."""
    table = _Table(SingleInput(activation), start)
    F = bias[:, None] + weight[:, None] * table.g - table.grid
    middle = len(table.grid) // 2
    still = np.abs(F[:, middle]) <= 1e-13 * start
    K, settled = np.full(len(weight), start), still.copy()
    for _ in range(_ROUNDS + 1):
        todo = np.nonzero(~settled)[0]
        if not len(todo):
            break
        limit, certain = _limits(table, weight[todo], bias[todo], F[todo], K[todo])
        K[todo[certain]], settled[todo[certain]] = limit[certain], True
        todo = todo[~certain]
        K[todo] = _iterate(table, weight[todo], bias[todo], K[todo])
    return Reached(K, settled, _count(table, weight, bias, F))


@dataclass(frozen=True)
class _Table:
    """g on a grid, and between."""

    single: SingleInput
    start: float

    @cached_property
    def grid(self) -> Floats:
        return np.asarray(self.start * 10.0 ** np.linspace(-_DECADES, _DECADES, 2 * _DECADES * _PER_DECADE + 1))

    @cached_property
    def g(self) -> Floats:
        return self.single.square(self.grid)

    @cached_property
    def origin(self) -> float:
        return float(self.single.square(0.0))

    @cached_property
    def spline(self) -> BSpline:
        """g is analytic in log K, so that a high order pays."""
        return make_interp_spline(np.log(self.grid), self.g, k=7)

    @cached_property
    def falls(self) -> Integers:
        """How many cells up to each point of the grid have a g that falls, there or next door."""
        falling = np.diff(self.g) < -1e-13 * self.g[1:]
        wide = falling.copy()
        wide[1:] |= falling[:-1]
        wide[:-1] |= falling[1:]
        return np.append(0, np.cumsum(wide))

    def __call__(self, K: Floats) -> Floats:
        """g(K): interpolated on the grid, as good as linear below it, integrated above."""
        below, above = self.grid[0] > K, self.grid[-1] < K
        inside = self.spline(np.log(np.clip(K, self.grid[0], self.grid[-1])))
        g = np.where(below, self.origin + (self.g[0] - self.origin) * K / self.grid[0], inside)
        if above.any():
            g[above] = self.single.square(K[above])
        return np.asarray(g)

    def slope(self, K: Floats) -> Floats:
        """g'(K), with the accuracy of an interpolant."""
        inside = self.spline(np.log(np.clip(K, self.grid[0], self.grid[-1])), 1) / K
        return np.asarray(np.where(self.grid[0] > K, (self.g[0] - self.origin) / self.grid[0], inside))


def _limits(table: _Table, weight: Floats, bias: Floats, F: Floats, K: Floats) -> tuple[Floats, Booleans]:
    """Where the kernel goes from K, and whether that is certain.

    It is if g rises all the way to the next fixed point in the direction of the flow, for then the kernel cannot pass
    it; and if the kernel has stopped where chi_par < 1/2.
    """
    top, limit = len(table.grid) - 1, np.full(len(K), np.inf)
    finite = np.isfinite(K)
    safe = np.where(finite, K, table.grid[0])
    move = bias + weight * table(safe) - safe
    up, cell = move > 0, np.clip(np.searchsorted(table.grid, safe, side="right") - 1, 0, top - 1)
    index = np.arange(top + 1)
    above = (F <= 0) & (index > cell[:, None])
    below = (F >= 0) & (index <= cell[:, None])
    first, last = np.where(above.any(1), above.argmax(1), top + 1), top - below[:, ::-1].argmax(1)
    last = np.where(below.any(1), last, -1)
    low = np.where(up, first - 1, last)
    ends = np.where(up, cell, np.maximum(last, 0)), np.where(up, np.minimum(first, top), cell + 1)
    rising = table.falls[ends[1]] == table.falls[ends[0]]
    rising &= (low >= 0) | (table.g[0] >= table.origin)
    inside = (low >= 0) & (low < top) & (safe <= table.grid[-1])
    limit[~up & (low < 0)] = _linear_root(table, weight, bias)[~up & (low < 0)]
    chosen = inside & rising & finite
    limit[chosen] = _refine(table, weight[chosen], bias[chosen], low[chosen])
    stopped = finite & ~rising & (np.abs(move) <= 1e-9 * safe) & (weight * table.slope(safe) < 0.5)
    limit[stopped] = _newton(table.single, weight[stopped], bias[stopped], K[stopped])
    gone = up & (safe >= table.grid[-1])
    return limit, rising | stopped | ~finite | gone


def _iterate(table: _Table, weight: Floats, bias: Floats, K: Floats) -> Floats:
    for _ in range(_LAYERS if len(K) else 0):
        # An average that far out may not exist; what goes there does not come back.
        K = np.where(1e6 * table.grid[-1] >= K, K, np.inf)
        near = np.isfinite(K)
        K = np.where(near, bias + weight * table(np.where(near, K, table.start)), np.inf)
    return np.asarray(K)


def _count(table: _Table, weight: Floats, bias: Floats, F: Floats) -> Integers:
    """Sign changes of C_b + C_W g(K) - K along the grid and from K = 0, where it is not negative."""
    sign = np.sign(np.where(np.abs(F) <= 1e-13 * table.grid, 0.0, F))
    latest = np.maximum.accumulate(np.where(sign != 0, np.arange(sign.shape[1]), 0), axis=1)
    sign = np.take_along_axis(sign, latest, axis=1)
    changes = (sign[:, 1:] * sign[:, :-1] < 0).sum(axis=1)
    at_zero = bias + weight * table.origin == 0
    return np.asarray(changes + (at_zero | (sign[:, 0] < 0)))


def _linear_root(table: _Table, weight: Floats, bias: Floats) -> Floats:
    """Below the grid g is as good as linear."""
    bottom = table.grid[0]
    slope = weight * (table.g[0] - table.origin) / bottom
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(slope < 1, np.clip((bias + weight * table.origin) / (1 - slope), 0, bottom), 0.0)


def _refine(table: _Table, weight: Floats, bias: Floats, low: Integers) -> Floats:
    """Bisect the interpolant between neighbours on the grid, then take Newton steps with exact averages."""
    if not len(weight):
        return np.zeros(0)
    left, right = table.grid[low], table.grid[low + 1]
    K = np.clip(_newton(table.single, weight, bias, _bisect(table, weight, bias, left, right)), left, right)
    # Near chi_par = 1 a small error of g is a large one of K*: no interpolant and no Newton step will do.
    near = np.abs(1 - weight * table.slope(K)) <= 2 * _NEARLY
    if near.any():
        K[near] = _bisect(table.single.square, weight[near], bias[near], left[near], right[near])
    return np.asarray(K)


def _newton(single: SingleInput, weight: Floats, bias: Floats, K: Floats) -> Floats:
    """Two steps towards C_b + C_W g(K) = K, none where chi_par is near 1."""
    for _ in range(2 if len(K) else 0):
        slope = 1 - weight * single.square_slope(K)
        K = K + (bias + weight * single.square(K) - K) / np.where(np.abs(slope) > _NEARLY, slope, np.inf)
    return K


def _bisect(g: Callable[[Any], Floats], weight: Floats, bias: Floats, left: Floats, right: Floats) -> Floats:
    """The root of C_b + C_W g(K) - K between `left` and `right`, where the signs differ."""
    rising = bias + weight * g(left) - left > 0
    for _ in range(46):
        middle = (left + right) / 2
        before = (bias + weight * g(middle) - middle > 0) == rising
        left, right = np.where(before, middle, left), np.where(before, right, middle)
    return np.asarray((left + right) / 2)
