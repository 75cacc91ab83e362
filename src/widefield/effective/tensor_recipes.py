"""One layer of the recursions of all tensors of order 1/n, written for labels of samples.

A recipe gives a tensor of the layer above at four labels, of which some may be the same, from averages of a layer and
tensors of the layer below at these labels: nothing else enters, since Stein's identity replaces inverse kernels. The
same recipes make whole tensors (labels a b c d) and slices of them (`anchored_slices`). Tensors are divided by the
width of the layer below, so that no ratios of widths occur; F and B have their labels in the order 1 3 2 4, T and U in
the orders 1 3 4 2 and 1 4 2 3.

With u_pq(a, b) = <s^(p)_a s^(q)_b>, m = u_11, C = C_W, lam = lambda_W, H = Theta, and

    bend(a, b)[X] = u_20 X_aa / 2 + u_02 X_bb / 2 + u_11 X_ab         (of s s; bend' of s' s' with u_31, u_13, u_22)
    Omega(a, b)[X] = lam bend[X] + C H_ab bend'[X]
    turned(a, b) = lam u_20 + C H_ab u_31         bent(a, b) = lam u_11 + C H_ab u_22
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Labels = tuple[str, str, str, str]
"""Of the four samples, for example ("a", "b", "c", "a")."""


class Known(Protocol):
    """What a layer knows: arrays over labels that can be multiplied with each other."""

    @property
    def weight(self) -> float:
        """C_W of the layer above."""

    @property
    def rate(self) -> float:
        """lambda_W of the layer above."""

    @property
    def share(self) -> float:
        """1 / n."""

    def pair(self, p: int, q: int, a: str, b: str) -> Any:
        """u_pq(a, b)."""

    def theta(self, a: str, b: str) -> Any:
        """H_ab of this layer."""

    def four(self, orders: tuple[int, int, int, int], labels: Labels) -> Any:
        """<s^(p)_1 s^(q)_2 s^(r)_3 s^(v)_4>."""

    def below(self, name: str, labels: Labels) -> Any:
        """A tensor of this layer."""

    def above(self, name: str, labels: Labels) -> Any:
        """A tensor of the layer above, which has been made before."""


Entry = Callable[[str, str], Any]


def _bend(L: Known, a: str, b: str, X: Entry, order: int = 0) -> Any:
    p, q = order, order + 2
    outer = L.pair(q, p, a, b) * X(a, a) + L.pair(p, q, a, b) * X(b, b)
    return 0.5 * outer + L.pair(p + 1, p + 1, a, b) * X(a, b)


def _omega(L: Known, a: str, b: str, X: Entry) -> Any:
    return L.rate * _bend(L, a, b, X) + L.weight * L.theta(a, b) * _bend(L, a, b, X, 1)


def _covariance(L: Known, orders: tuple[int, int], labels: Labels) -> Any:
    """Of s^(p)_a s^(p)_b and s^(q)_c s^(q)_d."""
    (p, q), (a, b, c, d) = orders, labels
    return L.four((p, p, q, q), labels) - L.pair(p, p, a, b) * L.pair(q, q, c, d)


def turned(L: Known, a: str, b: str) -> Any:
    """lam <s''_a s_b> + C H_ab <s'''_a s'_b>: how lam s'_a s_b + C H_ab s''_a s'_b changes with z_a."""
    return L.rate * L.pair(2, 0, a, b) + L.weight * L.theta(a, b) * L.pair(3, 1, a, b)


def bent(L: Known, a: str, b: str) -> Any:
    """lam <s'_a s'_b> + C H_ab <s''_a s''_b>: the same with z_b."""
    return L.rate * L.pair(1, 1, a, b) + L.weight * L.theta(a, b) * L.pair(2, 2, a, b)


def vertex(L: Known, labels: Labels) -> Any:
    """C^2 {Cov(s_1 s_2, s_3 s_4) / n + bend(1, 2) bend(3, 4) [V]}, PDLT eq. (4.119)."""
    a, b, c, d = labels
    through = _bend(L, a, b, lambda i, j: _bend(L, c, d, lambda k, m: L.below("V", (i, j, k, m))))
    return L.weight**2 * (L.share * _covariance(L, (0, 0), labels) + through)


def cross_shared(L: Known, labels: Labels) -> Any:
    """C {Cov(s_1 s_2, Omega_34) / n + bend(1, 2) Omega(3, 4) [V] + C m_34 bend(1, 2) [D_..34]}, PDLT eq. (8.77)."""
    a, b, c, d = labels
    own = L.rate * _covariance(L, (0, 0), labels) + L.weight * L.theta(c, d) * _covariance(L, (0, 1), labels)
    through = _bend(L, a, b, lambda i, j: _omega(L, c, d, lambda k, m: L.below("V", (i, j, k, m))))
    carried = L.weight * L.pair(1, 1, c, d) * _bend(L, a, b, lambda i, j: L.below("D", (i, j, c, d)))
    return L.weight * (L.share * own + through + carried)


def variance_shared(L: Known, labels: Labels) -> Any:
    """Cov(Omega_12, Omega_34) / n + Omega(1, 2) Omega(3, 4) [V] + C^2 m_12 m_34 A + both mixed with D, PDLT (8.97)."""
    (a, b, c, d), C, rate = labels, L.weight, L.rate
    H, G, m, k = L.theta(a, b), L.theta(c, d), L.pair(1, 1, a, b), L.pair(1, 1, c, d)
    own = rate**2 * _covariance(L, (0, 0), labels) + C**2 * H * G * _covariance(L, (1, 1), labels)
    own += rate * C * (G * _covariance(L, (0, 1), labels) + H * _covariance(L, (0, 1), (c, d, a, b)))
    through = _omega(L, a, b, lambda i, j: _omega(L, c, d, lambda e, f: L.below("V", (i, j, e, f))))
    crossed = k * _omega(L, a, b, lambda i, j: L.below("D", (i, j, c, d)))
    crossed += m * _omega(L, c, d, lambda i, j: L.below("D", (i, j, a, b)))
    return L.share * own + through + C * crossed + C**2 * m * k * L.below("A", labels)


def cross_paired(L: Known, labels: Labels) -> Any:
    """C^2 {<s_1 s'_3 s_2 s'_4> H_34 / n + (m_13, u_02) (m_24, u_02) . (F_1324, F_3324, ..)}, PDLT eq. (8.79)."""
    a, b, c, d = labels
    through = sum(
        u * v * L.below("F", (e, b, f, d))
        for u, e in ((L.pair(1, 1, a, b), a), (L.pair(0, 2, a, b), b))
        for v, f in ((L.pair(1, 1, c, d), c), (L.pair(0, 2, c, d), d))
    )
    return L.weight**2 * (L.share * L.four((0, 1, 0, 1), labels) * L.theta(b, d) + through)


def variance_paired(L: Known, labels: Labels) -> Any:
    """C^2 {<s'_1 s'_3 s'_2 s'_4> H_12 H_34 / n + m_13 m_24 B_1324}, PDLT eq. (8.89)."""
    a, b, c, d = labels
    own = L.share * L.four((1, 1, 1, 1), (a, c, b, d)) * L.theta(a, c) * L.theta(b, d)
    return L.weight**2 * (own + L.pair(1, 1, a, b) * L.pair(1, 1, c, d) * L.below("B", labels))


def dntk_p(L: Known, labels: Labels) -> Any:
    """C^2 {<s''_0 s'_1 s'_2 s_3> H_01 H_02 / n + m_12 [u_20(0, 3) (P_0120 + B_0012) + m_03 P_0123]}, PDLT (11.49)."""
    a, b, c, d = labels
    own = L.share * L.four((2, 1, 1, 0), labels) * L.theta(a, b) * L.theta(a, c)
    curved = L.pair(2, 0, a, d) * (L.below("P", (a, b, c, a)) + L.below("B", (a, a, b, c)))
    return L.weight**2 * (own + L.pair(1, 1, b, c) * (curved + L.pair(1, 1, a, d) * L.below("P", labels)))


def dntk_q(L: Known, labels: Labels) -> Any:
    """PDLT eq. (11.52), with F of the layer above:

    C^2 {<s''_0 s'_1 s'_2 s_3> H_01 H_02 / n + m_01 [u_20(2, 3) Q_0122 + m_23 Q_0123]
         + H_01 (u_31, u_22)(0, 1) (u_20, m)(2, 3) . (F_0022, F_1022, F_0032, F_1032)} + (lam / C) F'_1032
    """
    a, b, c, d = labels
    own = L.share * L.four((2, 1, 1, 0), labels) * L.theta(a, b) * L.theta(a, c)
    bends = (L.pair(2, 0, c, d), c), (L.pair(1, 1, c, d), d)
    carried = L.pair(1, 1, a, b) * sum(u * L.below("Q", (a, b, c, e)) for u, e in bends)
    slopes = (L.pair(3, 1, a, b), a), (L.pair(2, 2, a, b), b)
    mixed = L.theta(a, b) * sum(u * v * L.below("F", (e, a, f, c)) for u, e in slopes for v, f in bends)
    return L.weight**2 * (own + carried + mixed) + L.rate / L.weight * L.above("F", (b, a, d, c))


def ddntk_r(L: Known, labels: Labels) -> Any:
    """PDLT eq. (inf.172):

    {lam C <s''_0 s_1 s'_2 s'_3> H_02 H_03 + C^2 <s'''_0 s'_1 s'_2 s'_3> H_01 H_02 H_03} / n
    + C m_23 {turned(0, 1) (B_0023 + P_0230) + bent(0, 1) P_0231 + C m_01 R_0123}
    """
    (a, b, c, d), C = labels, L.weight
    both = L.theta(a, c) * L.theta(a, d)
    own = L.rate * L.four((2, 0, 1, 1), labels) + C * L.four((3, 1, 1, 1), labels) * L.theta(a, b)
    carried = turned(L, a, b) * (L.below("B", (a, a, c, d)) + L.below("P", (a, c, d, a)))
    carried = carried + bent(L, a, b) * L.below("P", (a, c, d, b)) + C * L.pair(1, 1, a, b) * L.below("R", labels)
    return C * (L.share * own * both + L.pair(1, 1, c, d) * carried)


def ddntk_s(L: Known, labels: Labels) -> Any:
    """PDLT eq. (inf.174):

    {lam C <s'_1 s'_2 s'_3 s'_4> H_13 H_24 + C^2 <s''_1 s''_2 s'_3 s'_4> H_12 H_13 H_24} / n
    + C m_34 {bent(1, 2) B_1234 + C m_12 S_1234}
    """
    (a, b, c, d), C = labels, L.weight
    own = L.rate * L.four((1, 1, 1, 1), labels) + C * L.four((2, 2, 1, 1), labels) * L.theta(a, b)
    carried = bent(L, a, b) * L.below("B", labels) + C * L.pair(1, 1, a, b) * L.below("S", labels)
    return C * (L.share * own * L.theta(a, c) * L.theta(b, d) + L.pair(1, 1, c, d) * carried)


def ddntk_t(L: Known, labels: Labels) -> Any:
    """PDLT eq. (inf.175) at 1 3 4 2:

    {lam^2 <s'_1 s'_2 s_3 s_4> H_12 + C lam H_12 (<s'_1 s''_2 s_3 s'_4> H_24 + <s''_1 s'_2 s'_3 s_4> H_13)
     + C^2 <s''_1 s''_2 s'_3 s'_4> H_12 H_13 H_24} / n
    + (turned, bent)(1, 3) (turned, bent)(2, 4) . (F_1122, F_3122, F_1142, F_3142)
    + C m_24 (turned, bent)(1, 3) . (Q_2411, Q_2413) + C m_13 (turned, bent)(2, 4) . (Q_1322, Q_1324)
    + C^2 m_13 m_24 T_1342
    """
    (a, b, c, d), C = labels, L.weight  # a, b, c, d are the samples 1, 3, 4, 2
    left, right, flat = C * L.theta(a, b), C * L.theta(d, c), L.rate
    own = flat**2 * L.four((1, 0, 0, 1), labels) + left * right * L.four((2, 1, 1, 2), labels)
    own = own + flat * (right * L.four((1, 0, 1, 2), labels) + left * L.four((2, 1, 0, 1), labels))
    one, two = ((turned(L, a, b), a), (bent(L, a, b), b)), ((turned(L, d, c), d), (bent(L, d, c), c))
    mixed = sum(u * v * L.below("F", (e, a, f, d)) for u, e in one for v, f in two)
    m, k = L.pair(1, 1, a, b), L.pair(1, 1, d, c)
    carried = k * sum(u * L.below("Q", (d, c, a, e)) for u, e in one)
    carried = carried + m * sum(u * L.below("Q", (a, b, d, e)) for u, e in two)
    return L.share * own * L.theta(a, d) + mixed + C * carried + C**2 * m * k * L.below("T", labels)


def ddntk_u(L: Known, labels: Labels) -> Any:
    """C^2 {<s''_1 s''_2 s'_3 s'_4> H_12 H_13 H_24 / n + m_14 m_23 U_1423} at 1 4 2 3, PDLT eq. (inf.176)."""
    a, b, c, d = labels  # the samples 1, 4, 2, 3
    own = L.share * L.four((2, 1, 2, 1), labels) * L.theta(a, c) * L.theta(a, d) * L.theta(c, b)
    return L.weight**2 * (own + L.pair(1, 1, a, b) * L.pair(1, 1, c, d) * L.below("U", labels))


RECIPES: dict[str, Callable[[Known, Labels], Any]] = {
    "V": vertex,
    "D": cross_shared,
    "A": variance_shared,
    "F": cross_paired,
    "B": variance_paired,
    "P": dntk_p,
    "Q": dntk_q,
    "R": ddntk_r,
    "S": ddntk_s,
    "T": ddntk_t,
    "U": ddntk_u,
}
"""In an order in which they can be made: Q needs F of the layer above."""
