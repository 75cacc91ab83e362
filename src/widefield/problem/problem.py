"""A problem: everything that a theory or a real network needs to know, described once; and what to keep of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..data import DataSource, Samples
from ..data.arrays import own
from ..graphs.plan import Plan, plan_of
from . import gradient_flow as gradient_flow  # a kind of optimiser in files: without it TOML would not know it
from .architecture import Network
from .losses import Loss, SquaredError
from .network import MLP as MLP  # a kind of network in files, as gradient flow is of optimisers
from .optimisers import SGD, Optimiser
from .question import Question
from .rules import GradientDescent, LearningRule

_DEFAULT_TIMES = 101
"""Records of a run for which no times are asked."""


class Part(NamedTuple):
    """Samples that are recorded under one prefix of names; rows count the training samples, then the test samples."""

    prefix: str
    """ "" or "test_"."""

    rows: slice
    """All of them, which the loss is about."""

    kept: slice
    """Those whose outputs and kernels are kept."""

    kernels: bool
    """Whether kernels are kept."""


@dataclass(frozen=True)
class Record(Described, family="record"):
    """What to keep of a run. Step 0 and the last step are always recorded.

    Args:
        every: record every so many steps; None spreads about a hundred records evenly.
        steps: the steps to record, instead of `every`.
        samples: outputs and kernels of only the first so many training samples; None is all of them.
        kernels: whether to keep the equal-time kernels.
        test_kernels: whether to keep kernels between test and training samples too.
        neurons: for how many neurons of every layer to keep preactivations and pre-gradients.
        two_time: whether to keep what two-time kernels need (`Trajectory.two_time`).
        responses: whether to keep what response functions need (infinite width only; includes `two_time`).
    """

    every: int | None = None
    steps: tuple[int, ...] | None = None
    samples: int | None = None
    kernels: bool = True
    test_kernels: bool = False
    neurons: int = 32
    two_time: bool = False
    responses: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        if self.every is not None and self.steps is not None:
            raise InvalidInput(f"every = {self.every} and steps = {self.steps} exclude each other: give one")
        if self.every is not None:
            put(self, every=check.integer("every", self.every, least=1))
        if self.steps is not None:
            if not isinstance(self.steps, list | tuple):
                raise InvalidInput(f"steps = {self.steps!r} must be a list of step numbers; see also every")
            put(self, steps=tuple(sorted({check.integer("steps", step) for step in self.steps})))
        if self.samples is not None:
            put(self, samples=check.integer("samples", self.samples, least=1))
        put(self, neurons=check.integer("neurons", self.neurons))
        for name in ("kernels", "test_kernels", "two_time", "responses"):
            check.flag(name, getattr(self, name))

    def in_program(self) -> Record:
        """What is recorded, not when: programs that differ in that share compiled code."""
        return replace(self, every=None, steps=None)

    @property
    def between_times(self) -> bool:
        """Whether kernels between different times are asked for."""
        return self.two_time or self.responses

    def recorded(self, train: int) -> int:
        """Number of training samples, of so many, whose outputs and kernels are recorded."""
        return train if self.samples is None else self.samples

    def parts(self, train: int, test: int) -> tuple[Part, ...]:
        """What is recorded of so many training samples and the test samples that follow them."""
        found = (Part("", slice(train), slice(self.recorded(train)), self.kernels),)
        tested = slice(train, train + test)
        return (*found, Part("test_", tested, tested, self.kernels and self.test_kernels)) if test else found

    def kernel_rows(self, train: int, test: int) -> NDArray[np.int64]:
        """Numbers of the samples that kernels have rows of; the first `recorded` of them are the columns."""
        kept = [part.kept for part in self.parts(train, test) if part.kernels or not part.prefix]
        return np.concatenate([np.arange(rows.start or 0, rows.stop) for rows in kept])

    def at(self, steps: int) -> NDArray[np.int64]:
        """Numbers of the recorded steps of a run of `steps` steps, from 0 to `steps`."""
        if self.steps is not None:
            if self.steps and self.steps[-1] > steps:
                raise InvalidInput(f"record.steps asks for step {self.steps[-1]}, but the run has {steps} steps")
            chosen = np.asarray(self.steps, dtype=np.int64)
        elif self.every is not None:
            chosen = np.arange(0, steps + 1, self.every)
        else:
            chosen = np.round(np.linspace(0, steps, min(_DEFAULT_TIMES, steps + 1))).astype(np.int64)
        return np.unique(np.concatenate([[0], chosen, [steps]]))


@dataclass(frozen=True, init=False)
class Problem(Question):
    """Network, data, loss, learning rule and optimiser; and what to record.

    Frozen and checked: a `Problem` that exists can be solved. `to_toml` and `from_toml` are exact inverses.

    Args:
        network: what is trained, for example `MLP(hidden_layers=2, activation="relu", richness=1.0)`, or a `Network` of
            your own.
        data: your own arrays or frames, (X, y) or (X, y, X_test, y_test), or a source of `widefield.data`.
        loss: `SquaredError()` if none is given.
        rule: `GradientDescent()` if none is given.
        optimiser: `SGD(learning_rate=0.1, steps=100)` if none is given; `SGD(learning_rate="auto", ...)` finds a rate.
        record: what to keep of a run.
    """

    sections: ClassVar[Mapping[str, type[Described]]] = {
        "network": Network,
        "data": DataSource,
        "loss": Loss,
        "rule": LearningRule,
        "optimiser": Optimiser,
        "record": Record,
    }
    needed: ClassVar[tuple[str, ...]] = ("network", "data")

    network: Any  # a `Network`; of what only an `MLP` has, theories make sure by their scopes
    data: DataSource
    loss: Loss
    rule: LearningRule
    optimiser: Optimiser
    record: Record

    def __init__(
        self,
        network: Network,
        data: DataSource | tuple[Any, ...],
        loss: Loss | None = None,
        rule: LearningRule | None = None,
        optimiser: Optimiser | None = None,
        record: Record | None = None,
    ) -> None:
        """Check the parts, and that they fit together."""
        put(self, network=network, data=own(data), loss=SquaredError() if loss is None else loss)
        put(self, rule=GradientDescent() if rule is None else rule, record=Record() if record is None else record)
        put(self, optimiser=SGD(learning_rate=0.1, steps=100) if optimiser is None else optimiser)
        self.check_sections()
        put(self, data=self.data.frozen())
        samples = self.samples
        if self.network.outputs not in (None, samples.outputs):
            raise InvalidInput(
                f"network.outputs = {self.network.outputs}, but the targets have {samples.outputs} columns"
            )
        self.network.check_inputs(samples.inputs, samples.outputs)
        self.loss.check_targets(samples.y)
        self.loss.check_targets(samples.y_test)
        self.optimiser.in_layers(self.network)
        if not self.optimiser.automatic:
            self.optimiser.rates()
        self.optimiser.batches(samples.samples)
        self.record.at(self.optimiser.steps)
        if self.record.samples is not None and self.record.samples > samples.samples:
            raise InvalidInput(f"record.samples = {self.record.samples} exceeds the {samples.samples} training samples")

    @cached_property
    def samples(self) -> Samples:
        """The data, loaded once."""
        return self.data.load()

    @cached_property
    def plan(self) -> Plan:
        """What the network is made of, for these inputs in the coordinates that programs see."""
        plan = plan_of(self.network, self.samples.inputs, self.samples.outputs)
        return plan_of(self.network, self.samples.reduced_inputs, self.samples.outputs) if plan.reducible else plan

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
