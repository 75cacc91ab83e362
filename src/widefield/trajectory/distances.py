"""How far an answer is from the mean of real networks."""

from __future__ import annotations

import xarray as xr

from . import metrics
from .trajectory import Trajectory


def distance(answer: Trajectory, networks: Trajectory, name: str) -> xr.DataArray:
    """|X - X_N| / max_t |X_N| over time: X of a theory, X_N the mean over networks; kernels of the last layer."""
    mean, exact = metrics.at_common_times(_last(networks.mean(name)), _last(answer.mean(name)))
    return _length(exact - mean) / float(_length(mean).max())


def uncertainty(networks: Trajectory, name: str) -> xr.DataArray:
    """The part of every distance that comes from the number of networks: |standard error| / max_t |X_N|."""
    return _length(_last(networks.standard_error(name))) / float(_length(_last(networks.mean(name))).max())


def _last(value: xr.DataArray) -> xr.DataArray:
    return value.isel(layer=-1) if "layer" in value.dims else value


def _length(value: xr.DataArray) -> xr.DataArray:
    squares: xr.DataArray = (value**2).sum([dim for dim in value.dims if dim != "time"], skipna=False)
    return squares**0.5
