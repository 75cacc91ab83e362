"""Width infinity from real networks: the mean of many, whose bias a few narrow ones tell.

Means of networks of width N are off by c / N. Those of width N / 4 are off by 4 c / N, so a third of the difference of
both means is the bias of the wide ones. It is not taken off, which would add the noise of the narrow ones, but is part
of every error bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Arrays
from ..base.numbers import double_precision
from ..base.session import Session
from ..base.statistics import widening
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.theory import Theory
from ..training import checkpoint
from ..training.runner import Outcome, Runner, Sheet
from ..trajectory.trajectory import Trajectory
from .finite_width import FiniteWidth
from .recording import JUDGED, from_arrays, from_outcome

if TYPE_CHECKING:
    from ..problem.problem import Problem

WIDE, RATIO = 128, 4
"""Neurons of a layer; how many times fewer the narrow networks have."""

_USUAL_SPREAD = 0.27
"""Deviation of one wide network in its worst kernel, over the kernel: 0.22 to 0.29 in six problems (L = 3, tanh)."""

_NARROW_SPREAD = 0.3
"""As many narrow networks are trained as would reach the tolerance if this were their spread. Theirs is larger: an
estimate of a bias may be coarse."""

_FIRST, _MOST, _AT_ONCE = 32, 4096, 16


class Means:
    """Mean and scatter of networks, of which no more than a group is kept (Chan, Golub and LeVeque 1979).

    Neurons are those of the first group. Everything is (time, ...), kernels (time, layer, ...).
    """

    def __init__(self, times: int) -> None:
        self.times, self.count = times, 0
        self.mean: Arrays = {}
        self.squares: Arrays = {}
        self.neurons: Arrays = {}
        self._sheet = Sheet()

    def take(self, records: Arrays) -> Arrays:
        """All records."""
        self._sheet.write(records, self.times)
        return {}

    def finish_group(self) -> None:
        """Add the present group to the means."""
        written, self._sheet = self._sheet.written, Sheet()
        for name, value in written.items():
            if name in ("preactivation", "pregradient"):
                self.neurons.setdefault(name, np.concatenate(list(value), axis=-1))
                continue
            # Single precision will do for what is left of a group beside a value near its mean.
            near = self.mean[name].astype(value.dtype) if name in self.mean else value[0]
            apart = value - near
            new, step = len(value), apart.mean(axis=0)
            total = self.count + new
            scatter = np.einsum("s...,s...->...", apart, apart) - new * step**2
            step = step.astype(np.float64) + near - self.mean.get(name, 0.0)
            self.mean[name] = self.mean.get(name, 0.0) + step * (new / total)
            self.squares[name] = self.squares.get(name, 0.0) + scatter + step**2 * (self.count * new / total)
        self.count += next((len(value) for value in written.values()), 0)

    def variance(self, name: str) -> NDArray[np.float64]:
        """Of the mean."""
        return self.squares[name] / (max(self.count - 1, 1) * self.count)

    def arrays(self) -> Arrays:
        """All that it knows, for a checkpoint."""
        parts = {"mean": self.mean, "squares": self.squares, "neurons": self.neurons, "sheet": self._sheet.written}
        named = {f"{part}/{name}": value for part, held in parts.items() for name, value in held.items()}
        return {**named, "count": np.asarray(self.count)}

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""
        self.count = int(arrays["count"])
        self.mean, self.squares, self.neurons = (_inside(arrays, part) for part in ("mean", "squares", "neurons"))
        self._sheet = Sheet()
        self._sheet.write(_inside(arrays, "sheet"), self.times)


class Both(Means):
    """Means of wide networks beside those of narrow ones, which are complete."""

    def __init__(self, narrow: Means) -> None:
        super().__init__(narrow.times)
        self.narrow = narrow

    def arrays(self) -> Arrays:
        """All that both know."""
        return {**super().arrays(), **{f"narrow/{name}": value for name, value in self.narrow.arrays().items()}}

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""
        super().restore(arrays)
        self.narrow.restore(_inside(arrays, "narrow"))

    def squared_bias(self, name: str) -> NDArray[np.float64]:
        """Mean over entries of the squared bias at every time (in every layer), without what noise explains.

        The difference of the means is RATIO - 1 times the bias.
        """
        noise = self.variance(name) + self.narrow.variance(name)
        excess = (self.mean[name] - self.narrow.mean[name]) ** 2 - noise
        leading = 2 if name.endswith("_kernel") else 1
        over = tuple(range(leading, excess.ndim))
        return np.asarray(excess.mean(axis=over, keepdims=True)) / (RATIO - 1) ** 2

    def relative(self) -> Iterator[tuple[float, float]]:
        """Squared statistical error and squared bias, of outputs and of the kernels of every layer, relative."""
        for name in (name for name in JUDGED if name in self.mean):
            mean, noise = self.mean[name], self.variance(name)
            bias = np.broadcast_to(self.squared_bias(name), mean.shape)
            layers = range(mean.shape[1]) if name.endswith("_kernel") else (slice(None),)
            for layer in layers:
                size = float(np.sum(mean[:, layer] ** 2)) or math.inf
                yield float(noise[:, layer].sum()) / size, max(0.0, float(bias[:, layer].sum())) / size

    @property
    def error(self) -> float:
        """Largest relative error: scatter and bias."""
        return math.sqrt(max(noise + bias for noise, bias in self.relative()))

    def needed(self, wanted: float) -> float:
        """Networks that make the error as small as wanted; infinite where the bias alone is larger."""
        rooms = [(noise, (0.98 * wanted) ** 2 - bias) for noise, bias in self.relative()]
        return max(self.count * noise / room if room > 0 else math.inf for noise, room in rooms)


@dataclass
class Ensemble:
    """Networks that answer what width infinity would.

    Args:
        problem: what they are trained on.
        theory: whose answer it is.
        session: progress, interrupts, checkpoints.
        seed: of the answer.
        tolerance: relative error allowed.
        limit: floating point operations that may be spent; more, and there is no answer.
        seconds: what narrow networks took.
    """

    problem: Problem
    theory: Theory
    session: Session
    seed: int
    tolerance: float
    limit: float = math.inf
    seconds: float = 0.0
    narrow: Means = field(init=False)
    wide: Both = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.narrow = Means(len(self.problem.record.at(self.problem.optimiser.steps)))
        self.wide = Both(self.narrow)

    @property
    def expected_flops(self) -> float:
        """Of all networks, if they are like most; a bias takes a share of the tolerance."""
        wide = (_USUAL_SPREAD / (0.8 * self.tolerance)) ** 2
        return wide * network_flops(self.problem, WIDE) + self._narrow * network_flops(self.problem, WIDE // RATIO)

    @property
    def _narrow(self) -> float:
        return max(_FIRST, (_NARROW_SPREAD / self.tolerance) ** 2)

    def answer(self) -> Trajectory | None:
        """Train networks until the error is small enough; None as soon as that would take more than the limit."""
        with double_precision():
            outcome = self._train()
        if outcome is None or (outcome.status == "diverged" and math.isfinite(self.limit)):
            self._give_up()
            return None
        return self._described(outcome)

    def _train(self) -> Outcome | None:
        """Narrow networks, then wide ones; None if these would cost too much."""
        kept, runner = self.session.checkpoint, self._runner(WIDE, self.wide)
        if not _holds_wide(kept):
            ended = self._train_narrow()
            if ended is not None:
                return ended
            runner.take_over()
        needed = float(_FIRST)
        while needed * network_flops(self.problem, WIDE) <= self.limit:
            runner.groups = self._groups(WIDE, min(_MOST, needed), _AT_ONCE)
            outcome = runner.run()
            if outcome.status != "complete" or self.wide.error <= self.tolerance or self.wide.count >= _MOST:
                return outcome
            needed = max(self.wide.needed(self.tolerance), self.wide.count + _AT_ONCE)
            if math.isinf(self.limit):  # the bias is known better with more of them
                needed = min(needed, 4.0 * self.wide.count)
        return None

    def _train_narrow(self) -> Outcome | None:
        """None if they are all trained."""
        runner = self._runner(WIDE // RATIO, self.narrow)
        runner.groups = self._groups(WIDE // RATIO, self._narrow, 4 * _AT_ONCE)
        outcome = runner.run()
        self.seconds = outcome.statistics["seconds"]
        return None if outcome.status == "complete" else outcome

    def _groups(self, width: int, count: float, size: int) -> list[range]:
        """Seeds of at least so many networks; those of other answers and widths are others."""
        first = int(np.random.SeedSequence([self.seed, width]).generate_state(1, np.uint64)[0] >> np.uint64(2))
        return [range(first + size * k, first + size * (k + 1)) for k in range(math.ceil(count / size))]

    def _runner(self, width: int, means: Means) -> Runner:
        fingerprint = f"{self.theory.identity(self.problem, self.session)} {width}"
        runner = FiniteWidth(width, dtype="float32").runner(self.problem, self.session, fingerprint, means)
        runner.remarks["width"] = width
        needed = 5 * _AT_ONCE * means.times * runner.bytes_per_record
        check.memory("records", needed, "record less often (record.every) or fewer samples (record.samples)")
        return runner

    def _give_up(self) -> None:
        if self.session.checkpoint is not None:  # it is of no use to whoever answers instead
            self.session.checkpoint.unlink(missing_ok=True)

    def _described(self, outcome: Outcome) -> Trajectory:
        """Means and error bars, and how they were come by."""
        trained = outcome.statistics["seconds"] if self.wide.count else 0.0
        seconds = {"seconds": self.seconds + trained}
        if self.wide.count < 2:
            nothing = Outcome({}, outcome.steps[:0], outcome.status, outcome.message, dict(seconds))
            return from_outcome(self.problem, self.theory, nothing, [])
        arrays: Arrays = {**self.wide.mean, **self.wide.neurons}
        for name in self.wide.mean:
            bias = np.maximum(0.0, self.wide.squared_bias(name))
            arrays[f"{name}_error"] = np.sqrt(widening(self.wide.count) ** 2 * self.wide.variance(name) + bias)
        found = from_arrays(self.problem, self.theory, arrays, outcome.steps, seconds)
        statistical, bias_share = (math.sqrt(max(part)) for part in zip(*self.wide.relative(), strict=True))
        attributes: dict[str, Any] = {"statistical_error": statistical, "width_bias": bias_share}
        attributes |= {"relative_error": self.wide.error, "method": "networks", "width": WIDE}
        attributes |= {"replicas": self.wide.count, "networks": self.wide.count, "dtype": "float32"}
        if outcome.status != "complete":
            attributes |= {"status": outcome.status, "message": outcome.message}
        return Trajectory(found.data.assign_attrs(attributes), self.problem, self.theory)


def no_networks(problem: Problem) -> str:
    """Why networks cannot stand in for the limit; empty if they can."""
    network, record = problem.network, problem.record
    if not isinstance(network, MLP):
        return "networks of layers alone (mlp) stand in for the limit"
    if network.parameterisation == "ntk" or network.richness == 0:
        return "networks of finite width are not lazy"
    if record.between_times:
        return "record.two_time and record.responses need all neurons at all times"
    if not isinstance(problem.optimiser, SGD):
        return f"optimiser {problem.optimiser.kind!r} takes steps of its own in every network"
    return ""


def network_flops(problem: Problem, width: int) -> float:
    """Floating point operations that train and record a network: forward, backward and outer products."""
    assert isinstance(problem.network, MLP)
    samples, layers = problem.samples, problem.network.hidden_layers
    rows, outputs = samples.samples, samples.outputs
    recorded, measured = len(problem.record.at(problem.optimiser.steps)), problem.recorded_samples
    inputs = min(samples.dimension, rows + samples.test_samples)
    weights = inputs * width + (layers - 1) * width**2 + outputs * width
    kernels = 2.0 * layers * width * measured * len(problem.kernel_rows) * (1 + outputs**2)
    passes = 4.0 * (rows + samples.test_samples) * weights * outputs
    return 6.0 * rows * weights * problem.optimiser.steps + recorded * problem.record.kernels * (kernels + passes)


def _holds_wide(kept: Path | None) -> bool:
    """Whether a checkpoint was written when narrow networks were all trained."""
    return kept is not None and kept.exists() and checkpoint.load(kept)[0].get("width") == WIDE


def _inside(arrays: Arrays, part: str) -> Arrays:
    prefix = f"{part}/"
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
