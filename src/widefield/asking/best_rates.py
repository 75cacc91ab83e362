"""Which learning rate leaves the smallest loss, at several widths: does that of a small network suit a large one?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.rate_curves import RateCurves
from ..base.session import progress_bar
from ..base.tables import number, with_error
from ..problem.problem import Problem
from ..problem.schedules import rates_of
from .stable_rates import bracket, limit_at_start
from .trials import Trials, whole_width

_LOWEST, _COUNT = 1 / 60, 16
"""Rates from this fraction of the largest that trains up to just beyond it, so many."""

_COARSE = 0.1
_BEYOND = 1.25


@dataclass(frozen=True, eq=False)
class LearningRates(
    RateCurves,
    kind="learning rates of a problem",
    asked={"problem": Problem},
    figure="widefield.proportional.plots:sweep_summary",
):
    """Training losses at the end over learning rates, for several widths of the network of one problem.

    `data` has `loss` over (`width`, `rate`), the mean over networks or replicas, NaN where half of them diverge,
    `loss_error`, its standard error, and `initial_loss`.
    """

    problem: Problem

    @property
    def rate(self) -> float:
        """The best learning rate of the largest width."""
        return float(self.optimal[-1])

    @property
    def verdict(self) -> str:
        """Whether the best rate transfers, and what it costs the largest width to take that of the smallest."""
        said = super().verdict
        if len(self.values) < 2 or self.at_edge.any():
            return said
        taken = self._with_the_first()
        if taken.endswith("diverges"):
            return f"it does not transfer: {taken}; {said.partition(': ')[2]}"
        return f"{said}; {taken}"

    def _with_the_first(self) -> str:
        """The last width at the best rate of the first, and at its own; two standard errors are no difference."""
        first, last = (number(value) for value in self.values[[0, -1]])
        losses, errors = self.data["loss"].values[-1], self.loss_errors[-1]
        own, other = int(np.nanargmin(losses)), int(np.argmin(np.abs(np.log(self.learning_rates / self.optimal[0]))))
        taken = f"with the best rate of width {first}, width {last}"
        if np.isnan(losses[other]):
            return f"{taken} diverges"
        ends = f"{taken} ends at {with_error(losses[other], errors[other])}"
        if other == own:
            return f"{ends}, its own best"
        gap = math.hypot(errors[own], errors[other])
        apart = losses[other] - losses[own] > 2 * gap
        what = f"{losses[other] / losses[own]:.3g} times as much" if apart else "no difference within error bars"
        what = "error bars need more than one network" if math.isnan(gap) else what
        return f"{ends} instead of {with_error(losses[own], errors[own])}: {what}"

    @property
    def quantity(self) -> str:
        """Losses on the training samples."""
        return "training loss at the end"

    def lacks(self) -> str:
        """What does not fit together in a file."""
        whole = {"loss", "initial_loss", "rate", "width"} <= set(self.data.variables)
        return (
            "" if whole and self.data["loss"].dims == ("width", "rate") else "losses and rates do not belong together"
        )


def best_rate(
    problem: Problem,
    widths: float | Sequence[float] = math.inf,
    *,
    steps: int | None = None,
    learning_rates: ArrayLike | None = None,
    repetitions: int = 4,
    progress: bool | None = None,
) -> LearningRates:
    """Final training losses over learning rates, at several widths: the best rate, and whether it transfers.

    Each rate is tried on several networks or replicas, as `stable_rate` does, whose words say what diverges. In the
    mean-field parameterisation best rates hardly depend on the width, in "ntk" they do (BP25; Yang et al. 2022).

    Args:
        problem: what is trained. A schedule counts as constant; the learning rate in it is not looked at.
        widths: of the networks, in increasing order; the last may be infinite.
        steps: for how long; None is as long as the problem says.
        learning_rates: those to try; None takes 16, up to just beyond the largest that trains at any of the widths.
        repetitions: networks or replicas for each of them.
        progress: True or False for a bar, None for one on terminals only.
    """
    values = _widths(widths)
    count = check.integer("repetitions", repetitions, least=1)
    trials = [Trials(problem, width, steps) for width in values]
    rates = _spread(problem, trials) if learning_rates is None else _given(learning_rates)
    losses = np.full((len(values), len(rates), count), np.nan)
    first = np.empty(len(values))
    with progress_bar("learning rates", progress) as report:
        for row, trial in enumerate(trials):
            for place, rate in enumerate(rates):
                for seed in range(1 if trial.alike else count):
                    ran = trial.run(float(rate), seed)
                    first[row], losses[row, place, seed] = ran.first, math.nan if ran.failed else ran.last
                report(row * len(rates) + place + 1, len(values) * len(rates), float(first[row]))
    alike = np.array([trial.alike for trial in trials])
    asked = dataclasses.replace(problem, optimiser=trials[0].problem.optimiser)
    return LearningRates(_labelled(values, rates, losses, first, alike), asked)


def _labelled(
    values: list[float], rates: Floats, losses: NDArray[np.float64], first: Floats, alike: NDArray[np.bool_]
) -> xr.Dataset:
    """Means over repetitions, where at least half of them train."""
    trained = np.isfinite(losses).sum(axis=-1)
    asked = np.where(alike, 1, losses.shape[-1])[:, None]
    enough = 2 * trained > asked
    mean = np.where(enough, np.nansum(losses, axis=-1) / np.maximum(trained, 1), np.nan)
    squares = np.nansum((losses - mean[..., None]) ** 2, axis=-1)
    error = np.sqrt(squares / np.maximum(trained - 1, 1) / np.maximum(trained, 1))
    variables = {
        "loss": (("width", "rate"), mean),
        "loss_error": (("width", "rate"), np.where(enough & ((trained > 1) | alike[:, None]), error, np.nan)),
        "initial_loss": (("width",), first),
    }
    return xr.Dataset(variables, {"width": np.array(values, dtype=np.float64), "rate": rates})


def _spread(problem: Problem, trials: list[Trials]) -> Floats:
    """Rates between a fraction of the smallest limit and just beyond the largest."""
    limits = []
    for trial in trials:
        start = limit_at_start(problem, trial.width).rate
        low, high = bracket(lambda rate, trial=trial: trial.run(rate).failed, start, start / 2, _COARSE)  # type: ignore[misc]
        limits.append(low if math.isinf(high) else high)
    low, high = _LOWEST * min(limits), _BEYOND * max(limits)
    return np.geomspace(low, high, max(_COUNT, round(_COUNT * math.log(high / low) / math.log(_BEYOND / _LOWEST))))


def _given(learning_rates: ArrayLike) -> Floats:
    rates = check.array("learning_rates", learning_rates, ndim=1)
    if len(rates) < 3 or (np.diff(rates) <= 0).any() or rates_of(rates, len(rates))[0] == 0:
        raise InvalidInput(
            f"learning_rates = {check.shown(learning_rates)} must be three or more, positive, increasing"
        )
    return rates


def _widths(widths: float | Sequence[float]) -> list[float]:
    given = list(widths) if isinstance(widths, Sequence | np.ndarray) else [widths]
    found: list[float] = [whole_width("widths", width) for width in given]
    if not found or sorted(set(found)) != found:
        raise InvalidInput(f"widths = {widths!r} must increase, as in (64, 256, math.inf)")
    return found
