"""Learning-rate sweeps: which rate is best, which is the largest that works, and how both move with width or depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from ..base import check, storage
from ..base.arrays import Floats
from ..base.errors import FileProblem, Interrupted, InvalidInput
from ..base.session import Report, progress_bar
from . import description
from .dynamics import solve_many
from .setting import LinearNetwork, LinearTask
from .simulation import simulate
from .sweep import EXPLODED

KIND = storage.Kind("learning-rate sweep", ("networks", "task"))

TRANSFERS = 2.0
"""Optimal rates that stay within this factor transfer."""

SETTLES, SETTLED = 1.25, 1.4
"""Optimal rates that move by less than this per doubling at the large end, or less than that to infinity, settle."""

_LAZY_WIDTH = 1e8
"""Stands for infinity in the parameterisation "ntk", where gamma_0 = gamma / sqrt(nu) must not be 0."""

_ZERO = 1e-14
"""Losses below this fraction of the first one are rounding errors."""


@dataclass(frozen=True, eq=False)
class RateSweep:
    """Test losses at the end of training over learning rates, for several networks.

    `data` has the variable `loss` (network, rate), NaN where training diverges, and `<loss>_error` if networks were
    simulated; the coordinate of `network` is its width or depth.
    """

    data: xr.Dataset
    networks: tuple[LinearNetwork, ...]
    task: LinearTask
    over: str
    """"width" or "depth"."""

    @property
    def rates(self) -> Float[Floats, " r"]:
        """The learning rates."""
        return np.asarray(self.data["rate"].values)

    @property
    def values(self) -> Float[Floats, " n"]:
        """Widths or depths."""
        return np.asarray(self.data[self.over].values)

    @property
    def optimal(self) -> Float[Floats, " n"]:
        """The best rate of every network: the minimum of a parabola through the best three in log rate and log loss.

        Of losses that are zero but for rounding, the middle.
        """
        start = self.data["initial_loss"].values
        return np.array([_minimum(self.rates, row, s) for row, s in zip(self.data["loss"].values, start, strict=True)])

    @property
    def largest(self) -> Float[Floats, " n"]:
        """The largest rate above the best one up to which the loss ends below that at the start; NaN if none does."""
        start = self.data["initial_loss"].values[:, None]
        losses = self.data["loss"].values
        ends = [_last_success(row, row < limit) for row, limit in zip(losses, start, strict=True)]
        return np.array([self.rates[end] if end >= 0 else np.nan for end in ends])

    @property
    def at_edge(self) -> NDArray[np.bool_]:
        """Whether the best rate is the first or last one: then it is not known."""
        best = [_best(row) for row in self.data["loss"].values]
        return np.isin(best, (0, len(self.rates) - 1))

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
            return f"cannot tell: some optimal rates lie beyond those searched, {self.rates[0]:g} to {self.rates[-1]:g}"
        moved = f"the optimal rate spreads by a factor {self.spread:.2f} from {ends}"
        if self.spread < TRANSFERS:
            return f"it transfers: {moved}"
        endless = math.isinf(self.values[-1])
        rest = f"{self.drift:.2f} " + (f"beyond {self.values[-2]:g}" if endless else "per doubling at the end")
        if self.drift < (SETTLED if endless else SETTLES):
            return f"it settles: {moved}, but by {rest}"
        return f"it does not transfer: {moved}, still by {rest}"

    def save(self, path: str | Path) -> None:
        """Write everything to one NetCDF file, atomically."""
        texts = {"networks": description.of_networks(self.networks), "task": description.of_task(self.task)}
        storage.write(Path(path), self.data, texts, KIND)

    @classmethod
    def load(cls, path: str | Path) -> RateSweep:
        """Read a file written by `save`."""
        data, texts = storage.read(Path(path), KIND)
        with description.understanding(path):
            networks, task = description.networks(texts["networks"]), description.task(texts["task"])
        over = next((str(name) for name in data.sizes if name != "rate"), "")
        whole = {"loss", "initial_loss", "rate", over} <= set(data.variables) and over in ("width", "depth")
        if not whole or data["loss"].dims != (over, "rate") or len(networks) != data.sizes[over]:
            raise FileProblem(f"{path} is damaged: losses and networks do not belong together")
        return cls(data, networks, task, over)


def lr_sweep(
    network: LinearNetwork,
    task: LinearTask,
    rates: ArrayLike,
    steps: int,
    *,
    widths: Sequence[float] | None = None,
    depths: Sequence[float] | None = None,
    progress: bool | None = None,
) -> RateSweep:
    """Test loss after `steps` steps over learning rates, for several widths or depths of a network.

    >>> sweep = lr_sweep(LinearNetwork(2, 1.0, 4.0), LinearTask(), np.geomspace(0.02, 0.2, 9), 19, widths=(1, 4))
    >>> sweep.verdict
    'it transfers: the optimal rate spreads by a factor 1.00 from width 1 to 4'

    Args:
        network: everything but the width or depth that is varied.
        task: data and noise.
        rates: learning rates, increasing.
        steps: number of steps of every run.
        widths: nu of all hidden layers, or
        depths: numbers of hidden layers; both may have `math.inf` at the end. Infinite width with the parameterisation
            "ntk" is lazy, and solved for at nu = 1e8.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    networks, over, values = _varied(network, widths, depths)
    grid, count = _grid(rates), check.integer("steps", steps, least=1)
    schedules = np.repeat(grid[:, None], count, axis=1)
    losses = []
    with progress_bar("learning rates", progress) as report:
        for index, one in enumerate(networks):
            tell = _part(report, index, len(networks))
            losses.append(solve_many([one] * len(grid), [task] * len(grid), schedules, tell).test)
    found = np.stack(losses)
    return _sweep(found[:, :, -1], None, found[:, 0, 0], grid, networks, task, over, values)


