"""Data from the user's files: CSV, or NPZ of numpy.savez."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import FileProblem, InvalidInput
from .arrays import Data
from .classes import class_names, encoded
from .samples import Samples
from .scaling import Standardised
from .source import DataSource
from .tables import Part, read_csv, read_npz


@dataclass(frozen=True, kw_only=True)
class File(DataSource, kind="file"):
    """A CSV or NPZ file, a row a sample. A `Problem` keeps the arrays, not the file, and so does all that is saved.

    Of CSV, `target` and `inputs` are names of columns, which the first line holds; if inputs are not named, they are
    all other columns, but for those in `leave_out`. Of NPZ they are names of arrays, and inputs are "x"; arrays whose
    names end in "_test" are test samples. Targets that are words are classes: two become y = -1 and +1, in alphabetical
    order; more become one output each, y_c = 1 for the class of the sample and 0 for the others. Missing values are
    refused, with their place.

    Args:
        path: the file; in TOML relative to the TOML file. "~" means the home folder.
        target: column of targets, or several; array of targets.
        inputs: columns of inputs; array of inputs.
        leave_out: of CSV, columns that are no inputs, instead of naming all that are.
        test_path: another file of the same kind with test samples.
        test_samples: so many of the last rows are test samples.
        classes: True if numbers are names of classes, False if targets must be numbers; None looks at them.
        standardise: bring inputs and targets to the scale of theories, see `Standardised`.
    """

    path: str | os.PathLike[str] = field(kw_only=False)
    target: str | tuple[str, ...] = "y"
    inputs: str | tuple[str, ...] | None = None
    test_path: str | os.PathLike[str] | None = None
    test_samples: int = 0
    classes: bool | None = None
    standardise: bool = False
    leave_out: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, path=_path("path", self.path), target=_names("target", self.target))
        if self.inputs is not None:
            put(self, inputs=_names("inputs", self.inputs))
        if self.leave_out != ():
            put(self, leave_out=_names("leave_out", self.leave_out))
            if self.inputs is not None or self._is_npz(self.path):
                why = "of an NPZ file, inputs are one array" if self._is_npz(self.path) else "inputs are named already"
                raise InvalidInput(f"leave_out = {self.leave_out!r}: {why}")
        if self.test_path is not None:
            put(self, test_path=_path("test_path", self.test_path))
        put(self, test_samples=check.integer("test_samples", self.test_samples))
        if self.test_path is not None and self.test_samples:
            raise InvalidInput(
                f"test_path = {self.test_path!r} and test_samples = {self.test_samples} exclude each other"
            )
        if self.classes is not None:
            check.flag("classes", self.classes)
        check.flag("standardise", self.standardise)
        if self.classes and len(self._targets) > 1:
            raise InvalidInput(f"target = {self.target!r}: classes stand in one column")

    def load(self) -> Samples:
        """Read the file."""
        return self.frozen().load()

    def frozen(self) -> DataSource:
        """The arrays that the file holds now, with the names of inputs and classes; with their scale, if asked for."""
        train, test = self._parts()
        names = class_names(train.y.tolist()) if train.classified else None
        y, y_test = (self._numbers(part, names) for part in (train, test))
        tested = (test.x, y_test) if len(test.x) else (None, None)
        arrays = Data(train.x, y, *tested, columns=train.columns, classes=names)
        return Standardised(arrays) if self.standardise else arrays

    def _numbers(self, part: Part, names: tuple[str, ...] | None) -> Floats:
        """Targets as numbers."""
        if names is None:
            return np.asarray(part.y, dtype=np.float64)
        try:
            return encoded(part.y, names, "targets")
        except InvalidInput as error:
            raise FileProblem(f"{self.path}: {error}") from None

    def _parts(self) -> tuple[Part, Part]:
        """Training and test samples."""
        train = self._read(self.path, self.classes)
        if self.test_samples:
            if self.test_samples >= len(train.x):
                raise InvalidInput(f"test_samples = {self.test_samples}: {self.path} has {len(train.x)} samples in all")
            cut = len(train.x) - self.test_samples
            return train.rows(slice(cut)), train.rows(slice(cut, None))
        if self.test_path is not None:
            return train, self._read(self.test_path, train.classified)
        beside = self._read(self.path, train.classified, "_test") if self._is_npz(self.path) else None
        return train, beside or train.rows(slice(0))

    def _read(self, path: str | os.PathLike[str], classes: bool | None, suffix: str = "") -> Any:
        found = Path(path).expanduser()
        if not found.is_file():
            raise FileProblem(f"there is no file {found}")
        if not self._is_npz(path):
            without = (self.leave_out,) if isinstance(self.leave_out, str) else self.leave_out
            return read_csv(found, self._targets, self._inputs, without, classes)
        for name, given in (("target", self._targets), ("inputs", self._inputs or ("x",))):
            if len(given) > 1:
                raise InvalidInput(f"{name} = {given!r}: of an NPZ file it is the name of one array")
        return read_npz(found, self._targets[0], (self._inputs or ("x",))[0], classes, suffix)

    @staticmethod
    def _is_npz(path: str | os.PathLike[str]) -> bool:
        return os.fspath(path).lower().endswith(".npz")

    @property
    def _targets(self) -> tuple[str, ...]:
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def _inputs(self) -> tuple[str, ...] | None:
        return (self.inputs,) if isinstance(self.inputs, str) else self.inputs


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not str(value).lower().endswith((".csv", ".tsv", ".txt", ".npz")):
        raise InvalidInput(f"{name} = {value!r} must be the path of a file that ends in .csv, .tsv, .txt or .npz")
    return os.fspath(value)


def _names(name: str, value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value
    names = tuple(value) if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(item, str) for item in names):
        raise InvalidInput(f"{name} = {value!r} must be a name, or a list of names")
    return names
