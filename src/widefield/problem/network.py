"""Architecture, initialisation and parameterisation of the networks that are studied."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..activations import Activation, get
from ..activations.activation import Elementwise
from ..activations.table import kept, name_in_files
from ..base import check
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import present, root, traced
from ..base.renamed import former
from .architecture import PARAMETERISATIONS as PARAMETERISATIONS
from .architecture import Network

if TYPE_CHECKING:
    from ..graphs.fields import Field
    from ..graphs.tape import Tape


@traced("weight_variances", "bias_variances", "width_ratios")
@dataclass(frozen=True)
class MLP(Network, kind="mlp"):
    """A fully connected network: depth, activation, initialisation, and how much it learns (`richness`).

    >>> network = MLP(hidden_layers=2, activation="relu", richness=0.5, weight_variances=2.0)
    >>> network.widths(100)  # of real networks of width 100; how wide it is belongs to the theory, not to the network
    (100, 100)

    With L = `hidden_layers`, widths N_l, N = N_L, and input dimension D (BP22 eq. (1), BP23 eq. (1); there no biases),

        h^1     = W^0 x / sqrt(D) + b^0
        h^{l+1} = W^l phi(h^l) / sqrt(N_l) + b^l              l = 1 .. L-1
        f       = [ w phi(h^L) / sqrt(N) + b^L ] / gamma

    where phi is the activation. Before training all entries of W^l are N(0, `weight_variances[l]`), of w
    N(0, `weight_variances[L]`), and those of b^l are N(0, `bias_variances[l]`): the square roots of widths stand in the
    equations, and not in the variances. The output scale is

        gamma = `richness` * sqrt(N)      "mean-field" (muP): training does not depend on the width, if it is large
        gamma = `richness`                "ntk": wide networks become lazy, that is their features stand still

    Args:
        hidden_layers: L >= 1, the layers of neurons; there are L + 1 layers of weights.
        activation: a name known to `widefield.activations` ("tanh", "relu", "gelu", "linear", ...), an `Activation`, or
            an elementwise function that jax can trace. What is not in the table, under its name, is used as it is and
            cannot be written to files.
        richness: gamma_0. Near 0 features stand still (lazy), at 1 they move noticeably, the larger the more. Targets
            of another size than 1 act like another richness: standardise them (`widefield.data.standardised`).
        outputs: number C of outputs; None takes it from the data.
        weight_variances: one number for all L+1 weight layers, or one per layer, the input layer first.
        bias_variances: the same for the biases at initialisation; 0 starts them at zero.
        train_biases: whether biases learn.
        width_ratios: N_l / N for each hidden layer (None: all equal); the width of a theory is that of ratio 1.
        parameterisation: "mean-field" or "ntk".
        centred: predict and train f - f(t=0), which removes the random initial output.

    Fields cannot be changed: `dataclasses.replace(network, richness=2.0)` makes another network. See also `Problem`,
    which takes it; `effective.criticality` for variances that keep deep networks trainable; docs/conventions.md for
    the same network in PyTorch and in the papers.
    """

    hidden_layers: int = 3
    activation: str | Activation | Elementwise = "tanh"
    richness: float = 1.0
    outputs: int | None = None
    weight_variances: float | tuple[float, ...] = 1.0
    bias_variances: float | tuple[float, ...] = 0.0
    train_biases: bool = False
    width_ratios: tuple[float, ...] | None = None
    parameterisation: str = "mean-field"
    centred: bool = True

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        super().__post_init__()
        put(self, hidden_layers=check.integer("hidden_layers", self.hidden_layers, least=1, most=10**6))
        put(self, activation=kept(self.activation))
        for name, bounds in (("weight_variances", {"above": 0.0}), ("bias_variances", {"least": 0.0})):
            value = getattr(self, name)
            if isinstance(value, list | tuple):
                put(
                    self,
                    **{name: per_weight_layer(name, value, self.hidden_layers, **bounds)},
                )
            else:
                put(self, **{name: check.number(name, value, **bounds)})
        check.flag("train_biases", self.train_biases)
        if self.width_ratios is not None:
            ratios = tuple(check.number("width_ratios", r, above=0.0) for r in _sequence(self.width_ratios))
            if len(ratios) != self.hidden_layers:
                raise InvalidInput(f"width_ratios has {len(ratios)} entries; hidden_layers = {self.hidden_layers}")
            put(self, width_ratios=ratios)

    def to_table(self) -> dict[str, Any]:
        """Plain values; an activation that files cannot name is refused."""
        return {**super().to_table(), "activation": name_in_files(self.activation)}

    @property
    def phi(self) -> Activation:
        """The activation itself."""
        return get(self.activation)

    @property
    def weight_scales(self) -> tuple[float, ...]:
        """sigma_0 .. sigma_L."""
        return _scales(self.weight_variances, self.hidden_layers)

    @property
    def bias_scales(self) -> tuple[float, ...]:
        """beta_0 .. beta_L."""
        return _scales(self.bias_variances, self.hidden_layers)

    @property
    def has_biases(self) -> bool:
        """Whether any bias is ever different from zero."""
        return self.train_biases or any(map(present, self.bias_scales))

    @property
    def heading(self) -> str:
        """In a few words."""
        return f"{self.hidden_layers} hidden layer{'s' if self.hidden_layers > 1 else ''}, {self.activation}"

    def check_inputs(self, inputs: tuple[int, ...], outputs: int) -> None:
        """Raise `InvalidInput` for inputs with positions."""
        del outputs
        if len(inputs) > 1:
            raise InvalidInput(
                f"data: x has the shape (samples, {', '.join(map(str, inputs))}), and network = 'mlp' takes (samples, "
                "dimension): reshape it, x.reshape(len(x), -1), or take another network (docs/architectures.md)"
            )

    def forward(self, net: Tape, x: Field) -> Field:
        """The equations above as a graph; its output's bias is a vector over the last layer whose mean counts."""
        depth, scales, numbered = self.hidden_layers, self.weight_scales, list(enumerate(self.bias_scales, 1))
        ratios = self.width_ratios or (1.0,) * depth
        layers = [net.population(f"layer {number}", ratio) for number, ratio in enumerate(ratios, 1)]
        first = net.vectors("input", layers[0], *x.shape, scale=scales[0])
        readout = net.vectors("readout", layers[-1], net.outputs, scale=scales[-1])
        biases = {}
        for number, scale in numbered if self.has_biases else ():
            shape = () if number <= depth else (net.outputs,)
            over = layers[min(number, depth) - 1]
            biases[number] = net.vectors(f"bias {number}", over, *shape, scale=scale, trained=self.train_biases)
        h = x @ first
        for number, (layer, scale) in enumerate(zip(layers, scales[1:], strict=True), 1):
            h = net.name(f"h {number}", h + biases[number] if biases else h)
            feature = net.name(f"phi {number}", net.map(self.phi, h))
            if number < depth:
                h = net.matrix(f"hidden {number}", layer, layers[number], scale=scale) @ feature
        outputs = net.inner(feature, readout)
        return outputs + net.mean(biases[depth + 1]) if biases else outputs

    @property
    def normalised_width_ratios(self) -> tuple[float, ...]:
        """N_1/N_L .. N_L/N_L, in the units of the theory (the last hidden layer has ratio 1)."""
        ratios = self.width_ratios or (1.0,) * self.hidden_layers
        return tuple(r / ratios[-1] for r in ratios)

    ratios = former("MLP", "ratios", "normalised_width_ratios")

    def widths(self, width: int) -> tuple[int, ...]:
        """Numbers of neurons N_1 .. N_L of a real network of nominal `width`."""
        check.integer("width", width, least=1)
        return tuple(max(1, round(r * width)) for r in self.width_ratios or (1.0,) * self.hidden_layers)

    def parameters(self, dimension: int, width: int, outputs: int = 1) -> int:
        """Number of weights and, if any bias is ever different from zero, biases: sum_l (n_{l-1} + 1) n_l.

        >>> MLP(3, train_biases=True).parameters(dimension=4, width=5)
        91
        """
        ends = (check.integer("dimension", dimension, least=1), *self.widths(width))
        sizes = (*ends, check.integer("outputs", outputs, least=1))
        return sum((below + self.has_biases) * above for below, above in pairwise(sizes))

    def in_program(self, outputs: int) -> MLP:
        """With the number of outputs, and without the richness, which a program is told apart, in one form for all."""
        return dataclasses.replace(
            self,
            richness=1.0,
            outputs=outputs,
            weight_variances=per_weight_layer("weight_variances", self.weight_variances, self.hidden_layers),
            bias_variances=per_weight_layer("bias_variances", self.bias_variances, self.hidden_layers),
        )


