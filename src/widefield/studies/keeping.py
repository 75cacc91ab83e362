"""The folder of a study: what it was asked, and every part as soon as it is finished, so that it can go on."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import xarray as xr

from ..base import files, tables
from ..base.errors import FileProblem, InvalidInput
from ..base.result import Result
from ..data.samples import Samples

ASKED = "study.toml"
REPORT = "report.html"
PLACES = {"parts": ".nc", "networks": ".nc", "figures": ".png"}
"""Folders inside, and how the names of files in them end."""


@dataclass(frozen=True, eq=False)
class Part(Result, kind="part of a study", figure="widefield.studies.plots:part"):
    """Numbers of one part of a study, for example the losses of all splits at one richness."""

    @property
    def heading(self) -> str:
        """What it is."""
        return str(self.data.attrs.get("title", self.kind))

    def table(self) -> Any:
        """Variables, their axes and their means."""
        made = tables.table(("variable", "over", "mean"), words=2)
        for name, value in self.data.data_vars.items():
            made.add_row(str(name), ", ".join(map(str, value.dims)), f"{float(value.mean()):.4g}")
        return made


class Folder:
    """Files of a study. Another question in the same folder is refused, the same one goes on.

    Args:
        path: the folder, made if it does not exist.
        asked: what must be the same for the parts to be of use, by name, in plain values.
        overwrite: whether files of another study are removed.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = path
        self._asked = dict(asked)
        if overwrite:
            _removed(path)
        found = _read(path / ASKED)
        if found is None and path.exists() and any(inside.is_file() for inside in path.rglob("*")):
            raise FileProblem(f"folder = {str(path)!r} holds other files, and no {ASKED}: choose another folder")
        if found is not None:
            self._check_same(found.get("asked", {}))
        self.plan: dict[str, Any] | None = None if found is None else found.get("plan")
        try:
            for place in PLACES:
                (path / place).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot make the folder {path}: {error.strerror or error}") from None

    def _check_same(self, before: Mapping[str, Any]) -> None:
        changed = [name for name, value in self._asked.items() if before.get(name) != value]
        if changed:
            what = ", ".join(changed)
            raise InvalidInput(
                f"folder = {str(self.path)!r} holds a study of something else ({what} changed since): choose another "
                "folder, or overwrite = True (--overwrite) to begin again"
            )

    def remember(self, plan: Mapping[str, Any]) -> None:
        """Keep what was asked and what is planned."""
        self.plan = dict(plan)
        files.write_text(self.path / ASKED, tomli_w.dumps({"asked": self._asked, "plan": self.plan}))

    def file(self, place: str, name: str) -> Path:
        """Where a part is kept."""
        return self.path / place / f"{name}{PLACES[place]}"

    def has(self, name: str) -> bool:
        """Whether a part is finished."""
        return self.file("parts", name).exists()

    def part(self, name: str, title: str, found: Callable[[], xr.Dataset]) -> xr.Dataset:
        """A finished part, or a new one, which is kept."""
        path = self.file("parts", name)
        if path.exists():
            return Part.load(path).data
        made = Part(found().assign_attrs(title=title))
        made.save(path)
        return made.data


def digest(samples: Samples) -> str:
    """A short mark of arrays: equal for equal data."""
    made = hashlib.sha256()
    for array in (samples.x, samples.y, samples.x_test, samples.y_test):
        made.update(str(array.shape).encode())
        made.update(np.ascontiguousarray(array + 0.0).tobytes())
    return made.hexdigest()[:16]


def _read(path: Path) -> dict[str, Any] | None:
    """What an earlier run was asked; None if there was none."""
    if not path.exists():
        return None
    try:
        return tomllib.loads(files.read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FileProblem(f"{path} is damaged: {error}") from None


def _removed(path: Path) -> None:
    """Delete what a study has written, and nothing else; a folder that is not of a study is left alone."""
    if not (path / ASKED).exists():
        return
    for place, ending in PLACES.items():
        for kept in (path / place).glob(f"*{ending}"):
            kept.unlink(missing_ok=True)
    for name in (REPORT, ASKED):
        (path / name).unlink(missing_ok=True)
