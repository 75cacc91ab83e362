"""Gaussian inputs and a linear target with power-law spectra: source and capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from .labels import Rule, random_signs
from .source import Part, stream
from .synthetic import Synthetic


@dataclass(frozen=True)
class PowerLaw(Synthetic, kind="power-law"):
    """Inputs x ~ N(0, diag(lambda)) and targets y = w . x with power laws in k = 1 .. D (BP25 eq. (20)):

        lambda_k        = k^-a D / sum_j j^-a            so that  tr(Sigma) / D = 1
        lambda_k w_k^2  = k^-(a b + 1) / sum_j j^-(a b + 1)   so that  <y^2> = 1

    with a = `spectrum_exponent` (capacity; alpha in BP25) and b = `source_exponent` (beta in BP25). Tasks
    with b < 1 are hard, with b > 1 easy: the loss of a linear model falls as t^-b. BP25 has no sums in these
    laws; here x and y are rescaled, so that inputs have the natural scale <|x|^2> = D. The sign of every w_k
    is random, and independent for every output.

    Args:
        samples: P, number of training points.
        dimension: D, number of modes.
        spectrum_exponent: a, 0 to 20.
        source_exponent: b, 0 to 20.
        outputs: C, number of targets per point.
        test_samples: Q, number of test points.
        noise: standard deviation of the Gaussian noise added to all targets, test targets included.
        seed: seed of every random draw.
    """

    spectrum_exponent: float
    source_exponent: float

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        for name in ("spectrum_exponent", "source_exponent"):
            put(self, **{name: check.number(name, getattr(self, name), least=0.0, most=20.0)})

    def spectrum(self) -> Floats:
        """Eigenvalues lambda_k of the input covariance, shape (D,)."""
        return self.dimension * _power_law(self.dimension, self.spectrum_exponent)

    def target_power(self) -> Floats:
        """Share lambda_k w_k^2 of every mode in the variance of a target, shape (D,)."""
        return _power_law(self.dimension, self.spectrum_exponent * self.source_exponent + 1.0)

    def coefficients(self) -> Floats:
        """Coefficients w of the targets y = x w, shape (D, C)."""
        draw = stream(self.seed, "rule", "weights")
        signs = random_signs(draw, (self.outputs, self.dimension))
        return signs.T * np.sqrt(self.target_power() / self.spectrum())[:, None]

    def _inputs(self, part: Part, count: int) -> Floats:
        return super()._inputs(part, count) * np.sqrt(self.spectrum())

    def _rule(self) -> Rule:
        w = self.coefficients()
        return lambda x, draw: x @ w


def _power_law(modes: int, exponent: float) -> Floats:
    """Return k^-exponent for k = 1 .. modes, divided by its sum."""
    values = np.exp(-exponent * np.log(np.arange(1, modes + 1)))
    return np.asarray(values / math.fsum(values))
