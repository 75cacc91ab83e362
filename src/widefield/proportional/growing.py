"""Matrices over times that grow row by row, lower-triangular or symmetric, and products that read no more than needed.

Every product of a row is bound by memory. So zeros above the diagonal are left out in panels of rows, and two matrices
that meet the same row can be stored as one: their columns in turn, which makes long stretches of memory to read. Such a
pair has twice as many columns as rows, and nothing else distinguishes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PANEL = 192
"""Rows: fewer would cost more calls than they save."""


def transposed(matrix: Floats) -> Floats:
    """The last two axes exchanged, as a view."""
    return matrix.swapaxes(-1, -2)


def put_row(matrix: Floats, row: Floats) -> None:
    """Write the last rows of a growing matrix, or of a pair of them."""
    n, c = row.shape[-1] // _columns(matrix), row.shape[-2]
    matrix[..., n - c : n, : row.shape[-1]] = row


def put_symmetric(matrix: Floats, row: Floats) -> None:
    """Write the last rows and columns of a growing symmetric matrix."""
    put_row(matrix, row)
    n, c = row.shape[-1], row.shape[-2]
    matrix[..., :n, n - c : n] = transposed(row)


def with_identity(row: Floats, outputs: int) -> Floats:
    """A row before the diagonal, and 1 on it."""
    diagonal = np.broadcast_to(np.eye(outputs), (*row.shape[:-1], outputs))
    return np.concatenate([row, diagonal], axis=-1)


def times_lower(row: Floats, matrix: Floats) -> Floats:
    """A row times a lower-triangular matrix, or a pair of them."""
    n, w, height = row.shape[-1], _columns(matrix), _height(row.shape[-2])
    if n <= height:
        return np.asarray(row @ matrix[..., :n, : w * n])
    last = (n - 1) // height * height
    found = row[..., last:] @ matrix[..., last:n, : w * n]
    for start in range(0, last, height):
        end = start + height
        found[..., : w * end] += row[..., start:end] @ matrix[..., start:end, : w * end]
    return np.asarray(found)


def times_upper(row: Floats, matrix: Floats, n: int) -> Floats:
    """A row times the transpose of the first n rows of a lower-triangular matrix, or a pair of them."""
    w, height = _columns(matrix), _height(row.shape[-2])
    if n <= height:
        return np.asarray(row @ transposed(matrix[..., :n, : row.shape[-1]]))
    parts = []
    for start in range(0, n, height):
        end = min(start + height, n)
        used = min(w * end, row.shape[-1])
        parts.append(row[..., :used] @ transposed(matrix[..., start:end, :used]))
    return np.concatenate(parts, axis=-1)


def _columns(matrix: Floats) -> int:
    """1, or 2 for a pair."""
    return int(matrix.shape[-1] // matrix.shape[-2])


def _height(outputs: int) -> int:
    """Of a panel: whole times, of which every output has a row."""
    return outputs * max(1, _PANEL // outputs)
