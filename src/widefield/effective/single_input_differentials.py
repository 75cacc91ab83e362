"""Higher differentials of networks of finite width, of one input, through thousands of layers: P, Q and R, S, T, U."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..activations import Activation
from ..base.errors import InvalidInput
from .layer_table import after_first, averages_at
from .single_tangent import At, State, Way, every_layer, ratios, single_ntk

TWICE = ("P", "Q")
"""The mean correlation of the dNTK with the outputs."""

THRICE = ("R", "S", "T", "U")
"""Means of the two ddNTKs; smooth activations only."""

_OF_TWICE = ("bend", "bend_mixed_fourth")
_OF_THRICE = ("bend_square", "third_slope", "third_fourth", "bend_slope_fourth")


class Bends(NamedTuple):
    """Averages of a layer with second and third derivatives: <s s''>, <s'' s'^2 s>, <s''^2>, <s''' s'>, .."""

    bend: Any
    mixed: Any
    bend_square: Any = 0.0
    third_slope: Any = 0.0
    third_fourth: Any = 0.0
    bend_slope_fourth: Any = 0.0


class Differentials(NamedTuple):
    """P, Q, R, S, T, U of a layer."""

    P: Any
    Q: Any
    R: Any
    S: Any
    T: Any
    U: Any


def step(
    now: Differentials, states: tuple[State, State], at: At, bends: Bends, rate: Any, grown: float
) -> Differentials:
    """To the next layer (`single_differentials`), from what the tangent kernel is in both."""
    P, Q, R, S, T, U = now
    theta, F, B = states[0].ntk, states[0].cross_paired, states[0].variance_paired
    C, m, b, q, t = at.weight, at.slope_square, bends.bend, bends.bend_square, bends.third_slope
    sharp = C * C * bends.mixed * theta**2
    twice = C * C * bends.bend_slope_fourth * theta**3
    turned, bent = rate * b + C * theta * t, rate * m + C * theta * q
    J, W = at.square_slope, rate * at.square_slope + C * theta * at.slope_square_slope
    return Differentials(
        sharp + grown * C * C * m * (b * (P + B) + m * P),
        sharp
        + rate * C * (at.mixed_fourth * theta + grown * J * J * F)
        + grown * C * C * (m * (b + m) * Q + theta * at.slope_square_slope * J * F),
        rate * C * bends.mixed * theta**2
        + C * C * bends.third_fourth * theta**3
        + grown * C * m * (turned * (B + P) + bent * P + C * m * R),
        rate * C * at.slope_fourth * theta**2 + twice + grown * C * m * (bent * B + C * m * S),
        2 * rate * C * bends.mixed * theta**2
        + twice
        + rate * rate * at.mixed_fourth * theta
        + grown * (W * W * F + 2 * C * m * (turned + bent) * Q + C * C * m * m * T),
        twice + grown * C * C * m * m * U,
    )


def single_differentials(
    activation: str | Activation,
    kernel: Any,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    weight_rates: Any = 1.0,
    bias_rates: Any = 1.0,
    mean_square: Any = None,
    widths: Any = None,
) -> xr.Dataset:
    """All of `single_ntk`, and P, Q, R, S, T, U over (layer, sample), which start from 0.

    They are means over networks of the differentials of the NTK, that is of how it changes in training (see
    `DifferentialFlow`). With b = <s s''>, q = <s''^2>, t = <s''' s'> and the letters of `single_ntk`, PDLT eqs.
    (11.55), (11.56), (inf.14)-(inf.17):

        P' = C^2 <s'' s'^2 s> Theta^2 + r C^2 m [b (P + B) + m P]
        Q' = C^2 <s'' s'^2 s> Theta^2 + (lam / C) F' + r C^2 [m (b + m) Q + Theta J' J F]
        R' = lam C <s'' s'^2 s> Theta^2 + C^2 <s''' s'^3> Theta^3
             + r C m [(lam b + C Theta t) (B + P) + (lam m + C Theta q) P + C m R]
        S' = lam C <s'^4> Theta^2 + C^2 <s''^2 s'^2> Theta^3 + r C m [(lam m + C Theta q) B + C m S]
        T' = 2 lam C <s'' s'^2 s> Theta^2 + C^2 <s''^2 s'^2> Theta^3 + lam^2 <s^2 s'^2> Theta
             + r {W^2 F + 2 C m [lam (b + m) + C Theta (t + q)] Q + C^2 m^2 T}
        U' = C^2 <s''^2 s'^2> Theta^3 + r C^2 m^2 U

    Lines with a kink at 0 have P and Q alone: the others are infinite, since already single neurons answer a step
    that takes them over the kink by less than any power series says.

    >>> found = single_differentials("tanh", 1.0, 3)
    >>> [round(float(found[name][2, 0]), 9) for name in "PQRSTU"]
    [-0.925217648, -0.520669347, -13.29474817, 7.018769261, 1.562782951, 2.565593612]

    Arguments are those of `single_ntk`.
    """
    way = Way.of(activation, kernel, depth, bias_variance, weight_variance, mean_square)
    s = way.activation
    smooth = not s.kinks
    if not smooth and s.homogeneity != 1:
        raise InvalidInput(
            f"activation = {s.name!r} has kinks: use a smooth one, such as 'gelu', or lines such as 'relu'"
        )
    n = None if widths is None else after_first("widths", widths, depth)
    weight, bias = (every_layer(*each, depth) for each in (("weight_rates", weight_rates), ("bias_rates", bias_rates)))
    found = single_ntk(
        s,
        kernel,
        depth,
        bias_variance=bias_variance,
        weight_variance=weight_variance,
        weight_rates=weight_rates,
        bias_rates=bias_rates,
        mean_square=mean_square,
        widths=widths,
    )
    names = TWICE + THRICE if smooth else TWICE
    rows = np.array(list(_climbed(way, weight, bias, ratios(n, depth), smooth))).reshape(depth, 6, -1)
    return found.assign({name: (("layer", "sample"), rows[:, k]) for k, name in enumerate(names)})


def _climbed(way: Way, weight: Any, bias: Any, grown: Any, smooth: bool) -> Iterator[Differentials]:
    """Of all layers, beside the tangent kernel."""
    averages = averages_at(way.activation, way.kernel[:-1], _OF_TWICE + (_OF_THRICE if smooth else ()))
    single = way.kernel.shape[1] == 1
    bends = zip(*([part[:, 0].tolist() if single else list(part) for part in averages]), strict=True)
    states = way.climbed(weight, bias, grown)
    before = next(states)
    now = Differentials(*(before.ntk * 0.0,) * 6)
    yield now
    for layer, (state, at, row) in enumerate(zip(states, way, bends, strict=True), start=1):
        now = step(now, (before, state), at, Bends(*row), float(weight[layer]), float(grown[layer - 1]))
        before = state
        yield now
