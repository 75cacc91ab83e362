"""Frozen descriptions that turn into plain tables (and so into TOML) and back, exactly."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .check import put as put
from .errors import InvalidInput, UnknownName
from .renamed import in_new_words

_INLINE_SIZE = 256
"""Arrays up to this many numbers are written as readable lists, larger ones as base64."""


class Described:
    """Base of the frozen dataclasses that a `Problem` is made of.

    A direct subclass opens a family (`class Loss(Described, family="loss")`); the members of the family give
    their name in files (`class Huber(Loss, kind="huber")`). `from_table` of the family finds the member.
    """

    family: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    members: ClassVar[dict[str, type[Described]]] = {}
    synonyms: ClassVar[dict[str, str]] = {}
    """Other words for kinds of the family."""

    old_words: ClassVar[dict[str, str]] = {}
    """Keys of files that have another name now: see `renamed`."""

    def __init_subclass__(cls, *, family: str = "", kind: str = "", **kwargs: Any) -> None:
        """Register the class under its kind."""
        super().__init_subclass__(**kwargs)
        if family:
            cls.family, cls.members = family, {}
        if kind:
            known = cls.members.get(kind, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise InvalidInput(f"kind = {kind!r} of {cls.__name__} is taken by {known.__name__}; choose another")
            cls.kind = kind
            cls.members[kind] = cls

    def to_table(self) -> dict[str, Any]:
        """Return a dictionary of plain values; fields that are None are left out."""
        name = type(self).__name__
        if self.members and self.members.get(self.kind) is not type(self):
            raise InvalidInput(f"{name} needs a kind of its own to be written to files: class {name}(..., kind='...')")
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        table = {name: _plain(value) for name, value in values.items() if value is not None}
        return {"kind": self.kind, **table} if self.kind else table

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """Build the description that `to_table` wrote; unknown kinds and keys are named in the error."""
        if not isinstance(table, dict):
            raise InvalidInput(f"[{cls.family}] must be a table, not {table!r}")
        table = dict(table)
        target: type[Any] = cls
        if cls.members and not cls.kind:
            if "kind" not in table:
                raise InvalidInput(f"[{cls.family}] needs a 'kind', one of: {', '.join(sorted(cls.members))}")
            target = cls.members[cls._known_kind(table.pop("kind"))]
        elif cls.kind:
            target = cls.members[cls._known_kind(table.pop("kind", cls.kind))]
        table = in_new_words(table, target.old_words)
        fields = {f.name: f for f in dataclasses.fields(target)}
        for name in table:
            if name not in fields:
                raise UnknownName(f"key in [{target.family}]", name, fields)
        needed = [n for n, f in fields.items() if _required(f) and n not in table]
        if needed:
            raise InvalidInput(f"[{target.family}] kind {target.kind!r} needs a value for {', '.join(needed)}")
        made: Self = target(**{name: target.parse_field(name, value) for name, value in table.items()})
        return made

    @classmethod
    def _known_kind(cls, kind: Any) -> str:
        """A kind, or a synonym of one; case and "_" for "-" do not matter."""
        if isinstance(kind, str) and kind in cls.members:
            return kind
        plain = kind.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(kind, str) else ""
        found = cls.synonyms.get(plain, plain)
        if found not in cls.members:
            raise UnknownName(f"kind of {cls.family}", kind, cls.members)
        return found

    @classmethod
    def parse_field(cls, name: str, value: Any) -> Any:
        """Turn the plain value of one field into what the constructor takes."""
        del name
        return parse_plain(value)


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _plain(value: Any) -> Any:
    if isinstance(value, Described):
        return value.to_table()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    return value


def _plain_array(value: NDArray[Any]) -> Any:
    if 0 < value.size <= _INLINE_SIZE:
        return value.tolist()
    raw = np.ascontiguousarray(value, dtype="<f8")
    return {"shape": list(value.shape), "float64": base64.b64encode(raw.tobytes()).decode("ascii")}


def parse_plain(value: Any) -> Any:
    """Undo the generic part of `to_table`: lists become tuples, packed arrays become arrays."""
    if isinstance(value, list):
        return tuple(parse_plain(item) for item in value)
    if isinstance(value, dict) and set(value) == {"shape", "float64"}:
        try:
            raw = base64.b64decode(value["float64"], validate=True)
            return np.frombuffer(raw, dtype="<f8").reshape(value["shape"]).copy()
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"a packed array of shape {value['shape']} is damaged: {error}") from None
    return value


@dataclass(frozen=True, eq=False)
class ByValue:
    """Equality and hash of a dataclass some of whose fields are arrays."""

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(a, b) for a, b in zip(self._values(), other._values(), strict=True))

    def __hash__(self) -> int:
        # adding 0.0 turns -0.0 into 0.0: equal arrays must have equal hashes
        parts = ((v.shape, (v + 0.0).tobytes()) if isinstance(v, np.ndarray) else v for v in self._values())
        return hash(tuple(parts))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
