"""Bayesian inference with networks of finite width: posterior and evidence at infinite width, and their order 1/n."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput, NotAccurate
from ..data.samples import column
from ..kernels.prediction import Blocks, Prediction, evidence, factorised, posterior
from ..problem.network import MLP
from .bayes_terms import Terms
from .information import layer_entropy
from .vertex_flow import Flow, flow

RELIABLE = 0.3
"""Of `FinitePosterior.expansion`: above it, what was left out may be as large as what was added."""


@dataclass(frozen=True, eq=False)
class FinitePosterior:
    """The posterior of outputs f at the samples asked for, and the evidence: infinite width plus the order 1/n.

    `infinite` and `infinite_log_evidence` are those of `kernels.posterior` and `kernels.log_evidence`; names that end
    in `_shift` are what finite width adds, PDLT section 6.4. Everything else is their sum, with errors O(1/n^2).
    """

    infinite: Prediction
    infinite_log_evidence: float
    mean_shift: Float[Floats, "q i"]
    log_evidence_shift: float

    shared_shift: Float[Floats, "q q"]
    """Of Cov[f_i, f_i], the part that all outputs i have in common."""

    wired: Float[Floats, "i i q q"]
    """Cov[f_i, f_k] for i != k; for i = k the part of the variance that follows from the targets of output i."""

    expansion: float
    """Standard deviation of the order 1/n of the log evidence over targets from the prior: it should be small."""

    noise: float

    @property
    def mean(self) -> Float[Floats, "q i"]:
        """E[f_i | y], PDLT eq. (6.88)."""
        return np.asarray(self.infinite.mean + self.mean_shift)

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return self.infinite_log_evidence + self.log_evidence_shift

    def covariance(self, output: int = 0, other: int | None = None) -> Float[Floats, "q q"]:
        """Cov[f_i, f_k | y] between the samples, i = `output` and k = `other` (None: the same output).

        Different outputs are correlated at finite width: what fires together wires together, PDLT eq. (6.89).
        """
        most = len(self.wired) - 1
        i = check.integer("output", output, most=most)
        k = i if other is None else check.integer("other", other, most=most)
        own = self.infinite.covariance + self.shared_shift if i == k else 0.0
        return np.asarray(own + self.wired[i, k])

    @property
    def variance(self) -> Float[Floats, "q i"]:
        """Of every output at every sample; an error where 1/n is too large for it to be positive."""
        own = np.diagonal(self.infinite.covariance + self.shared_shift)
        found = own[:, None] + np.einsum("iiqq->qi", self.wired)
        size = float(np.abs(self.infinite.covariance).max(initial=0.0)) + float(np.abs(self.wired).max(initial=0.0))
        if found.min(initial=0.0) < -1e-10 * size:
            raise InvalidInput(
                f"a posterior variance is {found.min():.3g} < 0: widths are too small for the order 1/n (expansion = "
                f"{self.expansion:.3g}); use wider layers, fewer layers, fewer samples or more noise"
            )
        return np.asarray(np.maximum(found, 0.0))

    def deviation(self, *, with_noise: bool = False) -> Float[Floats, "q i"]:
        """Standard deviation of f, or of a new observation f + noise."""
        return np.asarray(np.sqrt(self.variance + (self.noise if with_noise else 0.0)))


def finite_posterior(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike,
    widths: int | Sequence[int],
    *,
    noise: float = 0.0,
    points: int | None = None,
    seed: int = 0,
) -> FinitePosterior:
    """Posterior of a network's outputs at `x_test` after targets y = f(x) + noise, to order 1/n; and the evidence.

    The prior is that of random networks: outputs times gamma, as everywhere in `widefield.effective`. Formulas are in
    `effective.bayes_terms`: with M = K + noise, phi = M^-1 y and S = sum_i phi_i phi_i^T - n_L M^-1,

        log p(y) = log N(y; 0, M) + 1/2 S.G + 1/8 S.V.S + ..        G = G^{1} / n, V the covariance of the metric

    Samples may be repeated, parallel, or the same for training and test, as long as M is regular.

    >>> network = MLP(1, "sin", weight_variances=1.5, bias_variances=0.1)
    >>> found = finite_posterior(network, np.eye(2), [1.0, -0.5], [[0.6, 0.8]], 50, noise=0.1)
    >>> print(found.mean.round(4), found.deviation().round(4), round(found.log_evidence, 4))
    [[0.1376]] [[0.3639]] -2.5494

    Args:
        network: activation, depth and variances.
        x: inputs that were observed, (samples, dimension).
        y: targets, (samples,) or (samples, outputs).
        x_test: inputs whose outputs are wanted.
        widths: n_1 .. n_L, or one number for all.
        noise: variance of the noise on every target, independent from sample to sample (PDLT eq. (6.10)).
        points: see `flow`, as for
        seed: of sampled averages with more than two samples.
    """
    inputs, others = check.inputs(x, x_test)
    samples = np.concatenate([inputs, inputs if others is None else others])  # None: they are the same
    found = flow(network, samples, widths, points=points, seed=seed, progress=False)
    return inferred(found, y, noise=noise, stacklevel=3)


def inferred(found: Flow, y: ArrayLike, *, noise: float = 0.0, stacklevel: int = 2) -> FinitePosterior:
    """The posterior at those samples of a flow that come after the `len(y)` observed ones."""
    terms = observed(found, y, noise=noise)
    count, K = len(terms.y), terms.kernel
    new = np.ix_(range(count, len(K)), range(count, len(K)))
    shared, outputs = terms.shared_covariance()[new], range(terms.outputs)
    wired = np.array([[terms.cross_covariance(i, k)[new] for k in outputs] for i in outputs])
    expansion = expansion_parameter(terms)
    warn_if_narrow(expansion, found.widths, count, terms.outputs, stacklevel=stacklevel + 1)
    return FinitePosterior(
        posterior(Blocks(K[:count, :count], K[count:, :count], K[new]), terms.y, ridge=noise),
        evidence(terms.factor, terms.y),
        terms.mean()[count:],
        terms.log_evidence(),
        shared,
        wired,
        expansion,
        noise,
    )


def observed(found: Flow, y: ArrayLike, *, noise: float = 0.0, layer: int | None = None) -> Terms:
    """The order 1/n after targets at the first samples of a flow; those of the outputs, unless a `layer` is given."""
    targets, layer = column("y", y), found.depth if layer is None else layer
    K = found.kernel(layer)
    if not 1 <= len(targets) <= len(K):
        raise InvalidInput(f"y has {len(targets)} rows; the flow has {len(K)} samples, and y must be of the first ones")
    count = len(targets)
    factor = factorised(K[:count, :count], noise)
    covariance = found.covariances[layer - 1]
    return Terms(K, found.metric(layer) - K, covariance, found.pairs, factor, targets)


def warn_if_narrow(expansion: float, widths: Sequence[int], samples: int, outputs: int, *, stacklevel: int) -> None:
    """Warn where the order 1/n^2 may be as large as the order 1/n."""
    if expansion > RELIABLE:
        warnings.warn(
            f"the order 1/n of the log evidence scatters by {expansion:.2g} over targets from the prior, more than "
            f"{RELIABLE}: widths {tuple(widths)} are small for {samples} samples and {outputs} outputs",
            NotAccurate,
            stacklevel=stacklevel,
        )


def expansion_parameter(terms: Terms) -> float:
    """sqrt(tr k^2 / 24) with k the connected four-point function of the targets in units of M: see `layer_entropy`."""
    count = len(terms.y)
    vertex, M = terms.with_observed[:count, :, :count], terms.factor @ terms.factor.T
    lost = (layer_entropy(M, vertex, 1.0, terms.outputs, order=order) for order in (0, 2))
    return math.sqrt(max(0.0, 2 * (next(lost) - next(lost))))
