"""Up to which learning rate training with a fixed kernel is stable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..problem.losses import Loss
from .static import StaticKernel

if TYPE_CHECKING:
    from ..problem.problem import Problem

_ROUNDING = 1e-9
"""What is smaller, relative to the largest entry or eigenvalue, is nothing."""

_DENSE = 1500
"""Up to this size a matrix is diagonalised as a whole; of larger ones only the largest eigenvalue is looked for."""


@dataclass(frozen=True)
class KernelLimit:
    """The largest stable learning rate of a linear model, and the eigenvalue of kernel times curvature that sets it."""

    rate: float
    eigenvalue: complex


def largest_stable(eigenvalue: complex, momentum: float = 0.0) -> float:
    """The largest eta for which f <- f + eta Q, Q <- m Q - (1 - m) mu f does not grow.

    The roots of z^2 - (1 + m - eta (1 - m) mu) z + m lie within the unit circle (Schur and Cohn) for

        eta < 2 (1 - m^2) Re mu / [(1 - m)^2 (Re mu)^2 + (1 + m)^2 (Im mu)^2],

    2 / mu for real mu without momentum, 2 (1 + m) / [(1 - m) mu] with it. No rate is stable if Re mu < 0 (0 is
    returned), or for Re mu = 0 and Im mu != 0; every one is for mu = 0.

    >>> largest_stable(4.0), round(largest_stable(4.0, momentum=0.5), 3), largest_stable(1 + 1j)
    (0.5, 1.5, 1.0)
    """
    real, imaginary = complex(eigenvalue).real, complex(eigenvalue).imag
    if real == imaginary == 0:
        return math.inf
    m = momentum
    return max(0.0, 2 * (1 - m**2) * real / (((1 - m) * real) ** 2 + ((1 + m) * imaginary) ** 2))


def kernel_limit(problem: Problem, ntk: Floats | None = None) -> KernelLimit:
    """The largest learning rate at which a linear model with the tangent kernel K of the start is stable.

    Outputs near a fixed point obey d f = -eta K H d f, with H the second derivative of the loss by the outputs of
    every sample, weights of samples included: for K H with eigenvalues mu, and weight decay lambda (that of the layer
    with the largest rate, an upper bound, if layers have rates of their own), the rate is the smallest
    of `largest_stable`(mu + lambda), over those with Re mu > 0: others drift away at any rate, and set no limit to it.
    This is exact for squared loss in the lazy limit, which grows beyond all bounds above it. Of losses whose curvature
    changes, H is that of outputs of zero, where training begins, or of outputs equal to the targets if that is larger.
    Minibatches enter by the mean over them.

    Args:
        problem: what is trained; its rule must have a static kernel unless `ntk` is given.
        ntk: K of df/dt = K Delta, (P, P) if it is the same for every output, or (P C, P C); None is that of infinite
            width. It need not be symmetric.
    """
    samples, optimiser = problem.samples, problem.optimiser
    kernel = StaticKernel.of(problem)(samples.x).ntk if ntk is None else np.asarray(ntk)
    batch = getattr(optimiser, "batch_size", None) or samples.samples
    weight = problem.loss.weight(batch) * batch / samples.samples
    momentum, decay = (float(getattr(optimiser, name, 0.0)) for name in ("momentum", "weight_decay"))
    rates = optimiser.layer_rates(problem.network)
    decay *= max(map(float, (*rates.weights, *rates.biases)))
    starts = (np.zeros_like(samples.y), samples.y)
    found = [
        value + decay
        for f in starts
        for value in _extremes(kernel, weight * loss_curvature(problem.loss, f, samples.y))
    ]
    worst = min(found, key=lambda value: largest_stable(value, momentum))
    return KernelLimit(largest_stable(worst, momentum), worst)


def loss_curvature(loss: Loss, outputs: Floats, targets: Floats) -> Float[Floats, "p c c"]:
    """d^2 loss / df_c df_d of every sample."""

    def one(f: Any, y: Any) -> Any:
        return -jax.jacfwd(lambda f: loss.error(f[None], y[None])[0])(f)

    with double_precision():
        return np.asarray(jax.vmap(one)(jnp.asarray(outputs), jnp.asarray(targets)))


def _extremes(kernel: Floats, curvature: Float[Floats, "p c c"]) -> list[complex]:
    """Eigenvalues of K H that may limit the rate: the largest if K is symmetric, else all with a positive real part."""
    samples, outputs = curvature.shape[:2]
    if len(kernel) == samples and _is_symmetric(kernel):
        if (curvature == curvature[0]).all():  # eigenvalues of a product of independent indices are products
            return [complex(_largest(kernel) * np.linalg.eigvalsh(curvature[0])[-1])]
        return [complex(_largest_of_product(kernel, _roots(curvature)))]
    full = np.kron(kernel, np.eye(outputs)) if len(kernel) == samples else kernel
    blocks = np.zeros((samples, outputs, samples, outputs))
    blocks[np.arange(samples), :, np.arange(samples)] = curvature
    values = np.linalg.eigvals(full @ blocks.reshape(full.shape))
    return [complex(value) for value in values if value.real > _ROUNDING * np.abs(values).max()] or [0j]


def _is_symmetric(kernel: Floats) -> bool:
    size = float(np.abs(kernel).max(initial=0.0))
    return bool(np.allclose(kernel, kernel.T, rtol=0.0, atol=_ROUNDING * size))


def _largest(matrix: Any) -> float:
    """The largest eigenvalue of a symmetric matrix, or operator."""
    if isinstance(matrix, np.ndarray) and len(matrix) <= _DENSE:
        return float(np.linalg.eigvalsh(matrix)[-1])
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _largest_of_product(kernel: Floats, root: Float[Floats, "p c c"]) -> float:
    """Of H^(1/2) K H^(1/2), where K acts on samples and H^(1/2) on outputs."""
    from scipy.sparse.linalg import LinearOperator

    samples, outputs = root.shape[:2]
    size = samples * outputs
    if size <= _DENSE:
        return _largest(np.einsum("pab,pq,qbc->paqc", root, kernel, root).reshape(size, size))

    def product(vector: Floats) -> Floats:
        moved = kernel @ np.einsum("pcd,pd->pc", root, vector.reshape(samples, outputs))
        return np.asarray(np.einsum("pcd,pd->pc", root, moved).reshape(-1))

    return _largest(LinearOperator((size, size), matvec=product, dtype=np.float64))


def _roots(curvature: Float[Floats, "p c c"]) -> Float[Floats, "p c c"]:
    """Square roots of the matrices of a convex loss."""
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray(np.einsum("pik,pk,pjk->pij", vectors, np.sqrt(np.maximum(values, 0.0)), vectors))
