"""Losses of deep linear networks over time in the proportional limit: `solve` one problem, or many of one form."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.errors import Diverged, NotAccurate
from ..base.renamed import renamed
from ..base.session import Report, progress_bar
from ..problem.schedules import Schedule, elapsed, rates_of
from . import finite_size as small_networks
from .equations import Equations, equations
from .extrapolation import heun_limit
from .result import NAMES, Dynamics, dataset, with_bounds
from .setting import LinearNetwork, LinearTask
from .sweep import Curves, sweep

_NOTICED = 1e-9
"""Rounding errors above this fraction of the first loss are worth a warning."""

_SHARE = 0.25
"""Of the free memory that many problems may take together."""


@renamed(rate="learning_rate")
def solve(
    network: LinearNetwork,
    task: LinearTask,
    learning_rate: float | Schedule | ArrayLike,
    steps: int,
    *,
    keep: bool = False,
    layer_steps: int = 8,
    finite_size: bool = True,
    throw: bool = True,
    progress: bool | Report | None = None,
) -> Dynamics:
    """Train and test loss of gradient descent in the limit, exact at any learning rate.

    >>> found = solve(LinearNetwork(1, width=0.5), LinearTask(), 0.1, 5)
    >>> [round(float(loss), 9) for loss in found.test_loss[[0, 1, 5]]]
    [3.0, 1.5012, 0.554754306]

    Args:
        network: depth, width, richness, skip connections.
        task: data and noise.
        learning_rate: eta, a schedule, or one number for each step; the raw rate is N eta gamma_0^2 times half the
            gradient of the mean squared error.
        steps: number of steps; losses are those at steps 0 .. steps.
        keep: whether all two-time functions are kept.
        layer_steps: at infinite depth: the coarsest of three grids in layer time, from which the limit is taken.
        finite_size: whether a few small networks are trained, in about the same time, to see how far networks of finite
            size are from the limit: `Dynamics.finite_size`. `NotAccurate` warns if D = 1000 is not enough.
        throw: raise `Diverged` if the loss explodes; False returns what there is.
        progress: True or False for a progress bar, None for one on terminals only, or a function
            `report(steps done, steps in all, loss)`.
    """
    rates = rates_of(learning_rate, steps)
    with progress_bar("proportional limit", False if callable(progress) else progress) as bar:
        report = progress if callable(progress) else bar
        found = _solved([network], [task], rates[None], check.integer("layer_steps", layer_steps, least=2), report)
    time = elapsed(rates)
    values = {name: part[0] for name, part in found.values.items()}
    bounds = {name: part[0] for name, part in found.bounds.items()}
    step, named = int(found.diverged[0]), with_bounds(values, bounds)
    data = dataset(time, np.arange(len(time)), named, task, -1 if step == len(time) else step)
    if check.flag("keep", keep):
        data = data.assign(_two_time(found.curves, len(time)))
    if check.flag("finite_size", finite_size) and step == len(time):
        crossover = small_networks.crossover(network, task, rates, values["test_loss"])
        small_networks.warn(crossover, stacklevel=3)
        data = data if crossover is None else data.assign_attrs(finite_size=crossover)
    answer = Dynamics(data, network, task)
    _warn_of_rounding(found.curves)
    if throw and answer.diverged is not None:
        raise Diverged(
            f"{answer.message} (learning_rate = {rates.max():g}); a smaller one nearly always helps, and "
            "`largest_stable_rate` finds it",
            answer,
        )
    return answer


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses of many problems at all times, NaN after divergence."""

    test: Float[Floats, "b t"]
    train: Float[Floats, "b t"]


@renamed(rates="learning_rates")
def solve_many(
    networks: Sequence[LinearNetwork],
    tasks: Sequence[LinearTask],
    learning_rates: Float[Floats, "b t"],
    report: Report = lambda done, total, loss: None,
) -> Losses:
    """Problems of one form (depth, skip connections, centring, kind of training, spectrum), as many at once as fit."""
    together = equations(networks[:1], tasks[:1], learning_rates[:1], 32)
    count = max(1, int(_SHARE * check.available() / (8 * together.numbers())))
    starts = range(0, len(networks), count)
    pieces = []
    for index, start in enumerate(starts):
        part = slice(start, start + count)

        def tell(done: int, steps: int, loss: float, index: int = index) -> None:
            report(index * steps + done, len(starts) * steps, loss)

        pieces.append(_solved(networks[part], tasks[part], learning_rates[part], 8, tell).values)
    test, train = (np.concatenate([piece[name] for piece in pieces]) for name in ("test_loss", "train_loss"))
    return Losses(test, train)


