"""Tables of numbers and classes in CSV and NPZ files, read so that whatever is wrong is named with its place."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.errors import FileProblem, UnknownName
from ..base.files import read_text

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
_DELIMITERS = ",;\t"


class Part(NamedTuple):
    """Samples as they stand in a file: inputs, targets (numbers (n, C), or names of classes (n,)), names of inputs."""

    x: Floats
    y: NDArray[Any]
    columns: tuple[str, ...] | None

    @property
    def classified(self) -> bool:
        """Whether targets are names of classes."""
        return self.y.dtype.kind == "U"

    def rows(self, chosen: slice) -> Part:
        """Some of the samples."""
        return Part(self.x[chosen], self.y[chosen], self.columns)


def read_csv(
    path: Path, targets: Sequence[str], inputs: Sequence[str] | None, leave_out: Sequence[str], classes: bool | None
) -> Part:
    """Inputs and targets from columns of a text file whose first line has their names.

    Commas, semicolons or tabs stand between columns. Inputs are those that are named, or all columns but the targets
    and those that are left out. Targets are classes if `classes`, or if that is None and the one column of targets
    holds anything but numbers; inputs must be numbers, and no cell of a column that is used may be empty.
    """
    table = _Table(path)
    for name in leave_out:
        table.check(name)
    others = [name for name in table.names if name not in targets and name not in leave_out]
    chosen = others if inputs is None else list(inputs)
    for name in (*targets, *chosen):
        table.column(name)
    if not chosen:
        raise FileProblem(f"{path} has no columns beside the targets {', '.join(targets)}")
    both = [name for name in chosen if name in targets]
    if both:
        raise FileProblem(f"{path}: the column {both[0]!r} is both an input and a target")
    named = classes or (classes is None and len(targets) == 1 and not table.is_numeric(targets[0]))
    y = table.texts(targets[0]) if named else np.stack([table.numbers(name) for name in targets], axis=1)
    return Part(np.stack([table.numbers(name) for name in chosen], axis=1), y, tuple(chosen))


class _Table:
    """Cells of a text file by column, and the lines where they stand."""

    def __init__(self, path: Path) -> None:
        text = read_text(path).removeprefix("\ufeff")
        first = text.partition("\n")[0]
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=first.count))
        try:
            rows = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            raise FileProblem(f"{path}, line {reader.line_num}: {error}") from None
        if len(rows) < 2:
            raise FileProblem(f"{path} needs a line with the names of columns, and samples below it")
        self.path, self.names = path, [name.strip() for name in rows[0][1]]
        self.lines = [line for line, _ in rows[1:]]
        if all(_number(name) is not None for name in self.names):
            raise FileProblem(f"{path} begins with numbers: its first line must hold the names of the columns")
        if len(set(self.names)) < len(self.names):
            raise FileProblem(f"{path}: two columns have one name, {', '.join(self.names)}")
        for line, row in rows[1:]:
            if len(row) != len(self.names):
                raise FileProblem(f"{path}, line {line}: {len(row)} cells for {len(self.names)} columns")
        self._cells = {name: [row[k].strip() for _, row in rows[1:]] for k, name in enumerate(self.names)}

    def check(self, name: str) -> None:
        """Whether there is such a column."""
        if name not in self._cells:
            raise UnknownName(f"column of {self.path}", name, self.names)

    def column(self, name: str) -> list[str]:
        """The cells of a column, none of which is missing."""
        self.check(name)
        for line, cell in zip(self.lines, self._cells[name], strict=True):
            if cell.lower() in _MISSING:
                raise FileProblem(
                    f"{self.path}, line {line}, column {name!r}: the value {cell!r} is missing; leave the line out, "
                    f"or the column with {_left_out(name)}"
                )
        return self._cells[name]

    def is_numeric(self, name: str) -> bool:
        """Whether all cells are numbers."""
        return all(_number(cell) is not None for cell in self.column(name))

    def numbers(self, name: str) -> Floats:
        """A column of finite numbers."""
        found = [_number(cell) for cell in self.column(name)]
        for line, cell, value in zip(self.lines, self._cells[name], found, strict=True):
            if value is None or not np.isfinite(value):
                helps = f"put numbers in its place, or leave the column out with {_left_out(name)}"
                if cell.count(",") == 1 and _number(cell.replace(",", ".")) is not None:
                    helps = "write decimal points, not commas"
                where = f"{self.path}, line {line}, column {name!r}"
                raise FileProblem(f"{where}: {cell!r} is not a finite number; {helps}")
        return np.array(found, dtype=np.float64)

    def texts(self, name: str) -> NDArray[Any]:
        """A column of names."""
        return np.array(self.column(name), dtype=str)


def _left_out(name: str) -> str:
    """What to type in Python and TOML, and on the command line."""
    return f"leave_out = [{name!r}] (--leave-out {shlex.quote(name)})"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_npz(path: Path, target: str, inputs: str, classes: bool | None, suffix: str = "") -> Part | None:
    """Inputs and targets from the arrays `inputs` and `target` of an NPZ file, rows are samples.

    With a `suffix` the names end in it, and None is returned if the file has neither. Targets are classes if `classes`,
    or if that is None and they are texts.
    """
    arrays = _arrays(path)
    names = (inputs + suffix, target + suffix)
    if suffix and not any(name in arrays for name in names):
        return None
    for name in names:
        if name not in arrays:
            raise UnknownName(f"array of {path}", name, arrays)
    x, y = (np.atleast_1d(arrays[name]) for name in names)
    if len(x) != len(y):
        raise FileProblem(f"{path}: {names[0]} has shape {x.shape} and {names[1]} {y.shape}; they need as many rows")
    x = _finite(path, names[0], x.reshape(len(x), -1))
    if classes or (classes is None and y.dtype.kind == "U"):
        return Part(x, _class_names(path, names[1], y), None)
    return Part(x, _finite(path, names[1], y.reshape(len(y), -1)), None)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception as error:  # damage shows in many ways inside zip and npy
        raise FileProblem(f"cannot read {path} as NPZ, a file of numpy.savez: {error}") from None


def _finite(path: Path, name: str, array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "biuf":
        raise FileProblem(f"{path}: the array {name!r} holds {array.dtype}, not numbers")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row, column = (int(place) for place in bad[0])
        raise FileProblem(
            f"{path}: the array {name!r} has no finite value in row {row}, column {column} (counted from 0), and "
            f"{len(bad)} such values in all"
        )
    return array.astype(np.float64)


def _class_names(path: Path, name: str, y: NDArray[Any]) -> NDArray[Any]:
    if y.size != len(y):
        raise FileProblem(f"{path}: classes need one value for each sample; the array {name!r} has shape {y.shape}")
    labels = y.reshape(-1)
    if labels.dtype.kind in "biuf":
        _finite(path, name, labels[:, None])
    return labels.astype(str)
