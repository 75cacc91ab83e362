"""What the proportional limit answers: losses and correlations over time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import NDArray

from ..base import storage
from ..base.arrays import Floats
from ..base.errors import FileProblem
from . import description
from .setting import LinearNetwork, LinearTask

KIND = storage.Kind("solution of the proportional limit", ("network", "task"))


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Losses over time; `data` is a dataset over `time` (sum of learning rates) with the coordinate `step`.

        test_loss = bias + width_variance + data_variance + noise, BP25 eq. (13)
        train_loss

    bias is the error of the predictor averaged over networks and data sets; the variances are what networks and data
    sets add. What was extrapolated (infinite depth, long times) has an estimate of its error, `<name>_error`.

    With `keep=True` there are two-time functions over (time, time_), of several outputs with the axes output, output_
    too: error_correlation C_v, train_error_correlation C_D, feature_correlation C_h (layers 0 .. L),
    gradient_correlation C_g, feature_response R_h and gradient_response R_g (layers 1 .. L, in the units of `chain`)
    and `memory` M, with which the error of a mode obeys v = w - r - M h^0.
    """

    data: xr.Dataset
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

    def save(self, path: str | Path) -> None:
        """Write everything to one NetCDF file, atomically."""
        texts = {"network": description.of_network(self.network), "task": description.of_task(self.task)}
        storage.write(Path(path), self.data, texts, KIND)

    @classmethod
    def load(cls, path: str | Path) -> Dynamics:
        """Read a file written by `save`."""
        data, texts = storage.read(Path(path), KIND)
        with description.understanding(path):
            found = cls(data, description.network(texts["network"]), description.task(texts["task"]))
        if not ({"test_loss", "train_loss", "time", "step"} <= set(data.variables) and "diverged" in data.attrs):
            raise FileProblem(f"{path} is damaged: it lacks losses, times or steps")
        return found


def dataset(
    time: Floats,
    step: NDArray[np.int64] | Floats,
    values: dict[str, Floats],
    errors: dict[str, Floats],
    noise: float,
    diverged: int,
) -> xr.Dataset:
    """The losses of one problem with names."""
    named = {**values, **{f"{name}_error": error for name, error in errors.items()}}
    return xr.Dataset(
        {**{name: ("time", value) for name, value in named.items()}, "noise": ((), noise)},
        coords={"time": time, "step": ("time", step)},
        attrs={"diverged": diverged},
    )
