"""Closed Gaussian moments <s(z1) s(z2)> and <s'(z1) s'(z2)>, covariance [[k11, k12], [k12, k22]], mean zero.

Each is written for numpy and jax arrays alike, answers in the precision of its arguments, and is free of
cancellation at correlations near +-1, where the angle between two samples is carried by `determinant`.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .activation import OneVariance, TwoVariances


def namespace(*arrays: Any) -> ModuleType:
    """Return jax.numpy if any argument is a jax array, else numpy."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def determinant(k11: Any, k12: Any, k22: Any) -> Any:
    """Return max(k11 k22 - k12^2, 0) to full relative precision (Dekker's error-free products).

    The plain difference loses all digits of the angle between nearly parallel samples.
    """
    xp = namespace(k11, k12, k22)
    k11, k12, k22 = _arrays(xp, k11, k12, k22)
    first, first_error = _exact_product(xp, k11, k22)
    second, second_error = _exact_product(xp, k12, k12)
    difference = (first - second) + (first_error - second_error)
    excess = xp.minimum(difference, 0.0)
    # Rounding may push a correlation above 1: the value is clipped there, its derivative is not.
    return difference - (jax.lax.stop_gradient(excess) if xp is jnp else excess)


def root_determinant(k11: Any, k12: Any, k22: Any) -> Any:
    """Return sqrt(k11 k22 - k12^2); its derivative on the diagonal is 0 instead of infinite."""
    xp = namespace(k11, k12, k22)
    det = determinant(k11, k12, k22)
    positive = det > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, det, 1.0)), 0.0)


def scale_invariant(a_plus: float, a_minus: float) -> tuple[TwoVariances, TwoVariances, OneVariance]:
    """Return <s s>, <s' s'>, <s^4> of a_+ z (z > 0), a_- z (z < 0), PDLT eqs. (5.159), (5.161), (5.113).

    With chi = pi - psi the supplement of the angle between the samples,
    <s s> = (a_+ - a_-)^2 / (2 pi) sqrt(k11 k22) [sin chi - chi cos chi] + a_+ a_- k12.
    """
    kink, smooth = (a_plus - a_minus) ** 2 / (2 * math.pi), a_plus * a_minus

    def feature(k11: Any, k12: Any, k22: Any) -> Any:
        xp = namespace(k11, k12, k22)
        k11, k12, k22 = _arrays(xp, k11, k12, k22)
        chi = supplement(k11, k12, k22)
        direct = root_determinant(k11, k12, k22) + chi * k12
        near = chi < 0.5  # opposite samples: sin chi - chi cos chi by its series
        small = xp.where(near, chi, 0.0)
        series = _product_root(xp, k11, k22) * small**3 * _sine_series(small**2)
        return kink * xp.where(near, series, direct) + smooth * k12

    def slope(k11: Any, k12: Any, k22: Any) -> Any:
        return kink * supplement(k11, k12, k22) + smooth

    return feature, slope, lambda k: 1.5 * (a_plus**4 + a_minus**4) * k**2


def supplement(k11: Any, k12: Any, k22: Any) -> Any:
    """Return chi = pi - psi, cos psi the correlation: chi/2pi is the chance that both are positive."""
    xp = namespace(k11, k12, k22)
    k11, k12, k22 = _arrays(xp, k11, k12, k22)
    both_zero = (k11 == 0) & (k22 == 0)
    undefined = (k11 == 0) | (k22 == 0)
    cosine = xp.where(undefined, both_zero.astype(k12.dtype), k12)
    sine = xp.where(undefined, (~both_zero).astype(k12.dtype), root_determinant(k11, k12, k22))
    return xp.arctan2(sine, -cosine)


def step_feature(k11: Any, k12: Any, k22: Any) -> Any:
    """<theta(z1) theta(z2)> = 1/4 + asin(c) / 2 pi."""
    return supplement(k11, k12, k22) / (2 * math.pi)


def step_slope(k11: Any, k12: Any, k22: Any) -> Any:
    """<delta(z1) delta(z2)> = 1 / (2 pi sqrt(k11 k22 - k12^2)); infinite on the diagonal."""
    xp = namespace(k11, k12, k22)
    root = root_determinant(k11, k12, k22)
    return xp.where(root > 0, 1 / (2 * math.pi * xp.where(root > 0, root, 1.0)), math.inf)


def sin_feature(k11: Any, k12: Any, k22: Any) -> Any:
    """<sin z1 sin z2> = exp(-(k11 + k22)/2) sinh k12."""
    xp, decay, size, sign = _wave(k11, k12, k22)
    return -0.5 * sign * decay * xp.expm1(-2 * size)


def cos_feature(k11: Any, k12: Any, k22: Any) -> Any:
    """<cos z1 cos z2> = exp(-(k11 + k22)/2) cosh k12."""
    xp, decay, size, _ = _wave(k11, k12, k22)
    return 0.5 * decay * (1 + xp.exp(-2 * size))


def sin_fourth(k: Any) -> Any:
    """<sin^4> = 3/8 - q/2 + q^4/8, q = exp(-2k), factored so that small k keeps its digits."""
    xp = namespace(k)
    q, one_minus_q = xp.exp(-2 * k), -xp.expm1(-2 * k)
    return one_minus_q**2 * (3 + 2 * q + q**2) / 8


def cos_fourth(k: Any) -> Any:
    """<cos^4> = 3/8 + q/2 + q^4/8, q = exp(-2k)."""
    q = namespace(k).exp(-2 * k)
    return (3 + 4 * q + q**4) / 8


