"""Correlators of the neural tangent kernel against random networks of finite width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..base.arrays import Floats
from ..base.session import counting_bar
from ..base.statistics import covariance_and_error, mean_and_error
from ..problem.network import MLP
from .agreement import Correlator, Measured
from .tangent_flow import ntk_flow
from .tangent_result import NTKFlow
from .tangent_sampler import TangentNetworks, tangent_networks


class Asked(NamedTuple):
    """What `check` was asked."""

    network: MLP
    x: ArrayLike
    widths: tuple[int, ...]
    weight_rates: float | tuple[float, ...]
    bias_rates: float | tuple[float, ...] | None
    seeds: int
    seed: int
    points: int


def ntk_correlators(asked: Asked, progress: bool | None) -> tuple[NTKFlow, list[Correlator]]:
    """Of networks of these widths and of twice these."""
    rates = {"weight_rates": asked.weight_rates, "bias_rates": asked.bias_rates}
    theory = ntk_flow(asked.network, asked.x, asked.widths, points=asked.points, **rates)  # type: ignore[arg-type]
    measured = []
    with counting_bar("networks against theory", "networks", progress) as bar:
        for k in range(2):
            sizes = tuple((k + 1) * n for n in asked.widths)

            def report(done: int, before: int = k * asked.seeds) -> None:
                bar(before + done, 2 * asked.seeds)

            drawn = tangent_networks(
                asked.network,
                asked.x,
                sizes,
                seeds=asked.seeds,
                seed=2 * asked.seed + k,
                report=report,
                **rates,  # type: ignore[arg-type]
            )
            measured.append(_measured(drawn, theory, np.array(sizes, dtype=np.float64)))
    return theory, _compared(theory, *measured)


def _measured(networks: TangentNetworks, theory: NTKFlow, below: Floats) -> dict[str, Measured]:
    """Values and standard errors of all correlators, in units in which predictions do not depend on the width."""
    pairs, wide = theory.pairs, below[:, None, None]
    G, X = pairs.of(networks.metrics), pairs.of(networks.tangents)
    layers = range(len(below))

    def spread(one: Floats, other: Floats) -> Measured:
        found = [covariance_and_error(one[:, layer], other[:, layer]) for layer in layers]
        value, error = (wide * np.stack(part) for part in zip(*found, strict=True))
        return value, error

    def shifted(mean: Measured, limit: Floats) -> Measured:
        return below[:, None] * (mean[0] - pairs.of(limit[1:])), below[:, None] * mean[1]

    def neighbours() -> Measured:
        both = np.stack([G, X], axis=2)
        flat = both.reshape(len(both), len(below), -1)
        found = [covariance_and_error(flat[:, k + 1], flat[:, k]) for k in range(len(below) - 1)]
        shape = (len(found), 2, G.shape[-1], 2, G.shape[-1])
        value, error = (np.reshape([part[side] for part in found], shape) for side in (0, 1))
        return below[:-1, None, None, None, None] * value, below[:-1, None, None, None, None] * error

    metric, tangent = mean_and_error(G), mean_and_error(X)
    scale = below[:, None, None, None, None]
    return {
        "metric": metric,
        "nlo_metric": shifted(metric, theory.kernels),
        "vertex": spread(G, G),
        "ntk": tangent,
        "nlo_ntk": shifted(tangent, np.asarray(theory.data["ntk"].values)),
        "cross_shared": spread(G, X),
        "cross_paired": (scale * networks.cross_paired[0], scale * networks.cross_paired[1]),
        "variance_shared": spread(X, X),
        "variance_paired": (scale * networks.variance_paired[0], scale * networks.variance_paired[1]),
        "between_layers": neighbours(),
    }


def _compared(theory: NTKFlow, narrow: dict[str, Measured], wide: dict[str, Measured]) -> list[Correlator]:
    data, pairs, below = theory.data, theory.pairs, np.array(theory.widths, dtype=np.float64)[:, None]
    found = []
    for name, limit, order in (("metric", "kernel", "nlo_metric"), ("ntk", "ntk", "nlo_ntk")):
        start, shift = (pairs.of(np.asarray(data[part].values[1:])) for part in (limit, order))
        shift = shift / below
        none = np.zeros_like(shift)
        found.append(Correlator.of_mean(name, start + shift, shift, none, narrow[name], wide[name]))
        found.append(Correlator.of_limit(order, below * shift, none, narrow[order], wide[order]))
    for name in ("vertex", "cross_shared", "cross_paired", "variance_shared", "variance_paired"):
        predicted, uncertain = (np.asarray(data[part].values[1:]) for part in (name, f"{name}_error"))
        found.append(Correlator.of_limit(name, predicted, uncertain, narrow[name], wide[name]))
    if theory.depth > 2:
        between = np.stack([theory.between_layers(layer, layer + 1) for layer in range(2, theory.depth)])
        name = "between_layers"
        found.append(Correlator.of_limit(name, between, _uncertain(theory), narrow[name], wide[name]))
    return found


def _uncertain(theory: NTKFlow) -> Floats:
    """Of `between_layers`: relative errors of what enters from the lower layer, at most."""
    relative = []
    for name in ("vertex", "cross_shared", "variance_shared"):
        value, error = (np.asarray(theory.data[part].values[1:-1]) for part in (name, f"{name}_error"))
        size = np.sqrt(np.mean(value**2, axis=(1, 2)))
        relative.append(np.sqrt(np.mean(error**2, axis=(1, 2))) / np.where(size > 0, size, 1.0))
    between = np.stack([theory.between_layers(layer, layer + 1) for layer in range(2, theory.depth)])
    return np.asarray(np.max(relative, axis=0)[:, None, None, None, None] * np.abs(between))
