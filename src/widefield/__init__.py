"""Predict what wide neural networks do, from a few neurons to infinite width, and check it on real networks."""

from typing import TYPE_CHECKING, Any

from . import activations, data, effective, kernels, plots, proportional, two_layer
from .asking.crosschecking import crosscheck
from .asking.loading import load
from .asking.solving import solve
from .base.errors import Diverged, FileProblem, Interrupted, InvalidInput, NotAccurate, UnknownName, WidefieldError
from .base.version import __version__
from .data import Data
from .problem.gradient_flow import GradientFlow
from .problem.losses import Huber, Logistic, Loss, SoftmaxCrossEntropy, SquaredError
from .problem.network import MLP
from .problem.optimisers import SGD
from .problem.problem import Problem
from .problem.record import Record
from .problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, GradientDescent, Hebb, LearningRule
from .problem.schedules import Cosine, Piecewise, PowerDecay, Schedule
from .problem.theory import Theory
from .theories.alternating import AlternatingMonteCarlo
from .theories.closed_linear import ClosedLinear
from .theories.finite_width import FiniteWidth
from .theories.fluctuations import Fluctuations
from .theories.gradient_independence import GradientIndependence
from .theories.infinite_width import InfiniteWidth
from .theories.lazy import Lazy
from .theories.perturbative import Perturbative
from .theories.two_layer import TwoLayer
from .trajectory.trajectory import Trajectory

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
    "Schedule",
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
    "load",
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
