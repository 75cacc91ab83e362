"""The closed equations of every rule on the whole grid of times, for the damped iteration.

Nothing here is shared with the passes over the steps, except how kernels of gradients follow from errors and features
for rules where that is explicit. Symbols are those of `gradient_descent.py`, `feedback.py`, `hebb.py` and `gated.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ...base.arrays import Floats
from .feedback import FeedbackSweep
from .fixed_point import Order
from .gates import Gates
from .hebb import HebbSweep
from .setting import Setting
from .solution import Solution, for_all_samples


class _Whole:
    """What all grids have in common. Rows of features are t P + mu."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.row = np.repeat(np.arange(setting.times), setting.samples)
        self.rows = np.ix_(self.row, self.row)
        self.base = np.tile(setting.kernel, (setting.times, setting.times))
        self.left = setting.memory.gradient[self.rows]
        self.layers = range(1, setting.layers + 1)

    def lazy(self) -> Order:
        """Features that nothing has moved, and outputs of zero."""
        order = {"outputs": np.zeros((self.setting.times, self.setting.samples, self.setting.outputs))}
        for layer in self.layers:
            order[f"features {layer}"] = self.source(order, layer)
        return order

    def below(self, order: Order, layer: int) -> Floats:
        """Phi^{l-1}."""
        return order[f"features {layer - 1}"] if layer > 1 else self.base

    def source(self, order: Order, layer: int) -> Floats:
        """U, the covariance of u^l."""
        weights, biases = self.setting.weights[layer - 1], self.setting.biases[layer - 1]
        return np.asarray(weights[self.rows] * self.below(order, layer) + biases[self.rows])

    def errors(self, order: Order) -> Floats:
        """Delta of the batches; (T, P, C)."""
        return self.setting.batches[:, :, None] * self.setting.errors(order["outputs"])


class DescentGrid(_Whole):
    """BP22 eqs. (68)-(71): with R = (1 - D C)^-1, a = C R, b = R D and R1 = (1 - C D)^-1 = 1 + C b,

        Phi = R1 [ U + C V C^T ] R1^T,      G = R [ V + D U D^T ] R^T,      gamma_0 f = <g^L h^L>

    multiplied out, because R is T x T and R1, which the papers invert, is (P T) x (P T).
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        column = np.repeat(np.arange(setting.times), setting.outputs)
        self.mixed, self.columns = np.ix_(self.row, column), np.ix_(column, column)
        self.top = np.tile(np.eye(setting.outputs), (setting.times, setting.times))

    def start(self) -> Order:
        """The lazy kernels, and no responses."""
        order, kernel = self.lazy(), self.top
        n, m = len(self.row), len(self.top)
        for layer in reversed(self.layers):
            kernel = self.setting.weights[layer][self.columns] * kernel
            order[f"gradients {layer}"] = kernel
            order[f"forward {layer}"], order[f"backward {layer}"] = np.zeros((n, m)), np.zeros((m, n))
        return order

    def image(self, order: Order) -> Order:
        """New estimates of everything."""
        setting, errors, new = self.setting, self.errors(order), {}
        for layer in self.layers:
            C, D = self._couplings(order, errors, layer)
            U = self.source(order, layer)
            V = setting.weights[layer][self.columns] * order.get(f"gradients {layer + 1}", self.top)
            R = _inverse(np.eye(len(D)) - D @ C)
            a, b = C @ R, R @ D
            X = U @ b.T
            G = R @ V @ R.T + b @ X
            XC = X @ C.T
            new[f"features {layer}"], new[f"gradients {layer}"] = U + XC + XC.T + C @ (G @ C.T), G
            new[f"forward {layer}"], new[f"backward {layer}"] = a, b
        own = np.arange(setting.times)
        product = (X + C @ G).reshape(setting.times, setting.samples, setting.times, setting.outputs)[own, :, own]
        biases = setting.rates.biases[-1] * setting.memory.gradient @ errors.sum(axis=1)
        return new | {"outputs": product / setting.richness + biases[:, None, :]}

    def _couplings(self, order: Order, errors: Floats, layer: int) -> tuple[Floats, Floats]:
        """C^l and D^l."""
        setting, gamma = self.setting, self.setting.strength(layer)
        n, m, left = len(self.row), len(self.top), self.setting.memory.gradient
        kernel = setting.moved(layer - 1, self.below(order, layer)).reshape(n, setting.times, setting.samples)
        C = gamma * left[self.mixed] * np.einsum("nsp,spc->nsc", kernel, errors, optimize=True).reshape(n, m)
        above = order.get(f"gradients {layer + 1}", self.top).reshape(m, setting.times, setting.outputs)
        moved = np.einsum("msc,spc->msp", above, errors, optimize=True).reshape(m, n)
        D = setting.updated(layer) * gamma * left.T[self.mixed].T * moved
        if layer > 1:
            C += setting.echo(layer - 1, layer) * setting.weights[layer - 1][self.mixed] * order[f"forward {layer - 1}"]
        if layer < setting.layers:
            D += setting.echo(layer + 1, layer) * setting.weights[layer][self.mixed].T * order[f"backward {layer + 1}"]
        return C, D

    def solution(self, order: Order, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""
        setting, times = self.setting, self.setting.times
        gradients = [order[f"gradients {k}"].reshape(times, setting.outputs, times, -1) for k in self.layers]
        equal = np.array([[kernel[t, :, t] for kernel in gradients] for t in steps])
        gradient = for_all_samples(equal, setting.samples)
        return Solution(order["outputs"], _equal_times(self, order, steps), gradient, gradient, gradient)


class FeedbackGrid(_Whole):
    """BP23 eqs. (61)-(65), with <g gt> where print has <g g>: k^l from Phi^{l-1} and k^{l-1}, Phi^l from k^l."""

    def __init__(self, setting: Setting, correlation: float, *, direct: bool) -> None:
        super().__init__(setting)
        self.correlation, self.direct = correlation, direct
        self.variance = FeedbackSweep(setting, correlation, direct=direct).pseudo

    def start(self) -> Order:
        """Nothing learned."""
        order = self.lazy()
        return order | {f"loading {layer}": np.zeros_like(order["outputs"]) for layer in self.layers}

    def image(self, order: Order) -> Order:
        """New estimates of everything."""
        new = {f"loading {layer}": self._loading(order, layer) for layer in self.layers}
        for layer in self.layers:
            k = new[f"loading {layer}"].reshape(len(self.row), -1)
            new[f"features {layer}"] = self.source(order, layer) + self.variance[layer] * k @ k.T
        return new | {"outputs": self._loading(order, self.setting.layers + 1) / self.setting.richness}

    def _loading(self, order: Order, layer: int) -> Floats:
        """k^l; (T, P, C)."""
        setting, errors = self.setting, self.errors(order)
        kernel = self.left * setting.moved(layer - 1, self.below(order, layer))
        driven = (kernel @ errors.reshape(len(self.row), -1)).reshape(errors.shape)
        if layer == 1:
            return np.asarray(setting.strength(layer) * driven)
        through = self.correlation * setting.echo(layer - 1, layer) * setting.variances[layer - 1]
        kept = setting.memory.initial[:, None, None] * order[f"loading {layer - 1}"]
        return np.asarray(through * kept + setting.strength(layer) * driven)

    def solution(self, order: Order, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times; those of gradients are explicit."""
        sweep = FeedbackSweep(self.setting, self.correlation, direct=self.direct)
        sweep.outputs, sweep.errors = order["outputs"], self.errors(order)
        for layer in self.layers:
            loading = order[f"loading {layer}"]
            sweep.loading_error[layer] = np.einsum("tpb,tpc->tbc", sweep.errors, loading)
        sweep.feature[steps, 1:] = _equal_times(self, order, steps)
        return sweep.solution(steps)


