"""Mean and variance of trained networks of finite width for many samples: one sample after another, memory like N^3."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..gaussian.sample_pairs import Pairs
from ..kernels.fluctuations import SaddlePoint, saddle_point
from ..problem.network import MLP, per_weight_layer, widths_of
from .anchored_slices import LayerNodes, climbed_slices
from .anchored_terms import Anchored, Around, rotated_slices
from .tangent_flow import climbed_means, kernels_of
from .trained_networks import refuse_kinks, targets_of
from .trained_terms import Tensors, Trained
from .training_paths import Descent


@dataclass(frozen=True, eq=False)
class TrainedOutputs:
    """Outputs z of trained networks at the test samples: infinite width, and what is added, with errors O(1/n^2)."""

    infinite_mean: Float[Floats, "q k"]
    infinite_variance: Float[Floats, " q"]
    mean_parts: dict[str, Float[Floats, "q k"]]
    variance_parts: dict[str, Float[Floats, "q k k"]]
    """Of Cov[z_i, z_k] at each sample, with the names of `TrainedEnsemble`."""

    mean_error: Float[Floats, "q k"]
    variance_error: Float[Floats, "q k k"]
    """Standard errors, because averages of four activations are sampled."""

    @property
    def mean(self) -> Float[Floats, "q k"]:
        """E[z]."""
        return np.asarray(self.infinite_mean + sum(self.mean_parts.values()))

    @property
    def variance(self) -> Float[Floats, "q k k"]:
        """Cov[z_i, z_k] of the outputs at each sample."""
        one = np.eye(self.infinite_mean.shape[1])
        return np.asarray(self.infinite_variance[:, None, None] * one + sum(self.variance_parts.values()))


def trained_outputs(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike,
    *,
    widths: int | Sequence[int],
    learning_rate: float | None = None,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    points: int = 2**13,
    replicas: int = 2,
    seed: int = 0,
    progress: bool | None = None,
) -> TrainedOutputs:
    """As `trained_ensemble` at the end of training, at test samples one by one, for many training samples P.

    Memory goes like P^3, time like (P + tests) P^3 layers (points + ...): slices of all tensors around one sample are
    carried through the layers, contracted and forgotten. There are no covariances between test samples.

    Args:
        network, x, y, x_test, widths, learning_rate, weight_rates, bias_rates: as `trained_ensemble`.
        points: for averages of four activations, of which those of two are exact; as many are in each of
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first.
        progress: as in `ntk_flow`.
    """
    inputs, tests = check.inputs(x, x_test)
    targets = targets_of(y, len(inputs))
    refuse_kinks(network)
    assert tests is not None
    points, replicas = check.integer("points", points, least=4), check.integer("replicas", replicas, least=2)
    sizes, count = widths_of(network, widths), len(inputs) + len(tests)
    needed = 8 * (400 * (len(inputs) + 1) ** 3 + 6 * network.hidden_layers * count * points + 200 * count**2)
    check.memory("slices of correlators", needed, "use fewer samples or points")
    if points <= 2 * count:
        raise InvalidInput(f"points = {points} must be more than twice the {count} samples")
    rates = per_weight_layer("weight_rates", weight_rates, network.hidden_layers, least=0.0)
    everything = np.concatenate([inputs, tests])
    point = saddle_point(network, everything, weight_rates=weight_rates, bias_rates=bias_rates)
    kernels, pairs = kernels_of(network, point), Pairs.within(count)
    G1, H1 = (sizes[-1] * pairs.matrix(part) for part in climbed_means(point, sizes, rates))
    K, H = kernels["kernels"][-1], kernels["tangents"][-1]
    h, modes = np.linalg.eigh(H[: len(inputs), : len(inputs)])
    descent = Descent.of(h, 0.0 if learning_rate is None else learning_rate)
    found = []
    with counting_bar("samples", "samples", progress) as report:
        for replica in range(replicas):
            layers = list(_layers(point, sizes, rates, seed + replica, points))
            work = _Work(layers, Tensors(K, H, G1, H1, {}), descent, modes, modes.T @ targets, sizes[-1])
            for done in work.rows():
                report(replica * count + done, replicas * count)
            found.append((work.means, work.variances))
    mean, mean_error = _over_replicas([means for means, _ in found], sizes[-1])
    variance, variance_error = _over_replicas([variances for _, variances in found], sizes[-1])
    left = work.left
    infinite = np.einsum("xd,de,xe->x", left, K, left, optimize=True)
    return TrainedOutputs(work.learned @ work.targets, infinite, mean, variance, mean_error, variance_error)


def _layers(
    point: SaddlePoint, sizes: Sequence[int], rates: Sequence[float], seed: int, points: int
) -> Iterator[LayerNodes]:
    for number, (K, n) in enumerate(zip(point.preactivation, sizes, strict=True)):
        constants = point.weight_variances[number + 1], rates[number + 1], 1 / n
        yield LayerNodes.of(point.activation, K, point.tangents[number], constants, (seed, number), points)


def _over_replicas(found: list[dict[str, Floats]], width: int) -> tuple[dict[str, Floats], Floats]:
    means = {name: np.mean([each[name] for each in found], axis=0) / width for name in found[0]}
    return means, mean_and_error(np.stack([sum(each.values()) for each in found]))[1] / width


def _side_by_side(work: Callable[[int], Any], count: int) -> Iterator[Any]:
    """Of the numbers below, in order, on all cores: numpy's loops do not hold each other up."""
    pool = ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1))
    try:
        yield from pool.map(work, range(count))
    finally:
        pool.shutdown(cancel_futures=True)


