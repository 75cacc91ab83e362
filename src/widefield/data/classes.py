"""Targets that are names of classes, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.errors import InvalidInput


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """In order of their numbers if all are numbers, else of the alphabet.

    >>> class_names(["10", "9", "10"]), class_names(["no", "yes", "maybe"])
    (('9', '10'), ('maybe', 'no', 'yes'))
    """
    found = sorted(set(labels))
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(found)


def encoded(labels: NDArray[Any], names: Sequence[str], what: str) -> Float[Floats, "p c"]:
    """Names of classes (P,) as numbers: y = -1 and +1 of two classes, an output for each of several.

    >>> encoded(np.array(["no", "yes"]), ("no", "yes"), "y").tolist()
    [[-1.0], [1.0]]
    """
    unknown = sorted(set(labels.tolist()) - set(names))
    if unknown:
        raise InvalidInput(f"{what} are of the class {unknown[0]!r}, which no training sample has")
    if len(names) < 2:
        raise InvalidInput(f"{what}: all targets are of one class, {names[0]!r}")
    places = np.array([names.index(label) for label in labels.tolist()], dtype=np.int64)
    signs = np.array([[-1.0], [1.0]])
    return np.asarray((signs if len(names) == 2 else np.eye(len(names)))[places], dtype=np.float64)
