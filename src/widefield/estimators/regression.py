"""Regression with a fixed kernel on many samples: one Cholesky factor, and predictions a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..base.arrays import Floats
from ..base.errors import SingularKernel
from ..kernels.prediction import evidence
from .covariance import Pair, Source

_ENTRIES = 2**22
"""Of a block of the kernel between new and training samples."""


@dataclass(frozen=True)
class Regression:
    """Gaussian outputs at new samples, with a matrix A that is linear in the targets: mean = A y, A = k (K + ridge)^-1.

    Bayesian inference (K is the covariance of the outputs before training, `prior` is None), PDLT eqs. (6.64), (6.57):

        covariance = k_test - A k^T

    Ensembles of lazily trained networks (K is the NTK, `prior` the NNGP kernel N of the training samples and n that
    of new and training samples), PDLT eqs. (10.40), (10.41):

        covariance = n_test - A n^T - n A^T + A N A^T
    """

    source: Source
    samples: Floats
    factor: Floats
    """Cholesky factor of K + ridge."""

    coefficients: Floats
    """(K + ridge)^-1 y."""

    prior: Floats | None
    log_evidence: float

    def mean(self, x: Floats) -> Floats:
        """(sample, output)."""
        return np.concatenate([pair.kernel @ self.coefficients for _, pair in self._parts(x)])

    def moments(self, x: Floats) -> tuple[Floats, Floats]:
        """The mean, and the variance of every sample, the same for all outputs."""
        means, variances = [], []
        for part, pair in self._parts(x):
            left, right = self._reduction(pair)
            means.append(pair.kernel @ self.coefficients)
            variances.append(self.source.diagonal(part) - np.sum(left * right, axis=1))
        return np.concatenate(means), np.maximum(np.concatenate(variances), 0.0)

    def covariance(self, x: Floats) -> Floats:
        """Between all new samples, the same for all outputs."""
        left, right = self._reduction(self.source(x, self.samples))
        product = left @ right.T
        return np.asarray(self.source(x).prior - (product + product.T) / 2)

    def _parts(self, x: Floats) -> Iterator[tuple[Floats, Pair]]:
        rows = max(1, _ENTRIES // len(self.samples))
        for start in range(0, len(x), rows):
            part = x[start : start + rows]
            yield part, self.source(part, self.samples)

    def _reduction(self, pair: Pair) -> tuple[Floats, Floats]:
        """Two factors; the symmetric part of their product is what training takes off the covariance."""
        if self.prior is None:
            half = scipy.linalg.solve_triangular(self.factor, pair.kernel.T, lower=True, check_finite=False).T
            return half, half
        operator = scipy.linalg.cho_solve((self.factor, True), pair.kernel.T, check_finite=False).T
        return operator, 2 * pair.prior - operator @ self.prior


def fit(source: Source, x: Floats, y: Floats, ridge: float) -> Regression:
    """Regress the targets y (sample, output)."""
    pair = source(x)
    prior = None if pair.prior is pair.kernel else pair.prior
    factor = factorised(pair.kernel, ridge)
    coefficients = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
    return Regression(source, x.copy(), factor, coefficients, prior, evidence(factor, y))


def factorised(kernel: Floats, ridge: float) -> Floats:
    """Lower Cholesky factor of kernel + ridge, in the memory of the kernel."""
    scale = float(np.diag(kernel).max())
    kernel[np.diag_indices(len(kernel))] += ridge
    try:
        factor = scipy.linalg.cholesky(kernel.T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise _singular(ridge, len(kernel), scale) from None
    # Of a singular matrix rounding may leave a tiny pivot, and the coefficients are then noise.
    if float(np.diag(factor).min()) ** 2 <= 1e-15 * len(kernel) * (scale + ridge):
        raise _singular(ridge, len(kernel), scale)
    return np.asarray(factor)


def _singular(ridge: float, samples: int, scale: float) -> SingularKernel:
    return SingularKernel(
        f"ridge = {ridge:g} is too small: the kernel of the {samples} training samples is singular, because of "
        f"duplicate samples or too simple a network; try ridge = {1e-6 * scale if scale > 0 else 1e-6:.2g}"
    )
