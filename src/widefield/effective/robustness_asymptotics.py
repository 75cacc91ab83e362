"""Robustness of deep smooth networks of the class K* = 0: at criticality, and at a distance from it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import exp1, expi

from ..activations import Activation
from ..base import check
from ..base.errors import InvalidInput
from .asymptotics import ZeroKernel
from .single_input import taylor_coefficients
from .tangent_asymptotics import decay

_SERIES = 0.5
"""Below it, Ein is summed."""


class Robustness(NamedTuple):
    """Of a deep network, in terms of the constant delta^2 = L^p_perp ddK_[2] of the early layers."""

    ntk: float
    """Theta_00."""

    ntk_distance: float
    """ddTheta_[2] / delta^2."""

    robustness: float
    """-2 ddTheta_[2] / (Theta_00 delta^2)."""


def critical_robustness(
    activation: str | Activation, depth: int, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> Robustness:
    """The last of L = `depth` layers with the rates of `equivalent_rates`, PDLT eqs. (10.75)-(10.78).

    With p = p_perp, T = lambda_b + lambda_W s_1^2 / (-a_1): Theta_00 = T, ddTheta_[2] = delta^2 L^(1-p) / (2-p)
    {lambda_W s_1^2 + (s_2/s_1)^2 T}. Robustness does not depend on depth if and only if p = 1 (odd activations).
    ddTheta_[0] -> -ddTheta_[2].
    """
    zero, L = ZeroKernel.of(activation), check.integer("depth", depth, least=1)
    a, p = decay(zero)
    _, s1, s2 = taylor_coefficients(activation, 3)
    w, b = check.number("weight_rate", weight_rate, least=0), check.number("bias_rate", bias_rate, least=0)
    total = b + w * s1**2 / a
    distance = L ** (1 - p) / (2 - p) * (w * s1**2 + (s2 / s1) ** 2 * total)
    return Robustness(total, distance, -2 * distance / total)


def uniform_rates_robustness(
    activation: str | Activation, depth: int, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> Robustness:
    """The same for odd activations with equal rates in all layers, PDLT eqs. (10.79)-(10.81), corrected.

    Theta_00 = lambda_b L / 2, ddTheta_[2] = delta^2 [lambda_W s_1^2 + (-a_1) lambda_b / 2]: the second term, from
    <s''^2> = O(K) times Theta_00 = O(L), is left out in print (docs/differences.md). Robustness falls like 1 / L.
    """
    zero, L = ZeroKernel.of(activation), check.integer("depth", depth, least=1)
    a, p = decay(zero)
    if abs(p - 1) > 1e-12:
        raise InvalidInput(f"activation = {activation!r} has p_perp = {p:g}: use an odd one, p_perp = 1")
    w, b = check.number("weight_rate", weight_rate, least=0), check.number("bias_rate", bias_rate, above=0)
    theta, distance = b * L / 2, w / zero.weight_variance + a * b / 2
    return Robustness(theta, distance, -2 * distance / theta)


def near_critical_robustness(
    activation: str | Activation, distance: float, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> Robustness:
    """Odd activations at C_W s_1^2 = 1 + x/L, x = `distance`, rates lambda_b / l and lambda_W, L large; equal norms.

    With -a_1 K = u = eps / (1 - e^(-eps l)), eps = x/L, ddK_[2] = c u (angles stay fixed on both sides), and

        Theta_00 = x / (1 - e^-x) [lambda_b Ein(x)/x + lambda_W s_1^2/(-a_1)]
        ddTheta_[2] / Theta_00 = c lambda_W s_1^2 / [lambda_b Ein(x)/x + lambda_W s_1^2/(-a_1)]

    with Ein of `exponential_integral`, in units of delta^2 = c; ddTheta_[0] = -ddTheta_[2]. x = 0 is
    `critical_robustness`. For x > 0 the weights take over; for x < 0 biases do, and the network is nearly constant.
    Corrections are O(log L / L).
    """
    zero, x = ZeroKernel.of(activation), check.number("distance", distance)
    a, p = decay(zero)
    if abs(p - 1) > 1e-12:
        raise InvalidInput(f"activation = {activation!r} has p_perp = {p:g}: use an odd one, p_perp = 1")
    w, b = check.number("weight_rate", weight_rate, least=0), check.number("bias_rate", bias_rate, least=0)
    weights = w / zero.weight_variance
    inner = b * (exponential_integral(x) / x if x else 1.0) + weights / a
    theta = (x / -math.expm1(-x) if x else 1.0) * inner
    return Robustness(theta, weights / inner * theta, -2 * weights / inner)


def exponential_integral(x: float) -> float:
    """Ein(x) = int_0^x (1 - e^-t) / t dt, entire.

    >>> round(exponential_integral(1.0), 12)
    0.796599599297
    """
    if abs(x) < _SERIES:
        return float(-sum((-x) ** k / (k * math.factorial(k)) for k in range(1, 20)))
    known = exp1(x) if x > 0 else -expi(-x)
    return float(known + math.log(abs(x)) + np.euler_gamma)
