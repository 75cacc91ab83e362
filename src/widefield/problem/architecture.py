"""What all networks have in common: `Network`, from which users derive architectures of their own."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Self

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput
from ..graphs.plan import check_network

if TYPE_CHECKING:
    from ..graphs.fields import Field
    from ..graphs.tape import Tape

PARAMETERISATIONS = ("mean-field", "ntk")

_COMMON: dict[str, tuple[str, Any]] = {
    "richness": ("float", 1.0),
    "outputs": ("int | None", None),
    "parameterisation": ("str", "mean-field"),
    "centred": ("bool", True),
}
"""Fields of every network: their types and defaults."""


class Network(Described, family="network"):
    """A network: a frozen dataclass with a forward pass, from which training at any width follows, infinity included.

        @dataclass(frozen=True)
        class Gated(wf.Network, kind="gated"):
            def forward(self, net, x):
                one, two = net.population("layer 1"), net.population("layer 2")
                a = net.map(jnp.tanh, x @ net.vectors("input", one, *x.shape))
                gate = net.map(jax.nn.sigmoid, net.matrix("gate", one, two) @ a)
                hidden = net.name("gated", gate * (net.matrix("value", one, two) @ a))
                return net.inner(hidden, net.vectors("readout", two, net.outputs))

    `forward` gets inputs x / sqrt(D) with the positions (..., D), and returns `net.outputs` numbers F for every sample;
    outputs are f = F / gamma_0. Parameters are N(0, 1) unless they say otherwise, and all of them learn with the rate
    eta gamma^2, as in `MLP`. It is made of

        net.population(name, ratio=1.0)                neurons, ratio times as many as the width says
        net.vectors(name, population, *shape)          vectors over a population: input weights, readouts, biases, gains
        net.matrix(name, source, target)               W @ v is W v / sqrt(n_source); W.T @ u is W^T u / sqrt(n_target)
        net.map(function, *fields)                     a function of one neuron and one sample; it may mix positions
        net.mean(a), net.inner(a, b)                   averages over neurons: scalars of order one
        x @ vectors, + - * / **, field[positions]      as in numpy; fields are added neuron by neuron
        net.name(name, field)                          record kernels of this field under a name

    Every class has these fields too, to be given by name:

    Args:
        richness: gamma_0, as in `MLP`.
        outputs: number C of outputs; None takes it from the data.
        parameterisation: "mean-field" or "ntk", as in `MLP`.
        centred: predict and train f - f(t=0).
    """

    richness: float
    outputs: int | None
    parameterisation: str
    centred: bool

    def __init_subclass__(cls, **named: Any) -> None:
        """Give the class the fields that every network has, unless it inherits them or has its own."""
        super().__init_subclass__(**named)
        if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
            return
        own = vars(cls).get("__annotations__", {})
        missing = {name: kind for name, kind in _COMMON.items() if name not in own}
        cls.__annotations__ = own | {name: kind for name, (kind, _) in missing.items()}
        for name, (_, default) in missing.items():
            setattr(cls, name, dataclasses.field(default=default, kw_only=True))

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Refuse a class that is no frozen dataclass."""
        del values, named
        parameters = getattr(cls, "__dataclass_params__", None)
        stated = "__dataclass_params__" in vars(cls) or not vars(cls).get("__annotations__")
        if parameters is None or not parameters.frozen or not stated:
            raise InvalidInput(f"network = {cls.__name__}: write @dataclass(frozen=True) above the class")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check the fields that every network has."""
        put(self, richness=check.number("richness", self.richness, least=0.0))
        if self.outputs is not None:
            put(self, outputs=check.integer("outputs", self.outputs, least=1))
        check.choice("parameterisation", self.parameterisation, PARAMETERISATIONS)
        check.flag("centred", self.centred)

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """Build what `to_table` wrote; a table that names no kind is an `MLP`."""
        if not cls.kind and isinstance(table, dict) and "kind" not in table:
            table = {"kind": "mlp", **table}
        return super().from_table(table)

    def forward(self, net: Tape, x: Field) -> Field:
        """Outputs F (samples, outputs) from inputs."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, net, x)")

    def check_inputs(self, inputs: tuple[int, ...], outputs: int) -> None:
        """Raise `InvalidInput` if the network cannot be trained on inputs (*positions, D), or has no limit."""
        check_network(self, inputs, outputs)

    @property
    def heading(self) -> str:
        """In a few words."""
        return self.kind or type(self).__name__

    @property
    def starts_at_random(self) -> bool:
        """Whether outputs of wide networks begin with random values of order one; in "mean-field" these vanish."""
        return self.parameterisation == "ntk" and not self.centred and self.richness > 0

    def effective_richness(self, last_width: float) -> float:
        """gamma / sqrt(N): the richness gamma_0 that enters the equations at this width."""
        if self.parameterisation == "mean-field":
            return self.richness
        return self.richness / math.sqrt(last_width)

    def in_program(self, outputs: int) -> Self:
        """With the number of outputs, and without the richness, which a program is told apart."""
        changed: Self = dataclasses.replace(self, richness=1.0, outputs=outputs)  # type: ignore[type-var]
        return changed
