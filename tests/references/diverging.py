"""Real networks at many learning rates: which of them lose more than they began with.

Shares nothing with the package, initial weights neither; written from docs/conventions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

PHI = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": partial(jax.nn.gelu, approximate=False), "linear": lambda h: h}
VALUE = {
    "squared": lambda f, y: jnp.sum((y - f) ** 2) / 2,
    "logistic": lambda f, y: jnp.sum(jnp.log1p(jnp.exp(-jnp.abs(f))) + jnp.maximum(-y * f, 0.0)),
}


@dataclass(frozen=True)
class Setting:
    """What is trained, at every learning rate."""

    hidden_layers: int
    phi: str
    richness: float
    loss: str = "squared"
    momentum: float = 0.0
    feedback: float | None = None
    """Correlation rho of feedback alignment; None is gradient descent."""


def losses(setting, x, y, rates, steps, *, width, seeds):
    """Loss before every step and after the last of networks 0 .. seeds - 1; (rate, seed, step)."""
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    one = jax.jit(jax.vmap(lambda key, rate: _trained(setting, x, y, key, rate, steps, width), in_axes=(0, None)))
    keys = jax.random.split(jax.random.key(1234), seeds)
    return np.stack([np.asarray(one(keys, jnp.float32(rate))) for rate in rates])


def failed(curves):
    """Whether the largest loss of the last tenth of the steps exceeds the first one, or is no number."""
    last = max(1, (curves.shape[-1] - 1) // 10)
    return ~(curves[..., -last:].max(axis=-1) <= curves[..., 0])


def _trained(setting, x, y, key, rate, steps, width):
    depth, scale = setting.hidden_layers, setting.richness * np.sqrt(width)
    sizes = [x.shape[1], *[width] * depth, 1]
    start = [jax.random.normal(jax.random.fold_in(key, k), (sizes[k + 1], sizes[k])) for k in range(depth + 1)]
    back = start
    if setting.feedback is not None:
        rho = setting.feedback
        fresh = [jax.random.normal(jax.random.fold_in(key, 100 + k), w.shape) for k, w in enumerate(start)]
        back = [rho * w + np.sqrt(1 - rho**2) * v for w, v in zip(start, fresh, strict=True)]
    outputs = partial(_outputs, PHI[setting.phi], scale)
    first = outputs(start, x)[0]

    def step(carry, _):
        weights, velocity = carry
        f, (inputs, h) = outputs(weights, x)
        loss, slope = jax.value_and_grad(lambda f: VALUE[setting.loss](f, y))(f - first)
        through = weights if setting.feedback is None else back
        gradient = _updates(PHI[setting.phi], scale, through, inputs, h, slope)
        m = setting.momentum
        velocity = [m * v - (1 - m) * scale**2 * g for v, g in zip(velocity, gradient, strict=True)]
        return ([w + rate * v for w, v in zip(weights, velocity, strict=True)], velocity), loss

    carry = (start, [jnp.zeros_like(w) for w in start])
    (weights, _), curve = jax.lax.scan(step, carry, None, length=steps)
    return jnp.append(curve, VALUE[setting.loss](outputs(weights, x)[0] - first, y))


def _outputs(phi, scale, weights, x):
    """f, and what went into and came out of every matrix."""
    inputs, h, signal = [], [], x
    for weight in weights[:-1]:
        inputs.append(signal / np.sqrt(signal.shape[1]))
        h.append(inputs[-1] @ weight.T)
        signal = phi(h[-1])
    inputs.append(signal / np.sqrt(signal.shape[1]))
    return inputs[-1] @ weights[-1].T / scale, (inputs, h)


def _updates(phi, scale, through, inputs, h, slope):
    """dloss/dW of every matrix, errors sent back through the matrices `through`."""
    derivative = jax.vmap(jax.vmap(jax.grad(phi)))
    signal, found = slope / scale, []
    for layer in range(len(through) - 1, -1, -1):
        found.append(signal.T @ inputs[layer])
        if layer:
            signal = derivative(h[layer - 1]) * (signal @ through[layer]) / np.sqrt(through[layer].shape[1])
    return found[::-1]
