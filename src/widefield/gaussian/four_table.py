"""One table of averages over four samples, <s^(p)_1 s^(q)_2 s^(r)_3 s^(v)_4>, for the kinds that recursions need.

| kind | factors | over |
|---|---|---|
| "0000", "0011", "1111" | `s_a s_b s_c s_d`, `s_a s_b s'_c s'_d`, `s'_a s'_b s'_c s'_d` | unordered pairs (ab), (cd) |
| "2110", "3111" | `s''_a s_b s'_c s'_d`, `s'''_a s'_b s'_c s'_d` | ordered pairs (ab), unordered (cd) |
| "2211" | `s''_a s''_b s'_c s'_d` | unordered pairs |

All are covariances of products of two factors, and products of means. Low degrees of their Hermite series are summed
exactly (`chaos`), the rest is sampled, with an error from replicas. One or two samples are integrated, and lines with a
kink have closed forms (`straight_fours`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.statistics import mean_and_error
from .activation_moments import feature_kernel, slope_kernel
from .chaos import Chaos, contracted, sampled
from .pair_table import Orders, pair_moments
from .sample_pairs import Pairs
from .straight_fours import straight_fours
from .two_labels import within_two

KINDS: dict[str, tuple[Orders, Orders]] = {
    "0000": ((0, 0), (0, 0)),
    "0011": ((0, 0), (1, 1)),
    "1111": ((1, 1), (1, 1)),
    "2110": ((2, 0), (1, 1)),
    "3111": ((3, 1), (1, 1)),
    "2211": ((2, 2), (1, 1)),
}
"""Orders of the derivatives in the pair of the rows, and of the columns."""

FEW = 2
"""Up to so many samples all averages are integrals over one or two variables."""


@dataclass(frozen=True, eq=False)
class Quadruple:
    """Averages of one kind: for every replica the covariance of the products of the rows with those of the columns."""

    rows: Pairs
    columns: Pairs
    means: tuple[Float[Floats, " q"], Float[Floats, " r"]]
    """Averages of both products."""

    covariances: Float[Floats, "n q r"]
    """One if nothing was sampled."""

    @property
    def values(self) -> Float[Floats, "q r"]:
        """<s^(p)_a s^(q)_b s^(r)_c s^(v)_d>."""
        return np.asarray(self.covariances.mean(axis=0) + np.outer(*self.means))

    @property
    def error(self) -> Float[Floats, "q r"]:
        """Standard error of `values`; 0 if nothing was sampled."""
        return mean_and_error(self.covariances, alone=0.0)[1]


def quadruples(
    activation: str | Activation,
    K: Float[Floats, "p p"],
    kinds: Iterable[str] = tuple(KINDS),
    *,
    points: int | None = None,
    replicas: int = 4,
    seed: int = 0,
    population: int = 0,
) -> dict[str, Quadruple]:
    """The averages of these kinds at the covariance K, which may be singular.

    >>> table = quadruples("sin", np.eye(2), ["0011"])
    >>> round(float(table["0011"].values[0, 2]), 9)  # <s_1^2> <s'_2^2> of independent samples
    0.24542109

    Args:
        activation: smooth, or with kinks for the kinds without second derivatives.
        K: covariance of the samples.
        kinds: see `KINDS`.
        points: for the sampled part; None is 2^13 for three samples, falling to 2^9 for more than ten. As many are in
            each of
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first replica.
        population: another number, other points.
    """
    s, wanted = get(activation), [check.choice("kind", kind, list(KINDS)) for kind in kinds]
    families = {orders: _pairs(orders, len(K)) for kind in wanted for orders in KINDS[kind]}
    if s.homogeneity == 1:
        return {kind: _of_lines(s, K, families, kind) for kind in wanted}
    chaos = {orders: Chaos.of(s, K, pairs, orders) for orders, pairs in families.items()}
    if len(K) <= FEW:
        return {kind: _exact(chaos, KINDS[kind]) for kind in wanted}

    count = enough_points(len(K) * (len(K) + 1) // 2) if points is None else check.integer("points", points, least=2)
    seeds = range(seed, seed + check.integer("replicas", replicas, least=2))
    return {kind: _expanded(chaos, KINDS[kind], seeds, population, count) for kind in wanted}


def _pairs(orders: Orders, samples: int) -> Pairs:
    return Pairs.within(samples) if orders[0] == orders[1] else Pairs.ordered(samples)


def _of_lines(s: Activation, K: Floats, families: dict[Orders, Pairs], kind: str) -> Quadruple:
    left, right = (families[part] for part in KINDS[kind])
    one, two = (_mean_of_lines(s, K, families[part], part) for part in KINDS[kind])
    return Quadruple(left, right, (one, two), (straight_fours(s, K, left, right, kind) - np.outer(one, two))[None])


def _mean_of_lines(s: Activation, K: Floats, pairs: Pairs, orders: Orders) -> Floats:
    if orders[0] == orders[1] < 2:
        return (feature_kernel, slope_kernel)[orders[0]](s, *pairs.entries(K))
    return np.asarray(pair_moments(s, K)[orders][pairs.rows, pairs.columns])


def _exact(chaos: dict[Orders, Chaos], orders: tuple[Orders, Orders]) -> Quadruple:
    left, right = (chaos[part] for part in orders)
    fourth = within_two(left.activation, left.K, left.pairs, right.pairs, (*orders[0], *orders[1]))
    return Quadruple(left.pairs, right.pairs, (left.mean, right.mean), (fourth - np.outer(left.mean, right.mean))[None])


def _expanded(
    chaos: dict[Orders, Chaos], orders: tuple[Orders, Orders], seeds: range, population: int, points: int
) -> Quadruple:
    lowest = min(chaos[part].gradients.degree for part in orders)
    left, right = (chaos[part].cut(lowest) for part in orders)
    exact, rest = left.covariance if left is right else contracted(left, right), np.zeros((1, 1, 1))
    if left.rest.any() and right.rest.any():
        rest = np.stack([sampled(left, right, number, population, points) for number in seeds])
    return Quadruple(left.pairs, right.pairs, (left.mean, right.mean), exact + rest)


def enough_points(pairs: int) -> int:
    """Points that cost little for this number of pairs: 2^13 for three inputs, falling to 2^9 for more than ten."""
    return int(2 ** min(max(16 - math.ceil(math.log2(pairs)), 9), 13))
