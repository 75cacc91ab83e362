"""Independent implementations that the package is compared with. They share nothing with it but initial weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

PHI = {
    "tanh": np.tanh,
    "relu": lambda h: np.maximum(h, 0.0),
    "linear": lambda h: h,
}
SLOPE = {
    "tanh": lambda h: 1 / np.cosh(h) ** 2,
    "relu": lambda h: (h > 0) * 1.0,
    "linear": lambda h: np.ones_like(h),
}


def network(params, x, phi, gamma):
    """f = [w phi(h^L)/sqrt(N) + b]/gamma, written layer by layer from lists of weights and biases."""
    weights, biases = params
    signal = x
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        signal = phi(signal @ weight.T / jnp.sqrt(signal.shape[-1] * 1.0) + bias[None, :])
    return (signal @ weights[-1].T / jnp.sqrt(signal.shape[-1] * 1.0) + biases[-1][None, :]) / gamma


def train_by_autodiff(
    params,
    x,
    y,
    *,
    phi,
    gamma,
    loss,
    rate,
    steps,
    momentum=0.0,
    decay=0.0,
    train_biases=True,
    batches=None,
    centred=True,
):
    """Plain gradient descent with jax.grad at learning rate rate gamma^2; returns outputs at every step."""
    start = network(params, x, phi, gamma) if centred else jnp.zeros_like(y)

    def objective(params, rows):
        return loss(network(params, x[rows], phi, gamma) - start[rows], y[rows])

    velocity = jax.tree.map(jnp.zeros_like, params)
    history = [network(params, x, phi, gamma) - start]
    gradient = jax.jit(jax.grad(objective))
    for step in range(steps):
        rows = jnp.arange(len(x)) if batches is None else jnp.asarray(batches[step])
        drive = jax.tree.map(lambda g, p: -(gamma**2) * g - decay * p, gradient(params, rows), params)
        velocity = jax.tree.map(lambda v, d: momentum * v + (1 - momentum) * d, velocity, drive)
        moved = jax.tree.map(lambda p, v: p + rate * v, params, velocity)
        params = moved if train_biases else (moved[0], params[1])
        history.append(network(params, x, phi, gamma) - start)
    return jnp.stack(history), params


def train_by_rule(rule, initial, x, y, *, phi, gamma0, rate, steps, rho=0.0, decay=0.0, printed=False):
    """Dense NumPy implementation of the learning rules of BP23 eq. (2), (3) for one output, squared loss.

    Weights decay and feedback is frozen, unless `printed`: then feedback decays too, as BP23 App. C.3 has it.

    `initial` holds W0 (N x D), Ws (list of N x N), w (N) and the rule's frozen randomness; x is already divided by
    sqrt(D). Returns outputs and fields at every step.
    """
    N = len(initial["w"])
    f, fp = PHI[phi], SLOPE[phi]
    W0, Ws, w = initial["W0"].copy(), [W.copy() for W in initial["Ws"]], initial["w"].copy()
    depth = len(Ws) + 1
    history = []
    keep = 1 - rate * decay
    for step in range(steps + 1):
        h, act, slope = [], [], []
        for layer in range(depth):
            pre = x @ W0.T if layer == 0 else act[-1] @ Ws[layer - 1].T / np.sqrt(N)
            if rule == "gln":
                gate = fp(x @ initial["gates"][layer].T)
                post, s = gate * pre, gate
            else:
                post, s = f(pre), fp(pre)
            h.append(pre)
            act.append(post)
            slope.append(s)
        out = act[-1] @ w / (gamma0 * N)
        if not history:
            start = out
        delta = y - (out - start)
        g = [None] * depth
        g[-1] = slope[-1] * w
        for layer in range(depth - 2, -1, -1):
            g[layer] = slope[layer] * (g[layer + 1] @ Ws[layer] / np.sqrt(N))
        if rule in ("gd", "gln"):
            gt = g
        elif rule == "fa":
            mix = [rho * W + np.sqrt(1 - rho**2) * B for W, B in zip(initial["Ws"], initial["Bs"], strict=True)]
            gt = [None] * depth
            gt[-1] = slope[-1] * (rho * initial["w"] + np.sqrt(1 - rho**2) * initial["b"])
            for layer in range(depth - 2, -1, -1):
                gt[layer] = slope[layer] * (gt[layer + 1] @ mix[layer] / np.sqrt(N))
            if printed:
                gt = [keep ** (step * (depth - layer)) * field for layer, field in enumerate(gt)]
        elif rule == "dfa":
            gt = [slope[layer] * initial["direct"][layer] for layer in range(depth)]
        elif rule == "straight-through":  # backpropagation without the slopes
            gt = [None] * depth
            gt[-1] = np.broadcast_to(w, act[-1].shape)
            for layer in range(depth - 2, -1, -1):
                gt[layer] = gt[layer + 1] @ Ws[layer] / np.sqrt(N)
        elif rule == "hebb":
            gt = [delta[:, None] * act[layer] for layer in range(depth)]
        history.append({"f": out - start, "delta": delta, "h": h, "phi": act, "g": g, "gt": gt, "W": (W0, Ws, w)})
        new_w = keep * w + rate * gamma0 * delta @ act[-1]
        new_Ws = [
            keep * W + rate * gamma0 / np.sqrt(N) * (delta[:, None] * gt[layer + 1]).T @ act[layer]
            for layer, W in enumerate(Ws)
        ]
        W0 = keep * W0 + rate * gamma0 * (delta[:, None] * gt[0]).T @ x
        Ws, w = new_Ws, new_w
    return history
