"""Linear two-layer networks on whitened data, K^x = 1: closed forms and ordinary differential equations.

Everything happens along the target: y is its length, f = y - Delta the output along it, H_y = y^T H y / y^2 the feature
kernel, and all other entries of H stay those of the identity. For Hebb's rule every sample evolves by itself, with its
own target. Gradient flow on the squared loss (sum over samples), BP22 App. F, BP23 section 3.3.1 and App. F:

    gradient descent     df/dt = 2 H_y (y - f),  H_y = G = sqrt(1 + gamma_0^2 f^2)          (BP23 eq. (7) omits the 2)
    feedback alignment   da/dt = gamma_0 (y - f),  gamma_0 f = (1 + rho) a + a^3 / 2
                         H_y = 1 + a^2,  G~ = rho + a^2 / 2,  G = 1 + (1 + rho) a^2 + a^4 / 4
    Hebb                 ds/dt = gamma_0 Delta^2 s,  dp/dt = s Delta,  H = s^2,  f = p s     (BP23 eq. (8))
                         G~ = gamma_0 f Delta,  G = 1 + gamma_0^2 p^2

where a = <gt h_y> is what feedback alignment has learned. Direct feedback alignment is rho = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.special import dawsn

from ...base import check, ode
from ...base.arrays import Floats
from ...base.errors import InvalidInput
from ...base.numbers import double_precision
from ...problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GradientDescent, Hebb, LearningRule

_ACCURACY = 1e-12
_DAWSON_PEAK = 0.9241388730045918
"""Where Dawson's integral D is largest, and 2 x D(x) = 1."""


@dataclass(frozen=True)
class Whitened:
    """A network over time: arrays of the shape of `times`."""

    times: Floats
    outputs: Floats
    """f along the target"""

    feature_kernel: Floats
    """H_y"""

    gradient_kernel: Floats
    """G"""

    alignment_kernel: Floats
    """G~"""

    @property
    def ntk(self) -> Floats:
        """K = H_y + G~ along the target: df/dt = K Delta."""
        return self.feature_kernel + self.alignment_kernel


def solve_whitened(times: ArrayLike, *, richness: float, target: float = 1.0, rule: LearningRule) -> Whitened:
    """Integrate the equations above from time 0.

    >>> course = solve_whitened([0.3], richness=0.5, rule=GradientDescent())
    >>> print(round(float(course.outputs[0]), 9))
    0.454409201
    """
    at = check.array("times", times, ndim=1)
    if len(at) == 0 or np.any(np.diff(at) <= 0) or at[0] < 0:
        raise InvalidInput("times must be a list of increasing times, 0 or later")
    gamma, y = check.number("richness", richness, above=0.0), check.number("target", target)
    grid = at if at[0] == 0 else np.concatenate([[0.0], at])
    with double_precision():
        equation, start = _equation(gamma, y, rule)
        states = np.asarray(ode.solutions(equation, start, grid.tolist(), _ACCURACY))[len(grid) - len(at) :]
    return _observed(at, states, gamma, y, rule)


class _Descent(eqx.Module):
    gamma: Float[Array, ""]
    y: Float[Array, ""]

    def slope(self, state: Float[Array, " 1"]) -> Float[Array, " 1"]:
        """Of f."""
        return 2 * jnp.sqrt(1 + self.gamma**2 * state**2) * (self.y - state)


class _Feedback(eqx.Module):
    gamma: Float[Array, ""]
    y: Float[Array, ""]
    rho: Float[Array, ""]

    def slope(self, state: Float[Array, " 1"]) -> Float[Array, " 1"]:
        """Of a."""
        return self.gamma * self.y - (1 + self.rho) * state - state**3 / 2


class _Hebb(eqx.Module):
    gamma: Float[Array, ""]
    y: Float[Array, ""]

    def slope(self, state: Float[Array, " 2"]) -> Float[Array, " 2"]:
        """Of p and s."""
        p, s = state[0], state[1]
        delta = self.y - p * s
        return jnp.stack([s * delta, self.gamma * delta**2 * s])


def _equation(gamma: float, y: float, rule: LearningRule) -> tuple[_Descent | _Feedback | _Hebb, Array]:
    numbers = jnp.asarray(gamma, float), jnp.asarray(y, float)
    if type(rule) is GradientDescent:
        return _Descent(*numbers), jnp.zeros(1)
    if type(rule) is Hebb:
        return _Hebb(*numbers), jnp.asarray([0.0, 1.0])
    return _Feedback(*numbers, jnp.asarray(_correlation(rule), float)), jnp.zeros(1)


