"""Solve the equations of the proportional limit in one pass over the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..base.arrays import Floats
from .chain import Chain
from .equations import Equations
from .infinite_depth import InfiniteChain
from .input_block import InputBlock
from .residual_chain import ResidualChain

Report = Callable[[int, int, float], None]

_CHAINS: dict[str, type[Chain]] = {"plain": Chain, "residual": ResidualChain, "continuous": InfiniteChain}

EXPLODED = 1e6
"""A loss that has grown by this factor has diverged."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Losses of many problems at all times, NaN after divergence, and the state of the pass.

    test = bias + width_variance + data_variance + outputs * sigma^2; `diverged` is the time at which a loss exploded
    or the number of times if it did not. `rounding` estimates the error of the test loss that rounding makes: errors v
    are known to eps times the growth of perturbations.
    """

    train: Float[Floats, "b t"]
    bias: Float[Floats, "b t"]
    width_variance: Float[Floats, "b t"]
    data_variance: Float[Floats, "b t"]
    rounding: Float[Floats, "b t"]
    noise: Float[Floats, " b"]
    diverged: NDArray[np.int64]
    chain: Chain
    block: InputBlock

    @property
    def test(self) -> Float[Floats, "b t"]:
        """Test loss."""
        return np.asarray(self.bias + self.width_variance + self.data_variance + self.noise[:, None])


def sweep(
    equations: Equations, report: Report = lambda done, total, loss: None, *, chain: Chain | None = None
) -> Curves:
    """Rows of all matrices, time after time: gradients downwards, data, features upwards.

    `chain` takes the place of the usual solver of the hidden layers.
    """
    chain = _CHAINS[equations.structure](equations) if chain is None else chain
    block = InputBlock(equations, chain.inputs)
    noise, times = equations.noise * equations.outputs, equations.times
    found = np.full((5, equations.problems, times), np.nan)
    diverged = np.full(equations.problems, times)
    # Products of rows wait for memory: several threads gain little on a free machine and lose much on a busy one.
    with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(limits=1, user_api="blas"):
        for t in range(times):
            coupling, losses = block.step(*chain.backward(t * equations.outputs))
            parts = np.stack([losses.train, losses.bias, losses.width_variance, losses.data_variance])
            np.maximum(parts, 0.0, out=parts)  # rounding can leave -1e-17
            total = parts[1:].sum(axis=0) + noise
            unsure = np.finfo(np.float64).eps * losses.growth
            rounding = 2 * np.sqrt(parts[1:].sum(axis=0)) * unsure + unsure**2
            if t == 0:
                largest = EXPLODED * total
            exploded = ~(total <= largest) & (diverged == times)
            diverged[exploded] = t
            alive = diverged == times
            found[:, alive, t] = np.stack([*parts, rounding])[:, alive]
            report(t, times - 1, float(np.mean(total[alive])) if alive.any() else float("nan"))
            if not alive.any():
                break
            chain.forward(coupling)
    train, bias, width_variance, data_variance, rounding = found
    return Curves(train, bias, width_variance, data_variance, rounding, noise, diverged, chain, block)
