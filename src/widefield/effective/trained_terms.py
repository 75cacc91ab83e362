"""Networks of finite width after training, order 1/n of mean and covariance, in a basis where training is diagonal.

All tensors of the outputs come with their training samples rotated to the modes a of the NTK on them (eigenvalues h_a,
Z of `training_paths`) and with the other samples as they are: "points" are modes and then other samples. The mean at a
point is linear and cubic in the targets y, whatever the time,

    m1_k = sum_c L_c y_kc - sum_abc E_abc [y_ka (y_b . y_c + n_L K_bc) + y_kb K_ca + y_kc K_ab]

(PDLT eqs. (inf.155)-(inf.160) with corrected signs), which makes its derivative in y one line, and with it the largest
part of the covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from .training_paths import Descent, Projectors

Entry = Callable[[str, str], Floats]
"""Name and pattern of a tensor's labels, such as "axcb", to its entries over the letters a b c in this order."""


class Forms(NamedTuple):
    """L and E of some points, by what they come from."""

    linear: dict[str, Float[Floats, "x a"]]
    cubic: dict[str, Float[Floats, "x a a a"]]


@dataclass(frozen=True, eq=False)
class Tensors:
    """Of the outputs, over points, times the width below: K, H, G1, H1 and V .. U with positions as they are stored."""

    K: Float[Floats, "d d"]
    H: Float[Floats, "d d"]
    G1: Float[Floats, "d d"]
    H1: Float[Floats, "d d"]
    fours: dict[str, Float[Floats, "d d d d"]]

    def around(self, point: int, modes: int) -> Entry:
        """Entries with this point at x and modes at the other letters of a pattern."""

        def entry(name: str, pattern: str) -> Floats:
            own: list[int | slice] = [point if label == "x" else slice(modes) for label in pattern]
            left = pattern.replace("x", "")
            return np.asarray(np.einsum(f"{left}->{''.join(sorted(set(left)))}", self.fours[name][tuple(own)]))

        return entry


def dntk(at: Entry, z: Projectors, outputs: int) -> Float[Floats, " a"]:
    """L of the dNTK, PDLT eq. (inf.158), of the modes c.

    -sum_a {Z_B(a, c) [P_xaca + Q_xaca + n_L Q_xcaa] + Z_B(c, a) [P_xcaa + n_L Q_xcaa + Q_xaca]
            + Z_A(a, c) [n_L P_axca + Q_axca + Q_acxa] + Z_A(c, a) [P_cxaa + n_L Q_cxaa + Q_caxa]}
    """
    n, P, Q = outputs, "P", "Q"
    total = z.B * (at(P, "xaca") + at(Q, "xaca") + n * at(Q, "xcaa"))
    total += z.B.T * (at(P, "xcaa") + n * at(Q, "xcaa") + at(Q, "xaca"))
    total += z.A * (n * at(P, "axca") + at(Q, "axca") + at(Q, "acxa"))
    total += z.A.T * (at(P, "cxaa") + n * at(Q, "cxaa") + at(Q, "caxa"))
    return np.asarray(-total.sum(axis=0))


def ddntk(at: Entry, z: Projectors) -> tuple[Float[Floats, "a a a"], Float[Floats, "a a a"]]:
    """E of both ddNTKs, PDLT eqs. (inf.159), (inf.160), corrected.

    R_xabc [Z_IB(abc) + Z_IB(cab) + Z_IB(bca)] + R_axbc Z_IA(abc) + R_bcax Z_IA(bca) + R_cbxa Z_IA(cab)

    S_xabc Z_IIB(abc) + T_xabc Z_IIB(cab) + U_xabc Z_IIB(bca)
    + S_bcxa Z_IIA(bca) + T_axcb Z_IIA(abc) + U_cbax Z_IIA(cab)
    """
    IA, IB, IIA, IIB = (_turned(part) for part in (z.IA, z.IB, z.IIA, z.IIB))
    one = at("R", "xabc") * sum(IB) + at("R", "axbc") * IA[0] + at("R", "bcax") * IA[1] + at("R", "cbxa") * IA[2]
    two = at("S", "xabc") * IIB[0] + at("T", "xabc") * IIB[2] + at("U", "xabc") * IIB[1]
    two += at("S", "bcxa") * IIA[1] + at("T", "axcb") * IIA[0] + at("U", "cbax") * IIA[2]
    return one, two


def _turned(z: Float[Floats, "a a a"]) -> tuple[Floats, Floats, Floats]:
    """Z(abc), Z(bca), Z(cab) over a, b, c."""
    return z, z.transpose(2, 0, 1), z.transpose(1, 2, 0)


