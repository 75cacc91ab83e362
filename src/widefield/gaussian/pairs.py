"""Averages over all pairs of many samples, from what is prepared once for every sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..activations import Activation
from ..base.arrays import Floats
from ..base.numbers import double_precision
from . import hermite
from .activation_moments import slope_square, square
from .averages import average, average_product
from .nested import Function

Orders = tuple[int, ...]

TOLERANCE = 1e-12
"""Of averages, relative to the root of the product of the two squares."""

_ROUNDING = 32 * float(np.finfo(np.float64).eps)
"""Relative error of a covariance."""


class Profile(eqx.Module):
    """A function f at the variance of every sample: <f^2>, and its Hermite series unless something else is used."""

    variances: Float[Array, " p"]
    square: Float[Array, " p"]
    series: hermite.Series | None

    def __getitem__(self, samples: slice) -> Profile:
        """Some of the samples."""
        chosen = None if self.series is None else self.series[samples]
        return Profile(self.variances[samples], self.square[samples], chosen)


def profile(f: Function, variances: Floats, kinks: Sequence[float]) -> Profile:
    """Prepare any function. Series need nodes that all samples share, so that kinks must be at zero."""
    series = hermite.series(f, variances, kink=bool(kinks)) if all(kink == 0 for kink in kinks) else None
    squares = series.square if series is not None else average(lambda z: f(z) ** 2, variances, kinks=kinks)
    return Profile(jnp.asarray(variances), jnp.asarray(squares), series)


def products(
    f: Function, g: Function, left: Profile, k12: Float[Array, "p q"], right: Profile, kinks: Sequence[float]
) -> Float[Array, "p q"]:
    """<f(z1) g(z2)> of all pairs with covariances k12, for the profiles `left` of f and `right` of g."""
    values, error = _products(left, k12, right)
    return _mended(f, g, left, k12, right, kinks, values, error)


def derivative_products(
    activation: Activation, variances: Float[Floats, " p"], k12: Float[Floats, "p p"], orders: Sequence[tuple[int, int]]
) -> list[Float[Floats, "p p"]]:
    """<s^(i)_a s^(j)_b> of a smooth activation for some orders (i, j), from Hermite series at every sample.

    Leave the variances out of `k12` where the diagonal is not needed: it takes many terms.
    """
    s = [activation.derivative(order) for order in range(1 + max(map(max, orders)))]
    with double_precision():
        profiles = [profile(f, variances, ()) for f in s]
        k = jnp.asarray(k12)
        return [np.asarray(products(s[i], s[j], profiles[i], k, profiles[j], ())) for i, j in orders]


class Moments(eqx.Module):
    """<s s> and <s' s'> of an activation for all pairs: closed forms where there are any, else series or integrals."""

    activation: Activation = eqx.field(static=True)

    def profiles(self, variances: Floats) -> tuple[Profile, Profile]:
        """Of s and s'."""
        found = []
        for order, (closed, diagonal) in enumerate(zip(self._closed, (square, slope_square), strict=True)):
            if closed is None:
                found.append(profile(self.activation.derivative(order), variances, self.activation.kinks))
            else:
                squares = jnp.asarray(diagonal(self.activation, variances))
                found.append(Profile(jnp.asarray(variances), squares, None))
        return found[0], found[1]

    def pairs(
        self,
        left: tuple[Profile, Profile],
        k12: Float[Array, "p q"],
        right: tuple[Profile, Profile],
        *,
        same: bool,
        orders: Orders = (0, 1),
    ) -> list[Float[Array, "p q"]]:
        """The averages of s (order 0) and s' (order 1) that are wanted.

        `same` says that left and right are the same samples in the same order.
        """
        values, errors = _evaluated(self, left, k12, right, same, orders)
        for order in orders:
            if self._closed[order] is None:
                f = self.activation.derivative(order)
                sides = (left[order], k12, right[order])
                number = orders.index(order)
                found = values[number], errors[number]
                values[number] = _mended(f, f, *sides, self.activation.kinks, *found, same=same)
        return values

    @property
    def _closed(self) -> tuple[Any, Any]:
        return self.activation.feature_moment, self.activation.slope_moment

    def evaluate(
        self, left: tuple[Profile, Profile], k12: Array, right: tuple[Profile, Profile], same: bool, orders: Orders
    ) -> tuple[list[Float[Array, "p q"]], list[Float[Array, ""]]]:
        """The averages without mending, and a bound on the relative error of each: a function that jax can trace."""
        if self.activation.kinks:
            k12 = _snapped(left[0].variances, k12, right[0].variances)
        values, errors = [], []
        for order in orders:
            closed, rows, columns = self._closed[order], left[order], right[order]
            if closed is None:
                value, error = _products(rows, k12, columns, same=same)
            else:
                found = closed(rows.variances[:, None], k12, columns.variances[None, :])
                value, error = _with_diagonal(jnp.broadcast_to(found, k12.shape), rows, same=same), jnp.zeros(())
            values.append(value)
            errors.append(error)
        return values, errors


