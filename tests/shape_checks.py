"""The checker that jaxtyping puts on every function and class of the package while tests run.

It checks the annotations that hold arrays, down to every item of a list: their kinds, and their shapes, where a letter
means one number within a call. Other annotations are the business of mypy, and of the package's own messages: a checker
of all of them would refuse a user's mistake before the package can say what is wrong.
"""

import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Self, Union, get_args, get_origin

from beartype import BeartypeConf
from beartype.door import is_bearable
from jaxtyping import AbstractArray

_NUMBERS = BeartypeConf(is_pep484_tower=True)  # an int is a float

checked_names = defaultdict(set)
"""What is checked: names of arguments, and "return", by (module, function)."""


class WrongArray(TypeError):
    """An argument or a result is not what its annotation says; jaxtyping says which one."""


def checked(function):
    """A function that checks its arrays: jaxtyping makes one for the arguments, and one that returns the result."""
    hints = {name: hint for name, hint in function.__annotations__.items() if holds_array(hint)}
    checked_names[function.__module__, function.__qualname__] |= hints.keys()
    if "return" in hints:
        return _with_result(function, hints["return"])
    return _with_arguments(function, hints) if hints else function


def _with_arguments(function, hints):
    signature = inspect.signature(function)
    many = {name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_POSITIONAL}

    def call(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            values = value if name in many else (value,)
            if name in hints and not all(fits(value, hints[name]) for value in values):
                raise WrongArray(name)

    return call


def _with_result(function, hint):
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if not fits(result, hint):
            raise WrongArray("return")
        return result

    return call


def holds_array(hint):
    """Whether shapes are part of an annotation."""
    return is_array(hint) or any(holds_array(part) for part in get_args(hint))


def is_array(hint):
    """Whether an annotation is one of jaxtyping's, such as Float[Array, "n"]."""
    return inspect.isclass(hint) and issubclass(hint, AbstractArray)


def fits(value, hint):
    """Whether a value is what an annotation says, all its items included."""
    origin, parts = get_origin(hint), get_args(hint)
    if is_array(hint):
        return isinstance(value, hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if hint is Self or not holds_array(hint):
        return hint is Self or is_bearable(value, hint, conf=_NUMBERS)
    if origin is tuple and parts[-1] is not ...:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if origin in (tuple, list, Sequence):
        return isinstance(value, origin) and all(fits(item, parts[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, origin) and all(fits(item, parts[1]) for item in value.values())
    return isinstance(value, origin)  # a function, an iterator: not looked into
