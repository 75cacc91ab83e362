"""What a layer of finite width adds to the fluctuations of the kernels: the noise of its own neurons."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian import average, average_product
from ..gaussian.kinked import TOLERANCE
from ..gaussian.nested import Function, evaluate
from ..gaussian.roots import root
from ..gaussian.sample_pairs import Pairs
from ..gaussian.sobol import normals

MOST_EXACT = 2
"""Up to so many samples all averages of four functions are integrals over one or two variables."""

_ROWS = 2**12
"""Points whose products of pairs are held in memory at once."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Fourth moments of one neuron over pairs (a, b), (c, d): <XX>, <XY>, <YY>, X = phi_a phi_b, Y = phi'_a phi'_b."""

    features: Float[Floats, "q q"]
    mixed: Float[Floats, "q q"]
    slopes: Float[Floats, "q q"]
    mean_features: Float[Floats, " q"]
    mean_slopes: Float[Floats, " q"]

    def noise(self, R: Float[Floats, "p p"], pairs: Pairs) -> Float[Floats, "{2*len(pairs)} {2*len(pairs)}"]:
        """Covariance of (phi_a phi_b, g_a g_b) of a neuron, g = phi' r, with r ~ N(0, `R`) independent of h.

        These are the blocks <phi phi phi phi> - Phi Phi, <phi phi g g> - Phi G and <g g g g> - G G of the Hessian (BP22
        App. P.7, BP23 App. H), with r averaged by Wick's theorem.
        """
        a, b = pairs.rows, pairs.columns
        r = R[a, b]
        wick = R[np.ix_(a, a)] * R[np.ix_(b, b)] + R[np.ix_(a, b)] * R[np.ix_(b, a)]
        forward = self.features - np.outer(self.mean_features, self.mean_features)
        cross = (self.mixed - np.outer(self.mean_features, self.mean_slopes)) * r
        connected = self.slopes - np.outer(self.mean_slopes, self.mean_slopes)
        backward = connected * np.outer(r, r) + self.slopes * wick
        return np.block([[forward, cross], [cross.T, backward]])


def sampled_moments(
    activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, seed: int, population: int, points: int
) -> Moments:
    """The moments by Sobol points. Means are taken over the same points, so that covariances are positive."""
    h, count = normals(seed, population, len(K), points).T @ root(K).T, len(pairs)
    total, mean = np.zeros((2 * count, 2 * count)), np.zeros(2 * count)
    for start in range(0, points, _ROWS):
        block = h[start : start + _ROWS]
        fields = [evaluate(activation.derivative(order), block) for order in (0, 1)]
        products = np.concatenate([f[:, pairs.rows] * f[:, pairs.columns] for f in fields], axis=1)
        total += products.T @ products / points
        mean += products.sum(axis=0) / points
    return Moments(total[:count, :count], total[:count, count:], total[count:, count:], mean[:count], mean[count:])


def exact_moments(activation: Activation, K: Float[Floats, "l p p"], pairs: Pairs) -> list[Moments]:
    """The moments of all layers by quadrature, for one or two samples."""
    average_of = _Products(activation, K)
    tuples = list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))

    def fourth(one: int, two: int) -> Floats:
        return np.array([[average_of([(one, i) for i in p] + [(two, i) for i in q]) for q in tuples] for p in tuples])

    blocks = (fourth(0, 0), fourth(0, 1), fourth(1, 1))
    means = [np.array([average_of([(order, i) for i in p]) for p in tuples]) for order in (0, 1)]
    return [Moments(*(block[..., layer] for block in (*blocks, *means))) for layer in range(len(K))]


def exact_features(activation: Activation, K: Float[Floats, "l p p"], pairs: Pairs) -> Float[Floats, "l q q"]:
    """Cov(phi_a phi_b, phi_c phi_d) of all layers alone, for one or two samples."""
    average_of = _Products(activation, K)
    tuples = [((0, a), (0, b)) for a, b in zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)]
    means = np.array([average_of([*p]) for p in tuples])
    fourth = np.array([[average_of([*p, *q]) for q in tuples] for p in tuples])
    return np.moveaxis(fourth - means[:, None] * means[None, :], -1, 0)


@dataclass(frozen=True, eq=False)
class _Products:
    """<prod phi^(order)(z_sample)> over all (order, sample), in every layer; each is integrated once."""

    activation: Activation
    K: Float[Floats, "l p p"]
    known: dict[tuple[tuple[int, int], ...], Floats] = field(default_factory=dict)

    def __call__(self, factors: list[tuple[int, int]]) -> Float[Floats, " l"]:
        key = tuple(sorted(factors))
        if key not in self.known:
            self.known[key] = self._integral(key)
        return self.known[key]

    def _integral(self, key: tuple[tuple[int, int], ...]) -> Floats:
        kinks, (a, *others) = self.activation.kinks, sorted({sample for _, sample in key})
        if not others:
            return average(self._function(key, a), self.K[:, a, a], kinks=kinks, tolerance=TOLERANCE)
        (b,) = others
        f, g, K = self._function(key, a), self._function(key, b), self.K
        return average_product(f, g, K[:, a, a], K[:, a, b], K[:, b, b], kinks=kinks, tolerance=TOLERANCE)

    def _function(self, key: tuple[tuple[int, int], ...], sample: int) -> Function:
        powers = Counter(order for order, owner in key if owner == sample)
        factors = [(self.activation.derivative(order), power) for order, power in powers.items()]
        return lambda z: math.prod(f(z) ** power for f, power in factors)
