"""A problem: everything that a theory or a real network needs to know, described once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import tomli_w
from numpy.typing import NDArray

from ..base import files
from ..base.describe import Described
from ..base.errors import InvalidInput, UnknownName
from ..data import DataSource, Samples
from . import gradient_flow as gradient_flow  # a kind of optimiser in files: without it TOML would not know it
from .losses import Loss, SquaredError
from .network import MLP
from .optimisers import SGD, Optimiser
from .record import Record
from .rules import GradientDescent, LearningRule

HOPELESS = 1e12
"""A loss so many times that of an output of zero will not come back."""

_PARTS: dict[str, type[Described]] = {
    "network": MLP,
    "data": DataSource,
    "loss": Loss,
    "rule": LearningRule,
    "optimiser": Optimiser,
    "record": Record,
}


@dataclass(frozen=True)
class Problem:
    """Network, data, loss, learning rule and optimiser; and what to record.

    Frozen and checked: a `Problem` that exists can be solved. `to_toml` and `from_toml` are exact inverses.
    """

    network: MLP
    data: DataSource
    loss: Loss = field(default_factory=SquaredError)
    rule: LearningRule = field(default_factory=GradientDescent)
    optimiser: Optimiser = field(default_factory=lambda: SGD(learning_rate=0.1, steps=100))
    record: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        """Check the parts, and that they fit together."""
        for name, family in _PARTS.items():
            part = getattr(self, name)
            if not isinstance(part, family):
                raise InvalidInput(
                    f"{name} = {part!r} must be a {family.__name__}, for example one of {_members(family)}"
                )
        samples = self.samples
        if self.network.outputs not in (None, samples.outputs):
            raise InvalidInput(
                f"network.outputs = {self.network.outputs}, but the targets have {samples.outputs} columns"
            )
        self.loss.check_targets(samples.y)
        self.loss.check_targets(samples.y_test)
        self.optimiser.rates()
        self.optimiser.batches(samples.samples)
        self.record.at(self.optimiser.steps)
        if self.record.samples is not None and self.record.samples > samples.samples:
            raise InvalidInput(f"record.samples = {self.record.samples} exceeds the {samples.samples} training samples")

    @cached_property
    def samples(self) -> Samples:
        """The data, loaded once."""
        return self.data.load()

    @property
    def recorded_samples(self) -> int:
        """Number of training samples whose outputs and kernels are recorded."""
        return self.samples.samples if self.record.samples is None else self.record.samples

    def batch_weights(self) -> NDArray[np.float64]:
        """Weight of every sample, then of every test sample, in the loss of every step, and after the last; (T + 1, P).

        Zero for samples that are not in the batch, and for test samples.
        """
        train, steps = self.samples.samples, self.optimiser.steps
        weights = np.zeros((steps + 1, train + self.samples.test_samples))
        rows = self.optimiser.batches(train)
        if rows is None:
            weights[:, :train] = self.loss.weight(train)
        else:
            np.put_along_axis(weights[:steps], rows, self.loss.weight(rows.shape[1]), axis=1)
        return weights

    def exploded(self, loss: Any) -> Any:
        """Whether a loss is beyond all hope: 1e12 times that of an output of zero, or not a number."""
        targets = jnp.asarray(self.samples.y)
        return ~(loss < HOPELESS * (1 + float(self.loss.total(jnp.zeros_like(targets), targets))))

    def to_table(self) -> dict[str, Any]:
        """Plain nested dictionaries."""
        return {name: getattr(self, name).to_table() for name in _PARTS}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Problem:
        """Inverse of `to_table`."""
        for name in table:
            if name not in _PARTS:
                raise UnknownName("section of a problem", name, _PARTS)
        for name in ("network", "data"):
            if name not in table:
                raise InvalidInput(f"a problem needs a section [{name}]")
        parts: dict[str, Any] = {name: _PARTS[name].from_table(value) for name, value in table.items()}
        return cls(**parts)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The problem as TOML text, also written to `path` if one is given."""
        text = tomli_w.dumps(self.to_table())
        if path is not None:
            files.write_text(Path(path), text)
        return text

    @classmethod
    def from_toml(cls, source: str | Path) -> Problem:
        """Read a problem from a TOML file (a `Path`, or a string that ends in .toml) or from TOML text."""
        name = f"the text {str(source)[:40]!r}"
        if isinstance(source, Path) or ("\n" not in source and source.strip().endswith(".toml")):
            name, source = str(source), files.read_text(Path(source))
        try:
            table = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"{name} is not valid TOML: {error}") from None
        return cls.from_table(table)


def _members(family: type[Described]) -> str:
    return ", ".join(sorted(member.__name__ for member in family.members.values())) or family.__name__
