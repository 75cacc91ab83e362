"""Learning-rate schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput


def elapsed(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The time before every step and after the last: 0, eta_0, eta_0 + eta_1, ..."""
    return np.concatenate([[0.0], np.cumsum(rates)])


def rates_of(learning_rate: Any, steps: int, name: str = "learning_rate") -> NDArray[np.float64]:
    """Learning rate of every step, from a number, a `Schedule` or one number for each step.

    >>> rates_of(0.5, 3)
    array([0.5, 0.5, 0.5])
    """
    count = check.integer("steps", steps, least=1)
    check.memory("learning rates of all steps", 4 * 8 * count, "reduce steps")
    if isinstance(learning_rate, Schedule):
        name = f"{type(learning_rate).__name__}.rates({count})"
        rates = check.array(name, learning_rate.rates(count))
    else:
        rates = check.array(name, learning_rate)
        rates = np.full(count, rates) if rates.ndim == 0 else rates
    if rates.shape != (count,):
        raise InvalidInput(f"{name} has shape {rates.shape}; it must have one entry for each of steps = {count}")
    if (rates < 0).any():
        raise InvalidInput(f"{name} = {rates.min():g} must not be negative")
    return rates


@dataclass(frozen=True)
class Schedule(Described, family="schedule"):
    """Base class of learning-rate schedules: a member defines `rates`."""

    def rates(self, steps: int) -> NDArray[np.float64]:
        """Learning rate of every step."""
        raise NotImplementedError(f"{type(self).__name__} must define rates(steps)")


@dataclass(frozen=True)
class Cosine(Schedule, kind="cosine"):
    """Linear warm-up over `warmup` steps to `peak`, then half a cosine down to `final` at the last step."""

    peak: float
    final: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, peak=check.number("peak", self.peak, above=0.0))
        put(self, final=check.number("final", self.final, least=0.0))
        put(self, warmup=check.integer("warmup", self.warmup))

    def rates(self, steps: int) -> NDArray[np.float64]:
        """Learning rate of every step."""
        t = np.arange(steps)
        progress = np.clip((t - self.warmup) / max(1, steps - self.warmup - 1), 0.0, 1.0)
        decayed = self.final + (self.peak - self.final) * 0.5 * (1 + np.cos(np.pi * progress))
        return np.where(t < self.warmup, self.peak * (t + 1) / (self.warmup + 1), decayed)


@dataclass(frozen=True)
class PowerDecay(Schedule, kind="power-decay"):
    """rate(t) = initial / (1 + t/delay)^exponent."""

    initial: float
    delay: float = 1.0
    exponent: float = 0.5

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, initial=check.number("initial", self.initial, above=0.0))
        put(self, delay=check.number("delay", self.delay, above=0.0))
        put(self, exponent=check.number("exponent", self.exponent, least=0.0))

    def rates(self, steps: int) -> NDArray[np.float64]:
        """Learning rate of every step."""
        return np.asarray(self.initial * (1 + np.arange(steps) / self.delay) ** -self.exponent)


@dataclass(frozen=True)
class Piecewise(Schedule, kind="piecewise"):
    """`values[k]` between the steps `boundaries[k-1]` and `boundaries[k]`; one value more than boundaries."""

    values: tuple[float, ...]
    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("values", "boundaries"):
            if not isinstance(getattr(self, name), list | tuple):
                raise InvalidInput(f"{name} = {getattr(self, name)!r} must be a list of numbers")
        values = tuple(check.number("values", v, least=0.0) for v in self.values)
        boundaries = tuple(check.integer("boundaries", b) for b in self.boundaries)
        if len(values) != len(boundaries) + 1 or list(boundaries) != sorted(set(boundaries)):
            raise InvalidInput(
                f"values = {values}, boundaries = {boundaries}: boundaries must increase and there must be one "
                "value more than boundaries"
            )
        put(self, values=values)
        put(self, boundaries=boundaries)

    def rates(self, steps: int) -> NDArray[np.float64]:
        """Learning rate of every step."""
        return np.asarray(self.values)[np.searchsorted(self.boundaries, np.arange(steps), side="right")]
