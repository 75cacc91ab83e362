"""Entropy, divergence and information of tables of probabilities, in nats or bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput

UNITS = {"nats": 1.0, "bits": math.log(2.0)}
"""Nats in one unit."""


def in_unit(nats: float, unit: str) -> float:
    """Convert from nats."""
    return nats / UNITS[check.choice("unit", unit, UNITS)]


def table_entropy(probabilities: Any, *, unit: str = "nats") -> float:
    """S = - sum_x p(x) log p(x), PDLT eq. (A.1); the table may have any number of axes.

    >>> table_entropy([0.5, 0.25, 0.25], unit="bits")
    1.5
    """
    return in_unit(_entropy(_table("probabilities", probabilities)), unit)


def table_divergence(probabilities: Any, reference: Any, *, unit: str = "nats") -> float:
    """KL = sum_x p(x) log(p(x) / q(x)), PDLT eq. (A.12); infinite where q = 0 < p."""
    p, q = _table("probabilities", probabilities), _table("reference", reference)
    if p.shape != q.shape:
        raise InvalidInput(f"the tables have shapes {p.shape} and {q.shape}; they must be the same")
    p, q = p[p > 0], q[p > 0]
    return in_unit(math.inf if (q == 0).any() else float(np.sum(p * np.log(p / q))), unit)


def table_cross_entropy(probabilities: Any, reference: Any, *, unit: str = "nats") -> float:
    """- sum_x p(x) log q(x) = S[p] + KL[p | q]: the mean surprise at p of somebody who believes q."""
    return table_entropy(probabilities, unit=unit) + table_divergence(probabilities, reference, unit=unit)


def table_information(joint: Any, *, unit: str = "nats") -> float:
    """I = S[x] + S[y] - S[x, y] of a table p(x, y), PDLT eq. (A.14)."""
    p = _table("joint", joint, axes=2)
    return in_unit(_entropy(p.sum(1)) + _entropy(p.sum(0)) - _entropy(p), unit)


def table_tripartite(joint: Any, *, unit: str = "nats") -> float:
    """I3 = S_x + S_y + S_z - S_xy - S_yz - S_zx + S_xyz of p(x, y, z), PDLT eq. (A.24).

    Positive: the third variable repeats what the other two share; negative: it takes all three to see it.

    >>> import numpy as np
    >>> copies = np.zeros((2, 2, 2))
    >>> copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    >>> table_tripartite(copies, unit="bits")
    1.0
    """
    p = _table("joint", joint, axes=3)
    ones = sum(_entropy(p.sum(axes)) for axes in ((1, 2), (0, 2), (0, 1)))
    twos = sum(_entropy(p.sum(axis)) for axis in range(3))
    return in_unit(ones - twos + _entropy(p), unit)


def _entropy(p: Floats) -> float:
    p = p[p > 0]
    return float(-np.sum(p * np.log(p)))


def _table(name: str, values: Any, *, axes: int | None = None) -> Floats:
    p = check.array(name, values, ndim=axes)
    if (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise InvalidInput(f"{name} must be >= 0 and sum to 1; the least is {p.min():g} and the sum {p.sum():.12g}")
    return p
