"""Reading and writing files so that a crash, a full disk or Ctrl-C never leaves half of one."""

from __future__ import annotations

import os
import socket
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FileProblem

LONGEST_TEXT = 2**26
"""Bytes of a text file at most: some files never end."""


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
    try:
        if not folder.is_dir():
            raise FileProblem(f"cannot write {path}: the folder {folder} does not exist")
        if path.is_dir():
            raise FileProblem(f"cannot write {path}: it is a folder")
        _temporary(path).unlink()
        _remove_orphans(path)
    except OSError as error:
        raise FileProblem(f"cannot write {path}: {error.strerror or error}") from None


def _temporary(path: Path) -> Path:
    """An empty file beside `path` whose name tells who writes it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{_stem(path)}{_writer()}-", suffix=".part")
    os.close(descriptor)
    return Path(name)


def _stem(path: Path) -> str:
    name = path.name.encode("utf-8", "surrogateescape")
    return f".{path.name[:40]}.{zlib.crc32(name):08x}."


def _writer() -> str:
    """This process on this machine."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}-{os.getpid()}"


def _remove_orphans(path: Path) -> None:
    """Delete what processes of this machine that are no more have left of this file."""
    host = _writer().partition("-")[0]
    for part in path.parent.glob(f"{_escaped(_stem(path))}{host}-*.part"):
        number = part.name.removeprefix(_stem(path)).split("-")[1]
        if number.isdecimal() and not _alive(int(number)):
            part.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        with path.open("rb") as handle:
            content = handle.read(LONGEST_TEXT + 1)
        if len(content) > LONGEST_TEXT:
            raise FileProblem(f"cannot read {path}: it is longer than {LONGEST_TEXT >> 20} MiB")
        return content.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"cannot read {path}: it is not a text file") from None


def read_bytes(path: Path) -> bytes:
    """Read a file of any size that fits into memory; not a folder, nor a device that never ends."""
    try:
        if path.is_dir():
            raise FileProblem(f"cannot read {path}: it is a folder")
        if not path.exists():
            raise FileProblem(f"there is no file {path}")
        if not path.is_file():
            raise FileProblem(f"cannot read {path}: it is no ordinary file")
        return path.read_bytes()
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError:
        raise FileProblem(f"cannot read {path}: it is larger than the memory that is free") from None


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold `path` for this process as long as the block lasts; raise `FileProblem` if another one holds it.

    A process that dies lets go by itself. Where a file system knows no locks, nobody is kept out.
    """
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    lock = path.with_name(f"{_stem(path)}lock")
    try:
        handle = _locked(lock, lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        raise FileProblem(f"another run is at work on {path}: wait for its end, or choose another file") from None
    except OSError as error:
        raise FileProblem(f"cannot write {path}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path, take: Callable[[int], None]) -> int:
    """A descriptor of the lock, taken; whoever held it before may have deleted it between opening and taking."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            take(handle)
            if os.fstat(handle).st_ino == lock.stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:  # no locks on this file system
            return handle
        os.close(handle)


def _flush(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
