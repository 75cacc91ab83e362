"""Targets for classification with a kernel: smoothed labels, and the outputs that have given probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput


def smoothed_labels(labels: ArrayLike, amount: float) -> Floats:
    """1 - amount for the true class, amount / (C - 1) for each other (PDLT chapter 10, footnote 18).

    One-hot rows put the minimum of the cross-entropy at infinity; smoothed ones keep it finite.

    >>> smoothed_labels([[1.0, 0.0, 0.0]], 0.1).tolist()
    [[0.9, 0.05, 0.05]]
    """
    rows, eps = _distributions("labels", labels), check.number("amount", amount, least=0.0, most=1.0)
    return np.asarray(rows * (1 - eps) + (1 - rows) * eps / (rows.shape[1] - 1))


def logits(probabilities: ArrayLike) -> Floats:
    """y with softmax(y) = p and rows that sum to zero: the targets that a fully trained classifier reaches.

    The cross-entropy is smallest at q = p, PDLT eqs. (10.36)-(10.38). A shift of all outputs of a sample changes no
    probability, before and after the kernel has carried it to test samples.

    >>> logits([[0.5, 0.5]]).tolist()
    [[0.0, 0.0]]
    """
    rows = _distributions("probabilities", probabilities)
    if (rows <= 0).any():
        raise InvalidInput("probabilities has zeros, whose outputs are at infinity: use smoothed_labels(labels, 0.1)")
    found = np.log(rows)
    return np.asarray(found - found.mean(axis=1, keepdims=True))


def _distributions(name: str, value: ArrayLike) -> Floats:
    rows = check.array(name, value, ndim=2)
    if rows.shape[1] < 2 or (rows < 0).any() or not np.allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-9):
        raise InvalidInput(
            f"{name} has shape {rows.shape}, smallest entry {rows.min(initial=0):g}; every row must be a distribution "
            "over at least two classes, such as [0, 1, 0]"
        )
    return rows
