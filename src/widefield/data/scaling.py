"""Data brought to the scale where theories and learning rates are at home, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from ..base.describe import ByValue, parse_plain
from ..base.errors import InvalidInput
from .arrays import own
from .samples import Samples
from .source import DataSource

INPUTS = ("columns", "together", "none")
_CONSTANT = 1e-12
"""An input whose deviation is below this fraction of its size is constant."""


@dataclass(frozen=True, eq=False)
class Scaling(ByValue):
    """x -> (x - input_mean) input_factor and y -> (y - target_mean) / target_scale, found from training samples."""

    input_mean: Float[Floats, " d"]
    input_factor: Float[Floats, " d"]
    target_mean: Float[Floats, " c"]
    target_scale: float

    def inputs(self, x: Float[Floats, "p d"]) -> Float[Floats, "p d"]:
        """Inputs on the scale of the theories."""
        return np.asarray((x - self.input_mean) * self.input_factor)

    def targets(self, y: Float[Floats, "p c"]) -> Float[Floats, "p c"]:
        """Targets on the scale of the theories."""
        return np.asarray((y - self.target_mean) / self.target_scale)

    def outputs(self, f: Any) -> Any:
        """Outputs (..., c) in the units of the data: the inverse of `targets`."""
        return f * self.target_scale + self.target_mean


@dataclass(frozen=True)
class Standardised(DataSource, kind="standardised"):
    """Other data on the scale where theories and learning rates are at home, with what it takes to go back.

    Means and deviations are those of the training samples, and serve test samples too:

        inputs   x_i -> c (x_i - mean_i) / deviation_i,   c such that |x|^2 = D on average (1 if no input is constant)
        targets  y_c -> (y_c - mean_c) / s,               s such that |y|^2 = C on average

    Constant inputs become 0. Targets that are classes stay as they are: -1 and +1, or one of several outputs.
    `scaling` holds the numbers. The data as they were are kept, so a saved answer knows the way back:
    `Trajectory.in_data_units()`.

    Args:
        data: what is standardised: another source, or arrays (X, y) or (X, y, X_test, y_test).
        inputs: "columns" divides every input by its own deviation; "together" all by one, as suits pixels; "none"
            leaves inputs as they are.
        targets: whether targets are centred and scaled; None does it unless they are classes.

    >>> made = Standardised(([[1.0], [3.0]], [10.0, 30.0]))
    >>> made.load().x.tolist(), made.load().y.tolist()
    ([[-1.0], [1.0]], [[-1.0], [1.0]])
    >>> made.scaling.outputs(np.array([0.5])).tolist()
    [25.0]
    """

    data: DataSource
    inputs: str = "columns"
    targets: bool | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "data", own(self.data))
        if isinstance(self.data, Standardised):
            raise InvalidInput("data = Standardised(...) is standardised already")
        check.choice("inputs", self.inputs, INPUTS)
        if self.targets is not None:
            check.flag("targets", self.targets)

    @classmethod
    def parse_field(cls, name: str, value: Any) -> Any:
        """The table under `data` is a source."""
        return DataSource.from_table(value) if name == "data" else parse_plain(value)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the inputs, if they have any."""
        return getattr(self.data, "columns", None)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes that targets stand for, if they do."""
        return getattr(self.data, "classes", None)

    @cached_property
    def scaling(self) -> Scaling:
        """What is subtracted and divided by."""
        raw = self.data.load()
        if raw.x.ndim > 2:
            raise InvalidInput(f"x has shape {raw.x.shape}: what has positions must be standardised beforehand")
        mean, factor = _of_inputs(raw.x, self.inputs)
        scaled = self.targets if self.targets is not None else not (self.classes or are_classes(raw.y))
        if not scaled:
            return Scaling(mean, factor, np.zeros(raw.outputs), 1.0)
        centre = raw.y.mean(axis=0)
        size = _rms(raw.y - centre)
        if size <= _CONSTANT * _rms(raw.y):  # all the same: there is nothing but their size
            centre, size = np.zeros(raw.outputs), _rms(raw.y) or 1.0
        return Scaling(mean, factor, centre, size)

    def load(self) -> Samples:
        """The data on the new scale."""
        raw, to = self.data.load(), self.scaling
        train = to.inputs(raw.x), to.targets(raw.y)
        return Samples(*train, to.inputs(raw.x_test), to.targets(raw.y_test)) if raw.test_samples else Samples(*train)

    def frozen(self) -> DataSource:
        """The same with the arrays that there are now."""
        kept = self.data.frozen()
        return self if kept is self.data else replace(self, data=kept)


def standardised(*data: Any, inputs: str = "columns", targets: bool | None = None) -> Standardised:
    """`Standardised`, from arrays or another source: standardised(X, y), standardised(wf.data.file("mine.csv")).

    Args:
        data: arrays X, y or X, y, X_test, y_test, or one data source.
        inputs: "columns", "together" or "none".
        targets: whether targets are centred and scaled; None does it unless they are classes.
    """
    return Standardised(data[0] if len(data) == 1 else own(data), inputs, targets)


def _of_inputs(x: Float[Floats, "p d"], how: str) -> tuple[Floats, Floats]:
    """The mean of every input, and what it is multiplied by."""
    if how == "none":
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    mean = x.mean(axis=0)
    deviation = (x - mean).std(axis=0)
    varies = deviation > _CONSTANT * np.maximum(np.abs(mean), np.finfo(np.float64).tiny)
    if not varies.any():
        raise InvalidInput(
            f"x has shape {x.shape} and all its columns are constant over the training samples: there is nothing to "
            "standardise; inputs = 'none' leaves them as they are"
        )
    if how == "together":
        return mean, np.where(varies, 1 / _rms((x - mean)[:, varies]), 0.0) * math.sqrt(len(varies) / varies.sum())
    factor = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
    return mean, factor * math.sqrt(len(varies) / varies.sum())


def are_classes(y: Float[Floats, "p c"]) -> bool:
    """Whether targets are signs, or one of several is 1 and the others 0."""
    if y.shape[1] == 1:
        return bool((np.abs(y) == 1).all())
    return bool(np.isin(y, (0.0, 1.0)).all() and (y.sum(axis=1) == 1).all())


def _rms(values: Floats) -> float:
    """Root of the mean square."""
    return math.sqrt(float(np.mean(values**2)))
