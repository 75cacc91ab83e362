"""Large matrices over pairs of samples, a block at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.numbers import double_precision

BLOCK = 256
"""Rows and columns of a block: what a block needs then fits into the processor's cache."""

Compute = Callable[[slice, slice], tuple[Any, ...]]


def assemble(
    compute: Compute, shape: tuple[int, int], count: int, block: int, *, symmetric: bool
) -> tuple[Floats, ...]:
    """Fill `count` matrices from `compute(rows, columns)`; blocks below the diagonal of symmetric ones are copied."""
    check.memory("kernels", 8 * count * shape[0] * shape[1], "use fewer samples, or ask for parts of the kernel")
    results = tuple(np.empty(shape) for _ in range(count))
    rows, columns = (_slices(length, block) for length in shape)
    tasks = [(a, b) for a in rows for b in columns if not symmetric or a.start <= b.start]

    def fill(task: tuple[slice, slice]) -> None:
        with double_precision():
            for result, value in zip(results, compute(*task), strict=True):
                result[task] = value if not symmetric or task[0] != task[1] else _mirrored(np.asarray(value))
                if symmetric and task[0] != task[1]:
                    result[task[1], task[0]] = np.asarray(value).T

    with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1)) as pool:
        list(pool.map(fill, tasks))
    return results


def blocks(count: int, block: int) -> list[NDArray[np.int64]]:
    """Numbers of the samples of every block; all blocks are of one size, so that one program is compiled.

    The last block repeats the last sample where it is short; what is written twice is the same.
    """
    size = -(-count // -(-count // block))
    return [np.minimum(np.arange(low, low + size), count - 1) for low in range(0, count, size)]


def _slices(length: int, block: int) -> list[slice]:
    # Of nearly equal size, for few shapes have to be compiled.
    size = -(-length // -(-length // block))
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _mirrored(value: Floats) -> Floats:
    """Exactly symmetric, which sums of several terms are not in every order."""
    return np.asarray(np.triu(value) + np.triu(value, 1).T)
