"""Losses: what is minimised. The theory needs only the error signal Delta = -d loss / d f."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput
from ..base.numbers import traced

REDUCTIONS = ("sum", "mean")

HOPELESS = 1e12
"""A loss so many times that of an output of zero will not come back."""


class _ByPosition(type):
    """Until 0.3, `reduction` may come first without its name."""

    def __call__(cls, *values: Any, **named: Any) -> Any:
        if values and values[0] in REDUCTIONS:
            message = f"{cls.__name__}({values[0]!r}): write reduction={values[0]!r}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            values, named = values[1:], {"reduction": values[0], **named}
        return super().__call__(*values, **named)


@dataclass(frozen=True)
class Loss(Described, family="loss", metaclass=_ByPosition):
    """Base class. A member defines `value`; `error` follows by differentiation unless it is overridden.

    The total loss is the sum over samples (as in BP22 and BP23), or the mean if `reduction` is "mean"; for a
    minibatch, over the samples of the batch. To add your own, subclass it as a frozen dataclass:

        @dataclass(frozen=True)
        class Quartic(Loss, kind="quartic"):
            def value(self, outputs, targets):
                return jnp.sum((targets - outputs) ** 4, axis=-1)
    """

    synonyms: ClassVar[dict[str, str]] = {
        "mse": "squared-error",
        "squared": "squared-error",
        "quadratic": "squared-error",
        "l2": "squared-error",
        "bce": "logistic",
        "binary-cross-entropy": "logistic",
        "cross-entropy": "softmax-cross-entropy",
        "softmax": "softmax-cross-entropy",
        "categorical-cross-entropy": "softmax-cross-entropy",
    }

    formula: ClassVar[str] = ""
    """Of one sample, with outputs f_c and targets y_c."""

    degree: ClassVar[float | None] = None
    """d if the loss of s f and s y is s^d times that of f and y, thresholds included; None if there is no such d."""

    reduction: str = field(default="sum", kw_only=True)

    def __post_init__(self) -> None:
        """Check the fields."""
        check.choice("reduction", self.reduction, REDUCTIONS)

    def value(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, " p"]:
        """Loss of every sample."""
        raise NotImplementedError(f"{type(self).__name__} must define value(outputs, targets)")

    def error(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta = -d value / d outputs of every sample."""
        slope: Array = jax.grad(lambda f: jnp.sum(self.value(f, targets)))(outputs)
        return -slope

    @property
    def convention(self) -> str:
        """What is added up, in words and symbols, for whoever reads a number in a file."""
        return f"{self.reduction} over samples of {self.formula or self.kind or type(self).__name__}"

    def check_targets(self, targets: NDArray[np.float64]) -> None:
        """Raise `InvalidInput` if the targets make no sense for this loss."""
        del targets

    def weight(self, samples: int) -> float:
        """Weight of one sample in the total over `samples`."""
        return 1.0 / samples if self.reduction == "mean" else 1.0

    def total(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, ""]:
        """Loss of a set of samples."""
        return self.weight(max(1, outputs.shape[0])) * jnp.sum(self.value(outputs, targets))

    def hopeless(self, total: Any, targets: Float[Array, "p c"]) -> Any:
        """Whether a total loss is beyond all hope: 1e12 times that of an output of zero, or not a number."""
        return ~(total < HOPELESS * (1 + self.total(jnp.zeros_like(targets), targets)))


@dataclass(frozen=True)
class SquaredError(Loss, kind="squared-error"):
    """loss = 1/2 sum_c (y_c - f_c)^2, so Delta = y - f."""

    formula: ClassVar[str] = "1/2 sum_c (y_c - f_c)^2"
    degree: ClassVar[float | None] = 2.0

    def value(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, " p"]:
        """Loss of every sample."""
        return 0.5 * jnp.sum((targets - outputs) ** 2, axis=-1)

    def error(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta = y - f."""
        return targets - outputs


@dataclass(frozen=True)
class Logistic(Loss, kind="logistic"):
    """loss = sum_c log(1 + exp(-y_c f_c)) for targets y = -1 or +1."""

    formula: ClassVar[str] = "sum_c log(1 + exp(-y_c f_c))"

    def value(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, " p"]:
        """Loss of every sample."""
        return jnp.sum(jax.nn.softplus(-targets * outputs), axis=-1)

    def error(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta = y sigmoid(-y f)."""
        return targets * jax.nn.sigmoid(-targets * outputs)

    def check_targets(self, targets: NDArray[np.float64]) -> None:
        """Targets must be -1 or +1."""
        bad = targets[np.abs(targets) != 1]
        if bad.size:
            raise InvalidInput(
                f"the logistic loss needs targets that are -1 or +1, but {bad.size} of {targets.size} are not, "
                f"the first is {bad[0]:g}; use SquaredError for other targets"
            )


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Loss, kind="softmax-cross-entropy"):
    """loss = -sum_c y_c log softmax(f)_c for targets that are probabilities (one-hot rows, say)."""

    formula: ClassVar[str] = "-sum_c y_c log softmax(f)_c"

    def value(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, " p"]:
        """Loss of every sample."""
        return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)

    def error(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta = y - softmax(f)."""
        return targets - jax.nn.softmax(outputs, axis=-1)

    def check_targets(self, targets: NDArray[np.float64]) -> None:
        """Every row must be a distribution over at least two classes."""
        sums_to_one = np.allclose(targets.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9)
        if targets.shape[-1] < 2 or np.any(targets < 0) or not sums_to_one:
            raise InvalidInput(
                f"the softmax cross-entropy needs one-hot targets (or probabilities) over at least two classes; "
                f"targets have {targets.shape[-1]} column(s), smallest entry {targets.min(initial=0):g}"
            )


@traced("threshold")
@dataclass(frozen=True)
class Huber(Loss, kind="huber"):
    """loss = sum_c of e^2/2 where |e| <= threshold and threshold (|e| - threshold/2) beyond, e = y - f."""

    formula: ClassVar[str] = (
        "sum_c (e_c^2/2 where |e_c| <= threshold, threshold (|e_c| - threshold/2) beyond), e = y - f"
    )
    degree: ClassVar[float | None] = 2.0

    threshold: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        put(self, threshold=check.number("threshold", self.threshold, above=0.0))

    def value(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, " p"]:
        """Loss of every sample."""
        distance = jnp.abs(targets - outputs)
        near = jnp.minimum(distance, self.threshold)
        return jnp.sum(near * (distance - 0.5 * near), axis=-1)

    def error(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta = y - f, clipped at the threshold."""
        return jnp.clip(targets - outputs, -self.threshold, self.threshold)
