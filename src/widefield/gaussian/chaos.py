"""Wiener chaos of products at two samples: most of the covariance of two such products, exactly.

With x = z / sqrt(K_aa), standard normal of correlations C, and F = f_a g_b, the averages of derivatives

    t^ab_{m,i} = <d^m F / dx_a^i dx_b^(m-i)>

are averages over two variables. Hermite polynomials of different degrees are orthogonal, so that

    Cov(F_ab, F_cd) = sum_{m=1}^M t^ab_m . C^m . t^cd_m / m!  +  Cov(R_ab, R_cd)

where R is what the polynomials of degree up to M leave of F. Its variance is known too: that of F less that of the
polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..activations import Activation
from ..base.arrays import Floats, Integers
from ..base.numbers import double_precision
from .gradients import Gradients, correlations, gradients
from .nested import evaluate
from .pair_table import Orders
from .roots import root
from .sample_pairs import Pairs
from .sobol import normals

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
    """Products s^(p)_a s^(q)_b, (p, q) = `orders`, at pairs of samples, expanded to the degree of `gradients`."""

    activation: Activation
    K: Float[Floats, "p p"]
    pairs: Pairs
    gradients: Gradients
    orders: Orders = (0, 0)

    @classmethod
    def of(cls, activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, orders: Orders = (0, 0)) -> Chaos:
        """To the degree that the activation allows."""
        return cls(activation, K, pairs, gradients(activation, K, pairs, orders), orders)

    def cut(self, degree: int) -> Chaos:
        """To a lower degree."""
        return self if degree >= self.gradients.degree else Chaos(*self._of, self.gradients.cut(degree), self.orders)

    @property
    def _of(self) -> tuple[Activation, Floats, Pairs]:
        return self.activation, self.K, self.pairs

    @property
    def mean(self) -> Float[Floats, " q"]:
        """<F>."""
        return np.asarray(self.gradients.values[0][0])

    @property
    def degrees(self) -> tuple[int, ...]:
        """Those that occur, without 0."""
        found, sizes = self.gradients.values, np.sqrt(self.gradients.square)
        sizes = np.where(sizes > 0, sizes, 1.0)
        return tuple(m for m in range(1, len(found)) if np.abs(found[m] / sizes).max() > _VANISHING)

    @cached_property
    def covariance(self) -> Float[Floats, "q q"]:
        """The sum over m: what polynomials of degree up to M contribute to Cov(F_ab, F_cd)."""
        return contracted(self, self)

    @cached_property
    def rest(self) -> Float[Floats, " q"]:
        """Var(R) = <F^2> - <F>^2 - the variances of the polynomials; 0 if it is negligible."""
        square, degrees = self.gradients.square, self.degrees
        polynomials = np.zeros_like(square)
        if degrees:
            t, c = [self.gradients.values[m] for m in degrees], self.pairs.of(correlations(self.K))
            own = [np.diagonal(correlations(self.K))[end] for end in (self.pairs.rows, self.pairs.columns)]
            with double_precision():
                polynomials = np.asarray(_contracted(degrees, t, t, own[0], c, c, own[1]))
        rest = square - self.mean**2 - polynomials
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
        values = {order: evaluate(self.activation.derivative(order), z).T for order in set(self.orders)}
        f, g = (values[order] for order in self.orders)
        x = np.divide(z.T, scale[:, None], out=np.zeros(z.T.shape), where=scale[:, None] > 0)
        with double_precision():
            return np.asarray(_remainders(f, g, x, self.coefficients, self.pairs.rows, self.pairs.columns))

    def sampled(self, seed: int, population: int, points: int) -> Float[Floats, "q q"]:
        """Cov(R_ab, R_cd), see `sampled`."""
        return sampled(self, self, seed, population, points)


def contracted(left: Chaos, right: Chaos) -> Float[Floats, "q r"]:
    """The sum over m up to the lower of both degrees, of products of two families at the same K."""
    degrees = tuple(m for m in left.degrees if m in right.degrees)
    sizes = len(left.pairs), len(right.pairs)
    if not degrees:
        return np.zeros(sizes)
    counts = [-(-size // _TILE) for size in sizes]
    (a, b, t), (c, d, u) = (_tiles(part, degrees, count) for part, count in zip((left, right), counts, strict=True))
    total, C = np.empty([count * _TILE for count in counts]), correlations(left.K)
    with double_precision():
        for one in range(counts[0]):
            for two in range(one if left is right else 0, counts[1]):
                among = [C[np.ix_(p[one], r[two])] for p in (a, b) for r in (c, d)]
                sides = [values[:, one, :, None] for values in t], [values[:, two, None, :] for values in u]
                tile = np.asarray(_contracted(degrees, *sides, *among))
                rows, columns = (slice(_TILE * place, _TILE * (place + 1)) for place in (one, two))
                total[rows, columns] = tile
                if left is right:
                    total[columns, rows] = tile.T
    return np.ascontiguousarray(total[: sizes[0], : sizes[1]])


def _tiles(chaos: Chaos, degrees: tuple[int, ...], count: int) -> tuple[Integers, Integers, list[Floats]]:
    """Samples of both ends of the pairs, and t of these degrees, padded and cut in tiles."""
    padding = (0, count * _TILE - len(chaos.pairs))
    a, b = (np.pad(end, padding).reshape(count, _TILE) for end in (chaos.pairs.rows, chaos.pairs.columns))
    t = [np.pad(chaos.gradients.values[m], ((0, 0), padding)).reshape(m + 1, count, _TILE) for m in degrees]
    return a, b, t


def sampled(left: Chaos, right: Chaos, seed: int, population: int, points: int) -> Float[Floats, "q r"]:
    """Cov(R_ab, R_cd): correlations from weighted points, variances as they are known.

    R is a high power far out, where few points are: they decide sampled variances, but correlations less.
    """
    z, weights = _spread(left.K, seed, population, points)
    one = _normalised(left, z, weights)
    return one @ (one if left is right else _normalised(right, z, weights)).T


def _normalised(chaos: Chaos, z: Floats, weights: Floats) -> Float[Floats, "q n"]:
    """R times the root of the weights, with the variance that it should have."""
    R = chaos.remainders(z) * np.sqrt(weights)
    norms = np.einsum("qn,qn->q", R, R)
    R *= np.sqrt(np.divide(chaos.rest, norms, out=np.zeros_like(norms), where=norms > 0))[:, None]
    return R


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
    left: list[Float[Array, "_ *#t"]],
    right: list[Float[Array, "_ *#t"]],
    *among: Float[Array, "*t"],
) -> Float[Array, "*t"]:
    """sum_m t^ab_m . C^m . t^cd_m / m!, elementwise, `among` being C_ac, C_ad, C_bc, C_bd:

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
                inner += two[k] * sum(ac[j] * ad[i - j] * bc[k - j] * bd[m - i - k + j] for j in ways)
            total += one[i] * inner
    return total


@jax.jit
def _remainders(
    f: Float[Array, "p n"],
    g: Float[Array, "p n"],
    x: Float[Array, "p n"],
    coefficients: dict[tuple[int, int], Float[Array, " q"]],
    a: Int[Array, " q"],
    b: Int[Array, " q"],
) -> Float[Array, "q n"]:
    """f_a g_b - sum_ij B_ij He_i(x_a) He_j(x_b)."""
    top = max(i + j for i, j in coefficients)
    polynomials = [jnp.ones_like(x), x]
    for n in range(1, top):
        polynomials.append(x * polynomials[n] - n * polynomials[n - 1])
    R = f[a] * g[b]
    for i in range(top + 1):
        terms = [B[:, None] * polynomials[j][b] for (k, j), B in coefficients.items() if k == i]
        if terms:
            R -= polynomials[i][a] * sum(terms)
    return R
