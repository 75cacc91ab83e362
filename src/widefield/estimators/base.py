"""What the estimators with a fixed kernel have in common: parameters and fitting."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base import check
from ..base.arrays import Floats
from ..problem.network import MLP
from .covariance import source
from .finite_width import FiniteRegression, fit_finite, maximised_finite, of_networks
from .hyperparameters import maximised
from .network_parameters import NetworkParameters
from .regression import Regression, fit


class KernelModel(NetworkParameters):
    """Kernel regression of one or more outputs; see `KernelRegressor`."""

    default: ClassVar[MLP] = MLP(3, "relu", weight_variances=2.0, bias_variances=0.1, train_biases=True)

    regression_: Regression | FiniteRegression
    network_: MLP | None
    ridge_: float
    log_evidence_: float

    def __init__(
        self,
        network: MLP | None = None,
        *,
        hidden_layers: int | None = None,
        activation: Any = None,
        weight_variances: Any = None,
        bias_variances: Any = None,
        train_biases: bool | None = None,
        kernel: Any = "ntk",
        rule: Any = None,
        width: int | None = None,
        ridge: float = 1e-3,
        optimise: bool = False,
        restarts: int = 2,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.hidden_layers = hidden_layers
        self.activation = activation
        self.weight_variances = weight_variances
        self.bias_variances = bias_variances
        self.train_biases = train_biases
        self.kernel = kernel
        self.rule = rule
        self.width = width
        self.ridge = ridge
        self.optimise = optimise
        self.restarts = restarts
        self.random_state = random_state

    def _fit(self, x: Floats, targets: Floats) -> None:
        """Choose hyperparameters, and regress the targets (sample, output)."""
        kernel = given = source(self._described_network(), self.kernel, self.rule)
        ridge = first = check.number("ridge", self.ridge, least=0.0)
        restarts = check.integer("restarts", self.restarts, least=0)
        width = None if self.width is None else check.integer("width", self.width, least=1)
        if width is not None:
            of_networks(kernel)
        if check.flag("optimise", self.optimise):
            kernel, ridge = maximised(kernel, x, targets, ridge, restarts, check_random_state(self.random_state))
            if width is not None:
                kernel, ridge = maximised_finite(given, x, targets, first, width, (kernel, ridge))
        if width is None:
            self.regression_ = fit(kernel, x, targets, ridge)
        else:
            self.regression_ = fit_finite(kernel, x, targets, ridge, width)
        self.network_, self.ridge_, self.log_evidence_ = kernel.network, ridge, self.regression_.log_evidence

    def _checked(self, X: Any) -> Floats:
        """New samples."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
