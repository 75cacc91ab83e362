"""What the effective theory says to somebody who builds a network: variances, depth, width, and what to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.renamed import former, renamed
from .aspect_ratio import critical_block, optimal_aspect_ratio, optimal_gamma
from .critical_points import CriticalPoint, NotCritical
from .rate_snippets import rate_snippets
from .residual import BlockLayer, residual_flow, susceptibilities
from .tangent_asymptotics import equivalent_rates
from .universality import critical_point

_NARROW = 10
"""Below this width an expansion in 1/n means little."""


@renamed(gamma="skip", fluctuations="kernel_deviation", optimal_ratio="optimal_aspect_ratio")
@dataclass(frozen=True)
class Advice:
    """How to initialise a network of this depth and width at criticality, and what it will be like."""

    activation: str
    depth: int
    """L: layers of weights. With skip connections the first and the last layer have none."""
    width: int
    outputs: int
    point: CriticalPoint
    residual: bool
    """Whether skip connections were asked for."""
    skip: float
    """Their strength, z' = W s(z) + b + gamma z; 0 for a plain network."""
    first: BlockLayer
    """Variances of the first layer, weights N(0, C_W / fan-in), for inputs whose entries have mean square 1."""
    hidden: BlockLayer
    """Of the layers between."""
    output: BlockLayer
    """Of the last layer."""
    kernels: Floats
    """K of every layer: mean square of its preactivations; (L,)."""
    gradients: Floats
    """Mean square of the gradient at every layer, relative to the last; (L,)."""
    kernel_deviation: Floats
    """Standard deviation over networks of the variance that all neurons of a layer share, relative to it; (L,)."""
    optimal_aspect_ratio: float
    """L / n at which the outputs know most of each other, to third order in 1/n (PDLT appendices A and B)."""

    @property
    def aspect_ratio(self) -> float:
        """L / n."""
        return self.depth / self.width

    ratio = former("Advice", "ratio", "aspect_ratio")

    @property
    def verdict(self) -> str:
        """In plain words."""
        if self.depth == 1:
            return "There is one layer, whose outputs are exactly Gaussian: depth, width and skips play no part."
        parts = [self._signals(), self._skips(), self._spread(), self._shape()]
        if self.width < _NARROW:
            parts.append(f"All this is for wide networks: at a width of {self.width} it is a rough guide at best.")
        return " ".join(part for part in parts if part)

    def _signals(self) -> str:
        match self.point.universality_class:
            case "scale-invariant":
                return "Signals and gradients keep their size at any depth."
            case "zero-kernel":
                return (
                    "Signals and gradients shrink like powers of the depth, never exponentially: the mean square of "
                    f"signals falls to {self.kernels[-1] / self.kernels[0]:.2g} of that in the first layer, that of "
                    f"gradients to {self.gradients[0]:.2g} of that in the last."
                )
        back, away = ("larger", "smaller") if self.point.stability == "stable from above" else ("smaller", "larger")
        return (
            f"Signals of mean square {self.kernels[0]:.4g}, which the first layer makes, keep their size, and so do "
            f"gradients; slightly {back} ones drift back to it and slightly {away} ones away from it, both slowly."
        )

    def _skips(self) -> str:
        if not self.residual:
            return ""
        if self.depth < 3:
            return "No layer has a skip connection: only those between the first and the last can."
        if not self.skip:
            return "Skip connections would not help: the network is shallow enough for its width without them."
        words = (
            f"Layers with a skip connection compute W s(z) + b + {self.skip:.4g} z; their variances carry the factor "
            "1 - gamma^2, which keeps the size of signals."
        )
        if math.isclose(self.aspect_ratio, self.optimal_aspect_ratio, rel_tol=1e-6):
            return (
                f"{words} The strength is the one that makes this L/n optimal: nearer to 1 it damps fluctuations more."
            )
        return (
            f"{words} The strength is the one with the largest fluctuations: at this depth there are too few with any."
        )

    def _spread(self) -> str:
        spread = self.kernel_deviation[-1]
        if spread < 0.1:
            words = "networks with different seeds are nearly alike"
        elif spread < 0.5:
            words = "networks with different seeds differ visibly"
        else:
            words = "every network is a world of its own, and expansions in 1/n, this number included, begin to fail"
        return f"From seed to seed the size of the output signal (its variance) scatters by {spread:.0%}: {words}."

    def _shape(self) -> str:
        against = self.aspect_ratio / self.optimal_aspect_ratio
        if 0.95 < against < 1.05:
            return f"L/n = {self.aspect_ratio:.3g} is optimal."
        shape = f"L/n = {self.aspect_ratio:.3g} is {against:.2g} times the optimal {self.optimal_aspect_ratio:.3g}"
        wide = max(1, round(self.depth / self.optimal_aspect_ratio))
        deep = max(1, round(self.width * self.optimal_aspect_ratio))
        if against < 0.5:
            return (
                f"{shape}: close to a Gaussian process, whose features hardly change in training; about {deep} layers, "
                f"or a width of {wide}, would be optimal."
            )
        if against <= 2:
            return f"{shape}: a good shape."
        remedy = f"take a width of {wide}, or {deep} layers" if deep > 1 else f"take a width of {wide}"
        return f"{shape}: too deep for its width; {remedy}" + ("." if self.residual else ", or add skip connections.")

    def snippets(self) -> dict[str, str]:
        """Initialisers of all layers, for PyTorch, Flax and Equinox; `layers` are those of the network, in order."""
        return {name: f"{self.variances}\n{code}" for name, code in _CODE.items()}

    def rates(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """lambda_W and lambda_b with which all layers contribute alike to the NTK; None with skip connections.

        They are those of the universality class, PDLT eqs. (9.94)-(9.96); half-stable ones start from K* here, where
        chi_perp = 1 in every layer.
        """
        return None if self.skip else equivalent_rates(self.activation, self.depth)

    def rate_snippets(self) -> dict[str, str]:
        """Parameter groups for PyTorch and optax, see `rates`; none with skip connections."""
        found = self.rates()
        return {} if found is None else rate_snippets(*found)

    @property
    def variances(self) -> str:
        """The first lines of every snippet: variances (of weights times fan-in) of all layers, and the forward pass."""
        parts = [(self.first, 1), (self.hidden, max(self.depth - 2, 0)), (self.output, int(self.depth > 1))]
        weights, biases = (
            _listed([(getattr(part, name), count) for part, count in parts])
            for name in ("weight_variance", "bias_variance")
        )
        lines = [f"weights = {weights}", f"biases = {biases}"]
        if self.skip:
            lines.append(f"# z = layers[0](x); z = layer(s(z)) + {self.skip!r} * z between; layers[-1](s(z))")
        return "\n".join(lines)


def _listed(parts: list[tuple[float, int]]) -> str:
    """Numbers that repeat, as code: [2.0] + [1.5] * 3."""
    runs: list[tuple[float, int]] = []
    for value, count in parts:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + count)
        elif count:
            runs.append((value, count))
    return " + ".join(f"[{value!r}]" + (f" * {count}" if count > 1 else "") for value, count in runs)


