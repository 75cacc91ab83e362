"""Averages of four factors of lines with a kink, s = p z + r |z|: one integral over an angle away, without samples.

With unit variances, correlations C and s'' = J delta, J = 2 r, two derivatives of the product of four slopes leave

    two(c, d | e, f) = <s''_c s''_d s'_e s'_f> = J^2 [p^2 + r^2 (2/pi) arcsin rho_{ef|cd}] / (2 pi sqrt(1 - C_cd^2))

rho_{ef|cd} being the correlation of z_e and z_f given z_c = z_d = 0. Along correlations t C, t = sin(angle),

    d<s' s' s' s'>/dt = sum_{i<j} C_ij two(i, j)
    <s_i s_j s'_k s'_l> = C_ij <s' s' s' s'> + sum_cd C_ic C_jd <d_c d_d (s' s' s' s')>
    d<s s s s>/dt = sum_{i<j} C_ij <s'_i s'_j s_k s_l>

where <d_c d_c ..> = - sum_d C_cd two(c, d), by Stein. Where two samples are parallel, two(c, d) is infinite, but what
multiplies it vanishes; averages that are infinite are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from ..activations import Activation
from ..base.arrays import Booleans, Floats, Integers
from .gradients import correlations, line_and_kink
from .pair_table import PARALLEL
from .sample_pairs import Pairs

_NODES = 48
"""Of the integral."""

_ROWS = 2**12
"""Quadruples that are held at once."""

_TWO = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Pairs of places, so that the pair of the other two places stands at 5 - k."""

_NUMBER = np.array([[-1, 0, 1, 2], [0, -1, 3, 4], [1, 3, -1, 5], [2, 4, 5, -1]])


@cache
def _rule() -> tuple[Floats, Floats, Floats]:
    """Nodes and weights on [0, pi/2], and the matrix of integrals from 0 to every node."""
    x, weights = np.polynomial.legendre.leggauss(_NODES)
    values = np.polynomial.legendre.legvander(x, _NODES)
    n = np.arange(_NODES)
    integrals = np.empty((_NODES, _NODES))
    integrals[:, 0] = x + 1
    integrals[:, 1:] = (values[:, 2:] - values[:, : _NODES - 1]) / (2 * n[1:] + 1)
    coefficients = (n + 0.5)[:, None] * values[:, :_NODES].T * weights[None, :]
    half = np.pi / 4
    return half * (x + 1), half * weights, half * integrals @ coefficients


@dataclass(frozen=True)
class _Line:
    """s = p z + r |z|, and averages at correlations c of four variables: a list over `_TWO`."""

    p: float
    r: float

    def arcs(self, c: list[Floats]) -> tuple[list[Floats], list[Floats]]:
        """(2/pi) arcsin rho of the other two given each pair, and sqrt(1 - c^2) of each pair."""
        found, roots = [], []
        for k, (i, j) in enumerate(_TWO):
            e, f = _TWO[5 - k]
            ei, ej, fi, fj = (c[_NUMBER[a, b]] for a, b in ((e, i), (e, j), (f, i), (f, j)))
            det = np.maximum((1 - c[k]) * (1 + c[k]), 0.0)
            safe = np.where(det > PARALLEL, det, 1.0)
            both = c[5 - k] - (ei * fi + ej * fj - c[k] * (ei * fj + ej * fi)) / safe
            one = 1 - (ei**2 + ej**2 - 2 * c[k] * ei * ej) / safe
            two = 1 - (fi**2 + fj**2 - 2 * c[k] * fi * fj) / safe
            known = (det > PARALLEL) & (one > PARALLEL) & (two > PARALLEL)
            size = np.sqrt(np.where(known, one * two, 1.0))
            # Three kinks at one place: at each the slopes of the other two have the same side in two of three orders.
            same = np.where(
                _parallel(ei) & _parallel(fi), ei * fi, np.where(_parallel(ej) & _parallel(fj), ej * fj, 0.0)
            )
            rho = np.clip(both / size, -1.0, 1.0)
            found.append(np.where(known, 2 / np.pi * np.arcsin(rho), same / 3))
            roots.append(np.sqrt(det))
        return found, roots

    def bent(self, arc: Floats, root: Floats) -> Floats:
        """two(c, d | e, f); 0 for parallel c and d."""
        factor = 4 * self.r**2 * (self.p**2 + self.r**2 * arc) / (2 * np.pi)
        return np.asarray(np.divide(factor, root, out=np.zeros_like(factor), where=root > PARALLEL**0.5))

    def slopes(self, c: list[Floats], signs: Floats) -> Floats:
        """<s' s' s' s'> from <sgn sgn sgn sgn>."""
        pairs = sum(2 / np.pi * np.arcsin(np.clip(part, -1.0, 1.0)) for part in c)
        return np.asarray(self.p**4 + self.p**2 * self.r**2 * pairs + self.r**4 * signs)

    def mixed(self, c: list[Floats], slopes: Floats, bent: list[Floats]) -> list[Floats]:
        """<s_i s_j s'_k s'_l> for every pair (i, j)."""
        found = []
        for k, (i, j) in enumerate(_TWO):
            total = c[k] * slopes
            for two, (a, b) in zip(range(6), _TWO, strict=True):
                ia, ib, ja, jb = (_at(c, x, y) for x, y in ((i, a), (i, b), (j, a), (j, b)))
                total = total + bent[two] * (ia * jb + ib * ja - c[two] * (ia * ja + ib * jb))
            found.append(total)
        return found


