"""The order parameters that are iterated: kernels and responses at all pairs of samples and times."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Kernels = tuple[Array, ...]


class Order(NamedTuple):
    """Kernels of the layers 1 .. L and responses between them, (n, n) each; () where a rule has none.

    Args:
        features: Phi^l = <phi phi>.
        gradients: G^l = <g g>.
        alignment: <g gt>, with times s <= t only unless feedback knows the weights; () for gradient descent.
        pseudo: <gt gt> of feedback alignment; of direct feedback and Hebb's rule at equal times only, (T, P, P).
            Both at all pairs of times if `Sampling.all_times`.
        forward: a^l = <dphi/dr> of gradient descent or c^l = <dphi/dv> of feedback alignment, l = 1 .. L - 1.
        backward: b^l = <dg/du> of layer l + 1, l = 1 .. L - 1, with its part at equal times.
        returned: d^l = <dgt/du> of layer l + 1.
        readout: <r^L phi(h^L)>, (n,).
    """

    features: Kernels
    gradients: Kernels
    alignment: Kernels
    pseudo: Kernels
    forward: Kernels
    backward: Kernels
    returned: Kernels
    readout: Float[Array, " n"]

    @property
    def aligned(self) -> Kernels:
        """<g gt> of every rule."""
        return self.alignment or self.gradients

    def at_equal_times(self, kernels: Kernels, times: int) -> Float[Array, "layers t p p"]:
        """Of every layer; all kernels of one kind."""
        return jnp.stack([_equal_times(kernel, times) if kernel.ndim == 2 else kernel for kernel in kernels])


@jax.jit
def damped(order: Order, estimate: Order, fraction: Float[Array, ""]) -> tuple[Order, Float[Array, ""]]:
    """X + fraction (X_new - X) for all order parameters, and the largest relative change of Phi or G of a layer."""
    moved: Order = jax.tree.map(lambda old, new: old + fraction * (new - old), order, estimate)
    kernels = zip(order.features + order.gradients, moved.features + moved.gradients, strict=True)
    return moved, jnp.max(jnp.stack([jnp.linalg.norm(new - old) / jnp.linalg.norm(old) for old, new in kernels]))


def _equal_times(kernel: Float[Array, "n n"], times: int) -> Float[Array, "t p p"]:
    count = len(kernel) // times
    return jnp.moveaxis(jnp.diagonal(kernel.reshape(times, count, times, count), axis1=0, axis2=2), -1, 0)
