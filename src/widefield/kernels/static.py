"""Kernels of infinitely wide networks before they learn: NNGP, NTK, and the kernels of every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..gaussian.pairs import TOLERANCE, Moments, Profile
from ..problem.layer_rates import LayerRates
from ..problem.network import MLP, per_weight_layer
from ..problem.rules import GradientDescent, LearningRule
from .blocks import BLOCK, assemble

if TYPE_CHECKING:
    from ..problem.problem import Problem

_AT_ONCE = 8
"""Layers that are compiled into one program: more take long to compile, fewer to start."""

_Profiles = list[tuple[Profile, Profile]]
_Pairs = Callable[[tuple[Profile, Profile], Array, tuple[Profile, Profile]], list[Array]]


@dataclass(frozen=True)
class Kernels:
    """The two kernels of a network between its rows and columns of inputs."""

    nngp: Floats
    """Covariance of gamma times the outputs over networks: sigma_L^2 Phi^L + beta_L^2."""

    ntk: Floats
    """The (effective) neural tangent kernel: df/dt = K Delta."""


@dataclass(frozen=True)
class LayerKernels:
    """Kernels of every hidden layer, arrays (layer, row, column)."""

    feature: Floats
    """Phi^l = <phi phi>."""

    slope: Floats
    """<phi' phi'>."""

    gradient: Floats
    """G^l = <g g>."""

    alignment: Floats
    """<g gt> of gradients and pseudo-gradients."""

    nngp: Floats
    ntk: Floats

    tangents: Floats
    """T^0 .. T^L: the NTK of the preactivations of the layers 1 .. L + 1."""


@dataclass(frozen=True)
class StaticKernel:
    """The kernels that a network of infinite width has at initialisation and, in the lazy limit, keeps.

    With K^0 = x x^T / D, variances sigma_l^2, beta_l^2 of weights and biases (PDLT eqs. (4.118), (9.5); BP23 Table 2),

        K^1 = sigma_0^2 K^0 + beta_0^2        K^{l+1} = sigma_l^2 Phi^l + beta_l^2        Phi^l = <phi phi>_{K^l}
        T^0 = w_0 K^0 + b_0                   T^l = w_l Phi^l + b_l + rho sigma_l^2 <phi' phi'>_{K^l} T^{l-1}

    the NNGP kernel is K^{L+1} and the NTK T^L. rho is 1 for gradient descent, the feedback's correlation for feedback
    alignment and 0 for direct feedback alignment and Hebb's rule; gated linear networks have Phi^l = Gamma K^l and
    Gamma = <phi'(m) phi'(m)>, m ~ N(0, K^0), in place of <phi' phi'>.

    Called with inputs (rows of x, and of x2 if they differ) it returns both kernels, accurate to about 1e-12 of the
    diagonal. Large sets are computed in blocks, with little memory beyond the result, and half of a symmetric kernel
    is computed once.

    >>> kernel = StaticKernel(MLP(hidden_layers=2, activation="relu", weight_variances=2.0))
    >>> print(kernel(np.eye(2)).nngp.round(6))
    [[1.       0.493731]
     [0.493731 1.      ]]

    Args:
        network: its richness, widths and parameterisation do not matter here.
        rule: whose effective NTK is wanted.
        weight_rates: w_l, relative learning rates of the weights of every layer; one number or L + 1.
        bias_rates: b_l, the same for biases; None is 1 if the network trains its biases and 0 if not.
    """

    network: MLP
    rule: LearningRule = field(default_factory=GradientDescent)
    weight_rates: float | tuple[float, ...] = 1.0
    bias_rates: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the rates."""
        depth = self.network.hidden_layers
        biases = float(self.network.train_biases) if self.bias_rates is None else self.bias_rates
        put(self, weight_rates=per_weight_layer("weight_rates", self.weight_rates, depth, least=0.0))
        put(self, bias_rates=per_weight_layer("bias_rates", biases, depth, least=0.0))

    @property
    def rates(self) -> LayerRates:
        """w_l and b_l."""
        assert isinstance(self.weight_rates, tuple)  # since __post_init__
        assert isinstance(self.bias_rates, tuple)
        return LayerRates(self.weight_rates, self.bias_rates)

    @classmethod
    def of(cls, problem: Problem) -> StaticKernel:
        """That of a problem: of its network, rule, and learning rates of layers."""
        rates = problem.optimiser.layer_rates(problem.network)
        weights, biases = (tuple(map(float, each)) for each in (rates.weights, rates.biases))
        return cls(problem.network, problem.rule, weights, biases)

    def __call__(self, x: ArrayLike, x2: ArrayLike | None = None, *, block: int = BLOCK) -> Kernels:
        """Both kernels between the rows of x and those of x2 (of x, if there is no x2)."""
        nngp, ntk = self._blocks(x, x2, block, ("k", "tangent"))
        return Kernels(nngp, _finite(self.network, ntk))

    def nngp(self, x: ArrayLike, x2: ArrayLike | None = None, *, block: int = BLOCK) -> Floats:
        """The NNGP kernel alone, at about half the cost; activations need no derivative."""
        (nngp,) = self._blocks(x, x2, block, ("k",))
        return nngp

    def _blocks(self, x: ArrayLike, x2: ArrayLike | None, block: int, names: tuple[str, ...]) -> tuple[Floats, ...]:
        left, right = check.inputs(x, x2)
        check.integer("block", block, least=1)
        with double_precision():
            rows = self._prepared(left)
            columns = rows if right is None else self._prepared(right)

        def compute(first: slice, second: slice) -> tuple[Array, ...]:
            same, slopes = right is None and first == second, "tangent" in names
            found, accurate = self._climbed(rows, columns, (first, second), same, slopes)
            if not accurate:
                k0, exact = _input_kernel(rows.inputs[first], columns.inputs[second]), _mended(self, same, slopes)
                *_, last = self._layers(k0, rows[first].profiles, columns[second].profiles, exact)
                found = last.k, last.tangent
            return found[: len(names)]

        size = (len(left), len(left if right is None else right))
        return assemble(compute, size, len(names), block, symmetric=right is None)

    def _climbed(
        self, rows: _Rows, columns: _Rows, block: tuple[slice, slice], same: bool, slopes: bool
    ) -> tuple[tuple[Array, ...], bool]:
        """K^{L+1} and T^L of a block in compiled code, a few layers at a time; and whether averages were accurate."""
        if self.rule.gated:  # one average, and products: nothing to be gained
            return (), False
        table = jnp.asarray([self._constants(number) for number in range(self.network.hidden_layers + 1)])
        corner = jnp.asarray(block[0].start), jnp.asarray(block[1].start)
        shape = block[0].stop - block[0].start, block[1].stop - block[1].start
        k, tangent = _begin(rows.inputs, columns.inputs, table[0], corner, shape)
        errors = []
        for layer in range(0, self.network.hidden_layers, _AT_ONCE):
            part = slice(layer, layer + _AT_ONCE)
            sides = rows.profiles[part], columns.profiles[part]
            constants, orders = table[1:][part], self._orders(slopes)
            k, tangent, error = _climb(self._moments, *sides, k, tangent, constants, corner, same, orders)
            errors.append(error)
        return (k, tangent), all(float(error) <= TOLERANCE for error in errors)

    def diagonal(self, x: ArrayLike) -> Kernels:
        """Both kernels between every row of x and itself, one number for each; the NTK may be infinite."""
        inputs, _ = check.inputs(x, None)
        norms = np.mean(inputs**2, axis=1)
        with double_precision():
            profiles = self._profiles(norms)
            constants = self._constants(0)
            k = jnp.asarray(constants[0] * norms + constants[1])
            tangent = jnp.asarray(constants[2] * norms + constants[3])
            for layer in range(1, self.network.hidden_layers + 1):
                features, slopes = profiles[0 if self.rule.gated else layer - 1]
                feature = slopes.square * k if self.rule.gated else features.square
                k, tangent = _advance(feature, slopes.square, tangent, *self._constants(layer))
            return Kernels(np.array(k), np.array(tangent))

    def layers(self, x: ArrayLike, x2: ArrayLike | None = None) -> LayerKernels:
        """Kernels of every layer."""
        left, right = check.inputs(x, x2)
        with double_precision():
            rows = self._prepared(left)
            columns = rows if right is None else self._prepared(right)
            k0, pairs = _input_kernel(rows.inputs, columns.inputs), _mended(self, right is None, True)
            return self._collected(list(self._layers(k0, rows.profiles, columns.profiles, pairs)))

    def by_angle(self, angles: ArrayLike) -> xr.Dataset:
        """Kernels between two inputs with |x|^2 = D as functions of the angle between them.

        Variables nngp, ntk over `angle`, and feature_kernel, gradient_kernel over `layer` and `angle`.
        """
        theta = check.array("angles", angles, ndim=1)
        x = np.sqrt(2.0) * np.stack([np.cos(theta), np.sin(theta)], axis=1)
        found = self.layers(np.sqrt(2.0) * np.array([[1.0, 0.0]]), x)
        variables: dict[str, Any] = {"nngp": ("angle", found.nngp[0]), "ntk": ("angle", found.ntk[0])}
        layered = {"feature_kernel": found.feature, "gradient_kernel": found.gradient}
        variables |= {name: (("layer", "angle"), value[:, 0]) for name, value in layered.items()}
        return xr.Dataset(variables, {"angle": theta, "layer": np.arange(1, self.network.hidden_layers + 1)})

    def _collected(self, found: list[_Layer]) -> LayerKernels:
        feature, slope = (np.stack([np.asarray(getattr(f, name)) for f in found[1:]]) for name in ("feature", "slope"))
        gradient, alignment = np.empty_like(slope), np.empty_like(slope)
        above = through = np.ones_like(slope[0])
        for layer in range(len(slope), 0, -1):
            change = self.network.weight_scales[layer] ** 2 * slope[layer - 1]
            above, through = above * change, _transmitted(self.rule.transmission * through, change)
            gradient[layer - 1], alignment[layer - 1] = above, through
        last = found[-1]
        ntk = _finite(self.network, np.asarray(last.tangent))
        tangents = np.stack([np.asarray(layer.tangent) for layer in found])
        return LayerKernels(feature, slope, gradient, alignment, np.asarray(last.k), ntk, tangents)

    def _prepared(self, x: Floats) -> _Rows:
        return _Rows(jnp.asarray(x), self._profiles(np.mean(x**2, axis=1)))

    def _profiles(self, norms: Floats) -> list[tuple[Profile, Profile]]:
        """Of features and slopes at every layer, for samples of |x|^2 / D = norms."""
        network, found = self.network, []
        if self.rule.gated:
            return [self._moments.profiles(norms)]
        variance = network.weight_scales[0] ** 2 * norms + network.bias_scales[0] ** 2
        for layer in range(1, network.hidden_layers + 1):
            found.append(self._moments.profiles(variance))
            square = np.asarray(found[-1][0].square)
            variance = network.weight_scales[layer] ** 2 * square + network.bias_scales[layer] ** 2
        return found

    @property
    def _moments(self) -> Moments:
        return Moments(self.network.phi)

    def _orders(self, slopes: bool) -> tuple[int, ...]:
        """Derivatives of phi whose averages are wanted."""
        return (1,) if self.rule.gated else (0, 1) if slopes else (0,)

    def _layers(self, k0: Array, rows: _Profiles, columns: _Profiles, pairs: _Pairs) -> Iterator[_Layer]:
        """The recursions above, from the inputs up; `pairs` gives the averages over pairs of a layer."""
        constants = self._constants(0)
        layer = _Layer(k0, k0, constants[0] * k0 + constants[1], constants[2] * k0 + constants[3])
        gates = pairs(rows[0], k0, columns[0])[-1] if self.rule.gated else k0
        yield layer
        for number in range(1, self.network.hidden_layers + 1):
            if self.rule.gated:
                feature, slope = gates * layer.k, gates
            else:
                found = pairs(rows[number - 1], layer.k, columns[number - 1])
                feature, slope = found[0], found[-1]
            k, tangent = _advance(feature, slope, layer.tangent, *self._constants(number))
            layer = _Layer(feature, slope, k, tangent)
            yield layer

    def _constants(self, layer: int) -> tuple[float, ...]:
        """sigma_l^2, beta_l^2, w_l, b_l and rho."""
        variances = self.network.weight_scales[layer] ** 2, self.network.bias_scales[layer] ** 2
        weights, biases = (float(each[layer]) for each in (self.rates.weights, self.rates.biases))
        return *variances, weights, biases, self.rule.transmission


