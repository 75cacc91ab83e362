"""Bayesian inference at finite width for many samples: `finite_posterior` with averages over drawn fluctuations.

In units in which M = K_AA + noise is 1, F F^T = M, a fluctuation u of the metric and its mean G / n are

    U = F^-1 u_AA F^-T      T = F^-1 u_A* - U a      a = F^-1 K_A*      e_i = F^-1 y_i      S = sum_i e_i e_i^T - n_L

(* the samples that are predicted), and what `bayes_terms` says in terms of the vertex are averages over draws of u:

    log p(y)       S.G / 2 + <(S.U)^2 / 8 + n_L |U|^2 / 4 - sum_i |U e_i|^2 / 2>
    E[f_i]         G_T^T e_i + <(S.U) T^T e_i / 2 - T^T U e_i>
    Cov[f_i, f_k]  <(T^T e_i) (T^T e_k)^T> + delta_ik { G_** + <(S.U) u_** / 2 - T^T T> }

with G_T and u_** projected like u. Each draw costs what a matrix of samples costs, and nothing has four sample indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.statistics import mean_and_error
from ..data.samples import column
from ..kernels.prediction import evidence, factorised
from ..problem.network import MLP
from .bayes_posterior import warn_if_narrow
from .metric_draws import MetricDraws

_MOST, _LEAST, _WORK = 2**12, 2**7, 2**30
"""Draws of a replica: as many as cost this much for matrices of so many samples."""


@dataclass(frozen=True, eq=False)
class DrawnPosterior:
    """Infinite width plus the order 1/n, as `FinitePosterior`; what was drawn has standard errors.

    Covariances have two axes of samples if they were asked for `together`, and one, their diagonal, if not.
    """

    infinite_mean: Float[Floats, "q i"]
    infinite_covariance: Floats
    infinite_log_evidence: float
    mean_shift: Float[Floats, "q i"]
    mean_shift_error: Float[Floats, "q i"]
    log_evidence_shift: float
    log_evidence_shift_error: float

    shared_shift: Floats
    """Of Cov[f_i, f_i], the part that all outputs have in common."""

    wired: Floats
    """(i, k, ..): Cov[f_i, f_k] for i != k; for i = k what the targets of output i do to its variance."""

    covariance_error: Floats
    """(i, k, ..): of `shared_shift` + `wired`."""

    expansion: float
    """See `FinitePosterior`."""

    noise: float

    @property
    def mean(self) -> Float[Floats, "q i"]:
        """E[f_i | y]."""
        return self.infinite_mean + self.mean_shift

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return self.infinite_log_evidence + self.log_evidence_shift

    @property
    def covariance(self) -> Floats:
        """(i, k, ..) of all outputs; variances that come out negative are an error."""
        outputs = len(self.wired)
        same = np.eye(outputs).reshape(outputs, outputs, *(1,) * self.shared_shift.ndim)
        found = self.wired + same * (self.infinite_covariance + self.shared_shift)
        own = np.einsum("ii...->i...", found)
        variances = np.einsum("iqq->iq", own) if own.ndim == 3 else own
        size = float(np.abs(self.infinite_covariance).max(initial=0.0)) + float(np.abs(self.wired).max(initial=0.0))
        if variances.min(initial=0.0) < -1e-10 * size:
            raise InvalidInput(
                f"a posterior variance is {variances.min():.3g} < 0: widths are too small for the order 1/n (expansion "
                f"= {self.expansion:.3g}); use wider layers, fewer layers, fewer samples or more noise"
            )
        return np.asarray(found)


def drawn_posterior(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike | None,
    widths: int | Sequence[int],
    *,
    noise: float = 0.0,
    together: bool = False,
    points: int | None = None,
    replicas: int = 8,
    seed: int = 0,
) -> DrawnPosterior:
    """`finite_posterior` for hundreds of samples, without the vertex: the order 1/n has errors of a few percent.

    >>> network = MLP(1, "sin", weight_variances=1.5, bias_variances=0.1)
    >>> found = drawn_posterior(network, np.eye(2), [1.0, -0.5], [[0.6, 0.8]], 50, noise=0.1)
    >>> print(found.mean.round(3), round(found.log_evidence, 3))
    [[0.138]] -2.549

    Args:
        network, x, y, widths, noise: see `finite_posterior`.
        x_test: inputs whose outputs are wanted; None for the evidence alone.
        together: covariances between the samples of `x_test` too. Without it each is predicted as if it was alone.
        points: draws in each of the replicas; None is 2^12, falling to 2^7 for more than 200 samples.
        replicas: independent sets, whose scatter gives the errors.
        seed: of the first replica.
    """
    inputs, targets, replicas = check.inputs(x, None)[0], column("y", y), check.integer("replicas", replicas, least=2)
    if len(inputs) != len(targets):
        raise InvalidInput(f"x has {len(inputs)} rows and y {len(targets)}: they need as many")
    others = inputs[:0] if x_test is None else check.inputs(inputs, x_test)[1]
    everything = np.concatenate([inputs, inputs if others is None else others])  # None: they are the same
    draws = MetricDraws.of(network, everything, widths, len(inputs), together=check.flag("together", together))
    most = int(min(max(_WORK // len(inputs) ** 3, _LEAST), _MOST))
    points = 2 ** round(math.log2(most)) if points is None else check.integer("points", points, least=2)
    units = _Units.of(draws.kernel, targets, check.number("noise", noise, least=0.0), together)
    found = [units.gathered(draws, points, seed + replica) for replica in range(replicas)]
    result = units.posterior({name: np.stack([each[name] for each in found]) for name in found[0]})
    warn_if_narrow(result.expansion, draws.sizes, *targets.shape, stacklevel=3)
    return result


@dataclass(frozen=True, eq=False)
class _Units:
    """Those in which M is 1."""

    kernel: Float[Floats, "p p"]
    factor: Float[Floats, "a a"]
    inverse: Float[Floats, "a a"]
    """F^-1."""

    y: Float[Floats, "a i"]
    noise: float
    together: bool

    @classmethod
    def of(cls, kernel: Float[Floats, "p p"], y: Float[Floats, "a i"], noise: float, together: bool) -> _Units:
        """From K of all samples, the observed ones first."""
        factor = factorised(kernel[: len(y), : len(y)], noise)
        inverse = scipy.linalg.solve_triangular(factor, np.eye(len(y)), lower=True)
        return cls(kernel, factor, inverse, y, noise, together)

    @property
    def targets(self) -> Float[Floats, "a i"]:
        """e."""
        return np.asarray(self.inverse @ self.y)

    @property
    def cross(self) -> Float[Floats, "a q"]:
        """a."""
        return np.asarray(self.inverse @ self.kernel[: len(self.y), len(self.y) :])

    @property
    def surprise(self) -> Float[Floats, "a a"]:
        """S."""
        e = self.targets
        return np.asarray(e @ e.T - e.shape[1] * np.eye(len(e)))

    def projected(self, u: Float[Floats, "k p p"]) -> tuple[Floats, Floats, Floats]:
        """U, T and u_** of fluctuations."""
        count, a = len(self.y), self.cross
        half = self.inverse @ u[:, :count]
        U = half[:, :, :count] @ self.inverse.T
        T = half[:, :, count:] - U @ a
        last = u[:, count:, count:]
        if self.together:
            mixed = a.T @ half[:, :, count:]
            own = last - mixed - np.swapaxes(mixed, 1, 2) + a.T @ U @ a
        else:
            own = np.einsum("kqq->kq", last) - np.sum(a * (half[:, :, count:] + T), axis=1)
        return U, T, own

    def gathered(self, draws: MetricDraws, points: int, seed: int) -> dict[str, Floats]:
        """Averages over the draws of a replica."""
        total: dict[str, Floats] = {}
        for u, bent in draws.parts(points, seed):
            for name, value in {**self._terms(u), "bent": bent}.items():
                total[name] = total[name] + value if name in total else value
        found = {name: np.asarray(value / points) for name, value in total.items()}
        U, T, own = self.projected(draws.shift(found.pop("bent"))[None])
        found["evidence"] = found["evidence"] + 0.5 * np.sum(self.surprise * U[0])
        found["mean"] = found["mean"] + T[0].T @ self.targets
        found["shared"] = found["shared"] + own[0]
        return found

    def _terms(self, u: Float[Floats, "k p p"]) -> dict[str, Floats]:
        """Sums over draws."""
        e, outputs = self.targets, self.y.shape[1]
        U, T, own = self.projected(u)
        pulled = np.einsum("kab,ab->k", U, self.surprise)
        Ue, Te = U @ e, np.swapaxes(T, 1, 2) @ e
        evidence = pulled**2 / 8 + outputs * np.sum(U**2, axis=(1, 2)) / 4 - np.sum(Ue**2, axis=(1, 2)) / 2
        pair = "kqi,krj->ijqr" if self.together else "kqi,kqj->ijq"
        lost = np.einsum("kaq,kar->qr" if self.together else "kaq,kaq->q", T, T, optimize=True)
        return {
            "evidence": np.sum(evidence),
            "mean": np.einsum("k,kqi->qi", pulled / 2, Te) - np.einsum("kaq,kai->qi", T, Ue, optimize=True),
            "shared": np.einsum("k,k...->...", pulled / 2, own) - lost,
            "wired": np.einsum(pair, Te, Te, optimize=True),
            "spread": _spread(U, outputs),
        }

    def posterior(self, parts: dict[str, Float[Floats, "r ..."]]) -> DrawnPosterior:
        """From all replicas."""
        count, a, e = len(self.y), self.cross, self.targets
        last = self.kernel[count:, count:]
        covariance = last - a.T @ a if self.together else np.diagonal(last) - np.sum(a**2, axis=0)
        mean, evident = mean_and_error(parts["mean"]), mean_and_error(parts["evidence"])
        outputs = self.y.shape[1]
        same = np.eye(outputs).reshape(1, outputs, outputs, *(1,) * covariance.ndim)
        error = mean_and_error(parts["wired"] + same * parts["shared"][:, None, None])[1]
        return DrawnPosterior(
            a.T @ e,
            np.asarray(covariance),
            evidence(self.factor, self.y),
            *mean,
            float(evident[0]),
            float(evident[1]),
            parts["shared"].mean(axis=0),
            parts["wired"].mean(axis=0),
            error,
            math.sqrt(max(0.0, float(parts["spread"].mean()))),
            self.noise,
        )


def _spread(U: Float[Floats, "k a a"], outputs: int) -> Floats:
    """Sum over draws of what is the square of `expansion_parameter`, tr k^2 / 24, from pairs of independent draws:

    {n_L^2 (U.U')^2 + 2 n_L tr(U U' U U')} / 8
    """
    half = len(U) // 2
    if not half:
        return np.zeros(())
    one, other = U[:half], U[half : 2 * half]
    product = one @ other
    squares = np.einsum("kaa->k", product) ** 2
    turns = np.sum(product * np.swapaxes(product, 1, 2), axis=(1, 2))
    return np.asarray(len(U) / half * np.sum(outputs**2 * squares + 2 * outputs * turns) / 8)
