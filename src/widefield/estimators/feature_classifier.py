"""Classification with networks of infinite width that learn features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..problem.losses import Logistic, SoftmaxCrossEntropy
from .feature_learning import FeatureLearningModel


class FeatureLearningClassifier(ClassifierMixin, FeatureLearningModel):  # type: ignore[misc]
    """Classification with the prediction of an infinitely wide network that is trained, and learns features.

    Two classes: one output f, targets -1 and +1, the logistic loss log(1 + exp(-y f)); p = 1 / (1 + exp(-f)). More
    classes: one output f_c each, the cross-entropy of softmax(f). The predicted class is the most probable one.
    Everything else, and all parameters and attributes, are those of `FeatureLearningRegressor`; X is standardised
    inside, and the part that early stopping holds out has the same shares of classes.

    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = FeatureLearningClassifier(learning_rate=0.02, steps=100).fit(x, np.where(x[:, 0] > 0, "right", "left"))
    >>> print(model.predict([[1.0, 0.0], [-1.0, 0.5]]))
    ['right' 'left']

    Args:
        network: see `FeatureLearningRegressor`, as for all others.
        hidden_layers: depth; None is 1.
        activation: None is "tanh".
        weight_variances: None is 1.
        bias_variances: None is 0.1.
        train_biases: None is True.
        richness: gamma_0; None is 1.
        learning_rate: a number, or "auto".
        steps: of gradient descent.
        early_stopping: hold out a part of the samples, and keep the network of the best step.
        validation_fraction: which part.
        patience: looks without a smaller loss.
        standardise: whether X is standardised inside.
        particles: None finds out.
        replicas: of which the prediction is the mean.
        random_state: seed.
        verbose: whether to show progress.

    Attributes:
        classes_: labels in the order of outputs.
        network_, learning_rate_, best_step_, validation_steps_, validation_loss_, particles_, scaling_, trained_: see
            `FeatureLearningRegressor`.
    """

    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Fit samples (rows of X) and their labels."""
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise InvalidInput(
                f"all {len(labels)} labels are {str(self.classes_[0])!r}, 1 class: training needs at least two classes"
            )
        if count == 2:
            self._fit(x, 2.0 * index[:, None] - 1.0, Logistic(), scaled=False, strata=index)
        else:
            self._fit(x, np.eye(count)[index], SoftmaxCrossEntropy(), scaled=False, strata=index)
        return self

    def predict(self, X: Any) -> Any:
        """The most probable labels."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Outputs f (sample,) of two classes, f_c (sample, class) of more; on request also their standard errors.

        These are errors of the solution of infinite width, see `FeatureLearningRegressor`, no uncertainty of labels.
        """
        found = self._outputs(X)
        outputs, errors = (part[:, 0] if len(self.classes_) == 2 else part for part in found)
        if not return_std:
            return outputs
        self._check_error()
        return outputs, errors

    def predict_proba(self, X: Any) -> Floats:
        """Probability of every class (sample, class): that of the loss, at the outputs of infinite width."""
        outputs, _ = self._outputs(X)
        if len(self.classes_) == 2:
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
        return np.asarray(scipy.special.softmax(outputs, axis=1))
