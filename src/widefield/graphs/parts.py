"""What a network is made of: populations of neurons, and the vectors and matrices that belong to them."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import InvalidInput
from ..base.numbers import Number

_HERE = Path(__file__).parent
_LIBRARIES = {"beartype", "equinox", "jax", "jaxtyping"}


@dataclass(frozen=True)
class Population:
    """Neurons that are alike; `ratio` is their number over the width N."""

    name: str
    index: int
    ratio: Number = field(default=1.0, compare=False)


SCALARS = Population("scalars", -1)
"""The population of one neuron: data, averages, outputs."""


@dataclass(frozen=True)
class VectorSpec:
    """Vectors over a population, with entries N(mean, scale^2): as many as `shape` says.

    Numbers are no part of what is compared, so that programs that differ in them share compiled code.
    """

    name: str
    population: Population
    shape: tuple[int, ...]
    trained: bool = True
    scale: Number = field(default=1.0, compare=False)
    mean: Number = field(default=0.0, compare=False)

    @property
    def count(self) -> int:
        """How many there are."""
        number = 1
        for size in self.shape:
            number *= size
        return number

    def __str__(self) -> str:
        """For errors."""
        fixed = "" if self.trained else ", fixed"
        return f"{self.shape} vectors over {self.population.name!r}{fixed}"


@dataclass(frozen=True)
class MatrixSpec:
    """A matrix from one population to another with entries N(0, scale^2), as in `Substrate`."""

    name: str
    source: Population
    target: Population
    trained: bool = True
    scale: Number = field(default=1.0, compare=False)

    def __str__(self) -> str:
        """For errors."""
        return f"{self.source.name!r} -> {self.target.name!r}{'' if self.trained else ', fixed'}"


@dataclass(frozen=True)
class Line:
    """A line of somebody's code."""

    path: str
    number: int

    def __str__(self) -> str:
        source = linecache.getline(self.path, self.number).strip()
        return f"{Path(self.path).name}:{self.number}" + (f" ({source})" if source else "")


def is_inside(path: str) -> bool:
    """Whether code is of this room, or of a library that calls it."""
    place = Path(path)
    return place.parent == _HERE or bool(_LIBRARIES & set(place.parts))


def line_outside() -> Line:
    """The innermost line on the way here that is not of this room."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)


def complaint(message: str) -> InvalidInput:
    """An error that names the line of the network where it was found."""
    return InvalidInput(f"{line_outside()}: {message}")
