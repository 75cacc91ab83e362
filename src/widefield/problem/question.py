"""What can be put to theories: descriptions in sections, to TOML and back."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import tomli_w

from ..base import check, files
from ..base.describe import Described
from ..base.errors import InvalidInput, UnknownName


class Question:
    """Base of the frozen dataclasses that `solve` takes: `Problem`, `proportional.LinearProblem`.

    Frozen and checked: one that exists can be asked. `to_toml` and `from_toml` are exact inverses.
    """

    sections: ClassVar[Mapping[str, type[Described]]] = {}
    """The fields, and the families that they belong to."""

    needed: ClassVar[tuple[str, ...]] = ()
    """Sections that have no default."""

    theories: ClassVar[str] = "theory"
    """The family of theories that answer it."""

    def default_theory(self) -> Any:
        """Who answers if nobody is named."""
        raise NotImplementedError(f"{type(self).__name__} must define default_theory()")

    def check_sections(self) -> None:
        """Raise if a field is not of its family."""
        for name, family in self.sections.items():
            part = getattr(self, name)
            if not isinstance(part, family):
                raise InvalidInput(
                    f"{name} = {check.shown(part)} must be a {family.__name__}, for example one of {_members(family)}"
                )

    def to_table(self) -> dict[str, Any]:
        """Plain nested dictionaries."""
        return {name: getattr(self, name).to_table() for name in self.sections}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """Inverse of `to_table`."""
        for name in table:
            if name not in cls.sections:
                raise UnknownName("section of a problem", name, cls.sections)
        for name in cls.needed:
            if name not in table:
                raise InvalidInput(f"a problem needs a section [{name}]")
        parts: dict[str, Any] = {name: cls.sections[name].from_table(value) for name, value in table.items()}
        return cls(**parts)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The problem as TOML text, also written to `path` if one is given."""
        text = tomli_w.dumps(self.to_table())
        if path is not None:
            files.write_text(Path(path), text)
        return text

    @classmethod
    def from_toml(cls, source: str | Path) -> Self:
        """Read a problem from a TOML file (a `Path`, or a string that ends in .toml) or from TOML text."""
        return cls.from_table(read_table(source))


def read_table(source: str | Path) -> dict[str, Any]:
    """TOML of a file (a `Path`, or a string that ends in .toml), or TOML text.

    Files of data that a TOML file names are looked for beside it.
    """
    name, folder = f"the text {str(source)[:40]!r}", Path()
    if isinstance(source, Path) or ("\n" not in source and source.strip().endswith(".toml")):
        name, folder, source = str(source), Path(source).parent, files.read_text(Path(source))
    try:
        return _beside(folder, tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not valid TOML: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{name} is not a problem: its tables are nested too deeply") from None


def _beside(folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    """With paths of data relative to where we are."""
    data = table.get("data")
    if not isinstance(data, dict):
        return table
    paths = {key: data[key] for key in ("path", "test_path") if isinstance(data.get(key), str)}
    moved = {**data, **{key: str(folder / Path(path).expanduser()) for key, path in paths.items()}}
    return {**table, "data": _beside(folder, moved)}  # what is standardised is a table inside


def _members(family: type[Described]) -> str:
    return ", ".join(sorted(member.__name__ for member in family.members.values())) or family.__name__
