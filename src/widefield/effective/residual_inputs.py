"""Residual networks at initialisation seen by several inputs: kernel, three-point and four-point vertices.

Products over pairs (ab) of inputs with a <= b: with T_ab(K) = C_b + C_W <s_a s_b>, a layer acts on covariances of the
metric through the matrix J = dT/dK between pairs, and on the stream itself through D_(ab)c = C_W <d(s_a s_b)/dz_c>.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import check
from ..activations import Activation, get
from ..errors import InvalidInput
from ..gaussian import average_four, average_product
from .residual import BlockLayer, check_gamma

Floats = NDArray[np.float64]
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class InputsFlow:
    """At the layers 1, ..., depth: K (depth, N, N), three_point X_(ab)c (depth, N, N, N), vertex V_(ab)(cd).

    For neurons i != j, n E[z_i;a z_i;b z_j;c] = X_(ab)c and n Cov(z_i;a z_i;b, z_j;c z_j;d) = V_(ab)(cd).
    """

    K: Floats
    three_point: Floats
    vertex: Floats


def residual_inputs_flow(
    activation: str | Activation, first_kernel: Any, depth: int, gamma: float, layer: BlockLayer
) -> InputsFlow:
    """Run the recursions for several inputs, none parallel to another, and blocks of one layer.

    With A = J + gamma^2 and W_(ab)(cd) = K_ac K_bd + K_ad K_bc (PDLT eq. (B.24) and the terms in X):

        K' = C_b + C_W <s s> + gamma^2 K
        X' = gamma (A X + D K)
        V' = C_W^2 (<s s s s> - <s s><s s>) + A V A^T + gamma^2 (J W + W J^T) + A X D^T + D X^T A^T
    """
    s, gamma, K = get(activation), check_gamma(gamma), check.array("first_kernel", first_kernel, ndim=2)
    if K.shape[0] != K.shape[1] or not np.allclose(K, K.T, rtol=1e-12) or np.linalg.eigvalsh(K).min() <= 0:
        raise InvalidInput("first_kernel must be symmetric and positive definite")
    if not isinstance(layer, BlockLayer):
        raise InvalidInput("layer must be one BlockLayer")
    pairs = list(combinations_with_replacement(range(len(K)), 2))
    X, V = np.zeros((len(pairs), len(K))), np.zeros((len(pairs),) * 2)
    found = [(K, X, V)]
    for _ in range(check.integer("depth", depth, least=1) - 1):
        found.append(_step(s, pairs, layer, gamma, *found[-1]))
    kernels, three, four = (np.stack(values) for values in zip(*found, strict=True))
    index = _index(pairs, len(K))
    return InputsFlow(kernels, three[:, index], four[:, index[:, :, None, None], index])


def _step(
    s: Activation, pairs: Pairs, layer: BlockLayer, gamma: float, K: Floats, X: Floats, V: Floats
) -> tuple[Floats, Floats, Floats]:
    mean, J, D = _responses(s, pairs, K)
    J, D = layer.C_W * J, layer.C_W * D
    A = J + gamma**2 * np.eye(len(pairs))
    skew = A @ X @ D.T
    stream = gamma**2 * J @ _wick(pairs, pairs, K)
    source = layer.C_W**2 * (_fourth(s, pairs, K) - np.outer(mean, mean))
    K_next = layer.C_b + layer.C_W * mean[_index(pairs, len(K))] + gamma**2 * K
    return K_next, gamma * (A @ X + D @ K), source + A @ V @ A.T + stream + stream.T + skew + skew.T


def _responses(s: Activation, pairs: Pairs, K: Floats) -> tuple[Floats, Floats, Floats]:
    """<s_a s_b> and its responses d/dK_(cd) and <d(s_a s_b)/dz_c>, from averages with z_c z_d - K_cd and z_c.

    By parts these averages are the responses times <z z z z>_connected-in-pairs and K, so that kinks need no care.
    """
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    entries = (K[first, first], K[first, second], K[second, second])

    def product(p: int, q: int) -> Floats:
        return average_product(lambda z: s(z) * z**p, lambda z: s(z) * z**q, *entries, kinks=s.kinks)

    mean = product(0, 0)
    squares, ones = (product(2, 0), product(1, 1), product(0, 2)), (product(1, 0), product(0, 1))
    J, D = np.zeros((len(pairs),) * 2), np.zeros((len(pairs), len(K)))
    place = {pair: row for row, pair in enumerate(pairs)}
    for row, (a, b) in enumerate(pairs):
        if a == b:
            J[row, row] = (squares[1][row] - K[a, a] * mean[row]) / (2 * K[a, a] ** 2)
            D[row, a] = ones[0][row] / K[a, a]
            continue
        inner: Pairs = [(a, a), (a, b), (b, b)]
        raised = [squares[i][row] - K[c, d] * mean[row] for i, (c, d) in enumerate(inner)]
        J[row, [place[pair] for pair in inner]] = np.linalg.solve(_wick(inner, inner, K).T, raised)
        D[row, [a, b]] = np.linalg.solve(K[np.ix_([a, b], [a, b])], [ones[0][row], ones[1][row]])
    return mean, J, D


def _wick(left: Pairs, right: Pairs, K: Floats) -> Floats:
    """K_ac K_bd + K_ad K_bc."""
    return np.array([[K[a, c] * K[b, d] + K[a, d] * K[b, c] for c, d in right] for a, b in left])


def _fourth(s: Activation, pairs: Pairs, K: Floats) -> Floats:
    """<s_a s_b s_c s_d> between pairs."""
    known: dict[tuple[int, ...], float] = {}
    found = np.zeros((len(pairs),) * 2)
    for row, column in combinations_with_replacement(range(len(pairs)), 2):
        chosen = tuple(sorted(pairs[row] + pairs[column]))
        if chosen not in known:
            known[chosen] = average_four(s, s, s, s, K[np.ix_(chosen, chosen)])
        found[row, column] = found[column, row] = known[chosen]
    return found


def _index(pairs: Pairs, inputs: int) -> NDArray[np.int64]:
    """Place of the pair (ab) in the list, for all a and b."""
    index = np.zeros((inputs, inputs), dtype=np.int64)
    for row, (a, b) in enumerate(pairs):
        index[a, b] = index[b, a] = row
    return index
