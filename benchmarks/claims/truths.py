"""Answers that errors are measured against: very many real networks, extrapolated to infinite width.

With means m of widths N/2, N, 2N, all from independent networks,

    truth = (4 m(2N) - m(N/2)) / 3

has no error of order 1/N (and less noise than 2 m(2N) - m(N)). What is left of order 1/N^2 follows from all three
widths. Together with the statistical error this is the truth's own error. The same networks tell the bias and the
scatter of each width.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

import widefield as wf
from claims.ensembles import Ensemble, combined, size_beyond_noise, train
from claims.quantities import Quantities

OWN_ERROR, AT_MOST = 0.2, 0.35
"""Error that a truth should have, as a fraction of the errors that are measured with it; more is told, or refused.

Both errors are independent: with the second the measured error is 6% larger than the true one.
"""


class TruthNotGoodEnough(Exception):
    """There is no truth for this problem, or it is not accurate enough for what is compared."""


@dataclass(frozen=True)
class Effort:
    """How a truth is computed."""

    record: wf.Record
    narrow: int = 64
    """N/2."""

    error: float = 0.003
    batch: int = 128
    most: int = 200_000
    """Networks of a width at most."""

    @property
    def widths(self) -> tuple[int, int, int]:
        """N/2, N and 2N."""
        return self.narrow, 2 * self.narrow, 4 * self.narrow


@dataclass(frozen=True)
class Truth:
    """Values, and per quantity the own error, the bias and the scatter of widths; all relative."""

    problem: str
    """In TOML, so that a truth of another problem is noticed."""

    record: wf.Record
    networks: dict[int, int]
    values: Quantities
    own_error: dict[str, float]
    bias: dict[int, dict[str, float]]
    spread: dict[int, dict[str, float]]

    def check_good_enough(self, error: float) -> str:
        """Raise unless an error of this size can be measured; words where it is not measured well."""
        worst = max(self.own_error.values())
        if worst > AT_MOST * error:
            raise TruthNotGoodEnough(f"error {worst:.2%} of the truth, more than {AT_MOST:g} of {error:.2%}")
        return f" (more than a fifth: {worst / error:.2f})" if worst > OWN_ERROR * error else ""

    def bias_of(self, width: int) -> dict[str, float]:
        """As measured; beyond the widest as 1/width."""
        return self._scaled(self.bias, width, 1.0)

    def spread_of(self, width: int) -> dict[str, float]:
        """As measured; beyond the widest as width^(-1/2)."""
        return self._scaled(self.spread, width, 0.5)

    def _scaled(self, known: dict[int, dict[str, float]], width: int, power: float) -> dict[str, float]:
        nearest = width if width in known else max(known)
        return {name: value * (nearest / width) ** power for name, value in known[nearest].items()}


def errors_allowed(effort: Effort) -> dict[int, float]:
    """Of the mean at each width: most of the truth's noise is that of the widest, whose networks are dearest.

    The middle width counts twice in what is left of order 1/N^2, and not in the truth.
    """
    narrow, middle, wide = effort.widths
    shares = {narrow: 3 * math.sqrt(0.15), middle: 0.7, wide: 0.75 * math.sqrt(0.85)}
    return {width: share * effort.error for width, share in shares.items()}


def compute(problem: wf.Problem, effort: Effort) -> Truth:
    """Train the networks."""
    problem = dataclasses.replace(problem, record=effort.record)
    ensembles = {width: Ensemble(width) for width in effort.widths}
    for width, allowed in errors_allowed(effort).items():
        train(problem, ensembles[width], allowed, effort.batch, effort.most)
    return from_ensembles(problem, ensembles)


def from_ensembles(problem: wf.Problem, ensembles: dict[int, Ensemble]) -> Truth:
    """Extrapolate."""
    narrow, middle, wide = sorted(ensembles)
    extrapolation = {wide: 4 / 3, narrow: -1 / 3}
    remainder = size_beyond_noise(ensembles, {wide: 4 / 3, middle: -2.0, narrow: 2 / 3})
    both = {name: combined(ensembles, extrapolation, name) for name in ensembles[wide].mean}
    norms = {name: float(np.linalg.norm(value)) for name, (value, _) in both.items()}
    own = {name: math.hypot(math.sqrt(noise), remainder(name)) / norms[name] for name, (_, noise) in both.items()}
    bias, spread = {}, {}
    for width, ensemble in ensembles.items():
        gap = {w: (w == width) - extrapolation.get(w, 0.0) for w in ensembles}
        size = size_beyond_noise(ensembles, gap)
        bias[width] = {name: size(name) / norms[name] for name in both}
        spread[width] = {name: math.sqrt(ensemble.variance(name)) / norms[name] for name in both}
    networks = {width: ensemble.count for width, ensemble in ensembles.items()}
    values = {name: value for name, (value, _) in both.items()}
    return Truth(asked(problem), problem.record, networks, values, own, bias, spread)


def asked(problem: wf.Problem) -> str:
    """The problem without what is recorded of it."""
    return dataclasses.replace(problem, record=wf.Record()).to_toml()
