"""Slices of all tensors of order 1/n with one sample held fixed, layer by layer: memory like the cube of the samples.

For one sample x, the anchor, at one position of a tensor, all recursions of `tensor_recipes` close on arrays over three
samples of O, the training samples and x, if six slices with a repeated sample and no anchor are carried too: a pair of
labels (1, 2) feeds on the pairs (1, 1), (2, 2), (1, 2) alone, and the second has lost the anchor, but repeats a label.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats, Integers
from ..gaussian.nested import evaluate
from ..gaussian.pair_table import pair_moments
from ..gaussian.roots import root
from ..gaussian.sobol import matched, normals
from .tensor_recipes import RECIPES, Labels

_AXES = "bcd"

_SAME: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "V": ((1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 0, 1), (2, 3, 1, 0), (3, 2, 1, 0)),
    "A": ((1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 0, 1), (2, 3, 1, 0), (3, 2, 1, 0)),
    "D": ((1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)),
    "B": ((1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)),
    "F": ((2, 3, 0, 1),),
    "P": ((0, 2, 1, 3),),
    "Q": (),
    "R": ((0, 1, 3, 2),),
    "S": ((1, 0, 3, 2),),
    "T": ((3, 2, 1, 0),),
    "U": ((2, 3, 0, 1),),
}
"""Orders of positions in which a tensor is the same."""

ANCHORED = {
    "V": (0,),
    "D": (0, 2),
    "A": (0,),
    "F": (0, 1),
    "B": (0,),
    "P": (0, 1, 3),
    "Q": (0, 1, 2, 3),
    "R": (0, 1, 2),
    "S": (0, 2),
    "T": (0, 1),
    "U": (0, 3),
}
"""Positions of the anchor; others follow by symmetry."""

REPEATED: dict[str, Labels] = {
    "V": ("b", "b", "c", "d"),
    "D": ("b", "b", "c", "d"),
    "F": ("b", "b", "c", "d"),
    "B": ("b", "b", "c", "d"),
    "P": ("b", "c", "d", "b"),
    "Q": ("c", "d", "b", "b"),
}
"""Without the anchor."""

_PARTNER = {
    (0, (0, 0, 0)): 0,
    (0, (0, 1, 1)): 0,
    (0, (1, 1, 2)): 2,
    (1, (0, 0, 1)): 1,
    (1, (1, 1, 1)): 1,
    (1, (0, 1, 2)): 1,
    (1, (1, 1, 3)): 1,
    (1, (1, 2, 2)): 1,
    (2, (0, 1, 1)): 0,
    (2, (1, 1, 2)): 2,
    (3, (1, 1, 1)): 1,
}
"""By the derivative at the anchor and those at the others, the one whose product with it is centred."""

Slices = dict[tuple[str, int], Float[Floats, "o o o"]]
"""By the name and the position of the anchor; -1 for those with a repeated label."""


@dataclass(frozen=True, eq=False)
class LayerNodes:
    """What a layer knows of all samples: exact averages over two of them, and nodes for averages over four."""

    weight: float
    rate: float
    share: float
    theta: Float[Floats, "d d"]
    moments: Float[Floats, "o o d d"]
    values: Float[Floats, "k d m"]
    """s, s', s'', s''' at nodes, which come in pairs of opposite sign with exact covariance."""

    @classmethod
    def of(
        cls,
        s: Activation,
        K: Floats,
        theta: Floats,
        constants: tuple[float, float, float],
        stream: tuple[int, int],
        points: int,
    ) -> LayerNodes:
        """Constants are C_W, lambda_W of the layer above and 1 / n; a stream is a seed and the number of a layer."""
        A = root(K, thin=True)
        half = matched(normals(*stream, A.shape[1], points // 2))
        z = A @ np.concatenate([half, -half], axis=1)
        values = np.stack([evaluate(s.derivative(order), z) for order in range(4)])
        return cls(*constants, theta, pair_moments(s, K), values)

    def over(self, chosen: Integers) -> LayerNodes:
        """Of some samples."""
        square = np.ix_(chosen, chosen)
        moments = self.moments[:, :, square[0], square[1]]
        return LayerNodes(
            self.weight,
            self.rate,
            self.share,
            self.theta[square],
            moments,
            np.ascontiguousarray(self.values[:, chosen]),
        )


@dataclass(frozen=True, eq=False)
class AnchoredLayer:
    """`tensor_recipes.Known` for labels x b c d: arrays over the axes b c d of the samples of O."""

    nodes: LayerNodes
    anchor: int
    """Of x in O."""

    old: Slices
    new: Slices
    fours: dict[tuple[object, ...], Float[Floats, "o o o"]] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """C_W."""
        return self.nodes.weight

    @property
    def rate(self) -> float:
        """lambda_W."""
        return self.nodes.rate

    @property
    def share(self) -> float:
        """1 / n."""
        return self.nodes.share

    def pair(self, p: int, q: int, a: str, b: str) -> Floats:
        """u_pq(a, b)."""
        return self._placed(self.nodes.moments[p, q], a + b)

    def theta(self, a: str, b: str) -> Floats:
        """Of this layer."""
        return self._placed(self.nodes.theta, a + b)

    def below(self, name: str, labels: Labels) -> Floats:
        """Of this layer."""
        return self._entry(self.old, name, labels)

    def above(self, name: str, labels: Labels) -> Floats:
        """Of the next."""
        return self._entry(self.new, name, labels)

    def _entry(self, slices: Slices, name: str, labels: Labels) -> Floats:
        return self._placed(*found(slices, name, labels))

    def _placed(self, values: Floats, labels: str) -> Floats:
        own = tuple(self.anchor if label == "x" else slice(None) for label in labels)
        values, left = values[own], labels.replace("x", "")
        names = sorted(set(left))
        taken = np.einsum(f"{left}->{''.join(names)}", values)
        return np.asarray(taken[tuple(slice(None) if axis in names else None for axis in _AXES)])

    def four(self, orders: tuple[int, int, int, int], labels: Labels) -> Floats:
        """The product of two exact means, and a covariance from nodes."""
        left, right = _split(orders, labels)
        (p, one), (q, two) = left
        (r, three), (v, four) = right
        key = (p, q, r, v, one == two)
        if key not in self.fours:
            self.fours[key] = self._covariance(key)
        axes = (two + three + four).index
        order = [axes(axis) for axis in _AXES]
        return self.pair(p, q, one, two) * self.pair(r, v, three, four) + self.fours[key].transpose(order)

    def _covariance(self, key: tuple[int, int, int, int, bool]) -> Float[Floats, "o o o"]:
        """Over the partner of the anchor (or the repeated sample) and two others."""
        p, q, r, v, repeated = key
        S = self.nodes.values
        product = S[q] * (S[p] if repeated else S[p, self.anchor])
        product = (product - product.mean(axis=1, keepdims=True)) / product.shape[1]
        size = len(product)
        found = np.empty((size,) * 3)
        for b in range(size):
            found[b] = (S[r] * product[b]) @ S[v].T
        return found


def _split(orders: tuple[int, int, int, int], labels: Labels) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Factors of the product that is centred, the anchor or the first of a repeated label in front, and the others."""
    factors = list(zip(orders, labels, strict=True))
    twice = [label for label in labels if labels.count(label) == 2]
    if twice:
        left = sorted((factor for factor in factors if factor[1] == twice[0]), reverse=True)
        right = sorted((factor for factor in factors if factor[1] != twice[0]), reverse=True)
        return left, right
    place = labels.index("x")
    order = factors[place][0]
    others = [k for k in range(4) if k != place]
    low, mid, high = sorted(orders[k] for k in others)
    wanted = _PARTNER[order, (low, mid, high)]
    mate = place ^ 1
    partner = mate if orders[mate] == wanted else next(k for k in others if orders[k] == wanted)
    right = sorted((factors[k] for k in others if k != partner), reverse=True)
    return [factors[place], factors[partner]], right


