"""The answer of a learning-rate sweep: which rate is best, and whether it is that of other widths or depths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..base.errors import InvalidInput
from ..base.rate_curves import RateCurves
from ..base.renamed import former, warn
from .setting import LinearNetwork, LinearTask

AXES = ("width", "depth")
"""What a sweep can go over."""

Asked = TypeVar("Asked", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class RateSweep(
    RateCurves,
    kind="learning-rate sweep",
    asked={"networks": [LinearNetwork], "task": LinearTask},
    figure="widefield.proportional.plots:sweep_summary",
):
    """Test losses at the end of training over learning rates, for several networks.

    `data` has the variable `loss` over (`width` or `depth`, `rate`), NaN where training diverges, `initial_loss`, and
    `loss_error` if networks were simulated.
    """

    networks: tuple[LinearNetwork, ...]
    task: LinearTask

    @property
    def unit(self) -> str:
        """What is varied, in words: widths are N/D, unless inputs have a spectrum."""
        return "width N/D" if self.over == "width" and self.task.spectrum is None else super().unit

    @property
    def symbol(self) -> str:
        """The same for figures."""
        return r"width $\nu = N/D$" if self.over == "width" and self.task.spectrum is None else super().symbol

    @property
    def quantity(self) -> str:
        """Losses on new samples."""
        return "test loss after training"

    rates = former("RateSweep", "rates", "learning_rates")

    def lacks(self) -> str:
        """What does not fit together in a file."""
        variables, over = self.data.variables, self.over
        whole = {"loss", "initial_loss", "rate", over} <= set(variables) and over in AXES
        fits = whole and self.data["loss"].dims == (over, "rate") and len(self.networks) == self.data.sizes[over]
        return "" if fits else "losses and networks do not belong together"


def with_axes_by_name(function: Asked) -> Asked:
    """Let a function of `over` and `values` take `widths=...` or `depths=...`, as before, under a warning."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [axis for axis in AXES if kwargs.get(f"{axis}s") is not None]
        if given and (len(given) > 1 or not kwargs.keys().isdisjoint(("over", "values"))):
            raise InvalidInput("widths and depths are old words for over and values; give these alone")
        for axis in given:
            warn(f"{function.__name__}({axis}s=...)", f"over={axis!r}, values=...", stacklevel=2)
            kwargs |= {"over": axis, "values": kwargs[f"{axis}s"]}
        return function(*args, **{name: value for name, value in kwargs.items() if name not in ("widths", "depths")})

    return call  # type: ignore[return-value]  # of the same kind
