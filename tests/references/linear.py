"""Closed equations of infinitely wide deep linear networks on the discrete grid, in plain NumPy.

Nothing is sampled and nothing is shared with the package. Theory: BP22 and BP23.

`sweep` knows every rule, gates included, and all options of the optimiser and the network, in one causal pass with
all fields as rows of coefficients: slow, and simple.

Time t = 0 .. T counts steps: fields, kernels and outputs at t are those after t steps. f(0) = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

RULES = ("gd", "fa", "dfa", "hebb", "gln")


@dataclass
class Solution:
    """What the closed equations give. Lists run over the hidden layers 1 .. L.

    f, delta            (T+1, P) outputs and errors y - f of all points, batch or not; (T+1, P, C) if y is (P, C)
    features            Phi^l_{mu nu}(t, s) as (T+1, P, T+1, P)
    gradients           G^l, alignment: <g(t) gt(s)>, pseudo: <gt gt>; (T+1, P, T+1, P), or (T+1, P, C, T+1, P, C)
    a, c                d phi^l_mu(t) / d r^l_nu(s), d phi^l_mu(t) / d v^l_nu(s)
    b, d                d g^l_mu(t) / d u^l_nu(s), d gt^l_mu(t) / d u^l_nu(s): the papers' B^{l-1}, D^{l-1}
    dec                 coefficient of the initial weights after t steps (T+1)
    mem                 coefficient of the gradient of step s in the weights after t steps (T+1, T+1), 0 for s >= t
    """

    f: np.ndarray
    delta: np.ndarray
    features: list[np.ndarray]
    gradients: list[np.ndarray]
    alignment: list[np.ndarray]
    pseudo: list[np.ndarray]
    a: list[np.ndarray] = field(default_factory=list)
    b: list[np.ndarray] = field(default_factory=list)
    c: list[np.ndarray] = field(default_factory=list)
    d: list[np.ndarray] = field(default_factory=list)
    dec: np.ndarray | None = None
    mem: np.ndarray | None = None
    inputs: np.ndarray | None = None
    trained_biases: bool = False

    def equal_time(self, name):
        """A kernel at equal times, (T+1, L, P, P) or (T+1, L, P, C, P, C): the layout of a Trajectory."""
        kernels = getattr(self, name)
        half = kernels[0].ndim // 2
        return np.stack([np.moveaxis(np.diagonal(k, axis1=0, axis2=half), -1, 0) for k in kernels], axis=1)

    def ntk(self):
        """sum_l Gt^{l+1}(t,t) Phi^l(t,t), (T+1, P, P) or (T+1, P, C, P, C)."""
        alignment = self.equal_time("alignment")
        features = self.equal_time("features")
        features = np.concatenate([np.broadcast_to(self.inputs, features[:, :1].shape), features], axis=1)
        features = features + 1.0 * self.trained_biases
        if alignment.ndim == 4:
            alignment = np.concatenate([alignment, np.ones_like(alignment[:, :1])], axis=1)
            return np.sum(alignment * features, axis=1)
        points, outputs = alignment.shape[2:4]
        top = np.broadcast_to(np.eye(outputs)[None, :, None, :], (points, outputs, points, outputs))
        alignment = np.concatenate([alignment, np.broadcast_to(top, alignment[:, :1].shape)], axis=1)
        return np.sum(alignment * features[:, :, :, None, :, None], axis=1)


def optimiser_memory(rates, momentum=0.0, decay=0.0, temperature=0.0):
    """dec(t), mem(t, s) and the covariance of the Langevin noise of one weight, by running its linear recurrence.

    Q <- m Q + (1 - m)(G - lambda W), W <- W + eta Q + sqrt(2 eta T) xi; the entry mem(t, s) multiplies G(s).
    """
    steps = len(rates)

    def run(start, kick_at, gradient, kick):
        weight, velocity, path = start, 0.0, [start]
        for t, rate in enumerate(rates):
            drive = (gradient if t == kick_at else 0.0) - decay * weight
            velocity = momentum * velocity + (1 - momentum) * drive
            weight = weight + rate * velocity + (kick if t == kick_at else 0.0)
            path.append(weight)
        return np.array(path)

    dec = run(1.0, -1, 0.0, 0.0)
    mem = np.zeros((steps + 1, steps + 1))
    noise = np.zeros((steps + 1, steps + 1))
    for s in range(steps):
        mem[:, s] = run(0.0, s, 1.0, 0.0)
        kicked = run(0.0, s, 0.0, 1.0)
        noise += 2 * rates[s] * temperature * np.outer(kicked, kicked)
    return dec, mem, noise


def relu_gates(K):
    """Patterns (0/1 per point) of 1[m > 0], m ~ N(0, K), with their probabilities, for at most three points."""
    scale = np.sqrt(np.diag(K))
    angle = np.arcsin(np.clip(K / np.outer(scale, scale), -1.0, 1.0)) / (2 * np.pi)
    points = len(K)
    if points > 3:
        raise ValueError("orthant probabilities are known for at most three points")
    patterns = np.array(np.meshgrid(*[[0.0, 1.0]] * points, indexing="ij")).reshape(points, -1).T
    signs = 2 * patterns - 1
    # P(all signs) = 2^-P (1 + sum over pairs of s_i s_j E[sign m_i sign m_j]), exact for up to three points
    pairs = [(i, j) for i in range(points) for j in range(i)]
    total = 1 + sum(signs[:, i] * signs[:, j] * 4 * angle[i, j] for i, j in pairs)
    return patterns, total / 2**points


def squared_error(f, y):
    """Delta of the squared loss."""
    return y - f


def _settings(K, y, eta, steps, batches):
    K, y = np.atleast_2d(np.asarray(K, float)), np.asarray(y, float)
    rates = np.broadcast_to(np.asarray(eta, float), (steps,))
    mask = np.ones((steps + 1, len(K)))
    if batches is not None:
        mask[:steps] = np.asarray(batches, float)
    return K, y, rates, mask


def _per_layer(value, count):
    return np.broadcast_to(np.asarray(value, float), (count,))


def sweep(
    K,
    y,
    *,
    depth,
    gamma0,
    eta,
    steps,
    rule="gd",
    rho=0.0,
    momentum=0.0,
    decay=0.0,
    temperature=0.0,
    batches=None,
    weight_variances=1.0,
    bias_variances=0.0,
    train_biases=False,
    width_ratios=None,
    error=squared_error,
    weight=1.0,
    gates=None,
):
    """Solve the equations of section 3.1 for phi(h) = gate h in one causal pass.

    Every field of a layer is a linear combination of the layer's Gaussian sources (given its gates), kept as a row
    of coefficients; kernels are quadratic forms in them and responses are means of the coefficients themselves.

    Args:
        K: input kernel x.x/D (P, P). Test points are points that are in no batch.
        y: targets (P,) or (P, C).
        depth: number L of hidden layers.
        gamma0: richness.
        eta: learning rate, a number or one for each step.
        steps: T.
        rule: "gd", "fa" (with rho), "dfa", "hebb" or "gln".
        rho: correlation of the feedback of "fa".
        momentum, decay, temperature: m, lambda and T of `optimiser_memory`.
        batches: (T, P) of 0 and 1: which points are used in each step.
        weight_variances: sigma_l^2, one number or L + 1 of them.
        bias_variances: the same of the biases.
        train_biases: whether they learn; if not, they do not decay either.
        width_ratios: N_l / N_L of the L hidden layers.
        error: Delta(f, y).
        weight: of each point in the loss (1/P for a mean).
        gates: (patterns, probabilities) of rule "gln"; ReLU gates if None.
    """
    K, y, rates, mask = _settings(K, y, eta, steps, batches)
    targets = y if y.ndim == 2 else y[:, None]
    P, C = targets.shape
    times, sigma2, beta2 = steps + 1, _per_layer(weight_variances, depth + 1), _per_layer(bias_variances, depth + 1)
    ratio = np.concatenate([[1.0], np.ones(depth) if width_ratios is None else np.asarray(width_ratios, float), [1.0]])
    ratio[1:] = ratio[1:] / ratio[depth]
    dec, mem, noise = optimiser_memory(rates, momentum, decay, temperature)
    # <W(t) W(s)> of the part of the weights, and of the biases, that does not come from updates
    own = [variance * np.outer(dec, dec) + noise for variance in sigma2]
    bias_own = [v * np.outer(dec, dec) + noise if train_biases else v * np.ones_like(noise) for v in beta2]
    learns = 1.0 * train_biases
    if rule == "gln":
        patterns, chances = relu_gates(K) if gates is None else gates
    else:
        patterns, chances = np.ones((1, P)), np.ones(1)
    feedback = rule == "fa"

    n, m = times * P, times * P * C  # forward index (t, mu), backward index (t, mu, c)
    extra = 2 * m if feedback else (C if rule == "dfa" else 0)
    size = n + m + extra
    u_, r_ = slice(0, n), slice(n, n + m)
    v_, zeta_ = slice(n + m, n + 2 * m), slice(n + 2 * m, n + 3 * m)
    forward_time, backward_time = np.repeat(np.arange(times), P), np.repeat(np.arange(times), P * C)
    on_ff, on_fb = np.ix_(forward_time, forward_time), np.ix_(forward_time, backward_time)
    on_bf, on_bb = np.ix_(backward_time, forward_time), np.ix_(backward_time, backward_time)
    mem_fb, mem_bf = mem[on_fb], mem[on_bf]
    own_ff, own_fb, own_bf, own_bb = ([w[on] for w in own] for on in (on_ff, on_fb, on_bf, on_bb))
    bias_ff = [w[on_ff] for w in bias_own]
    dec_f, dec_b = dec[forward_time], dec[backward_time]
    spread = np.kron(np.eye(times * P), np.ones((1, C)))  # (n, m): sum over outputs at a point

    Phi = [np.zeros((n, n)) for _ in range(depth + 1)]
    Phi[0][:] = np.tile(K, (times, times))
    G, Gt, Gtt = ([np.zeros((m, m)) for _ in range(depth + 2)] for _ in range(3))
    for kernels in (G, Gt, Gtt):
        kernels[depth + 1][:] = np.tile(np.eye(C), (times * P, times * P))
    a, c = ([np.zeros((n, m)) for _ in range(depth + 1)] for _ in range(2))  # index l
    b, d = ([np.zeros((m, n)) for _ in range(depth + 1)] for _ in range(2))  # index l means B^l, D^l
    cov = [None, *(np.zeros((size, size)) for _ in range(depth))]
    h, z, g, gt = ([None, *(np.zeros((len(chances), rows, size)) for _ in range(depth))] for rows in (n, m, m, m))
    gate_f, gate_b = np.tile(patterns, (1, times)), np.tile(np.repeat(patterns, C, axis=1), (1, times))
    f, delta = np.zeros((times, P, C)), np.zeros((times, P, C))
    used = np.zeros(m)  # errors of the batch, on the backward index

    def mean(left, covariance, right):
        return np.einsum("k,kij->ij", chances, left @ covariance @ np.swapaxes(right, 1, 2))

    for t in range(times):
        F, B = slice(t * P, (t + 1) * P), slice(t * P * C, (t + 1) * P * C)
        F_to, B_to, B_before = slice(0, (t + 1) * P), slice(0, (t + 1) * P * C), slice(0, t * P * C)
        for k in range(1, depth + 1):
            covariance = own_ff[k - 1][F, F_to] * Phi[k - 1][F, F_to] + bias_ff[k - 1][F, F_to]
            cov[k][F, F_to] = covariance
            cov[k][F_to, F] = covariance.T
            echo = np.sqrt(ratio[k - 1] / ratio[k])
            strength = gamma0 / np.sqrt(ratio[k])
            update = mem_fb[F, B_before] * ((Phi[k - 1][F] + learns) @ spread)[:, B_before] * used[B_before]
            by_g = echo * own_fb[k - 1][F, B_before] * a[k - 1][F, B_before]
            by_gt = echo * sigma2[k - 1] * dec_f[F, None] * c[k - 1][F, B_before] + strength * update
            h[k][:, F] = by_g @ g[k][:, B_before] + by_gt @ gt[k][:, B_before]
            h[k][:, F, u_][:, :, F] += np.eye(P)
            phi_now, phi = gate_f[:, F, None] * h[k][:, F], gate_f[:, F_to, None] * h[k][:, F_to]
            row = mean(phi_now, cov[k], phi)
            Phi[k][F, F_to], Phi[k][F_to, F] = row, row.T
            response = np.einsum("k,kij->ij", chances, phi_now)
            a[k][F] = response[:, r_]
            if feedback:
                c[k][F] = response[:, v_]
        for k in range(depth, 0, -1):
            # backward sources of layer k: the kernels of layer k + 1 are known at this time
            source = own_bb[k][B, B_to] * G[k + 1][B, B_to]
            cov[k][r_, r_][B, B_to], cov[k][r_, r_][B_to, B] = source, source.T
            if feedback:
                frozen = sigma2[k] * Gtt[k + 1][B, B_to]
                for part in (v_, zeta_):
                    cov[k][part, part][B, B_to], cov[k][part, part][B_to, B] = frozen, frozen.T
                for rows, columns in ((B, B_to), (B_to, B)):
                    mixed = sigma2[k] * dec_b[rows, None] * Gt[k + 1][rows, columns]
                    cov[k][r_, v_][rows, columns], cov[k][v_, r_][columns, rows] = mixed, mixed.T
            if rule == "dfa" and t == 0:
                cov[k][n + m :, n + m :] = np.eye(C)
            phi = gate_f[:, F_to, None] * h[k][:, F_to]
            echo = np.sqrt(ratio[k + 1] / ratio[k])
            strength = gamma0 / np.sqrt(ratio[k])
            update = mem_bf[B, F_to] * ((Gt[k + 1][B] * used) @ spread.T)[:, F_to]
            z[k][:, B] = (echo * own_bf[k][B, F_to] * b[k][B, F_to] + strength * update) @ phi
            z[k][:, B, r_][:, :, B] += np.eye(P * C)
            g[k][:, B] = gate_b[:, B, None] * z[k][:, B]
            if k == depth:
                product = mean(z[k][:, B], cov[k], phi[:, F]).reshape(P, C, P)
                f[t] = np.einsum("pcp->pc", product) / gamma0
                if train_biases:
                    f[t] += np.einsum("s,spc->c", mem[t], used.reshape(times, P, C))
                delta[t] = error(f[t], targets)
                used[B] = (weight * mask[t][:, None] * delta[t]).ravel()
            if rule in ("gd", "gln"):
                gt[k][:, B] = g[k][:, B]
            elif rule == "hebb":
                gt[k][:, B] = (weight * delta[t]).ravel()[:, None] * np.repeat(phi[:, F], C, axis=1)
            elif rule == "dfa":
                gt[k][:, B, n + m :] = np.tile(np.eye(C), (P, 1))
            else:
                gt[k][:, B] = rho * echo * sigma2[k] * (dec_f[F_to] * d[k][B, F_to]) @ phi
                gt[k][:, B, v_][:, :, B] += rho * np.eye(P * C)
                gt[k][:, B, zeta_][:, :, B] += np.sqrt(1 - rho**2) * np.eye(P * C)
            for kernel, left, right in ((G, g, g), (Gt, g, gt), (Gtt, gt, gt)):
                kernel[k][B, B_to] = mean(left[k][:, B], cov[k], right[k][:, B_to])
                kernel[k][B_to, B] = mean(left[k][:, B_to], cov[k], right[k][:, B])
            b[k - 1][B] = np.einsum("k,kij->ij", chances, g[k][:, B, u_])
            d[k - 1][B] = np.einsum("k,kij->ij", chances, gt[k][:, B, u_])

    one = y.ndim == 1
    back = (times, P) if one else (times, P, C)

    def shaped(kernels, rows, columns):
        return [kernel.reshape(*rows, *columns) for kernel in kernels]

    return Solution(
        f=f[:, :, 0] if one else f,
        delta=delta[:, :, 0] if one else delta,
        features=shaped(Phi[1:], (times, P), (times, P)),
        gradients=shaped(G[1:-1], back, back),
        alignment=shaped(Gt[1:-1], back, back),
        pseudo=shaped(Gtt[1:-1], back, back),
        a=shaped(a[1:], (times, P), back),
        b=shaped(b[:-1], back, (times, P)),
        c=shaped(c[1:], (times, P), back),
        d=shaped(d[:-1], back, (times, P)),
        dec=dec,
        mem=mem,
        inputs=K,
        trained_biases=train_biases,
    )
