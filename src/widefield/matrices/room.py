"""How many vectors a conditioned substrate has room for: sizes of arrays, for which programs are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import InvalidInput

_STEP = 1.2
"""Capacities grow by this factor: few sizes have to be compiled, and little is computed in vain."""

_NEARLY = {1: 0.9, 2: 0.75}
"""What is filled to this fraction is nearly full, by the rungs that it is to grow."""

MatrixRoom = tuple[int, int, int, int]


def on_ladder(count: float) -> int:
    """The next size that capacities have: multiples of 8, each larger than the one before by about `_STEP`.

    >>> [on_ladder(n) for n in (1, 17, 50, 200, 1000)]
    [8, 24, 56, 232, 1192]
    """
    size = 8
    while size < count:
        size = max(size + 8, 8 * round(_STEP * size / 8))
    return size


@dataclass(frozen=True)
class Room:
    """Capacities: vectors that a population has seen, and directions of each kind for a matrix.

    The four of a matrix: directions that it and its transpose were applied to, left and right vectors of its updates (0
    where they are among the former). `usual` are those of matrices that are not named yet, forward and backward.
    """

    pools: tuple[int, ...]
    usual: tuple[int, int]
    matrices: tuple[tuple[str, MatrixRoom], ...] = ()

    def of(self, name: str, asked: tuple[bool, bool], learned: tuple[bool, bool]) -> MatrixRoom:
        """Of a matrix; `asked` and `learned` say which of the four kinds it has."""
        forward, backward = self.usual
        stated = dict(self.matrices).get(name, (0, 0, 0, 0))
        kinds = zip(stated, (forward, backward, backward, forward), (*asked, *learned), strict=True)
        a, b, c, d = ((known or usual) if there else 0 for known, usual, there in kinds)
        return a, b, c, d

    def having(self, name: str, sizes: MatrixRoom) -> Room:
        """With a matrix of these capacities."""
        return replace(self, matrices=tuple({**dict(self.matrices), name: sizes}.items()))

    def as_table(self) -> dict[str, Any]:
        """In plain lists, for a checkpoint."""
        return {"pools": list(self.pools), "usual": list(self.usual), "matrices": dict(self.matrices)}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Room:
        """The inverse of `as_table`."""
        matrices = {name: (int(a), int(b), int(c), int(d)) for name, (a, b, c, d) in table["matrices"].items()}
        forward, backward = table["usual"]
        return cls(tuple(map(int, table["pools"])), (int(forward), int(backward)), tuple(matrices.items()))


def larger(size: int, rank: int, *, full: bool, most: int, rungs: int = 1) -> int:
    """The next capacity, if this one did not suffice, so many rungs up the ladder, but no more than there are particles.

    One that is nearly full grows too: to compile for one more size is dearer than some room in vain. To go up several
    rungs is to expect that all will be needed.
    """
    if full and size >= most:
        raise InvalidInput(
            f"particles = {most} are too few: this problem has more independent directions than that; "
            "raise particles or rank_tolerance"
        )
    for _ in range(rungs if full or rank >= _NEARLY[rungs] * size else 0):
        size = min(on_ladder(size + 1), max(size, most))
    return size