@dataclass(frozen=True, eq=False)
class _Solved:
    """Every loss of many problems, (problems, times), bounds on errors where there are some, and the last pass."""

    values: dict[str, Floats]
    bounds: dict[str, Floats]
    diverged: NDArray[np.int64]
    curves: Curves


def _solved(
    networks: Sequence[LinearNetwork],
    tasks: Sequence[LinearTask],
    rates: Float[Floats, "b t"],
    layer_steps: int,
    report: Report,
) -> _Solved:
    """One pass, or three and their limit at infinite depth."""
    grids = [layer_steps << level for level in range(3)] if math.isinf(networks[0].hidden_layers) else [layer_steps]
    found: list[dict[str, Floats]] = []
    for index, grid in enumerate(grids):
        together = equations(networks, tasks, rates, grid)
        _check_memory(together)

        def tell(done: int, steps: int, loss: float, index: int = index) -> None:
            report(index * steps + done, len(grids) * steps, loss)

        last = sweep(together, tell)  # of earlier grids only the losses are kept
        found.append(_losses(last))
    if len(found) == 1:
        return _Solved(found[0], {}, last.diverged, last)
    limits = {name: heun_limit([losses[name] for losses in found]) for name in NAMES}
    values, bounds = ({name: pair[k] for name, pair in limits.items()} for k in (0, 1))
    return _Solved(values, bounds, last.diverged, last)


def _losses(curves: Curves) -> dict[str, Floats]:
    parts = (curves.train, curves.bias, curves.width_variance, curves.data_variance, curves.test)
    return dict(zip(NAMES, parts, strict=True))


def _warn_of_rounding(curves: Curves) -> None:
    """Errors in directions that the target does not use grow at rates too large for them, if only from rounding."""
    rounding = float(np.nanmax(curves.rounding[0]))
    if rounding > _NOTICED * curves.test[0, 0]:
        warnings.warn(
            f"training is unstable against small perturbations: rounding errors have grown to {rounding:.1e} in the "
            "test loss, and networks of finite width would diverge; use a smaller rate",
            NotAccurate,
            stacklevel=4,
        )


def _check_memory(together: Equations) -> None:
    needed = 8 * together.numbers() * together.problems
    check.memory("matrices over all times", needed, "use fewer steps, or `solve_long`")


def _two_time(curves: Curves, times: int) -> dict[str, tuple[tuple[str, ...], Floats]]:
    """Every order parameter, with its axes."""
    layers, block = curves.chain.layers, curves.block
    noise = np.tile(np.eye(block.outputs), (times, times)) * block.sigma2[0]
    matrices = {
        "error_correlation": block.noisy[0] - noise,
        "train_error_correlation": block.D[0],
        "memory": block.M[0],
    }
    stacks = {
        "feature_kernel": [curves.chain.inputs[0], *(layer.features[0] for layer in layers)],
        "gradient_kernel": [layer.gradients[0] for layer in layers],
        "feature_response": [layer.from_right[0] for layer in layers],
        "gradient_response": [layer.back[0] for layer in layers],
    }
    names = {"feature_kernel": "input_or_layer"}
    found = {name: _named((), value, times) for name, value in matrices.items()}
    return found | {name: _named((names.get(name, "layer"),), np.stack(value), times) for name, value in stacks.items()}


def _named(lead: tuple[str, ...], value: Floats, times: int) -> tuple[tuple[str, ...], Floats]:
    outputs = value.shape[-1] // times
    if outputs == 1:
        return (*lead, "time", "time_"), value
    shape = (*value.shape[:-2], times, outputs, times, outputs)
    return (*lead, "time", "output", "time_", "output_"), value.reshape(shape)
