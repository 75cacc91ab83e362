"""The neural tangent kernel of one input through thousands of layers: mean, fluctuations, and who contributes to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..problem.network import per_layer
from .layer_table import after_first, averages_at, layer_table

NAMES = (
    "vertex",
    "correction",
    "ntk",
    "ntk_correction",
    "cross_shared",
    "cross_paired",
    "variance_shared",
    "variance_paired",
)
"""V, G1, Theta, H1, D, F, A, B: what `single_ntk` has beside the kernel."""

_MORE = ("mixed_fourth", "slope_fourth", "slope_square_curvature")


class At(NamedTuple):
    """What a layer does at the kernel K below it: C_W, g, m = <s'^2>, averages of four, and derivatives in K."""

    weight: Any
    square: Any
    slope_square: Any
    fourth: Any
    mixed_fourth: Any
    slope_fourth: Any
    square_slope: Any
    square_curvature: Any
    slope_square_slope: Any
    slope_square_curvature: Any


class State(NamedTuple):
    """V, G1, Theta, H1, D, F, A, B of a layer."""

    vertex: Any
    correction: Any
    ntk: Any
    ntk_correction: Any
    cross_shared: Any
    cross_paired: Any
    variance_shared: Any
    variance_paired: Any


def step(state: State, at: At, rate: Any, bias_rate: Any, grown: float) -> State:
    """To the next layer (`single_ntk`); `rate`, `bias_rate` are its lambda_W, lambda_b, `grown` n_l / n_{l-1}."""
    C, g, m, fourth, mixed, slopes, J, H, J1, H1 = at
    V, G, theta, T, D, F, A, B = state
    own, between, within = fourth - g * g, mixed - g * m, slopes - m * m
    W = rate * J + C * theta * J1
    moved, turned = grown * (J * G + H * V / 2), grown * (J1 * G + H1 * V / 2)
    return State(
        C * C * (own + grown * J * J * V),
        C * moved,
        bias_rate + rate * g + C * m * theta,
        rate * moved + C * (theta * turned + grown * (m * T + J1 * (D + 2 * F))),
        C * (rate * own + C * theta * between + grown * J * (W * V + C * m * D)),
        C * C * (mixed * theta + grown * J * J * F),
        rate * rate * own
        + 2 * rate * C * theta * between
        + C * C * theta * theta * within
        + grown * (W * W * V + 2 * C * W * m * D + C * C * m * m * A),
        C * C * (slopes * theta * theta + grown * m * m * B),
    )


@dataclass(frozen=True, eq=False)
class Way:
    """The kernels of one input, or several apart, and averages of all layers but the last: (layers, inputs)."""

    activation: Activation
    kernel: Floats
    averages: At
    mean_square: Floats
    """|x|^2 / n_0 of the inputs."""

    @classmethod
    def of(
        cls,
        activation: str | Activation,
        kernel: Any,
        depth: int,
        bias_variance: Any = 0.0,
        weight_variance: Any = 1.0,
        mean_square: Any = None,
    ) -> Way:
        """Follow the kernel; without `mean_square` the first layer has the variances of the second."""
        table, s = layer_table(activation, kernel, depth, bias_variance, weight_variance), get(activation)
        C_W, start = after_first("weight_variance", weight_variance, depth), table.kernel[0]
        if mean_square is None:
            C_b = after_first("bias_variance", bias_variance, depth)
            if not len(C_W) or C_W[0] == 0 or (start < C_b[0]).any():
                raise InvalidInput("mean_square: say |x|^2 / n_0, since K^(1) = C_b + C_W |x|^2 / n_0 does not give it")
            squares = (start - C_b[0]) / C_W[0]
        else:
            squares = np.broadcast_to(check.array("mean_square", mean_square), start.shape)
        here, (mixed, slopes, bend) = table.moments, averages_at(s, table.kernel[:-1], _MORE)
        weights = np.broadcast_to(C_W[:, None], here.square.shape)
        averages = At(
            weights,
            here.square,
            here.slope_square,
            here.fourth,
            mixed,
            slopes,
            here.square_slope,
            here.square_curvature,
            here.slope_square_slope,
            bend,
        )
        return cls(s, table.kernel, averages, squares)

    def __iter__(self) -> Iterator[At]:
        """Layer by layer; plain numbers for one input, which are ten times as fast."""
        columns = [part[:, 0].tolist() if self.kernel.shape[1] == 1 else list(part) for part in self.averages]
        return (At(*row) for row in zip(*columns, strict=True))

    def climbed(self, rates: Floats, bias_rates: Floats, grown: Floats) -> Iterator[State]:
        """States of all layers; rates have a row for each of them, of numbers or of groups."""
        plain = self.kernel.shape[1] == 1 and rates.ndim == 1
        first = float(self.mean_square[0]) if plain else self.mean_square
        steps = [rates, bias_rates, grown]
        weight, bias, ratio = (part.tolist() if plain else part for part in steps)
        theta = bias[0] + weight[0] * first
        state = State(*(theta * 0.0,) * 2, theta, *(theta * 0.0,) * 5)
        yield state
        for layer, at in enumerate(self, start=1):
            state = step(state, at, weight[layer], bias[layer], ratio[layer - 1])
            yield state


