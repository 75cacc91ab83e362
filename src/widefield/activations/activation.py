"""The description of one activation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .limits import NEAR, one_sided

Elementwise = Callable[[Any], Array]
"""An elementwise function of an array."""

OneVariance = Callable[[Any], Any]
"""k -> <F(z)>_k, elementwise in k."""

TwoVariances = Callable[[Any, Any, Any], Any]
"""(k11, k12, k22) -> <F(z1, z2)>_k, elementwise in the three entries."""

CLASSES = ("scale-invariant", "zero-kernel", "half-stable", "none", "unknown")
"""Universality classes of PDLT chapter 5; "unknown" until somebody computes it."""


@dataclass(frozen=True, eq=False)
class Activation:
    """An elementwise function sigma(z) and what is known about it.

    Derivatives are the pointwise ones: at a kink they take one side's value and leave out delta functions.
    Those are in `slope_jumps`: the full second derivative is `derivative(2)(z) + sum(jump * delta(z - location))`.
    The perceptron's first derivative is itself a delta function, `delta(z)`; its `derivative(1)` is zero.

    Closed moments are None where there is no closed form; `widefield.gaussian` then integrates. They take
    numpy or jax arrays and answer in kind. At zero variance they are limits: of the correlation 1 where both
    variances vanish, of the correlation 0 where one does.

    Two are equal if all fields are, functions by identity: two lambdas of one name are never taken for each other, nor
    is one registered anew for the old. It need not be in the table: networks take it as it is, files cannot name it.
    """

    name: str
    """Canonical name; of those in the table, `get(name)` returns this object."""

    function: Elementwise
    """sigma, traceable by jax, in the precision of its argument."""

    derivatives: tuple[Elementwise, ...] = ()
    """Closed forms of sigma', sigma'', ... as far as they are given; `derivative` continues them."""

    kinks: tuple[float, ...] = ()
    """Points where the function or a derivative is not smooth."""

    jumps: tuple[tuple[float, float], ...] = ()
    """(location, jump of sigma' there), of kinks; where none is stated it is measured."""

    homogeneity: int | None = None
    """q if sigma(lam z) = lam^q sigma(z) for every lam > 0."""

    universality_class: str = "unknown"
    """One of `CLASSES`."""

    feature_moment: TwoVariances | None = None
    """(k11, k12, k22) -> <sigma(z1) sigma(z2)>."""

    slope_moment: TwoVariances | None = None
    """(k11, k12, k22) -> <sigma'(z1) sigma'(z2)>."""

    square: OneVariance | None = None
    """k -> <sigma^2>, PDLT eq. (5.5); from `feature_moment` if not given."""

    slope_square: OneVariance | None = None
    """k -> <sigma'^2>; from `slope_moment` if not given."""

    fourth: OneVariance | None = None
    """k -> <sigma^4>."""

    def __post_init__(self) -> None:
        check.choice("universality class", self.universality_class, CLASSES)
        for single, pair in (("square", self.feature_moment), ("slope_square", self.slope_moment)):
            if getattr(self, single) is None and pair is not None:
                put(self, **{single: _OnDiagonal(pair)})

    def __call__(self, z: Any) -> Array:
        """Return sigma(z)."""
        return self.function(z)

    def derivative(self, order: int) -> Elementwise:
        """Return the pointwise derivative of this order (0: the function), elementwise."""
        return _derivative(self, check.integer("order", order))

    @cached_property
    def slope_jumps(self) -> tuple[tuple[float, float], ...]:
        """(location, jump of sigma' there) of every kink at which it jumps: as stated, or from limits on both sides."""
        stated = dict(self.jumps)
        others = [kink for kink in self.kinks if kink not in stated]
        found = {**stated, **dict(zip(others, self._measured(others), strict=True))}
        return tuple((place, jump) for place, jump in sorted(found.items()) if jump)

    def _measured(self, kinks: list[float]) -> list[float]:
        """By how much sigma' jumps at kinks; what is a rounding error beside the slopes is no jump."""

        def slope(z: Floats) -> Floats:
            with double_precision():
                return np.asarray(_uncompiled(self, 1)(jnp.asarray(z)))

        sides, again = (np.array(one_sided(slope, kinks, near)).reshape(-1, 2) for near in (NEAR, 100 * NEAR))
        size = np.abs(sides).max(axis=1, keepdims=True, initial=1.0)
        for kink, unsure in zip(kinks, ~(np.abs(sides - again) <= 1e-4 * size).all(axis=1), strict=True):
            if unsure:
                raise InvalidInput(
                    f"the slope of the activation {self.name!r} has no limit at its kink z = {kink:g}: if it has one, "
                    f"state the jump there, jumps=(({kink:g}, ...),)"
                )
        jumps = sides[:, 1] - sides[:, 0]
        return [float(jump) for jump in np.where(np.abs(jumps) > 1e-9 * size[:, 0], jumps, 0.0)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Activation):
            return NotImplemented
        return self is other or all(map(_same, self.stated().values(), other.stated().values()))

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __copy__(self) -> Activation:
        """Itself: nothing of it changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Activation:
        """Itself: nothing of it changes."""
        return self

    def stated(self) -> dict[str, Any]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _same(one: Any, other: Any) -> bool:
    """Whether two fields are equal; functions are so only if they are one, whatever they say themselves."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(_same, one, other))
    if isinstance(one, _OnDiagonal) and isinstance(other, _OnDiagonal):
        return one.pair is other.pair
    return one is other if callable(one) or callable(other) else bool(one == other)


@cache
def _derivative(activation: Activation, order: int) -> Elementwise:
    if order == 0:
        return activation.function
    if order <= len(activation.derivatives):
        return activation.derivatives[order - 1]
    # Compiled, because the nested derivatives of one function share nearly all of their work.
    return jax.jit(_differentiate(_uncompiled(activation, order - 1)))


def _uncompiled(activation: Activation, order: int) -> Elementwise:
    given = (activation.function, *activation.derivatives)
    return given[order] if order < len(given) else _differentiate(_uncompiled(activation, order - 1))


def _differentiate(function: Elementwise) -> Elementwise:
    """Differentiate an elementwise function in forward mode: one tangent of ones."""

    def derivative(z: Any) -> Array:
        z = jnp.asarray(z)
        if not jnp.issubdtype(z.dtype, jnp.floating):
            z = z.astype(jnp.result_type(float))
        tangent: Array = jax.jvp(function, (z,), (jnp.ones_like(z),))[1]
        return tangent

    return derivative


@dataclass(frozen=True, eq=False)
class _OnDiagonal:
    """k -> F(k, k, k)."""

    pair: TwoVariances

    def __call__(self, k: Any) -> Any:
        return self.pair(k, k, k)
