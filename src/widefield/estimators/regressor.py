"""Regression with infinitely wide networks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .base import KernelModel


class KernelRegressor(RegressorMixin, KernelModel):  # type: ignore[misc]
    """Regression with the NNGP kernel or the NTK of an infinitely wide network, or with a kernel of your own.

    With K the kernel of the training samples, k of new and training samples, and r the ridge,

        prediction = k (K + r)^-1 y

    What the prediction is, and what its deviation (`return_std`) means, depends on the kernel:

    - "nngp": exact Bayesian inference with the network as prior (PDLT eqs. (6.57), (6.64)), r the variance of the noise
      on targets. The deviation is that of the posterior of f: what is not known after the data have been seen.
    - "ntk": lazy networks (parameterisation "ntk", richness 1, not centred) trained until nothing changes with the
      squared loss and r |theta - theta(0)|^2 / 2. Prediction and deviation are those of the ensemble of their
      initialisations (PDLT eqs. (10.40), (10.41)): by how much networks scatter that are trained on the same data from
      other random weights. That is no posterior: where all of them err alike, it is small. Biases learn if
      `train_biases`.
    - a function: the covariance of a Gaussian process, used like "nngp".

    None of these has the noise of a new observation in it; `predict(X, return_std=True, with_noise=True)` adds it.

    A `width` n makes networks of this width the prior. The order 1/n of mean and deviation (PDLT section 6.4) is
    averaged over draws (`widefield.effective.drawn_posterior`), which leaves errors of a few percent of it for tens of
    samples, and of half of it for hundreds. It must be small, or there is a warning: it grows with samples times
    depth / n. For the NTK there is none: finite networks move it as they learn.

    Inputs enter as x . x' / D and targets have mean zero before training: standardise both (`StandardScaler`,
    `TransformedTargetRegressor`).

    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> model = KernelRegressor(kernel="nngp", ridge=1e-4).fit(x, np.sin(3 * x[:, 0]))
    >>> mean, deviation = model.predict([[0.3], [2.0]], return_std=True)
    >>> print(mean.round(2), deviation.round(2))
    [ 0.79 -2.06] [0.02 0.23]

    Args:
        network: a `widefield.MLP`. Its richness, widths, parameterisation and `centred` do not matter. Its fields are
            parameters, `network__hidden_layers` and so on. Or leave it out, and give fields by their plain names:
        hidden_layers: depth; None is 3. A grid search knows it as `kernelregressor__hidden_layers`.
        activation: None is "relu".
        weight_variances: of the weights before training, one number or one for each layer of weights; None is 2.
        bias_variances: of the biases; None is 0.1.
        train_biases: whether biases learn; None is True.
        kernel: "nngp", "ntk", or a function k(X1, X2) that returns an array (rows of X1, rows of X2).
        rule: a learning rule, such as `widefield.FeedbackAlignment()`, whose effective NTK "ntk" then is; None is
            gradient descent. Gated linear networks have an NNGP kernel of their own.
        width: of the hidden layers (times `network.width_ratios`); None is infinite. For "nngp": mean, deviation and
            evidence gain their order 1/n, outputs wire together and have deviations of their own. See below.
        ridge: r >= 0, in the units of the kernel.
        optimise: choose weight variances (one factor for all), bias variances (one factor) and the ridge so that the
            marginal likelihood N(y; 0, K + r) is largest, starting from the given ones; what is zero stays zero. K is
            the kernel of the regression also if that is the NTK: the prediction is the posterior mean of the Gaussian
            process with covariance K, whose likelihood it is. Of a function only the ridge is chosen. With a width the
            likelihood has its order 1/n, and is searched where that is small.
        restarts: of the search for the largest likelihood, from random values nearby.
        random_state: seed of these values.

    Attributes:
        network_: with the chosen variances; None for a kernel of your own.
        ridge_: the chosen ridge.
        log_evidence_: log marginal likelihood of the training targets, summed over outputs.
        regression_: Cholesky factor, coefficients and training samples; with a width `regression_.fitted` has the order
            1/n of the evidence, its error, and `expansion`, which says where to trust it.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit samples (rows of X) and targets y, one column for each output if there are several."""
        x, targets = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        targets = targets.astype(np.float64)
        self._shape = targets.shape[1:]
        self._fit(x, targets.reshape(len(targets), -1))
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, with_noise: bool = False) -> Any:
        """Outputs in the shape of the targets; on request also their deviations, or the covariance of the samples.

        Deviations have the shape of the prediction. The covariance (sample, sample) is the same for every output;
        with a width it is not, and several outputs give (sample, sample, output).
        With the kernel "ntk" they are over initialisations, else of the posterior (see the class). `with_noise` makes
        them those of a new observation y = f + noise: its variance, `ridge_`, is added to that of f. For
        "ntk" the ridge is the variance of the noise for which the prediction is the best linear one under K: choose it
        by `optimise=True`, or as what is known about the data, before reading it so.
        """
        x = self._checked(X)
        if return_std and return_cov:
            raise InvalidInput("return_std = True and return_cov = True: ask for one, deviations are in the covariance")
        if check.flag("with_noise", with_noise) and not (return_std or return_cov):
            raise InvalidInput("with_noise = True adds to deviations: ask for return_std or return_cov = True too")
        added = self.ridge_ if with_noise else 0.0
        if return_cov:
            covariance = self._covariance(x)
            own = np.eye(len(x)).reshape(len(x), len(x), *(1,) * (covariance.ndim - 2))
            return self.regression_.mean(x).reshape(len(x), *self._shape), covariance + added * own
        if not return_std:
            return self.regression_.mean(x).reshape(len(x), *self._shape)
        mean, variance = self.regression_.moments(x)
        variance = np.einsum("qii->qi", variance) if variance.ndim == 3 else variance[:, None]
        deviation = np.broadcast_to(np.sqrt(np.maximum(variance, 0.0) + added), mean.shape).copy()
        return mean.reshape(len(x), *self._shape), deviation.reshape(len(x), *self._shape)

    def _covariance(self, x: Floats) -> Floats:
        found = self.regression_.covariance(x)
        return found[:, :, 0] if found.ndim == 3 and not self._shape else found

    def __sklearn_tags__(self) -> Any:
        """Several outputs are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
