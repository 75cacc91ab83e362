"""Growth of fluctuations with depth, and the depth, width or skip strength that makes the most of them.

At criticality V / (n K^2) = nu L / n. The expansion of the mutual information between two halves of the outputs has its
maximum at L / n = r*, PDLT eqs. (A.68)-(A.74); with skip connections nu depends on gamma, (B.29)-(B.37).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

from ..activations import Activation, get
from ..base import check
from ..base.errors import InvalidInput
from ..base.renamed import renamed
from ..gaussian import average
from .entropies import in_unit
from .residual import BlockLayer, check_gamma, residual_flow
from .single_input import SingleInput
from .universality import critical_point


@renamed(ratio="aspect_ratio", gamma="skip")
@dataclass(frozen=True)
class Optimum:
    """A network at the maximum of the mutual information between two halves of its outputs."""

    aspect_ratio: float
    """L / n."""
    rate: float
    """nu: fluctuations are nu L / n."""
    skip: float
    """gamma."""
    information: float
    """In nats."""

    @property
    def bits(self) -> float:
        """The information in bits."""
        return in_unit(self.information, "bits")


@renamed(ratio="aspect_ratio", gamma="skip")
@dataclass(frozen=True)
class OptimalDepth(Optimum):
    """The same from the recursion itself, for one width and first kernel."""

    depth: int
    width: int


@renamed(gamma="skip", layers="block_layers")
def critical_block(activation: str | Activation, skip: float, block_layers: int = 1) -> tuple[BlockLayer, ...]:
    """A critical residual block: plain critical layers, the last with both variances times 1 - gamma^2.

    For one layer (C_b, C_W) = (0, (1 - gamma^2) / A_2) and (0, (1 - gamma^2) / s_1^2) (PDLT appendix B); half-stable
    activations keep their K* in the same way. |gamma| = 1 cannot be critical.

    >>> critical_block("relu", 0.5)
    (BlockLayer(bias_variance=0.0, weight_variance=1.5, inverse_width=1.0),)
    """
    point, count = critical_point(activation), check.integer("block_layers", block_layers, least=1)
    share = 1 - _critical_gamma(skip) ** 2
    plain = BlockLayer(point.bias_variance, point.weight_variance)
    return (plain,) * (count - 1) + (BlockLayer(share * point.bias_variance, share * point.weight_variance),)


@renamed(gamma="skip", layers="block_layers")
def fluctuation_rate(
    activation: str | Activation, skip: float = 0.0, *, block_layers: int = 1, three_point: bool = True
) -> float:
    """nu with V / (n K^2) = nu L / n at criticality, where L counts blocks of `block_layers` layers.

    Plain networks: 2/3 in the K* = 0 class, 3 A_4 / A_2^2 - 1 for scale-invariant ones (PDLT eqs. (A.69), (A.70)), and
    C_W^2 (<s^4> - <s^2>^2) / K*^2 for half-stable ones (until depths where K - K* shows). With skip connections

        scale-invariant, half-stable:  s (s nu(0) + 4 gamma^2 + 2 gamma (1 + gamma) t),  s = 1 - gamma^2,
        K* = 0:                        2/3 (1 - gamma^4),

    t = (C_W <s^2 z>)^2 / K*^3 at gamma = 0, from the three-point vertex; without it this is (B.29) and (B.35).

    >>> round(fluctuation_rate("relu"), 6), round(fluctuation_rate("relu", 0.5), 6)
    (5.0, 6.427289)
    >>> round(fluctuation_rate("relu", 0.5, three_point=False), 6)
    3.5625
    """
    return float(_rate(activation, block_layers, three_point)(_critical_gamma(skip)))


@renamed(gamma="skip", layers="block_layers")
def kernel_coefficient(activation: str | Activation, skip: float = 0.0, *, block_layers: int = 1) -> float:
    """c with K -> c / l in the K* = 0 class: c = 1 / (-a_1 (1 - gamma^2)), PDLT eq. (B.32), for blocks of one layer."""
    if critical_point(activation).universality_class != "zero-kernel":
        raise InvalidInput(f"the kernel of {get(activation).name} does not decay at criticality")
    count = check.integer("block_layers", block_layers, least=1)
    return 1 / (-_curvature(SingleInput.of(activation)) * (1 - _critical_gamma(skip) ** 2) * count)


@renamed(ratio="aspect_ratio")
def information_of_ratio(
    rate: float, aspect_ratio: float, neurons: tuple[float, float], *, order: int = 3, unit: str = "nats"
) -> float:
    """I(r) = m1 m2/8 (nu r)^2 - m1 m2 (20 + 3 m1 + 3 m2)/48 (nu r)^3, PDLT eq. (A.71); its first term if order = 2."""
    q = check.number("rate", rate, least=0) * check.number("aspect_ratio", aspect_ratio, least=0)
    first, second = (check.number("neurons", m, above=0) for m in neurons)
    if order not in (2, 3):
        raise InvalidInput(f"order = {order!r} must be 2 or 3")
    cubic = (20 + 3 * (first + second)) / 48 * q**3 if order == 3 else 0.0
    return in_unit(first * second * (q**2 / 8 - cubic), unit)


@renamed(gamma="skip", layers="block_layers")
def optimal_aspect_ratio(
    activation: str | Activation, outputs: int, skip: float = 0.0, *, block_layers: int = 1, three_point: bool = True
) -> Optimum:
    """r* = 4 / (20 + 3 n_L) / nu(gamma), PDLT eqs. (A.73), (B.36), for two halves of `outputs` n_L.

    The information there is (A.74) for even n_L: 1/6 (n_L / (20 + 3 n_L))^2, whatever the activation.

    >>> best = optimal_aspect_ratio("tanh", 10)
    >>> round(best.aspect_ratio, 12), round(150 * best.information, 12)
    (0.12, 1.0)
    """
    rate = fluctuation_rate(activation, skip, block_layers=block_layers, three_point=three_point)
    return _optimum(rate, _best_fluctuation(outputs) / rate, outputs, float(skip))


@renamed(ratio="aspect_ratio", layers="block_layers")
def optimal_gamma(
    activation: str | Activation, aspect_ratio: float, outputs: int, *, block_layers: int = 1, three_point: bool = True
) -> Optimum:
    """The skip strength 0 <= gamma < 1 that makes a given L / n optimal: nu(gamma) = 4 / ((20 + 3 n_L) r), PDLT (B.36).

    Of two solutions (ReLU below r*(0)) the larger, which grows with r. If there is none, the network is too shallow
    for any gamma, and the one with the largest nu is best: 0 wherever nu decreases.

    >>> round(optimal_gamma("tanh", 0.2, 10).skip, 7)
    0.7952707
    """
    r = check.number("aspect_ratio", aspect_ratio, above=0)
    rates = _rate(activation, block_layers, three_point)
    roots = _solutions(rates, _best_fluctuation(outputs) / r)
    skip = roots[-1] if roots else max(_turning(rates)[:-1], key=lambda x: float(rates(x)))
    return _optimum(float(rates(skip)), r, outputs, skip)


@renamed(gamma="skip")
def optimal_depth(
    activation: str | Activation, width: int, outputs: int, first_kernel: float = 1.0, skip: float = 0.0
) -> OptimalDepth:
    """Maximise the information over the depth with V / (n K^2) of the recursion itself, PDLT eq. (A.67).

    The last layer is a plain one. Approaches n r* as the width grows; in the K* = 0 class slowly, because there
    V / K^2 = nu l only after many layers.
    """
    n, half = check.integer("width", width, least=1), _halves(outputs)
    guess = optimal_aspect_ratio(activation, outputs, skip)
    reach = math.ceil(3 * n * guess.aspect_ratio) + 20
    point = critical_point(activation)
    flow = residual_flow(activation, first_kernel, reach, skip, critical_block(activation, skip))
    q = flow.readout(BlockLayer(point.bias_variance, point.weight_variance)).fluctuation / n
    found = [information_of_ratio(1.0, float(x), half) for x in q]
    best = int(np.argmax(found))
    return OptimalDepth((best + 2) / n, guess.rate, guess.skip, found[best], best + 2, n)


def information_drift(perpendicular: float, kappa: float = 0.0, *, unit: str = "nats") -> float:
    """Change per layer of the information between two inputs, K_[2] / K_[0] = `kappa`, with chi_perp = `perpendicular`.

    At a fixed kernel kappa -> chi_perp kappa, so that by PDLT eq. (A.29) it changes by
    log((1 + chi kappa) / (1 + kappa)) - log(chi) / 2: zero at criticality alone. Above, inputs forget each other;
    below, they become one.
    """
    chi, ratio = check.number("perpendicular", perpendicular, above=0), check.number("kappa", kappa, least=0)
    return in_unit(math.log1p(chi * ratio) - math.log1p(ratio) - 0.5 * math.log(chi), unit)


def _halves(outputs: int) -> tuple[int, int]:
    total = check.integer("outputs", outputs, least=2)
    return total // 2, total - total // 2


def _best_fluctuation(outputs: int) -> float:
    return 4 / (20 + 3 * sum(_halves(outputs)))


def _optimum(rate: float, aspect_ratio: float, outputs: int, skip: float) -> Optimum:
    return Optimum(aspect_ratio, rate, skip, information_of_ratio(rate, aspect_ratio, _halves(outputs)))


def _critical_gamma(skip: float) -> float:
    skip = check_gamma(skip)
    if abs(skip) == 1:
        raise InvalidInput("skip = +-1 cannot be critical: the kernel grows with every layer")
    return skip


def _rate(activation: str | Activation, block_layers: int, three_point: bool) -> Polynomial:
    """nu as a polynomial in gamma."""
    single, point = SingleInput.of(activation), critical_point(activation)
    count, tilt = check.integer("block_layers", block_layers, least=1), 0.0
    K = point.kernel or 1.0  # where any kernel will do, 1 will
    source = Polynomial([1, 0, -2, 0, 1]) * count
    stream = Polynomial([0, 0, 1, 0, -1]) * 4
    if point.universality_class == "zero-kernel":  # chi_par = 1 - 2 / l takes two thirds away
        return (2 * source + stream) / 3
    if check.flag("three_point", three_point):
        tilt = (point.weight_variance * _third(single, K)) ** 2 / K**3
    spread = float(single.fourth(K) - single.square(K) ** 2)
    return source * (point.weight_variance**2 * spread / K**2) + stream + Polynomial([0, 1, 1, -1, -1]) * (2 * tilt)


def _third(single: SingleInput, K: float) -> float:
    s = single.activation
    return float(average(lambda z: s(z) ** 2 * z, K, kinks=s.kinks))


def _turning(rates: Polynomial) -> list[float]:
    """0, the places within (0, 1) where nu turns, and 1."""
    found = np.asarray(rates.deriv().roots(), dtype=np.complex128)
    inside = sorted(float(x.real) for x in found if abs(x.imag) < 1e-9 and 1e-9 < x.real < 1 - 1e-9)
    return [0.0, *inside, 1.0]


def _solutions(rates: Polynomial, target: float) -> list[float]:
    """gamma in [0, 1) with nu(gamma) = target, in order."""
    ends, found = _turning(rates), []
    if abs(rates(0.0) - target) < 1e-12 * target:
        found.append(0.0)
    for low, high in pairwise(ends):
        below, above = rates(low) - target, rates(high) - target
        if below * above < 0 and not (low == 0.0 and found):
            found.append(float(brentq(lambda x: rates(x) - target, low, high, xtol=1e-15)))
    return found


def _curvature(single: SingleInput) -> float:
    """a_1 = s_3 / s_1 + 3/4 (s_2 / s_1)^2."""
    s1, s2, s3 = (single.taylor(order) for order in (1, 2, 3))
    return s3 / s1 + 0.75 * (s2 / s1) ** 2
