"""Real networks of finite size for the same questions: `simulate` draws many and averages.

Training is written in the vectors of BP25 eqs. (4)-(5), with a column for every output: v errors of the predictor,
Delta errors on samples, h^0 their gradient, h^l and g^l forward and backward fields. `as_problem` describes what fits
as a problem that every other theory of the package can answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.errors import Interrupted, InvalidInput
from ..base.renamed import renamed
from ..base.session import Report, Session, progress_bar, watching_for_interrupt
from ..base.statistics import mean_and_error
from ..data import Data
from ..gaussian import roots
from ..problem.losses import SquaredError
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem
from ..problem.schedules import Schedule, elapsed, rates_of
from .result import Dynamics, dataset
from .setting import LinearNetwork, LinearTask

_NUMBERS = 2**21
"""Of all networks that are trained side by side: more leave the cache and gain nothing."""


@renamed(rate="learning_rate", networks="seeds")
def simulate(
    network: LinearNetwork,
    task: LinearTask,
    learning_rate: float | Schedule | ArrayLike,
    steps: int,
    *,
    dimension: int = 256,
    seeds: int = 16,
    seed: int = 0,
    progress: bool | Report | None = None,
) -> Dynamics:
    """Train networks with their own data sets; mean losses and their standard errors.

    The test loss is that of the population, |v|^2 / D + sigma^2, not of a sample. Ctrl-C raises `Interrupted` with the
    networks that were finished; a second one stops at once.

    Args:
        network, task, learning_rate, steps: as in `solve`.
        dimension: D; with a spectrum it is the number of modes, and not asked for.
        seeds: how many networks, at least 2.
        seed: of all of them.
        progress: True or False for a progress bar, None for one on terminals only, or a function
            `report(networks done, networks in all, loss)`.
    """
    sizes = Sizes.of(network, task, check.integer("dimension", dimension, least=1))
    rates, count = rates_of(learning_rate, steps), check.integer("seeds", seeds, least=2)
    start = check.integer("seed", seed)
    together = max(1, min(count, _NUMBERS // sizes.numbers))
    found: list[Floats] = []
    session = Session()
    shown = False if callable(progress) else progress
    with progress_bar("real networks", shown, "networks") as bar, watching_for_interrupt(session):
        report = progress if callable(progress) else bar
        for first in range(0, count, together):
            group = Networks(network, task, sizes, min(together, count - first), np.random.default_rng([start, first]))
            found.append(group.train(rates, _part(report, first, group.count, count)))
            if session.interrupted:
                break
    answer = _means(network, task, rates, np.concatenate(found, axis=1))
    if session.interrupted:
        done = sum(losses.shape[1] for losses in found)
        message = f"interrupted after {done} of {count} networks"
        data = answer.data.assign_attrs(status="interrupted", message=message)
        raise Interrupted(message, Dynamics(data, network, task))
    return answer


def _part(report: Report, first: int, size: int, count: int) -> Report:
    """Progress in networks, of a group that begins with the network `first`."""
    return lambda done, total, loss: report(first + size * done // total, count, loss)


def _means(network: LinearNetwork, task: LinearTask, rates: Floats, losses: Floats) -> Dynamics:
    """Means over networks and their standard errors, infinite for one network."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, error = mean_and_error(losses, axis=1, alone=math.inf)
    names = ("test_loss", "train_loss")
    time = elapsed(rates)
    blown = np.nonzero(~np.isfinite(mean[0]))[0]
    data = dataset(
        time,
        np.arange(len(time)),
        dict(zip((*names, *(f"{name}_error" for name in names)), (*mean, *error), strict=True)),
        task,
        int(blown[0]) if len(blown) else -1,
    )
    return Dynamics(data, network, task)


