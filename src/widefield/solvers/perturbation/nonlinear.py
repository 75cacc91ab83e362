"""Any smooth activation to leading order: the fields of sampled neurons, order by order."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ...activations import Activation
from ...gaussian.roots import root
from .order import Correction, Kernels
from .static import Layer


class Sources(eqx.Module):
    """Neurons of a layer before learning: phi(u), phi'(u), phi''(u), phi'''(u) and r."""

    phi: tuple[Float[Array, "s a"], ...]
    r: Float[Array, "s a c"]

    @property
    def g(self) -> Float[Array, "s a c"]:
        """The gradient phi' r."""
        return self.phi[1][:, :, None] * self.r


class Fields(eqx.Module):
    """Coefficients of gamma_0 and gamma_0^2 in h and z = y + w phi(h)."""

    h1: Float[Array, "s a"]
    h2: Float[Array, "s a"]
    y1: Float[Array, "s a c"]
    y2: Float[Array, "s a c"]
    w: Float[Array, "a c"]


class _Orders(eqx.Module):
    """phi(h) and g = phi'(h) z, orders 1 and 2."""

    phi1: Float[Array, "s a"]
    phi2: Float[Array, "s a"]
    g1: Float[Array, "s a c"]
    g2: Float[Array, "s a c"]


class SampledCorrection(Correction):
    """BP22 section 5.2 and App. P, with the response functions and with the kernels of lower layers that move too.

    With p_k the derivatives of phi at u, and fields expanded as h = u + gamma_0 h_1 + gamma_0^2 h_2,

        phi_1 = p_1 h_1,    phi_2 = p_1 h_2 + p_2 h_1^2 / 2
        g_1 = p_2 h_1 r + p_1 z_1,    g_2 = p_1 z_2 + p_2 (h_2 r + h_1 z_1) + p_3 h_1^2 r / 2

    and the kernels of order gamma_0^2 get <phi_1 phi_1> + <phi_2 p_0> + <p_0 phi_2>, and so on, from the fields, and
    the change of the average over sources whose covariances have moved (Price's theorem).
    """

    layers: tuple[Layer, ...]
    sources: tuple[Sources, ...]
    input_kernel: Float[Array, "a a"]
    trained_biases: bool = eqx.field(static=True)

    def start(self) -> tuple[Fields, ...]:
        """Nothing learned."""
        zero = [jnp.zeros_like(s.phi[0]) for s in self.sources]
        backward = [jnp.zeros_like(s.r) for s in self.sources]
        return tuple(Fields(h, h, z, z, jnp.zeros(z.shape[1:])) for h, z in zip(zero, backward, strict=True))

    def moved(self, state: tuple[Fields, ...], x: Float[Array, "a c"]) -> tuple[Fields, ...]:
        """h += c x g, y += d x phi, w += e x, order by order."""
        return tuple(_moved(*parts, x) for parts in zip(self.layers, self.sources, state, strict=True))

    def kernels(self, late: tuple[Fields, ...], early: tuple[Fields, ...]) -> Kernels:
        """Between two times; the diagonals of both times are needed on the way."""
        a, b = ([_orders(*parts) for parts in zip(self.sources, state, strict=True)] for state in (late, early))
        features = self._features([(a, b), (a, a), (b, b)])
        gradients = self._gradients(a, b, features)
        feature = jnp.stack([found[0] for found in features[1:]])
        return Kernels(feature, jnp.stack(gradients), self._ntk(feature, gradients))

    def _features(self, pairs: list[tuple[list[_Orders], list[_Orders]]]) -> list[list[Array]]:
        """Phi_2 of every layer (from 0) for the pairs of times (late, early), (late, late), (early, early)."""
        below = [jnp.zeros_like(self.input_kernel)] * 3
        found = [below]
        for number, (layer, source) in enumerate(zip(self.layers, self.sources, strict=True)):
            moved = [layer.before * kernel for kernel in below]
            marks = [(jnp.diag(moved[1]), jnp.diag(moved[2])), (jnp.diag(moved[1]),) * 2, (jnp.diag(moved[2]),) * 2]
            below = [
                _feature(layer, source, a[number], b[number], change, *mark)
                for (a, b), change, mark in zip(pairs, moved, marks, strict=True)
            ]
            found.append(below)
        return found

    def _gradients(self, late: list[_Orders], early: list[_Orders], features: list[list[Array]]) -> list[Array]:
        """G_2 of every layer between the two times."""
        outputs = self.sources[0].r.shape[-1]
        samples = len(self.input_kernel)
        above, found = jnp.zeros((samples, outputs, samples, outputs)), []
        for number in range(len(self.layers) - 1, -1, -1):
            layer, source = self.layers[number], self.sources[number]
            change = [layer.before * kernel for kernel in features[number]]
            moved = _price_of_slopes(layer, change[0], jnp.diag(change[1]), jnp.diag(change[2]))
            above = _gradient(layer, source, late[number], early[number], above, moved)
            found.append(above)
        return found[::-1]

    def _ntk(self, feature: Float[Array, "l a a"], gradients: list[Array]) -> Float[Array, "a c a c"]:
        """K_2 = sum_l [G^{l+1}_2 Phi^l + G^{l+1} Phi^l_2]."""
        identity = jnp.eye(self.sources[0].r.shape[-1])
        bias = 1.0 if self.trained_biases else 0.0
        below = [self.input_kernel, *(layer.feature for layer in self.layers[:-1])]
        total = jnp.einsum("mn,cd->mcnd", feature[-1], identity)
        for phi, g2 in zip(below, gradients, strict=True):
            total = total + (phi + bias)[:, None, :, None] * g2
        for layer, phi2 in zip(self.layers[1:], feature[:-1], strict=True):
            total = total + jnp.einsum("mn,mn,cd->mcnd", layer.gradient, phi2, identity)
        return total


