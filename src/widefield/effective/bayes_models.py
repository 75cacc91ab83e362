"""Comparing networks by their evidence: maps over variances and depth, Bayes factors, the best weight variance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.optimize
import xarray as xr
from numpy.typing import ArrayLike

from ..activations import Activation, get
from ..base import check
from ..base.errors import InvalidInput
from ..data.samples import column
from ..kernels.prediction import log_evidence
from ..kernels.static import StaticKernel
from ..problem.network import MLP
from .bayes_posterior import expansion_parameter, observed
from .layer_table import layer_table
from .single_input_flow import ScaleInvariant
from .vertex_flow import flow


def evidence_map(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    *,
    weight_variances: Iterable[float],
    bias_variances: Iterable[float],
    hidden_layers: Iterable[int],
    noise: float = 0.0,
    width: int | None = None,
) -> xr.Dataset:
    """log p(y) of networks with these variances (one for all layers) and depths, PDLT eqs. (6.34), (6.29).

    `log_evidence` over (hidden_layers, bias_variance, weight_variance); with a `width` there are also
    `log_evidence_shift`, the order 1/n, and `expansion`, which says where to trust it (`FinitePosterior`). Where the
    kernel is singular, the evidence is nan.

    >>> ranges = {"weight_variances": [1.0, 2.0], "bias_variances": [0.0], "hidden_layers": [9]}
    >>> found = evidence_map(MLP(), [[1.0]], [1.0], **ranges)
    >>> float(found.weight_variance[int(np.argmax(found.log_evidence.values))])
    2.0
    """
    inputs, targets = check.inputs(x, None)[0], column("y", y)
    axes: dict[str, list[Any]] = {
        "hidden_layers": [check.integer("hidden_layers", depth, least=1) for depth in hidden_layers],
        "bias_variance": [check.number("bias_variances", value, least=0.0) for value in bias_variances],
        "weight_variance": [check.number("weight_variances", value, above=0.0) for value in weight_variances],
    }
    names = ("log_evidence",) if width is None else ("log_evidence", "log_evidence_shift", "expansion")
    found = np.full((len(names), *map(len, axes.values())), np.nan)
    for place in np.ndindex(found.shape[1:]):
        depth, biases, weights = (axis[i] for axis, i in zip(axes.values(), place, strict=True))
        changed = {"hidden_layers": depth, "bias_variances": biases, "weight_variances": weights, "width_ratios": None}
        one = dataclasses.replace(network, **changed)
        try:
            found[(slice(None), *place)] = _evidence(one, inputs, targets, noise, width)
        except InvalidInput as problem:
            if "singular" not in str(problem):
                raise
    return xr.Dataset({name: (tuple(axes), values) for name, values in zip(names, found, strict=True)}, axes)


def _evidence(network: MLP, x: ArrayLike, y: ArrayLike, noise: float, width: int | None) -> Sequence[float]:
    if width is None:
        return (log_evidence(StaticKernel(network).nngp(x), y, ridge=noise),)
    terms = observed(flow(network, x, width, progress=False), y, noise=noise)
    infinite = log_evidence(terms.kernel, y, ridge=noise)
    return infinite, terms.log_evidence(), expansion_parameter(terms)


def posterior_odds(log_evidence: float, other: float, *, prior_odds: float = 1.0) -> float:
    """Odds of one hypothesis against another after the data: Bayes factor times prior odds, PDLT eqs. (6.29)-(6.31).

    >>> round(posterior_odds(-1.0, -2.0), 6)
    2.718282
    """
    gain = check.number("log_evidence", log_evidence) - check.number("other", other)
    logarithm = gain + math.log(check.number("prior_odds", prior_odds, above=0.0))
    return math.exp(logarithm) if logarithm < math.log(np.finfo(np.float64).max) else math.inf


def best_weight_variance(
    activation: str | Activation, mean_square_input: float, mean_square_target: float, depth: int
) -> float:
    """The C_W without biases whose evidence is largest for one input: K^(depth)(C_W) = mean_i y_i^2, PDLT eq. (6.36).

    `depth` counts layers of weights. For scale-invariant activations it is (A_2 y^2 / x^2)^(1/depth) / A_2, which tends
    to the critical 1 / A_2. In general it tends to the C_W of which y^2 is the fixed point of the kernel.

    >>> round(best_weight_variance("relu", 0.5, 0.5 * 4, 10), 12)
    2.143546925073
    """
    size = check.number("mean_square_input", mean_square_input, above=0.0)
    target = check.number("mean_square_target", mean_square_target, above=0.0)
    layers = check.integer("depth", depth, least=1)

    if get(activation).homogeneity == 1:
        A_2 = ScaleInvariant.of(activation).mean_power(2)
        return math.exp(math.log(A_2 * target / size) / layers) / A_2

    def excess(logarithm: float) -> float:
        C_W = math.exp(logarithm)
        kernel = layer_table(activation, C_W * size, layers, 0.0, C_W).kernel[-1, 0]
        return math.log(max(float(kernel), 1e-300) / target)

    low, high = -5.0, 5.0
    if excess(low) > 0 or excess(high) < 0:
        raise InvalidInput(
            f"mean_square_target = {target:g} is not the kernel of {layers} layers for any weight variance between "
            f"{math.exp(low):.3g} and {math.exp(high):.3g}; rescale the targets"
        )
    return math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-14)))
