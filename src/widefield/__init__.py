"""Predict what wide neural networks do, from a few neurons to infinite width, and check it on real networks."""

from typing import TYPE_CHECKING

from .base.lazy import load_when_used

if TYPE_CHECKING:  # one line a public name; at run time each is imported when it is first used
    from . import activations as activations
    from . import data as data
    from . import effective as effective
    from . import kernels as kernels
    from . import plots as plots
    from . import proportional as proportional
    from . import two_layer as two_layer
    from .asking.applicable import applicable as applicable
    from .asking.best_rates import LearningRates as LearningRates
    from .asking.best_rates import best_rate as best_rate
    from .asking.comparison import Comparison as Comparison
    from .asking.comparison import compare as compare
    from .asking.crosschecking import Crosscheck as Crosscheck
    from .asking.crosschecking import crosscheck as crosscheck
    from .asking.loading import load as load
    from .asking.solving import solve as solve
    from .asking.stable_rates import StableRate as StableRate
    from .asking.stable_rates import stable_rate as stable_rate
    from .base import cache as cache
    from .base.errors import Diverged as Diverged
    from .base.errors import FileProblem as FileProblem
    from .base.errors import Interrupted as Interrupted
    from .base.errors import InvalidInput as InvalidInput
    from .base.errors import NotAccurate as NotAccurate
    from .base.errors import NotSaved as NotSaved
    from .base.errors import Stopped as Stopped
    from .base.errors import UnknownName as UnknownName
    from .base.errors import UnusualScale as UnusualScale
    from .base.errors import WidefieldError as WidefieldError
    from .base.result import Result as Result
    from .base.session import Session as Session
    from .base.version import __version__ as __version__
    from .data import Data as Data
    from .data import DataSource as DataSource
    from .estimators import FeatureLearningClassifier as FeatureLearningClassifier
    from .estimators import FeatureLearningRegressor as FeatureLearningRegressor
    from .estimators import KernelClassifier as KernelClassifier
    from .estimators import KernelRegressor as KernelRegressor
    from .problem.architecture import Network as Network
    from .problem.gradient_flow import GradientFlow as GradientFlow
    from .problem.losses import Huber as Huber
    from .problem.losses import Logistic as Logistic
    from .problem.losses import Loss as Loss
    from .problem.losses import SoftmaxCrossEntropy as SoftmaxCrossEntropy
    from .problem.losses import SquaredError as SquaredError
    from .problem.network import MLP as MLP
    from .problem.optimisers import SGD as SGD
    from .problem.optimisers import Optimiser as Optimiser
    from .problem.problem import Problem as Problem
    from .problem.problem import Record as Record
    from .problem.rules import DirectFeedbackAlignment as DirectFeedbackAlignment
    from .problem.rules import FeedbackAlignment as FeedbackAlignment
    from .problem.rules import GatedLinear as GatedLinear
    from .problem.rules import GradientDescent as GradientDescent
    from .problem.rules import Hebb as Hebb
    from .problem.rules import LearningRule as LearningRule
    from .problem.schedules import Cosine as Cosine
    from .problem.schedules import Piecewise as Piecewise
    from .problem.schedules import PowerDecay as PowerDecay
    from .problem.schedules import Schedule as Schedule
    from .problem.theory import NotInScope as NotInScope
    from .problem.theory import Scope as Scope
    from .studies.answers import Study as Study
    from .studies.running import study as study
    from .theories import AlternatingMonteCarlo as AlternatingMonteCarlo
    from .theories import ClosedLinear as ClosedLinear
    from .theories import EffectiveTheory as EffectiveTheory
    from .theories import FiniteWidth as FiniteWidth
    from .theories import Fluctuations as Fluctuations
    from .theories import GradientIndependence as GradientIndependence
    from .theories import InfiniteWidth as InfiniteWidth
    from .theories import Lazy as Lazy
    from .theories import Perturbative as Perturbative
    from .theories import Theory as Theory
    from .theories import Trajectory as Trajectory
    from .theories import TwoLayer as TwoLayer
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
