"""Many small steps, or gradient flow, from a few coarse solutions.

At a fixed training time s = eta t the solution is analytic in eta, so that solutions with coarse steps, extrapolated to
the rate wanted, take the place of T^3 operations. The work does not depend on the number of steps any more.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.errors import Diverged, InvalidInput, NotAccurate
from ..base.renamed import renamed
from ..base.session import Report, progress_bar
from .dynamics import solve
from .extrapolation import best_polynomial
from .result import NAMES, Dynamics, dataset, with_bounds
from .setting import LinearNetwork, LinearTask

_REFINEMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST = 1600
"""Steps of the finest solution."""

_COMPARED = [NAMES.index("test_loss"), NAMES.index("train_loss")]
"""Losses whose errors must be within the tolerance."""

_FEW = 9
"""All steps are taken at once if every interval has fewer: extrapolation would cost more."""


@renamed(rate="learning_rate", times="records")
def solve_long(
    network: LinearNetwork,
    task: LinearTask,
    learning_rate: float,
    steps: int,
    *,
    tolerance: float = 1e-6,
    records: int = 25,
    progress: bool | Report | None = None,
) -> Dynamics:
    """Losses of many steps at `records` + 1 equally spaced times, extrapolated from fewer and larger steps.

    Solutions with records x 1, 2, 3, 4, 6, .. steps are extrapolated to the learning rate until the estimated error is
    less than `tolerance` times the largest loss; it is returned as `<name>_bound`. Rates at which coarse solutions
    diverge are left out. All steps are taken if they are few, or if the next coarse solution has two thirds of them.

    Args:
        network, task: see `solve`.
        learning_rate: one for all steps.
        steps: how many of them; with `learning_rate` this gives the training time learning_rate * steps.
        tolerance: relative to the largest loss.
        records: number of intervals at whose ends losses are given.
        progress: of every solution; None shows it on terminals only, a function is called as in `solve`.
    """
    count = check.integer("steps", steps, least=1)
    eta = check.number("learning_rate", learning_rate, above=0.0)
    return _extrapolated(network, task, eta * count, eta, tolerance, records, progress)


@renamed(time="t_end", times="records")
def gradient_flow(
    network: LinearNetwork,
    task: LinearTask,
    t_end: float,
    *,
    tolerance: float = 1e-6,
    records: int = 25,
    progress: bool | Report | None = None,
) -> Dynamics:
    """Losses of gradient flow up to the training time `t_end`: the limit of `solve_long` with eta -> 0."""
    if task.online:
        raise InvalidInput(
            "batch_size: with fresh samples in every step the limit of small steps is that of the population"
        )
    return _extrapolated(network, task, check.number("t_end", t_end, above=0.0), 0.0, tolerance, records, progress)


def _extrapolated(
    network: LinearNetwork,
    task: LinearTask,
    time: float,
    eta: float,
    tolerance: float,
    records: int,
    progress: bool | Report | None,
) -> Dynamics:
    intervals = check.integer("records", records, least=1)
    accuracy = check.number("tolerance", tolerance, above=0.0)
    coarse: list[_Coarse] = []
    with progress_bar("proportional limit", False if callable(progress) else progress) as bar:
        report = progress if callable(progress) else bar
        for refinement in _REFINEMENTS:
            steps = intervals * refinement
            if eta > 0 and time / eta < max(1.5 * steps, _FEW * intervals) * (1 - 1e-9):
                return _exact(network, task, eta, round(time / eta), intervals, report)
            if steps > _MOST:
                break
            found = _coarse(network, task, time, steps, refinement, report)
            if found is None:
                continue
            coarse.append(found)
            if len(coarse) < 3:
                continue
            values, bounds = _limit(coarse, eta)
            if float((bounds[_COMPARED] / np.abs(values[_COMPARED]).max(axis=1, keepdims=True)).max()) < accuracy:
                return _answer(network, task, time, eta, values, bounds + coarse[-1].bounds)
    if len(coarse) < 2:
        raise InvalidInput(
            f"time = {time:g}: even {_MOST} steps diverge (learning_rate = {time / _MOST:.3g}); the problem is too "
            "stiff, use a shorter time"
        )
    values, bounds = _limit(coarse, eta)
    doubt = f"losses at small steps are known to {float(bounds[_COMPARED[0]].max()):.1e} only"
    warnings.warn(f"{doubt} (tolerance = {accuracy:g})", NotAccurate, stacklevel=4)
    answer = _answer(network, task, time, eta, values, bounds + coarse[-1].bounds)
    return Dynamics(answer.data.assign_attrs(reached=0, message=doubt), network, task)


@dataclass(frozen=True, eq=False)
class _Coarse:
    """Losses (names, times) of one solution with few steps, and bounds on errors at infinite depth, otherwise 0."""

    rate: float
    losses: Floats
    bounds: Floats


def _coarse(
    network: LinearNetwork, task: LinearTask, time: float, steps: int, every: int, report: Report
) -> _Coarse | None:
    """A solution at the common times; None if its steps are too large to be stable."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotAccurate)
            data = solve(network, task, time / steps, steps, finite_size=False, progress=report).data
    except (Diverged, NotAccurate):
        return None
    losses = np.stack([data[name].values[::every] for name in NAMES])
    bounds = np.zeros_like(losses)
    if f"{NAMES[0]}_bound" in data:
        bounds = np.stack([data[f"{name}_bound"].values[::every] for name in NAMES])
    return _Coarse(time / steps, losses, bounds)


def _limit(coarse: list[_Coarse], eta: float) -> tuple[Floats, Floats]:
    """Every loss at the rate wanted, and the error of the extrapolation; the same polynomial for all of them."""
    size = np.full((len(NAMES), 1), np.inf)
    size[_COMPARED] = np.abs(coarse[-1].losses[_COMPARED]).max(axis=1, keepdims=True)
    return best_polynomial([c.rate for c in coarse], [c.losses for c in coarse], eta, size)


def _answer(
    network: LinearNetwork, task: LinearTask, time: float, eta: float, values: Floats, bounds: Floats
) -> Dynamics:
    times = np.linspace(0.0, time, values.shape[1])
    step = times / eta if eta else np.full(len(times), np.inf)
    losses, unsure = (dict(zip(NAMES, part, strict=True)) for part in (values, bounds))
    return Dynamics(dataset(times, step, with_bounds(losses, unsure), task, -1), network, task)


def _exact(
    network: LinearNetwork, task: LinearTask, eta: float, steps: int, intervals: int, report: Report
) -> Dynamics:
    found = solve(network, task, eta, steps, progress=report)
    kept = np.unique(np.linspace(0, steps, intervals + 1).round().astype(np.int64))
    return Dynamics(found.data.isel(time=kept), network, task)
