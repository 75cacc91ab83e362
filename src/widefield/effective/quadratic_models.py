"""Nearly-kernel machines: models that are quadratic in their parameters, to first order in how quadratic they are.

    z_i(x; W) = sum_j W_ij phi_j(x) + (eps / 2) sum_jk W_ij W_ik psi_jk(x)            PDLT eq. (11.105)

Effective features phi_j + eps sum_k W_ik psi_kj move while W is learned: the least that representation learning can be.
With the kernel k = sum phi phi, the meta kernel mu_012 = eps sum psi_jk(0) phi_j(1) phi_k(2), u = k^-1 y and
Pi[X_x] = X_x - k_xA k^-1 X_A,

    z_x = k_xA u + Pi[ mu_x12 u_1 u_2 / 2 + mu_1x2 C_12 ]

whatever the algorithm, which decides about C alone (PDLT eqs. (11.124)-(11.142), corrected): there are many solutions
that fit the training samples, and at first order in eps they differ.

| algorithm | C | what it is |
|---|---|---|
| "direct" | 0 | W in the span of the training features, PDLT eq. (11.132) |
| "trained kernel" | u u^T / 2 | prediction with half of the first and half of the last kernel, PDLT eq. (11.142) |
| "ridge" | u u^T | smallest W, the limit of a vanishing penalty |
| "descent" | (1 - eta h_a) / (h_a h_ab) y_a y_b in modes of k | gradient descent from W = 0; flow without a rate |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..data.samples import column
from .training_paths import Descent

ALGORITHMS = ("direct", "trained kernel", "ridge", "descent")


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """Features and meta features of some samples, the training samples first."""

    features: Float[Floats, "d j"]
    """phi."""

    meta_features: Float[Floats, "d j j"]
    """psi, symmetric in the last two."""

    strength: float = 1.0
    """eps."""

    @classmethod
    def of(cls, features: ArrayLike, meta_features: ArrayLike, strength: float = 1.0) -> QuadraticModel:
        """Check shapes and symmetry."""
        phi, psi = check.array("features", features, ndim=2), check.array("meta_features", meta_features, ndim=3)
        if psi.shape != (*phi.shape, phi.shape[1]):
            raise InvalidInput(
                f"meta_features has shape {psi.shape}; for features of shape {phi.shape} it must be "
                f"{(*phi.shape, phi.shape[1])}"
            )
        if not np.allclose(psi, psi.transpose(0, 2, 1)):
            raise InvalidInput("meta_features must be symmetric in its last two axes")
        return cls(phi, psi, check.number("strength", strength))

    @property
    def kernel(self) -> Float[Floats, "d d"]:
        """k, PDLT eq. (10.127)."""
        return np.asarray(self.features @ self.features.T)

    @property
    def meta_kernel(self) -> Float[Floats, "d d d"]:
        """mu, PDLT eq. (11.124): symmetric in its last two samples."""
        phi = self.features
        return np.asarray(self.strength * np.einsum("xjk,aj,bk->xab", self.meta_features, phi, phi, optimize=True))

    def outputs(self, W: Float[Floats, "i j"]) -> Float[Floats, "d i"]:
        """z_i, PDLT eq. (11.105)."""
        bent = np.einsum("ij,xjk,ik->xi", W, self.meta_features, W, optimize=True)
        return np.asarray(self.features @ W.T + self.strength / 2 * bent)

    def effective_features(self, W: Float[Floats, "i j"]) -> Float[Floats, "d i j"]:
        """dz_i / dW_ij, PDLT eq. (11.107)."""
        moved = np.einsum("ik,xkj->xij", W, self.meta_features)
        return np.asarray(self.features[:, None, :] + self.strength * moved)

    def direct(self, y: ArrayLike) -> Float[Floats, "i j"]:
        """W* = W^F + W^I of direct optimisation to first order in the span of the training features, PDLT (11.115).

        W^F is linear regression with the pseudo-inverse, and W^I = -(eps/2) sum W^F W^F psi phi M^-1.
        """
        targets = column("y", check.array("y", y))
        phi = self.features[: len(targets)]
        inverse = np.linalg.pinv(phi)  # (features, training samples)
        first = (inverse @ targets).T
        bent = np.einsum("ij,xjk,ik->xi", first, self.meta_features[: len(targets)], first, optimize=True)
        return np.asarray(first - self.strength / 2 * (inverse @ bent).T)


def nearly_kernel_prediction(
    kernel: ArrayLike, meta_kernel: ArrayLike, y: ArrayLike, *, algorithm: str = "descent", learning_rate: float = 0.0
) -> Float[Floats, "q i"]:
    """Outputs at the samples after the training samples, to first order in the meta kernel.

    >>> phi, psi = [[1.0, 1.0], [1.0, 0.0]], [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]
    >>> model = QuadraticModel.of(phi, psi)
    >>> [nearly_kernel_prediction(model.kernel, model.meta_kernel, [2.0], algorithm=each).item() for each in ALGORITHMS]
    [1.75, 2.0, 2.25, 2.0]

    Args:
        kernel: k over all samples, training samples first.
        meta_kernel: mu_012 over all samples.
        y: targets of the training samples, (samples,) or (samples, outputs).
        algorithm: see the table above.
        learning_rate: eta of "descent" on sum (z - y)^2 / 2; 0 is gradient flow.
    """
    targets, k, mu = _checked(kernel, meta_kernel, y)
    known = len(targets)
    h, modes = np.linalg.eigh(k[:known, :known])
    descent = Descent.of(h, learning_rate if algorithm == "descent" else 0.0)
    inverse = (modes / h) @ modes.T
    u = inverse @ targets
    both = np.einsum("ai,bi->abi", u, u)
    if check.choice("algorithm", algorithm, ALGORITHMS) == "descent":
        rotated = modes.T @ targets
        C = np.einsum("pa,qb,ab,ai,bi->pqi", modes, modes, descent.projectors.A, rotated, rotated, optimize=True)
    else:
        C = {"direct": 0.0, "trained kernel": 0.5, "ridge": 1.0}[algorithm] * both
    a = slice(known)
    found = np.einsum("xpq,pqi->xi", mu[:, a, a], both) / 2 + np.einsum("pxq,pqi->xi", mu[a, :, a], C)
    weights = k[known:, a] @ inverse
    return np.asarray(weights @ targets + found[known:] - weights @ found[:known])


def effective_kernel(kernel: ArrayLike, meta_kernel: ArrayLike, y: ArrayLike) -> Float[Floats, "i d d"]:
    """k^E_ii of the trained model of every output: k_12 + sum_a (mu_12a + mu_21a) u_a, PDLT eq. (11.138).

    Half of it and half of the first kernel make the trained kernel, PDLT eq. (11.140).
    """
    targets, k, mu = _checked(kernel, meta_kernel, y)
    known = len(targets)
    moved = np.einsum("xya,ai->ixy", mu[:, :, :known], np.linalg.solve(k[:known, :known], targets))
    return np.asarray(k + moved + moved.transpose(0, 2, 1))


def _checked(kernel: ArrayLike, meta_kernel: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats, Floats]:
    targets = column("y", check.array("y", y))
    k, mu = check.array("kernel", kernel, ndim=2), check.array("meta_kernel", meta_kernel, ndim=3)
    count = len(k)
    if k.shape != (count, count) or mu.shape != (count,) * 3 or len(targets) > count:
        raise InvalidInput(
            f"kernel has shape {k.shape}, meta_kernel {mu.shape} and y {len(targets)} rows; they must be (d, d), "
            "(d, d, d) and at most d"
        )
    return targets, k, mu