_CODE = {
    "PyTorch": """\
for layer, weight, bias in zip(layers, weights, biases):
    torch.nn.init.normal_(layer.weight, std=(weight / layer.in_features) ** 0.5)
    torch.nn.init.normal_(layer.bias, std=bias**0.5)""",
    "Flax": """\
from jax.nn.initializers import normal, variance_scaling
layers = [
    flax.linen.Dense(n, kernel_init=variance_scaling(weight, "fan_in", "normal"), bias_init=normal(bias**0.5))
    for n, weight, bias in zip(widths, weights, biases)
]""",
    "Equinox": """\
def drawn(layer, weight, bias, keys):
    W = (weight / layer.in_features) ** 0.5 * jax.random.normal(keys[0], layer.weight.shape)
    b = bias**0.5 * jax.random.normal(keys[1], layer.bias.shape)
    return eqx.tree_at(lambda l: (l.weight, l.bias), layer, (W, b))
keys = jax.random.split(key, (len(layers), 2))
layers = [drawn(*each) for each in zip(layers, weights, biases, keys)]""",
}
"""After `weights` and `biases`, the variances of every layer."""


def advise(
    activation: str | Activation, depth: int, width: int, *, outputs: int = 10, residual: bool = False
) -> Advice:
    """Critical initialisation, and what to expect of it; `NotCritical` explains if the activation has none.

    Args:
        activation: name or `Activation`.
        depth: layers of weights.
        width: neurons of every hidden layer.
        outputs: neurons of the last layer, at least 2 (the information between its halves decides on the shape).
        residual: with skip connections around every layer but the first and the last, of the strength that suits L / n
            best.

    >>> advice = advise("relu", 20, 500)
    >>> advice.hidden.weight_variance, advice.hidden.bias_variance, round(float(advice.kernel_deviation[-1]), 4)
    (2.0, 0.0, 0.4359)
    """
    activation = get(activation)
    layers, neurons = check.integer("depth", depth, least=1), check.integer("width", width, least=1)
    point = _point(activation)
    skips = check.flag("residual", residual)
    best = optimal_gamma(activation, layers / neurons, outputs)
    skip = best.skip if skips and layers > 2 else 0.0
    (hidden,), plain = critical_block(activation, skip), BlockLayer(point.bias_variance, point.weight_variance)
    start = point.kernel if point.universality_class == "half-stable" else plain.bias_variance + plain.weight_variance
    assert start is not None
    # A stream of L - 1 layers, and the output layer on top of it.
    stream = residual_flow(activation, start, max(layers - 1, 1), skip, hidden)
    top = stream.readout(plain)
    within, last = (susceptibilities(activation, stream.K, g, layer)[1] for g, layer in ((skip, hidden), (0, plain)))
    changes = np.append(within[:-1], last[-1])[: layers - 1]
    return Advice(
        activation=activation.name,
        depth=layers,
        width=neurons,
        outputs=outputs,
        point=point,
        residual=skips,
        skip=skip,
        first=BlockLayer(plain.bias_variance, start - plain.bias_variance),
        hidden=hidden,
        output=plain,
        kernels=np.append(stream.K, top.K[-1])[:layers],
        gradients=np.append(np.cumprod(changes[::-1])[::-1], 1.0),
        kernel_deviation=np.sqrt(np.append(stream.fluctuation, top.fluctuation[-1])[:layers] / neurons),
        optimal_aspect_ratio=optimal_aspect_ratio(activation, outputs, skip).aspect_ratio,
    )


def _point(activation: Activation) -> CriticalPoint:
    try:
        return critical_point(activation)
    except NotCritical as error:
        raise NotCritical(
            f"{error}. In plain words: whatever the variances, signals or gradients grow or shrink exponentially with "
            "depth, so that only shallow networks train well; relu, gelu, swish, tanh and sin do not have this problem"
        ) from None
