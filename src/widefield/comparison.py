"""Several theories and real networks asked the same question: how far each answer is from the networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xarray as xr

from . import metrics
from .errors import InvalidInput, UnknownName
from .problem import Problem
from .solving import solve
from .theories import (
    AlternatingMonteCarlo,
    ClosedLinear,
    FiniteWidth,
    GradientIndependence,
    InfiniteWidth,
    Lazy,
    Perturbative,
    Theory,
    TwoLayer,
)
from .trajectory import Trajectory

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


def distance(answer: Trajectory, networks: Trajectory, name: str) -> xr.DataArray:
    """|X - X_N| / max_t |X_N| over time: X of a theory, X_N the mean over networks; kernels of the last layer."""
    mean, exact = metrics.at_common_times(_last(networks.mean(name)), _last(answer.mean(name)))
    return _length(exact - mean) / float(_length(mean).max())


def uncertainty(networks: Trajectory, name: str) -> xr.DataArray:
    """The part of every distance that comes from the number of networks: |standard error| / max_t |X_N|."""
    return _length(_last(networks.standard_error(name))) / float(_length(_last(networks.mean(name))).max())


def _last(value: xr.DataArray) -> xr.DataArray:
    return value.isel(layer=-1) if "layer" in value.dims else value


def _length(value: xr.DataArray) -> xr.DataArray:
    squares: xr.DataArray = (value**2).sum([dim for dim in value.dims if dim != "time"], skipna=False)
    return squares**0.5
