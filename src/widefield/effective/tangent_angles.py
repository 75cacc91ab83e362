"""The NTK of two inputs of equal norms at any angle, scale-invariant activations: cos zeta, its limits and its cusp."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation
from ..base import check
from ..base.errors import InvalidInput
from .single_input_flow import ScaleInvariant
from .single_tangent import every_layer
from .two_inputs import angle_flow


def ntk_angle_flow(
    activation: str | Activation,
    angle: Any,
    depth: int,
    *,
    mean_square: float = 1.0,
    bias_variance: Any = 0.0,
    weight_variance: Any = None,
    weight_rates: Any = 1.0,
    bias_rates: Any = 1.0,
) -> xr.Dataset:
    """cos zeta = Theta_+-/Theta_d of inputs with |x|^2 = n_0 `mean_square` at any angle, PDLT eqs. (10.82)-(10.98).

        Theta_d' = lambda_b + lambda_W A_2 K_d + chi Theta_d                                               chi = C_W A_2
        Theta_d' cos zeta' = lambda_b + lambda_W <s_+ s_-> + chi (1 - rho psi) Theta_d cos zeta

    psi as in `angle_flow`; iterated for Theta_d (1 - cos zeta), which keeps its digits at small angles. Variances and
    rates are those of the layers 1 .. `depth`, numbers or one each; C_W is critical unless given. Variables over
    (layer, pair): `angle` psi, `cosine` cos zeta, `robustness` cos zeta - 1, the relative bias beside one training
    input, and `variance` of its test output over K_d, 1 - 2 cos zeta cos psi + cos^2 zeta; `kernel`, `ntk` over layer.

    Critical networks with a kink: cos zeta -> 1/4, robustness -> -3/4, variance -> 9/16 (PDLT eqs. (10.93)-(10.95)),
    whatever the angle, the rates and the slopes; linear ones keep cos zeta in all layers (10.98).

    >>> ntk_angle_flow("relu", np.pi / 3, 10)["cosine"].values[[0, 9], 0].round(10).tolist()
    [0.75, 0.4200014882]
    """
    constants, depth = ScaleInvariant.of(activation), check.integer("depth", depth, least=1)
    A_2, phi = constants.mean_power(2), np.atleast_1d(check.array("angle", angle))
    C_W = every_layer("weight_variance", 1 / A_2 if weight_variance is None else weight_variance, depth)
    if (C_W == 0).any():
        raise InvalidInput("weight_variance = 0: all inputs are the same behind such a layer")
    C_b = every_layer("bias_variance", bias_variance, depth)
    w, b = (every_layer(*each, depth) for each in (("weight_rates", weight_rates), ("bias_rates", bias_rates)))
    square = check.number("mean_square", mean_square, above=0)
    start, gap = C_b[0] + C_W[0] * square, 2 * np.sin(phi / 2) ** 2
    psi = 2 * np.arcsin(np.sqrt(np.clip(C_W[0] * square * gap / start / 2, 0.0, 1.0)))
    flow = angle_flow(
        activation, psi, depth, kernel=start, bias_variance=tuple(C_b[1:]), weight_variance=tuple(C_W[1:])
    )
    angles, distance, kernels = (flow[name].values for name in ("angle", "distance", "kernel"))
    diagonal, missing = [b[0] + w[0] * square], [w[0] * square * gap]
    for i in range(depth - 1):
        chi, turned = C_W[i + 1] * A_2, constants.rho * angles[i]
        apart = 2 * distance[i + 1] / C_W[i + 1]
        missing.append(w[i + 1] * apart + chi * (turned * diagonal[i] + (1 - turned) * missing[i]))
        diagonal.append(b[i + 1] + w[i + 1] * A_2 * kernels[i] + chi * diagonal[i])
    theta = np.array(diagonal)
    if (theta <= 0).any():
        raise InvalidInput("weight_rates, bias_rates are zero up to some layer, whose NTK is zero: let the first learn")
    lost = np.array(missing) / theta[:, None]
    variance = lost**2 + 4 * (1 - lost) * np.sin(angles / 2) ** 2
    values = {"angle": angles, "cosine": 1 - lost, "robustness": -lost, "variance": variance}
    found: dict[str, Any] = {name: (("layer", "pair"), value) for name, value in values.items()}
    found |= {"kernel": ("layer", kernels), "ntk": ("layer", theta)}
    return xr.Dataset(found, {"layer": np.arange(1, depth + 1)})


def ntk_cusp(
    activation: str | Activation,
    depth: int,
    *,
    mean_square: float = 1.0,
    bias_variance: Any = 0.0,
    weight_variance: Any = None,
    weight_rates: Any = 1.0,
    bias_rates: Any = 1.0,
) -> float:
    """k of Theta_+-/Theta_d = 1 - k phi + O(phi^2) at small angles phi between inputs: the NTK has a cusp there.

    Since <s'_+ s'_-> = A_2 (1 - rho psi), c' = chi (c + rho Theta_d f) from 0, k = c / Theta_d in the last layer, with
    f = psi / phi: f = sqrt(C_W |x|^2 / n_0 K_d) in the first layer, f' = f sqrt(chi K_d / K_d'). Critical networks with
    the same rates in all layers have k = rho (depth - 1) / 2.

    >>> round(ntk_cusp("relu", 5), 6)
    0.63662
    """
    flow = ntk_angle_flow(
        activation,
        0.0,
        depth,
        mean_square=mean_square,
        bias_variance=bias_variance,
        weight_variance=weight_variance,
        weight_rates=weight_rates,
        bias_rates=bias_rates,
    )
    constants = ScaleInvariant.of(activation)
    A_2, depth = constants.mean_power(2), len(flow["layer"])
    C_W = every_layer("weight_variance", 1 / A_2 if weight_variance is None else weight_variance, depth)
    K, theta = flow["kernel"].values, flow["ntk"].values
    f, c = np.sqrt(C_W[0] * mean_square / K[0]), 0.0
    for i in range(depth - 1):
        chi = C_W[i + 1] * A_2
        c = chi * (c + constants.rho * theta[i] * f)
        f = f * np.sqrt(chi * K[i] / K[i + 1])
    return float(c / theta[-1])
