"""Averages <f(z1) g(z2)> of many pairs of samples at once, from the Hermite series of f and g at every sample.

With x1, x2 standard normal of correlation c, and a_n = <f(sqrt(k) x) He_n(x)> / sqrt(n!),

    <f(z1) g(z2)> = sum_n a_n[f, k11] a_n[g, k22] c^n        (Mehler)

so that a pair costs a few dozen multiplications instead of an integral in two dimensions. What the terms left out can
contribute is known: at most |c|^n sqrt(r1 r2), where r = <f^2> - sum_n a_n^2 is left at each sample.
"""

from __future__ import annotations

import math
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..base.arrays import Booleans, Floats
from ..base.errors import InvalidInput
from .nested import Function, evaluate

_CHUNK = 32
"""Terms that are added in one pass over the pairs."""

_BATCH = 128
"""Terms that are computed at once."""

MOST_TERMS = 512
_REST = 1e-14
"""Series stop when this fraction of <f^2> is left, which is about what rounding leaves."""

_REACH = 12.5
"""Standard deviations: sqrt(density) is 1e-17 there."""


class Series(eqx.Module):
    """a_n of one function at many variances, <f^2> there, and what the first 32, 64, ... terms leave out of it.

    There are always `MOST_TERMS`, zero where they are not needed, so that one compiled program fits all.
    """

    terms: Float[Array, "n p"]
    square: Float[Array, " p"]
    rests: Float[Array, "chunks p"]

    def __getitem__(self, samples: slice) -> Series:
        """Some of the samples."""
        return Series(self.terms[:, samples], self.square[samples], self.rests[:, samples])

    @property
    def fractions(self) -> Float[Array, "chunks p"]:
        """`rests` relative to <f^2>."""
        return self.rests / jnp.where(self.square > 0, self.square, 1.0)[None, :]


_SHARPEST = 10
"""Halvings of the grid at most, for memory's sake."""


def series(f: Function, variances: Floats, *, kink: bool) -> Series | None:
    """Expand f at every variance. `kink` says that it has one at zero; it has no others.

    None if f varies too quickly for the nodes that are used.
    """
    scale = np.sqrt(variances)
    largest = float(scale.max(initial=0.0))
    if not math.isfinite(largest):
        raise InvalidInput("a variance is not finite: inputs or variances of weights are too large; make them smaller")
    sharpness = max(0, math.ceil(math.log2(max(largest, 1.0))))
    if sharpness > _SHARPEST:
        return None
    for halvings in range(sharpness, sharpness + 4):
        x, roots, basis = _panels(halvings) if kink else grid(halvings)
        weighted = evaluate(f, scale[:, None] * x[None, :]) * roots
        square = np.sum(weighted**2, axis=1)
        # Every second node of a grid alone errs by the square root of the error of all of them.
        coarse = _fewer(f, scale, halvings) if kink else 2 * np.sum(weighted[:, ::2] ** 2, axis=1)
        if np.all(np.abs(coarse - square) <= 1e-7 * square):
            return _terms(weighted, square, basis)
    return None


