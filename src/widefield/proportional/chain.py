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

from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from .equations import Equations
from .growing import put_row, put_symmetric, times_lower, times_upper

Floats = NDArray[np.float64]
Row = Float[Floats, "b c n"]
Source = tuple[Floats | float, Floats | None]
"""A covariance: a factor and a matrix, or None for what is the same at all times and independent in every output."""


def quadratic(row: Floats, middle: Floats, matrix: Floats, n: int) -> Floats:
    """Row t of F S F', columns up to n, from row t of F."""
    m = row.shape[-1]
    return times_upper(row @ middle[..., :m, :m], matrix, n)


class Coupled:
    """Two fields, h = a + Gamma g and g = b + Lambda h: their responses to the sources a and b.

    `h` holds dh/da and dh/db column by column in turn, `g` dg/da and dg/db, so that a row meets both in one product.
    """

    def __init__(self, problems: int, size: int, outputs: int) -> None:
        self.h, self.g = np.zeros((2, problems, size, 2 * size))
        self.one = np.eye(outputs)

    def add_g(self, coupling: Row) -> Float[Floats, "b c 2*n"]:
        """Row t of g from row t of Lambda (columns before t)."""
        b, c, m = coupling.shape
        row = np.zeros((b, c, 2 * (m + c)))
        row[..., : 2 * m] = times_lower(coupling, self.h)
        row[..., 2 * m + 1 :: 2] = self.one
        put_row(self.g, row)
        return row

    def add_h(self, coupling: Row) -> Float[Floats, "b c 2*n"]:
        """Row t of h from row t of Gamma (columns up to t)."""
        c, n = coupling.shape[-2:]
        row = times_lower(coupling, self.g)
        row[..., 2 * (n - c) :: 2] += self.one
        put_row(self.h, row)
        return row


def correlation(row: Float[Floats, "b c 2*n"], field: Floats, left: Source, right: Source) -> Row:
    """Row t of the covariance of a field, F_a A F_a' + F_b B F_b', from row t of its responses."""
    weighted = np.empty(row.shape)
    for k, source in enumerate((left, right)):
        weighted[..., k::2] = _weighted(np.ascontiguousarray(row[..., k::2]), source)
    return times_upper(weighted, field, row.shape[-1] // 2)


def _weighted(row: Row, source: Source) -> Row:
    """A row times a covariance."""
    (factor, matrix), (c, n) = source, row.shape[-2:]
    if matrix is None:
        return np.asarray(factor * np.tile(row.reshape(*row.shape[:-1], n // c, c).sum(axis=-2), n // c))
    return np.asarray(factor * (row @ matrix[..., :n, :n]))


class Layer(Coupled):
    """One hidden layer: P_h, R_h, R_g, P_g, C_h and C_g."""

    def __init__(self, problems: int, size: int, outputs: int) -> None:
        super().__init__(problems, size, outputs)
        self.features, self.gradients = np.zeros((2, problems, size, size))

    @property
    def from_right(self) -> Floats:
        """R_h."""
        return self.h[..., 1::2]

    @property
    def back(self) -> Floats:
        """R_g."""
        return self.g[..., 0::2]

    def backward(self, coupling: Row, left: Source, right: Source) -> tuple[Row, Row]:
        """Row t of R_g and C_g from row t of Lambda (columns before t)."""
        responses = self.add_g(coupling)
        row = correlation(responses, self.g, left, right)
        put_symmetric(self.gradients, row)
        return responses[..., : 2 * coupling.shape[-1] : 2], row

    def forward(self, coupling: Row, left: Source, right: Source) -> tuple[Row, Row]:
        """Row t of R_h and C_h from row t of Gamma (columns up to t)."""
        responses = self.add_h(coupling)
        row = correlation(responses, self.h, left, right)
        put_symmetric(self.features, row)
        return responses[..., 1::2], row


class Chain:
    """All hidden layers of networks without skip connections. `inputs` is C_h^0, which somebody else fills."""

    def __init__(self, equations: Equations) -> None:
        problems, size, outputs = equations.problems, equations.size, equations.outputs
        self.equations, self.outputs = equations, outputs
        self.layers = [Layer(problems, size, outputs) for _ in range(equations.layers)]
        self.inputs = np.zeros((problems, size, size))
        rates = np.concatenate([equations.rates, np.zeros((problems, 1))], axis=1)
        self.drive = (equations.richness[:, None] * np.repeat(rates, outputs, axis=1))[:, None, :]
        """gamma eta of every column."""
        self.branch = equations.branch[:, None, None]
        ones = np.ones((problems, 1))
        self.steepness = np.concatenate([equations.steepness, ones], axis=1).T[:, :, None, None]
        """rho_l of layer l; 1 below the readout."""

    @cached_property
    def readout(self) -> Floats:
        """The covariance of the readout: the same at all times, independent in every output."""
        times = self.equations.times
        return np.broadcast_to(np.tile(np.eye(self.outputs), (times, times)), self.inputs.shape)

    def backward(self, m: int) -> tuple[Row, Row]:
        """Rows t of R_g^1 and C_g^1; m rows are earlier."""
        coupling = self._from_readout(m)
        for index in reversed(range(len(self.layers))):
            back, row = self.layers[index].backward(coupling, *self._neighbours(index))
            if index:
                coupling = self.steepness[index - 1] * self._learned(back, row, m)
        return back, row

    def forward(self, coupling: Row) -> None:
        """Row t of all R_h and C_h from row t of Gamma^1."""
        m = coupling.shape[-1] - self.outputs
        for index, layer in enumerate(self.layers):
            from_right, row = layer.forward(coupling, *self._neighbours(index))
            coupling = self._learned(from_right, row, m)

    def _from_readout(self, m: int) -> Row:
        """Lambda^L = gamma eta, for every output its own readout."""
        sums = np.tile(np.eye(self.outputs), (1, m // self.outputs))
        return np.asarray(self.drive[..., :m] * sums)

    def _neighbours(self, index: int) -> tuple[Source, Source]:
        """A and B."""
        left = self.layers[index - 1].features if index else self.inputs
        right = self.layers[index + 1].gradients if index + 1 < len(self.layers) else None
        return (1.0, left), (self.steepness[index], right)

    def _learned(self, response: Row, correlation: Row, m: int) -> Row:
        """R + gamma low(C) eta."""
        row = response.copy()
        row[..., :m] += self.drive[..., :m] * correlation[..., :m]
        return np.asarray(row)
