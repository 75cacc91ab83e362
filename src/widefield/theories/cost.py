"""What a solution at infinite width will cost, before it is begun."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..base import check

_LONG = 30.0
"""Seconds from which on it is worth telling."""

_GROWTH = 1.6
"""To find directions takes this much more than to use them, over a run; measured."""


@dataclass(frozen=True)
class Cost:
    """Floating point operations and bytes of memory: of states that run side by side, and of all records."""

    flops: float
    state_bytes: int
    record_bytes: int

    @property
    def bytes(self) -> int:
        """In all."""
        return self.state_bytes + self.record_bytes

    @property
    def seconds(self) -> float:
        """At the speed of products of matrices on this machine, which is measured, without compilation."""
        return self.flops / speed()

    def check_memory(self) -> None:
        """Raise `InvalidInput` for what would not fit."""
        check.memory("particles", self.state_bytes, "reduce particles or samples, or raise rank_tolerance")
        advice = "record less often (record.every) or fewer samples (record.samples)"
        check.memory("records", self.record_bytes, advice)

    def __str__(self) -> str:
        """For people who wait."""
        spent, size = _time(self.seconds), self.bytes / 2**30
        return f"about {spent} and {size:.1f} GiB ({self.flops / 1e12:.2g} TFlop at {speed() / 1e9:.0f} GFlop/s)"

    @property
    def long(self) -> bool:
        """Whether somebody should be told."""
        return self.seconds > _LONG


def of_run(
    *, moments: int, rows: int, backward: int, particles: int, rooms: list[tuple[int, int]], replicas: int
) -> float:
    """Flops of replicas: two products a question, with [q; f] and [e; r] of the given room, forward and backward."""
    per_moment = sum(4 * (rows + backward) * particles * sum(room) + 2 * rows * room[0] * room[1] for room in rooms)
    return _GROWTH * replicas * moments * float(per_moment)


@lru_cache
def speed() -> float:
    """Flops a second of products like those of a step."""
    rows, size, particles = 64, 512, 1024
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, particles)), rng.standard_normal((size, particles))
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        a @ b.T
        best = max(best, 2.0 * rows * size * particles / (time.perf_counter() - began))
    return best


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
