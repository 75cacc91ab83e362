"""Deep linear networks as a problem to be solved like any other, and who answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..base import check
from ..base.describe import Described, put
from ..base.errors import Diverged, Interrupted, InvalidInput
from ..problem.gradient_flow import GradientFlow
from ..problem.layer_rates import BIAS_RATES, WEIGHT_RATES, layered
from ..problem.optimisers import SGD, Optimiser
from ..problem.question import Question
from ..problem.theory import Reason, Theory
from .dynamics import solve
from .long_times import gradient_flow, solve_long
from .result import Dynamics
from .setting import LinearNetwork, LinearTask
from .simulation import simulate

if TYPE_CHECKING:
    from ..base.session import Session

_ABSENT = {
    "batch_size": "fresh samples in every step are `batch_size` of the task, in units of the dimension",
    "momentum": "the proportional limit has none",
    "weight_decay": "the proportional limit has none",
    "temperature": "the proportional limit has no noise on weights",
}


@dataclass(frozen=True)
class LinearProblem(Question):
    """A deep linear network, what it learns, and how: for `wf.solve` and for files.

    Args:
        network: depth, width, richness, skip connections.
        task: data and noise.
        optimiser: `SGD` with a learning rate, a schedule or one rate for each step, and nothing else; or
            `GradientFlow`.
    """

    sections: ClassVar[Mapping[str, type[Described]]] = {
        "network": LinearNetwork,
        "task": LinearTask,
        "optimiser": Optimiser,
    }
    needed: ClassVar[tuple[str, ...]] = ("network", "task", "optimiser")
    theories: ClassVar[str] = "proportional theory"

    network: LinearNetwork
    task: LinearTask
    optimiser: Optimiser

    def __post_init__(self) -> None:
        """Check the parts, and that the optimiser is one that the limit is known for."""
        self.check_sections()
        if not isinstance(self.optimiser, SGD | GradientFlow):
            raise InvalidInput(f"optimiser = {self.optimiser!r} must be SGD or GradientFlow")
        for name, why in _ABSENT.items():
            value = getattr(self.optimiser, name, None)
            if value:
                raise InvalidInput(f"optimiser.{name} = {value!r}: {why}; leave it out")
        for name in (WEIGHT_RATES, BIAS_RATES):
            if layered(getattr(self.optimiser, name)):
                value = getattr(self.optimiser, name)
                raise InvalidInput(f"optimiser.{name} = {value!r}: the limit has one rate for all layers; leave it out")
        self.optimiser.rates()

    def default_theory(self) -> ProportionalLimit:
        """Who answers if nobody else is asked."""
        return ProportionalLimit()


class LinearTheory(Theory, family="proportional theory"):
    """Base of those who answer a `LinearProblem`, with `Dynamics`."""

    def reasons(self, problem: LinearProblem) -> list[Reason]:  # type: ignore[override]  # other problems
        """Everything in a problem that is not answered; a problem that exists has nothing that no theory knows."""
        return []

    def predict(self, problem: LinearProblem, session: Session) -> Dynamics:  # type: ignore[override]  # other problems
        """Answer the problem."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(problem, session)")


