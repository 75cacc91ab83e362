"""Predictions with a fixed kernel: Bayesian inference, and ensembles of lazily trained networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.renamed import renamed
from ..data.samples import column
from ..gaussian.roots import ROUNDING


@dataclass(frozen=True)
class Blocks:
    """A kernel over P training and Q test samples."""

    train: Floats
    """(P, P)"""

    cross: Floats
    """(Q, P)"""

    test: Floats
    """(Q, Q)"""

    def __post_init__(self) -> None:
        """Check that the shapes fit and that the kernel is symmetric and finite."""
        for name in ("train", "cross", "test"):
            put(self, **{name: check.array(name, getattr(self, name), ndim=2)})
        p, q = len(self.train), len(self.test)
        if self.train.shape != (p, p) or self.test.shape != (q, q) or self.cross.shape != (q, p):
            shapes = f"train {self.train.shape}, cross {self.cross.shape}, test {self.test.shape}"
            raise InvalidInput(f"kernel blocks have shapes {shapes}; they must be (P, P), (Q, P) and (Q, Q)")
        for name in ("train", "test"):
            _symmetric(name, getattr(self, name))

    @classmethod
    def of(cls, kernel: Callable[..., Any], x: ArrayLike, x_test: ArrayLike) -> Blocks:
        """Evaluate kernel(a, b) -> array on all pairs of training and test inputs."""
        return cls(kernel(x, x), kernel(x_test, x), kernel(x_test, x_test))


@dataclass(frozen=True)
class Prediction:
    """Gaussian outputs at the test samples: `mean` (Q, C), and the `covariance` (Q, Q) of each output."""

    mean: Floats
    covariance: Floats

    @property
    def deviation(self) -> Floats:
        """Standard deviation of every test output."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def squared_error(self, targets: ArrayLike) -> tuple[float, float]:
        """Bias and variance of the expected loss 1/2 sum (f - y)^2, PDLT eq. (10.52)."""
        y = column("targets", targets)
        if y.shape != self.mean.shape:
            raise InvalidInput(f"targets has shape {y.shape}; the prediction has shape {self.mean.shape}")
        variance = 0.5 * y.shape[1] * float(np.trace(self.covariance))
        return 0.5 * float(np.sum((self.mean - y) ** 2)), variance


@renamed(noise="ridge")
def posterior(kernel: Blocks, y: ArrayLike, *, ridge: float = 0.0) -> Prediction:
    """Exact Bayesian inference with a Gaussian process prior and noise of variance `ridge` on the targets.

        mean = k (K + ridge)^-1 y        covariance = k_test - k (K + ridge)^-1 k^T

    PDLT eqs. (6.64), (6.57), there for ridge = 0; the covariance is that of f, without the noise.
    """
    targets, factor = _targets(kernel.train, y), factorised(kernel.train, ridge)
    half = scipy.linalg.solve_triangular(factor, kernel.cross.T, lower=True)
    mean = half.T @ scipy.linalg.solve_triangular(factor, targets, lower=True)
    return Prediction(mean, kernel.test - half.T @ half)


@renamed(noise="ridge")
def log_evidence(train: ArrayLike, y: ArrayLike, *, ridge: float = 0.0) -> float:
    """Log marginal likelihood of the targets, sum over outputs of log N(y; 0, K + ridge), PDLT section 6.3."""
    kernel = check.array("train", train, ndim=2)
    _symmetric("train", kernel)
    return evidence(factorised(kernel, ridge), _targets(kernel, y))


def evidence(factor: Floats, y: Floats) -> float:
    """Sum over outputs of log N(y; 0, F F^T), for a lower triangular factor F."""
    half = scipy.linalg.solve_triangular(factor, y, lower=True, check_finite=False)
    determinant = 2 * float(np.sum(np.log(np.diag(factor))))
    constant = len(y) * math.log(2 * math.pi)
    return -0.5 * (float(np.sum(half**2)) + int(y.shape[1]) * (determinant + constant))


def trained(
    nngp: Blocks,
    ntk: Blocks,
    y: ArrayLike,
    *,
    time: float = math.inf,
    learning_rate: float | None = None,
    ridge: float = 0.0,
) -> Prediction:
    """Outputs over an ensemble of lazy networks that were trained with the squared loss (sum over samples).

    Every network obeys f(t) = f(0) + A (y - f(0)) with A = k_ntk F(K_ntk), so that with f(0) ~ N(0, nngp)

        mean = A y        covariance = k_test - A k^T - k A^T + A K A^T        (PDLT eqs. (10.40), (10.41))

    F(K) is [1 - exp(-(K + ridge) t)] / (K + ridge) for gradient flow up to `time`, and
    [1 - (1 - eta (K + ridge))^n] / (K + ridge) for n = time / eta steps of `learning_rate` eta; `ridge` penalises
    |theta - theta(0)|^2 / 2. At time = inf this is kernel regression, along the directions that can be learned.
    """
    targets = _targets(ntk.train, y)
    if nngp.train.shape != ntk.train.shape or nngp.test.shape != ntk.test.shape:
        raise InvalidInput(f"nngp has shape {nngp.cross.shape} and ntk {ntk.cross.shape}: they need the same samples")
    operator = response(ntk, time=time, learning_rate=learning_rate, ridge=ridge)
    shared = operator @ nngp.cross.T
    covariance = nngp.test - shared - shared.T + operator @ nngp.train @ operator.T
    return Prediction(operator @ targets, covariance)