class _Work:
    """One replica: training samples first, then every test sample on its own."""

    def __init__(
        self,
        layers: list[LayerNodes],
        tensors: Tensors,
        descent: Descent,
        modes: Float[Floats, "a a"],
        targets: Float[Floats, "a k"],
        width: int,
    ) -> None:
        self.layers, self.tensors, self.descent, self.modes = layers, tensors, descent, modes
        self.targets, self.width, self.count = targets, width, len(modes)
        p = self.count
        self.learned = tensors.H[p:, :p] @ modes / descent.h  # M over tests and modes
        tests = len(tensors.H) - p
        self.left = np.concatenate([-self.learned @ modes.T, np.eye(tests)], axis=1)
        own = modes.T @ tensors.K[:p, :p] @ modes
        empty = np.zeros((p, p))
        self.trained = Trained(Tensors(own, np.diag(descent.h), empty, empty, {}), descent, targets)
        self.means: dict[str, Floats] = {}
        self.variances: dict[str, Floats] = {}

    def rows(self) -> Iterator[int]:
        """Go through all samples; yields how many are done."""
        inside = []
        for sources in _side_by_side(lambda number: self._sources(self._around(number)), self.count):
            inside.append(sources)
            yield len(inside)
        known = _Sources(*(self._gathered(parts) for parts in zip(*inside, strict=True)))
        means, variances = [], []
        for mean, variance in _side_by_side(lambda test: self._test(test, known), len(self.learned)):
            means.append(mean)
            variances.append(variance)
            yield self.count + len(means)
        self.means, self.variances = (
            {k: np.stack([each[k] for each in part]) for k in part[0]} for part in (means, variances)
        )

    def _gathered(self, parts: Sequence[Any]) -> Any:
        """Of all training samples, by modes."""
        if isinstance(parts[0], dict):
            return {name: self._gathered([part[name] for part in parts]) for name in parts[0]}
        return np.tensordot(self.modes, np.stack(parts), axes=([0], [0]))

    def _around(self, number: int) -> Around:
        """Of a sample; training samples come first."""
        p = self.count
        outside = number >= p
        chosen = np.append(np.arange(p), number) if outside else np.arange(p)
        slices = climbed_slices([layer.over(chosen) for layer in self.layers], p if outside else number)
        basis = np.eye(len(chosen))
        basis[:p, :p] = self.modes
        scaled = {key: self.width * values for key, values in rotated_slices(slices, basis).items()}
        H1 = self.tensors.H1[number, :p] @ self.modes
        return Anchored(scaled, H1, self.trained.tensors.K, self.descent, self.targets).around()

    def _sources(self, around: Around) -> _Sources:
        mean = {name: part[0] for name, part in self.trained.mean(around.forms).items()}
        derivative = self.trained.derivative(around.forms)[0]
        return _Sources(mean, derivative, around.scatter, around.output_ntk[0], around.output_dntk[0])

    def _test(self, test: int, known: _Sources) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Projected: what training makes of the sources of a test sample."""
        p, M = self.count, self.learned[test]
        around = self._around(p + test)
        own, one = self._sources(around), np.eye(self.targets.shape[1])
        mean = {name: part - np.tensordot(M, known.mean[name], axes=1) for name, part in own.mean.items()}
        derivative = own.derivative - np.tensordot(M, known.derivative, axes=1)
        K = self.tensors.K[p + test, :p] @ self.modes - M @ self.trained.tensors.K

        def squared(row: Floats, column: Floats, inside: Floats) -> Floats:
            """c . matrix . c."""
            crossed = np.tensordot(M, row[:p] + column[:p], axes=1)
            return np.asarray(row[p] - crossed + np.tensordot(M, np.tensordot(M, inside, axes=1), axes=1))

        halves = {
            "mean_response": -np.einsum("a,kai->ik", K, derivative),
            "output_ntk": squared(around.output_ntk[0], around.output_ntk[1], known.output_ntk) * one,
            "output_dntk": squared(around.output_dntk[0], around.output_dntk[1], known.output_dntk),
        }
        c = self.left[test]
        turned = around.scatter.transpose(0, 2, 1)
        variance = {
            "output": c @ self.tensors.G1 @ c * one,
            "ntk_scatter": squared(around.scatter, turned, known.scatter),
        }
        return mean, variance | {name: half + half.T for name, half in halves.items()}


class _Sources(NamedTuple):
    """Of one sample, or over modes: mean by parts, its derivative in the targets, rows of the matrices."""

    mean: dict[str, Floats]
    derivative: Floats
    scatter: Floats
    output_ntk: Floats
    output_dntk: Floats
