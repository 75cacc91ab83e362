"""What the effective theory says to somebody who builds a network: variances, depth, width, and what to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import check
from ..activations import Activation, get
from .aspect_ratio import critical_block, optimal_aspect_ratio, optimal_gamma
from .criticality import CriticalPoint, critical_point
from .residual import BlockLayer, residual_flow, susceptibilities

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Advice:
    """How to initialise a network of this depth and width at criticality, and what it will be like."""

    activation: str
    depth: int
    """L: layers of weights, or residual blocks of one layer."""
    width: int
    outputs: int
    point: CriticalPoint
    gamma: float
    """Strength of the skip connections, z' = W s(z) + b + gamma z; 0 for a plain network."""
    weight_variance: float
    """C_W of the layers after the first: weights are N(0, C_W / fan-in)."""
    bias_variance: float
    """C_b."""
    first_weight_variance: float
    """The same of the first layer, for inputs whose entries have mean square 1."""
    kernels: Floats
    """K of every layer: mean square of its preactivations; (L,)."""
    gradients: Floats
    """Mean square of the gradient at every layer, relative to the last; (L,)."""
    fluctuations: Floats
    """Standard deviation over networks of the variance that all neurons of a layer share, relative to it; (L,)."""
    optimal_ratio: float
    """L / n at which the outputs know most of each other (PDLT appendices A and B)."""

    @property
    def ratio(self) -> float:
        """L / n."""
        return self.depth / self.width

    @property
    def verdict(self) -> str:
        """In plain words."""
        return " ".join([self._signals(), self._spread(), self._shape()])

    def _signals(self) -> str:
        change, gradient = self.kernels[-1] / self.kernels[0], self.gradients[0]
        behaviour = {
            "scale-invariant": "Signals and gradients keep their size at any depth.",
            "zero-kernel": "Signals and gradients shrink like powers of the depth, never exponentially.",
            "half-stable": "Signals stay near K* if they start there, from one side only; a slow drift is possible.",
        }[self.point.universality_class]
        return (
            f"{behaviour} Through {self.depth} layers the mean square signal changes by a factor {change:.3g}, "
            f"that of gradients by {gradient:.3g}."
        )

    def _spread(self) -> str:
        spread = self.fluctuations[-1]
        if spread < 0.1:
            words = "networks with different seeds are nearly alike"
        elif spread < 0.5:
            words = "networks with different seeds differ visibly"
        else:
            words = "every network is a world of its own, and expansions in 1/n begin to fail"
        return f"From seed to seed the size of the output signal (its variance) scatters by {spread:.0%}: {words}."

    def _shape(self) -> str:
        against = self.ratio / self.optimal_ratio
        shape = f"L/n = {self.ratio:.3g} is {against:.2g} times the optimal {self.optimal_ratio:.3g}"
        if against < 0.5:
            return f"{shape}: close to a Gaussian process; it could be deeper, or narrower, and learn more from depth."
        if against <= 2:
            return f"{shape}: a good shape."
        return f"{shape}: too deep for its width; make it wider" + ("." if self.gamma else ", or add skip connections.")

    def snippets(self) -> dict[str, str]:
        """Initialisers of the layers after the first, for PyTorch, Flax and Equinox."""
        weight, bias = self.weight_variance, math.sqrt(self.bias_variance)
        torch_bias = f"normal_(layer.bias, std={bias!r})" if bias else "zeros_(layer.bias)"
        flax_bias = f"normal({bias!r})" if bias else "zeros"
        return {
            "PyTorch": (
                f"torch.nn.init.normal_(layer.weight, std=({weight!r} / layer.in_features) ** 0.5)\n"
                f"torch.nn.init.{torch_bias}"
            ),
            "Flax": (
                f'flax.linen.Dense({self.width}, kernel_init=variance_scaling({weight!r}, "fan_in", "normal"), '
                f"bias_init={flax_bias})  # from jax.nn.initializers"
            ),
            "Equinox": (
                "first, second = jax.random.split(key)\n"
                f"weight = ({weight!r} / layer.in_features) ** 0.5 * jax.random.normal(first, layer.weight.shape)\n"
                f"bias = {bias!r} * jax.random.normal(second, layer.bias.shape)\n"
                "layer = eqx.tree_at(lambda l: (l.weight, l.bias), layer, (weight, bias))"
            ),
        }


def advise(
    activation: str | Activation, depth: int, width: int, *, outputs: int = 10, residual: bool = False
) -> Advice:
    """Critical initialisation, and what to expect of it; `NotCritical` explains if the activation has none.

    Args:
        activation: name or `Activation`.
        depth: layers of weights.
        width: neurons of every hidden layer.
        outputs: neurons of the last layer, at least 2 (the information between its halves decides on the shape).
        residual: with skip connections around every layer, of the strength that suits L / n best.

    >>> advice = advise("relu", 20, 500)
    >>> advice.weight_variance, advice.bias_variance, round(float(advice.fluctuations[-1]), 4)
    (2.0, 0.0, 0.4359)
    """
    activation = get(activation)
    layers, neurons = check.integer("depth", depth, least=1), check.integer("width", width, least=1)
    point = critical_point(activation)
    gamma = optimal_gamma(activation, layers / neurons, outputs).gamma if check.flag("residual", residual) else 0.0
    (block,) = critical_block(activation, gamma)
    start = point.kernel if point.universality_class == "half-stable" else point.bias_variance + point.weight_variance
    assert start is not None
    flow = residual_flow(activation, start, layers, gamma, block)
    _, perpendicular = susceptibilities(activation, flow.K, gamma, BlockLayer(block.C_b, block.C_W))
    return Advice(
        activation=activation.name,
        depth=layers,
        width=neurons,
        outputs=outputs,
        point=point,
        gamma=gamma,
        weight_variance=block.C_W,
        bias_variance=block.C_b,
        first_weight_variance=start - point.bias_variance,
        kernels=flow.K,
        gradients=np.append(np.cumprod(perpendicular[:-1][::-1])[::-1], 1.0),
        fluctuations=np.sqrt(flow.fluctuation / neurons),
        optimal_ratio=optimal_aspect_ratio(activation, outputs, gamma).ratio,
    )
