"""Infinitely wide networks as scikit-learn estimators.

| question | answer |
|---|---|
| regression with error bars, by a kernel that stands still | `KernelRegressor` |
| classification with probabilities, by such a kernel | `KernelClassifier` |
| regression by a network that learns features | `FeatureLearningRegressor` |
| classification by a network that learns features | `FeatureLearningClassifier` |

`widefield.KernelRegressor` works too; scikit-learn is imported when one of them is first used.
"""

from typing import TYPE_CHECKING

from ..base.lazy import load_when_used

if TYPE_CHECKING:
    from .classifier import KernelClassifier as KernelClassifier
    from .feature_classifier import FeatureLearningClassifier as FeatureLearningClassifier
    from .feature_regressor import FeatureLearningRegressor as FeatureLearningRegressor
    from .regressor import KernelRegressor as KernelRegressor
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