def per_layer(name: str, value: Any, layers: int, which: str, **bounds: float) -> tuple[float, ...]:
    """One number for each of so many layers, from a list of them or from one number for all; `which` names them.

    >>> per_layer("weight_variances", 2.0, 3, "layers of weights")
    (2.0, 2.0, 2.0)
    """
    if not isinstance(value, list | tuple | np.ndarray) or np.ndim(value) == 0:
        return (check.number(name, value, **bounds),) * layers
    if len(value) != layers:
        raise InvalidInput(f"{name} has {len(value)} entries; it must be a number or have {layers}, for {which}")
    return tuple(check.number(name, item, **bounds) for item in value)


def per_weight_layer(name: str, value: Any, hidden_layers: int, **bounds: float) -> tuple[float, ...]:
    """One number for each of the L + 1 layers of weights."""
    which = f"the weight layers of hidden_layers = {hidden_layers} (the input layer first, the readout last)"
    return per_layer(name, value, hidden_layers + 1, which, **bounds)


def _sequence(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"width_ratios = {value!r} must be a list with one number for each hidden layer")
    return tuple(value)


def _scales(variances: float | tuple[float, ...], hidden_layers: int) -> tuple[float, ...]:
    values = variances if isinstance(variances, tuple) else (variances,) * (hidden_layers + 1)
    return tuple(root(v) for v in values)


def widths_of(network: MLP, widths: int | Sequence[int]) -> tuple[int, ...]:
    """n_1 .. n_L of the hidden layers, from one nominal width or from all of them."""
    if not isinstance(widths, Sequence | np.ndarray):
        return network.widths(check.integer("widths", widths, least=1))
    sizes = tuple(check.integer("widths", n, least=1) for n in widths)
    if len(sizes) != network.hidden_layers:
        raise InvalidInput(f"widths has {len(sizes)} entries; the network has {network.hidden_layers} hidden layers")
    return sizes
