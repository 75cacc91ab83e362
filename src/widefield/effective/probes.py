"""What can be seen of an activation by evaluating it: NaNs, jumps, kinks, homogeneity, one-sided limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import jax
import numpy as np

from ..activations import Activation, limits
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..gaussian.nested import evaluate

_ORDINARY = np.linspace(-8.0, 8.0, 65)
"""Arguments at which an activation has to be a number; farther out it may overflow."""


@dataclass(frozen=True)
class Kink:
    """One-sided limits of s and s' at a point where s is not smooth."""

    location: float
    value: tuple[float, float]
    """s on the left and on the right."""

    slope: tuple[float, float]
    """s' on the left and on the right."""

    @property
    def jump(self) -> float:
        """By how much s itself jumps, zero if that is within the error of the limits."""
        low, high = self.value
        steepness = limits.NEAR * max(1.0, abs(self.location)) * max(abs(slope) for slope in self.slope)
        size = max(abs(low), abs(high))
        return high - low if abs(high - low) > max(1e-6 * size, 10 * steepness) else 0.0

    @property
    def slope_jump(self) -> float:
        """By how much s' jumps: the strength of the delta function in s''."""
        return self.slope[1] - self.slope[0]


@cache
def kinks(activation: Activation) -> tuple[Kink, ...]:
    """The declared kinks with the limits there."""
    points = activation.kinks
    values, slopes = one_sided(activation, 0, points), one_sided(activation, 1, points)
    return tuple(map(Kink, points, values, slopes))


def one_sided(activation: Activation, order: int, points: tuple[float, ...]) -> list[tuple[float, float]]:
    """The limits of a derivative at points from the left and from the right.

    >>> from widefield.activations import get
    >>> one_sided(get("relu"), 1, (0.0,))
    [(0.0, 1.0)]
    """
    return limits.one_sided(partial(_values, activation, order), points)


def _values(activation: Activation, order: int, z: Floats) -> Floats:
    return evaluate(_compiled(activation, order), z) if z.size else z


@cache
def _compiled(activation: Activation, order: int) -> jax.stages.Wrapped:
    return jax.jit(activation.derivative(order))


def require_numbers(activation: Activation) -> None:
    """Raise if the activation is not a number somewhere between -8 and 8."""
    bad = _ORDINARY[~np.isfinite(_values(activation, 0, _ORDINARY))]
    if len(bad):
        raise InvalidInput(f"{activation.name} is not finite at z = {bad[np.abs(bad).argmin()]:g}")


def discontinuity(activation: Activation) -> tuple[float, float] | None:
    """The first declared kink at which the function itself jumps, and by how much."""
    return next(((kink.location, kink.jump) for kink in kinks(activation) if kink.jump), None)


def is_constant(activation: Activation) -> bool:
    """Whether s has one value."""
    values = _values(activation, 0, np.concatenate([_ORDINARY, 1e4 * _ORDINARY]))
    return bool(np.isfinite(values).all() and np.ptp(values) <= 1e-14 * np.abs(values).max())


def is_scale_invariant(activation: Activation) -> bool:
    """Whether s(lam z) = lam s(z) for lam > 0: s(0) = 0, and s(z) / z is one number on either side of 0."""
    size = 10.0 ** np.linspace(-4, 4, 33)
    sides = [_values(activation, 0, side * size) / (side * size) for side in (1.0, -1.0)]
    scale = max(np.abs(side).max() for side in sides)
    if not 0 < scale < np.inf or _values(activation, 0, np.zeros(1))[0]:
        return False
    return all(bool(np.ptp(side) <= 1e-12 * scale) for side in sides)


def slope_square_at_zero(activation: Activation) -> float:
    """The limit of <s'^2> at K -> 0: the mean of the squared slopes on the two sides of 0."""
    ((left, right),) = one_sided(activation, 1, (0.0,))
    return (left**2 + right**2) / 2
