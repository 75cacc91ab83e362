"""Averages of every layer along the flow of a single input's kernel: the one table that all its flows read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..gaussian.averages import check_variance
from ..problem.network import per_layer
from .single_input import SMOOTH, Moments, SingleInput, moments
from .susceptibilities import Susceptibilities, from_moments

_REACH = 10.0
"""The trapezoidal rule ends at this many standard deviations."""

_NODES = (64, 256, 1024)
"""Nodes on either side of 0 that are tried in turn."""

_TOLERANCE = 1e-11
"""Allowed error of the averages, each relative to a positive one of its dimension."""

_PIECES = (32, 1024)
"""Layers in one call of the compiled loop."""

_LARGEST = 1e100
"""A kernel beyond this is taken to explode."""


@dataclass(frozen=True)
class LayerTable:
    """Kernels K^(1), ..., K^(L) of inputs (axis 1) and, for all layers (axis 0) but the last, what they do next."""

    kernel: Floats
    """(depth, inputs)."""

    moments: Moments
    """Averages at K^(1), ..., K^(L-1)."""

    susceptibilities: Susceptibilities
    """The same with the variances of the layer that follows."""


def layer_table(
    activation: str | Activation, kernel: Any, depth: int, bias_variance: Any = 0.0, weight_variance: Any = 1.0
) -> LayerTable:
    """Iterate K^(l+1) = C_b + C_W g(K^(l)), PDLT eq. (5.4), from K^(1) = `kernel` (a vector: one entry an input).

    Variances are numbers or one for each of the layers 2, ..., `depth`. Smooth activations take a trapezoidal rule,
    which converges exponentially, inside one compiled loop, checked against adaptive quadrature; others adaptive
    quadrature in every layer; homogeneous ones closed forms.
    """
    activation = get(activation)
    start = np.atleast_1d(check_variance("kernel", check.array("kernel", kernel)))
    if start.ndim != 1:
        raise InvalidInput(f"kernel has shape {start.shape}; it must be a number or a vector")
    depth = check.integer("depth", depth, least=1)
    C_b = after_first("bias_variance", bias_variance, depth)
    C_W = after_first("weight_variance", weight_variance, depth)
    found = None
    if activation.homogeneity is not None:
        found = _closed(activation, activation.homogeneity, start, C_b, C_W)
    elif not activation.kinks and depth > 1 and len(start):
        found = _compiled(activation, start, C_b, C_W)
    kernels, averages = found or _layer_by_layer(activation, start, C_b, C_W)
    return LayerTable(kernels, averages, from_moments(averages, kernels[:-1], C_b[:, None], C_W[:, None]))


def after_first(name: str, value: Any, depth: int) -> Floats:
    """Return a value >= 0 for each of the layers 2, ..., depth."""
    return np.array(per_layer(name, value, depth - 1, f"the layers 2 to depth = {depth}", least=0.0))


def _layer_by_layer(activation: Activation, start: Floats, C_b: Floats, C_W: Floats) -> tuple[Floats, Moments]:
    kernels, rows = [start], []
    for layer, (bias, weight) in enumerate(zip(C_b, C_W, strict=True), start=2):
        rows.append(moments(activation, kernels[-1]))
        kernels.append(_finite(bias + weight * rows[-1].square, layer))
    return np.array(kernels), _stack(rows, len(start))


def _closed(activation: Activation, q: int, start: Floats, C_b: Floats, C_W: Floats) -> tuple[Floats, Moments]:
    """g(K) = g(1) K^q."""
    g = float(moments(activation, 1.0).square)
    kernels = [start]
    for layer, (bias, weight) in enumerate(zip(C_b, C_W * g, strict=True), start=2):
        with np.errstate(over="ignore"):
            kernels.append(_finite(bias + weight * kernels[-1] ** q, layer))
    return np.array(kernels), moments(activation, np.array(kernels)[:-1])


def _finite(kernel: Floats, layer: int) -> Floats:
    if not (kernel < _LARGEST).all():
        raise InvalidInput(f"the kernel exceeds {_LARGEST:g} at layer {layer}: reduce the variances or the depth")
    return kernel


def _stack(rows: list[Moments], inputs: int) -> Moments:
    def column(name: str) -> Floats:
        return np.array([getattr(row, name) for row in rows]).reshape(len(rows), inputs)

    return Moments(*(column(field.name) for field in fields(Moments)))


def _compiled(activation: Activation, start: Floats, C_b: Floats, C_W: Floats) -> tuple[Floats, Moments] | None:
    """The whole flow in one compiled loop; None if no rule is accurate enough."""
    for nodes in _NODES:
        x = np.linspace(-_REACH, _REACH, 2 * nodes + 1)
        weights = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (_REACH / nodes)
        rest, table = _in_pieces(activation, start, C_b, C_W, x, weights)
        kernels = np.concatenate([start[None], rest])
        if not (kernels < _LARGEST).all():
            return None
        averages = Moments(*np.moveaxis(table, 1, 0))
        if _accurate(activation, kernels[:-1], averages):
            return kernels, averages
    return None


def _in_pieces(
    activation: Activation, start: Floats, C_b: Floats, C_W: Floats, x: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Run the loop in pieces of two lengths, for 4, 8, 16, ... inputs, so as to compile rarely."""
    inputs, depth = len(start), len(C_b)
    K = np.append(start, np.full(max(4, 1 << (inputs - 1).bit_length()) - inputs, start[0]))
    kernels, tables, done = [], [], 0
    while done < depth:
        length = _PIECES[1] if depth - done >= _PIECES[1] else _PIECES[0]
        bias, weight = (np.append(c, np.zeros(_PIECES[1]))[done : done + length] for c in (C_b, C_W))
        with double_precision():
            following, table = _loop(activation, K, bias, weight, x, weights)
        kernels.append(np.asarray(following))
        tables.append(np.asarray(table))
        K, done = kernels[-1][-1], done + length
    return np.concatenate(kernels)[:depth, :inputs], np.concatenate(tables)[:depth, :, :inputs]