@eqx.filter_jit
def _evaluated(moments: Moments, *arguments: Any) -> tuple[list[Array], list[Array]]:
    return moments.evaluate(*arguments)


@eqx.filter_jit
def _products(left: Profile, k12: Array, right: Profile, *, same: bool = False) -> tuple[Array, Array]:
    """By series, as far as they are accurate; the same sample twice has a square, whatever the series says."""
    if left.series is None or right.series is None:
        return jnp.zeros_like(k12), jnp.full((), jnp.inf)
    correlation = _correlation(left.variances, k12, right.variances, same=same)
    values, error = hermite.product(left.series, right.series, correlation)
    return _with_diagonal(values, left, same=same), error


def _with_diagonal(values: Array, profile: Profile, *, same: bool) -> Array:
    """Squares on the diagonal: there, rounding of a covariance is an angle of 1e-8."""
    return values.at[jnp.diag_indices(len(values))].set(profile.square) if same else values


def _mended(
    f: Function,
    g: Function,
    left: Profile,
    k12: Array,
    right: Profile,
    kinks: Sequence[float],
    values: Array,
    error: Array,
    *,
    same: bool = False,
) -> Array:
    """With integrals in the place of values that might not be accurate."""
    if float(error) <= TOLERANCE:
        return values
    if kinks:
        k12 = _snapped(left.variances, k12, right.variances)
    bad = np.ones(k12.shape, bool)
    if left.series is not None and right.series is not None:
        correlation = _correlation(left.variances, k12, right.variances, same=same)
        bad = hermite.doubtful(left.series, right.series, correlation, TOLERANCE)
    rows, columns = np.nonzero(np.triu(bad, 1) if same else bad)
    entries = np.asarray(left.variances)[rows], np.asarray(k12)[rows, columns], np.asarray(right.variances)[columns]
    found = average_product(f, g, *entries, kinks=kinks)
    values = values.at[rows, columns].set(found)
    return _with_diagonal(values.at[columns, rows].set(found), left, same=True) if same else values


def _correlation(k11: Array, k12: Array, k22: Array, *, same: bool) -> Array:
    """Zero where it is undefined, and on the diagonal where it is not needed."""
    root = jnp.sqrt(k11)[:, None] * jnp.sqrt(k22)[None, :]
    correlation = jnp.clip(jnp.where(root > 0, k12 / jnp.where(root > 0, root, 1.0), 0.0), -1.0, 1.0)
    return correlation.at[jnp.diag_indices(len(k12))].set(0.0) if same else correlation


@eqx.filter_jit
def _snapped(k11: Array, k12: Array, k22: Array) -> Array:
    """Covariances of samples that are parallel but for rounding, which would be an angle of 1e-8, made parallel.

    Correlations beyond +-1 count as +-1.
    """
    root = jnp.sqrt(k11)[:, None] * jnp.sqrt(k22)[None, :]
    parallel = jnp.sign(k12) * root * (1 + _ROUNDING / 8)
    return jnp.where(jnp.abs(jnp.abs(k12) - root) <= _ROUNDING * root, parallel, k12)