@dataclass(frozen=True)
class Sizes:
    """Neurons of every hidden layer, dimension, samples (0: none are drawn) and outputs of real networks."""

    widths: tuple[int, ...]
    dimension: int
    samples: int
    outputs: int

    @classmethod
    def of(cls, network: LinearNetwork, task: LinearTask, dimension: int) -> Sizes:
        """Round all ratios; none may be infinite or round to nothing."""
        if math.isinf(network.hidden_layers) or math.isinf(network.widths[-1]):
            raise InvalidInput("width and hidden_layers of simulated networks must be finite")
        modes = task.modes
        scale = dimension if task.spectrum is None else 1
        if task.spectrum is not None:
            dimension = round(float(modes.multiplicities.sum()))
        seen = task.batch_size if task.online else task.samples
        samples = 0 if math.isinf(seen) else round(seen * scale)
        widths = tuple(round(width * scale) for width in network.widths)
        if min(widths) < 1 or (samples < 1 and math.isfinite(seen)):
            raise InvalidInput(
                f"dimension = {dimension} is too small: there would be {widths} neurons and {samples} samples"
            )
        return cls(widths, dimension, samples, task.gram.shape[1])

    @property
    def numbers(self) -> int:
        """Weights and data of one network."""
        layers = zip((self.dimension, *self.widths), (*self.widths, self.outputs), strict=True)
        return sum(rows * columns for rows, columns in layers) + self.samples * self.dimension


class Networks:
    """Networks trained side by side: weights[l] is (networks, N_{l+1}, N_l), fields are (networks, N, outputs)."""

    def __init__(
        self, network: LinearNetwork, task: LinearTask, sizes: Sizes, count: int, drawn: np.random.Generator
    ) -> None:
        self.network, self.task, self.sizes, self.count, self.drawn = network, task, sizes, count, drawn
        modes, isotropic = task.modes, task.spectrum is None
        repeats = np.array([sizes.dimension]) if isotropic else modes.multiplicities.round().astype(np.int64)
        self.scale = math.sqrt(sizes.dimension) if isotropic else 1.0
        self.eigenvalues = np.repeat(modes.eigenvalues, repeats)[:, None]
        self.target = _targets(task, repeats)
        ends = (sizes.dimension, *sizes.widths, sizes.outputs)
        self.weights = [drawn.standard_normal((count, n, m)) for m, n in pairwise(ends)]
        self.roots = [self.scale, *(math.sqrt(n) for n in sizes.widths[:-1])]
        self.data = self._draw() if sizes.samples and not task.online else None
        self.start: Floats = np.zeros(1)
        if network.centred:
            self.start = self.target - self.errors()

    def train(
        self, rates: Float[Floats, " t"], report: Report = lambda done, total, loss: None
    ) -> Float[Floats, "2 n t+1"]:
        """Test and train losses before every step and after the last one."""
        with np.errstate(over="ignore", invalid="ignore"):  # networks may diverge
            return self._train(rates, report)

    def _train(self, rates: Float[Floats, " t"], report: Report) -> Float[Floats, "2 n t+1"]:
        found = np.empty((2, self.count, len(rates) + 1))
        for step in range(len(rates) + 1):
            backward = self._backward()
            v = self.errors(backward[0])
            gradient, train = self._gradient(v)
            error = np.sum(self.eigenvalues * v**2, axis=(1, 2)) / self.scale**2
            found[0, :, step] = error + self.sizes.outputs * self.task.noise**2
            found[1, :, step] = found[0, :, step] if train is None else train
            report(step, len(rates), float(found[0, :, step].mean()))
            if step < len(rates):
                self._update(backward, gradient, rates[step])
        return found

    def _draw(self) -> tuple[Float[Floats, "n p d"], Float[Floats, "n p c"]]:
        """Inputs and label noise."""
        sizes = self.sizes
        x = self.drawn.standard_normal((self.count, sizes.samples, sizes.dimension))
        if self.task.spectrum is not None:
            x *= np.sqrt(self.eigenvalues[:, 0])
        return x, self.task.noise * self.drawn.standard_normal((self.count, sizes.samples, sizes.outputs))

    def _backward(self) -> list[Float[Floats, "n _ c"]]:
        """g^1 .. g^L."""
        fields = [self.weights[-1].swapaxes(1, 2)]
        for matrix, root in zip(self.weights[-2:0:-1], self.roots[:0:-1], strict=True):
            through = matrix.swapaxes(1, 2) @ fields[0] / root
            fields.insert(0, self._past(fields[0], through))
        return fields

    def _past(self, field: Floats, through: Floats) -> Floats:
        """What leaves a hidden layer: with a skip connection the field and its branch."""
        return through if self.network.branch is None else field + self.network.branch_scale * through

    def errors(self, g: Float[Floats, "n m c"] | None = None) -> Float[Floats, "n d c"]:
        """v = w_* - s W^0' g^1 / (N gamma), plus what is subtracted at the start."""
        g = self._backward()[0] if g is None else g
        factor = self.scale / (self.sizes.widths[-1] * self.network.mean_field_richness)
        return np.asarray(self.target - factor * (self.weights[0].swapaxes(1, 2) @ g) + self.start)

    def _gradient(self, v: Float[Floats, "n d c"]) -> tuple[Float[Floats, "n d c"], Float[Floats, " n"] | None]:
        """h^0, and the loss on the samples it was made from."""
        data = self._draw() if self.task.online else self.data
        if data is None:
            return self.eigenvalues * v, None
        x, noise = data
        delta = x @ v / self.scale + noise
        return self.scale / x.shape[1] * (x.swapaxes(1, 2) @ delta), np.sum(delta**2, axis=(1, 2)) / x.shape[1]

    def _update(self, backward: list[Float[Floats, "n _ c"]], h: Float[Floats, "n d c"], rate: float) -> None:
        """W^l += eta gamma beta g^{l+1} h^l' / sqrt N_l, the first without beta."""
        step = rate * self.network.mean_field_richness
        for index, (matrix, g, root) in enumerate(zip(self.weights[:-1], backward, self.roots, strict=True)):
            through, past = matrix @ h / root, h
            branch = self.network.branch_scale if index else 1.0
            matrix += (step * branch / root * g) @ past.swapaxes(1, 2)
            h = self._past(h, through) if index else through
        self.weights[-1] += step * h.swapaxes(1, 2)


