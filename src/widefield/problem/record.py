"""What a theory writes down, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput

_DEFAULT_TIMES = 101


class Part(NamedTuple):
    """Samples that are recorded under one prefix of names; rows count the training samples, then the test samples."""

    prefix: str
    """ "" or "test_"."""

    rows: slice
    """All of them, which the loss is about."""

    kept: slice
    """Those whose outputs and kernels are kept."""

    kernels: bool
    """Whether kernels are kept."""


@dataclass(frozen=True)
class Record(Described, family="record"):
    """What to keep of a run. Step 0 and the last step are always recorded.

    Args:
        every: record every so many steps; None spreads about a hundred records evenly.
        steps: the steps to record, instead of `every`.
        samples: outputs and kernels of only the first so many training samples; None is all of them.
        kernels: whether to keep the equal-time kernels.
        test_kernels: whether to keep kernels between test and training samples too.
        neurons: for how many neurons of every layer to keep preactivations and pre-gradients.
        two_time: whether to keep what two-time kernels need (`Trajectory.two_time`).
        responses: whether to keep what response functions need (infinite width only; includes `two_time`).
    """

    every: int | None = None
    steps: tuple[int, ...] | None = None
    samples: int | None = None
    kernels: bool = True
    test_kernels: bool = False
    neurons: int = 32
    two_time: bool = False
    responses: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        if self.every is not None and self.steps is not None:
            raise InvalidInput(f"every = {self.every} and steps = {self.steps} exclude each other: give one")
        if self.every is not None:
            put(self, every=check.integer("every", self.every, least=1))
        if self.steps is not None:
            if not isinstance(self.steps, list | tuple):
                raise InvalidInput(f"steps = {self.steps!r} must be a list of step numbers; see also every")
            put(self, steps=tuple(sorted({check.integer("steps", step) for step in self.steps})))
        if self.samples is not None:
            put(self, samples=check.integer("samples", self.samples, least=1))
        put(self, neurons=check.integer("neurons", self.neurons))
        for name in ("kernels", "test_kernels", "two_time", "responses"):
            check.flag(name, getattr(self, name))

    def in_program(self) -> Record:
        """What is recorded, not when: programs that differ in that share compiled code."""
        return replace(self, every=None, steps=None)

    @property
    def between_times(self) -> bool:
        """Whether kernels between different times are asked for."""
        return self.two_time or self.responses

    def recorded(self, train: int) -> int:
        """Number of training samples, of so many, whose outputs and kernels are recorded."""
        return train if self.samples is None else self.samples

    def parts(self, train: int, test: int) -> tuple[Part, ...]:
        """What is recorded of so many training samples and the test samples that follow them."""
        found = (Part("", slice(train), slice(self.recorded(train)), self.kernels),)
        tested = slice(train, train + test)
        return (*found, Part("test_", tested, tested, self.kernels and self.test_kernels)) if test else found

    def kernel_rows(self, train: int, test: int) -> NDArray[np.int64]:
        """Numbers of the samples that kernels have rows of; the first `recorded` of them are the columns."""
        kept = [part.kept for part in self.parts(train, test) if part.kernels or not part.prefix]
        return np.concatenate([np.arange(rows.start or 0, rows.stop) for rows in kept])

    def at(self, steps: int) -> NDArray[np.int64]:
        """Numbers of the recorded steps of a run of `steps` steps, from 0 to `steps`."""
        if self.steps is not None:
            if self.steps and self.steps[-1] > steps:
                raise InvalidInput(f"record.steps asks for step {self.steps[-1]}, but the run has {steps} steps")
            chosen = np.asarray(self.steps, dtype=np.int64)
        elif self.every is not None:
            chosen = np.arange(0, steps + 1, self.every)
        else:
            chosen = np.round(np.linspace(0, steps, min(_DEFAULT_TIMES, steps + 1))).astype(np.int64)
        return np.unique(np.concatenate([[0], chosen, [steps]]))
