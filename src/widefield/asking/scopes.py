"""The table "which theory for which problem" of docs/theories.md, written from the scopes of the theories by

python -m widefield.asking.scopes docs/theories.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from .. import theories
from ..base import files
from ..base.errors import FileProblem
from ..problem.gradient_flow import GradientFlow
from ..problem.rules import LearningRule
from ..problem.theory import LAYERED, Scope
from ..theories import Theory

MARKS = ("<!-- table of scopes -->", "<!-- end of the table -->")
"""The table stands between these lines."""


def _rules(scope: Scope) -> str:
    if scope.rules is None:
        return "any"
    built_in = {rule for rule in LearningRule.members.values() if rule.__module__.partition(".")[0] == "widefield"}
    return f"all {len(built_in)}" if set(scope.rules) == built_in else ", ".join(rule.kind for rule in scope.rules)


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


_ROWS: dict[str, Callable[[Scope], str]] = {
    "networks": lambda scope: "any" if scope.networks is None else ", ".join(n.kind for n in scope.networks),
    "learning rules": _rules,
    "losses": lambda scope: "any" if scope.losses is None else ", ".join(loss.kind for loss in scope.losses),
    "gradient flow": lambda scope: _yes(scope.optimisers is None or GradientFlow in scope.optimisers),
    "momentum": lambda scope: _yes("momentum" in scope.options),
    "weight decay": lambda scope: _yes("weight_decay" in scope.options),
    "Langevin noise": lambda scope: _yes("temperature" in scope.options),
    "minibatches": lambda scope: _yes("batch_size" in scope.options),
    "rates of layers": lambda scope: _yes(LAYERED in scope.options),
    "activations": lambda scope: scope.activations,
    "hidden layers": lambda scope: str(scope.hidden_layers or "any"),
    "outputs": lambda scope: str(scope.outputs or "any"),
    '"ntk"': lambda scope: _yes("ntk" in scope.parameterisations),
    '"ntk", not centred': lambda scope: _yes("ntk" in scope.parameterisations and scope.random_start),
    "richness 0": lambda scope: {"any": "yes", "positive": "no", "ignored": "always"}[scope.richness],
    "`test_kernels`": lambda scope: _yes("test_kernels" in scope.records),
    "`two_time`": lambda scope: _yes("two_time" in scope.records),
    "`responses`": lambda scope: _yes("responses" in scope.records),
    "cost": lambda scope: scope.cost,
    "error": lambda scope: scope.error,
}


def table() -> str:
    """The scopes of the theories of this package, side by side, in Markdown."""
    members = {kind: member for kind, member in Theory.members.items() if member.__name__ in theories.__all__}
    scopes = {kind: member.usual().scope for kind, member in sorted(members.items())}  # type: ignore[attr-defined]
    rows = [["", *scopes], ["---"] * (1 + len(scopes))]
    rows += [[name, *map(cell, scopes.values())] for name, cell in _ROWS.items()]
    also = [f"- {kind}, {c.field}: {c.why}" for kind, scope in scopes.items() for c in scope.also]
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", "Refused beside that:", "", *also])


def renewed(text: str) -> str:
    """A page with the table as it is now."""
    if not all(mark in text for mark in MARKS):
        raise FileProblem(f"the page has no lines {' and '.join(MARKS)} for the table to stand between")
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        files.write_text(page, renewed(files.read_text(page)))