@partial(jax.jit, static_argnums=0)
def _loop(activation: Activation, start: Any, C_b: Any, C_W: Any, x: Any, weights: Any) -> tuple[Array, Array]:
    def layer(K: Array, variances: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        table = _trapezoid(activation, K, x, weights)
        following = variances[0] + variances[1] * table[0]
        return following, (following, table)

    return jax.lax.scan(layer, start, (C_b, C_W))[1]


def _trapezoid(activation: Activation, K: Array, x: Any, weights: Any) -> Array:
    """The averages of `Moments`, in its order."""
    z = jnp.sqrt(K)[:, None] * x[None, :]
    s = [activation.derivative(order)(z) for order in range(5)]
    integrands = (SMOOTH[field.name][1](s) for field in fields(Moments))
    return jnp.stack([integrand @ weights for integrand in integrands])


def _accurate(activation: Activation, kernels: Floats, found: Moments) -> bool:
    """Compare at the largest kernel, where the rule is worst, and at the smallest."""
    where = np.array([kernels.argmax(), kernels.argmin()])
    K = kernels.ravel()[where]
    try:
        exact = moments(activation, K)
    except InvalidInput:
        return False
    size = exact.slope_square + np.abs(exact.square_slope)
    by_kernel = size / np.where(K > 0, K, 1.0)
    allowed = Moments(exact.square, size, by_kernel, size, by_kernel, exact.fourth)

    def close(name: str) -> bool:
        error = np.abs(getattr(found, name).ravel()[where] - getattr(exact, name))
        return bool(np.all(error <= _TOLERANCE * getattr(allowed, name)))

    return all(close(field.name) for field in fields(Moments))


def averages_at(activation: Activation, kernels: Floats, names: tuple[str, ...]) -> list[Floats]:
    """Averages of `SMOOTH` by name at many kernels, by the same rule as `layer_table`."""
    single = SingleInput(activation)
    if activation.homogeneity is None and not activation.kinks and kernels.size:
        flat = kernels.ravel()
        where = np.array([flat.argmax(), flat.argmin()])
        exact = np.stack([getattr(single, name)(flat[where]) for name in names])
        size = single.slope_square(flat[where]) / np.where(flat[where] > 0, flat[where], 1.0) ** 2
        for nodes in _NODES:
            found = _at_all(activation, flat, names, nodes)
            if np.all(np.abs(found[:, where] - exact) <= _TOLERANCE * np.maximum(np.abs(exact), size)):
                return [values.reshape(kernels.shape) for values in found]
    return [getattr(single, name)(kernels) for name in names]


def _at_all(activation: Activation, kernels: Floats, names: tuple[str, ...], nodes: int) -> Floats:
    x = np.linspace(-_REACH, _REACH, 2 * nodes + 1)
    weights = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (_REACH / nodes)
    length = _PIECES[1] if len(kernels) > _PIECES[0] else _PIECES[0]
    padded = np.append(kernels, np.full(-len(kernels) % length, kernels[0]))
    with double_precision():
        pieces = [np.asarray(_at_some(activation, names, K, x, weights)) for K in padded.reshape(-1, length)]
    return np.concatenate(pieces, axis=1)[:, : len(kernels)]


@partial(jax.jit, static_argnums=(0, 1))
def _at_some(activation: Activation, names: tuple[str, ...], K: Any, x: Any, weights: Any) -> Array:
    z = jnp.sqrt(K)[:, None] * x[None, :]
    s = [activation.derivative(order)(z) for order in range(1 + max(SMOOTH[name][0] for name in names))]
    return jnp.stack([SMOOTH[name][1](s) @ weights for name in names])
