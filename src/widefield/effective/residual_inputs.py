"""Residual networks at initialisation seen by several inputs: kernel, three-point and four-point vertices.

Over unordered pairs (ab) of inputs: with T_ab(K) = C_b + C_W <s_a s_b>, a layer acts on covariances of the metric
through the matrix J = dT/dK between pairs, and on the stream itself through D_(ab)c = C_W <d(s_a s_b)/dz_c>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.renamed import former, renamed
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..gaussian import slope_square
from ..gaussian.four_table import enough_points
from ..gaussian.jacobians import Slopes
from ..gaussian.sample_pairs import Pairs
from .curvature import Curvature, derivatives
from .residual import BlockLayer, all_kernels, block_layers, check_gamma
from .sources import feature_covariances
from .tilts import tilts
from .vertex_flow import metric_step
from .wick import checked_covariance


@dataclass(frozen=True, eq=False)
class InputsFlow:
    """What several inputs see, at the layers 1, ..., depth of a residual network, over unordered pairs of inputs.

    For neurons i != j, E[z_i;a z_i;b] = K_ab + metric_ab / n, n E[z_i;a z_i;b z_j;c] = X_(ab)c and
    n Cov(z_i;a z_i;b, z_j;c z_j;d) = V_(ab)(cd). With more than two inputs averages of four activations are sampled;
    `vertex_error` and `shift_error` are the standard errors that this leaves, 0 if nothing was sampled.
    """

    pairs: Pairs
    K: Float[Floats, "l p p"]
    skews: Float[Floats, "l q p"]
    vertices: Float[Floats, "l q q"]
    shifts: Float[Floats, "l q"]
    vertex_error: Float[Floats, "l q q"]
    shift_error: Float[Floats, "l q"]

    # Nobody but `residual_inputs_flow` makes one, so that the constructor need not know old words.
    vertex_errors = former("InputsFlow", "vertex_errors", "vertex_error")
    shift_errors = former("InputsFlow", "shift_errors", "shift_error")

    @property
    def three_point(self) -> Float[Floats, "l p p p"]:
        """X_(ab)c with sample indices."""
        return np.moveaxis(self.pairs.matrix(np.swapaxes(self.skews, 1, 2)), 1, -1)

    @property
    def vertex(self) -> Float[Floats, "l p p p p"]:
        """V_(ab)(cd) with sample indices."""
        return self.pairs.tensor(self.vertices)

    @property
    def metric(self) -> Float[Floats, "l p p"]:
        """The order 1/n of E[z_i;a z_i;b]."""
        return self.pairs.matrix(self.shifts)


@renamed(gamma="skip")
def residual_inputs_flow(
    activation: str | Activation,
    first_kernel: Any,
    depth: int,
    skip: float,
    block: BlockLayer | Sequence[BlockLayer],
    *,
    points: int | None = None,
    replicas: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> InputsFlow:
    """Run the recursions of `residual_flow` for any inputs, whose kernel in layer 1 may be singular.

    For a block of one layer, with A = J + gamma^2 and W_(ab)(cd) = K_ac K_bd + K_ad K_bc (PDLT eq. (B.24) and the
    terms in X):

        K' = C_b + C_W <s s> + gamma^2 K
        X' = gamma (A X + D K)
        V' = C_W^2 (<s s s s> - <s s><s s>) + A V A^T + gamma^2 (J W + W J^T) + A X D^T + D X^T A^T

    Several layers in a block act as plain ones on the metric that the first makes. gamma = 0 is `flow`.

    >>> flow = residual_inputs_flow("relu", [[1.0, 1.0], [1.0, 1.0]], 3, 0.5, BlockLayer(0.0, 1.5))
    >>> flow.vertices[-1].round(4).tolist()  # two inputs that are the same, as one
    [[8.5574, 8.5574, 8.5574], [8.5574, 8.5574, 8.5574], [8.5574, 8.5574, 8.5574]]

    Args:
        activation: name or `Activation`, without jumps.
        first_kernel: K of layer 1, (inputs, inputs).
        depth: layers of the stream; depth - 1 blocks.
        gamma: strength of the skip connections.
        block: one layer or several.
        points: for the sampled part of averages of four activations, None as in `flow`, in each of
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first replica.
        progress: True or False for a progress bar, None for one on terminals only.
    """
    s, skip, layers = get(activation), check_gamma(skip), block_layers(block)
    if not np.isfinite(slope_square(s, 1.0)):
        raise InvalidInput(f"activation {s.name!r} jumps: its kernels have no derivatives")
    replicas = check.integer("replicas", replicas, least=2)
    K, seeds = checked_covariance(first_kernel), range(check.integer("seed", seed), seed + replicas)
    depth, pairs = check.integer("depth", depth, least=1), Pairs.within(len(K))
    points = enough_points(len(pairs)) if points is None else check.integer("points", points, least=2)
    check.memory("vertices of all layers", 8 * len(pairs) ** 2 * (2 * depth + 8 * replicas), "use fewer inputs")
    kernels = all_kernels(s, K, depth, skip, layers)
    sources = feature_covariances(s, kernels[:-1].reshape(-1, *K.shape), pairs, points, seeds)
    size = len(pairs)
    state = _State(np.zeros((size, len(K))), np.zeros((1, size, size)), np.zeros((1, size)))
    found = [state.summary()]
    with counting_bar("flow", "blocks", progress) as report:
        for inside in kernels[:-1]:
            points_inside = [_Point(K, next(sources), *derivatives(s, K, pairs)) for K in inside]
            state = _step(s, points_inside, layers, skip, state)
            found.append(state.summary())
            report(len(found) - 1, depth - 1)
    X, V, V_errors, shifts, shift_error = (np.stack(values) for values in zip(*found, strict=True))
    return InputsFlow(pairs, kernels[:, 0], X, V, shifts, V_errors, shift_error)


class _State(NamedTuple):
    """X, and for every replica V and the metric's order 1/n."""

    X: Float[Floats, "q p"]
    V: Float[Floats, "r q q"]
    shift: Float[Floats, "r q"]

    def summary(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """X, then V and the shift with their errors."""
        return self.X, *mean_and_error(self.V, alone=0.0), *mean_and_error(self.shift, alone=0.0)


class _Point(NamedTuple):
    """At one kernel: Cov(s s, s s) of every replica, d<s s>/dK and its derivatives."""

    K: Float[Floats, "p p"]
    source: Float[Floats, "r q q"]
    slopes: Slopes
    bends: Curvature


def _step(s: Activation, inside: Sequence[_Point], layers: Sequence[BlockLayer], skip: float, state: _State) -> _State:
    """From one layer of the stream to the next."""
    here, pairs, (X, V, shift), W = inside[0], inside[0].slopes.pairs, state, layers[0].weight_variance
    J, D = here.slopes, tilts(s, here.K, here.slopes.pairs)
    skew = D @ (J @ X).T  # D X^T J^T
    # n times the covariance of the metric that the first layer makes, with itself, with z_c z_d and z_c; and its shift.
    covariance = W**2 * (here.source + J.carried(V) + skew + skew.T)
    with_squares = W * (J @ (_wick(pairs, here.K) + V) + D @ X.T)
    with_ones = W * (D @ here.K + J @ X)
    moved = W * (metric_step(here.slopes, here.bends, V, shift) + D.contracted(X))
    for point, layer in zip(inside[1:], layers[1:], strict=True):
        W = layer.weight_variance
        moved = W * metric_step(point.slopes, point.bends, covariance, moved)
        covariance = W**2 * (layer.inverse_width * point.source + point.slopes.carried(covariance))
        with_squares, with_ones = W * (point.slopes @ with_squares), W * (point.slopes @ with_ones)
    stream = with_squares + np.swapaxes(with_squares, -1, -2)
    return _State(skip * with_ones + skip**3 * X, covariance + skip**2 * stream + skip**4 * V, moved + skip**2 * shift)


def _wick(pairs: Pairs, K: Float[Floats, "p p"]) -> Float[Floats, "q q"]:
    """K_ac K_bd + K_ad K_bc between pairs (ab) and (cd)."""
    a, b = pairs.rows, pairs.columns
    return K[np.ix_(a, a)] * K[np.ix_(b, b)] + K[np.ix_(a, b)] * K[np.ix_(b, a)]