@jax.jit
def _advance(
    feature: Array, slope: Array, tangent: Array, weights: Any, biases: Any, weight_rate: Any, bias_rate: Any, rho: Any
) -> tuple[Array, Array]:
    """K^{l+1} and T^l. Nothing times an infinite slope is nothing."""
    below = rho * weights * tangent
    passed = jnp.where(below == 0, 0.0, slope * below)
    return weights * feature + biases, weight_rate * feature + bias_rate + passed


@dataclass(frozen=True)
class _Layer:
    """Phi^l, <phi' phi'>, K^{l+1} and T^l between rows and columns."""

    feature: Float[Array, "p q"]
    slope: Float[Array, "p q"]
    k: Float[Array, "p q"]
    tangent: Float[Array, "p q"]


@dataclass(frozen=True)
class _Rows:
    """Inputs and what the activation does at each, layer by layer."""

    inputs: Array
    profiles: _Profiles

    def __getitem__(self, samples: slice) -> _Rows:
        return _Rows(self.inputs[samples], [(f[samples], s[samples]) for f, s in self.profiles])


def _input_kernel(rows: Array, columns: Array) -> Array:
    return rows @ columns.T / rows.shape[1]


def _mended(kernel: StaticKernel, same: bool, slopes: bool) -> _Pairs:
    """Averages that are always accurate; those of slopes only if they are wanted."""
    orders = kernel._orders(slopes)
    return lambda left, k, right: kernel._moments.pairs(left, k, right, same=same, orders=orders)


