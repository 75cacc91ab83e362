"""Fluctuations of the metric of the outputs, drawn: their covariance is V / n, without a tensor of four samples.

To leading order in 1/n the metric of a network is K + u, where the products of the neurons of every layer scatter
independently and the layers above pass fluctuations on linearly, J = d<s s>/dK:

    u' = C_W { J u + (s_a s_b - <s_a s_b>) / sqrt(n_l) }          <u u> = V / n            PDLT eq. (4.119)
    G' = C_W { J G + <H(u, u)> / 2 }                              H = d^2<s s>/dK dK       PDLT eq. (4.115)

with a few neurons z ~ N(0, K) of every layer in each draw. A draw is a symmetric matrix over samples, and costs what a
matrix costs; a quadratic form in u is averaged over draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..gaussian.jacobians import Slopes
from ..gaussian.nested import evaluate
from ..gaussian.roots import root
from ..gaussian.sample_pairs import Pairs
from ..gaussian.sobol import normals
from ..kernels.fluctuations import SaddlePoint, saddle_point
from ..problem.network import MLP, widths_of
from .curvature import Curvature, derivatives
from .vertex_flow import refuse_jumps

_AT_ONCE = 2**21
"""Entries of metrics that are held at once."""


class Passing(NamedTuple):
    """How fluctuations of a layer's metric pass its neurons: of the entry (a, b), the numbers in front of

    u_aa, u_ab in J u, and of u_aa^2, u_aa u_ab, u_aa u_bb, u_ab^2 in H(u, u); transposed they belong to u_bb.
    """

    outer: Float[Floats, "p p"]
    inner: Float[Floats, "p p"]
    bends: tuple[Floats, Floats, Floats, Floats]

    @classmethod
    def of(cls, slopes: Slopes, bends: Curvature) -> Passing:
        """From what is known over pairs."""
        pairs, values = slopes.pairs, bends.values

        def ends(first: Floats, second: Floats) -> Floats:
            found = pairs.matrix(second)
            found[pairs.rows, pairs.columns] = first
            return found

        outer = ends(values[0], values[5]), ends(2 * values[1], 2 * values[4])
        own = pairs.diagonal
        for part in outer:
            part[np.diag_indices(len(own))] /= 2  # it meets its transpose
        quadratic = *outer, pairs.matrix(2 * values[2]), pairs.matrix(values[3])
        return cls(ends(slopes.first, slopes.second), pairs.matrix(slopes.both), quadratic)

    def linear(self, u: Float[Floats, "k p p"]) -> Float[Floats, "k p p"]:
        """J u."""
        own = np.einsum("kaa->ka", u)
        found = self.inner * u
        found += self.outer * own[:, :, None]
        found += self.outer.T * own[:, None, :]
        return found

    def quadratic(self, u: Float[Floats, "k p p"]) -> Float[Floats, "p p"]:
        """Sum of H(u, u) over draws."""
        own = np.einsum("kaa->ka", u)
        square, mixed, cross, inner = self.bends
        one = square * np.sum(own**2, axis=0)[:, None] + mixed * np.einsum("ka,kab->ab", own, u)
        both = cross * (own.T @ own) + inner * np.einsum("kab,kab->ab", u, u)
        return np.asarray(one + one.T + both)


@dataclass(frozen=True, eq=False)
class MetricDraws:
    """Draws of u at the outputs, over `pairs` of the samples, of which the first `observed` come first.

    Of the others each is drawn with the observed ones, but not with one another unless they are `together`: what is
    said of one of them does not depend on who else is asked for.
    """

    point: SaddlePoint
    sizes: tuple[int, ...]
    observed: int
    kernel: Float[Floats, "p p"]
    """K of the outputs."""

    pairs: Pairs
    passing: tuple[Passing, ...]
    """Of the layers 2 .. L."""

    roots: tuple[Float[Floats, "p d"], ...]
    """Of the layers 1 .. L: z = root @ normals."""

    @classmethod
    def of(
        cls, network: MLP, x: ArrayLike, widths: int | Sequence[int], observed: int, *, together: bool = False
    ) -> MetricDraws:
        """For the inputs x."""
        inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
        refuse_jumps(network)
        others = len(inputs) - observed
        pairs = Pairs.within(len(inputs)) if together else Pairs.within(observed, others)
        point, s = saddle_point(network, inputs), network.phi
        passing = tuple(Passing.of(*derivatives(s, K, pairs)) for K in point.preactivation[1:])
        roots = tuple(_root(K, observed, together) for K in point.preactivation)
        kernel = network.bias_scales[-1] ** 2 + point.weight_variances[-1] * point.feature_kernel[-1]
        return cls(point, sizes, observed, kernel, pairs, passing, roots)

    @property
    def samples(self) -> int:
        """All of them."""
        return len(self.kernel)

    def parts(self, points: int, seed: int) -> Iterator[tuple[Float[Floats, "k p p"], Float[Floats, "l p p"]]]:
        """Some draws after others, `points` in all: u over samples, and what H(u, u) of the layers 2 .. L has of them.

        The latter are sums, to be divided by `points`.
        """
        count, neurons = max(1, _AT_ONCE // self.samples**2), self.neurons
        drawn = [normals(seed, layer, each.shape[1], points * neurons) for layer, each in enumerate(self.roots)]
        for start in range(0, points, count):
            chosen = slice(start * neurons, min(start + count, points) * neurons)
            yield self._climbed([part[:, chosen] for part in drawn])

    @property
    def neurons(self) -> int:
        """Of each layer, in every draw: their average scatters less wildly than one, and costs little more."""
        return max(1, self.observed // 16)

    def _climbed(self, drawn: list[Float[Floats, "_ kj"]]) -> tuple[Float[Floats, "k p p"], Float[Floats, "l p p"]]:
        shape, J = (self.samples, self.samples), self.neurons
        u, bent = np.zeros((drawn[0].shape[1] // J, *shape)), np.zeros((len(self.passing), *shape))
        for layer, (factor, normal) in enumerate(zip(self.roots, drawn, strict=True)):
            if layer:
                passing = self.passing[layer - 1]
                bent[layer - 1] = passing.quadratic(u)
                u = passing.linear(u)
            s = evaluate(self.point.activation, (factor @ normal).T).reshape(len(u), J, len(factor))
            own = np.swapaxes(s, 1, 2) @ s / J - self.point.feature_kernel[layer]
            u += own * math.sqrt(J / self.sizes[layer])
            u *= self.point.weight_variances[layer + 1]
        return u, bent

    def shift(self, bent: Float[Floats, "l p p"]) -> Float[Floats, "p p"]:
        """G / n of the outputs, from the means of H(u, u)."""
        found = np.zeros_like(self.kernel)
        for layer, passing in enumerate(self.passing):
            weight = self.point.weight_variances[layer + 2]
            found = weight * (passing.linear(found[None])[0] + 0.5 * bent[layer])
        return found


def _root(K: Float[Floats, "p p"], observed: int, together: bool) -> Float[Floats, "p d"]:
    """A with A A^T = K among the observed and between them and each other one.

    Columns of the observed come first, so that their draws are the same whatever follows. All that is left of others
    has one column, or as many as there are if they are drawn together.
    """
    first = root(K[:observed, :observed], thin=True)
    scales = np.sum(first**2, axis=0)
    rows = K[observed:, :observed] @ (first / scales)
    left = K[observed:, observed:] - rows @ rows.T
    alone = np.sqrt(np.maximum(np.diagonal(left), 0.0))[:, None]
    own = root((left + left.T) / 2) if together else alone
    found = np.zeros((len(K), observed + own.shape[1]))  # as many columns, whatever the rank
    found[:observed, : first.shape[1]], found[observed:, : first.shape[1]] = first, rows
    found[observed:, observed:] = own
    return found
