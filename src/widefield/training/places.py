"""What is measured of networks that are graphs: outputs, losses, the tangent kernel, kernels of named fields."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..graphs.parts import SCALARS
from ..graphs.plan import Place
from ..graphs.tangent import tangent_kernel
from ..graphs.tape import Cotangents, Tape
from ..matrices.substrate import State, inner
from .graph_program import GraphProgram
from .measuring import Measured, Measuring


class PlaceObserver(Measuring):
    """Measures a state of a `GraphProgram`: `<what>:<name>` of every field that the network names.

    Kernels have rows and columns for samples and positions, those of gradients for outputs too: (q, *at, k, *at),
    (q, c, *at, k, c, *at). Scalars are recorded as they are.
    """

    program: GraphProgram

    @property
    def places(self) -> tuple[Place, ...]:
        """Named fields over neurons."""
        return tuple(place for place in self.program.plan.places if place.population != SCALARS)

    @property
    def scalars(self) -> tuple[Place, ...]:
        """Named scalars."""
        return tuple(place for place in self.program.plan.places if place.population == SCALARS)

    def numbers(self, widths: tuple[int, ...]) -> int:
        """How many numbers a record has, in populations of these widths (or numbers of particles)."""
        record, outputs = self.record, self.program.targets.shape[1]
        train, test = self.program.targets.shape[0], self.test_targets.shape[0]
        k, rows = self.recorded, len(record.kernel_rows(train, test))
        count = (k + test) * outputs + 2 + 2 * len(self.program.plan.matrices)
        count += (k + test) * sum(math.prod(place.shape) for place in self.scalars)
        for place in self.places:
            at, n = math.prod(place.shape), widths[place.population.index]
            count += record.kernels * rows * k * at**2 * (1 + outputs**2)
            count += min(record.neurons, n) * k * at * (1 + outputs)
        return count + record.kernels * rows * k * outputs**2

    numbers_without_fields = numbers

    def __call__(self, state: State) -> tuple[Measured, State]:
        """Everything that the record asks for."""
        program, record = self.program, self.record
        tape, found, state = program.forward(state, slice(None))
        measured = self.predictions(found.outputs, state)
        for place in self.scalars:
            value = self._everywhere(tape, place)[..., 0]
            measured |= {f"{part.prefix}scalar:{place.name}": value[part.kept] for part in self.parts}
        if not (record.kernels or record.neurons):
            return measured, state.settled()
        train, test = program.targets.shape[0], self.test_targets.shape[0]
        rows = jnp.asarray(record.kernel_rows(train, test))
        tape.only(rows)
        identity = jnp.eye(program.targets.shape[1], dtype=program.inputs.dtype)
        signals = jnp.broadcast_to(identity, (len(rows), *identity.shape))
        cotangents, state = program.backward(tape, found, signals, state, apart=True)
        for place in self.places:
            if record.kernels:
                measured |= self._kernels(tape, cotangents, place)
            if record.neurons:
                field = self._everywhere(tape, place)[: self.recorded]
                measured[f"field:{place.name}"] = field[..., : record.neurons]
                hat = self._cotangent(tape, cotangents, place)[: self.recorded]
                measured[f"gradient:{place.name}"] = hat[..., : record.neurons]
        if record.kernels:
            kernel = tangent_kernel(tape, cotangents, program.ratios, self.recorded)
            measured |= self.by_part("ntk", kernel)
        return measured, state.settled()

    def _kernels(self, tape: Tape, cotangents: Cotangents, place: Place) -> Measured:
        """Phi = <a, a'> and G = (N/n) <ahat, ahat'>, rows by recorded training samples."""
        field, hat = self._everywhere(tape, place), self._cotangent(tape, cotangents, place)
        gradients = inner(hat, hat[: self.recorded]) / self.program.ratios[place.population.index]
        measured = self.by_part(f"feature_kernel:{place.name}", inner(field, field[: self.recorded]))
        return measured | self.by_part(f"gradient_kernel:{place.name}", gradients)

    def _everywhere(self, tape: Tape, place: Place) -> Float[Array, "q *at n"]:
        """A field of all samples, also one that does not depend on them."""
        value = tape.values[tape.places[place.name]]
        samples = max(len(v) for v in tape.values)
        return jnp.broadcast_to(value, (samples, *value.shape[1:]))

    def _cotangent(self, tape: Tape, cotangents: Cotangents, place: Place) -> Float[Array, "q k *at n"]:
        """Of the outputs by a field; zero if they do not depend on it."""
        field, index = self._everywhere(tape, place), tape.places[place.name]
        if index in cotangents:
            return cotangents[index]
        return jnp.zeros((len(field), self.program.targets.shape[1], *field.shape[1:]), field.dtype)
