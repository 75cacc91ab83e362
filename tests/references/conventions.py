"""docs/conventions.md as plain NumPy: one network, sample by sample, written from the page alone."""

from __future__ import annotations

import numpy as np

PHI = {"tanh": np.tanh, "relu": lambda h: np.maximum(h, 0.0), "linear": lambda h: h}
SLOPE = {"tanh": lambda h: 1 - np.tanh(h) ** 2, "relu": lambda h: (h > 0) * 1.0, "linear": np.ones_like}


def batches(samples, size, steps, seed):
    """Row numbers of every step: epochs of permutations, of which the rest that fills no batch is left out."""
    generator, rows = np.random.default_rng(seed), []
    while len(rows) < steps:
        order = generator.permutation(samples)
        rows += [order[k * size : (k + 1) * size] for k in range(samples // size)]
    return rows[:steps]


class Network:
    """Weights `W0` .. `W{L-1}`, `w`, `b0` .. `bL` and what a rule holds fixed, by the names of `initial_weights`."""

    def __init__(self, weights, rule, activation, gamma0):
        self.weights = {name: value.copy() for name, value in weights.items()}
        self.rule, self.gamma0 = rule, gamma0
        self.phi, self.slope = PHI[activation], SLOPE[activation]
        self.depth = sum(name[0] == "W" for name in weights)
        self.N = [len(weights[f"W{layer}"]) for layer in range(self.depth)]  # N_1 .. N_L
        self.learning = [n for n in weights if n[0] in "Ww"]

    def forward(self, x):
        """h, phi(h), phi'(h) of all layers and the outputs (without their start) of one sample."""
        v, signal, size = self.weights, x, len(x)
        h, phi, slope = [], [], []
        for layer in range(self.depth):
            h.append(v[f"W{layer}"] @ signal / np.sqrt(size) + v.get(f"b{layer}", 0.0))
            if self.rule == "gated-linear":
                slope.append(self.slope(v[f"gate {layer + 1}"] @ x / np.sqrt(len(x))))
                phi.append(slope[-1] * h[-1])
            else:
                slope.append(self.slope(h[-1]))
                phi.append(self.phi(h[-1]))
            signal, size = phi[-1], self.N[layer]
        gamma = self.gamma0 * np.sqrt(self.N[-1])
        return phi, slope, (v["w"] @ phi[-1] / np.sqrt(self.N[-1]) + v.get(f"b{self.depth}", 0.0)) / gamma

    def pseudo_gradients(self, phi, slope, delta):
        """gt^l_c of all layers for every output c; (layer, output, neuron)."""
        outputs, depth, v = len(delta), self.depth, self.weights
        found = []
        for c in range(outputs):
            if self.rule == "hebb":
                found.append([delta[c] * phi[layer] for layer in range(depth)])
                continue
            if self.rule == "direct-feedback-alignment":
                found.append([slope[layer] * v[f"feedback {layer + 1}"][c] for layer in range(depth)])
                continue
            back = "feedback {}" if self.rule == "feedback-alignment" else "W{}"
            top = v[f"feedback {depth}"] if self.rule == "feedback-alignment" else v["w"]
            g = [slope[-1] * top[c]]
            for layer in range(depth - 1, 0, -1):
                z = v[back.format(layer)].T @ g[0] / np.sqrt(self.N[layer])
                g.insert(0, slope[layer - 1] * z)
            found.append(g)
        return [[found[c][layer] for c in range(outputs)] for layer in range(depth)]

    def directions(self, x, delta):
        """dW/dt of all that learns, from samples x (n, D) and their Delta (n, C)."""
        total = {name: np.zeros_like(self.weights[name]) for name in self.learning}
        N, D = self.N[-1], x.shape[1]
        for sample, errors in zip(x, delta, strict=True):
            phi, slope, _ = self.forward(sample)
            gt = self.pseudo_gradients(phi, slope, errors)
            for layer in range(self.depth):
                below, size = (sample, D) if layer == 0 else (phi[layer - 1], self.N[layer - 1])
                pushed = sum(e * g for e, g in zip(errors, gt[layer], strict=True))
                strength = self.gamma0 * np.sqrt(N / self.N[layer])
                total[f"W{layer}"] += strength * np.outer(pushed, below) / np.sqrt(size)
                if f"b{layer}" in total:
                    total[f"b{layer}"] += strength * pushed
            total["w"] += self.gamma0 * np.outer(errors, phi[-1])
            if f"b{self.depth}" in total:
                total[f"b{self.depth}"] += self.gamma0 * np.sqrt(N) * errors
        return total


def train(
    weights,
    x,
    y,
    *,
    rule,
    activation,
    gamma0,
    rates,
    decay=0.0,
    momentum=0.0,
    rows=None,
    mean=False,
    biases=False,
    centred=True,
):
    """Outputs (time, sample, output) of all samples before every step and after the last; squared loss."""
    network = Network(weights, rule, activation, gamma0)
    network.learning += [name for name in weights if name[0] == "b"] if biases else []
    raw = lambda: np.array([network.forward(sample)[-1] for sample in x])  # noqa: E731
    start = raw() if centred else 0.0
    velocity, history = dict.fromkeys(network.learning, 0.0), [raw() - start]
    for step, rate in enumerate(rates):
        batch = np.arange(len(x)) if rows is None else rows[step]
        delta = (y - history[-1])[batch] / (len(batch) if mean else 1)
        drive = network.directions(x[batch], delta)
        for name, direction in drive.items():
            velocity[name] = momentum * velocity[name] + (1 - momentum) * (direction - decay * network.weights[name])
        for name in drive:
            network.weights[name] += rate * velocity[name]
        history.append(raw() - start)
    return np.array(history)
