"""Several theories and real networks asked the same question: how far each answer is from the networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xarray as xr

from ..base.errors import InvalidInput, UnknownName
from ..problem.problem import Problem
from ..problem.theory import Theory
from ..theories.alternating import AlternatingMonteCarlo
from ..theories.closed_linear import ClosedLinear
from ..theories.finite_width import FiniteWidth
from ..theories.gradient_independence import GradientIndependence
from ..theories.infinite_width import InfiniteWidth
from ..theories.lazy import Lazy
from ..theories.perturbative import Perturbative
from ..theories.two_layer import TwoLayer
from ..trajectory.distances import distance
from ..trajectory.trajectory import Trajectory
from .solving import solve

THEORIES: dict[str, Theory] = {
    "dmft": InfiniteWidth(replicas=4),
    "lazy": Lazy(),
    "perturbative": Perturbative(),
    "gradient-independence": GradientIndependence(replicas=4),
    "alternating": AlternatingMonteCarlo(),
    "two-layer": TwoLayer(),
    "closed-linear": ClosedLinear(),
}
"""Names for the command line."""

QUANTITIES = ("outputs", "feature_kernel", "gradient_kernel", "ntk")


def named(names: str | Iterable[str]) -> list[Theory]:
    """Theories from a list of names, or from names separated by commas."""
    parts = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    for part in parts:
        if part not in THEORIES:
            raise UnknownName("theory", part, THEORIES)
    if not parts:
        raise InvalidInput(f"theories = {names!r} names no theory; choose from {', '.join(THEORIES)}")
    return [THEORIES[part] for part in dict.fromkeys(parts)]


@dataclass(frozen=True)
class Comparison:
    """Networks, the theories that answered, and why others did not."""

    networks: Trajectory
    answers: tuple[Trajectory, ...]
    refusals: dict[str, str]

    def distances(self, name: str) -> dict[str, xr.DataArray]:
        """Of every theory from the networks, over time."""
        return {answer.label: distance(answer, self.networks, name) for answer in self.answers if name in answer.data}


def compare(
    problem: Problem, theories: Sequence[Theory], networks: FiniteWidth, *, progress: bool | None = None
) -> Comparison:
    """Ask every theory, and train the networks. A theory that cannot answer the problem says why."""
    real = solve(problem, networks, progress=progress)
    answers, refusals = [], {}
    for theory in theories:
        try:
            answers.append(solve(problem, theory, progress=progress))
        except InvalidInput as refusal:
            refusals[theory.label] = str(refusal)
    return Comparison(real, tuple(answers), refusals)
