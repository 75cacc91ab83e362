"""Regression with networks of infinite width that learn features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from ..problem.losses import SquaredError
from .feature_learning import FeatureLearningModel


class FeatureLearningRegressor(RegressorMixin, FeatureLearningModel):  # type: ignore[misc]
    """Regression with the prediction of an infinitely wide network that is trained, and learns features.

    The network (`widefield.MLP`, mean-field parameterisation) is trained by gradient descent on the squared loss, and
    its width is infinite: what comes out is the limit that wide networks of the same richness tend to (dynamical mean
    field theory, BP22 eq. (10)). Near richness 0 it is kernel regression with the NTK that is stopped after some steps;
    the richer, the more its features turn towards the targets.

    X and y are standardised inside, with means and deviations of the training samples: every column of X to mean 0 and
    deviation 1, y to mean 0 and size 1. Predictions come back in the units of y. `standardise=False` takes both as they
    are.

    New samples are pushed through the trained network after training, each for itself: a prediction does not depend on
    what else is predicted. The limit is represented by `replicas` independent solutions with `particles` neurons in a
    layer. `return_std` is the standard error of their mean: how far the prediction may be from that of infinite width
    by chance of the solution (directions that are too weak to be followed change kernels by another 1.5% or so). It is
    neither the noise of the data nor a scatter over initialisations: at infinite width there is none, all of them
    predict the same. For a deviation that says where data are missing take `KernelRegressor`.

    With `early_stopping` a part of the samples is held out, the loss of that part is looked at about 50 times on the
    way, and the network of the best step is kept. It is not trained again on all samples.

    >>> x = np.linspace(-2.0, 2.0, 12)[:, None]
    >>> model = FeatureLearningRegressor(richness=1.0).fit(x, 5 + np.sin(2 * x[:, 0]))
    >>> mean, error = model.predict([[0.7], [-1.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - 5 - np.sin([1.4, -2.0])) < 0.3)), bool(np.all(error < 0.1))
    (True, True)

    Args:
        network: a `widefield.MLP`; its fields are parameters, `network__richness` and so on. Or leave it out, and give
            fields by their plain names:
        hidden_layers: depth; None is 1, which takes seconds for 100 samples; two take five times as long.
        activation: None is "tanh"; networks of "relu" have more directions to follow, and are dearer if they are deep.
        weight_variances: of the weights before training, one number or one for each layer of weights; None is 1.
        bias_variances: of the biases before training; None is 0.1.
        train_biases: whether biases learn; None is True.
        richness: gamma_0; None is 1.
        learning_rate: a number, or "auto": a quarter of the largest rate at which the network trains
            (`widefield.stable_rate`). At half of it, which `widefield.SGD` takes, some networks amplify chance.
        steps: of gradient descent on all samples.
        early_stopping: hold out a part of the samples, and keep the network of the step that predicts it best.
        validation_fraction: which part.
        patience: end training after so many looks in a row at the part held out without a smaller loss; None never.
        standardise: whether X and y are standardised inside.
        particles: neurons that represent a layer; None finds out.
        replicas: independent solutions, of which the prediction is the mean.
        random_state: seed of the part held out and of the replicas.
        verbose: whether to show progress.

    Attributes:
        network_: what was trained.
        learning_rate_: at which rate.
        best_step_: after how many steps; the last, without early stopping.
        validation_steps_, validation_loss_: steps at which the part held out was looked at, and its loss a sample, in
            the units of standardised targets; only with early stopping.
        particles_: how many there were.
        scaling_: means and factors of inputs and targets.
        trained_: the trained replicas.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit samples (rows of X) and targets y, one column for each output if there are several."""
        x, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        targets = targets.astype(np.float64)
        self._shape = targets.shape[1:]
        self._fit(x, targets.reshape(len(targets), -1), SquaredError(), scaled=True)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Outputs in the shape of the targets; on request also their standard errors (see the class)."""
        mean, error = self._outputs(X)
        shape = (len(mean), *self._shape)
        if not return_std:
            return mean.reshape(shape)
        self._check_error()
        return mean.reshape(shape), error.reshape(shape)

    def __sklearn_tags__(self) -> Any:
        """Several outputs are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
