"""Kernels of real networks, by products of their fields."""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision, with_arrays
from ..matrices.dense import Dense
from ..matrices.substrate import Gradients, State, inner
from ..problem.layer_rates import LayerRates
from ..problem.losses import SquaredError
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.rules import GradientDescent, LearningRule, true_gradient
from ..training.observe import tangent_kernel
from ..training.program import Program
from .blocks import blocks
from .static import StaticKernel

_WORKSPACE = 2**28
"""Bytes that the fields and kernels of one pair of blocks may take by default."""


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkKernels:
    """Kernels of one network, between P rows and Q columns.

    Attributes:
        nngp: covariance over draws of the readout of any one unscaled output, sigma_L^2 Phi^L + C_b^L; (P, Q).
        ntk: K of df/dt = K Delta; (P, Q) for one output, (P, C, Q, C) for several.
    """

    nngp: Floats
    ntk: Floats


def network_kernels(
    network: MLP,
    x: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    width: int,
    seed: int = 0,
    rule: LearningRule | None = None,
    outputs: int | None = None,
    errors: ArrayLike | None = None,
    block: int | None = None,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
) -> NetworkKernels:
    """Return the kernels of one real network at initialisation.

        nngp = sigma_L^2 Phi^L + C_b^L
        ntk  = sum_{l=0}^{L} G~^{l+1} (w_l Phi^l + b_l),    G~^{L+1} = 1,  Phi^0 = x . x2 / D     (BP23 eq. (4))

    with averages over the network's neurons, Phi^l = <phi(h^l(x)), phi(h^l(x2))> and G~^l = <g^l(x), gt^l(x2)>, and
    rates w_l = 1, b_l = 1 where biases learn, unless others are given. For gradient descent, and these,
    ntk = gamma^2 df/dtheta . df/dtheta: neither kernel depends on the richness. Cost and memory are those of the
    fields: no Jacobian is formed.

    A seed is one network, whatever points are asked for, and the one that `FiniteWidth` trains with this seed,
    unless the dimension D exceeds the number of its training and test points: `FiniteWidth` then works in the r
    coordinates of `Samples.reduced`, and sqrt(r) times those are the `x` to give here for the very same network.

    Args:
        network: depth, activation, variances, biases and width ratios.
        x: inputs of the rows, shape (P, D).
        x2: inputs of the columns, shape (Q, D); None is x. Columns learn: they have the pseudo-gradients.
        width: number N of neurons in a hidden layer (times its `width_ratios`).
        seed: of the network.
        rule: learning rule; None is gradient descent.
        outputs: number C of outputs; None takes `network.outputs`, or 1.
        errors: Delta of the columns, shape (Q, C) or (Q,), for a rule whose pseudo-gradient depends on it (Hebb).
        block: samples treated at once, which bounds the memory; None takes as many as fit into 256 MiB.
        weight_rates: w_l, relative learning rates of the weights of every layer, as in `SGD`; one number or L + 1.
        bias_rates: b_l, the same for biases; None is 1 if the network trains its biases and 0 if not.

    >>> kernels = network_kernels(MLP(hidden_layers=1, activation="linear"), [[1.0], [2.0]], width=100_000)
    >>> kernels.nngp.round(1).tolist(), kernels.ntk.round(1).tolist()
    ([[1.0, 2.0], [2.0, 4.0]], [[2.0, 4.0], [4.0, 8.0]])
    """
    rule = GradientDescent() if rule is None else rule
    _check_parts(network, rule)
    rows, others = check.inputs(x, x2)
    columns = rows if others is None else others
    given = StaticKernel(network, rule, weight_rates, bias_rates)  # checks the rates
    count = _output_count(network, outputs)
    delta = _errors(errors, len(columns), count)
    widths = network.widths(width)
    check.integer("seed", seed, most=2**62)
    size = _block_size(widths, count) if block is None else check.integer("block", block, least=1)
    _check_memory(widths, rows.shape, len(columns), count)
    with double_precision():
        program = _program(network, rule, rows.shape[1], count)
        state = program.start(Dense(jnp.asarray(seed), widths))
        rates = with_arrays(given.rates, float)
        nngp, ntk = _assemble(program, state, rows, columns, delta, size, rates)
    if not np.isfinite(ntk).all():
        raise InvalidInput(
            f"the ntk is not finite: give errors if {type(rule).__name__} depends on them, otherwise the fields "
            "overflow: reduce x, weight_variances or hidden_layers"
        )
    return NetworkKernels(nngp, ntk[:, 0, :, 0] if count == 1 else ntk)


class _Fields(eqx.Module):
    """What a kernel needs to know of some samples: x / sqrt(D) and phi, and g or its pseudo-gradient."""

    features: tuple[Float[Array, "p _"], ...]
    gradients: Gradients


