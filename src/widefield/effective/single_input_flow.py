"""Finite-width flow of a single input through the layers: kernel, four-point vertex and correction of the metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .layer_table import after_first, layer_table
from .universality import criticality


def single_flow(
    activation: str | Activation,
    kernel: Any,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    widths: Any = None,
    bias_correction: float = 0.0,
    weight_correction: float = 0.0,
) -> xr.Dataset:
    """K, V and G1 over (layer, sample): layers 1, ..., `depth`, samples whose first-layer kernels are `kernel` = K^(1).

    PDLT eqs. (5.108)-(5.110) and (5.140), starting from V = G1 = 0,

        K'  = C_b + C_W g(K)
        V'  = (n_l / n_{l-1}) chi_par(K)^2 V + S(K)
        G1' = (n_l / n_{l-1}) [chi_par(K) G1 + (1/8) j(K) V / K^2] + c_b + c_W g(K)

    where Var(G_hat^(l)) = V^(l) / n_{l-1}, E[G_hat^(l)] = K^(l) + G1^(l) / n_{l-1}, and the variances of the layers
    from the second on are C_b + c_b / n and C_W + c_W / n (`bias_correction`, `weight_correction`).

    `widths` n_1, ..., n_{depth-1}: None for uniform ones, on which V and G1 do not depend; a number; or one each.
    With widths there are also `variance`, `mean` and `relative_variance` V / (n K^2).

    >>> flow = single_flow("tanh", 1.0, 3)
    >>> [round(float(flow[name][2, 0]), 12) for name in ("kernel", "vertex", "correction")]
    [0.236450410499, 0.067807493892, -0.030932519866]
    """
    table = layer_table(activation, kernel, depth, bias_variance, weight_variance)
    n = None if widths is None else after_first("widths", widths, depth)
    if n is not None and (n < 1).any():
        raise InvalidInput(f"widths = {n.min():g} must be at least 1")
    c_b, c_W = check.number("bias_correction", bias_correction), check.number("weight_correction", weight_correction)
    grown = np.ones(len(table.kernel)) if n is None else np.append(1.0, n[1:] / n[:-1])
    at, averages = table.susceptibilities, table.moments
    half_curvature = at.j / 8 / np.where(at.kernel > 0, at.kernel, 1.0) ** 2
    vertex, correction = np.zeros_like(table.kernel), np.zeros_like(table.kernel)
    for i in range(len(table.kernel) - 1):
        vertex[i + 1] = grown[i] * at.parallel[i] ** 2 * vertex[i] + at.source[i]
        correction[i + 1] = grown[i] * (at.parallel[i] * correction[i] + half_curvature[i] * vertex[i])
        correction[i + 1] += c_b + c_W * averages.square[i]
    return _dataset(get(activation), table.kernel, vertex, correction, n)


def _dataset(
    activation: Activation, kernel: Floats, vertex: Floats, correction: Floats, n: Floats | None
) -> xr.Dataset:
    values = {"kernel": kernel, "vertex": vertex, "correction": correction}
    if n is not None:
        # The first layer is exactly Gaussian whatever n_0 is.
        before = np.append(np.inf, n)[:, None]
        values |= {"variance": vertex / before, "mean": kernel + correction / before}
        values["relative_variance"] = values["variance"] / np.where(kernel > 0, kernel, np.nan) ** 2
    return xr.Dataset(
        {name: (("layer", "sample"), value) for name, value in values.items()},
        coords={"layer": np.arange(1, len(kernel) + 1)},
        attrs={"activation": activation.name},
    )


@dataclass(frozen=True)
class ScaleInvariant:
    """Constants of s(z) = a_+ z (z > 0), a_- z (z < 0); A_2k = (a_+^2k + a_-^2k) / 2, PDLT eqs. (5.60), (5.113)."""

    plus: float
    minus: float

    @classmethod
    def of(cls, activation: str | Activation) -> ScaleInvariant:
        """Read the two slopes off the function."""
        found = criticality(activation)
        if found.universality_class != "scale-invariant":
            raise InvalidInput(f"{found.activation.name} is not scale-invariant: {found.verdict}")
        with double_precision():
            plus, minus = (float(found.activation(np.float64(side))) for side in (1.0, -1.0))
        return cls(plus, -minus)

    def mean_power(self, power: int) -> float:
        """A_power."""
        return (self.plus**power + self.minus**power) / 2

    @property
    def nu(self) -> float:
        """nu = 3 A_4 / A_2^2 - 1: linear 2, ReLU 5."""
        return 3 * self.mean_power(4) / self.mean_power(2) ** 2 - 1

    @property
    def third(self) -> float:
        """kappa_3 = (15 A_6 - 9 A_2 A_4 + 2 A_2^3) / A_2^3: linear 8, ReLU 44."""
        A_2, A_4, A_6 = (self.mean_power(p) for p in (2, 4, 6))
        return (15 * A_6 - 9 * A_2 * A_4 + 2 * A_2**3) / A_2**3

    @property
    def rho(self) -> float:
        """rho = (a_+ - a_-)^2 / (pi (a_+^2 + a_-^2)), PDLT eq. (5.163): how fast angles close."""
        return (self.plus - self.minus) ** 2 / (2 * np.pi * self.mean_power(2))


def scale_invariant_moments(
    activation: str | Activation, kernel: Any, widths: Any, *, weight_variance: Any = None
) -> xr.Dataset:
    """Exact moments of the metric of a bias-free scale-invariant network at any widths n_1, ..., n_{depth-1}.

    G_hat^(l) = K^(1) prod_l' (C_W / n_l') sum_j s(xi_j)^2 with standard normal xi, so that E[G_hat] = K,
    E[G_hat^2] = K^2 prod (1 + nu / n) (for linear ones PDLT eq. (3.25)) and
    E[G_hat^3] = K^3 prod (1 + 3 nu / n + kappa_3 / n^2) (PDLT eq. (3.42)). C_W is the critical one unless given.

    `log_mean` and `log_variance` are those of log(G_hat / K) in the limit of large depth and width at fixed ratio.
    """
    constants = ScaleInvariant.of(activation)
    n = check.array("widths", widths, ndim=1)
    if (n < 1).any():
        raise InvalidInput(f"widths = {n.min():g} must be at least 1")
    start = np.atleast_1d(check.array("kernel", kernel))
    critical = 1 / constants.mean_power(2)
    C_W = after_first("weight_variance", critical if weight_variance is None else weight_variance, len(n) + 1)
    gain = np.append(1.0, np.cumprod(C_W * constants.mean_power(2)))
    K = gain[:, None] * start[None, :]
    second = np.append(1.0, np.cumprod(1 + constants.nu / n))[:, None]
    third = np.append(1.0, np.cumprod(1 + 3 * constants.nu / n + constants.third / n**2))[:, None]
    log_variance = np.append(0.0, np.cumsum(constants.nu / n))
    pair = ("layer", "sample")
    return xr.Dataset(
        {
            "mean": (pair, K),
            "variance": (pair, K**2 * (second - 1)),
            "second_moment": (pair, K**2 * second),
            "third_moment": (pair, K**3 * third),
            "log_mean": ("layer", -log_variance / 2),
            "log_variance": ("layer", log_variance),
        },
        coords={"layer": np.arange(1, len(n) + 2)},
        attrs={"activation": get(activation).name},
    )
