"""The hidden layers of residual networks with the responses between all pairs of layers, as BP25 writes them.

With y one of the sources u^k (of h^k) and r^k (of g^k), BP25 eqs. (72)-(74) and what follows from them:

    dh^1/dy     = delta(y, u^1) + Gamma^1 dg^1/dy
    dh^{l+1}/dy = dh^l/dy + beta delta(y, u^{l+1}) + K_h^l dg^{l+1}/dy
    dg^L/dy     = delta(y, r^L) + gamma eta dh^L/dy
    dg^l/dy     = dg^{l+1}/dy + beta delta(y, r^l) + K_g^l dh^l/dy
    C_h^l       = sum_k [dh^l/du^k C_h^{k-1} (dh^l/du^k)' + dh^l/dr^k C_g^{k+1} (dh^l/dr^k)'],      C_g^l alike

O(L^2 T^3) time and O(L^2 T^2) memory; `residual_chain` solves the same equations with O(L).
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Floats
from .chain import Before, Chain, Row, put_row, put_symmetric, quadratic
from .equations import Equations


class CrossLayerChain(Chain):
    """All hidden layers; responses are indexed by source (u^1 .. u^L, r^1 .. r^L) and layer."""

    def __init__(self, equations: Equations) -> None:
        super().__init__(equations)
        count, problems, size = equations.layers, equations.problems, equations.size
        self.count, self.root = count, np.sqrt(self.branch)
        self.h, self.g = np.zeros((2, count, 2 * count, problems, size, size))

    def backward(self, m: int) -> tuple[Before, Row]:
        """Rows t of dg^1/du^1 and C_g^1."""
        n, c = m + self.outputs, self.outputs
        row = np.zeros((2 * self.count, len(self.inputs), c, n))
        coupling = self._from_readout(m)
        for index in reversed(range(self.count)):
            row[..., :m] += coupling @ self.h[index][..., :m, :m]
            row[self.count + index, ..., m:] += self._strength(index, self.count - 1) * np.eye(c)
            put_row(self.g[index], row)
            gradients = self._correlation(self.g[index], row)
            put_symmetric(self.layers[index].gradients, gradients)
            back = row[index, ..., :m]
            if index:  # Lambda of the layer below: beta R_g + gamma beta^2 low(C_g) eta
                coupling = self.root * back + self.branch * self.drive[..., :m] * gradients[..., :m]
        return back.copy(), gradients

    def forward(self, coupling: Row) -> None:
        """Row t of everything about h."""
        n, c = coupling.shape[-1], self.outputs
        m = n - c
        row = np.zeros((2 * self.count, *coupling.shape))
        for index in range(self.count):
            row = row + coupling @ self.g[index][..., :n, :n]
            row[index, ..., m:] += self._strength(index, 0) * np.eye(c)
            put_row(self.h[index], row)
            features = self._correlation(self.h[index], row)
            put_symmetric(self.layers[index].features, features)
            coupling = self.root * row[self.count + index]
            coupling[..., :m] += self.branch * self.drive[..., :m] * features[..., :m]

    def _strength(self, index: int, end: int) -> Floats | float:
        """Sources of inner layers come through a branch, those of the first h and the last g do not."""
        return 1.0 if index == end else self.root

    def _correlation(self, responses: Floats, row: Floats) -> Row:
        """Row t of C from row t of all responses of one layer."""
        n = row.shape[-1]
        below = [self.inputs, *(layer.features for layer in self.layers[:-1])]
        above = [*(layer.gradients for layer in self.layers[1:]), self.readout]
        parts = [quadratic(row[k], source, responses[k], n) for k, source in enumerate([*below, *above])]
        return np.asarray(sum(parts))
