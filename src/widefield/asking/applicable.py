"""Which theory answers which problem."""

from __future__ import annotations

from typing import Any

from ..base.errors import InvalidInput
from ..problem.problem import Problem
from ..problem.question import Question
from ..problem.theory import Reason
from ..theories import Theory


def applicable(problem: Question) -> dict[str, list[Reason]]:
    """Everything that is in the way of each theory, with its usual settings; an empty list: it answers the problem.

    Theories are those of the problem's family: of a `proportional.LinearProblem`, those of the proportional limit.

    >>> from widefield import MLP, Problem, data
    >>> found = applicable(Problem(MLP(2, "tanh"), data.sphere(samples=3, dimension=4)))
    >>> [kind for kind, reasons in found.items() if not reasons][:3]
    ['alternating-monte-carlo', 'effective-theory', 'finite-width']
    >>> print(found["two-layer"][0])
    network.hidden_layers = 2: it is for exactly 1
    """
    if not isinstance(problem, Question):
        raise InvalidInput(f"problem = {problem!r} must be a Problem or a proportional.LinearProblem")
    family: Any = Theory if isinstance(problem, Problem) else type(problem.default_theory())
    found: dict[str, list[Reason]] = family.reasons_by_kind(problem)
    return found
