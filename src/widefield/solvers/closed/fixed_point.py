"""The damped iteration of the papers: all order parameters at all times at once, until nothing changes any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Floats
from .solution import Solution

Order = dict[str, Floats]
"""Order parameters by name; "outputs", (T + 1, P, C), is one of them."""


class Grid(Protocol):
    """Closed equations as a map from order parameters to order parameters."""

    def start(self) -> Order:
        """Where to begin."""

    def image(self, order: Order) -> Order:
        """New estimates, all from the same old ones."""

    def solution(self, order: Order, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""


@dataclass(frozen=True)
class Iterated:
    """Where the iteration ended.

    Args:
        order: the order parameters.
        change: by how much the last image differed from them, relative to the largest entry of each.
        iterations: number of images taken.
    """

    order: Order
    change: float
    iterations: int


def iterate(
    grid: Grid,
    damping: float,
    tolerance: float,
    iterations: int,
    report: Callable[[int, Floats], None] = lambda done, outputs: None,
) -> Iterated:
    """X <- (1 - damping) X + damping image(X) until nothing changes by more than the tolerance, or it diverges."""
    order, change, done = grid.start(), np.inf, 0
    while done < iterations and np.isfinite(change if done else 0.0) and change >= tolerance:
        with np.errstate(over="ignore", invalid="ignore"):
            image = grid.image(order)
            change = max(_change(order[name], image[name]) for name in order)
            order = {name: old + damping * (image[name] - old) for name, old in order.items()}
        done += 1
        report(done, order["outputs"])
    return Iterated(order, change, done)


def _change(old: Floats, new: Floats) -> float:
    """Largest change, relative to the largest entry (or to 1 if that is smaller); NaN counts as infinite."""
    change = float(np.max(np.abs(new - old))) / max(1.0, float(np.max(np.abs(new))))
    return np.inf if np.isnan(change) else change
