"""Critical initialisation: the variances at which signals neither explode nor vanish with depth, if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from .. import check
from ..activations import Activation, get
from ..activations.activation import Elementwise
from ..errors import InvalidInput
from ..gaussian import average
from ..precision import double_precision
from .moments import taylor_coefficients
from .single_input import SingleInput

Floats = NDArray[np.float64]

_DECADES = range(-6, 6)
"""Decades of K that are searched for Rcrit(K) = 1."""

_PER_DECADE = 8

_RESOLVED = 1e-9
"""A difference 1 - 1/Rcrit below this has no trustworthy sign."""

_TINY = 1e-9
"""Distance from a point at which one-sided values are taken."""


class NotCritical(InvalidInput):
    """A critical initialisation was asked for and the activation has none."""


@dataclass(frozen=True)
class CriticalPoint:
    """chi_par(K*) = chi_perp(K*) = 1 at a fixed point K* = C_b + C_W g(K*), PDLT eqs. (5.55)-(5.56)."""

    activation: Activation
    universality_class: str
    """"scale-invariant", "zero-kernel" or "half-stable"."""

    kernel: float | None
    """K*; None where every K is a fixed point (scale-invariant)."""

    bias_variance: float
    """C_b."""

    weight_variance: float
    """C_W."""

    stability: str
    """"neutral", "stable", "unstable", "stable from below" or "stable from above"."""

    curvature: float
    """a in Delta K' = Delta K + a Delta K^2: C_W g''(K*) / 2, PDLT eqs. (5.102) and (5.83); NaN with a kink at 0."""

    @property
    def usable(self) -> bool:
        """Whether kernels from at least one side stay near K*."""
        return self.stability != "unstable"


@dataclass(frozen=True)
class Rejected:
    """A K with chi_par = chi_perp = 1 whose C_b is negative: no variance."""

    kernel: float
    bias_variance: float
    weight_variance: float


@dataclass(frozen=True)
class Criticality:
    """All critical points of an activation, or why there is none."""

    activation: Activation
    universality_class: str
    """"scale-invariant", "zero-kernel", "half-stable" or "none": that of the first usable point."""

    points: tuple[CriticalPoint, ...]
    """By increasing K*, unstable ones included."""

    rejected: tuple[Rejected, ...]
    """Solutions with C_b < 0."""

    explanation: str
    """In words and numbers."""

    @property
    def best(self) -> CriticalPoint | None:
        """The first point that a network can be initialised at."""
        return next((point for point in self.points if point.usable), None)


def critical_point(activation: str | Activation) -> CriticalPoint:
    """Return the critical initialisation; `NotCritical` says why if there is none.

    >>> point = critical_point("relu")
    >>> point.universality_class, point.bias_variance, point.weight_variance
    ('scale-invariant', 0.0, 2.0)
    """
    found = criticality(activation)
    if found.best is None:
        raise NotCritical(found.explanation)
    return found.best


def criticality(activation: str | Activation) -> Criticality:
    """Find every solution of chi_par(K*) = chi_perp(K*) = 1, PDLT eqs. (5.71)-(5.73), and classify.

    The search is for Rcrit(K) = chi_perp / chi_par = 1, i.e. <s'^2> = g'(K), from K = 1e-6 to 1e6 and at K -> 0;
    then C_W = 1 / <s'^2> and C_b = K* - <s^2> / <s'^2>, which must not be negative. The class is computed,
    not looked up.
    """
    return _criticality(get(activation))


def critical_ratio(activation: str | Activation, kernel: Any) -> Floats:
    """Rcrit(K) = chi_perp / chi_par = <s'^2> / g'(K), PDLT eq. (5.73); elementwise in K > 0.

    >>> round(float(critical_ratio("monomial(2)", 1.0)), 12)
    0.666666666667
    """
    K = check.array("kernel", kernel)
    if (K <= 0).any():
        raise InvalidInput(f"kernel = {K.min():g} must be > 0")
    single = SingleInput.of(activation)
    slope = single.slope_square(K)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(slope / (slope - _difference(single, K)))


