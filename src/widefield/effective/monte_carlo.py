"""Predicted correlators against random networks of finite width, with error bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check as checks
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.renamed import renamed
from ..base.session import counting_bar
from ..base.statistics import covariance_and_error, mean_and_error
from ..data.samples import column
from ..gaussian.sample_pairs import Pairs
from ..problem.network import MLP, widths_of
from . import sampler
from .agreement import Check, Correlator
from .bayes_check import Targets, measured_posterior, posterior_correlators
from .gradient_check import gradient_correlators, measured_gradients
from .tangent_check import Asked as _Asked
from .tangent_check import ntk_correlators
from .vertex_flow import Flow, flow

_OUTPUTS = 32
"""Outputs whose pairs give `four_point`: the noise falls like their number until that of the metric is left."""

_AT_ONCE = 2**20
"""Products over pairs of pairs of samples that are held at once."""


@renamed(draws="seeds")
def check(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    seeds: int = 20000,
    seed: int,
    explicit: bool = False,
    threshold: float = 4.0,
    ntk: bool = False,
    gradients: bool = False,
    y: ArrayLike | None = None,
    noise: float = 0.0,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    points: int = 2**13,
    progress: bool | None = None,
) -> Check:
    """Draw networks of these widths and of twice these, and compare everything that `flow`, or `ntk_flow`, predicts.

    A correlator Q(n) = Q + b/n + .. in units in which the prediction Q does not depend on n has b/n = 2 [Q(n) - Q(2n)]
    up to the next order, so that Q is compared with 2 Q(2n) - Q(n).

    Args:
        network: see `flow`.
        x: inputs.
        widths: of the hidden layers.
        seeds: networks of each width.
        seed: of the networks.
        explicit: draw all weights and biases, not only metrics (about n/4 times slower).
        threshold: of `agrees`, in standard errors.
        ntk: the neural tangent kernel too, of networks with all their weights (in the place of `four_point`).
        gradients: squared gradients of all layers too, of networks with all their weights: drawn anew for every group
            of parameters.
        y: targets of the first inputs, one column for each output: evidence and posterior too, see `finite_posterior`.
        noise: of the targets.
        weight_rates, bias_rates: of the NTK, see `ntk_flow`.
        points: Sobol points of the prediction.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    sizes, inputs = widths_of(network, widths), checks.inputs(x, None)[0]
    seeds, seed = checks.integer("seeds", seeds, least=100), checks.integer("seed", seed)
    threshold, explicit = checks.number("threshold", threshold, above=0.0), checks.flag("explicit", explicit)
    targets = None if y is None else _targets(y, noise, len(inputs))
    both = sizes, tuple(2 * n for n in sizes)
    theory: Flow
    if checks.flag("ntk", ntk):
        asked = _Asked(network, x, sizes, weight_rates, bias_rates, seeds, seed, points)
        theory, correlators = ntk_correlators(asked, progress)
        explicit = True
        given = partial(sampler.networks, network, inputs, seeds=seeds)
        metrics = [given(n, seed=2**33 + 2 * seed + k).metrics for k, n in enumerate(both)] if targets else []
    else:
        theory, measured, metrics = flow(network, x, sizes, points=points), [], []
        with counting_bar("networks against theory", "networks", progress) as bar:
            for k, n in enumerate(both):
                report = partial(_report, bar, k * seeds, 2 * seeds)
                drawn = _draw(network, x, n, seeds, 2 * seed + k, explicit, report)
                measured.append(_Measured.of(drawn, theory, n))
                metrics.append(drawn.metrics)
        correlators = [_compared(name, theory, *measured) for name in _NAMES]
    if targets:
        weighed = [measured_posterior(each, targets) for each in metrics]
        correlators = [*correlators, *posterior_correlators(theory, targets, inputs, *weighed)]
    if checks.flag("gradients", gradients):
        slopes = [measured_gradients(network, inputs, n, seeds, 2**34 + 2 * seed + k) for k, n in enumerate(both)]
        correlators = [*correlators, *gradient_correlators(network, inputs, sizes, *slopes)]
    return Check.of(theory, correlators, seeds=seeds, threshold=threshold, explicit=explicit)


def _targets(y: ArrayLike, noise: float, samples: int) -> Targets:
    values = column("y", y)
    if not 1 <= len(values) <= samples:
        raise InvalidInput(f"y has {len(values)} rows; there are {samples} inputs, and y must be of the first ones")
    return Targets(values, checks.number("noise", noise, least=0.0))


def _report(bar: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    bar(before + done, total)


def _draw(
    network: MLP, x: ArrayLike, sizes: tuple[int, ...], seeds: int, seed: int, explicit: bool, report: sampler.Report
) -> sampler.Networks:
    """Networks with _OUTPUTS outputs, with or without weights."""
    if explicit:
        return sampler.networks(network, x, sizes, seeds=seeds, seed=seed, neurons=_OUTPUTS, report=report)
    metrics = sampler.metrics(network, x, sizes, seeds=seeds, seed=seed, report=report)
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
        mean, mean_error = mean_and_error(entries)
        spread = [covariance_and_error(*(entries[:, layer],) * 2) for layer in range(len(sizes))]
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


def _compared(name: str, theory: Flow, narrow: _Measured, wide: _Measured) -> Correlator:
    """Differences from the prediction are of the order b/n of the units in which predictions do not depend on n."""
    below, pairs = narrow.below, theory.pairs
    one, two = ((part.values[name], part.errors[name]) for part in (narrow, wide))
    if name == "metric":
        mean, shift = pairs.of(theory.kernels[1:]) + theory.shifts[1:], theory.shifts[1:]
        return Correlator.of_mean(name, mean, shift, theory.shift_error[1:], one, two)
    if name == "four_point":
        return Correlator.of_limit(name, theory.covariances[-1], theory.covariance_error[-1], one, two, scale=2.0)
    parts = (theory.covariances, theory.covariance_error) if name == "vertex" else (theory.shifts, theory.shift_error)
    scale = below.reshape(-1, *(1,) * (parts[0].ndim - 1))
    predicted, uncertain = (scale * part[1:] for part in parts)
    return Correlator.of_limit(name, predicted, uncertain, one, two)


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
