"""Roots of covariances: A with A A^T = K, so that A x ~ N(0, K) for standard normals x.

K may be singular. What is zero is said once: a variance is rounding if it is below `ROUNDING` times the number of
variables, as a fraction of the largest variance of any direction (`root`), or of the variance that the variable has
before the others are known (`triangular_root`, `pivoted_factor`).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..activations.moments import root_determinant
from ..base.arrays import Floats

ROUNDING = 1e-14
"""Relative error of a covariance for each of its variables."""

_FEW = 4
"""Up to so many variables a loop over them is written out."""


def root(K: Float[Floats, "*b p p"], *, thin: bool = False) -> Float[Floats, "*b p r"]:
    """A = V sqrt(k) from K = V k V^T. The widest directions come first, as Sobol points are best in their first ones.

    Directions whose variance is rounding, negative ones included, become zeros, or are left out with `thin` (one matrix
    only).

    >>> root(np.array([[2.0, 2.0], [2.0, 2.0]]), thin=True).shape
    (2, 1)
    """
    values, vectors = _spectrum(K)
    found = vectors * np.sqrt(values)[..., None, :]
    return found[:, values > 0] if thin else found


def symmetric_root(K: Float[Floats, "p p"]) -> Float[Floats, "p p"]:
    """A = A^T = V sqrt(k) V^T."""
    values, vectors = _spectrum(K)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def _spectrum(K: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, the largest first and rounding set to zero, and eigenvectors."""
    if K.shape[-1] == 1:
        return np.maximum(K[..., 0], 0.0), np.ones_like(K)
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(K))
    floor = ROUNDING * values.shape[-1] * np.maximum(values[..., :1], 0.0)
    return np.where(values > floor, values, 0.0), vectors


def triangular_root(K: Float[Array, "b p p"]) -> Float[Array, "b p p"]:
    """Lower triangular roots of many matrices, in jax; variables that earlier ones determine get a column of zeros."""
    size = K.shape[1]
    whole = jnp.diagonal(K, axis1=1, axis2=2)

    def column(number: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, columns = state
        variance = rest[:, number, number]
        alive = variance > ROUNDING * size * whole[:, number]
        scale = jnp.where(alive, jax.lax.rsqrt(jnp.where(alive, variance, 1.0)), 0.0)
        new = rest[:, :, number] * scale[:, None]
        return rest - new[:, :, None] * new[:, None, :], columns.at[:, :, number].set(new)

    state = K, jnp.zeros_like(K)
    if size > _FEW:
        state = jax.lax.fori_loop(0, size, column, state)
    else:
        for number in range(size):
            state = column(number, state)
    return state[1]


def pair_factor(k11: Floats, k12: Floats, k22: Floats) -> Float[Floats, "b 2 2"]:
    """Lower triangular roots of [[k11, k12], [k12, k22]], exact at correlations +-1."""
    first, product = np.sqrt(k11), np.sqrt(k11) * np.sqrt(k22)
    safe = np.where(product > 0, first, 1.0)
    parallel = np.clip(k12, -product, product) / safe
    rest = np.where(product > 0, root_determinant(k11, k12, k22) / safe, np.sqrt(k22))
    zero = np.zeros_like(first)
    return np.stack([np.stack([first, zero], -1), np.stack([parallel, rest], -1)], -2)


def pivoted_factor(K: Float[Floats, "p p"]) -> tuple[list[int], Float[Floats, "p r"]]:
    """Return an order of the variables and L, one column for each independent one, with L L^T = K in that order.

    The variable that the earlier ones predict worst comes next, so that strong correlations are resolved last. None
    may be without variance.
    """
    n = len(K)
    rest = K.copy()
    order = list(range(n))
    columns: list[Floats] = []
    for step in range(n):
        unexplained = [rest[i, i] / K[i, i] for i in order[step:]]
        best = step + int(np.argmax(unexplained))
        if unexplained[best - step] < ROUNDING * n:
            break
        order[step], order[best] = order[best], order[step]
        i = order[step]
        column = rest[:, i] / math.sqrt(rest[i, i])
        column[order[:step]] = 0.0
        rest = rest - np.outer(column, column)
        columns.append(column)
    return order, np.stack(columns, axis=1)[order]
