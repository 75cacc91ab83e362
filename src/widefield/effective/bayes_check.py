"""Posterior and evidence against networks of finite width that are weighed by the likelihood of the targets.

Given its metric, a network's outputs are Gaussian, so that no weights need be drawn: with w = N(y; 0, Ghat_AA + noise)
of every draw of `sampler.metrics` (PDLT section 6.4)

    p(y) = E[w]      E[f | y] = E[w m] / E[w]      Cov = E[w (C + m m)] / E[w] - ..
    E[Ghat^l | y] = E[w Ghat^l] / E[w]

with mean m and covariance C of a Gaussian of covariance Ghat, exactly and at any width.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from ..base.errors import NotAccurate
from .agreement import Correlator, Measured
from .bayes_hidden import learned_representation
from .bayes_posterior import inferred, observed
from .vertex_flow import Flow, flow


class Targets(NamedTuple):
    """Of the first samples."""

    y: Float[Floats, "a i"]
    noise: float


def measured_posterior(metrics: Float[Floats, "seeds l p p"], targets: Targets) -> dict[str, Measured]:
    """Values and standard errors; metrics of the layers 1 .. L+1."""
    y, noise = targets
    count, outputs = y.shape
    logs, mean, covariance = _given(metrics[:, -1], y, noise)
    top = float(logs.max())
    w = np.exp(logs - top)
    total = w.mean()
    second = covariance[:, None, None] * np.eye(outputs)[:, :, None, None]
    second = second + np.einsum("sqi,srk->sikqr", mean, mean)
    m, m_error = _weighed(w, mean)
    centred = second - np.einsum("sqi,rk->sikqr", mean, m) - np.einsum("qi,srk->sikqr", m, mean)
    found = {
        "log_evidence": (np.array([top + np.log(total)]), np.array([w.std() / total / np.sqrt(len(w))])),
        "learned_metric": _weighed(w, metrics[:, 1:]),
    }
    if metrics.shape[-1] > count:
        value, error = _weighed(w, centred)
        found |= {
            "posterior_mean": (m, m_error),
            "posterior_covariance": (value + np.einsum("qi,rk->ikqr", m, m), error),
        }
    return {name: (np.ravel(value), np.ravel(error)) for name, (value, error) in found.items()}


def predicted_posterior(
    theory: Flow, targets: Targets, x: Float[Floats, "p d"]
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """The prediction, its order 1/n, and what sampled averages leave uncertain in it; flattened."""
    whole, order = _predicted(theory, targets)
    uncertain = {name: np.zeros_like(value) for name, value in whole.items()}
    if theory.covariance_error.any():  # the same from other points
        other = flow(theory.network, x, theory.widths, seed=1000, progress=False)
        again = _predicted(other, targets)[0]
        uncertain = {name: np.abs(again[name] - value) for name, value in whole.items()}
    return {name: (value, order[name], uncertain[name]) for name, value in whole.items()}


def posterior_correlators(
    theory: Flow, targets: Targets, x: Float[Floats, "p d"], narrow: dict[str, Measured], wide: dict[str, Measured]
) -> list[Correlator]:
    """Of the evidence, the hidden layers, and the samples without targets; and of n_L times what finite width adds."""
    predicted, n = predicted_posterior(theory, targets, x), theory.widths[-1]
    found = [Correlator.of_mean(name, *predicted[name], narrow[name], wide[name]) for name in narrow]
    for name in narrow:
        if name != "learned_metric":
            value, order, uncertain = predicted[name]
            one, two = (_added(each[name], value - order, k * n) for k, each in ((1, narrow), (2, wide)))
            found.append(Correlator.of_limit(f"nlo_{name}", n * order, n * uncertain, one, two))
    return found


def _added(measured: Measured, infinite: Floats, n: int) -> Measured:
    """n times what differs from infinite width."""
    return n * (measured[0] - infinite), n * measured[1]


def _predicted(theory: Flow, targets: Targets) -> tuple[dict[str, Floats], dict[str, Floats]]:
    y, noise = targets
    count, outputs = y.shape
    changes = learned_representation(theory, y, noise=noise).metrics
    shifts = theory.pairs.matrix(theory.shifts) + changes
    terms = observed(theory, y, noise=noise)
    whole = {"learned_metric": (theory.kernels + shifts)[1:]}
    order = {"learned_metric": shifts[1:], "log_evidence": np.array([terms.log_evidence()])}
    if len(terms.kernel) > count:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotAccurate)  # how large higher orders are is measured here
            found = inferred(theory, y, noise=noise)
        whole |= {"log_evidence": np.array([found.log_evidence]), "posterior_mean": found.mean}
        each = range(outputs)
        whole["posterior_covariance"] = np.array([[found.covariance(i, k) for k in each] for i in each])
        own = np.eye(outputs)[:, :, None, None] * found.shared_shift
        order |= {"posterior_mean": found.mean_shift, "posterior_covariance": own + found.wired}
    else:
        whole["log_evidence"] = order["log_evidence"] + _infinite(terms.kernel, targets)
    return _flat(whole), _flat(order)


def _flat(parts: dict[str, Floats]) -> dict[str, Floats]:
    return {name: np.ravel(value) for name, value in parts.items()}


def _infinite(kernel: Float[Floats, "a a"], targets: Targets) -> float:
    return float(_given(kernel[None], *targets)[0][0])


def _given(G: Float[Floats, "s p p"], y: Float[Floats, "a i"], noise: float) -> tuple[Floats, Floats, Floats]:
    """log N(y; 0, G_AA + noise), and mean (q, i) and covariance (q, q) at the other samples, for every metric."""
    count, outputs = y.shape
    M = G[:, :count, :count] + noise * np.eye(count)
    gain = np.swapaxes(np.linalg.solve(M, G[:, :count, count:]), 1, 2)
    fit = np.sum(y * np.linalg.solve(M, np.broadcast_to(y, (len(G), *y.shape))), axis=(1, 2))
    logs = -0.5 * (outputs * np.linalg.slogdet(2 * np.pi * M)[1] + fit)
    return logs, gain @ y, G[:, count:, count:] - gain @ G[:, :count, count:]


def _weighed(w: Float[Floats, " s"], values: Float[Floats, "s ..."]) -> Measured:
    """E[w v] / E[w] and its standard error, that of w (v - mean)."""
    weights = w / w.mean()
    mean = np.tensordot(weights, values, axes=1) / len(w)
    apart = values - mean
    square = np.tensordot(weights**2, apart**2, axes=1) / len(w)
    return mean, np.sqrt(square / len(w))
