"""What the proportional limit answers: losses and correlations over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.result import Result
from . import words
from .setting import LinearNetwork, LinearTask

NAMES = ("train_loss", "bias", "width_variance", "data_variance", "test_loss")
"""Losses of the limit."""

_PARTS = {"bias": "bias", "width_variance": "networks", "data_variance": "data", "noise": "noise"}


@dataclass(frozen=True, eq=False)
class Dynamics(
    Result,
    kind="solution of the proportional limit",
    asked={"network": LinearNetwork, "task": LinearTask},
    figure="widefield.proportional.plots:summary",
):
    """Losses over time; `data` is a dataset over `time` (sum of learning rates) with the coordinate `step`.

        test_loss = bias + width_variance + data_variance + noise, BP25 eq. (13)
        train_loss

    bias is the error of the predictor averaged over networks and data sets; the variances are what networks and data
    sets add. What was extrapolated (infinite depth, long times) has a bound on its error, `<name>_bound`;
    means of real networks have standard errors, `<name>_error`.

    With `keep=True` there are two-time functions over (time, time_), of several outputs with the axes output, output_
    too: error_correlation C_v, train_error_correlation C_D, feature_kernel C_h (layers 0 .. L),
    gradient_kernel C_g, feature_response R_h and gradient_response R_g (layers 1 .. L, in the units of `chain`)
    and `memory` M, with which the error of a mode obeys v = w - r - M h^0.
    """

    old_words: ClassVar[dict[str, str]] = {
        "feature_correlation": "feature_kernel",
        "gradient_correlation": "gradient_kernel",
        **{f"{name}_error": f"{name}_bound" for name in NAMES},
    }

    network: LinearNetwork
    task: LinearTask

    @property
    def test_loss(self) -> Float[Floats, " t"]:
        """At every time; NaN after divergence."""
        return np.asarray(self.data["test_loss"].values)

    @property
    def train_loss(self) -> Float[Floats, " t"]:
        """At every time; NaN after divergence. Of fresh samples: before they are used."""
        return np.asarray(self.data["train_loss"].values)

    @property
    def diverged(self) -> int | None:
        """The step at which the loss had grown beyond all bounds; None if it did not."""
        step = int(self.data.attrs["diverged"])
        return None if step < 0 else step

    @property
    def finite_size(self) -> float | None:
        """D_0: networks of dimension D are about D_0 / (D_0 + D) of the loss away from the limit; None: not known.

        Estimated from a few small networks at the worst of all steps; what may be chance is left out.
        """
        found = self.data.attrs.get("finite_size")
        return None if found is None else float(found)

    @property
    def status(self) -> str:
        """ "complete", "diverged", "interrupted" or "not accurate"."""
        return super().status if self.diverged is None else "diverged"

    @property
    def message(self) -> str:
        """Why it ended early, or how far it is from the tolerance; empty if it is complete."""
        return super().message if self.diverged is None else words.exploded(self.diverged)

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return "proportional limit" if self.splits else "real networks"

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        return f"{self.label}: {words.of_network(self.network)}; {words.of_task(self.task)}"

    @property
    def verdict(self) -> str:
        """Which part of the test loss is largest at the end, what would help, and whether networks would agree."""
        if self.diverged is not None:
            return f"training diverges: {self.message}"
        return "; ".join(filter(None, (words.verdict(self.data), words.doubt(self.finite_size))))

    @property
    def splits(self) -> bool:
        """Whether the test loss is split into its parts; that of real networks is not."""
        return "bias" in self.data

    def table(self) -> Any:
        """Losses and what the test loss is made of, at some times."""
        from ..base import tables

        parts = [name for name in _PARTS if name in self.data and np.nanmax(self.data[name].values) > 0]
        signs = ["=", *["+"] * len(parts)]
        split = [f"{sign} {_PARTS[name]}" for sign, name in zip(signs, parts, strict=False)] if self.splits else []
        title = "bias, variance over networks and data sets, noise" if self.splits else None
        made = tables.table(("step", "time", "training", "test loss", *split), title)
        names = ("train_loss", "test_loss", *(parts if self.splits else ()))
        for row in tables.rows(int(np.isfinite(self.test_loss).sum())):
            step, time = (float(self.data[name].values[row]) for name in ("step", "time"))
            steps = f"{step:.6g}" if np.isfinite(step) else ""
            made.add_row(steps, f"{time:.4g}", *(self._cell(name, row) for name in names))
        return made

    def _cell(self, name: str, row: int) -> str:
        """A number, with its standard error if networks gave it, or a bound if it was extrapolated to nothing."""
        from ..base.tables import with_error

        value = float(np.broadcast_to(self.data[name].values, self.data.sizes["time"])[row])
        if f"{name}_error" in self.data:
            return with_error(value, float(self.data[f"{name}_error"].values[row]))
        bound = float(self.data[f"{name}_bound"].values[row]) if f"{name}_bound" in self.data else 0.0
        return f"{value:.4g}" if value > bound or bound == 0 or value == 0 else f"< {max(bound, abs(value)):.1g}"

    @classmethod
    def words_of(cls, data: xr.Dataset) -> dict[str, str]:
        """Errors of real networks, which do not split the loss, are standard errors and were always called so."""
        return {old: new for old, new in cls.old_words.items() if "bias" in data or not old.endswith("_error")}

    def lacks(self) -> str:
        """What is missing in a file."""
        whole = {"test_loss", "train_loss", "time", "step"} <= set(self.data.variables)
        return "" if whole and "diverged" in self.data.attrs else "it lacks losses, times or steps"


def with_bounds(values: dict[str, Floats], bounds: dict[str, Floats]) -> dict[str, Floats]:
    """What was extrapolated, and how far it may be off."""
    return {**values, **{f"{name}_bound": bound for name, bound in bounds.items()}}


def dataset(
    time: Floats,
    step: NDArray[np.int64] | Floats,
    named: dict[str, Floats],
    task: LinearTask,
    diverged: int,
) -> xr.Dataset:
    """The losses of one problem with names; `sizes` says in what unit width, samples and batch_size are."""
    return xr.Dataset(
        {**{name: ("time", value) for name, value in named.items()}, "noise": ((), task.gram.shape[1] * task.noise**2)},
        coords={"time": time, "step": ("time", step)},
        attrs={"diverged": diverged, "sizes": task.sizes},
    )
