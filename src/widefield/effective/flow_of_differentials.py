"""Differentials of the tangent kernel of networks of finite width, layer by layer, for any inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..gaussian.four_table import KINDS, Quadruple
from ..gaussian.pair_table import pair_moments
from ..gaussian.sample_pairs import Pairs
from ..kernels.fluctuations import SaddlePoint, saddle_point
from ..problem.network import MLP, per_weight_layer, widths_of
from .differential_result import DifferentialFlow
from .tangent_flow import State, Step, climbed, kernels_of
from .tensor_recipes import RECIPES, Labels

_AXES = "abcd"


def differential_flow(
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
) -> DifferentialFlow:
    """P, Q (the dNTK) and R, S, T, U (both ddNTKs) of every layer, and all that `ntk_flow` has, for the inputs x.

    Recursions: `tensor_recipes`. Averages of four are exact for one or two inputs, with stated errors for more. Memory
    and time go like the fourth power of the number of inputs: for trained networks see `trained_mean`, whose memory
    goes like the third.

    Activations must be smooth (or lines with a kink at 0, such as ReLU, which have P and Q alone: R, S, T, U contain
    <s'' s''> at one input, which is infinite with a kink).

    >>> found = differential_flow(MLP(2, "linear"), [[1.0]], 10, bias_rates=1.0)
    >>> [round(found.tensor(name, 3).item(), 9) for name in "PQRSTU"]
    [0.0, 8.0, 0.0, 24.0, 12.0, 0.0]

    Arguments are those of `ntk_flow`.
    """
    inputs, sizes = check.inputs(x, None)[0], widths_of(network, widths)
    replicas = check.integer("replicas", replicas, least=2)
    _, names = asked_of(network)
    layers, count = network.hidden_layers + 1, len(inputs)
    needed = 8 * count**4 * (20 * layers + 40 * replicas)
    check.memory("differentials of all layers", needed, "use fewer samples or layers")
    point = saddle_point(network, inputs, weight_rates=weight_rates, bias_rates=bias_rates)
    rates = per_weight_layer("weight_rates", weight_rates, network.hidden_layers, least=0.0)
    found = []
    with counting_bar("differentials", "layers", progress) as report:
        for state, now in climbed_differentials(network, point, sizes, rates, points, replicas, seed):
            found.append(state.summary() | _summary(now))
            report(len(found) - 1, layers - 1)
    tensors = {name: np.stack([each.pop(name) for each in found]) for name in list(found[0])}  # one at a time: large
    own = {name: tensors.pop(name) for name in list(tensors) if name.split("_")[0] in names}
    base = DifferentialFlow.gathered(network, sizes, tensors | kernels_of(network, point), point, rates)
    below = base.data["width_below"].values.reshape(-1, 1, 1, 1, 1)
    axes = ("layer", *(f"sample_{k}" for k in range(4)))
    return DifferentialFlow(base.data.assign({k: (axes, below * value) for k, value in own.items()}), network)


def climbed_differentials(
    network: MLP,
    point: SaddlePoint,
    sizes: Sequence[int],
    rates: Sequence[float],
    points: int | None,
    replicas: int,
    seed: int,
) -> Iterator[tuple[State, dict[str, Floats]]]:
    """V, D, A, F, B and P .. U of all layers and replicas, over the width below."""
    (kinds, names), count = asked_of(network), len(point.preactivation[0])
    now = {name: np.zeros((1, *(count,) * 4)) for name in names}
    yield State.start(count), now
    for passed in climbed(point, sizes, rates, kinds, points, replicas, seed):
        now = stepped(passed, now)
        yield passed.after, now


def asked_of(network: MLP) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Kinds of averages of four, and tensors, that exist for this activation."""
    s = network.phi
    if not s.kinks:
        return tuple(KINDS), tuple("PQRSTU")
    if s.homogeneity != 1:
        raise InvalidInput(
            f"activation = {s.name!r} has kinks or jumps, and its differentials do not exist: use a smooth one, "
            "such as 'gelu' (for lines with a kink at 0, such as 'relu', there are P and Q)"
        )
    return ("0000", "0011", "1111", "2110"), tuple("PQ")