def found(slices: Slices, name: str, labels: Labels) -> tuple[Float[Floats, "_ _ _"], str]:
    """The slice that has these labels, and the labels of its axes, of which some may be x again."""
    for order in ((0, 1, 2, 3), *_SAME[name]):
        turned = tuple(labels[k] for k in order)
        if "x" in turned:
            for place in ANCHORED[name]:
                if turned[place] == "x":
                    return slices[name, place], "".join(turned[k] for k in range(4) if k != place)
        else:
            form = REPEATED[name]
            meaning: dict[str, str] = {}
            if all(meaning.setdefault(axis, label) == label for axis, label in zip(form, turned, strict=True)):
                return slices[name, -1], "".join(meaning[axis] for axis in _AXES)
    raise KeyError((name, labels))  # no recipe asks for others


def climbed_slices(layers: list[LayerNodes], anchor: int) -> Slices:
    """All slices of the outputs, over the width below, from layers over the samples of O; x has this number there."""
    size = len(layers[0].theta)
    keys = [(name, place) for name, places in ANCHORED.items() for place in places] + [(n, -1) for n in REPEATED]
    now: Slices = {key: np.zeros((size,) * 3) for key in keys}
    for nodes in layers:
        new: Slices = {}
        layer = AnchoredLayer(nodes, anchor, now, new)
        for name, recipe in RECIPES.items():
            if name in REPEATED:
                new[name, -1] = np.broadcast_to(recipe(layer, REPEATED[name]), (size,) * 3)
            for place in ANCHORED[name]:
                labels = [*_AXES[:place], "x", *_AXES[place:]]
                new[name, place] = np.broadcast_to(
                    recipe(layer, (labels[0], labels[1], labels[2], labels[3])), (size,) * 3
                )
        now = new
    return now