def _at(c: list[Floats], i: int, j: int) -> Floats:
    return np.ones_like(c[0]) if i == j else c[_NUMBER[i, j]]


def _integrated(line: _Line, C: Float[Floats, "6 e"]) -> tuple[Floats, Floats, Floats]:
    """<s' s' s' s'>, <s_i s_j s'_k s'_l> for every pair (i, j), and <s s s s>, at unit variances."""
    angles, weights, integral = _rule()
    t, dt = np.sin(angles), np.cos(angles)
    along = [t[:, None] * part[None, :] for part in C]
    arcs, roots = line.arcs(along)
    grown = sum(
        part[None, :] * dt[:, None] * 2 / np.pi * arc / root for part, arc, root in zip(C, arcs, roots, strict=True)
    )
    signs = integral @ np.asarray(grown)
    bent = [line.bent(arc, root) for arc, root in zip(arcs, roots, strict=True)]
    mixed = line.mixed(along, line.slopes(along, signs), bent)
    growth = sum(part[None, :] * mixed[5 - k] for k, part in enumerate(C))
    four = (line.r**2 * 2 / np.pi) ** 2 + (weights * dt) @ np.asarray(growth)
    ends = list(C)
    last = weights @ np.asarray(grown)
    for k, part in enumerate(C):  # sgn_i sgn_j = +-1 of parallel samples
        parallel = (1 - part) * (1 + part) <= PARALLEL
        last = np.where(parallel, np.sign(part) * 2 / np.pi * np.arcsin(np.clip(C[5 - k], -1.0, 1.0)), last)
    arcs, roots = line.arcs(ends)
    bent = [line.bent(arc, root) for arc, root in zip(arcs, roots, strict=True)]
    slopes = line.slopes(ends, last)
    return slopes, np.stack(line.mixed(ends, slopes, bent)), four


def straight_fours(
    activation: Activation, K: Float[Floats, "p p"], left: Pairs, right: Pairs, kind: str
) -> Float[Floats, "q r"]:
    """The averages of a kind of `four_table` over pairs (ab), (cd), for an activation of homogeneity 1."""
    line, C, scale = _Line(*line_and_kink(activation)), correlations(K), np.sqrt(np.diagonal(K))
    ends = np.broadcast_arrays(left.rows[:, None], left.columns[:, None], right.rows[None], right.columns[None])
    labels = np.stack(ends).reshape(4, -1)
    found = _closed(line, C, scale, labels, kind) if kind in _CLOSED else _by_angle(line, C, scale, labels, kind)
    return found.reshape(len(left), len(right))


def _by_angle(line: _Line, C: Floats, scale: Floats, labels: Int[Integers, "4 e"], kind: str) -> Float[Floats, " e"]:
    """ "0000", "0011", "1111": every set of four labels once, whatever their order."""
    order = np.argsort(labels, axis=0, kind="stable")
    sorted_labels = np.take_along_axis(labels, order, axis=0)
    different, where = np.unique(sorted_labels, axis=1, return_inverse=True)
    where = where.ravel()
    parts = []
    for start in range(0, different.shape[1], _ROWS):
        some = different[:, start : start + _ROWS]
        parts.append(_integrated(line, np.stack([C[some[i], some[j]] for i, j in _TWO])))
    slopes, mixed, four = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    if kind == "1111":
        return np.asarray(slopes[where])
    if kind == "0000":
        return np.asarray(four[where] * np.prod(scale[labels], axis=0))
    places = np.argsort(order, axis=0)  # of the labels a, b, c, d among the sorted ones
    return np.asarray(mixed[_NUMBER[places[0], places[1]], where] * scale[labels[0]] * scale[labels[1]])


_CLOSED = ("2110", "3111", "2211")


def _closed(line: _Line, C: Floats, scale: Floats, labels: Int[Integers, "4 e"], kind: str) -> Float[Floats, " e"]:
    """What has two derivatives: no integral. `labels` are a, b, c, d, the derivatives are at a, or at a and b."""
    c = [C[labels[i], labels[j]] for i, j in _TWO]
    arcs, roots = line.arcs(c)
    bent = [line.bent(arc, root) for arc, root in zip(arcs, roots, strict=True)]
    alive = scale > 0
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=alive)
    infinite = [_parallel(c[k]) & alive[labels[i]] & alive[labels[j]] & (line.r != 0) for k, (i, j) in enumerate(_TWO)]
    if kind == "2211":
        found = bent[0] * inverse[labels[0]] * inverse[labels[1]]
        return np.where(infinite[0], np.nan, found)
    if kind == "3111":
        found = -sum(c[k] * bent[k] for k in range(3)) * inverse[labels[0]] ** 2
        return np.where(infinite[0] | infinite[1] | infinite[2], np.nan, found)
    found = (1 - c[0] ** 2) * bent[0] + (c[3] - c[0] * c[1]) * bent[1] + (c[4] - c[0] * c[2]) * bent[2]
    return np.asarray(found * inverse[labels[0]] * scale[labels[1]])


def _parallel(c: Floats) -> Booleans:
    return np.asarray((1 - c) * (1 + c) <= PARALLEL)
