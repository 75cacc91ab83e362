"""Feedback alignment in linear networks of any depth on whitened data: polynomials of one variable.

With tau(t) = gamma_0 times the integral of Delta from 0 to t,

    c^1 = tau,   c^{l+1} = rho c^l + tau + sum_{k=1}^{l} c^k(tau) int_0^tau c^k
    dtau/dt = gamma_0 y - c^{L+1}(tau),   f = c^{L+1}(tau) / gamma_0,   H_y^l = 1 + sum_{k=1}^{l} c^k(tau)^2

which is BP23 App. E.2 reduced to one dimension. One hidden layer gives c^2 = (1 + rho) tau + tau^3 / 2.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from ...base import check, ode
from ...base.arrays import Floats
from ...base.numbers import double_precision

_ACCURACY = 1e-12


def feedback_polynomials(hidden_layers: int, correlation: float = 0.0) -> list[Polynomial]:
    """c^1 .. c^{L+1} as polynomials of tau.

    >>> feedback_polynomials(1, 0.5)[-1].coef.tolist()
    [0.0, 1.5, 0.0, 0.5]
    """
    depth = check.integer("hidden_layers", hidden_layers, least=1, most=6)
    rho = check.number("correlation", correlation, least=0.0, most=1.0)
    tau = Polynomial([0.0, 1.0])
    found, products = [tau], Polynomial([0.0])
    for _ in range(depth):
        products = products + found[-1] * found[-1].integ()
        found.append(rho * found[-1] + tau + products)
    return found


def solve_deep_feedback(
    times: ArrayLike, *, hidden_layers: int, richness: float, target: float = 1.0, correlation: float = 0.0
) -> tuple[Floats, Floats]:
    """Outputs f(t) and feature kernels H_y^l(t), (time, layer), at increasing times of which the first is 0."""
    at = check.array("times", times, ndim=1)
    gamma, y = check.number("richness", richness, above=0.0), check.number("target", target)
    polynomials = feedback_polynomials(hidden_layers, correlation)
    with double_precision():
        equation = _Course(jnp.asarray(gamma * y, float), jnp.asarray(polynomials[-1].coef[::-1].copy()))
        tau = np.asarray(ode.solutions(equation, jnp.zeros(1), at.tolist(), _ACCURACY))[:, 0]
    return polynomials[-1](tau) / gamma, _kernels(polynomials, tau)


def final_deep_feedback(
    *, hidden_layers: int, richness: float, target: float = 1.0, correlation: float = 0.0
) -> Floats:
    """H_y^1 .. H_y^L at the end of training: at the root of c^{L+1}(tau) = gamma_0 y.

    All coefficients are positive for correlations >= 0, so that c^{L+1} > tau and there is one root.
    """
    drive = check.number("richness", richness, above=0.0) * abs(check.number("target", target))
    polynomials = feedback_polynomials(hidden_layers, correlation)
    tau = brentq(lambda tau: polynomials[-1](tau) - drive, 0.0, drive, xtol=1e-15, rtol=1e-14) if drive else 0.0
    return _kernels(polynomials, np.asarray(tau))


class _Course(eqx.Module):
    drive: Float[Array, ""]
    coefficients: Float[Array, " n"]

    def slope(self, tau: Float[Array, " 1"]) -> Float[Array, " 1"]:
        """Of tau."""
        return self.drive - jnp.polyval(self.coefficients, tau)


def _kernels(polynomials: list[Polynomial], tau: Floats) -> Floats:
    squares: list[Any] = [c(tau) ** 2 for c in polynomials[:-1]]
    return np.asarray(1 + np.cumsum(np.stack(squares, axis=-1), axis=-1))
