"""Critical points, or why there is none, in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .critical_search import RESOLVED, TOUCHES, Scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .critical_points import CriticalPoint, Rejected


def jumps(name: str, location: float, jump: float) -> str:
    """Of an activation that is not continuous."""
    return (
        f"{name} jumps by {jump:.6g} at z = {location:g}: its slope is a delta function, "
        "<s'^2> diverges, and chi_perp = C_W <s'^2> is never 1"
    )


def constant(name: str) -> str:
    """Of an activation that is constant."""
    return f"{name} is constant: <s'^2> = 0, and chi_perp = C_W <s'^2> is never 1"


def scale_invariant(name: str, weight_variance: float) -> str:
    """Of the scale-invariant class."""
    return f"{name} is scale-invariant: with C_b = 0, C_W = {weight_variance:.9g} every kernel is a fixed point"


def verdict(name: str, points: Sequence[CriticalPoint], rejected: Sequence[Rejected], table: Scan) -> str:
    """One clause for each point, for a failure what Rcrit does instead of being 1, and what was searched."""
    lines = [_point(point) for point in points]
    lines += [
        f"K = {bad.kernel:.9g} would need C_b = {bad.bias_variance:.9g} < 0 and C_W = {bad.weight_variance:.9g}"
        for bad in rejected
    ]
    if not any(point.usable for point in points):
        lines.insert(0, "no critical initialisation")
    if table.everywhere:
        lines.append("Rcrit is 1 at every K: one of a line of such points")
    elif lines[0].startswith("no"):
        lines.append(_ratio(table))
    return f"{name}: " + "; ".join(lines) + _searched(table)


def _point(point: CriticalPoint) -> str:
    kind = f"{point.universality_class}, {point.stability}"
    if point.touching:
        kind += f", where Rcrit touches 1 to within {TOUCHES:g}, K* known to {point.uncertainty:.1g}"
    return (
        f"K* = {point.kernel:.12g} with C_b = {point.bias_variance:.12g}, C_W = {point.weight_variance:.12g} ({kind})"
    )


def _ratio(table: Scan) -> str:
    """What chi_par / chi_perp does over the range that was searched."""
    values = table.values
    if len(values) == 1:
        return f"chi_par / chi_perp = 1 / Rcrit is {1 - values[0]:.6g} at every K, never 1"
    low, high = 1 - values.max(), 1 - values.min()
    side = "stays below" if high < 1 else "stays above" if low > 1 else "comes near"
    sure = np.abs(values) > RESOLVED
    if (values[sure] > 0).any() and (values[sure] < 0).any():
        side = "crosses"
    return f"chi_par / chi_perp = 1 / Rcrit {side} 1: it is between {low:.6g} and {high:.6g}"


def _searched(table: Scan) -> str:
    if len(table.kernels) == 1:
        return ""
    return f"; searched K from {table.kernels[0]:.3g} to {table.kernels[-1]:.3g}, and K -> 0"
