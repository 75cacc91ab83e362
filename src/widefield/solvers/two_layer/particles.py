"""Two-layer networks of infinite width, exactly: independent neurons in the field of their own averages (BP22 App. E).

For one hidden layer nothing but equal-time averages couples the neurons, so each of them obeys, in discrete time or
under gradient flow (BP22 eq. (66); BP23 eq. (2) for the other rules),

    dh_mu/dt = gamma_0 sum_nu K^x_{mu nu} Delta_nu gt_nu        h(0) ~ N(0, sigma_0^2 K^x)
    dz/dt    = gamma_0 sum_nu Delta_nu phi(h_nu)                z(0) ~ N(0, sigma_1^2)
    f_mu     = <z phi(h_mu)> / gamma_0

    gradient descent   gt = phi'(h) z          feedback alignment, direct   gt = phi'(h) q, a frozen Gaussian q
    gated linear       gt = phi'(m) z          Hebb                         gt = Delta phi(h)

For the rules in the right column preactivations never see the readout but for its part along q, z = z' + w, so that
the rest w is known in closed form: it only adds <w^2> <phi' phi'> to G.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...activations import Activation
from ...base.arrays import Floats
from ...gaussian.roots import root
from ...gaussian.sobol import matched
from ...problem.losses import Loss
from ...problem.optimisers import SGD
from ...problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, Hebb
from .measured import Measured, freezes_biases

if TYPE_CHECKING:
    from ...problem.problem import Problem

Rows = Int[Array, " p"] | slice
"""Some of the samples."""


class State(eqx.Module):
    """What training changes."""

    preactivations: Float[Array, "all s"]
    """h, without biases that stand still while weights decay"""

    readout: Float[Array, "c s"]
    """z'"""

    rest: Float[Array, ""]
    """standard deviation of w"""

    offset: Float[Array, " c"]
    """the outputs' biases over gamma"""


class Vectors(eqx.Module):
    """Vectors whose inner products <a b> = mean over the last axis are the kernels, also between two times."""

    features: Float[Array, "k s"]
    gradients: Float[Array, "k c r"]
    pseudo: Float[Array, "k c r"]


class Neurons(eqx.Module):
    """Some neurons: h, z' and the standard deviation of w."""

    preactivations: Float[Array, "k m"]
    readout: Float[Array, "c m"]
    rest: Float[Array, ""]


