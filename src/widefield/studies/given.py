"""Data as people bring them: arrays, frames, a source or a file; and the call or command that brings them again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..asking.loading import TABLES
from ..base.errors import InvalidInput
from ..data.arrays import Data
from ..data.files import File
from ..data.samples import Samples
from ..data.scaling import Standardised
from ..data.source import DataSource


class Given(NamedTuple):
    """Data as they came, without scale.

    Attributes:
        source: the data.
        code: the call that loads them.
        command: the command that studies them, if they are a file.
        folder: where the study goes if nothing is said.
    """

    source: DataSource
    code: str
    command: str
    folder: str

    def samples(self) -> Samples:
        """All of them, in the order in which they came, test samples last."""
        loaded = self.source.load()
        return Samples(loaded.everything, np.concatenate([loaded.y, loaded.y_test]))

    def again(self, folder: Path, minutes: int, rules: Sequence[str]) -> str:
        """The command or call that goes on with more time."""
        place = folder.as_posix()
        if self.command:
            named = f" --rules {','.join(rules)}" if rules else ""
            return f"{self.command} --folder {shlex.quote(place)} --minutes {minutes}{named}"
        named = f", rules={list(rules)}" if rules else ""
        return f"wf.study(X, y, folder={place!r}, minutes={minutes}{named})"


def as_given(X: Any, y: Any, target: str | Sequence[str], classes: bool | None) -> Given:
    """Arrays, a source or a file."""
    if isinstance(X, str | Path):
        if y is not None:
            raise InvalidInput("y belongs to arrays; the target of a file is a column: target = '...'")
        return _file(Path(X), target if isinstance(target, str) else tuple(target), classes)
    if isinstance(X, DataSource):
        if y is not None:
            raise InvalidInput("y belongs to arrays; a data source has its targets")
        kept = X.frozen()
        kept = kept.data if isinstance(kept, Standardised) else kept
        return Given(kept, "...  # the data source that you gave", "", "study")
    if y is None:
        raise InvalidInput("y is missing: give targets, or the path of a file and its target column")
    if classes:
        words = np.asarray(y).reshape(-1).astype(str)
        return Given(Data(X, words), "wf.Data(X, np.asarray(y).reshape(-1).astype(str))", "", "study")
    return Given(Data(X, y), "wf.Data(X, y)", "", "study")


def _file(path: Path, target: str | tuple[str, ...], classes: bool | None) -> Given:
    """A table in a file."""
    if path.suffix.lower() not in TABLES:
        raise InvalidInput(f"X = {str(path)!r} must be the path of a file that ends in {', '.join(TABLES)}")
    extra = "" if classes is None else f", classes={classes}"
    source = File(str(path), target=target, classes=classes).frozen()
    names = target if isinstance(target, str) else ",".join(target)
    command = f"widefield study {shlex.quote(str(path))} --target {shlex.quote(names)}" + " --classes" * bool(classes)
    return Given(source, f"wf.data.file({str(path)!r}, target={target!r}{extra})", command, f"{path.stem}-study")
