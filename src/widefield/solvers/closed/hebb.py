"""Error-modulated Hebb in deep linear networks (BP23 App. E).

With gt_c = Delta_c h the fields are h = u + Q h, Q(t, s) = gamma_l m(t, s) [Phi^{l-1}(t, s) + biases] |Delta(s)|^2,
which is strictly causal. With R = (1 - Q)^-1 = dh/du,

    Phi^l = R U R^T,                f_c(t) = sum_s m(t, s) [Phi^L(t, s) + biases] Delta_c(s)
    E^l = e w(t, s) b^l + gamma_l m(t, s) <g^{l+1}_c(t) h^{l+1}(s)> |Delta(s)|^2,       E^L = gamma_0 m(t, s) Delta_c(s)
    <g^l h^l> = E^l Phi^l,          b^{l-1} = E^l R,               G^l = w G^{l+1} + E^l Phi^l E^l^T

Outputs and features need no gradients; those follow afterwards. Time O(L P^3 T^3), memory O(L P^2 T^2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Floats
from ...gaussian.roots import root
from .causal import Causal
from .setting import Setting
from .solution import Solution, TwoTime, for_all_samples, spread


class HebbSweep(Causal):
    """The state of the pass. Rows are t P + mu; lists are indexed by layer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        times, samples, outputs = setting.times, setting.samples, setting.outputs
        n = times * samples
        self.outputs = np.zeros((times, samples, outputs))
        self.plain = np.zeros((times, samples, outputs))  # Delta of all samples
        self.errors = np.zeros((times, samples, outputs))  # of the batch, with their weight in the loss
        self.squares = np.zeros(n)  # |Delta|^2 of the batch
        self.features = [np.zeros((n, n)) for _ in range(setting.layers + 1)]
        self.features[0][:] = np.tile(setting.kernel, (times, times))
        self.resolvent = [np.zeros((n, n)) for _ in range(setting.layers + 1)]
        self.step_of_row = np.repeat(np.arange(times), samples)

    def _step(self, step: int) -> None:
        for layer in range(1, self.setting.layers + 1):
            self._forward(step, layer)
        self._output(step)

    def _forward(self, step: int, layer: int) -> None:
        """h(t) = u(t) + Q(t, < t) h: its derivatives dh/du, and its covariance with all earlier h."""
        setting, samples = self.setting, self.setting.samples
        now, past, upto = (slice(a * samples, b * samples) for a, b in ((step, step + 1), (0, step), (0, step + 1)))
        below, kernel, R = self.features[layer - 1], self.features[layer], self.resolvent[layer]
        left = setting.strength(layer) * setting.memory.gradient[step, self.step_of_row[past]] * self.squares[past]
        Q = left * setting.moved(layer - 1, below[now, past])
        R[now, past] = Q @ R[past, past]
        R[now, now] = np.eye(samples)
        weight, bias = (x[layer - 1][step, self.step_of_row[upto]] for x in (setting.weights, setting.biases))
        source = weight * below[now, upto] + bias
        earlier = source[:, past] @ R[past, past].T  # <u(t) h(s)>, s < t
        kernel[now, past] = earlier + Q @ kernel[past, past]
        kernel[past, now] = kernel[now, past].T
        kernel[now, now] = source @ R[now, upto].T + Q @ kernel[past, now]

    def _output(self, step: int) -> None:
        setting, samples = self.setting, self.setting.samples
        now, past = slice(step * samples, (step + 1) * samples), slice(0, step * samples)
        left = setting.memory.gradient[step, self.step_of_row[past]]
        weighted = left[:, None] * self.errors[:step].reshape(step * samples, setting.outputs)
        self.outputs[step] = setting.moved(setting.layers, self.features[-1][now, past]) @ weighted
        self.plain[step] = setting.errors(self.outputs[step])
        self.errors[step] = setting.batches[step][:, None] * self.plain[step]
        self.squares[now] = (self.errors[step] ** 2).sum(axis=1)

    def gradients(self) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """G^l(t, s) as (T C, T C), and <g^l h^l> and b^{l-1} as (T C, T P), of every hidden layer."""
        setting, outputs, times = self.setting, self.setting.outputs, self.setting.times
        wide = np.repeat(np.repeat(setting.memory.gradient, outputs, axis=0), setting.samples, axis=1)
        signal = np.einsum("spc->csp", self.errors).reshape(outputs, -1)
        moved = wide * np.tile(signal, (times, 1))  # m(t, s) Delta_c(s)
        backward = np.zeros_like(moved)
        kernel = np.tile(np.eye(outputs), (times, times))
        kernels: list[Floats] = []
        products: list[Floats] = []
        responses: list[Floats] = []
        for layer in range(setting.layers, 0, -1):
            weights = setting.weights[layer]
            over = np.repeat(np.repeat(weights, outputs, axis=0), setting.samples, axis=1)
            E = setting.echo(layer + 1, layer) * over * backward
            E = E + setting.updated(layer) * setting.strength(layer) * moved
            product = E @ self.features[layer]
            kernel = np.kron(weights, np.ones((outputs, outputs))) * kernel + product @ E.T
            backward = E @ self.resolvent[layer]
            moved = wide * product * self.squares
            kernels.insert(0, kernel)
            products.insert(0, product)
            responses.insert(0, backward)
        return kernels, products, responses

    def solution(self, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times; pseudo-gradients are those of the full batch."""
        setting = self.setting
        shape = (setting.times, setting.outputs, setting.times, setting.samples)
        signal = setting.loss.weight(len(setting.targets)) * self.plain[steps]
        kernels, products, _ = self.gradients()
        equal = [[k.reshape(*shape[:3], setting.outputs)[t, :, t] for k in kernels] for t in steps]
        gradient = for_all_samples(np.array(equal), setting.samples)
        product = np.array([[x.reshape(shape)[t, :, t] for x in products] for t in steps])
        rows = np.broadcast_to(product[:, :, None], (*product.shape[:2], setting.samples, *product.shape[2:]))
        alignment = np.einsum("rlpbq,rqc->rlpbqc", rows, signal)
        size = setting.samples
        features = [kernel.reshape(setting.times, size, setting.times, size) for kernel in self.features[1:]]
        feature = np.array([[kernel[t, :, t] for kernel in features] for t in steps])
        pseudo = np.einsum("rlpq,rpb,rqc->rlpbqc", feature, signal, signal)
        return Solution(self.outputs, feature, gradient, alignment, pseudo)

    def two_time(self, steps: NDArray[np.int64]) -> TwoTime:
        """Kernels and responses between all recorded times."""
        setting, samples, outputs, count = self.setting, self.setting.samples, self.setting.outputs, len(steps)
        kernels, products, responses = self.gradients()
        rows = (steps[:, None] * samples + np.arange(samples)).ravel()
        columns = (steps[:, None] * outputs + np.arange(outputs)).ravel()
        signal = (setting.loss.weight(len(setting.targets)) * self.plain[steps])[..., None]
        features, gradients, pseudo = [], [], []
        for kernel, product, feature in zip(kernels, products, self.features[1:], strict=True):
            mixed = product[np.ix_(columns, rows)]
            joint = np.block([[kernel[np.ix_(columns, columns)], mixed], [mixed.T, feature[np.ix_(rows, rows)]]])
            both = root(joint, thin=True)
            gradients.append(spread(both[: len(columns)], outputs, samples))
            shaped = both[len(columns) :].reshape(count, samples, -1)
            features.append(shaped)
            pseudo.append(signal * shaped[:, :, None, :])
        backward = []
        for layer in range(1, setting.layers):
            strength = setting.echo(layer + 1, layer) * setting.variances[layer] * setting.memory.initial[steps]
            b = responses[layer][np.ix_(columns, rows)] * np.repeat(strength, samples)
            backward.append((spread(b, outputs, samples), np.eye(len(rows)).reshape(count, samples, -1)))
        return TwoTime(features, gradients, pseudo, {"gradient_response": backward} if backward else {})
