"""Deep linear networks at infinite width, from closed equations instead of samples."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput, NotAccurate
from ..problem.layer_rates import layered
from ..problem.optimisers import SGD
from ..problem.rules import DirectFeedbackAlignment, FeedbackAlignment, GatedLinear, GradientDescent, Hebb
from ..problem.theory import RECORDS, Clause, Scope, Theory
from ..solvers.closed.feedback import FeedbackSweep
from ..solvers.closed.fixed_point import Grid, iterate
from ..solvers.closed.gated import GatedSweep
from ..solvers.closed.gates import MOST_SAMPLES, Gates
from ..solvers.closed.gradient_descent import DenseSweep, Sweep
from ..solvers.closed.grids import DescentGrid, FeedbackGrid, GatedGrid, HebbGrid
from ..solvers.closed.hebb import HebbSweep
from ..solvers.closed.setting import Setting
from ..solvers.closed.solution import Solution, TwoTime
from ..trajectory import two_time
from ..trajectory.trajectory import Trajectory
from .recorder import Recorder
from .recording import Variables, from_arrays

if TYPE_CHECKING:
    from ..base.session import Session
    from ..problem.problem import Problem

METHODS = ("sweep", "fixed-point")

_MANY_ROWS = 1000


def _samples_with_gates(problem: Problem) -> int:
    """Number of samples whose gates are open or not; a linear network has none."""
    samples = problem.samples
    return samples.samples + samples.test_samples if problem.network.phi.kinks else 0


def _rates(problem: Problem) -> tuple[Any, Any]:
    return problem.optimiser.weight_rates, problem.optimiser.bias_rates


def _forgets(problem: Problem) -> bool:
    """Whether weights do not keep what was there at the start."""
    return any(getattr(problem.optimiser, name, 0.0) for name in ("weight_decay", "temperature"))


_CLAUSES = (
    Clause(
        "network.activation",
        lambda problem: problem.rule.gated and problem.network.phi.homogeneity != 1,
        "the equations of gated linear networks close for gates with two values, like those of 'relu'",
    ),
    Clause(
        "data",
        lambda problem: problem.rule.gated and _samples_with_gates(problem) > MOST_SAMPLES,
        f"gates of more than {MOST_SAMPLES} samples, test samples included, have too many patterns",
    ),
    Clause(
        "optimiser.weight_rates",
        lambda problem: _forgets(problem) and any(map(layered, _rates(problem))),
        "rates of layers together with weight decay or noise, which then differ from layer to layer, are not in its "
        "equations",
    ),
    Clause(
        "record.responses",
        lambda problem: problem.record.responses and bool(problem.optimiser.shakes),
        "response functions with Langevin noise are not available",
    ),
)


@dataclass(frozen=True)
class ClosedLinear(Theory, kind="closed-linear"):
    """The mean-field equations of linear networks, solved without sampling (BP22 App. F, BP23 App. E).

    Kernels and responses of a linear network obey closed matrix equations, for every learning rule; those of gated
    linear networks too, given the pattern of gates (at most 8 samples). All variants of `SGD`, any loss, biases, widths
    and several outputs. Exact to rounding, and independent of the code of `InfiniteWidth`.

    Args:
        method: "sweep" takes one causal pass over the steps; "fixed-point" iterates all times at once with damping, as
            the papers do.
        damping: of the iteration: the fraction of the way to its image that every order parameter moves.
        tolerance: of the iteration: largest relative change of an order parameter in the end.
        iterations: at most so many.
    """

    method: str = "sweep"
    damping: float = 0.6
    tolerance: float = 1e-10
    iterations: int = 500

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        check.choice("method", self.method, METHODS)
        put(self, damping=check.number("damping", self.damping, above=0.0, most=1.0))
        put(self, tolerance=check.number("tolerance", self.tolerance, above=0.0))
        put(self, iterations=check.integer("iterations", self.iterations, least=1))

    @property
    def label(self) -> str:
        """Closed equations, and how they are solved if not in one pass."""
        return "closed linear equations" + (" (iterated)" if self.method == "fixed-point" else "")

    @property
    def scope(self) -> Scope:
        """Where the equations close."""
        by_sweep = "is kept by method = 'sweep' only"
        over_times = {"two_time", "responses"} if self.method == "fixed-point" else set()
        return Scope(
            rules=(GradientDescent, FeedbackAlignment, DirectFeedbackAlignment, GatedLinear, Hebb),
            optimisers=(SGD,),
            activations="linear or gated",
            parameterisations=("mean-field",),
            richness="positive",
            records=frozenset(RECORDS) - over_times,
            also=_CLAUSES,
            words={"record.two_time": by_sweep, "record.responses": by_sweep},
            cost="(P T)^2 L" if self.method == "sweep" else "(P T)^3 L an iteration",
            error="exact" if self.method == "sweep" else "tolerance",
        )

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Solve the equations of the problem's rule."""
        began, steps = time.perf_counter(), problem.record.at(problem.optimiser.steps)
        setting = Setting.of(problem)
        statistics: dict[str, float] = {}
        factors: Variables = {}
        with np.errstate(over="ignore", invalid="ignore"), _threads(setting):
            if self.method == "sweep":
                sweep = _sweep(problem, setting, statistics)
                sweep.run(lambda step, f: session.report(step, problem.optimiser.steps, _loss(problem, f)))
                solution = sweep.solution(steps)
                if problem.record.between_times:
                    factors = _factors(problem, sweep.two_time(steps))
            else:
                solution = self._iterated(problem, setting, session, steps, statistics)
            recorder = Recorder(problem)
            arrays = recorder.predictions(solution.outputs[steps])
            arrays |= recorder.kernels(solution.feature, solution.gradient, solution.alignment, solution.pseudo)
        statistics["seconds"] = time.perf_counter() - began
        return from_arrays(problem, self, arrays, steps, statistics, factors)

    def _iterated(
        self,
        problem: Problem,
        setting: Setting,
        session: Session,
        steps: NDArray[np.int64],
        statistics: dict[str, float],
    ) -> Solution:
        grid = _grid(problem, setting, statistics)
        found = iterate(
            grid,
            self.damping,
            self.tolerance,
            self.iterations,
            lambda done, f: session.report(done, self.iterations, _loss(problem, f[-1])),
        )
        if not np.isfinite(found.change):
            raise InvalidInput(
                f"damping = {self.damping:g}: the iteration diverged after {found.iterations} iterations; "
                "use method = 'sweep', which solves the same equations in one pass"
            )
        if found.change > self.tolerance:
            warnings.warn(
                f"the order parameters still change by {found.change:.1e} after {found.iterations} iterations "
                f"(tolerance = {self.tolerance:g}); raise iterations, or use method = 'sweep'",
                NotAccurate,
                stacklevel=5,
            )
        statistics |= {"iterations": found.iterations, "change": found.change}
        return grid.solution(found.order, steps)


