"""Data from the user's files: CSV, or NPZ of numpy.savez."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import FileProblem, InvalidInput
from .arrays import Data
from .samples import Samples
from .source import DataSource
from .tables import Part, read_csv, read_npz


@dataclass(frozen=True, kw_only=True)
class File(DataSource, kind="file"):
    """A CSV or NPZ file, a row a sample. A `Problem` keeps the arrays, not the file, and so does all that is saved.

    Of CSV, `target` and `inputs` are names of columns, which the first line holds, and inputs are all other columns if
    they are not named. Of NPZ they are names of arrays, and inputs are "x"; arrays whose names end in "_test" are test
    samples. Targets that are words are classes: two become y = -1 and +1, in alphabetical order; more become one
    output each, y_c = 1 for the class of the sample and 0 for the others. Missing values are refused, with their place.

    Args:
        path: the file; in TOML relative to the TOML file. "~" means the home folder.
        target: column of targets, or several; array of targets.
        inputs: columns of inputs; array of inputs.
        test_path: another file of the same kind with test samples.
        test_samples: so many of the last rows are test samples.
        classes: True if numbers are names of classes, False if targets must be numbers; None looks at them.
        standardise: subtract from every input its mean over the training samples, and divide by its deviation there.
    """

    path: str | os.PathLike[str] = field(kw_only=False)
    target: str | tuple[str, ...] = "y"
    inputs: str | tuple[str, ...] | None = None
    test_path: str | os.PathLike[str] | None = None
    test_samples: int = 0
    classes: bool | None = None
    standardise: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, path=_path("path", self.path), target=_names("target", self.target))
        if self.inputs is not None:
            put(self, inputs=_names("inputs", self.inputs))
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

    def frozen(self) -> Data:
        """The arrays that the file holds now, with the names of inputs and classes."""
        train, test = self._parts()
        names = _class_names(train.y) if train.classified else None
        if names is not None and len(names) < 2:
            raise FileProblem(f"{self.path}: all targets are of one class, {names[0]!r}")
        y, y_test = (_encoded(part, names, self.path) for part in (train, test))
        x, x_test = self._standardised(train, test) if self.standardise else (train.x, test.x)
        tested = (x_test, y_test) if len(test.x) else (None, None)
        return Data(x, y, *tested, columns=train.columns, classes=names)

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
            return read_csv(found, self._targets, self._inputs, classes)
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

    def _standardised(self, train: Part, test: Part) -> tuple[Floats, Floats]:
        mean, deviation = train.x.mean(axis=0), train.x.std(axis=0)
        constant = np.flatnonzero(deviation <= 1e-12 * np.abs(mean))
        if len(constant):
            which = train.columns[constant[0]] if train.columns else int(constant[0])
            raise FileProblem(f"{self.path}: the input {which!r} is constant and cannot be standardised; leave it out")
        return (train.x - mean) / deviation, (test.x - mean) / deviation


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


def _class_names(labels: NDArray[Any]) -> tuple[str, ...]:
    """In order of their numbers if all are numbers, else of the alphabet."""
    found = sorted(set(labels.tolist()))
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(found)


def _encoded(part: Part, names: tuple[str, ...] | None, path: str | os.PathLike[str]) -> Floats:
    """Targets as numbers: -1 and +1 of two classes, an output each of several."""
    if names is None:
        return np.asarray(part.y, dtype=np.float64)
    unknown = sorted(set(part.y.tolist()) - set(names))
    if unknown:
        raise FileProblem(f"test samples of {path} are of the class {unknown[0]!r}, which no training sample has")
    places = np.array([names.index(label) for label in part.y.tolist()], dtype=np.int64)
    signs = np.array([[-1.0], [1.0]])
    return np.asarray((signs if len(names) == 2 else np.eye(len(names)))[places], dtype=np.float64)
