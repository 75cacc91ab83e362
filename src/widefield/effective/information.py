"""Entropy and mutual information of nearly Gaussian layers, for any number of inputs (PDLT appendix A).

Metric G and vertex V are those of a layer, E[z_i;a z_j;b] = delta_ij G_ab and
E[z z z z]_connected = (delta_12 delta_34 V_(12)(34) + 2 permutations) / n, with n the width of the layer before.
For one input both may be plain numbers, and everything depends on q = V / (n G^2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .entropies import in_unit

ORDERS = (0, 2, 3)
"""Powers of V / n up to which expansions go: there is no first one."""


def layer_entropy(
    metric: Any,
    vertex: Any,
    width: float,
    neurons: int,
    *,
    three_point: float = 0.0,
    order: int = 3,
    unit: str = "nats",
) -> float:
    """Differential entropy of `neurons` m of a layer, for all inputs together.

    One input, PDLT eq. (A.66), q = vertex / (width metric^2):

        S = m/2 log(2 pi e G) - (m^2 + 2 m)/16 q^2 + m (m + 2)(m + 8)/48 q^3 + O(q^4)

    Any inputs: S = m/2 log|2 pi e G| - tr(k^2)/48 + tr(k^3)/48, with k the four-point cumulant of all (neuron, input)
    in units where G = 1, as a matrix between pairs. It follows like (A.45) because the cumulants of order six and
    eight are orthogonal to the fourth under the Gaussian.

    `three_point` X is that of layers fed by a skip connection, one input only, E[z_i z_i z_j] = X / n; it costs
    (m^2 + 2 m)/4 X^2 / (n^2 G^3) and is known to second order only.

    >>> round(layer_entropy(1.0, 2.0, 100, 1, order=0), 6)
    1.418939
    """
    m = check.integer("neurons", neurons, least=1)
    G, scaled = _whiten(metric, vertex, width)
    gaussian = 0.5 * m * (len(G) * math.log(2 * math.pi * math.e) + float(np.linalg.slogdet(G)[1]))
    correction = _correction(scaled, m, order) if _order(order) else 0.0
    skew = check.number("three_point", three_point)
    if skew and len(G) > 1:
        raise InvalidInput(f"three_point = {skew:g} is for one input; there are {len(G)}")
    if skew and order:
        correction -= (m**2 + 2 * m) / 4 * skew**2 / (float(width) ** 2 * float(G[0, 0]) ** 3)
    return in_unit(gaussian + correction, unit)


def mutual_information(
    metric: Any, vertex: Any, width: float, neurons: tuple[int, int], *, order: int = 3, unit: str = "nats"
) -> float:
    """Information between two groups of neurons of one layer, with `neurons` (m1, m2).

    One input, PDLT eq. (A.67): I = m1 m2/8 q^2 - m1 m2 (20 + 3 m1 + 3 m2)/48 q^3; any inputs to second order,
    m1 m2/8 sum V_(ab)(cd) V^(ab)(cd) / n^2. Zero at infinite width, (A.27).

    >>> round(mutual_information(1.0, 2.0, 100, (1, 1)), 12)
    4.5666667e-05
    """
    first, second = _groups(neurons, 2)
    _, scaled = _whiten(metric, vertex, width)
    if not _order(order):
        return 0.0
    parts = [_correction(scaled, m, order) for m in (first, second, first + second)]
    return in_unit(parts[0] + parts[1] - parts[2], unit)


def tripartite_information(
    metric: Any, vertex: Any, width: float, neurons: tuple[int, int, int], *, unit: str = "nats"
) -> float:
    """I3 between three groups of neurons, m1 m2 m3/8 q^3 for one input, PDLT eq. (A.75): the neurons are redundant."""
    x, y, z = _groups(neurons, 3)
    _, scaled = _whiten(metric, vertex, width)
    terms = ((x, 1), (y, 1), (z, 1), (x + y, -1), (y + z, -1), (z + x, -1), (x + y + z, 1))
    return in_unit(sum(sign * _correction(scaled, m, 3) for m, sign in terms), unit)


def input_information(kernel: Any, *, unit: str = "nats") -> float:
    """Information that a Gaussian neuron's values at two inputs have about each other, PDLT eq. (A.28).

        I = 1/2 log(K11 K22 / (K11 K22 - K12^2)),

    for equal norms 1/2 log((1 + kappa)^2 / (4 kappa)) with kappa = K_[2] / K_[0], (A.29). Infinite for parallel inputs.

    >>> round(input_information([[1.01, 0.99], [0.99, 1.01]]), 10)
    1.6193882433
    """
    K = check.array("kernel", kernel)
    if K.shape != (2, 2) or K[0, 1] != K[1, 0] or K[0, 0] <= 0 or K[1, 1] <= 0:
        raise InvalidInput("kernel must be symmetric, 2 x 2, and positive on the diagonal")
    determinant = float(K[0, 0] * K[1, 1] - K[0, 1] ** 2)
    if determinant < -1e-12 * K[0, 0] * K[1, 1]:
        raise InvalidInput(f"kernel has the determinant {determinant:g} < 0: no covariance")
    if determinant <= 0:
        return math.inf
    return in_unit(0.5 * math.log(K[0, 0] * K[1, 1] / determinant), unit)


def mixture_entropy(variances: Any, neurons: int, *, weights: Any = None, unit: str = "nats") -> float:
    """Exact entropy of m neurons that share a random variance, z_i ~ N(0, G), G = `variances` with these weights.

    That is every layer of a plain network seen by one input, at any width: G is its stochastic metric, PDLT eq.
    (4.69). The density depends on the radius alone; the integral is taken over the logarithm of the radius.

    >>> round(mixture_entropy([1.0], 1), 12) == round(0.5 * math.log(2 * math.pi * math.e), 12)
    True
    """
    m = check.integer("neurons", neurons, least=1)
    G, w = _law(variances, weights)
    return in_unit(_radial_entropy(G, w, m), unit)


def mixture_information(variances: Any, neurons: tuple[int, int], *, weights: Any = None, unit: str = "nats") -> float:
    """Exact mutual information between two groups of neurons that share a random variance; see `mixture_entropy`."""
    first, second = _groups(neurons, 2)
    G, w = _law(variances, weights)
    parts = [_radial_entropy(G, w, m) for m in (first, second, first + second)]
    return in_unit(parts[0] + parts[1] - parts[2], unit)


def deep_information(fluctuation: float, neurons: tuple[int, int], *, unit: str = "nats") -> float:
    """Mutual information at infinite depth and width with nu L / n = `fluctuation` fixed, to all orders in it.

    For critical scale-invariant networks log G is then normal with this variance, since G is a product of independent
    factors. It grows with depth for good: the maximum of the expansion (PDLT eq. (A.71)) is where its third order
    turns it, and marks the end of its range.
    """
    spread = check.number("fluctuation", fluctuation, least=0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return mixture_information(
        np.exp(math.sqrt(spread) * nodes - spread / 2), neurons, weights=weights / weights.sum(), unit=unit
    )


def _order(order: int) -> int:
    if order not in ORDERS:
        raise InvalidInput(f"order = {order!r} must be one of {', '.join(map(str, ORDERS))}")
    return order


def _groups(neurons: Any, count: int) -> list[int]:
    if not isinstance(neurons, tuple | list) or len(neurons) != count:
        raise InvalidInput(f"neurons = {neurons!r} must be {count} numbers of neurons")
    return [check.integer("neurons", m, least=1) for m in neurons]


def _whiten(metric: Any, vertex: Any, width: float) -> tuple[Floats, Floats]:
    """G as a matrix, and V / n in units where G = 1."""
    G, V, n = check.array("metric", metric), check.array("vertex", vertex), check.number("width", width, above=0)
    G = G.reshape(1, 1) if G.ndim == 0 else G
    V = V.reshape(1, 1, 1, 1) if V.ndim == 0 else V
    if G.ndim != 2 or G.shape[0] != G.shape[1] or V.shape != G.shape * 2:
        raise InvalidInput(f"metric and vertex have shapes {G.shape} and {V.shape}; they must be (N, N), (N, N, N, N)")
    size = np.abs(V).max(initial=0.0)
    turned = (V.transpose(1, 0, 2, 3), V.transpose(2, 3, 0, 1))
    if not np.allclose(G, G.T, rtol=1e-9, atol=0) or any(np.abs(V - other).max() > 1e-8 * size for other in turned):
        raise InvalidInput("metric must be symmetric, and vertex under a<->b, c<->d and (ab)<->(cd)")
    try:
        root = np.linalg.inv(np.linalg.cholesky(G))
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "metric is not positive definite: inputs must be different and the kernel positive"
        ) from None
    return G, np.einsum("ai,bj,ck,dl,ijkl->abcd", root, root, root, root, V, optimize=True) / n


def _correction(scaled: Floats, neurons: int, order: int) -> float:
    """(- tr k^2 + tr k^3) / 48.

    Between pairs of neurons k = |1><1| x V + 1 x W + P x (W P), W_(ab)(cd) = V_(ac)(bd), P the exchange: it is
    different on the trace, on what is symmetric without trace and on what is antisymmetric.
    """
    m, pairs = neurons, (scaled.shape[0] ** 2,) * 2
    crossed = scaled.transpose(0, 2, 1, 3)
    exchanged = crossed.transpose(0, 1, 3, 2).reshape(pairs)
    even, odd = crossed.reshape(pairs) + exchanged, crossed.reshape(pairs) - exchanged
    trace = m * scaled.reshape(pairs) + even
    parts = ((1.0, trace), (m * (m + 1) / 2 - 1, even), (m * (m - 1) / 2, odd))
    total = 0.0
    for copies, k in parts:
        square = k @ k
        total += copies * (-float(np.trace(square)) + (float(np.trace(square @ k)) if order == 3 else 0.0))
    return total / 48


def _law(variances: Any, weights: Any) -> tuple[Floats, Floats]:
    G = check.array("variances", variances, ndim=1)
    w = np.full(G.shape, 1 / max(len(G), 1)) if weights is None else check.array("weights", weights, ndim=1)
    if not len(G) or (G <= 0).any():
        raise InvalidInput("variances must be at least one positive number")
    if w.shape != G.shape or (w < 0).any() or abs(w.sum() - 1) > 1e-9:
        raise InvalidInput("weights must be >= 0, one for every variance, with the sum 1")
    return G[w > 0], w[w > 0]


def _radial_entropy(G: Floats, w: Floats, m: int) -> float:
    """- integral of p log p; the trapezoid rule in t = log r converges exponentially."""
    step = 0.05
    reach = 0.5 * np.log(G)
    t = np.arange(reach.min() - 38.0 / m - 2.0, reach.max() + 3.0, step)
    log_area = math.log(2.0) + 0.5 * m * math.log(math.pi) - math.lgamma(m / 2)
    logs = np.empty(len(t))
    rows = max(1, 2_000_000 // len(G))
    for start in range(0, len(t), rows):
        radius = np.exp(2 * t[start : start + rows, None])
        exponent = np.log(w) - 0.5 * m * np.log(2 * math.pi * G) - 0.5 * radius / G
        top = exponent.max(1)
        logs[start : start + rows] = top + np.log(np.sum(np.exp(exponent - top[:, None]), 1))
    return float(-step * np.sum(np.exp(log_area + m * t + logs) * logs))
