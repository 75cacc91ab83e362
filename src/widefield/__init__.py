"""Predict what wide neural networks do, from a few neurons to infinite width, and check it on real networks."""

from . import activations, data, kernels, plots
from ._version import __version__
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
from .theories import FiniteWidth, GradientIndependence, InfiniteWidth, Lazy, Perturbative, Theory
from .trajectory import Trajectory

__all__ = [
    "MLP",
    "SGD",
    "Cosine",
    "Data",
    "DirectFeedbackAlignment",
    "Diverged",
    "FeedbackAlignment",
    "FileProblem",
    "FiniteWidth",
    "GatedLinear",
    "GradientDescent",
    "GradientFlow",
    "GradientIndependence",
    "Hebb",
    "Huber",
    "InfiniteWidth",
    "Interrupted",
    "InvalidInput",
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
    "UnknownName",
    "WidefieldError",
    "__version__",
    "activations",
    "data",
    "kernels",
    "plots",
    "solve",
]