class Process(eqx.Module):
    """The equations above, with what stands still."""

    chances: Float[Array, " s"]
    kernel: Float[Array, "all p"]
    noise_root: Float[Array, "all r"]
    targets: Float[Array, "p c"]
    feedback: Float[Array, "c s"] | None
    gates: Float[Array, "all s"] | None
    biases: Float[Array, " s"] | None
    richness: Float[Array, ""]
    decay: Float[Array, ""]
    rows: Int[Array, " rows"]
    phi: Activation = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    hebb: bool = eqx.field(static=True)
    biased: bool = eqx.field(static=True)
    recorded: int = eqx.field(static=True)

    def fields(self, state: State, rows: Rows) -> tuple[Float[Array, "p s"], Float[Array, "p s"]]:
        """phi(h) and phi'(h) of some samples."""
        h = state.preactivations[rows]
        if self.biases is not None:
            h = h + self.biases[None, :]
        if self.gates is not None:
            return self.gates[rows] * h, self.gates[rows]
        return self.phi(h), self.phi.derivative(1)(h)

    def outputs(self, features: Float[Array, "p s"], state: State) -> Float[Array, "p c"]:
        """f = <z phi(h)> / gamma_0, and the output's bias."""
        return features @ (self.chances[None, :] * state.readout).T / self.richness + state.offset[None, :]

    def errors(self, outputs: Float[Array, "p c"], targets: Float[Array, "p c"]) -> Float[Array, "p c"]:
        """Delta of every sample, with its weight in the loss."""
        return self.loss.weight(len(targets)) * self.loss.error(outputs, targets)

    def direction(self, state: State, batch: Int[Array, " b"] | None = None) -> State:
        """The time derivative without weight decay, from some of the training samples."""
        rows: Rows = slice(len(self.targets)) if batch is None else batch
        features, slopes = self.fields(state, rows)
        delta = self.errors(self.outputs(features, state), self.targets[rows])
        if self.hebb:
            pseudo = jnp.sum(delta**2, axis=1)[:, None] * features
        else:
            pseudo = slopes * (delta @ (state.readout if self.feedback is None else self.feedback))
        return State(
            self.richness * (self.kernel[:, rows] @ pseudo),
            self.richness * (delta.T @ features),
            jnp.zeros_like(state.rest),
            jnp.sum(delta, axis=0) if self.biased else jnp.zeros_like(state.offset),
        )

    def slope(self, state: State) -> State:
        """The time derivative under gradient flow."""
        moved: State = jax.tree.map(lambda d, v: d - self.decay * v, self.direction(state), state)
        return moved

    def measure(self, state: State) -> Measured:
        """Outputs and kernels."""
        features, slopes = self.fields(state, slice(None))
        outputs, k = self.outputs(features, state), self.recorded
        g, pseudo = self._signals(features, slopes, outputs, state)
        features, slopes, g = features[self.rows], slopes[self.rows], g[self.rows]
        gradients = self._inner(g, g[:k])
        plain = jnp.einsum("ps,qs->pq", self.chances[None, :] * slopes, slopes[:k])
        identity = jnp.eye(len(state.readout))[None, :, None, :]
        gradients = gradients + state.rest**2 * plain[:, None, :, None] * identity
        own, alignment = self._inner(pseudo, pseudo), self._inner(g, pseudo)
        phi = jnp.einsum("ps,qs->pq", self.chances[None, :] * features, features[:k])
        return Measured(outputs, phi, gradients, alignment, own)

    def vectors(self, state: State) -> Vectors:
        """The fields of the recorded samples over all neurons, such that plain means over them are the kernels."""
        features, slopes = self.fields(state, slice(None))
        g, pseudo = self._signals(features, slopes, self.outputs(features, state), state)
        k, outputs = self.recorded, len(state.readout)
        weights = jnp.sqrt(self.chances * len(self.chances))
        features, slopes = (field[:k] * weights[None] for field in (features, slopes))
        g, pseudo = (field[:k] * weights[None, None] for field in (g, pseudo))
        if self.feedback is None and not self.hebb:
            return Vectors(features, g, pseudo)
        # w of every output is a direction of its own, on another set of neurons of the same number.
        rest = jnp.einsum("ps,cd->pcds", state.rest * slopes, jnp.eye(outputs)).reshape(k, outputs, -1)
        both = [jnp.concatenate(parts, axis=-1) for parts in ((g, rest), (pseudo, jnp.zeros_like(rest)))]
        g, pseudo = (math.sqrt(1 + outputs) * part for part in both)
        return Vectors(features, g, pseudo)

    def neurons(self, state: State, count: int) -> Neurons:
        """The first so many of them; w is not drawn."""
        h = state.preactivations[: self.recorded, :count]
        if self.biases is not None:
            h = h + self.biases[None, :count]
        return Neurons(h, state.readout[:, :count], state.rest)

    def _signals(
        self,
        features: Float[Array, "all s"],
        slopes: Float[Array, "all s"],
        outputs: Float[Array, "all c"],
        state: State,
    ) -> tuple[Float[Array, "all c s"], Float[Array, "k c s"]]:
        """g without its part along w, and gt of the recorded samples."""
        k = self.recorded
        g = slopes[:, None, :] * state.readout[None, :, :]
        if self.hebb:
            delta = self.errors(outputs[: len(self.targets)], self.targets)[:k]
            return g, delta[:, :, None] * features[:k, None, :]
        if self.feedback is not None:
            return g, slopes[:k, None, :] * self.feedback[None, :, :]
        return g, g[:k]

    def _inner(self, left: Float[Array, "p c s"], right: Float[Array, "q c s"]) -> Float[Array, "p c q c"]:
        kernel: Array = jnp.einsum("pas,qbs->paqb", self.chances[None, None, :] * left, right)
        return kernel


