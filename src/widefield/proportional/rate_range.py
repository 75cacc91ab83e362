"""Which learning rates a sweep should try."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base import check
from ..base.arrays import Floats
from .rate_sweep import with_axes_by_name
from .setting import LinearNetwork, LinearTask
from .transfer import lr_sweep

_WIDEST = (1e-6, 10.0)
_COARSE, _FINE = 6, 16
"""Rates for every factor of ten."""


@with_axes_by_name
def suggested_rates(
    network: LinearNetwork,
    task: LinearTask,
    steps: int,
    *,
    over: str = "width",
    values: Sequence[float] = (),
    count: int | None = None,
    progress: bool | None = None,
) -> Floats:
    """Log-spaced rates from a third of the smallest best rate to just beyond the largest that works, for `lr_sweep`.

    Both are found by a coarse sweep over all rates that could matter. `count` of them, or if it is None 16 for every
    factor of ten.
    """
    if count is not None:
        check.integer("count", count, least=3)
    grid = _spaced(*_WIDEST, _COARSE)
    coarse = lr_sweep(network, task, grid, steps, over=over, values=values, progress=progress)
    works = np.isfinite(coarse.largest)
    low, high = _WIDEST
    if works.any():
        low = max(low, float(coarse.optimal[works].min()) / 3)
        high = min(high, float(coarse.largest[works].max() * grid[1] / grid[0]))
    return _spaced(low, high, _FINE) if count is None else np.geomspace(low, high, count)


def _spaced(low: float, high: float, per_decade: int) -> Floats:
    return np.geomspace(low, high, max(3, round(per_decade * math.log10(high / low)) + 1))