def single_ntk(
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
    """Statistics of the NTK over (layer, sample): layers 1, ..., `depth`, samples with first kernels `kernel` = K^(1).

    With C = C_W, lam = lambda_W of the layer above, m = <s'^2>, J = g'(K), J' = dm/dK, W = lam J + C Theta J',
    r = n_l / n_{l-1}, PDLT eqs. (9.5)-(9.16), all fluctuations starting from 0,

        Theta' = lambda_b + lam g + C m Theta               V' = C^2 [<s^4> - g^2 + r J^2 V]
        D' = C [lam (<s^4> - g^2) + C Theta (<s^2 s'^2> - g m) + r J (W V + C m D)]
        F' = C^2 [<s^2 s'^2> Theta + r J^2 F]               B' = C^2 [<s'^4> Theta^2 + r m^2 B]
        A' = lam^2 (<s^4> - g^2) + 2 lam C Theta (<s^2 s'^2> - g m) + C^2 Theta^2 (<s'^4> - m^2)
             + r [W^2 V + 2 C W m D + C^2 m^2 A]
        H1' = lam r (J G1 + g'' V / 2) + C r {m H1 + Theta (J' G1 + m'' V / 2) + J' (D + 2 F)}

    E[H_ii] = Theta + H1 / n, Var(H_ii) = (A + 2 B) / n, Cov(z_i^2, H_ii) = (D + 2 F) / n, n that of the layer below.
    `correction` and `ntk_correction` are G1 and H1, `cross_shared` D, `cross_paired` F, `variance_shared` A,
    `variance_paired` B.

    >>> found = single_ntk("tanh", 1.0, 5)
    >>> [round(float(found[name][4, 0]), 12) for name in ("ntk", "variance_shared", "variance_paired")]
    [3.582720351059, 1.845170693739, 10.250632841996]

    Args:
        activation: any that does not jump.
        kernel: K^(1), a number or one for each of several inputs.
        depth: layers, that of the outputs included.
        bias_variance, weight_variance: of the layers 2 .. depth, numbers or one each.
        weight_rates, bias_rates: lambda_W and lambda_b of the layers 1 .. depth, numbers or one each.
        mean_square: |x|^2 / n_0; None is (K^(1) - C_b) / C_W.
        widths: n_1 .. n_{depth-1}, None if they are equal; with them there are `mean`, `variance` of the NTK.
    """
    way = Way.of(activation, kernel, depth, bias_variance, weight_variance, mean_square)
    n = None if widths is None else after_first("widths", widths, depth)
    if n is not None and (n < 1).any():
        raise InvalidInput(f"widths = {n.min():g} must be at least 1")
    weight, bias = (every_layer(*each, depth) for each in (("weight_rates", weight_rates), ("bias_rates", bias_rates)))
    states = np.array(list(way.climbed(weight, bias, ratios(n, depth)))).reshape(depth, len(NAMES), -1)
    values = {"kernel": way.kernel} | {name: states[:, k] for k, name in enumerate(NAMES)}
    if n is not None:
        before = np.append(np.inf, n)[:, None]
        values["mean"] = values["ntk"] + values["ntk_correction"] / before
        values["variance"] = (values["variance_shared"] + 2 * values["variance_paired"]) / before
    variables = {name: (("layer", "sample"), value) for name, value in values.items()}
    return xr.Dataset(variables, {"layer": np.arange(1, depth + 1)}, {"activation": way.activation.name})


def ntk_contributions(
    activation: str | Activation,
    kernel: Any,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    weight_rates: Any = 1.0,
    bias_rates: Any = 1.0,
    mean_square: Any = None,
) -> xr.Dataset:
    """What biases and weights of every layer contribute to the NTK of the last, PDLT eq. (9.28); they sum to it.

    c_b(l) = lambda_b prod chi_perp and c_W(l) = lambda_W g(K^(l-1)) prod chi_perp, the product over the layers l ..
    depth - 1, g = |x|^2 / n_0 below the first. Variables `bias`, `weight` over (layer, sample).
    """
    way = Way.of(activation, kernel, depth, bias_variance, weight_variance, mean_square)
    weight, bias = (every_layer(*each, depth) for each in (("weight_rates", weight_rates), ("bias_rates", bias_rates)))
    perpendicular = way.averages.weight * way.averages.slope_square
    above = np.concatenate([np.cumprod(perpendicular[::-1], axis=0)[::-1], np.ones_like(way.kernel[:1])])
    features = np.concatenate([way.mean_square[None], way.averages.square])
    values = {"bias": bias[:, None] * above, "weight": weight[:, None] * features * above}
    variables = {name: (("layer", "sample"), value) for name, value in values.items()}
    return xr.Dataset(variables, {"layer": np.arange(1, depth + 1)}, {"activation": way.activation.name})


def every_layer(name: str, value: Any, depth: int) -> Floats:
    """A rate >= 0 for each of the layers 1, ..., depth."""
    return np.array(per_layer(name, value, check.integer("depth", depth, least=1), f"layers 1 to {depth}", least=0.0))


def ratios(widths: Floats | None, depth: int) -> Floats:
    """n_l / n_{l-1} of the layers 1, ..., depth - 1; what stands below the first does not matter."""
    return np.ones(max(depth - 1, 1)) if widths is None else np.append(1.0, widths[1:] / widths[:-1])
