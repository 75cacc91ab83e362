"""Which theory answers which problem."""

from __future__ import annotations

from ..base.errors import InvalidInput
from ..problem.problem import Problem
from ..problem.scope import Reason
from ..theories import Theory


def applicable(problem: Problem) -> dict[str, list[Reason]]:
    """Everything that is in the way of each theory, with its usual settings; an empty list: it answers the problem.

    >>> from widefield import MLP, Problem, data
    >>> found = applicable(Problem(MLP(2, "tanh"), data.sphere(samples=3, dimension=4)))
    >>> [kind for kind, reasons in found.items() if not reasons][:3]
    ['alternating-monte-carlo', 'finite-width', 'fluctuations']
    >>> print(found["two-layer"][0])
    network.hidden_layers = 2: it is for exactly 1
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem = {problem!r} must be a Problem")
    return Theory.reasons_by_kind(problem)
