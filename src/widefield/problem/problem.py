"""A problem: everything that a theory or a real network needs to know, described once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base.describe import Described
from ..base.errors import InvalidInput
from ..base.precision import double_precision
from ..data import DataSource, Samples
from . import gradient_flow as gradient_flow  # a kind of optimiser in files: without it TOML would not know it
from .losses import Loss, SquaredError
from .network import MLP
from .optimisers import SGD, Optimiser
from .question import Question
from .record import Part, Record
from .rules import GradientDescent, LearningRule


@dataclass(frozen=True)
class Problem(Question):
    """Network, data, loss, learning rule and optimiser; and what to record.

    Frozen and checked: a `Problem` that exists can be solved. `to_toml` and `from_toml` are exact inverses.
    """

    sections: ClassVar[Mapping[str, type[Described]]] = {
        "network": MLP,
        "data": DataSource,
        "loss": Loss,
        "rule": LearningRule,
        "optimiser": Optimiser,
        "record": Record,
    }
    needed: ClassVar[tuple[str, ...]] = ("network", "data")

    network: MLP
    data: DataSource
    loss: Loss = field(default_factory=SquaredError)
    rule: LearningRule = field(default_factory=GradientDescent)
    optimiser: Optimiser = field(default_factory=lambda: SGD(learning_rate=0.1, steps=100))
    record: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        """Check the parts, and that they fit together."""
        self.check_sections()
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
        return self.record.recorded(self.samples.samples)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Training and test samples, and what is recorded of them."""
        return self.record.parts(self.samples.samples, self.samples.test_samples)

    @property
    def kernel_rows(self) -> NDArray[np.int64]:
        """Numbers of the samples, training then test, that recorded kernels have rows of."""
        return self.record.kernel_rows(self.samples.samples, self.samples.test_samples)

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

    def losses(self, outputs: Any) -> dict[str, NDArray[np.float64]]:
        """Total `loss` of the training samples and `test_loss` of the test samples.

        `outputs` (..., samples, C) are those of the training samples, then of the test samples if they are there.
        """
        train, parts = self.samples.samples, {"loss": (slice(self.samples.samples), self.samples.y)}
        if outputs.shape[-2] > train:
            parts["test_loss"] = (slice(train, None), self.samples.y_test)
        found = {}
        with double_precision():
            flat = jnp.asarray(outputs).reshape(-1, *outputs.shape[-2:])
            for name, (rows, y) in parts.items():
                total = jax.vmap(partial(self.loss.total, targets=jnp.asarray(y)))(flat[:, rows])
                found[name] = np.asarray(total).reshape(outputs.shape[:-2])
        return found

    def exploded(self, loss: Any) -> Any:
        """Whether a loss will not come back, see `Loss.hopeless`."""
        with double_precision():
            return np.asarray(self.loss.hopeless(loss, jnp.asarray(self.samples.y)))
