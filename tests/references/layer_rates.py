"""A network trained with a learning rate for every parameter, by jax.grad of its loss; nothing of the package."""

import jax
import jax.numpy as jnp
import numpy as np


def forward(weights, x, phi, gamma):
    """Outputs of a network in the parameterisation of docs/conventions.md; weights are W0, b0, W1, b1, .."""
    layers, h = len(weights) // 2, x
    for layer in range(layers):
        h = h @ weights[f"W{layer}"].T / np.sqrt(h.shape[1]) + weights[f"b{layer}"][None, :]
        h = phi(h) if layer < layers - 1 else h
    return h / gamma


def trained(weights, x, y, *, phi, gamma, eta, steps, weight_rates, bias_rates, momentum=0.0, decay=0.0):
    """Centred outputs before every step and after the last, and the NTK of the start, sum_i rate_i df/di df/di."""
    rates = {f"W{k}": rate for k, rate in enumerate(weight_rates)} | {
        f"b{k}": rate for k, rate in enumerate(bias_rates)
    }
    start = forward(weights, x, phi, gamma)

    def loss(weights):
        return 0.5 * jnp.sum((y - (forward(weights, x, phi, gamma) - start)) ** 2)

    slopes = jax.jacobian(lambda weights: forward(weights, x, phi, gamma)[:, 0])(weights)
    flat = {name: np.asarray(value).reshape(len(x), -1) for name, value in slopes.items()}
    ntk = gamma**2 * sum(rates[name] * value @ value.T for name, value in flat.items())
    velocity, found = dict.fromkeys(weights, 0.0), [np.zeros(y.shape)]
    gradient = jax.jit(jax.grad(loss))
    for _ in range(steps):
        slope = gradient(weights)
        for name in weights:
            direction = -rates[name] * (gamma**2 * slope[name] + decay * weights[name])
            velocity[name] = momentum * velocity[name] + (1 - momentum) * direction
        weights = {name: weights[name] + eta * velocity[name] for name in weights}
        found.append(np.asarray(forward(weights, x, phi, gamma) - start))
    return np.array(found), np.asarray(ntk)
