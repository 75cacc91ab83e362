"""Files opened without knowing what is in them: answers by their mark, problems by their network."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from ..base import storage
from ..base.errors import FileProblem, InvalidInput, UnknownName
from ..base.result import Result
from ..data.files import File
from ..problem.network import MLP
from ..problem.optimisers import SGD
from ..problem.problem import Problem
from ..problem.question import Question, read_table

ROOMS = {
    "trajectory": ("theories", "Trajectory"),
    "solution of the proportional limit": ("proportional.result", "Dynamics"),
    "learning-rate sweep": ("proportional.rate_sweep", "RateSweep"),
    "learning rates of a problem": ("asking.best_rates", "LearningRates"),
    "flow through the layers": ("effective.vertex_flow", "Flow"),
    "check of a flow": ("effective.agreement", "Check"),
    "flow of the tangent kernel": ("effective.tangent_result", "NTKFlow"),
    "flow of differentials": ("effective.differential_result", "DifferentialFlow"),
    "gradients of the layers": ("effective.gradients_of_layers", "GradientMoments"),
    "part of a study": ("studies.keeping", "Part"),
}
"""Which class of which module a mark stands for. All theories are in theirs: the file of a trajectory names one."""

_LINEAR = "deep-linear"


def load(path: str | Path) -> Result:
    """Open any file that a `save` of this package wrote: a `Trajectory`, the `LearningRates` of a problem, a
    `proportional.Dynamics` or `RateSweep`, an `effective.Flow` or a check of one.
    """
    found = storage.kind_of(Path(path))
    if not found:
        raise FileProblem(f"{path} is a NetCDF file, but was not saved by widefield")
    if found not in ROOMS:
        raise FileProblem(f"{path} holds a {found}, which this widefield does not know: please upgrade")
    module, name = ROOMS[found]
    kind: type[Result] = getattr(importlib.import_module(f"widefield.{module}"), name)
    return kind.load(path)


TABLES = (".csv", ".tsv", ".txt", ".npz")
"""Endings of files that hold data, not a problem."""


def problem_of_data(
    path: str | Path, target: str | Sequence[str] = "y", test_samples: int = 0, leave_out: Sequence[str] = ()
) -> Problem:
    """A problem to begin with for the data of a CSV or NPZ file.

    Standardised inputs and targets, two hidden layers of tanh at richness 1, squared loss, and 100 steps of gradient
    descent at a learning rate that is found when it is solved.
    """
    names = target if isinstance(target, str) else tuple(target)
    return Problem(
        MLP(hidden_layers=2, activation="tanh", richness=1.0),
        File(path, target=names, test_samples=test_samples, leave_out=tuple(leave_out), standardise=True),
        optimiser=SGD(learning_rate="auto", steps=100),
    )


def read_problem(source: str | Path) -> Question:
    """A problem from a TOML file or TOML text: a `Problem`, or a `LinearProblem` if its network is "deep-linear"."""
    table = read_table(source)
    network = table.get("network")
    if not isinstance(network, dict):
        raise InvalidInput("a problem needs a section [network]")
    kind = network.get("kind", _LINEAR if "task" in table else MLP.kind)
    if kind == _LINEAR:
        from ..proportional.problem import LinearProblem

        return LinearProblem.from_table(table)
    if not isinstance(kind, str) or kind not in MLP.members:
        raise UnknownName("kind of network", kind, (*MLP.members, _LINEAR))
    return Problem.from_table(table)
