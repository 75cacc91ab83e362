"""Deep networks z' = W s(z) + b with one input and one output, trained in plain numpy: which layer moves the output?

Biases start at zero; learning rates are eta lambda_b for biases and eta lambda_W / fan-in for weights.
"""

from itertools import pairwise

import numpy as np

ACTIVATIONS = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: (z > 0) * 1.0),
}


def forward(weights, biases, x, activation):
    """Features below every layer, and slopes of the hidden ones; the output comes last."""
    s, slope = ACTIVATIONS[activation]
    features, slopes = [x], []
    for W, b in zip(weights, biases, strict=True):
        z = W @ features[-1] + b
        features.append(s(z))
        slopes.append(slope(z))
    return features[:-1], slopes[:-1], z.item()


def moved(rng, width, depth, C_W, x, activation, weight_rates, bias_rates, *, target=1.0, share=0.2, steps=12):
    """By how much every layer's parameters moved the output in training, their parts of the NTK, and the last error.

    Of each step the first order in the learning rate, eta error (lambda_b |dz/db|^2 + lambda_W |dz/dW|^2 / fan-in);
    the step is `share` / NTK of the start, whose parts are told, and the output starts `target` away from its aim.
    """
    sizes = (len(x), *(width,) * (depth - 1), 1)
    weights = [rng.standard_normal((high, low)) * np.sqrt(C_W / low) for low, high in pairwise(sizes)]
    biases = [np.zeros(high) for high in sizes[1:]]
    total, wanted, start = np.zeros(depth), None, None
    for _ in range(steps):
        features, slopes, z = forward(weights, biases, x, activation)
        wanted = z + target if wanted is None else wanted
        back, chains = np.ones(1), []
        for layer in reversed(range(depth)):
            chains.append(back)
            back = (weights[layer].T @ back) * (slopes[layer - 1] if layer else 1.0)
        chains.reverse()
        parts = np.array(
            [
                np.sum(c**2) * (bias + weight * np.mean(s**2))
                for c, s, weight, bias in zip(chains, features, weight_rates, bias_rates, strict=True)
            ]
        )
        start = parts if start is None else start
        eta, error = share / start.sum(), wanted - z
        total += eta * error * parts
        for layer, (c, s) in enumerate(zip(chains, features, strict=True)):
            weights[layer] += eta * error * weight_rates[layer] / len(s) * np.outer(c, s)
            biases[layer] += eta * error * bias_rates[layer] * c
    return total, start, wanted - forward(weights, biases, x, activation)[2]
