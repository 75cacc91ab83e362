"""Gaussian averages over one input and their derivatives in its variance: what single-input flows are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jax
import numpy as np

from ..activations import Activation, get
from ..activations.activation import Elementwise
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..gaussian import average, average_derivative, fourth, slope_square, square
from ..gaussian.averages import check_variance
from .probes import kinks


@dataclass(frozen=True)
class Moments:
    """Averages over z ~ N(0, K) of functions of an activation s, each of the shape of K."""

    square: Floats
    """g(K) = <s^2>, PDLT eq. (5.5)."""

    square_slope: Floats
    """g'(K)."""

    square_curvature: Floats
    """g''(K)."""

    slope_square: Floats
    """<s'^2>."""

    slope_square_slope: Floats
    """d<s'^2>/dK."""

    fourth: Floats
    """<s^4>."""


SMOOTH: dict[str, tuple[int, Callable[[Sequence[Any]], Any]]] = {
    "square": (0, lambda s: s[0] ** 2),
    "square_slope": (2, lambda s: s[1] ** 2 + s[0] * s[2]),
    "square_curvature": (4, lambda s: (s[0] * s[4] + 4 * s[1] * s[3] + 3 * s[2] ** 2) / 2),
    "slope_square": (1, lambda s: s[1] ** 2),
    "slope_square_slope": (3, lambda s: s[2] ** 2 + s[1] * s[3]),
    "fourth": (0, lambda s: s[0] ** 4),
    "bend": (2, lambda s: s[0] * s[2]),
    "slope_square_curvature": (5, lambda s: (s[1] * s[5] + 4 * s[2] * s[4] + 3 * s[3] ** 2) / 2),
    "bend_square": (2, lambda s: s[2] ** 2),
    "bend_square_slope": (4, lambda s: s[3] ** 2 + s[2] * s[4]),
    "mixed_fourth": (1, lambda s: s[0] ** 2 * s[1] ** 2),
    "slope_fourth": (1, lambda s: s[1] ** 4),
    "third_slope": (3, lambda s: s[3] * s[1]),
    "bend_mixed_fourth": (2, lambda s: s[2] * s[1] ** 2 * s[0]),
    "third_fourth": (3, lambda s: s[3] * s[1] ** 3),
    "bend_slope_fourth": (2, lambda s: s[2] ** 2 * s[1] ** 2),
}
"""What to average for each of `Moments`, and beyond, where s is smooth: the highest derivative of s in it and the
integrand, from s and its derivatives. Derivatives in K are d<F>/dK = <F''> / 2."""


