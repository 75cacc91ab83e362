"""Patterns of frozen gates phi'(m), m ~ N(0, K^x), and how likely they are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from ...activations import Activation
from ...base.arrays import Floats
from ...base.errors import InvalidInput

MOST_SAMPLES = 8
"""There are 2^P patterns, each with a network of its own."""

_POINTS = 20_000


@dataclass(frozen=True)
class Gates:
    """Gates of all samples, pattern by pattern.

    Args:
        values: phi'(m_mu); (patterns, P).
        chances: of every pattern; they add up to 1.
        bound: how far the chances may be off, added up.
    """

    values: Float[Floats, "k p"]
    chances: Float[Floats, " k"]
    bound: float

    @classmethod
    def of(cls, activation: Activation, kernel: Float[Floats, "p p"]) -> Gates:
        """All patterns of an activation that is linear on both sides of zero."""
        sides = tuple(float(activation.derivative(1)(np.float64(m))) for m in (-1.0, 1.0))
        if sides[0] == sides[1]:
            return cls(np.full((1, len(kernel)), sides[0]), np.ones(1), 0.0)
        samples = len(kernel)
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * samples, indexing="ij")).reshape(samples, -1).T
        chances, bound = _orthants(signs, _correlation(kernel))
        possible = chances > 0
        chances = chances[possible] / chances[possible].sum()
        return cls(np.where(signs[possible] > 0, sides[1], sides[0]), chances, bound)


def _correlation(kernel: Floats) -> Floats:
    scale = np.sqrt(np.diagonal(kernel))
    if (scale == 0).any():
        raise InvalidInput(f"sample {int(np.argmin(scale))} is zero, so that its gates are undecided")
    return np.asarray(np.clip(kernel / np.outer(scale, scale), -1.0, 1.0))


def _orthants(signs: Float[Floats, "k p"], correlation: Float[Floats, "p p"]) -> tuple[Floats, float]:
    """Probability that m has these signs. Exact for up to three samples, then by integration (Genz)."""
    samples = signs.shape[1]
    if samples <= 3:
        # For up to three variables only the pairs count: P = 2^-P (1 + sum_{i<j} s_i s_j E[sign m_i sign m_j]).
        pairs = list(combinations(range(samples), 2))
        total = sum((signs[:, i] * signs[:, j] * np.arcsin(correlation[i, j]) for i, j in pairs), np.zeros(len(signs)))
        return np.maximum((1 + 2 / np.pi * total) / 2**samples, 0.0), 0.0
    half = signs[signs[:, 0] > 0]  # a pattern and its opposite are equally likely
    found = np.array([[_cdf(s[:, None] * correlation * s, seed) for s in half] for seed in range(2)])
    by_pattern = {
        tuple(sign * s): chance for s, chance in zip(half, found.mean(axis=0), strict=True) for sign in (1, -1)
    }
    return np.array([by_pattern[tuple(s)] for s in signs]), float(2 * np.abs(found[0] - found[1]).sum())


def _cdf(correlation: Floats, seed: int) -> float:
    from scipy.stats import multivariate_normal  # slow to import

    samples = len(correlation)
    return float(
        multivariate_normal.cdf(
            np.zeros(samples),
            cov=correlation,
            allow_singular=True,
            maxpts=_POINTS * samples,
            abseps=1e-9,
            releps=1e-9,
            rng=np.random.default_rng(seed),
        )
    )
