"""Power laws of the loss in time: exponents predicted and measured (BP25 section 4, eqs. (21), (95)-(99)).

With lambda_k = k^-a and lambda_k w_k^2 = k^(-a b - 1) a kernel that does not move learns mode after mode, L ~ t^-b.
Deep networks that learn features grow their kernel K along the target. Once K >> 1 all layers are balanced: with the
layers' common scale s, gamma |w| = s^(L+1) and K = s^(2L), so that

    dw/dt = K (1 + L e e') Lambda (w_* - w),       K = (gamma |w|)^(2L/(L+1)),   e = w / |w|.

The modes learned by time t have lambda > 1 / int K, so |w|^2 ~ t^(chi (1-b)) and K ~ t^(chi-1) for b < 1 give
chi = (L + 1) / (1 + L b) and L(t) ~ t^(-b chi): 2b/(1+b) for one hidden layer, 1 at infinite depth. For b > 1, |w| is
finite and nothing changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .setting import Spectrum


def loss_exponent(source: float, hidden_layers: float, *, lazy: bool = False) -> float:
    """beta in L ~ t^-beta: b if the kernel does not move or b >= 1, else b (L + 1) / (1 + L b).

    >>> [round(loss_exponent(0.5, L), 4) for L in (1, 2, 4, math.inf)]
    [0.6667, 0.75, 0.8333, 1.0]
    """
    b = check.number("source", source, above=0.0)
    return b if check.flag("lazy", lazy) or b >= 1 else b * _chi(b, hidden_layers)


def kernel_exponent(source: float, hidden_layers: float) -> float:
    """kappa in K ~ t^kappa: chi - 1 for b < 1, else 0."""
    b = check.number("source", source, above=0.0)
    return _chi(b, hidden_layers) - 1 if b < 1 else 0.0


def _chi(b: float, hidden_layers: float) -> float:
    L = hidden_layers
    if math.inf != L:
        check.integer("hidden_layers", L, least=1)
    return 1 / b if math.isinf(L) else (L + 1) / (1 + L * b)


def local_exponent(time: Floats, values: Floats) -> Float[Floats, " t"]:
    """-d log(values) / d log(time), by differences; times must be positive and increase."""
    t, y = check.array("time", time, ndim=1), check.array("values", values, ndim=1)
    if t.shape != y.shape or len(t) < 3:
        raise InvalidInput(f"time and values have shapes {t.shape} and {y.shape}; they must be equal, with 3 or more")
    if (t <= 0).any() or (np.diff(t) <= 0).any() or (y <= 0).any():
        raise InvalidInput("time must be positive and increase, and values must be positive, to take logarithms")
    return np.asarray(-np.gradient(np.log(y), np.log(t)))


@dataclass(frozen=True, eq=False)
class Balanced:
    """Loss and kernel of balanced layers at the times asked for."""

    time: Float[Floats, " t"]
    loss: Float[Floats, " t"]
    kernel: Float[Floats, " t"]


def balanced_flow(spectrum: Spectrum, hidden_layers: int, time: Floats, richness: float = 1.0) -> Balanced:
    """Integrate the balanced equations from a small w along Lambda w_*.

    Modes of one bin are equal, so that 1e8 of them cost no more than some hundred.
    """
    L, gamma = check.integer("hidden_layers", hidden_layers, least=1), check.number("richness", richness, above=0.0)
    times = check.array("time", time, ndim=1)
    if (times <= 0).any() or (np.diff(times) <= 0).any():
        raise InvalidInput("time must be positive and increase")
    if spectrum.target.ndim != 1:
        raise InvalidInput("balanced layers are described for one output")
    lam, count, target = spectrum.eigenvalues, spectrum.multiplicities, np.sqrt(spectrum.target)

    def kernel(w: Floats) -> tuple[float, float]:
        size = float(count @ w**2)
        return float((gamma**2 * size) ** (L / (L + 1))), size

    def change(t: float, w: Floats) -> Floats:
        K, size = kernel(w)
        pull = lam * (target - w)
        return np.asarray(K * (pull + L * w * float(count @ (w * pull)) / size))

    def jacobian(t: float, w: Floats) -> Floats:
        K, size = kernel(w)
        pull, weighted = lam * (target - w), count * w
        overlap = float(weighted @ pull) / size
        towards = count * pull - weighted * lam - 2 * overlap * weighted  # size times the derivative of the overlap
        slopes = np.outer(2 * L / (L + 1) * (pull + L * w * overlap), weighted) + L * np.outer(w, towards)
        return np.asarray(K * (slopes / size + np.diag(L * overlap - lam)))

    # The first instant, in which w grows from a size at which K = 1: what is before is not described by balance.
    start = lam * target
    start /= gamma * math.sqrt(float(count @ start**2))
    settings = {"method": "LSODA", "jac": jacobian, "rtol": 1e-6, "atol": 1e-9 * float(np.abs(start).min())}
    found = solve_ivp(change, (0.0, times[-1]), start, t_eval=times, **settings)
    if not found.success:
        raise InvalidInput(f"the balanced equations could not be integrated: {found.message}")
    loss = (count * lam) @ (target[:, None] - found.y) ** 2
    kernels = np.array([kernel(w)[0] for w in found.y.T])
    return Balanced(times, np.asarray(loss), kernels)
