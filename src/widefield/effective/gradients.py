"""Average derivatives of products of two activations: the coefficients of their Wiener chaos."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian import average, average_product, feature_kernel, slope_kernel
from ..gaussian.hermite import MOST_TERMS, grid
from ..gaussian.jacobians import feature_jacobian
from ..gaussian.kinked import TOLERANCE
from ..gaussian.nested import Function, evaluate
from ..gaussian.sample_pairs import Pairs

MOST, LEAST = 6, 2
"""Highest degrees m from series and from integrals."""

_CONVERGED = 1e-9
"""Share of <s^2> that the last terms of a Hermite series may have."""

_LAST = 16
"""Terms that count as the last."""

_ROUNDING = 1e-14
"""Terms relative to the largest that need not be added, because their squares count."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """Averages of F = s_a s_b over pairs: `values[m][i]` = <d^m F / dx_a^i dx_b^(m-i)>, x = z / sqrt(K_aa), and <F^2>.

    Where x_a = +-x_b, only sum_i binom(m, i) (+-1)^(m-i) values[m][i] has a meaning. Samples without variance have
    derivatives 0.
    """

    values: tuple[Float[Floats, "_ q"], ...]
    square: Float[Floats, " q"]


def gradients(activation: Activation, K: Float[Floats, "p p"], pairs: Pairs) -> Gradients:
    """By closed forms for lines with a kink, from Hermite series if they converge, else from integrals."""
    if activation.homogeneity == 1:
        return _piecewise_linear(activation, K, pairs)
    found = None if activation.kinks else _from_series(activation, K, pairs)
    return _from_integrals(activation, K, pairs) if found is None else found


def correlations(K: Float[Floats, "p p"]) -> Float[Floats, "p p"]:
    """C_ab = K_ab / sqrt(K_aa K_bb), 0 for a sample without variance."""
    scale = np.sqrt(np.diagonal(K))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(np.clip(K * np.outer(inverse, inverse), -1.0, 1.0))


def _piecewise_linear(activation: Activation, K: Floats, pairs: Pairs) -> Gradients:
    """Up to degree 3, for s = p z + r |z|, s' = p + r sgn, s'' = 2 r delta; in units of sqrt(K_aa K_bb)

        t_{1,0} = t_{1,1} = p r sqrt(2/pi) (1 + c)          t_{2,0} = t_{2,2} = (2/pi) r^2 sqrt(1 - c^2)
        t_{3,1} = t_{3,2} = p r sqrt(2/pi)                  t_{3,0} = t_{3,3} = -c t_{3,1}

        <F^2> = (p^2 + r^2)^2 (1 + 2 c^2) + 4 p^2 r^2 (2/pi) [3 c sqrt(1 - c^2) + (1 + 2 c^2) arcsin c]

    by <z_1 G_1 H_2> = <G'_1 H_2> + c <G_1 H'_2>, and t_{2,1} = <s' s'>. All are finite at c = +-1.
    """
    k11, k12, k22 = pairs.entries(K)
    scale, c = np.sqrt(k11) * np.sqrt(k22), pairs.of(correlations(K))
    up, down = evaluate(activation.function, np.array([1.0, -1.0]))
    p, r = (up - down) / 2, (up + down) / 2
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


def _from_series(activation: Activation, K: Floats, pairs: Pairs) -> Gradients | None:
    """Derivatives shift Hermite series s = sum_n a_n He_n(x) / sqrt(n!), so that with Mehler's formula

        t_{m,i} = sum_n a_{n+i}(K_aa) a_{n+m-i}(K_bb) c^n sqrt((n+i)! (n+m-i)!) / n!

    to the highest degree at which the terms end small, whatever the correlation c. None if that is low.
    """
    a, b = pairs.rows, pairs.columns
    one, two = _coefficients(activation.function, np.diagonal(K))
    n = np.arange(MOST_TERMS - MOST, dtype=np.float64)
    roots = [np.exp(0.5 * (gammaln(n + i + 1) - gammaln(n + 1))) for i in range(MOST + 1)]
    shifted = np.stack([root * one[:, i : i + len(n)] for i, root in enumerate(roots)], axis=1)
    top = _converged(shifted)
    if top <= LEAST:
        return None
    terms = max(_needed(one), _needed(two))
    powers = pairs.of(correlations(K))[:, None] ** n[:terms]
    left, right = (shifted[end, : top + 1, :terms] for end in (a, b))
    t = (left * powers[:, None]) @ np.swapaxes(right, 1, 2)  # (q, i, m - i)
    values = [np.stack([t[:, i, m - i] for i in range(m + 1)]) for m in range(top + 1)]
    return Gradients(tuple(values), np.einsum("qn,qn,qn->q", two[a, :terms], powers, two[b, :terms]))


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


def _converged(shifted: Float[Floats, "p i n"]) -> int:
    """Highest degree m up to which the last terms of all t_{m,i}, times 2^m / sqrt(m!), are small."""
    size = np.linalg.norm(shifted[:, 0], axis=1)
    ends = np.linalg.norm(shifted[:, :, -_LAST:], axis=2) / np.where(size > 0, size, 1.0)[:, None]
    ends = ends.max(axis=0)
    for m in range(len(ends)):
        if np.max(ends[: m + 1] * ends[m::-1]) * 2**m / math.sqrt(math.factorial(m)) > _CONVERGED:
            return m - 1
    return len(ends) - 1


def _from_integrals(activation: Activation, K: Floats, pairs: Pairs) -> Gradients:
    """Degrees 1 and 2: <s'_1 s_2>, and what `feature_jacobian` holds; (a, a) and parallel samples are along (a, a)."""
    s, slope, (k11, k12, k22) = activation.function, activation.derivative(1), pairs.entries(K)

    def product(f: Function, g: Function, *entries: Floats) -> Floats:
        return average_product(f, g, *entries, kinks=activation.kinks, tolerance=TOLERANCE)

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
    t1 = np.stack([product(slope, s, k22, k12, k11) * np.sqrt(k22), product(slope, s, k11, k12, k22) * np.sqrt(k11)])
    mean = feature_kernel(activation, k11, k12, k22)
    squares = product(lambda z: s(z) ** 2, lambda z: s(z) ** 2, k11, k12, k22)
    return Gradients((mean[None], t1, t2), squares)
