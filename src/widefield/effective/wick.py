"""Moments of Gaussian variables of any order: pairings and Wick's theorem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..gaussian.averages import ROUNDING

Item = TypeVar("Item")

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_ENTRIES = 10**7
"""Of a tensor of moments."""


def pairings(items: Sequence[Item]) -> Iterator[tuple[tuple[Item, Item], ...]]:
    """All (2m-1)!! ways to group 2m items in pairs, PDLT eq. (1.45); none of an odd number.

    >>> list(pairings("abcd"))
    [(('a', 'b'), ('c', 'd')), (('a', 'c'), ('b', 'd')), (('a', 'd'), ('b', 'c'))]
    """
    if not items:
        yield ()
        return
    first, *others = items
    for place, partner in enumerate(others):
        for rest in pairings(others[:place] + others[place + 1 :]):
            yield (first, partner), *rest


def double_factorial(order: int) -> int:
    """(2m-1)!!, the number of pairings of 2m = `order` items, PDLT eq. (1.16); 0 if the order is odd."""
    order = check.integer("order", order)
    return 0 if order % 2 else math.prod(range(1, order, 2))


def single_moment(variance: float, order: int) -> float:
    """E[z^2m] = K^m (2m-1)!!, PDLT eq. (1.15)."""
    return check.number("variance", variance, least=0.0) ** (order // 2) * double_factorial(order)


def moment(K: ArrayLike, indices: Sequence[int]) -> float:
    """E[z_1 z_2 ... z_2m] = sum over pairings of the product of K_ij, PDLT eq. (1.45).

    The sum is taken one index at a time, E[z_1 z_2 ...] = sum_j K_1j E[the others], and what repeated indices have in
    common is computed once: the cost grows with the number of different multisets, not with (2m-1)!!.

    >>> moment([[2, 1], [1, 3]], [0, 0, 0, 1, 1, 1])
    60.0
    """
    covariance = checked_covariance(K)
    powers = [0] * len(covariance)
    for index in indices:
        powers[check.integer("index", index, most=len(covariance) - 1)] += 1
    return _reduced(covariance, tuple(powers)) if sum(powers) % 2 == 0 else 0.0


def _reduced(K: Floats, powers: tuple[int, ...]) -> float:
    @cache
    def average(left: tuple[int, ...]) -> float:
        first = next((i for i, power in enumerate(left) if power), None)
        if first is None:
            return 1.0
        fewer = list(left)
        fewer[first] -= 1
        total = 0.0
        for partner, power in enumerate(fewer):
            if power:
                rest = (*fewer[:partner], power - 1, *fewer[partner + 1 :])
                total += power * float(K[first, partner]) * average(rest)
        return total

    return average(powers)


def moment_tensor(K: ArrayLike, order: int) -> Floats:
    """E[z_a z_b ...] for all indices: an array with `order` axes.

    >>> moment_tensor([[2.0]], 4).item()
    12.0
    """
    covariance = checked_covariance(K)
    size = len(covariance) ** check.integer("order", order)
    if size > _MOST_ENTRIES:
        raise InvalidInput(f"order = {order} with {len(covariance)} variables: {size} moments; use `moment` for a few")
    total = np.zeros((len(covariance),) * order)
    for pairing in pairings(range(order)):
        factors = ",".join(_LETTERS[i] + _LETTERS[j] for i, j in pairing)
        total += np.einsum(f"{factors}->{_LETTERS[:order]}", *[covariance] * len(pairing)) if pairing else 1.0
    return total


def generating_function(K: ArrayLike, source: ArrayLike) -> float:
    """E[exp(J . z)] = exp(J^T K J / 2), PDLT eqs. (1.41), (1.49); its derivatives at J = 0 are the moments."""
    covariance, J = checked_covariance(K), check.array("source", source, ndim=1)
    if len(J) != len(covariance):
        raise InvalidInput(f"source has {len(J)} entries for {len(covariance)} variables")
    return math.exp(0.5 * float(J @ covariance @ J))


def checked_covariance(K: ArrayLike) -> Float[Floats, "d d"]:
    """K as an array if it is a covariance: square, symmetric, without negative eigenvalues."""
    covariance = check.array("K", K, ndim=2)
    if covariance.shape[0] != covariance.shape[1] or not covariance.size:
        raise InvalidInput(f"K has shape {covariance.shape}; a covariance is a square matrix")
    size = float(np.abs(covariance).max())
    if np.abs(covariance - covariance.T).max() > ROUNDING * size:
        raise InvalidInput("K is not symmetric")
    symmetric = 0.5 * (covariance + covariance.T)
    lowest = float(np.linalg.eigvalsh(symmetric)[0])
    if lowest < -ROUNDING * size:
        raise InvalidInput(f"K has the negative eigenvalue {lowest:g}; a covariance has none")
    return np.asarray(symmetric)


def inverse(K: ArrayLike) -> Float[Floats, "d d"]:
    """K^ab with raised indices, if there is one."""
    covariance = checked_covariance(K)
    values = np.linalg.eigvalsh(covariance)
    if values[0] <= 1e-14 * values[-1]:
        raise InvalidInput(
            f"K has eigenvalues from {values[0]:g} to {values[-1]:g}: it has no inverse, so there is no density"
        )
    return np.asarray(np.linalg.inv(covariance))
