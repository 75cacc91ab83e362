"""Steps of training, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ...base.arrays import Floats
from .setting import Setting

Report = Callable[[int, Floats], None]
"""Called with every step and its outputs."""


class Causal(ABC):
    """Equations whose time t follows from earlier times: `run` goes through all of them."""

    setting: Setting
    outputs: Float[Floats, "t p c"]

    def run(self, report: Report) -> None:
        """All steps, as far as outputs are finite; what comes after is not a number."""
        for step in range(self.setting.times):
            self._step(step)
            report(step, self.outputs[step])
            if not np.isfinite(self.outputs[step]).all():
                self.outputs[step:] = np.nan
                return

    @abstractmethod
    def _step(self, step: int) -> None:
        """Everything at one time."""
