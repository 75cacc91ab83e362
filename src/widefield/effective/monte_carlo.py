"""Predicted correlators against random networks of finite width, with error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from .. import check as checks
from ..kernels.sample_pairs import Pairs
from ..network import MLP
from ..precision import double_precision
from . import sampler
from .flow import Flow, flow

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, eq=False)
class Check:
    """Theory against networks: `metric`, `vertex`, `nlo_metric` of the layers 2 .. L+1 and `four_point` of the outputs.

    metric is E[Ghat] over pairs, vertex n_{l-1} Cov(Ghat, Ghat), nlo_metric n_{l-1} (E[Ghat] - K) and four_point
    Cov(z_ia z_ib, z_jc z_jd) of two outputs i != j, which is E[z z z z]_c of PDLT eq. (4.77) there.
    """

    flow: Flow
    draws: int
    threshold: float
    comparisons: tuple[Comparison, ...]

    def __getitem__(self, name: str) -> Comparison:
        """The comparison of this name."""
        checks.choice("comparison", name, [c.name for c in self.comparisons])
        return next(c for c in self.comparisons if c.name == name)

    @property
    def agrees(self) -> bool:
        """Whether every number is within `threshold` standard errors."""
        return all(comparison.worst <= self.threshold for comparison in self.comparisons)

    def dataset(self) -> xr.Dataset:
        """A table: for every kind the largest |z|, and the largest difference and bias relative to the prediction."""
        rows = []
        for c in self.comparisons:
            size = max(float(np.abs(c.predicted).max()), float(np.finfo(np.float64).tiny))
            rows.append((c.worst, float(np.abs(c.difference).max()) / size, float(np.abs(c.bias).max()) / size))
        names = ("largest_z", "relative_difference", "relative_bias")
        columns = {name: ("correlator", [row[k] for row in rows]) for k, name in enumerate(names)}
        return xr.Dataset(columns, coords={"correlator": [c.name for c in self.comparisons]})

    def __str__(self) -> str:
        lines = [f"{c.name}: largest |z| {c.worst:.2f}" for c in self.comparisons]
        verdict = "agrees" if self.agrees else "DIFFERS"
        return f"{verdict} ({self.draws} networks, threshold {self.threshold:g}); " + ", ".join(lines)


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
        explicit: take the outputs of `four_point` from networks with weights, not from the fast sampler.
        threshold: of `agrees`, in standard errors.
        points: Sobol points of the prediction.
    """
    sizes = sampler.widths_of(network, widths)
    checks.integer("draws", draws, least=100)
    checks.number("threshold", threshold, above=0.0)
    theory = flow(network, x, sizes, points=points)
    doubled = tuple(2 * n for n in sizes)
    drawn = [_Measured.of(network, x, n, draws, 2 * seed + k, explicit, theory) for k, n in enumerate((sizes, doubled))]
    return Check(theory, draws, threshold, tuple(_compared(name, theory, *drawn) for name in _NAMES))


_NAMES = ("metric", "vertex", "nlo_metric", "four_point")


@dataclass(frozen=True, eq=False)
class _Measured:
    """Values and standard errors of all correlators at one set of widths; `below` are n_1 .. n_L."""

    below: Floats
    values: dict[str, Floats]
    errors: dict[str, Floats]

    @classmethod
    def of(
        cls, network: MLP, x: ArrayLike, sizes: tuple[int, ...], draws: int, seed: int, explicit: bool, theory: Flow
    ) -> _Measured:
        metrics = sampler.metrics(network, x, sizes, draws=draws, seed=seed)
        pairs, below = theory.pairs, np.array(sizes, dtype=np.float64)
        entries = pairs.of(metrics[:, 1:])
        mean, mean_error = entries.mean(axis=0), entries.std(axis=0, ddof=1) / math.sqrt(draws)
        spread = [_covariance(entries[:, layer], entries[:, layer]) for layer in range(len(sizes))]
        vertex, vertex_error = (below[:, None, None] * np.stack(part) for part in zip(*spread, strict=True))
        z = sampler.outputs(network, x, sizes, draws=draws, seed=seed) if explicit else _last(metrics[:, -1], seed)
        four, four_error = _covariance(*(_products(z[:, neuron], pairs) for neuron in (0, 1)))
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


def _covariance(left: Float[Floats, "n q"], right: Float[Floats, "n q"]) -> tuple[Floats, Floats]:
    """Cov over rows, and its standard error from the scatter of the products."""
    count = len(left)
    left, right = left - left.mean(axis=0), right - right.mean(axis=0)
    covariance = left.T @ right / (count - 1)
    square = np.square(left).T @ np.square(right) / count
    return covariance, np.sqrt(np.maximum(square - covariance**2, 0.0) / count)


def _products(z: Float[Floats, "n p"], pairs: Pairs) -> Float[Floats, "n q"]:
    return np.asarray(z[:, pairs.rows] * z[:, pairs.columns])


def _last(metric: Float[Floats, "n p p"], seed: int) -> Float[Floats, "n 2 p"]:
    """Two outputs of every network."""
    with double_precision():
        key = jax.random.fold_in(jax.random.key(seed), 2**31 - 1)
        z = _two(key, jax.numpy.asarray(metric))
        return np.asarray(z).swapaxes(1, 2)


@jax.jit
def _two(key: PRNGKeyArray, metric: Float[Array, "n p p"]) -> Float[Array, "n p 2"]:
    return sampler.preactivations(key, metric, 2)