def stepped(passed: Step, now: dict[str, Floats]) -> dict[str, Floats]:
    """P .. U of the layer above, of every replica, from those of this one."""
    F, B = passed.before.whole["F"], passed.before.whole["B"]
    layer = Whole(passed, now | {"F": F, "B": B}, {"F": passed.after.whole["F"]})
    return {name: np.asarray(RECIPES[name](layer, tuple(_AXES))) for name in now}  # type: ignore[arg-type]


def _summary(now: dict[str, Floats]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name, values in now.items():
        found[name], found[f"{name}_error"] = mean_and_error(values, alone=0.0)
    return found


@dataclass(frozen=True, eq=False)
class Whole:
    """A layer with whole tensors over four axes a b c d, and one for replicas before them (`tensor_recipes.Known`)."""

    passed: Step
    old: dict[str, Float[Floats, "_ p p p p"]]
    new: dict[str, Float[Floats, "_ p p p p"]]
    fours: dict[str, Float[Floats, "_ p p p p"]] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """C_W."""
        return self.passed.layer.passage.weight

    @property
    def rate(self) -> float:
        """lambda_W."""
        return self.passed.layer.passage.rate

    @property
    def share(self) -> float:
        """1 / n."""
        return self.passed.layer.passage.share

    @cached_property
    def _moments(self) -> Float[Floats, "o o p p"]:
        """With a kink at 0, <s''' s'> and <s'' s''> of one direction, infinite, cancel in <z s'' s'> = 0."""
        u = pair_moments(self.passed.layer.activation, self.passed.layer.K)
        return np.nan_to_num(u, nan=0.0) if self.passed.layer.activation.kinks else u

    def pair(self, p: int, q: int, a: str, b: str) -> Floats:
        """u_pq(a, b)."""
        return placed(self._moments[p, q], a + b)

    def theta(self, a: str, b: str) -> Floats:
        """Of this layer."""
        return placed(self.passed.layer.theta, a + b)

    def four(self, orders: tuple[int, int, int, int], labels: Labels) -> Floats:
        """From the table of this layer."""
        kind, places = standard(orders)
        if kind not in self.fours:
            self.fours[kind] = by_samples(self.passed.fours[kind])
        return placed(self.fours[kind], "".join(labels[place] for place in places))

    def below(self, name: str, labels: Labels) -> Floats:
        """Of this layer."""
        return placed(self.old[name], "".join(labels))

    def above(self, name: str, labels: Labels) -> Floats:
        """Of the next."""
        return placed(self.new[name], "".join(labels))


def standard(orders: tuple[int, int, int, int]) -> tuple[str, list[int]]:
    """The kind of an average of four (`KINDS`), and which of its factors are those of the kind, in order."""
    for kind, pairs in KINDS.items():
        wanted = [*pairs[0], *pairs[1]]
        if sorted(wanted) == sorted(orders):
            free, places = list(range(4)), []
            for order in wanted:
                places.append(next(k for k in free if orders[k] == order))
                free.remove(places[-1])
            return kind, places
    raise InvalidInput(f"there is no kind of averages with derivatives {orders}")


def by_samples(fours: Quadruple) -> Float[Floats, "_ p p p p"]:
    """<s^(p)_a s^(q)_b s^(r)_c s^(v)_d> over a, b, c, d."""
    values = fours.covariances + np.outer(*fours.means)
    rows, columns = (_numbers(pairs) for pairs in (fours.rows, fours.columns))
    return np.asarray(values[:, rows[:, :, None, None], columns[None, None]])


def _numbers(pairs: Pairs) -> Any:
    samples = len(pairs.diagonal)
    if len(pairs) == samples**2:
        return np.arange(samples**2).reshape(samples, samples)
    return pairs.matrix(np.arange(len(pairs), dtype=np.float64)).astype(np.intp)


def placed(values: Floats, labels: str, axes: str = _AXES) -> Floats:
    """Last axes of an array at labels, of which some may be the same, as axes a b c d of an array."""
    own = sorted(set(labels))
    taken = np.einsum(f"...{labels}->...{''.join(own)}", values)
    return np.asarray(taken[(..., *(slice(None) if label in own else None for label in axes))])
