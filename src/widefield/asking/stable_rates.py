"""The largest learning rate at which a problem trains: from the tangent kernel at the start, and by training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from ..base import check
from ..base.errors import NoLearningRate
from ..kernels.empirical import network_kernels
from ..kernels.stability import KernelLimit, kernel_limit
from ..problem.optimisers import SGD
from ..problem.problem import Problem
from .trials import Trials, check_layers, stand_in

FRACTION = 0.5
"""What `SGD(learning_rate="auto")` takes of the largest rate."""

_UP, _DOWN = 2**0.25, 2.0
"""Factors between rates that are tried, upwards and downwards, before the limit is known to lie between two of them."""

_MOST, _LEAST = 2.0**10, 2.0**-40
"""Rates that are tried, over the limit of the kernel."""

_FINITE = 0.03
"""Allowed for the difference between networks of width 512 and infinite width; 1% was seen (docs/rates.md)."""

_AUTOMATIC_STEPS, _AUTOMATIC_RESOLUTION = 200, 0.1
_KERNEL_SIZE = 1500
"""Up to so many outputs of all samples the kernel of a finite network is diagonalised."""


@dataclass(frozen=True)
class StableRate:
    """The largest learning rate at which a problem trains, and how it was found; of `stable_rate`.

    Attributes:
        rate: the median over networks or replicas of the largest rate at which each of them trains.
        error: how far off a network may be: the distance to the lowest of the networks or replicas, the resolution of
            the search, and at infinite width 3%, by which networks of a few hundred neurons differ from it.
        lowest, highest: the range over networks or replicas; infinite if no rate failed.
        kernel_rate: what the tangent kernel K at the start allows, 2 / mu with mu the largest eigenvalue of K times the
            second derivative of the loss, 2 (1 + m) / [(1 - m) mu] with momentum m.
        eigenvalue: mu.
        width: of the networks; infinite.
        steps: for how long each was trained.
        repetitions: how many networks or replicas.
        method: who was trained.
    """

    rate: float
    error: float
    lowest: float
    highest: float
    kernel_rate: float
    eigenvalue: complex
    width: float
    steps: int
    repetitions: int
    method: str

    @property
    def safe(self) -> float:
        """The smaller of `rate` and `kernel_rate`: below it no loss rises far on its way down."""
        return min(self.rate, self.kernel_rate)

    @property
    def suggested(self) -> float:
        """Half of `safe`, what `SGD(learning_rate="auto")` takes."""
        return float(f"{FRACTION * self.safe:.3g}")

    @property
    def attributes(self) -> dict[str, float]:
        """What an answer whose learning rate was found keeps of it."""
        named = {"learning_rate": self.suggested, "learning_rate_fraction": FRACTION, "stable_rate": self.rate}
        return {**named, "stable_rate_error": self.error, "kernel_rate": self.kernel_rate}

    def __str__(self) -> str:
        """In two lines."""
        mu = f"{self.eigenvalue.real:.4g}" + (f"{self.eigenvalue.imag:+.3g}i" if self.eigenvalue.imag else "")
        if math.isinf(self.highest):
            found = f"learning rates up to {self.rate:.3g} and perhaps beyond train"
        else:
            found = f"learning rates up to {self.rate:.3g} ± {self.error:.2g} train"
        how = f"{self.steps} steps, {self.repetitions} {self.method}"
        scatter = "" if self.repetitions == 1 else f", from {self.lowest:.3g} to {self.highest:.3g}"
        return (
            f"{found} ({how}{scatter})\n"
            f"the tangent kernel at the start allows {self.kernel_rate:.3g} (largest eigenvalue {mu}); "
            f"suggested: {self.suggested:g}"
        )


def stable_rate(
    problem: Problem,
    width: float = math.inf,
    *,
    steps: int | None = None,
    repetitions: int = 8,
    resolution: float = 0.02,
) -> StableRate:
    """The largest learning rate at which a problem trains, at infinite width or at width N.

    A run *diverges* if the largest loss over the last tenth of its steps exceeds the loss before training, or is not
    finite. So a loss that first rises and then comes down has trained: above the limit of the kernel, 2 / mu, features
    may move until the kernel is small enough ("catapult"; Lewkowycz et al. 2020), and a loss that oscillates below its
    first value at the edge of stability has trained too. Rates just above the limit of the kernel, by a few parts in
    `steps`, may still be on their way up after so many steps; the search steps over them.

    First the limit of the tangent kernel at the start (`kernel_rate`), exact where features stand still, with momentum,
    weight decay, and the second derivative of the loss; then a search by short runs, because features that grow make
    the kernel larger, and those that shrink smaller: rates are halved until one trains, raised by factors 2^(1/4) until
    one does not, and the interval is halved down to the resolution, for each network or replica on its own. Kernels
    that stand still ("ntk" at infinite width, richness 0) need one.

    Args:
        problem: what is trained. A schedule of learning rates counts as constant; the number is not looked at.
        width: infinite: the lazy limit where it is exact, solutions with few particles for one hidden layer, networks
            of width 512 (256 for more than 1000 samples) in their stead for more; `method` says which. Or that of real
            networks.
        steps: for how long; None is as long as the problem says.
        repetitions: how many networks or replicas.
        resolution: of the search, a relative step.
    """
    count, fine = check.integer("repetitions", repetitions, least=1), check.number("resolution", resolution, above=0.0)
    trials = Trials(problem, width, steps)
    limit = limit_at_start(problem, trials.width)
    if not (0 < limit.rate < math.inf):
        raise NoLearningRate(
            f"the tangent kernel at the start has the largest eigenvalue {limit.eigenvalue:g}, so that no learning "
            "rate follows from it: are all inputs zero, or is the feedback opposed to the weights?"
        )
    count = 1 if trials.alike else count
    brackets = [bracket(lambda rate: trials.run(rate, 0).failed, limit.rate, limit.rate / 2, fine)]
    for seed in range(1, count):
        near = math.sqrt(brackets[0][0] * min(brackets[0][1], brackets[0][0] * _UP)) / _UP
        brackets.append(bracket(lambda rate, seed=seed: trials.run(rate, seed).failed, limit.rate, near, fine))  # type: ignore[misc]
    return _summary(brackets, limit, trials)


def bracket(fails: Callable[[float], bool], scale: float, begin: float, resolution: float) -> tuple[float, float]:
    """A rate that trains and one that does not, closer than the resolution; the second is infinite if all train.

    Rates are tried from `begin` on, down to and up to some multiples of `scale`. A rate is taken to train only if half
    of it does too: above the limit there may be single rates at which a run happens to end well.
    """
    failing = cache(fails)
    low = begin
    while failing(low) or failing(low / _DOWN):
        low /= _DOWN
        if low < _LEAST * scale:
            raise NoLearningRate(
                f"training fails at all learning rates from {begin:g} down to {low:.1g}: the loss does not fall at "
                "all, or inputs and targets are too large; see wf.data.standardised"
            )
    high = low * _UP
    while not failing(high):
        low, high = high, high * _UP
        if high > _MOST * scale:
            return low, math.inf
    while high > low * (1 + resolution):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if failing(middle) else (middle, high)
    return low, high


def with_number(problem: Problem) -> tuple[Problem, StableRate]:
    """The problem with a number in the place of learning_rate = "auto", and where it comes from."""
    found = automatic(problem)
    assert isinstance(problem.optimiser, SGD)
    return dataclasses.replace(
        problem, optimiser=dataclasses.replace(problem.optimiser, learning_rate=found.suggested)
    ), found


def automatic(problem: Problem) -> StableRate:
    """What `SGD(learning_rate="auto")` goes by: coarser than `stable_rate`, at infinite width whoever solves it."""
    try:
        hash(problem)
    except TypeError:  # a part of the user's own that holds arrays: found anew every time
        return _found(problem)
    return _remembered(problem)


@lru_cache(maxsize=64)
def _remembered(problem: Problem) -> StableRate:
    return _found(problem)


def _found(problem: Problem) -> StableRate:
    steps = min(problem.optimiser.steps, _AUTOMATIC_STEPS)
    return stable_rate(problem, steps=steps, repetitions=3, resolution=_AUTOMATIC_RESOLUTION)


def limit_at_start(problem: Problem, width: float = math.inf) -> KernelLimit:
    """From the static kernel, or from that of a network where it is not known, or of that width."""
    samples = problem.samples
    check_layers(problem)
    small = samples.samples * samples.outputs <= _KERNEL_SIZE
    if (math.isinf(width) or not small) and _is_known(problem):
        return kernel_limit(problem)
    reduced = samples.reduced()[0]
    found = network_kernels(
        problem.network,
        math.sqrt(reduced.shape[1]) * reduced,
        width=stand_in(samples.samples) if math.isinf(width) else int(width),
        rule=problem.rule,
        outputs=samples.outputs,
        errors=samples.y,
    )
    size = samples.samples * samples.outputs
    return kernel_limit(problem, found.ntk.reshape(size, size))


def _is_known(problem: Problem) -> bool:
    """Whether the rule and the activation have a static kernel."""
    from ..theories.lazy import Lazy

    return not any(reason.field in ("rule", "network.activation") for reason in Lazy().scope.reasons(problem))


def _summary(brackets: list[tuple[float, float]], limit: KernelLimit, trials: Trials) -> StableRate:
    """The median over networks, and its error."""
    middles = np.array([math.sqrt(low * high) if math.isfinite(high) else low for low, high in brackets])
    half = max((high / low - 1) / 2 if math.isfinite(high) else 0.0 for low, high in brackets)
    rate = float(np.median(middles))
    error = math.hypot(rate - float(middles.min()), half * rate, _FINITE * rate if math.isinf(trials.width) else 0.0)
    highest = math.inf if any(math.isinf(high) for _, high in brackets) else float(middles.max())
    return StableRate(
        rate,
        error,
        float(middles.min()),
        highest,
        limit.rate,
        limit.eigenvalue,
        trials.width,
        trials.steps,
        len(brackets),
        trials.method,
    )
