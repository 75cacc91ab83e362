"""Gradient independence: backward passes see an independent copy of every initial matrix."""

from __future__ import annotations

from typing import Self

from jaxtyping import Array, Float

from ..base.numbers import Number
from .conditioned import Conditioned
from .substrate import inner


class Decoupled(Conditioned):
    """Infinite populations in which W(0) and W(0)^T have nothing to do with each other.

    What W(0) does to features and what W(0)^T does to gradients are then independent Gaussian processes: the responses
    A = B = 0 of BP22 section 5.1. What is learned is shared.
    """

    def with_matrix(
        self, name: str, source: int, target: int, scale: Number, *, adjoint: bool = True, shakes: int = 0
    ) -> Self:
        """Add a matrix, and another one that takes its place in backward passes."""
        del adjoint
        ends, learned = (source, target), (True, bool(shakes))
        forward = self._with_matrix(name, ends, scale, (True, False), learned, shakes)
        return forward._with_matrix(_backward(name), ends, scale, (False, True))

    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add a frozen matrix, correlated with the one of backward passes."""
        return self._with_partner(name, _backward(partner), self.matrices[partner], scale, correlation)

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t): the initial part from the copy, and what was learned."""
        if name not in self.matrices:
            return super().apply_transpose(name, vectors)
        image, substrate = self._initial(_backward(name), self.matrices[name].value.weight, vectors)
        matrix = substrate.matrices[name]
        learned = inner(vectors, matrix.updates(1)) @ matrix.value.core / self._factor(matrix, 0)
        return image + learned @ matrix.updates(0), substrate

    def initial_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W(0)^T has nothing to do with W(0)."""
        raise NotImplementedError("gradient independence sets all response functions to zero")


def _backward(name: str) -> str:
    return f"{name} backward"
