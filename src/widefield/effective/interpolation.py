"""Beside one training input and between two: exact answers of kernels at infinite width, smooth or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..kernels.prediction import Blocks, response, trained
from ..kernels.static import StaticKernel
from .single_input_flow import ScaleInvariant


class Beside(NamedTuple):
    """At a test input beside one training input: Theta_-+/Theta_++ - 1, and the variance over networks."""

    robustness: float
    variance: float


def beside_training_input(nngp: ArrayLike, ntk: ArrayLike) -> Beside:
    """PDLT eqs. (10.56), (10.57) from kernels (2, 2) of a training and a test input, in this order.

    The mean of the test output is (1 + robustness) y, and its variance K_-- - 2 r K_-+ + r^2 K_++ with
    r = 1 + robustness.

    >>> beside_training_input([[1.0, 0.5], [0.5, 1.0]], [[2.0, 1.0], [1.0, 2.0]])
    Beside(robustness=-0.5, variance=0.75)
    """
    parts = []
    for name, kernel in (("nngp", nngp), ("ntk", ntk)):
        K = check.array(name, kernel, ndim=2)
        if K.shape != (2, 2):
            raise InvalidInput(f"{name} has shape {K.shape}; it must be (2, 2): one training and one test input")
        parts.append(Blocks(K[:1, :1], K[1:, :1], K[1:, 1:]))
    found = trained(parts[0], parts[1], [1.0])
    return Beside(float(found.mean[0, 0]) - 1, float(found.covariance[0, 0]))


class Interpolation(NamedTuple):
    """Outputs w_+ y_+ + w_- y_- on the line, or arc, through two training inputs, and their variance over networks."""

    weights: Floats
    """(points, 2): of y_+, y_-."""

    variance: Floats


def interpolation_weights(kernel: StaticKernel, x_plus: ArrayLike, x_minus: ArrayLike, s: ArrayLike) -> Interpolation:
    """Networks trained on two inputs, tested at s x_+ + (1-s) x_-, PDLT eqs. (10.105), (10.106); exact.

    0 <= s <= 1 interpolates, other s extrapolate. Deep linear networks have the weights s, 1 - s, PDLT eq. (10.104).
    """
    ends = np.stack([check.array("x_plus", x_plus, ndim=1), check.array("x_minus", x_minus, ndim=1)])
    at = np.atleast_1d(check.array("s", s))
    return weights_at(kernel, ends, at[:, None] * ends[0] + (1 - at[:, None]) * ends[1])


def weights_at(kernel: StaticKernel, training: ArrayLike, x: ArrayLike) -> Interpolation:
    """The same for any training inputs and test inputs, as on an arc between two of equal norms."""
    found = [kernel(*pair) for pair in ((training,), (x, training), (x,))]
    nngp, ntk = (Blocks(*(getattr(block, name) for block in found)) for name in ("nngp", "ntk"))
    spread = trained(nngp, ntk, np.zeros(len(ntk.train))).covariance
    return Interpolation(response(ntk), np.diag(spread).copy())


def kinked_interpolation(activation: str | Activation, depth: int, angle: float, s: ArrayLike) -> Interpolation:
    """The leading order of small angles for critical scale-invariant networks with a kink; variance in units of K_d.

    Training inputs of equal norms at an angle phi, test input on the arc at s from x_- (0) to x_+ (1); L = `depth`
    layers of weights, the same rates in all, k = rho (L-1)/2 (`ntk_cusp`):

        inside:             weights s, 1 - s         variance (4/3) rho (L-1) s^2 (1-s)^2 phi^3 K_d
        at tau beyond x_+:  weights 1 - k tau, 0     variance (1 + k^2) tau^2 K_d

    Extrapolation is flat, and the mean has a kink at every training input, since the NTK has a cusp there; smooth
    networks extrapolate linearly. Valid for rho L phi << 1.

    >>> kinked_interpolation("relu", 3, 0.1, [0.25, 1.5]).weights.round(6).tolist()
    [[0.25, 0.75], [0.984085, 0.0]]
    """
    rho, L = ScaleInvariant.of(activation).rho, check.integer("depth", depth, least=1)
    if rho == 0:
        raise InvalidInput("activation = 'linear' has no kink: weights are s and 1 - s everywhere")
    phi, at = check.number("angle", angle, above=0.0), np.atleast_1d(check.array("s", s))
    beyond = phi * np.maximum(np.maximum(at - 1, -at), 0.0)
    k, inside = rho * (L - 1) / 2, beyond == 0
    near = np.where(inside, at, np.where(at > 1, 1 - k * beyond, 0.0))
    far = np.where(inside, 1 - at, np.where(at < 0, 1 - k * beyond, 0.0))
    between = 4 / 3 * rho * (L - 1) * (at * (1 - at)) ** 2 * phi**3
    return Interpolation(np.stack([near, far], axis=1), np.where(inside, between, (1 + k**2) * beyond**2))
