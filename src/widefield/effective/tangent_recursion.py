"""One layer of the recursions of the neural tangent kernel at finite width, PDLT section 8.3.

All tensors are divided by the width of the layer below, so that no ratios of widths occur. Over unordered pairs of
samples, with J = d<s s>/dK, J' = d<s' s'>/dK, m = <s' s'>, Theta the NTK at infinite width, C = C_W, lam = lambda_W,

    W = lam J + C Theta J'      V' = C^2 (S_00 / n + J V J^T)
    D' = C [(lam S_00 + C S_01 Theta) / n + J V W^T + C J D m]
    A' = (lam^2 S_00 + lam C (S_01 Theta + Theta S_10) + C^2 Theta S_11 Theta) / n
         + W V W^T + C (W D m + m D^T W^T) + C^2 m A m

where S_00, S_01, S_11 are the covariances of s s and s' s' of one neuron: PDLT eqs. (4.119), (8.77), (8.97), one linear
recursion for the metric and the NTK. With sample indices in the order 1 3 2 4, in which F and B are kept, and
b_ac = <s_a s''_c>,

    F' = C^2 [<s_1 s_2 s'_3 s'_4> Theta_34 / n + (m_13, b_13) (m_24, b_24) . (F_1324, F_3324, F_1344, F_3344)]  (8.79)
    B' = C^2 [<s'_1 s'_2 s'_3 s'_4> Theta_12 Theta_34 / n + m_13 m_24 B_1324]                                    (8.89)

in derivative form: Stein's identity in the place of inverse kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from .vertex_flow import Linear, Quadratic, metric_step, vertex_step


@dataclass(frozen=True, eq=False)
class Passage:
    """What a layer does to fluctuations of the metric and the NTK below: for some samples, or for many groups of them.

    Vectors are over pairs, matrices over samples, both with an axis for groups in front, if there are several.
    """

    weight: float
    """C_W of the layer above."""

    rate: float
    """lambda_W of the layer above."""

    share: float
    """1 / n."""

    features: Linear
    """J."""

    slopes: Linear
    """J'."""

    theta: Floats
    """Theta over pairs."""

    mean_slopes: Floats
    """m over pairs."""

    def response(self, kernels: Floats) -> Floats:
        """W X."""
        bent = self.weight * self.theta[..., None] * (self.slopes @ kernels)
        return np.asarray(self.rate * (self.features @ kernels) + bent)


@dataclass(frozen=True, eq=False)
class Sources:
    """Covariances of (s s, s s), (s s, s' s'), (s' s', s' s') of one neuron, over pairs."""

    features: Floats
    mixed: Floats
    slopes: Floats | None = None
    """Not needed for V and D."""


def transposed(matrix: Floats) -> Floats:
    """Of the last two axes."""
    return np.ascontiguousarray(np.swapaxes(matrix, -1, -2))


def vertex(passage: Passage, sources: Sources, V: Floats) -> Floats:
    """V'."""
    return vertex_step(passage.features, passage.share * sources.features, V, passage.weight)


def cross_shared(passage: Passage, sources: Sources, V: Floats, D: Floats) -> Floats:
    """D'."""
    C, theta, m = passage.weight, passage.theta[..., None, :], passage.mean_slopes[..., None, :]
    own = passage.share * (passage.rate * sources.features + C * sources.mixed * theta)
    carried = transposed(passage.response(transposed(passage.features @ V)))
    return np.asarray(C * (own + carried + C * (passage.features @ D) * m))


def variance_shared(passage: Passage, sources: Sources, V: Floats, D: Floats, A: Floats) -> Floats:
    """A'."""
    assert sources.slopes is not None
    C, rate, theta, m = passage.weight, passage.rate, passage.theta, passage.mean_slopes
    mixed = rate * C * sources.mixed * theta[..., None, :]
    both = C**2 * theta[..., :, None] * theta[..., None, :] * sources.slopes
    own = passage.share * (rate**2 * sources.features + mixed + transposed(mixed) + both)
    through = passage.response(transposed(passage.response(V)))
    crossed = C * passage.response(D) * m[..., None, :]
    return np.asarray(own + through + crossed + transposed(crossed) + C**2 * m[..., :, None] * m[..., None, :] * A)


