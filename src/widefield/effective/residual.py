"""Residual networks at initialisation: recursions of kernel, three-point and four-point vertices (PDLT appendix B).

    z^(l+1)_i = R_i(z^(l)) + gamma z^(l)_i,

all hidden layers of width n and R a block of one or several layers, each sum_j W_ij sigma(z_j) + b_i. A skip connection
breaks the symmetry z_i -> - z_i of a layer, so that activations with <sigma^2 z> != 0 (ReLU, GELU, ...) also have
E[z_i z_i z_j] = X / n, which PDLT eqs. (B.24)-(B.29) leave out; X enters V and the order 1/n of the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..base.renamed import renamed
from ..gaussian import average, feature_kernel
from .single_input import SingleInput
from .wick import checked_covariance

_DEEP = 100
"""Layers from which it pays to compile a rule for <s^2>."""

_State = tuple[float, float, float]
"""X, V and the order 1/n of the metric."""


@renamed(C_b="bias_variance", C_W="weight_variance")
@dataclass(frozen=True)
class BlockLayer:
    """One layer of a residual block: variances C_b of biases and C_W of weights (times width).

    `inverse_width` is n / (neurons that this layer sums over); 1 for the first layer of a block, which sees the stream.
    """

    bias_variance: float
    weight_variance: float
    inverse_width: float = 1.0

    def __post_init__(self) -> None:
        check.number("bias_variance", self.bias_variance, least=0)
        check.number("weight_variance", self.weight_variance, least=0)
        check.number("inverse_width", self.inverse_width, least=0)


@renamed(gamma="skip")
@dataclass(frozen=True)
class ResidualFlow:
    """What one input sees, at the layers 1, ..., depth of a residual network; all arrays have this length.

    E[z_i z_j] = delta_ij (K + metric / n), E[z_i z_i z_j] = three_point / n and
    Cov(z_i^2, z_j^2) = vertex / n for i != j.
    """

    activation: Activation
    skip: float
    K: Floats
    three_point: Floats
    vertex: Floats
    metric: Floats

    @property
    def fluctuation(self) -> Floats:
        """V / K^2, which divided by the width n is the size of everything that is not Gaussian."""
        return self.vertex / self.K**2

    def readout(self, layer: BlockLayer) -> ResidualFlow:
        """A plain layer on top of each: entry l is that of a network whose last hidden layer is l."""
        single = SingleInput(self.activation)
        states = zip(self.three_point.tolist(), self.vertex.tolist(), self.metric.tolist(), strict=True)
        points = _points(single, self.K)
        steps = [_step(point, (), (layer,), 0.0, state) for point, state in zip(points, states, strict=True)]
        X, V, metric = (np.array(values) for values in zip(*steps, strict=True))
        K = layer.bias_variance + layer.weight_variance * single.square(self.K)
        return ResidualFlow(self.activation, 0.0, K, X, V, metric)


@renamed(gamma="skip")
def residual_flow(
    activation: str | Activation,
    first_kernel: float,
    depth: int,
    skip: float,
    block: BlockLayer | Sequence[BlockLayer],
    *,
    three_point: bool = True,
) -> ResidualFlow:
    """Run the recursions from layer 1, where K = `first_kernel`, to layer `depth`.

    For a block of one layer, with gamma = `skip`, chi = gamma^2 + C_W g'(K) (PDLT eqs. (B.11)-(B.26), the term in X):

        K' = C_b + C_W <s^2> + gamma^2 K
        X' = gamma chi X + gamma C_W <s^2 z>
        V' = C_W^2 (<s^4> - <s^2>^2) + chi^2 V + 4 gamma^2 (chi - gamma^2) K^2 + 2 chi (C_W <s^2 z> / K) X

    Several layers in a block act as plain ones on the metric that the first makes. `three_point=False` leaves X out,
    as printed in the book. gamma = 0 is the plain network.

    >>> flow = residual_flow("relu", 1.0, 5, 0.5, BlockLayer(0.0, 1.5))
    >>> flow.vertex.round(4).tolist(), flow.three_point.round(4).tolist()
    ([0.0, 3.5625, 8.5574, 14.2685, 20.3377], [0.0, 0.5984, 0.8976, 1.0472, 1.122])
    """
    single, layers = SingleInput.of(activation), block_layers(block)
    K1, L = check.number("first_kernel", first_kernel, above=0), check.integer("depth", depth, least=1)
    skip = check_gamma(skip)
    kernels = _kernels(single, K1, L, skip, layers)
    stream = _points(single, kernels[0], tilted=check.flag("three_point", three_point))
    inside = [_points(single, K, tilted=False) for K in kernels[1:]]
    states: list[_State] = [(0.0, 0.0, 0.0)]
    for index in range(L - 1):
        states.append(_step(stream[index], [points[index] for points in inside], layers, skip, states[-1]))
    X, V, metric = (np.array(values) for values in zip(*states, strict=True))
    return ResidualFlow(single.activation, skip, kernels[0], X, V, metric)


@renamed(gamma="skip")
def kernel_flow(
    activation: str | Activation, first_kernel: Any, depth: int, skip: float, block: BlockLayer | Sequence[BlockLayer]
) -> Floats:
    """Kernels of any inputs, (depth, N, N): K' = C_b + C_W <s s> + gamma^2 K, PDLT eq. (B.11)."""
    K, layers, skip = checked_covariance(first_kernel), block_layers(block), check_gamma(skip)
    return all_kernels(activation, K, check.integer("depth", depth, least=1), skip, layers)[:, 0]