def _terms(weighted: Floats, square: Floats, basis: Floats) -> Series:
    terms = np.zeros((MOST_TERMS, len(square)))
    rests = np.zeros((MOST_TERMS // _CHUNK, len(square)))
    left = square
    for start in range(0, MOST_TERMS, _BATCH):
        chunks = slice(start // _CHUNK, (start + _BATCH) // _CHUNK)
        if start == 0 or np.any(left > _REST * square):
            batch = terms[start : start + _BATCH]
            np.matmul(basis[start : start + _BATCH], weighted.T, out=batch)
            taken = np.sum(batch.reshape(-1, _CHUNK, len(square)) ** 2, axis=1)
            rests[chunks] = np.maximum(left - np.cumsum(taken, axis=0), 0.0)
        else:
            rests[chunks] = left
        left = rests[chunks.stop - 1]
    return Series(jnp.asarray(terms), jnp.asarray(square), jnp.asarray(rests))


@cache
def grid(halvings: int) -> tuple[Floats, Floats, Floats]:
    """The trapezoidal rule, which converges exponentially for smooth functions."""
    step = 0.1 * 0.5**halvings
    x = step * np.arange(-round(_REACH / step), round(_REACH / step) + 1, dtype=np.float64)
    return _with_basis(x, np.full_like(x, step))


@cache
def _panels(halvings: int) -> tuple[Floats, Floats, Floats]:
    """Gauss-Legendre rules in panels of half a standard deviation, halved towards the kink at 0."""
    return _with_basis(*_rule(halvings, 20))


def _fewer(f: Function, scale: Floats, halvings: int) -> Floats:
    """<f^2> from half as many nodes in each panel, whose error is the square root of that of all of them."""
    x, lengths = _rule(halvings, 10)
    weights = lengths * np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    return np.asarray(evaluate(f, scale[:, None] * x[None, :]) ** 2 @ weights)


@cache
def _rule(halvings: int, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights of all panels."""
    outer = np.arange(0.5, _REACH + 0.25, 0.5)
    half = np.concatenate([[0.0], 0.5 ** np.arange(halvings + 1, 1, -1), outer])
    breaks = np.concatenate([-half[:0:-1], half])
    nodes, lengths = np.polynomial.legendre.leggauss(order)
    middle, radius = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
    return (middle[:, None] + radius[:, None] * nodes).ravel(), (radius[:, None] * lengths).ravel()


def _with_basis(x: Floats, lengths: Floats) -> tuple[Floats, Floats, Floats]:
    """Nodes x, roots of their weights, and root He_n(x) / sqrt(n!) for every n."""
    roots = np.sqrt(lengths * np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi))
    basis = np.empty((MOST_TERMS, len(x)))
    basis[0], basis[1] = roots, x * roots
    for n in range(1, MOST_TERMS - 1):
        basis[n + 1] = (x * basis[n] - math.sqrt(n) * basis[n - 1]) / math.sqrt(n + 1)
    return x, roots, basis


def product(f: Series, g: Series, correlation: Float[Array, "p q"]) -> tuple[Float[Array, "p q"], Float[Array, ""]]:
    """<f(z1) g(z2)> of every pair, from no more terms than the largest correlation needs, and a bound on the error.

    The bound is relative to sqrt(<f^2> <g^2>), and the largest of all pairs.
    """
    chunks = len(f.rests)
    largest = jnp.max(jnp.abs(correlation), initial=0.0)
    left = jnp.sqrt(jnp.max(f.fractions, axis=1, initial=0.0) * jnp.max(g.fractions, axis=1, initial=0.0))
    bounds = left * largest ** (_CHUNK * jnp.arange(1.0, chunks + 1))
    enough = jnp.where(jnp.any(bounds <= _REST), jnp.argmax(bounds <= _REST) + 1, chunks)
    return _mehler(f.terms, g.terms, correlation, enough), bounds[enough - 1]


def doubtful(f: Series, g: Series, correlation: Float[Array, "p q"], tolerance: float) -> Booleans:
    """Pairs whose error may exceed tolerance * sqrt(<f^2> <g^2>)."""
    left = jnp.sqrt(f.fractions[-1][:, None] * g.fractions[-1][None, :])
    return np.asarray(left * jnp.abs(correlation) ** MOST_TERMS > tolerance)


def _mehler(
    a: Float[Array, "n p"], b: Float[Array, "n q"], c: Float[Array, "p q"], chunks: Int[Array, ""]
) -> Float[Array, "p q"]:
    """Horner's rule, a chunk of terms in each pass over the pairs, so that the pass and not memory is the cost."""
    a, b = (t.reshape(-1, _CHUNK, t.shape[1]) for t in (a, b))

    def add(number: Array, total: Array) -> Array:
        chunk = chunks - 1 - number
        for n in range(_CHUNK - 1, -1, -1):
            total = total * c + a[chunk, n][:, None] * b[chunk, n][None, :]
        return total

    total: Array = jax.lax.fori_loop(0, chunks, add, jnp.zeros_like(c))
    return total