def _targets(task: LinearTask, repeats: NDArray[np.int64]) -> Floats:
    """Coefficients (dimension, outputs) with exactly the inner products asked for."""
    outputs = task.gram.shape[1]
    if task.spectrum is not None:
        squares = task.spectrum.target
        return np.repeat(squares if squares.ndim == 2 else np.sqrt(squares)[:, None], repeats, axis=0)
    dimension = int(repeats[0])
    if dimension < outputs:
        raise InvalidInput(f"dimension = {dimension} must be at least the number of outputs, {outputs}")
    # Orthogonal directions with |e|^2 = D; any will do, for inputs and weights know no direction.
    directions = np.zeros((dimension, outputs))
    for output in range(outputs):
        directions[output::outputs, output] = 1.0
    directions *= np.sqrt(dimension / directions.sum(axis=0))
    return np.asarray(directions @ roots.root(task.gram[0]).T)


@renamed(rate="learning_rate")
def as_problem(
    network: LinearNetwork,
    task: LinearTask,
    learning_rate: float,
    steps: int,
    *,
    dimension: int = 256,
    test_samples: int = 1000,
    seed: int = 0,
) -> tuple[Problem, int]:
    """One data set as a `Problem` for the other theories, and the width to ask `FiniteWidth` for.

    For networks without skip connections on a fixed training set with isotropic inputs. Inputs are multiplied by
    sqrt D, because the first layer of a `Problem` divides by it; its losses are half of ours.
    """
    if network.branch is not None or task.spectrum is not None or math.isinf(task.samples):
        raise InvalidInput("a problem needs a fixed training set, isotropic inputs and no skip connections")
    sizes = Sizes.of(network, task, check.integer("dimension", dimension, least=1))
    draws = np.random.default_rng(check.integer("seed", seed))
    count = sizes.samples + check.integer("test_samples", test_samples)
    x = draws.standard_normal((count, sizes.dimension))
    targets = _targets(task, np.array([sizes.dimension])) / math.sqrt(sizes.dimension)
    y = x @ targets + task.noise * draws.standard_normal((count, sizes.outputs))
    x, train = x * math.sqrt(sizes.dimension), sizes.samples
    data = Data(x[:train], y[:train], x[train:], y[train:]) if test_samples else Data(x, y)
    ratios = tuple(n / sizes.widths[-1] for n in sizes.widths)
    problem = Problem(
        network=MLP(
            int(network.hidden_layers),
            "linear",
            network.mean_field_richness,
            width_ratios=ratios,
            centred=network.centred,
        ),
        data=data,
        loss=SquaredError(reduction="mean"),
        optimiser=SGD(check.number("learning_rate", learning_rate, above=0.0), steps),
    )
    return problem, sizes.widths[-1]
