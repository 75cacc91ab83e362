"""Data as people bring them: arrays, frames, a source or a file; and the call or command that brings them again."""

from __future__ import annotations

import dataclasses
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
from ..problem.network import MLP
from .calls import written
from .plan import NETWORK


class Given(NamedTuple):
    """Data as they came, without scale.

    Attributes:
        source: the data.
        code: the call that loads them.
        command: the command that studies them, if they are a file.
        arguments: of the call that studies them.
        folder: where the study goes if nothing is said.
    """

    source: DataSource
    code: str
    command: str
    arguments: str
    folder: str

    def samples(self) -> Samples:
        """All of them, in the order in which they came, test samples last."""
        loaded = self.source.load()
        return Samples(loaded.everything, np.concatenate([loaded.y, loaded.y_test]))

    def again(self, options: dict[str, Any], network: MLP) -> str:
        """The command or call that goes on, with options that are not the usual ones.

        A command knows the activation of a network and nothing else of it, so that other networks need the call.
        """
        if self.command and network == dataclasses.replace(NETWORK, activation=network.activation):
            words = {name: _listed(value) for name, value in options.items()}
            if network != NETWORK:
                words["activation"] = str(network.activation)
            return " ".join((self.command, *(f"--{name} {shlex.quote(word)}" for name, word in words.items())))
        given = [f"{name}={value!r}" for name, value in options.items()]
        given += [] if network == NETWORK else [f"network={written(network)}"]
        return f"wf.study({self.arguments}, {', '.join(given)})"


def _listed(value: Any) -> str:
    """A value of an option, several with commas."""
    if isinstance(value, tuple):
        return ",".join(_listed(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_given(
    X: Any, y: Any, target: str | Sequence[str], classes: bool | None, leave_out: str | Sequence[str] = ()
) -> Given:
    """Arrays, a source or a file."""
    without = (leave_out,) if isinstance(leave_out, str) else tuple(leave_out)
    if without and not isinstance(X, str | Path):
        raise InvalidInput(f"leave_out = {without} belongs to files: leave columns out of X, as in X.drop(columns=...)")
    if isinstance(X, str | Path):
        if y is not None:
            raise InvalidInput("y belongs to arrays; the target of a file is a column: target = '...'")
        return _file(Path(X), target if isinstance(target, str) else tuple(target), classes, without)
    if isinstance(X, DataSource):
        if y is not None:
            raise InvalidInput("y belongs to arrays; a data source has its targets")
        kept = X.frozen()
        kept = kept.data if isinstance(kept, Standardised) else kept
        return Given(kept, "...  # the data source that you gave", "", "data", "study")
    if y is None:
        raise InvalidInput("y is missing: give targets, or the path of a file and its target column")
    if classes:
        words = np.asarray(y).reshape(-1).astype(str)
        return Given(
            Data(X, words), "wf.Data(X, np.asarray(y).reshape(-1).astype(str))", "", "X, y, classes=True", "study"
        )
    return Given(Data(X, y), "wf.Data(X, y)", "", "X, y", "study")


def _file(path: Path, target: str | tuple[str, ...], classes: bool | None, without: tuple[str, ...]) -> Given:
    """A table in a file."""
    if path.suffix.lower() not in TABLES:
        raise InvalidInput(f"X = {str(path)!r} must be the path of a file that ends in {', '.join(TABLES)}")
    extra = "" if classes is None else f", classes={classes}"
    extra += f", leave_out={list(without)}" if without else ""
    source = File(str(path), target=target, classes=classes, leave_out=without).frozen()
    names = target if isinstance(target, str) else ",".join(target)
    command = f"widefield study {shlex.quote(str(path))} --target {shlex.quote(names)}" + " --classes" * bool(classes)
    command += f" --leave-out {shlex.quote(','.join(without))}" if without else ""
    arguments = f"{str(path)!r}, target={target!r}{extra}"
    return Given(source, f"wf.data.file({arguments})", command, arguments, f"{path.stem}-study")
