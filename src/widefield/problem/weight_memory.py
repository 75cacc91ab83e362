"""What is left of the initial weights, of every gradient and of every kick of noise after each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from .optimisers import SGD


@dataclass(frozen=True)
class WeightMemory:
    """W(t) = initial(t) W(0) + sum_{s<t} gradient(t, s) G(s) + Gaussian noise, for a weight W after t steps.

    That is all that momentum, weight decay, schedules and Langevin noise change in the mean-field equations: BP22
    eqs. (99), (111), (124) on the grid of steps.

    Args:
        initial: what is left of the initial weight; (T + 1,).
        gradient: what is left of the gradient of step s, zero for s >= t; (T + 1, T + 1).
        noise: covariance of the Langevin noise in one weight; (T + 1, T + 1).
    """

    initial: Float[Floats, " t"]
    gradient: Float[Floats, "t t"]
    noise: Float[Floats, "t t"]

    @classmethod
    def of(cls, optimiser: SGD) -> WeightMemory:
        """Run the recurrence of `SGD` for unit impulses in W(0), in G and in the noise."""
        rates, steps = optimiser.rates(), optimiser.steps
        momentum, decay = optimiser.momentum, optimiser.weight_decay
        check.memory("what is left of every step", 8 * 6 * steps**2, "use fewer steps")
        # Columns: W(0) = 1; a gradient of 1 in step s; a kick of 1 in step s.
        weights = np.zeros((steps + 1, 1 + 2 * steps))
        weights[0, 0] = 1.0
        velocity = np.zeros(1 + 2 * steps)
        for step, rate in enumerate(rates):
            drive = -decay * weights[step]
            drive[1 + step] += 1.0
            velocity = momentum * velocity + (1 - momentum) * drive
            weights[step + 1] = weights[step] + rate * velocity
            weights[step + 1, 1 + steps + step] += 1.0
        kicks = weights[:, 1 + steps :] * np.sqrt(2 * rates * optimiser.temperature)
        gradient = np.pad(weights[:, 1 : 1 + steps], ((0, 0), (0, 1)))
        return cls(weights[:, 0].copy(), gradient, kicks @ kicks.T)

    def variance(self, initial: float) -> Float[Floats, "t t"]:
        """<W(t) W(s)> of weights that no gradient has moved, N(0, initial) at the start."""
        return initial * np.outer(self.initial, self.initial) + self.noise

    @property
    def separable(self) -> bool:
        """Whether <W(t) W(s)> is a product i(t) i(s), and i(t)/i(s) for t > s harmless: i never grows nor vanishes."""
        size = np.abs(self.initial)
        return bool(not self.noise.any() and size[-1] > 0 and (np.diff(size) <= 1e-12).all())
