"""Kernels of any function that jax can differentiate."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy.typing import ArrayLike, NDArray

from ..base import check
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .blocks import blocks

Function = Callable[[Any, Any], Any]


def ntk_of_function(
    f: Function,
    params: PyTree,
    x: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    block: int = 256,
) -> NDArray[np.floating[Any]]:
    """Return the empirical neural tangent kernel of any jax function,

        K[i, a, j, b] = sum_theta  d f_a(x_i) / d theta  d f_b(x2_j) / d theta

    without a learning rate or an output scale. f must treat samples independently (no batch normalisation).

    Args:
        f: f(params, x) -> outputs, of shape (P, C) or (P,) for x of shape (P, ...), any P.
        params: any pytree. Its arrays of floating numbers are theta; other leaves are constants, as in equinox.
        x: inputs of the rows, a sample per entry of the first axis.
        x2: inputs of the columns; None is x.
        block: rows treated at once: f keeps the intermediate results of so many samples.

    The result has shape (P, C, Q, C), or (P, Q) if f returns (P,), and the precision of the parameters.

    >>> ntk_of_function(lambda w, x: x @ w, np.ones(2, np.float32), [[1.0, 2.0], [0.0, 3.0]]).tolist()
    [[5.0, 6.0], [6.0, 9.0]]
    """
    check.integer("block", block, least=1)
    theta, constants = eqx.partition(params, eqx.is_inexact_array)
    dtype = _precision_of(theta)
    with _computing_in(dtype):
        theta = jax.tree.map(jnp.asarray, theta)
        rows, columns = _sides(x, x2, dtype)
        shape = _output_shape(f, eqx.combine(theta, constants), rows)
        kernel = np.empty((len(rows), *shape, len(columns), *shape), dtype)
        for part in blocks(len(rows), block):
            kernel[part] = _tangent_products(f, theta, constants, rows[part], columns)
    if not np.isfinite(kernel).all():
        raise InvalidInput("f has derivatives that are NaN or infinite: check params, or use float64 parameters")
    return kernel


def nngp_of_function(
    f: Function, params: PyTree, x: ArrayLike, x2: ArrayLike | None = None, *, block: int = 256
) -> NDArray[np.floating[Any]]:
    """Return the empirical NNGP kernel of any jax function,

        K[i, j] = (1/C) sum_c  f_c(x_i) f_c(x2_j)

    an average over its C outputs: give the features of a layer as outputs to have the kernel of that layer, or many
    outputs to estimate their covariance over networks. f, params, x, x2, block are those of `ntk_of_function`.

    >>> nngp_of_function(lambda w, x: x @ w, np.eye(2, dtype=np.float32), [[1.0, 2.0], [0.0, 3.0]]).tolist()
    [[2.5, 3.0], [3.0, 4.5]]
    """
    check.integer("block", block, least=1)
    theta, constants = eqx.partition(params, eqx.is_inexact_array)
    dtype = _precision_of(theta)
    with _computing_in(dtype):
        rows, columns = _sides(x, x2, dtype)
        whole = eqx.combine(jax.tree.map(jnp.asarray, theta), constants)
        width = math.prod(_output_shape(f, whole, rows))
        evaluated = eqx.filter_jit(f)

        def outputs(samples: Array) -> NDArray[Any]:
            found = np.empty((len(samples), width), dtype)
            for part in blocks(len(samples), block):
                found[part] = np.asarray(evaluated(whole, samples[part])).reshape(len(part), width)
            if not np.isfinite(found).all():
                raise InvalidInput("f has values that are NaN or infinite: check params and x")
            return found

        left = outputs(rows)
        return np.asarray(left @ (left if x2 is None else outputs(columns)).T / width)


def _sides(x: ArrayLike, x2: ArrayLike | None, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Samples of rows and of columns."""
    rows = _batch("x", x, dtype)
    columns = rows if x2 is None else _batch("x2", x2, dtype)
    if rows.shape[1:] != columns.shape[1:]:
        raise InvalidInput(f"x has shape {rows.shape} and x2 has shape {columns.shape}: samples must be alike")
    return rows, columns


@eqx.filter_jit
def _tangent_products(f: Function, theta: PyTree, constants: PyTree, x: Array, x2: Array) -> Float[Array, "p ..."]:
    """K = J (J'^T e) for one column e after the other: a vjp of one sample, then a jvp of all rows; (p, *c, q, *c).

    It holds one vector of parameters at a time. For an MLP of width 512 and 64 samples it took 0.4 to 0.95 of the
    processor time of Jacobians in blocks of 16 or 32, one half of the pairs; and 0.6 (four outputs) to 1.15 (one
    output) of that of one whole Jacobian, which holds 64 vectors of parameters for every output.
    """

    def outputs(theta: PyTree, x: Array) -> Array:
        result: Array = f(eqx.combine(theta, constants), x)
        return result

    value, push = jax.linearize(lambda theta: outputs(theta, x), theta)
    width = math.prod(value.shape[1:])
    units = jnp.eye(width, dtype=value.dtype).reshape(width, *value.shape[1:])

    def column(number: Int[Array, ""]) -> Array:
        sample = x2[number // width][None]
        _, pull = jax.vjp(lambda theta: outputs(theta, sample)[0], theta)
        product: Array = push(*pull(units[number % width]))
        return product

    products = jax.lax.map(column, jnp.arange(len(x2) * width))
    return jnp.moveaxis(products, 0, -1).reshape(*value.shape, len(x2), *value.shape[1:])


def _precision_of(theta: PyTree) -> np.dtype[Any]:
    """The widest type of the parameters."""
    types = [np.dtype(leaf.dtype) for leaf in jax.tree.leaves(theta)]
    if not types:
        raise InvalidInput("params holds no array of floating numbers, so f has no derivatives")
    if any(jnp.issubdtype(dtype, jnp.complexfloating) for dtype in types):
        raise InvalidInput("params holds complex numbers: give their real and imaginary parts as two arrays")
    return max(types, key=lambda dtype: dtype.itemsize)


def _computing_in(dtype: np.dtype[Any]) -> AbstractContextManager[None]:
    # Without it jax would turn float64 parameters into float32 wherever the user has not enabled float64.
    return double_precision() if dtype == np.float64 else nullcontext()


def _batch(name: str, value: ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Samples as a jax array: numbers in the precision of the parameters, integers (tokens, labels) as they are."""
    try:
        samples = jnp.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is not an array of numbers: {str(value)[:80]}") from None
    if samples.ndim == 0 or len(samples) == 0:
        raise InvalidInput(f"{name} has shape {samples.shape}; its first axis must hold at least one sample")
    if not jnp.issubdtype(samples.dtype, jnp.floating):
        return samples
    if not jnp.isfinite(samples).all():
        raise InvalidInput(f"{name} holds values that are NaN or infinite")
    return samples.astype(dtype)


def _output_shape(f: Function, params: PyTree, x: Array) -> tuple[int, ...]:
    """(C,) for a function with an axis of outputs, () for one without."""
    result = eqx.filter_eval_shape(f, params, x)
    shape = getattr(result, "shape", None)
    if shape is None or not jnp.issubdtype(result.dtype, jnp.floating):
        raise InvalidInput(f"f(params, x) returned {result}; it must return one array of floating numbers")
    if len(shape) not in (1, 2) or shape[0] != len(x):
        raise InvalidInput(
            f"f(params, x) has shape {shape} for x of shape {x.shape}; it must be ({len(x)}, outputs) or ({len(x)},)"
        )
    return tuple(shape[1:])
