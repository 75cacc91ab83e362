"""Connected correlators (cumulants) from moments and back, for several variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.statistics import mean_and_error

Item = TypeVar("Item")
Value = TypeVar("Value")
Correlator = Callable[[tuple[int, ...]], float]
"""Of the variables with these indices; they come in ascending order, so that a table needs each only once."""


def set_partitions(items: Sequence[Item]) -> Iterator[list[tuple[Item, ...]]]:
    """All ways to divide items into blocks; their number is Bell's.

    >>> list(set_partitions("ab"))
    [[('a', 'b')], [('a',), ('b',)]]
    """
    if not items:
        yield []
        return
    first, *others = items
    for partition in set_partitions(others):
        for place, block in enumerate(partition):
            yield [*partition[:place], (first, *block), *partition[place + 1 :]]
        yield [(first,), *partition]


def connected(moment: Correlator, indices: Sequence[int]) -> float:
    """E[z_1 ... z_k]_c = sum over partitions pi of (-1)^(|pi|-1) (|pi|-1)! prod_B E[B].

    This solves PDLT eq. (1.56) by Moebius inversion; eqs. (1.53), (1.54) and (1.61) are its cases k = 2, 4, 6 for
    distributions whose odd moments vanish.

    >>> connected(lambda block: float(len(block) % 2 == 0), (0, 0, 0, 0)), "of a random sign"
    (-2.0, 'of a random sign')
    """
    total = 0.0
    for partition in set_partitions(_ascending(indices)):
        weight = (-1) ** (len(partition) - 1) * math.factorial(len(partition) - 1)
        total += weight * math.prod(moment(block) for block in partition)
    return total


def disconnected(cumulant: Correlator, indices: Sequence[int]) -> float:
    """E[z_1 ... z_k] = sum over partitions of the product of the connected correlators, PDLT eq. (1.56)."""
    return math.fsum(
        math.prod(cumulant(block) for block in partition) for partition in set_partitions(_ascending(indices))
    )


def cumulant_tensors(moments: Sequence[ArrayLike]) -> list[Floats]:
    """Cumulants of the orders 1, 2, ... from the moments of these orders: tensors with so many axes."""
    return _converted(connected, moments)


def moment_tensors(cumulants: Sequence[ArrayLike]) -> list[Floats]:
    """Moments of the orders 1, 2, ... from the cumulants of these orders."""
    return _converted(disconnected, cumulants)


def _converted(convert: Callable[[Correlator, Sequence[int]], float], given: Sequence[ArrayLike]) -> list[Floats]:
    tensors = [check.array(f"order {order}", tensor, ndim=order) for order, tensor in enumerate(given, start=1)]
    if not tensors:
        raise InvalidInput("there are no tensors; give those of the orders 1, 2, ...")
    count = len(tensors[0])
    for order, tensor in enumerate(tensors, start=1):
        if tensor.shape != (count,) * order:
            raise InvalidInput(f"order {order} has shape {tensor.shape}; {count} variables need {(count,) * order}")

    def known(block: tuple[int, ...]) -> float:
        return float(tensors[len(block) - 1][block])

    found = []
    for tensor in tensors:
        result, done = np.empty_like(tensor), dict[tuple[int, ...], float]()
        for indices in np.ndindex(tensor.shape):
            key = _ascending(indices)
            if key not in done:
                done[key] = convert(known, key)
            result[indices] = done[key]
        found.append(result)
    return found


class Estimate(NamedTuple, Generic[Value]):
    """A number, or an array of them, from samples, and its standard error."""

    value: Value
    error: Value


def from_samples(samples: ArrayLike, indices: Sequence[int], *, blocks: int = 32) -> Estimate[float]:
    """The cumulant of these columns of `samples`, with a standard error from leaving out one block after the other.

    Means are taken out first, which changes no cumulant beyond the first and makes the others more precise. The
    jackknife also takes out the bias of order 1/N.
    """
    z = check.array("samples", samples, ndim=2)
    blocks = check.integer("blocks", blocks, least=2)
    if len(z) < 2 * blocks:
        raise InvalidInput(f"{len(z)} samples are too few for {blocks} blocks; {2 * blocks} would do")
    chosen = [check.integer("index", index, most=z.shape[1] - 1) for index in indices]
    if not chosen:
        raise InvalidInput("indices is empty; name the columns whose cumulant is wanted")
    centre = z.mean(axis=0) if len(chosen) > 1 else np.zeros(z.shape[1])
    parts = np.array_split(z - centre, blocks)
    weights = np.array([len(part) for part in parts], dtype=np.float64)
    sums: dict[tuple[int, ...], Float[Floats, " b"]] = {}

    def estimate(kept: Float[Floats, " b"]) -> float:
        def mean(block: tuple[int, ...]) -> float:
            if block not in sums:
                sums[block] = np.array([np.prod(part[:, list(block)], axis=1).sum() for part in parts])
            return float(kept @ sums[block] / (kept @ weights))

        return connected(mean, chosen)

    whole = estimate(np.ones(blocks))
    without = np.array([estimate(1.0 - row) for row in np.eye(blocks)])
    pseudo = blocks * whole - (blocks - 1) * without
    mean, error = mean_and_error(pseudo)
    return Estimate(float(mean), float(error))


def _ascending(indices: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(indices))