def _assemble(
    program: Program, state: State, x: Floats, x2: Floats, errors: Floats, block: int, rates: LayerRates
) -> tuple[Floats, Floats]:
    """Both kernels, by pairs of blocks; one half of them if the kernels are symmetric."""
    outputs = np.arange(errors.shape[1])
    nngp = np.empty((len(x), len(x2)))
    ntk = np.empty((len(x), len(outputs), len(x2), len(outputs)))
    symmetric = x2 is x and program.rule.exact
    for i, rows in enumerate(blocks(len(x), block)):
        left = _fields(program, state, jnp.asarray(x[rows]), None)
        for j, columns in enumerate(blocks(len(x2), block)):
            if symmetric and j < i:
                continue
            delta = None if program.rule.exact else jnp.asarray(errors[columns])
            right = left if symmetric and i == j else _fields(program, state, jnp.asarray(x2[columns]), delta)
            covariance, tangent = map(np.asarray, _products(program.network, left, right, rates))
            nngp[np.ix_(rows, columns)] = covariance
            ntk[np.ix_(rows, outputs, columns, outputs)] = tangent
            if symmetric and i != j:
                nngp[np.ix_(columns, rows)] = covariance.T
                ntk[np.ix_(columns, outputs, rows, outputs)] = tangent.transpose(2, 3, 0, 1)
    return nngp, ntk


@eqx.filter_jit
def _fields(program: Program, state: State, x: Float[Array, "p d"], errors: Float[Array, "p c"] | None) -> _Fields:
    """Fields of some samples: with the pseudo-gradient at these errors, or with the gradient if there are none."""
    program = dataclasses.replace(program, inputs=x / math.sqrt(x.shape[1]))
    forward, state = program.forward(state, slice(None))
    identity = jnp.eye(program.targets.shape[1], dtype=x.dtype)
    signal = jnp.broadcast_to(identity, (len(x), *identity.shape))  # one field for every output
    if errors is None:
        gradients = true_gradient(signal, forward, state)[0].gradients
    else:
        gradients = program.rule.pseudo_gradient(signal, errors, forward, state)[0]
    return _Fields((program.inputs, *forward.features), gradients)


@eqx.filter_jit
def _products(
    network: MLP, left: _Fields, right: _Fields, rates: LayerRates
) -> tuple[Float[Array, "p q"], Float[Array, "p c q c"]]:
    """The nngp and the ntk between two blocks."""
    hidden = [inner(a, b) for a, b in zip(left.features[1:], right.features[1:], strict=True)]
    alignment = [inner(a, b) for a, b in zip(left.gradients, right.gradients, strict=True)]
    nngp = network.weight_scales[-1] ** 2 * hidden[-1] + network.bias_scales[-1] ** 2
    features = [left.features[0] @ right.features[0].T, *hidden]
    return nngp, tangent_kernel(features, alignment, rates)


def _program(network: MLP, rule: LearningRule, dimension: int, outputs: int) -> Program:
    """The training program of a network that will not be trained, before it is given samples."""
    return Program(
        inputs=jnp.zeros((1, dimension)),
        targets=jnp.zeros((1, outputs)),
        # Without centring drawing the weights needs no samples; f and f - f(0) have the same kernels.
        network=dataclasses.replace(network.in_program(outputs), centred=False),
        phi=network.phi,
        loss=SquaredError(),
        rule=rule,
        optimiser=SGD(learning_rate=1.0, steps=1),
        richness=jnp.asarray(1.0),
        ratios=network.normalised_width_ratios,
    )


def _block_size(widths: tuple[int, ...], outputs: int) -> int:
    """The B at which fields of 2 B samples (h, phi, phi', z and g) and kernels between B and B fill the workspace."""
    linear = 2 * 8 * sum(widths) * (3 + 2 * outputs)
    quadratic = 8 * (len(widths) + 2) * outputs**2
    root = math.sqrt(linear**2 + 4 * quadratic * _WORKSPACE)
    return max(1, int((root - linear) / (2 * quadratic)))


def _check_memory(widths: tuple[int, ...], shape: tuple[int, ...], columns: int, outputs: int) -> None:
    entries = sum(a * b for a, b in zip((shape[1], *widths), (*widths, outputs), strict=True))
    check.memory("weights", 2 * 8 * entries, "reduce width")
    check.memory("kernels", 8 * shape[0] * columns * (1 + outputs**2), "give fewer samples in x or x2")


def _check_parts(network: MLP, rule: LearningRule) -> None:
    if not isinstance(network, MLP):
        raise InvalidInput(f"network = {network!r} must be an MLP; for any other function there is ntk_of_function")
    if not isinstance(rule, LearningRule):
        raise InvalidInput(f"rule = {rule!r} must be a LearningRule, for example GradientDescent()")


def _output_count(network: MLP, outputs: int | None) -> int:
    if outputs is None:
        return network.outputs or 1
    if network.outputs not in (None, outputs):
        raise InvalidInput(f"outputs = {outputs}, but network.outputs = {network.outputs}: leave one of them None")
    return check.integer("outputs", outputs, least=1)


def _errors(errors: ArrayLike | None, columns: int, outputs: int) -> Floats:
    """Delta of every column; not a number if unknown, so that a rule that uses it cannot go unnoticed."""
    if errors is None:
        return np.full((columns, outputs), np.nan)
    delta = check.array("errors", errors)
    delta = delta[:, None] if delta.ndim == 1 else delta
    if delta.shape != (columns, outputs):
        raise InvalidInput(f"errors has shape {delta.shape}; it must be ({columns}, {outputs}): columns by outputs")
    return delta
