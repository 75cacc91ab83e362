"""Products and inverses of lower triangular matrices, by blocks: what causality makes zero is not multiplied."""

from __future__ import annotations

import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from jaxtyping import Array, Float

PRODUCT_ROWS, INVERSE_ROWS = 256, 128
"""Rows of a block: small blocks skip more zeros, large ones run faster."""


def gram(fields: Float[Array, "n s"]) -> Float[Array, "n n"]:
    """<f f^T>, mean over samples, from its lower half."""
    lower = jnp.tril(lower_outer(fields, fields)) / fields.shape[1]
    return lower + jnp.tril(lower, -1).T


def lower_outer(left: Float[Array, "n s"], right: Float[Array, "n s"], count: int = 1) -> Float[Array, "n n"]:
    """left right^T without most of what lies above the diagonal; square blocks of `count` rows on it are complete."""
    n, rows = len(left), count * max(1, PRODUCT_ROWS // count)
    products = []
    for start in range(0, n, rows):
        end = min(start + rows, n)
        products.append(jnp.pad(left[start:end] @ right[:end].T, ((0, 0), (0, n - end))))
    return jnp.concatenate(products)


def lower_times(lower: Float[Array, "n n"], right: Float[Array, "n s"]) -> Float[Array, "n s"]:
    """lower right."""
    starts = range(0, len(lower), PRODUCT_ROWS)
    return jnp.concatenate(
        [lower[k : k + PRODUCT_ROWS, : k + PRODUCT_ROWS] @ right[: k + PRODUCT_ROWS] for k in starts]
    )


def lower_lower(left: Float[Array, "n n"], right: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The product of two lower triangular matrices, n^3/3 flops."""
    blocks = _blocks(len(left))
    products = [
        [left[i, j.start : i.stop] @ right[j.start : i.stop, j] for j in blocks[: k + 1]] for k, i in enumerate(blocks)
    ]
    return _from_lower_blocks(products)


def unit_lower_inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of a lower triangular matrix with ones on its diagonal, by blocks of rows, n^3/3 flops."""
    blocks = _blocks(len(matrix))
    columns: list[Array] = []  # of the inverse, each from its diagonal block down
    inverse: list[list[Array]] = []
    for k, i in enumerate(blocks):
        identity = jnp.eye(i.stop - i.start, dtype=matrix.dtype)
        own = triangular_solve(matrix[i, i], identity, left_side=True, lower=True, unit_diagonal=True)
        row = [-own @ (matrix[i, j.start : i.start] @ columns[m]) for m, j in enumerate(blocks[:k])]
        inverse.append([*row, own])
        columns = [jnp.concatenate([column, new]) for column, new in zip(columns, row, strict=True)] + [own]
    return _from_lower_blocks(inverse)


def cholesky(covariance: Float[Array, "n n"], jitter: float, scale: Float[Array, ""]) -> Float[Array, "n n"]:
    """The lower factor of covariance + jitter scale."""
    factor: Array = jnp.linalg.cholesky(covariance + jitter * scale * jnp.eye(len(covariance), dtype=covariance.dtype))
    return factor


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + INVERSE_ROWS, n)) for start in range(0, n, INVERSE_ROWS)]


def _from_lower_blocks(rows: list[list[Array]]) -> Array:
    n = sum(len(row[0]) for row in rows)
    joined = [jnp.concatenate(row, axis=1) for row in rows]
    return jnp.concatenate([jnp.pad(row, ((0, 0), (0, n - row.shape[1]))) for row in joined])
