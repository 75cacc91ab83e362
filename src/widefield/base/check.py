"""Checks of arguments. Each raises `InvalidInput` with the argument's name, its value and what would work.

`put` keeps what was checked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import psutil
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, UnknownName


def number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return `value` as a finite float with above < value, least <= value <= most."""
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} = {value!r} is not a number") from None
    if isinstance(value, bool | str) or not math.isfinite(result):
        raise InvalidInput(f"{name} = {value!r} is not a finite number")
    if not (result > above and least <= result <= most):
        bounds = [f"> {above:g}" if above > -math.inf else "", f">= {least:g}" if least > -math.inf else ""]
        bounds.append(f"<= {most:g}" if most < math.inf else "")
        raise InvalidInput(f"{name} = {value!r} must be {' and '.join(b for b in bounds if b)}")
    return result


def integer(name: str, value: Any, *, least: int = 0, most: float = math.inf) -> int:
    """Return `value` as an int with least <= value <= most."""
    try:
        result = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} = {value!r} is not a whole number") from None
    if isinstance(value, bool) or not least <= result <= most:
        upper = f" and at most {most:g}" if most < math.inf else ""
        raise InvalidInput(f"{name} = {value!r} must be a whole number of at least {least}{upper}")
    return result


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} = {value!r} must be true or false")
    return value


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else suggest the nearest one."""
    options = list(options)
    if value not in options:
        raise UnknownName(name, value, options)
    return str(value)


def array(name: str, value: ArrayLike, *, ndim: int | None = None) -> NDArray[np.float64]:
    """Return `value` as a finite float64 array, with `ndim` axes if given."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError
        result = given.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is not an array of numbers: {str(value)[:80]}") from None
    if ndim is not None and result.ndim != ndim:
        raise InvalidInput(f"{name} has shape {result.shape}; it must have {ndim} axes")
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise InvalidInput(f"{name} holds {len(bad)} values that are NaN or infinite, the first at index {where}")
    return result


def memory(what: str, needed: int, remedy: str) -> None:
    """Raise before starting something that needs more bytes than are free."""
    available = psutil.virtual_memory().available
    if needed > available:
        gib = 2**30
        free = f"{available / gib:.1f} GiB are free"
        raise InvalidInput(f"the {what} would take {needed / gib:.1f} GiB of memory; {free}: {remedy}")


def inputs(x: ArrayLike, x2: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Checked inputs of rows and columns; None if they are the same."""
    left = array("x", x, ndim=2)
    right = None if x2 is None or x2 is x else array("x2", x2, ndim=2)
    for name, points in (("x", left), ("x2", left if right is None else right)):
        if 0 in points.shape:
            raise InvalidInput(f"{name} has shape {points.shape}: at least one sample and one dimension are needed")
    if right is not None and right.shape[1] != left.shape[1]:
        raise InvalidInput(f"x has shape {left.shape} and x2 has shape {right.shape}: they need as many columns")
    return left, right


def put(target: object, /, **values: Any) -> None:
    """Set fields of a frozen dataclass; arrays become read-only."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(target, name, value)
