"""Gradients of every layer before training: their mean square, how they scatter over networks, and which ones vanish.

The NTK is linear in the learning rates. With the rate of one group of parameters 1 and all others 0, H_ii is a squared
gradient of the output z_i: sum_j (dz_i / db_j)^2 of the biases of a layer, (1/n_{l-1}) sum_jk (dz_i / dW_jk)^2 of its
weights. Its mean is what that group contributes to Theta, and its variance (A + 2 B) / n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.result import Result
from .layer_table import after_first
from .single_tangent import Way, ratios


@dataclass(frozen=True, eq=False)
class GradientMoments(Result, kind="gradients of the layers", figure="widefield.effective.plots:gradient_moments"):
    """Squared gradients of one output before training, by `layer` and `group` ("bias", "weight").

        mean               E, at infinite width
        relative_variance  variance over networks / E^2 at order 1/n
        typical            median of a log-normal with these: E exp(-log(1 + relative_variance) / 2)

    `kernel` is K, `parallel` and `perpendicular` chi of the layers 1 .. depth - 1.
    """

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        return f"{self.data.attrs['activation']}, {self.data.sizes['layer']} layers: squared gradients of one output"

    @property
    def kernel_growth(self) -> float:
        """log K^(depth) / K^(1)."""
        K = self.data["kernel"].values
        return float(np.log(K[-1] / K[0])) if K.min() > 0 else -np.inf

    @property
    def gradient_growth(self) -> float:
        """Log of the squared gradients of the first layer's biases over those of the last: the sum of log chi_perp."""
        with np.errstate(divide="ignore"):
            return float(np.sum(np.log(self.data["perpendicular"].values[:-1])))

    @property
    def verdict(self) -> str:
        """PDLT section 9.4 in words: what explodes or vanishes, and what finite width adds."""
        return " ".join([*_kernel_words(self.kernel_growth), *_gradient_words(self.gradient_growth), self._scatter])

    @property
    def _scatter(self) -> str:
        scatter = float(self.data["relative_variance"].sel(group="bias").values[0])
        typical = float(np.exp(-np.log1p(scatter) / 2))
        return (
            f"From network to network, squared gradients of the first layer scatter by {np.sqrt(scatter):.0%}: "
            f"a typical one is {typical:.2f} of the mean. Only depth / width changes that, no initialisation."
        )

    def table(self) -> Any:
        """Some layers."""
        from ..base import tables

        headings = ("layer", "kernel", "biases", "scatter", "weights", "scatter")
        made = tables.table(headings, "squared gradients of one output: mean, and standard deviation over networks")
        for row in tables.rows(self.data.sizes["layer"], 11):
            here = self.data.isel(layer=row)
            cells = [f"{float(here['kernel']):.4g}"]
            for group in ("bias", "weight"):
                part = here.sel(group=group)
                cells += [f"{float(part['mean']):.4g}", f"{np.sqrt(float(part['relative_variance'])):.1%}"]
            made.add_row(str(row + 1), *cells)
        return made

    def lacks(self) -> str:
        """What is missing in a file."""
        missing = sorted({"mean", "relative_variance", "typical", "kernel", "perpendicular"} - set(self.data.variables))
        return f"it lacks {', '.join(missing)}" if missing else ""


def _kernel_words(growth: float) -> list[str]:
    if growth > np.log(10):
        return [f"The kernel grows by a factor {np.exp(growth):.3g}: outputs, and errors with them, explode."]
    if growth < -np.log(10):
        return [f"The kernel falls to {np.exp(growth):.3g} of its size: gradients of weights fall with it."]
    return ["The kernel keeps its size."]


def _gradient_words(growth: float) -> list[str]:
    if growth > np.log(10):
        return [f"Gradients EXPLODE towards the inputs, squared by {np.exp(growth):.3g}: chi_perp is above 1."]
    if growth < -np.log(10):
        return [f"Gradients VANISH towards the inputs, squared to {np.exp(growth):.3g}: chi_perp is below 1."]
    return [f"On average gradients reach the first layer, squared with {np.exp(growth):.3g} of what the last has."]