class Steps(eqx.Module):
    """Discrete steps: Q <- m Q + (1 - m)(G - lambda W), W <- W + eta Q + sqrt(2 eta T) xi, as in `SGD`."""

    process: Process
    rates: Float[Array, " steps"]
    batches: Int[Array, "steps b"] | None
    momentum: Float[Array, ""]
    temperature: Float[Array, ""]
    key: Array
    noisy: bool = eqx.field(static=True)

    def step(self, number: Array, carry: tuple[State, State]) -> tuple[State, State]:
        """The state and the velocity Q after a step."""
        state, velocity = carry
        process, m = self.process, self.momentum
        drive = process.direction(state, None if self.batches is None else self.batches[number])
        velocity = jax.tree.map(lambda q, g, v: m * q + (1 - m) * (g - process.decay * v), velocity, drive, state)
        state = jax.tree.map(lambda v, q: v + self.rates[number] * q, state, velocity)
        return (self._shaken(number, state, velocity) if self.noisy else state), velocity

    def _shaken(self, number: Array, state: State, velocity: State) -> State:
        """With noise on every weight; on the output's bias it averages out."""
        amount = jnp.sqrt(2 * self.rates[number] * self.temperature)
        rank, outputs = self.process.noise_root.shape[1], len(state.readout)
        neurons = state.readout.shape[1]
        fresh = jax.random.normal(jax.random.fold_in(self.key, number), (rank + outputs, neurons), state.readout.dtype)
        known = [state.preactivations, state.readout, velocity.preactivations, velocity.readout]
        if self.process.feedback is not None:
            known.append(self.process.feedback)
        fresh = _matched(fresh, jnp.concatenate(known))
        return dataclasses.replace(
            state,
            preactivations=state.preactivations + amount * (self.process.noise_root @ fresh[:rank]),
            readout=state.readout + amount * fresh[rank:],
        )


def _matched(fresh: Float[Array, "n s"], known: Float[Array, "m s"]) -> Float[Array, "n s"]:
    """Unit variances, no correlations with one another or with the fields so far.

    Second moments of linear networks follow from those before the step, so that they are exact.
    """
    lengths = jnp.sqrt(jnp.mean(known**2, axis=1, keepdims=True))
    known = known / jnp.where(lengths > 0, lengths, 1.0)
    inverse = jnp.linalg.pinv(known @ known.T, rtol=1e-12, hermitian=True)
    for _ in range(2):
        fresh = fresh - (fresh @ known.T) @ inverse @ known
    factor = jnp.linalg.cholesky(fresh @ fresh.T / fresh.shape[1])
    return jax.scipy.linalg.solve_triangular(factor, fresh, lower=True)


@eqx.filter_jit
def advance(
    steps: Steps, carry: tuple[State, State], start: Array, stop: Array
) -> tuple[tuple[State, State], Measured]:
    """Make the steps start .. stop - 1, and measure."""
    last: tuple[State, State] = jax.lax.fori_loop(start, stop, lambda n, carry: steps.step(n, carry), carry)
    return last, steps.process.measure(last[0])