@cache
def _criticality(activation: Activation) -> Criticality:
    single = SingleInput(activation)
    jump = _discontinuity(activation)
    if jump is not None:
        words = (
            f"{activation.name} jumps by {jump[1]:.6g} at z = {jump[0]:g}: its slope is a delta function, "
            "<s'^2> diverges, and chi_perp = C_W <s'^2> is never 1"
        )
        return Criticality(activation, "none", (), (), words)
    if _is_scale_invariant(activation):
        C_W = 1 / float(single.slope_square(1.0))
        point = CriticalPoint(activation, "scale-invariant", None, 0.0, C_W, "neutral", 0.0)
        words = f"{activation.name} is scale-invariant: with C_b = 0, C_W = {C_W:.9g} every kernel is a fixed point"
        return Criticality(activation, "scale-invariant", (point,), (), words)
    zero, rejected = _at_zero(single)
    kernels, ratio = _scan(single)
    for K in _roots(single, kernels, ratio):
        point_or_not = _at(single, K)
        if isinstance(point_or_not, Rejected):
            rejected.append(point_or_not)
        else:
            zero.append(point_or_not)
    points = tuple(zero)
    usable = [point.universality_class for point in points if point.usable]
    words = _explain(activation, points, rejected, kernels, ratio)
    return Criticality(activation, usable[0] if usable else "none", points, tuple(rejected), words)


def _difference(single: SingleInput, K: Floats) -> Floats:
    """<s'^2> - g'(K) = -<s s''>: zero where Rcrit = 1, and free of cancellation if taken as one average."""
    activation = single.activation
    if activation.homogeneity is not None:
        slope, g = float(single.slope_square(1.0)), float(single.square(1.0))
        return np.asarray((slope - activation.homogeneity * g) * K ** (activation.homogeneity - 1.0))
    if activation.kinks:
        return np.asarray(single.slope_square(K) - single.square_slope(K))
    return -average(_with_curvature(activation), K, kinks=())


@cache
def _with_curvature(activation: Activation) -> Elementwise:
    """s s'', compiled as one function."""
    function, second = activation.derivative(0), activation.derivative(2)
    return jax.jit(lambda z: function(z) * second(z))


def _scan(single: SingleInput) -> tuple[Floats, Floats]:
    """1 - 1/Rcrit on a grid of K, as far from K = 1 on both sides as the averages are finite and accurate."""
    if single.activation.homogeneity is not None:
        K = np.ones(1)  # The ratio does not depend on K.
        return K, _relative_difference(single, K)
    whole = _on_decades(single, _DECADES)
    if whole is not None:
        return whole
    parts: list[tuple[Floats, Floats]] = []
    for decades in (range(-1, _DECADES[0] - 1, -1), range(_DECADES[-1] + 1)):
        for decade in decades:
            found = _on_decades(single, range(decade, decade + 1))
            if found is None:
                break
            parts = [found, *parts] if decade < 0 else [*parts, found]
    if not parts:
        name = single.activation.name
        raise InvalidInput(f"{name}: its averages are not accurate anywhere near K = 1; are all kinks declared?")
    return np.concatenate([K for K, _ in parts]), np.concatenate([values for _, values in parts])


def _on_decades(single: SingleInput, decades: range) -> tuple[Floats, Floats] | None:
    """K in these decades and 1 - 1/Rcrit there; None unless all of it is finite and accurate."""
    K = 10.0 ** (decades[0] + np.arange(len(decades) * _PER_DECADE) / _PER_DECADE)
    try:
        values = _relative_difference(single, K)
    except InvalidInput:
        return None
    return (K, values) if np.isfinite(values).all() else None


def _relative_difference(single: SingleInput, K: Floats) -> Floats:
    """1 - 1/Rcrit."""
    with np.errstate(all="ignore"):
        return np.asarray(_difference(single, K) / single.slope_square(K))


def _roots(single: SingleInput, kernels: Floats, values: Floats) -> list[float]:
    """Solve between every two neighbours of opposite sign, in log K."""
    sure = np.abs(values) > _RESOLVED
    K, sign = kernels[sure], np.sign(values[sure])

    def difference(log_K: float) -> float:
        return float(_difference(single, np.asarray(np.exp(log_K))))

    changes = np.nonzero(sign[:-1] != sign[1:])[0]
    found = [brentq(difference, np.log(K[i]), np.log(K[i + 1]), xtol=1e-15, rtol=1e-15) for i in changes]
    return [float(np.exp(root)) for root in found]


def _at(single: SingleInput, K: float) -> CriticalPoint | Rejected:
    """C_W, C_b and the stability at a root K > 0."""
    slope = float(single.slope_square(K))
    C_W, C_b = 1 / slope, K - float(single.square(K)) / slope
    if C_b < -1e-12 * K:
        return Rejected(K, C_b, C_W)
    curvature = C_W * float(single.square_curvature(K)) / 2
    stability = "stable from below" if curvature > 0 else "stable from above"
    return CriticalPoint(single.activation, "half-stable", K, max(C_b, 0.0), C_W, stability, curvature)


