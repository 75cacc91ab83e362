"""Predicted correlators against random networks of finite width, with error bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check as checks
from ..base import tables
from ..base.arrays import Floats
from ..base.session import counting_bar
from ..gaussian.sample_pairs import Pairs
from ..problem.network import MLP, widths_of
from . import sampler
from .vertex_flow import Flow, flow

_OUTPUTS = 32
"""Outputs whose pairs give `four_point`: the noise falls like their number until that of the metric is left."""

_AT_ONCE = 2**20
"""Products over pairs of pairs of samples that are held at once."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """One kind of correlator: predictions, measurements at finite width and what is expected to lie between them.

    `measured` are numbers at the widths asked for, with standard errors `error`. Their difference from the prediction
    has a part of higher order in 1/n, which `bias` estimates from networks of twice the width; `limit` is measured -
    bias, with the standard error `limit_error` (which includes that of the prediction).
    """

    name: str
    predicted: Floats
    measured: Floats
    error: Floats
    bias: Floats
    limit_error: Floats

    @property
    def difference(self) -> Floats:
        """Measured at this width, minus predicted."""
        return self.measured - self.predicted

    @property
    def limit(self) -> Floats:
        """Measured, without the bias."""
        return self.measured - self.bias

    @property
    def z(self) -> Floats:
        """(limit - predicted) / standard error; 0 where neither has any scatter and both agree."""
        gap = self.limit - self.predicted
        exact = np.abs(gap) <= 1e-9 * np.maximum(np.abs(self.predicted), np.abs(self.measured))
        safe = np.where(self.limit_error > 0, self.limit_error, 1.0)
        sure = np.where(self.limit_error > 0, gap / safe, np.copysign(np.inf, gap))
        return np.where(exact, 0.0, sure)

    @property
    def worst(self) -> float:
        """Largest |z|."""
        return float(np.abs(self.z).max())

    @property
    def resolution(self) -> float:
        """Smallest standard error relative to the prediction: inf if nothing is predicted but zeros."""
        size = np.abs(self.predicted)
        seen = size > 1e-9 * np.abs(self.measured)
        return float((self.limit_error[seen] / size[seen]).min()) if seen.any() else math.inf


@dataclass(frozen=True, eq=False)
class Check:
    """Theory against networks: `metric`, `vertex`, `nlo_metric` of the layers 2 .. L+1 and `four_point` of the outputs.

    metric is E[Ghat] over pairs, vertex n_{l-1} Cov(Ghat, Ghat), nlo_metric n_{l-1} (E[Ghat] - K) and four_point
    Cov(z_ia z_ib, z_jc z_jd) of two outputs i != j, which is E[z z z z]_c of PDLT eq. (4.77) there.
    """

    flow: Flow
    draws: int
    threshold: float
    explicit: bool
    comparisons: tuple[Comparison, ...]

    def __getitem__(self, name: str) -> Comparison:
        """The comparison of this name."""
        checks.choice("comparison", name, [c.name for c in self.comparisons])
        return next(c for c in self.comparisons if c.name == name)

    @property
    def agrees(self) -> bool:
        """Whether every number is within `threshold` standard errors."""
        return all(comparison.worst <= self.threshold for comparison in self.comparisons)

    @property
    def verdict(self) -> str:
        """In words: agreement, and how small a difference would have spoiled it."""
        total, worst = sum(c.z.size for c in self.comparisons), max(self.comparisons, key=lambda c: c.worst)
        if not self.agrees:
            apart = sum(int((np.abs(c.z) > self.threshold).sum()) for c in self.comparisons)
            return (
                f"DIFFERS: {apart} of {total} numbers are more than {self.threshold:g} standard errors from the "
                f"networks, the worst, of {worst.name}, {worst.worst:.1f}."
            )
        return (
            f"agrees: all {total} numbers are within {self.threshold:g} standard errors of the networks, the worst, "
            f"of {worst.name}, {worst.worst:.1f}. A vertex off by {self.threshold * self['vertex'].resolution:.1%} "
            "would have been noticed."
        )

    def dataset(self) -> xr.Dataset:
        """A table. For every kind the largest |z|, the largest difference and bias relative to the largest prediction,
        and the smallest change of all predictions by the same factor that would have been `noticed`.
        """
        rows = []
        for c in self.comparisons:
            size = max(float(np.abs(c.predicted).max()), float(np.finfo(np.float64).tiny))
            off, bias = (float(np.abs(part).max()) / size for part in (c.difference, c.bias))
            rows.append((c.z.size, c.worst, off, bias, self.threshold * c.resolution))
        names = ("numbers", "largest_z", "relative_difference", "relative_bias", "noticed")
        columns = {name: ("correlator", [row[k] for row in rows]) for k, name in enumerate(names)}
        return xr.Dataset(columns, coords={"correlator": [c.name for c in self.comparisons]})

    def table(self) -> Any:
        """`dataset`, for a terminal."""
        headings = ("correlator", "numbers", "largest |z|", "off at this width", "of higher order", "would notice")
        table = tables.table(headings, words=1)
        for name, row in self.dataset().to_dataframe().iterrows():
            parts = (_percent(row[key]) for key in ("relative_difference", "relative_bias", "noticed"))
            table.add_row(str(name), f"{row['numbers']:.0f}", f"{row['largest_z']:.2f}", *parts)
        return table

    def __str__(self) -> str:
        network, widths = self.flow.network, self.flow.widths
        sizes = f"width {widths[0]}" if len(set(widths)) == 1 else f"widths {', '.join(map(str, widths))}"
        samples = len(self.flow.kernels[0])
        what = "drawn with all their weights" if self.explicit else "drawn by their metrics"
        title = (
            f"{network.activation}, {self.flow.layers} layers, {sizes}, {samples} input{'s' if samples > 1 else ''}: "
            f"{self.draws} networks {what}, and as many of twice the width."
        )
        return tables.as_text(title, self.table(), self.verdict)


def _percent(fraction: float) -> str:
    """A dash where nothing is predicted that anything could be relative to."""
    return f"{fraction:.2%}" if fraction < 100 else "-"


def check(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    draws: int = 20000,
    seed: int,
    explicit: bool = False,
    threshold: float = 4.0,
    points: int = 2**13,
    progress: bool | None = None,
) -> Check:
    """Draw networks of these widths and of twice these, and compare everything that `flow` predicts.

    A correlator Q(n) = Q + b/n + .. in units in which the prediction Q does not depend on n has b/n = 2 [Q(n) - Q(2n)]
    up to the next order, so that Q is compared with 2 Q(2n) - Q(n).

    Args:
        network: see `flow`.
        x: inputs.
        widths: of the hidden layers.
        draws: networks of each width.
        seed: of the networks.
        explicit: draw all weights and biases, not only metrics (about n/4 times slower).
        threshold: of `agrees`, in standard errors.
        points: Sobol points of the prediction.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    sizes = widths_of(network, widths)
    draws, seed = checks.integer("draws", draws, least=100), checks.integer("seed", seed)
    threshold, explicit = checks.number("threshold", threshold, above=0.0), checks.flag("explicit", explicit)
    theory = flow(network, x, sizes, points=points)
    measured = []
    with counting_bar("networks against theory", "networks", progress) as bar:
        for k, n in enumerate((sizes, tuple(2 * n for n in sizes))):
            report = partial(_report, bar, k * draws, 2 * draws)
            measured.append(_Measured.of(_draw(network, x, n, draws, 2 * seed + k, explicit, report), theory, n))
    return Check(theory, draws, threshold, explicit, tuple(_compared(name, theory, *measured) for name in _NAMES))