def sampled(phi: Activation, layer: Layer, normals: NDArray[np.float64], outputs: int) -> Sources:
    """Neurons from standard normals (S, samples * (1 + outputs))."""
    samples = len(layer.inputs)
    u = normals[:, :samples] @ root(np.asarray(layer.inputs)).T
    r = normals[:, samples:].reshape(-1, outputs, samples) @ root(np.asarray(layer.feedback)).T
    return Sources(tuple(phi.derivative(k)(jnp.asarray(u)) for k in range(4)), jnp.asarray(r.transpose(0, 2, 1)))


def _z1(source: Sources, fields: Fields) -> Float[Array, "s a c"]:
    return fields.y1 + fields.w[None] * source.phi[0][:, :, None]


def _orders(source: Sources, fields: Fields) -> _Orders:
    _, p1, p2, p3 = source.phi
    h1, h2, z1 = fields.h1, fields.h2, _z1(source, fields)
    z2 = fields.y2 + fields.w[None] * (p1 * h1)[:, :, None]
    g1 = (p2 * h1)[:, :, None] * source.r + p1[:, :, None] * z1
    g2 = p1[:, :, None] * z2 + (p2 * h2 + 0.5 * p3 * h1**2)[:, :, None] * source.r + (p2 * h1)[:, :, None] * z1
    return _Orders(p1 * h1, p1 * h2 + 0.5 * p2 * h1**2, g1, g2)


def _moved(layer: Layer, source: Sources, fields: Fields, x: Float[Array, "a c"]) -> Fields:
    p0, p1, p2, _ = source.phi
    g1 = (p2 * fields.h1)[:, :, None] * source.r + p1[:, :, None] * _z1(source, fields)
    h1 = fields.h1 + jnp.einsum("sac,ac->sa", source.g, x) @ layer.c.T
    h2 = fields.h2 + jnp.einsum("sac,ac->sa", g1, x) @ layer.c.T
    dx = jnp.einsum("ma,ac->mac", layer.d, x)
    y1 = fields.y1 + jnp.einsum("sa,mac->smc", p0, dx)
    y2 = fields.y2 + jnp.einsum("sa,mac->smc", p1 * fields.h1, dx)
    return Fields(h1, h2, y1, y2, fields.w + layer.e @ x)


def _mean(a: Float[Array, "s m"], b: Float[Array, "s n"]) -> Float[Array, "m n"]:
    return a.T @ b / len(a)


def _feature(
    layer: Layer, source: Sources, late: _Orders, early: _Orders, change: Array, at_late: Array, at_early: Array
) -> Float[Array, "a a"]:
    """From the fields, and from covariances of u that changed by `change` (diagonals `at_late`, `at_early`)."""
    p0 = source.phi[0]
    fields = _mean(late.phi1, early.phi1) + _mean(late.phi2, p0) + _mean(p0, early.phi2)
    diagonals = at_late[:, None] * layer.second_none + at_early[None, :] * layer.second_none.T
    return fields + layer.slopes * change + 0.5 * diagonals


def _price_of_slopes(layer: Layer, change: Array, at_late: Array, at_early: Array) -> Float[Array, "a a"]:
    """Change of <phi' phi'> with the covariance of u."""
    diagonals = at_late[:, None] * layer.third_first + at_early[None, :] * layer.third_first.T
    return layer.curvatures * change + 0.5 * diagonals


def _gradient(
    layer: Layer, source: Sources, late: _Orders, early: _Orders, above: Array, moved: Array
) -> Float[Array, "a c a c"]:
    """From the fields, from the covariance of r, which changed with the layer above, and from that of u."""
    shape, g0 = above.shape, _flat(source.g)
    fields = _mean(_flat(late.g1), _flat(early.g1)) + _mean(_flat(late.g2), g0) + _mean(g0, _flat(early.g2))
    sources = layer.after * layer.slopes[:, None, :, None] * above
    identity = jnp.eye(shape[1])
    return fields.reshape(shape) + sources + jnp.einsum("mn,mn,cd->mcnd", layer.feedback, moved, identity)


def _flat(field: Float[Array, "s a c"]) -> Float[Array, "s ac"]:
    return field.reshape(len(field), -1)
