"""How Gaussian averages of activations change with the covariance: the Jacobians that carry fluctuations onwards."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..activations import Activation
from ..activations.moments import determinant
from ..base.arrays import Floats
from . import average, average_product, feature_kernel, slope_kernel
from .nested import Function, Nested, evaluate
from .sample_pairs import Pairs

TOLERANCE = 1e-10
"""Of the integrals, relative to the average of the absolute value."""

PARALLEL = 1e-13
"""Samples with a squared sine below this are the same sample up to a factor."""


def feature_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi_a phi_b> / dK_cd over pairs (a, b), (c, d), by Price's theorem:

        d<phi_1 phi_2>/dK_12 = <phi'_1 phi'_2>
        d<phi_1 phi_2>/dK_11 = <phi''_1 phi_2> / 2 = [<z_1 phi'_1 phi_2> - K_12 <phi'_1 phi'_2>] / 2 K_11

    (M / C_W of PDLT eq. (4.119) in its derivative form). The second form needs no delta functions.
    """
    phi, slope = activation.derivative(0), activation.derivative(1)

    def mixed(k11: Floats, k12: Floats, k22: Floats) -> Floats:
        return slope_kernel(activation, k11, k12, k22)

    def bent(k11: Floats, k12: Floats, k22: Floats) -> Floats:
        if activation.homogeneity is not None:  # z phi' = q phi
            return activation.homogeneity * feature_kernel(activation, k11, k12, k22)
        return _product(_times(slope), phi, (k11, k12, k22), activation)

    return _jacobian(0, mixed, bent, activation, K, pairs)


def slope_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi'_a phi'_b> / dK_cd: the same with phi' for phi. phi'' has the delta functions of `Activation.jumps`.

    Two samples that are parallel stay so in every network; there, where <phi'' phi''> may be infinite, the derivative
    along this direction takes the place of the three others.
    """
    slope, curvature = activation.derivative(1), activation.derivative(2)

    def mixed(k11: Floats, k12: Floats, k22: Floats) -> Floats:
        return _curvatures(activation, k11, k12, k22)

    def bent(k11: Floats, k12: Floats, k22: Floats) -> Floats:
        value = np.zeros_like(k11)
        if activation.homogeneity != 1:
            value += _product(_times(curvature), slope, (k11, k12, k22), activation)
        for place, jump in activation.jumps:
            if place:
                value += place * jump * density(place, k11) * given(slope, place, k11, k12, k22, activation)
        return value

    return _jacobian(1, mixed, bent, activation, K, pairs)


def _jacobian(order: int, mixed: Function, bent: Function, activation: Activation, K: Floats, pairs: Pairs) -> Floats:
    """d<f_a f_b>/dK, f = phi^(order), from `mixed` = <f'_1 f'_2> and `bent` = <z_1 f'_1 f_2>."""
    k11, k12, k22 = pairs.entries(K)
    alive = (k11 > 0) & (k22 > 0)  # a sample without variance has none to lose in any network
    parallel = alive & (determinant(k11, k12, k22) <= PARALLEL * k11 * k22)
    result = np.zeros((len(pairs), len(pairs)))
    first, second = pairs.diagonal[pairs.rows], pairs.diagonal[pairs.columns]
    (here,) = np.nonzero(alive & ~parallel)
    one, both, two = k11[here], k12[here], k22[here]
    cross = mixed(one, both, two)
    result[here, here] = cross
    result[here, first[here]] = (bent(one, both, two) - both * cross) / (2 * one)
    result[here, second[here]] = (bent(two, both, one) - both * cross) / (2 * two)
    for chosen in (parallel & pairs.equal, parallel & ~pairs.equal):
        (here,) = np.nonzero(chosen)
        result[here, first[here]] = _along(order, activation, k11[here], k12[here], k22[here])
    return result


def _along(order: int, activation: Activation, k11: Floats, k12: Floats, k22: Floats) -> Floats:
    """d<f(z_1) f(z_2)>/dK_11 when z_2 / z_1 stays fixed: <(z_1^2/K_11 - 1) f f> / 2 K_11."""
    f, plain = activation.derivative(order), (feature_kernel, slope_kernel)[order](activation, k11, k12, k22)
    if activation.homogeneity is not None:
        return (activation.homogeneity - order) * plain / k11
    if np.array_equal(k11, k12) and np.array_equal(k11, k22):
        square = average(lambda z: (z * f(z)) ** 2, k11, kinks=activation.kinks, tolerance=TOLERANCE)
    else:
        square = _product(lambda z: z**2 * f(z), f, (k11, k12, k22), activation)
    return (square / k11 - plain) / (2 * k11)


def _curvatures(activation: Activation, k11: Floats, k12: Floats, k22: Floats) -> Floats:
    """<phi''_1 phi''_2> with the delta functions of phi''."""
    curvature = activation.derivative(2)
    value, rest = np.zeros_like(k11), determinant(k11, k12, k22) / k11
    if activation.homogeneity != 1:  # else straight on both sides of the kink
        value += _product(curvature, curvature, (k11, k12, k22), activation)
        for place, jump in activation.jumps:
            value += jump * density(place, k11) * given(curvature, place, k11, k12, k22, activation)
            value += jump * density(place, k22) * given(curvature, place, k22, k12, k11, activation)
    for place, jump in activation.jumps:
        for other, step in activation.jumps:
            value += jump * step * density(place, k11) * density(other - place * k12 / k11, rest)
    return value


def given(
    f: Function, place: float, k11: Floats, k12: Floats, k22: Floats, activation: Activation
) -> NDArray[np.float64]:
    """<f(z_2) | z_1 = place>."""
    spread = np.sqrt(determinant(k11, k12, k22) / k11)
    mean = (place * k12 / k11)[:, None]
    kinks = (tuple(activation.kinks),)
    problem = Nested(spread[:, None, None], np.zeros_like(mean), kinks, lambda _, z: evaluate(f, z[0]), mean)
    return problem.average(tolerance=TOLERANCE, levels=30)[0]


def density(z: float | Floats, variance: Floats) -> Floats:
    """Of N(0, variance) at z."""
    return np.asarray(np.exp(-0.5 * np.square(z) / variance) / np.sqrt(2 * math.pi * variance))


def _times(f: Function) -> Function:
    return lambda z: z * f(z)


def _product(f: Function, g: Function, entries: tuple[Floats, Floats, Floats], activation: Activation) -> Floats:
    return average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)
