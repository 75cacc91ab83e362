"""Cases that can be solved by hand: two layers at infinite width, one step, and kernels that do not move.

Nothing here uses the equations of the other modules, which these check. BP25 stands for their setting; w_*^2 = 1 unless
it is an argument.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad_vec

from ..base import check
from ..base.arrays import Floats
from ..base.renamed import renamed
from .setting import Spectrum


@renamed(rate="learning_rate")
def two_layer_losses(richness: float, learning_rate: float, steps: int) -> Float[Floats, " t"]:
    """L = 1, infinite width, population.

    The fields a = W^0 w_* / sqrt D and g obey a +- g -> (1 +- eta gamma c) (a +- g), where c is the error along w_*:
    c = 1 - (S_+ - S_-) / (4 gamma) with S_+- = <(a +- g)^2>.
    """
    gamma, eta = check.number("richness", richness, above=0.0), check.number("learning_rate", learning_rate, least=0.0)
    plus = minus = 2.0
    losses = []
    for _ in range(check.integer("steps", steps) + 1):
        c = 1 - (plus - minus) / (4 * gamma)
        losses.append(c * c)
        up, down = 1 + eta * gamma * c, 1 - eta * gamma * c
        plus, minus = plus * up * up, minus * down * down
    return np.array(losses)


def two_layer_flow(richness: float, time: Floats) -> Floats:
    """The same under gradient flow at the times s = eta t: dc/ds = -2 sqrt(1 + gamma^2 (1 - c)^2) c, integrated."""
    gamma = check.number("richness", richness, above=0.0)
    root = math.sqrt(1 + gamma**2)
    low, high = gamma - root, gamma + root
    q = (1 - high) / (1 - low) * np.exp(-2 * root * np.asarray(time, dtype=np.float64))
    z = (high - q * low) / (1 - q)
    return np.asarray((1 - (z - 1 / z) / (2 * gamma)) ** 2)


@renamed(rate="learning_rate")
def two_layer_structured(spectrum: Spectrum, richness: float, learning_rate: float, steps: int) -> Float[Floats, " t"]:
    """L = 1, infinite width, population, any covariance: overlaps A of the first weights, m with the readout, G of it.

    With q = lambda (w_* - m / gamma) and e = eta gamma: A += e (q m' + m q') + e^2 G q q',
    m += e (G q + A q) + e^2 q (m.q) and G += 2 e m.q + e^2 q'A q.
    """
    gamma, eta = check.number("richness", richness, above=0.0), check.number("learning_rate", learning_rate, least=0.0)
    repeats = spectrum.multiplicities.astype(np.int64)
    lam, w = np.repeat(spectrum.eigenvalues, repeats), np.sqrt(np.repeat(spectrum.target, repeats))
    A, m, G, e = np.eye(len(lam)), np.zeros(len(lam)), 1.0, eta * gamma
    losses = []
    for _ in range(check.integer("steps", steps) + 1):
        v = w - m / gamma
        losses.append(float(lam @ v**2))
        q = lam * v
        Aq, overlap = A @ q, float(m @ q)
        A = A + e * (np.outer(q, m) + np.outer(m, q)) + e**2 * G * np.outer(q, q)
        m, G = m + e * (G * q + Aq) + e**2 * q * overlap, G + 2 * e * overlap + e**2 * float(q @ Aq)
    return np.array(losses)


@renamed(rate="learning_rate")
def one_step_loss(
    learning_rate: float, width: float, richness: float, samples: float = math.inf, noise: float = 0.0
) -> float:
    """Test loss after the first step, L = 1; `samples` is alpha, or alpha_B of fresh samples.

    With C_v = 1 + 1/(nu gamma^2), C_h = C_v + (C_v + sigma^2)/alpha and m = eta (2 - eta/nu), it is
    (1 - m)^2 + [(1 - eta/nu)^2 + eta^2 gamma^2 C_h - 2 m (1 - eta/nu) + m^2]/(nu gamma^2) + m^2 (C_v + sigma^2)/alpha
    + sigma^2.
    """
    eta, sigma2 = learning_rate, noise**2
    error = 1 + 1 / (width * richness**2)
    gradient = error + (error + sigma2) / samples
    m, kept = eta * (2 - eta / width), 1 - eta / width
    spread = kept**2 + eta**2 * richness**2 * gradient - 2 * m * kept + m**2
    return (1 - m) ** 2 + spread / (width * richness**2) + m**2 * (error + sigma2) / samples + sigma2


@renamed(rate="learning_rate", layers="hidden_layers")
def one_step_centred(
    hidden_layers: int,
    learning_rate: float,
    width: float,
    samples: float = math.inf,
    noise: float = 0.0,
    target: float = 1.0,
) -> float:
    """The same for any depth if the initial predictor is subtracted: the initial kernel has mean L + 1 and variance s.

    w^2 [(1 - (L+1) eta)^2 + eta^2 s] + eta^2 ((L+1)^2 + s) (w^2 + sigma^2)/alpha + sigma^2, s = L (L+1) (2L+1)/(6 nu).
    """
    L, eta = hidden_layers, learning_rate
    K, s = L + 1, L * (L + 1) * (2 * L + 1) / (6 * width)
    data = eta**2 * (K**2 + s) * (target + noise**2) / samples
    return target * ((1 - K * eta) ** 2 + eta**2 * s) + data + noise**2


@renamed(layers="hidden_layers")
def lazy_kernel(hidden_layers: int, branch: float | None = None) -> float:
    """The kernel at the start, infinite width: L + 1, or 2 (1 + b)^(L-1) + (L - 1) b (1 + b)^(L-2) with b = beta^2."""
    if branch is None:
        return hidden_layers + 1.0
    L, b = hidden_layers, branch**2
    return 2 * (1 + b) ** (L - 1) + (L - 1) * b * (1 + b) ** (L - 2)


@dataclass(frozen=True)
class MarchenkoPastur:
    """Eigenvalues of X'X / n for a matrix X of n rows and q n columns with independent entries of variance 1."""

    ratio: float

    @property
    def edges(self) -> tuple[float, float]:
        """(1 -+ sqrt q)^2."""
        root = math.sqrt(self.ratio)
        return (1 - root) ** 2, (1 + root) ** 2

    def average(self, function: Callable[[float], Floats], at_zero: Floats | float = 0.0) -> Floats:
        """<F(x)> of numbers or arrays, with `at_zero` at the atom 1 - 1/q at x = 0 that there is for q > 1."""
        centre, half = 1 + self.ratio, 2 * math.sqrt(self.ratio)

        def integrand(angle: float) -> Floats:
            x = max(centre + half * math.cos(angle), sys.float_info.min)
            return np.asarray(function(x)) * ((half * math.sin(angle)) ** 2 / (2 * math.pi * self.ratio * x))

        atom = max(0.0, 1 - 1 / self.ratio) * np.asarray(at_zero)
        return np.asarray(quad_vec(integrand, 0.0, math.pi, epsabs=1e-13, epsrel=1e-13)[0] + atom)


