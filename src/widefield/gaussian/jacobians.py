"""How Gaussian averages of activations change with the covariance: derivatives of <s s> and <s' s'>, over pairs.

Price's theorem makes them entries of the table of averages, `pair_table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import sparse

from ..activations import Activation
from ..base.arrays import Floats
from .activation_moments import feature_kernel, slope_kernel
from .averages import average, average_derivative
from .kinked import TOLERANCE
from .pair_table import Orders, along, average_derivatives, directions
from .sample_pairs import Pairs


@dataclass(frozen=True, eq=False)
class Slopes:
    """J_pq = d<f_a f_b>/dK_q of p = (a, b): only q = (a, a), (a, b), (b, b) count, so that a row has three entries."""

    pairs: Pairs
    first: Float[Floats, " q"]
    """<f''_1 f_2> / 2, 0 for (a, a)."""

    both: Float[Floats, " q"]
    """<f'_1 f'_2>; for (a, a) d<f^2>/dK."""

    second: Float[Floats, " q"]
    """<f_1 f''_2> / 2, 0 for (a, a)."""

    @classmethod
    def of(cls, activation: Activation, K: Floats, pairs: Pairs, table: dict[Orders, Floats], order: int = 0) -> Slopes:
        """For f = s^(order), from the averages of `slope_orders(order)`."""
        first, both, second = (table[orders].copy() for orders in slope_orders(order))
        onwards = along(activation, K, pairs, order, 2)
        if activation.kinks:
            both[directions(K, pairs)[1]] = 0.0
        first, second, own = (first + onwards) / 2, second / 2, pairs.diagonal
        first[own], both[own], second[own] = 0.0, _squares(activation, order, np.diagonal(K)), 0.0
        return cls(pairs, first, both, second)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """J."""
        count = len(self.pairs)
        first, second = (self.pairs.diagonal[end] for end in (self.pairs.rows, self.pairs.columns))
        values = np.stack([self.first, self.both, self.second], axis=1).ravel()
        columns = np.stack([first, np.arange(count), second], axis=1).ravel()
        return sparse.csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, count))

    def __matmul__(self, kernels: Float[Floats, "*r q c"]) -> Float[Floats, "*r q c"]:
        """J X."""
        total = np.empty(kernels.shape)
        for place in np.ndindex(kernels.shape[:-2]):
            total[place] = self.matrix @ kernels[place]
        return total

    def carried(self, covariance: Float[Floats, "*r q q"]) -> Float[Floats, "*r q q"]:
        """J V J^T."""
        half = np.swapaxes(self @ covariance, -1, -2)
        return self @ np.ascontiguousarray(half)


def slope_orders(order: int) -> tuple[Orders, Orders, Orders]:
    """Which averages the derivatives of <s^(p)_1 s^(p)_2> with K_11, K_12, K_22 are, p = `order`."""
    return (order + 2, order), (order + 1, order + 1), (order, order + 2)


def _squares(activation: Activation, order: int, variances: Float[Floats, " p"]) -> Float[Floats, " p"]:
    """d<f^2>/dK of f = s^(order), 0 for a sample without variance."""
    found, alive = np.zeros(len(variances)), variances > 0
    K, q, f, kinks = variances[alive], activation.homogeneity, activation.derivative(order), activation.kinks
    if q is not None:
        found[alive] = (q - order) * (feature_kernel, slope_kernel)[order](activation, K, K, K) / K if q != order else 0
    elif kinks:
        found[alive] = average_derivative(lambda z: f(z) ** 2, K, 1, kinks=kinks, tolerance=TOLERANCE)
    else:
        slope, bend = activation.derivative(order + 1), activation.derivative(order + 2)
        found[alive] = average(lambda z: slope(z) ** 2 + f(z) * bend(z), K, kinks=(), tolerance=TOLERANCE)
    return found


def feature_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi_a phi_b> / dK_cd over pairs (a, b), (c, d): M / C_W of PDLT eq. (4.119) in its derivative form."""
    return _jacobian(activation, K, pairs, 0)


def slope_jacobian(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "q q"]:
    """d<phi'_a phi'_b> / dK_cd."""
    return _jacobian(activation, K, pairs, 1)


def _jacobian(activation: Activation, K: Floats, pairs: Pairs, order: int) -> Floats:
    table = average_derivatives(activation, K, pairs, slope_orders(order))
    return np.asarray(Slopes.of(activation, K, pairs, table, order).matrix.toarray())
