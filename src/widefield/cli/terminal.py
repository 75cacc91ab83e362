"""What all commands share: where they print, how they fail, and how they write figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.markup import escape

from ..base import files, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..base.result import Result
    from ..trajectory.trajectory import Trajectory

_NETCDF = {"", ".nc", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5"}

console = Console()
errors = Console(stderr=True)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong and leave."""
    errors.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise SystemExit(code)


def say(message: str) -> None:
    """Print a sentence as it is."""
    console.print(message, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def notes() -> Iterator[None]:
    """Print warnings about accuracy as notes at the end, each once."""
    from ..base.errors import NotAccurate

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotAccurate)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"note: {message}")


def print_result(result: Result) -> None:
    """What was asked, how it ended, the numbers that matter most, and what they mean."""
    name, _, rest = result.heading.partition(":")
    console.print(f"[bold]{escape(name)}[/]{':' * bool(rest)}{escape(rest)}", highlight=False, soft_wrap=True)
    if result.ending:
        say(result.ending)
    if "left_out" in result.data.attrs:
        say(f"left out: {result.data.attrs['left_out']}")
    console.print(result.table())
    if result.verdict:
        say(result.verdict)


def check_new(path: Path | None, *, overwrite: bool) -> None:
    """Refuse before any work what could not be written after it."""
    if path is None:
        return
    if path.exists() and not overwrite:
        fail(f"{path} exists: add --overwrite to replace it", 2)
    files.check_writable(path)


def check_figure(path: Path | None, *, overwrite: bool) -> None:
    """The same for a figure, whose ending says what it becomes."""
    check_new(path, overwrite=overwrite)
    if path is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if path.suffix and path.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        fail(f"{path}: figures end with png, pdf or svg", 2)


def check_answer(path: Path | None) -> None:
    """Refuse a name that promises another format than NetCDF."""
    if path is not None and path.suffix.lower() not in _NETCDF:
        fail(f"--output {path}: answers are NetCDF files, whose names end with .nc", 2)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure and say so."""
    with files.atomic(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".").lower() or "png")
    say(f"saved {path}")


def last(trajectory: Trajectory, name: str) -> str:
    """The last value of a variable over time, and its standard error where there is one."""
    mean, error = (f(name).isel(time=-1) for f in (trajectory.mean, trajectory.standard_error))
    return tables.with_error(float(mean), float(error))
