"""Random networks with all their weights and two outputs, and what their differentials are on average: no theory.

Of two different outputs i, j, at order 1/n, n the last hidden width (PDLT eqs. (11.45), (inf.11), (inf.12)),

    P_0123 = n E[dH_ijj;012 z_i;3]      Q_0123 = n E[dH_iij;012 z_j;3]      R_0123 = n E[ddI_iijj;0123]
    S_1234 = n E[ddII_iijj;1234]        T_1342 = n E[ddII_ijij;1234]        U_1423 = n E[ddII_ijji;1234]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..problem.network import MLP, widths_of
from .differentials_of_networks import Parameters, at_outputs
from .sampler import Report, silent
from .tangent_sampler import rates_of

NAMES = ("P", "Q", "R", "S", "T", "U")
_FORMS = ("aibjcjdi->abcd", "aibicjdj->abcd", "aibicjdj->abcd", "aibicjdj->abcd", "aibjcidj->acdb", "aibjcjdi->adbc")
"""Which neurons are the same, and samples in the order in which the tensor has them."""

_AT_ONCE = 2**22
"""Numbers that are held at once."""


@dataclass(frozen=True, eq=False)
class DifferentialNetworks:
    """Estimates of P, Q, R, S, T, U of the outputs, and their standard errors, over samples as `differential_flow`."""

    means: dict[str, Float[Floats, "p p p p"]]
    errors: dict[str, Float[Floats, "p p p p"]]


def differential_networks(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    seeds: int,
    seed: int,
    report: Report = silent,
) -> DifferentialNetworks:
    """Draw so many networks with these rates (see `ntk_flow`); their activation must be smooth."""
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    seeds, count = check.integer("seeds", seeds, least=2), len(inputs)
    rates = rates_of(network, weight_rates, bias_rates)
    ends = (inputs.shape[1], *sizes, 2)
    numbers = sum((a + 1) * b for a, b in pairwise(ends)) * (2 * count) ** 2 * (2 + count)
    check.memory("differentials of a network", 8 * numbers, "use narrower networks or fewer samples")
    step = min(seeds, max(1, _AT_ONCE // numbers))
    generator = np.random.Generator(np.random.SFC64(check.integer("seed", seed)))
    sums = np.zeros((2, len(NAMES), *(count,) * 4))
    with double_precision():
        rated = jnp.asarray(np.array(rates).T)
        for start in range(0, seeds, step):
            parameters = _drawn(network, ends, generator, step)
            found = np.asarray(_estimates(network.phi, parameters, jnp.asarray(inputs), rated))
            kept = found[: min(step, seeds - start)]
            sums += np.stack([np.sum(kept**power, axis=0) for power in (1, 2)])
            report(min(start + step, seeds))
    mean, square = sizes[-1] * sums[0] / seeds, sizes[-1] ** 2 * sums[1] / seeds
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / (seeds - 1))
    return DifferentialNetworks(dict(zip(NAMES, mean, strict=True)), dict(zip(NAMES, error, strict=True)))


def _drawn(network: MLP, ends: tuple[int, ...], generator: np.random.Generator, batch: int) -> Parameters:
    scales = zip(pairwise(ends), network.weight_scales, network.bias_scales, strict=True)
    return [
        (
            jnp.asarray(generator.standard_normal((batch, above, below)) * (weight * below**-0.5)),
            jnp.asarray(generator.standard_normal((batch, above)) * bias),
        )
        for (below, above), weight, bias in scales
    ]


@partial(jax.jit, static_argnums=0)
def _estimates(
    activation: Activation, parameters: Parameters, x: Float[Array, "p d"], rates: Float[Array, "2 l"]
) -> Float[Array, "b k p p p p"]:
    """Of every network, without the factor n, averaged over which of its outputs is which."""
    shape = (len(x), 2)

    def one(own: Parameters) -> Array:
        z, _, second, first, both = at_outputs(activation, own, x, rates)
        correlated = second[..., None] * z[None, None, None]
        tensors = (correlated, correlated, first, both, both, both)
        # A sum over i and j less that over i = j, halved.
        found = [_different(form, tensor.reshape(shape * 4)) for form, tensor in zip(_FORMS, tensors, strict=True)]
        return jnp.stack(found)

    return jax.vmap(one)(parameters)


def _different(form: str, tensor: Float[Array, "p 2 p 2 p 2 p 2"]) -> Float[Array, "p p p p"]:
    alike = form.replace("j", "i")
    return (jnp.einsum(form, tensor) - jnp.einsum(alike, tensor)) / 2
