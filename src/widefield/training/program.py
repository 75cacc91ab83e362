"""The one training program: forward pass, error, pseudo-gradient, weight update.

It runs on any `Substrate`. On `Dense` matrices it trains a real network; on matrices of infinite size it solves the
mean-field equations. Layer l of the network is population l - 1 of the substrate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..activations import Activation
from ..base.numbers import Number, root
from ..matrices.substrate import Backward, Forward, Gradients, OuterProducts, State, Substrate, Weights, inner
from ..problem.layer_rates import LayerRates
from ..problem.network import MLP
from ..problem.optimisers import Values
from ..problem.problem import Problem
from ..problem.rules import LearningRule, hidden, true_gradient
from .steps import Moment as Moment
from .steps import Rows, Steps


class Program(Steps):
    """A problem, ready to run on a substrate.

    `inputs` are the training rows and then the test rows of x / sqrt(D), in the coordinates of
    `Samples.reduced`; `ratios` are the N_l/N_L.
    Code is compiled for shapes, the architecture and the kinds of loss, rule and optimiser; their numbers are arrays.
    """

    inputs: Float[Array, "all r"]
    network: MLP
    phi: Activation = eqx.field(static=True)
    rule: LearningRule

    def start(self, substrate: Substrate) -> State:
        """Draw all weights."""
        depth, scales = self.network.hidden_layers, self.network.weight_scales
        inputs, outputs = self.inputs.shape[1], self.targets.shape[1]
        drawn, substrate = self.initial_weights(substrate)
        weights: Weights = {**self.beside(), **drawn}
        for layer in range(1, depth):
            substrate = substrate.with_matrix(
                hidden(layer),
                layer - 1,
                layer,
                scales[layer],
                adjoint=self.rule.exact,
                shakes=self.optimiser.shakes,
            )
        frozen, substrate = self.rule.frozen(self.network, inputs, outputs, substrate)
        nothing = jnp.zeros((self.inputs.shape[0], outputs), self.inputs.dtype)
        state = State(weights, None, frozen, substrate, nothing)
        state = dataclasses.replace(state, memory=self.memory(state))
        if not self.network.centred:
            return state
        forward, state = self.forward(state, slice(None))
        return dataclasses.replace(state.settled(), initial_outputs=forward.outputs)

    def initial_weights(self, substrate: Substrate) -> tuple[Weights, Substrate]:
        """Input weights, readout and biases at t = 0; a substrate that has drawn them gives the same again."""
        depth, scales, outputs = self.network.hidden_layers, self.network.weight_scales, self.targets.shape[1]
        first, substrate = substrate.gaussian("input", 0, self.inputs.shape[1])
        last, substrate = substrate.gaussian("readout", depth - 1, outputs)
        weights = {"input": scales[0] * first, "readout": scales[-1] * last}
        if self.network.has_biases:
            for layer, scale in enumerate(self.network.bias_scales, 1):
                # The output's bias is kept as a vector over the last layer whose mean counts: see `outputs`.
                population, count = (layer - 1, 1) if layer <= depth else (depth - 1, outputs)
                bias, substrate = substrate.gaussian(bias_name(layer), population, count)
                weights[bias_name(layer)] = scale * bias
        return weights, substrate

    def beside(self) -> Weights:
        """What else learns beside the weights."""
        return {}

    def forward(self, state: State, rows: Rows) -> tuple[Forward, State]:
        """Fields and outputs of some of the samples (BP22 eq. (1))."""
        substrate, weights = state.substrate, state.weights
        x = self.inputs[rows]
        h = x @ weights["input"]
        preactivations: list[Array] = []
        features: list[Array] = []
        slopes: list[Array] = []
        for layer in range(1, self.network.hidden_layers + 1):
            if layer > 1:
                h, substrate = substrate.apply(hidden(layer - 1), features[-1])
            if self.network.has_biases:
                h = h + weights[bias_name(layer)]
            feature, slope = self.rule.nonlinearity(self.phi, layer, h, x, state.frozen)
            preactivations.append(h)
            features.append(feature)
            slopes.append(slope)
        outputs = self.outputs(features[-1], state, rows)
        return Forward(tuple(preactivations), tuple(features), tuple(slopes), outputs), state.on(substrate)

    def outputs(self, features: Float[Array, "p n"], state: State, rows: Rows) -> Float[Array, "p c"]:
        """f = [<w, phi(h^L)> + <b^L, 1>] / gamma_0: the output's bias reads a constant feature."""
        outputs = inner(features, state.weights["readout"])
        if self.network.has_biases:
            bias = state.weights[bias_name(self.network.hidden_layers + 1)]
            outputs = outputs + jnp.mean(bias, axis=1)[None, :]
        return outputs / self.richness - state.initial_outputs[rows]

    def gradient(self, state: State, rows: Rows) -> tuple[Values, Float[Array, ""], State]:
        """dW/dt of all that learns from some of the samples (BP23 eq. (2)), and their loss."""
        forward, state = self.forward(state, rows)
        targets = self.targets[rows]
        errors = self.errors(forward.outputs, targets)
        pseudo, state = self.rule.pseudo_gradient(errors[:, None, :], errors, forward, state)
        directions, state = self._directions(rows, forward, errors, pseudo, jnp.ones_like(errors[:, 0]), state)
        return directions, self.loss.total(forward.outputs, targets), state.settled()

    @property
    def one_pass(self) -> bool:
        """Whether the fields of a step are all that there is to measure, see `passes`."""
        alone = self.inputs.shape[0] == self.targets.shape[0] and self.targets.shape[1] == 1
        return alone and self.rule.exact and self.optimiser.from_one_gradient

    def passes(self, state: State) -> tuple[Values, Float[Array, ""], Forward, Backward, State]:
        """Directions and loss of the full batch as in `gradient`, from the gradients of the one output there is."""
        rows = slice(None)
        forward, state = self.forward(state, rows)
        errors = self.errors(forward.outputs, self.targets)
        backward, state = true_gradient(jnp.ones_like(errors)[:, :, None], forward, state)
        directions, state = self._directions(rows, forward, errors, backward.gradients, errors[:, 0], state)
        return directions, self.loss.total(forward.outputs, self.targets), forward, backward, state.settled()

    @property
    def trained(self) -> list[str]:
        """Names of the vectors that learn."""
        biases = range(1, self.network.hidden_layers + 2) if self.network.train_biases else ()
        return ["input", "readout", *map(bias_name, biases)]

    @property
    def learning(self) -> Mapping[str, int | None]:
        """Vectors with their populations, then matrices."""
        matrices = (hidden(layer) for layer in range(1, self.network.hidden_layers))
        return {name: self.population(name) for name in self.trained} | dict.fromkeys(matrices)

    def rate_of(self, name: str) -> Number:
        """w_l or b_l."""
        return self.layer_rates[name]

    def _directions(
        self,
        rows: Rows,
        forward: Forward,
        errors: Float[Array, "p c"],
        pseudo: Gradients,
        weights: Float[Array, " p"],
        state: State,
    ) -> tuple[Values, State]:
        """dW/dt of all that learns, with its rate; `weights` times the signal of `pseudo` is sum_c Delta_c gtilde_c."""
        first, rates = weights[:, None] * pseudo[0][:, 0, :], self.layer_rates
        directions: Values = {
            "input": rates["input"] * self.strength(1) * (self.inputs[rows].T @ first),
            "readout": rates["readout"] * self.richness * (errors.T @ forward.features[-1]),
        }
        if self.network.train_biases:
            for layer, g in enumerate(pseudo, 1):
                strength = rates[bias_name(layer)] * self.strength(layer)
                directions[bias_name(layer)] = strength * (weights[None, :] @ g[:, 0, :])
            constant, last = jnp.ones_like(forward.features[-1]), bias_name(len(pseudo) + 1)
            directions[last] = rates[last] * self.richness * (errors.T @ constant)
        substrate = state.substrate
        for layer in range(1, self.network.hidden_layers):
            strength = rates[hidden(layer)] * self.strength(layer + 1)
            outer = OuterProducts(pseudo[layer], forward.features[layer - 1], weights, strength)
            directions[hidden(layer)], substrate = substrate.direction(hidden(layer), outer)
        return directions, state.on(substrate)

    def strength(self, layer: int) -> Float[Array, ""]:
        """gamma_0 sqrt(N/N_l): how strongly the weights into layer l follow its pseudo-gradient (BP22 D.8)."""
        return self.richness / root(self.ratios[layer - 1])

    @property
    def layer_rates(self) -> LayerRates:
        """w_l and b_l: factors on the directions of all weights and biases."""
        return self.optimiser.layer_rates(self.network)

    def population(self, name: str) -> int:
        """Population over which a vector of weights lives."""
        last = self.network.hidden_layers - 1
        if name.startswith("bias"):
            return min(int(name.split()[1]) - 1, last)
        return 0 if name == "input" else last


def bias_name(layer: int) -> str:
    """Name of the biases of the preactivations of a layer (layer L + 1: of the outputs)."""
    return f"bias {layer}"


def compile_problem(
    problem: Problem, richness: float, ratios: tuple[Number, ...], dtype: str, kind: type[Program] = Program
) -> Program:
    """Put the arrays of a problem where the program needs them.

    `richness` is the gamma_0 and `ratios` the N_l/N_L that apply at the width in question; `kind` is the program.
    """
    train, test = problem.samples.reduced()
    return kind(
        inputs=jnp.concatenate([jnp.asarray(train, dtype), jnp.asarray(test, dtype)]),
        targets=jnp.asarray(problem.samples.y, dtype),
        richness=jnp.asarray(richness, dtype),
        network=problem.network.in_program(problem.samples.outputs),
        phi=problem.network.phi,
        loss=problem.loss,
        rule=problem.rule,
        optimiser=problem.optimiser.in_layers(problem.network).in_program(),
        ratios=ratios,
    )
