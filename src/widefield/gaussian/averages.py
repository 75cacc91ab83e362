"""Averages over one and two Gaussian variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .nested import Function, Nested, evaluate, flatten, require
from .roots import pair_factor

TOLERANCE = 1e-12
"""Default bound on the estimated error, relative to the average of the absolute value."""

ROUNDING = 1e-9
"""A correlation may exceed 1 by this much through rounding."""


def average(F: Function, variance: Any, *, kinks: Sequence[float] = (0.0,), tolerance: float = TOLERANCE) -> Floats:
    """Return <F(z)>_K for z ~ N(0, K), PDLT eq. (1.68), elementwise in `variance` K >= 0.

    `F` is vectorised, in numpy or jax; `kinks` are the points where it is not smooth. K = 0 gives F(0).
    The error is below `tolerance` times <|F|>, or `InvalidInput` says what was reached. Structure much finer
    than 1e-3 must be declared as a kink to be seen.

    >>> from widefield.activations import get
    >>> round(float(average(lambda z: get("tanh")(z) ** 2, 1.0)), 12)
    0.394294490398
    """
    shape, (flat,) = flatten(check_variance("variance", check.array("variance", variance)))
    problem = Nested(
        np.sqrt(flat)[:, None, None],
        np.zeros((len(flat), 1)),
        (tuple(kinks),),
        lambda _, z: evaluate(F, z[0]),
        np.zeros((len(flat), 1)),
    )
    value, error, size = problem.average(tolerance=tolerance, levels=45)
    require(error, size, tolerance, "average")
    return value.reshape(shape)


def average_derivative(
    F: Function, variance: Any, order: int, *, kinks: Sequence[float] = (0.0,), tolerance: float = TOLERANCE
) -> Floats:
    """Return d^k<F>/dK^k = <F He_2k(z / sqrt K)> / (2 K)^k for k = `order`, 1 or 2, elementwise in `variance` K > 0.

    He_2 = x^2 - 1 and He_4 = x^4 - 6 x^2 + 3; k = 1 is what PDLT eq. (5.10) has for s^2. F itself need not have
    derivatives. The error is below `tolerance` times the average of the absolute value.

    >>> round(float(average_derivative(np.abs, 4.0, 1)), 12)  # <|z|> = sqrt(2 K / pi)
    0.199471140201
    """
    shape, (flat,) = flatten(check_variance("variance", check.array("variance", variance)))
    if (flat == 0).any():
        raise InvalidInput("variance = 0 has no derivative by Hermite polynomials: it must be > 0")
    coefficients = {1: (-1.0, 0.0, 1.0), 2: (3.0, 0.0, -6.0, 0.0, 1.0)}[order]
    # Two variables of one normal x: z = sqrt(K) x, and x itself for the polynomial.
    zero = np.zeros((len(flat), 2))
    problem = Nested(
        np.stack([np.sqrt(flat), np.ones(len(flat))], axis=1)[:, :, None],
        zero,
        (tuple(kinks), ()),
        lambda _, z: evaluate(F, z[0]) * np.polynomial.polynomial.polyval(z[1], coefficients),
        zero,
    )
    value, error, size = problem.average(tolerance=tolerance, levels=45)
    require(error, size, tolerance, "derivative of an average")
    return (value / (2 * flat) ** order).reshape(shape)


def average_pair(
    F: Function | tuple[Function, Function],
    k11: Any,
    k12: Any,
    k22: Any,
    *,
    kinks: Sequence[float] = (0.0,),
    tolerance: float = TOLERANCE,
) -> Floats:
    """Return <F(z1, z2)>_K for the covariance [[k11, k12], [k12, k22]], elementwise in its entries.

    Two functions (f, g) stand for f(z1) g(z2), with fewer evaluations of f. `kinks` are the values of z1 or z2 at which
    F is not smooth. Correlations +-1 and zero variances are allowed. In z2, F may grow like a power of about 16 before
    the cut at 10 standard deviations shows.
    """

    def integrand(level: int, z: list[Floats]) -> Floats | None:
        if isinstance(F, tuple):
            return evaluate(F[level], z[level])
        return None if level == 0 else evaluate(F, z[0], z[1])

    shape, entries = flatten(check.array("k11", k11), check.array("k12", k12), check.array("k22", k22))
    check_pair(*entries)
    zero = np.zeros((len(entries[0]), 2))
    problem = Nested(pair_factor(*entries), zero, (tuple(kinks), tuple(kinks)), integrand, zero)
    value, error, size = problem.average(tolerance=tolerance, levels=9)
    require(error, size, tolerance, "average over two variables")
    return value.reshape(shape)


def average_product(f: Function, g: Function, k11: Any, k12: Any, k22: Any, **settings: Any) -> Floats:
    """Return <f(z1) g(z2)>_K; `settings` are those of `average_pair`."""
    return average_pair((f, g), k11, k12, k22, **settings)


def check_pair(k11: Floats, k12: Floats, k22: Floats) -> None:
    """Raise, naming the entries, unless [[k11, k12], [k12, k22]] are covariances up to rounding."""
    check_variance("k11", k11)
    check_variance("k22", k22)
    bad = np.nonzero(np.abs(k12) > np.sqrt(k11) * np.sqrt(k22) * (1 + ROUNDING))[0]
    if len(bad):
        i = bad[0]
        raise InvalidInput(
            f"no covariance: k11 = {k11[i]:g}, k22 = {k22[i]:g} and k12 = {k12[i]:.17g} at flat index {i}; "
            "k12^2 must not exceed k11 k22"
        )


def check_variance(name: str, values: Floats) -> Floats:
    """Return the values if none is negative."""
    bad = values[values < 0]
    if bad.size:
        raise InvalidInput(f"{name} = {bad[0]:g} is negative: no variance")
    return values
