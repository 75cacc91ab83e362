"""Two inputs: the gamma basis, small differences, and the flow of a finite angle in scale-invariant networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..gaussian import feature_kernel
from .layer_table import after_first, layer_table
from .single_input_flow import ScaleInvariant

GAMMA: Floats = np.array([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]], [[1.0, -1.0], [-1.0, 1.0]]])
"""gamma_0, gamma_1, gamma_2, PDLT eq. (5.16)."""


def to_gamma(matrix: Any) -> Floats:
    """Components M_[a] = tr(M gamma_a) / tr(gamma_a gamma_a) of 2x2 matrices (last two axes), PDLT eq. (5.20).

    For a symmetric one K = K_[0] gamma_0 + K_[1] gamma_1 + K_[2] gamma_2: the mean, half the difference of the norms,
    and a quarter of the squared distance.

    >>> to_gamma([[3.0, 1.0], [1.0, 1.0]]).tolist()
    [1.5, 1.0, 0.5]
    """
    M = check.array("matrix", matrix)
    if M.shape[-2:] != (2, 2):
        raise InvalidInput(f"matrix has shape {M.shape}; its last two axes must be 2 x 2")
    return np.asarray(np.einsum("...ij,aji->...a", M, GAMMA) / np.einsum("aij,aji->a", GAMMA, GAMMA))


def from_gamma(components: Any) -> Floats:
    """The matrices with these components (last axis)."""
    K = check.array("components", components)
    if K.shape[-1:] != (3,):
        raise InvalidInput(f"components has shape {K.shape}; its last axis must hold three")
    return np.asarray(np.einsum("...a,aij->...ij", K, GAMMA))


def first_layer(midpoint: Any, difference: Any, weight_variance: float, bias_variance: float = 0.0) -> Floats:
    """K_00, dK_[1], ddK_[2] of layer 1 for the inputs x_0 +- dx/2, PDLT eqs. (5.2), (5.21)."""
    x, dx = check.array("midpoint", midpoint, ndim=1), check.array("difference", difference, ndim=1)
    if x.shape != dx.shape or not len(x):
        raise InvalidInput(f"midpoint has shape {x.shape} and difference {dx.shape}; they must agree")
    C_W = check.number("weight_variance", weight_variance, least=0) / len(x)
    C_b = check.number("bias_variance", bias_variance, least=0)
    return np.array([C_b + C_W * (x @ x), C_W * (x @ dx), C_W * (dx @ dx) / 4])


def difference_flow(
    activation: str | Activation,
    kernel: Any,
    parallel: Any,
    perpendicular: Any,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
) -> xr.Dataset:
    """Flow of two nearby inputs around their midpoint's kernel K_00, PDLT eqs. (5.46)-(5.48).

        K_00'    = C_b + C_W g(K_00)
        dK_[1]'  = chi_par(K_00) dK_[1]
        ddK_[2]' = chi_perp(K_00) ddK_[2] + h(K_00) dK_[1]^2

    for smooth activations, to second order in the difference. `kernel`, `parallel` and `perpendicular` are the
    values of layer 1 (numbers, or vectors: one entry a pair of inputs).
    """
    start = np.broadcast_arrays(*(np.atleast_1d(check.array(n, v)) for n, v in _named(kernel, parallel, perpendicular)))
    table = layer_table(activation, start[0], depth, bias_variance, weight_variance)
    at = table.susceptibilities
    first, second = np.zeros_like(table.kernel), np.zeros_like(table.kernel)
    first[0], second[0] = start[1], start[2]
    for i in range(len(table.kernel) - 1):
        first[i + 1] = at.parallel[i] * first[i]
        second[i + 1] = at.perpendicular[i] * second[i] + at.h[i] * first[i] ** 2
    values = {"kernel": table.kernel, "parallel": first, "perpendicular": second}
    return xr.Dataset(
        {name: (("layer", "pair"), value) for name, value in values.items()},
        coords={"layer": np.arange(1, len(table.kernel) + 1)},
    )


def _named(kernel: Any, parallel: Any, perpendicular: Any) -> list[tuple[str, Any]]:
    return [("kernel", kernel), ("parallel", parallel), ("perpendicular", perpendicular)]


def pair_flow(
    activation: str | Activation, kernel: Any, depth: int, *, bias_variance: Any = 0.0, weight_variance: Any = 1.0
) -> Floats:
    """The exact infinite-width kernels (depth, 2, 2) of two inputs, PDLT eq. (4.118), from `kernel` = K^(1)."""
    K = check.array("kernel", kernel, ndim=2)
    if K.shape != (2, 2) or K[0, 1] != K[1, 0]:
        raise InvalidInput(f"kernel must be a symmetric 2 x 2 matrix; it is {K.tolist()}")
    depth = check.integer("depth", depth, least=1)
    C_b, C_W = (
        after_first("bias_variance", bias_variance, depth),
        after_first("weight_variance", weight_variance, depth),
    )
    layers = [K]
    for bias, weight in zip(C_b, C_W, strict=True):
        K = layers[-1]
        left, right = np.diag(K)[:, None] + np.zeros((2, 2)), np.diag(K)[None, :] + np.zeros((2, 2))
        layers.append(bias + weight * feature_kernel(activation, left, K, right))
    return np.array(layers)


def angle_flow(
    activation: str | Activation,
    angle: Any,
    depth: int,
    *,
    kernel: float = 1.0,
    bias_variance: Any = 0.0,
    weight_variance: Any = None,
) -> xr.Dataset:
    """Flow of the angle psi in [0, pi] between inputs of equal norm, scale-invariant activations, any angle.

    PDLT eqs. (5.147), (5.159)-(5.160): K_d' = C_b + A_2 C_W K_d and

        K_d' cos psi' = C_b + C_W K_d { ((a_+ - a_-)^2 / 2 pi) [sin psi - psi cos psi] + A_2 cos psi },

    iterated for 1 - cos psi, which keeps its digits at small angles. C_W is critical unless given: then
    cos psi' = cos psi + rho [sin psi - psi cos psi], PDLT eqs. (5.162)-(5.163).

    >>> [round(float(psi), 10) for psi in angle_flow("relu", np.pi, 3)["angle"][:, 0]]
    [3.1415926536, 1.5707963268, 1.2468502199]
    """
    constants = ScaleInvariant.of(activation)
    psi = np.atleast_1d(check.array("angle", angle))
    if ((psi < 0) | (psi > np.pi)).any():
        raise InvalidInput(f"angle must be between 0 and pi; it holds {psi.min():g} ... {psi.max():g}")
    depth = check.integer("depth", depth, least=1)
    A_2 = constants.mean_power(2)
    C_W = after_first("weight_variance", 1 / A_2 if weight_variance is None else weight_variance, depth)
    C_b = after_first("bias_variance", bias_variance, depth)
    K = check.number("kernel", kernel, above=0)
    angles, kernels = [psi], [K]
    for bias, weight in zip(C_b, C_W, strict=True):
        gap = 2 * np.sin(angles[-1] / 2) ** 2
        following = bias + A_2 * weight * K
        gap = A_2 * weight * K / following * (gap - constants.rho * _crescent(angles[-1]))
        angles.append(2 * np.arcsin(np.sqrt(np.clip(gap / 2, 0, 1))))
        K = following
        kernels.append(K)
    table, norm = np.array(angles), np.array(kernels)[:, None]
    values = {"angle": table, "sum": norm * np.cos(table / 2) ** 2, "distance": norm * np.sin(table / 2) ** 2}
    data: dict[str, Any] = {name: (("layer", "pair"), value) for name, value in values.items()}
    return xr.Dataset(data | {"kernel": ("layer", norm[:, 0])}, coords={"layer": np.arange(1, depth + 1)})


def _crescent(psi: Floats) -> Floats:
    """sin psi - psi cos psi, by its series where the two terms cancel."""
    square = psi**2
    terms = 1 / 3 - square * (1 / 30 - square * (1 / 840 - square * (1 / 45360 - square / 3991680)))
    return np.where(psi < 0.3, psi**3 * terms, np.sin(psi) - psi * np.cos(psi))


def crossover_depth(activation: str | Activation, angle: float) -> float:
    """Depth 3 / (rho psi), PDLT eq. (5.169), before which an angle psi is constant and after which it is 3/(rho l)."""
    rho = ScaleInvariant.of(activation).rho
    psi = check.number("angle", angle, above=0, most=float(np.pi))
    return float("inf") if rho == 0 else 3 / (rho * psi)
