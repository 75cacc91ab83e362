"""The hidden layers: responses and correlations of h^l and g^l, one row of time after the other.

At one neuron the fields are coupled linearly, from the left by h^l = a + Gamma g^l and from the right by
g^l = b + Lambda h^l, with independent Gaussian a and b of covariance A and B:

    dh/da = P_h = (1 - Gamma Lambda)^-1 = 1 + Gamma R_g       dg/db = P_g = (1 - Lambda Gamma)^-1 = 1 + Lambda R_h
    dh/db = R_h = Gamma P_g                                   dg/da = R_g = Lambda P_h
    C_h = P_h A P_h' + R_h B R_h'                             C_g = P_g B P_g' + R_g A R_g'

Between layers l and l + 1 (eta, gamma: learning rate, richness; rho: ratio of widths; beta: branch)

    K_h^l = beta^2 (R_h^l + gamma low(C_h^l) eta)             K_g^l = rho beta^2 (R_g^{l+1} + gamma low(C_g^{l+1}) eta)

where low() is the part before the diagonal (BP25 eqs. (65), (72)-(74)). Without skip connections Gamma^{l+1} = K_h^l,
A^{l+1} = C_h^l, Lambda^l = K_g^l, B^l = rho C_g^{l+1}; Lambda is strictly causal, so that row t of all g follows from
earlier rows (layers downwards), and after the input row t of all h (layers upwards). O(L T^3) time, O(L T^2) memory.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from .equations import Equations

Row = Float[Floats, "b c n"]
"""Row t of a matrix for every problem: the outputs at t, and columns up to t."""

Before = Float[Floats, "b c m"]
"""The same with the columns before t, m = n - c."""


def transposed(matrix: Floats) -> Floats:
    """The last two axes exchanged, as a view."""
    return matrix.swapaxes(-1, -2)


def put_row(matrix: Floats, row: Floats) -> None:
    """Write the last rows of a growing matrix."""
    n, c = row.shape[-1], row.shape[-2]
    matrix[..., n - c : n, :n] = row


def put_symmetric(matrix: Floats, row: Floats) -> None:
    """Write the last rows and columns of a growing symmetric matrix."""
    put_row(matrix, row)
    n, c = row.shape[-1], row.shape[-2]
    matrix[..., :n, n - c : n] = transposed(row)


def with_identity(row: Floats, outputs: int) -> Floats:
    """A row before the diagonal, and 1 on it."""
    diagonal = np.broadcast_to(np.eye(outputs), (*row.shape[:-1], outputs))
    return np.concatenate([row, diagonal], axis=-1)


def quadratic(row: Floats, middle: Floats, matrix: Floats, n: int) -> Floats:
    """Row t of F S F', columns up to n, from row t of F."""
    m = row.shape[-1]
    return np.asarray((row @ middle[..., :m, :m]) @ transposed(matrix[..., :n, :m]))


class Layer:
    """One hidden layer: P_h, R_h, R_g, P_g, C_h and C_g."""

    def __init__(self, problems: int, size: int) -> None:
        arrays = np.zeros((6, problems, size, size))
        self.from_left, self.from_right, self.back, self.resolvent, self.features, self.gradients = arrays

    def backward(
        self, coupling: Before, left: Floats, right: Floats, scale: Floats, outputs: int
    ) -> tuple[Before, Row]:
        """Row t of R_g and C_g from row t of Lambda (columns before t); A is `left`, B `scale` times `right`."""
        m = coupling.shape[-1]
        n = m + outputs
        back = coupling @ self.from_left[:, :m, :m]
        resolvent = with_identity(coupling @ self.from_right[:, :m, :m], outputs)
        self.back[:, m:n, :m] = back
        put_row(self.resolvent, resolvent)
        row = scale * quadratic(resolvent, right, self.resolvent, n) + quadratic(back, left, self.back, n)
        put_symmetric(self.gradients, row)
        return back, row

    def forward(self, coupling: Row, left: Floats, right: Floats, scale: Floats, outputs: int) -> tuple[Row, Row]:
        """Row t of R_h and C_h from row t of Gamma (columns up to t)."""
        n = coupling.shape[-1]
        from_left = coupling @ self.back[:, :n, :n]
        from_left[..., n - outputs :] += np.eye(outputs)
        from_right = coupling @ self.resolvent[:, :n, :n]
        put_row(self.from_left, from_left)
        put_row(self.from_right, from_right)
        row = quadratic(from_left, left, self.from_left, n)
        row += scale * quadratic(from_right, right, self.from_right, n)
        put_symmetric(self.features, row)
        return from_right, row


class Chain:
    """All hidden layers of networks without skip connections. `inputs` is C_h^0, which somebody else fills."""

    def __init__(self, equations: Equations) -> None:
        problems, size, outputs = equations.problems, equations.size, equations.outputs
        self.equations, self.outputs = equations, outputs
        self.layers = [Layer(problems, size) for _ in range(equations.layers)]
        self.inputs = np.zeros((problems, size, size))
        readout = np.tile(np.eye(outputs), (equations.times, equations.times))
        self.readout = np.broadcast_to(readout, (problems, size, size))
        rates = np.concatenate([equations.rates, np.zeros((problems, 1))], axis=1)
        self.drive = (equations.richness[:, None] * np.repeat(rates, outputs, axis=1))[:, None, :]
        """gamma eta of every column."""
        self.branch = equations.branch[:, None, None]
        ones = np.ones((problems, 1))
        self.steepness = np.concatenate([equations.steepness, ones], axis=1).T[:, :, None, None]
        """rho_l of layer l; 1 below the readout."""

    def backward(self, m: int) -> tuple[Before, Row]:
        """Rows t of R_g^1 and C_g^1; m rows are earlier."""
        coupling = self._from_readout(m)
        for index in reversed(range(len(self.layers))):
            left, right = self._neighbours(index)
            back, row = self.layers[index].backward(coupling, left, right, self.steepness[index], self.outputs)
            if index:
                coupling = self.steepness[index - 1] * self._learned(back, row, m)
        return back, row

    def forward(self, coupling: Row) -> None:
        """Row t of all R_h and C_h from row t of Gamma^1."""
        m = coupling.shape[-1] - self.outputs
        for index, layer in enumerate(self.layers):
            left, right = self._neighbours(index)
            from_right, row = layer.forward(coupling, left, right, self.steepness[index], self.outputs)
            coupling = self._learned(from_right, row, m)

    def _from_readout(self, m: int) -> Before:
        """Lambda^L = gamma eta, for every output its own readout."""
        sums = np.tile(np.eye(self.outputs), (1, m // self.outputs))
        return np.asarray(self.drive[..., :m] * sums)

    def _neighbours(self, index: int) -> tuple[Floats, Floats]:
        """A and B / rho."""
        left = self.layers[index - 1].features if index else self.inputs
        right = self.layers[index + 1].gradients if index + 1 < len(self.layers) else self.readout
        return left, right

    def _learned(self, response: Float[Floats, "b c k"], correlation: Row, m: int) -> Float[Floats, "b c k"]:
        """R + gamma low(C) eta."""
        row = response.copy()
        row[..., :m] += self.drive[..., :m] * correlation[..., :m]
        return np.asarray(row)
