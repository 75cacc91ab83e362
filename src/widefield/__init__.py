"""Predict what wide neural networks do, from a few neurons to infinite width, and check it on real networks."""

from typing import TYPE_CHECKING, Any

from . import activations, data, effective, kernels, plots, proportional, two_layer
from ._version import __version__
from .crosschecking import crosscheck
from .data import Data
from .errors import Diverged, FileProblem, Interrupted, InvalidInput, NotAccurate, UnknownName, WidefieldError
from .flow import GradientFlow
from .losses import Huber, Logistic, Loss, SoftmaxCrossEntropy, SquaredError
from .network import MLP
from .optimisers import SGD
from .problem import Problem
from .record import Record
from .rules import (
    DirectFeedbackAlignment,
    FeedbackAlignment,
    GatedLinear,
    GradientDescent,
    Hebb,
    LearningRule,
)
from .schedules import Cosine, Piecewise, PowerDecay
from .solving import solve
from .theories import (
    AlternatingMonteCarlo,
    ClosedLinear,
    FiniteWidth,
    Fluctuations,
    GradientIndependence,
    InfiniteWidth,
    Lazy,
    Perturbative,
    Theory,
    TwoLayer,
)
from .trajectory import Trajectory

if TYPE_CHECKING:
    from .estimators import KernelClassifier, KernelRegressor

__all__ = [
    "MLP",
    "SGD",
    "AlternatingMonteCarlo",
    "ClosedLinear",
    "Cosine",
    "Data",
    "DirectFeedbackAlignment",
    "Diverged",
    "FeedbackAlignment",
    "FileProblem",
    "FiniteWidth",
    "Fluctuations",
    "GatedLinear",
    "GradientDescent",
    "GradientFlow",
    "GradientIndependence",
    "Hebb",
    "Huber",
    "InfiniteWidth",
    "Interrupted",
    "InvalidInput",
    "KernelClassifier",
    "KernelRegressor",
    "Lazy",
    "LearningRule",
    "Logistic",
    "Loss",
    "NotAccurate",
    "Perturbative",
    "Piecewise",
    "PowerDecay",
    "Problem",
    "Record",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "Theory",
    "Trajectory",
    "TwoLayer",
    "UnknownName",
    "WidefieldError",
    "__version__",
    "activations",
    "crosscheck",
    "data",
    "effective",
    "kernels",
    "plots",
    "proportional",
    "solve",
    "two_layer",
]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used: scikit-learn takes a while to import."""
    if name not in ("KernelClassifier", "KernelRegressor", "estimators"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    estimators = importlib.import_module(".estimators", __name__)
    return estimators if name == "estimators" else getattr(estimators, name)
