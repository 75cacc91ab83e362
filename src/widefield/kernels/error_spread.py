"""Generalisation error over an ensemble of networks: bias and variance, and how it differs from network to network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..data.samples import column
from ..problem.losses import Loss
from .prediction import Prediction
from .stability import loss_curvature


def error_cumulants(prediction: Prediction, targets: ArrayLike, orders: int = 3) -> Floats:
    """Cumulants 1 .. `orders` of 1/2 sum (z - y)^2 over the networks of an ensemble, exact at infinite width.

    Outputs are N(m_i, Sigma), independent over i; with d_i = m_i - y_i,

        kappa_r = (r-1)!/2 {C tr Sigma^r + r sum_i d_i^T Sigma^(r-1) d_i},

    from log E exp(t L) = sum_i {-1/2 log|1 - t Sigma| + t/2 d_i^T (1 - t Sigma)^-1 d_i}. The first is PDLT eq. (10.52),
    bias and variance; the second, the spread of the error, needs the covariance between test samples. The mean over
    Q samples has kappa_r / Q^r.

    >>> error_cumulants(Prediction(np.array([[1.0]]), np.array([[2.0]])), [0.0]).tolist()
    [1.5, 4.0, 20.0]
    """
    apart = prediction.mean - _checked(prediction, targets)
    total, power = [], np.eye(len(apart))
    for r in range(1, check.integer("orders", orders, least=1) + 1):
        pulled = r * float(np.einsum("qi,qp,pi->", apart, power, apart))
        power = power @ prediction.covariance
        total.append(math.factorial(r - 1) / 2 * (apart.shape[1] * float(np.trace(power)) + pulled))
    return np.array(total)


@dataclass(frozen=True)
class LossStatistics:
    """A test loss over networks: `bias` is that of the mean outputs, `spread` what the scatter of outputs adds."""

    bias: float
    spread: float
    variance: float
    """Of the loss, from network to network."""

    @property
    def mean(self) -> float:
        """Expected loss."""
        return self.bias + self.spread


def loss_statistics(prediction: Prediction, targets: ArrayLike, loss: Loss) -> LossStatistics:
    """Mean and variance of any loss over networks, to second order in the covariance (PDLT eq. (10.55)).

        mean = L(m) + 1/2 tr(H Sigma)        variance = g^T Sigma g + 1/2 tr(H Sigma H Sigma)

    with slopes g and second derivatives H of the loss at the mean outputs; both are exact for the squared loss. Weights
    of samples (`reduction`) are included.
    """
    y, m = _checked(prediction, targets), prediction.mean
    weight = loss.weight(max(1, len(m)))
    with double_precision():
        bias = float(loss.total(jnp.asarray(m), jnp.asarray(y)))
        g = weight * np.asarray(jax.grad(lambda f: jnp.sum(loss.value(f, jnp.asarray(y))))(jnp.asarray(m)))
    H, S = weight * loss_curvature(loss, m, y), prediction.covariance
    spread = 0.5 * float(np.einsum("qii,qq->", H, S))
    pairs = np.einsum("qij,pji->qp", H, H)
    variance = float(np.einsum("qi,qp,pi->", g, S, g)) + 0.5 * float(np.sum(pairs * S**2))
    return LossStatistics(bias, spread, variance)


def _checked(prediction: Prediction, targets: ArrayLike) -> Floats:
    y = column("targets", targets)
    if y.shape != prediction.mean.shape:
        raise InvalidInput(f"targets has shape {y.shape}; the prediction has shape {prediction.mean.shape}")
    return y
