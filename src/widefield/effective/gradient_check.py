"""Squared gradients of every layer and group of parameters against networks with all their weights.

The NTK of networks of which one group of parameters learns is a squared gradient (`gradients_of_layers`), so that
networks are drawn by `tangent_sampler`, which averages over the last weights by hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from ..base.statistics import covariance_and_error, mean_and_error
from ..problem.network import MLP
from .agreement import Correlator, Measured
from .single_tangent import single_ntk
from .tangent_sampler import tangent_networks


class Group(NamedTuple):
    """One group of parameters: its layer, 0 .. L, and whether it is the weights."""

    layer: int
    weights: bool

    def rates(self, layers: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """1 for itself, 0 for all others: those of weights, those of biases."""
        one = tuple(float(layer == self.layer) for layer in range(layers))
        none = (0.0,) * layers
        return (one, none) if self.weights else (none, one)


def groups(network: MLP) -> list[Group]:
    """All but the biases of the outputs, whose gradient is 1."""
    layers = network.hidden_layers + 1
    biases = [Group(layer, False) for layer in range(layers - 1)]
    return [*biases, *(Group(layer, True) for layer in range(layers))]


def measured_gradients(
    network: MLP, x: Float[Floats, "p d"], widths: tuple[int, ...], seeds: int, seed: int
) -> dict[str, Measured]:
    """Means of squared gradients over groups and inputs, and n times their variances."""
    found = [_of_group(network, x, widths, group, seeds, seed) for group in groups(network)]
    return {name: _stacked([part[name] for part in found]) for name in ("gradients", "gradient_variance")}


def _stacked(parts: list[Measured]) -> Measured:
    return np.concatenate([value for value, _ in parts]), np.concatenate([error for _, error in parts])


def _of_group(
    network: MLP, x: Float[Floats, "p d"], widths: tuple[int, ...], group: Group, seeds: int, seed: int
) -> dict[str, Measured]:
    weights, biases = group.rates(network.hidden_layers + 1)
    drawn = tangent_networks(network, x, widths, weight_rates=weights, bias_rates=biases, seeds=seeds, seed=seed)
    X = np.einsum("saa->sa", drawn.tangents[:, -1])
    shared, shared_error = covariance_and_error(X, X)
    paired, paired_error = (np.einsum("aaaa->a", part[-1]) for part in drawn.variance_paired)
    error = np.hypot(np.diagonal(shared_error), 2 * paired_error)
    n = widths[-1]
    return {"gradients": mean_and_error(X), "gradient_variance": (n * (np.diagonal(shared) + 2 * paired), n * error)}


def gradient_correlators(
    network: MLP,
    x: Float[Floats, "p d"],
    widths: tuple[int, ...],
    narrow: dict[str, Measured],
    wide: dict[str, Measured],
) -> list[Correlator]:
    """Against `single_ntk`, one input at a time."""
    mean, shift, variance = _predicted(network, x, widths)
    none = np.zeros_like(mean)
    return [
        Correlator.of_mean("gradients", mean + shift, shift, none, narrow["gradients"], wide["gradients"]),
        Correlator.of_limit(
            "gradient_variance", variance, none, narrow["gradient_variance"], wide["gradient_variance"]
        ),
    ]


def _predicted(network: MLP, x: Float[Floats, "p d"], widths: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    C_W, C_b = (np.square(scales) for scales in (network.weight_scales, network.bias_scales))
    squares, depth, n = np.mean(x**2, axis=1), network.hidden_layers + 1, widths[-1]
    found = []
    for group in groups(network):
        weights, biases = group.rates(depth)
        last = single_ntk(
            network.phi,
            C_b[0] + C_W[0] * squares,
            depth,
            bias_variance=C_b[1:],
            weight_variance=C_W[1:],
            weight_rates=weights,
            bias_rates=biases,
            mean_square=squares,
            widths=widths,
        ).isel(layer=-1)
        found.append([last["ntk"].values, last["ntk_correction"].values / n, n * last["variance"].values])
    mean, shift, variance = np.concatenate(np.array(found), axis=1)
    return mean, shift, variance
