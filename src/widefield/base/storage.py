"""Results on disk: one NetCDF file with the data and, as text, what they are the answer to.

The file is made in memory, sealed with a digest and then written, so that neither a full disk nor a damaged file ever
meets the library that reads and writes HDF5.
"""

from __future__ import annotations

import io
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from . import hdf5
from .errors import FileProblem
from .files import read_bytes, write_bytes
from .seal import sealed, unsealed
from .version import __version__

SCHEMA = 2
"""Files are sealed since version 2."""

_MARK = "widefield "


@dataclass(frozen=True)
class Kind:
    """What a file holds, in words, and the names of the texts in it."""

    name: str
    texts: tuple[str, ...]

    @property
    def format(self) -> str:
        """The mark in the file."""
        return f"{_MARK}{self.name}"


def write(path: Path, data: xr.Dataset, texts: dict[str, str], kind: Kind) -> None:
    """Write atomically. The texts go into variables, because attributes are limited to 64 KiB."""
    stored = data.assign({f"_{name}": ((), texts[name]) for name in kind.texts})
    stored = stored.assign_attrs(format=kind.format, schema=SCHEMA, widefield=__version__)
    packed = {"zlib": True, "complevel": 4}
    encoding: dict[Any, dict[str, Any]] = {name: packed for name, value in data.data_vars.items() if value.ndim}
    write_bytes(path, sealed(bytes(stored.to_netcdf(engine="h5netcdf", encoding=encoding))))


def read(path: Path, kind: Kind) -> tuple[xr.Dataset, dict[str, str]]:
    """Read what `write` wrote, all of it into memory."""
    data = _opened(path)
    found = _name(data)
    if found != kind.name:
        other = f"; it holds a {found}" if found else ""
        raise FileProblem(f"{path} is a NetCDF file, but not a {kind.name} saved by widefield{other}")
    missing = [name for name in kind.texts if f"_{name}" not in data or data[f"_{name}"].ndim]
    if missing:
        raise FileProblem(f"{path} is damaged: it lacks its {' and '.join(missing)}")
    texts = {name: str(data[f"_{name}"].item()) for name in kind.texts}
    return _of_numbers(path, data.drop_vars([f"_{name}" for name in kind.texts])), texts


def kind_of(path: Path) -> str:
    """The name of what a file holds, from its mark alone; empty if widefield did not write it."""
    return _name(_opened(path))


def _opened(path: Path) -> xr.Dataset:
    """Everything in a file. Attributes that would change numbers (units, scale_factor, ...) are not obeyed."""
    content, whole = unsealed(read_bytes(path))
    if whole is False:
        raise FileProblem(f"{path} cannot be read as NetCDF; it is damaged: its digest is another one")
    if whole is None:
        hdf5.check_opens(path)
    try:
        hdf5.check_contents(path, content)
        plain = {"mask_and_scale": False, "decode_times": False, "decode_timedelta": False}
        with xr.open_dataset(io.BytesIO(content), engine="h5netcdf", **plain) as opened:  # type: ignore[arg-type]
            data = opened.load()
    except FileProblem:
        raise
    except Exception as error:
        reason = printable(str(error))[:200]
        raise FileProblem(f"{path} cannot be read as NetCDF; it is damaged or something else: {reason}") from error
    _check_schema(path, data, sealed=whole is True)
    return _without_codes(data)


def _check_schema(path: Path, data: xr.Dataset, *, sealed: bool) -> None:
    if not _name(data):
        return
    schema = data.attrs.get("schema")
    if not isinstance(schema, int | np.integer) or not 1 <= schema <= SCHEMA:
        stated = printable(str(schema))[:40]
        raise FileProblem(f"{path} has schema version {stated}; this widefield reads up to {SCHEMA}: please upgrade")
    if schema > 1 and not sealed:
        raise FileProblem(
            f"{path} has lost its digest: it is damaged, or another program has written it; "
            "xarray.open_dataset reads it as it is"
        )


def _of_numbers(path: Path, data: xr.Dataset) -> xr.Dataset:
    """The same, if all variables hold numbers; only labels may be words."""
    for name, value in data.variables.items():
        allowed = "biufUO" if name in data.coords else "biuf"
        if value.dtype.kind not in allowed:
            raise FileProblem(f"{path} is damaged: {str(name)[:80]!r} holds {value.dtype} instead of numbers")
    return data


def printable(text: str) -> str:
    """Text without control characters, which could make a terminal do things.

    >>> printable("loss\x1b[31m \u221e")
    'loss\ufffd[31m \u221e'
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text)


def _without_codes(data: xr.Dataset) -> xr.Dataset:
    """With texts that can be printed, and without what netCDF adds to variables."""
    attributes = {name: printable(value) if isinstance(value, str) else value for name, value in data.attrs.items()}
    for value in data.variables.values():
        value.attrs.clear()
        value.encoding.clear()
    data.attrs = attributes
    return data


def _name(data: xr.Dataset) -> str:
    found = str(data.attrs.get("format", ""))
    return printable(found.removeprefix(_MARK))[:80] if found.startswith(_MARK) else ""
