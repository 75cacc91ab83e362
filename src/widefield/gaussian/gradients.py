"""Average derivatives of products of s or its derivatives at two samples: their Wiener chaos coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from ..activations import Activation
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .activation_moments import feature_kernel, slope_kernel
from .averages import average, average_product
from .hermite import MOST_TERMS, grid
from .jacobians import feature_jacobian
from .kinked import TOLERANCE
from .nested import Function, evaluate
from .pair_table import Orders
from .sample_pairs import Pairs

MOST, LEAST = 6, 2
"""Highest degrees m from series and from integrals."""

_CONVERGED = 1e-9
"""Share of <f^2> that the last terms of a Hermite series may have."""

_LAST = 16
"""Terms that count as the last."""

_ROUNDING = 1e-14
"""Terms relative to the largest that need not be added, because their squares count."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """Averages of F = f_a g_b over pairs: `values[m][i]` = <d^m F / dx_a^i dx_b^(m-i)>, x = z / sqrt(K_aa), and <F^2>.

    Where x_a = +-x_b, only sum_i binom(m, i) (+-1)^(m-i) values[m][i] has a meaning. Samples without variance have
    derivatives 0.
    """

    values: tuple[Float[Floats, "_ q"], ...]
    square: Float[Floats, " q"]

    @property
    def degree(self) -> int:
        """The highest m."""
        return len(self.values) - 1

    def cut(self, degree: int) -> Gradients:
        """To a lower degree."""
        return Gradients(self.values[: degree + 1], self.square)


def gradients(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs, orders: Orders = (0, 0)) -> Gradients:
    """Of f = s^(p), g = s^(q), (p, q) = `orders`; pairs may be ordered ones.

    By closed forms for lines with a kink, from Hermite series if they converge, else from integrals.
    """
    if activation.homogeneity == 1 and orders in _STRAIGHT:
        return _STRAIGHT[orders](activation, K, pairs)
    found = None if activation.kinks else _from_series(activation, K, pairs, orders)
    return _from_integrals(activation, K, pairs, orders) if found is None else found


def correlations(K: Float[Floats, "p p"]) -> Float[Floats, "p p"]:
    """C_ab = K_ab / sqrt(K_aa K_bb), 0 for a sample without variance."""
    scale = np.sqrt(np.diagonal(K))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(np.clip(K * np.outer(inverse, inverse), -1.0, 1.0))


def line_and_kink(activation: Activation) -> tuple[float, float]:
    """p and r of s = p z + r |z|."""
    up, down = evaluate(activation.function, np.array([1.0, -1.0]))
    return (up - down) / 2, (up + down) / 2


def _piecewise_linear(activation: Activation, K: Floats, pairs: Pairs) -> Gradients:
    """Up to degree 3, for s = p z + r |z|, s' = p + r sgn, s'' = 2 r delta; in units of sqrt(K_aa K_bb)

        t_{1,0} = t_{1,1} = p r sqrt(2/pi) (1 + c)          t_{2,0} = t_{2,2} = (2/pi) r^2 sqrt(1 - c^2)
        t_{3,1} = t_{3,2} = p r sqrt(2/pi)                  t_{3,0} = t_{3,3} = -c t_{3,1}

        <F^2> = (p^2 + r^2)^2 (1 + 2 c^2) + 4 p^2 r^2 (2/pi) [3 c sqrt(1 - c^2) + (1 + 2 c^2) arcsin c]

    by <z_1 G_1 H_2> = <G'_1 H_2> + c <G_1 H'_2>, and t_{2,1} = <s' s'>. All are finite at c = +-1.
    """
    k11, k12, k22 = pairs.entries(K)
    scale, c = np.sqrt(k11) * np.sqrt(k22), pairs.of(correlations(K))
    p, r = line_and_kink(activation)
    sine, odd = np.sqrt((1 - c) * (1 + c)), p * r * math.sqrt(2 / math.pi)
    first, outer, third = odd * (1 + c), 2 / math.pi * r**2 * sine, np.full_like(c, odd)
    inner = slope_kernel(activation, k11, k12, k22)
    uneven = 2 / math.pi * (3 * c * sine + (1 + 2 * c**2) * np.arcsin(c))
    square = (p**2 + r**2) ** 2 * (1 + 2 * c**2) + 4 * p**2 * r**2 * uneven
    higher = (
        np.stack([first, first]),
        np.stack([outer, inner, outer]),
        np.stack([-c * third, third, third, -c * third]),
    )
    zeroth = feature_kernel(activation, k11, k12, k22)[None]
    return Gradients((zeroth, *(scale * t for t in higher)), scale**2 * np.maximum(square, 0.0))


def _slopes_of_lines(activation: Activation, K: Floats, pairs: Pairs) -> Gradients:
    """Of s'_a s'_b to degree 1: t_{1,0} = t_{1,1} = p r sqrt(2/pi), <F^2> = (p^2 + r^2)^2 + 4 p^2 r^2 (2/pi) arcsin c.

    The second degree has <s'' s''>, which is infinite where x_a = x_b. Without a kink there is nothing beyond the mean.
    """
    k11, k12, k22 = pairs.entries(K)
    c, (p, r) = pairs.of(correlations(K)), line_and_kink(activation)
    first = p * r * math.sqrt(2 / math.pi) * np.stack([k22 > 0, k11 > 0]).astype(np.float64)
    square = (p**2 + r**2) ** 2 + 4 * p**2 * r**2 * (2 / math.pi) * np.arcsin(c)
    return Gradients((slope_kernel(activation, k11, k12, k22)[None], first), np.maximum(square, 0.0))


_STRAIGHT = {(0, 0): _piecewise_linear, (1, 1): _slopes_of_lines}


def _from_series(activation: Activation, K: Floats, pairs: Pairs, orders: Orders) -> Gradients | None:
    """Derivatives shift Hermite series f = sum_n a_n He_n(x) / sqrt(n!), so that with Mehler's formula

        t_{m,i} = sum_n a_{n+i}[f, K_aa] a_{n+m-i}[g, K_bb] c^n sqrt((n+i)! (n+m-i)!) / n!

    to the highest degree at which the terms end small, whatever the correlation c. None if that is low.
    """
    ends, variances = (pairs.rows, pairs.columns), np.diagonal(K)
    known = {order: _coefficients(activation.derivative(order), variances) for order in set(orders)}
    n = np.arange(MOST_TERMS - MOST, dtype=np.float64)
    roots = [np.exp(0.5 * (gammaln(n + i + 1) - gammaln(n + 1))) for i in range(MOST + 1)]
    shifted = [
        np.stack([root * known[order][0][:, i : i + len(n)] for i, root in enumerate(roots)], axis=1)
        for order in orders
    ]
    top = _converged(*shifted)
    if top <= LEAST:
        return None
    terms = max(_needed(part) for both in known.values() for part in both)
    powers = pairs.of(correlations(K))[:, None] ** n[:terms]
    left, right = (part[end, : top + 1, :terms] for part, end in zip(shifted, ends, strict=True))
    t = (left * powers[:, None]) @ np.swapaxes(right, 1, 2)  # (q, i, m - i)
    values = [np.stack([t[:, i, m - i] for i in range(m + 1)]) for m in range(top + 1)]
    squares = [known[order][1][end, :terms] for order, end in zip(orders, ends, strict=True)]
    return Gradients(tuple(values), np.einsum("qn,qn,qn->q", squares[0], powers, squares[1]))


def _coefficients(f: Function, variances: Floats) -> tuple[Float[Floats, "p n"], Float[Floats, "p n"]]:
    """<f He_n(x)> / sqrt(n!) and <f^2 He_n(x)> / sqrt(n!) of a smooth function, by the trapezoidal rule."""
    scale = np.sqrt(variances)
    halvings = 1 + max(0, math.ceil(math.log2(max(float(scale.max(initial=0.0)), 1.0))))
    x, roots, basis = grid(halvings)
    values = evaluate(f, scale[:, None] * x[None, :])
    return (values * roots) @ basis.T, (values**2 * roots) @ basis.T


def _needed(coefficients: Float[Floats, "p n"]) -> int:
    """Number of terms up to the last whose square is above rounding, at most that of shifted series."""
    sizes = np.abs(coefficients[:, : MOST_TERMS - MOST]).max(axis=0)
    return 1 + int(np.flatnonzero(sizes >= _ROUNDING * sizes.max())[-1])


def _converged(left: Float[Floats, "p i n"], right: Float[Floats, "p i n"]) -> int:
    """Highest degree m up to which the last terms of all t_{m,i}, times 2^m / sqrt(m!), are small."""
    one, two = _last(left), _last(right)
    for m in range(len(one)):
        if np.max(one[: m + 1] * two[m::-1]) * 2**m / math.sqrt(math.factorial(m)) > _CONVERGED:
            return m - 1
    return len(one) - 1


def _last(shifted: Float[Floats, "p i n"]) -> Float[Floats, " i"]:
    """Size of the last terms relative to that of the function, the largest of all samples."""
    size = np.linalg.norm(shifted[:, 0], axis=1)
    ends = np.linalg.norm(shifted[:, :, -_LAST:], axis=2) / np.where(size > 0, size, 1.0)[:, None]
    return np.asarray(ends.max(axis=0))


def _from_integrals(activation: Activation, K: Floats, pairs: Pairs, orders: Orders = (0, 0)) -> Gradients:
    """Of s s degrees 1 and 2, <s'_1 s_2> and what `feature_jacobian` holds; of derivatives the mean alone."""
    (k11, k12, k22), (p, q) = pairs.entries(K), orders
    if activation.kinks and max(orders) > 1:
        raise InvalidInput(f"orders {orders}: {activation.name!r} has kinks: at most (1, 1)")
    f, g = activation.derivative(p), activation.derivative(q)

    def product(f: Function, g: Function, *entries: Floats) -> Floats:
        return average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)

    squares = product(lambda z: f(z) ** 2, lambda z: g(z) ** 2, k11, k12, k22)
    mean = product(f, g, k11, k12, k22) if any(orders) else feature_kernel(activation, k11, k12, k22)
    if any(orders):
        return Gradients((mean[None],), squares)
    slope = activation.derivative(1)
    t1 = np.stack([product(slope, f, k22, k12, k11) * np.sqrt(k22), product(slope, f, k11, k12, k22) * np.sqrt(k11)])
    return Gradients((mean[None], t1, _second_degree(activation, K, pairs)), squares)


def _second_degree(activation: Activation, K: Floats, pairs: Pairs) -> Float[Floats, "3 q"]:
    """Of s s, from its derivatives in the covariance; (a, a) and parallel samples are along (a, a)."""
    s, (k11, _, k22) = activation.function, pairs.entries(K)

    def single(f: Function, k: Floats) -> Floats:
        return average(f, k, kinks=activation.kinks, tolerance=TOLERANCE)

    J, own = feature_jacobian(activation, K, pairs), np.arange(len(pairs))
    first, second = pairs.diagonal[pairs.rows], pairs.diagonal[pairs.columns]
    t2 = np.stack([2 * J[own, second] * k22, J[own, own] * np.sqrt(k11 * k22), 2 * J[own, first] * k11])
    t2[:2, pairs.equal] = 0.0
    for end, dead, variances in ((0, k11 == 0, k22), (2, k22 == 0, k11)):  # F = s(0) s_b
        (here,) = np.nonzero(dead & (variances > 0))
        k = variances[here]
        t2[end, here] = evaluate(s, np.zeros(1)) * (single(lambda z: z**2 * s(z), k) / k - single(s, k))
    return t2
