"""The mean-field equations of a problem on the grid of all samples and steps: couplings, covariances, outputs.

A flat index is t P + mu (time-major): P samples, those of the test set last, and T = steps + 1 times; n = P T. Fields
of a layer l obey (BP22 eq. (10), BP23 eq. (5); widths and variances: BP22 D.8; optimisers: BP22 eqs. (99), (124))

    h  = u + F gt,        z = r + B phi(h),        g = phi'(h) z
    gt = g | phi'(h) (sqrt(1 - rho^2) zeta + rho v + D phi(h)) | phi'(h) xi | Delta phi(h)

for gradient descent (and gated networks), feedback alignment, direct feedback alignment and Hebb's rule. F and D, B are
strictly and weakly causal. Averages are plain derivatives: a = <dphi/dr>, c = <dphi/dv>, b = <dg/du>, d = <dgt/du>.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...activations import Activation
from ...problem.losses import Loss
from ...problem.optimisers import SGD
from ...problem.problem import Problem
from ...problem.rules import (
    DirectFeedbackAlignment,
    FeedbackAlignment,
    GatedLinear,
    GradientDescent,
    Hebb,
    LearningRule,
)
from ...problem.weight_memory import WeightMemory
from .order import Order

Kind = Literal["gradient", "feedback", "direct", "hebb"]
_KINDS: dict[type[LearningRule], Kind] = {
    GradientDescent: "gradient",
    GatedLinear: "gradient",
    FeedbackAlignment: "feedback",
    DirectFeedbackAlignment: "direct",
    Hebb: "hebb",
}


class Rule(NamedTuple):
    """Which fields and responses a learning rule has."""

    kind: Kind
    gated: bool
    rho: float

    @classmethod
    def of(cls, rule: LearningRule) -> Rule:
        """Read the description of a rule."""
        return cls(_KINDS[type(rule)], rule.gated, rule.correlation if isinstance(rule, FeedbackAlignment) else 0.0)

    @property
    def exact(self) -> bool:
        """Whether the pseudo-gradient is the gradient."""
        return self.kind == "gradient"

    @property
    def through_weights(self) -> bool:
        """Whether features respond to what comes back through the initial weights: a or c is not zero."""
        return self.exact or self.returns

    @property
    def returns(self) -> bool:
        """Whether feedback knows the initial weights: v, c and d are there."""
        return self.kind == "feedback" and self.rho != 0

    @property
    def strays(self) -> bool:
        """Whether feedback has a part of its own, zeta."""
        return self.kind == "feedback" and abs(self.rho) < 1


class Surroundings(NamedTuple):
    """What a layer l sees of the others. None: static, or not there.

    Args:
        below: covariance of u^l.
        above: covariance of r^l.
        feedback: covariance of v^l and of zeta^l.
        mixed: covariance of r^l (rows) and v^l.
        forward: F, the response to gt and the update of the weights below.
        backward: B, the response to phi and the update of the weights above.
        returned: D, the response of feedback to phi.
    """

    below: Float[Array, "n n"] | None
    above: Float[Array, "n n"] | None
    feedback: Float[Array, "n n"] | None
    mixed: Float[Array, "n n"] | None
    forward: Float[Array, "n n"]
    backward: Float[Array, "n n"]
    returned: Float[Array, "n n"] | None


class Equations(eqx.Module):
    """What the order parameters of a problem obey.

    Args:
        inputs: coordinates with inputs inputs^T = K^x, training samples first.
        targets: y of all samples.
        batches: 1 if a sample is in the batch of a step, else 0.
        weight: of a sample in the loss of a batch.
        decay: what is left of initial weights, dec(t).
        memory: what is left of the gradient of step s after t steps, mem(t, s).
        richness: gamma_0.
        weights, biases: variances sigma_l^2, beta_l^2, l = 0 .. L.
        ratios: N_l / N_L of the layers 0 .. L + 1; 1 for inputs and outputs.
        train_biases: whether biases learn.
        plain: whether a step is remembered for ever, as it was: no momentum, no decay.
    """

    inputs: Float[Array, "p k"]
    targets: Float[Array, " p"]
    batches: Float[Array, "t p"]
    weight: Float[Array, ""]
    decay: Float[Array, " t"]
    memory: Float[Array, "t t"]
    richness: Float[Array, ""]
    weights: Float[Array, " layers"]
    biases: Float[Array, " layers"]
    ratios: Float[Array, " populations"]
    phi: Activation = eqx.field(static=True)
    rule: Rule = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    has_biases: bool = eqx.field(static=True)
    train_biases: bool = eqx.field(static=True)
    plain: bool = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Problem) -> Equations:
        """Read the description of a problem; call it in double precision."""
        network, samples, optimiser = problem.network, problem.samples, problem.optimiser
        assert isinstance(optimiser, SGD)
        memory = WeightMemory.of(optimiser)
        train, test = samples.reduced()
        return cls(
            inputs=jnp.asarray(np.concatenate([train, test])),
            targets=jnp.asarray(np.concatenate([samples.y, samples.y_test])[:, 0]),
            batches=jnp.asarray(1.0 * (problem.batch_weights() != 0)),
            weight=jnp.asarray(problem.loss.weight(optimiser.batch_size or samples.samples)),
            decay=jnp.asarray(memory.initial),
            memory=jnp.asarray(memory.gradient),
            richness=jnp.asarray(network.richness),
            weights=jnp.asarray(network.weight_scales) ** 2,
            biases=jnp.asarray(network.bias_scales) ** 2,
            ratios=jnp.asarray([1.0, *network.normalised_width_ratios, 1.0]),
            phi=network.phi,
            rule=Rule.of(problem.rule),
            loss=problem.loss,
            depth=network.hidden_layers,
            has_biases=any(network.bias_scales),
            train_biases=network.train_biases,
            plain=not (optimiser.momentum or optimiser.weight_decay),
        )

    @property
    def count(self) -> int:
        """P, with test samples."""
        return int(self.inputs.shape[0])

    @property
    def times(self) -> int:
        """T = steps + 1."""
        return int(self.decay.shape[0])

    @property
    def kernel(self) -> Float[Array, "n n"]:
        """Phi^0 = K^x at all pairs of times."""
        return jnp.tile(self.inputs @ self.inputs.T, (self.times, self.times))

    def _over_samples(self, times: Float[Array, " t"]) -> Float[Array, " n"]:
        return jnp.repeat(times, self.count)

    def causal(self) -> Bool[Array, "n n"]:
        """Where responses of features may differ from zero: earlier times, samples of the batch."""
        times = jnp.arange(self.times * self.count) // self.count
        return (times[:, None] > times[None, :]) & (self.batches.reshape(-1) != 0)[None, :]

    def surroundings(self, order: Order, errors: Float[Array, " n"], layer: int) -> Surroundings:
        """Covariances and couplings of a layer (from 1), from the order parameters of its neighbours.

        F = echo (sigma_{l-1}^2 dec(t) dec(s) a^{l-1} | sigma_{l-1}^2 dec(t) c^{l-1}) + gamma_l mem Phi^{l-1} Delta
        B = echo sigma_l^2 dec(t) dec(s) b^l + gamma_l mem Gt^{l+1} Delta,   D = rho echo sigma_l^2 dec(s) d^l
        gamma_l = gamma_0 sqrt(N / N_l),   echo = sqrt(N_other / N_l)
        """
        rule, first, last = self.rule, layer == 1, layer == self.depth
        dec = self._over_samples(self.decay)
        own = dec[:, None] * dec[None, :]
        below, above = self.weights[layer - 1], self.weights[layer]
        echo_below, echo_above = (jnp.sqrt(self.ratios[k] / self.ratios[layer]) for k in (layer - 1, layer + 1))
        memory = jnp.repeat(jnp.repeat(self.memory, self.count, axis=0), self.count, axis=1)
        update = memory * (self.richness / jnp.sqrt(self.ratios[layer]) * errors * self.batches.reshape(-1))[None, :]
        features = self.kernel if first else order.features[layer - 2]
        forward = update * (features + 1.0 if self.train_biases else features)
        backward = update if last else update * order.aligned[layer]
        if rule.through_weights and not first:
            kept = own if rule.exact else jnp.broadcast_to(dec[:, None], own.shape)
            forward = forward + echo_below * below * kept * order.forward[layer - 2]
        covariances: tuple[Array | None, Array | None, Array | None] = (None, None, None)
        if not last:
            backward = backward + echo_above * above * own * order.backward[layer - 1]
            feedback = above * order.pseudo[layer] if rule.kind == "feedback" else None
            mixed = above * dec[:, None] * order.aligned[layer] if rule.returns else None
            covariances = above * own * order.gradients[layer], feedback, mixed
        returned = None
        if rule.returns and not last:
            returned = rule.rho * echo_above * above * dec[None, :] * order.returned[layer - 1]
        source = None
        if not first:
            source = below * own * features + self.biases[layer - 1] * (own if self.train_biases else 1.0)
        return Surroundings(source, *covariances, forward, backward, returned)

    def outputs(self, order: Order) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """f and Delta (weighted) at all times, one after the other: the exact discrete form (BP22 App. M).

        f(t) = <r^L phi(h^L(t))> / gamma_0 + sum_{s<t} mem(t, s) Phi^L(t, s) Delta(s)
        """
        count, features = self.count, order.features[-1]
        memory = jnp.repeat(self.memory, count, axis=1)
        features = features + 1.0 if self.train_biases else features
        rows = (order.readout.reshape(-1, count), features.reshape(self.times, count, -1), memory, self.batches)

        def step(used: Array, now: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            number, readout, kernel, left, batch = now
            f = readout / self.richness + (kernel * left[None, :]) @ used
            error = self.weight * self.loss.error(f[:, None], self.targets[:, None])[:, 0]
            return jax.lax.dynamic_update_slice(used, batch * error, (number,)), (f, error)

        numbers = jnp.arange(0, self.times * count, count)
        _, found = jax.lax.scan(step, jnp.zeros_like(order.readout), (numbers, *rows))
        return found[0].reshape(-1), found[1].reshape(-1)


def nonlinearity(
    phi: Activation, h: Float[Array, "n s"], gates: Float[Array, "p s"] | None
) -> tuple[Float[Array, "n s"], Float[Array, "n s"]]:
    """phi(h) and phi'(h), or gate h and the gate of every sample."""
    if gates is None:
        return phi(h), phi.derivative(1)(h)
    slopes = jnp.tile(gates, (len(h) // len(gates), 1))
    return slopes * h, slopes
