"""Moments of activations: closed forms where the table has them, quadrature elsewhere."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np

from ..activations import Activation, get
from ..activations.activation import Elementwise
from ..base import check
from ..base.arrays import Floats
from .averages import average, average_product, check_pair, check_variance
from .nested import flatten


def feature_kernel(activation: str | Activation, k11: Any, k12: Any, k22: Any) -> Floats:
    """Return <s(z1) s(z2)>_K, the kernel recursion's average, PDLT eq. (4.118); elementwise in the entries of K.

    >>> round(float(feature_kernel("relu", 1.0, 0.5, 1.0)), 12)
    0.304498890522
    """
    return _pair(activation, 0, k11, k12, k22)


def slope_kernel(activation: str | Activation, k11: Any, k12: Any, k22: Any) -> Floats:
    """Return <s'(z1) s'(z2)>_K = d<s(z1) s(z2)>/dk12; infinite on the diagonal for the perceptron."""
    return _pair(activation, 1, k11, k12, k22)


def square(activation: str | Activation, variance: Any) -> Floats:
    """Return g(K) = <s^2>_K, PDLT eq. (5.5)."""
    activation = get(activation)
    return _single(activation, activation.square, 0, 2, variance)


def slope_square(activation: str | Activation, variance: Any) -> Floats:
    """Return <s'^2>_K, the average in chi_perp, PDLT eq. (5.51)."""
    activation = get(activation)
    return _single(activation, activation.slope_square, 1, 2, variance)


def fourth(activation: str | Activation, variance: Any) -> Floats:
    """Return <s^4>_K, the source of the four-point vertex, PDLT eq. (5.109)."""
    activation = get(activation)
    return _single(activation, activation.fourth, 0, 4, variance)


def _single(activation: Activation, closed: Any, order: int, power: int, variance: Any) -> Floats:
    variance = check_variance("variance", check.array("variance", variance))
    if closed is not None:
        return np.asarray(closed(variance), dtype=np.float64)
    return average(_power(activation, order, power), variance, kinks=activation.kinks)


@cache
def _power(activation: Activation, order: int, power: int) -> Elementwise:
    """A power of a derivative, compiled as one function."""
    f = activation.derivative(order)
    return jax.jit(lambda z: f(z) ** power)


def _pair(activation: str | Activation, order: int, k11: Any, k12: Any, k22: Any) -> Floats:
    activation = get(activation)
    closed = (activation.feature_moment, activation.slope_moment)[order]
    shape, entries = flatten(check.array("k11", k11), check.array("k12", k12), check.array("k22", k22))
    check_pair(*entries)
    if closed is not None:
        return np.broadcast_to(np.asarray(closed(*entries), dtype=np.float64), entries[0].shape).reshape(shape)
    f = activation.derivative(order)
    return average_product(f, f, *entries, kinks=activation.kinks).reshape(shape)
