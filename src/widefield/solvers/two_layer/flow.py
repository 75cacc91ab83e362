"""Linear two-layer networks under gradient flow, for any input kernel: equations of second moments.

With preactivations h, the readout z, the feedback q of the learning rule and f = m = <z h> / gamma_0, averages over the
neurons close (BP22 eq. (74), BP23 eq. (69), both corrected):

    dh/dt = gamma_0 sum_nu K_{mu nu} Delta_nu gt_nu        dz/dt = gamma_0 sum_nu Delta_nu h_nu
    dG/dt = 2 gamma_0^2 Delta.m                            G = <z z>

    gradient descent, gt = z      dH/dt = gamma_0^2 [K Delta m^T + m Delta^T K]      dm/dt = (H + G K) Delta
    feedback, gt = s q            dH/dt = gamma_0 s [K Delta a^T + a Delta^T K]      dm/dt = (H + G~ K) Delta
                                  da/dt = gamma_0 s K Delta,  a = <q h>              dG~/dt = gamma_0 s Delta.a
    Hebb, gt = Delta h            dH/dt = gamma_0 [K diag(Delta^2) H + H diag(Delta^2) K]
                                  dm/dt = H Delta + gamma_0 K diag(Delta^2) m

H(0) is sigma_0^2 K^x (BP22 says 1); s is the scale of the feedback. Weight decay takes 2 lambda of every second moment,
lambda of a and G~ (feedback is frozen). Biases that learn add 1 to K, and the output's bias to f. Delta is that of any
loss; test samples are rows with Delta = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...problem.losses import Loss
from ...problem.rules import DirectFeedbackAlignment, FeedbackAlignment, Hebb
from .measured import Measured

if TYPE_CHECKING:
    from ...problem.problem import Problem


class Moments(eqx.Module):
    """Second moments of the fields over the neurons, and the output's bias."""

    features: Float[Array, "all all"]
    """H"""

    outputs: Float[Array, " all"]
    """m"""

    gradients: Float[Array, ""]
    """G"""

    overlap: Float[Array, " all"]
    """a; stays 0 where there is no feedback"""

    alignment: Float[Array, ""]
    """G~ of feedback alignment"""

    offset: Float[Array, ""]
    """the output's bias over gamma"""


class LinearFlow(eqx.Module):
    """The equations above."""

    kernel: Float[Array, "all p"]
    targets: Float[Array, "p 1"]
    richness: Float[Array, ""]
    decay: Float[Array, ""]
    strength: Float[Array, ""]
    rows: Array
    loss: Loss = eqx.field(static=True)
    rule: str = eqx.field(static=True)
    biased: bool = eqx.field(static=True)
    recorded: int = eqx.field(static=True)

    def errors(self, state: Moments) -> Float[Array, " p"]:
        """Delta of the training samples, with their weight in the loss."""
        train = len(self.targets)
        outputs = (state.outputs[:train] + state.offset)[:, None]
        return self.loss.weight(train) * self.loss.error(outputs, self.targets)[:, 0]

    def slope(self, state: Moments) -> Moments:
        """The time derivative of everything."""
        gamma, train = self.richness, len(self.targets)
        delta = self.errors(state)
        driven, seen = self.kernel @ delta, state.features[:, :train] @ delta
        overlap, alignment = jnp.zeros_like(state.overlap), jnp.zeros_like(state.alignment)
        if self.rule == "hebb":
            modulated = self.kernel * delta[None, :] ** 2
            half = gamma * modulated @ state.features[:train]
            outputs = seen + gamma * modulated @ state.outputs[:train]
        elif self.rule == "feedback":
            half = gamma * self.strength * jnp.outer(driven, state.overlap)
            outputs = seen + state.alignment * driven
            overlap = gamma * self.strength * driven
            alignment = gamma * self.strength * delta @ state.overlap[:train]
        else:
            half = gamma**2 * jnp.outer(driven, state.outputs)
            outputs = seen + state.gradients * driven
        lost = self.decay
        return Moments(
            half + half.T - 2 * lost * state.features,
            outputs - 2 * lost * state.outputs,
            2 * gamma**2 * delta @ state.outputs[:train] - 2 * lost * state.gradients,
            overlap - lost * state.overlap,
            alignment - lost * state.alignment,
            jnp.sum(delta) - lost * state.offset if self.biased else jnp.zeros_like(state.offset),
        )

    def measure(self, state: Moments) -> Measured:
        """Outputs and kernels. g does not depend on the sample."""
        k = self.recorded
        delta = self.errors(state)[:k]
        ones = jnp.ones((len(self.rows), k))
        features = state.features[self.rows][:, :k]
        gradients = state.gradients * ones
        if self.rule == "hebb":
            alignment = ones * (self.richness * state.outputs[:k] * delta)[None, :]
            pseudo = features[:k] * jnp.outer(delta, delta)
        elif self.rule == "feedback":
            alignment, pseudo = state.alignment * ones, self.strength**2 * ones[:k]
        else:
            alignment, pseudo = gradients, gradients[:k]
        outputs = (state.outputs + state.offset)[:, None]
        gradients, alignment, pseudo = (kernel[:, None, :, None] for kernel in (gradients, alignment, pseudo))
        return Measured(outputs, features, gradients, alignment, pseudo)


def linear_flow(problem: Problem) -> tuple[LinearFlow, Moments]:
    """The equations of a problem, and where they start."""
    network, rule, optimiser = problem.network, problem.rule, problem.optimiser
    inputs, train = problem.samples.kernel(everything=True), problem.samples.samples
    kind = "gradient"
    strength, correlation = 1.0, 0.0
    if isinstance(rule, Hebb):
        kind = "hebb"
    elif isinstance(rule, FeedbackAlignment):
        kind, strength, correlation = "feedback", network.weight_scales[1], rule.correlation
    elif isinstance(rule, DirectFeedbackAlignment):
        kind = "feedback"
    flow = LinearFlow(
        kernel=jnp.asarray(inputs[:, :train] + (1.0 if network.train_biases else 0.0)),
        targets=jnp.asarray(problem.samples.y),
        richness=jnp.asarray(network.richness, float),
        decay=jnp.asarray(getattr(optimiser, "weight_decay", 0.0), float),
        strength=jnp.asarray(strength, float),
        rows=jnp.asarray(problem.kernel_rows),
        loss=problem.loss,
        rule=kind,
        biased=network.train_biases,
        recorded=problem.recorded_samples,
    )
    nothing, variances = jnp.zeros(len(inputs)), [scale**2 for scale in network.weight_scales]
    start = Moments(
        features=jnp.asarray(variances[0] * inputs + network.bias_scales[0] ** 2),
        outputs=nothing,
        gradients=jnp.asarray(variances[1], float),
        overlap=nothing,
        alignment=jnp.asarray(correlation * variances[1], float),
        offset=jnp.zeros(()),
    )
    return flow, start
