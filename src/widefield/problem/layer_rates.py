"""Learning rates of single layers: factors w_l, b_l on all that moves weights and biases, PDLT eqs. (7.11), (8.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from ..base import check
from ..base.errors import InvalidInput
from ..base.numbers import Number, traced
from .network import MLP, per_weight_layer

if TYPE_CHECKING:
    from .architecture import Network

Rates = float | tuple[float, ...]
"""One number for all layers of weights, or one for each, the input layer first."""

WEIGHT_RATES, BIAS_RATES = "weight_rates", "bias_rates"


@traced("weights", "biases")
@dataclass(frozen=True)
class LayerRates:
    """w_0 .. w_L of the weights and b_0 .. b_L of the biases, b = 0 where biases do not learn.

    These are lambda_W^(l+1) and lambda_b^(l+1) of PDLT. The tangent kernel that drives outputs, df/dt = K Delta, is

        K = sum_{l=0}^{L} G~^{l+1} (w_l Phi^l + b_l),      G~^{L+1} = 1,  Phi^0 = K^x          (PDLT eq. (8.12))
    """

    weights: tuple[Number, ...]
    biases: tuple[Number, ...]

    @classmethod
    def of(cls, network: MLP, weights: Rates = 1.0, biases: Rates = 1.0) -> LayerRates:
        """From what an optimiser says, which was checked before; numbers may be traced ones."""
        count = network.hidden_layers + 1
        learn = biases if network.train_biases else 0.0
        return cls(*(value if isinstance(value, tuple) else (value,) * count for value in (weights, learn)))

    def __getitem__(self, name: str) -> Number:
        """The factor of what has this name in a program: "input", "hidden l", "readout", "bias l"; 1 of all else."""
        return rate_of(name, self.weights, self.biases)


def rate_of(name: str, weights: Any, biases: Any) -> Number:
    """The factor by name, from one number for all layers or from a tuple."""
    kind, _, number = name.partition(" ")
    if kind not in ("input", "hidden", "readout", "bias"):
        return 1.0
    rates = biases if kind == "bias" else weights
    if not isinstance(rates, tuple):
        found: Number = rates
        return found
    index = {"input": 0, "readout": -1}.get(kind)
    chosen: Number = rates[int(number) - (kind == "bias") if index is None else index]
    return chosen


def decayed(directions: Any, values: Any, decay: Number, weights: Any, biases: Any) -> Any:
    """w_l (G - lambda W) of all that learns, where the directions are w_l G already."""

    def one(name: str) -> Any:
        amount = decay * rate_of(name, weights, biases)
        return jax.tree.map(lambda g, w: g - amount * w, directions[name], values[name])

    return {name: one(name) for name in directions}


def checked(name: str, value: Any) -> Rates:
    """A number, or one for each layer of weights; how many there must be is known to the network."""
    if isinstance(value, list | tuple):
        if not value:
            raise InvalidInput(f"{name} = {value!r} is empty: give a number, or one for each layer of weights")
        return tuple(check.number(name, item, least=0.0) for item in value)
    return check.number(name, value, least=0.0)


def in_layers(network: Network, weights: Rates, biases: Rates) -> dict[str, tuple[float, ...]]:
    """Both as tuples, for a network with so many layers; nothing for one without layers, which must not have any."""
    given = {WEIGHT_RATES: weights, BIAS_RATES: biases}
    if not isinstance(network, MLP):
        for name in (name for name, value in given.items() if layered(value)):
            why = f"network = {network.heading!r} has no layers of weights"
            raise InvalidInput(f"optimiser.{name} = {given[name]!r}: {why}")
        return {}
    found = {name: per_weight_layer(f"optimiser.{name}", value, network.hidden_layers) for name, value in given.items()}
    if layered(biases) and not network.train_biases:
        raise InvalidInput(
            f"optimiser.bias_rates = {biases!r}, but biases do not learn: set network.train_biases = true, "
            "or leave it out"
        )
    return found


def layered(rates: Any) -> bool:
    """Whether factors, plain numbers, change anything."""
    return any(rate != 1.0 for rate in (rates if isinstance(rates, tuple) else (rates,)))
