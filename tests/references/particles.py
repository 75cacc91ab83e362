"""The exact process of infinitely wide nonlinear networks by deterministic integration, in plain NumPy.

Nothing is sampled and nothing is shared with the package. Theory: BP22 and BP23.

* `two_layer`: L = 1, smooth activations, any P that a tensor grid in P + 1 dimensions affords (P = 1, 2);
* `two_layer_relu`: L = 1, ReLU, P = 1, 2. The flow is piecewise linear and homogeneous, so it is followed exactly on
  cones that are cut wherever a preactivation changes sign;
* `deep_single_point`: any L, P = 1, few steps, smooth activations: the causal sweep with responses on tensor grids.

Time t = 0 .. T counts steps: fields, kernels and outputs at t are those after t steps. f(0) = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

ACTIVATIONS = {  # phi, phi', whether phi is odd
    "linear": (lambda h: h, lambda h: np.ones_like(h), True),
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h) ** 2, True),
    "erf": (erf, lambda h: 2 / np.sqrt(np.pi) * np.exp(-(h**2)), True),
    "gelu": (
        lambda h: 0.5 * h * (1 + erf(h / np.sqrt(2))),
        lambda h: 0.5 * (1 + erf(h / np.sqrt(2))) + h * np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi),
        False,
    ),
    "relu": (lambda h: np.maximum(h, 0.0), lambda h: 1.0 * (h > 0), False),  # slow convergence: a check only
}


@dataclass
class TwoLayer:
    """f, delta (T+1, P); features, gradients, alignment (rows g, columns gt), pseudo (T+1, P, P) at equal times."""

    f: np.ndarray
    delta: np.ndarray
    features: np.ndarray
    gradients: np.ndarray
    alignment: np.ndarray
    pseudo: np.ndarray
    inputs: np.ndarray
    trained_biases: bool = False

    def equal_time(self, name):
        """A kernel as (T+1, 1, P, P): the layout of a Trajectory."""
        return getattr(self, name)[:, None]

    def ntk(self):
        """Gt K^x + Phi, (T+1, P, P)."""
        bias = 1.0 * self.trained_biases
        return self.alignment * (self.inputs + bias) + self.features + bias


class Recurrence:
    """Q <- m Q + (1 - m)(G - lambda W), W <- W + eta Q, for anything that adds and scales."""

    def __init__(self, rates, momentum, decay):
        self.rates, self.momentum, self.decay, self.velocities = rates, momentum, decay, {}

    def __call__(self, name, value, drive, t):
        velocity = self.momentum * self.velocities.get(name, 0.0) + (1 - self.momentum) * (drive - self.decay * value)
        self.velocities[name] = velocity
        return value + self.rates[t] * velocity


def _settings(K, y, eta, steps, batches, weight_variances, bias_variances, train_biases, decay):
    K, y = np.atleast_2d(np.asarray(K, float)), np.asarray(y, float)
    sigma2 = np.broadcast_to(np.asarray(weight_variances, float), (2,))
    beta2 = np.broadcast_to(np.asarray(bias_variances, float), (2,))
    if beta2[0] and decay and not train_biases:
        raise NotImplementedError("frozen biases next to weights that decay need another dimension")
    mask = np.ones((steps + 1, len(K)))
    if batches is not None:
        mask[:steps] = np.asarray(batches, float)
    rates = np.broadcast_to(np.asarray(eta, float), (steps,))
    return K, y, rates, mask, sigma2[0] * K + beta2[0], np.sqrt(sigma2[1])


def _feedback(rule, rho, scale):
    """The readout is overlap q + rest w and the feedback strength q, for independent normals q, w."""
    if rule == "gd":
        return scale, 0.0, 1.0
    if rule == "fa":
        return scale * rho, scale * np.sqrt(1 - rho**2), scale
    return 0.0, scale, 1.0  # dfa; hebb has no use for q


def _axis(spacing, cutoff, half=False):
    """Trapezoidal rule for a standard normal: exponentially accurate for functions analytic near the real line."""
    count = int(np.ceil(cutoff / spacing))
    points = (np.arange(0 if half else -count, count) + 0.5) * spacing
    weights = np.exp(-(points**2) / 2)
    return points, weights / weights.sum()


def two_layer(
    K,
    y,
    *,
    activation,
    gamma0,
    eta,
    steps,
    rule="gd",
    rho=0.0,
    momentum=0.0,
    decay=0.0,
    batches=None,
    weight_variances=1.0,
    bias_variances=0.0,
    train_biases=False,
    error=lambda f, y: y - f,
    weight=1.0,
    spacing=None,
    cutoff=8.0,
):
    """Section 4.3: h_mu and z of every neuron from h(0) ~ N(0, K), z(0) ~ N(0, 1), on a grid of initial values.

    z = z' + w with a w that no other field sees, for every rule but gradient descent, so the grid is over h(0) and
    the feedback q only (over h(0) alone for "hebb"). The arguments are those of `linear_reference.sweep`; `spacing` and
    `cutoff` belong to the grid, in standard deviations (None: 0.05 in two dimensions, 0.15 in three). The trapezoidal
    rule converges exponentially: halve `spacing` to see the error.
    """
    phi, slope, odd = ACTIVATIONS[activation]
    K, y, rates, mask, covariance, scale = _settings(
        K, y, eta, steps, batches, weight_variances, bias_variances, train_biases, decay
    )
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    overlap, rest, strength = _feedback(rule, rho, scale)
    dimensions = root.shape[1] + (rule != "hebb")
    if spacing is None:
        spacing = 0.15 if dimensions > 2 else 0.05
    axes = [_axis(spacing, cutoff, half=odd and i == dimensions - 1) for i in range(dimensions)]
    grid = np.stack([x.ravel() for x in np.meshgrid(*(x for x, _ in axes), indexing="ij")])
    chance = np.ones(1)
    for _, weights in axes:
        chance = np.multiply.outer(chance, weights).ravel()
    h = root @ grid[: root.shape[1]]
    q = np.zeros(len(chance)) if rule == "hebb" else grid[-1]
    z, offset = overlap * q, 0.0
    move = Recurrence(rates, momentum, decay)
    found = {name: [] for name in ("f", "delta", "features", "gradients", "alignment", "pseudo")}
    for t in range(steps + 1):
        features, slopes = phi(h), slope(h)
        g = slopes * z
        f = features @ (chance * z) / gamma0 + offset
        delta = error(f, y)
        if rule == "gd":
            gt = g
        elif rule == "hebb":
            gt = weight * delta[:, None] * features
        else:
            gt = slopes * (strength * q)
        found["f"].append(f)
        found["delta"].append(delta)
        found["features"].append((features * chance) @ features.T)
        found["gradients"].append((g * chance) @ g.T + rest**2 * (slopes * chance) @ slopes.T)
        found["alignment"].append((g * chance) @ gt.T)
        found["pseudo"].append((gt * chance) @ gt.T)
        if rule == "gd":
            found["pseudo"][-1] = found["alignment"][-1] = found["gradients"][-1]
        if t == steps:
            break
        used = weight * mask[t] * delta
        h = move("h", h, gamma0 * ((K + train_biases) * used) @ gt, t)
        z = move("z", z, gamma0 * used @ features, t)
        rest = move("rest", rest, 0.0, t)
        if train_biases:
            offset = move("offset", offset, np.sum(used), t)
    return TwoLayer(**{k: np.array(v) for k, v in found.items()}, inputs=K, trained_biases=train_biases)


class Cone:
    """A convex cone of initial values x, on which h = H x and z = Z x, with <x x^T> over the cone."""

    def __init__(self, rays, state):
        self.rays, self.state = rays / np.linalg.norm(rays, axis=1, keepdims=True), state
        self.moment = _sector(self.rays) if rays.shape[1] == 2 else _spherical_polygon(self.rays)

    def cut(self, normal):
        """The parts with normal.x > 0 and < 0 (the cone itself if it lies on one side)."""
        side = self.rays @ normal
        side[np.abs(side) < 1e-13 * np.linalg.norm(normal)] = 0.0
        if np.all(side >= 0) or np.all(side <= 0):
            return [self]
        parts = []
        for sign in (1, -1):
            rays = []
            for i, ray in enumerate(self.rays):
                j = (i + 1) % len(self.rays)
                if sign * side[i] >= 0:
                    rays.append(ray)
                if side[i] * side[j] < 0 and (len(self.rays) > 2 or i == 0):
                    crossing = (side[j] * ray - side[i] * self.rays[j]) * np.sign(side[j])
                    rays.append(crossing)
            parts.append(Cone(np.array(rays), {k: v.copy() for k, v in self.state.items()}))
        return parts


def _sector(rays):
    start, end = np.arctan2(rays[:, 1], rays[:, 0])
    width = (end - start + np.pi) % (2 * np.pi) - np.pi
    middle, half = start + width / 2, abs(width) / 2
    # integral of e e^T over the angle; <r^2> = 2, so the density is 1 / pi
    c, s = np.cos(2 * middle) * np.sin(2 * half) / 2, np.sin(2 * middle) * np.sin(2 * half) / 2
    return np.array([[half + c, s], [s, half - c]]) / np.pi


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_FIRST = np.repeat(_NODES, len(_NODES))
_SECOND = np.tile(_NODES, len(_NODES)) * (1 - _FIRST)
_BARYCENTRIC = np.stack([_FIRST, _SECOND, 1 - _FIRST - _SECOND], axis=1)
_AREA = np.repeat(_WEIGHTS, len(_NODES)) * np.tile(_WEIGHTS, len(_NODES)) * (1 - _FIRST)


def _spherical_polygon(rays):
    total = np.zeros((3, 3))
    for i in range(1, len(rays) - 1):
        corners = rays[[0, i, i + 1]]
        points = _BARYCENTRIC @ corners
        radius = np.linalg.norm(points, axis=1)
        density = _AREA * abs(np.linalg.det(corners)) / radius**5
        total += (points * density[:, None]).T @ points
    return total * 3 / (4 * np.pi)


def two_layer_relu(
    K,
    y,
    *,
    gamma0,
    eta,
    steps,
    rule="gd",
    rho=0.0,
    momentum=0.0,
    decay=0.0,
    batches=None,
    weight_variances=1.0,
    bias_variances=0.0,
    train_biases=False,
    error=lambda f, y: y - f,
    weight=1.0,
):
    """Section 4.3 for ReLU, P = 1 or 2 (K of full rank), with the arguments of `two_layer`."""
    K, y, rates, mask, covariance, scale = _settings(
        K, y, eta, steps, batches, weight_variances, bias_variances, train_biases, decay
    )
    P = len(K)
    root = np.linalg.cholesky(covariance)
    overlap, rest, strength = _feedback(rule, rho, scale)
    q = np.eye(P + 1)[-1]
    start = {"h": np.hstack([root, np.zeros((P, 1))]), "z": overlap * q}
    start |= {"vh": np.zeros((P, P + 1)), "vz": np.zeros(P + 1)}
    signs = np.array(np.meshgrid(*[[1.0, -1.0]] * (P + 1))).reshape(P + 1, -1).T
    cones = [Cone(np.diag(s), {k: v.copy() for k, v in start.items()}) for s in signs]
    offset = 0.0
    move = Recurrence(rates, momentum, decay)
    found = {name: [] for name in ("f", "delta", "features", "gradients", "alignment", "pseudo")}
    for t in range(steps + 1):
        for mu in range(P):
            cones = [part for cone in cones for part in cone.cut(cone.state["h"][mu])]
        H, Z = np.stack([c.state["h"] for c in cones]), np.stack([c.state["z"] for c in cones])
        moment = np.stack([c.moment for c in cones])
        inside = np.stack([c.rays.mean(axis=0) for c in cones])
        slopes = 1.0 * (np.einsum("kpi,ki->kp", H, inside) > 0)
        features, g = slopes[:, :, None] * H, slopes[:, :, None] * Z[:, None, :]
        f = np.einsum("kpi,kij,kj->p", features, moment, Z) / gamma0 + offset
        delta = error(f, y)
        if rule == "gd":
            gt = g
        elif rule == "hebb":
            gt = weight * delta[:, None] * features
        else:
            gt = slopes[:, :, None] * (strength * q)
        chance = np.trace(moment, axis1=1, axis2=2) / (P + 1)
        found["f"].append(f)
        found["delta"].append(delta)
        for name, left, right in (("features", features, features), ("alignment", g, gt), ("pseudo", gt, gt)):
            found[name].append(np.einsum("kpi,kij,kqj->pq", left, moment, right))
        own = rest**2 * np.einsum("k,kp,kq->pq", chance, slopes, slopes)
        found["gradients"].append(np.einsum("kpi,kij,kqj->pq", g, moment, g) + own)
        if t == steps:
            break
        used = weight * mask[t] * delta
        drive_h = gamma0 * np.einsum("pq,kqi->kpi", (K + train_biases) * used, gt)
        drive_z = gamma0 * np.einsum("p,kpi->ki", used, features)
        for cone, dh, dz in zip(cones, drive_h, drive_z, strict=True):
            one = cone.state
            one["vh"] = momentum * one["vh"] + (1 - momentum) * (dh - decay * one["h"])
            one["vz"] = momentum * one["vz"] + (1 - momentum) * (dz - decay * one["z"])
            one["h"], one["z"] = one["h"] + rates[t] * one["vh"], one["z"] + rates[t] * one["vz"]
        rest = move("rest", rest, 0.0, t)
        if train_biases:
            offset = move("offset", offset, np.sum(used), t)
    return TwoLayer(**{k: np.array(v) for k, v in found.items()}, inputs=K, trained_biases=train_biases)


def _nodes(deviation, linear, spacing):
    """Points and weights for a standard normal that a field sees with this standard deviation."""
    if not linear and deviation > 0.25:
        return _axis(spacing, 7.0)
    count = 2 if linear else 4 + int(8 * deviation / spacing)
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    return points, weights / weights.sum()


class Layer:
    """The single-site process of a layer: each independent normal is an axis, fields are arrays over the axes.

    Sources are made one after the other from their covariance with all earlier ones (a Cholesky row); a source that
    the earlier ones determine gets no axis of its own.
    """

    def __init__(self, dimensions, spacing):
        self.dimensions, self.spacing, self.axes, self.normals = dimensions, spacing, [], []
        self.rows = {"u": [], "w": [], "r": []}
        self.pivots = {"u": [], "w": [], "r": []}

    def normal(self, deviation, linear=False):
        """A new standard normal."""
        points, weights = _nodes(deviation, linear, self.spacing)
        shape = [1] * self.dimensions
        shape[len(self.axes)] = len(points)
        self.axes.append(weights)
        self.normals.append(points.reshape(shape))
        return len(self.axes) - 1

    def source(self, kind, covariance, linear=False):
        """The next source of a kind, from its covariance with earlier ones ("w" and "r" are correlated) and itself."""
        rows = self.rows["w"] + self.rows["r"] if kind != "u" else self.rows["u"]
        pivots = self.pivots["w"] + self.pivots["r"] if kind != "u" else self.pivots["u"]
        row = {}
        if pivots:
            # Coefficients on the normals met so far, from the covariances with the sources that span them.
            matrix = np.array([[rows[i].get(j, 0.0) for j in pivots] for i in range(len(rows))])
            solution = np.linalg.lstsq(matrix, np.asarray(covariance[:-1]), rcond=1e-13)[0]
            row = dict(zip(pivots, solution, strict=True))
        left = covariance[-1] - sum(value**2 for value in row.values())
        if left > 1e-14 * covariance[-1]:
            axis = self.normal(np.sqrt(left), linear)
            row[axis] = np.sqrt(left)
            self.pivots[kind].append(axis)
        self.rows[kind].append(row)
        return sum((value * self.normals[axis] for axis, value in row.items()), np.zeros([1] * self.dimensions))

    def mean(self, value):
        """Average over all axes."""
        for axis, weights in enumerate(self.axes):
            if value.shape[axis] > 1:
                value = np.tensordot(value, weights, (axis, 0))
                value = np.expand_dims(value, axis)
        return float(value.reshape(()))

    def response(self, value, kind):
        """<d value / d source(s)> for all sources of a kind so far, by Stein's lemma."""
        pivots = self.pivots["u"] if kind == "u" else self.pivots["w"] + self.pivots["r"]
        matrix = np.array([[row.get(j, 0.0) for j in pivots] for row in self.rows[kind]])
        moments = np.array([self.mean(value * self.normals[j]) for j in pivots])
        return np.linalg.lstsq(matrix.T, moments, rcond=1e-13)[0]


