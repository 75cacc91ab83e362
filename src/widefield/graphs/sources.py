"""Where a tape takes its numbers from: a substrate and a state, nothing at all, or a handful of random neurons."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..matrices.substrate import Substrate
from .parts import MatrixSpec, Population, VectorSpec

SAMPLES = 3
"""Of a probe: one more than would do, so that no unit of a few is off for all of them."""


class Live:
    """Vectors of a state, and the matrices of a substrate, which learns by being asked."""

    def __init__(self, substrate: Substrate, weights: Mapping[str, Float[Array, "_ _"]]) -> None:
        self.substrate, self.weights = substrate, weights

    def vectors(self, spec: VectorSpec) -> Float[Array, "..."]:
        """Those of the state."""
        value = self.weights[spec.name]
        return jnp.reshape(value, (1, *spec.shape, value.shape[-1]))

    def apply(self, spec: MatrixSpec, transposed: bool, vectors: Float[Array, "..."]) -> Float[Array, "..."]:
        """Ask the substrate."""
        ask = self.substrate.apply_transpose if transposed else self.substrate.apply
        image, self.substrate = ask(spec.name, vectors)
        return image


class Blank:
    """Zeros, one neuron for a population: shows what a network is made of, and costs nothing once compiled."""

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def vectors(self, spec: VectorSpec) -> Float[Array, "..."]:
        """Zeros."""
        return jnp.zeros((1, *spec.shape, 1), self.dtype)

    def apply(self, spec: MatrixSpec, transposed: bool, vectors: Float[Array, "..."]) -> Float[Array, "..."]:
        """Zeros."""
        del spec, transposed
        return jnp.zeros_like(vectors)


class Probe:
    """A few random neurons, of another number in every population, so that what must not be mixed shows."""

    def neurons(self, population: Population) -> int:
        """How many."""
        return 7 + 2 * population.index

    def vectors(self, spec: VectorSpec) -> Float[Array, "..."]:
        """Random numbers of the specification."""
        return spec.mean + spec.scale * self._drawn(spec.name, (1, *spec.shape, self.neurons(spec.population)))

    def apply(self, spec: MatrixSpec, transposed: bool, vectors: Float[Array, "..."]) -> Float[Array, "..."]:
        """Products with random matrices."""
        matrix = spec.scale * self._drawn(spec.name, (self.neurons(spec.target), self.neurons(spec.source)))
        matrix = matrix if transposed else matrix.T
        return vectors @ matrix / math.sqrt(len(matrix))

    def inputs(self, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Of samples of other sizes, as data have them."""
        sizes = jnp.reshape(jnp.arange(1.0, SAMPLES + 1), (SAMPLES, *(1,) * (len(shape) + 1)))
        return sizes * self._drawn("inputs", (SAMPLES, *shape, 1)) / math.sqrt(shape[-1])

    def _drawn(self, name: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
        return jnp.asarray(np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape))