@dataclass(frozen=True, eq=False)
class Trained:
    """Mean and covariance at a time, from tensors over points, targets over (mode, output)."""

    tensors: Tensors
    descent: Descent
    targets: Float[Floats, "a k"]

    @property
    def modes(self) -> int:
        """Of the training samples."""
        return len(self.descent.h)

    @property
    def outputs(self) -> int:
        """n_L."""
        return int(self.targets.shape[1])

    @property
    def learned(self) -> Float[Floats, "d a"]:
        """M = H g: the outputs of infinite width are z - M (z - y)."""
        return np.asarray(self.tensors.H[:, : self.modes] * self.descent.first)

    @property
    def left(self) -> Float[Floats, "d d"]:
        """c, 1 - M: what is left of the first outputs."""
        found = np.eye(len(self.tensors.H))
        found[:, : self.modes] -= self.learned
        return found

    @property
    def spread(self) -> Float[Floats, "d d a"]:
        """Lambda_x;pb = p_x g_b + H_xp g[p, b], p a mode in the last part: how the outputs answer fluctuations of H."""
        found = np.zeros((*self.tensors.H.shape, self.modes))
        found[np.arange(len(found)), np.arange(len(found))] = self.descent.first
        found[:, : self.modes] += self.tensors.H[:, : self.modes, None] * self.descent.second
        return found

    def forms(self) -> Forms:
        """Of all points."""
        free = self._free()
        around = partial(self.tensors.around, modes=self.modes)
        parts = {"dntk": self._answered(lambda point, z: dntk(around(point), z, self.outputs))}
        cubic = {
            "first_ddntk": self._answered(lambda point, z: ddntk(around(point), z)[0]),
            "second_ddntk": self._answered(lambda point, z: ddntk(around(point), z)[1]),
        }
        return Forms(free | parts, cubic)

    def _answered(self, form: Callable[[int, Projectors], Floats]) -> Floats:
        """Of the interacting part at points, less what training samples answer."""
        h, modes = self.descent.h, self.modes
        own = np.stack([form(point, self.descent.projectors) for point in range(len(self.tensors.H))])
        answers = np.stack([form(mode, self.descent.answered(mode)) for mode in range(modes)])
        moved = self.tensors.H[:, :modes] / h
        return np.asarray(own - np.tensordot(moved, answers, axes=1))

    def _free(self) -> dict[str, Floats]:
        """L of the mean NTK and of its fluctuations, of which A and B give A_(xb)(bc) + B_xbbc + n_L B_xcbb."""
        t, g, modes = self.tensors, self.descent, self.modes
        H = t.H[:, :modes]
        a, n = slice(modes), self.outputs
        A, B = t.fours["A"], t.fours["B"]
        mean = t.H1[:, a] * g.first + np.einsum("xa,ac,ac->xc", H, g.second, t.H1[a, a])
        both = np.einsum("xbbc->xbc", A[:, a, a, a] + B[:, a, a, a])
        both = both + n * np.einsum("xcbb->xbc", B[:, a, a, a])
        scattered = np.einsum("bc,xbc->xc", g.second, both)
        scattered += np.einsum("xa,abc,abc->xc", H, g.third, both[a], optimize=True)
        return {"ntk": mean, "ntk_scatter": scattered}

    def mean(self, forms: Forms) -> dict[str, Float[Floats, "x k"]]:
        """Order 1/n of the mean by parts, of all points of the forms."""
        found = {name: L @ self.targets for name, L in forms.linear.items()}
        K, y, n = self.tensors.K[: self.modes, : self.modes], self.targets, self.outputs
        products = y @ y.T + n * K
        for name, E in forms.cubic.items():
            total = np.einsum("xabc,ak,bc->xk", E, y, products, optimize=True)
            total += np.einsum("xabc,bk,ca->xk", E, y, K, optimize=True)
            total += np.einsum("xabc,ck,ab->xk", E, y, K, optimize=True)
            found[name] = -total
        return found

    def derivative(self, forms: Forms) -> Float[Floats, "x k a i"]:
        """d m1_k / d y_ia."""
        K, y, n = self.tensors.K[: self.modes, : self.modes], self.targets, self.outputs
        E = sum(forms.cubic.values())
        same = sum(forms.linear.values()) - np.einsum("xabc,bc->xa", E, y @ y.T + n * K, optimize=True)
        same = same - np.einsum("xbac,cb->xa", E, K, optimize=True) - np.einsum("xbca,bc->xa", E, K, optimize=True)
        crossed = np.einsum("xbac,bk,ci->xkai", E, y, y, optimize=True)
        crossed += np.einsum("xbca,bk,ci->xkai", E, y, y, optimize=True)
        return np.asarray(same[:, None, :, None] * np.eye(n)[None, :, None, :] - crossed)

    def covariance(self, forms: Forms) -> dict[str, Float[Floats, "d k d k"]]:
        """Order 1/n of Cov[z_ix, z_kx'] by parts, over x, i, x', k."""
        c, one = self.left, np.eye(self.outputs)

        def shared(matrix: Floats) -> Floats:
            return np.asarray(matrix[:, None, :, None] * one[None, :, None, :])

        kappa = c @ self.tensors.K[:, : self.modes]
        halves = {
            "mean_response": -np.einsum("xa,ykai->xiyk", kappa, self.derivative(forms)),
            "output_ntk": shared(self._with_outputs()),
            "output_dntk": self._with_dntk(),
        }
        found = {"output": shared(c @ self.tensors.G1 @ c.T), "ntk_scatter": self._scatter()}
        return found | {name: half + half.transpose(2, 3, 0, 1) for name, half in halves.items()}

    def _with_outputs(self) -> Float[Floats, "d d"]:
        """Omega: the outputs with fluctuations of the NTK, from D_pbqb + n_L F_pqbb + F_pbbq."""
        a, n = slice(self.modes), self.outputs
        D, F = self.tensors.fours["D"], self.tensors.fours["F"]
        both = np.einsum("pcqb->pqbc", D[:, a, :, a]) + n * np.einsum("pqbc->pqbc", F[:, :, a, a])
        both = both + np.einsum("pcbq->pqbc", F[:, a, a, :])
        traced = np.einsum("pqbb->pqb", both)
        return np.asarray(-np.einsum("xp,yqb,pqb->xy", self.left, self.spread, traced, optimize=True))

    def _scatter(self) -> Float[Floats, "d k d k"]:
        """Xi: fluctuations of the NTK with each other."""
        a, n, y = slice(self.modes), self.outputs, self.targets
        K = self.tensors.K[a, a]
        A, B, spread = self.tensors.fours["A"][:, a, :, a], self.tensors.fours["B"], self.spread
        straight = np.einsum("pqbd->pbqd", B[:, :, a, a])
        crossed = np.einsum("pdbq->pbqd", B[:, a, a, :])
        whole = A * K[None, :, None, :] + straight * (n * K + y @ y.T)[None, :, None, :] + crossed * K[None, :, None, :]
        found = np.einsum("xpb,pbqd,yqd->xy", spread, whole, spread, optimize=True)
        wired = np.einsum("xpb,bi,pbqd,dk,yqd->xiyk", spread, y, A, y, spread, optimize=True)
        wired += np.einsum("xpb,bk,pbqd,di,yqd->xiyk", spread, y, crossed, y, spread, optimize=True)
        return np.asarray(found[:, None, :, None] * np.eye(n)[None, :, None, :] + wired)

    def _with_dntk(self) -> Float[Floats, "d k d k"]:
        """Psi: the outputs x_i with the dNTK at x'_k."""
        left = self.left

        def rows(point: int, z: Projectors) -> Floats:
            return np.asarray(np.einsum("xp,pik->xik", left, self._dntk_rows(point, z)))

        return np.asarray(np.einsum("yxik->xiyk", self._answered(rows)))

    def _dntk_rows(self, q: int, z: Projectors) -> Float[Floats, "d k k"]:
        """Over points p and outputs i, k."""
        a, n, y = slice(self.modes), self.outputs, self.targets
        P, Q = self.tensors.fours["P"], self.tensors.fours["Q"]
        K = self.tensors.K[a, a]
        one = np.eye(n)
        products = n * K + y @ y.T

        def same(tensor: Floats, weights: Floats) -> Floats:
            return np.asarray(np.einsum("abp,ab->p", tensor, weights)[:, None, None] * one)

        def wired(tensor: Floats, weights: Floats, turned: bool) -> Floats:
            form = "abp,ab,ak,bi->pik" if turned else "abp,ab,ai,bk->pik"
            return np.asarray(np.einsum(form, tensor, weights, y, y, optimize=True))

        found = same(P[a, q, a] + Q[a, q, a], z.A * K) + same(Q[a, a, q], z.A * products)
        found += wired(P[a, q, a], z.A, False) + wired(Q[a, q, a], z.A, True)
        turned = Q[q, a, a].transpose(1, 0, 2)  # Q_q21p over 1 2 p
        found += same(P[q, a, a], z.B * products) + same(Q[q, a, a] + turned, z.B * K)
        return np.asarray(found + wired(Q[q, a, a], z.B, True) + wired(turned, z.B, False))
