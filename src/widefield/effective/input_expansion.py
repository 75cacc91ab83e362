"""Kernel and NTK of two nearby inputs to second order in their difference, and what networks then predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.errors import InvalidInput
from .two_inputs import first_layer

_ROUNDING = 1e-12
"""Differences of norms whose squares are smaller, relative to distances, are rounding."""


@dataclass(frozen=True)
class Expansion:
    """K and Theta of inputs x_0 +- dx/2 in the gamma basis (`two_inputs.to_gamma`), to second order in dx.

    M_[0] = M_00 + ddM_[0], M_[1] = dM_[1], M_[2] = ddM_[2], M_00 at the midpoint x_0, PDLT eqs. (5.22)-(5.24), (10.58).
    """

    kernel: float
    ntk: float
    kernel_sum: float = 0.0
    """ddK_[0]."""

    kernel_norms: float = 0.0
    """dK_[1]: half the difference of the norms; 0 for inputs of equal norms, in all layers."""

    kernel_distance: float = 0.0
    """ddK_[2]."""

    ntk_sum: float = 0.0
    """ddTheta_[0], the curvature of interpolation."""

    ntk_norms: float = 0.0
    """dTheta_[1]."""

    ntk_distance: float = 0.0
    """ddTheta_[2]."""

    @classmethod
    def of_inputs(
        cls,
        midpoint: Any,
        difference: Any,
        *,
        weight_variance: float = 1.0,
        bias_variance: float = 0.0,
        weight_rate: float = 1.0,
        bias_rate: float = 1.0,
    ) -> Expansion:
        """The first layer, exact; x_+ and x_- are `midpoint` +- `difference` / 2."""
        K, e1, e2 = first_layer(midpoint, difference, weight_variance, bias_variance).tolist()
        T, t1, t2 = first_layer(midpoint, difference, weight_rate, bias_rate).tolist()
        return cls(K, T, 0.0, e1, e2, 0.0, t1, t2)

    def robustness(self, trained: int = 1) -> float:
        """Theta_-+/Theta_++ - 1, PDLT eqs. (10.57), (10.62), (10.64): the relative bias beside one training input.

        - t1/T - 2 t2/T + (t1/T)^2 + O(dx^3), with t1 = dTheta_[1]; `trained` = 1 if x_+ is the training input, -1 if
        x_- is.
        """
        t1 = _side(trained) * self.ntk_norms / self.ntk
        return -t1 - 2 * self.ntk_distance / self.ntk + t1**2

    def variance(self, trained: int = 1) -> float:
        """Of the output at the other input, PDLT eqs. (10.63), (10.65).

        4 e2 - 2 e1 t1/T + K (t1/T)^2 + O(dx^3), with e1 = dK_[1], e2 = ddK_[2].
        """
        t1, e1 = _side(trained) * self.ntk_norms / self.ntk, _side(trained) * self.kernel_norms
        return 4 * self.kernel_distance - 2 * e1 * t1 + self.kernel * t1**2

    def interpolated(self, s: float, y_plus: float, y_minus: float) -> float:
        """Mean of networks trained on both inputs at s x_+ + (1-s) x_-, for equal norms; s may lie outside [0, 1].

        s y_+ + (1-s) y_- - s (1-s) (ddTheta_[0]/Theta_00) (y_+ + y_-) + O(dx^3), if y_+ - y_- is O(dx). PDLT eqs.
        (10.115), (10.117) print 4 s (1-s): docs/differences.md.
        """
        if max(self.kernel_norms**2, self.ntk_norms**2) > _ROUNDING * self.ntk * abs(self.ntk_distance):
            raise InvalidInput(
                f"kernel_norms = {self.kernel_norms:g}: no expansion with unequal norms has an error that vanishes; "
                "use interpolation_weights, which is exact"
            )
        return s * y_plus + (1 - s) * y_minus - s * (1 - s) * self.ntk_sum / self.ntk * (y_plus + y_minus)


def _side(trained: int) -> int:
    if trained not in (1, -1):
        raise InvalidInput(f"trained = {trained!r} must be 1 (x_+ is the training input) or -1 (x_-)")
    return trained
