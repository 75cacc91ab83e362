"""Networks of several architectures in plain arrays, and their training by jax.grad. Nothing of the package is used.

`params` are arrays by name: vectors (*shape, n), matrices (target, source). Functions return F (samples, outputs),
in front of the output scale; inputs are divided by sqrt(D) here.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

PHI = {"tanh": jnp.tanh, "linear": lambda h: h}


def dense(matrix, v):
    """W v / sqrt(n) for vectors along the last axis."""
    return jnp.einsum("ts,...s->...t", matrix, v) / math.sqrt(matrix.shape[1])


def averaged(v, readout):
    """<v, w_c>."""
    return jnp.einsum("pn,cn->pc", v, readout) / v.shape[-1]


def scaled(x):
    return x / math.sqrt(x.shape[-1])


def mlp(params, x, *, layers, activation="tanh"):
    phi, h = PHI[activation], jnp.einsum("pd,dn->pn", scaled(x), params["input"])
    for layer in range(1, layers + 1):
        bias = params.get(f"bias {layer}")
        a = phi(h if bias is None else h + bias[None, :])
        if layer < layers:
            h = dense(params[f"hidden {layer}"], a)
    top = params.get(f"bias {layers + 1}")
    return averaged(a, params["readout"]) + (0.0 if top is None else jnp.mean(top, axis=1)[None, :])


def residual(params, x, *, depth=3, beta=1.0, activation="tanh"):
    phi, h = PHI[activation], jnp.einsum("pd,dn->pn", scaled(x), params["input"])
    for layer in range(1, depth + 1):
        h = h + beta / math.sqrt(depth) * dense(params[f"branch {layer}"], phi(h))
    return averaged(phi(h), params["readout"])


def recurrent(params, x, *, activation="tanh"):
    phi, driven = PHI[activation], jnp.einsum("ptd,dn->tpn", scaled(x), params["input"])
    h = driven[0]
    for drive in driven[1:]:
        h = dense(params["recurrent"], phi(h)) + drive
    return averaged(phi(h), params["readout"])


def cnn(params, x, *, activation="tanh"):
    phi, sites = PHI[activation], x.shape[1]

    def at(v, tap):  # circular
        return jnp.stack([v[:, (site + 1 - tap) % sites] for site in range(sites)], axis=1)

    h = sum(jnp.einsum("psd,dn->psn", at(scaled(x), k), params[f"input {k}"]) for k in range(3)) / math.sqrt(3)
    h = sum(dense(params[f"tap {k}"], at(phi(h), k)) for k in range(3)) / math.sqrt(3)
    return averaged(phi(h).sum(axis=1) / sites, params["readout"])


def transformer(params, x, *, norm="rms", gains=True, activation="tanh", shared=False):
    def normed(h, name):
        if norm == "layer":
            h = h - h.mean(axis=-1, keepdims=True)
        h = h / jnp.sqrt((h**2).mean(axis=-1, keepdims=True) + 1e-3)
        return h * params[f"gain {name}"][None, None, :] if gains else h

    h = jnp.einsum("ptd,dn->ptn", scaled(x), params["input"]) + params["position"][None]
    a = normed(h, "1")
    query, key, value = (dense(params[name], a) for name in ("query", "query" if shared else "key", "value"))
    logits = jnp.einsum("pin,pjn->pij", query, key) / query.shape[-1]
    weights = jnp.exp(logits) / jnp.exp(logits).sum(axis=-1, keepdims=True)
    h = h + dense(params["out"], jnp.einsum("pij,pjn->pin", weights, value))
    h = h + dense(params["down"], PHI[activation](dense(params["up"], normed(h, "2"))))
    return averaged(normed(h, "3").mean(axis=1), params["readout"])


def gated(params, x):
    a = jnp.tanh(jnp.einsum("pd,dn->pn", scaled(x), params["input"]))
    gate = 1 / (1 + jnp.exp(-dense(params["gate"], a)))
    return averaged(gate * dense(params["value"], a), params["readout"])


def tied(params, x, *, skip=False, activation="tanh"):
    phi, h = PHI[activation], jnp.einsum("pd,dn->pn", scaled(x), params["input"])
    for _ in range(2):
        image = dense(params["tied"], phi(h))
        h = h + image if skip else image
    return averaged(phi(h), params["readout"])


def auto(params, x, *, activation="tanh"):
    phi, matrix = PHI[activation], params["tied"]
    code = phi(dense(matrix, phi(jnp.einsum("pd,dn->pn", scaled(x), params["input"]))))
    return averaged(phi(dense(matrix.T, code)), params["readout"])


def trained(network, params, x, y, *, richness, width, rate, steps, fixed=()):
    """Gradient descent on 1/2 sum (F/gamma_0 - F(0)/gamma_0 - y)^2 at the rate `rate` gamma_0^2 N; also the losses."""
    start = network(params, x) / richness

    def loss(params):
        return 0.5 * jnp.sum((network(params, x) / richness - start - y) ** 2)

    both, losses = jax.jit(jax.value_and_grad(loss)), []
    for _ in range(steps):
        value, slope = both(params)
        losses.append(float(value))
        eta = rate * richness**2 * width
        params = {name: p if name in fixed else p - eta * slope[name] for name, p in params.items()}
    return params, losses


def tangent_kernel(network, params, x, *, width, fixed=()):
    """N J J^T, (samples, outputs, samples, outputs)."""
    moving = {name: p for name, p in params.items() if name not in fixed}
    jacobian = jax.jit(jax.jacobian(lambda moving: network({**params, **moving}, x)))(moving)
    flat = [part.reshape(*part.shape[:2], -1) for part in jacobian.values()]
    whole = jnp.concatenate(flat, axis=-1)
    return width * jnp.einsum("pci,qdi->pcqd", whole, whole)
