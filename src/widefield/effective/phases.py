"""The phase diagram: what depth does to signals, for every pair of variances (C_W, C_b)."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .fixed_points import reached
from .single_input import SingleInput, moments

PHASES = ("ordered", "critical", "chaotic", "exploding")
"""chi_perp < 1: inputs become parallel, gradients vanish; = 1; > 1: they part, gradients explode; no finite K*."""


def phase_diagram(
    activation: str | Activation,
    weight_variances: Any,
    bias_variances: Any,
    *,
    start: float = 1.0,
    tolerance: float = 1e-9,
) -> xr.Dataset:
    """Return K*, the susceptibilities there, correlation lengths and the phase over a grid of (C_W, C_b).

    K* is the fixed point K* = C_b + C_W g(K*), PDLT eq. (5.7), that the kernel reaches from K = `start`; infinity if
    it explodes. Where g rises with K that is the next one in the direction of the flow; where g falls the kernel may
    leap over it, and is followed. It always settles or explodes (see `fixed_points`): chi_par is never below -1/2.
    `settled` is False where it was still on its way after 4096 layers, and K* then is only where it was;
    `fixed_points` counts those that there are, from 0 to 1e6 `start`.

    The lengths are 1 / |log |chi||: numbers of layers after which a difference in norm (parallel) or direction
    (perpendicular) has changed by a factor e. `phase` indexes `PHASES`; "critical" means
    |chi_perp - 1| <= `tolerance`.
    """
    activation = get(activation)
    C_W, C_b = _axis("weight_variances", weight_variances), _axis("bias_variances", bias_variances)
    first = check.number("start", start, above=0)
    weight, bias = (grid.ravel() for grid in np.meshgrid(C_W, C_b, indexing="ij"))
    found = reached(activation, weight, bias, first)
    K = found.kernel
    parallel, perpendicular = _susceptibilities(activation, K, weight)
    phase = np.select([~np.isfinite(K), np.abs(perpendicular - 1) <= tolerance, perpendicular < 1], [3, 1, 0], 2)
    values = {
        "kernel": K,
        "parallel": parallel,
        "perpendicular": perpendicular,
        "parallel_length": _length(parallel),
        "perpendicular_length": _length(perpendicular),
        "phase": phase,
        "settled": found.settled,
        "fixed_points": found.count,
    }
    shape = (len(C_W), len(C_b))
    return xr.Dataset(
        {name: (("weight_variance", "bias_variance"), value.reshape(shape)) for name, value in values.items()},
        coords={"weight_variance": C_W, "bias_variance": C_b},
        attrs={"activation": activation.name, "phases": list(PHASES), "start": first},
    )


def critical_lines(activation: str | Activation, kernels: Any) -> xr.Dataset:
    """The lines chi_perp(K*) = 1 and chi_par(K*) = 1 in the plane (C_W, C_b), parametrised by K*.

    (1/<s'^2>, K - g/<s'^2>) and (1/g', K - g/g'), from PDLT eqs. (5.7), (5.55)-(5.56). They meet at critical points.
    """
    K = _axis("kernels", kernels)
    averages = moments(activation, K)
    lines = {}
    for name, slope in (("perpendicular", averages.slope_square), ("parallel", averages.square_slope)):
        with np.errstate(divide="ignore", invalid="ignore"):
            lines[f"{name}_weight_variance"] = 1 / slope
            lines[f"{name}_bias_variance"] = K - averages.square / slope
    return xr.Dataset({name: ("kernel", line) for name, line in lines.items()}, coords={"kernel": K})


def _axis(name: str, values: Any) -> Floats:
    axis = check.array(name, values, ndim=1)
    if not len(axis) or (axis < 0).any():
        raise InvalidInput(f"{name} must hold at least one value, none negative")
    return axis


def _length(chi: Floats) -> Floats:
    """1 / |log chi|: infinite at chi = 1, zero where chi is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(1 / np.abs(np.log(np.abs(chi))))


def _susceptibilities(activation: Activation, K: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """chi_par and chi_perp, PDLT eqs. (5.50)-(5.51); NaN where K is infinite."""
    single = SingleInput(activation)
    parallel, perpendicular = np.full_like(K, np.nan), np.full_like(K, np.nan)
    finite = np.isfinite(K)
    # With kinks there is no average of derivatives at K = 0 itself; just above, it has its limit.
    there = np.maximum(K[finite], 1e-12) if activation.kinks else K[finite]
    parallel[finite] = weight[finite] * single.square_slope(there)
    perpendicular[finite] = weight[finite] * single.slope_square(there)
    return parallel, perpendicular
