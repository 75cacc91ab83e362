"""What several trajectories are called side by side: by what tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..base.describe import Described
from ..base.errors import InvalidInput
from ..problem.problem import Problem
from .trajectory import Trajectory

_SECTIONS = tuple(name for name in Problem.sections if name != "record")
"""Parts of a problem that change the answer, and not only what is kept of it."""

_WORDED: dict[str, Callable[[Any], str]] = {
    "hidden_layers": lambda count: f"{count} hidden layer{'s' if count > 1 else ''}",
    "activation": str,
    "parameterisation": str,
    "batch_size": lambda size: "full batch" if size is None else f"batch size {size}",
}
"""Fields whose values need no name, or another one."""

_AMBIGUOUS = ("seed",)
"""Fields that several parts have: the part is named too."""


def labels(trajectories: Sequence[Trajectory], given: Sequence[str] | None = None) -> list[str]:
    """One label for each trajectory: those `given`, or what differs between them.

    That is the label of the theory, if there are several; the kinds of rule, loss, data and optimiser and the fields of
    problems that are not the same for all; and settings in which theories of one label differ. Answers that are alike
    in all of that are numbered.
    """
    if given is not None:
        return _checked(given, len(trajectories))
    theories = [trajectory.label for trajectory in trajectories]
    asked = [[getattr(t.problem, name) for t in trajectories] for name in _SECTIONS]
    problems = [_differences(name, parts) for name, parts in zip(_SECTIONS, asked, strict=True)]
    settings = _settings(trajectories)
    found = []
    for number, theory in enumerate(theories):
        said = [word for words in problems for word in words[number]]
        named = [theory] if len(set(theories)) > 1 or not said else []
        found.append(", ".join([*named, *said, *settings[number]]))
    return _numbered(found)


def shared(trajectories: Sequence[Trajectory], given: Sequence[str]) -> str:
    """The label of the one theory that gave all answers, if none of the labels `given` says it; else empty."""
    theory, *others = dict.fromkeys(trajectory.label for trajectory in trajectories)
    return "" if others or any(theory in label for label in given) else theory


def _checked(given: Sequence[str], count: int) -> list[str]:
    if isinstance(given, str) or len(given) != count or not all(isinstance(label, str) for label in given):
        raise InvalidInput(f"labels = {given!r} must be a list of {count} texts, one for each trajectory")
    return list(given)


def _settings(trajectories: Sequence[Trajectory]) -> list[list[str]]:
    """In what theories of one label differ."""
    found: list[list[str]] = [[] for _ in trajectories]
    for label in {trajectory.label for trajectory in trajectories}:
        alike = [number for number, trajectory in enumerate(trajectories) if trajectory.label == label]
        words = _differences("theory", [trajectories[number].theory for number in alike])
        for number, said in zip(alike, words, strict=True):
            found[number] = said
    return found


def _differences(section: str, parts: Sequence[Described]) -> list[list[str]]:
    """For each of several parts of one family, the words that tell it from the others."""
    kinds = [type(part) for part in parts]
    found: list[list[str]] = [[_kind(part)] if len(set(kinds)) > 1 else [] for part in parts]
    for kind in set(kinds):
        alike = [number for number, other in enumerate(kinds) if other is kind]
        for field in fields(kind):  # type: ignore[arg-type]
            values = [getattr(parts[number], field.name) for number in alike]
            if field.repr and not all(_same(value, values[0]) for value in values):
                for number, words in zip(alike, _worded(section, field.name, values), strict=True):
                    found[number].append(words)
    return found


def _worded(section: str, name: str, values: list[Any]) -> list[str]:
    """The different values of a field in words; those too long for a label are numbered."""
    if name in _WORDED:
        return [_WORDED[name](value) for value in values]
    words = f"{section} {name}" if name in _AMBIGUOUS and section != "theory" else name.replace("_", " ")
    if any(isinstance(value, np.ndarray) or (isinstance(value, tuple) and len(value) > 4) for value in values):
        different: list[Any] = []
        for value in values:
            if not any(_same(value, other) for other in different):
                different.append(value)
        places = [next(k for k, other in enumerate(different, 1) if _same(value, other)) for value in values]
        return [f"{words} no. {place}" for place in places]
    return [_valued(words, value) for value in values]


def _valued(words: str, value: Any) -> str:
    if isinstance(value, bool):
        return words if value else f"not {words}"
    return f"no {words}" if value is None else f"{words} {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, Described):
        inside = [f"{f.name.replace('_', ' ')} {_short(getattr(value, f.name))}" for f in fields(value)]  # type: ignore[arg-type]
        return f"{_kind(value)} ({', '.join(inside)})" if inside and is_dataclass(value) else _kind(value)
    if isinstance(value, tuple):
        return " ".join(map(_short, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind(part: Described) -> str:
    return (part.kind or type(part).__name__).replace("-", " ")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _numbered(found: list[str]) -> list[str]:
    """Texts that occur more than once, with a number."""
    often, seen = Counter(found), Counter[str]()
    numbered = []
    for label in found:
        seen[label] += 1
        numbered.append(f"{label} ({seen[label]})" if often[label] > 1 else label)
    return numbered
