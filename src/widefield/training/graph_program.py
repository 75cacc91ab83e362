"""The training program of any network: forward pass, error, backward pass and weight update follow from its graph.

With a = n/N of a population, cotangents hhat of the outputs' errors and gamma_0, parameters move by

    vectors              gamma_0/a hhat, summed over samples
    a matrix, y = W v    `OuterProducts` left = yhat, right = v, strength = gamma_0/a_t; all its uses together
    a matrix, y = W^T u  left = sqrt(a_t/a_s) u, right = yhat
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.numbers import Number
from ..graphs.plan import Plan, run
from ..graphs.sources import Blank, Live
from ..graphs.tangent import factors
from ..graphs.tape import Cotangents, Tape
from ..matrices.substrate import OuterProducts, State, Substrate, Weights
from ..problem.optimisers import Values
from ..problem.problem import Problem
from .steps import Rows, Steps


class Pass(eqx.Module):
    """A forward pass: the outputs f, and of which value of the tape they were made."""

    outputs: Float[Array, "p c"]
    index: int = eqx.field(static=True)


class GraphProgram(Steps):
    """A problem with any network; populations are those of its plan, in that order."""

    plan: Plan = eqx.field(static=True)

    def start(self, substrate: Substrate) -> State:
        """Draw all vectors in the order in which the network asks for them, and declare its matrices."""
        tape, _ = run(self.network, Blank(str(self.inputs.dtype)), self.inputs[:1], self.plan.outputs)
        weights: Weights = {}
        frozen: Weights = {}
        for name, spec in tape.vector_specs.items():
            drawn, substrate = substrate.gaussian(name, spec.population.index, spec.count)
            (weights if spec.trained else frozen)[name] = spec.mean + spec.scale * drawn
        for name, matrix in tape.matrix_specs.items():
            shakes = self.optimiser.shakes if matrix.trained else 0
            ends = matrix.source.index, matrix.target.index
            substrate = substrate.with_matrix(name, *ends, matrix.scale, adjoint=True, shakes=shakes)
        nothing = jnp.zeros((self.inputs.shape[0], self.targets.shape[1]), self.inputs.dtype)
        state = State(weights, None, frozen, substrate, nothing)
        state = dataclasses.replace(state, memory=self.memory(state))
        if not self.network.centred:
            return state
        _, found, state = self.forward(state, slice(None))
        return dataclasses.replace(state.settled(), initial_outputs=found.outputs)

    @property
    def learning(self) -> Mapping[str, int | None]:
        """Vectors with their populations, then matrices."""
        vectors = {spec.name: spec.population.index for spec in self.plan.vectors if spec.trained}
        return vectors | dict.fromkeys(spec.name for spec in self.plan.matrices if spec.trained)

    def forward(self, state: State, rows: Rows) -> tuple[Tape, Pass, State]:
        """The tape of some of the samples, and outputs f = F / gamma_0."""
        source = Live(state.substrate, {**state.weights, **state.frozen})
        tape, out = run(self.network, source, self.inputs[rows], self.plan.outputs)
        outputs = tape.values[out.index][..., 0] / self.richness - state.initial_outputs[rows]
        return tape, Pass(outputs, out.index), state.on(source.substrate)

    def backward(
        self, tape: Tape, found: Pass, signals: Float[Array, "p k c"], state: State, *, apart: bool = False
    ) -> tuple[Cotangents, State]:
        """Cotangents of signals of the outputs; of parameters for every sample if they stay `apart`."""
        cotangents = tape.backward({found.index: signals[..., None]}, self.ratios, apart=apart)
        source = tape.source
        assert isinstance(source, Live)
        return cotangents, state.on(source.substrate)

    def gradient(self, state: State, rows: Rows) -> tuple[Values, Float[Array, ""], State]:
        """dW/dt of all that learns from some of the samples, and their loss."""
        tape, found, state = self.forward(state, rows)
        targets = self.targets[rows]
        errors = self.errors(found.outputs, targets)
        cotangents, state = self.backward(tape, found, errors[:, None, :], state)
        directions, state = self.directions(tape, cotangents, state)
        return directions, self.loss.total(found.outputs, targets), state.settled()

    def directions(self, tape: Tape, cotangents: Cotangents, state: State) -> tuple[Values, State]:
        """dW/dt of all that learns, from the cotangents of the errors."""
        found: Values = {}
        for spec in self.plan.vectors:
            if spec.trained:
                hat = cotangents[tape.vector_at[spec.name]]
                rows = jnp.reshape(hat, (spec.count, hat.shape[-1]))
                found[spec.name] = self.strength(spec.population.index) * rows
        substrate = state.substrate
        for matrix in self.plan.matrices:
            if matrix.trained:
                outer = self._outer(tape, cotangents, matrix.name, self.strength(matrix.target.index))
                found[matrix.name], substrate = substrate.direction(matrix.name, outer)
        return found, state.on(substrate)

    def strength(self, population: int) -> Float[Array, ""]:
        """gamma_0 N/n: how strongly what belongs to a population follows its cotangents."""
        return self.richness / self.ratios[population]

    def _outer(self, tape: Tape, cotangents: Cotangents, name: str, strength: Float[Array, ""]) -> OuterProducts:
        uses = [(k, use) for k, use in tape.uses if use.spec.name == name and k in cotangents]
        if len(uses) == 1 and not uses[0][1].transposed:  # the very arrays that the matrix was asked about
            index, use = uses[0]
            left, right = cotangents[index], tape.values[use.input]
        else:
            pairs = [factors(tape, cotangents, index, use, self.ratios) for index, use in uses]
            left, right = (
                jnp.concatenate([jnp.reshape(part, (-1, part.shape[-1])) for part in parts])
                for parts in zip(*pairs, strict=True)
            )
        count = left.size // left.shape[-1]
        return OuterProducts(left, right, jnp.ones(count, left.dtype), strength)


def compile_graph(problem: Problem, richness: float, ratios: tuple[Number, ...], dtype: str) -> GraphProgram:
    """Put the arrays of a problem where the program needs them; `richness` and `ratios` apply at the width meant."""
    samples, plan = problem.samples, problem.plan
    if plan.reducible:
        inputs = jnp.concatenate([jnp.asarray(part, dtype) for part in samples.reduced()])
    else:
        inputs = jnp.asarray(samples.everything / samples.dimension**0.5, dtype)
    return GraphProgram(
        inputs=inputs,
        targets=jnp.asarray(samples.y, dtype),
        richness=jnp.asarray(richness, dtype),
        network=problem.network.in_program(samples.outputs),
        loss=problem.loss,
        optimiser=problem.optimiser.in_program(),
        ratios=ratios,
        plan=plan,
    )
