"""The family of data sources, and the random streams that they draw from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..base import check
from ..base.describe import Described
from .samples import Samples

Part = Literal["train", "test", "rule"]
Purpose = Literal["inputs", "labels", "noise", "weights"]

# The position of a name is part of the seed: append, never reorder.
_PARTS: tuple[Part, ...] = ("train", "test", "rule")
_PURPOSES: tuple[Purpose, ...] = ("inputs", "labels", "noise", "weights")


@dataclass(frozen=True)
class DataSource(Described, ABC, family="data"):
    """Base class: a frozen description of a data set that `load` turns into arrays, always the same ones.

    To add your own, subclass it as a frozen dataclass:

        @dataclass(frozen=True)
        class Ones(DataSource, kind="ones"):
            samples: int

            def load(self):
                return Samples(x=np.ones((self.samples, 1)), y=np.ones(self.samples))
    """

    @abstractmethod
    def load(self) -> Samples:
        """Return the training and test arrays."""

    def frozen(self) -> DataSource:
        """The same without what may change or be lost meanwhile: what a `Problem` keeps, and files of answers."""
        return self


def stream(seed: int, part: Part, purpose: Purpose) -> np.random.Generator:
    """Return a random generator that is independent for every `part` and `purpose` of a seed.

    So asking for more test points, or for label noise, changes nothing else.
    """
    key = (_PARTS.index(part), _PURPOSES.index(purpose))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def integers(name: str, value: Any, *, least: int = 0, most: float = math.inf) -> tuple[int, ...]:
    """Return `value`, a whole number or several, as a tuple of ints within bounds."""
    items = value if isinstance(value, Iterable) else (value,)
    return tuple(check.integer(name, item, least=least, most=most) for item in items)
