"""Generalisation error as a function of the initialisation: where bias and variance are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..base import check
from ..problem.network import MLP, per_weight_layer
from .prediction import Blocks, trained
from .static import StaticKernel


def bayesian_rates(network: MLP) -> dict[str, tuple[float, ...]]:
    """Rates of `StaticKernel` with which gradient descent is exact Bayesian inference, PDLT eqs. (10.46)-(10.49).

    Only the last layer learns, at rates that are its variances: then the NTK is the NNGP kernel.

    >>> bayesian_rates(MLP(hidden_layers=1, activation="tanh", weight_variances=2.0))
    {'weight_rates': (0.0, 2.0), 'bias_rates': (0.0, 0.0)}
    """
    depth = network.hidden_layers
    weights, biases = (
        per_weight_layer(name, getattr(network, name), depth)[-1] for name in ("weight_variances", "bias_variances")
    )
    return {"weight_rates": (*(0.0,) * depth, weights), "bias_rates": (*(0.0,) * depth, biases)}


def error_map(
    activation: Any,
    train: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    weight_variances: ArrayLike,
    bias_variances: ArrayLike = 0.0,
    hidden_layers: ArrayLike = 1,
    weight_rate: float = 1.0,
    bias_rate: float = 1.0,
) -> xr.Dataset:
    """Bias and variance of the squared error of fully trained networks (PDLT eq. (10.52)) for many initialisations.

    `train` and `test` are (inputs, targets). Variables `bias`, `variance` and `error`, their sum, over
    (hidden_layers, weight_variance, bias_variance).
    """
    C_W, C_b = (
        np.atleast_1d(check.array(*each))
        for each in (("weight_variances", weight_variances), ("bias_variances", bias_variances))
    )
    depths = [check.integer("hidden_layers", int(n), least=1) for n in np.atleast_1d(np.asarray(hidden_layers))]
    found = np.empty((2, len(depths), len(C_W), len(C_b)))
    for d, w, b in np.ndindex(*found.shape[1:]):
        network = MLP(depths[d], activation, weight_variances=float(C_W[w]), bias_variances=float(C_b[b]))
        kernels = StaticKernel(network, weight_rates=weight_rate, bias_rates=bias_rate)
        blocks = [kernels(*pair) for pair in ((train[0],), (test[0], train[0]), (test[0],))]
        nngp, ntk = (Blocks(*(getattr(block, name) for block in blocks)) for name in ("nngp", "ntk"))
        found[:, d, w, b] = trained(nngp, ntk, train[1]).squared_error(test[1])
    over = ("hidden_layers", "weight_variance", "bias_variance")
    values = {"bias": found[0], "variance": found[1], "error": found.sum(axis=0)}
    coordinates = {"hidden_layers": depths, "weight_variance": C_W, "bias_variance": C_b}
    return xr.Dataset({name: (over, value) for name, value in values.items()}, coordinates)
