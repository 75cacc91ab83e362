"""How weights move: gradient descent in all its variants. Gradient flow has a file of its own (`gradient_flow.py`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, parse_plain, put
from ..base.errors import InvalidInput
from ..base.numbers import present, traced
from ..matrices.substrate import State
from .architecture import Network
from .layer_rates import BIAS_RATES, WEIGHT_RATES, LayerRates, Rates, checked, decayed, in_layers
from .network import MLP
from .schedules import Schedule, rates_of

AUTO = "auto"
"""In the place of a learning rate: find one that works."""

Values = dict[str, Any]
"""Something for all that learns, by name: the values themselves, or directions in which they move."""

Gradient = Callable[[State], tuple[Values, Float[Array, ""], State]]
"""dW/dt of all that learns, the loss, and the state after its matrices were asked."""


class Optimiser(Described, family="optimiser"):
    """Base class. A member has a number of `steps`, and defines `rates` and `step`."""

    steps: int
    weight_rates: Rates = 1.0
    bias_rates: Rates = 1.0
    from_one_gradient: ClassVar[bool] = False
    """Whether `step` asks for the gradient once, at its start."""
    layered: ClassVar[bool] = False
    """Whether `weight_rates` and `bias_rates` are fields, learning rates of single layers."""

    @property
    def automatic(self) -> bool:
        """Whether the learning rate is still to be found, by whoever solves the problem."""
        return False

    @property
    def copies(self) -> int:
        """How many arrays of the size of the weights are in use at once."""
        return 1

    @property
    def shakes(self) -> int:
        """How often noise is added to the weights."""
        return 0

    def rates(self) -> NDArray[np.float64]:
        """By how much every step increases the time."""
        raise NotImplementedError(f"{type(self).__name__} must define rates()")

    def batches(self, samples: int) -> NDArray[np.int64] | None:
        """Row numbers of the samples of every step, or None for the full batch."""
        del samples
        return None

    def rest(self, values: Values) -> Any:
        """What is remembered from one step to the next, at the start."""
        del values
        return None

    def step(self, gradient: Gradient, state: State, rate: Float[Array, ""]) -> tuple[State, Float[Array, ""]]:
        """Move the state by one step; also the loss before it."""
        raise NotImplementedError(f"{type(self).__name__} must define step(gradient, state, rate)")

    def noise(self, rate: Float[Array, ""]) -> Float[Array, ""]:
        """Standard deviation of the noise that is added to every weight in a step."""
        return jnp.zeros_like(rate)

    def in_program(self) -> Optimiser:
        """Without what a program is told by `rates` and `batches`: programs that differ in it share compiled code."""
        return self

    def to_table(self) -> dict[str, Any]:
        """Plain values; rates of layers only where there are any, so that other files are what they always were."""
        return {n: v for n, v in super().to_table().items() if n not in (WEIGHT_RATES, BIAS_RATES) or v != 1.0}

    def layer_rates(self, network: MLP) -> LayerRates:
        """Factors on the directions of all layers of a network."""
        return LayerRates.of(network, self.weight_rates, self.bias_rates)

    def in_layers(self, network: Network) -> Optimiser:
        """With one rate for each layer of weights, in one form for all; an error if there are others than layers."""
        both = in_layers(network, self.weight_rates, self.bias_rates)
        return dataclasses.replace(self, **both) if type(self).layered else self  # type: ignore[type-var]


@traced("momentum", "weight_decay", "temperature", "weight_rates", "bias_rates")
@dataclass(frozen=True)
class SGD(Optimiser, kind="sgd"):
    """Gradient descent: full batch, minibatch or one pass; momentum, weight decay, Langevin noise.

    >>> SGD(learning_rate=0.1, steps=3).rates()  # the full batch, three times
    array([0.1, 0.1, 0.1])
    >>> found = SGD(learning_rate="auto", steps=100, momentum=0.9)  # `solve` finds the rate
    >>> SGD(0.1, steps=4, batch_size=2).batches(samples=5).shape  # rows of the samples of every step
    (4, 2)

    With G the direction that the learning rule gives to a weight W (gradient descent: G = -gamma^2 dLoss/dW with the
    output scale gamma of `MLP`), every step is

        Q <- m Q + (1 - m) (G - lambda W),      W <- W + eta Q + sqrt(2 eta T) xi,      xi ~ N(0, 1)

    with eta = `learning_rate`, m = `momentum`, lambda = `weight_decay`, T = `temperature`; where layers have rates of
    their own, w_l (G - lambda W) and sqrt(2 eta T w_l) stand for G - lambda W and sqrt(2 eta T). Three things are not
    as in other packages: eta needs no retuning with the width, because gamma^2 is in G; the loss is a sum over
    samples, so a rate for the mean over P samples is P times as large as the one here
    (`SquaredError(reduction="mean")` changes that); momentum averages, so a rate r of PyTorch is r / (1 - m) here
    (docs/conventions.md has the translations). Time in answers is the sum of the eta so far.

    Args:
        learning_rate: a number, a `Schedule`, one number for every step, or "auto": half of the largest rate at which
            the problem trains, and of what its tangent kernel at the start allows. `solve` finds it (`stable_rate` says
            how) and writes it into the answer: `answer.problem.optimiser.learning_rate`.
        steps: number of steps.
        batch_size: samples in a step; None is the full batch.
        one_pass: take the samples in order and never twice (online SGD).
        momentum: m, 0 <= m < 1.
        weight_decay: lambda, the gradient of a ridge term; it goes through the momentum.
        temperature: T. Langevin dynamics at inverse temperature beta with ridge lambda_0 (BP22 App. K) is
            temperature = 1/beta, weight_decay = lambda_0/beta.
        seed: of the order of the minibatches (drawn without replacement within an epoch).
        weight_rates: w_l, by which eta is multiplied for the weights W^l: a number, or one for each of the L + 1 layers
            of weights, the input layer first; 0 leaves a layer as it is. `effective.equivalent_rates` has those with
            which all layers learn alike (lambda_W of PDLT eq. (8.6)).
        bias_rates: b_l, the same for the biases, if the network trains them (lambda_b of PDLT).

    See also `GradientFlow` (steps so small that their size does not matter), `Cosine`, `Piecewise`, `PowerDecay`
    (schedules), `stable_rate`, `best_rate`.
    """

    from_one_gradient: ClassVar[bool] = True
    layered: ClassVar[bool] = True

    learning_rate: float | Literal["auto"] | Schedule | tuple[float, ...]
    steps: int
    batch_size: int | None = None
    one_pass: bool = False
    momentum: float = 0.0
    weight_decay: float = 0.0
    temperature: float = 0.0
    seed: int = 0
    weight_rates: Rates = 1.0
    bias_rates: Rates = 1.0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, steps=check.integer("steps", self.steps, least=1))
        if isinstance(self.learning_rate, list | tuple):
            put(self, learning_rate=tuple(rates_of(self.learning_rate, self.steps).tolist()))
        elif isinstance(self.learning_rate, str):
            check.choice("learning_rate", self.learning_rate, (AUTO,))
        elif not isinstance(self.learning_rate, Schedule):
            put(self, learning_rate=check.number("learning_rate", self.learning_rate, above=0.0))
        if self.batch_size is not None:
            put(self, batch_size=check.integer("batch_size", self.batch_size, least=1))
        check.flag("one_pass", self.one_pass)
        if self.one_pass and self.batch_size is None:
            raise InvalidInput("one_pass = true needs a batch_size: the number of new samples in every step")
        put(self, momentum=check.number("momentum", self.momentum, least=0.0))
        if self.momentum >= 1:
            raise InvalidInput(f"momentum = {self.momentum!r} must be below 1")
        put(self, weight_decay=check.number("weight_decay", self.weight_decay, least=0.0))
        put(self, temperature=check.number("temperature", self.temperature, least=0.0))
        put(self, seed=check.integer("seed", self.seed))
        put(self, weight_rates=checked("weight_rates", self.weight_rates))
        put(self, bias_rates=checked("bias_rates", self.bias_rates))

    @classmethod
    def parse_field(cls, name: str, value: Any) -> Any:
        """A table under learning_rate is a schedule."""
        if name == "learning_rate" and isinstance(value, dict):
            return Schedule.from_table(value)
        return parse_plain(value)

    @property
    def automatic(self) -> bool:
        """Whether the learning rate is "auto"."""
        return self.learning_rate == AUTO

    def rates(self) -> NDArray[np.float64]:
        """Learning rate of every step."""
        if self.automatic:
            raise InvalidInput(
                "learning_rate = 'auto' is no number yet: `solve` puts one in its place, and "
                "`stable_rate(problem).suggested` is one that suits"
            )
        return rates_of(self.learning_rate, self.steps)

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
        check.memory("minibatches of all steps", 3 * 8 * needed, "reduce steps or batch_size")
        generator = np.random.default_rng(self.seed)
        per_epoch = samples // self.batch_size
        epochs = -(-self.steps // per_epoch)
        order = [generator.permutation(samples)[: per_epoch * self.batch_size] for _ in range(epochs)]
        return np.concatenate(order).reshape(-1, self.batch_size)[: self.steps]

    @property
    def copies(self) -> int:
        """Momentum needs a second array."""
        return 1 + present(self.momentum)

    @property
    def shakes(self) -> int:
        """Langevin noise in every step."""
        return self.steps if present(self.temperature) else 0

    def rest(self, values: Values) -> Values | None:
        """Velocity zero, or None when there is no momentum to remember."""
        return jax.tree.map(jnp.zeros_like, values) if present(self.momentum) else None

    def step(self, gradient: Gradient, state: State, rate: Float[Array, ""]) -> tuple[State, Float[Array, ""]]:
        """One step of the recurrence above without its noise."""
        direction, loss, state = gradient(state)
        old = {name: state.values[name] for name in direction}
        values, velocity = self.advance(old, state.memory, direction, rate)
        return dataclasses.replace(state.with_values(values), memory=velocity), loss

    def advance(
        self, values: Values, velocity: Values | None, direction: Values, rate: Float[Array, ""]
    ) -> tuple[Values, Values | None]:
        """The recurrence for values, velocity and G; linear in all three."""
        if present(self.weight_decay):
            direction = self._decayed(direction, values)
        if velocity is not None:
            direction = jax.tree.map(lambda q, g: self.momentum * q + (1 - self.momentum) * g, velocity, direction)
            velocity = direction
        return jax.tree.map(lambda w, q: w + rate * q, values, direction), velocity

    def _decayed(self, direction: Values, values: Values) -> Values:
        if not isinstance(direction, dict):  # a single weight, of no layer
            return direction - self.weight_decay * values
        made: Values = decayed(direction, values, self.weight_decay, self.weight_rates, self.bias_rates)
        return made

    def noise(self, rate: Float[Array, ""]) -> Float[Array, ""]:
        """sqrt(2 eta T)."""
        return jnp.sqrt(2 * self.temperature * rate)

    def in_program(self) -> Optimiser:
        """The steps count for noise alone, which needs room for every one of them."""
        if type(self) is not SGD:  # a class derived from this one may use whatever it likes
            return self
        steps = self.shakes or 1
        return dataclasses.replace(self, learning_rate=1.0, steps=steps, batch_size=None, one_pass=False, seed=0)