def _report(bar: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    bar(before + done, total)


def _draw(
    network: MLP, x: ArrayLike, sizes: tuple[int, ...], draws: int, seed: int, explicit: bool, report: sampler.Report
) -> sampler.Networks:
    """Networks with _OUTPUTS outputs, with or without weights."""
    if explicit:
        return sampler.networks(network, x, sizes, draws=draws, seed=seed, neurons=_OUTPUTS, report=report)
    metrics = sampler.metrics(network, x, sizes, draws=draws, seed=seed, report=report)
    outputs = sampler.preactivations(metrics[:, -1], _OUTPUTS, seed=2**32 + seed)
    return sampler.Networks(metrics, outputs)


_NAMES = ("metric", "vertex", "nlo_metric", "four_point")


@dataclass(frozen=True, eq=False)
class _Measured:
    """Values and standard errors of all correlators at one set of widths; `below` are n_1 .. n_L."""

    below: Floats
    values: dict[str, Floats]
    errors: dict[str, Floats]

    @classmethod
    def of(cls, networks: sampler.Networks, theory: Flow, sizes: tuple[int, ...]) -> _Measured:
        pairs, below = theory.pairs, np.array(sizes, dtype=np.float64)
        entries = pairs.of(networks.metrics[:, 1:])
        mean, mean_error = entries.mean(axis=0), entries.std(axis=0, ddof=1) / math.sqrt(len(entries))
        spread = [_covariance(entries[:, layer]) for layer in range(len(sizes))]
        vertex, vertex_error = (below[:, None, None] * np.stack(part) for part in zip(*spread, strict=True))
        four, four_error = _between_neurons(networks.outputs, pairs)
        kernels = pairs.of(theory.kernels[1:])
        values = {"metric": mean, "vertex": vertex, "nlo_metric": below[:, None] * (mean - kernels), "four_point": four}
        errors = {
            "metric": mean_error,
            "vertex": vertex_error,
            "nlo_metric": below[:, None] * mean_error,
            "four_point": four_error,
        }
        return cls(below, values, errors)


def _compared(name: str, theory: Flow, narrow: _Measured, wide: _Measured) -> Comparison:
    """Differences from the prediction are of the order b/n of the units in which predictions do not depend on n."""
    below, pairs = narrow.below, theory.pairs
    predictions = {
        "metric": (pairs.of(theory.kernels[1:]) + theory.shifts[1:], theory.shift_errors[1:]),
        "vertex": tuple(below[:, None, None] * part[1:] for part in (theory.covariances, theory.covariance_errors)),
        "nlo_metric": tuple(below[:, None] * part[1:] for part in (theory.shifts, theory.shift_errors)),
        "four_point": (theory.covariances[-1], theory.covariance_errors[-1]),
    }
    predicted, uncertain = predictions[name]
    one, two = narrow.values[name], wide.values[name]
    error, other = narrow.errors[name], wide.errors[name]
    if name == "metric":  # K + G1/n + O(1/n^2): with G1 known, 4 (m(2n) - K - G1/2n) - (m(n) - K - G1/n) is O(1/n^3)
        half = predicted - theory.shifts[1:] / 2
        bias = (one - predicted) - (4 * (two - half) - (one - predicted)) / 3
        combined = np.sqrt((error / 3) ** 2 + (4 * other / 3) ** 2 + uncertain**2)
        return Comparison(name, predicted, one, error, bias, combined)
    scale = 2.0 if name == "four_point" else 1.0  # proportional to 1/n itself
    bias = 2 * (one - scale * two)
    combined = np.sqrt(error**2 + (2 * scale * other) ** 2 + uncertain**2)
    return Comparison(name, predicted, one, error, bias, combined)


def _covariance(values: Float[Floats, "n q"]) -> tuple[Floats, Floats]:
    """Cov over rows, and its standard error from the scatter of the products."""
    count = len(values)
    centred = values - values.mean(axis=0)
    covariance = centred.T @ centred / (count - 1)
    square = np.square(centred).T @ np.square(centred) / count
    return covariance, np.sqrt(np.maximum(square - covariance**2, 0.0) / count)


def _between_neurons(z: Float[Floats, "n m p"], pairs: Pairs) -> tuple[Floats, Floats]:
    """Cov(z_ia z_ib, z_jc z_jd) over networks, averaged over all pairs of neurons i != j, and its standard error.

    With y = z_a z_b - E[z_a z_b] it is E[sum_i y_i sum_j y_j' - sum_i y_i y_i'] / (m (m - 1)).
    """
    count, neurons, size = len(z), z.shape[1], len(pairs)
    mean = pairs.of(np.einsum("nma,nmb->ab", z, z, optimize=True) / (count * neurons))
    total, square = np.zeros((2, size, size))
    step = max(1, _AT_ONCE // (size * (size + neurons)))
    for part in (z[start : start + step] for start in range(0, count, step)):
        y = part[:, :, pairs.rows] * part[:, :, pairs.columns] - mean
        sums = y.sum(axis=1)
        found = (sums[:, :, None] * sums[:, None, :] - y.swapaxes(1, 2) @ y) / (neurons * (neurons - 1))
        total, square = total + found.sum(axis=0), square + np.square(found).sum(axis=0)
    covariance = total / count
    return covariance, np.sqrt(np.maximum(square / count - covariance**2, 0.0) / count)