def erf_feature(k11: Any, k12: Any, k22: Any) -> Any:
    """<erf erf> = (2/pi) asin(2 k12 / sqrt((1 + 2 k11)(1 + 2 k22)))."""
    xp = namespace(k11, k12, k22)
    return 2 / math.pi * xp.arctan2(2 * _arrays(xp, k12)[0], _erf_root(xp, k11, k12, k22))


def erf_slope(k11: Any, k12: Any, k22: Any) -> Any:
    """<erf' erf'> = (4/pi) / sqrt((1 + 2 k11)(1 + 2 k22) - 4 k12^2)."""
    return 4 / math.pi / _erf_root(namespace(k11, k12, k22), k11, k12, k22)


def gelu_feature(k11: Any, k12: Any, k22: Any) -> Any:
    """<s s> = k12 chi/(2 pi) + N / (2 pi Q), see `_gelu_parts`."""
    k12, Q, N, chi, _ = _gelu_parts(k11, k12, k22)
    return (k12 * chi + N / Q) / (2 * math.pi)


def gelu_slope(k11: Any, k12: Any, k22: Any) -> Any:
    """<s' s'> = d<s s>/dk12 = {chi + (k12/Q) [2 T - 1 + N/Q^2]} / (2 pi), see `_gelu_parts`."""
    k12, Q, N, chi, shares = _gelu_parts(k11, k12, k22)
    return (chi + k12 / Q * (2 * shares - 1 + N / Q**2)) / (2 * math.pi)


def monomial(p: int) -> tuple[TwoVariances, TwoVariances, OneVariance]:
    """Return <s s>, <s' s'>, <s^4> of z^p by Wick's theorem, PDLT eq. (1.45)."""
    below = _wick(p - 1)
    odd_factorial = float(math.prod(range(1, 4 * p, 2)))
    return _wick(p), lambda k11, k12, k22: p**2 * below(k11, k12, k22), lambda k: odd_factorial * k ** (2 * p)


def _wick(p: int) -> TwoVariances:
    """<z1^p z2^p>: j lines join 1 and 2, the other (p - j)/2 pairs of each close on themselves."""
    terms = []
    for j in range(p % 2, p + 1, 2):
        loops = (p - j) // 2
        pairings = math.factorial(p) ** 2 // (math.factorial(j) * (math.factorial(loops) * 2**loops) ** 2)
        terms.append((float(pairings), j, loops))
    return lambda k11, k12, k22: sum(n * k12**j * (k11 * k22) ** loops for n, j, loops in terms)


def _arrays(xp: ModuleType, *values: Any) -> list[Any]:
    """Arrays of one floating dtype; a Python number takes that of its companions."""
    dtype = xp.result_type(*values)
    return [xp.asarray(v, dtype=dtype if xp.issubdtype(dtype, xp.floating) else xp.result_type(float)) for v in values]


def _exact_product(xp: ModuleType, a: Any, b: Any) -> tuple[Any, Any]:
    """Return p, e with p = fl(a b) and p + e = a b exactly (Dekker 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(xp, a), _split(xp, b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(xp: ModuleType, a: Any) -> tuple[Any, Any]:
    """Split into two halves of the mantissa (Veltkamp)."""
    big = a * (2.0 ** ((xp.finfo(a.dtype).nmant + 2) // 2) + 1)
    high = big - (big - a)
    return high, a - high


def _product_root(xp: ModuleType, k11: Any, k22: Any) -> Any:
    positive = (k11 > 0) & (k22 > 0)
    return xp.where(positive, xp.sqrt(xp.where(positive, k11, 1.0)) * xp.sqrt(xp.where(positive, k22, 1.0)), 0.0)


def _sine_series(square: Any) -> Any:
    """(sin x - x cos x) / x^3 as a series in x^2."""
    total = 0.0 * square
    for n in range(9, 0, -1):
        total = total * square + (-1) ** (n + 1) * 2 * n / math.factorial(2 * n + 1)
    return total


def _wave(k11: Any, k12: Any, k22: Any) -> tuple[ModuleType, Any, Any, Any]:
    """exp(-(k11 + k22)/2 + |k12|), |k12| and the sign of k12."""
    xp = namespace(k11, k12, k22)
    k11, k12, k22 = _arrays(xp, k11, k12, k22)
    sign = xp.where(k12 > 0, 1.0, -1.0).astype(k12.dtype)  # never 0: the derivative at k12 = 0 must survive
    size = sign * k12
    return xp, xp.exp(-0.5 * ((k11 - size) + (k22 - size))), size, sign


def _erf_root(xp: ModuleType, k11: Any, k12: Any, k22: Any) -> Any:
    return xp.sqrt(1 + 2 * k11 + 2 * k22 + 4 * determinant(k11, k12, k22))


def _gelu_parts(k11: Any, k12: Any, k22: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return k12, Q, N, chi, T of the GELU.

    T = 1/(1+k11) + 1/(1+k22), Q^2 = (1+k11)(1+k22) - k12^2, N = det + k12^2 T, tan(chi) = -Q/k12.
    """
    xp = namespace(k11, k12, k22)
    k11, k12, k22 = _arrays(xp, k11, k12, k22)
    det = determinant(k11, k12, k22)
    Q = xp.sqrt(1 + k11 + k22 + det)
    shares = 1 / (1 + k11) + 1 / (1 + k22)
    return k12, Q, det + k12**2 * shares, xp.arctan2(Q, -k12), shares
