"""Reading and writing files so that a crash, a full disk or Ctrl-C never leaves half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FileProblem


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only if the block succeeds."""
    check_writable(path)
    temporary = _temporary(path)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise FileProblem(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise now what `atomic` would raise after hours of work."""
    folder = path.parent
    if not folder.is_dir():
        raise FileProblem(f"cannot write {path}: the folder {folder} does not exist")
    if path.is_dir():
        raise FileProblem(f"cannot write {path}: it is a folder")
    try:
        _temporary(path).unlink()
    except OSError as error:
        raise FileProblem(f"cannot write {path}: {error.strerror or error}") from None


def _temporary(path: Path) -> Path:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(descriptor)
    return Path(name)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"cannot read {path}: it is not a text file") from None


def _flush(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
