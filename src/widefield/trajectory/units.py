"""Answers in the units that data had before they were standardised."""

from __future__ import annotations

import xarray as xr

from ..base.errors import InvalidInput
from ..data.scaling import Standardised
from ..problem.problem import Problem

_PLACES = ("outputs", "targets")
_WIDTHS = ("outputs_error", "outputs_deviation")
_LOSSES = ("loss", "loss_error")


def in_data_units(data: xr.Dataset, problem: Problem) -> xr.Dataset:
    """f -> mean + s f, deviations times s, losses times s^degree; see `Trajectory.in_data_units`."""
    names = [prefix + name for prefix in ("", "test_") for name in (*_PLACES, *_WIDTHS, *_LOSSES)]
    kept = data[[name for name in names if name in data]]
    if not isinstance(problem.data, Standardised):
        return kept
    scaling = problem.data.scaling
    scale, mean = scaling.target_scale, xr.DataArray(scaling.target_mean, dims="output")
    degree = problem.loss.degree
    if degree is None and (scale != 1 or scaling.target_mean.any()):
        raise InvalidInput(
            f"loss = {problem.loss.kind!r} in other units is not a multiple of itself (it has no `degree`): "
            "standardise with targets = false, or take data['outputs'] and scaling.outputs"
        )
    factors = dict.fromkeys(_WIDTHS, scale) | dict.fromkeys(_LOSSES, scale ** (degree or 0.0))
    found = {}
    for name, value in kept.data_vars.items():
        plain = str(name).removeprefix("test_")
        moved = value * factors[plain] if plain in factors else value * scale + mean
        found[name] = moved.transpose(*value.dims)
    return kept.assign(found)
