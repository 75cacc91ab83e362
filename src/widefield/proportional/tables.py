"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from .dynamics import Dynamics
from .transfer import RateSweep

_ROWS = 9
"""Times in a table, at most."""

_ROUNDING = 1e-12
"""Relative errors of means that are none."""

_FINITE = "errors are those of the mean; that networks are finite adds to z"

_PARTS = {"bias": "bias", "width_variance": "networks", "data_variance": "data", "noise": "noise"}


def of_losses(dynamics: Dynamics) -> Table:
    """Losses and what the test loss is made of, at some times."""
    parts = [name for name in _PARTS if name in dynamics.data and np.nanmax(dynamics.data[name].values) > 0]
    signs = ["=", *["+"] * len(parts)]
    split = [f"{sign} {_PARTS[name]}" for sign, name in zip(signs, parts, strict=False)]
    table = _table(
        ("step", "time", "training", "test loss", *split), "bias, variance over networks and data sets, noise"
    )
    data = dynamics.data
    for row in _rows(int(np.isfinite(dynamics.test_loss).sum())):
        losses = [_loss(dynamics, name, row) for name in ("train_loss", "test_loss", *parts)]
        table.add_row(_step(data["step"].values[row]), f"{float(data['time'][row]):.4g}", *losses)
    return table


def of_networks(dynamics: Dynamics, trained: Dynamics, networks: int) -> Table:
    """Theory and means of networks beside each other; z is their distance in standard errors."""
    title = f"theory and {networks} networks; |z|: distance in standard errors"
    table = _table(("step", "test loss", "networks", "|z|", "training", "networks", "|z|"), title, _FINITE)
    step = dynamics.data["step"].values
    whole = np.flatnonzero(np.abs(step - np.round(step)) < 1e-9 * np.maximum(step, 1))
    for row in whole[_rows(len(whole))]:
        at = round(float(step[row]))
        cells = [_step(step[row])]
        for name in ("test_loss", "train_loss"):
            mean, error = (float(trained.data[key].values[at]) for key in (name, f"{name}_error"))
            cells += _compared(float(dynamics.data[name].values[row]), mean, error)
        table.add_row(*cells)
    return table


def of_rates(sweep: RateSweep) -> Table:
    """Best and largest working rates, and the loss that the best one leaves."""
    table = _table((sweep.over, "best rate", "largest that works", "loss at the best"))
    rows = zip(sweep.values, sweep.optimal, sweep.largest, sweep.at_edge, sweep.data["loss"].values, strict=True)
    for value, best, largest, edge, losses in rows:
        if math.isnan(largest):
            table.add_row(_number(value), "none works", "", "")
            continue
        remark = " (edge)" if edge else ""
        beyond = "> " if largest == sweep.rates[-1] else ""
        table.add_row(_number(value), f"{best:.4g}{remark}", f"{beyond}{largest:.4g}", f"{np.nanmin(losses):.4g}")
    return table


def of_simulated_rates(sweep: RateSweep, trained: RateSweep, networks: int) -> Table:
    """Theory and networks at the last rate up to the best one at which networks were trained."""
    title = f"theory and {networks} networks just below the best rate; |z|: distance in standard errors"
    table = _table((sweep.over, "rate", "loss", "networks", "|z|"), title, _FINITE)
    for index, value in enumerate(trained.values):
        place = int(np.flatnonzero(sweep.values == value)[0])
        below = max(0, int(np.searchsorted(trained.rates, sweep.optimal[place], side="right")) - 1)
        column = int(np.argmin(np.abs(sweep.rates - trained.rates[below])))
        mean, error = (float(trained.data[name].values[index, below]) for name in ("loss", "loss_error"))
        cells = _compared(float(sweep.data["loss"].values[place, column]), mean, error)
        table.add_row(_number(value), f"{trained.rates[below]:.4g}", *cells)
    return table


def _table(headings: Sequence[str], title: str | None = None, caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _loss(dynamics: Dynamics, name: str, row: int) -> str:
    """A number, or a bound if it was extrapolated and not found to differ from zero."""
    data = dynamics.data
    value = float(np.broadcast_to(data[name].values, data.sizes["time"])[row])
    if f"{name}_error" not in data:
        return f"{value:.4g}"
    error = float(data[f"{name}_error"].values[row])
    return f"{value:.4g}" if value > error or value == 0 else f"< {max(error, abs(value)):.1g}"


def _rows(count: int) -> NDArray[np.int64]:
    """The first of `count`, the last, and some between them."""
    return np.unique(np.linspace(0, count - 1, min(_ROWS, count)).round().astype(np.int64))


def _compared(theory: float, mean: float, error: float) -> list[str]:
    if not math.isfinite(mean):
        return [f"{theory:.4g}", "diverge", ""]
    z = f"{abs(mean - theory) / error:.1f}" if error > _ROUNDING * abs(mean) else ""
    return [f"{theory:.4g}", f"{mean:.4g} ± {error:.1g}", z]


def _step(step: float) -> str:
    return f"{step:.6g}" if math.isfinite(step) else ""


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:g}"
