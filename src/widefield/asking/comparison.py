"""Several theories and real networks asked the same question: how far each answer is from the networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import xarray as xr

from ..base.errors import InvalidInput, UnknownName
from ..problem.problem import Problem
from ..theories import Theory
from ..theories.finite_width import FiniteWidth
from ..trajectory.distances import distance, uncertainty
from ..trajectory.trajectory import Trajectory
from .solving import solve

if TYPE_CHECKING:
    from ..base.drawing import Figure

ALIASES = {"dmft": "infinite-width", "alternating": "alternating-monte-carlo"}
"""Other names of theories, beside their kinds."""

_SETTINGS: dict[str, dict[str, Any]] = {"infinite-width": {"replicas": 4}, "gradient-independence": {"replicas": 4}}
"""Where fewer digits will do than if one theory is asked alone."""

QUANTITIES = ("outputs", "feature_kernel", "gradient_kernel", "ntk")


def named(names: str | Iterable[str], width: int = 1000) -> list[Theory]:
    """Theories from a list of kinds or aliases, or from such separated by commas; `width` for those that need one."""
    parts = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    known = [*Theory.members, *ALIASES]
    for part in parts:
        if part not in known:
            raise UnknownName("theory", part, known)
    if not parts:
        raise InvalidInput(f"theories = {names!r} names no theory; choose from {', '.join(known)}")
    kinds = dict.fromkeys(ALIASES.get(part, part) for part in parts)
    return [replace(_usual(kind, width), **_SETTINGS.get(kind, {})) for kind in kinds]


def _usual(kind: str, width: int) -> Theory:
    theory: Theory = Theory.members[kind].usual(width)  # type: ignore[attr-defined]
    return theory


@dataclass(frozen=True)
class Comparison:
    """Networks, the theories that answered, and why others did not."""

    networks: Trajectory
    answers: tuple[Trajectory, ...]
    refusals: dict[str, str]

    @cached_property
    def _distances(self) -> dict[str, dict[Trajectory, xr.DataArray]]:
        """Of every theory from the networks, by quantity."""
        return {name: self._apart(name) for name in QUANTITIES if name in self.networks.data}

    def _apart(self, name: str) -> dict[Trajectory, xr.DataArray]:
        return {answer: distance(answer, self.networks, name) for answer in self.answers if name in answer.data}

    def distances(self, name: str) -> dict[str, xr.DataArray]:
        """Of every theory from the networks, over time."""
        self.networks.variable(name)
        found = self._distances[name] if name in self._distances else self._apart(name)
        return {answer.label: apart for answer, apart in found.items()}

    @property
    def verdict(self) -> str:
        """Which theory is nearest to the networks, and how far that is beside their own uncertainty."""
        names = [name for name, found in self._distances.items() if found]
        if not names:
            return "Nothing to compare: no theory answers this problem."
        worst: dict[Trajectory, float] = {}
        for name in names:
            for answer, apart in self._distances[name].items():
                worst[answer] = max(worst.get(answer, 0.0), float(apart.max()))
        nearest = min(worst, key=lambda answer: worst[answer])
        floor = max(float(uncertainty(self.networks, name).max()) for name in names)
        return (
            f"Nearest to the networks is {nearest.label}, {worst[nearest]:.1%} away where it is farthest; that there "
            f"are {self.networks.data.sizes['seed']} of them leaves {floor:.1%} uncertain."
        )

    def table(self) -> Any:
        """Losses at the end, and the largest distance from the networks over time."""
        from ..base import tables

        names, short = list(self._distances), {"feature_kernel": "features", "gradient_kernel": "gradients"}
        headings = ("", "loss", *(short.get(name, name) for name in names), "s")
        made = tables.table(headings, "largest distance from the networks over time", words=1)
        for trajectory in (self.networks, *self.answers):
            row = [trajectory.label, f"{float(trajectory.mean('loss').isel(time=-1)):.3g}"]
            for name in names:
                if trajectory is self.networks:
                    row.append(f"± {float(uncertainty(trajectory, name).max()):.1%}")
                else:
                    apart = self._distances[name].get(trajectory)
                    row.append("" if apart is None else f"{float(apart.max()):.1%}")
            made.add_row(*row, f"{trajectory.data.attrs['seconds']:.1f}")
        return made

    def plot(self) -> Figure:
        """Losses, distances from the networks over time, and final kernels side by side."""
        from ..trajectory import plots

        return plots.compare(self.networks, *self.answers, known=self._distances)


def compare(
    problem: Problem, theories: Sequence[Theory], networks: FiniteWidth, *, progress: bool | None = None
) -> Comparison:
    """Ask every theory, and train the networks. What cannot answer the problem says why, before any work."""
    networks.check(problem)
    real = solve(problem, networks, progress=progress)
    return Comparison(real, *answered(problem, theories, progress=progress))


def answered(
    problem: Problem, theories: Iterable[Theory], *, progress: bool | None = None
) -> tuple[tuple[Trajectory, ...], dict[str, str]]:
    """The answers of all theories that have one, and why the others have none, by their labels."""
    asked = list(theories)
    answers, refusals = [], refused(problem, asked)
    for theory in asked:
        if theory.label in refusals:
            continue
        try:
            answers.append(solve(problem, theory, progress=progress))
        except InvalidInput as refusal:  # what depends on numbers, like memory, is known only now
            refusals[theory.label] = str(refusal)
    return tuple(answers), refusals


def refused(problem: Problem, theories: Iterable[Theory]) -> dict[str, str]:
    """Why theories do not answer a problem, by their labels; those that do are left out."""
    reasons = {theory.label: theory.reasons(problem) for theory in theories}
    return {label: "; ".join(map(str, found)) for label, found in reasons.items() if found}
