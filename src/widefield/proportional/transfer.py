"""Learning-rate sweeps: which rate is best, which is the largest that works, and how both move with width or depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.errors import Interrupted, InvalidInput
from ..base.rate_curves import last_success
from ..base.renamed import renamed
from ..base.session import Report, progress_bar
from .dynamics import solve_many
from .rate_sweep import AXES, RateSweep, with_axes_by_name
from .setting import LinearNetwork, LinearTask
from .simulation import simulate
from .sweep import EXPLODED

_LAZY_WIDTH = 1e8
"""Stands for infinity in the parameterisation "ntk", where gamma_0 = gamma / sqrt(nu) must not be 0."""

_ENOUGH = 100
"""Steps that resolve the edge of stability well enough for advice."""


@renamed(rates="learning_rates")
@with_axes_by_name
def lr_sweep(
    network: LinearNetwork,
    task: LinearTask,
    learning_rates: ArrayLike,
    steps: int,
    *,
    over: str = "width",
    values: Sequence[float] = (),
    progress: bool | None = None,
) -> RateSweep:
    """Test loss after `steps` steps over learning rates, for several widths or depths of a network.

    >>> sweep = lr_sweep(LinearNetwork(2, 1.0, 4.0), LinearTask(), np.geomspace(0.02, 0.2, 9), 19, values=(1, 4))
    >>> sweep.verdict
    'it transfers: the optimal rate spreads by a factor 1.00 from width 1 to 4'

    Args:
        network: everything but the width or depth that is varied.
        task: data and noise.
        learning_rates: at least three, increasing.
        steps: number of steps of every run.
        over: what is varied, "width" or "depth".
        values: widths nu of all hidden layers, or numbers of hidden layers; `math.inf` may be at the end. Infinite
            width with the parameterisation "ntk" is lazy, and solved for at nu = 1e8.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    plan = _Plan.of(network, task, learning_rates, steps, over, values)
    count, schedules = len(plan.rates), np.repeat(plan.rates[:, None], plan.steps, axis=1)
    losses = []
    with progress_bar("learning rates", progress) as report:
        for index, one in enumerate(plan.networks):
            tell = _part(report, index, len(plan.networks))
            losses.append(solve_many([one] * count, [task] * count, schedules, tell).test)
    found = np.stack(losses)
    return plan.answer(found[:, :, -1], found[:, 0, 0])


@renamed(rates="learning_rates")
@with_axes_by_name
def simulated_sweep(
    network: LinearNetwork,
    task: LinearTask,
    learning_rates: ArrayLike,
    steps: int,
    *,
    over: str = "width",
    values: Sequence[float] = (),
    dimension: int = 128,
    seeds: int = 8,
    seed: int = 0,
    progress: bool | None = None,
) -> RateSweep:
    """The same with real networks: means over `seeds` networks, with standard errors `loss_error`.

    Ctrl-C raises `Interrupted` with the rates that were finished.
    """
    plan = _Plan.of(network, task, learning_rates, steps, over, values)
    grid, drawn = plan.rates, {"dimension": dimension, "seeds": seeds, "seed": seed}
    shape = (len(plan.networks), len(grid))
    loss, error, start = np.full(shape, np.nan), np.full(shape, np.nan), np.full(len(plan.networks), np.nan)
    stopped: Interrupted | None = None
    with progress_bar("real networks", progress, "rates") as report:
        for i, j in np.ndindex(shape):
            try:
                run = simulate(plan.networks[i], task, grid[j], plan.steps, **drawn, progress=False).data
            except Interrupted as interruption:
                stopped = interruption
                break
            start[i] = run["test_loss"][0]
            ends = float(run["test_loss"][-1]), float(run["test_loss_error"][-1])
            if np.isfinite(ends).all() and ends[0] < EXPLODED * start[i]:
                loss[i, j], error[i, j] = ends
            report(i * len(grid) + j + 1, loss.size, ends[0])
    found = plan.answer(loss, start, error)
    if stopped is not None:
        message = f"interrupted at {plan.over} {plan.values[i]:g}, rate {grid[j]:.3g}"
        raise Interrupted(message, replace(found, data=found.data.assign_attrs(status="interrupted", message=message)))
    return found


