"""P, Q, R, S, T, U of critical networks at large depth: closed forms and exponents per universality class."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation
from ..base.errors import InvalidInput
from .asymptotics import ZeroKernel
from .single_input_flow import ScaleInvariant
from .tangent_asymptotics import decay, scale_invariant_ntk, zero_kernel_ntk
from .universality import criticality


def scale_invariant_differentials(
    activation: str | Activation, layers: Any, kernel: float, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> xr.Dataset:
    """`scale_invariant_ntk`, and P = 0 and Q of critical networks with the same rates in all layers: exact.

    With r = A_4 / A_2^2, w = lambda_W A_2 K, t = lambda_b + w (PDLT eqs. (11.72)-(11.81)) Q = l (l^2-1)/6 r t w; for
    straight lines without a kink also R = U = 0 and, PDLT eqs. (inf.46)-(inf.51),

        S = l^2 (l^2-1)/12 t^2 w / K          T = l^2 (l^2-1)/12 t w^2 / K

    >>> float(scale_invariant_differentials("relu", [3], 2.0).Q[0])
    16.0
    """
    found = scale_invariant_ntk(activation, layers, kernel, weight_rate=weight_rate, bias_rate=bias_rate)
    constants, ell = ScaleInvariant.of(activation), found.layer.values.astype(np.float64)
    A_2 = constants.mean_power(2)
    w = weight_rate * A_2 * kernel
    t = bias_rate + w
    values = {"P": 0 * ell, "Q": ell * (ell**2 - 1) / 6 * constants.mean_power(4) / A_2**2 * t * w}
    if constants.plus == constants.minus:
        fourth = ell**2 * (ell**2 - 1) / 12 * t * w / kernel
        values |= {"R": 0 * ell, "S": fourth * t, "T": fourth * w, "U": 0 * ell}
    return found.assign({name: ("layer", value) for name, value in values.items()})


def zero_kernel_differentials(
    activation: str | Activation, layers: Any, *, weight_rate: float = 1.0, bias_rate: float = 1.0
) -> xr.Dataset:
    """`zero_kernel_ntk`, and leading powers of the depth of P, Q, R, S, T, U with the rates that are there.

    With a = -a_1, p = p_perp, o = weight_rate s_1^2 / a, T' = bias_rate + o, b = bias_rate / T', v = o / T' and the
    ratios P / Theta^2, Q / Theta^2, R K / Theta^3, .. (PDLT eqs. (11.91)-(11.103), (inf.30)-(inf.38)):

        P: -(2-p)/(3 (5-p)) l                         Q: [1 - p - b] / (5-p)^2 l
        R: -[3 (4-3p) + (2-p) (v + 4 (1-p))] / (3 (5-p)^2) l
        S: [v + 4 (1-p)] / (3 (5-p)) l                T: 2 (v - p)^2 / (5-p)^3 l
        U: 4 (1-p)/(4-p), and 1/(2 l) if p = 1

    Corrections are smaller by log(l) / l. Odd activations have p = 1.
    """
    found, (_, p) = (
        zero_kernel_ntk(activation, layers, weight_rate=weight_rate, bias_rate=bias_rate),
        decay(ZeroKernel.of(activation)),
    )
    ell = found.layer.values.astype(np.float64)
    theta, K = found.ntk.values, found.kernel.values
    total = float(found.ntk.values[0] * ell[0] ** (p - 1))
    b, v = bias_rate / total, 1 - bias_rate / total
    twice, thrice = theta**2 * ell, theta**3 / K
    bends = v + 4 * (1 - p)
    values = {
        "P": -(2 - p) / (3 * (5 - p)) * twice,
        "Q": (1 - p - b) / (5 - p) ** 2 * twice,
        "R": -(3 * (4 - 3 * p) + (2 - p) * bends) / (3 * (5 - p) ** 2) * thrice * ell,
        "S": bends / (3 * (5 - p)) * thrice * ell,
        "T": 2 * (v - p) ** 2 / (5 - p) ** 3 * thrice * ell,
        "U": (4 * (1 - p) / (4 - p) if p != 1 else 1 / (2 * ell)) * thrice,
    }
    return found.assign({name: ("layer", value) for name, value in values.items()})


def differential_exponents(activation: str | Activation) -> dict[str, float]:
    """Critical exponents p of P ~ l^(-p) and so on, of the rates of `ntk_exponents`.

    p_P - 2 p_Theta = p_Q - 2 p_Theta = -1 and p_R + p_0 - 3 p_Theta = -1, the same for S and T (PDLT eqs. (11.65),
    (inf.22)): what a network learns of features grows like depth / width. What vanishes has no exponent.

    >>> differential_exponents("tanh")["R"], differential_exponents("relu")
    (-2.0, {'Q': -3.0})
    """
    found = criticality(activation)
    if found.universality_class == "scale-invariant":
        constants = ScaleInvariant.of(activation)
        return {"Q": -3.0} | ({"S": -4.0, "T": -4.0} if constants.plus == constants.minus else {})
    if found.universality_class == "half-stable":
        raise InvalidInput(f"{found.activation.name} is half-stable: near K* it behaves as scale-invariant ones do")
    _, p = decay(ZeroKernel.of(activation))
    exponents = {"P": 2 * p - 3, "Q": 2 * p - 3, "R": 3 * p - 5, "S": 3 * p - 5, "T": 3 * p - 5}
    return exponents | {"U": 3 * p - 4 if p != 1 else 0.0}
