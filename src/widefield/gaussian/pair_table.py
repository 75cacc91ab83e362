"""One table of averages over two samples, <s^(p)_a s^(q)_b>: all derivatives of <s s> in the covariance are in it.

By Price's theorem d<F>/dK_12 = <d_1 d_2 F> and d<F>/dK_11 = <d_1 d_1 F> / 2, and by Stein's identity
sum_b <z_b F> K^{bc} = <d_c F>, so that nothing that is built on the table needs an inverse of K: samples may be equal
or parallel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..activations import Activation, get
from ..activations.moments import determinant
from ..base import check
from ..base.arrays import Booleans, Floats
from .averages import average, average_product
from .kinked import TOLERANCE, Entries, KinkedAverages, times
from .pairs import derivative_products
from .sample_pairs import Pairs

PARALLEL = 1e-13
"""Samples with a squared sine below this are the same sample up to a factor."""

Orders = tuple[int, int]
"""Of the derivatives of s at the two samples of a pair."""


def pair_moments(activation: str | Activation, K: Float[Floats, "p p"], highest: int = 3) -> Float[Floats, "o o p p"]:
    """u[p, q, a, b] = <s^(p)_a s^(q)_b> of all ordered pairs of samples, p and q up to `highest`.

    With kinks, derivatives beyond the first of one and the same sample, or of parallel ones, may be infinite: they are
    NaN, but for <s s''>, which is finite where s is continuous. Samples without variance have 0 there.

    >>> u = pair_moments("sin", np.array([[1.0, 0.5], [0.5, 1.0]]), 2)
    >>> bool(np.isclose(u[1, 1, 0, 1], math.exp(-1) * math.cosh(0.5))), bool(np.isclose(u[2, 0, 0, 1], -u[0, 0, 0, 1]))
    (True, True)
    """
    s, highest = get(activation), check.integer("highest", highest, most=3)
    pairs, size = Pairs.within(len(K)), highest + 1
    orders = [(p, q) for p in range(size) for q in range(size)]
    table = average_derivatives(s, K, pairs, orders)
    found = np.zeros((size, size, *K.shape))
    own, (_, parallel) = np.arange(len(K)), directions(K, pairs)
    for p, q in orders:
        found[p, q, pairs.columns, pairs.rows] = table[q, p]
        found[p, q, pairs.rows, pairs.columns] = table[p, q]
        if not s.kinks or max(p, q) <= 1:
            found[p, q, own, own] = _of_one(s, p, q, np.diagonal(K))
        else:
            found[p, q, own, own] = np.where(np.diagonal(K) > 0, math.nan, 0.0)
            for rows, columns in ((pairs.rows, pairs.columns), (pairs.columns, pairs.rows)):
                found[p, q, rows[parallel], columns[parallel]] = math.nan
    if s.kinks and highest >= 2:
        found[0, 2], found[2, 0] = bends(s, K), bends(s, K).T
    return found


def _of_one(s: Activation, p: int, q: int, variances: Floats) -> Floats:
    f, g = s.derivative(p), s.derivative(q)
    return average(lambda z: f(z) * g(z), variances, kinks=s.kinks, tolerance=TOLERANCE)


def average_derivatives(
    activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, orders: Sequence[Orders]
) -> dict[Orders, Float[Floats, " q"]]:
    """<s^(i)_a s^(j)_b> of the pairs (a, b), a != b, for some orders (i, j).

    Smooth activations have Hermite series at every sample, from which all pairs follow. With kinks i + j may be 4 at
    most (6 for straight lines with a kink at 0), samples without variance have 0, and so have derivatives beyond the
    first of parallel samples, which may be infinite: those samples are parallel in every network, and `along` has the
    derivatives in their common direction. (a, a) has a meaning for neither.
    """
    if not activation.kinks:
        matrices = derivative_products(activation, np.diagonal(K), K - np.diag(np.diagonal(K)), orders)
        return {order: matrix[pairs.rows, pairs.columns] for order, matrix in zip(orders, matrices, strict=True)}
    found = {order: np.zeros(len(pairs)) for order in orders}
    apart, parallel = directions(K, pairs)
    for chosen, most in ((apart, 6), (parallel, 1)):
        averages = KinkedAverages(activation, _some(K, pairs, chosen))
        for i, j in orders:
            if chosen.any() and max(i, j) <= most:
                found[i, j][chosen] = averages(i, j)
    return found


def directions(K: Float[Floats, "p p"], pairs: Pairs) -> tuple[Booleans, Booleans]:
    """Pairs of two different samples that both have a variance: in two directions, and in one."""
    k11, k12, k22 = pairs.entries(K)
    alive = (k11 > 0) & (k22 > 0) & ~pairs.equal
    line = determinant(k11, k12, k22) <= PARALLEL * k11 * k22
    return alive & ~line, alive & line


def _some(K: Floats, pairs: Pairs, chosen: Booleans) -> Entries:
    k11, k12, k22 = pairs.entries(K)
    return k11[chosen], k12[chosen], k22[chosen]


def along(activation: Activation, K: Floats, pairs: Pairs, order: int, degree: int) -> Float[Floats, " q"]:
    """Of parallel samples <d^m F / dz_1^m>, F = s^(p)_1 s^(p)_2, p = `order`, m = `degree`, when z_2 / z_1 stays fixed:

    <He_m(z_1 / sqrt K_11) F> / K_11^(m/2), which needs no derivatives of F. Half of that for m = 2 is d<F>/dK_11. All
    other pairs have 0, and so have all of a smooth activation, for which the table holds everything.
    """
    found, (_, parallel) = np.zeros(len(pairs)), directions(K, pairs)
    if activation.kinks and parallel.any():
        found[parallel] = _along(activation, order, degree, _some(K, pairs, parallel))
    return found


def _along(activation: Activation, order: int, degree: int, entries: Entries) -> Floats:
    k11, q, f = entries[0], activation.homogeneity, activation.derivative(order)

    def moment(power: int) -> Floats:
        return average_product(times(f, power), f, *entries, kinks=activation.kinks, tolerance=TOLERANCE)

    if q is not None and degree % 2 == 0:  # <F> goes like K_11^(q - p)
        return math.prod(2 * (q - order - k) for k in range(degree // 2)) * moment(0) / k11 ** (degree // 2)
    polynomial = enumerate(np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0]))
    return np.asarray(sum(c * moment(n) / k11 ** ((degree + n) / 2) for n, c in polynomial if c))


def bends(activation: Activation, K: Float[Floats, "p p"]) -> Float[Floats, "p p"]:
    """<s_a s''_b> of all ordered pairs, the same sample and parallel ones included; 0 where b has no variance.

    With a kink, where s'' has a delta function, along the common direction of parallel samples z_a = k z_b it is
    <z_b s_a s'_b> / K_bb - k <s'_a s'_b> (Stein), which needs no second derivative; so it is for a = b.
    """
    pairs, own, variances = Pairs.within(len(K)), np.arange(len(K)), np.diagonal(K)
    table = average_derivatives(activation, K, pairs, ((0, 2), (2, 0)))
    found = np.zeros(K.shape)
    found[pairs.rows, pairs.columns], found[pairs.columns, pairs.rows] = table[0, 2], table[2, 0]
    if not activation.kinks:
        found[own, own] = _of_one(activation, 0, 2, variances)
        return found
    _, parallel = directions(K, pairs)
    parallel = parallel | (pairs.equal & (variances[pairs.rows] > 0))
    for a, b in ((pairs.rows, pairs.columns), (pairs.columns, pairs.rows)):
        one, two = a[parallel], b[parallel]
        found[one, two] = _bend_along(activation, (variances[one], K[one, two], variances[two]))
    return found


def _bend_along(activation: Activation, entries: Entries) -> Floats:
    k22, ratio, slope = entries[2], entries[1] / entries[2], activation.derivative(1)

    def product(f: object, g: object) -> Floats:
        return average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)  # type: ignore[arg-type]

    return product(activation.function, times(slope, 1)) / k22 - ratio * product(slope, slope)
