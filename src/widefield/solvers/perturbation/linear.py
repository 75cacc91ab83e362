"""Deep linear networks to leading order, in closed form."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from .order import Correction, Kernels


class Integrals(eqx.Module):
    """v_a(t) = int Delta_a and v_ab(t) = int Delta_a v_b; with several outputs, a product of vectors in the latter."""

    single: Float[Array, "a c"]
    double: Float[Array, "a c a c"]


class LinearCorrection(Correction):
    """A deep linear network with unit variances and without biases, BP22 eq. (12) with corrected coefficients.

        H^l = K + gamma_0^2 [alpha_l S1 + beta_l S2]        G^l = 1 + gamma_0^2 [alpha'_l s1 + beta'_l s2]
        S1 = K [v_ab(t) + v_ba(s)] K,    S2 = K v(t) v(s)^T K,    s1 = tr K [v_ab(t) + v_ba(s)],    s2 = v(s)^T K v(t)

    with alpha_l = sum_{k<=l} k (L+1-k), beta_l = sum_{k<=l} k^2, and the same from the top for G. What is printed in
    BP22 eqs. (12), (144)-(147), alpha_l = beta_l = l, leaves out the response functions and so belongs to the
    theory of gradient independence; `published` asks for it.
    """

    kernel: Float[Array, "a a"]
    outputs: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    published: bool = eqx.field(static=True, default=False)

    def start(self) -> Integrals:
        """Nothing learned."""
        samples, outputs = len(self.kernel), self.outputs
        return Integrals(jnp.zeros((samples, outputs)), jnp.zeros((samples, outputs, samples, outputs)))

    def moved(self, state: Integrals, x: Float[Array, "a c"]) -> Integrals:
        """v_a += x_a, v_ab += x_a v_b."""
        return Integrals(state.single + x, state.double + jnp.einsum("ac,bd->acbd", x, state.single))

    def kernels(self, late: Integrals, early: Integrals) -> Kernels:
        """The formulas above."""
        k, identity = self.kernel, jnp.eye(self.outputs)
        along, above = self._coefficients()
        both = late.double + jnp.einsum("acbd->bdac", early.double)
        s1 = jnp.einsum("ma,acbc,bn->mn", k, both, k)
        s2 = jnp.einsum("ma,ac,bc,bn->mn", k, late.single, early.single, k)
        t1 = jnp.einsum("ab,acbd->cd", k, both)
        t2 = jnp.einsum("ab,ac,bd->cd", k, late.single, early.single)
        feature = jnp.einsum("kl,kmn->lmn", along, jnp.stack([s1, s2]))
        gradient = jnp.einsum("kl,kcd->lcd", above, jnp.stack([t1, t2]))
        ones = jnp.ones_like(k)
        ntk = jnp.einsum("mn,cd->mcnd", jnp.sum(feature, axis=0), identity)
        ntk = ntk + jnp.einsum("mn,cd->mcnd", k, jnp.sum(gradient, axis=0))
        return Kernels(feature, jnp.einsum("lcd,mn->lmcnd", gradient, ones), ntk)

    def _coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(alpha_l, beta_l) and (alpha'_l, beta'_l) for l = 1 .. L."""
        layers = np.arange(1.0, self.depth + 1)
        if self.published:
            return np.stack([layers, layers]), np.stack([layers[::-1], layers[::-1]])
        products, squares = layers * (self.depth + 1 - layers), layers**2
        forward = np.stack([np.cumsum(products), np.cumsum(squares)])
        return forward, forward[:, ::-1]
