"""Posteriors of real networks with one hidden layer, by importance sampling; and of linear ones, by integrals.

Networks are drawn with their weights and weighed by the likelihood of the targets, averaged over the last weights:
w = prod_i N(y_i; 0, G + noise), G = C_b + C_W mean_j s_j s_j^T. What is averaged is regressed on G - E[G] and on its
products, whose means over networks are integrals over one neuron; this takes away most of the scatter and no truth.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np


def neuron_moments(function, K, nodes=24):
    """<s_a s_b> and <s_a s_b s_c s_d> of one neuron with preactivations N(0, K), by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-12 * values.max()
    root = vectors[:, kept] * np.sqrt(values[kept])
    grid = np.stack(np.meshgrid(*[points] * root.shape[1], indexing="ij"), axis=-1).reshape(-1, root.shape[1])
    weight = np.stack(np.meshgrid(*[weights] * root.shape[1], indexing="ij"), axis=-1).reshape(grid.shape)
    weight = weight.prod(axis=1) / weight.prod(axis=1).sum()
    s = function(grid @ root.T)
    products = s[:, :, None] * s[:, None, :]
    flat = products.reshape(len(s), -1)
    size = len(K)
    return (weight @ flat).reshape(size, size), (flat.T @ (weight[:, None] * flat)).reshape((size,) * 4)


def metrics(function, x, n, C_b, C_W, draws, seed):
    """G of all samples in real networks of width n."""
    random = np.random.default_rng(seed)
    found = np.empty((draws, len(x), len(x)))
    for start in range(0, draws, 2000):
        count = min(2000, draws - start)
        W = random.normal(scale=np.sqrt(C_W / x.shape[1]), size=(count, n, x.shape[1]))
        b = random.normal(scale=np.sqrt(C_b), size=(count, n, 1)) if C_b else 0.0
        s = function(W @ x.T + b)
        found[start : start + count] = C_b + C_W / n * (s.swapaxes(1, 2) @ s)
    return found


def given_metric(G, y, noise):
    """log of the likelihood, mean (q, i) and covariance (q, q) at the samples without targets, for each G."""
    count = len(y)
    M = G[:, :count, :count] + noise * np.eye(count)
    half = np.linalg.solve(M, np.broadcast_to(y, (len(G), *y.shape)))
    gain = np.linalg.solve(M, G[:, :count, count:]).swapaxes(1, 2)
    mean = gain @ y
    covariance = G[:, count:, count:] - gain @ G[:, :count, count:]
    determinant = np.linalg.slogdet(2 * np.pi * M)[1]
    return -0.5 * (y.shape[1] * determinant + np.sum(y * half, axis=(1, 2))), mean, covariance


def sampled(function, x, y, n, C_b, C_W, noise, draws, seed):
    """log evidence, means (q, i), covariances (i, k, q, q) and feature kernel of the posterior, and standard errors."""
    K1 = C_b + C_W / x.shape[1] * x @ x.T
    two, four = neuron_moments(function, K1)
    G = metrics(function, x, n, C_b, C_W, draws, seed)
    deltas, products = _controls(G, n, C_b, C_W, two[None], four[None])
    return _estimated(G, y, noise, [*deltas.T, *products.T])


def sampled_deep_sin(x, y, n, C_b, C_W, noise, draws, seed):
    """The same of two hidden layers of sin, whose moments are known at any covariance: exp(-K/2) for every sign.

    Given the metric G2 of the second layer its neurons are independent N(0, G2), so that only the first has weights.
    """
    two, four = neuron_moments(np.sin, C_b + C_W / x.shape[1] * x @ x.T)
    below = metrics(np.sin, x, n, C_b, C_W, draws, seed)
    random = np.random.default_rng((seed, 1))
    G = np.empty_like(below)
    for start in range(0, draws, 2000):
        part = below[start : start + 2000]
        s = np.sin(random.normal(size=(len(part), n, len(x))) @ np.swapaxes(np.linalg.cholesky(part), 1, 2))
        G[start : start + 2000] = C_b + C_W / n * np.swapaxes(s, 1, 2) @ s
    deltas, products = _controls(below, n, C_b, C_W, two[None], four[None])
    upper, squares = _controls(G, n, C_b, C_W, *_sin_moments(below))
    mixed = [one * other for one in deltas.T for other in upper.T]
    return _estimated(G, y, noise, [*deltas.T, *products.T, *upper.T, *squares.T, *mixed])


def _sin_moments(K):
    """<s_a s_b> and <s_a s_b s_c s_d> at many covariances; the latter for a <= b, c <= d only."""
    size = K.shape[-1]
    variances = np.einsum("saa->sa", K)
    two = np.exp(-(variances[:, :, None] + variances[:, None]) / 2) * np.sinh(K)
    four = np.zeros((len(K), *(size,) * 4))
    signs = np.array(list(product((1, -1), repeat=3)))  # all four may be turned around together
    pairs = list(combinations_with_replacement(range(size), 2))
    for (a, b), (c, d) in combinations_with_replacement(pairs, 2):
        total = 0.0
        for e, f, g in signs:
            direction = np.zeros(size)
            for label, sign in ((a, 1), (b, e), (c, f), (d, g)):
                direction[label] += sign
            total = total + e * f * g * np.exp(-0.5 * np.einsum("a,sab,b->s", direction, K, direction)) / 8
        four[:, a, b, c, d] = four[:, c, d, a, b] = total
    return two, four


