"""Nested Gauss-Legendre quadrature of Gaussian averages, with breakpoints at kinks and local refinement.

Variables z = L x are built from independent standard normals x, one nested integral for each. The panels of every
integral break at the kinks of the variable that it completes, are graded towards the structure of the later ones
(a kink at z = 0 averaged over the remaining normals is a step of known width), and are bisected where two
orders of the rule disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats, Integers
from ..base.errors import InvalidInput
from ..base.numbers import double_precision

Function = Callable[..., Any]
"""A vectorised function of one or more arrays, in numpy or jax."""

Integrand = Callable[[int, list[Floats]], Floats | None]
"""(level, variables so far) -> factor of the integrand that this level completes, or None."""

_ORDERS = {1: (12, 16), 2: (12, 16), 3: (14, 16)}
"""Orders that are compared, by the number of nested integrals: refining three costs more than a close call."""

_GRID = {1: (0.0, 2.0, 4.0, 7.0, 14.0), 2: (0.0, 2.0, 4.5, 10.0), 3: (0.0, 2.0, 4.5, 9.0)}
"""Coarsest breakpoints, in standard deviations, by the number of nested integrals."""

_STRUCTURE = {1: 2.0**-5, 2: 2.0}
"""Length on which a smooth activation may vary: the poles of tanh stand at +-i pi/2. Refinement finds shorter ones
unless they hide between the nodes, below a hundredth of this; one integral affords more caution than several."""

_REACH = 1.5
"""Panels are graded up to this many standard deviations from a centre; beyond, the coarsest grid is fine enough."""

_FINEST = 1e-12
"""A step narrower than this many standard deviations is taken to be sharp."""

_CHUNK = {1: 2**16, 2: 2**10, 3: 2**5}
"""Outermost panels held in memory at once, by the number of nested integrals."""

_BUDGET = {1: 1e7, 2: 5e8, 3: 5e8}
"""Evaluations that may be spent on one level of refinement of one average."""

_PROBES = (4, 32)
"""Averages, and innermost integrals of each, that tell beforehand whether refining them will do."""

_BEYOND = 30.0
"""Times the tolerance by which these must miss it at the finest level; errors of many cancel to some extent."""

_ROWS = 2**11
"""Inner integrals held in memory at once."""

_SHAPES = (2**10, 2**14, 2**18)
"""Functions are called with arrays of these lengths only: jax compiles once for each."""


def evaluate(function: Function, *arguments: Floats) -> Floats:
    """Return function(*arguments) in float64, whatever precision jax is set to."""
    size = arguments[0].size
    flat = [a.ravel() for a in arguments]
    result = np.empty(size)
    with double_precision():
        for start in range(0, size, _SHAPES[-1]):
            length = min(size - start, _SHAPES[-1])
            shape = next(n for n in _SHAPES if n >= length)
            padded = [np.concatenate([a[start : start + length], np.full(shape - length, a[start])]) for a in flat]
            values = np.asarray(function(*padded))
            if values.dtype in (np.float32, np.float16):
                raise InvalidInput(f"the function returned {values.dtype}; averages need float64")
            result[start : start + length] = np.broadcast_to(values, shape)[:length]
    return result.reshape(arguments[0].shape)


@dataclass(frozen=True)
class Nested:
    """B averages of functions of R variables z = mean + factor @ x, a nested integral for each of d normals x."""

    factor: Floats
    """(B, R, d), lower triangular."""

    width: Floats
    """(B, R): standard deviation of a further normal over which the functions of a variable are averaged already."""

    kinks: tuple[tuple[float, ...], ...]
    """Kinks of the functions of each variable."""

    integrand: Integrand

    mean: Floats
    """(B, R)."""

    def average(self, *, tolerance: float, levels: int) -> tuple[Floats, Floats, Floats]:
        """Return the averages, estimates of their errors, and the averages of the absolute values.

        Panels are bisected, at most `levels` times, until two orders agree to `tolerance` of the absolute average.
        Several integrals cost more with every level, so that they are given up at once where the last would not do.
        """
        items = len(self.factor)
        if items == 0:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        owner, low, high = self._panels(0, np.arange(items), self.mean, 0)
        value, error, size = np.zeros(items), np.zeros(items), np.zeros(items)
        scale = np.zeros(items)
        for level in range(levels + 1):
            part, difference, magnitude = self._sweep(owner, low, high, level)
            if level == 0:
                scale = np.bincount(owner, magnitude, items) / np.bincount(owner, minlength=items)
            allowed = 0.3 * tolerance * (magnitude + scale[owner])
            done = (difference <= allowed) | ~np.isfinite(difference) | (level == levels)
            done |= self._too_dear(owner, done, level)
            if level == 0 and not done.all():
                done |= self._hopeless(owner[~done], difference[~done], tolerance, levels)
            for total, term in ((value, part), (error, difference), (size, magnitude)):
                total += np.bincount(owner[done], term[done], items)
            owner, low, high = owner[~done], low[~done], high[~done]
            if not len(owner):
                break
            middle = 0.5 * (low + high)
            owner, low, high = np.tile(owner, 2), np.append(low, middle), np.append(middle, high)
        return value, error + 1e-15 * size + self._cut(), size

    def _too_dear(self, owner: Integers, done: NDArray[np.bool_], level: int) -> NDArray[np.bool_]:
        """Whether refining all panels of an item that are not done would exceed the budget."""
        inner = 16 * 2 * len(_GRID[self.factor.shape[2]]) * 2.0**level
        cost = 32 * inner ** (self.factor.shape[2] - 1)
        waiting = np.bincount(owner[~done], minlength=len(self.factor))
        dear: NDArray[np.bool_] = cost * waiting > _BUDGET[self.factor.shape[2]]
        return dear[owner]

    def _hopeless(self, owner: Integers, difference: Floats, tolerance: float, levels: int) -> bool:
        """Whether the innermost integral misses the tolerance at the finest level, as it does at undeclared kinks.

        Of some such integrals, the panel with the largest error is followed from one level to the next: where a
        function is smooth the error soon falls exponentially, at a kink it falls as a power of the length for ever.
        """
        depth, (averages, probes) = self.factor.shape[2] - 1, _PROBES
        if depth == 0:
            return False
        errors = np.bincount(owner, difference, len(self.factor))
        worst = np.argsort(errors)[::-1][: min(averages, np.count_nonzero(errors))]
        x = np.random.default_rng(0).normal(size=(probes, depth))
        items = np.repeat(worst, probes)
        x = np.tile(x, (len(worst), 1))
        means = self.mean[items] + np.einsum("ird,id->ir", self.factor[items][:, :, :depth], x)
        row, low, high = self._panels(depth, items, means, 0)
        size = np.zeros(len(items))
        for level in range(levels + 1):
            each = (np.arange(len(row)), low, high)
            rules = (np.polynomial.legendre.leggauss(n) for n in _ORDERS[depth + 1])
            coarse, fine = (self._integrate(depth, rule, items[row], means[row], each, level) for rule in rules)
            missed = np.abs(fine[0] - coarse[0])
            if level == 0:
                size += np.bincount(row, fine[1], len(items))
            # The last of every row after sorting is the one with the largest error.
            last = np.lexsort((missed, row))[np.append(np.flatnonzero(np.diff(np.sort(row))), len(row) - 1)]
            row, low, high, missed = row[last], low[last], high[last], missed[last]
            if level < levels:
                middle = 0.5 * (low + high)
                row, low, high = np.tile(row, 2), np.append(low, middle), np.append(middle, high)
        gone, whole = (part.reshape(-1, probes).mean(axis=1) for part in (missed, size))
        return bool(np.any(gone > _BEYOND * tolerance * whole))

    def _cut(self) -> Floats:
        """Size of the integrand where the outermost integral stops: functions that grow fast have mass beyond."""
        items, far, thin = np.arange(len(self.factor)), _GRID[self.factor.shape[2]][-1], 1e-3
        rule = np.polynomial.legendre.leggauss(4)
        total = np.zeros(len(items))
        for low in (-far, far - thin):
            panels = (items, np.full(len(items), low), np.full(len(items), low + thin))
            total += self._integrate(0, rule, items, self.mean, panels, 0)[1] / thin
        return total

    def _sweep(self, owner: Integers, low: Floats, high: Floats, level: int) -> tuple[Floats, Floats, Floats]:
        """Value, difference of two orders and absolute value of every outermost panel, in bounded memory."""
        depth = self.factor.shape[2]
        rules = [np.polynomial.legendre.leggauss(n) for n in _ORDERS[depth]]
        step = _CHUNK[depth]
        results = []
        for start in range(0, len(owner), step):
            chunk = slice(start, start + step)
            items, means = owner[chunk], self.mean[owner[chunk]]
            panels = (np.arange(len(items)), low[chunk], high[chunk])
            coarse, fine = (self._integrate(0, rule, items, means, panels, level) for rule in rules)
            # Two functionals must agree: one alone may do so by accident on an integrand that is not resolved.
            difference = np.maximum(np.abs(fine[0] - coarse[0]), np.abs(fine[2] - coarse[2]))
            results.append(np.stack([fine[0], difference, fine[1]]))
        value, difference, size = np.concatenate(results, axis=1)
        return value, difference, size

    def _integrate(
        self,
        depth: int,
        rule: tuple[Floats, Floats],
        items: Integers,
        means: Floats,
        panels: tuple[Integers, Floats, Floats],
        level: int,
    ) -> Floats:
        """Integrate over x[depth], ... given the part `means` of the variables that earlier normals have fixed.

        Returns the value and the absolute value for each of `items`; at depth 0 also a first moment.
        """
        owner, low, high = panels
        half = 0.5 * (high - low)
        x = (0.5 * (high + low))[:, None] + half[:, None] * rule[0]
        weight = half[:, None] * rule[1] * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        item = items[owner]
        deeper = means[owner][:, None, :] + x[:, :, None] * self.factor[item, None, :, depth]
        variables = deeper.reshape(-1, deeper.shape[2])
        value = size = weight
        factor = self.integrand(depth, [variables[:, c].reshape(x.shape) for c in range(variables.shape[1])])
        if factor is not None:
            value, size = weight * factor, weight * np.abs(factor)
        if depth + 1 < self.factor.shape[2]:
            item = np.repeat(item, x.shape[1])
            below = self._below(depth + 1, rule, item, variables, level)
            value, size = value * below[0].reshape(x.shape), size * below[1].reshape(x.shape)
        # The panels of one owner are neighbours, and every owner has some.
        starts = np.searchsorted(owner, np.arange(len(items)))
        sums = [value.sum(axis=1), size.sum(axis=1)] + ([value @ rule[0]] if depth == 0 else [])
        return np.stack([np.add.reduceat(total, starts) for total in sums])

    def _below(self, depth: int, rule: tuple[Floats, Floats], items: Integers, means: Floats, level: int) -> Floats:
        """Value and absolute value of the integral over x[depth], ... for each row of `means`."""
        step = max(1, _ROWS >> level)
        results = []
        for start in range(0, len(items), step):
            some, there = items[start : start + step], means[start : start + step]
            panels = self._panels(depth, some, there, level)
            results.append(self._integrate(depth, rule, some, there, panels, level))
        return np.concatenate(results, axis=1)

    def _panels(self, depth: int, items: Integers, means: Floats, level: int) -> tuple[Integers, Floats, Floats]:
        """Panels of the integral over x[depth] for each row of `means`, each cut into 2^level: owner, low, high."""
        grid = _GRID[self.factor.shape[2]]
        base = np.array([-g for g in grid[:0:-1]] + list(grid))
        points = [np.broadcast_to(base, (len(items), len(base))), *self._structure(depth, items, means)]
        breaks = np.sort(np.clip(np.concatenate(points, axis=1), base[0], base[-1]), axis=1)
        keep = np.diff(breaks, axis=1) > 1e-14 * base[-1]
        owner = np.nonzero(keep)[0]
        low, high = breaks[:, :-1][keep], breaks[:, 1:][keep]
        if level and depth:
            cuts = np.linspace(0, 1, 2**level + 1)
            edges = low[:, None] + (high - low)[:, None] * cuts
            owner, low, high = np.repeat(owner, 2**level), edges[:, :-1].ravel(), edges[:, 1:].ravel()
        return owner, low, high

    def _structure(self, depth: int, items: Integers, means: Floats) -> Iterator[Floats]:
        """Breakpoints for x[depth] from every later variable, and from every two that may cross their kinks at once.

        Two kinks that coincide in the next integral, over x', make a singularity in this one: it is the kink of
        the combination p' z - p z' that x' drops out of, p = dz/dx'.
        """
        L, width = self.factor[items], self.width[items]
        rows, normals = L.shape[1:]
        for row in range(depth, rows):
            rest = np.sqrt(width[:, row] ** 2 + np.sum(L[:, row, depth + 1 :] ** 2, axis=1))
            yield from self._graded(L[:, row, depth], rest, means[:, row], self.kinks[row], row == depth)
        if depth + 1 == normals:
            return
        for one, two in combinations(range(depth + 1, rows), 2):
            p, q = L[:, one, depth + 1], L[:, two, depth + 1]
            both = q[:, None] * L[:, one] - p[:, None] * L[:, two]
            widths = (q * width[:, one]) ** 2 + (p * width[:, two]) ** 2
            rest = np.sqrt(widths + np.sum(both[:, depth + 2 :] ** 2, axis=1))
            mean = q * means[:, one] - p * means[:, two]
            for kink, other in product(self.kinks[one], self.kinks[two]):
                yield from self._graded(both[:, depth], rest, mean - q * kink + p * other, (0.0,), False, False)

    def _graded(
        self,
        slope: Floats,
        rest: Floats,
        mean: Floats,
        kinks: tuple[float, ...],
        last: bool,
        smooth: bool = True,
    ) -> Iterator[Floats]:
        """Breakpoints that double their distance from where a variable mean + slope x crosses its kinks and 0.

        A kink is seen through the normals still to be integrated, of standard deviation `rest`.
        """
        far = _GRID[self.factor.shape[2]][-1]
        structure = _STRUCTURE[min(self.factor.shape[2], 2)] if smooth else np.inf
        steep = np.abs(slope) > np.maximum(1e-15 * rest, 1e-150)
        size = np.where(steep, np.abs(slope), 1.0)
        for centre in dict.fromkeys((0.0, *kinks)):
            kinked = centre in kinks
            position = np.where(steep, (centre - mean) / np.where(steep, slope, 1.0), 2 * far)
            sharp = rest <= _FINEST * size
            finest = np.where(sharp, structure, rest) if kinked else np.maximum(rest, structure)
            scale = np.where(steep, finest / size, far)
            doublings = max(0, math.ceil(math.log2(_REACH / max(scale.min(initial=far), 1e-15))))
            distance = scale[:, None] * 2.0 ** np.arange(doublings + 1)
            distance = np.where(distance < _REACH, distance, 4 * far)
            yield position[:, None] + distance
            yield position[:, None] - distance
            if kinked:
                yield np.where(last | sharp | (scale < _REACH), position, 2 * far)[:, None]


def require(reached: Floats, size: Floats, tolerance: float, what: str) -> None:
    """Raise if an average is not finite or its estimated error exceeds `tolerance` of the absolute average."""
    bad = ~(reached <= tolerance * size)
    if np.any(bad):
        worst = np.max(np.where(size > 0, reached / np.where(size > 0, size, 1.0), np.inf)[bad])
        raise InvalidInput(
            f"{what}: estimated relative error {worst:.1g} is above tolerance = {tolerance:g}; "
            "declare every kink of the functions, or raise the tolerance"
        )


def flatten(*values: Any) -> tuple[tuple[int, ...], list[Floats]]:
    """Broadcast to one shape; return it and the flat arrays."""
    arrays = np.broadcast_arrays(*values)
    return arrays[0].shape, [np.ascontiguousarray(a, dtype=np.float64).ravel() for a in arrays]
