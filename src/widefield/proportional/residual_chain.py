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

from .chain import Chain, Coupled, Row, Source, correlation
from .equations import Equations
from .growing import put_symmetric


class Junction:
    """What lies between two layers, and A above, B below.

    `left` couples h^l = a + Gamma^l g and g = b + K_g^l h^l: its responses are X, Y, K_g X, F. `right` couples
    h = a + K_h^l g^{l+1} and g^{l+1} = b + Lambda^{l+1} h: its responses are E, K_h U, V, U.
    """

    def __init__(self, problems: int, size: int, outputs: int) -> None:
        self.left, self.right = Coupled(problems, size, outputs), Coupled(problems, size, outputs)
        self.above, self.below = np.zeros((2, problems, size, size))


class ResidualChain(Chain):
    """All hidden layers of residual networks."""

    def __init__(self, equations: Equations) -> None:
        super().__init__(equations)
        sizes = equations.problems, equations.size, equations.outputs
        self.junctions = [Junction(*sizes) for _ in range(equations.layers - 1)]

    def backward(self, m: int) -> tuple[Row, Row]:
        """Rows t of R_g^1 and C_g^1."""
        coupling = self._from_readout(m)
        for index in reversed(range(len(self.layers))):
            back, row = self.layers[index].backward(coupling, *self._neighbours(index))
            if index:
                coupling = self._eliminate_right(index - 1, coupling, back, row)
        return back, row

    def forward(self, coupling: Row) -> None:
        """Row t of all R_h and C_h."""
        for index, layer in enumerate(self.layers):
            from_right, row = layer.forward(coupling, *self._neighbours(index))
            if index + 1 < len(self.layers):
                coupling = self._eliminate_left(index, coupling, from_right, row)

    def _eliminate_right(self, index: int, coupling: Row, back: Row, row: Row) -> Row:
        """Row t of Lambda^l; `coupling` is Lambda^{l+1}, `back` and `row` are R_g^{l+1} and C_g^{l+1}."""
        here, m = self.junctions[index], coupling.shape[-1]
        _, beyond = self._neighbours(index + 1)
        responses = here.right.add_g(coupling)
        below = correlation(responses, here.right.g, (self.branch, self.layers[index].features), beyond)
        put_symmetric(here.below, below + self.branch * row)
        down = self.branch * self._learned(back, row, m)
        here.left.add_g(down)
        return np.asarray(responses[..., : 2 * m : 2] + down)

    def _eliminate_left(self, index: int, coupling: Row, from_right: Row, row: Row) -> Row:
        """Row t of Gamma^{l+1}; `coupling` is Gamma^l, `from_right` and `row` are R_h^l and C_h^l."""
        here, m = self.junctions[index], coupling.shape[-1] - self.outputs
        before, _ = self._neighbours(index)
        responses = here.left.add_h(coupling)
        above = correlation(responses, here.left.h, before, (self.branch, self.layers[index + 1].gradients))
        put_symmetric(here.above, above + self.branch * row)
        up = self.branch * self._learned(from_right, row, m)
        here.right.add_h(up)
        return np.asarray(responses[..., 1::2] + up)

    def _neighbours(self, index: int) -> tuple[Source, Source]:
        """A and B of a layer."""
        left = self.junctions[index - 1].above if index else self.inputs
        right = self.junctions[index].below if index + 1 < len(self.layers) else None
        return (1.0, left), (1.0, right)
