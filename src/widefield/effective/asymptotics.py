"""What critical networks do at large depth: Taylor coefficients, decay of kernels, exponents, tuning at order 1/n."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .critical_points import CriticalPoint
from .single_input import moments, taylor_coefficients
from .single_input_flow import ScaleInvariant
from .universality import criticality


@dataclass(frozen=True)
class ZeroKernel:
    """Depth asymptotics of the class K* = 0 at its critical point, PDLT eqs. (5.83)-(5.99), (5.121)-(5.143).

    >>> tanh = ZeroKernel.of("tanh")
    >>> tanh.a1, round(tanh.a2, 12), tanh.b1
    (-2.0, 5.666666666667, -2.0)
    """

    a1: float
    """s3/s1 + (3/4) (s2/s1)^2: C_W g(K) = K + a1 K^2 + a2 K^3 + ..."""

    a2: float
    """(1/4) s5/s1 + (5/8) s4 s2/s1^2 + (5/12) (s3/s1)^2."""

    b1: float
    """s3/s1 + (s2/s1)^2: chi_perp = 1 + b1 K + ..."""

    weight_variance: float
    """C_W = 1 / s1^2, PDLT eq. (5.90)."""

    @classmethod
    def of(cls, activation: str | Activation) -> ZeroKernel:
        """From derivatives at 0; the activation must be smooth there, vanish and have a slope."""
        found = criticality(activation)
        if not any(point.universality_class == "zero-kernel" for point in found.points):
            raise InvalidInput(f"K* = 0 is not a critical kernel; {found.verdict}")
        if 0.0 in found.activation.kinks:
            raise InvalidInput(f"{found.activation.name} has a kink at 0: no Taylor series there")
        _, s1, s2, s3, s4, s5 = taylor_coefficients(found.activation)
        r2, r3, r4, r5 = (s / s1 for s in (s2, s3, s4, s5))
        a1 = r3 + 0.75 * r2**2
        a2 = r5 / 4 + 0.625 * r4 * r2 + 5 / 12 * r3**2
        return cls(a1, a2, r3 + r2**2, 1 / s1**2)

    @property
    def stable(self) -> bool:
        """Whether kernels decay to 0: a1 < 0, or a1 = 0 and a2 < 0."""
        return self.a1 < 0 or (self.a1 == 0 and self.a2 < 0)

    @property
    def _d(self) -> float:
        self._need_stable()
        return self.a2 - self.a1**2

    def _need_stable(self) -> None:
        if self.a1 >= 0:
            raise InvalidInput(f"a1 = {self.a1:g} is not negative: the kernel does not decay like 1 / layer")

    def kernel(self, layers: Any, onset: float) -> Floats:
        """K = -1/(a1 l) - (d/a1^3) L/l^2 - (d^2/a1^5) (L^2 - L)/l^3, L = log(l/onset), PDLT eqs. (5.92), (5.94)."""
        layer, log = _logarithm(layers, onset)
        return np.asarray(self._kernel(layer, log))

    def _kernel(self, layer: Any, log: Any) -> Any:
        d, a1 = self._d, self.a1
        return -1 / (a1 * layer) - d / a1**3 * log / layer**2 - d**2 / a1**5 * (log**2 - log) / layer**3

    def onset(self, layer: int, kernel: float) -> float:
        """The l_0 with which `kernel(layer)` has this value (Newton's method in log l_0); depth forgets the rest."""
        layer, kernel = check.integer("layer", layer, least=2), check.number("kernel", kernel, above=0)
        d, a1, log = self._d, self.a1, 0.0
        if d == 0:
            raise InvalidInput("a2 = a1^2: the kernel has no logarithms at this order, and no onset")
        for _ in range(50):
            slope = -d / a1**3 / layer**2 - d**2 / a1**5 * (2 * log - 1) / layer**3
            step = (kernel - self._kernel(layer, log)) / slope
            log += step
            if abs(step) < 1e-13 * max(1.0, abs(log)):
                break
        return layer * math.exp(-log)

    def parallel(self, layers: Any, onset: float) -> Floats:
        """dK_[1] up to a constant: (1/l^2) [1 + (2 d/a1^2) L/l], PDLT eq. (5.97)."""
        layer, log = _logarithm(layers, onset)
        return np.asarray((1 + 2 * self._d / self.a1**2 * log / layer) / layer**2)

    def perpendicular(self, layers: Any, onset: float) -> Floats:
        """ddK_[2] up to a constant, for dK_[1] = 0: l^(-b1/a1) [1 + (b1 d/a1^3) L/l], PDLT eq. (5.99)."""
        layer, log = _logarithm(layers, onset)
        return np.asarray(layer ** (-self.b1 / self.a1) * (1 + self.b1 * self._d / self.a1**3 * log / layer))

    def vertex(self, layers: Any, onset: float) -> Floats:
        """V = (2/(3 a1^2))/l + (2d/(3 a1^4)) L/l^2 + ((5 a2 + a1 (82 a1 - 90 b1))/(3 a1^4))/l^2, PDLT eq. (5.127)."""
        layer, log = _logarithm(layers, onset)
        a1, d = self.a1, self._d
        constant = (5 * self.a2 + a1 * (82 * a1 - 90 * self.b1)) / (3 * a1**4)
        return np.asarray(2 / (3 * a1**2 * layer) + (2 * d / (3 * a1**4) * log + constant) / layer**2)

    @property
    def bare_correction(self) -> float:
        """The limit of G1 without tuning, 1/(3 a1), PDLT eqs. (5.134), (5.136): it overtakes K at l ~ 3 n."""
        self._need_stable()
        return 1 / (3 * self.a1)

    @property
    def weight_correction(self) -> float:
        """c_W of C_W + c_W / n with which G1 / K stays bounded, (2/3) C_W, PDLT eq. (5.142)."""
        return 2 / 3 * self.weight_variance

    @property
    def renormalised_correction(self) -> float:
        """The limit of l G1 with that tuning, (a2 + 90 a1 b1 - 84 a1^2) / (3 (-a1)^3).

        PDLT eq. (5.143) has another coefficient, which leaves out the term without logarithm in V at order 1/l^2.
        """
        self._need_stable()
        return (self.a2 + 90 * self.a1 * self.b1 - 84 * self.a1**2) / (3 * (-self.a1) ** 3)

    @property
    def fine_tuned_coefficient(self) -> float:
        """The limit of K sqrt(l) where a1 = 0 and a2 < 0: (-2 a2)^(-1/2)."""
        if not (self.a1 == 0 and self.a2 < 0):
            raise InvalidInput(f"a1 = {self.a1:g}, a2 = {self.a2:g}: only a1 = 0 with a2 < 0 is fine-tuned")
        return 1 / math.sqrt(-2 * self.a2)


def _logarithm(layers: Any, onset: float) -> tuple[Floats, Floats]:
    layer = check.array("layers", layers)
    if (layer <= 0).any():
        raise InvalidInput(f"layers = {layer.min():g} must be > 0")
    return layer, np.log(layer / check.number("onset", onset, above=0))


def half_stable_approach(point: CriticalPoint, layers: Any) -> Floats:
    """K - K* ~ 1 / (-a l) on the attracting side of a half-stable point, PDLT eq. (5.103)."""
    if point.universality_class != "half-stable":
        raise InvalidInput(f"{point.activation.name} at this point is {point.universality_class}, not half-stable")
    return np.asarray(-1 / (point.curvature * _logarithm(layers, 1.0)[0]))


def renormalised_weight_variance(activation: str | Activation, width: int) -> float:
    """C_W + c_W / n: (1 + 2/(3 n)) / s1^2 for the class K* = 0, PDLT eq. (5.142); unchanged if scale-invariant.

    Meant for the layers from the second on: the first has n_0, which need not be large.

    >>> round(renormalised_weight_variance("tanh", 100), 12)
    1.006666666667
    """
    n = check.integer("width", width, least=1)
    found = criticality(activation)
    if found.best is None or found.universality_class == "half-stable":
        raise InvalidInput(f"no tuning at order 1/n is known here; {found.verdict}")
    factor = 1 + 2 / (3 * n) if found.universality_class == "zero-kernel" else 1.0
    return found.best.weight_variance * factor


@dataclass(frozen=True)
class Exponents:
    """Critical exponents p of O ~ l^(-p), PDLT eqs. (5.93), (5.128)-(5.129); None where an exponent does not exist."""

    universality_class: str
    kernel: float
    """p_0 of K; of K - K* for half-stable points see `half_stable_approach`."""

    parallel: float | None
    """p_par of dK_[1]."""

    perpendicular: float | None
    """p_perp of ddK_[2]."""

    vertex: float
    """p_V of V; p_V - 2 p_0 = -1 in every class."""

    correction: float | None
    """p_1 of G1, bare; None where G1 = 0."""

    renormalised_correction: float | None
    """p_1 of G1 with the variances tuned at order 1/n."""

    relative_variance: float
    """nu_eff, the limit of V / (K^2 l)."""


def exponents(activation: str | Activation, *, semi_critical: bool = False) -> Exponents:
    """Return the exponents at the critical point, or with C_b > 0 added to a scale-invariant one (`semi_critical`).

    >>> exponents("tanh").vertex, exponents("relu").vertex, exponents("relu").perpendicular
    (1.0, -1.0, 2.0)
    """
    found = criticality(activation)
    point = found.best
    if point is None:
        raise InvalidInput(found.verdict)
    if semi_critical and point.universality_class != "scale-invariant":
        raise InvalidInput(f"{point.activation.name} is {point.universality_class}; only scale-invariant ones can be")
    if point.universality_class == "scale-invariant":
        return _scale_invariant(point, semi_critical)
    if point.universality_class == "half-stable":
        return Exponents("half-stable", 0.0, None, None, -1.0, None, None, _effective_nu(point))
    zero = ZeroKernel.of(activation)
    if zero.a1 >= 0:
        raise InvalidInput(f"{point.activation.name}: a1 = {zero.a1:g}, so its kernel does not decay like 1 / layer")
    return Exponents("zero-kernel", 1.0, 2.0, zero.b1 / zero.a1, 1.0, 0.0, 1.0, 2 / 3)


def _scale_invariant(point: CriticalPoint, semi_critical: bool) -> Exponents:
    constants = ScaleInvariant.of(point.activation)
    if semi_critical:
        return Exponents("scale-invariant", -1.0, 0.0, None, -3.0, None, None, constants.nu / 3)
    # A kink closes angles like 1/l whatever the smooth analysis says, PDLT eq. (5.168).
    perpendicular = 2.0 if constants.rho > 0 else 0.0
    return Exponents("scale-invariant", 0.0, 0.0, perpendicular, -1.0, None, None, constants.nu)


def _effective_nu(point: CriticalPoint) -> float:
    """S(K*) / K*^2: V ~ l S(K*) because chi_par = 1."""
    K = float(point.kernel or 0.0)
    at = moments(point.activation, K)
    return point.weight_variance**2 * float(at.fourth - at.square**2) / K**2
