"""Gradient independence: backward passes see an independent copy of every initial matrix."""

from __future__ import annotations

from typing import Self

from jaxtyping import Array, Float

from ..base.traced import Number
from .conditioned import Conditioned, Partner, composed


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
        forward = super().with_matrix(name, source, target, scale, adjoint=False, shakes=shakes)
        return Conditioned.with_matrix(forward, _backward(name), source, target, scale)

    def with_partner(self, name: str, partner: str, scale: Number, correlation: Number) -> Self:
        """Add a frozen matrix, correlated with the one of backward passes."""
        other = self.matrices[partner]
        fresh = Conditioned.with_matrix(self, f"{name} fresh", other.source, other.target, scale)
        return fresh._with(partners={**self.partners, name: Partner.of(_backward(partner), correlation)})

    def apply_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W^T u / sqrt(n_t): the initial part from the copy, and what was learned."""
        if name not in self.matrices:
            return super().apply_transpose(name, vectors)
        rows, copy = vectors.reshape(-1, vectors.shape[-1]), _backward(name)
        answer, substrate = self._ask(copy, self.matrices[name].value.weight, rows, transposed=True)
        matrix = substrate.matrices[name]
        learned = matrix.left_span.coordinates(rows) @ matrix.value.core / self._factor(matrix)
        image = composed(answer, substrate.matrices[copy], None, None, transposed=True)
        return (image + learned @ matrix.right_span.rows).reshape(*vectors.shape[:-1], -1), substrate

    def initial_transpose(self, name: str, vectors: Float[Array, "*rows m"]) -> tuple[Float[Array, "*rows n"], Self]:
        """W(0)^T has nothing to do with W(0)."""
        raise NotImplementedError("gradient independence sets all response functions to zero")


def _backward(name: str) -> str:
    return f"{name} backward"
