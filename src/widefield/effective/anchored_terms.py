"""What the slices around one sample say about trained networks, at the end of training: everything but a projection.

As `trained_terms`, of one point x at a time: at the end its mean is S_x less M_xa S_a of the training samples, and its
variance c_x . matrix . c_x with c_x = (1, -M_x) over x and the training samples, so that a row and a column of every
matrix is all that is needed of x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from .anchored_slices import Slices, found
from .trained_terms import Entry, Forms, ddntk, dntk
from .training_paths import Descent


@dataclass(frozen=True, eq=False)
class Around:
    """Of one point x: its forms before projection, and rows and columns over points q of three matrices.

    Points are the modes of the training samples, and then x if it is not one of these samples.
    """

    forms: Forms
    scatter: Float[Floats, "q k k"]
    """Row of Xi, which is symmetric."""

    output_ntk: Float[Floats, "2 q"]
    """Row and column of Omega, of which the rows belong to the first outputs."""

    output_dntk: Float[Floats, "2 q k k"]
    """Row and column of Psi, of which the rows belong to the first outputs i, and columns to the answer k."""


@dataclass(frozen=True, eq=False)
class Anchored:
    """Slices around a point in the basis of modes, and what training makes of them."""

    slices: Slices
    H1: Float[Floats, " a"]
    """Of x with the modes."""

    K: Float[Floats, "a a"]
    """Of the modes."""

    descent: Descent
    targets: Float[Floats, "a k"]

    @property
    def modes(self) -> int:
        """Of the training samples."""
        return len(self.K)

    def entry(self, name: str, pattern: str) -> Floats:
        """Over modes a b c d, and q for all points, in this order of letters, of a pattern in which x is the anchor."""
        size = len(next(iter(self.slices.values())))
        values, axes = found(self.slices, name, tuple(pattern))  # type: ignore[arg-type]
        own = values[tuple(slice(size) if axis == "q" else slice(self.modes) for axis in axes)]
        return np.asarray(np.einsum(f"{axes}->{''.join(sorted(set(axes)))}", own))

    def around(self) -> Around:
        """All of it."""
        return Around(self._forms(), self._scatter(), self._output_ntk(), self._output_dntk())

    def _forms(self) -> Forms:
        at: Entry = self.entry
        h, n = self.descent.h, self.targets.shape[1]
        z = self.descent.projectors
        both = at("A", "xbbc") + at("B", "xbbc") + n * at("B", "xcbb")
        scattered = -np.sum(both / (h[:, None] * h), axis=0)
        linear = {"ntk": self.H1 / h, "ntk_scatter": scattered, "dntk": dntk(at, z, n)}
        one, two = ddntk(at, z)
        return Forms({k: v[None] for k, v in linear.items()}, {"first_ddntk": one[None], "second_ddntk": two[None]})

    def _scatter(self) -> Float[Floats, "q k k"]:
        at, h, y, K = self.entry, self.descent.h, self.targets, self.K
        n, w = y.shape[1], 1 / (h[:, None] * h)
        A, straight, crossed = at("A", "xbqd"), at("B", "xqbd"), at("B", "xdbq")  # over b d q
        same = np.einsum("bdq,bd->q", A + crossed, w * K) + np.einsum("bdq,bd->q", straight, w * (n * K + y @ y.T))
        wired = np.einsum("bdq,bd,bi,dk->qik", A, w, y, y, optimize=True)
        wired += np.einsum("bdq,bd,bk,di->qik", crossed, w, y, y, optimize=True)
        return np.asarray(same[:, None, None] * np.eye(n) + wired)

    def _output_ntk(self) -> Float[Floats, "2 q"]:
        at, n = self.entry, self.targets.shape[1]
        row = at("D", "xbqb") + n * at("F", "xqbb") + at("F", "xbbq")
        column = at("D", "qbxb") + n * at("F", "qxbb") + at("F", "qbbx")
        return np.asarray(-np.stack([row, column]).transpose(0, 2, 1) @ (1 / self.descent.h))

    def _output_dntk(self) -> Float[Floats, "2 q k k"]:
        """With the answer at q, and the first outputs at x, and the other way round."""
        return np.stack([self._dntk_line("q", "x"), self._dntk_line("x", "q")])

    def _dntk_line(self, q: str, p: str) -> Float[Floats, "q k k"]:
        at, y, K, z = self.entry, self.targets, self.K, self.descent.projectors
        n, one = y.shape[1], np.eye(y.shape[1])
        products = n * K + y @ y.T

        def same(tensor: Floats, weights: Floats) -> Floats:
            return np.asarray(np.einsum("abq,ab->q", tensor, weights)[:, None, None] * one)

        def wired(tensor: Floats, weights: Floats, turned: bool) -> Floats:
            form = "abq,ab,ak,bi->qik" if turned else "abq,ab,ai,bk->qik"
            return np.asarray(np.einsum(form, tensor, weights, y, y, optimize=True))

        P, Q = at("P", f"a{q}b{p}"), at("Q", f"a{q}b{p}")
        total = same(P + Q, z.A * K) + same(at("Q", f"ab{q}{p}"), z.A * products)
        total += wired(P, z.A, False) + wired(Q, z.A, True)
        straight, turned = at("Q", f"{q}ab{p}"), at("Q", f"{q}ba{p}")
        total += same(at("P", f"{q}ab{p}"), z.B * products) + same(straight + turned, z.B * K)
        return np.asarray(total + wired(straight, z.B, True) + wired(turned, z.B, False))


def rotated_slices(slices: Slices, basis: Float[Floats, "o o"]) -> Slices:
    """In another basis of samples; those with a repeated label are left out, since nothing asks for them."""
    turned = {}
    for key, values in slices.items():
        if key[1] >= 0:
            for _ in range(3):
                values = np.tensordot(values, basis, axes=([0], [0]))
            turned[key] = values
    return turned
