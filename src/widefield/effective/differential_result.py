"""Differentials of the tangent kernel of all layers: the answer of `differential_flow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from ..problem.network import MLP
from .tangent_result import NTKFlow

ORDERS = {"P": "0123", "Q": "0123", "R": "0123", "S": "1234", "T": "1342", "U": "1423"}
"""Samples of the axes."""


@dataclass(frozen=True, eq=False)
class DifferentialFlow(
    NTKFlow,
    kind="flow of differentials",
    asked={"network": MLP},
    figure="widefield.effective.plots:layers_of_differentials",
):
    """An `NTKFlow`, and beside it how the NTK H answers training, PDLT eqs. (11.8), (inf.5), (inf.7).

    Of one network, with mu over all parameters and lambda their rates,

        dH_ijk;012    = sum lam lam (d2 z_i;0 / d mu d nu) (dz_j;1 / d mu) (dz_k;2 / d nu)
        ddI_ijkl;0123 = sum lam lam lam (d3 z_i;0) (dz_j;1) (dz_k;2) (dz_l;3)
        ddII_ijkl;1234 = sum lam lam lam (d2 z_i;1 / d mu d rho) (d2 z_j;2 / d nu d rho) (dz_k;3 / d mu) (dz_l;4 / d nu)

    and over networks, at leading order in 1/n, n the width of the layer below (PDLT eqs. (11.45), (inf.11), (inf.12)),

        n E[dH_ijk;012 z_m;3] = d_im d_jk P_0123 + d_ij d_km Q_0123 + d_ik d_jm Q_0213
        n E[ddI_ijkl;0123]    = d_ij d_kl R_0123 + d_ik d_lj R_0231 + d_il d_jk R_0312
        n E[ddII_ijkl;1234]   = d_ij d_kl S_1234 + d_ik d_lj T_1342 + d_il d_jk U_1423

    `data` has P, Q over the samples 0 1 2 3, R the same, S, T, U in the orders 1 2 3 4, 1 3 4 2, 1 4 2 3; `P_error` ..
    are standard errors where averages of four were sampled, else 0. With a kink there are only P and Q.
    """

    def tensor(self, name: str, layer: int) -> Float[Floats, "p p p p"]:
        """P, Q, R, S, T or U of a layer, with samples in the order above."""
        return self._at(check.choice("name", name, self.names), layer)

    @property
    def names(self) -> list[str]:
        """Those that there are."""
        return [name for name in ORDERS if name in self.data]

    def dntk_correlation(self, layer: int, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[dH_ijk;012 z_m;3] of four neurons i j k m of a layer, over the samples 0 1 2 3."""
        i, j, k, m = neurons
        P, Q = (self.tensor(name, layer) for name in "PQ")
        total = (i == m) * (j == k) * P + (i == j) * (k == m) * Q + (i == k) * (j == m) * np.swapaxes(Q, 1, 2)
        return np.asarray(total / self._below(layer))

    def first_ddntk(self, layer: int, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[ddI_ijkl;0123] of four neurons of a layer."""
        i, j, k, m = neurons
        R = self.tensor("R", layer)
        cyclic = R.transpose(0, 3, 1, 2), R.transpose(0, 2, 3, 1)  # R_0231 and R_0312 over 0 1 2 3
        total = (i == j) * (k == m) * R + (i == k) * (m == j) * cyclic[0] + (i == m) * (j == k) * cyclic[1]
        return np.asarray(total / self._below(layer))

    def second_ddntk(self, layer: int, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[ddII_ijkl;1234] of four neurons of a layer."""
        i, j, k, m = neurons
        S, T, U = (self.tensor(name, layer) for name in "STU")
        parts = (i == j) * (k == m) * S, (i == k) * (m == j) * T.transpose(0, 3, 1, 2)
        return np.asarray((sum(parts) + (i == m) * (j == k) * U.transpose(0, 2, 3, 1)) / self._below(layer))

    def ratios(self, layer: int) -> dict[str, float]:
        """P, Q / (n H^2) and R .. U K / (n H^3) on the diagonal, means over inputs: they grow like depth / width."""
        own = (np.arange(self.data.sizes["sample"]),) * 4
        H, K = np.diagonal(self.ntk(layer)), np.diagonal(self.kernel(layer))
        scales = {name: 1 / H**2 if name in "PQ" else K / H**3 for name in self.names}
        below = self._below(layer)
        return {name: float(np.mean(self.tensor(name, layer)[own] * scale)) / below for name, scale in scales.items()}

    def table(self) -> Any:
        """Means over inputs at some layers, see `ratios`."""
        from ..base import tables

        headings = ("layer", "NTK", *(f"{name} / n H^{2 if name in 'PQ' else 3}" for name in self.names))
        made = tables.table(headings, "on the diagonal: how much the NTK moves in a step, P, Q; R .. U times K")
        for row in tables.rows(self.depth, 11):
            H = np.mean(np.diagonal(self.ntk(row + 1)))
            made.add_row(str(row + 1), f"{H:.4g}", *(f"{ratio:.2%}" for ratio in self.ratios(row + 1).values()))
        return made

    def lacks(self) -> str:
        """What is missing in a file."""
        missing = sorted({"P", "Q", "P_error", "Q_error"} - set(self.data.variables))
        return f"it lacks {', '.join(missing)}" if missing else super().lacks()
