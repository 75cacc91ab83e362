"""Linear models and kernel methods: the same prediction from features, and from the kernel that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..data.samples import column


@dataclass(frozen=True, eq=False)
class LinearFit:
    """z_i = sum_j W_ij phi_j(x) with fitted weights (C, features)."""

    weights: Floats

    def __call__(self, features: ArrayLike) -> Floats:
        """Outputs (Q, C) for features (Q, features)."""
        return np.asarray(check.array("features", features, ndim=2) @ self.weights.T)


def linear_fit(features: ArrayLike, y: ArrayLike, *, penalty: float = 0.0) -> LinearFit:
    """Least squares, W = y^T Phi (Phi^T Phi + 2 a)^-1 with the penalty a |W|^2, PDLT eqs. (10.123), (10.124).

    At a = 0 the weights of smallest norm, which are the limit a -> 0 where there are more features than samples.
    `posterior(kernel, y, ridge=2 * a).mean` is the same with the kernel of the features (PDLT eq. (10.131)).

    >>> linear_fit([[1.0, 0.0], [1.0, 1.0]], [1.0, 3.0]).weights.round(12).tolist()
    [[1.0, 2.0]]
    """
    phi, targets = check.array("features", features, ndim=2), column("y", y)
    if len(phi) != len(targets):
        raise InvalidInput(f"features has {len(phi)} rows and y {len(targets)}: they need as many")
    a = check.number("penalty", penalty, least=0.0)
    if a == 0:
        return LinearFit(np.asarray(scipy.linalg.lstsq(phi, targets)[0].T))
    square = phi.T @ phi + 2 * a * np.eye(phi.shape[1])
    return LinearFit(np.asarray(scipy.linalg.solve(square, phi.T @ targets, assume_a="pos").T))


def kernel_of_features(features: ArrayLike, features2: ArrayLike | None = None, *, weights: Any = None) -> Floats:
    """k = sum_ij c_ij phi_i(x) phi_j(x2), PDLT eqs. (10.127), (10.136); `weights` c is a matrix, a vector or 1.

    >>> kernel_of_features([[1.0, 2.0]], [[0.0, 1.0]], weights=[1.0, 3.0]).tolist()
    [[6.0]]
    """
    left = check.array("features", features, ndim=2)
    right = left if features2 is None else check.array("features2", features2, ndim=2)
    c = np.ones(left.shape[1]) if weights is None else check.array("weights", weights)
    if left.shape[1] != right.shape[1] or c.shape not in ((left.shape[1],), (left.shape[1],) * 2):
        raise InvalidInput(f"features {left.shape}, features2 {right.shape} and weights {c.shape} do not fit together")
    return np.asarray(left * c @ right.T if c.ndim == 1 else left @ c @ right.T)


def gaussian_kernel(x: ArrayLike, x2: ArrayLike | None = None, *, length: float = 1.0) -> Floats:
    """exp(-|x - x2|^2 / (2 length^2)), PDLT eq. (10.133).

    >>> gaussian_kernel([[0.0]], [[1.0]]).round(6).tolist()
    [[0.606531]]
    """
    left, given = check.inputs(x, x2)
    right = left if given is None else given
    squares = np.sum((left[:, None] - right[None]) ** 2, axis=-1)
    return np.asarray(np.exp(-squares / (2 * check.number("length", length, above=0.0) ** 2)))