def _at_zero(single: SingleInput) -> tuple[list[CriticalPoint], list[Rejected]]:
    """K* = 0 needs s(0) = 0 and a slope there, PDLT eq. (5.90)."""
    activation = single.activation
    kinked = 0.0 in activation.kinks
    s = taylor_coefficients(activation, 1 if kinked else 4)
    value, slope = s[0], _slope_square_at_zero(activation) if kinked else s[1] ** 2
    if not np.isfinite([*s, slope]).all():
        raise InvalidInput(
            f"{activation.name} or a derivative is not finite at z = 0; if it has a kink there, declare it"
        )
    if slope < 1e-24:
        return [], []
    if abs(value) > 1e-14:
        # Rcrit -> s_1^2 / (s_1^2 + s_0 s_2), so that only without curvature is there a solution at all.
        flat = not kinked and abs(s[2]) < 1e-14
        return [], [Rejected(0.0, -(value**2) / slope, 1 / slope)] if flat else []
    first = s[3] / s[1] + 0.75 * (s[2] / s[1]) ** 2 if not kinked else float("nan")
    stable = _grows(single, 1 / slope) < 0 if kinked or abs(first) < 1e-13 else first < 0
    stability = "stable" if stable else "unstable"
    return [CriticalPoint(activation, "zero-kernel", 0.0, 0.0, 1 / slope, stability, first)], []


def _slope_square_at_zero(activation: Activation) -> float:
    """The limit of <s'^2> at K -> 0 where the slopes on the two sides of 0 differ."""
    slope = activation.derivative(1)
    with double_precision():
        left, right = (float(slope(np.float64(side * _TINY))) for side in (-1, 1))
    return (left**2 + right**2) / 2


def _grows(single: SingleInput, C_W: float) -> float:
    """Sign of C_W g(K) - K at the smallest K where it can be told from zero."""
    K = 10.0 ** np.arange(-6.0, 0.0)
    change = C_W * single.square(K) / K - 1
    sure = change[np.abs(change) > 1e-11]
    return float(np.sign(sure[0])) if len(sure) else 0.0


def _is_scale_invariant(activation: Activation) -> bool:
    """Whether s(lam z) = lam s(z) for lam > 0: s(z) / z is one number on either side of 0."""
    size = 10.0 ** np.linspace(-4, 4, 33)
    with double_precision():
        sides = [np.asarray(activation(side * size)) / (side * size) for side in (1.0, -1.0)]
        origin = float(activation(np.float64(0.0)))
    scale = max(np.abs(side).max() for side in sides)
    return origin == 0 and 0 < scale < np.inf and all(bool(np.ptp(side) <= 1e-12 * scale) for side in sides)


def _discontinuity(activation: Activation) -> tuple[float, float] | None:
    """The first declared kink at which the function itself jumps, and by how much."""
    with double_precision():
        for kink in activation.kinks:
            near = _TINY * max(1.0, abs(kink))
            low, high = (float(activation(np.float64(kink + side * near))) for side in (-1, 1))
            if abs(high - low) > 1e-6 * max(abs(low), abs(high)) and abs(high - low) > 1e3 * near:
                return kink, high - low
    return None


def _explain(
    activation: Activation,
    points: tuple[CriticalPoint, ...],
    rejected: list[Rejected],
    kernels: Floats,
    values: Floats,
) -> str:
    """One sentence for each point, and for a failure what Rcrit does instead of being 1."""
    lines = [
        f"K* = {point.kernel:.12g} with C_b = {point.bias_variance:.12g}, C_W = {point.weight_variance:.12g} "
        f"({point.universality_class}, {point.stability})"
        for point in points
    ]
    lines += [
        f"K = {bad.kernel:.9g} would need C_b = {bad.bias_variance:.9g} < 0 and C_W = {bad.weight_variance:.9g}"
        for bad in rejected
    ]
    if not any(point.usable for point in points):
        lines.insert(0, "no critical initialisation")
        lines.append(_ratio_in_words(kernels, values))
    return f"{activation.name}: " + "; ".join(lines)


def _ratio_in_words(kernels: Floats, values: Floats) -> str:
    """What chi_par / chi_perp does over the range that was searched."""
    if len(kernels) == 1:
        return f"chi_par / chi_perp = 1 / Rcrit is {1 - values[0]:.6g} at every K, never 1"
    low, high = 1 - values.max(), 1 - values.min()
    side = "stays below" if high < 1 else "stays above" if low > 1 else "comes near"
    return (
        f"chi_par / chi_perp = 1 / Rcrit {side} 1: it is between {low:.6g} and {high:.6g} "
        f"for K from {kernels[0]:.3g} to {kernels[-1]:.3g}"
    )