def response(ntk: Blocks, *, time: float = math.inf, learning_rate: float | None = None, ridge: float = 0.0) -> Floats:
    """A = k_ntk F(K_ntk), (Q, P): what the targets, and minus the first outputs, add to test outputs; see `trained`."""
    values, vectors = spectrum(ntk.train)
    filtered = learned(values, time, learning_rate=learning_rate, ridge=check.number("ridge", ridge, least=0.0))
    return np.asarray((ntk.cross @ vectors) * filtered @ vectors.T)


def learned(values: Floats, time: float, *, learning_rate: float | None = None, ridge: float = 0.0) -> Floats:
    """F of an eigenvalue: integrated error of a mode with target 1, see `trained`."""
    if not time >= 0:
        raise InvalidInput(f"time = {time!r} must be at least 0 (inf: until nothing changes any more)")
    rates = values + ridge
    safe = np.where(rates > 0, rates, 1.0)
    if learning_rate is not None:
        eta = check.number("learning_rate", learning_rate, above=0.0)
        if math.isinf(time) and values.max(initial=0.0) + ridge >= 2 / eta:
            limit = 2 / (values.max() + ridge)
            raise InvalidInput(f"learning_rate = {eta:g} diverges: the kernel's largest eigenvalue needs < {limit:.4g}")
        if not math.isinf(time):
            found = np.where(rates > 0, _reached(eta * rates, _whole(time, eta)) / safe, time)
            if not np.all(np.isfinite(found)):
                raise InvalidInput(f"learning_rate = {eta:g} diverges by time = {time:g}: reduce one of them")
            return found
    if math.isinf(time):
        return np.asarray(np.where(rates > 0, 1 / safe, 0.0))
    return np.asarray(np.where(rates > 0, -np.expm1(-rates * time) / safe, time))


def spectrum(kernel: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (rounding set to zero) and eigenvectors of a kernel; an error if it is not positive."""
    values, vectors = scipy.linalg.eigh(kernel)
    floor = ROUNDING * len(values) * float(np.abs(values).max(initial=0.0))
    if values.min(initial=0.0) < -1e4 * floor - 1e-300:
        raise InvalidInput(f"the kernel is not positive semidefinite: its smallest eigenvalue is {values.min():.3g}")
    return np.where(values > floor, values, 0.0), vectors


def _symmetric(name: str, block: Floats) -> None:
    square = block.shape[0] == block.shape[1]
    if not square or not np.allclose(block, block.T, rtol=1e-8, atol=1e-10 * np.abs(block).max(initial=0.0)):
        raise InvalidInput(f"the kernel block {name} of shape {block.shape} is not symmetric")


def _targets(train: Floats, y: ArrayLike) -> Floats:
    targets = column("y", y)
    if len(targets) != len(train):
        raise InvalidInput(f"y has {len(targets)} rows; the kernel has {len(train)} training samples")
    return targets


def factorised(train: Floats, ridge: float) -> Floats:
    """Lower Cholesky factor of the kernel of the training samples plus `ridge`."""
    variance = check.number("ridge", ridge, least=0.0)
    try:
        return np.asarray(np.linalg.cholesky(train + variance * np.eye(len(train))))
    except np.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(train).min())
        raise InvalidInput(
            f"ridge = {ridge:g} is too small: the kernel of the training samples is singular (smallest eigenvalue "
            f"{smallest:.3g}), because of duplicate samples or too simple a network; try ridge = 1e-6 of its diagonal"
        ) from None


def _reached(change: Floats, steps: int) -> Floats:
    """1 - (1 - change)^steps, to full precision where it is small."""
    slow = np.minimum(change, 0.5)
    with np.errstate(over="ignore"):
        fast = 1 - (1 - change) ** steps
    return np.asarray(np.where(change <= 0.5, -np.expm1(steps * np.log1p(-slow)), fast))


def _whole(time: float, eta: float) -> int:
    steps = round(time / eta)
    if abs(steps * eta - time) > 1e-6 * max(eta, time):
        raise InvalidInput(f"time = {time:g} is not a whole number of steps of learning_rate = {eta:g}")
    return steps
