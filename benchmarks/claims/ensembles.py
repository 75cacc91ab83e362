"""Means of very many networks, a batch at a time, and what follows from them at several widths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import widefield as wf
from claims.quantities import Quantities, of_networks

FIRST_SEED = 10**6
"""Networks that make a truth are none of those that are compared with it."""


class NetworksDiverged(Exception):
    """At some width networks do not train at all."""


@dataclass
class Ensemble:
    """Mean and scatter of networks of one width (updated batch by batch, Chan, Golub and LeVeque 1979)."""

    width: int
    count: int = 0
    mean: Quantities = field(default_factory=dict)
    squares: dict[str, float] = field(default_factory=dict)
    """Sums over networks and entries of squared deviations from the mean."""

    def add(self, networks: Quantities) -> None:
        """Networks stand along the leading axis."""
        for name, values in networks.items():
            new, mean = len(values), values.mean(axis=0)
            before = self.mean.get(name, np.zeros_like(mean))
            step, total = mean - before, self.count + new
            apart = float(np.sum(step**2)) * self.count * new / total
            self.squares[name] = self.squares.get(name, 0.0) + float(np.sum((values - mean) ** 2)) + apart
            self.mean[name] = before + step * new / total
        self.count += len(next(iter(networks.values())))

    def variance(self, name: str) -> float:
        """Of one network, summed over entries."""
        return self.squares[name] / (self.count - 1) if self.count > 1 else math.inf

    def relative_error(self) -> float:
        """Of the mean, in the worst quantity."""
        return max(math.sqrt(self.variance(name) / self.count / np.sum(self.mean[name] ** 2)) for name in self.mean)


def train(problem: wf.Problem, ensemble: Ensemble, target: float, batch: int, most: int) -> None:
    """Add networks until the error of their mean is below the target or there are as many as allowed."""
    while ensemble.count < most and (ensemble.count < 2 or ensemble.relative_error() > target):
        theory = wf.FiniteWidth(ensemble.width, seeds=batch, seed=FIRST_SEED + ensemble.count, dtype="float32")
        answer = wf.solve(problem, theory, progress=False, throw=False)
        if answer.status != "complete":
            raise NetworksDiverged(f"width {ensemble.width}: {answer.message}")
        ensemble.add(of_networks(answer, problem.record))


Weights = Mapping[int, float]
"""A combination of the means of several widths: the factor of each."""


def combined(ensembles: Mapping[int, Ensemble], weights: Weights, name: str) -> tuple[NDArray[np.float64], float]:
    """The combination of means, and the variance of its noise summed over entries."""
    value = sum((weight * ensembles[width].mean[name] for width, weight in weights.items()), np.zeros(()))
    noise = sum(weight**2 * ensembles[w].variance(name) / ensembles[w].count for w, weight in weights.items())
    return np.asarray(value), noise


def size_beyond_noise(ensembles: Mapping[int, Ensemble], weights: Weights) -> Callable[[str], float]:
    """Norm of a combination, with what noise explains taken off."""

    def size(name: str) -> float:
        value, noise = combined(ensembles, weights, name)
        return math.sqrt(max(0.0, float(np.sum(value**2)) - noise))

    return size
