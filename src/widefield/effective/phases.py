"""The phase diagram: what depth does to signals, for every pair of variances (C_W, C_b)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from .. import check
from ..activations import Activation, get
from ..errors import InvalidInput
from .single_input import moments
from .single_input import SingleInput

Floats = NDArray[np.float64]

PHASES = ("ordered", "critical", "chaotic", "exploding")
"""chi_perp < 1: inputs become parallel, gradients vanish; = 1; > 1: they part, gradients explode; no finite K*."""

_DECADES = (-6, 6)
_PER_DECADE = 24

_NEARLY = 1e-2
"""How far from chi_par = 1 a fixed point is well-conditioned."""


def phase_diagram(
    activation: str | Activation,
    weight_variances: Any,
    bias_variances: Any,
    *,
    start: float = 1.0,
    tolerance: float = 1e-9,
) -> xr.Dataset:
    """Return K*, the susceptibilities there, correlation lengths and the phase over a grid of (C_W, C_b).

    K* is the fixed point K* = C_b + C_W g(K*), PDLT eq. (5.7), that the kernel reaches from K = `start` (the next one
    in the direction of the flow); infinity if there is none up to 1e6. The lengths are 1 / |log chi|: numbers of layers
    after which a difference in norm (parallel) or direction (perpendicular) has changed by a factor e.
    `phase` indexes `PHASES`; "critical" means |chi_perp - 1| <= `tolerance`.
    """
    activation = get(activation)
    C_W, C_b = _axis("weight_variances", weight_variances), _axis("bias_variances", bias_variances)
    first = check.number("start", start, above=0)
    weight, bias = (grid.ravel() for grid in np.meshgrid(C_W, C_b, indexing="ij"))
    K = _fixed_points(activation, weight, bias, first)
    parallel, perpendicular = _susceptibilities(activation, K, weight)
    phase = np.select([~np.isfinite(K), np.abs(perpendicular - 1) <= tolerance, perpendicular < 1], [3, 1, 0], 2)
    values = {
        "kernel": K,
        "parallel": parallel,
        "perpendicular": perpendicular,
        "parallel_length": _length(parallel),
        "perpendicular_length": _length(perpendicular),
        "phase": phase,
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


def _fixed_points(activation: Activation, weight: Floats, bias: Floats, start: float) -> Floats:
    """The next root of F(K) = C_b + C_W g(K) - K upwards from `start` if F(start) > 0, else downwards."""
    single = SingleInput(activation)
    grid = start * 10.0 ** np.linspace(*_DECADES, (_DECADES[1] - _DECADES[0]) * _PER_DECADE + 1)
    middle = -_DECADES[0] * _PER_DECADE
    g = single.square(grid)
    origin = float(single.square(0.0))
    F = bias[:, None] + weight[:, None] * g - grid
    up, settled = F[:, middle] > 0, np.abs(F[:, middle]) <= 1e-13 * start
    above, below = F[:, middle:] <= 0, F[:, middle::-1] >= 0
    upper = np.where(above.any(1), middle + above.argmax(1), -1)
    lower = np.where(below.any(1), middle - below.argmax(1), -1)
    low = np.where(up, upper - 1, lower)
    inside = np.where(up, upper > 0, lower >= 0) & ~settled
    K = np.where(up, np.inf, _linear_root(weight, bias, origin, grid[0], g[0]))
    K[settled] = start
    K[inside] = _refine(single, weight[inside], bias[inside], grid, g, low[inside])
    return K


def _linear_root(weight: Floats, bias: Floats, origin: float, K: float, g: float) -> Floats:
    """Below the grid g is as good as linear."""
    slope = weight * (g - origin) / K
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(slope < 1, np.clip((bias + weight * origin) / (1 - slope), 0, K), 0.0)


def _refine(single: SingleInput, weight: Floats, bias: Floats, grid: Floats, g: Floats, low: Any) -> Floats:
    """Bisect an interpolant between neighbours on the grid, then take Newton steps with exact averages."""
    if not len(weight):
        return np.zeros(0)
    spline = CubicSpline(np.log(grid), g)
    left, right = grid[low], grid[low + 1]
    K = _bisect(lambda K: spline(np.log(K)), weight, bias, left, right)
    for _ in range(2):
        slope = 1 - weight * _slope(single, K)
        step = (bias + weight * single.square(K) - K) / np.where(np.abs(slope) > _NEARLY, slope, np.inf)
        K = np.clip(K + step, left, right)
    # Near chi_par = 1 a small error of g is a large one of K*: no interpolant and no Newton step will do.
    near = np.abs(slope) <= 2 * _NEARLY
    if near.any():
        K[near] = _bisect(single.square, weight[near], bias[near], left[near], right[near])
    return np.asarray(K)


def _bisect(g: Callable[[Floats], Floats], weight: Floats, bias: Floats, left: Floats, right: Floats) -> Floats:
    """The root of C_b + C_W g(K) - K between `left` and `right`, where the signs differ."""
    rising = bias + weight * g(left) - left > 0
    for _ in range(46):
        middle = (left + right) / 2
        before = (bias + weight * g(middle) - middle > 0) == rising
        left, right = np.where(before, middle, left), np.where(before, right, middle)
    return np.asarray((left + right) / 2)


def _slope(single: SingleInput, K: Floats) -> Floats:
    q = single.activation.homogeneity
    if q is None:
        return single.square_slope(K)
    return np.asarray(q * float(single.square(1.0)) * K ** (q - 1.0)) if q else np.zeros_like(K)


def _susceptibilities(activation: Activation, K: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """chi_par and chi_perp, PDLT eqs. (5.50)-(5.51); NaN where K is infinite."""
    single = SingleInput(activation)
    parallel, perpendicular = np.full_like(K, np.nan), np.full_like(K, np.nan)
    finite = np.isfinite(K)
    # With kinks there is no average of derivatives at K = 0 itself; just above, it has its limit.
    there = np.maximum(K[finite], 1e-12) if activation.kinks else K[finite]
    parallel[finite] = weight[finite] * _slope(single, there)
    perpendicular[finite] = weight[finite] * single.slope_square(there)
    return parallel, perpendicular