def _observed(at: Floats, states: Floats, gamma: float, y: float, rule: LearningRule) -> Whitened:
    if type(rule) is Hebb:
        p, s = states.T
        return Whitened(at, p * s, s**2, 1 + gamma**2 * p**2, gamma * p * s * (y - p * s))
    (value,) = states.T
    if type(rule) is GradientDescent:
        kernel = np.sqrt(1 + gamma**2 * value**2)
        return Whitened(at, value, kernel, kernel, kernel)
    rho, square = _correlation(rule), value**2
    outputs = ((1 + rho) * value + value**3 / 2) / gamma
    return Whitened(at, outputs, 1 + square, 1 + (1 + rho) * square + square**2 / 4, rho + square / 2)


def time_to_reach(outputs: ArrayLike, *, richness: float, target: float = 1.0) -> Floats:
    """When gradient descent reaches an output f between 0 and the target (BP22 App. F).

    2 t q = artanh[(1 + gamma_0^2 y f) / (q sqrt(1 + gamma_0^2 f^2))] - artanh(1/q),   q = sqrt(1 + gamma_0^2 y^2)

    >>> print(round(float(time_to_reach(0.454409200879, richness=0.5)), 9))
    0.3
    """
    f, y = check.array("outputs", outputs), check.number("target", target)
    gamma = check.number("richness", richness, above=0.0)
    if np.any(f * np.sign(y) < 0) or np.any(np.abs(f) >= abs(y)):
        raise InvalidInput(f"outputs must lie between 0 and target = {y:g}, which takes for ever")
    q = np.sqrt(1 + gamma**2 * y**2)
    # artanh x as a logarithm, without the cancellation in 1 - x where training is nearly over:
    # q^2 (1 + g^2 f^2) - (1 + g^2 y f)^2 = g^2 (y - f)^2.
    length = q * np.sqrt(1 + gamma**2 * f**2)
    reached = np.log((length + 1 + gamma**2 * y * f) / (gamma * np.abs(y - f)))
    return np.asarray((reached - np.log((q + 1) / (gamma * abs(y)))) / (2 * q))


def final_feature_kernel(richness: ArrayLike, *, rule: LearningRule, target: ArrayLike = 1.0) -> Floats:
    """H_y at the end of training: H = 1 + (H_y - 1) y y^T / |y|^2 (BP23 section 3.3.1).

        gradient descent     sqrt(1 + gamma_0^2 y^2)
        feedback alignment   1 + a*^2, see `final_overlap`
        Hebb                 gamma_0 y^2 / (2 x^2),   x exp(-x^2) sqrt(2 / gamma_0) = |y| (1 - 2 x D(x))

    with D Dawson's integral: ds/dp = gamma_0 (y - p s) is linear in s (see `hebb_invariant`), and p s = y at the end.
    For Hebb's rule y is the target of one sample. Arrays broadcast.

    >>> print(final_feature_kernel([1.0, 4.0], rule=Hebb()).round(9))
    [1.90237685 4.23069993]
    """
    gamma, y = _arrays(richness, target)
    if type(rule) is GradientDescent:
        return np.sqrt(1 + gamma**2 * y**2)
    if type(rule) is Hebb:
        x = _hebb_root(gamma, np.abs(y))
        return np.where(y == 0, 1.0, gamma * y**2 / (2 * np.where(y == 0, 1.0, x) ** 2))
    return 1 + final_overlap(gamma, correlation=_correlation(rule), target=y) ** 2


def final_overlap(richness: ArrayLike, *, correlation: ArrayLike = 0.0, target: ArrayLike = 1.0) -> Floats:
    """a* of feedback alignment: the root of a^3 + 2 (1 + rho) a = 2 gamma_0 y (BP23 App. F).

    a* = 2 sqrt(p/3) sinh[asinh(3 gamma_0 y / p sqrt(3/p)) / 3] with p = 2 (1 + rho).

    >>> print(float(final_overlap(2.0, correlation=0.5).round(9)))
    1.0
    """
    gamma, y = _arrays(richness, target)
    p = 2 * (1 + _bounded(correlation))
    if np.any(p <= 0):
        raise InvalidInput("correlation = -1: feedback that opposes the weights has a* = (2 gamma_0 y)^(1/3)")
    return np.asarray(2 * np.sqrt(p / 3) * np.sinh(np.arcsinh(3 * gamma * y / p * np.sqrt(3 / p)) / 3))


