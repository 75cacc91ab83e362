"""Wiener chaos of the products of two activations: most of their covariance, exactly.

With x = z / sqrt(K_aa), standard normal of correlations C, and F = s_a s_b, the averages of derivatives

    t^ab_{m,i} = <d^m F / dx_a^i dx_b^(m-i)>

are averages over two variables. Hermite polynomials of different degrees are orthogonal, so that

    Cov(s_a s_b, s_c s_d) = sum_{m=1}^M t^ab_m . C^m . t^cd_m / m!  +  Cov(R_ab, R_cd)

where R is what the polynomials of degree up to M leave of F. Its variance is known too: that of F less that of the
polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..activations import Activation
from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..gaussian.nested import evaluate
from ..gaussian.roots import root
from ..gaussian.sample_pairs import Pairs
from ..gaussian.sobol import normals
from ..kernels.noise import MOST_EXACT, exact_features
from .gradients import Gradients, correlations, gradients

Coefficients = dict[tuple[int, int], Float[Floats, " q"]]

NEGLIGIBLE = 1e-10
"""Remainders with less than this fraction of <F^2> are left out, which changes covariances by no more than that."""

_VANISHING = 1e-13
"""Degrees whose share is below this are absent: the odd ones if s is odd or even."""

_TILE = 128
"""Pairs of pairs are contracted in squares of this size, so that one compiled program fits all."""


_STRETCHED, _STRETCH = 4, 3.0
"""Number of directions in which half of the points are spread more widely, and the factor of their variance."""


@dataclass(frozen=True, eq=False)
class Chaos:
    """Products of an activation s at all pairs of samples, expanded to the degree of `gradients`."""

    activation: Activation
    K: Float[Floats, "p p"]
    pairs: Pairs
    gradients: Gradients

    @classmethod
    def of(cls, activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Chaos:
        """To the degree that the activation allows."""
        return cls(activation, K, pairs, gradients(activation, K, pairs))

    @property
    def degrees(self) -> tuple[int, ...]:
        """Those that occur, without 0."""
        found, sizes = self.gradients.values, np.sqrt(self.gradients.square)
        sizes = np.where(sizes > 0, sizes, 1.0)
        return tuple(m for m in range(1, len(found)) if np.abs(found[m] / sizes).max() > _VANISHING)

    @cached_property
    def covariance(self) -> Float[Floats, "q q"]:
        """The sum over m: what polynomials of degree up to M contribute to Cov(s_a s_b, s_c s_d)."""
        size, degrees = len(self.pairs), self.degrees
        if not degrees:
            return np.zeros((size, size))
        tiles = -(-size // _TILE)
        padding = (0, tiles * _TILE - size)
        a, b = (np.pad(end, padding).reshape(tiles, _TILE) for end in (self.pairs.rows, self.pairs.columns))
        t = [np.pad(self.gradients.values[m], ((0, 0), padding)).reshape(m + 1, tiles, _TILE) for m in degrees]
        total, C = np.empty((tiles * _TILE, tiles * _TILE)), correlations(self.K)
        with double_precision():
            for one in range(tiles):
                for two in range(one, tiles):
                    among = [C[np.ix_(p[one], r[two])] for p in (a, b) for r in (a, b)]
                    left, right = ([values[:, place] for values in t] for place in (one, two))
                    tile = np.asarray(_contracted(degrees, left, right, *among))
                    rows, columns = (slice(_TILE * place, _TILE * (place + 1)) for place in (one, two))
                    total[rows, columns], total[columns, rows] = tile, tile.T
        return np.ascontiguousarray(total[:size, :size])

    @cached_property
    def rest(self) -> Float[Floats, " q"]:
        """Var(R) = <F^2> - <F>^2 - the variances of the polynomials; 0 if it is negligible."""
        square, mean = self.gradients.square, self.gradients.values[0][0]
        rest = square - mean**2 - np.diagonal(self.covariance)
        return np.asarray(np.where(rest > NEGLIGIBLE * square, rest, 0.0))

    @cached_property
    def coefficients(self) -> Coefficients:
        """B_ij of the projection sum_ij B_ij He_i(x_a) He_j(x_b).

        It is sum_m (1/m!) sum_i binom(m, i) t_{m,i} :x_a^i x_b^(m-i):, where with the correlation c
        :x_a^i x_b^j: = sum_r (-c)^r r! binom(i, r) binom(j, r) He_{i-r}(x_a) He_{j-r}(x_b).
        """
        correlation = self.pairs.of(correlations(self.K))
        found: Coefficients = {}
        for m in (0, *self.degrees):
            for i, t in enumerate(self.gradients.values[m]):
                for r in range(min(i, m - i) + 1):
                    place, factorials = (i - r, m - i - r), math.factorial(i - r) * math.factorial(m - i - r)
                    term = (-correlation) ** r * t / (factorials * math.factorial(r))
                    found[place] = found[place] + term if place in found else term
        return found

    def remainders(self, z: Float[Floats, "n p"]) -> Float[Floats, "q n"]:
        """R = F - <F> - the polynomials, at some points."""
        scale = np.sqrt(np.diagonal(self.K))
        s = evaluate(self.activation.function, z).T
        x = np.divide(z.T, scale[:, None], out=np.zeros(z.T.shape), where=scale[:, None] > 0)
        with double_precision():
            return np.asarray(_remainders(s, x, self.coefficients, self.pairs.rows, self.pairs.columns))

    def sampled(self, seed: int, population: int, points: int) -> Float[Floats, "q q"]:
        """Cov(R_ab, R_cd): correlations from weighted points, variances as they are known.

        R is a high power far out, where few points are: they decide sampled variances, but correlations less.
        """
        z, weights = _spread(self.K, seed, population, points)
        R = self.remainders(z) * np.sqrt(weights)
        product = R @ R.T
        norms = np.diagonal(product)
        scale = np.sqrt(np.divide(self.rest, norms, out=np.zeros_like(norms), where=norms > 0))
        product *= scale
        product *= scale[:, None]
        return np.asarray(product)


def feature_covariances(
    activation: Activation, kernels: Float[Floats, "l p p"], pairs: Pairs, points: int, seeds: range
) -> Iterator[Float[Floats, "r q q"]]:
    """Cov(s_a s_b, s_c s_d) at every kernel: one if it is exact, else one for every seed."""
    if kernels.shape[1] <= MOST_EXACT:
        if len(kernels):
            yield from exact_features(activation, kernels, pairs)[:, None]
        return
    for layer, K in enumerate(kernels):
        chaos = Chaos.of(activation, K, pairs)
        exact = not chaos.rest.any()
        sampled = [np.zeros((1, 1))] if exact else [chaos.sampled(seed, layer, points) for seed in seeds]
        yield chaos.covariance + np.stack(sampled)


def enough_points(pairs: int) -> int:
    """Points that cost little for this number of pairs: 2^13 for three inputs, falling to 2^9 for more than ten."""
    return int(2 ** min(max(16 - math.ceil(math.log2(pairs)), 9), 13))


def _spread(
    K: Float[Floats, "p p"], seed: int, population: int, points: int
) -> tuple[Float[Floats, "n p"], Float[Floats, " n"]]:
    """Sobol points, half of them wider in the widest directions, and their weights: N(0, K) over the mean of both."""
    # Half of the points of one stream would be a random half, which fills space less evenly than a stream of its own.
    halves = (points // 2, points - points // 2)
    x = np.concatenate([normals(seed, 2 * population + k, len(K), half).T for k, half in enumerate(halves)])
    count = min(_STRETCHED, len(K))
    x[points // 2 :, :count] *= math.sqrt(_STRETCH)
    exponent = 0.5 * (1 - 1 / _STRETCH) * np.sum(x[:, :count] ** 2, axis=1) - 0.5 * count * math.log(_STRETCH)
    return x @ root(K).T, 2 / (1 + np.exp(exponent))


@partial(jax.jit, static_argnums=0)
def _contracted(
    degrees: tuple[int, ...],
    left: list[Float[Array, "_ t"]],
    right: list[Float[Array, "_ t"]],
    *among: Float[Array, "t t"],
) -> Float[Array, "t t"]:
    """sum_m t^ab_m . C^m . t^cd_m / m! of a tile, `among` being C_ac, C_ad, C_bc, C_bd:

    sum_{i,k,j} t^ab_{m,i} t^cd_{m,k} C_ac^j C_ad^(i-j) C_bc^(k-j) C_bd^(m-i-k+j) / (j! (i-j)! (k-j)! (m-i-k+j)!)
    """
    powers = [[jnp.ones_like(C), C] for C in among]
    for C, known in zip(among, powers, strict=True):
        for n in range(2, max(degrees) + 1):
            known.append(known[-1] * C / n)
    ac, ad, bc, bd = powers
    total = jnp.zeros_like(among[0])
    for m, one, two in zip(degrees, left, right, strict=True):
        for i in range(m + 1):
            inner = jnp.zeros_like(total)
            for k in range(m + 1):
                ways = range(max(0, i + k - m), min(i, k) + 1)
                inner += two[k][None, :] * sum(ac[j] * ad[i - j] * bc[k - j] * bd[m - i - k + j] for j in ways)
            total += one[i][:, None] * inner
    return total


@jax.jit
def _remainders(
    s: Float[Array, "p n"],
    x: Float[Array, "p n"],
    coefficients: dict[tuple[int, int], Float[Array, " q"]],
    a: Int[Array, " q"],
    b: Int[Array, " q"],
) -> Float[Array, "q n"]:
    """s_a s_b - sum_ij B_ij He_i(x_a) He_j(x_b)."""
    top = max(i + j for i, j in coefficients)
    polynomials = [jnp.ones_like(x), x]
    for n in range(1, top):
        polynomials.append(x * polynomials[n] - n * polynomials[n - 1])
    R = s[a] * s[b]
    for i in range(top + 1):
        terms = [B[:, None] * polynomials[j][b] for (k, j), B in coefficients.items() if k == i]
        if terms:
            R -= polynomials[i][a] * sum(terms)
    return R