def simulated_sweep(
    network: LinearNetwork,
    task: LinearTask,
    rates: ArrayLike,
    steps: int,
    *,
    widths: Sequence[float] | None = None,
    depths: Sequence[float] | None = None,
    dimension: int = 128,
    seeds: int = 8,
    seed: int = 0,
    progress: bool | None = None,
) -> RateSweep:
    """The same with real networks: means over `seeds` networks, with standard errors `loss_error`.

    Ctrl-C raises `Interrupted` with the rates that were finished.
    """
    networks, over, values = _varied(network, widths, depths)
    grid, count = _grid(rates), check.integer("steps", steps, least=1)
    shape = (len(networks), len(grid))
    loss, error, start = np.full(shape, np.nan), np.full(shape, np.nan), np.full(len(networks), np.nan)
    stopped: Interrupted | None = None
    with progress_bar("real networks", progress, "rates") as report:
        for i, j in np.ndindex(shape):
            try:
                run = simulate(
                    networks[i], task, grid[j], count, dimension=dimension, networks=seeds, seed=seed, progress=False
                ).data
            except Interrupted as interruption:
                stopped = interruption
                break
            start[i] = run["test_loss"][0]
            ends = float(run["test_loss"][-1]), float(run["test_loss_error"][-1])
            if np.isfinite(ends).all() and ends[0] < EXPLODED * start[i]:
                loss[i, j], error[i, j] = ends
            report(i * len(grid) + j + 1, loss.size, ends[0])
    found = _sweep(loss, error, start, grid, networks, task, over, values)
    if stopped is not None:
        raise Interrupted(f"interrupted at {over} {values[i]:g}, rate {grid[j]:.3g}", found)
    return found


def largest_stable_rate(
    network: LinearNetwork,
    task: LinearTask,
    steps: int = 100,
    *,
    reduction: float = 1.0,
    low: float = 1e-3,
    high: float = 4.0,
    precision: float = 0.005,
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
        precision: relative, of the rate.
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

        return _edge(ends, least, most, check.number("precision", precision, above=0.0))


def _edge(
    ends: Callable[[Floats], tuple[Floats, NDArray[np.bool_]]], low: float, high: float, precision: float
) -> float:
    """Narrow the edge down, some rates at a time; `ends` gives final losses and which of them are successes."""
    count = 24
    while True:
        rates = np.geomspace(low, high, count)
        last = _last_success(*ends(rates))
        if last < 0:
            raise InvalidInput(
                f"low = {low:g}, high = {high:g}: training fails at all rates between; use a smaller low, a larger "
                "reduction or more steps"
            )
        if last == count - 1:
            raise InvalidInput(f"high = {high:g}: training works up to this rate; use a larger one")
        low, high, count = float(rates[last]), float(rates[last + 1]), 9
        if high / low - 1 < precision:
            return math.sqrt(low * high)


def _last_success(losses: Floats, works: NDArray[np.bool_]) -> int:
    """Index of the last success in an unbroken series of them from the best one on; -1 if there is none."""
    if not works.any():
        return -1
    best = int(np.nanargmin(np.where(works, losses, np.nan)))
    failures = np.nonzero(~works[best:])[0]
    return best + int(failures[0]) - 1 if len(failures) else len(works) - 1


def _varied(
    network: LinearNetwork, widths: Sequence[float] | None, depths: Sequence[float] | None
) -> tuple[tuple[LinearNetwork, ...], str, Floats]:
    if (widths is None) == (depths is None):
        raise InvalidInput("widths and depths: give one of them, to vary the width or the depth")
    over, given = ("width", widths) if depths is None else ("depth", depths)
    values = list(given or ())
    if len(values) < 1:
        raise InvalidInput(f"{over}s is empty: give at least one {over}")
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise InvalidInput(f"{over}s = {values} must increase")
    if over == "width":
        most = _LAZY_WIDTH if network.parameterisation == "ntk" else math.inf
        made = tuple(replace(network, width=min(value, most)) for value in values)
    else:
        made = tuple(replace(network, hidden_layers=value) for value in values)
    return made, over, np.array(values, dtype=np.float64)


def _grid(rates: ArrayLike) -> Floats:
    grid = check.array("rates", rates, ndim=1)
    if len(grid) < 3 or (grid <= 0).any() or (np.diff(grid) <= 0).any():
        raise InvalidInput("rates must be three or more positive numbers that increase")
    return grid


def _part(report: Report, index: int, count: int) -> Report:
    def tell(done: int, total: int, loss: float) -> None:
        report(index * total + done, count * total, loss)

    return tell


def _sweep(
    loss: Floats,
    error: Floats | None,
    start: Floats,
    rates: Floats,
    networks: tuple[LinearNetwork, ...],
    task: LinearTask,
    over: str,
    values: Floats,
) -> RateSweep:
    axes = (over, "rate")
    variables = {"loss": (axes, loss), "initial_loss": ((over,), start)}
    if error is not None:
        variables["loss_error"] = (axes, error)
    return RateSweep(xr.Dataset(variables, coords={over: values, "rate": rates}), networks, task, over)


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
