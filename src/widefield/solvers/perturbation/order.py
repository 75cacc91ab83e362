"""What a correction of leading order knows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class Kernels(eqx.Module):
    """Coefficients of gamma_0^2 in the kernels between all samples at a time t and at a time s."""

    feature: Float[Array, "l a a"]
    gradient: Float[Array, "l a c a c"]
    ntk: Float[Array, "a c a c"]


class Correction(eqx.Module):
    """Follows what errors do to an initial network, to leading order.

    States are linear in each contribution x = (learning rate times Delta), so that a state between two steps is the
    one after a fraction of x.
    """

    @abstractmethod
    def start(self) -> Any:
        """Before learning."""

    @abstractmethod
    def moved(self, state: Any, x: Float[Array, "a c"]) -> Any:
        """After errors x; zero where a sample is not trained on."""

    @abstractmethod
    def kernels(self, late: Any, early: Any) -> Kernels:
        """Between the states at two times (rows, columns)."""
