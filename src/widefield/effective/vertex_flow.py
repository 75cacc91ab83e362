"""The flow of preactivations through the layers of a finite network: kernel, four-point vertex and NLO metric."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.renamed import former
from ..base.result import Result
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..gaussian import slope_square
from ..gaussian.four_table import enough_points
from ..gaussian.sample_pairs import Pairs
from ..kernels.fluctuations import saddle_point
from ..problem.network import MLP, widths_of
from . import couplings
from .curvature import derivatives
from .quartic import NeuronAction, Observable, spread_over_neurons
from .sources import feature_covariances


@dataclass(frozen=True, eq=False)
class Flow(
    Result, kind="flow through the layers", asked={"network": MLP}, figure="widefield.effective.plots:layers_of_flow"
):
    """Statistics of the preactivations z^l, l = 1 .. L+1, of random networks at order 1/n.

    `data` has over `layer` (the last is that of the outputs, times gamma), `sample`, `sample_`, `pair`, `pair_`

        kernel       K^l, the metric at infinite width
        metric       E[Ghat^l] = K + G^{1} / n_{l-1}, the mean of the stochastic metric, PDLT eq. (4.70)
        nlo_metric   G^{1}l
        vertex       V^l = n_{l-1} Cov(Ghat, Ghat) over unordered pairs of samples
        width_below  n_{l-1}; 1 in the first layer, where it does not matter because V^1 = 0 and G^{1}1 = 0

    With more than two samples a part of the averages of four activations is sampled; `vertex_error` and
    `nlo_metric_error` are the standard errors that this leaves, 0 if nothing was sampled. Without the book's units,
    `covariances` are V^l / n_{l-1}, and `shifts` the entries of G^{1}l / n_{l-1} over pairs.
    """

    network: MLP

    @classmethod
    def of(
        cls,
        network: MLP,
        widths: Sequence[int],
        kernels: Float[Floats, "l p p"],
        covariances: Float[Floats, "l q q"],
        shifts: Float[Floats, "l q"],
        covariance_error: Float[Floats, "l q q"],
        shift_error: Float[Floats, "l q"],
    ) -> Flow:
        """Give names to arrays; rows are layers."""
        square, pair = ("layer", "sample", "sample_"), ("layer", "pair", "pair_")
        pairs = Pairs.within(kernels.shape[-1])
        labels = [f"{a},{b}" for a, b in zip(pairs.rows, pairs.columns, strict=True)]
        below = np.array([1, *widths], dtype=np.float64)[:, None, None]
        variables = {
            "kernel": (square, kernels),
            "metric": (square, kernels + pairs.matrix(shifts)),
            "nlo_metric": (square, below * pairs.matrix(shifts)),
            "nlo_metric_error": (square, below * pairs.matrix(shift_error)),
            "vertex": (pair, below * covariances),
            "vertex_error": (pair, below * covariance_error),
        }
        places = np.arange(1, len(kernels) + 1)
        coords = {"layer": places, "pair": labels, "pair_": labels, "width_below": ("layer", below[:, 0, 0])}
        return cls(xr.Dataset(variables, coords), network)

    @property
    def widths(self) -> tuple[int, ...]:
        """n_1 .. n_L."""
        return tuple(int(n) for n in self.data["width_below"].values[1:])

    @cached_property
    def pairs(self) -> Pairs:
        """Unordered pairs of samples, in the order of `pair`."""
        return Pairs.within(self.data.sizes["sample"])

    @property
    def kernels(self) -> Float[Floats, "l p p"]:
        """K of all layers."""
        return np.asarray(self.data["kernel"].values)

    @cached_property
    def covariances(self) -> Float[Floats, "l q q"]:
        """Cov(Ghat, Ghat) of all layers, over unordered pairs."""
        return self._per_width("vertex")

    @cached_property
    def shifts(self) -> Float[Floats, "l q"]:
        """E[Ghat] - K of all layers."""
        return self.pairs.of(self._per_width("nlo_metric"))

    @cached_property
    def covariance_error(self) -> Float[Floats, "l q q"]:
        """Standard errors of `covariances`."""
        return self._per_width("vertex_error")

    @cached_property
    def shift_error(self) -> Float[Floats, "l q"]:
        """Standard errors of `shifts`."""
        return self.pairs.of(self._per_width("nlo_metric_error"))

    def _per_width(self, name: str) -> Float[Floats, "l a b"]:
        return np.asarray(self.data[name].values / self.data["width_below"].values[:, None, None])

    @property
    def depth(self) -> int:
        """Number of layers of preactivations, outputs included."""
        return len(self.kernels)

    @property
    def relative_error(self) -> float:
        """Largest over layers of the rms error of the covariance relative to its rms."""
        errors, sizes = (np.sqrt(np.mean(part**2, axis=(1, 2))) for part in (self.covariance_error, self.covariances))
        return float(np.max(errors / np.where(sizes > 0, sizes, 1.0)))

    covariance_errors = former("Flow", "covariance_errors", "covariance_error")
    shift_errors = former("Flow", "shift_errors", "shift_error")
    layers = former("Flow", "layers", "depth")
    accuracy = former("Flow", "accuracy", "relative_error")

    def kernel(self, layer: int) -> Float[Floats, "p p"]:
        """K^l, the metric at infinite width."""
        return np.asarray(self.kernels[self._row(layer)])

    def metric(self, layer: int) -> Float[Floats, "p p"]:
        """E[Ghat] = E[z_ia z_ib] = K + G^{1} / n_{l-1}, PDLT eq. (4.104)."""
        return self.kernel(layer) + self.pairs.matrix(self.shifts[self._row(layer)])

    def vertex(self, layer: int) -> Float[Floats, "q q"]:
        """V^l over unordered pairs."""
        return np.asarray(self._below(layer) * self.covariances[self._row(layer)])

    def nlo_metric(self, layer: int) -> Float[Floats, "p p"]:
        """G^{1}l."""
        return self._below(layer) * self.pairs.matrix(self.shifts[self._row(layer)])

    def metric_covariance(self, layer: int) -> Float[Floats, "p p p p"]:
        """Cov(Ghat_ab, Ghat_cd) = V_(ab)(cd) / n_{l-1} with sample indices, PDLT eq. (4.76)."""
        rows = self.pairs.matrix(self.covariances[self._row(layer)])
        return self.pairs.matrix(np.moveaxis(rows, 0, -1))

    def four_point(self, layer: int) -> Float[Floats, "p p p p"]:
        """V_(ab)(cd) with sample indices."""
        return self._below(layer) * self.metric_covariance(layer)

    def connected(self, layer: int, neurons: tuple[int, int, int, int]) -> Float[Floats, "p p p p"]:
        """E[z_1 z_2 z_3 z_4]_c of four neurons of a layer, for all samples, PDLT eqs. (4.77), (4.117)."""
        return spread_over_neurons(self.metric_covariance(layer), neurons)

    def action(self, layer: int, neurons: int, samples: Sequence[int] | None = None) -> NeuronAction:
        """The quartic action of some neurons at some samples (None: all), PDLT eqs. (4.80)-(4.82), (4.108)."""
        chosen = self._samples(samples)
        two, four = np.ix_(chosen, chosen), np.ix_(chosen, chosen, chosen, chosen)
        K = self.kernel(layer)
        return couplings.action(K[two], (self.metric(layer) - K)[two], self.metric_covariance(layer)[four], neurons)

    def observable_covariance(
        self, layer: int, F: Observable, H: Observable, *, samples: Sequence[int] | None = None, nodes: int = 48
    ) -> float:
        """Cov[F(z_i), H(z_j)] of two different neurons of a layer at leading order, PDLT eq. (4.64).

        F and H take arrays (points, samples); `samples` says which they are.
        """
        chosen = self._samples(samples)
        K, V = self.kernel(layer)[np.ix_(chosen, chosen)], self.metric_covariance(layer)
        part = V[np.ix_(chosen, chosen, chosen, chosen)]
        return NeuronAction(K, couplings.raised(part, K), 1).covariance(F, H, nodes=nodes)

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        sizes = (
            f"width {self.widths[0]}" if len(set(self.widths)) == 1 else f"widths {', '.join(map(str, self.widths))}"
        )
        samples = self.data.sizes["sample"]
        return f"{self.network.activation}, {self.depth} layers, {sizes}, {samples} input{'s' if samples > 1 else ''}"

    def table(self) -> Any:
        """Means over inputs, at some layers: kernel, what finite width adds, and the scatter of networks."""
        from ..base import tables

        headings = ("layer", "kernel", "shift of the mean", "scatter over networks")
        made = tables.table(headings, "mean square preactivation: at infinite width, and what finite width does to it")
        equal = self.pairs.diagonal
        kernel = np.mean(self.pairs.of(self.kernels)[:, equal], axis=1)
        shift = np.mean(self.shifts[:, equal], axis=1)
        scatter = np.sqrt(np.mean(self.covariances[:, equal, equal], axis=1))
        for row in tables.rows(self.depth, 11):
            relative = (f"{part[row] / kernel[row]:.2%}" for part in (shift, scatter))
            made.add_row(str(row + 1), f"{kernel[row]:.4g}", *relative)
        return made

    def lacks(self) -> str:
        """What is missing in a file."""
        names = {"kernel", "metric", "nlo_metric", "nlo_metric_error", "vertex", "vertex_error", "width_below"}
        missing = sorted(names - set(self.data.variables))
        return f"it lacks {', '.join(missing)}" if missing else ""

    def dataset(self) -> xr.Dataset:
        """`data`, with the second indices called `other_sample`, `other_pair`: use `data`."""
        warnings.warn("Flow.dataset() is now Flow.data, with sample_, pair_", DeprecationWarning, stacklevel=2)
        return self.data.rename({"sample_": "other_sample", "pair_": "other_pair"})

    def _row(self, layer: int) -> int:
        return check.integer("layer", layer, least=1, most=self.depth) - 1

    def _below(self, layer: int) -> int:
        """n_{l-1}; 1 in the first layer, where it multiplies zeros."""
        row = self._row(layer)
        return self.widths[row - 1] if row else 1

    def _samples(self, samples: Sequence[int] | None) -> list[int]:
        count = self.data.sizes["sample"]
        return list(range(count)) if samples is None else [check.integer("sample", a, most=count - 1) for a in samples]


def flow(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    points: int | None = None,
    replicas: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> Flow:
    """Kernel, four-point vertex and NLO metric of all layers for the inputs x, one row each.

    With vhat = V / n_{l-1}, ghat = G^{1} / n_{l-1}, J = d<s s>/dK over unordered pairs and H its second derivatives,

        K'    = C_b + C_W <s s>_K                                        PDLT eq. (4.118)
        vhat' = C_W^2 (Cov(s s, s s) / n_l + J vhat J^T)                 PDLT eq. (4.119)
        ghat' = C_W (J ghat + H vhat / 2)                                PDLT eq. (4.115)

    where primes are the layer above; J has three entries in each row and H six, so that a layer with q pairs costs
    O(q^2) beyond the average of four activations. That is integrated for one or two inputs; for more, most of it is
    summed exactly (`chaos`) and the rest is sampled.

    >>> found = flow(MLP(2, "relu", weight_variances=2.0), [[1.0]], 10)
    >>> round(found.kernel(3).item(), 9), round(found.vertex(3).item(), 9), round(found.covariances[2].item(), 9)
    (2.0, 40.0, 4.0)

    Args:
        network: activation, depth and variances; richness and parameterisation do not matter here.
        x: inputs, (samples, dimension).
        widths: n_1 .. n_L, or one number for all (times `network.width_ratios`).
        points: for the sampled part of averages of four activations; None is 2^13 for three inputs, falling to 2^9 for
            more than ten. As many are in each of
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first replica.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    replicas = check.integer("replicas", replicas, least=2)
    refuse_jumps(network)
    point, pairs = saddle_point(network, inputs), Pairs.within(len(inputs))
    layers, size = network.hidden_layers + 1, len(pairs)
    points = enough_points(size) if points is None else check.integer("points", points, least=2)
    check.memory("vertices of all layers", 8 * size**2 * (4 * layers + 6 * replicas), "use fewer samples or layers")
    variances, biases = point.weight_variances, [scale**2 for scale in network.bias_scales]
    last = variances[-1] * point.feature_kernel[-1] + biases[-1]
    covariances, errors = np.zeros((2, layers, size, size))
    shifts, shift_error = np.zeros((2, layers, size))
    sources = feature_covariances(point.activation, point.preactivation, pairs, points, range(seed, seed + replicas))
    covariance: Floats = np.zeros((1, size, size))
    shift: Floats = np.zeros((1, size))
    with counting_bar("flow", "layers", progress) as report:
        for layer, (K, source) in enumerate(zip(point.preactivation, sources, strict=True)):
            below = derivatives(network.phi, K, pairs) if layer else None  # the first layer does not fluctuate
            C_W, source = variances[layer + 1], source / sizes[layer]
            if below is None:
                covariance, shift = C_W**2 * source, np.zeros(source.shape[:-1])
            else:
                shift = C_W * metric_step(*below, covariance, shift)
                covariance = vertex_step(below[0], source, covariance, C_W)
            covariances[layer + 1], errors[layer + 1] = mean_and_error(covariance, alone=0.0)
            shifts[layer + 1], shift_error[layer + 1] = mean_and_error(shift, alone=0.0)
            report(layer + 1, layers - 1)
    kernels = np.concatenate([point.preactivation, last[None]])
    return Flow.of(network, sizes, kernels, covariances, shifts, errors, shift_error)


def refuse_jumps(network: MLP) -> None:
    """Raise if the activation jumps."""
    if not np.isfinite(slope_square(network.phi, 1.0)):
        raise InvalidInput(f"activation {network.activation!r} jumps: its kernels have no derivatives")


class Linear(Protocol):
    """Derivatives of averages of a layer in the covariance, as a matrix over pairs: `Slopes`, or several at once."""

    def __matmul__(self, kernels: Any) -> Any: ...

    def carried(self, covariance: Any) -> Any:
        """J V J^T."""


class Quadratic(Protocol):
    """Second derivatives: `Curvature`, or several at once."""

    def contracted(self, covariance: Any) -> Any:
        """sum_qr H_pqr V_qr."""


def vertex_step(slopes: Linear, source: Floats, covariance: Floats, weight: float) -> Floats:
    """C_W^2 (source + J vhat J^T)."""
    return np.asarray(weight**2 * (source + slopes.carried(covariance)))


def metric_step(slopes: Linear, bends: Quadratic, covariance: Floats, shift: Floats) -> Floats:
    """J ghat + H vhat / 2: what the mean of f f gains from the mean and the covariance of the metric."""
    return np.asarray((slopes @ shift[..., None])[..., 0] + 0.5 * bends.contracted(covariance))
