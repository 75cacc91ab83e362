"""How far networks of finite size are from the limit, estimated from a few small ones.

Where some directions of the kernel are unstable, single networks leave the limit after O(log D) steps, and nothing in
its order parameters shows it. Distances of real networks fall as D_0 / (D_0 + D), so that small ones tell D_0.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from ..base.arrays import Floats
from ..base.errors import NotAccurate
from . import words
from .setting import LinearNetwork, LinearTask
from .simulation import Networks, Sizes

_LARGEST, _SMALLEST = 64, 8
"""Neurons, samples and dimension of the small networks: larger ones would take much longer than the limit itself."""

_NETWORKS = 16
_CHANCE = 3.0
"""Standard errors of the small networks that are put down to chance."""

_NEGLIGIBLE = 0.01
"""Distances are relative to the loss, or to this share of the first one where it has become less than that."""

_EXPLODED = 1e6
"""A loss that has grown by this factor will not come back."""

_FEWEST = 4
"""Networks that must not explode for their mean to say anything."""


def small_dimension(network: LinearNetwork, task: LinearTask) -> int | None:
    """D of small networks with the ratios asked for; None if some ratio is infinite, or too large or small for that."""
    if task.spectrum is not None or math.isinf(network.hidden_layers) or math.isinf(network.widths[-1]):
        return None
    seen = [size for size in (task.samples, task.batch_size) if math.isfinite(size)]
    ratios = [1.0, *network.widths, *seen]
    dimension = int(_LARGEST / max(ratios))
    return dimension if dimension * min(ratios) >= max(_SMALLEST, task.gram.shape[1]) else None


def crossover(
    network: LinearNetwork, task: LinearTask, rates: Float[Floats, " t"], limit: Float[Floats, " t+1"]
) -> float | None:
    """D_0 at the worst step; `limit` is the test loss. None where small networks cannot tell."""
    dimension = small_dimension(network, task)
    if dimension is None:
        return None
    small = Networks(network, task, Sizes.of(network, task, dimension), _NETWORKS, np.random.default_rng(0))
    with threadpool_limits(limits=1, user_api="blas"):
        losses = small.train(rates)[0]
    share = _share(losses, limit)
    return dimension * share / (1 - share)


def _share(losses: Float[Floats, "n t"], limit: Float[Floats, " t"]) -> float:
    """Of the loss by which networks are off at the worst step; those that explode are off by all of it."""
    whole = losses[(losses <= _EXPLODED * limit[0]).all(axis=1)]  # not those with numbers that are none
    count, lost = len(whole), 1 - len(whole) / len(losses)
    if count < _FEWEST:
        return 1 - 1 / len(losses)
    mean, error = whole.mean(axis=0), whole.std(axis=0, ddof=1) / math.sqrt(count)
    gap = np.maximum(np.abs(mean - limit) - _CHANCE * error, 0.0)
    worst = float(np.max(gap / np.maximum(np.maximum(mean, limit), _NEGLIGIBLE * limit[0])))
    return lost + (1 - lost) * worst


def warn(crossover: float | None, stacklevel: int) -> None:
    """Warn of answers that typical networks would not agree with."""
    said = words.doubt(crossover)
    if said:
        warnings.warn(f"{said}, and `simulate` trains real ones", NotAccurate, stacklevel=stacklevel + 1)
