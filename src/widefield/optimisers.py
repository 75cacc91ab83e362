"""How weights move: gradient descent in all its variants, and learning-rate schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from . import check
from .describe import Described, parse_plain
from .errors import InvalidInput


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
        object.__setattr__(self, "peak", check.number("peak", self.peak, above=0.0))
        object.__setattr__(self, "final", check.number("final", self.final, least=0.0))
        object.__setattr__(self, "warmup", check.integer("warmup", self.warmup))

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
        object.__setattr__(self, "initial", check.number("initial", self.initial, above=0.0))
        object.__setattr__(self, "delay", check.number("delay", self.delay, above=0.0))
        object.__setattr__(self, "exponent", check.number("exponent", self.exponent, least=0.0))

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
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "boundaries", boundaries)

    def rates(self, steps: int) -> NDArray[np.float64]:
        """Learning rate of every step."""
        return np.asarray(self.values)[np.searchsorted(self.boundaries, np.arange(steps), side="right")]


@dataclass(frozen=True)
class Optimiser(Described, family="optimiser"):
    """Base class of the optimisers."""


@dataclass(frozen=True)
class SGD(Optimiser, kind="sgd"):
    """Gradient descent: full batch, minibatch or one pass; momentum, weight decay, Langevin noise.

    With G the (pseudo-)gradient direction of `dmft` normalisation, dW/dt = G, every weight W moves by

        Q <- m Q + (1 - m) (G - lambda W),      W <- W + eta Q + sqrt(2 eta T) xi,      xi ~ N(0, 1)

    with eta = `learning_rate`, m = `momentum`, lambda = `weight_decay`, T = `temperature`. For gradient descent
    G = -gamma^2 dLoss/dW, so eta is the step of flow time and needs no retuning with the width. Langevin
    dynamics at inverse temperature beta with ridge lambda_0 (BP22 App. K) is temperature = 1/beta,
    weight_decay = lambda_0/beta.

    Args:
        learning_rate: a number, a `Schedule`, or one number for every step.
        steps: number of steps.
        batch_size: samples in a step; None is the full batch.
        one_pass: take the samples in order and never twice (online SGD).
        momentum: m, 0 <= m < 1.
        weight_decay: lambda.
        temperature: T.
        seed: of the order of the minibatches (drawn without replacement within an epoch).
    """

    learning_rate: float | Schedule | tuple[float, ...]
    steps: int
    batch_size: int | None = None
    one_pass: bool = False
    momentum: float = 0.0
    weight_decay: float = 0.0
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put: Any = object.__setattr__
        put(self, "steps", check.integer("steps", self.steps, least=1))
        if isinstance(self.learning_rate, list | tuple):
            rates = tuple(check.number("learning_rate", rate, least=0.0) for rate in self.learning_rate)
            if len(rates) != self.steps:
                raise InvalidInput(f"learning_rate has {len(rates)} entries; steps = {self.steps}")
            put(self, "learning_rate", rates)
        elif not isinstance(self.learning_rate, Schedule):
            put(self, "learning_rate", check.number("learning_rate", self.learning_rate, above=0.0))
        if self.batch_size is not None:
            put(self, "batch_size", check.integer("batch_size", self.batch_size, least=1))
        check.flag("one_pass", self.one_pass)
        if self.one_pass and self.batch_size is None:
            raise InvalidInput("one_pass = true needs a batch_size: the number of new samples in every step")
        put(self, "momentum", check.number("momentum", self.momentum, least=0.0))
        if self.momentum >= 1:
            raise InvalidInput(f"momentum = {self.momentum!r} must be below 1")
        put(self, "weight_decay", check.number("weight_decay", self.weight_decay, least=0.0))
        put(self, "temperature", check.number("temperature", self.temperature, least=0.0))
        put(self, "seed", check.integer("seed", self.seed))

    @classmethod
    def parse_field(cls, name: str, value: Any) -> Any:
        """A table under learning_rate is a schedule."""
        if name == "learning_rate" and isinstance(value, dict):
            return Schedule.from_table(value)
        return parse_plain(value)

    def rates(self) -> NDArray[np.float64]:
        """Learning rate of every step."""
        if isinstance(self.learning_rate, Schedule):
            rates = check.array(f"{type(self.learning_rate).__name__}.rates", self.learning_rate.rates(self.steps))
            if rates.shape != (self.steps,):
                raise InvalidInput(
                    f"{type(self.learning_rate).__name__}.rates({self.steps}) has shape {rates.shape}; "
                    f"it must hold one learning rate for each of steps = {self.steps}"
                )
            return rates
        return np.broadcast_to(np.asarray(self.learning_rate), (self.steps,)).copy()

    def batches(self, samples: int) -> NDArray[np.int64] | None:
        """Row numbers of the samples of every step, or None for the full batch."""
        if self.batch_size is None:
            return None
        if self.batch_size > samples:
            raise InvalidInput(f"batch_size = {self.batch_size} exceeds the {samples} training samples")
        needed = self.steps * self.batch_size
        if self.one_pass:
            if needed > samples:
                raise InvalidInput(
                    f"one pass of steps = {self.steps} with batch_size = {self.batch_size} takes {needed} samples; "
                    f"the data have {samples}"
                )
            return np.arange(needed).reshape(self.steps, self.batch_size)
        generator = np.random.default_rng(self.seed)
        per_epoch = samples // self.batch_size
        epochs = -(-self.steps // per_epoch)
        order = [generator.permutation(samples)[: per_epoch * self.batch_size] for _ in range(epochs)]
        return np.concatenate(order).reshape(-1, self.batch_size)[: self.steps]

    def advance(
        self, value: Array, velocity: Array | None, gradient: Array, rate: Float[Array, ""]
    ) -> tuple[Array, Array | None]:
        """One step of the recurrence above without its noise; linear in (value, velocity, gradient)."""
        drive = gradient - self.weight_decay * value if self.weight_decay else gradient
        if velocity is None:
            return value + rate * drive, None
        velocity = self.momentum * velocity + (1 - self.momentum) * drive
        return value + rate * velocity, velocity

    def rest(self, value: Array) -> Array | None:
        """Velocity at the start: zero, or None when there is no momentum to remember."""
        return jnp.zeros_like(value) if self.momentum else None

    def noise(self, normals: Array, rate: Float[Array, ""]) -> Array:
        """Langevin increment sqrt(2 eta T) xi of given standard normals xi."""
        return jnp.sqrt(2 * self.temperature * rate) * normals
