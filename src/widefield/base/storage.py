"""Results on disk: one NetCDF file with the data and, as text, what they are the answer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from .errors import FileProblem
from .files import atomic
from .version import __version__

SCHEMA = 1

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
    with atomic(path) as temporary:
        stored.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)


def read(path: Path, kind: Kind) -> tuple[xr.Dataset, dict[str, str]]:
    """Read what `write` wrote, all of it into memory."""
    with _opened(path) as opened:
        data = opened.load()
    found = _name(data)
    if found != kind.name:
        other = f"; it holds a {found}" if found else ""
        raise FileProblem(f"{path} is a NetCDF file, but not a {kind.name} saved by widefield{other}")
    schema = data.attrs.get("schema")
    if schema not in range(1, SCHEMA + 1):
        raise FileProblem(f"{path} has schema version {schema}; this widefield reads up to {SCHEMA}: please upgrade")
    missing = [name for name in kind.texts if f"_{name}" not in data or data[f"_{name}"].ndim]
    if missing:
        raise FileProblem(f"{path} is damaged: it lacks its {' and '.join(missing)}")
    texts = {name: str(data[f"_{name}"].item()) for name in kind.texts}
    return data.drop_vars([f"_{name}" for name in kind.texts]), texts


def kind_of(path: Path) -> str:
    """The name of what a file holds, from its mark alone; empty if widefield did not write it."""
    with _opened(path) as opened:
        return _name(opened)


@contextmanager
def _opened(path: Path) -> Iterator[xr.Dataset]:
    if not path.is_file():
        raise FileProblem(f"cannot read {path}: it is a folder" if path.is_dir() else f"there is no file {path}")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            yield opened
    except Exception as error:
        raise FileProblem(f"{path} cannot be read as NetCDF; it is damaged or something else: {error}") from error


def _name(data: xr.Dataset) -> str:
    found = str(data.attrs.get("format", ""))
    return found.removeprefix(_MARK) if found.startswith(_MARK) else ""
