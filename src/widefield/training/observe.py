"""What is measured at a recorded time: outputs, losses, kernels, samples of the fields."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..matrices.substrate import Backward, Forward, Gradients, State, inner
from ..problem.layer_rates import LayerRates
from ..problem.rules import hidden, true_gradient
from .measuring import Measured as Measured
from .measuring import Measuring
from .program import Program

Fields = TypeVar("Fields", Forward, Backward)


class Observer(Measuring):
    """Measures a state of a `Program`, layer by layer."""

    program: Program

    def numbers(self, widths: tuple[int, ...]) -> int:
        """How many numbers a record has, in layers of these widths (or numbers of particles)."""
        fields = sum(width * sum(rows) for width, rows in zip(widths, self.field_rows(len(widths)), strict=True))
        return fields + self.numbers_without_fields(widths)

    def field_rows(self, layers: int) -> list[tuple[int, int]]:
        """Vectors over every layer for kernels between times: features with images, gradients of both kinds."""
        k, signals = self.recorded, self.recorded * self.program.targets.shape[1]
        rule, record = self.program.rule, self.record
        if not record.between_times:
            return [(0, 0)] * layers
        images = record.responses * (1 + (rule.through_weights and not rule.exact)) * signals
        gradients = signals if rule.exact else 2 * signals
        return [(k + images, gradients)] * (layers - 1) + [(k, gradients)]

    def numbers_without_fields(self, widths: tuple[int, ...]) -> int:
        """How many numbers a record has beside the fields for kernels between times."""
        record, layers = self.record, len(widths)
        outputs, train, test = self.program.targets.shape[1], self.program.targets.shape[0], self.test_targets.shape[0]
        k, rows = self.recorded, len(record.kernel_rows(train, test))
        count = (k + test) * outputs + 2 + 2 * layers
        if record.kernels:
            pairs = rows * k
            count += layers * pairs + (2 * layers + 1) * pairs * outputs**2 + layers * (k * outputs) ** 2
        return count + layers * k * (1 + outputs) * min(record.neurons, *widths)

    def __call__(self, state: State) -> tuple[Measured, State]:
        """Everything that the record asks for."""
        train, test = self.program.targets.shape[0], self.test_targets.shape[0]
        forward, state = self.program.forward(state, slice(None))
        if not (self.record.kernels or self.record.neurons or self.record.between_times):
            return self.predictions(forward.outputs, state), state.settled()
        errors = self.program.errors(forward.outputs[:train], self.program.targets)[: self.recorded]
        rows = jnp.asarray(self.record.kernel_rows(train, test))
        everywhere, trained = _rows(forward, rows), _rows(forward, jnp.arange(self.recorded))
        identity = jnp.eye(self.program.targets.shape[1], dtype=errors.dtype)
        signal = jnp.broadcast_to(identity, (len(rows), *identity.shape))
        backward, state = true_gradient(signal, everywhere, state)
        pseudo = tuple(g[: self.recorded] for g in backward.gradients)
        if not self.program.rule.exact:
            pseudo, state = self.program.rule.pseudo_gradient(signal[: self.recorded], errors, trained, state)
        found, state = self.fields(everywhere, backward, pseudo, rows, state)
        return self.predictions(forward.outputs, state) | found, state.settled()

    def of_passes(self, forward: Forward, backward: Backward, state: State) -> tuple[Measured, State]:
        """The same from the fields of a step, see `Program.one_pass`."""
        measured = self.predictions(forward.outputs, state)
        if not (self.record.kernels or self.record.neurons or self.record.between_times):
            return measured, state
        rows = jnp.arange(self.recorded)
        forward, backward = _rows(forward, rows), _rows(backward, rows)
        found, state = self.fields(forward, backward, backward.gradients, rows, state)
        return measured | found, state

    def fields(
        self, forward: Forward, backward: Backward, pseudo: Gradients, rows: Array, state: State
    ) -> tuple[Measured, State]:
        """What the record asks for beside predictions; recorded training samples are the first of the rows."""
        measured: Measured = {}
        k = self.recorded
        gradients = tuple(g[:k] for g in backward.gradients)
        if self.record.kernels:
            measured |= self._kernels(forward, backward.gradients, pseudo, rows)
        if self.record.neurons:
            measured["preactivation"] = self._first_neurons(tuple(h[:k] for h in forward.preactivations))
            measured["pregradient"] = self._first_neurons(tuple(z[:k] for z in backward.pregradients))
        if self.record.between_times:
            measured |= _by_layer("features", tuple(phi[:k] for phi in forward.features))
            measured |= _by_layer("gradients", gradients)
            if not self.program.rule.exact:
                measured |= _by_layer("pseudo_gradients", pseudo)
        if self.record.responses:
            images, state = self._images(gradients, state)
            measured |= _by_layer("images", images)
            if self.program.rule.through_weights and not self.program.rule.exact:
                images, state = self._images(pseudo, state)
                measured |= _by_layer("pseudo_images", images)
        return measured, state

    def _images(self, gradients: Gradients, state: State) -> tuple[Gradients, State]:
        """W^l(0)^T g^{l+1} / sqrt(N_{l+1}), over layers 1 to L - 1."""
        images, substrate = [], state.substrate
        for layer, g in enumerate(gradients[1:], 1):
            image, substrate = substrate.initial_transpose(hidden(layer), g)
            images.append(image)
        return tuple(images), state.on(substrate)

    def _kernels(
        self, forward: Forward, gradients: Gradients, pseudo: tuple[Float[Array, "q k _"], ...], rows: Array
    ) -> Measured:
        """Phi = <phi phi>, G = <g g>, G~ = <g gt>, G~~ = <gt gt> and the eNTK, rows by recorded training samples."""
        k = self.recorded
        features = [inner(phi, phi[:k]) for phi in forward.features]
        alignment = [inner(g, gt) for g, gt in zip(gradients, pseudo, strict=True)]
        x = self.program.inputs[rows]
        kernels = {
            "feature_kernel": jnp.stack(features),
            "gradient_kernel": jnp.stack([inner(g, g[:k]) for g in gradients]),
            "alignment_kernel": jnp.stack(alignment),
            "ntk": tangent_kernel([x @ x[:k].T, *features], alignment, self.program.layer_rates),
        }
        pseudo_kernel = jnp.stack([inner(gt, gt) for gt in pseudo])
        measured = {"pseudo_gradient_kernel": pseudo_kernel}
        for name, kernel in kernels.items():
            axis = 0 if name == "ntk" else 1
            chosen = {"": jnp.arange(k), "test_": jnp.arange(k, len(rows))}
            for part in self.parts:
                if part.kernels:
                    measured[f"{part.prefix}{name}"] = kernel.take(chosen[part.prefix], axis=axis)
        return measured

    def _first_neurons(self, fields: tuple[Float[Array, "*p _"], ...]) -> Float[Array, "l *p m"]:
        count = min(self.record.neurons, *(field.shape[-1] for field in fields))
        return jnp.stack([field[..., :count] for field in fields])


def tangent_kernel(
    features: list[Float[Array, "q p"]], alignment: list[Float[Array, "q c p c"]], rates: LayerRates
) -> Float[Array, "q c p c"]:
    """K = sum_{l=0}^{L} G~^{l+1} (w_l Phi^l + b_l) with G~^{L+1} = 1 (BP23 eq. (4), PDLT eq. (8.12))."""
    outputs = jnp.eye(alignment[0].shape[1], dtype=features[0].dtype)
    top = jnp.broadcast_to(outputs[None, :, None, :], alignment[0].shape)
    layers = zip([*alignment, top], features, rates.weights, rates.biases, strict=True)
    terms = [g * (w * phi[:, None, :, None] + b) for g, phi, w, b in layers]
    return sum(terms[1:], terms[0])


def _rows(fields: Fields, rows: Array) -> Fields:
    chosen: Fields = jax.tree.map(lambda field: field[rows], fields)
    return chosen


def _by_layer(name: str, fields: tuple[Array, ...]) -> Measured:
    # Layers may have different widths, so they cannot share an array.
    return {f"{name} {layer}": field for layer, field in enumerate(fields, 1)}
