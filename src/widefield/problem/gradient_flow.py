"""Gradient flow: training in continuous time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from ..base import check
from ..base.describe import put
from ..base.numbers import present, traced
from ..base.renamed import renamed
from ..matrices.substrate import State
from .layer_rates import Rates, checked, decayed
from .optimisers import Gradient, Optimiser, Values

# The pair of orders 3 and 2 of Bogacki and Shampine (1989). The last stage is the first of the next step.
_STAGES = np.array([[0, 0, 0, 0], [1 / 2, 0, 0, 0], [0, 3 / 4, 0, 0], [2 / 9, 1 / 3, 4 / 9, 0]])
_ERROR = np.array([-5 / 72, 1 / 12, 1 / 9, -1 / 8])
_SMALLEST = 1e-9
"""A step below this fraction of an interval means that the flow has no solution there."""


class Pace(eqx.Module):
    """What is remembered: the step that the last error suggests, and the way of every array so far."""

    size: Float[Array, ""]
    travelled: dict[str, Float[Array, ""]]


class _Climb(eqx.Module):
    """Inside an interval: slopes of the four stages, the time left, and whether the first slope is up to date."""

    state: State
    values: Values
    slopes: Values
    pace: Pace
    left: Float[Array, ""]
    fresh: Bool[Array, ""]
    loss: Float[Array, ""]


@traced("t_end", "tolerance", "weight_decay", "weight_rates", "bias_rates")
@renamed(intervals="steps", accuracy="tolerance")
@dataclass(frozen=True)
class GradientFlow(Optimiser, kind="gradient-flow"):
    """dW/dt = w_l (G - lambda W) from time 0 to `t_end`, by a method that adapts to how fast the weights turn.

    The time is divided into `steps` equal intervals, at whose ends records are taken.

    Args:
        t_end: how long to train; discrete steps of rate eta take the time eta each.
        steps: number of intervals that the time is divided into.
        tolerance: error allowed each time the weights move, relative to the way that every array has gone so far.
        weight_decay: lambda.
        weight_rates: w_l of the weights W^l, 1 unless layers have rates of their own: see `SGD`.
        bias_rates: the same for the biases.
    """

    layered: ClassVar[bool] = True

    t_end: float
    steps: int = 100
    tolerance: float = 1e-3
    weight_decay: float = 0.0
    weight_rates: Rates = 1.0
    bias_rates: Rates = 1.0

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        put(self, t_end=check.number("t_end", self.t_end, above=0.0))
        put(self, steps=check.integer("steps", self.steps, least=1))
        put(self, tolerance=check.number("tolerance", self.tolerance, least=1e-12, most=1.0))
        put(self, weight_decay=check.number("weight_decay", self.weight_decay, least=0.0))
        put(self, weight_rates=checked("weight_rates", self.weight_rates))
        put(self, bias_rates=checked("bias_rates", self.bias_rates))

    @property
    def copies(self) -> int:
        """The weights, four slopes, and the point that is tried."""
        return 6

    def rates(self) -> NDArray[np.float64]:
        """Lengths of the intervals."""
        return np.full(self.steps, self.t_end / self.steps)

    def rest(self, values: Values) -> Pace:
        """Try a whole interval first."""
        nothing = {name: jnp.zeros((), jax.tree.leaves(value)[0].dtype) for name, value in values.items()}
        return Pace(jnp.full((), self.t_end / self.steps, next(iter(nothing.values())).dtype), nothing)

    def in_program(self) -> Optimiser:
        """One interval: that is what `rest` asks about."""
        if type(self) is not GradientFlow:  # a class derived from this one may use whatever it likes
            return self
        return dataclasses.replace(self, t_end=self.t_end / self.steps, steps=1)

    def step(self, gradient: Gradient, state: State, rate: Float[Array, ""]) -> tuple[State, Float[Array, ""]]:
        """Integrate over one interval."""
        pace: Pace = state.memory
        values = {name: state.values[name] for name in pace.travelled}
        slopes = jax.tree.map(lambda leaf: jnp.zeros((4, *leaf.shape), leaf.dtype), values)
        start = _Climb(state, values, slopes, pace, rate, jnp.zeros((), bool), jnp.full_like(rate, jnp.nan))
        end = jax.lax.while_loop(
            lambda climb: (climb.left > 0) & (climb.pace.size > _SMALLEST * rate),
            lambda climb: self._try(gradient, climb),
            start,
        )
        loss = jnp.where(end.left > 0, jnp.nan, end.loss)
        return dataclasses.replace(end.state.with_values(end.values), memory=end.pace), loss

    def _try(self, gradient: Gradient, climb: _Climb) -> _Climb:
        """One step, kept if its error is small enough."""
        # The remainder of an interval must not dwindle to nothing by rounding.
        last = climb.pace.size >= climb.left * (1 - 1e-9)
        size = jnp.where(last, climb.left, climb.pace.size)
        climb, point = self._stages(gradient, climb, size)
        error = _norms(jax.tree.map(lambda slope: size * _combined(_ERROR, slope), climb.slopes))
        moved = _norms(jax.tree.map(lambda slope: size * slope[0], climb.slopes))
        way = {name: climb.pace.travelled[name] + moved[name] for name in moved}
        # Arrays that stand still have no error either.
        ratios = [error[name] / jnp.maximum(self.tolerance * way[name], _tiny(way[name])) for name in error]
        worst = jnp.max(jnp.stack(ratios))
        good = worst <= 1
        factor = jnp.where(jnp.isfinite(worst), jnp.clip(0.9 * jnp.maximum(worst, 1e-6) ** (-1 / 3), 0.2, 5.0), 0.2)
        suggested = jnp.where(good & last, jnp.maximum(climb.pace.size, factor * size), factor * size)

        def chosen(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

        return _Climb(
            climb.state,
            chosen(point, climb.values),
            chosen(jax.tree.map(lambda slope: slope.at[0].set(slope[3]), climb.slopes), climb.slopes),
            Pace(suggested, chosen(way, climb.pace.travelled)),
            jnp.where(good, jnp.where(last, jnp.zeros_like(size), climb.left - size), climb.left),
            good,
            climb.loss,
        )

    def _stages(self, gradient: Gradient, climb: _Climb, size: Float[Array, ""]) -> tuple[_Climb, Values]:
        """The slopes along a step, and where it ends.

        After a step that failed the first slope is computed again: matrices that learned something in between answer
        it more exactly.
        """
        stages = jnp.asarray(_STAGES, size.dtype)

        def body(number: Int[Array, ""], carry: tuple[State, Values, Values, Array]) -> Any:
            state, slopes, _, loss = carry
            point = jax.tree.map(lambda w, k: w + size * _combined(stages[number], k), climb.values, slopes)
            direction, new, state = gradient(state.with_values(point))
            if present(self.weight_decay):
                direction = decayed(direction, point, self.weight_decay, self.weight_rates, self.bias_rates)
            slopes = jax.tree.map(lambda k, g: k.at[number].set(g), slopes, direction)
            return state, slopes, point, jnp.where(jnp.isnan(loss), new, loss)

        first = climb.fresh.astype(jnp.int32)
        carry = (climb.state, climb.slopes, climb.values, climb.loss)
        state, slopes, point, loss = jax.lax.fori_loop(first, 4, body, carry)
        return dataclasses.replace(climb, state=state, slopes=slopes, loss=loss), point


def _combined(weights: Any, slopes: Array) -> Array:
    return jnp.tensordot(jnp.asarray(weights, slopes.dtype), slopes, axes=1)


def _norms(values: Values) -> dict[str, Float[Array, ""]]:
    squares = {name: [jnp.sum(leaf**2) for leaf in jax.tree.leaves(value)] for name, value in values.items()}
    return {name: jnp.sqrt(jnp.sum(jnp.stack(leaves))) for name, leaves in squares.items()}


def _tiny(value: Array) -> float:
    return float(np.finfo(np.dtype(value.dtype)).tiny)
