"""`floors.toml`: the ratio that each claim promises, and whether what was measured keeps the promise."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from claims.intervals import Interval

FLOORS = Path(__file__).parents[1] / "floors.toml"


class WrongFloors(Exception):
    """`floors.toml` cannot be read, or does not fit the claims that there are."""


class Verdict(StrEnum):
    """What an interval says about a claim."""

    HOLDS = "holds"
    UNDECIDED = "not decided"
    FAILS = "fails"


@dataclass(frozen=True)
class Floor:
    """What a claim promises. A claim has one of three kinds:

    floor    we are at least so many times quicker: the ratio is theirs / ours
    ceiling  we cost at most so many times as much: the ratio is ours / theirs
    within   ours and theirs differ by at most this factor, either way: the ratio is ours / theirs
    """

    name: str
    sentence: str
    kind: str
    number: float
    pairs: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest ratio that keep the promise."""
        infinity = float("inf")
        return {
            "floor": (self.number, infinity),
            "ceiling": (0.0, self.number),
            "within": (1 / self.number, self.number),
        }[self.kind]

    @property
    def promise(self) -> str:
        """In words."""
        words = {"floor": "at least", "ceiling": "at most", "within": "within"}
        return f"{words[self.kind]} {self.number:g}"

    def ratio(self, ours: float, theirs: float) -> float:
        """The ratio of one pair."""
        return theirs / ours if self.kind == "floor" else ours / theirs

    def verdict(self, interval: Interval) -> Verdict:
        """Fails only where the whole interval breaks the promise, holds only where the whole interval keeps it."""
        low, high = self.bounds
        if interval.high < low or interval.low > high:
            return Verdict.FAILS
        return Verdict.HOLDS if low <= interval.low and interval.high <= high else Verdict.UNDECIDED


def read(path: Path = FLOORS) -> dict[str, Floor]:
    """All floors by name."""
    with path.open("rb") as file:
        return {name: _floor(name, table) for name, table in tomllib.load(file).items()}


def _floor(name: str, table: dict[str, Any]) -> Floor:
    kinds = [kind for kind in ("floor", "ceiling", "within") if kind in table]
    if len(kinds) != 1 or set(table) != {"claim", "pairs", kinds[0]}:
        raise WrongFloors(f"[{name}] must have claim, pairs and one of floor, ceiling, within; it has {sorted(table)}")
    number, pairs = table[kinds[0]], table["pairs"]
    if not (isinstance(number, int | float) and number > 0 and isinstance(pairs, int) and pairs > 0):
        raise WrongFloors(f"[{name}]: {kinds[0]} = {number!r} and pairs = {pairs!r} must be positive numbers")
    if kinds[0] == "within" and number < 1:
        raise WrongFloors(f"[{name}]: within = {number!r} is a factor either way and must be at least 1")
    return Floor(name, str(table["claim"]), kinds[0], float(number), pairs)


def check_complete(floors: Collection[str], claims: Collection[str]) -> None:
    """Raise unless every claim has a floor and every floor a claim."""
    without_floor, without_claim = sorted(set(claims) - set(floors)), sorted(set(floors) - set(claims))
    if without_floor:
        raise WrongFloors(f"claims without a floor in floors.toml: {', '.join(without_floor)}")
    if without_claim:
        raise WrongFloors(f"floors in floors.toml without a claim: {', '.join(without_claim)}")