def _controls(G, n, C_b, C_W, two, four):
    """Entries of G less their means, and products of these less theirs, from moments of one neuron for every draw."""
    pairs = list(combinations_with_replacement(range(G.shape[-1]), 2))
    deltas = np.stack([G[:, a, b] - C_b - C_W * two[:, a, b] for a, b in pairs], axis=1)
    found = []
    for p, q in combinations_with_replacement(range(len(pairs)), 2):
        (a, b), (c, d) = pairs[p], pairs[q]
        expected = C_W**2 / n * (four[:, a, b, c, d] - two[:, a, b] * two[:, c, d])
        found.append(deltas[:, p] * deltas[:, q] - expected)
    return deltas, np.stack(found, axis=1)


def _estimated(G, y, noise, controls):
    """From metrics of the outputs and numbers whose means over networks are zero."""
    draws, x = len(G), G[0]
    logs, mean, covariance = given_metric(G, y, noise)
    top = logs.max()
    w = np.exp(logs - top)
    outputs = y.shape[1]
    second = mean[:, :, None, :, None] * mean[:, None, :, None, :]  # q q' i k
    for i in range(outputs):
        second[:, :, :, i, i] += covariance
    parts = [np.ones((draws, 1)), mean.reshape(draws, -1), second.reshape(draws, -1), G.reshape(draws, -1)]
    weighed = w[:, None] * np.concatenate(parts, axis=1)
    design = np.stack([np.ones(draws), *controls], axis=1)
    design[:, 1:] /= np.maximum(design[:, 1:].std(axis=0), 1e-300)
    coefficients = np.linalg.lstsq(design, weighed, rcond=1e-10)[0]
    rest = weighed - design @ coefficients
    total = coefficients[0]
    ratios = total / total[0]
    errors = np.std((rest - ratios * rest[:, :1]) / total[0], axis=0) / np.sqrt(draws)
    sizes = np.cumsum([1, mean[0].size, second[0].size])
    m, mm, g = np.split(ratios, sizes)[1:]
    dm, _, dg = np.split(errors, sizes)[1:]
    q = mean.shape[1]
    m, shape = m.reshape(q, outputs), (q, q, outputs, outputs)
    # A covariance has the error of w (f - m)(f' - m'), not that of w f f'.
    centred = rest[:, sizes[1] : sizes[2]].reshape(draws, *shape)
    around = rest[:, 1 : sizes[1]].reshape(draws, q, outputs)
    centred = centred - around[:, :, None, :, None] * m[None, None, :, None, :]
    centred = centred - m[None, :, None, :, None] * around[:, None, :, None, :]
    cov = mm.reshape(shape) - m[:, None, :, None] * m[None, :, None, :]
    constant = cov - m[:, None, :, None] * m[None, :, None, :]
    scatter = np.std(centred / total[0] - constant * (rest[:, 0] / total[0])[:, None, None, None, None], axis=0)
    return {
        "log_evidence": (top + np.log(total[0]), np.std(rest[:, 0]) / total[0] / np.sqrt(draws)),
        "mean": (m, dm.reshape(m.shape)),
        "covariance": (cov.transpose(2, 3, 0, 1), scatter.transpose(2, 3, 0, 1) / np.sqrt(draws)),
        "metric": (g.reshape(len(x), len(x)), dg.reshape(len(x), len(x))),
    }


def linear_integrals(n, layers, y, noise, nodes=200):
    """log evidence, mean and covariances of linear networks without biases at one input, C_W = K = 1, exactly.

    G is a product of `layers` - 1 independent chi^2_n / n, each integrated with Gauss-Laguerre points of its density.
    """
    from scipy.special import roots_genlaguerre

    points, weights = roots_genlaguerre(nodes, n / 2 - 1)
    G, p = np.ones(1), np.ones(1)
    for _ in range(layers - 1):
        G, p = np.outer(G, 2 * points / n).ravel(), np.outer(p, weights / weights.sum()).ravel()
    G, p = G[p > 1e-40], p[p > 1e-40]
    M = G + noise
    w = p * np.exp(-0.5 * len(y) * np.log(2 * np.pi * M) - 0.5 * np.sum(np.square(y)) / M)
    total = w.sum()
    gain = w @ (G / M) / total
    second = w @ (G / M) ** 2 / total - gain**2
    shared = w @ (G - G**2 / M) / total
    return {
        "log_evidence": np.log(total),
        "mean": gain * np.array(y),
        "covariance": second * np.outer(y, y) + shared * np.eye(len(y)),
        "metric": w @ G / total,
    }
