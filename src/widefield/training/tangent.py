"""Training whose outputs follow the tangent kernel, df/dt = K Delta, instead of being read from the last layer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..matrices.substrate import Forward, Gradients, State, Weights, inner
from ..problem.optimisers import Values
from ..problem.rules import true_gradient
from .observe import tangent_kernel
from .program import Program
from .steps import Rows


class TangentProgram(Program):
    """A program that learns its outputs as well: they move by K Delta (BP22 eq. (3), BP23 eq. (4)).

    For gradient flow this is the same as reading them from the last layer. It remains meaningful where forward and
    backward passes are approximated separately, so that the readout alone no longer knows what lower layers learned.
    """

    def beside(self) -> Weights:
        """The outputs of all samples, which begin with zero."""
        return {"outputs": jnp.zeros((self.inputs.shape[0], self.targets.shape[1]), self.inputs.dtype)}

    @property
    def one_pass(self) -> bool:
        """Outputs have a direction of their own."""
        return False

    @property
    def trained(self) -> list[str]:
        """Weights, and outputs."""
        return [*super().trained, "outputs"]

    def outputs(self, features: Float[Array, "p n"], state: State, rows: Rows) -> Float[Array, "p c"]:
        """As they were learned."""
        del features
        return state.weights["outputs"][rows]

    def gradient(self, state: State, rows: Rows) -> tuple[Values, Float[Array, ""], State]:
        """dW/dt, and df/dt of all samples, from one pass: pseudo-gradients of single outputs add up to those of all."""
        forward, state = self.forward(state, slice(None))
        chosen: Forward = jax.tree.map(lambda field: field[rows], forward)
        targets = self.targets[rows]
        errors = self.errors(chosen.outputs, targets)
        identity = jnp.eye(targets.shape[1], dtype=targets.dtype)
        signal = jnp.broadcast_to(identity, (forward.outputs.shape[0], *identity.shape))
        backward, state = true_gradient(signal, forward, state)
        if self.rule.exact:
            pseudo: Gradients = tuple(g[rows] for g in backward.gradients)
        else:
            pseudo, state = self.rule.pseudo_gradient(signal[: len(errors)], errors, chosen, state)
        whole = tuple(jnp.einsum("pc,pcn->pn", errors, g)[:, None, :] for g in pseudo)
        directions, state = self._directions(rows, chosen, errors, whole, jnp.ones_like(errors[:, 0]), state)
        features = zip((self.inputs, *forward.features), (self.inputs[rows], *chosen.features), strict=True)
        products = [a @ b.T if n == 0 else inner(a, b) for n, (a, b) in enumerate(features)]
        alignment = [inner(g, gt) for g, gt in zip(backward.gradients, pseudo, strict=True)]
        kernel = tangent_kernel(products, alignment, self.layer_rates)
        directions["outputs"] = jnp.einsum("acbd,bd->ac", kernel, errors)
        return directions, self.loss.total(chosen.outputs, targets), state.settled()
