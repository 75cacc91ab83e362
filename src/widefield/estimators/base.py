"""What the estimators have in common: parameters, fitting, and parameters of the network by name."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base import check
from ..base.arrays import Floats
from ..base.errors import UnknownName
from ..problem.network import MLP
from .covariance import described, source
from .hyperparameters import maximised
from .regression import Regression, fit

_PREFIX = "network__"


class KernelModel(BaseEstimator):  # type: ignore[misc]
    """Kernel regression of one or more outputs; see `KernelRegressor`."""

    regression_: Regression
    network_: MLP | None
    ridge_: float
    log_evidence_: float

    def __init__(
        self,
        network: MLP | None = None,
        *,
        kernel: Any = "ntk",
        ridge: float = 1e-3,
        optimise: bool = False,
        restarts: int = 2,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.kernel = kernel
        self.ridge = ridge
        self.optimise = optimise
        self.restarts = restarts
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the fields of the network, as network__hidden_layers and so on."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.network, MLP):
            found |= {_PREFIX + field.name: getattr(self.network, field.name) for field in dataclasses.fields(MLP)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the network: set_params(network__hidden_layers=2)."""
        inner = {name.removeprefix(_PREFIX): params.pop(name) for name in list(params) if name.startswith(_PREFIX)}
        super().set_params(**params)
        if inner:
            known = [field.name for field in dataclasses.fields(MLP)]
            for name in inner:
                if name not in known:
                    raise UnknownName("field of the network", name, known)
            self.network = dataclasses.replace(described(self.network), **inner)
        return self

    def _fit(self, x: Floats, targets: Floats) -> None:
        """Choose hyperparameters, and regress the targets (sample, output)."""
        kernel = source(self.network, self.kernel)
        ridge = check.number("ridge", self.ridge, least=0.0)
        restarts = check.integer("restarts", self.restarts, least=0)
        if check.flag("optimise", self.optimise):
            kernel, ridge = maximised(kernel, x, targets, ridge, restarts, check_random_state(self.random_state))
        self.regression_ = fit(kernel, x, targets, ridge)
        self.network_, self.ridge_, self.log_evidence_ = kernel.network, ridge, self.regression_.log_evidence

    def _checked(self, X: Any) -> Floats:
        """New samples."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
