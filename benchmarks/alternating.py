"""The published solver of the infinite-width equations: alternating Monte Carlo (BP22 Algorithm 1), compiled.

    solution = alternate(x @ x.T / D, y, "tanh", 3, 1.0, 0.05, 100, Settings(samples=1000))
    solution.at(solution.features, 3, 100, 100)     # Phi^3 at the end, (P, P)

A baseline, kept apart from the package. Gradient descent, squared loss (sum over samples), one centred output,
mean-field parameterisation. Times are 0..steps, T = steps + 1 of them; a flat index is t P + mu (time-major), n = P T.

Every iteration draws, for each layer l, S samples of u ~ GP(0, Phi^{l-1}) and r ~ GP(0, G^{l+1}) and marches

    h = u + (a^{l-1} + eta gamma_0 Theta Phi^{l-1} diag(Delta)) g,       Theta: strictly earlier times
    z = r + (b^l + eta gamma_0 Theta G^{l+1} diag(Delta)) phi(h),        g = phi'(h) z

in time (BP22 eq. (10)), then estimates Phi^l = <phi phi^T>, G^l = <g g^T>, a^l = <d phi / d r>, b^{l-1} = <d g / d u>
and moves every order parameter the fraction `damping` of the way to its estimate. The output is the exact discrete one,

    f = <r^L phi(h^L)> / gamma_0 + eta (Theta Phi^L) (y - f).

Work per iteration: about (6 L - 4) n^2 S flops in matrix products over the samples (only causal halves are multiplied;
the static sources u^1 and r^L are drawn as P numbers and 1 number), 2/3 (L - 1) n^3 in factorisations and, for the
responses, (4 L - 2)/3 n^3 for each sample that is differentiated, or 2 (L - 1) n^2 (S + n) by Stein's lemma.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax.linalg import triangular_solve
from numpy.typing import NDArray

Array = jax.Array
Function = Callable[[Any], Any]

ACTIVATIONS: dict[str, Function] = {
    "tanh": jnp.tanh,
    "linear": lambda h: h,
    "relu": jax.nn.relu,
    "erf": jax.lax.erf,
    "gelu": partial(jax.nn.gelu, approximate=False),
}
MARCH_ROWS, PRODUCT_ROWS, JACOBIAN_ROWS = 100, 256, 128
"""Rows per block of the march and of causal products: small blocks skip more zeros, large ones run faster."""


@dataclass(frozen=True)
class Settings:
    """How to iterate. The defaults `damping`, `fresh`, `settle` and plain draws are the published ones.

    Args:
        samples: number S of samples of the sources of a layer.
        damping: fraction beta of the way to the new estimate that every order parameter moves.
        iterations: most iterations.
        tolerance: stop at this relative change of the kernels per iteration; fresh noise stalls at its own level.
        seed: of the random numbers.
        responses: "jacobian" (implicit differentiation of `jacobian_samples` samples, 4/3 n^3 flops each, smooth
            activations) or "stein" (correlations with the noise that was drawn, any activation). Stein's lemma adds
            noise of relative variance about n_eff / S to the fields, n_eff = sum lambda / (lambda + jitter) over the
            eigenvalues of a kernel: with fresh noise and S of the order of n it does not converge.
        fresh: new random numbers in every iteration; otherwise the same ones (then the iteration converges).
        matched: make the second moments of the draws exact; needs more samples than sources, 2 n.
        control: before Stein's lemma, subtract phi(u) from phi(h) and phi'(u) r from g: their correlations with the
            noise vanish in the mean.
        settle: after this many iterations the damping falls as 1/k, which averages the noise away; None: never.
        jitter: added to the diagonal of covariances, relative to its mean. Stein's lemma needs about 1e-3.
        jacobian_samples: how many of the samples "jacobian" differentiates; None: all.
    """

    samples: int = 1000
    damping: float = 0.6
    iterations: int = 20
    tolerance: float = 0.0
    seed: int = 0
    responses: Literal["stein", "jacobian"] = "jacobian"
    fresh: bool = True
    matched: bool = False
    control: bool = True
    settle: int | None = None
    jitter: float = 1e-6
    jacobian_samples: int | None = 32


class Order(NamedTuple):
    """Phi^1..Phi^L, G^1..G^L, a^1..a^{L-1}, b^1..b^{L-1}, all (n, n), and <r^L phi(h^L)> / gamma_0, (n,)."""

    features: tuple[Array, ...]
    gradients: tuple[Array, ...]
    forward: tuple[Array, ...]
    backward: tuple[Array, ...]
    readout: Array


@dataclass(frozen=True)
class Solution:
    """Two-time arrays over the flat index t P + mu, and how they were found.

    Args:
        features: Phi^1..Phi^L, shape (L, n, n).
        gradients: G^1..G^L, shape (L, n, n).
        forward: responses a^1..a^{L-1}, strictly causal, shape (L - 1, n, n).
        backward: responses b^1..b^{L-1}, with their equal-time part, shape (L - 1, n, n).
        outputs: f, shape (T, P).
        change: largest relative change of a kernel in every iteration.
        seconds: of every iteration; the first one of a new shape compiles.
        converged: whether the tolerance was reached.
        history: what `watch` returned after every iteration.
    """

    features: NDArray[np.float64]
    gradients: NDArray[np.float64]
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    outputs: NDArray[np.float64]
    change: NDArray[np.float64]
    seconds: NDArray[np.float64]
    converged: bool
    history: list[Any] = field(default_factory=list)

    @property
    def seconds_per_iteration(self) -> float:
        """Median without the first iteration."""
        return float(np.median(self.seconds[1:] if len(self.seconds) > 1 else self.seconds))

    def at(self, kernels: NDArray[np.float64], layer: int, t: int, s: int) -> NDArray[np.float64]:
        """The (P, P) block of a kernel or response of `layer` (from 1) at the times t, s."""
        times, count = self.outputs.shape
        block: NDArray[np.float64] = kernels[layer - 1].reshape(times, count, times, count)[t, :, s, :]
        return block


def alternate(
    kernel_x: NDArray[np.float64],
    y: NDArray[np.float64],
    activation: str | Function,
    hidden_layers: int,
    richness: float,
    rate: float,
    steps: int,
    settings: Settings | None = None,
    *,
    watch: Callable[[Order, Array], Any] | None = None,
) -> Solution:
    """Solve the infinite-width equations of gradient descent by alternating Monte Carlo.

    Args:
        kernel_x: K^x = x x^T / D, shape (P, P).
        y: targets, shape (P,).
        activation: a name in `ACTIVATIONS`, or an elementwise jax function.
        hidden_layers: L.
        richness: gamma_0 > 0.
        rate: learning rate eta, the step in time.
        steps: of gradient descent.
        settings: how to iterate.
        watch: called with the order parameters and the outputs (n,) after every iteration, outside the timing.
    """
    options = settings or Settings()
    phi = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    _check(options, len(y), steps + 1, hidden_layers, richness)
    with jax.enable_x64(True):
        kernel = jnp.asarray(kernel_x, jnp.float64)
        targets = jnp.tile(jnp.asarray(y, jnp.float64), steps + 1)
        order = _lazy(phi, kernel, hidden_layers, steps + 1)
        outputs = _outputs(order, targets, rate, len(y))
        key, change, seconds, history, converged = jax.random.key(options.seed), [], [], [], False
        for iteration in range(options.iterations):
            began = time.perf_counter()
            noise = jax.random.fold_in(key, iteration if options.fresh else 0)
            estimate = _estimate(noise, order, kernel, targets - outputs, phi, richness, rate, options)
            order, moved = _damp(order, estimate, _damping(options, iteration))
            outputs = _outputs(order, targets, rate, len(y)).block_until_ready()
            seconds.append(time.perf_counter() - began)
            change.append(float(moved))
            if watch:
                history.append(watch(order, outputs))
            if not np.isfinite(change[-1]):
                raise FloatingPointError(f"the iteration diverged in iteration {iteration + 1}: use more samples")
            converged = change[-1] <= options.tolerance
            if converged:
                break
    n = len(targets)
    features, gradients, forward, backward = (
        np.stack([np.asarray(k) for k in kernels]) if kernels else np.zeros((0, n, n)) for kernels in order[:4]
    )
    return Solution(
        *(features, gradients, forward, backward),
        outputs=np.asarray(outputs).reshape(steps + 1, len(y)),
        change=np.array(change),
        seconds=np.array(seconds),
        converged=converged,
        history=history,
    )


def _check(settings: Settings, count: int, times: int, layers: int, richness: float) -> None:
    if layers < 1 or times < 2 or richness <= 0:
        raise ValueError("at least one hidden layer, one step and a positive richness are needed")
    sources = 2 * count * times if layers > 2 else (count * times + count if layers == 2 else count + 1)
    if settings.matched and settings.samples <= sources:
        raise ValueError(f"matched draws need more samples than sources, {sources}")


def _damping(settings: Settings, iteration: int) -> float:
    """The published constant or, after `settle` iterations, 1/k from there on (a running mean of the estimates)."""
    late = 0 if settings.settle is None else max(0, iteration + 1 - settings.settle)
    return 1 / (1 / settings.damping + late)


def _estimate(
    key: Array,
    order: Order,
    kernel: Array,
    errors: Array,
    phi: Function,
    richness: float,
    rate: float,
    settings: Settings,
) -> Order:
    """One pass over the layers, all from the same iterate (Jacobi). Inner layers share their compiled code."""
    layers, times = len(order.features), len(errors) // len(kernel)
    below = (jnp.tile(kernel, (times, times)), *order.features)
    above = (*order.gradients[1:], jnp.ones_like(order.gradients[0]))
    zero = jnp.zeros_like(order.gradients[0])
    results = [
        _layer(
            jax.random.fold_in(key, layer),
            (kernel, below[layer], above[layer]),
            _coupling(order.forward[layer - 1] if layer else zero, below[layer], errors, rate * richness, len(kernel)),
            _coupling(
                order.backward[layer] if layer < layers - 1 else zero,
                above[layer],
                errors,
                rate * richness,
                len(kernel),
            ),
            phi=phi,
            first=layer == 0,
            last=layer == layers - 1,
            settings=settings,
        )
        for layer in range(layers)
    ]
    features, gradients, forward, backward, readout = zip(*results, strict=True)
    return Order(features, gradients, forward[:-1], backward[1:], readout[-1] / richness)


@partial(jax.jit, static_argnames="count")
def _coupling(response: Array, kernel: Array, errors: Array, scale: float, count: int) -> Array:
    """response + eta gamma_0 Theta K diag(Delta)."""
    return response + jnp.where(_later(len(errors), count), kernel * (scale * errors)[None, :], 0.0)


@partial(jax.jit, static_argnames="count")
def _outputs(order: Order, targets: Array, rate: float, count: int) -> Array:
    """Solve f = <r^L phi(h^L)>/gamma_0 + M (y - f) with M = eta Theta Phi^L, by forward substitution."""
    memory = rate * jnp.where(_later(len(targets), count), order.features[-1], 0.0)
    right = order.readout + memory @ targets
    identity = jnp.eye(len(targets), dtype=memory.dtype)
    return triangular_solve(identity + memory, right[:, None], left_side=True, lower=True, unit_diagonal=True)[:, 0]


@jax.jit
def _damp(order: Order, estimate: Order, damping: float) -> tuple[Order, Array]:
    moved: Order = jax.tree.map(lambda old, new: old + damping * (new - old), order, estimate)
    kernels = zip(order.features + order.gradients, moved.features + moved.gradients, strict=True)
    return moved, jnp.max(jnp.stack([jnp.linalg.norm(new - old) / jnp.linalg.norm(old) for old, new in kernels]))


def _later(n: int, count: int) -> Array:
    """Theta: whether row time > column time."""
    times = jnp.arange(n) // count
    return times[:, None] > times[None, :]


@partial(jax.jit, static_argnames=("phi", "first", "last", "settings"))
def _layer(
    key: Array,
    kernels: tuple[Array, Array, Array],
    forward: Array,
    backward: Array,
    *,
    phi: Function,
    first: bool,
    last: bool,
    settings: Settings,
) -> tuple[Array, Array, Array | None, Array | None, Array | None]:
    """New estimates of Phi^l, G^l, a^l (unless last), b^{l-1} (unless first) and <r^L phi(h^L)> (if last)."""
    kernel, below, above = kernels
    count, n, samples = len(kernel), len(below), settings.samples
    factor_u = _factor(kernel if first else below, settings.jitter)
    factor_r = jnp.ones((1, 1), kernel.dtype) if last else _factor(above, settings.jitter)
    noise = jax.random.normal(key, (len(factor_u) + len(factor_r), samples), kernel.dtype)
    if settings.matched:
        moments = jnp.linalg.cholesky(_gram(noise))
        noise = triangular_solve(moments, noise, left_side=True, lower=True)
    noise_u, noise_r = noise[: len(factor_u)], noise[len(factor_u) :]
    u, r = (
        jnp.tile(_triangular_product(factor, drawn), (n // len(factor), 1))
        for factor, drawn in ((factor_u, noise_u), (factor_r, noise_r))
    )
    features, gradients = _march(phi, count, u, r, forward, backward, first=first, last=last)
    phi_u, slope_u = _value_and_slope(phi, u)
    free = phi_u if settings.control else jnp.tile(features[:count], (n // count, 1))
    readout = jnp.mean(r * (features - free), axis=1) if last else None
    a = b = None
    if settings.responses == "jacobian":
        a, b = _jacobians(
            phi, (u, r, features, gradients), forward, backward, first=first, last=last, settings=settings
        )
    else:
        if not last:
            a = _stein(features - phi_u if settings.control else features, noise_r, factor_r)
            a = jnp.where(_later(n, count), a, 0.0)
        if not first:
            b = _stein(gradients - slope_u * r if settings.control else gradients, noise_u, factor_u)
    # Equal times: phi(h(t)) does not see r(t), and g_mu(t) sees u_nu(t) only for mu = nu.
    if b is not None:
        b = jnp.where(_later(n, count) | jnp.eye(n, dtype=bool), b, 0.0)
    return _gram(features), _gram(gradients), a, b, readout


def _factor(covariance: Array, jitter: float) -> Array:
    ridge = jitter * jnp.mean(jnp.diagonal(covariance))
    factor: Array = jnp.linalg.cholesky(covariance + ridge * jnp.eye(len(covariance), dtype=covariance.dtype))
    return factor


def _march(
    phi: Function, count: int, u: Array, r: Array, forward: Array, backward: Array, *, first: bool, last: bool
) -> tuple[Array, Array]:
    """phi(h) and g, shape (n, S), by blocked forward substitution in time.

    The past of a block enters by one matrix product, its own times by a scan. With a static source (first: Phi^0, last:
    G^{L+1}) the past acts alike on all times of a block, so one of them is enough.
    """
    span = count * max(1, MARCH_ROWS // count)
    features, gradients = jnp.zeros_like(u), jnp.zeros_like(u)
    for start in range(0, len(u), span):
        rows = slice(start, min(start + span, len(u)))
        h, z = u[rows], r[rows]
        if start:
            h = h + _past(forward[rows, :start], gradients[:start], count if first else len(h))
            z = z + _past(backward[rows, :start], features[:start], count if last else len(z))
        own = (_by_time(m, count) for m in (h, z, forward[rows, rows], backward[rows, rows]))
        block, _ = jax.lax.scan(
            partial(_step, phi), (jnp.zeros_like(h), jnp.zeros_like(z)), (jnp.arange(0, len(h), count), *own)
        )
        features, gradients = features.at[rows].set(block[0]), gradients.at[rows].set(block[1])
    return features, gradients


def _step(phi: Function, block: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
    """One time: rows of the block that lie in the future are zero, so they need no mask."""
    features, gradients = block
    row, h, z, forward, backward = now
    value, slope = _value_and_slope(phi, h + forward @ gradients)
    features = jax.lax.dynamic_update_slice_in_dim(features, value, row, axis=0)
    gradients = jax.lax.dynamic_update_slice_in_dim(gradients, slope * (z + backward @ features), row, axis=0)
    return (features, gradients), None


def _past(coupling: Array, fields: Array, rows: int) -> Array:
    return jnp.tile(coupling[:rows] @ fields, (len(coupling) // rows, 1))


def _by_time(rows: Array, count: int) -> Array:
    return rows.reshape(-1, count, rows.shape[1])


def _value_and_slope(phi: Function, h: Array) -> tuple[Array, Array]:
    value, slope = jax.jvp(phi, (h,), (jnp.ones_like(h),))
    return value, slope


def _stein(fields: Array, noise: Array, factor: Array) -> Array:
    """<d field / d source> = <field noise^T> factor^{-1} for source = factor noise; causality zeroes the upper half."""
    correlation = jnp.tril(_lower_product(fields, noise)) / fields.shape[1]
    response: Array = triangular_solve(factor, correlation, left_side=False, lower=True)
    return response


def _gram(fields: Array) -> Array:
    """<f f^T> from its lower half."""
    lower = jnp.tril(_lower_product(fields, fields)) / fields.shape[1]
    return lower + jnp.tril(lower, -1).T


def _lower_product(left: Array, right: Array) -> Array:
    """left right^T without most of the entries above the diagonal, which are zero."""
    n = len(left)
    products = []
    for start in range(0, n, PRODUCT_ROWS):
        end = min(start + PRODUCT_ROWS, n)
        products.append(jnp.pad(left[start:end] @ right[:end].T, ((0, 0), (0, n - end))))
    return jnp.concatenate(products)


def _triangular_product(lower: Array, right: Array) -> Array:
    """lower right for a lower triangular matrix."""
    starts = range(0, len(lower), PRODUCT_ROWS)
    return jnp.concatenate(
        [lower[k : k + PRODUCT_ROWS, : k + PRODUCT_ROWS] @ right[: k + PRODUCT_ROWS] for k in starts]
    )


def _jacobians(
    phi: Function,
    fields: tuple[Array, Array, Array, Array],
    forward: Array,
    backward: Array,
    *,
    first: bool,
    last: bool,
    settings: Settings,
) -> tuple[Array | None, Array | None]:
    """a^l and b^{l-1} by implicit differentiation of each sample, with O = dg/dh and the couplings C, D:

    O = diag(phi'' z) + phi' D phi',  M = I - C O,  dphi/dr = phi' M^{-1} C phi',  dg/du = O M^{-1}.

    All are lower triangular, so that a sample costs about 4/3 n^3 flops; single precision is far below the noise.
    """
    u, r, features, gradients = (x[:, : settings.jacobian_samples] for x in fields)
    h, z = u + forward @ gradients, r + backward @ features
    slopes, bends = jax.jvp(lambda x: _value_and_slope(phi, x)[1], (h,), (jnp.ones_like(h),))
    c, d, slopes, curvatures = (x.astype(jnp.float32) for x in (forward, backward, slopes.T, (bends * z).T))
    identity = jnp.eye(len(c), dtype=c.dtype)

    def add(total: tuple[Array | None, Array | None], sample: tuple[Array, Array]) -> Any:
        a, b = total
        slope, curvature = sample
        own = jnp.diag(curvature) + slope[:, None] * d * slope[None, :]
        inverse = _unit_lower_inverse(identity - _lower_lower(c, own))
        if a is not None:
            a = a + slope[:, None] * _lower_lower(inverse, c) * slope[None, :]
        if b is not None:
            b = b + _lower_lower(own, inverse)
        return (a, b), None

    start = (None if last else jnp.zeros_like(c), None if first else jnp.zeros_like(c))
    sums, _ = jax.lax.scan(add, start, (slopes, curvatures))
    means: tuple[Array | None, Array | None] = jax.tree.map(lambda x: (x / h.shape[1]).astype(u.dtype), sums)
    return means


def _lower_lower(left: Array, right: Array) -> Array:
    """The product of two lower triangular matrices, n^3/3 flops."""
    blocks = _blocks(len(left))
    products = [
        [left[i, j.start : i.stop] @ right[j.start : i.stop, j] for j in blocks[: k + 1]] for k, i in enumerate(blocks)
    ]
    return _from_lower_blocks(products)


def _unit_lower_inverse(matrix: Array) -> Array:
    """The inverse of a lower triangular matrix with ones on the diagonal, by blocks of rows, n^3/3 flops."""
    blocks = _blocks(len(matrix))
    columns: list[Array] = []  # of the inverse, each from its diagonal block down
    inverse: list[list[Array]] = []
    for k, i in enumerate(blocks):
        identity = jnp.eye(i.stop - i.start, dtype=matrix.dtype)
        own = triangular_solve(matrix[i, i], identity, left_side=True, lower=True, unit_diagonal=True)
        row = [-own @ (matrix[i, j.start : i.start] @ columns[m]) for m, j in enumerate(blocks[:k])]
        inverse.append([*row, own])
        columns = [jnp.concatenate([column, new]) for column, new in zip(columns, row, strict=True)] + [own]
    return _from_lower_blocks(inverse)


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + JACOBIAN_ROWS, n)) for start in range(0, n, JACOBIAN_ROWS)]


def _from_lower_blocks(rows: list[list[Array]]) -> Array:
    n = sum(len(row[0]) for row in rows)
    joined = [jnp.concatenate(row, axis=1) for row in rows]
    return jnp.concatenate([jnp.pad(row, ((0, 0), (0, n - row.shape[1]))) for row in joined])


def lazy_kernels(phi: Function, kernel_x: Array, layers: int, nodes: int = 64) -> tuple[list[Array], list[Array]]:
    """Phi^1..Phi^L and G^1..G^L at initialisation, by Gauss-Hermite quadrature of every pair of samples."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    one, two = (jnp.asarray(x.reshape(1, 1, -1)) for x in np.meshgrid(points, points))
    weight = jnp.asarray(np.outer(weights, weights).reshape(-1) / (2 * np.pi))
    features, slopes, kernel = [], [], kernel_x
    for _ in range(layers):
        scale = jnp.sqrt(jnp.diagonal(kernel))
        cosine = jnp.clip(kernel / (scale[:, None] * scale[None, :]), -1.0, 1.0)[:, :, None]
        left = _value_and_slope(phi, scale[:, None, None] * one)
        right = _value_and_slope(phi, scale[None, :, None] * (cosine * one + jnp.sqrt(1 - cosine**2) * two))
        kernel, slope = (jnp.einsum("ijk,k->ij", x * y, weight) for x, y in zip(left, right, strict=True))
        kernel = (kernel + kernel.T) / 2
        features.append(kernel)
        slopes.append((slope + slope.T) / 2)
    gradients = [slopes[-1]]
    for slope in slopes[-2::-1]:
        gradients.insert(0, gradients[0] * slope)
    return features, gradients


def _lazy(phi: Function, kernel: Array, layers: int, times: int) -> Order:
    """The initial guess: lazy kernels at all times, no responses."""
    features, gradients = (
        tuple(jnp.tile(k, (times, times)) for k in kernels) for kernels in lazy_kernels(phi, kernel, layers)
    )
    zeros = (jnp.zeros_like(features[0]),) * (layers - 1)
    return Order(features, gradients, zeros, zeros, jnp.zeros_like(features[0][0]))