@renamed(gamma="skip")
def all_kernels(
    activation: str | Activation, K: Floats, depth: int, skip: float, layers: Sequence[BlockLayer]
) -> Floats:
    """Kernels of the stream, and of every layer inside the block that it enters but the last: (depth, layers, N, N)."""
    found = []
    for row in range(depth):
        inside = [K]
        for layer in layers[: None if row < depth - 1 else -1]:
            norms = np.diagonal(inside[-1])
            features = feature_kernel(activation, norms[:, None], inside[-1], norms[None, :])
            inside.append(layer.bias_variance + layer.weight_variance * features)
        K = inside[-1] + skip**2 * K
        found.append(inside[: len(layers)])
    return np.array(found)


@renamed(gamma="skip")
def susceptibilities(
    activation: str | Activation, K: Any, skip: float, block: BlockLayer | Sequence[BlockLayer]
) -> tuple[Floats, Floats]:
    """(chi_parallel, chi_perpendicular) = gamma^2 + products over the block, PDLT eqs. (B.11)-(B.21)."""
    single, skip, inside = SingleInput.of(activation), check_gamma(skip), check.array("K", K)
    parallel, perpendicular = np.ones_like(inside), np.ones_like(inside)
    for layer in block_layers(block):
        parallel = parallel * layer.weight_variance * single.square_slope(inside)
        perpendicular = perpendicular * layer.weight_variance * single.slope_square(inside)
        inside = layer.bias_variance + layer.weight_variance * single.square(inside)
    return skip**2 + parallel, skip**2 + perpendicular


@renamed(gamma="skip")
def block_strength(block_square: float, stream_square: float, overlap: float, skip: float) -> float:
    """xi of z' = xi R(z) + gamma z that keeps the size of the stream, PDLT eq. (B.45), for any block R.

    (1 - gamma^2) G_zz = xi^2 G_RR + 2 gamma xi G_Rz, with G_RR, G_zz, G_Rz the averages of R R, z z and R z over
    neurons and samples.

    >>> round(block_strength(1.5, 2.0, 0.1, 0.6), 10)
    0.8846260505
    """
    RR = check.number("block_square", block_square, above=0)
    zz, Rz = check.number("stream_square", stream_square, above=0), check.number("overlap", overlap)
    skip = check_gamma(skip)
    if Rz**2 > RR * zz * (1 + 1e-12):
        raise InvalidInput(f"overlap = {Rz:g} is impossible: its square must not exceed {RR * zz:g}")
    root = np.sqrt(skip**2 * Rz**2 + (1 - skip**2) * RR * zz)
    # The form without cancellation, for the sign at hand.
    return float((1 - skip**2) * zz / (root + skip * Rz) if skip * Rz > 0 else (root - skip * Rz) / RR)


@renamed(gamma="skip")
def measured_strength(block_output: Any, stream: Any, skip: float) -> float:
    """`block_strength` from measured R and z, arrays of the same shape with neurons and samples along any axes."""
    R, z = check.array("block_output", block_output), check.array("stream", stream)
    if R.shape != z.shape or not R.size:
        raise InvalidInput(f"block_output and stream have shapes {R.shape} and {z.shape}; they must be the same")
    return block_strength(float(np.mean(R * R)), float(np.mean(z * z)), float(np.mean(R * z)), skip)


def check_gamma(skip: Any) -> float:
    """Return gamma if it is in [-1, 1]: beyond, every signal explodes."""
    return check.number("skip", skip, least=-1, most=1)


def block_layers(block: BlockLayer | Sequence[BlockLayer]) -> tuple[BlockLayer, ...]:
    """The layers as a tuple."""
    layers = tuple(block) if isinstance(block, tuple | list) else (block,)
    if not layers or not all(isinstance(layer, BlockLayer) for layer in layers):
        raise InvalidInput("block must be a BlockLayer or several of them")
    return layers


class _Point(NamedTuple):
    """At one K: g', g'', <s^4> - <s^2>^2, f = <(s^2)'> = <s^2 z> / K and f'."""

    K: float
    slope: float
    curvature: float
    spread: float
    tilt: float
    tilt_slope: float