@renamed(rate="learning_rate")
def lazy_full_batch(
    kernel: float, learning_rate: float, samples: float, steps: int, noise: float = 0.0, target: float = 1.0
) -> tuple[Floats, Floats]:
    """Test and train loss of a kernel K0 that does not move, infinite width, fixed training set of alpha D samples.

    L(t) = w^2 <(1 - eta K0 x)^2t> + sigma^2/alpha <(1 - (1 - eta K0 x)^t)^2 / x> + sigma^2, Marchenko-Pastur with
    q = 1/alpha; train: w^2 <x (1 - eta K0 x)^2t> + sigma^2 [<(1 - eta K0 x)^2t>/alpha + 1 - 1/alpha].
    """
    law, s, sigma2, t = MarchenkoPastur(1 / samples), learning_rate * kernel, noise**2, np.arange(steps + 1.0)
    kept = law.average(lambda x: (1 - s * x) ** (2 * t), 1.0)
    fitted = law.average(lambda x: (1 - (1 - s * x) ** t) ** 2 / x)
    seen = law.average(lambda x: x * (1 - s * x) ** (2 * t))
    train = target * seen + sigma2 * (kept / samples + 1 - 1 / samples)
    return np.asarray(target * kept + sigma2 / samples * fitted + sigma2), np.asarray(train)


@renamed(rate="learning_rate", batch="batch_size")
def lazy_online(
    kernel: float, learning_rate: float, batch_size: float, steps: int, noise: float = 0.0, target: float = 1.0
) -> Float[Floats, " t"]:
    """Test loss with fresh samples: C' = [(1 - eta K0)^2 + (eta K0)^2/alpha_B] C + (eta K0)^2 sigma^2/alpha_B."""
    s, error, losses = learning_rate * kernel, target, []
    for _ in range(steps + 1):
        losses.append(error + noise**2)
        error = ((1 - s) ** 2 + s**2 / batch_size) * error + s**2 * noise**2 / batch_size
    return np.array(losses)


@renamed(rate="learning_rate")
def lazy_finite_width(learning_rate: float, width: float, steps: int) -> Float[Floats, " t"]:
    """L = 1, population, initial predictor subtracted, gamma -> 0: <(1 - eta (1 + x))^2t> with q = 1/nu."""
    eta, powers = learning_rate, 2 * np.arange(steps + 1.0)
    return MarchenkoPastur(1 / width).average(lambda x: (1 - eta * (1 + x)) ** powers, (1 - eta) ** powers)


def final_losses(samples: float, noise: float) -> tuple[float, float]:
    """Test and train loss after convergence with more samples than dimensions: sigma^2 a/(a - 1), sigma^2 (1 - 1/a)."""
    alpha = check.number("samples", samples, above=1.0)
    return noise**2 * alpha / (alpha - 1), noise**2 * (1 - 1 / alpha)
