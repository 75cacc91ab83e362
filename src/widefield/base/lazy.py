"""Public names that are imported when they are first used (PEP 562), so that a package is quick to import."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def load_when_used(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the imports under its `if TYPE_CHECKING:`.

    Those imports are the one list of what is public: type checkers read it, and so does this function, which needs
    the source of the package for it. A line `from .room.module import name as name` makes a name public, and so does
    `from .room import module as module` with all of a module.
    """
    places = _imports(package)

    def load(name: str) -> Any:
        module = sys.modules[package]
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        place, attribute = places[name]
        value = _imported(place, attribute) if attribute else import_module(place)
        setattr(module, name, value)  # from now on it is found without asking here
        return value

    return load, lambda: sorted(places), sorted(places)


def _imported(place: str, attribute: str) -> Any:
    """What `from place import attribute` means: a name in a module, or else a module in a package."""
    module = import_module(place)
    return getattr(module, attribute) if hasattr(module, attribute) else import_module(f"{place}.{attribute}")


def _imports(package: str) -> dict[str, tuple[str, str]]:
    """Where every name comes from: a module and the name in it, or a module and nothing."""
    module = sys.modules[package]
    try:
        source = inspect.getsource(module)
    except OSError:
        remedy = "install it with its .py files"
        raise ImportError(f"{package} cannot say what is public without its source: {remedy}") from None
    found = {}
    for block in ast.parse(source).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for line in block.body:
            if not isinstance(line, ast.ImportFrom) or line.level != 1:
                raise ImportError(f"{package}, line {line.lineno}: public names come from .module import name as name")
            for name in line.names:
                place, attribute = (line.module, name.name) if line.module else (name.name, "")
                found[name.asname or name.name] = (f"{module.__package__}.{place}", attribute)
    return found
