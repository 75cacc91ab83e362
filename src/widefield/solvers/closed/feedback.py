"""Feedback alignment in deep linear networks: explicit in time (BP23 App. E.2).

The pseudo-gradients gt^l are Gaussian vectors that never change, <gt gt> = v_l 1, so that h = u + sum_c k_c gt_c with

    k^l(t) = rho w_l i(t) k^{l-1}(t) + gamma_l sum_s m(t, s) [ J^{l-1}(t, s) + biases ],      k^0 = 0,   w_l = e sigma^2
    Phi^l(t, s) = w(t, s) Phi^{l-1}(t, s) + biases + v_l k^l(t) k^l(s)^T,     J(t, s) = sum_mu Phi_mu(t, s) Delta_mu(s)

and gamma_0 f is k^{L+1}. The gradients are g^l = r^l + E^l h^l with E^l(t, s) = M^l(t, s) Delta(s),

    M^l(t, s) = e w(t, s) M^{l+1}(t, s) + gamma_l m(t, s) Gt^{l+1}(t)
    Gt^l(t) = rho sigma_l^2 i(t) Gt^{l+1}(t) + v_l M^l k^l_Delta,               k_Delta(s) = sum_mu Delta_mu(s) k_mu(s)

so that no array is larger than (P T) x T. Direct feedback alignment is rho = 0 and v = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Floats
from ...gaussian.roots import root
from .causal import Causal
from .setting import Setting
from .solution import Solution, TwoTime, for_all_samples, on_first_sample, spread


class FeedbackSweep(Causal):
    """The state of the pass. Lists are indexed by layer.

    Args:
        setting: the problem.
        correlation: rho.
        direct: whether the feedback comes straight from the outputs.
    """

    def __init__(self, setting: Setting, correlation: float, *, direct: bool) -> None:
        self.setting, self.correlation = setting, correlation
        layers, times, samples, outputs = setting.layers, setting.times, setting.samples, setting.outputs
        above = [float(np.prod(setting.variances[layer:])) for layer in range(layers + 2)]
        self.pseudo = [1.0] * (layers + 2) if direct else above  # v
        self.outputs = np.zeros((times, samples, outputs))
        self.errors = np.zeros((times, samples, outputs))
        self.loading = [np.zeros((times, samples, outputs)) for _ in range(layers + 2)]  # k
        self.loading_error = [
            np.zeros((times, outputs, outputs)) for _ in range(layers + 1)
        ]  # k_Delta(s; c of Delta, c)
        self.feature = np.zeros((times, layers + 1, samples, samples))
        self.feature[:, 0] = setting.kernel

    def _step(self, step: int) -> None:
        """Outputs and features; gradients follow afterwards."""
        setting, past = self.setting, slice(0, step)
        left, summed = setting.memory.gradient[step, past], self.errors[past].sum(axis=1)
        driven = np.einsum("pq,sqc->spc", setting.kernel, self.errors[past])  # J^0(t, s)
        for layer in range(1, setting.layers + 2):
            k = self._transmission(layer) * setting.memory.initial[step] * self.loading[layer - 1][step]
            moved = setting.moved(layer - 1, driven, summed[:, None, :])
            k += setting.strength(layer) * np.einsum("s,spc->pc", left, moved)
            self.loading[layer][step] = k
            if layer > setting.layers:
                break
            weight, bias = setting.weights[layer - 1], setting.biases[layer - 1]
            driven = weight[step, past, None, None] * driven + bias[step, past, None, None] * summed[:, None, :]
            driven += self.pseudo[layer] * np.einsum("pb,scb->spc", k, self.loading_error[layer][past])
            below = self.feature[step, layer - 1]
            self.feature[step, layer] = weight[step, step] * below + bias[step, step] + self.pseudo[layer] * k @ k.T
        self.outputs[step] = self.loading[-1][step] / setting.richness
        self.errors[step] = setting.batches[step][:, None] * setting.errors(self.outputs[step])
        for layer in range(1, setting.layers + 1):
            self.loading_error[layer][step] = self.errors[step].T @ self.loading[layer][step]

    def _transmission(self, layer: int) -> float:
        """What of k^{l-1} comes through W^{l-1} into k^l."""
        return self.correlation * self.setting.echo(layer - 1, layer) * self.setting.variances[layer - 1]

    def gradients(self) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """G^l(t, s) as (T C, T C), Gt^l(t) as (T, C, C) and M^l(t, s) as (T C, T C), of every hidden layer."""
        setting, outputs, times = self.setting, self.setting.outputs, self.setting.times
        initial, left = setting.memory.initial, setting.memory.gradient
        alignment = np.tile(np.eye(outputs), (times, 1, 1))  # Gt^{L+1}
        kernel = np.tile(np.eye(outputs), (times, times))  # G^{L+1}
        moves = np.zeros((times, outputs, times, outputs))  # M^{L+1}
        kernels: list[Floats] = []
        alignments: list[Floats] = []
        couplings: list[Floats] = []
        errors = self._feature_errors()
        for layer in range(setting.layers, 0, -1):
            weights, loading = setting.weights[layer], self.loading_error[layer].reshape(-1, outputs)
            moves = setting.echo(layer + 1, layer) * weights[:, None, :, None] * moves
            strength = setting.updated(layer) * setting.strength(layer)
            moves = moves + strength * left[:, None, :, None] * alignment[:, :, None, :]
            flat = moves.reshape(times * outputs, -1)
            through = self.correlation * setting.variances[layer] * initial[:, None, None] * alignment
            # <r h Delta>: what the sources of gradients have in common with features
            shared = (through.reshape(-1, outputs) @ loading.T) @ flat.T
            kernel = np.kron(weights, np.ones((outputs, outputs))) * kernel
            kernel = kernel + flat @ errors[layer] @ flat.T + shared + shared.T
            alignment = through + self.pseudo[layer] * (flat @ loading).reshape(times, outputs, outputs)
            kernels.insert(0, kernel)
            alignments.insert(0, alignment)
            couplings.insert(0, flat)
        return kernels, alignments, couplings

    def _feature_errors(self) -> list[Floats]:
        """sum Delta(t) Phi^l(t, s) Delta(s), (T C, T C) of the layers 0 .. L."""
        setting, outputs = self.setting, self.setting.outputs
        flat = self.errors.transpose(0, 2, 1).reshape(-1, setting.samples)
        found, ones = [flat @ setting.kernel @ flat.T], np.ones((outputs, outputs))
        summed = flat.sum(axis=1)
        for layer in range(1, setting.layers + 1):
            k = self.loading_error[layer].reshape(-1, outputs)
            weights, biases = (np.kron(x[layer - 1], ones) for x in (setting.weights, setting.biases))
            found.append(weights * found[-1] + biases * np.outer(summed, summed) + self.pseudo[layer] * k @ k.T)
        return found

    def solution(self, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""
        setting, outputs = self.setting, self.setting.outputs
        kernels, alignments, _ = self.gradients()
        columns = [slice(t * outputs, (t + 1) * outputs) for t in steps]
        gradient = np.array([[kernel[c, c] for kernel in kernels] for c in columns])
        alignment = np.stack([a[steps] for a in alignments], axis=1)
        pseudo = np.tile(np.array(self.pseudo[1:-1])[:, None, None] * np.eye(outputs), (len(steps), 1, 1, 1))
        kernels_of_gradients = (for_all_samples(x, setting.samples) for x in (gradient, alignment, pseudo))
        return Solution(self.outputs, self.feature[steps, 1:], *kernels_of_gradients)

    def two_time(self, steps: NDArray[np.int64]) -> TwoTime:
        """Kernels and responses between all recorded times. c is ascribed to the first record: gt never changes."""
        setting, samples, outputs, count = self.setting, self.setting.samples, self.setting.outputs, len(steps)
        kernels, alignments, couplings = self.gradients()
        columns = (steps[:, None] * outputs + np.arange(outputs)).ravel()
        features, gradients, pseudo, kernel = [], [], [], np.tile(setting.kernel, (count, count))
        for layer, (G, Gt) in enumerate(zip(kernels, alignments, strict=True), 1):
            k = self.loading[layer][steps].reshape(-1, outputs)
            row = np.repeat(steps, samples)
            weights, biases = (x[layer - 1][np.ix_(row, row)] for x in (setting.weights, setting.biases))
            kernel = weights * kernel + biases + self.pseudo[layer] * k @ k.T
            features.append(root(kernel, thin=True).reshape(count, samples, -1))
            mixed, own = Gt[steps].reshape(-1, outputs), self.pseudo[layer] * np.eye(outputs)
            joint = root(np.block([[G[np.ix_(columns, columns)], mixed], [mixed.T, own]]), thin=True)
            gradients.append(spread(joint[: len(columns)], outputs, samples))
            pseudo.append(spread(np.tile(joint[len(columns) :], (count, 1)), outputs, samples))
        return TwoTime(features, gradients, pseudo, self._responses(steps, couplings))

    def _responses(self, steps: NDArray[np.int64], couplings: list[Floats]) -> dict[str, list[tuple[Floats, Floats]]]:
        setting, samples, outputs, count = self.setting, self.setting.samples, self.setting.outputs, len(steps)
        first = on_first_sample(count, outputs, samples)[..., :outputs]
        columns = (steps[:, None] * outputs + np.arange(outputs)).ravel()
        forward, backward = [], []
        for layer in range(1, setting.layers):
            forward.append((self._transmission(layer + 1) * self.loading[layer][steps], first))
            strength = setting.echo(layer + 1, layer) * setting.variances[layer] * setting.memory.initial[steps]
            M = couplings[layer][np.ix_(columns, columns)].reshape(-1, count, outputs)
            b = np.einsum("msc,spc,s->msp", M, self.errors[steps], strength).reshape(len(columns), -1)
            backward.append((spread(b, outputs, samples), np.eye(count * samples).reshape(count, samples, -1)))
        if not backward:
            return {}
        through = {"pseudo_feature_response": forward} if self.correlation else {}
        return through | {"gradient_response": backward}
