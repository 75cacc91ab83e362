"""Susceptibilities: how small differences between kernels grow or shrink in one layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from .single_input import Moments, moments


@dataclass(frozen=True)
class Susceptibilities:
    """What one layer with variances (C_b, C_W) does at the kernel K, elementwise in K (PDLT sections 5.1 and 5.4)."""

    kernel: Floats
    """K."""

    next_kernel: Floats
    """C_b + C_W g(K), PDLT eq. (5.4)."""

    parallel: Floats
    """chi_par = C_W g'(K), PDLT eqs. (5.10), (5.50): growth of a difference of norms."""

    perpendicular: Floats
    """chi_perp = C_W <s'^2>, PDLT eq. (5.51): growth of a difference of directions, and of gradients."""

    h: Floats
    """(1/2) d chi_perp / dK, PDLT eq. (5.52)."""

    j: Floats
    """C_W <s^2 [(z^2/K)^2 - 6 z^2/K + 3]> = 4 C_W K^2 g''(K), PDLT eq. (5.111)."""

    source: Floats
    """S = C_W^2 [<s^4> - <s^2>^2], PDLT eq. (5.109): what a layer adds to the four-point vertex."""


def susceptibilities(
    activation: str | Activation, kernel: Any, *, bias_variance: float = 0.0, weight_variance: float = 1.0
) -> Susceptibilities:
    """Return the susceptibilities at the kernels K for the variances C_b and C_W.

    >>> at = susceptibilities("sin", 1.0)
    >>> round(float(at.parallel), 12), round(float(at.perpendicular), 12)
    (0.135335283237, 0.567667641618)
    """
    C_b = check.number("bias_variance", bias_variance, least=0)
    C_W = check.number("weight_variance", weight_variance, least=0)
    averages = moments(activation, kernel)
    return from_moments(averages, np.asarray(kernel, dtype=np.float64), C_b, C_W)


def from_moments(averages: Moments, K: Floats, C_b: Any, C_W: Any) -> Susceptibilities:
    """The same, from averages already computed; C_b and C_W may be arrays."""
    return Susceptibilities(
        K,
        C_b + C_W * averages.square,
        C_W * averages.square_slope,
        C_W * averages.slope_square,
        C_W / 2 * averages.slope_square_slope,
        4 * C_W * _without_infinities(K**2, averages.square_curvature),
        C_W**2 * (averages.fourth - averages.square**2),
    )


def _without_infinities(K_squared: Floats, curvature: Floats) -> Floats:
    """K^2 g'', which vanishes with K."""
    return np.asarray(np.where(K_squared > 0, K_squared * np.where(K_squared > 0, curvature, 0.0), 0.0))
