"""Targets for synthetic inputs: a table of named rules."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..base.arrays import Floats
from ..base.errors import InvalidInput

Rule = Callable[[Floats, np.random.Generator], Floats]
"""Gives inputs (n, D) their targets (n, C); the generator serves rules that ignore the inputs."""


def random_signs(draw: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return -1 or +1 with equal odds."""
    return np.array([-1.0, 1.0])[draw.integers(0, 2, shape)]


def _random_sign(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    del dimension, rng
    return lambda x, draw: random_signs(draw, (len(x), outputs))


def _random_gaussian(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    del dimension, rng
    return lambda x, draw: draw.standard_normal((len(x), outputs))


def _one_hot(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    del dimension, rng
    if outputs < 2:
        raise InvalidInput(f"labels = 'one-hot' needs outputs >= 2, the number of classes; outputs = {outputs}")
    return lambda x, draw: np.eye(outputs)[draw.integers(0, outputs, len(x))]


def _linear(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    # an output per row, so that the first outputs do not depend on how many there are
    beta = rng.standard_normal((outputs, dimension)).T / math.sqrt(dimension)
    return lambda x, draw: x @ beta


def _linear_sign(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    linear = _linear(dimension, outputs, rng)
    return lambda x, draw: _sign(linear(x, draw))


def _parity(dimension: int, outputs: int, rng: np.random.Generator) -> Rule:
    del rng
    if dimension <= outputs:
        raise InvalidInput(f"labels = 'parity' needs dimension > outputs; dimension = {dimension}, outputs = {outputs}")
    return lambda x, draw: _sign(x[:, :outputs] * x[:, 1 : outputs + 1])


def _sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, 1.0)


LABELS: dict[str, Callable[[int, int, np.random.Generator], Rule]] = {
    "random-sign": _random_sign,
    "random-gaussian": _random_gaussian,
    "one-hot": _one_hot,
    "linear": _linear,
    "linear-sign": _linear_sign,
    "parity": _parity,
}
