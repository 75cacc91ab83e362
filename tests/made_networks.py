"""Networks of several architectures for tests, written as users would."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

import widefield as wf


def total(fields):
    """Their sum."""
    first, *others = fields
    for field in others:
        first = first + field
    return first


@dataclass(frozen=True)
class Residual(wf.Network, kind="test-residual"):
    depth: int = 3
    beta: float = 1.0
    activation: str = "tanh"

    def forward(self, net, x):
        phi = PHI[self.activation]
        stream = net.population("stream")
        h = x @ net.vectors("input", stream, *x.shape)
        for layer in range(1, self.depth + 1):
            branch = net.matrix(f"branch {layer}", stream, stream) @ net.map(phi, h)
            h = net.name(f"layer {layer}", h + branch * (self.beta / math.sqrt(self.depth)))
        return net.inner(net.map(phi, h), net.vectors("readout", stream, net.outputs))


@dataclass(frozen=True)
class Recurrent(wf.Network, kind="test-recurrent"):
    activation: str = "tanh"

    def forward(self, net, x):
        phi = PHI[self.activation]
        cells = net.population("cells")
        u, w = net.vectors("input", cells, x.shape[-1]), net.matrix("recurrent", cells, cells)
        h = x[0] @ u
        for t in range(1, x.shape[0]):
            h = w @ net.map(phi, h) + x[t] @ u
        return net.inner(net.name("last", net.map(phi, h)), net.vectors("readout", cells, net.outputs))


@dataclass(frozen=True)
class CNN(wf.Network, kind="test-cnn"):
    activation: str = "tanh"
    ratio: float = 1.0

    def forward(self, net, x):
        phi = PHI[self.activation]
        one, two = net.population("layer 1", self.ratio), net.population("layer 2")

        def roll(a, k):
            return net.map(lambda v: jnp.roll(v, k - 1, axis=1), a)

        vectors = [net.vectors(f"input {k}", one, x.shape[-1]) for k in range(3)]
        h = total(roll(x, k) @ vectors[k] for k in range(3)) / math.sqrt(3)
        a = net.name("layer 1", net.map(phi, h))
        h = total(net.matrix(f"tap {k}", one, two) @ roll(a, k) for k in range(3)) / math.sqrt(3)
        a = net.name("layer 2", net.map(phi, h))
        pooled = net.map(lambda v: jnp.mean(v, axis=1), a)
        return net.inner(pooled, net.vectors("readout", two, net.outputs))


@dataclass(frozen=True)
class Transformer(wf.Network, kind="test-transformer"):
    gains: bool = True
    norm: str = "rms"
    activation: str = "tanh"
    shared: bool = False

    def normed(self, net, h, name):
        if self.norm == "layer":
            h = h - net.mean(h)
        a = h / net.map(lambda m: jnp.sqrt(m + 1e-3), net.mean(h * h))
        return a * net.vectors(f"gain {name}", h.population, mean=1.0, scale=0.0) if self.gains else a

    def forward(self, net, x):
        stream, head, hidden = net.population("stream"), net.population("head", 0.5), net.population("hidden")
        h = x @ net.vectors("input", stream, x.shape[-1]) + net.vectors("position", stream, x.shape[0])
        a = self.normed(net, h, "1")
        names = ("query", "query" if self.shared else "key", "value")
        q, k, v = (net.matrix(m, stream, head) @ a for m in names)
        attention = net.map(lambda logits: jax.nn.softmax(logits, axis=-2), net.inner(q, k))
        net.name("attention", attention)
        mixed = net.map(lambda a, v: a[..., 0] @ v, attention, v)
        h = net.name("layer 1", h + net.matrix("out", head, stream) @ mixed)
        b = net.map(PHI[self.activation], net.matrix("up", stream, hidden) @ self.normed(net, h, "2"))
        h = net.name("layer 2", h + net.matrix("down", hidden, stream) @ b)
        pooled = net.map(lambda h: jnp.mean(h, axis=1), self.normed(net, h, "3"))
        return net.inner(pooled, net.vectors("readout", stream, net.outputs))


@dataclass(frozen=True)
class Gated(wf.Network, kind="test-gated"):
    def forward(self, net, x):
        one, two = net.population("layer 1"), net.population("layer 2", 1.5)
        a = net.map(jnp.tanh, x @ net.vectors("input", one, *x.shape))
        gate = net.map(jax.nn.sigmoid, net.matrix("gate", one, two) @ a)
        found = net.name("gated", gate * (net.matrix("value", one, two) @ a))
        return net.inner(found, net.vectors("readout", two, net.outputs))


@dataclass(frozen=True)
class Tied(wf.Network, kind="test-tied"):
    """W phi(W phi(h)), with a skip connection if `skip`."""

    skip: bool = False
    activation: str = "tanh"

    def forward(self, net, x):
        phi = PHI[self.activation]
        units = net.population("units")
        w = net.matrix("tied", units, units)
        h = x @ net.vectors("input", units, *x.shape)
        for turn in (1, 2):
            image = w @ net.map(phi, h)
            h = net.name(f"turn {turn}", h + image if self.skip else image)
        return net.inner(net.map(phi, h), net.vectors("readout", units, net.outputs))


@dataclass(frozen=True)
class Auto(wf.Network, kind="test-auto"):
    """W and its transpose."""

    activation: str = "tanh"

    def forward(self, net, x):
        phi = PHI[self.activation]
        outer, code = net.population("outer"), net.population("code", 0.5)
        w = net.matrix("tied", outer, code)
        b = net.name("code", net.map(phi, w @ net.map(phi, x @ net.vectors("input", outer, *x.shape))))
        a = net.name("outer", net.map(phi, w.T @ b))
        return net.inner(a, net.vectors("readout", outer, net.outputs))


PHI = {"tanh": jnp.tanh, "linear": lambda h: h}
