"""What the first step of gradient descent does to the last hidden layer of a wide network: mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..data.samples import column
from ..gaussian import average
from ..gaussian.roots import root
from ..gaussian.sobol import normals
from ..kernels.stability import loss_curvature
from ..kernels.static import StaticKernel
from ..problem.losses import Loss, SquaredError
from ..problem.network import MLP, widths_of
from .tangent_flow import ntk_flow


@dataclass(frozen=True, eq=False)
class HiddenUpdate:
    """Of one neuron's preactivation in the last hidden layer at the samples asked for; two neurons are uncorrelated."""

    mean: Float[Floats, " q"]
    covariance: Float[Floats, "q q"]
    """Second moments E[dz_1 dz_2]; the square of the mean is smaller by 1/n."""

    without_pairs: Float[Floats, "q q"]
    """The covariance as printed, without the off-diagonal fluctuations of the NTK."""


def first_hidden_update(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    widths: int | Sequence[int],
    *,
    x_test: ArrayLike | None = None,
    learning_rate: float = 1.0,
    loss: Loss | None = None,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    points: int = 2**14,
    seed: int = 0,
) -> HiddenUpdate:
    """The change dz of the last hidden layer in one step, to leading order 1/n, PDLT eqs. (10.8)-(10.12) corrected.

    L = hidden layers + 1, n = n_{L-1}, a, b training samples, 1, 2 the samples asked for, Theta and B of layer L-1:

        E[dz_1]      = -eta C_W/n sum_a Theta_1a <sum_i d^2L/dz_ia^2>_K <s'_a s_a>
        E[dz_1 dz_2] = eta^2 C_W/n sum_ab [Theta_1a Theta_2b + (n/n_{L-2}) B_12ab] <sum_i eps_ia eps_ib>_K <s'_a s'_b>

    with eps = dL/dz at outputs z ~ N(0, K). B, off-diagonal fluctuations of the NTK, is missing in print and counts
    from two hidden layers on (docs/differences.md). Both vanish as 1/n: wide networks learn no features in one step.
    The mean vanishes for odd activations. With more than two inputs in all, B is sampled in part (`ntk_flow`).

    Args:
        network: activation, depth and variances.
        x: training inputs.
        y: their targets, (samples, outputs).
        widths: n_1 .. n_{L-1}, or one number for all.
        x_test: inputs where the change is asked for; None is x.
        learning_rate: eta.
        loss: None is the squared loss, whose averages are exact; others are averaged over `points` outputs.
        weight_rates: lambda_W of the layers of weights, one number or L.
        bias_rates: lambda_b, the same for biases; None is 1 if the network trains its biases and 0 if not.
        points: Sobol points of outputs.
        seed: of them.
    """
    inputs, others = check.inputs(x, x_test)
    targets, sizes, top = column("y", y), widths_of(network, widths), network.hidden_layers
    if len(targets) != len(inputs):
        raise InvalidInput(f"y has {len(targets)} rows and x {len(inputs)}: they need as many")
    eta, loss = check.number("learning_rate", learning_rate), SquaredError() if loss is None else loss
    every = inputs if others is None else np.concatenate([inputs, others])
    train, asked = slice(0, len(inputs)), slice(0 if others is None else len(inputs), None)
    layers = StaticKernel(network, weight_rates=weight_rates, bias_rates=bias_rates).layers(every)
    theta, C_W = layers.tangents[top - 1][asked, train], network.weight_scales[top] ** 2
    curvature, errors = _averages(loss, layers.nngp[train, train], targets, points, seed)
    diagonal = _diagonal(network, layers.feature, every[train])
    phi, slope = network.phi, network.phi.derivative(1)
    crossed = average(lambda z: phi(z) * slope(z), diagonal, kinks=phi.kinks)
    strength = C_W / sizes[-1]
    mean = -eta * strength * theta @ (curvature * crossed)
    sources = errors * layers.slope[top - 1][train, train]
    printed = eta**2 * strength * theta @ sources @ theta.T
    pairs = np.zeros_like(printed)
    if top > 1:
        flow = ntk_flow(network, every, sizes, weight_rates=weight_rates, bias_rates=bias_rates, progress=False)
        B = flow.variance_paired(top)[asked, asked, train, train]
        pairs = eta**2 * strength * sizes[-1] / sizes[-2] * np.einsum("pqab,ab->pq", B, sources)
    return HiddenUpdate(mean, printed + pairs, printed)


def _diagonal(network: MLP, features: Floats, x: Floats) -> Floats:
    """K_aa of the last hidden layer."""
    top = network.hidden_layers - 1
    below = features[top - 1] if top else None
    squares = np.mean(x**2, axis=1) if below is None else np.diag(below)[: len(x)]
    return np.asarray(network.weight_scales[top] ** 2 * squares + network.bias_scales[top] ** 2)


def _averages(
    loss: Loss, K: Float[Floats, "p p"], y: Float[Floats, "p c"], points: int, seed: int
) -> tuple[Float[Floats, " p"], Float[Floats, "p p"]]:
    """sum_i <d^2L/dz_ia^2> and sum_i <eps_ia eps_ib> over outputs N(0, K)."""
    weight, outputs = loss.weight(len(y)), y.shape[1]
    if isinstance(loss, SquaredError):
        return np.full(len(y), weight * outputs), weight**2 * (outputs * K + y @ y.T)
    count = check.integer("points", points, least=2)
    drawn = normals(seed, 0, y.size, count).reshape(outputs, len(y), count)
    z = np.einsum("pk,ckn->npc", root(K), drawn)
    flat, repeated = z.reshape(-1, outputs), np.tile(y, (count, 1))
    curvature = np.trace(loss_curvature(loss, flat, repeated), axis1=1, axis2=2).reshape(count, -1)
    with double_precision():
        errors = np.asarray(_errors(loss, z, y))
    return weight * curvature.mean(axis=0), weight**2 * np.einsum("npc,nqc->pq", errors, errors) / count


def _errors(loss: Loss, z: Any, y: Any) -> Any:
    return jax.vmap(lambda f: loss.error(f, jnp.asarray(y)))(jnp.asarray(z))
