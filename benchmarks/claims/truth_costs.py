"""What a truth would cost, from one batch of networks of each width."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NamedTuple

import widefield as wf
from claims.ensembles import Ensemble, train
from claims.truths import Effort, errors_allowed


class WidthCost(NamedTuple):
    """Networks of a width that a truth needs, and the seconds of one once they are compiled."""

    width: int
    networks: int
    seconds_each: float

    @property
    def minutes(self) -> float:
        """Of all."""
        return self.networks * self.seconds_each / 60


def estimate(problem: wf.Problem, effort: Effort) -> list[WidthCost]:
    """The scatter of a batch tells how many networks there have to be."""
    problem = dataclasses.replace(problem, record=effort.record)
    costs = []
    for width, allowed in errors_allowed(effort).items():
        ensemble = Ensemble(width)
        train(problem, ensemble, math.inf, effort.batch, effort.batch)  # compiles
        began = time.perf_counter()
        train(problem, ensemble, 0.0, effort.batch, 2 * effort.batch)
        each = (time.perf_counter() - began) / effort.batch
        needed = math.ceil(ensemble.count * (ensemble.relative_error() / allowed) ** 2)
        costs.append(WidthCost(width, min(needed, effort.most), each))
    return costs
