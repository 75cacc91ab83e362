"""Residual networks of infinite depth, beta = beta_0 / sqrt L: equations in layer time tau = l / L.

With k_h = R_h + gamma low(C_h) eta, k_g = R_g + gamma low(C_g) eta and responses and correlations at every tau as in
`chain`, the eliminations of `residual_chain` become (BP25 eqs. (17), (75)-(85) for equal layer times)

     dGamma/dtau  = beta_0^2 [k_h + Gamma k_g Gamma]
     dA/dtau      = beta_0^2 [C_h + Gamma C_g Gamma' + Gamma k_g A + A k_g' Gamma']       forwards from the input
    -dLambda/dtau = beta_0^2 [k_g + Lambda k_h Lambda]
    -dB/dtau      = beta_0^2 [C_g + Lambda C_h Lambda' + Lambda k_h B + B k_h' Lambda']   backwards from the readout

Heun's method in tau, row after row in training time: its error falls as the square of the step in tau.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Floats
from .chain import Before, Chain, Layer, Row, put_row, put_symmetric, quadratic
from .equations import Equations


class Side:
    """One direction at one layer time: coupling (Gamma or Lambda), covariance (A or B), kernel (k_h or k_g)."""

    def __init__(self, problems: int, size: int, correlation: Floats) -> None:
        self.coupling, self.covariance, self.kernel, self.product = np.zeros((4, problems, size, size))
        self.correlation = correlation

    def put(self, coupling: Row, covariance: Row) -> None:
        """Write row t."""
        put_row(self.coupling, coupling)
        put_symmetric(self.covariance, covariance)

    def slope(self, other: Side, n: int, outputs: int) -> tuple[Row, Row]:
        """Row t of the right-hand sides, divided by beta_0^2; the other direction is known up to where it matters."""
        m = n - outputs
        row = self.coupling[:, m:n, :n]
        product = row @ other.kernel[:, :n, :n]
        put_row(self.product, product)
        mixed = self.product[:, :n, :n] @ self.covariance[:, :n, m:n]
        change = self.correlation[:, m:n, :n] + quadratic(row, other.correlation, self.coupling, n)
        change += product @ self.covariance[:, :n, :n] + mixed.swapaxes(-1, -2)
        return self.kernel[:, m:n, :n] + product @ self.coupling[:, :n, :n], change


class Node(Layer):
    """One layer time."""

    def __init__(self, problems: int, size: int) -> None:
        super().__init__(problems, size)
        self.left, self.right = Side(problems, size, self.features), Side(problems, size, self.gradients)


class InfiniteChain(Chain):
    """Layer time in `equations.layers` steps."""

    def __init__(self, equations: Equations) -> None:
        super().__init__(equations)
        self.layers: list[Layer] = []
        self.nodes = [Node(equations.problems, equations.size) for _ in range(equations.layers + 1)]
        self.layers.extend(self.nodes)
        self.step = self.branch / equations.layers
        self.one = np.ones((equations.problems, 1, 1))

    def backward(self, m: int) -> tuple[Before, Row]:
        """Rows t of R_g and C_g at tau = 0."""
        n = m + self.outputs
        coupling = np.zeros((len(self.inputs), self.outputs, n))
        coupling[..., :m] = self._from_readout(m)
        self._arrive(self.nodes[-1], coupling, self.readout[:, m:n, :n], "right")
        for above, node in zip(self.nodes[:0:-1], self.nodes[-2::-1], strict=True):
            self._move(above, node, n, "right")
        return self.nodes[0].back[:, m:n, :m], self.nodes[0].gradients[:, m:n, :n]

    def forward(self, coupling: Row) -> None:
        """Row t of everything about h."""
        n = coupling.shape[-1]
        self._arrive(self.nodes[0], coupling, self.inputs[:, n - self.outputs : n, :n], "left")
        for below, node in zip(self.nodes[:-1], self.nodes[1:], strict=True):
            self._move(below, node, n, "left")

    def _arrive(self, node: Node, coupling: Row, covariance: Row, direction: str) -> None:
        """Row t at one layer time, once its coupling and covariance are known."""
        n, c = coupling.shape[-1], self.outputs
        side: Side = getattr(node, direction)
        side.put(coupling, covariance)
        A, B = node.left.covariance, node.right.covariance
        if direction == "left":
            response, row = node.forward(coupling, A, B, self.one, c)
        else:
            back, row = node.backward(coupling[..., : n - c], A, B, self.one, c)
            response = np.concatenate([back, np.zeros((*back.shape[:-1], c))], axis=-1)
        put_row(side.kernel, self._learned(response, row, n - c))

    def _move(self, here: Node, there: Node, n: int, direction: str) -> None:
        """Heun's step from one layer time to the next."""
        m, c = n - self.outputs, self.outputs
        names = (direction, "right" if direction == "left" else "left")
        start, across = (getattr(here, name) for name in names)
        end, opposite = (getattr(there, name) for name in names)
        first = start.slope(across, n, c)
        begin = start.coupling[:, m:n, :n], start.covariance[:, m:n, :n]
        coupling, covariance = (x + self.step * dx for x, dx in zip(begin, first, strict=True))
        self._arrive(there, coupling, covariance, direction)
        second = end.slope(opposite, n, c)
        coupling, covariance = (x + self.step / 2 * (a + b) for x, a, b in zip(begin, first, second, strict=True))
        self._arrive(there, coupling, covariance, direction)
