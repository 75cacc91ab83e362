"""The expansion in the difference of two inputs through the layers of smooth networks, with any norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation, get
from ..base import check
from ..base.errors import InvalidInput
from .input_expansion import Expansion
from .layer_table import after_first, averages_at, layer_table
from .single_tangent import every_layer
from .two_inputs import difference_flow

_BENT = ("bend", "bend_square", "bend_square_slope", "slope_square_curvature")


def expansion_flow(
    activation: str | Activation,
    first: Expansion,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    weight_rates: Any = 1.0,
    bias_rates: Any = 1.0,
) -> xr.Dataset:
    """All of `Expansion` over the layers 1 .. `depth`, from that of the first.

    With k = K_00, T = Theta_00, w = lambda_W / C_W, chi = chi_par - chi_perp, q = C_W <s''^2>, ' for d/dK, e2 and e1
    as in `difference_flow` (PDLT eqs. (5.47), (5.48), (10.66), (10.70); terms in e1 of ddK_[0], ddTheta: derived)

        e0 <- chi_par e0 + chi e2 + chi' e1^2 / 2
        t1 <- chi_perp t1 + (w chi_par + 2 h T) e1
        t2 <- chi_perp t2 + w e2_next + T (q e2 + q' e1^2 / 2) + h e1 t1
        t0 <- chi_perp t0 + w e0_next + T [2 h (e0 + e2) - q e2 + (chi_perp'' - q') e1^2 / 2] + h e1 t1

    Errors of components 0, 1, 2 are of order dx^4, dx^3, dx^4. Variances are those of the layers 2 .. depth, rates of
    the layers 1 .. depth, numbers or one each; the first layer's rates are in `first` and are not used.
    """
    s = get(activation)
    if s.kinks:
        raise InvalidInput(f"activation = {s.name!r} has kinks and no expansion in dx: use ntk_angle_flow")
    depth = check.integer("depth", depth, least=1)
    table = layer_table(s, first.kernel, depth, bias_variance, weight_variance)
    start = (first.kernel, first.kernel_norms, first.kernel_distance)
    below = difference_flow(s, *start, depth, bias_variance=bias_variance, weight_variance=weight_variance)
    C_W = after_first("weight_variance", weight_variance, depth)
    if (C_W == 0).any():
        raise InvalidInput("weight_variance = 0: all inputs are the same behind such a layer")
    weight, bias = (every_layer(*each, depth) for each in (("weight_rates", weight_rates), ("bias_rates", bias_rates)))
    e1s, e2s = (below[name].values[:, 0] for name in ("parallel", "perpendicular"))
    bend, q, q1, curve = (values[:, 0] for values in averages_at(s, table.kernel[:-1], _BENT))
    bent = (table.moments.square_curvature - table.moments.slope_square_slope)[:, 0]
    at = table.susceptibilities
    par, perp, h = at.parallel[:, 0], at.perpendicular[:, 0], at.h[:, 0]
    rows = [[first.ntk, first.kernel_sum, first.ntk_sum, first.ntk_norms, first.ntk_distance]]
    for i, C in enumerate(C_W):
        T, e0, t0, t1, t2 = rows[-1]
        e1, e2 = e1s[i], e2s[i]
        next_features = par[i] * e0 + C * (bend[i] * e2 + bent[i] * e1**2 / 2)
        w, mixed = weight[i + 1] / C, h[i] * e1 * t1
        rows.append([
            bias[i + 1] + weight[i + 1] * table.moments.square[i, 0] + perp[i] * T,
            next_features,
            perp[i] * t0 + w * next_features + mixed
            + T * (2 * h[i] * (e0 + e2) + C * (-q[i] * e2 + (curve[i] - q1[i]) * e1**2 / 2)),
            perp[i] * t1 + (w * par[i] + 2 * h[i] * T) * e1,
            perp[i] * t2 + w * e2s[i + 1] + C * T * (q[i] * e2 + q1[i] * e1**2 / 2) + mixed,
        ])  # fmt: skip
    T, e0, t0, t1, t2 = np.array(rows, dtype=np.float64).T
    values = {"kernel": table.kernel[:, 0], "ntk": T, "kernel_sum": e0, "kernel_norms": e1s, "kernel_distance": e2s}
    values |= {"ntk_sum": t0, "ntk_norms": t1, "ntk_distance": t2}
    return xr.Dataset({n: ("layer", v) for n, v in values.items()}, {"layer": np.arange(1, depth + 1)})


def expansion_at(flow: xr.Dataset, layer: int) -> Expansion:
    """One layer of `expansion_flow`."""
    found = flow.sel(layer=layer)
    return Expansion(**{str(name): float(value) for name, value in found.data_vars.items()})
