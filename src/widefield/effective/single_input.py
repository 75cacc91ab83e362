"""Gaussian averages of one input and how they change with its variance: what single-input flows are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..activations import Activation, get
from ..errors import InvalidInput
from ..gaussian import average, fourth, slope_square, square
from ..precision import double_precision

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SingleInput:
    """Averages <.>_K of an activation s over z ~ N(0, K), elementwise in K (PDLT sections 5.1 and 5.4).

    Derivatives are averages of derivatives of s where s is smooth, d<F>/dK = <F''>/2, which is well-behaved at small K;
    with kinks they are averages with Hermite polynomials, which needs K > 0.

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
        if self.activation.kinks:
            return self._with_polynomial(lambda z: self._s(0, z) ** 2, 1, K)
        return self._average(lambda z: self._s(1, z) ** 2 + self._s(0, z) * self._s(2, z), K)

    def square_curvature(self, K: Any) -> Floats:
        """g''(K) = <s s'''' + 4 s' s''' + 3 s''^2> / 2; j = 4 C_W K^2 g'' in PDLT eq. (5.111)."""
        if self.activation.kinks:
            return self._with_polynomial(lambda z: self._s(0, z) ** 2, 2, K)

        def curvature(z: Any) -> Any:
            s = [self._s(order, z) for order in range(5)]
            return (s[0] * s[4] + 4 * s[1] * s[3] + 3 * s[2] ** 2) / 2

        return self._average(curvature, K)

    def slope_square_slope(self, K: Any) -> Floats:
        """d<s'^2>/dK = <s''^2 + s' s'''>; h = C_W / 2 times that in PDLT eq. (5.52)."""
        if self.activation.kinks:
            return self._with_polynomial(lambda z: self._s(1, z) ** 2, 1, K)
        return self._average(lambda z: self._s(2, z) ** 2 + self._s(1, z) * self._s(3, z), K)

    def taylor(self, order: int) -> float:
        """s_p, the derivative of this order at 0 (PDLT eq. (5.80))."""
        with double_precision():
            return float(self._s(order, np.float64(0.0)))

    def _s(self, order: int, z: Any) -> Any:
        return self.activation.derivative(order)(z)

    def _average(self, F: Callable[[Any], Any], K: Any) -> Floats:
        return average(F, K, kinks=self.activation.kinks)

    def _with_polynomial(self, F: Callable[[Any], Any], order: int, K: Any) -> Floats:
        """d^k<F>/dK^k = <F He_2k(z / sqrt K)> / (2 K)^k."""
        variance = np.asarray(K, dtype=np.float64)
        if (variance <= 0).any():
            raise InvalidInput(f"K = {variance.min():g}: {self.activation.name} has kinks, so K must be > 0")
        kinks, scale = self.activation.kinks, np.sqrt(variance)

        def one(k: float, scale: float) -> float:
            def integrand(z: Any) -> Any:
                x = z / scale
                return F(z) * (x**2 - 1 if order == 1 else x**4 - 6 * x**2 + 3)

            return float(average(integrand, k, kinks=kinks)) / (2 * k) ** order

        found = [one(float(k), float(root)) for k, root in zip(variance.flat, scale.flat, strict=True)]
        return np.reshape(np.array(found), variance.shape)