@eqx.filter_jit
def _begin(
    x: Array, x2: Array, constants: Float[Array, " 5"], corner: tuple[Array, Array], shape: tuple[int, int]
) -> tuple[Array, Array]:
    """K^1 and T^0 of the block at a corner."""
    left, right = (jax.lax.dynamic_slice_in_dim(*part) for part in zip((x, x2), corner, shape, strict=True))
    k0 = _input_kernel(left, right)
    return constants[0] * k0 + constants[1], constants[2] * k0 + constants[3]


@eqx.filter_jit
def _climb(
    moments: Moments,
    rows: _Profiles,
    columns: _Profiles,
    k: Array,
    tangent: Array,
    constants: Float[Array, "layers 5"],
    corner: tuple[Array, Array],
    same: bool,
    orders: tuple[int, ...],
) -> tuple[Array, Array, Array]:
    """Through a few layers, for the block of all samples at a corner; also a bound on the error of the averages."""
    errors: list[Array] = []
    for number, sides in enumerate(zip(rows, columns, strict=True)):
        left, right = (_cut(side, start, size) for side, start, size in zip(sides, corner, k.shape, strict=True))
        values, found = moments.evaluate(left, k, right, same, orders)
        k, tangent = _advance(values[0], values[-1], tangent, *constants[number])
        errors += found
    return k, tangent, jnp.max(jnp.stack(errors))


def _cut(profiles: tuple[Profile, Profile], start: Array, size: int) -> tuple[Profile, Profile]:
    """Samples are the last axis of every array."""
    cut: tuple[Profile, Profile] = jax.tree.map(
        lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size, axis=leaf.ndim - 1), profiles
    )
    return cut


def _transmitted(signal: Floats, slope: Floats) -> Floats:
    """Their product; nothing times an infinite slope is nothing."""
    return np.multiply(signal, slope, out=np.zeros_like(slope), where=signal != 0)


def _finite(network: MLP, ntk: Floats) -> Floats:
    if not np.all(np.isfinite(ntk)):
        raise InvalidInput(f"activation = {network.activation!r} has no neural tangent kernel: it is infinite")
    return ntk
