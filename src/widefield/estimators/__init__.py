"""Infinitely wide networks as scikit-learn estimators.

| question | answer |
|---|---|
| regression with error bars | `KernelRegressor` |
| classification with probabilities | `KernelClassifier` |

`widefield.KernelRegressor` works too; scikit-learn is imported when one of them is first used.
"""

from .classifier import KernelClassifier
from .regressor import KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
