"""What every answer is: labelled numbers, what was asked, and how it ended."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import tomli_w
import xarray as xr

from . import storage
from .errors import FileProblem, InvalidInput, UnknownName
from .renamed import in_new_words, warn
from .statistics import mean_and_error

if TYPE_CHECKING:
    from .drawing import Figure

_MARKS = ("schema",)
"""Numbers among the attributes of a file that are no statistics."""


@dataclass(frozen=True, eq=False)
class Result:
    """An answer. All are saved, loaded, shown and drawn alike.

    `data` is an xarray dataset; `<name>_error` is the standard error of the variable `<name>`, where it is known, and
    `<name>_bound` how far it may be off for other reasons. A subclass gives its mark in files, and for each of its
    other fields the class that reads the description (a list of one class if the field is a tuple of descriptions):
    `class Dynamics(Result, kind="...", asked={"network": LinearNetwork})`. `figure` names the function that draws it,
    "module:function", because modules of figures know results and not the other way round.
    """

    kind: ClassVar[str] = ""
    asked: ClassVar[Mapping[str, Any]] = {}
    figure: ClassVar[str] = ""
    what_is_kept: ClassVar[str] = "variable"
    """How an error calls a variable that is not there."""

    old_words: ClassVar[Mapping[str, str]] = {}
    """Variables and attributes of files that have another name now; those that are read have the new one."""

    data: xr.Dataset

    def __init_subclass__(
        cls, *, kind: str = "", asked: Mapping[str, Any] | None = None, figure: str = "", **kwargs: Any
    ) -> None:
        """Note the mark in files, what is described there, and who draws."""
        super().__init_subclass__(**kwargs)
        if kind:
            cls.kind, cls.asked, cls.figure = kind, asked or {}, figure

    @property
    def status(self) -> str:
        """ "complete", "diverged", "interrupted", or "not accurate": a tolerance was asked for and not reached."""
        attributes = self.data.attrs
        stated = str(attributes.get("status", "complete"))
        reached = attributes.get("converged", 1) and attributes.get("reached", 1)
        return stated if reached or stated != "complete" else "not accurate"

    @property
    def message(self) -> str:
        """Why it ended early, or how far it is from the tolerance; empty if it is complete."""
        return str(self.data.attrs.get("message", ""))

    @property
    def statistics(self) -> dict[str, float]:
        """Numbers about the computation: seconds, replicas, ..."""
        found = {str(name): value for name, value in self.data.attrs.items() if name not in _MARKS}
        return {name: np.asarray(value).item() for name, value in found.items() if isinstance(value, Real)}

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.kind

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        return self.label

    @property
    def ending(self) -> str:
        """How it ended, how long it took and how large error bars are, in a line; empty if there is nothing to say."""
        numbers = self.statistics
        parts = [f"{self.status} ({self.message})" if self.message else self.status]
        if "seconds" in numbers:
            parts.append(f"{numbers['seconds']:.1f} s")
        if numbers.get("relative_error", 0) > 0:
            parts.append(f"largest error bar {numbers['relative_error']:.2%}")
        return "" if parts == ["complete"] else ", ".join(parts)

    @property
    def verdict(self) -> str:
        """One sentence, where there is something to judge."""
        return ""

    def variable(self, name: str) -> xr.DataArray:
        """A variable of `data`, or an error that names those that there are."""
        if name not in self.data and self.old_words.get(name) in self.data:
            warn(f"{name!r}", f"{self.old_words[name]!r}", stacklevel=2)
            name = self.old_words[name]
        if name not in self.data:
            raise UnknownName(self.what_is_kept, name, [str(v) for v in self.data.data_vars])
        return self.data[name]

    def mean(self, name: str) -> xr.DataArray:
        """Mean over seeds."""
        value = self.variable(name)
        return value.mean("seed") if "seed" in value.dims else value

    def standard_error(self, name: str) -> xr.DataArray:
        """Standard error of `mean`; NaN where there is one seed only and so no estimate."""
        value = self.variable(name)
        if f"{name}_error" in self.data:
            return self.data[f"{name}_error"]
        if "seed" not in value.dims:
            return value * 0.0
        _, error = mean_and_error(value.values, axis=value.get_axis_num("seed"))
        return value.isel(seed=0, drop=True).copy(data=error)

    def table(self) -> Any:
        """The numbers that matter most, for a terminal."""
        raise NotImplementedError(f"{type(self).__name__} must define table()")

    def plot(self) -> Figure:
        """The answer on a page."""
        module, _, function = self.figure.partition(":")
        drawn: Figure = getattr(importlib.import_module(module), function)(self)
        return drawn

    def __str__(self) -> str:
        from . import tables

        return tables.as_text(*filter(None, (self.heading, self.ending, self.table(), self.verdict)))

    def save(self, path: str | Path) -> None:
        """Write everything to one NetCDF file, atomically."""
        texts = {name: _written(getattr(self, name)) for name in self.asked}
        storage.write(Path(path), self.data, texts, self._in_files())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save`."""
        data, texts = storage.read(Path(path), cls._in_files())
        asked: dict[str, Any] = {}
        for name, family in cls.asked.items():
            try:
                asked[name] = _understood(family, texts[name])
            except (InvalidInput, tomllib.TOMLDecodeError, RecursionError) as error:
                reason = storage.printable(str(error))
                raise FileProblem(f"{path} describes a {name} that cannot be understood: {reason}") from error
        found = cls(_in_new_words(data, cls.words_of(data)), **asked)
        lacking = found.lacks()
        if lacking:
            raise FileProblem(f"{path} is damaged: {lacking}")
        return found

    @classmethod
    def words_of(cls, data: xr.Dataset) -> Mapping[str, str]:
        """Those of `old_words` that this file may hold in their old sense."""
        return cls.old_words

    def lacks(self) -> str:
        """What is wrong with `data`, in words, if it was not made by this package; empty if nothing is."""
        return ""

    @classmethod
    def _in_files(cls) -> storage.Kind:
        return storage.Kind(cls.kind, tuple(cls.asked))


def _in_new_words(data: xr.Dataset, words: Mapping[str, str]) -> xr.Dataset:
    """What a file holds, under the names that it would be given today."""
    named = data.rename({old: new for old, new in words.items() if old in data.variables})
    named.attrs = in_new_words(data.attrs, words)
    return named


def _written(part: Any) -> str:
    """A description as TOML; several, under the name of their family."""
    if isinstance(part, tuple):
        return tomli_w.dumps({part[0].family: [one.to_table() for one in part]})
    return tomli_w.dumps(part.to_table())


def _understood(family: Any, text: str) -> Any:
    """What `_written` wrote."""
    table = tomllib.loads(text)
    if not isinstance(family, list):
        return family.from_table(table)
    (one,) = family
    return tuple(one.from_table(part) for part in table.get(one.family, ()))