@dataclass(frozen=True)
class ProportionalLimit(LinearTheory, kind="proportional-limit"):
    """Width, samples and dimension to infinity together: `proportional.solve`, without sampling.

    Gradient flow, and `SGD` of one learning rate if a `tolerance` is given, are extrapolated from few large steps.

    Args:
        keep: whether all two-time functions are kept.
        layer_steps: at infinite depth: the coarsest of three grids in layer time.
        tolerance: error allowed by extrapolation, relative to the largest loss; None takes every step of `SGD`, and
            1e-6 for gradient flow.
        records: intervals at whose ends losses are given if steps are extrapolated; those of gradient flow are its own.
    """

    keep: bool = False
    layer_steps: int = 8
    tolerance: float | None = None
    records: int = 25

    def __post_init__(self) -> None:
        """Check the fields."""
        check.flag("keep", self.keep)
        put(self, layer_steps=check.integer("layer_steps", self.layer_steps, least=2))
        if self.tolerance is not None:
            put(self, tolerance=check.number("tolerance", self.tolerance, above=0.0))
        put(self, records=check.integer("records", self.records, least=1))

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return "proportional limit"

    def reasons(self, problem: LinearProblem) -> list[Reason]:  # type: ignore[override]
        """What cannot be extrapolated."""
        optimiser, flows = problem.optimiser, isinstance(problem.optimiser, GradientFlow)
        if self.tolerance is None and not flows:
            return []
        found = []
        if self.keep:
            why = "two-time functions are not extrapolated, and keep asks for them; use SGD and no tolerance"
            found.append(Reason("optimiser", optimiser, why))
        if flows and problem.task.online:
            why = "the limit of small steps with fresh samples is that of the population; leave it out"
            found.append(Reason("task.batch_size", problem.task.batch_size, why))
        if not flows and np.ptp(optimiser.rates()) > 0:
            why = f"only steps of one learning rate can be extrapolated to tolerance = {self.tolerance:g}"
            found.append(Reason("optimiser", optimiser, why))
        return found

    def predict(self, problem: LinearProblem, session: Session) -> Dynamics:  # type: ignore[override]
        """By the function that the optimiser asks for; a loss that explodes is in the status."""
        network, task, optimiser = problem.network, problem.task, problem.optimiser
        if self.tolerance is None and not isinstance(optimiser, GradientFlow):
            return solve(
                network,
                task,
                optimiser.rates(),
                optimiser.steps,
                keep=self.keep,
                layer_steps=self.layer_steps,
                throw=False,
                progress=session.report,
            )
        if isinstance(optimiser, GradientFlow):
            small = 1e-6 if self.tolerance is None else self.tolerance
            return gradient_flow(
                network, task, optimiser.t_end, tolerance=small, records=optimiser.steps, progress=session.report
            )
        return self._long(problem, session)

    def _long(self, problem: LinearProblem, session: Session) -> Dynamics:
        rates, tolerance = problem.optimiser.rates(), self.tolerance
        assert tolerance is not None
        try:
            return solve_long(
                problem.network,
                problem.task,
                float(rates[0]),
                len(rates),
                tolerance=tolerance,
                records=self.records,
                progress=session.report,
            )
        except Diverged as error:
            found: Dynamics = error.result
            return found


@dataclass(frozen=True)
class ProportionalNetworks(LinearTheory, kind="proportional-networks"):
    """Real networks with data sets of their own: `proportional.simulate`; means, and their standard errors.

    Args:
        dimension: D; with a spectrum it is the number of modes, and not asked for.
        seeds: how many networks, at least 2.
        seed: of all of them.
    """

    dimension: int = 256
    seeds: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, dimension=check.integer("dimension", self.dimension, least=1))
        put(self, seeds=check.integer("seeds", self.seeds, least=2))
        put(self, seed=check.integer("seed", self.seed))

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return f"{self.seeds} networks"

    def reasons(self, problem: LinearProblem) -> list[Reason]:  # type: ignore[override]
        """What no real network is or does."""
        network, found = problem.network, []
        for name, value in (("width", network.widths[-1]), ("hidden_layers", network.hidden_layers)):
            if math.isinf(value):
                found.append(Reason(f"network.{name}", value, "of real networks it must be finite"))
        if isinstance(problem.optimiser, GradientFlow):
            why = "networks take steps; use SGD with a small learning rate"
            found.append(Reason("optimiser", problem.optimiser, why))
        return found

    def predict(self, problem: LinearProblem, session: Session) -> Dynamics:  # type: ignore[override]
        """Train them; those finished before Ctrl-C are kept."""
        rates = problem.optimiser.rates()
        sizes = {"dimension": self.dimension, "seeds": self.seeds, "seed": self.seed}
        try:
            return simulate(problem.network, problem.task, rates, len(rates), progress=session.report, **sizes)
        except Interrupted as error:
            found: Dynamics = error.result
            return found
