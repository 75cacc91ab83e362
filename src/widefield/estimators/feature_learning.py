"""What the estimators that learn features have in common: parameters, training at infinite width, new samples."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..asking.rate_words import limit_in_words
from ..asking.stable_rates import stable_rate
from ..base import check
from ..base.arrays import Floats
from ..base.errors import Diverged, InvalidInput, NotAccurate, TooFewParticles
from ..base.session import Session, progress_bar, says
from ..data.arrays import Data
from ..data.scaling import Scaling, Standardised
from ..problem.losses import Loss
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem, Record
from ..theories.infinite_width import first_particles, roomy
from ..theories.replicas import Settings
from ..theories.trained import TrainedNetwork, train
from .early_stopping import BestStep, LastStep
from .network_parameters import NetworkParameters

_RANK_TOLERANCE = 0.1
"""Kernels are then off by about 2.5%, see `InfiniteWidth`, and outputs by less."""

_PARTICLES = 1024
"""At least so many: scatter of the prediction is then below 1% of the targets, and one hidden layer takes a second."""

_FRACTION = 0.25
"""What "auto" takes of the largest rate: at half of it ReLU networks may be at the edge of stability, where chance is
amplified, so that replicas scatter by 10% instead of 0.5% (100 samples of the diabetes data)."""

_SEARCH: dict[str, Any] = {"steps": 50, "repetitions": 1, "resolution": 0.2}
"""How "auto" looks for that rate."""

_LEAST_RICH = 0.1
"""Outputs are divided by the richness, and so are rounding errors: below this, double precision."""

_MOST_PARTICLES = 2**15


class FeatureLearningModel(NetworkParameters):
    """Training at infinite width and richness gamma_0; see `FeatureLearningRegressor`."""

    default: ClassVar[MLP] = MLP(1, "tanh", bias_variances=0.1, train_biases=True)
    plain: ClassVar[tuple[str, ...]] = (*NetworkParameters.plain, "richness")

    trained_: TrainedNetwork
    scaling_: Scaling
    network_: MLP
    learning_rate_: float
    particles_: int
    best_step_: int
    validation_steps_: Any
    validation_loss_: Any

    def __init__(
        self,
        network: MLP | None = None,
        *,
        hidden_layers: int | None = None,
        activation: Any = None,
        weight_variances: Any = None,
        bias_variances: Any = None,
        train_biases: bool | None = None,
        richness: float | None = None,
        learning_rate: Any = "auto",
        steps: int = 200,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        patience: int | None = 10,
        standardise: bool = True,
        particles: int | None = None,
        replicas: int = 4,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.hidden_layers = hidden_layers
        self.activation = activation
        self.weight_variances = weight_variances
        self.bias_variances = bias_variances
        self.train_biases = train_biases
        self.richness = richness
        self.learning_rate = learning_rate
        self.steps = steps
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardise = standardise
        self.particles = particles
        self.replicas = replicas
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, x: Any, y: Any, loss: Loss, *, scaled: bool, strata: Any = None) -> None:
        """Train on samples x and targets y (sample, output), which are `scaled` if they are numbers and not classes."""
        random = check_random_state(self.random_state)
        network, optimiser = self._described_network(), SGD(self.learning_rate, steps=self.steps)
        if network.parameterisation != "mean-field":
            raise InvalidInput(
                f"network.parameterisation = {network.parameterisation!r} learns no features at infinite width: leave "
                "it out (it is 'mean-field'), or take KernelRegressor or KernelClassifier, which are its limit"
            )
        held: tuple[Floats, Floats] | None = None
        if check.flag("early_stopping", self.early_stopping):
            fraction = check.number("validation_fraction", self.validation_fraction, above=0.0, most=0.999)
            x, x_held, y, y_held = train_test_split(
                x, y, test_size=fraction, random_state=random.randint(2**31 - 1), stratify=strata
            )
            held = x_held, y_held
        self.scaling_ = _scaling(x, y, inputs=check.flag("standardise", self.standardise), targets=scaled)
        problem = Problem(
            dataclasses.replace(network, centred=True),
            Data(self.scaling_.inputs(x), self.scaling_.targets(y)),
            loss=loss,
            optimiser=optimiser,
            record=Record(steps=(), samples=1, kernels=False, neurons=0),
        )
        if optimiser.automatic:
            rate = float(f"{_FRACTION * stable_rate(problem, **_SEARCH).safe:.3g}")
            problem = dataclasses.replace(problem, optimiser=dataclasses.replace(optimiser, learning_rate=rate))
        self.network_, self.learning_rate_ = problem.network, float(problem.optimiser.rates()[0])
        held = held and (self.scaling_.inputs(held[0]), self.scaling_.targets(held[1]))
        self._train(problem, held, int(random.randint(2**31 - 1)))

    def _train(self, problem: Problem, held: tuple[Floats, Floats] | None, seed: int) -> None:
        """With as many particles as it takes, unless their number is given."""
        given = None if self.particles is None else check.integer("particles", self.particles, least=2)
        patience = None if self.patience is None else check.integer("patience", self.patience, least=1)
        size = given or max(_PARTICLES, first_particles(problem, _RANK_TOLERANCE))
        while True:
            watcher = LastStep(problem.optimiser.steps) if held is None else BestStep(*held, problem.loss, patience)
            try:
                needed = min(roomy(self._run(problem, size, seed, watcher), size), _MOST_PARTICLES)
            except TooFewParticles:
                if given is not None or size >= _MOST_PARTICLES:
                    raise
                needed = 2 * size
            if given is not None or needed <= size:
                break
            size = needed
        if needed > size:
            what = f"particles = {size} are few for this problem, predictions may be biased: take {needed}, or None"
            warnings.warn(f"{what}, which finds out", NotAccurate, stacklevel=4)
        assert watcher.network is not None
        self.trained_, self.particles_, self.best_step_ = watcher.network, size, watcher.best_step
        for name in ("validation_steps_", "validation_loss_"):  # of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        if isinstance(watcher, BestStep):
            self.validation_steps_, self.validation_loss_ = np.array(watcher.steps), np.array(watcher.losses)

    def _run(self, problem: Problem, particles: int, seed: int, watcher: LastStep | BestStep) -> float:
        """Train once; how crowded the particles were."""
        dtype = "float32" if problem.network.richness >= _LEAST_RICH else "float64"
        settings = Settings(particles, _RANK_TOLERANCE, seed, dtype)
        replicas, shown = check.integer("replicas", self.replicas, least=1), check.flag("verbose", self.verbose)
        with progress_bar("width ∞", shown) as bar:
            session = Session(report=bar, note=says(True if shown else None))
            ended = train(problem, settings, replicas, session, at=watcher.looks(problem.optimiser.steps), look=watcher)
        if ended.outcome.status == "diverged":
            raise Diverged(f"{ended.outcome.message}; {limit_in_words(problem)}", None)
        return ended.crowding

    def _outputs(self, X: Any) -> tuple[Floats, Floats]:
        """Outputs at new samples (sample, output) and their standard errors, in units of the targets."""
        check_is_fitted(self)
        x = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        replicas = self.trained_.outputs(self.scaling_.inputs(x))
        count = len(replicas)
        error = np.full(replicas.shape[1:], np.nan) if count == 1 else replicas.std(axis=0, ddof=1) / np.sqrt(count)
        return self.scaling_.outputs(replicas.mean(axis=0)), error * self.scaling_.target_scale

    def _check_error(self) -> None:
        """Raise if there is no scatter from which an error could be found."""
        if len(self.trained_.state.weights["readout"]) == 1:
            raise InvalidInput("return_std = True needs at least two replicas: fit again with replicas = 4, say")


def _scaling(x: Floats, y: Floats, *, inputs: bool, targets: bool) -> Scaling:
    """Of the training samples; none is the identity."""
    if not inputs:
        return Scaling(np.zeros(x.shape[1]), np.ones(x.shape[1]), np.zeros(y.shape[1]), 1.0)
    return Standardised(Data(x, y), "columns", targets).scaling
