"""Losses over learning rates: which rate is best, and whether it is that of other widths or depths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from .arrays import Floats
from .result import Result

TRANSFERS = 2.0
"""Optimal rates that stay within this factor transfer."""

SETTLES, SETTLED = 1.25, 1.4
"""Optimal rates that move by less than this per doubling at the large end, or less than that to infinity, settle."""

_ZERO = 1e-14
"""Losses below this fraction of the first one are rounding errors."""


@dataclass(frozen=True, eq=False)
class RateCurves(Result):
    """Losses at the end of training over learning rates, of several networks.

    `data` has the variable `loss` over (`width` or `depth`, `rate`), NaN where training diverges, and `initial_loss`.
    """

    @property
    def over(self) -> str:
        """What is varied: "width" or "depth"."""
        return next((str(name) for name in self.data.sizes if name != "rate"), "")

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        count, (low, high) = len(self.learning_rates), self.learning_rates[[0, -1]]
        return f"{self.kind} over {self.over}: {count} rates from {low:.4g} to {high:.4g}"

    @property
    def learning_rates(self) -> Float[Floats, " r"]:
        """In increasing order."""
        return np.asarray(self.data["rate"].values)

    @property
    def values(self) -> Float[Floats, " n"]:
        """Widths or depths."""
        return np.asarray(self.data[self.over].values)

    @property
    def loss_errors(self) -> Float[Floats, "n r"]:
        """Standard errors of the losses; NaN where there are none."""
        known = (
            self.data["loss_error"].values if "loss_error" in self.data else np.full(self.data["loss"].shape, np.nan)
        )
        return np.asarray(known)

    @property
    def optimal(self) -> Float[Floats, " n"]:
        """The best rate of every network: the minimum of a parabola through the best three in log rate and log loss.

        Of losses that are zero but for rounding, the middle.
        """
        start = self.data["initial_loss"].values
        return np.array(
            [_minimum(self.learning_rates, row, s) for row, s in zip(self.data["loss"].values, start, strict=True)]
        )

    @property
    def largest(self) -> Float[Floats, " n"]:
        """The largest rate above the best one up to which the loss ends below that at the start; NaN if none does."""
        start = self.data["initial_loss"].values[:, None]
        losses = self.data["loss"].values
        ends = [last_success(row, row < limit) for row, limit in zip(losses, start, strict=True)]
        return np.array([self.learning_rates[end] if end >= 0 else np.nan for end in ends])

    @property
    def at_edge(self) -> NDArray[np.bool_]:
        """Whether the best rate is the first or last one: then it is not known."""
        best = [_best(row) for row in self.data["loss"].values]
        return np.isin(best, (0, len(self.learning_rates) - 1))

    @property
    def spread(self) -> float:
        """Largest over smallest optimal rate."""
        return float(self.optimal.max() / self.optimal.min())

    @property
    def drift(self) -> float:
        """By what factor the optimal rate moves at the large end: to infinity if it is there, else per doubling."""
        if len(self.values) < 2:
            return math.nan
        (one, two), (low, high) = self.values[-2:], self.optimal[-2:]
        doublings = 1.0 if math.isinf(two) else math.log2(two / one)
        return float(math.exp(abs(math.log(high / low)) / doublings))

    @property
    def verdict(self) -> str:
        """Whether the optimal rate transfers, in words."""
        ends = f"{self.over} {self.values[0]:g} to {self.values[-1]:g}"
        if self.at_edge.any():
            low, high = self.learning_rates[[0, -1]]
            return f"cannot tell: some optimal rates lie beyond those searched, {low:g} to {high:g}"
        moved = f"the optimal rate spreads by a factor {self.spread:.2f} from {ends}"
        if self.spread < TRANSFERS:
            return f"it transfers: {moved}"
        endless = math.isinf(self.values[-1])
        rest = f"{self.drift:.2f} " + (f"beyond {self.values[-2]:g}" if endless else "per doubling at the end")
        if self.drift < (SETTLED if endless else SETTLES):
            return f"it settles: {moved}, but by {rest}"
        return f"it does not transfer: {moved}, still by {rest}"

    @property
    def unit(self) -> str:
        """What is varied, in words."""
        return "depth (hidden layers)" if self.over == "depth" else "width N"

    @property
    def symbol(self) -> str:
        """The same for figures."""
        return "hidden layers $L$" if self.over == "depth" else "width $N$"

    @property
    def quantity(self) -> str:
        """Which loss it is."""
        return "loss after training"

    def table(self) -> Any:
        """Best and largest working rates, and the loss that the best one leaves."""
        from ..base.tables import number, table, with_error

        made = table((self.unit, "best rate", "largest that works", "loss at the best"))
        columns = (self.values, self.optimal, self.largest, self.at_edge, self.data["loss"].values, self.loss_errors)
        for value, best, largest, edge, losses, errors in zip(*columns, strict=True):
            if math.isnan(largest):
                made.add_row(number(value), "none works", "", "")
                continue
            remark = " (edge)" if edge else ""
            beyond = "> " if largest == self.learning_rates[-1] else ""
            left = with_error(float(np.nanmin(losses)), float(errors[_best(losses)]))
            made.add_row(number(value), f"{best:.4g}{remark}", f"{beyond}{largest:.4g}", left)
        return made


def last_success(losses: Floats, works: NDArray[np.bool_]) -> int:
    """Index of the last success in an unbroken series of them from the best one on; -1 if there is none."""
    if not works.any():
        return -1
    best = int(np.nanargmin(np.where(works, losses, np.nan)))
    failures = np.nonzero(~works[best:])[0]
    return best + int(failures[0]) - 1 if len(failures) else len(works) - 1


def _best(losses: Floats) -> int:
    return int(np.nanargmin(losses)) if np.isfinite(losses).any() else 0


def _minimum(rates: Floats, losses: Floats, start: float) -> float:
    """Where the parabola through the best point and its neighbours, in logarithms, is lowest."""
    zero = np.nonzero(losses < _ZERO * start)[0]
    if len(zero):
        return math.sqrt(rates[zero[0]] * rates[zero[-1]])
    best = _best(losses)
    if best in (0, len(rates) - 1) or not np.isfinite(losses[best - 1 : best + 2]).all():
        return float(rates[best])
    x, y = np.log(rates[best - 1 : best + 2]), np.log(losses[best - 1 : best + 2])
    second, first, _ = np.polyfit(x - x[1], y, 2)
    return float(rates[best] * math.exp(float(np.clip(-first / (2 * second), x[0] - x[1], x[2] - x[1]))))
