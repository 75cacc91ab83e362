"""The hidden layers of networks with skip connections, by elimination from both ends.

h^{l+1} = h^l + beta u^{l+1} + K_h^l g^{l+1} and g^l = g^{l+1} + beta r^l + K_g^l h^l (BP25 eqs. (72)-(74)) couple all
layers at one neuron. With everything to the left of layer l eliminated, h^l = a + Gamma g^l, and to the right,
g^l = b + Lambda h^l:

    Y = Gamma (1 - K_g Gamma)^-1 = Gamma F       X = 1 + Y K_g
    Gamma^{l+1} = Y + K_h^l                      A^{l+1} = X A^l X' + beta^2 Y C_g^{l+1} Y' + beta^2 C_h^l
    V = Lambda (1 - K_h Lambda)^-1 = Lambda E    U = 1 + V K_h                        (Lambda, B: of layer l + 1)
    Lambda^l = V + K_g^l                         B^l = U B^{l+1} U' + beta^2 V C_h^l V' + beta^2 C_g^{l+1}

Equal-layer responses are all that is needed, so that the cost is O(L T^3) and not O(L^2 T^3).
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Floats
from .chain import Before, Chain, Row, put_row, put_symmetric, quadratic, with_identity
from .equations import Equations


class Junction:
    """What lies between two layers: K_h, K_g, Y, F, X, V, E, U, and A above, B below."""

    def __init__(self, problems: int, size: int) -> None:
        arrays = np.zeros((10, problems, size, size))
        self.up, self.down, self.Y, self.F, self.X, self.V, self.E, self.U, self.above, self.below = arrays


class ResidualChain(Chain):
    """All hidden layers of residual networks."""

    def __init__(self, equations: Equations) -> None:
        super().__init__(equations)
        self.junctions = [Junction(equations.problems, equations.size) for _ in range(equations.layers - 1)]

    def backward(self, m: int) -> tuple[Before, Row]:
        """Rows t of R_g^1 and C_g^1."""
        last = len(self.layers) - 1
        coupling = self._from_readout(m)
        for index in range(last, -1, -1):
            left, right = self._sides(index)
            back, row = self.layers[index].backward(coupling, left, right, self.steepness[index], self.outputs)
            if index:
                coupling = self._eliminate_right(index - 1, coupling, back, row)
        return back, row

    def forward(self, coupling: Row) -> None:
        """Row t of all R_h and C_h."""
        for index, layer in enumerate(self.layers):
            left, right = self._sides(index)
            from_right, row = layer.forward(coupling, left, right, self.steepness[index], self.outputs)
            if index + 1 < len(self.layers):
                coupling = self._eliminate_left(index, coupling, from_right, row)

    def _eliminate_right(self, index: int, coupling: Before, back: Before, row: Row) -> Before:
        """Row t of Lambda^l; `coupling` is Lambda^{l+1}, `back` and `row` are R_g^{l+1} and C_g^{l+1}."""
        here, m, c = self.junctions[index], coupling.shape[-1], self.outputs
        n = m + c
        V = coupling @ here.E[:, :m, :m]
        U = with_identity(V @ here.up[:, :m, :m], c)
        down = self.branch * self._learned(back, row, m)
        here.V[:, m:n, :m], here.down[:, m:n, :m] = V, down
        put_row(here.U, U)
        put_row(here.F, with_identity(down @ here.Y[:, :m, :m], c))
        _, right = self._sides(index + 1)
        below = quadratic(U, right, here.U, n)
        below += self.branch * (quadratic(V, self.layers[index].features, here.V, n) + row)
        put_symmetric(here.below, below)
        return np.asarray(V + down)

    def _eliminate_left(self, index: int, coupling: Row, from_right: Row, row: Row) -> Row:
        """Row t of Gamma^{l+1}; `coupling` is Gamma^l, `from_right` and `row` are R_h^l and C_h^l."""
        here, n, c = self.junctions[index], coupling.shape[-1], self.outputs
        up = self.branch * self._learned(from_right, row, n - c)
        Y = coupling @ here.F[:, :n, :n]
        X, E = Y @ here.down[:, :n, :n], up @ here.V[:, :n, :n]
        for part in (X, E):
            part[..., n - c :] += np.eye(c)
        for matrix, part in ((here.up, up), (here.Y, Y), (here.X, X), (here.E, E)):
            put_row(matrix, part)
        left, _ = self._sides(index)
        above = quadratic(X, left, here.X, n)
        above += self.branch * (quadratic(Y, self.layers[index + 1].gradients, here.Y, n) + row)
        put_symmetric(here.above, above)
        return np.asarray(Y + up)

    def _sides(self, index: int) -> tuple[Floats, Floats]:
        """A and B of a layer."""
        left = self.junctions[index - 1].above if index else self.inputs
        right = self.junctions[index].below if index + 1 < len(self.layers) else self.readout
        return left, right
