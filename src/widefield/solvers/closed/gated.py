"""Gated linear networks: given its gates every neuron is linear, so that averages over gates are all that is left.

For one pattern of gates d = phi'(m) (BP23 App. E; phi(h) = d h, g = d z), h = u + K1 d z and z = r + K2 d h with

    K1 = w a^{l-1} + gamma_l m(t, s) [Phi^{l-1} + biases] Delta,        K2 = w b^l + gamma_l m(t, s) G^{l+1} Delta

All fields are kept as coefficients of the sources u, r, row after row in time; kernels are quadratic forms in them,
responses are the coefficients themselves, both averaged over patterns. Time O(2^P L P^3 T^3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Floats
from ...gaussian.roots import root
from .causal import Causal
from .gates import Gates
from .setting import Setting
from .solution import Solution, TwoTime


class GatedSweep(Causal):
    """The state of the pass. Rows are t P + mu (features) or (t P + mu) C + c (gradients); lists run over layers."""

    def __init__(self, setting: Setting, gates: Gates) -> None:
        self.setting, self.gates = setting, gates
        layers, times, samples, outputs = setting.layers, setting.times, setting.samples, setting.outputs
        self.n, self.m = times * samples, times * samples * outputs
        self.outputs = np.zeros((times, samples, outputs))
        self.errors = np.zeros(self.m)
        self.step_of_row, self.step_of_column = (np.repeat(np.arange(times), k) for k in (samples, samples * outputs))
        self.feature_gate = np.tile(gates.values, (1, times))[:, :, None]
        self.gradient_gate = np.tile(np.repeat(gates.values, outputs, axis=1), (1, times))[:, :, None]
        patterns, size = len(gates.chances), self.n + self.m

        def arrays(*shape: int) -> list[Floats]:
            return [np.zeros(shape) for _ in range(layers + 2)]

        self.features, self.gradients = arrays(self.n, self.n), arrays(self.m, self.m)
        self.features[0][:] = np.tile(setting.kernel, (times, times))
        self.gradients[-1][:] = np.tile(np.eye(outputs), (times * samples, times * samples))
        self.forward, self.backward = arrays(self.n, self.m), arrays(self.m, self.n)  # a^l; b^{l-1} = dg^l/du^l
        self.feature, self.gradient = arrays(patterns, self.n, size), arrays(patterns, self.m, size)  # phi, g
        self.sources = arrays(size, size)

    def _step(self, step: int) -> None:
        for layer in range(1, self.setting.layers + 1):
            self._forward(step, layer)
        for layer in range(self.setting.layers, 0, -1):
            self._backward(step, layer)

    def _forward(self, step: int, layer: int) -> None:
        setting, outputs = self.setting, self.setting.outputs
        (now, upto), (_, past) = self._slices(step, setting.samples), self._slices(step - 1, setting.samples * outputs)
        source = setting.weights[layer - 1][step, self.step_of_row[upto]] * self.features[layer - 1][now, upto]
        source = source + setting.biases[layer - 1][step, self.step_of_row[upto]]
        self.sources[layer][now, upto], self.sources[layer][upto, now] = source, source.T
        steps = self.step_of_column[past]
        below = self.features[layer - 1][now, : step * setting.samples]
        kernel = np.repeat(setting.moved(layer - 1, below), outputs, axis=1)
        K1 = setting.strength(layer) * setting.memory.gradient[step, steps] * kernel * self.errors[past]
        echo = setting.echo(layer - 1, layer) * setting.weights[layer - 1][step, steps]
        K1 = K1 + echo * self.forward[layer - 1][now, past]
        h = K1 @ self.gradient[layer][:, past]
        h[:, :, now] += np.eye(setting.samples)
        phi = self.feature[layer]
        phi[:, now] = self.feature_gate[:, now] * h
        row = self._mean(phi[:, now], layer, phi[:, upto])
        self.features[layer][now, upto], self.features[layer][upto, now] = row, row.T
        self.forward[layer][now] = np.tensordot(self.gates.chances, phi[:, now, self.n :], axes=1)

    def _backward(self, step: int, layer: int) -> None:
        setting, each = self.setting, self.setting.samples * self.setting.outputs
        (now, upto), (features_now, features_upto) = self._slices(step, each), self._slices(step, setting.samples)
        source = setting.weights[layer][step, self.step_of_column[upto]] * self.gradients[layer + 1][now, upto]
        own = self.sources[layer][self.n :, self.n :]
        own[now, upto], own[upto, now] = source, source.T
        steps = self.step_of_row[features_upto]
        errors = self.gradients[layer + 1][now, upto] * self.errors[upto]
        strength = setting.updated(layer) * setting.strength(layer)
        K2 = strength * setting.memory.gradient[step, steps] * _over_outputs(errors, setting.outputs)
        if layer < setting.layers:
            echo = setting.echo(layer + 1, layer) * setting.weights[layer][step, steps]
            K2 = K2 + echo * self.backward[layer + 1][now, features_upto]
        phi, g = self.feature[layer], self.gradient[layer]
        z = K2 @ phi[:, features_upto]
        z[:, :, self.n + now.start : self.n + now.stop] += np.eye(each)
        g[:, now] = self.gradient_gate[:, now] * z
        if layer == setting.layers:
            self._output(step, self._mean(z, layer, phi[:, features_now]))
        row = self._mean(g[:, now], layer, g[:, upto])
        self.gradients[layer][now, upto], self.gradients[layer][upto, now] = row, row.T
        self.backward[layer][now] = np.tensordot(self.gates.chances, g[:, now, : self.n], axes=1)

    def _output(self, step: int, product: Floats) -> None:
        """gamma_0 f = <z phi>, and the errors that follow."""
        setting, samples, outputs = self.setting, self.setting.samples, self.setting.outputs
        errors = self.errors.reshape(setting.times, samples, outputs)
        biases = np.einsum("s,spc->c", setting.memory.gradient[step], errors)
        diagonal = np.einsum("pcp->pc", product.reshape(samples, outputs, samples))
        self.outputs[step] = diagonal / setting.richness + setting.rates.biases[-1] * biases
        errors[step] = setting.batches[step][:, None] * setting.errors(self.outputs[step])

    def _mean(self, left: Floats, layer: int, right: Floats) -> Floats:
        """Average over patterns of the covariance of two sets of fields."""
        products = (left @ self.sources[layer]) @ np.swapaxes(right, 1, 2)
        return np.asarray(np.tensordot(self.gates.chances, products, axes=1))

    @staticmethod
    def _slices(step: int, each: int) -> tuple[slice, slice]:
        """Rows of this step, and of all up to it."""
        return slice(step * each, (step + 1) * each), slice(0, (step + 1) * each)

    def solution(self, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""
        times, samples, outputs = self.setting.times, self.setting.samples, self.setting.outputs
        features = [kernel.reshape(times, samples, times, samples) for kernel in self.features[1:-1]]
        gradients = [
            kernel.reshape(times, samples, outputs, times, samples, outputs) for kernel in self.gradients[1:-1]
        ]
        feature = np.array([[kernel[t, :, t] for kernel in features] for t in steps])
        gradient = np.array([[kernel[t, :, :, t] for kernel in gradients] for t in steps])
        return Solution(self.outputs, feature, gradient, gradient, gradient)

    def two_time(self, steps: NDArray[np.int64]) -> TwoTime:
        """Kernels and responses between all recorded times."""
        setting, samples, outputs, count = self.setting, self.setting.samples, self.setting.outputs, len(steps)
        each = samples * outputs
        rows, columns = ((steps[:, None] * k + np.arange(k)).ravel() for k in (samples, each))
        layers, initial = range(1, setting.layers + 1), setting.memory.initial[steps]
        features = [root(self.features[k][np.ix_(rows, rows)], thin=True).reshape(count, samples, -1) for k in layers]
        gradients = [
            root(self.gradients[k][np.ix_(columns, columns)], thin=True).reshape(count, samples, outputs, -1)
            for k in layers
        ]
        forward: list[tuple[Floats, Floats]] = []
        backward: list[tuple[Floats, Floats]] = []
        unit_rows = np.eye(len(rows)).reshape(count, samples, -1)
        unit_columns = np.eye(len(columns)).reshape(count, samples, outputs, -1)
        for k in layers[:-1]:
            a = setting.echo(k, k + 1) * setting.variances[k] * self.forward[k][np.ix_(rows, columns)]
            forward.append(((a * np.repeat(initial, each)).reshape(count, samples, -1), unit_columns))
            b = setting.echo(k + 1, k) * setting.variances[k] * self.backward[k + 1][np.ix_(columns, rows)]
            backward.append(((b * np.repeat(initial, samples)).reshape(count, samples, outputs, -1), unit_rows))
        responses = {"feature_response": forward, "gradient_response": backward} if forward else {}
        return TwoTime(features, gradients, None, responses)


def _over_outputs(values: Floats, outputs: int) -> Floats:
    """Sum over the output index of the columns."""
    return np.asarray(values.reshape(len(values), -1, outputs).sum(axis=2))