def final_alignment(richness: ArrayLike, *, correlation: ArrayLike = 0.0, target: ArrayLike = 1.0) -> Floats:
    """G~* = rho + a*^2 / 2 of feedback alignment."""
    a = final_overlap(richness, correlation=correlation, target=target)
    return np.asarray(_bounded(correlation) + a**2 / 2)


def overlap_slope(richness: ArrayLike, *, correlation: ArrayLike = 0.0, target: ArrayLike = 1.0) -> Floats:
    """da*/drho = -a* / (3 a*^2 / 2 + 1 + rho): the more feedback knows of the weights, the less features move."""
    a = final_overlap(richness, correlation=correlation, target=target)
    return np.asarray(-a / (1.5 * a**2 + 1 + _bounded(correlation)))


def alignment_slope(richness: ArrayLike, *, correlation: ArrayLike = 0.0, target: ArrayLike = 1.0) -> Floats:
    """dG~*/drho = 1 - a*^2 / (3 a*^2 / 2 + 1 + rho), which is above 1/3."""
    a = final_overlap(richness, correlation=correlation, target=target)
    return np.asarray(1 - a**2 / (1.5 * a**2 + 1 + _bounded(correlation)))


def hebb_invariant(outputs: ArrayLike, feature_kernel: ArrayLike, *, richness: float, target: float = 1.0) -> Floats:
    """What Hebb's rule conserves: s exp(x^2) - |y| sqrt(2 gamma_0) exp(x^2) D(x) = 1, x = f sqrt(gamma_0 / 2 H).

    s = sqrt(H) and D is Dawson's integral, exp(-x^2) times the integral of exp(u^2) from 0 to x.
    """
    f, kernel = check.array("outputs", outputs), check.array("feature_kernel", feature_kernel)
    gamma, y = check.number("richness", richness, above=0.0), check.number("target", target)
    x = np.abs(f) * np.sqrt(gamma / 2 / kernel)
    return np.asarray(np.exp(x**2) * (np.sqrt(kernel) - abs(y) * np.sqrt(2 * gamma) * dawsn(x)))


def hebb_fixed_points(feature_kernel: ArrayLike, *, richness: float, target: float = 1.0) -> tuple[Floats, Floats]:
    """The two errors Delta != 0 at which f stands still, [y -+ sqrt(y^2 + 4 H / gamma_0)] / 2; H still grows there.

    BP23 prints y^2 + H / gamma_0 under the root. Training never gets to them: it ends at Delta = 0.
    """
    kernel = check.array("feature_kernel", feature_kernel)
    gamma, y = check.number("richness", richness, above=0.0), check.number("target", target)
    root = np.sqrt(y**2 + 4 * kernel / gamma)
    return np.asarray((y - root) / 2), np.asarray((y + root) / 2)


def _hebb_root(gamma: Floats, y: Floats) -> Floats:
    """By bisection: below the peak of Dawson's integral there is one root."""
    low, high = np.zeros(np.broadcast(gamma, y).shape), np.full(np.broadcast(gamma, y).shape, _DAWSON_PEAK)
    for _ in range(60):
        x = (low + high) / 2
        above = x * np.exp(-(x**2)) * np.sqrt(2 / gamma) > y * (1 - 2 * x * dawsn(x))
        low, high = np.where(above, low, x), np.where(above, x, high)
    return np.asarray((low + high) / 2)


def _correlation(rule: LearningRule) -> float:
    if type(rule) is FeedbackAlignment:
        return rule.correlation
    if type(rule) is DirectFeedbackAlignment:
        return 0.0
    raise InvalidInput(
        f"rule = {rule!r} has no closed solution for linear networks on whitened data; use GradientDescent, "
        "FeedbackAlignment, DirectFeedbackAlignment or Hebb"
    )


def _arrays(richness: ArrayLike, target: ArrayLike) -> tuple[Floats, Floats]:
    gamma = check.array("richness", richness)
    if np.any(gamma <= 0):
        raise InvalidInput(f"richness = {gamma.min():g} must be > 0")
    return gamma, check.array("target", target)


def _bounded(correlation: ArrayLike) -> Floats:
    rho = check.array("correlation", correlation)
    if np.any(np.abs(rho) > 1):
        raise InvalidInput(f"correlation = {rho.flat[np.argmax(np.abs(rho))]:g} must be between -1 and 1")
    return rho
