"""Compiled programs kept on disk, so that a new process need not compile what an earlier one has compiled.

The command line switches this on; Python does not before `enable` is called. WIDEFIELD_CACHE=off in the environment
switches it off everywhere, and WIDEFIELD_CACHE=/some/folder takes another folder. A folder that jax was given, by
JAX_COMPILATION_CACHE_DIR or `jax.config`, stays in use, with its own settings.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from . import cache_folder
from .errors import FileProblem

__all__ = ["clear", "disable", "enable", "folder", "programs", "size"]

LARGEST = 2**29
"""Bytes that are kept from one process to the next. A solution at infinite width leaves about half a million."""

_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # many small programs together take seconds
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_persistent_cache_enable_xla_caches": "none",  # else programs are not found in a folder that was moved
}

_changed: dict[str, tuple[Any, Any]] = {}
"""Settings of jax before and after `enable`; empty if it is not in force."""

_DIRECTORY = "jax_compilation_cache_dir"


def enable(*, throw: bool = False) -> Path | None:
    """Keep what jax compiles from now on in `folder()`, and look there before compiling.

    Returns the folder that is used: `folder()`, or the one that jax was given before. None if there is none, because
    WIDEFIELD_CACHE is off, or because the folder cannot be used: then all goes on without.

    Args:
        throw: raise `FileProblem` if the folder cannot be used; False warns.
    """
    disable()
    place = folder()
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR", _setting(_DIRECTORY))
    if given is not None:
        return Path(given) if given else None
    if place is None or not _setting("jax_enable_compilation_cache"):
        return None
    try:
        cache_folder.prepare(place, LARGEST)
    except FileProblem as problem:
        if throw:
            raise
        warnings.warn(f"compiled programs are not kept: {problem}", stacklevel=2)
        return None
    settings = {name: value for name, value in _SETTINGS.items() if name.upper() not in os.environ}
    for name, value in {**settings, _DIRECTORY: str(place)}.items():
        _changed[name] = _setting(name), value
        _set(name, value)
    return place


def disable() -> None:
    """Undo `enable`: jax compiles in memory only, as before. What is on disk stays there."""
    if not _changed:
        return
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    for name, (before, ours) in _changed.items():
        if _setting(name) == ours:  # else the user has chosen another value since
            _set(name, before)
    _changed.clear()
    reset_cache()  # jax would go on with the folder that it has opened


def folder() -> Path | None:
    """Where programs of this processor and version of jax are kept, whether it exists or not; None if that is off."""
    root = cache_folder.root()
    return None if root is None else root / cache_folder.key()


def programs() -> list[Path]:
    """Files of all programs that are kept, those of other processors and versions of jax included."""
    root = cache_folder.root()
    return [] if root is None else cache_folder.programs(root)


def size() -> int:
    """Bytes of all programs that are kept."""
    return sum(cache_folder.bytes_of(path) for path in programs())


def clear() -> int:
    """Remove all programs that are kept, and return how many they were. Nothing else in the folder is touched."""
    found = programs()
    for path in found:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot remove {path}: {error.strerror or error}") from None
    return len(found)


def _setting(name: str) -> Any:
    import jax

    return getattr(jax.config, name)


def _set(name: str, value: Any) -> None:
    import jax

    jax.config.update(name, value)  # type: ignore[no-untyped-call]
