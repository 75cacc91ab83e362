"""What targets do inside a network of finite width: neurons that wire together, hidden layers that learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base.arrays import Floats
from ..gaussian.jacobians import Slopes, slope_orders
from ..gaussian.pair_table import average_derivatives
from ..kernels.prediction import Blocks, Prediction, posterior
from .bayes_posterior import observed
from .couplings import inverse_quadratic_coupling
from .vertex_flow import Flow
from .wick import inverse


@dataclass(frozen=True, eq=False)
class LearnedRepresentation:
    """Posterior minus prior means of hidden layers, to order 1/n; zero at infinite width, PDLT eqs. (6.69)-(6.71)."""

    metrics: Float[Floats, "l p p"]
    """Of the stochastic metrics Ghat^1 .. Ghat^{L+1}, outputs included."""

    features: Float[Floats, "h p p"]
    """Of the feature kernels mean_j s_ja s_jb of the hidden layers 1 .. L."""


def learned_representation(found: Flow, y: ArrayLike, *, noise: float = 0.0) -> LearnedRepresentation:
    """How targets y = f + noise at the first samples of a flow change every hidden layer, at all its samples.

    With S of `effective.bayes_terms` and C_W of the layer above (PDLT eqs. (6.99), (6.104) for the last hidden layer)

        dPhi^l_ab = Cov(Ghat^{l+1}_ab, Ghat^{L+1}_cd) S^cd / (2 C_W)        Cov(Ghat^{m+1}, .) = C_W J Cov(Ghat^m, .)

    where J = d<s s>/dK. The footnote of PDLT section 6.4.3 claims that layers below the last hidden one change at order
    1/n^2 only; they change at order 1/n, as deep linear networks and samples show.
    """
    terms = observed(found, y, noise=noise)
    pairs, network = found.pairs, found.network
    whole = np.zeros_like(terms.kernel)
    whole[: len(terms.y), : len(terms.y)] = terms.surprise
    weights = pairs.of(whole) * np.where(pairs.equal, 1.0, 2.0)
    changes = np.zeros((found.depth, len(pairs)))
    for row in range(found.depth - 1, 0, -1):
        changes[row] = 0.5 * found.covariances[row] @ weights
        if row > 1:  # the first layer does not fluctuate
            table = average_derivatives(network.phi, found.kernels[row - 1], pairs, slope_orders(0))
            slopes = Slopes.of(network.phi, found.kernels[row - 1], pairs, table)
            weights = network.weight_scales[row] ** 2 * (slopes.matrix.T @ weights)
    metrics = pairs.matrix(changes)
    variances = np.square(network.weight_scales[1:])
    return LearnedRepresentation(metrics, metrics[1:] / variances[:, None, None])


def conditional_metric(found: Flow, values: ArrayLike, *, layer: int | None = None) -> Float[Floats, "p p"]:
    """E[z_k;a z_k;b] of a neuron, given what other neurons i of its layer do at the first samples: Hebb's rule.

        E[z_k z_k | z_i] = K + G^{1} / n + 1/2 V S / n        S = sum_i K^-1 z_i z_i^T K^-1 - m K^-1

    of m neurons. For one sample it is PDLT eq. (6.78): G + (z^2 - G) V / (2 n G^2). Columns of `values` are neurons;
    `layer` None is that of the outputs.
    """
    terms = observed(found, values, layer=layer)
    return np.asarray(terms.kernel + terms.shift + 0.5 * terms.pulled)


def naive_posterior(found: Flow, y: ArrayLike, *, noise: float = 0.0) -> Prediction:
    """Inference with the running coupling g of all outputs in the place of K, PDLT eqs. (6.81), (6.82).

    It is no posterior: the quartic coupling adds terms of the same order, which `finite_posterior` has.
    """
    terms = observed(found, y, noise=noise)
    vertex = found.metric_covariance(found.depth)
    g, count = inverse(inverse_quadratic_coupling(terms.kernel, terms.shift, vertex, terms.outputs)), len(terms.y)
    return posterior(Blocks(g[:count, :count], g[count:, :count], g[count:, count:]), terms.y, ridge=noise)
