"""Tables that put theory and real networks side by side."""

from __future__ import annotations

import math

import numpy as np
from rich.table import Table

from ..base.statistics import standard_errors
from ..base.tables import number, rows, table, with_error
from ..proportional.rate_sweep import RateSweep
from ..proportional.result import Dynamics

_ROUNDING = 1e-12
"""Relative errors of means that are none."""

_FINITE = "errors are those of the mean; that networks are finite adds to z"


def of_networks(dynamics: Dynamics, trained: Dynamics, networks: int) -> Table:
    """Theory and means of networks beside each other; z is their distance in standard errors."""
    title = f"theory and {networks} networks; |z|: distance in standard errors"
    made = table(("step", "test loss", "networks", "|z|", "training", "networks", "|z|"), title, _FINITE)
    step = dynamics.data["step"].values
    whole = np.flatnonzero(np.abs(step - np.round(step)) < 1e-9 * np.maximum(step, 1))
    for row in whole[rows(len(whole))]:
        at = round(float(step[row]))
        cells = [f"{at:.6g}"]
        for name in ("test_loss", "train_loss"):
            mean, error = (float(trained.data[key].values[at]) for key in (name, f"{name}_error"))
            cells += _compared(float(dynamics.data[name].values[row]), mean, error)
        made.add_row(*cells)
    return made


def of_simulated_rates(sweep: RateSweep, trained: RateSweep, networks: int) -> Table:
    """Theory and networks at the last rate up to the best one at which networks were trained."""
    title = f"theory and {networks} networks just below the best rate; |z|: distance in standard errors"
    made = table((sweep.over, "rate", "loss", "networks", "|z|"), title, _FINITE)
    for index, value in enumerate(trained.values):
        place = int(np.flatnonzero(sweep.values == value)[0])
        below = max(0, int(np.searchsorted(trained.learning_rates, sweep.optimal[place], side="right")) - 1)
        column = int(np.argmin(np.abs(sweep.learning_rates - trained.learning_rates[below])))
        mean, error = (float(trained.data[name].values[index, below]) for name in ("loss", "loss_error"))
        cells = _compared(float(sweep.data["loss"].values[place, column]), mean, error)
        made.add_row(number(value), f"{trained.learning_rates[below]:.4g}", *cells)
    return made


def _compared(theory: float, mean: float, error: float) -> list[str]:
    if not math.isfinite(mean):
        return [f"{theory:.4g}", "diverge", ""]
    scattered = error > _ROUNDING * abs(mean)  # else no number of standard errors means anything
    z = f"{abs(float(standard_errors(mean, theory, error))):.1f}" if scattered else ""
    return [f"{theory:.4g}", with_error(mean, error), z]