def _points(single: SingleInput, K: Floats, *, tilted: bool = True) -> list[_Point]:
    """The averages at many K."""
    if single.activation.homogeneity == 1:  # powers of K
        one = np.ones(1)
        g, lean = single.square(one), tilt(single, one) * tilted
        spread = (single.fourth(one) - g**2) * K**2
        columns = (K, g + 0 * K, 0 * K, spread, lean * np.sqrt(K), lean / (2 * np.sqrt(K)))
    else:
        spread = single.fourth(K) - single.square(K) ** 2
        tilts = (tilt(single, K), tilt_slope(single, K)) if tilted else (0 * K, 0 * K)
        columns = (K, single.square_slope(K), single.square_curvature(K), spread, *tilts)
    return [_Point(*row) for row in np.stack(columns, 1).tolist()]


def tilt(single: SingleInput, K: Floats) -> Floats:
    """<2 s s'>, the average of the derivative of s^2."""
    s = single.activation
    if s.kinks:
        return average(lambda z: s(z) ** 2 * z, K, kinks=s.kinks) / K
    return average(lambda z: 2 * s(z) * s.derivative(1)(z), K, kinks=())


def tilt_slope(single: SingleInput, K: Floats) -> Floats:
    """d<2 s s'>/dK = <3 s' s'' + s s'''>, or with kinks <s^2 (x^3 - 3 x)> / (2 K^(3/2)), x = z / sqrt K."""
    s = single.activation
    if not s.kinks:
        d = [s.derivative(order) for order in range(4)]
        return average(lambda z: 3 * d[1](z) * d[2](z) + d[0](z) * d[3](z), K, kinks=())
    cubic = average(lambda z: s(z) ** 2 * z**3, K, kinks=s.kinks)
    linear = average(lambda z: s(z) ** 2 * z, K, kinks=s.kinks)
    return (cubic / K - 3 * linear) / (2 * K**2)


def _kernels(single: SingleInput, K: float, depth: int, skip: float, layers: Sequence[BlockLayer]) -> list[Floats]:
    """Kernels of the stream, and of every layer inside the blocks but the last."""
    closed = single.activation.square is not None or bool(single.activation.kinks)
    if not closed and depth >= _DEEP:
        with double_precision():
            rule = _fixed_rule(single.activation)
            found = _iterate(rule, K, depth, skip, layers)
            ends = np.array([min(map(np.min, found)), max(map(np.max, found))])
            quick = [rule(k) for k in ends]
        if np.allclose(quick, single.square(ends), rtol=1e-12, atol=0):
            return found
    return _iterate(lambda k: float(single.square(k)), K, depth, skip, layers)


def _fixed_rule(activation: Activation) -> Callable[[float], float]:
    """<s^2> by the trapezoid rule, exact to rounding for smooth s that varies on the scale of sqrt K, and quick."""
    nodes = np.linspace(-12.0, 12.0, 801)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    rule = jax.jit(lambda root: jnp.dot(weights, activation.function(root * nodes) ** 2))
    return lambda K: float(rule(np.sqrt(K)))


def _iterate(
    square: Callable[[float], float], K: float, depth: int, skip: float, layers: Sequence[BlockLayer]
) -> list[Floats]:
    rows = []
    for index in range(depth):
        row = [K]
        for layer in layers:
            row.append(layer.bias_variance + layer.weight_variance * square(row[-1]))
        rows.append(row[:-1])
        K = row[-1] + skip**2 * K
        if not 1e-100 < K < 1e100:
            raise InvalidInput(
                f"K = {K:g} at layer {index + 2}: nearer to criticality or with fewer layers it stays finite"
            )
    return list(np.array(rows).T)


def _step(here: _Point, inside: Sequence[_Point], layers: Sequence[BlockLayer], skip: float, state: _State) -> _State:
    """From X, V and the metric's order 1/n at one layer of the stream to the next."""
    X, V, metric = state
    W = layers[0].weight_variance
    # n times the variance of the metric that the first layer makes, its covariance with z_j^2 and z_j, and its shift.
    variance = W**2 * (here.spread + here.slope**2 * V + 2 * here.slope * here.tilt * X)
    with_square = W * (here.slope * (2 * here.K**2 + V) + here.tilt * X)
    with_one = W * (here.tilt * here.K + here.slope * X)
    shift = W * (here.slope * metric + here.curvature * V / 2 + here.tilt_slope * X)
    for point, layer in zip(inside, layers[1:], strict=True):
        chi = layer.weight_variance * point.slope
        shift = chi * shift + layer.weight_variance * point.curvature * variance / 2
        variance = chi**2 * variance + layer.weight_variance**2 * point.spread * layer.inverse_width
        with_square, with_one = chi * with_square, chi * with_one
    three = skip * with_one + skip**3 * X
    return three, variance + 2 * skip**2 * with_square + skip**4 * V, shift + skip**2 * metric
