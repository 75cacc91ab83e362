"""Critical initialisation: the variances at which signals neither explode nor vanish with depth, if there are any."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from . import critical_words, probes
from .critical_points import Criticality, CriticalPoint, NotCritical, Rejected
from .critical_search import Root, Scan, roots, scan
from .single_input import SingleInput, taylor_coefficients


def critical_point(activation: str | Activation) -> CriticalPoint:
    """Return the critical initialisation; `NotCritical` says why if there is none.

    >>> point = critical_point("relu")
    >>> point.universality_class, point.bias_variance, point.weight_variance
    ('scale-invariant', 0.0, 2.0)
    """
    found = criticality(activation)
    if found.best is None:
        raise NotCritical(found.verdict)
    return found.best


def criticality(activation: str | Activation) -> Criticality:
    """Find every solution of chi_par(K*) = chi_perp(K*) = 1, PDLT eqs. (5.71)-(5.73), and classify.

    The search is for Rcrit(K) = chi_perp / chi_par = 1, i.e. <s'^2> = g'(K), crossed or touched, at K -> 0 and over
    the range that `verdict` states, 1e-6 to 1e6 or more where averages are accurate; then C_W = 1 / <s'^2> and
    C_b = K* - <s^2> / <s'^2>, which must not be negative. The class is computed, not looked up.
    """
    found = get(activation)
    with double_precision():  # once, around hundreds of averages
        return _criticality(found)


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
        return np.asarray(slope / (slope + single.bend(K)))


@cache
def _criticality(activation: Activation) -> Criticality:
    probes.require_numbers(activation)
    jump = probes.discontinuity(activation)
    if jump is not None:
        return Criticality(activation, "none", (), (), critical_words.jumps(activation.name, *jump))
    if probes.is_constant(activation):
        return Criticality(activation, "none", (), (), critical_words.constant(activation.name))
    single = SingleInput(activation)
    if probes.is_scale_invariant(activation):
        C_W = 1 / float(single.slope_square(1.0))
        point = CriticalPoint(activation, "scale-invariant", None, 0.0, C_W, "neutral", 0.0)
        words = critical_words.scale_invariant(activation.name, C_W)
        return Criticality(activation, "scale-invariant", (point,), (), words)
    zero = _at_zero(single)
    _require_by_parts(single)
    table = scan(single)
    found = _somewhere(single, table) if table.everywhere else [_at(single, root) for root in roots(single, table)]
    everything = [*zero, *found]
    points = tuple(point for point in everything if isinstance(point, CriticalPoint))
    rejected = tuple(point for point in everything if isinstance(point, Rejected))
    usable = [point.universality_class for point in points if point.usable]
    words = critical_words.verdict(activation.name, points, rejected, table)
    return Criticality(activation, usable[0] if usable else "none", points, rejected, words, table.everywhere)


def _require_by_parts(single: SingleInput) -> None:
    """Raise unless g' = <s'^2> + <s s''> is <s^2 (z^2 / K - 1)> / 2 K: a kink that is not declared breaks it."""
    K = np.array([0.25, 1.0, 4.0])
    if single.activation.homogeneity is not None or single.activation.universality_class != "unknown":
        return  # powers of K, or an activation whose kinks are known
    try:
        slope = single.slope_square(K)
        gap = np.abs(slope + single.bend(K) - single.square_slope_by_parts(K))
    except InvalidInput:
        return  # the search says where averages are accurate
    if (gap > 1e-7 * (slope + single.square(K) / K)).any():
        raise InvalidInput(
            f"{single.activation.name}: averages of its derivatives do not fit together; declare all kinks"
        )


def _somewhere(single: SingleInput, table: Scan) -> list[CriticalPoint | Rejected]:
    """One of the critical points where every K is one: the nearest to K = 1, if possible with C_b >= 0."""
    K = table.kernels[np.argsort(np.abs(np.log(table.kernels)), kind="stable")]
    possible = K - single.square(K) / single.slope_square(K) >= 0
    return [_at(single, Root(float(K[possible.argmax()]), 0.0, touching=False))]


def _at(single: SingleInput, root: Root) -> CriticalPoint | Rejected:
    """C_W, C_b and the stability at a root K > 0."""
    K, slope = root.kernel, float(single.slope_square(root.kernel))
    C_W, C_b = 1 / slope, K - float(single.square(K)) / slope
    if C_b < -1e-12 * K:
        return Rejected(K, C_b, C_W)
    curvature = C_W * float(single.square_curvature(K)) / 2
    stability = "stable from below" if curvature > 0 else "stable from above"
    return CriticalPoint(
        single.activation,
        "half-stable",
        K,
        max(C_b, 0.0),
        C_W,
        stability,
        curvature,
        root.uncertainty,
        root.touching,
    )


def _at_zero(single: SingleInput) -> list[CriticalPoint | Rejected]:
    """K* = 0 needs s(0) = 0 and a slope there, PDLT eq. (5.90)."""
    activation = single.activation
    kinked = 0.0 in activation.kinks
    s = taylor_coefficients(activation, 1 if kinked else 4)
    value, slope = s[0], probes.slope_square_at_zero(activation) if kinked else s[1] ** 2
    if not np.isfinite([*s, slope]).all():
        raise InvalidInput(
            f"{activation.name} or a derivative is not finite at z = 0; if it has a kink there, declare it"
        )
    if slope < 1e-24:
        return []
    if abs(value) > 1e-14:
        # Rcrit -> s_1^2 / (s_1^2 + s_0 s_2), so that only without curvature is there a solution at all.
        flat = not kinked and abs(s[2]) < 1e-14
        return [Rejected(0.0, -(value**2) / slope, 1 / slope)] if flat else []
    first = s[3] / s[1] + 0.75 * (s[2] / s[1]) ** 2 if not kinked else float("nan")
    stable = _grows(single, 1 / slope) < 0 if kinked or abs(first) < 1e-13 else first < 0
    stability = "stable" if stable else "unstable"
    return [CriticalPoint(activation, "zero-kernel", 0.0, 0.0, 1 / slope, stability, first)]


def _grows(single: SingleInput, C_W: float) -> float:
    """Sign of C_W g(K) - K at the smallest K where it can be told from zero."""
    K = 10.0 ** np.arange(-6.0, 0.0)
    change = C_W * single.square(K) / K - 1
    sure = change[np.abs(change) > 1e-11]
    return float(np.sign(sure[0])) if len(sure) else 0.0
