"""Random inputs: Gaussian, on the sphere, whitened."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from .labels import LABELS, Rule
from .samples import Samples, lq
from .source import DataSource, Part, stream


@dataclass(frozen=True)
class Synthetic(DataSource):
    """Base of the random sources: x drawn from `_inputs`, y = rule(x) + `noise` eps with eps ~ N(0, 1).

    Training inputs, training labels, noise, rule and test points come from independent streams of `seed`, so
    changing the number of test points or the noise level leaves all the rest as it was, and a larger
    training set starts with the points of a smaller one and keeps its rule.

    Args:
        samples: P, number of training points.
        dimension: D, number of input coordinates.
        outputs: C, number of targets per point.
        test_samples: Q, number of test points.
        noise: standard deviation of the Gaussian noise added to all targets, test targets included.
        seed: seed of every random draw.
    """

    samples: int
    dimension: int
    _: KW_ONLY
    outputs: int = 1
    test_samples: int = 0
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        for name, least in {"samples": 1, "dimension": 1, "outputs": 1, "test_samples": 0, "seed": 0}.items():
            put(self, **{name: check.integer(name, getattr(self, name), least=least)})
        put(self, noise=check.number("noise", self.noise, least=0.0))

    def load(self) -> Samples:
        """Draw the points and their targets."""
        size = (self.samples + self.test_samples) * (self.dimension + self.outputs)
        check.memory("samples", 3 * 8 * size, "reduce samples, test_samples or dimension")
        rule = self._rule()
        return Samples(*self._draw("train", self.samples, rule), *self._draw("test", self.test_samples, rule))

    def _draw(self, part: Part, count: int, rule: Rule) -> tuple[Floats, Floats]:
        x = self._inputs(part, count)
        y = rule(x, stream(self.seed, part, "labels"))
        return x, y + self.noise * stream(self.seed, part, "noise").standard_normal(y.shape)

    def _inputs(self, part: Part, count: int) -> Floats:
        return stream(self.seed, part, "inputs").standard_normal((count, self.dimension))

    @abstractmethod
    def _rule(self) -> Rule:
        """Draw the rule that gives inputs their targets."""


@dataclass(frozen=True)
class Labelled(Synthetic):
    """Base of the sources whose targets follow one of the rules in `LABELS`."""

    labels: str = "random-sign"

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        check.choice("labels", self.labels, LABELS)
        self._rule()  # some rules do not work for every number of outputs

    def _rule(self) -> Rule:
        check.memory("weights of the rule", 8 * self.dimension * self.outputs, "reduce dimension or outputs")
        return LABELS[self.labels](self.dimension, self.outputs, stream(self.seed, "rule", "weights"))


@dataclass(frozen=True)
class Gaussian(Labelled, kind="gaussian"):
    """Inputs with independent entries x_k ~ N(0, 1).

    Args:
        samples: P, number of training points.
        dimension: D, number of input coordinates.
        labels: the rule for the targets, each output independently:
            "random-sign": y = -1 or +1 with equal odds, whatever x is;
            "random-gaussian": y ~ N(0, 1), whatever x is;
            "one-hot": y = e_c with a random class c out of `outputs`, whatever x is;
            "linear": y = x . beta / sqrt(D), beta_k ~ N(0, 1);
            "linear-sign": y = sign(x . beta);
            "parity": y_c = sign(x_c x_{c+1}), the exclusive or of two coordinates.
        outputs: C, number of targets per point.
        test_samples: Q, number of test points.
        noise: standard deviation of the Gaussian noise added to all targets, test targets included.
        seed: seed of every random draw.

    >>> Gaussian(samples=3, dimension=5, labels="linear", test_samples=2).load().x_test.shape
    (2, 5)
    """


@dataclass(frozen=True)
class Sphere(Labelled, kind="sphere"):
    """Inputs uniform on the sphere |x|^2 = D, so that K^x = x x^T / D has a unit diagonal.

    Arguments as `Gaussian`.
    """

    def _inputs(self, part: Part, count: int) -> Floats:
        x = super()._inputs(part, count)
        return np.asarray(x * (math.sqrt(self.dimension) / np.linalg.norm(x, axis=1, keepdims=True)))


@dataclass(frozen=True)
class Whitened(Labelled, kind="whitened"):
    """Training inputs with K^x = x x^T / D = 1: sqrt(D) times P random orthonormal vectors, P <= D.

    Test inputs have independent N(0, 1) entries. Arguments as `Gaussian`.
    """

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if self.dimension < self.samples:
            raise InvalidInput(
                f"dimension = {self.dimension} must be at least samples = {self.samples}: "
                "no more than D points can be orthogonal"
            )

    def _inputs(self, part: Part, count: int) -> Floats:
        x = super()._inputs(part, count)
        return lq(x)[1] * math.sqrt(self.dimension) if part == "train" else x