@dataclass(frozen=True)
class SingleInput:
    """Averages <.>_K of an activation s over z ~ N(0, K), elementwise in K (PDLT sections 5.1 and 5.4).

    If s(lam z) = lam^q s(z), every average is a power of K whose coefficient is the average at K = 1. Otherwise,
    derivatives in K are averages of derivatives of s where s is smooth, which is well-behaved at small K; with kinks
    they are averages with Hermite polynomials, which needs K > 0.

    >>> relu = SingleInput.of("relu")
    >>> print([round(float(f(3.0)), 12) for f in (relu.square, relu.square_slope, relu.slope_square, relu.fourth)])
    [1.5, 0.5, 0.5, 13.5]
    """

    activation: Activation

    @classmethod
    def of(cls, activation: str | Activation) -> SingleInput:
        """Look the activation up."""
        return cls(get(activation))

    def square(self, K: Any) -> Floats:
        """g(K) = <s^2>, PDLT eq. (5.5)."""
        return square(self.activation, K)

    def slope_square(self, K: Any) -> Floats:
        """<s'^2>; chi_perp is C_W times that, PDLT eq. (5.51)."""
        return slope_square(self.activation, K)

    def fourth(self, K: Any) -> Floats:
        """<s^4>, PDLT eq. (5.109)."""
        return fourth(self.activation, K)

    def square_slope(self, K: Any) -> Floats:
        """g'(K) = <s'^2 + s s''>; chi_par is C_W times that, PDLT eqs. (5.10), (5.50)."""
        q = self.activation.homogeneity
        if q is not None:
            return _power(q * self._at_one(self.square) if q else 0.0, q - 1, K)
        if self.activation.kinks:
            return self.square_slope_by_parts(K)
        return self._average("square_slope", K)

    def square_slope_by_parts(self, K: Any) -> Floats:
        """g'(K) = <s^2 (z^2 / K - 1)> / 2 K, PDLT eq. (5.10), whatever kinks and jumps s has, declared or not."""
        return self._derivative(0, 1, K)

    def square_curvature(self, K: Any) -> Floats:
        """g''(K) = <s s'''' + 4 s' s''' + 3 s''^2> / 2; j = 4 C_W K^2 g'' in PDLT eq. (5.111)."""
        q = self.activation.homogeneity
        if q is not None:
            return _power(q * (q - 1) * self._at_one(self.square), q - 2, K)
        if self.activation.kinks:
            return self._derivative(0, 2, K)
        return self._average("square_curvature", K)

    def slope_square_slope(self, K: Any) -> Floats:
        """d<s'^2>/dK = <s''^2 + s' s'''>; h = C_W / 2 times that in PDLT eq. (5.52)."""
        q = self.activation.homogeneity
        if q is not None:
            return _power((q - 1) * self._at_one(self.slope_square) if q != 1 else 0.0, q - 2, K)
        if self.activation.kinks:
            return self._derivative(1, 1, K)
        return self._average("slope_square_slope", K)

    def slope_square_curvature(self, K: Any) -> Floats:
        """d^2<s'^2>/dK^2 = <s' s^(5) + 4 s'' s'''' + 3 s'''^2> / 2; h' of PDLT is C_W / 2 times that."""
        q = self.activation.homogeneity
        if q is not None:
            return _power((q - 1) * (q - 2) * self._at_one(self.slope_square) if q != 1 else 0.0, q - 3, K)
        if self.activation.kinks:
            return self._derivative(1, 2, K)
        return self._average("slope_square_curvature", K)

    def mixed_fourth(self, K: Any) -> Floats:
        """<s^2 s'^2>, PDLT eq. (9.15)."""
        return self._fourth("mixed_fourth", 1, K)

    def slope_fourth(self, K: Any) -> Floats:
        """<s'^4>, PDLT eq. (9.16)."""
        return self._fourth("slope_fourth", 2, K)

    def _fourth(self, name: str, less: int, K: Any) -> Floats:
        """Of four factors, of which 2 `less` are slopes: a power of K if s is homogeneous."""
        q = self.activation.homogeneity
        return self._average(name, K) if q is None else _power(float(self._average(name, 1.0)), 2 * q - less, K)

    def bend(self, K: Any) -> Floats:
        """<s s''> = g' - <s'^2>, without the cancellation: zero where Rcrit = chi_perp / chi_par is 1.

        A jump J of s' at a kink c is J delta(z - c) in s'': it adds s(c) J exp(-c^2 / 2K) / sqrt(2 pi K).
        """
        q = self.activation.homogeneity
        if q is not None:
            return _power(q * self._at_one(self.square) - self._at_one(self.slope_square), q - 1, K)
        if not self.activation.kinks:
            return self._average("bend", K)
        # A small average, of what vanishes around 0 maybe, has no small relative error: only next to <s'^2> does it.
        total = self._average("square_slope", K) - self.slope_square(K)
        for kink in kinks(self.activation):
            if kink.jump:
                raise InvalidInput(f"{self.activation.name} jumps at z = {kink.location:g}: <s s''> diverges")
            variance = self._positive(K)
            density = np.exp(-(kink.location**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
            total = total + sum(kink.value) / 2 * kink.slope_jump * density
        return np.asarray(total)

    def bend_square(self, K: Any) -> Floats:
        """<s''^2>, PDLT eq. (10.70); infinite with kinks."""
        return self._without_kinks("bend_square", K)

    def bend_square_slope(self, K: Any) -> Floats:
        """d<s''^2>/dK = <s'''^2 + s'' s''''>."""
        return self._without_kinks("bend_square_slope", K)

    def third_slope(self, K: Any) -> Floats:
        """<s''' s'>, PDLT section inf.1; infinite with kinks, as the averages of four factors below."""
        return self._without_kinks("third_slope", K)

    def bend_mixed_fourth(self, K: Any) -> Floats:
        """<s'' s'^2 s>, PDLT eq. (11.55); 0 for lines with a kink at 0, where s vanishes."""
        if self.activation.homogeneity == 1:
            return np.zeros_like(np.asarray(K, dtype=np.float64))
        return self._without_kinks("bend_mixed_fourth", K)

    def third_fourth(self, K: Any) -> Floats:
        """<s''' s'^3>."""
        return self._without_kinks("third_fourth", K)

    def bend_slope_fourth(self, K: Any) -> Floats:
        """<s''^2 s'^2>."""
        return self._without_kinks("bend_slope_fourth", K)

    def _without_kinks(self, name: str, K: Any) -> Floats:
        if self.activation.kinks:
            raise InvalidInput(f"activation = {self.activation.name!r} has kinks: <s''^2> is infinite")
        return self._average(name, K)

    def moments(self, K: Any) -> Moments:
        """All of `Moments` at once."""
        return Moments(*(getattr(self, field.name)(K) for field in fields(Moments)))

    def taylor(self, order: int) -> float:
        """s_p, the derivative of this order at 0 (PDLT eq. (5.80))."""
        with double_precision():
            return float(self.activation.derivative(order)(np.float64(0.0)))

    def _at_one(self, averaged: Callable[[Any], Floats]) -> float:
        return float(averaged(1.0))

    def _average(self, name: str, K: Any) -> Floats:
        return average(_integrand(self.activation, name), K, kinks=self.activation.kinks)

    def _derivative(self, order: int, times: int, K: Any) -> Floats:
        """d^k<(s^(p))^2>/dK^k for p = `order` and k = `times`, of an activation with kinks."""
        integrand = _integrand(self.activation, ("square", "slope_square")[order])
        return average_derivative(integrand, self._positive(K), times, kinks=self.activation.kinks)

    def _positive(self, K: Any) -> Floats:
        variance = np.asarray(K, dtype=np.float64)
        if (variance <= 0).any():
            raise InvalidInput(f"K = {variance.min():g}: {self.activation.name} has kinks, so K must be > 0")
        return variance


@cache
def _integrand(activation: Activation, name: str) -> Elementwise:
    """One of `SMOOTH` for this activation, compiled as one function."""
    highest, form = SMOOTH[name]
    s = [activation.derivative(order) for order in range(highest + 1)]
    return jax.jit(lambda z: form([f(z) for f in s]))


def _power(coefficient: float, exponent: int, K: Any) -> Floats:
    """coefficient K^exponent, and zero if the coefficient is, at K = 0 too."""
    variance = np.asarray(K, dtype=np.float64)
    if coefficient == 0:
        return np.zeros_like(variance)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(coefficient * variance ** float(exponent), dtype=np.float64)


def moments(activation: str | Activation, kernel: Any) -> Moments:
    """Return the averages at the kernels K >= 0 (K > 0 if the activation has kinks and no homogeneity)."""
    return SingleInput.of(activation).moments(check_variance("kernel", check.array("kernel", kernel)))


def taylor_coefficients(activation: str | Activation, orders: int = 6) -> tuple[float, ...]:
    """Return s_0, s_1, ..., the derivatives at 0 (PDLT eq. (5.80)), in double precision."""
    single = SingleInput.of(activation)
    return tuple(single.taylor(order) for order in range(orders))
