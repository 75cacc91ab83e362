"""The folder of compiled programs: where it is, whether it can be trusted, and that it stays small."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from .errors import FileProblem, InvalidInput

SWITCH = "WIDEFIELD_CACHE"
OFF = ("off", "0", "no", "false")


def root() -> Path | None:
    """The folder for all processors and versions of jax; None if it is switched off or there is no home for it."""
    chosen = os.environ.get(SWITCH, "").strip()
    if chosen.lower() in OFF:
        return None
    place = Path(os.path.expanduser(chosen)) if chosen else _users_caches() / "widefield"
    if not place.is_absolute() and chosen:
        raise InvalidInput(f"{SWITCH} = {chosen!r} must be off or a folder with its full path")
    return place if place.is_absolute() else None


def _users_caches() -> Path:
    """Where this system keeps what can be made again."""
    home = Path(os.path.expanduser("~"))  # stays "~" where there is none
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else home / ".cache"  # the standard says that relative ones do not count


def key() -> str:
    """Programs run where they were compiled: with this version of jax and on this kind of processor."""
    processor = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    return f"jax-{version('jax')}-jaxlib-{version('jaxlib')}-{processor}"


def _processor() -> str:
    """Its model and instruction sets. jax looks at them too, but not in all versions."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = ("vendor_id", "model name", "flags", "CPU implementer", "CPU architecture", "CPU part", "Features")
    return "\n".join([platform.machine(), *(line for line in first.splitlines() if line.startswith(told))])


def places(root: Path) -> list[Path]:
    """The folders, one for each processor and version of jax; nothing else in `root` is ours."""
    return [place for place in root.glob("jax-*-jaxlib-*") if place.is_dir() and not place.is_symlink()]


def programs(root: Path) -> list[Path]:
    """Files of programs, under the names that jax gives them."""
    return [path for place in places(root) for path in place.glob("*-cache")]


def bytes_of(path: Path) -> int:
    """The size of a file; 0 if another process has just removed it."""
    return path.stat().st_size if path.exists() else 0


def prepare(place: Path, largest: int) -> None:
    """Make the folder if it is not there, for us alone, and remove old programs from those beside it.

    Raises:
        FileProblem: it cannot be written to, or somebody else could put programs there, which we would then run.
    """
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        for folder in (place.parent, place):
            _check_private(folder)
        trim(place.parent, largest)
    except OSError as error:
        raise FileProblem(f"cannot write to {place}: {error.strerror or error}") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise FileProblem(f"cannot write to {place}")


def _check_private(folder: Path) -> None:
    """Only for systems where modes say who may write."""
    if sys.platform == "win32":
        return
    remedy = f"give {SWITCH} a folder of your own, or off"
    if {folder.lstat().st_uid, folder.stat().st_uid} != {os.geteuid()}:
        raise FileProblem(f"{folder} belongs to another user; {remedy}")
    if folder.stat().st_mode & 0o022:
        raise FileProblem(f"other users can write to {folder}; chmod go-w, or {remedy}")


def trim(root: Path, largest: int) -> None:
    """Remove the programs that were not used for longest until the others have `largest` bytes; empty ones anyway.

    Those are left by writes on a full disk, and jax does not replace a file that it cannot read.
    """
    kept = []
    for path in programs(root):
        with suppress(FileNotFoundError):  # another process does the same
            status = path.stat()
            used = max(status.st_atime, status.st_mtime) if status.st_size else 0.0
            kept.append((used, status.st_size, path))
    excess = sum(size for _, size, _ in kept) - largest
    for _, size, path in sorted(kept):
        if excess <= 0 and size > 0:
            break
        path.unlink(missing_ok=True)
        excess -= size
