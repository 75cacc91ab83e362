"""What learning rates and scales of data mean for one another, in words."""

from __future__ import annotations

import math
import warnings

from ..base.errors import UnusualScale, WidefieldError
from ..data.samples import UNUSUAL
from ..kernels.stability import KernelLimit
from ..problem.optimisers import SGD
from ..problem.problem import Problem
from .stable_rates import limit_at_start, stable_rate

_LARGEST = 4000
"""Samples up to which a kernel is worth computing for a sentence."""

_TRAINED, _WIDTH, _STEPS, _RESOLUTION = 200, 128, 50, 0.2
"""Samples up to which networks are worth training for one: of this width, for so long, to this resolution. Seconds."""


def limit_in_words(problem: Problem) -> str:
    """What to do about a loss that exploded: the limit of the learning rate, and how to find a better one."""
    limit = _limit(problem)
    ask = "wf.stable_rate(problem) finds the largest that trains, learning_rate = 'auto' takes half"
    if limit is None or not isinstance(problem.optimiser, SGD):
        return f"a smaller learning_rate nearly always helps: {ask}"
    highest = problem.optimiser.rates().max()
    allowed = f"{limit.rate:.3g} (largest eigenvalue {limit.eigenvalue.real:.3g})"
    if highest > limit.rate:
        return f"the tangent kernel at the start allows a learning_rate of {allowed}, this was {highest:.3g}; {ask}"
    return (
        f"the tangent kernel at the start allows a learning_rate of {allowed}, but features that grow make the limit "
        f"smaller: {_trained_limit(problem, highest)}; {ask}"
    )


def _trained_limit(problem: Problem, highest: float) -> str:
    """Up to which learning rate a small network trains; for many samples, or without an answer, that it is less."""
    less = f"a smaller learning_rate than {highest:.3g} helps"
    if problem.samples.samples > _TRAINED:
        return less
    steps = min(_STEPS, problem.optimiser.steps)
    try:
        found = stable_rate(problem, _WIDTH, steps=steps, repetitions=1, resolution=_RESOLUTION)
    except WidefieldError:  # training fails at all rates: that is not for this sentence to say
        return less
    return f"a network of width {_WIDTH} trains {steps} steps at up to {found.rate:.2g}, this was {highest:.3g}"


def warn_of_scale(problem: Problem, stacklevel: int) -> None:
    """One warning about inputs and targets far from their usual size: what it means, and what to type."""
    (inputs, targets), limit = problem.samples.sizes, _limit(problem)
    parts = [
        f"inputs have |x|^2 = {inputs:.2g} D and targets the size {targets:.2g} on average, where networks and",
        "learning rates expect about 1 of both.",
    ]
    if limit is not None:
        parts += [
            f"The largest eigenvalue of the tangent kernel is {limit.eigenvalue.real:.3g}, so that learning rates",
            f"above {limit.rate:.2g} are unstable from the start, and much smaller ones hardly learn.",
        ]
    if not 1 / UNUSUAL <= targets <= UNUSUAL:
        parts.append(f"To such targets the network is {targets:.2g} times as rich as its richness says.")
    parts.append(
        "Type data=wf.data.standardised(X, y) (in TOML standardise = true), or learning_rate='auto' for the data"
    )
    warnings.warn(f"{' '.join(parts)} as they are", UnusualScale, stacklevel=stacklevel)


def _limit(problem: Problem) -> KernelLimit | None:
    """The limit of the tangent kernel; None where it is not known or would take long."""
    if problem.samples.samples > _LARGEST:
        return None
    try:
        found = limit_at_start(problem, math.inf)
    except WidefieldError:  # inputs so large that kernels overflow: the words do without
        return None
    return found if 0 < found.rate < math.inf else None
