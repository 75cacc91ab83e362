"""Checks of arguments and of memory. Each raises `InvalidInput` with the name, the value and what would work.

`put` keeps what was checked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, UnknownName

_CGROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

_MAPPED, _HELD = int(1.7 * 2**30), 2**29
"""What jax takes as soon as it computes, in addresses (most of which it never uses) and in data; measured."""


def number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return `value` as a finite float with above < value, least <= value <= most."""
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} = {shown(value)} is not a number") from None
    if isinstance(value, bool | str) or not math.isfinite(result):
        raise InvalidInput(f"{name} = {shown(value)} is not a finite number")
    if not (result > above and least <= result <= most):
        bounds = [f"> {above:g}" if above > -math.inf else "", f">= {least:g}" if least > -math.inf else ""]
        bounds.append(f"<= {most:g}" if most < math.inf else "")
        raise InvalidInput(f"{name} = {value!r} must be {' and '.join(b for b in bounds if b)}")
    return result


LARGEST = 2**62
"""Whole numbers beyond this are nobody's size, and many libraries fail on them."""


def integer(name: str, value: Any, *, least: int = 0, most: float = LARGEST) -> int:
    """Return `value` as an int with least <= value <= most."""
    try:
        result = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} = {shown(value)} is not a whole number") from None
    if isinstance(value, bool) or not least <= result <= most:
        upper = f" and at most {most:g}" if most < LARGEST or result > most else ""
        raise InvalidInput(f"{name} = {shown(value)} must be a whole number of at least {least}{upper}")
    return result


def shown(value: Any, most: int = 60) -> str:
    """A value in an error: its representation, cut where it is long; of arrays the shape."""
    if isinstance(value, np.ndarray) or hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    if isinstance(value, list | tuple) and any(hasattr(part, "shape") for part in value):
        return f"({', '.join(shown(part, most) for part in value)})"
    try:
        text = repr(value)
    except Exception:  # whatever somebody's class does: the error is about something else
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} = {shown(value)} must be true or false")
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
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(value))[0])
            raise InvalidInput(f"{name} is masked, first at index {where}: fill in or leave out what is missing")
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError
        result = given.astype(np.float64)
    except InvalidInput:
        raise
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is not an array of numbers: {shown(value)}") from None
    if ndim is not None and result.ndim != ndim:
        raise InvalidInput(f"{name} has shape {result.shape}; it must have {ndim} axes")
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise InvalidInput(f"{name} holds {len(bad)} values that are NaN or infinite, the first at index {where}")
    return result


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


def memory(what: str, needed: int, remedy: str) -> None:
    """Raise before starting something that needs more bytes than are free."""
    free = available()
    if needed > free:
        raise InvalidInput(f"the {what} would take {gib(needed)} of memory; {gib(free)} are free: {remedy}")


def gib(size: float) -> str:
    """A number of bytes for people.

    >>> gib(3 * 2**30), gib(2**20)
    ('3.0 GiB', '0.00098 GiB')
    """
    found = size / 2**30
    return f"{found:.1f} GiB" if found >= 0.1 else f"{found:.2g} GiB"


def available() -> int:
    """Bytes that this process may still take: the machine's, its own limits (ulimit), and those of its container."""
    return max(0, min([psutil.virtual_memory().available, *_of_limits(), *_of_groups()]))


def _of_limits() -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave, once jax has begun."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    held = psutil.Process().memory_info()
    for name, used in (("RLIMIT_AS", max(held.vms, _MAPPED)), ("RLIMIT_DATA", max(getattr(held, "data", 0), _HELD))):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - used


def _of_groups() -> Iterator[int]:
    """What the control groups of this process leave, version 2 or 1; their caches can be given back."""
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
        for number, controllers, inside in lines:
            if number == "0":
                yield from _left(_CGROUPS, inside, ("memory.max", "memory.current", "inactive_file"))
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _left(_CGROUPS / "memory", inside, names)


def _left(root: Path, inside: str, names: tuple[str, str, str]) -> Iterator[int]:
    """Of a group and all those that it is in. Inside a container its own group is the root."""
    limit, usage, cache = names
    group = root / inside.strip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            return
        with suppress(OSError, ValueError):
            most = (folder / limit).read_text().strip()
            if most != "max" and int(most) < 2**60:
                stated = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                yield int(most) - int((folder / usage).read_text()) + int(stated.get(cache, 0))
