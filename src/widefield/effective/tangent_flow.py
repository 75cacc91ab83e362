"""The neural tangent kernel of networks of finite width at initialisation, layer by layer, for any inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..gaussian.four_table import Quadruple, quadruples
from ..gaussian.jacobians import Slopes
from ..gaussian.pair_table import bends
from ..gaussian.sample_pairs import Pairs
from ..gaussian.two_labels import TwoLabels
from ..kernels.fluctuations import SaddlePoint, saddle_point
from ..problem.network import MLP, per_weight_layer, widths_of
from . import tangent_recursion as recursion
from .curvature import Curvature, derivatives
from .sample_twos import Twos, covariances, with_labels
from .tangent_recursion import Means, Passage, Sources
from .tangent_result import NTKFlow
from .vertex_flow import refuse_jumps

_KINDS = ("0000", "0011", "1111")


def ntk_flow(
    network: MLP,
    x: ArrayLike,
    widths: int | Sequence[int],
    *,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    points: int | None = None,
    replicas: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> NTKFlow:
    """Mean and fluctuations of the NTK of every layer at order 1/n, and all that `flow` has, for the inputs x.

    Recursions: `tangent_recursion`. Means are exact for any inputs; averages of four slopes are integrated for one or
    two inputs, for more most of them is summed exactly and the rest sampled, with stated errors.

    >>> found = ntk_flow(MLP(2, "relu", weight_variances=2.0), [[0.5**0.5]], 10, bias_rates=1.0)
    >>> [round(part.item(), 9) for part in (found.ntk(3), found.variance_shared(3), found.variance_paired(3))]
    [4.5, 23.5, 22.5]

    Args:
        network: activation, depth and variances.
        x: inputs, (samples, dimension).
        widths: n_1 .. n_L, or one number for all (times `network.width_ratios`).
        weight_rates: lambda_W of the layers of weights: learning rates are eta lambda_W / n_{l-1}; one number or L + 1.
        bias_rates: lambda_b, the same for biases; None is 1 if the network trains its biases and 0 if not.
        points: for the sampled part of averages of four; None is 2^13 for three inputs, falling to 2^9 for more than
            ten. As many are in each of
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first replica.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    replicas = check.integer("replicas", replicas, least=2)
    refuse_jumps(network)
    layers, count = network.hidden_layers + 1, len(inputs)
    needed = 8 * count**4 * (8 * layers + 12 * replicas)
    check.memory("correlators of the NTK of all layers", needed, "use fewer samples or layers")
    point = saddle_point(network, inputs, weight_rates=weight_rates, bias_rates=bias_rates)
    rates = per_weight_layer("weight_rates", weight_rates, network.hidden_layers, least=0.0)
    found = [State.start(count).summary()]
    with counting_bar("NTK", "layers", progress) as report:
        for passed in climbed(point, sizes, rates, _KINDS, points, replicas, seed):
            found.append(passed.after.summary())
            report(len(found) - 1, layers - 1)
    tensors = {name: np.stack([each.pop(name) for each in found]) for name in list(found[0])}  # one at a time: large
    return NTKFlow.gathered(network, sizes, tensors | kernels_of(network, point), point, rates)


class Step(NamedTuple):
    """From a layer to the next."""

    layer: Layer
    fours: dict[str, Quadruple]
    before: State
    after: State


def climbed(
    point: SaddlePoint,
    sizes: Sequence[int],
    rates: Sequence[float],
    kinds: Sequence[str],
    points: int | None,
    replicas: int,
    seed: int,
) -> Iterator[Step]:
    """Layer by layer, with averages of four of these kinds."""
    state = State.start(len(point.preactivation[0]))
    for number, K in enumerate(point.preactivation):
        fours = quadruples(point.activation, K, kinds, points=points, replicas=replicas, seed=seed, population=number)
        layer = Layer.of(point, number, state.pairs, rates[number + 1], 1 / sizes[number])
        before, state = state, state.step(layer, fours)
        yield Step(layer, fours, before, state)


def climbed_means(
    point: SaddlePoint, sizes: Sequence[int], rates: Sequence[float]
) -> tuple[Float[Floats, " q"], Float[Floats, " q"]]:
    """Order 1/n of the mean metric and the mean NTK of the outputs, over pairs, without tensors over four samples."""
    state = State.start(len(point.preactivation[0]), whole=False)
    for number in range(len(point.preactivation)):
        layer = Layer.of(point, number, state.pairs, rates[number + 1], 1 / sizes[number])
        groups, means = state.grouped(layer)
        state = State(state.pairs, state.twos, {}, groups, means)
    found = state.summary()
    return found["shift"], found["tangent_shift"]


def kernels_of(network: MLP, point: SaddlePoint) -> dict[str, Floats]:
    """K and Theta of all layers."""
    last = network.bias_scales[-1] ** 2 + point.weight_variances[-1] * point.feature_kernel[-1]
    return {"kernels": np.concatenate([point.preactivation, last[None]]), "tangents": point.tangents}