class HebbGrid(_Whole):
    """R = (1 - Q)^-1 and Phi^l = R U R^T on all times."""

    def start(self) -> Order:
        """Nothing learned."""
        return self.lazy()

    def image(self, order: Order) -> Order:
        """New estimates of everything."""
        errors, new = self.errors(order), {}
        for layer in self.layers:
            R = self._resolvent(order, errors, layer)
            new[f"features {layer}"] = R @ self.source(order, layer) @ R.T
        last = self.setting.layers
        kernel = self.left * self.setting.moved(last, order[f"features {last}"])
        return new | {"outputs": (kernel @ errors.reshape(len(self.row), -1)).reshape(errors.shape)}

    def _resolvent(self, order: Order, errors: Floats, layer: int) -> Floats:
        squares = (errors**2).sum(axis=2).ravel()
        kernel = self.setting.moved(layer - 1, self.below(order, layer))
        Q = self.setting.strength(layer) * self.left * kernel * squares
        return _inverse(np.eye(len(Q)) - Q)

    def solution(self, order: Order, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times; those of gradients are explicit."""
        sweep = HebbSweep(self.setting)
        sweep.outputs, sweep.errors = order["outputs"], self.errors(order)
        sweep.plain = self.setting.errors(order["outputs"])
        sweep.squares = (sweep.errors**2).sum(axis=2).ravel()
        for layer in self.layers:
            sweep.features[layer] = order[f"features {layer}"]
            sweep.resolvent[layer] = self._resolvent(order, sweep.errors, layer)
        return sweep.solution(steps)


class GatedGrid(_Whole):
    """For every pattern of gates d, M = 1 - K1 d K2 d, h = M^-1 (u + K1 d r), z = r + K2 d h; then averages."""

    def __init__(self, setting: Setting, gates: Gates) -> None:
        super().__init__(setting)
        self.gates, self.outputs = gates, setting.outputs
        column = np.repeat(self.row, self.outputs)
        self.mixed, self.columns = np.ix_(self.row, column), np.ix_(column, column)
        count = len(self.row)
        self.top = np.tile(np.eye(self.outputs), (count, count))
        self.values = np.tile(gates.values, (1, setting.times))

    def start(self) -> Order:
        """The lazy kernels, and no responses."""
        setting, n, m = self.setting, len(self.row), len(self.top)
        chances, values = self.gates.chances, self.values
        feature_gates = np.einsum("k,ki,kj->ij", chances, values, values)
        wide = np.repeat(values, self.outputs, axis=1)
        gradient_gates = np.einsum("k,ki,kj->ij", chances, wide, wide)
        order: Order = {"outputs": np.zeros((setting.times, setting.samples, self.outputs))}
        for layer in self.layers:
            order[f"features {layer}"] = feature_gates * self.source(order, layer)
            order[f"forward {layer}"], order[f"backward {layer}"] = np.zeros((n, m)), np.zeros((m, n))
        kernel = self.top
        for layer in reversed(self.layers):
            kernel = gradient_gates * setting.weights[layer][self.columns] * kernel
            order[f"gradients {layer}"] = kernel
        return order

    def image(self, order: Order) -> Order:
        """New estimates of everything."""
        setting, errors = self.setting, self.errors(order)
        new: Order = {}
        for layer in self.layers:
            K1, K2 = self._couplings(order, errors, layer)
            U = self.source(order, layer)
            V = setting.weights[layer][self.columns] * order.get(f"gradients {layer + 1}", self.top)
            averages = [np.zeros(1)] * 5
            for chance, gate in zip(self.gates.chances, self.values, strict=True):
                averages = [x + chance * y for x, y in zip(averages, self._given(gate, K1, K2, U, V), strict=True)]
            names = ("features", "gradients", "forward", "backward")
            new |= {f"{name} {layer}": x for name, x in zip(names, averages[:-1], strict=True)}
        shape = (setting.times, setting.samples, self.outputs, setting.times, setting.samples)
        product = np.einsum("tpctp->tpc", averages[-1].reshape(shape))
        biases = setting.rates.biases[-1] * setting.memory.gradient @ errors.sum(axis=1)
        return new | {"outputs": product / setting.richness + biases[:, None, :]}

    def _couplings(self, order: Order, errors: Floats, layer: int) -> tuple[Floats, Floats]:
        """K1 and K2."""
        setting, gamma, left = self.setting, self.setting.strength(layer), self.setting.memory.gradient
        n, m, signal = len(self.row), len(self.top), errors.ravel()
        kernel = np.repeat(setting.moved(layer - 1, self.below(order, layer)), self.outputs, axis=1)
        K1 = gamma * left[self.mixed] * kernel * signal
        above = order.get(f"gradients {layer + 1}", self.top) * signal
        K2 = setting.updated(layer) * gamma * left.T[self.mixed].T * above.reshape(m, n, self.outputs).sum(axis=2)
        if layer > 1:
            K1 += (
                setting.echo(layer - 1, layer) * setting.weights[layer - 1][self.mixed] * order[f"forward {layer - 1}"]
            )
        if layer < setting.layers:
            K2 += setting.echo(layer + 1, layer) * setting.weights[layer][self.mixed].T * order[f"backward {layer + 1}"]
        return K1, K2

    def _given(self, gate: Floats, K1: Floats, K2: Floats, U: Floats, V: Floats) -> tuple[Floats, ...]:
        """<phi phi>, <g g>, dphi/dr, dg/du and <z phi> for one pattern of gates."""
        wide = np.repeat(gate, self.outputs)
        M = np.eye(len(gate)) - ((K1 * wide) @ K2) * gate
        hu = _inverse(M)
        hr = hu @ (K1 * wide)
        zu, zr = K2 @ (gate[:, None] * hu), np.eye(len(wide)) + K2 @ (gate[:, None] * hr)
        phi_u, phi_r, g_u, g_r = gate[:, None] * hu, gate[:, None] * hr, wide[:, None] * zu, wide[:, None] * zr
        features, gradients = phi_u @ U @ phi_u.T + phi_r @ V @ phi_r.T, g_u @ U @ g_u.T + g_r @ V @ g_r.T
        return features, gradients, phi_r, g_u, zu @ U @ phi_u.T + zr @ V @ phi_r.T

    def solution(self, order: Order, steps: NDArray[np.int64]) -> Solution:
        """Kernels at equal times."""
        times, each = self.setting.times, (self.setting.samples, self.outputs)
        gradients = [order[f"gradients {layer}"].reshape(times, *each, times, *each) for layer in self.layers]
        gradient = np.array([[kernel[t, :, :, t] for kernel in gradients] for t in steps])
        return Solution(order["outputs"], _equal_times(self, order, steps), gradient, gradient, gradient)


def _inverse(matrix: Floats) -> Floats:
    """Of a lower triangular matrix with a diagonal of ones."""
    identity = np.eye(len(matrix))
    return np.asarray(solve_triangular(matrix, identity, lower=True, unit_diagonal=True, check_finite=False))


def _equal_times(grid: _Whole, order: Order, steps: NDArray[np.int64]) -> Floats:
    times, samples = grid.setting.times, grid.setting.samples
    kernels = [order[f"features {layer}"].reshape(times, samples, times, samples) for layer in grid.layers]
    return np.array([[kernel[t, :, t] for kernel in kernels] for t in steps])
