"""Networks z' = W s(z) + b with s(z) = sin(z + 0.3), trained side by side, and what a fixed kernel would make of each.

W ~ N(0, C_W / fan-in), b ~ N(0, C_b), one output, loss 1/2 sum (z - y)^2, learning rates eta lambda_b for biases and
eta lambda_W / fan-in for weights.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

PHASE = 0.3


def draw(rng, count, sizes, C_b, C_W):
    """Weights and biases of every layer."""
    return [
        (
            rng.standard_normal((count, above, below)) * np.sqrt(C_W / below),
            rng.standard_normal((count, above, 1)) * np.sqrt(C_b),
        )
        for below, above in pairwise(sizes)
    ]


def forward(layers, x):
    """Features below every layer, slopes, and outputs; samples are the last axis."""
    features, slopes = [np.broadcast_to(x.T, (len(layers[0][0]), *x.T.shape))], []
    z = None
    for W, b in layers:
        z = W @ features[-1] + b
        features.append(np.sin(z + PHASE))
        slopes.append(np.cos(z + PHASE))
    return features[:-1], slopes[:-1], z[:, 0, :]


def chains(layers, slopes, samples):
    """dz / dz_k of every layer."""
    found = [np.ones((len(layers[0][0]), 1, samples))]
    for (W, _), slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        found.append(np.swapaxes(W, 1, 2) @ found[-1] * slope)
    return found[::-1]


def tangent_kernel(features, backward, rates_b, rates_W):
    """Of every network, over samples."""
    total = 0.0
    for s, c, b, w in zip(features, backward, rates_b, rates_W, strict=True):
        total = total + (b + w * np.swapaxes(s, 1, 2) @ s / s.shape[1]) * (np.swapaxes(c, 1, 2) @ c)
    return total


def trained(layers, x, y, rates_b, rates_W, eta, steps):
    """Outputs at all samples after so many steps on the first len(y)."""
    return forward(moved(layers, x, y, rates_b, rates_W, eta, steps), x)[2]


def moved(layers, x, y, rates_b, rates_W, eta, steps):
    """Weights and biases after these steps."""
    layers = [(W.copy(), b.copy()) for W, b in layers]
    known = x[: len(y)]
    for _ in range(steps):
        features, slopes, z = forward(layers, known)
        errors = (z - y)[:, None, :]
        for (W, b), s, c, rate_b, rate_W in zip(
            layers, features, chains(layers, slopes, len(y)), rates_b, rates_W, strict=True
        ):
            push = eta * c * errors
            b -= rate_b * push.sum(axis=2, keepdims=True)
            W -= rate_W / s.shape[1] * push @ np.swapaxes(s, 1, 2)
    return layers
