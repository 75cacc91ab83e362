"""What an HDF5 file may hold before anything is read from it: its own numbers, and no more than fit into memory.

HDF5 can make numbers of other files appear in this one (external links, external storage, virtual data sets), and a few
damaged bytes can make its library run for ever. Files without a seal are therefore opened in another process first.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import check
from .errors import FileProblem

_PATIENCE = 30.0
"""Seconds that another process may take to open a file, after the time that reading its bytes would take."""

_LONGEST_NAME = 100

_PROBE = """
import io, sys, h5py
with open(sys.argv[1], "rb") as given, h5py.File(io.BytesIO(given.read()), "r") as opened:
    for name in opened:
        if isinstance(opened.get(name, getlink=True), h5py.HardLink):
            found = opened[name]
            if isinstance(found, h5py.Dataset) and not found.is_virtual and not found.external:
                dict(found.attrs)
                found.size < 2**27 and found[()]
"""


def check_contents(path: Path, content: bytes) -> None:
    """Raise `FileProblem` for anything but plain data sets that fit into memory."""
    import h5py

    size = 0
    with h5py.File(io.BytesIO(content), "r") as opened:
        for name in opened:
            if not name.isprintable() or len(name) > _LONGEST_NAME:
                raise FileProblem(f"{path} is refused: it holds something called {name[:40]!r}")
            link = opened.get(name, getlink=True)
            found = opened.get(name) if isinstance(link, h5py.HardLink) else None
            if not isinstance(found, h5py.Dataset) or _elsewhere(found):
                raise FileProblem(f"{path} is refused: {name[:80]!r} leads elsewhere instead of holding numbers")
            size += int(found.size or 0) * found.dtype.itemsize
    try:
        check.memory(f"contents of {path}", size, "load it on a larger machine")
    except ValueError as error:
        raise FileProblem(str(error)) from None


def _elsewhere(found: Any) -> bool:
    """Whether the numbers of a data set are in other files, or would be run through code that is not HDF5's own."""
    own = {"gzip", "shuffle", "fletcher32", "lzf", "szip", None}
    return bool(found.is_virtual or found.external or found.compression not in own)


def check_opens(path: Path) -> None:
    """Raise `FileProblem` for a file that makes another process hang or crash when it is read."""
    if not sys.executable:
        return
    patience = _PATIENCE + path.stat().st_size / 1e7
    command = [sys.executable, "-I", "-c", _PROBE, str(path.resolve())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        raise FileProblem(f"{path} cannot be read as NetCDF; it is damaged: reading it does not end") from None
    if done.returncode < 0:
        raise FileProblem(f"{path} cannot be read as NetCDF; it is damaged: reading it crashes")
