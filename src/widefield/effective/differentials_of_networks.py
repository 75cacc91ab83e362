"""Differentials of one real network at its outputs, by derivatives along directions: no theory.

With v_a = lambda dz_a / d theta, a = (sample, neuron), and D z[v] the derivative of z in the direction v,

    H_ab = D z_a [v_b]          dH_abc = D^2 z_a [v_b, v_c]          ddI_abcd = D^3 z_a [v_b, v_c, v_d]
    ddII_abcd = <D^2 z_a [v_c], lambda D^2 z_b [v_d]>

(PDLT eqs. (8.5), (11.8), (inf.5), (inf.7)). Directions cost one forward pass each, with 2, 4 or 8 components, and no
array has more than one axis of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision

Parameters = list[tuple[Any, Any]]
"""Weights and biases of all layers, numpy's or jax's."""


@dataclass(frozen=True, eq=False)
class NetworkDifferentials:
    """Of one network at its outputs: samples first, then neurons."""

    outputs: Float[Floats, "p m"]
    """z_i;0."""

    ntk: Float[Floats, "p p m m"]
    """H_ij;01."""

    dntk: Float[Floats, "p p p m m m"]
    """dH_ijk;012: how H_ij;01 + H_ik;02 and the outputs answer a step."""

    first_ddntk: Float[Floats, "p p p p m m m m"]
    """ddI_ijkl;0123."""

    second_ddntk: Float[Floats, "p p p p m m m m"]
    """ddII_ijkl;1234."""


def network_differentials(
    activation: str | Activation,
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    x: ArrayLike,
    *,
    weight_rates: Sequence[float],
    bias_rates: Sequence[float],
) -> NetworkDifferentials:
    """Of one network z' = W s(z) + b with these weights; rates are lambda_b of biases, lambda_W / fan-in of weights.

    >>> rates = {"weight_rates": (1.0, 1.0), "bias_rates": (0.0, 0.0)}
    >>> found = network_differentials("linear", [[[2.0]], [[3.0]]], [[0.0], [0.0]], [[1.0]], **rates)
    >>> found.ntk.item(), found.dntk.item(), found.first_ddntk.item(), found.second_ddntk.item()
    (13.0, 12.0, 0.0, 13.0)
    """
    s, inputs, parameters = read(activation, weights, biases, x, weight_rates, bias_rates)
    shape = len(inputs), len(parameters[-1][1])
    check.memory("differentials of the outputs", 16 * (shape[0] * shape[1]) ** 4, "use fewer samples or outputs")
    with double_precision():
        rates = jnp.asarray([weight_rates, bias_rates])
        parameters = jax.tree.map(jnp.asarray, parameters)
        found = [np.asarray(part) for part in at_outputs(s, parameters, jnp.asarray(inputs), rates)]
    return NetworkDifferentials(*(_apart(part, *shape) for part in found))


def _apart(values: Floats, samples: int, neurons: int) -> Floats:
    """From axes of (sample, neuron) to those of samples, then those of neurons."""
    order = values.ndim
    wide = values.reshape((samples, neurons) * order)
    return np.ascontiguousarray(wide.transpose([*range(0, 2 * order, 2), *range(1, 2 * order, 2)]))


def read(
    activation: str | Activation,
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    x: ArrayLike,
    weight_rates: Sequence[float],
    bias_rates: Sequence[float],
) -> tuple[Activation, Float[Floats, "p d"], Parameters]:
    """Check what makes one network."""
    s, inputs = get(activation), check.inputs(x, None)[0]
    matrices = [check.array("weights", W, ndim=2) for W in weights]
    shifts = [check.array("biases", b, ndim=1) for b in biases]
    counts = {len(part) for part in (matrices, shifts, weight_rates, bias_rates)}
    fits = all(low.shape[0] == high.shape[1] for low, high in pairwise(matrices))
    rows = [len(W) for W in matrices] == [len(b) for b in shifts]
    if len(counts) != 1 or not fits or not rows or matrices[0].shape[1] != inputs.shape[1]:
        shapes = [W.shape for W in matrices], [b.shape for b in shifts]
        raise InvalidInput(
            f"weights and biases have shapes {shapes} for inputs of dimension {inputs.shape[1]}, "
            f"and rates {len(weight_rates)} and {len(bias_rates)} entries"
        )
    return s, inputs, list(zip(matrices, shifts, strict=True))


def outputs(activation: Activation, parameters: Parameters, x: Float[Array, "p d"]) -> Float[Array, "p m"]:
    """z of the last layer."""
    (W, b), *rest = parameters
    z: Array = x @ W.T + b[None]
    for W, b in rest:
        z = activation(z) @ W.T + b[None]
    return z


@partial(jax.jit, static_argnums=0)
def at_outputs(
    activation: Activation, parameters: Parameters, x: Float[Array, "p d"], rates: Float[Array, "2 l"]
) -> tuple[Array, Array, Array, Array, Array]:
    """z, H, dH, ddI, ddII over composite indices (sample, neuron)."""
    flat, unravel = ravel_pytree(parameters)
    layers = zip(parameters, rates[0], rates[1], strict=True)
    scales = ravel_pytree([(jnp.full_like(W, w / W.shape[1]), jnp.full_like(b, v)) for (W, b), w, v in layers])[0]

    def z(theta: Array) -> Array:
        return jnp.ravel(outputs(activation, unravel(theta), x))

    value, J = z(flat), jax.jacrev(z)(flat)
    v = scales[None] * J
    bent = jax.vmap(lambda u: jax.jvp(jax.jacrev(z), (flat,), (u,))[1])(v)  # D^2 z_a [v_c] over c, a, parameters
    second = jnp.einsum("cap,bp->abc", bent, v)
    both = jnp.einsum("cap,p,dbp->abcd", bent, scales, bent)
    return value, J @ v.T, second, _third(z, flat, v), both


def _third(z: Any, flat: Array, v: Array) -> Array:
    """D^3 z_a [v_b, v_c, v_d], for b <= c <= d."""

    def along(f: Any, u: Array) -> Any:
        return lambda theta: jax.jvp(f, (theta,), (u,))[1]

    size = len(v)
    chosen = [(b, c, d) for b in range(size) for c in range(b, size) for d in range(c, size)]
    number = {triple: k for k, triple in enumerate(chosen)}
    one, two, three = (v[jnp.asarray(column)] for column in zip(*chosen, strict=True))
    found = jax.vmap(lambda a, b, c: along(along(along(z, a), b), c)(flat))(one, two, three)
    cells = np.indices((size,) * 3).reshape(3, -1).T
    places = [number[tuple(sorted(cell))] for cell in cells.tolist()]  # type: ignore[index]
    return jnp.moveaxis(jnp.asarray(found)[jnp.asarray(places)].reshape(size, size, size, -1), -1, 0)
