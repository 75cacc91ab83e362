"""The neural tangent kernel of critical networks at large depth: closed forms, exponents, learning rates of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .asymptotics import ZeroKernel
from .single_input_flow import ScaleInvariant
from .universality import criticality


def scale_invariant_ntk(
    activation: str | Activation, layers: Any, kernel: float, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> xr.Dataset:
    """V, Theta, D, F, A, B of a critical scale-invariant network with the same rates in all layers: exact at order 1/n.

    With r = A_4 / A_2^2, w = lambda_W A_2 K, t = lambda_b + w (PDLT eqs. (9.42)-(9.52), of which (9.52) has the leading
    power of l only),

        V = (l-1) (3r-1) K^2      Theta = t l      D = l(l-1)/2 K [(r-1) lambda_b + (4r-2) w]      F = l(l-1)/2 r t K
        B = l(l-1)(2l-1)/6 r t^2
        A = l(l-1)/2 [(3r-1) w^2 + 2 (r-1) w t] + l(l-1)(l-2)/3 w [(r-1) lambda_b + (4r-2) w] + l(l-1)(2l-1)/6 (r-1) t^2

    >>> found = scale_invariant_ntk("relu", [6], 1.0)
    >>> float(found["variance_shared"][0]), float(found["variance_paired"][0])
    (245.0, 247.5)
    """
    constants = ScaleInvariant.of(activation)
    A_2, K, ell = constants.mean_power(2), check.number("kernel", kernel, above=0), _layers(layers)
    r, b = constants.mean_power(4) / A_2**2, check.number("bias_rate", bias_rate, least=0)
    w = check.number("weight_rate", weight_rate, least=0) * A_2 * K
    theta, mixed = b + w, (r - 1) * b + (4 * r - 2) * w
    pairs, squares, triples = ell * (ell - 1) / 2, ell * (ell - 1) * (2 * ell - 1) / 6, ell * (ell - 1) * (ell - 2) / 3
    first = (3 * r - 1) * w**2 + 2 * (r - 1) * w * theta
    return _dataset(
        ell,
        kernel=np.full_like(ell, K),
        vertex=(ell - 1) * (3 * r - 1) * K**2,
        ntk=theta * ell,
        cross_shared=pairs * K * mixed,
        cross_paired=pairs * r * theta * K,
        variance_shared=pairs * first + triples * w * mixed + squares * (r - 1) * theta**2,
        variance_paired=squares * r * theta**2,
    )


def scale_invariant_mean(
    activation: str | Activation,
    layers: Any,
    mean_square: float,
    *,
    weight_variance: float,
    weight_rate: float = 1.0,
    bias_rate: float = 1.0,
) -> xr.Dataset:
    """K and Theta of a scale-invariant network without biases' variance at any C_W, chi = C_W A_2:

    K = chi^l x^2 / A_2, Theta = lambda_b (chi^l - 1)/(chi - 1) + lambda_W x^2 l chi^(l-1). Above chi = 1 it explodes;
    below it tends to lambda_b / (1 - chi), and the weights of all layers count for nothing.
    """
    A_2, ell = ScaleInvariant.of(activation).mean_power(2), _layers(layers)
    chi, square = (
        A_2 * check.number("weight_variance", weight_variance, least=0),
        check.number("mean_square", mean_square),
    )
    sums = ell if chi == 1 else (chi**ell - 1) / (chi - 1)
    kernel, ntk = chi**ell * square / A_2, bias_rate * sums + weight_rate * square * ell * chi ** (ell - 1)
    return _dataset(ell, kernel=kernel, ntk=ntk)


def zero_kernel_ntk(
    activation: str | Activation, layers: Any, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> xr.Dataset:
    """Leading powers of the depth in the class K* = 0, lambda_b = `bias_rate` l^-p, lambda_W = `weight_rate` l^(1-p).

    p = p_perp = b_1 / a_1, o = weight_rate s_1^2 / (-a_1), T = bias_rate + o, X = p bias_rate + (p - 1) o (PDLT eqs.
    (9.65), (9.66), (9.71), (9.81)-(9.86)):

        K = 1/((-a_1) l)       V = 2/(3 a_1^2 l)       Theta = T l^(1-p)       F = T l^(1-p) / ((5-p)(-a_1))
        B = T^2 l^(3-2p) / 3   D = -2 X l^(1-p) / (9 (-a_1))                   A = 4 X^2 l^(3-2p) / 27

    Corrections are smaller by log(l) / l.
    """
    zero, ell = ZeroKernel.of(activation), _layers(layers)
    a, p = decay(zero)
    o = check.number("weight_rate", weight_rate, least=0) / (zero.weight_variance * a)
    b = check.number("bias_rate", bias_rate, least=0)
    total, X = b + o, p * b + (p - 1) * o
    single, double = ell ** (1 - p), ell ** (3 - 2 * p)
    return _dataset(
        ell,
        kernel=1 / (a * ell),
        vertex=2 / (3 * a**2 * ell),
        ntk=total * single,
        cross_shared=-2 * X * single / (9 * a),
        cross_paired=total * single / ((5 - p) * a),
        variance_shared=4 * X**2 * double / 27,
        variance_paired=total**2 * double / 3,
    )


def uniform_rates_ntk(
    activation: str | Activation, layers: Any, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> Floats:
    """Theta of the class K* = 0 with equal rates in all layers, p > 0: l lambda_b/(1+p) + lambda_W s_1^2/(p (-a_1)).

    Biases near the output make nearly all of it.
    """
    zero, ell = ZeroKernel.of(activation), _layers(layers)
    a, p = decay(zero)
    if p <= 0:
        raise InvalidInput(f"p_perp = {p:g} is not positive: weights do not saturate")
    return np.asarray(bias_rate * ell / (1 + p) + weight_rate / (zero.weight_variance * p * a))


@dataclass(frozen=True)
class NTKExponents:
    """Critical exponents p of O ~ l^(-p), PDLT eqs. (9.53), (9.71)-(9.86); see `ntk_exponents` for the rates.

    In both classes p_V - 2 p_0 = p_A - 2 p_Theta = p_B - 2 p_Theta = p_D - p_Theta - p_0 = p_F - p_Theta - p_0 = -1
    (PDLT eq. (9.27)): all relative fluctuations grow like depth / width.
    """

    universality_class: str
    kernel: float
    vertex: float
    ntk: float
    cross_shared: float
    cross_paired: float
    variance_shared: float
    variance_paired: float


def ntk_exponents(activation: str | Activation) -> NTKExponents:
    """Exponents of uniform rates for scale-invariant activations, of layered ones (`zero_kernel_ntk`) for K* = 0.

    >>> ntk_exponents("tanh").variance_paired, ntk_exponents("relu").variance_paired
    (-1.0, -3.0)
    """
    found = criticality(activation)
    if found.universality_class == "scale-invariant":
        return NTKExponents("scale-invariant", 0.0, -1.0, -1.0, -2.0, -2.0, -3.0, -3.0)
    if found.universality_class == "half-stable":
        raise InvalidInput(f"{found.activation.name} is half-stable: near K* it behaves as scale-invariant ones do")
    _, p = decay(ZeroKernel.of(activation))
    return NTKExponents("zero-kernel", 1.0, 1.0, p - 1, p - 1, p - 1, 2 * p - 3, 2 * p - 3)


def equivalent_rates(
    activation: str | Activation, depth: int, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """lambda_W and lambda_b of the layers 1 .. `depth` that make all contribute alike to the NTK, PDLT (9.94)-(9.96).

    Scale-invariant activations, and half-stable ones from K* on: both rates / L. Class K* = 0: lambda_b l^-p L^(p-1),
    lambda_W (L/l)^(p-1), p = p_perp; for odd ones, p = 1, that is lambda_b / l and lambda_W. What optimisers get is
    eta lambda_b for biases and eta lambda_W / n_{l-1} for weights.

    >>> weights, biases = equivalent_rates("tanh", 4)
    >>> weights, biases
    ((1.0, 1.0, 1.0, 1.0), (1.0, 0.5, 0.3333333333333333, 0.25))
    """
    depth, found = check.integer("depth", depth, least=1), criticality(activation)
    w, b = check.number("weight_rate", weight_rate, least=0), check.number("bias_rate", bias_rate, least=0)
    if found.best is None:
        raise InvalidInput(f"no critical initialisation, and so no rates that make layers equal: {found.verdict}")
    if found.universality_class != "zero-kernel":
        return (w / depth,) * depth, (b / depth,) * depth
    _, p = decay(ZeroKernel.of(activation))
    layers = range(1, depth + 1)
    weights = tuple(w * (depth / layer) ** (p - 1) for layer in layers)
    return weights, tuple(b * layer**-p * depth ** (p - 1) for layer in layers)


def decay(zero: ZeroKernel) -> tuple[float, float]:
    """-a_1 and p_perp."""
    if zero.a1 >= 0:
        raise InvalidInput(f"a1 = {zero.a1:g} is not negative: the kernel does not decay like 1 / layer")
    return -zero.a1, zero.b1 / zero.a1


def _layers(layers: Any) -> Floats:
    ell = np.atleast_1d(check.array("layers", layers))
    if (ell < 1).any():
        raise InvalidInput(f"layers = {ell.min():g} must be at least 1")
    return ell


def _dataset(ell: Floats, **values: Floats) -> xr.Dataset:
    return xr.Dataset({name: ("layer", value) for name, value in values.items()}, {"layer": ell})
