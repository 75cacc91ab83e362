"""Classification with infinitely wide networks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.special
from jaxtyping import Float
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..base.arrays import Floats
from ..gaussian.sobol import normals
from .base import KernelModel
from .finite_width import FiniteRegression

_NODES = np.arange(-8.0, 8.001, 0.25)
"""Of the trapezium rule, which is exact to rounding for functions that are as smooth as these."""

_SHARE = 0.9
"""Of the smallest eigenvalue of a covariance, that every output has for itself."""

_POINTS = 64
"""For what outputs have in common: little, so that few points are enough."""


class KernelClassifier(ClassifierMixin, KernelModel):  # type: ignore[misc]
    """Classification with the NNGP kernel or the NTK of an infinitely wide network, or with a kernel of your own.

    Output c regresses 1 - 1/C for samples of class c and -1/C for all others, as in `KernelRegressor`, whose parameters
    and attributes these are. The predicted class has the largest output. Outputs are independent and Gaussian, with
    means m_c and the same variance s^2 (plus that of the noise, the ridge, except for the NTK), so that

        p_c = P(output c is the largest) = int dz exp(-z^2 / 2) / sqrt(2 pi) prod_{c' != c} Phi(z + (m_c - m_c') / s)

    For the NTK, p_c is the fraction of networks in an ensemble of initialisations that choose class c: certain where
    all networks agree, which is not the same as being right.

    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> model = KernelClassifier(kernel="nngp", ridge=0.01).fit(x, np.where(np.abs(x[:, 0]) < 0.6, "in", "out"))
    >>> print(model.predict([[0.1], [0.9]]), model.predict_proba([[0.6]]).round(2))
    ['in' 'out'] [[0.76 0.24]]

    Args:
        network: see `KernelRegressor`, as for all others.
        hidden_layers: instead of a network, as `activation`, `weight_variances`, `bias_variances`, `train_biases`.
        kernel: "nngp", "ntk" or a function.
        rule: whose effective NTK.
        width: of the prior's networks. Outputs then have variances of their own and are correlated, with which the
            probabilities are those of a Gaussian.
        ridge: r >= 0.
        optimise: maximise the marginal likelihood of the outputs that are regressed.
        restarts: of the search.
        random_state: seed of the search.

    Attributes:
        classes_: labels in the order of outputs.
        network_, ridge_, log_evidence_, regression_: see `KernelRegressor`.
    """

    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Fit samples (rows of X) and their labels."""
        x, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        self._fit(x, np.eye(count)[index] - 1 / count)
        return self

    def predict(self, X: Any) -> Any:
        """Labels of the largest outputs."""
        x = self._checked(X)
        return self.classes_[np.argmax(self.regression_.mean(x), axis=1)]

    def decision_function(self, X: Any) -> Floats:
        """Outputs m_c (sample, class); of two classes d = (m_1 - m_0) / (sqrt(2) s) instead, for which p_1 = Phi(d)."""
        x = self._checked(X)
        if len(self.classes_) != 2:
            return self.regression_.mean(x)
        means, covariances = self._outputs(x)
        apart = covariances[:, 0, 0] + covariances[:, 1, 1] - 2 * covariances[:, 0, 1]
        return np.asarray((means[:, 1] - means[:, 0]) / _deviation(apart, means))

    def predict_proba(self, X: Any) -> Floats:
        """Probability that each output is the largest, (sample, class)."""
        x = self._checked(X)
        if isinstance(self.regression_, FiniteRegression):
            return largest_correlated(*self._outputs(x))
        means, covariances = self._outputs(x)
        return largest(means / _deviation(covariances[:, 0, 0], means)[:, None])

    def _outputs(self, x: Floats) -> tuple[Floats, Floats]:
        """Means (sample, class) and covariances (sample, class, class) of the outputs, noise included."""
        means, variance = self.regression_.moments(x)
        if isinstance(self.regression_, FiniteRegression):
            return means, variance + self.ridge_ * np.eye(means.shape[1])
        noise = self.ridge_ if self.regression_.prior is None else 0.0
        return means, (variance + noise)[:, None, None] * np.eye(means.shape[1])


def _deviation(variance: Floats, means: Floats) -> Floats:
    """At least a tiny fraction of the largest mean: it is zero where networks interpolate."""
    floor = 1e-10 * np.abs(means).max(axis=1) + 1e-300
    return np.asarray(np.maximum(np.sqrt(np.maximum(variance, 0.0)), floor))


def largest_correlated(means: Float[Floats, "q c"], covariances: Float[Floats, "q c c"]) -> Floats:
    """Probability that each of several Gaussians is the largest, from means and a covariance.

    Outputs are what is independent of each other, of a variance a little below the smallest eigenvalue, and the rest,
    which is averaged over Sobol points with their opposites.
    """
    values, vectors = np.linalg.eigh(covariances)
    alone = np.maximum(_SHARE * values[:, 0], (1e-10 * np.abs(means).max(axis=1) + 1e-300) ** 2)
    roots = vectors * np.sqrt(np.maximum(values - alone[:, None], 0.0))[:, None, :]
    points = normals(0, 0, means.shape[1], _POINTS)
    scale = 1 / np.sqrt(alone)[:, None]
    total = np.zeros_like(means)
    for point in np.concatenate([points.T, -points.T]):
        total += largest((means + roots @ point) * scale)
    return np.asarray(total / (2 * _POINTS))


def largest(means: Floats) -> Floats:
    """Probability that each of several independent Gaussians (columns) of unit variance is the largest."""
    weights = np.exp(-(_NODES**2) / 2)
    found = np.empty_like(means)
    rows = max(1, 2**20 // (means.shape[1] * len(_NODES)))
    for start in range(0, len(means), rows):
        part = means[start : start + rows]
        for column in range(part.shape[1]):
            lead = part[:, [column]] - np.delete(part, column, axis=1)
            logarithm = scipy.special.log_ndtr(_NODES[:, None, None] + lead).sum(axis=2)
            found[start : start + rows, column] = weights @ np.exp(logarithm)
    return np.asarray(found / found.sum(axis=1, keepdims=True))