def _threads(setting: Setting) -> threadpool_limits:
    """One thread for small products: threads that wait for each other cost more than they bring."""
    small = setting.times * setting.samples < _MANY_ROWS
    return threadpool_limits(limits=1 if small else None, user_api="blas")


def _sweep(
    problem: Problem, setting: Setting, statistics: dict[str, float]
) -> Sweep | FeedbackSweep | HebbSweep | GatedSweep:
    """The causal pass of the problem's rule."""
    rule, n = problem.rule, setting.times * setting.samples
    if isinstance(rule, GatedLinear):
        gates = _gates(problem, setting, statistics)
        size = n * (1 + setting.outputs)
        _check_memory(setting, len(gates.chances) * size**2 + 2 * size**2)
        return GatedSweep(setting, gates)
    if isinstance(rule, GradientDescent):
        factors, dense = 7 * n * setting.times * setting.outputs, 2 * n**2
        separable = setting.memory.separable
        _check_memory(setting, factors + (0 if separable else dense))
        return Sweep(setting) if separable else DenseSweep(setting)
    if isinstance(rule, Hebb):
        _check_memory(setting, 2 * n**2)
        return HebbSweep(setting)
    return FeedbackSweep(setting, rule.transmission, direct=isinstance(rule, DirectFeedbackAlignment))


def _grid(problem: Problem, setting: Setting, statistics: dict[str, float]) -> Grid:
    """The equations of the problem's rule on all times."""
    rule, n = problem.rule, setting.times * setting.samples
    # Old and new order parameters, and what lies between them.
    _check_memory(setting, 6 * (n * (1 + (setting.outputs if isinstance(rule, GatedLinear) else 0))) ** 2)
    if isinstance(rule, GatedLinear):
        return GatedGrid(setting, _gates(problem, setting, statistics))
    if isinstance(rule, GradientDescent):
        return DescentGrid(setting)
    if isinstance(rule, Hebb):
        return HebbGrid(setting)
    return FeedbackGrid(setting, rule.transmission, direct=isinstance(rule, DirectFeedbackAlignment))


def _gates(problem: Problem, setting: Setting, statistics: dict[str, float]) -> Gates:
    gates = Gates.of(problem.network.phi, setting.kernel)
    statistics["gates_bound"] = gates.bound
    return gates


def _check_memory(setting: Setting, numbers: int) -> None:
    check.memory("closed equations", 8 * (setting.layers + 1) * numbers, "use fewer steps or samples")


def _loss(problem: Problem, outputs: Floats) -> float:
    return float(problem.losses(outputs[: problem.samples.samples])["loss"])


def _factors(problem: Problem, found: TwoTime) -> Variables:
    """Of two-time kernels and, if asked for, of responses, of the recorded training samples."""
    responses = found.responses if problem.record.responses else {}
    return two_time.labelled_factors(found.features, found.gradients, found.pseudo, responses, problem.recorded_samples)
