"""What descent does to trained networks at order 1/n, by modes of the tangent kernel: at any time and at the end.

With squared loss the errors of a mode with eigenvalue h decay like d(h) = (1 - eta h)^t, for gradient flow e^(-h t), at
the end 0. An algorithm with pushes w(s) enters the order 1/n through iterated sums of its path W = sum w alone,
C = sum w W, D = sum w W W, E = sum w C, and those of descent are sums of exponentials. Let
h_ab = h_a + h_b - eta h_a h_b, and h_abc alike, so that products of decays are decays of these, and
G(x) = (1 - d(x)) / x. Then the projectors of PDLT eqs. (inf.135)-(inf.147) are, at any time,

    Z_A = [G_1 - G_12] / h_2            Z_B = Z_A + eta G_12 / 2
    Z_IIA = -[(G_1 - G_12) / h_2 - (G_1 - G_123) / h_23] / h_3
    Z_IA = Z_IIA - eta (G_1 - G_123) / (2 h_23)
    Z_IB = Z_IA - eta (G_12 - G_123) / (2 h_3) - eta^2 G_123 / 6
    Z_IIB = Z_IIA(123) + Z_IIA(132) - eta (G_1 - G_123) / h_23 + Z_IIA(213) - eta (G_12 - G_123) / h_3

What the training samples answer in their mode a by the time t is the same with W(x) = (d(x) - d(h_a)) / (h_a - x) in
place of G; it is 0 at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput

_CLOSE = 1e-5
"""Eigenvalues nearer to each other than this, relative to the largest, take the derivative for the difference."""

_MARGIN = 1e-3
"""Rates nearer to the stability limit than this are refused: there the expansion in 1/n has a pole."""


@dataclass(frozen=True, eq=False)
class Projectors:
    """Z_A, Z_B over two modes, Z_IA .. Z_IIB over three."""

    A: Float[Floats, "a a"]
    B: Float[Floats, "a a"]
    IA: Float[Floats, "a a a"]
    IB: Float[Floats, "a a a"]
    IIA: Float[Floats, "a a a"]
    IIB: Float[Floats, "a a a"]

    def __sub__(self, other: Projectors) -> Projectors:
        mine, yours = ((z.A, z.B, z.IA, z.IB, z.IIA, z.IIB) for z in (self, other))
        return Projectors(*(a - b for a, b in zip(mine, yours, strict=True)))


@dataclass(frozen=True, eq=False)
class Descent:
    """Gradient descent or flow, up to a time or to the end."""

    h: Float[Floats, " a"]
    """Eigenvalues of the NTK on the training samples, rising."""

    rate: float = 0.0
    """eta; 0 is gradient flow."""

    time: float | None = None
    """Steps, or for flow the time; None is the end of training."""

    @classmethod
    def of(cls, h: Float[Floats, " a"], rate: float = 0.0, time: float | None = None) -> Descent:
        """Check that it converges, or if it has a time that it can be said what it is."""
        rate = check.number("learning_rate", rate, least=0)
        if time is None and h[0] <= 1e-12 * h[-1]:
            raise InvalidInput(
                f"the NTK on the training samples has eigenvalues from {h[0]:.3g} to {h[-1]:.3g}: it has no inverse. "
                "Drop samples that repeat others, or give a time"
            )
        limit = 2 / h[-1]
        if rate >= limit * (1 - _MARGIN):
            raise InvalidInput(
                f"learning_rate = {rate:g} must be below 2 / (largest eigenvalue of the NTK) = {limit:.6g}; "
                "0 is gradient flow"
            )
        if time is not None:
            time = check.number("time", time, least=0) if rate == 0 else check.integer("time", time)
        return cls(np.maximum(h, 1e-15 * h[-1]), rate, time)

    def decay(self, x: Floats) -> Floats:
        """d(x)."""
        if self.time is None:
            return np.zeros_like(x)
        return np.asarray(np.exp(-x * self.time) if self.rate == 0 else (1 - self.rate * x) ** self.time)

    def _slopes(self, x: Floats) -> tuple[Floats, Floats]:
        """d', d''."""
        if self.time is None or self.time == 0:
            return np.zeros_like(x), np.zeros_like(x)
        t, eta = self.time, self.rate
        if eta == 0:
            return -t * np.exp(-x * t), t * t * np.exp(-x * t)
        u = 1 - eta * x
        return -eta * t * u ** (t - 1), eta**2 * t * (t - 1) * u ** max(t - 2, 0)

    def learned(self, x: Floats) -> Floats:
        """G(x)."""
        if self.time is not None and self.rate == 0:
            return np.asarray(-np.expm1(-x * self.time) / x)
        return np.asarray((1 - self.decay(x)) / x)

    @cached_property
    def first(self) -> Float[Floats, " a"]:
        """g_a = G(h_a)."""
        return self.learned(self.h)

    @cached_property
    def second(self) -> Float[Floats, "a a"]:
        """g[a, b], divided differences."""
        h, middle = self.h, (self.h[:, None] + self.h) / 2
        d, slope = self.decay(middle), self._slopes(middle)[0]
        return _divided(self.first, h, (-slope * middle - (1 - d)) / middle**2)

    @cached_property
    def third(self) -> Float[Floats, "a a a"]:
        """g[a, b, c]."""
        places = np.sort(np.indices((len(self.h),) * 3), axis=0)  # eigenvalues rise
        low, mid, high = places
        h = self.h
        gap, middle = h[high] - h[low], (h[low] + h[mid] + h[high]) / 3
        d, (slope, bend) = self.decay(middle), self._slopes(middle)
        curvature = (-bend * middle**2 + 2 * slope * middle + 2 * (1 - d)) / middle**3
        far = gap > _CLOSE * h[-1]
        quotient = (self.second[mid, high] - self.second[low, mid]) / np.where(far, gap, 1.0)
        return np.asarray(np.where(far, quotient, curvature / 2))

    @cached_property
    def projectors(self) -> Projectors:
        """Z at this time."""
        return self._summed(self.learned)

    def answered(self, mode: int) -> Projectors:
        """Z less what the training samples have answered in one of their modes by this time."""
        if self.time is None:
            return self.projectors
        own = self.h[mode]
        d = self.decay(np.asarray(own))

        def response(x: Floats) -> Floats:
            gap = own - x
            near = np.abs(gap) <= _CLOSE * self.h[-1]
            slope = self._slopes((own + x) / 2)[0]
            return np.asarray(np.where(near, -slope, (self.decay(x) - d) / np.where(near, 1.0, gap)))

        return self.projectors - self._summed(response)

    def _summed(self, summed: Callable[[Floats], Floats]) -> Projectors:
        eta, h = self.rate, self.h
        both = h[:, None] + h - eta * h[:, None] * h
        all_three = both[:, :, None] + h * (1 - eta * both[:, :, None])
        one, two, three = summed(h), summed(both), summed(all_three)
        A = (one[:, None] - two) / h
        last = (one[:, None, None] - three) / both[None]
        IIA = -(A[:, :, None] - last) / h
        IA = IIA - eta / 2 * last
        outer = (two[:, :, None] - three) / h
        IB = IA - eta / 2 * outer - eta**2 / 6 * three
        IIB = IIA + IIA.transpose(0, 2, 1) - eta * last + IIA.transpose(1, 0, 2) - eta * outer
        return Projectors(A, A + eta / 2 * two, IA, IB, IIA, IIB)


def _divided(values: Floats, h: Floats, derivative: Floats) -> Floats:
    gap = h[:, None] - h
    far = np.abs(gap) > _CLOSE * h[-1]
    return np.asarray(np.where(far, (values[:, None] - values) / np.where(far, gap, 1.0), derivative))
