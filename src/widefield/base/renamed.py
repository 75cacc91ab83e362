"""Words that were used before: accepted for one release, under a `DeprecationWarning` that names the new one."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .errors import InvalidInput

Made = TypeVar("Made", bound=Callable[..., Any])


def renamed(**words: str) -> Callable[[Made], Made]:
    """Let a function, or the constructor of a class, take old keywords: `@renamed(rate="learning_rate")`.

    Objects of the class can be asked for the old attribute too, and files and TOML that have the old key are read
    without a warning: they were right when they were written.
    """

    def decorate(made: Any) -> Any:
        if not isinstance(made, type):
            return _translating(made, made.__name__, words)
        cls: Any = made
        cls.__init__ = _translating(cls.__init__, cls.__name__, words)
        cls.old_words = {**getattr(cls, "old_words", {}), **words}
        for old, new in words.items():
            setattr(cls, old, former(cls.__name__, old, new))
        return made

    return decorate


def former(owner: str, old: str, new: str) -> property:
    """An attribute under its old name."""

    def read(self: Any) -> Any:
        warn(f"{owner}.{old}", f"{owner}.{new}", stacklevel=3)
        return getattr(self, new)

    return property(read, doc=f"Old name of `{new}`.")


def former_names(module: str, **words: str) -> Callable[[str], Any]:
    """`__getattr__` of a module some of whose functions have new names."""

    def read(name: str) -> Any:
        here = sys.modules[module]
        if name not in words:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=here)
        warn(f"{module}.{name}", f"{module}.{words[name]}", stacklevel=2)
        return getattr(here, words[name])

    return read


def warn(old: str, new: str, *, stacklevel: int) -> None:
    """Say once a place that there is a new word."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=stacklevel + 1)


def in_new_words(table: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    """A table whose keys are the new ones."""
    for old, new in words.items():
        if old in table and new in table:
            raise InvalidInput(f"{old} and {new} are two words for one thing; give {new} alone")
    return {words.get(name, name): value for name, value in table.items()}


def in_old_words(table: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    """A table whose keys are those that were used before: what marks a run must not depend on how things are called."""
    before = {new: old for old, new in words.items()}
    return {before.get(name, name): value for name, value in table.items()}


def _translating(function: Any, owner: str, words: dict[str, str]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys().isdisjoint(words):
            for old in kwargs.keys() & words.keys():
                warn(f"{owner}({old}=...)", f"{words[old]}=...", stacklevel=2)
            kwargs = in_new_words(kwargs, words)
        return function(*args, **kwargs)

    return call