class Layout:
    """How many Gaussian numbers a neuron begins with, and what they become."""

    def __init__(self, problem: Problem) -> None:
        network, rule = problem.network, problem.rule
        self.problem = problem
        self.inputs = problem.samples.kernel(everything=True)
        self.outputs = problem.samples.outputs
        bias = network.bias_scales[0] ** 2
        noise = bool(problem.optimiser.shakes)
        # Biases that stand still are a field of their own only where the weights do not.
        self.apart = freezes_biases(network, problem.optimiser)
        self.hidden = root(network.weight_scales[0] ** 2 * self.inputs + (0.0 if self.apart else bias), thin=True)
        self.gate = root(self.inputs, thin=True) if isinstance(rule, GatedLinear) else np.zeros((len(self.inputs), 0))
        shaken = self.inputs + (1.0 if network.train_biases else 0.0)
        self.noise_root = root(shaken, thin=True) if noise else np.zeros((len(self.inputs), 1))
        top = 0 if isinstance(rule, Hebb) else self.outputs
        self.counts = (self.hidden.shape[1], int(self.apart), self.gate.shape[1], top)

    @property
    def dimensions(self) -> int:
        """Number of Gaussian numbers."""
        return sum(self.counts)

    def start(self, points: Floats, chances: Floats | None) -> tuple[Process, State]:
        """Neurons from standard normals (dimension, neuron); chances None: all alike."""
        problem, network = self.problem, self.problem.network
        phi = network.phi
        hidden, bias, gate, top = np.split(points, np.cumsum(self.counts)[:-1])
        h = self.hidden @ hidden
        biases = network.bias_scales[0] * bias[0] if self.apart else None
        gates = None
        if isinstance(problem.rule, GatedLinear):
            gates = np.asarray(phi.derivative(1)(jnp.asarray(self.gate @ gate)))
        if chances is None:
            # The first outputs vanish: the readout knows nothing of the features yet.
            shifted = h if biases is None else h + biases
            features = gates * h if gates is not None else np.asarray(phi(jnp.asarray(shifted)))
            top = matched(top, [np.ones((1, points.shape[1])), points[: len(points) - len(top)], features])
            chances = np.full(points.shape[1], 1 / points.shape[1])
        feedback, readout, rest = self._top(top, points.shape[1])
        train = problem.samples.samples
        process = Process(
            chances=jnp.asarray(chances),
            kernel=jnp.asarray(self.inputs[:, :train] + (1.0 if network.train_biases else 0.0)),
            noise_root=jnp.asarray(self.noise_root),
            targets=jnp.asarray(problem.samples.y),
            feedback=None if feedback is None else jnp.asarray(feedback),
            gates=None if gates is None else jnp.asarray(gates),
            biases=None if biases is None else jnp.asarray(biases),
            richness=jnp.asarray(network.richness, float),
            decay=jnp.asarray(getattr(problem.optimiser, "weight_decay", 0.0), float),
            rows=jnp.asarray(problem.kernel_rows),
            phi=phi,
            loss=problem.loss,
            hebb=isinstance(problem.rule, Hebb),
            biased=network.train_biases,
            recorded=problem.recorded_samples,
        )
        offset = jnp.zeros(self.outputs)
        return process, State(jnp.asarray(h), jnp.asarray(readout), jnp.asarray(rest, float), offset)

    def _top(self, top: Floats, count: int) -> tuple[Floats | None, Floats, float]:
        """Feedback q, the readout's part z', and the standard deviation of the rest w."""
        scale, rule = self.problem.network.weight_scales[1], self.problem.rule
        if isinstance(rule, FeedbackAlignment):
            rho = rule.correlation
            return scale * top, rho * scale * top, scale * math.sqrt(1 - rho**2)
        if isinstance(rule, DirectFeedbackAlignment):
            return top, np.zeros_like(top), scale
        if isinstance(rule, Hebb):
            return None, np.zeros((self.outputs, count)), scale
        return None, scale * top, 0.0


def discrete(process: Process, optimiser: SGD, samples: int, seed: int) -> Steps:
    """The steps of an optimiser."""
    batches: Any = optimiser.batches(samples)
    return Steps(
        process=process,
        rates=jnp.asarray(optimiser.rates()),
        batches=None if batches is None else jnp.asarray(batches),
        momentum=jnp.asarray(optimiser.momentum, float),
        temperature=jnp.asarray(optimiser.temperature, float),
        key=jax.random.key(seed),
        noisy=bool(optimiser.temperature),
    )
