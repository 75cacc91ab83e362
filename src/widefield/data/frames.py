"""Arrays and data frames as people have them: names of columns, classes, and what is missing, with its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidInput


def columns_of(value: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame (pandas, polars); None of anything else."""
    names = getattr(value, "columns", None)
    return None if names is None or not hasattr(value, "to_numpy") else tuple(str(name) for name in names)


def numbers(name: str, value: Any) -> Any:
    """What `check.array` takes; of columns of mixed kinds, floats. What is missing or no number is named by place."""
    if not hasattr(value, "to_numpy"):  # lists, and arrays of numpy and jax: `check.array` looks at them
        return value
    table = np.asarray(value)
    if table.dtype.kind == "f":
        _refuse(name, value, np.argwhere(np.isnan(table)), "no value")
    if table.dtype.kind != "O":
        return table
    _refuse(name, value, np.argwhere(_missing(table)), "no value")
    found = np.empty(table.shape)
    for place in np.ndindex(table.shape):
        try:
            found[place] = math.nan if isinstance(table[place], str) else float(table[place])
        except (TypeError, ValueError):
            found[place] = math.nan
    bad = np.argwhere(np.isnan(found))
    _refuse(name, value, bad, f"{table[tuple(bad[0])]!r}, which is no number," if len(bad) else "")
    return found


def labels(name: str, value: Any) -> NDArray[Any] | None:
    """Names of classes (P,), if targets are words; None if they are numbers."""
    try:
        table = (
            np.asarray(value) if hasattr(value, "to_numpy") or isinstance(value, list | tuple | np.ndarray) else None
        )
    except ValueError:  # rows of different lengths, which are no numbers either: who reads numbers says so
        return None
    if table is None or table.dtype.kind not in "UO" or not any(isinstance(one, str) for one in table.flat):
        return None
    if table.size != len(table):
        raise InvalidInput(f"{name} has shape {table.shape} and holds words: classes need one word for each sample")
    if table.dtype.kind == "O":
        _refuse(name, value, np.argwhere(_missing(table)), "no value")
    return table.reshape(-1).astype(str)


def _missing(table: NDArray[Any]) -> NDArray[np.bool_]:
    """None, NaN, and what pandas has in their place."""
    flat = [one is None or type(one).__name__ in ("NAType", "NaTType") or _is_nan(one) for one in table.flat]
    return np.array(flat, dtype=bool).reshape(table.shape)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _refuse(name: str, value: Any, places: NDArray[np.int64], what: str) -> None:
    """Raise for the first of these places, if there are any."""
    if not len(places):
        return
    row, *rest = (int(part) for part in places[0])
    columns = columns_of(value)
    where = f"row {row}"
    if rest:
        where += f", column {(columns or range(rest[0] + 1))[rest[0]]!r}"
    word = what != "no value"
    helps = "put numbers in place of words (pandas.get_dummies), or leave out the column" if word else ""
    raise InvalidInput(
        f"{name} has {what} in {where} (rows are counted from 0; {len(places)} such places in all): "
        f"{helps or 'fill it in, or leave out the row or the column'}"
    )
