"""Training whose outputs follow the tangent kernel, df/dt = K Delta, instead of being read from the last layer."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .fields import Forward, State, Weights
from .matrices import inner
from .optimisers import Values
from .rules import true_gradient
from .training import Program, Rows


class TangentProgram(Program):
    """A program that learns its outputs as well: they move by K Delta (BP22 eq. (3), BP23 eq. (4)).

    For gradient flow this is the same as reading them from the last layer. It remains meaningful where forward and
    backward passes are approximated separately, so that the readout alone no longer knows what lower layers learned.
    """

    def beside(self) -> Weights:
        """The outputs of all samples, which begin with zero."""
        return {"outputs": jnp.zeros((self.inputs.shape[0], self.targets.shape[1]), self.inputs.dtype)}

    @property
    def trained(self) -> list[str]:
        """Weights, and outputs."""
        return [*super().trained, "outputs"]

    def outputs(self, features: Float[Array, "p n"], state: State, rows: Rows) -> Float[Array, "p c"]:
        """As they were learned."""
        del features
        return state.weights["outputs"][rows]

    def gradient(self, state: State, rows: Rows) -> tuple[Values, Float[Array, ""], State]:
        """dW/dt, and df/dt of all samples."""
        directions, loss, state = super().gradient(state, rows)
        forward, state = self.forward(state, slice(None))
        identity = jnp.eye(self.targets.shape[1], dtype=self.targets.dtype)
        signal = jnp.broadcast_to(identity, (forward.outputs.shape[0], *identity.shape))
        backward, state = true_gradient(signal, forward, state)
        chosen, state = self.forward(state, rows)
        errors = self.errors(chosen.outputs, self.targets[rows])
        pseudo, state = self.rule.pseudo_gradient(errors[:, None, :], errors, chosen, state)
        directions["outputs"] = self._change(forward, backward.gradients, chosen, tuple(g[:, 0] for g in pseudo), rows)
        directions["outputs"] += self._kernel(forward.features[-1], chosen.features[-1]) @ errors
        return directions, loss, state

    def _change(
        self,
        forward: Forward,
        gradients: tuple[Float[Array, "all c _"], ...],
        chosen: Forward,
        pseudo: tuple[Float[Array, "p _"], ...],
        rows: Rows,
    ) -> Float[Array, "all c"]:
        """sum_{l=0}^{L-1} sum_nu (Phi^l + [trained bias]) <g^{l+1}, sum_c Delta_c gt^{l+1}_c>."""
        kernels = [self._shifted(self.inputs @ self.inputs[rows].T)]
        kernels += [self._kernel(f, b) for f, b in zip(forward.features[:-1], chosen.features[:-1], strict=True)]
        products = [inner(g, s) for g, s in zip(gradients, pseudo, strict=True)]
        terms = [jnp.einsum("ab,acb->ac", phi, product) for phi, product in zip(kernels, products, strict=True)]
        return sum(terms[1:], terms[0])

    def _kernel(self, features: Float[Array, "a n"], others: Float[Array, "b n"]) -> Float[Array, "a b"]:
        return self._shifted(inner(features, others))

    def _shifted(self, kernel: Float[Array, "a b"]) -> Float[Array, "a b"]:
        return kernel + 1.0 if self.network.train_biases else kernel
