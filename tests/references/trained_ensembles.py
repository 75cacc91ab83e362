"""Many small networks z' = W s(z) + b, W ~ N(0, C_W / fan-in), trained side by side in plain numpy.

Learning rates are eta lambda_b for biases and eta lambda_W / fan-in for weights; one output, loss 1/2 sum (z - y)^2.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

ACTIVATIONS = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "mixed": (lambda z: np.tanh(z) + np.tanh(z) ** 2 / 2, lambda z: (1 + np.tanh(z)) / np.cosh(z) ** 2),
}


def draw(rng, count, sizes, C_b, C_W):
    """Weights (count, above, below) and biases (count, above) of every layer; `sizes` from the inputs to the output."""
    weights, biases = [], []
    for below, above in pairwise(sizes):
        weights.append(rng.standard_normal((count, above, below)) * np.sqrt(C_W / below))
        biases.append(rng.standard_normal((count, above)) * np.sqrt(C_b))
    return weights, biases


def forward(weights, biases, x, activation):
    """Features below every layer, slopes of the hidden ones, and the outputs (count, samples)."""
    s, slope = ACTIVATIONS[activation]
    features, slopes = [np.broadcast_to(x, (len(weights[0]), *x.shape))], []
    for W, b in zip(weights, biases, strict=True):
        z = features[-1] @ np.swapaxes(W, 1, 2) + b[:, None, :]
        features.append(s(z))
        slopes.append(slope(z))
    return features[:-1], slopes[:-1], z[:, :, 0]


def chains(weights, slopes, samples):
    """dz / dz_k of every layer: (count, samples, neurons)."""
    found = [np.ones((len(weights[0]), samples, 1))]
    for W, slope in zip(weights[:0:-1], slopes[::-1], strict=True):
        found.append(found[-1] @ W * slope)
    return found[::-1]


def tangent_kernel(features, backward, rate_b, rate_W):
    """The network's own NTK, (count, samples, samples)."""
    total = 0.0
    for s, c in zip(features, backward, strict=True):
        total = total + (rate_b + rate_W * s @ np.swapaxes(s, 1, 2) / s.shape[2]) * (c @ np.swapaxes(c, 1, 2))
    return total


def train(rng, count, width, x, y, *, layers, C_b, C_W, rate_b, rate_W, activation="tanh", share=0.25, steps=4000):
    """First and last outputs (count, samples) of networks trained on the first len(y) inputs, and their worst error.

    The learning rate of each is `share` of the limit 2 / (largest eigenvalue of its own NTK).
    """
    weights, biases = draw(rng, count, (x.shape[1], *(width,) * (layers - 1), 1), C_b, C_W)
    train_x, first, last = x[: len(y)], forward(weights, biases, x, activation)[2], 0.0
    features, slopes, _ = forward(weights, biases, train_x, activation)
    own = tangent_kernel(features, chains(weights, slopes, len(y)), rate_b, rate_W)
    eta = share * 2 / np.linalg.eigvalsh(own)[:, -1]
    for _ in range(steps):
        features, slopes, z = forward(weights, biases, train_x, activation)
        errors = z - y
        last = np.abs(errors).max()
        if last < 1e-4:
            break
        for number, chain in enumerate(chains(weights, slopes, len(y))):
            signal = eta[:, None, None] * errors[:, :, None] * chain
            below = features[number]
            weights[number] -= rate_W / below.shape[2] * np.swapaxes(signal, 1, 2) @ below
            biases[number] -= rate_b * signal.sum(axis=1)
    return first, forward(weights, biases, x, activation)[2], last


def hidden_change(rng, count, width, x, y, *, layers, C_b, C_W, rate_b, rate_W, activation):
    """Change (count, samples, neurons) of the last hidden layer in one infinitesimal step, over the learning rate."""
    weights, biases = draw(rng, count, (x.shape[1], *(width,) * (layers - 1), 1), C_b, C_W)
    features, slopes, z = forward(weights, biases, x, activation)
    change = np.zeros_like(features[0])
    for number, chain in enumerate(chains(weights, slopes, len(x))[:-1]):
        signal, s = (z - y)[:, :, None] * chain, features[number]
        moved_weights = -rate_W / s.shape[2] * np.swapaxes(signal, 1, 2) @ s
        moved_biases = -rate_b * signal.sum(axis=1)
        passed = change * slopes[number - 1] if number else change
        change = passed @ np.swapaxes(weights[number], 1, 2) + s @ np.swapaxes(moved_weights, 1, 2)
        change = change + moved_biases[:, None, :]
    return change
