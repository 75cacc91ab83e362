"""Kernel regression as a prior of networks of finite width: infinite width plus the order 1/n, for scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
from jaxtyping import Float

from ..base.arrays import Floats
from ..base.errors import InvalidInput, NotAccurate
from ..effective import DrawnPosterior, drawn_posterior
from ..effective.bayes_posterior import RELIABLE
from .covariance import NetworkKernel, Source
from .hyperparameters import bounds, moved

_AT_ONCE = 64
"""New samples that are predicted in one go."""

_POINTS, _REPLICAS = 2**9, 4
"""Draws of an evidence that is compared with others from the same draws."""

_TOO_FAR = 3 * RELIABLE
"""Of the order 1/n of a log evidence: three of its deviations over targets from the prior, where 1/n may be trusted."""


@dataclass(frozen=True, eq=False)
class FiniteRegression:
    """Posterior of networks of this width at new samples, see `effective.drawn_posterior`."""

    source: NetworkKernel
    width: int
    samples: Float[Floats, "p d"]
    targets: Float[Floats, "p i"]
    ridge: float
    fitted: DrawnPosterior
    """The evidence alone."""

    @property
    def log_evidence(self) -> float:
        """With the order 1/n."""
        return self.fitted.log_evidence

    def mean(self, x: Float[Floats, "q d"]) -> Float[Floats, "q i"]:
        """Of every output."""
        return np.concatenate([part.mean for part in self._parts(x)])

    def moments(self, x: Float[Floats, "q d"]) -> tuple[Float[Floats, "q i"], Float[Floats, "q i i"]]:
        """Means, and covariances between the outputs of every sample."""
        parts = [(part.mean, np.moveaxis(part.covariance, -1, 0)) for part in self._parts(x)]
        means, covariances = zip(*parts, strict=True)
        return np.concatenate(means), np.concatenate(covariances)

    def covariance(self, x: Float[Floats, "q d"]) -> Float[Floats, "q q i"]:
        """Between all new samples, of every output."""
        (found,) = self._posteriors([x], together=True)
        return np.asarray(np.einsum("iiqr->qri", found.covariance))

    def _parts(self, x: Float[Floats, "q d"]) -> Iterator[DrawnPosterior]:
        """Few shapes: each has to be compiled. Rows that fill up are random, and do not change what the others get."""
        for start in range(0, len(x), _AT_ONCE):
            part = x[start : start + _AT_ONCE]
            room = next(n for n in (1, 8, _AT_ONCE) if n >= len(part)) - len(part)
            size = float(np.sqrt(np.mean(part**2)))
            fill = size * np.random.default_rng(0).normal(size=(room, x.shape[1]))
            (found,) = self._posteriors([np.concatenate([part, fill])])
            kept = slice(len(part))
            yield replace(
                found,
                infinite_mean=found.infinite_mean[kept],
                infinite_covariance=found.infinite_covariance[kept],
                mean_shift=found.mean_shift[kept],
                mean_shift_error=found.mean_shift_error[kept],
                shared_shift=found.shared_shift[kept],
                wired=found.wired[..., kept],
                covariance_error=found.covariance_error[..., kept],
            )

    def _posteriors(self, sets: list[Any], **options: Any) -> list[DrawnPosterior]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotAccurate)  # `fit_finite` has said so
            given = self.source.network, self.samples, self.targets
            return [drawn_posterior(*given, x, self.width, noise=self.ridge, **options) for x in sets]


def fit_finite(source: Source, x: Floats, y: Floats, ridge: float, width: int) -> FiniteRegression:
    """Condition networks of this width on the targets y (sample, output)."""
    kernel = of_networks(source)
    fitted = drawn_posterior(kernel.network, x, y, None, width, noise=ridge)
    return FiniteRegression(kernel, width, x.copy(), y, ridge, fitted)


def of_networks(source: Source) -> NetworkKernel:
    """The source, if it is a prior over networks of finite width; else an error that says why not."""
    if not isinstance(source, NetworkKernel):
        raise InvalidInput("width is given with a kernel of your own: a function has no width, use kernel = 'nngp'")
    if source.name != "nngp":
        raise InvalidInput(
            "width is given with kernel = 'ntk': at order 1/n the NTK moves while networks learn, so that the outputs "
            "of trained networks do not follow from its statistics before training; use kernel = 'nngp', whose "
            "posterior has the order 1/n, or widefield.FiniteWidth, which trains networks"
        )
    if source.rule.gated:
        raise InvalidInput(
            f"width is given with rule = {source.rule.kind!r}: fluctuations of gated networks are not known; leave out "
            "rule, since Bayesian inference knows no learning rule"
        )
    return source


def maximised_finite(
    source: Source, x: Floats, y: Floats, ridge: float, width: int, start: tuple[Source, float]
) -> tuple[Source, float]:
    """The source and ridge of the largest log evidence with its order 1/n, where that can be trusted.

    Searched by Nelder and Mead's simplex from `start`, the best at infinite width, or from what is given, whichever has
    the larger evidence; the order 1/n must be small, as `FinitePosterior.expansion` has it and itself.
    """
    of_networks(source)
    limits = bounds(source, ridge, y)

    def cost(point: Floats) -> float:
        chosen, r = moved(source, ridge, np.clip(point, *np.transpose(limits)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotAccurate)
                found = drawn_posterior(
                    of_networks(chosen).network, x, y, None, width, noise=r, points=_POINTS, replicas=_REPLICAS
                )
        except InvalidInput as problem:
            if "singular" not in str(problem):
                raise
            return math.inf
        if found.expansion > RELIABLE or abs(found.log_evidence_shift) > _TOO_FAR:
            return math.inf
        return -found.log_evidence

    places = [np.zeros(len(limits)), _place(source, ridge, start)]
    costs = [cost(place) for place in places]
    if min(costs) == math.inf:
        raise InvalidInput(
            f"width = {width} is too small to choose hyperparameters at order 1/n for {len(x)} samples and "
            f"{y.shape[1]} outputs: use a larger width, fewer samples or more noise, or optimise = False"
        )
    first = places[int(np.argmin(costs))]
    simplex = np.stack([first, *(first + 0.3 * step for step in np.eye(len(limits)))])
    options = {"initial_simplex": simplex, "maxfev": 40 * len(limits), "xatol": 1e-2, "fatol": 1e-3}
    found = scipy.optimize.minimize(cost, first, method="Nelder-Mead", options=options)
    return moved(source, ridge, np.clip(found.x, *np.transpose(limits)))


def _place(source: Source, ridge: float, chosen: tuple[Source, float]) -> Floats:
    """Logarithms of the factors that lead from the given numbers to the chosen ones."""
    one, other = of_networks(source).network, of_networks(chosen[0]).network
    factors = [] if ridge == 0 else [chosen[1] / ridge]
    factors.append(_first(other.weight_variances) / _first(one.weight_variances))
    if any(one.bias_scales):
        ratios = [b / a for a, b in zip(one.bias_scales, other.bias_scales, strict=True) if a]
        factors.append(ratios[0] ** 2)
    return np.log(factors)


def _first(variances: Any) -> float:
    return float(variances[0] if isinstance(variances, tuple) else variances)
