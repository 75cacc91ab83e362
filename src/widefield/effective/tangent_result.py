"""Statistics of the neural tangent kernel of all layers: the answer of `ntk_flow`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from ..kernels.fluctuations import SaddlePoint
from ..problem.network import MLP
from .curvature import derivatives
from .tangent_recursion import Passage, transposed
from .vertex_flow import Flow

_ENDS = ("layer", "sample_1", "sample_3", "sample_2", "sample_4")
_NAMES = {"D": "cross_shared", "A": "variance_shared", "F": "cross_paired", "B": "variance_paired"}


@dataclass(frozen=True, eq=False)
class NTKFlow(
    Flow,
    kind="flow of the tangent kernel",
    asked={"network": MLP},
    figure="widefield.effective.plots:layers_of_ntk",
):
    """A `Flow`, and beside it the NTK H_ij;ab of the neurons i, j of every layer at the inputs a, b, PDLT chapter 8.

    `data` has, beyond what a `Flow` has, over `layer` and samples or pairs of samples

        ntk              Theta, the mean at infinite width: E[H_ij;ab] = delta_ij (Theta + H^{1} / n_{l-1})
        nlo_ntk          H^{1}, exact for any inputs
        cross_shared     D, over (pair, pair_); variance_shared  A, the same
        cross_paired     F, over samples in the order 1 3 2 4; variance_paired  B, the same

    with (PDLT eqs. (8.67), (8.82)), Delta H = H - E[H],

        n E[Delta H_ij;12 Delta H_kl;34] = d_ij d_kl A_(12)(34) + d_ik d_jl B_1324 + d_il d_jk B_1423
        n E[z_i;1 z_j;2 Delta H_kl;34]   = d_ij d_kl D_1234 + d_ik d_jl F_1324 + d_il d_jk F_1423

    `<name>_error` are standard errors where averages of four were sampled, else 0. `weight_rate` is lambda_W of every
    layer.
    """

    @classmethod
    def gathered(
        cls,
        network: MLP,
        widths: Sequence[int],
        tensors: dict[str, Floats],
        point: SaddlePoint,
        rates: tuple[float, ...],
    ) -> NTKFlow:
        """Give names to arrays; rows are layers, tensors over the width of the layer below."""
        base = Flow.of(
            network,
            widths,
            tensors["kernels"],
            tensors["V"],
            tensors["shift"],
            tensors["V_error"],
            np.zeros_like(tensors["shift"]),
        )
        below, pairs = base.data["width_below"].values, base.pairs
        square, over_pairs = ("layer", "sample", "sample_"), ("layer", "pair", "pair_")
        shift = pairs.matrix(tensors["tangent_shift"])
        found: dict[str, Any] = {
            "ntk": (square, tensors["tangents"]),
            "nlo_ntk": (square, below[:, None, None] * shift),
        }
        for short, name in _NAMES.items():
            for end in ("", "_error"):
                values = tensors.pop(short + end)
                values *= below.reshape(-1, *(1,) * (values.ndim - 1))
                found[name + end] = (over_pairs if values.ndim == 3 else _ENDS, values)
        return cls(base.data.assign(found).assign_coords(weight_rate=("layer", np.array(rates))), network)

    def ntk(self, layer: int) -> Float[Floats, "p p"]:
        """Theta, the NTK at infinite width, PDLT eq. (9.5)."""
        return self._at("ntk", layer)

    def nlo_ntk(self, layer: int) -> Float[Floats, "p p"]:
        """H^{1}."""
        return self._at("nlo_ntk", layer)

    def mean_ntk(self, layer: int) -> Float[Floats, "p p"]:
        """E[H_ii] = Theta + H^{1} / n_{l-1}, PDLT eq. (9.3)."""
        return self.ntk(layer) + self.nlo_ntk(layer) / self._below(layer)

    def cross_shared(self, layer: int) -> Float[Floats, "q q"]:
        """D over pairs: n Cov(z_i;1 z_i;2, H_kk;34), i != k."""
        return self._at("cross_shared", layer)

    def cross_paired(self, layer: int) -> Float[Floats, "p p p p"]:
        """F in the order 1 3 2 4: n E[z_i;1 z_k;2 H_ik;34], i != k."""
        return self._at("cross_paired", layer)

    def variance_shared(self, layer: int) -> Float[Floats, "q q"]:
        """A over pairs: n Cov(H_ii;12, H_kk;34), i != k."""
        return self._at("variance_shared", layer)

    def variance_paired(self, layer: int) -> Float[Floats, "p p p p"]:
        """B in the order 1 3 2 4: n E[H_ik;12 H_ik;34], i != k."""
        return self._at("variance_paired", layer)

    def one_neuron(self, layer: int) -> Float[Floats, "q q"]:
        """n Cov(H_ii;12, H_ii;34) = A_(12)(34) + B_1324 + B_1423 of one neuron, over pairs."""
        B = self.variance_paired(layer)
        a, b = self.pairs.rows, self.pairs.columns
        one, two, three, four = a[:, None], b[:, None], a[None, :], b[None, :]
        return np.asarray(self.variance_shared(layer) + B[one, three, two, four] + B[one, four, two, three])

    def ntk_covariance(self, layer: int, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[Delta H_ij;12 Delta H_kl;34] of four neurons of a layer, in the order 1 2 3 4, PDLT eq. (8.82)."""
        i, j, k, m = neurons
        A, B = self.pairs.tensor(self.variance_shared(layer)), self.variance_paired(layer)
        crossed, turned = np.swapaxes(B, 1, 2), B.transpose(0, 2, 3, 1)
        parts = (i == j) * (k == m) * A + (i == k) * (j == m) * crossed + (i == m) * (j == k) * turned
        return np.asarray(parts / self._below(layer))

    def between_layers(self, lower: int, upper: int) -> Float[Floats, "2 q 2 q"]:
        """n_{lower-1} Cov(u^upper, u^lower) of u = (metric, NTK averaged over its layer's weights), upper >= lower.

        At equal layers [V D; D^T A]; through layers T^(m-1) .. T^(l) with T = [C J, 0; W, C m].
        """
        row, top = self._row(lower), self._row(upper)
        V, D, A = (self._at(name, lower) for name in ("vertex", "cross_shared", "variance_shared"))
        metric, tangent = np.concatenate([V, D], axis=1), np.concatenate([D.T, A], axis=1)
        for layer in range(row, top):
            passage = self._passage(layer)
            through = passage.response(metric) + passage.weight * passage.mean_slopes[:, None] * tangent
            metric, tangent = passage.weight * (passage.features @ metric), through
        size = len(self.pairs)
        return np.stack([metric, tangent]).reshape(2, size, 2, size)

    def joint(self, layer: int) -> Float[Floats, "q2 q2"]:
        """[V D; D^T A] of a layer over (metric, NTK): n times a covariance, so that it is positive semidefinite."""
        size = 2 * len(self.pairs)
        return transposed(self.between_layers(layer, layer).reshape(size, size))

    def _passage(self, row: int) -> Passage:
        """From layer row + 1 to the next."""
        K, s = self.kernels[row], self.network.phi
        J, slopes = (derivatives(s, K, self.pairs, order)[0] for order in (0, 1))
        C = self.network.weight_scales[row + 1] ** 2
        theta = self.pairs.of(np.asarray(self.data["ntk"].values[row]))
        rate = float(self.data["weight_rate"].values[row + 1])
        m = self.pairs.of(self._mean_slopes(row))
        return Passage(C, rate, 1 / self.widths[row], J, slopes, theta, m)

    def _mean_slopes(self, row: int) -> Float[Floats, "p p"]:
        from ..gaussian import slope_kernel

        K = self.kernels[row]
        variance = np.diagonal(K)
        return slope_kernel(self.network.phi, *np.broadcast_arrays(variance[:, None], K, variance[None, :]))

    def _at(self, name: str, layer: int) -> Floats:
        return np.asarray(self.data[name].values[self._row(layer)])

    def table(self) -> Any:
        """Means over inputs, at some layers: the NTK, what finite width adds, and the scatter of networks."""
        from ..base import tables

        headings = ("layer", "kernel", "NTK", "shift of the NTK", "scatter: shared", "of one neuron")
        made = tables.table(headings, "diagonal of the NTK: at infinite width, and what finite width does to it")
        equal, below = self.pairs.diagonal, self.data["width_below"].values
        for row in tables.rows(self.depth, 11):
            K, theta, shift = (np.mean(np.diagonal(self._at(n, row + 1))) for n in ("kernel", "ntk", "nlo_ntk"))
            shared, one = (
                np.mean(part[equal, equal]) for part in (self.variance_shared(row + 1), self.one_neuron(row + 1))
            )
            scatter = (f"{np.sqrt(part / below[row]) / theta:.2%}" for part in (shared, one))
            made.add_row(str(row + 1), f"{K:.4g}", f"{theta:.4g}", f"{shift / below[row] / theta:.2%}", *scatter)
        return made

    def lacks(self) -> str:
        """What is missing in a file."""
        names = {"ntk", "nlo_ntk", "weight_rate", *_NAMES.values(), *(f"{name}_error" for name in _NAMES.values())}
        missing = sorted(names - set(self.data.variables))
        return f"it lacks {', '.join(missing)}" if missing else super().lacks()