def gradient_moments(
    activation: str | Activation,
    kernel: float,
    depth: int,
    widths: Any,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    mean_square: float | None = None,
) -> GradientMoments:
    """Mean and variance of the squared gradients of every layer's biases and weights, for one input.

    At criticality the relative variance is nu (L - l) / n for biases, nu (L - 1) / n for all weights of scale-invariant
    networks, nu = 3 A_4 / A_2^2 - 1; for odd activations of the class K* = 0 and s = l / L it is
    [2 (1-s) + (2/3) (1-s)^2] L / n and [8/3 - 4 s + 2 s^2] L / n.

    >>> found = gradient_moments("relu", 1.0, 5, 100, weight_variance=2.0)
    >>> found.data["relative_variance"].values.round(9).T.tolist()
    [[0.2, 0.15, 0.1, 0.05, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]]

    Args:
        activation: any that does not jump.
        kernel: K^(1).
        depth: layers, that of the output included.
        widths: n_1 .. n_{depth-1}, a number or one each.
        bias_variance, weight_variance: of the layers 2 .. depth, numbers or one each.
        mean_square: |x|^2 / n_0; None is (K^(1) - C_b) / C_W.
    """
    depth = check.integer("depth", depth, least=2)
    way = Way.of(activation, check.number("kernel", kernel), depth, bias_variance, weight_variance, mean_square)
    n = after_first("widths", check_widths(widths), depth)
    mean, variance = _by_group(way, n, np.eye(2 * depth))
    relative = np.divide(variance / n[-1], mean**2, out=np.zeros_like(mean), where=mean > 0).reshape(2, depth).T
    mean = mean.reshape(2, depth).T
    averages, axes = way.averages, ("layer", "group")
    chi = [
        np.append(averages.weight[:, 0] * part[:, 0], np.nan) for part in (averages.square_slope, averages.slope_square)
    ]
    values: dict[str, Any] = {
        "mean": (axes, mean),
        "relative_variance": (axes, relative),
        "typical": (axes, mean * np.exp(-np.log1p(relative) / 2)),
        "kernel": ("layer", way.kernel[:, 0]),
        "parallel": ("layer", chi[0]),
        "perpendicular": ("layer", chi[1]),
    }
    coords = {"layer": np.arange(1, depth + 1), "group": ["bias", "weight"]}
    return GradientMoments(xr.Dataset(values, coords, {"activation": way.activation.name}))


def gradient_covariances(
    activation: str | Activation,
    kernel: float,
    depth: int,
    widths: Any,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    mean_square: float | None = None,
) -> xr.DataArray:
    """Covariance over networks of the squared gradients of all groups: biases of the layers 1 .. L, then weights.

    A + 2 B is quadratic in the rates, so that (A + 2B)[u + v] - (A + 2B)[u] - (A + 2B)[v] is twice the covariance.
    """
    depth = check.integer("depth", depth, least=2)
    way = Way.of(activation, check.number("kernel", kernel), depth, bias_variance, weight_variance, mean_square)
    n, unit = after_first("widths", check_widths(widths), depth), np.eye(2 * depth)
    one, two = np.triu_indices(2 * depth, 1)
    own, both = _by_group(way, n, unit)[1], _by_group(way, n, unit[one] + unit[two])[1]
    found = np.diag(own)
    found[one, two] = found[two, one] = (both - own[one] - own[two]) / 2
    names = [f"{group} {layer}" for group in ("bias", "weight") for layer in range(1, depth + 1)]
    return xr.DataArray(found / n[-1], {"group": names, "group_": names}, ("group", "group_"))


def check_widths(widths: Any) -> Any:
    """Widths >= 1."""
    for n in np.atleast_1d(np.asarray(widths)):
        check.number("widths", n, least=1)
    return widths


def _by_group(way: Way, n: Floats, groups: Float[Floats, "g _"]) -> tuple[Float[Floats, " g"], Float[Floats, " g"]]:
    """Theta and A + 2 B of the last layer for rates of biases (first half of a row) and weights, one row a group."""
    depth = len(way.kernel)
    bias, weight = (np.ascontiguousarray(part.T)[:, :, None] for part in (groups[:, :depth], groups[:, depth:]))
    last = None
    for last in way.climbed(weight, bias, ratios(n, depth)):  # noqa: B007 (the last is wanted)
        pass
    assert last is not None
    return last.ntk[:, 0], (last.variance_shared + 2 * last.variance_paired)[:, 0]
