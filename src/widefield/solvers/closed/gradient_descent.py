"""Gradient descent in deep linear networks, in one causal pass over the steps (BP22 App. F).

The fields of layer l are h = u + C g and g = r + D h with Gaussian sources u, r. Both couplings are strictly causal,

    C^l(t, s) = w^{l-1}(t, s) a^{l-1}(t, s) + gamma_l m(t, s) sum_mu Phi^{l-1}_mu(t, s) Delta_mu(s)
    D^l(t, s) = w^l(t, s) b^l(t, s)         + gamma_l m(t, s) G^{l+1}(t, s) Delta(s)

(w: covariance of untrained weights, m: what is left of a gradient, gamma_l: strength), so that everything at time t
follows from what is earlier. g does not depend on the sample: C is (P T) x T and so is everything that is kept,

    R = dg/dr = 1 + D a      a = dh/dr = C R      b^{l-1} = dg/du = R D
    X = <u g>                Y = <h g> = X + C G  J(t, s) = sum_mu Phi_mu(t, s) Delta_mu(s)
    Phi(t, s) = U(t, s) + X(t) C(s)^T + C(t) Y(s)^T,       U = w Phi^{l-1} + covariance of biases

and Phi itself is needed at equal times only. For a row t the layers are passed upwards with

    X^l(t, t') = i(t)/i(t') [ Y^{l-1} - a^{l-1} V^{l-1} - gamma J^{l-1} (m G^l)^T ](t, t') / e        t' < t

because g^{l-1} = r + (through W^T: i(t') W(0)^T g^l) + (updates), where i is what is left of the initial weights and e
the ratio of widths; the columns t follow downwards from the same identity, read the other way. Time O(L P T^3), memory
O(L P T^2). With Langevin noise w is not a product, and X is taken from Phi(t, s) at all pairs of times: O(L P^2 T^3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Floats
from ...gaussian.roots import root
from .causal import Causal
from .setting import Setting
from .solution import Solution, TwoTime, for_all_samples, on_first_sample, spread


class Sweep(Causal):
    """The state of the pass. Rows are t P + mu (features) or t C + c (gradients); lists are indexed by layer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        layers, times, samples, outputs = setting.layers, setting.times, setting.samples, setting.outputs
        n, m = times * samples, times * outputs
        self.step_of_column = np.repeat(np.arange(times), outputs)
        self.outputs = np.zeros((times, samples, outputs))
        self.errors = np.zeros((times, samples, outputs))  # of the batch, with their weight in the loss
        self.error_sum = np.zeros(m)

        def arrays(rows: int, columns: int) -> list[Floats]:
            return [np.zeros((rows, columns)) for _ in range(layers + 1)]

        self.coupling, self.cross, self.covariance = arrays(n, m), arrays(n, m), arrays(n, m)  # C, X, Y
        self.response, self.driven = arrays(n, m), arrays(n, m)  # a, J
        self.feedback, self.backward = arrays(m, n), arrays(m, n)  # D, b (index l is b^{l-1} = dg^l/du^l)
        self.resolvent, self.gradient = arrays(m, m), arrays(m, m)  # R, G
        self.gradient.append(np.tile(np.eye(outputs), (times, times)))  # G^{L+1}
        self.source = arrays(m, m)  # V, covariance of r
        self.coupling_error, self.covariance_error = arrays(m, m), arrays(m, m)  # C, Y summed with Delta
        self.feature = np.zeros((times, layers + 1, samples, samples))
        self.feature[:, 0] = setting.kernel
        self.first = np.zeros((m, samples))  # sum_s i(s) b^0(t', s)
        self.bias_sum = np.zeros((layers + 1, m))  # sum over s and samples of b^{l-1}(t', s) i_b(s)

    def _step(self, step: int) -> None:
        for layer in range(1, self.setting.layers + 1):
            self._forward(step, layer)
        for layer in range(self.setting.layers, 0, -1):
            self._backward(step, layer)
        self._drive(step)

    def solution(self, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""
        samples, outputs = self.setting.samples, self.setting.outputs
        columns = [slice(t * outputs, (t + 1) * outputs) for t in steps]
        gradient = np.array([[g[c, c] for g in self.gradient[1:-1]] for c in columns])
        kernel = for_all_samples(gradient, samples)
        return Solution(self.outputs, self.feature[steps, 1:], kernel, kernel, kernel)

    def two_time(self, steps: NDArray[np.int64]) -> TwoTime:
        """Kernels and responses between all recorded times."""
        setting, samples, outputs = self.setting, self.setting.samples, self.setting.outputs
        rows, columns = self._rows(steps), (steps[:, None] * outputs + np.arange(outputs)).ravel()
        layers, initial = range(1, setting.layers + 1), setting.memory.initial
        features = [root(self.two_time_feature(k, steps), thin=True).reshape(len(steps), samples, -1) for k in layers]
        gradients = [
            spread(root(self.gradient[k][np.ix_(columns, columns)], thin=True), outputs, samples) for k in layers
        ]
        forward: list[tuple[Floats, Floats]] = []
        backward: list[tuple[Floats, Floats]] = []
        for k in layers[:-1]:
            strength = setting.variances[k] * np.repeat(initial[steps], outputs)
            a = setting.echo(k, k + 1) * strength * self.response[k][np.ix_(rows, columns)]
            forward.append((a.reshape(len(steps), samples, -1), on_first_sample(len(steps), outputs, samples)))
            strength = setting.variances[k] * np.repeat(initial[steps], samples)
            b = setting.echo(k + 1, k) * strength * self.backward[k + 1][np.ix_(columns, rows)]
            backward.append((spread(b, outputs, samples), np.eye(len(rows)).reshape(len(steps), samples, -1)))
        responses = {"feature_response": forward, "gradient_response": backward} if forward else {}
        return TwoTime(features, gradients, None, responses)

    def two_time_feature(self, layer: int, steps: NDArray[np.int64]) -> Floats:
        """Phi^l(t, s) at all pairs of some times; (R P, R P)."""
        samples, rows = self.setting.samples, self._rows(steps)
        if layer == 0:
            return np.tile(self.setting.kernel, (len(steps), len(steps)))
        spread = np.repeat(steps, samples)
        pairs = np.ix_(spread, spread)
        below = self.two_time_feature(layer - 1, steps)
        C, X, Y = self.coupling[layer][rows], self.cross[layer][rows], self.covariance[layer][rows]
        weights, biases = self.setting.weights[layer - 1], self.setting.biases[layer - 1]
        kernel: Floats = weights[pairs] * below + biases[pairs] + X @ C.T + C @ Y.T
        return kernel

    def _rows(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        samples = self.setting.samples
        rows: NDArray[np.int64] = (steps[:, None] * samples + np.arange(samples)).ravel()
        return rows

    def _forward(self, step: int, layer: int) -> None:
        """Row t of all that has to do with h^l(t), from times before t."""
        setting = self.setting
        now, past = self._now(step), slice(0, step * setting.outputs)
        weights, biases = setting.weights[layer - 1], setting.biases[layer - 1]
        weight, bias, left = (x[step, self.step_of_column[past]] for x in (weights, biases, setting.memory.gradient))
        summed = self.error_sum[past]
        echo = setting.echo(layer - 1, layer)
        C = echo * weight * self.response[layer - 1][now, past]
        C += setting.strength(layer) * left * setting.moved(layer - 1, self.driven[layer - 1][now, past], summed)
        X = self._cross_row(step, layer)
        Y = X + C @ self.gradient[layer][past, past]
        self.coupling[layer][now, past], self.cross[layer][now, past], self.covariance[layer][now, past] = C, X, Y
        self.response[layer][now, past] = C @ self.resolvent[layer][past, past]
        driven = weight * self.driven[layer - 1][now, past] + bias * summed
        driven += X @ self.coupling_error[layer][past, past].T + C @ self.covariance_error[layer][past, past].T
        self.driven[layer][now, past] = driven
        below = self.feature[step, layer - 1]
        self.feature[step, layer] = weights[step, step] * below + biases[step, step] + X @ C.T + C @ Y.T

    def _backward(self, step: int, layer: int) -> None:
        """Row t of all that has to do with g^l(t), and the column t of <h g>, <u g>."""
        setting, outputs = self.setting, self.setting.outputs
        now, past, upto = (slice(a * outputs, b * outputs) for a, b in ((step, step + 1), (0, step), (0, step + 1)))
        rows, earlier = slice(0, (step + 1) * setting.samples), slice(0, step * setting.samples)
        above, source, R, G = self.gradient[layer + 1], self.source[layer], self.resolvent[layer], self.gradient[layer]
        source[now, upto] = setting.weights[layer][step, self.step_of_column[upto]] * above[now, upto]
        source[upto, now] = source[now, upto].T
        D = self._feedback_row(step, layer)
        self.feedback[layer][now, earlier] = D
        R[now, past] = D @ self.response[layer][earlier, past]
        R[now, now] = np.eye(outputs)
        self.backward[layer][now, earlier] = D + R[now, past] @ self.feedback[layer][past, earlier]
        G[now, past] = source[now, past] @ R[past, past].T + D @ self.covariance[layer][earlier, past]
        G[past, now] = G[now, past].T
        Y = self.response[layer][rows, upto] @ source[upto, now] + self._echo_column(step, layer)
        Y += setting.strength(layer) * self.driven[layer][rows, past] @ self._updates(step, layer).T
        self.covariance[layer][rows, now] = Y
        G[now, now] = source[now, upto] @ R[now, upto].T + D @ Y[earlier]
        self.cross[layer][rows, now] = Y - self.coupling[layer][rows, past] @ G[past, now]
        self._remember_backward(step, layer)
        if layer == setting.layers:
            self._output(step, Y[earlier.stop :])

    def _feedback_row(self, step: int, layer: int) -> Floats:
        """D^l(t, s < t); (C, t P)."""
        setting = self.setting
        now, past = slice(step * setting.outputs, (step + 1) * setting.outputs), slice(0, step * setting.samples)
        update = self._updates(step, layer).reshape(setting.outputs, step, setting.outputs)
        D = setting.strength(layer) * np.einsum("bsc,spc->bsp", update, self.errors[:step]).reshape(setting.outputs, -1)
        if layer < setting.layers:
            weight = np.repeat(setting.weights[layer][step, :step], setting.samples)
            D = D + setting.echo(layer + 1, layer) * weight * self.backward[layer + 1][now, past]
        return np.asarray(D)

    def _updates(self, step: int, layer: int) -> Floats:
        """w_l m(t, s) G^{l+1}(t, s < t); (C, t C)."""
        outputs = self.setting.outputs
        now, past = slice(step * outputs, (step + 1) * outputs), slice(0, step * outputs)
        left = self.setting.memory.gradient[step, self.step_of_column[past]]
        return np.asarray(self.setting.updated(layer) * left * self.gradient[layer + 1][now, past])

    def _output(self, step: int, product: Floats) -> None:
        """gamma_0 f = <g h>, and the errors that follow."""
        setting = self.setting
        biases = np.einsum("s,spc->c", setting.memory.gradient[step, :step], self.errors[:step])
        self.outputs[step] = product / setting.richness + setting.rates.biases[-1] * biases
        self.errors[step] = setting.batches[step][:, None] * setting.errors(self.outputs[step])

    def _drive(self, step: int) -> None:
        """Once Delta(t) is known: the column t of J, and the sums of C and Y with it."""
        setting, outputs = self.setting, self.setting.outputs
        now, past, upto = (slice(a * outputs, b * outputs) for a, b in ((step, step + 1), (0, step), (0, step + 1)))
        rows, steps = slice(0, (step + 1) * setting.samples), np.repeat(np.arange(step + 1), setting.samples)
        error = self.errors[step]
        self.error_sum[now] = error.sum(axis=0)
        # J^0 does not depend on t, so all its rows are known at once.
        self.driven[0][:, now] = np.tile(setting.kernel @ error, (setting.times, 1))
        for layer in range(1, setting.layers + 1):
            C, X, Y = self.coupling[layer], self.cross[layer], self.covariance[layer]
            own, sums, mixed = self._now(step), self.coupling_error[layer], self.covariance_error[layer]
            sums[now, past] = error.T @ C[own, past]
            mixed[now, upto] = error.T @ Y[own, upto]
            column = Y[: step * setting.samples, now].reshape(step, setting.samples, outputs)
            mixed[past, now] = np.einsum("spb,spc->sbc", self.errors[:step], column).reshape(-1, outputs)
            weight = setting.weights[layer - 1][steps, step][:, None]
            bias = setting.biases[layer - 1][steps, step][:, None]
            driven = weight * self.driven[layer - 1][rows, now] + bias * self.error_sum[now]
            driven += X[rows, past] @ sums[now, past].T + C[rows, past] @ mixed[now, past].T
            self.driven[layer][rows, now] = driven

    def _cross_row(self, step: int, layer: int) -> Floats:
        """X^l(t, t' < t) = <u^l(t) g^l(t')>."""
        setting = self.setting
        now, past = self._now(step), slice(0, step * setting.outputs)
        initial = setting.memory.initial
        bias = self._bias_initial(layer - 1)
        X: Floats = bias[step] * self.bias_sum[layer][None, past]
        if layer == 1:
            return np.asarray(X + setting.variances[0] * initial[step] * setting.kernel @ self.first[past].T)
        below = layer - 1
        left = setting.memory.gradient[np.ix_(self.step_of_column[past], self.step_of_column[past])]
        through = self.covariance[below][now, past] - self.response[below][now, past] @ self.source[below][past, past]
        updates = setting.updated(below) * left * self.gradient[layer][past, past]
        through -= setting.strength(below) * self.driven[below][now, past] @ updates.T
        ratio = initial[step] / initial[self.step_of_column[past]]
        return np.asarray(X + ratio * through / setting.echo(layer, below))

    def _echo_column(self, step: int, layer: int) -> Floats:
        """What comes back through W^T of layer l + 1: sum_s' w(t, s') Phi(s, s') b(t, s') for all s <= t."""
        setting = self.setting
        now = slice(step * setting.outputs, (step + 1) * setting.outputs)
        rows, steps = slice(0, (step + 1) * setting.samples), np.repeat(np.arange(step + 1), setting.samples)
        if layer == setting.layers:
            return np.zeros((rows.stop, setting.outputs))
        bias = self._bias_initial(layer)[steps][:, None] * self.bias_sum[layer + 1][None, now]
        ratio = (setting.memory.initial[step] / setting.memory.initial[steps])[:, None]
        column: Floats = setting.echo(layer + 1, layer) * ratio * (self.cross[layer + 1][rows, now] - bias)
        return column

    def _remember_backward(self, step: int, layer: int) -> None:
        """The sums of b^{l-1}(t, s) over s that `_cross_row` needs."""
        setting = self.setting
        now, earlier = slice(step * setting.outputs, (step + 1) * setting.outputs), slice(0, step * setting.samples)
        row = self.backward[layer][now, earlier].reshape(setting.outputs, step, setting.samples)
        initial = setting.memory.initial[:step]
        self.bias_sum[layer][now] = np.einsum("csp,s->c", row, self._bias_initial(layer - 1)[:step])
        if layer == 1:
            self.first[now] = np.einsum("csp,s->cp", row, initial)

    def _bias_initial(self, layer: int) -> Floats:
        """i_b with <b(t) b(s)> = i_b(t) i_b(s) of biases that no gradient has moved."""
        return np.asarray(np.sqrt(np.diagonal(self.setting.biases[layer])))

    def _now(self, step: int) -> slice:
        return slice(step * self.setting.samples, (step + 1) * self.setting.samples)


class DenseSweep(Sweep):
    """The same pass when <W(t) W(s)> of the weights is not a product, as with Langevin noise: it needs all of Phi."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        n = setting.times * setting.samples
        self.sources = [np.zeros((n, n)) for _ in range(setting.layers + 1)]  # U, covariance of u
        self.features = [np.zeros((n, n)) for _ in range(setting.layers + 1)]
        self.features[0][:] = np.tile(setting.kernel, (setting.times, setting.times))

    def _forward(self, step: int, layer: int) -> None:
        setting = self.setting
        now, upto = self._now(step), slice(0, (step + 1) * setting.samples)
        steps = np.repeat(np.arange(step + 1), setting.samples)
        weight, bias = (x[layer - 1][step, steps] for x in (setting.weights, setting.biases))
        source = weight * self.features[layer - 1][now, upto] + bias
        self.sources[layer][now, upto], self.sources[layer][upto, now] = source, source.T
        super()._forward(step, layer)
        past = slice(0, step * setting.outputs)
        C, X, Y = (x[layer] for x in (self.coupling, self.cross, self.covariance))
        kernel = source + X[now, past] @ C[upto, past].T + C[now, past] @ Y[upto, past].T
        self.features[layer][now, upto], self.features[layer][upto, now] = kernel, kernel.T

    def _cross_row(self, step: int, layer: int) -> Floats:
        now, past, earlier = (
            self._now(step),
            slice(0, step * self.setting.outputs),
            slice(0, step * self.setting.samples),
        )
        return np.asarray(self.sources[layer][now, earlier] @ self.backward[layer][past, earlier].T)

    def _echo_column(self, step: int, layer: int) -> Floats:
        setting = self.setting
        rows, earlier = slice(0, (step + 1) * setting.samples), slice(0, step * setting.samples)
        if layer == setting.layers:
            return np.zeros((rows.stop, setting.outputs))
        now = slice(step * setting.outputs, (step + 1) * setting.outputs)
        weight = np.repeat(setting.weights[layer][step, :step], setting.samples)
        through = weight * self.backward[layer + 1][now, earlier]
        return np.asarray(setting.echo(layer + 1, layer) * self.features[layer][rows, earlier] @ through.T)
