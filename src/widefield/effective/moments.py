"""The six Gaussian averages that a single input's flow needs, closed where the activation is homogeneous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import check
from ..activations import Activation, get
from ..gaussian.averages import check_variance
from .single_input import SingleInput

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Averages over z ~ N(0, K) of functions of an activation s, each of the shape of K."""

    square: Floats
    """g(K) = <s^2>, PDLT eq. (5.5)."""

    square_slope: Floats
    """g'(K)."""

    square_curvature: Floats
    """g''(K)."""

    slope_square: Floats
    """<s'^2>."""

    slope_square_slope: Floats
    """d<s'^2>/dK."""

    fourth: Floats
    """<s^4>."""


def moments(activation: str | Activation, kernel: Any) -> Moments:
    """Return the averages at the kernels K >= 0 (K > 0 if the activation has kinks and no homogeneity)."""
    single = SingleInput.of(activation)
    K = check_variance("kernel", check.array("kernel", kernel))
    if single.activation.homogeneity is not None:
        return _homogeneous(single, single.activation.homogeneity, K)
    return Moments(
        single.square(K),
        single.square_slope(K),
        single.square_curvature(K),
        single.slope_square(K),
        single.slope_square_slope(K),
        single.fourth(K),
    )


def taylor_coefficients(activation: str | Activation, orders: int = 6) -> tuple[float, ...]:
    """Return s_0, s_1, ..., the derivatives at 0 (PDLT eq. (5.80)), in double precision."""
    single = SingleInput(get(activation))
    return tuple(single.taylor(p) for p in range(orders))


def _homogeneous(single: SingleInput, q: int, K: Floats) -> Moments:
    """s(lam z) = lam^q s(z) makes every average a power of K; its coefficient is the average at K = 1."""
    g, slope, fourth = float(single.square(1.0)), float(single.slope_square(1.0)), float(single.fourth(1.0))
    return Moments(
        _power(g, q, K),
        _power(q * g, q - 1, K),
        _power(q * (q - 1) * g, q - 2, K),
        _power(slope, q - 1, K),
        _power((q - 1) * slope, q - 2, K) if q != 1 else np.zeros_like(K),
        _power(fourth, 2 * q, K),
    )


def _power(coefficient: float, exponent: int, K: Floats) -> Floats:
    if coefficient == 0:
        return np.zeros_like(K)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(coefficient * K ** float(exponent), dtype=np.float64)