def cross_paired(
    passage: Passage, fours: Floats, theta: Floats, m: Floats, b: Floats, F: Float[Floats, "... p p p p"]
) -> Float[Floats, "... p p p p"]:
    """F', from <s_1 s_2 s'_3 s'_4> in the order 1 2 3 4, and Theta, m and b over samples."""
    own = passage.share * np.swapaxes(fours * theta[..., None, None, :, :], -2, -3)
    first = m[..., :, :, None, None] * F
    first += b[..., :, :, None, None] * np.einsum("...iijk->...ijk", F)[..., None, :, :, :]
    second = m[..., None, None, :, :] * first
    second += b[..., None, None, :, :] * np.einsum("...abii->...abi", first)[..., None, :]
    return np.asarray(passage.weight**2 * (own + second))


def variance_paired(
    passage: Passage, fours: Floats, theta: Floats, m: Floats, B: Float[Floats, "... p p p p"]
) -> Float[Floats, "... p p p p"]:
    """B', from <s'_1 s'_2 s'_3 s'_4> in the order 1 2 3 4, and Theta and m over samples."""
    both = theta[..., :, :, None, None] * theta[..., None, None, :, :]
    own = passage.share * np.swapaxes(fours * both, -2, -3)
    return np.asarray(passage.weight**2 * (own + m[..., :, :, None, None] * m[..., None, None, :, :] * B))


@dataclass(frozen=True, eq=False)
class Means:
    """Order 1/n of the means of the metric and the NTK over the pairs (a, a), (a, b), (b, b) of groups of two samples.

    With moved = J G1 + H V / 2 (PDLT eq. (4.115)), J'' = d^2<s' s'>/dK dK and G1' = C moved,

        H1' = lam moved + C {m H1 + Theta (J' G1 + J'' V / 2) + diag(J' D) + sum_cd <d_c d_d (s'_1 s'_2)> F_c1d2}

    from PDLT eqs. (8.59) and (8.71): E[NTK] = Theta + H1. Every tensor in it has the two labels of a group alone, so
    that the order 1/n of many inputs is that of all groups of two, without anything that would have to be sampled.
    """

    metric: Float[Floats, "g 3"]
    tangent: Float[Floats, "g 3"]

    def step(self, passage: Passage, bends: tuple[Quadratic, Quadratic], V: Floats, D: Floats, F: Floats) -> Means:
        """To the next layer, with V, D, F of the layer below."""
        C, theta, m = passage.weight, passage.theta, passage.mean_slopes
        moved = metric_step(passage.features, bends[0], V, self.metric)
        turned = metric_step(passage.slopes, bends[1], V, self.metric)
        slopes: Any = passage.slopes
        crossed = np.einsum("...pq,...qp->...p", slopes.matrix, D) + _twice_bent(slopes.matrix, F)
        return Means(C * moved, passage.rate * moved + C * (m * self.tangent + theta * turned + crossed))


def _twice_bent(J: Float[Floats, "g 3 3"], F: Float[Floats, "g 2 2 2 2"]) -> Float[Floats, "g 3"]:
    """sum_cd <d_c d_d (s'_1 s'_2)> F_c1d2.

    For distinct labels <s'''_1 s'_2> F_1112 + <s'_1 s'''_2> F_2122 + <s'' s''> (F_1122 + F_2112).
    """
    equal = [2 * J[..., p, p] * F[..., a, a, a, a] for p, a in ((0, 0), (2, 1))]
    outer = 2 * J[..., 1, 0] * F[..., 0, 0, 0, 1] + 2 * J[..., 1, 2] * F[..., 1, 0, 1, 1]
    inner = J[..., 1, 1] * (F[..., 0, 0, 1, 1] + F[..., 1, 0, 0, 1])
    return np.stack([equal[0], outer + inner, equal[1]], axis=-1)
