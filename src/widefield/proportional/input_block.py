"""The first weights and the data: errors v of the predictor, errors Delta on the training set, and their gradient h^0.

For modes with eigenvalues lambda and multiplicities m (isotropic data: one mode, lambda = m = 1), BP25 eqs. (18)-(19),
(65) and (89)-(94):

    M   = taper (R_g^1 / gamma + low(C_g^1) eta)           H_k = (1 + lambda_k M R_D)^-1,   h = sum_k m_k lambda_k H_k
    R_D = (1 + h M / P)^-1                                 1 if every step sees fresh samples
    S_j = sum_k m_k lambda_k^j H_k (w_k^2 11' + q + lambda_k d) H_k'
    q   = taper C_g^1 / (nu gamma^2),                      d = M D M' / P
    C_v = S_1,  C_D = R_D (C_v + sigma^2 11') R_D'         D: C_D, or its diagonal for fresh samples
    C_h^0 = R_D S_2 R_D' + (tr D - N - N') / P             N = R_D (sum_k m_k lambda_k^2 H_k) M D
    Gamma^1 = -R_D h / (nu gamma) + gamma low(C_h^0) eta

and tr = sum_k m_k lambda_k. If the initial predictor is subtracted, q loses its values at time 0 and R_D h the sum of
its row from the first column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Floats
from .chain import Before, Row, put_row, put_symmetric, quadratic, transposed, with_identity
from .equations import Equations


@dataclass(frozen=True, eq=False)
class LossParts:
    """Losses at one time, and the parts of the test loss (BP25 eq. (13)); each (problems,).

    `growth` is sum_s |H(t, s)|, by which perturbations of the errors of the past have grown, weighted like the bias.
    """

    train: Floats
    bias: Floats
    width_variance: Floats
    data_variance: Floats
    growth: Floats


class InputBlock:
    """Rows of the matrices above; `inputs` is C_h^0."""

    def __init__(self, equations: Equations, inputs: Floats) -> None:
        problems, size, modes = equations.problems, equations.size, len(equations.eigenvalues)
        self.equations, self.inputs, self.outputs = equations, inputs, equations.outputs
        self.weights = equations.multiplicities * equations.eigenvalues
        self.H = np.zeros((problems, modes, size, size))
        self.kept = np.zeros((problems, modes, size, self.outputs))
        """H_k 1: what is left of the target in every mode."""
        arrays = np.zeros((10, problems, size, size))
        self.M, self.h, self.h2, self.R, self.Rh2, self.q, self.d, self.noisy, self.D, self.MD = arrays
        self.S2 = np.zeros((problems, size, size))
        self.first = np.zeros((problems, self.outputs, size))
        """Rows of C_g^1 at time 0."""
        self.rates = np.repeat(equations.rates, self.outputs, axis=1)[:, None, :]
        self.richness, self.narrow, self.taper, self.scarce, self.sigma2 = (
            getattr(equations, name)[:, None, None] for name in ("richness", "narrow", "taper", "scarce", "noise")
        )

    def step(self, back: Before, gradients: Row) -> tuple[Row, LossParts]:
        """Row t of Gamma^1 (and of C_h^0) from rows t of R_g^1 and C_g^1."""
        n, c = gradients.shape[-1], self.outputs
        m = n - c
        M = self.taper * (back / self.richness + self.rates[..., :m] * gradients[..., :m])
        self.M[:, m:n, :m] = M
        self._transfer(M @ self.R[:, :m, :m])
        put_symmetric(self.q, self.taper * self.narrow / self.richness**2 * self._centred(gradients))
        put_symmetric(self.d, self.scarce * quadratic(M, self.D, self.M, n))
        bias, width, data, S1 = self._errors(m, n)
        R = self._response(m, n)
        put_symmetric(self.noisy, S1 + self.sigma2 * np.tile(np.eye(c), (1, n // c)))
        D = quadratic(R, self.noisy, self.R, n)
        train = np.trace(D[..., m:], axis1=-2, axis2=-1)
        if self.equations.online:
            D[..., :m] = 0.0
        put_symmetric(self.D, D)
        covariance = self._gradient(R, D, m, n)
        put_symmetric(self.inputs, covariance)
        coupling = -self.narrow / self.richness * self._without_start(R @ self.h[:, :n, :n])
        coupling[..., :m] += self.richness * self.rates[..., :m] * covariance[..., :m]
        return coupling, LossParts(train, bias, width, data, self._growth(m, n))

    def _transfer(self, MR: Before) -> None:
        """Row t of H_k, of sums over modes and of H_k 1."""
        m, c = MR.shape[-1], self.outputs
        n = m + c
        eigenvalues = self.equations.eigenvalues[:, None, None]
        row = with_identity(-eigenvalues * (MR[:, None] @ self.H[..., :m, :m]), c)
        put_row(self.H, row)
        put_row(self.h, np.einsum("k,bkcn->bcn", self.weights, row))
        put_row(self.h2, np.einsum("k,bkcn->bcn", self.weights * self.equations.eigenvalues, row))
        self.kept[..., m:n, :] = row.reshape(*row.shape[:-1], n // c, c).sum(axis=-2)

    def _errors(self, m: int, n: int) -> tuple[Floats, Floats, Floats, Row]:
        """Bias, variances over networks and over data at time t; row t of S_1. Row t of S_2 is kept."""
        eigenvalues, row = self.equations.eigenvalues, self.H[..., m:n, :n]
        target = self.kept[..., m:n, :] @ self.equations.gram
        bias = target @ transposed(self.kept[..., :n, :])
        width = row @ self.q[:, None, :n, :n]
        data = eigenvalues[:, None, None] * (row @ self.d[:, None, :n, :n])
        both = (width + data) @ transposed(self.H[..., :n, :n]) + bias
        put_symmetric(self.S2, np.einsum("k,bkcn->bcn", self.weights * eigenvalues, both))
        parts = [np.einsum("k,bkcn,bkcn->b", self.weights, part, row) for part in (width, data)]
        start = np.einsum("k,bkcc->b", self.weights, bias[..., m:])
        return start, parts[0], parts[1], np.einsum("k,bkcn->bcn", self.weights, both)

    def _growth(self, m: int, n: int) -> Floats:
        sums = np.abs(self.H[..., m:n, :n]).sum(axis=(-2, -1))
        sizes = np.trace(self.equations.gram, axis1=1, axis2=2)
        return np.asarray(np.sqrt(np.einsum("k,bk->b", self.weights * sizes, sums**2)))

    def _response(self, m: int, n: int) -> Row:
        """Row t of R_D."""
        row: Floats = np.zeros((len(self.R), self.outputs, m))
        if not self.equations.online:
            row = -self.scarce * (self.h[:, m:n, :n] @ self.M[:, :n, :m]) @ self.R[:, :m, :m]
        row = with_identity(row, self.outputs)
        put_row(self.R, row)
        return row

    def _gradient(self, R: Row, D: Row, m: int, n: int) -> Row:
        """Row t of C_h^0."""
        self.MD[:, m:n, :n] = self.M[:, m:n, :m] @ self.D[:, :m, :n]
        self.MD[:, :m, m:n] = self.M[:, :m, :m] @ self.D[:, :m, m:n]
        Rh2 = R @ self.h2[:, :n, :n]
        put_row(self.Rh2, Rh2)
        row, column = Rh2 @ self.MD[:, :n, :n], self.Rh2[:, :n, :n] @ self.MD[:, :n, m:n]
        noise = self.weights.sum() * D - row - transposed(column)
        return np.asarray(quadratic(R, self.S2, self.R, n) + self.scarce * noise)

    def _centred(self, gradients: Row) -> Row:
        """C_g^1, or that of g^1(t) - g^1(0)."""
        n, c = gradients.shape[-1], self.outputs
        if not self.equations.centred:
            return gradients
        self.first[..., n - c : n] = gradients[..., :c].swapaxes(-1, -2)
        start = np.tile(gradients[..., :c] - self.first[..., :c], (1, n // c))
        return np.asarray(gradients - self.first[..., :n] - start)

    def _without_start(self, row: Row) -> Row:
        """Multiply from the right by what subtracts the values at time 0."""
        if not self.equations.centred:
            return row
        c = self.outputs
        row[..., :c] -= row.reshape(*row.shape[:-1], -1, c).sum(axis=-2)
        return row
