"""Numbers in compiled code: double precision for ours, and arguments instead of constants.

The user's jax settings stay as they are: `double_precision` holds within a block.

The numbers of a description are arguments, so that other numbers need no other code: `traced` splits a frozen
dataclass into its frame (class, whole numbers, flags, texts), for which code is compiled, and its numbers, which jax
traces. A number that is exactly zero belongs to the frame: without momentum there is no velocity, without temperature
no noise, and code for what is absent is never made.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .check import put
from .errors import UnknownName

T = TypeVar("T")

Number = float | Float[Array, ""]
"""A plain number, or the same inside of compiled code."""

_SOME = 1.0
"""Stands in a frame for any number that is not zero."""


@contextmanager
def double_precision() -> Iterator[None]:
    """Within this block jax computes in float64; outside, whatever the user chose stays in force.

    Blocks inside such a block cost nothing: a loop over many averages enters once, around all of them.
    """
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        yield
        return
    with jax.enable_x64(True):
        yield


def traced(*names: str) -> Callable[[type[T]], type[T]]:
    """Name the fields of a frozen dataclass that hold numbers, or tuples of numbers: `@traced("momentum")`.

    The class becomes a node of jax's trees whose leaves are these numbers. Classes derived from it do not: they must
    say so themselves, because what they do with their numbers may need plain ones.
    """

    def register(cls: type[T]) -> type[T]:
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in names:
            if name not in known:
                raise UnknownName(f"field of {cls.__name__}", name, known)

        def flatten(described: T) -> tuple[tuple[Any, ...], T]:
            values = [getattr(described, name) for name in names]
            return tuple(map(_leaf, values)), _with_fields(described, names, map(_framed, values))

        def unflatten(frame: T, leaves: tuple[Any, ...]) -> T:
            values = (_joined(getattr(frame, name), leaf) for name, leaf in zip(names, leaves, strict=True))
            return _with_fields(frame, names, values)

        jax.tree_util.register_pytree_node(cls, flatten, unflatten)
        return cls

    return register


def with_arrays(described: T, dtype: Any) -> T:
    """The same with arrays for all numbers that are traced."""
    made: T = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if type(leaf) is float else leaf, described)
    return made


def present(number: Number) -> bool:
    """Whether a number is not zero, which is known of traced numbers too: they never are."""
    return isinstance(number, jax.Array) or bool(number)


def root(number: T) -> T:
    """The square root of a plain number or of a traced one."""
    return cast(T, jnp.sqrt(number) if isinstance(number, jax.Array) else math.sqrt(cast(float, number)))


def _absent(value: Any) -> bool:
    # Neither False nor a whole number: jax's and equinox's own functions put such things where numbers were.
    return type(value) is float and value == 0


def _leaf(value: Any) -> Any:
    """What is traced of a field."""
    if isinstance(value, tuple):
        return tuple(map(_leaf, value))
    return None if _absent(value) else value


def _framed(value: Any) -> Any:
    """What is compiled of a field."""
    if isinstance(value, tuple):
        return tuple(map(_framed, value))
    return 0.0 if _absent(value) else _SOME


def _joined(framed: Any, leaf: Any) -> Any:
    """The field again."""
    if isinstance(framed, tuple) and isinstance(leaf, tuple):
        return tuple(map(_joined, framed, leaf))
    return framed if _absent(framed) else leaf


def _with_fields(described: T, names: tuple[str, ...], values: Any) -> T:
    """A copy with other fields, which are not checked: the checks were for plain numbers."""
    made = copy.copy(described)
    put(made, **dict(zip(names, values, strict=True)))
    return made