@renamed(precision="tolerance")
def largest_stable_rate(
    network: LinearNetwork,
    task: LinearTask,
    steps: int = 100,
    *,
    reduction: float = 1.0,
    low: float = 1e-3,
    high: float = 4.0,
    tolerance: float = 0.005,
    progress: bool | None = None,
) -> float:
    """The learning rate up to which training works: after `steps` steps the training loss is `reduction` of its start.

    With reduction = 1 that is the edge of divergence; with a small one, the edge of convergence in that many steps. It
    is the first failure above the best rate: islands beyond do not count.

    Args:
        network, task: see `solve`.
        steps: number of steps; more resolve the edge better.
        reduction: of the training loss, which label noise is part of.
        low, high: where the search begins and ends.
        tolerance: error allowed, relative to the rate.
        progress: of every group of rates; None shows it on terminals only.
    """
    count = check.integer("steps", steps, least=1)
    least, most = check.number("low", low, above=0.0), check.number("high", high, above=low)
    goal = check.number("reduction", reduction, above=0.0, most=1.0)

    with progress_bar("largest stable rate", progress) as report:

        def ends(rates: Floats) -> tuple[Floats, NDArray[np.bool_]]:
            schedules = np.repeat(rates[:, None], count, axis=1)
            train = solve_many([network] * len(rates), [task] * len(rates), schedules, report).train
            return train[:, -1], train[:, -1] < goal * train[:, 0]

        return _edge(ends, least, most, check.number("tolerance", tolerance, above=0.0))


def remedy(network: LinearNetwork, task: LinearTask, rate: float, steps: int) -> str:
    """The largest rate that works in as many steps, but a hundred at most, for training that diverges at `rate`."""
    steps = min(steps, _ENOUGH)
    try:
        limit = largest_stable_rate(network, task, steps, low=1e-4 * rate, high=rate)
    except InvalidInput:
        return f"a rate far below {rate:g} may help"
    return f"the largest rate that works in {steps} steps is {limit:.3g}"


def _edge(
    ends: Callable[[Floats], tuple[Floats, NDArray[np.bool_]]], low: float, high: float, tolerance: float
) -> float:
    """Narrow the edge down, some rates at a time; `ends` gives final losses and which of them are successes."""
    count = 24
    while True:
        rates = np.geomspace(low, high, count)
        last = last_success(*ends(rates))
        if last < 0:
            raise InvalidInput(
                f"low = {low:g}, high = {high:g}: training fails at all rates between; use a smaller low, a larger "
                "reduction or more steps"
            )
        if last == count - 1:
            raise InvalidInput(f"high = {high:g}: training works up to this rate; use a larger one")
        low, high, count = float(rates[last]), float(rates[last + 1]), 9
        if high / low - 1 < tolerance:
            return math.sqrt(low * high)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a sweep goes through, checked."""

    task: LinearTask
    networks: tuple[LinearNetwork, ...]
    over: str
    values: Float[Floats, " n"]
    rates: Float[Floats, " r"]
    steps: int

    @classmethod
    def of(
        cls,
        network: LinearNetwork,
        task: LinearTask,
        rates: ArrayLike,
        steps: int,
        over: str,
        values: Sequence[float],
    ) -> _Plan:
        """Networks of all widths or depths, and rates that increase."""
        made = _varied(network, over, values)
        grid = check.array("learning_rates", rates, ndim=1)
        if len(grid) < 3 or (grid <= 0).any() or (np.diff(grid) <= 0).any():
            raise InvalidInput("learning_rates must be three or more positive numbers that increase")
        return cls(task, made, over, np.array(values, dtype=np.float64), grid, check.integer("steps", steps, least=1))

    def answer(
        self, loss: Float[Floats, "n r"], start: Float[Floats, " n"], error: Float[Floats, "n r"] | None = None
    ) -> RateSweep:
        """Losses with their axes."""
        axes = (self.over, "rate")
        variables = {"loss": (axes, loss), "initial_loss": ((self.over,), start)}
        if error is not None:
            variables["loss_error"] = (axes, error)
        data = xr.Dataset(
            variables, coords={self.over: self.values, "rate": self.rates}, attrs={"sizes": self.task.sizes}
        )
        return RateSweep(data, self.networks, self.task)


def _varied(network: LinearNetwork, over: str, values: Sequence[float]) -> tuple[LinearNetwork, ...]:
    check.choice("over", over, AXES)
    values = list(values)
    if not values:
        raise InvalidInput(f"values is empty: give at least one {over}")
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise InvalidInput(f"values = {values} must increase")
    if over == "depth":
        return tuple(replace(network, hidden_layers=value) for value in values)
    most = _LAZY_WIDTH if network.parameterisation == "ntk" else math.inf
    return tuple(replace(network, width=min(value, most)) for value in values)


def _part(report: Report, index: int, count: int) -> Report:
    def tell(done: int, total: int, loss: float) -> None:
        report(index * total + done, count * total, loss)

    return tell
