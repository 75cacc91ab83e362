"""Tables for the terminal."""

from __future__ import annotations

import math

import numpy as np
from rich.table import Table

from ..base.tables import number, rows, table, with_error
from ..proportional.result import Dynamics
from ..proportional.transfer import RateSweep

_ROUNDING = 1e-12
"""Relative errors of means that are none."""

_FINITE = "errors are those of the mean; that networks are finite adds to z"

_PARTS = {"bias": "bias", "width_variance": "networks", "data_variance": "data", "noise": "noise"}


def of_losses(dynamics: Dynamics) -> Table:
    """Losses and what the test loss is made of, at some times."""
    parts = [name for name in _PARTS if name in dynamics.data and np.nanmax(dynamics.data[name].values) > 0]
    signs = ["=", *["+"] * len(parts)]
    split = [f"{sign} {_PARTS[name]}" for sign, name in zip(signs, parts, strict=False)]
    made = table(("step", "time", "training", "test loss", *split), "bias, variance over networks and data sets, noise")
    data = dynamics.data
    for row in rows(int(np.isfinite(dynamics.test_loss).sum())):
        losses = [_loss(dynamics, name, row) for name in ("train_loss", "test_loss", *parts)]
        made.add_row(_step(data["step"].values[row]), f"{float(data['time'][row]):.4g}", *losses)
    return made


def of_networks(dynamics: Dynamics, trained: Dynamics, networks: int) -> Table:
    """Theory and means of networks beside each other; z is their distance in standard errors."""
    title = f"theory and {networks} networks; |z|: distance in standard errors"
    made = table(("step", "test loss", "networks", "|z|", "training", "networks", "|z|"), title, _FINITE)
    step = dynamics.data["step"].values
    whole = np.flatnonzero(np.abs(step - np.round(step)) < 1e-9 * np.maximum(step, 1))
    for row in whole[rows(len(whole))]:
        at = round(float(step[row]))
        cells = [_step(step[row])]
        for name in ("test_loss", "train_loss"):
            mean, error = (float(trained.data[key].values[at]) for key in (name, f"{name}_error"))
            cells += _compared(float(dynamics.data[name].values[row]), mean, error)
        made.add_row(*cells)
    return made


def of_rates(sweep: RateSweep) -> Table:
    """Best and largest working rates, and the loss that the best one leaves."""
    made = table((sweep.over, "best rate", "largest that works", "loss at the best"))
    rows = zip(sweep.values, sweep.optimal, sweep.largest, sweep.at_edge, sweep.data["loss"].values, strict=True)
    for value, best, largest, edge, losses in rows:
        if math.isnan(largest):
            made.add_row(number(value), "none works", "", "")
            continue
        remark = " (edge)" if edge else ""
        beyond = "> " if largest == sweep.rates[-1] else ""
        made.add_row(number(value), f"{best:.4g}{remark}", f"{beyond}{largest:.4g}", f"{np.nanmin(losses):.4g}")
    return made


def of_simulated_rates(sweep: RateSweep, trained: RateSweep, networks: int) -> Table:
    """Theory and networks at the last rate up to the best one at which networks were trained."""
    title = f"theory and {networks} networks just below the best rate; |z|: distance in standard errors"
    made = table((sweep.over, "rate", "loss", "networks", "|z|"), title, _FINITE)
    for index, value in enumerate(trained.values):
        place = int(np.flatnonzero(sweep.values == value)[0])
        below = max(0, int(np.searchsorted(trained.rates, sweep.optimal[place], side="right")) - 1)
        column = int(np.argmin(np.abs(sweep.rates - trained.rates[below])))
        mean, error = (float(trained.data[name].values[index, below]) for name in ("loss", "loss_error"))
        cells = _compared(float(sweep.data["loss"].values[place, column]), mean, error)
        made.add_row(number(value), f"{trained.rates[below]:.4g}", *cells)
    return made


def _loss(dynamics: Dynamics, name: str, row: int) -> str:
    """A number, or a bound if it was extrapolated and not found to differ from zero."""
    data = dynamics.data
    value = float(np.broadcast_to(data[name].values, data.sizes["time"])[row])
    if f"{name}_error" not in data:
        return f"{value:.4g}"
    error = float(data[f"{name}_error"].values[row])
    return f"{value:.4g}" if value > error or value == 0 else f"< {max(error, abs(value)):.1g}"


def _compared(theory: float, mean: float, error: float) -> list[str]:
    if not math.isfinite(mean):
        return [f"{theory:.4g}", "diverge", ""]
    z = f"{abs(mean - theory) / error:.1f}" if error > _ROUNDING * abs(mean) else ""
    return [f"{theory:.4g}", with_error(mean, error), z]


def _step(step: float) -> str:
    return f"{step:.6g}" if math.isfinite(step) else ""
