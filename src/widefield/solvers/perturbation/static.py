"""Averages over the initial network that say how strongly fields respond to what is learned."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...base.arrays import Floats
from ...gaussian.pairs import derivative_products
from ...kernels.static import LayerKernels
from ...problem.network import MLP


class Layer(eqx.Module):
    """A hidden layer l at initialisation, over all pairs of samples.

    u ~ N(0, `inputs`) and r ~ N(0, `feedback`) are its sources, phi_k its k-th derivative, and

        h = u + gamma_0 sum_a c_ma v_a g_a,        z = r + gamma_0 { sum_a d_ma v_a phi_a + [sum_a e_ma v_a] phi_m }

    to first order, v the integrated errors. e is the response of a layer to itself at equal times.
    """

    inputs: Float[Array, "a a"]
    feedback: Float[Array, "a a"]
    feature: Float[Array, "a a"]
    gradient: Float[Array, "a a"]
    slopes: Float[Array, "a a"]
    curvatures: Float[Array, "a a"]
    third_first: Float[Array, "a a"]
    second_none: Float[Array, "a a"]
    c: Float[Array, "a a"]
    d: Float[Array, "a a"]
    e: Float[Array, "a a"]
    before: float = eqx.field(static=True)
    after: float = eqx.field(static=True)


def layers(network: MLP, found: LayerKernels, input_kernel: Floats) -> tuple[Layer, ...]:
    """All layers; BP22 App. P.2-P.6, completed by the response functions.

        c^1 = K^x,    c^{l+1} = Phi^l + <phi_1 phi_1>^l c^l
        d^L = 1,      d^l = G^{l+1} + <phi_1 phi_1>^{l+1} d^{l+1} + <phi_2 phi_2>^{l+1} G^{l+2} c^{l+1}
        e^L = 0,      e^l_ma = [<phi_1^2>_m + <phi_2 phi>_m] e^{l+1}_ma + <phi_3 phi_1>_ma G^{l+2}_ma c^{l+1}_ma
                               + <phi_2 phi>_ma d^{l+1}_ma              (averages in layer l + 1)

    Products of matrices are elementwise. The variance of weights multiplies every response, a trained bias adds 1
    to Phi^l, and a layer of relative width a_l has c, d, e divided by sqrt(a_l) (BP22 D.8).
    """
    depth, ones = network.hidden_layers, np.ones_like(input_kernel)
    weights = [scale**2 for scale in network.weight_scales]
    bias = 1.0 if network.train_biases else 0.0
    below = [input_kernel, *found.feature[:-1]]
    covariances = [w * k + b**2 for w, k, b in zip(weights, below, network.bias_scales, strict=False)]
    feedback = [w * g for w, g in zip(weights[1:], [*found.gradient[1:], ones], strict=True)]
    averages = [_averages(network, covariance) for covariance in covariances]
    c = [input_kernel + bias]
    for number in range(1, depth):
        c.append(weights[number] * averages[number - 1][0] * c[-1] + found.feature[number - 1] + bias)
    d, e = [ones], [np.zeros_like(ones)]
    for number in range(depth - 1, 0, -1):
        slopes, curvatures, third_first, second_none = averages[number]
        own = (np.diag(slopes) + np.diag(second_none))[:, None]
        above = feedback[number] * c[number]
        e.append(weights[number] * (own * e[-1] + third_first * above + second_none * d[-1]))
        d.append(found.gradient[number] + weights[number] * (slopes * d[-1] + curvatures * above))
    made = []
    for number, ratio in enumerate(network.normalised_width_ratios):
        responses = [part / math.sqrt(ratio) for part in (c[number], d[depth - 1 - number], e[depth - 1 - number])]
        statics = (covariances[number], feedback[number], found.feature[number], found.gradient[number])
        arrays: list[Any] = [jnp.asarray(a) for a in (*statics, *averages[number], *responses)]
        made.append(Layer(*arrays, *weights[number : number + 2]))
    return tuple(made)


def _averages(network: MLP, covariance: Floats) -> list[Floats]:
    """<phi_1 phi_1>, <phi_2 phi_2>, <phi_3 phi_1> and <phi_2 phi> for all pairs (rows: the first)."""
    return derivative_products(network.phi, np.diag(covariance), covariance, ((1, 1), (2, 2), (3, 1), (2, 0)))
