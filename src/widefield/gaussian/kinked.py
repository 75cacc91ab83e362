"""Averages of derivatives of an activation with kinks, whose second derivative has delta functions."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from ..activations import Activation
from ..activations.moments import determinant
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .activation_moments import feature_kernel, slope_kernel
from .averages import average_product
from .nested import Function, Nested, evaluate

TOLERANCE = 1e-10
"""Of the integrals, relative to the average of the absolute value."""

Entries = tuple[Floats, Floats, Floats]
"""K_11, K_12, K_22 of some pairs."""


@dataclass(frozen=True, eq=False)
class KinkedAverages:
    """<z_1^n s^(i)_1 s^(j)_2> of an activation with kinks at some pairs of samples, each worked out once.

    s'' has the delta functions of `Activation.slope_jumps`; Stein's identity <z_1 F> = K_11 <d_1 F> + K_12 <d_2 F>
    takes further derivatives off. For i or j above 1 no pair may be parallel.
    """

    activation: Activation
    entries: Entries
    known: dict[tuple[int, int, int, bool], Floats] = field(default_factory=dict)

    def __call__(self, i: int, j: int, n: int = 0, turned: bool = False) -> Floats:
        """`turned`: with the two samples of every pair exchanged."""
        if n == 0 and (i < j or (i == j and turned)):
            return self(j, i, 0, not turned)
        key = (i, j, n, turned)
        if key not in self.known:
            self.known[key] = self._found(*key)
        return self.known[key]

    def _found(self, i: int, j: int, n: int, turned: bool) -> Floats:
        entries, q = self.entries[::-1] if turned else self.entries, self.activation.homogeneity
        if n and i and q is not None:  # z s^(i) = (q + 1 - i) s^(i-1)
            return (q + 1 - i) * self(i - 1, j, n - 1, turned) if q + 1 != i else np.zeros_like(entries[0])
        if i > 2 or (i, j, n) == (2, 0, 0):
            return self._by_parts(i, j, n, turned)
        if i == j < 2 and n == 0:
            return (feature_kernel, slope_kernel)[i](self.activation, *entries)
        return _integral(self.activation, i, j, n, entries)

    def _by_parts(self, i: int, j: int, n: int, turned: bool) -> Floats:
        """Stein's identity for F = z_1^n s^(i-1)_1 s^(j)_2, solved for <z_1^n s^(i)_1 s^(j)_2>."""
        entries, straight = self.entries[::-1] if turned else self.entries, self.activation.homogeneity == 1
        if i + j > 6 or (i + j > 4 and j == 0):
            raise InvalidInput(f"orders ({i}, {j}): with kinks, as {self.activation.name!r} has, at most 6 in all")
        if straight and min(i, j) > 1 and (i + j) % 2:  # delta and delta', and the density is even
            return np.zeros_like(entries[0])
        if straight and (i, j, n) == (3, 3, 0):  # delta'(z_1) delta'(z_2): a derivative of the density
            (_, jump), k12, det = self.activation.slope_jumps[0], entries[1], determinant(*entries)
            return np.asarray(jump**2 * k12 / (2 * math.pi * det**1.5))
        if i + j > 4 and not straight:
            return _inserted(self.activation, i, j, entries)
        k11, k12, _ = entries
        rest = n * self(i - 1, j, n - 1, turned) if n else 0.0
        return (self(i - 1, j, n + 1, turned) - k12 * self(i - 1, j + 1, n, turned)) / k11 - rest


def _inserted(activation: Activation, i: int, j: int, entries: Entries) -> Floats:
    """<s^(i)_1 s^(j)_2> = <s'_1 s'_2 H>, H = p^-1 (-d_1)^(i-1) (-d_2)^(j-1) p for the density p: no derivatives of s'.

    With y = K^-1 z every derivative makes y_k H - d_k H of H, a polynomial in z_1, z_2.
    """
    k11, k12, k22 = entries
    det = determinant(*entries)
    inverse = ((k22 / det, -k12 / det), (-k12 / det, k11 / det))
    polynomial: dict[tuple[int, int], Floats] = {(0, 0): np.ones_like(k11)}
    for k in (*(0,) * (i - 1), *(1,) * (j - 1)):
        grown: dict[tuple[int, int], Floats] = defaultdict(lambda: np.zeros_like(k11))
        for (m, n), value in polynomial.items():
            grown[m + 1, n] += inverse[k][0] * value
            grown[m, n + 1] += inverse[k][1] * value
            if (m, n)[k]:
                grown[m - (k == 0), n - (k == 1)] -= (m, n)[k] * value
        polynomial = grown
    slope, total = activation.derivative(1), np.zeros_like(k11)
    for (m, n), value in polynomial.items():
        f, g = times(slope, m), times(slope, n)
        total += value * average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)
    return total


def _integral(activation: Activation, i: int, j: int, n: int, entries: Entries) -> Floats:
    """<z_1^n s^(i)_1 s^(j)_2>, i and j at most 2, with the delta functions of s''."""
    (k11, k12, k22), jumps = entries, activation.slope_jumps
    f, g = times(activation.derivative(i), n), activation.derivative(j)
    straight = activation.homogeneity == 1  # on both sides of the kink: s'' is a delta function and nothing else
    value = np.zeros_like(k11)
    if not (straight and max(i, j) == 2):
        value += average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)
    for place, jump in jumps if i == 2 and not (straight and j == 2) else ():
        if place or not n:
            value += jump * place**n * _density(place, k11) * _given(g, place, entries, activation)
    for place, jump in jumps if j == 2 and not (straight and i == 2) else ():
        value += jump * _density(place, k22) * _given(f, place, (k22, k12, k11), activation)
    for place, jump in jumps if i == j == 2 else ():
        for other, step in jumps:
            away = _density(other - place * k12 / k11, determinant(*entries) / k11)
            value += jump * step * place**n * _density(place, k11) * away
    return value


def _given(f: Function, place: float, entries: Entries, activation: Activation) -> Floats:
    """<f(z_2) | z_1 = place>."""
    k11, k12, _ = entries
    spread = np.sqrt(determinant(*entries) / k11)
    mean = (place * k12 / k11)[:, None]
    kinks = (tuple(activation.kinks),)
    problem = Nested(spread[:, None, None], np.zeros_like(mean), kinks, lambda _, z: evaluate(f, z[0]), mean)
    return problem.average(tolerance=TOLERANCE, levels=30)[0]


def _density(z: float | Floats, variance: Floats) -> Floats:
    """Of N(0, variance) at z."""
    return np.asarray(np.exp(-0.5 * np.square(z) / variance) / np.sqrt(2 * math.pi * variance))


def times(f: Function, n: int) -> Function:
    """z^n f(z)."""
    return (lambda z: z**n * f(z)) if n else f