@dataclass(frozen=True, eq=False)
class Layer:
    """All averages over pairs of samples of one layer, and how fluctuations pass it."""

    K: Float[Floats, "p p"]
    activation: Any
    theta: Float[Floats, "p p"]
    mean_features: Float[Floats, "p p"]
    mean_slopes: Float[Floats, "p p"]
    bends: Float[Floats, "p p"]
    derivatives: tuple[tuple[Slopes, Curvature], tuple[Slopes, Curvature]]
    passage: Passage

    @classmethod
    def of(cls, point: SaddlePoint, layer: int, pairs: Pairs, rate: float, share: float) -> Layer:
        """At the kernel of this layer (counted from 0), with lambda_W of the next and 1 / n."""
        K, s = point.preactivation[layer], point.activation
        theta, m, C = point.tangents[layer], point.slopes[layer], point.weight_variances[layer + 1]
        both = derivatives(s, K, pairs), derivatives(s, K, pairs, 1)
        passage = Passage(C, rate, share, both[0][0], both[1][0], pairs.of(theta), pairs.of(m))
        return cls(K, s, theta, point.feature_kernel[layer], m, bends(s, K), both, passage)

    def within(self, twos: Twos, pairs: Pairs) -> Passage:
        """The same for groups of two samples."""
        whole, ((J, _), (slopes, _)) = self.passage, self.derivatives
        theta, m = (twos.over(pairs.of(part)) for part in (self.theta, self.mean_slopes))
        return Passage(whole.weight, whole.rate, whole.share, twos.slopes(J), twos.slopes(slopes), theta, m)


@dataclass(frozen=True, eq=False)
class State:
    """Tensors of a layer over the width below: V, D, A, F, B of every replica; V, D, F and means of groups.

    Replicas differ by the sampled part of their averages alone.
    """

    pairs: Pairs
    twos: Twos
    whole: dict[str, Floats]
    groups: dict[str, Floats]
    means: Means

    @classmethod
    def start(cls, samples: int, *, whole: bool = True) -> State:
        """The first layer is Gaussian, and its NTK does not fluctuate."""
        pairs = Pairs.within(samples)
        twos, size, labels = Twos.of(pairs), len(pairs), (1, *(samples,) * 4)
        all_samples = {name: np.zeros((1, size, size)) for name in "VDA"} if whole else {}
        all_samples |= {name: np.zeros(labels) for name in "FB"} if whole else {}
        count = len(twos.a)
        groups = {"V": np.zeros((count, 3, 3)), "D": np.zeros((count, 3, 3)), "F": np.zeros((count, 2, 2, 2, 2))}
        return cls(pairs, twos, all_samples, groups, Means(np.zeros((count, 3)), np.zeros((count, 3))))

    def step(self, layer: Layer, fours: dict[str, Quadruple]) -> State:
        """To the next layer."""
        now, passage = self.whole, layer.passage
        sources = Sources(*(fours[kind].covariances for kind in _KINDS))
        mixed, slopes = (
            self.pairs.tensor(fours[kind].covariances + np.outer(*fours[kind].means)) for kind in _KINDS[1:]
        )
        new = {
            "V": recursion.vertex(passage, sources, now["V"]),
            "D": recursion.cross_shared(passage, sources, now["V"], now["D"]),
            "A": recursion.variance_shared(passage, sources, now["V"], now["D"], now["A"]),
            "F": recursion.cross_paired(passage, mixed, layer.theta, layer.mean_slopes, layer.bends, now["F"]),
            "B": recursion.variance_paired(passage, slopes, layer.theta, layer.mean_slopes, now["B"]),
        }
        groups, means = self.grouped(layer)
        return State(self.pairs, self.twos, new, groups, means)

    def grouped(self, layer: Layer) -> tuple[dict[str, Floats], Means]:
        """V, D, F and means of groups of two samples, by integrals alone."""
        twos, now, table = self.twos, self.groups, TwoLabels(layer.activation, layer.K)
        passage = layer.within(twos, self.pairs)
        features = twos.over(self.pairs.of(layer.mean_features))
        four, mixed = (table.blocks(orders, twos.a, twos.b) for orders in (((0, 0), (0, 0)), ((0, 0), (1, 1))))
        sources = Sources(covariances(four, features, features), covariances(mixed, features, passage.mean_slopes))
        theta, m, b = (twos.within(part) for part in (layer.theta, layer.mean_slopes, layer.bends))
        bent = twos.bends(layer.derivatives[0][1]), twos.bends(layer.derivatives[1][1])
        new = {
            "V": recursion.vertex(passage, sources, now["V"]),
            "D": recursion.cross_shared(passage, sources, now["V"], now["D"]),
            "F": recursion.cross_paired(passage, with_labels(mixed), theta, m, b, now["F"]),
        }
        return new, self.means.step(passage, bent, now["V"], now["D"], now["F"])

    def summary(self) -> dict[str, Floats]:
        """Means over replicas, their errors, and the order 1/n of both means over pairs."""
        found: dict[str, Floats] = {}
        for name, values in self.whole.items():
            found[name], found[f"{name}_error"] = mean_and_error(values, alone=0.0)
        size = len(self.pairs)
        found["shift"] = self.twos.gathered(self.means.metric, size)
        found["tangent_shift"] = self.twos.gathered(self.means.tangent, size)
        return found
