"""What lives on the neurons: the fields of one pass through the network, and the state that training changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .matrices import Substrate

Weights = dict[str, Float[Array, "rows _"]]
"""Named vectors over populations that a program keeps beside its substrate: input weights, readout, biases."""

Gradients = tuple[Float[Array, "p k _"], ...]
"""A field for every layer (layer 1 first), sample and output signal."""


class State(eqx.Module):
    """All that changes in training, and the frozen randomness that it runs with.

    `weights` are vectors over populations that learn, `frozen` those that do not; the matrices between populations
    are in `substrate`; `memory` is what the optimiser keeps from one step to the next.
    """

    weights: Weights
    memory: Any
    frozen: Weights
    substrate: Substrate
    initial_outputs: Float[Array, "all c"]

    def on(self, substrate: Substrate) -> State:
        """The same state after the substrate has been used."""
        return dataclasses.replace(self, substrate=substrate)

    @property
    def values(self) -> dict[str, Any]:
        """All that learns, by name."""
        return {**self.weights, **self.substrate.values}

    def with_values(self, values: dict[str, Any]) -> State:
        """With other values of what is named."""
        weights = {name: values.get(name, old) for name, old in self.weights.items()}
        matrices = {name: value for name, value in values.items() if name not in weights}
        return dataclasses.replace(self, weights=weights, substrate=self.substrate.with_values(matrices))


class Forward(eqx.Module):
    """Fields of a forward pass, layer 1 first: h, phi(h) and phi'(h); and the network's outputs."""

    preactivations: tuple[Float[Array, "p _"], ...]
    features: tuple[Float[Array, "p _"], ...]
    slopes: tuple[Float[Array, "p _"], ...]
    outputs: Float[Array, "p c"]


class Backward(eqx.Module):
    """Fields of a backward pass, layer 1 first: z and g = phi'(h) z."""

    pregradients: Gradients
    gradients: Gradients
