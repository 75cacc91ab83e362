"""How good a trajectory is: its statistical error and its bias, as fractions of what was computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import xarray as xr

from .trajectory import Trajectory

_JUDGED = ("outputs", "feature_kernel", "gradient_kernel")


def statistical(trajectory: Trajectory) -> float:
    """Largest relative standard error of outputs and of the kernels of every layer, rms over times and samples."""
    return _worst(trajectory, lambda name: trajectory.standard_error(name))


def bias(trajectory: Trajectory, coarse: Trajectory, ratio: float) -> float:
    """Largest relative bias of the same quantities, from an answer with `ratio` times fewer particles.

    If the bias falls as one over the number of particles, the difference of both answers is ratio - 1 times that of the
    finer one. What statistical errors explain is taken off.
    """

    def excess(name: str) -> xr.DataArray:
        noise = trajectory.standard_error(name) ** 2 + coarse.standard_error(name) ** 2
        squares = (trajectory.mean(name) - coarse.mean(name)) ** 2 - noise
        return squares / (ratio - 1) ** 2

    return _worst(trajectory, excess, squared=True)


def _worst(trajectory: Trajectory, error: Callable[[str], xr.DataArray], *, squared: bool = False) -> float:
    worst = 0.0
    for name in _JUDGED:
        if name not in trajectory.data:
            continue
        value = trajectory.mean(name)
        power = error(name) if squared else error(name) ** 2
        over = [dim for dim in value.dims if dim != "layer"]
        fraction = power.sum(over, skipna=False) / (value**2).sum(over)
        worst = max(worst, float(np.sqrt(np.maximum(fraction, 0.0)).max()))
    return worst


def enough_particles(particles: int, error: float, wanted: float, most: int) -> int:
    """The power of 2 that should bring the error of one replica down to `wanted`.

    Errors were measured to fall as the number of particles to the power -0.85; we count on -0.7.
    """
    needed = particles * (error / wanted) ** (1 / 0.7) if error > wanted else particles
    return min(most, int(2 ** math.ceil(math.log2(max(needed, particles)))))