def deep_single_point(K, y, *, depth, activation, gamma0, eta, steps, rule="gd", rho=0.0, spacing=0.25):
    """Section 3.1 for one sample of squared norm K, by the causal sweep with tensor quadrature in every layer.

    Returns a dictionary: f (T+1,); for every layer, as lists, features, gradients, alignment, pseudo (T+1, T+1) and the
    responses a^l = <d phi^l(t) / d r^l(s)>, b^{l-1} = <d g^l(t) / d u^l(s)> (T+1, T+1), and c, d of "fa" (0 elsewhere).
    The outermost a^L, c^L, b^0, d^0 belong to static sources and are left 0; others are unique only where the sources
    are linearly independent (not in all linear networks). The cost grows exponentially with `steps`: 3 or 4 for
    L = 2, 2 for L = 3. Halve `spacing` to see the error.
    """
    phi, slope, _ = ACTIVATIONS[activation]
    times = steps + 1
    drives = rule in ("gd", "fa")  # whether backward sources come back into h
    layers = [None, *(Layer(3 * times + 1, spacing) for _ in range(depth))]
    empty = [np.zeros((times, times)) for _ in range(depth + 2)]
    Phi, G, Gt, Gtt, a, b, c, d = ([x.copy() for x in empty] for _ in range(8))
    Phi[0][:] = K
    for kernel in (G, Gt, Gtt):
        kernel[depth + 1][:] = 1.0
    H, Z, g, gt = ([[] for _ in range(depth + 1)] for _ in range(4))
    direct = [None] * (depth + 1)
    f, delta = np.zeros(times), np.zeros(times)
    for t in range(times):
        for k in range(1, depth + 1):
            layer = layers[k]
            h = layer.source("u", Phi[k - 1][t, : t + 1])
            for s in range(t):
                h = h + a[k - 1][t, s] * g[k][s]
                h = h + (c[k - 1][t, s] + eta * gamma0 * Phi[k - 1][t, s] * delta[s]) * gt[k][s]
            H[k].append(h)
            for s in range(t + 1):
                Phi[k][t, s] = Phi[k][s, t] = layer.mean(phi(h) * phi(H[k][s]))
            if t and drives and k < depth:
                response = layer.response(phi(h), "r" if rule == "gd" else "w")
                if rule == "gd":
                    a[k][t, :t] = response
                else:
                    c[k][t, :t] = rho * response
        for k in range(depth, 0, -1):
            layer, h = layers[k], H[k][t]
            last = t == steps
            if rule == "fa":
                # w = sqrt(1 - rho^2) zeta + rho v, with <w w> = Gtt and <r w> = rho Gt; then r given all w so far
                w = layer.source("w", [*Gtt[k + 1][t, :t], *(rho * Gt[k + 1][:t, t]), Gtt[k + 1][t, t]], linear=last)
                covariance = [*(rho * Gt[k + 1][t, : t + 1]), *G[k + 1][t, : t + 1]]
                r = layer.source("r", covariance, linear=True)
            else:
                r = layer.source("r", G[k + 1][t, : t + 1], linear=last or not drives)
            z = r
            for s in range(t + 1):
                z = z + (b[k][t, s] + (s < t) * eta * gamma0 * Gt[k + 1][t, s] * delta[s]) * phi(H[k][s])
            Z[k].append(z)
            if k == depth:
                f[t] = layer.mean(z * phi(h)) / gamma0
                delta[t] = y - f[t]
            g[k].append(slope(h) * z)
            if rule == "gd":
                gt[k].append(g[k][t])
            elif rule == "hebb":
                gt[k].append(delta[t] * phi(h))
            elif rule == "dfa":
                if t == 0:
                    direct[k] = layer.normals[layer.normal(1.0)]
                gt[k].append(slope(h) * direct[k])
            else:
                zt = w
                for s in range(t + 1):
                    zt = zt + rho * d[k][t, s] * phi(H[k][s])
                gt[k].append(slope(h) * zt)
            for s in range(t + 1):
                G[k][t, s] = G[k][s, t] = layer.mean(g[k][t] * g[k][s])
                Gtt[k][t, s] = Gtt[k][s, t] = layer.mean(gt[k][t] * gt[k][s])
                Gt[k][t, s], Gt[k][s, t] = layer.mean(g[k][t] * gt[k][s]), layer.mean(g[k][s] * gt[k][t])
            if k > 1:
                b[k - 1][t, : t + 1] = layer.response(g[k][t], "u")
                d[k - 1][t, : t + 1] = layer.response(gt[k][t], "u")
    names = {"features": Phi[1:-1], "gradients": G[1:-1], "alignment": Gt[1:-1], "pseudo": Gtt[1:-1]}
    return {"f": f, **names, "a": a[1:-1], "b": b[:depth], "c": c[1:-1], "d": d[:depth]}
