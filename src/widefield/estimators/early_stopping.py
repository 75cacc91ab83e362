"""Early stopping: after which of its steps a network does best on samples that it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from ..base.arrays import Floats
from ..base.numbers import double_precision
from ..problem.losses import Loss
from ..theories.trained import TrainedNetwork

_LOOKS = 50
"""How often the network is looked at on its way."""


@dataclass
class LastStep:
    """The network after all steps."""

    steps: int
    network: TrainedNetwork | None = None

    def __call__(self, step: int, network: TrainedNetwork) -> bool:
        """Keep it."""
        self.network = network
        return step >= self.steps

    @property
    def best_step(self) -> int:
        """The last."""
        return self.steps

    def looks(self, steps: int) -> list[int]:
        """At the end only."""
        return [steps]


@dataclass
class BestStep:
    """The network with the smallest loss of validation samples (x, y), looked at now and then.

    Looking ends after `patience` looks in a row without a smaller one; None goes on to the last step.
    """

    x: Floats
    y: Floats
    loss: Loss
    patience: int | None
    network: TrainedNetwork | None = None
    best_step: int = 0
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def __call__(self, step: int, network: TrainedNetwork) -> bool:
        """Keep the best one so far; whether there is no hope for a better one."""
        outputs = network.outputs(self.x).mean(axis=0)
        with double_precision():
            loss = float(jnp.mean(self.loss.value(jnp.asarray(outputs), jnp.asarray(self.y))))
        if loss < min(self.losses, default=np.inf):
            self.network, self.best_step = network, step
        self.steps.append(step)
        self.losses.append(loss)
        since = len(self.losses) - 1 - int(np.argmin(self.losses))
        return self.patience is not None and since >= self.patience

    def looks(self, steps: int) -> list[int]:
        """Numbers of steps, spread evenly, up to all of them."""
        return sorted({round(step) for step in np.linspace(0, steps, min(_LOOKS, steps) + 1)[1:]})
