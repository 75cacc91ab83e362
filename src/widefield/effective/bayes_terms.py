"""The order 1/n of Bayesian inference: what the scatter of the output's metric does to posterior and evidence.

Given the last hidden layer, outputs are independent N(0, Ghat), with E[Ghat] = K + shift and Cov(Ghat, Ghat) = V
(PDLT eqs. (4.69), (4.70), (4.76); shift = G^{1} / n, and V is over n too). The likelihood N(y; 0, Ghat + noise) is
expanded to second order in Ghat - K. With a, b, c, d among the N training samples and delta among all

    M = K_AA + noise        phi_i = M^-1 y_i        S = sum_i phi_i phi_i^T - n_L M^-1        P = 1 - K_DA M^-1 R_A

where R_A picks columns of the training samples (PDLT section 6.4; noise, any outputs and the evidence are not printed
there).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from jaxtyping import Float

from ..base.arrays import Floats
from ..gaussian.sample_pairs import Pairs


@dataclass(frozen=True, eq=False)
class Terms:
    """Orders 1/n over all samples, of which the first `len(y)` are observed.

    V is kept over unordered pairs; nothing has four sample indices but blocks that the answer needs.
    """

    kernel: Float[Floats, "p p"]
    shift: Float[Floats, "p p"]
    covariance: Float[Floats, "q q"]
    pairs: Pairs
    factor: Float[Floats, "a a"]
    """Lower Cholesky factor of M."""

    y: Float[Floats, "a i"]

    @property
    def outputs(self) -> int:
        """n_L."""
        return int(self.y.shape[1])

    @cached_property
    def inverse(self) -> Float[Floats, "a a"]:
        """M^-1, which the formulas contract with V."""
        return self._solve(np.eye(len(self.y)))

    @cached_property
    def phi(self) -> Float[Floats, "a i"]:
        """M^-1 y."""
        return self._solve(self.y)

    @cached_property
    def surprise(self) -> Float[Floats, "a a"]:
        """S: zero on average over targets that the prior draws."""
        return np.asarray(self.phi @ self.phi.T - self.outputs * self.inverse)

    @cached_property
    def projector(self) -> Float[Floats, "p p"]:
        """P: what observing the training samples leaves of every sample's own fluctuation."""
        found = np.eye(len(self.kernel))
        found[:, : len(self.y)] -= self._solve(self.kernel[: len(self.y)]).T
        return found

    @cached_property
    def pulled(self) -> Float[Floats, "p p"]:
        """V_(delta delta')(cd) S^cd."""
        return self._whole(self.surprise)

    @cached_property
    def exchanged(self) -> Float[Floats, "p p"]:
        """V_(delta b)(c delta') M^bc."""
        return np.asarray(np.einsum("dbec,bc->de", self.with_observed, self.inverse, optimize=True))

    @cached_property
    def with_observed(self) -> Float[Floats, "p a p a"]:
        """V_(delta a)(delta' b) with a and b observed."""
        number = self.pairs.matrix(np.arange(len(self.pairs), dtype=np.float64)).astype(np.intp)[:, : len(self.y)]
        return np.asarray(self.covariance[number[:, :, None, None], number[None, None]])

    def log_evidence(self) -> float:
        """Order 1/n of log p(y):

        1/2 S^ab shift_ab + 1/8 S^ab S^cd V_(ab)(cd) + n_L/4 M^ab M^cd V_(bc)(da)
            - 1/2 sum_i phi_i^a phi_i^d M^bc V_(ab)(cd)
        """
        seen = slice(len(self.y))
        linear = 0.5 * self.shift[seen, seen] + 0.125 * self.pulled[seen, seen]
        matrix = 0.25 * self.outputs * self.inverse - 0.5 * self.phi @ self.phi.T
        return float(np.sum(linear * self.surprise) + np.sum(matrix * self.exchanged[seen, seen]))

    def mean(self) -> Float[Floats, "p i"]:
        """Order 1/n of E[f_i]: P {shift phi_i + 1/2 V_(delta a)(cd) phi_i^a S^cd - V_(delta b)(cd) M^bc phi_i^d}.

        PDLT eq. (6.88) without inverse metrics of all samples.
        """
        seen = slice(len(self.y))
        inner = self.shift[:, seen] + 0.5 * self.pulled[:, seen] - self.exchanged[:, seen]
        return np.asarray(self.projector @ inner @ self.phi)

    def shared_covariance(self) -> Float[Floats, "p p"]:
        """The part of Cov[f_i, f_i] that is the same for all outputs, order 1/n.

        P {shift_{delta delta'} + 1/2 V_(delta delta')(cd) S^cd - V_(delta b)(c delta') M^bc} P^T
        """
        return np.asarray(self.projector @ (self.shift + 0.5 * self.pulled - self.exchanged) @ self.projector.T)

    def cross_covariance(self, i: int, k: int) -> Float[Floats, "p p"]:
        """P P' V_(delta a)(delta' b) phi_i^a phi_k^b: all of Cov[f_i, f_k], and for i = k the rest of the variance."""
        inner = np.einsum("daeb,a,b->de", self.with_observed, self.phi[:, i], self.phi[:, k], optimize=True)
        return np.asarray(self.projector @ inner @ self.projector.T)

    def _whole(self, matrix: Float[Floats, "a a"]) -> Float[Floats, "p p"]:
        """sum_cd V_(..)(cd) X^cd of a symmetric X over the training samples."""
        padded = np.zeros_like(self.kernel)
        padded[: len(self.y), : len(self.y)] = matrix
        weights = self.pairs.of(padded) * np.where(self.pairs.equal, 1.0, 2.0)
        return self.pairs.matrix(self.covariance @ weights)

    def _solve(self, right: Float[Floats, "a _"]) -> Floats:
        return np.asarray(scipy.linalg.cho_solve((self.factor, True), right))
