"""Which theory for which problem: asked, compared, and printed."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import widefield as wf
from widefield.asking import comparison, crosschecking, scopes
from widefield.proportional.problem import LinearTheory

PAGE = Path(__file__).parents[2] / "docs" / "theories.md"


def problem(activation="tanh", layers=2, **parts):
    default = {"data": wf.data.sphere(samples=3, dimension=4), "optimiser": wf.SGD(0.1, 3)}
    return wf.Problem(wf.MLP(layers, activation), **{**default, **parts})


def test_the_table_of_the_docs_is_that_of_the_scopes():
    text = PAGE.read_text()
    assert scopes.renewed(text) == text, "python -m widefield.asking.scopes docs/theories.md"
    assert scopes.table().count("\n| ") >= 15
    with pytest.raises(wf.FileProblem, match="has no lines"):
        scopes.renewed("a page without a table")


def test_applicable():
    found = wf.applicable(problem())
    assert set(found) >= {"finite-width", "infinite-width", "lazy", "fluctuations"}
    assert {kind for kind, reasons in found.items() if reasons} >= {"closed-linear", "two-layer"}
    assert str(found["two-layer"][0]) == "network.hidden_layers = 2: it is for exactly 1"
    with pytest.raises(wf.InvalidInput, match="problem = 3 must be a Problem"):
        wf.applicable(3)


def test_applicable_to_deep_linear_networks():
    """Those of the proportional limit, by what they refuse; `solve` refuses the same, with the same words."""
    network, task = wf.proportional.LinearNetwork(2, 1.0), wf.proportional.LinearTask(samples=2.0)
    fresh, wide = wf.proportional.LinearTask(batch_size=1.0), wf.proportional.LinearNetwork(2)
    flow, steps = wf.GradientFlow(0.5), wf.SGD(0.1, 2)
    for parts, refusals in {
        (network, task, steps): {},
        (network, task, flow): {"proportional-networks": ["optimiser"]},
        (wide, task, flow): {"proportional-networks": ["network.width", "optimiser"]},
        (network, fresh, flow): {"proportional-limit": ["task.batch_size"], "proportional-networks": ["optimiser"]},
    }.items():
        asked = wf.proportional.LinearProblem(*parts)
        found = wf.applicable(asked)
        assert set(found) == {"proportional-limit", "proportional-networks"}
        assert {kind: [r.field for r in against] for kind, against in found.items() if against} == refusals
        for kind in refusals:
            with pytest.raises(wf.NotInScope) as caught:
                wf.solve(asked, LinearTheory.members[kind]())
            assert caught.value.reasons == tuple(found[kind])
            assert set(caught.value.others) == set(found) - set(refusals)


def test_theories_without_defaults_say_so():
    @dataclass(frozen=True)
    class Needy(wf.Theory, kind="needy-theory-of-this-test"):
        width: int
        depth: int

    try:
        (reason,) = wf.applicable(problem())[Needy.kind]
        assert "has no defaults for depth" in reason.why
    finally:
        del wf.Theory.members[Needy.kind]


def test_names_are_kinds_of_theories():
    names = [kind for kind, member in wf.Theory.members.items() if member.__module__.startswith("widefield")]
    assert len(names) == 10
    assert [theory.kind for theory in comparison.named(names, 7)] == names
    assert comparison.named("fluctuations", 7) == [wf.Fluctuations(7)]
    assert comparison.named("dmft,infinite-width") == [wf.InfiniteWidth(replicas=4)]


def test_nothing_is_trained_for_a_comparison_that_cannot_be_made(monkeypatch):
    def training(*arguments, **settings):
        raise AssertionError("networks were trained")

    monkeypatch.setattr(comparison, "solve", training)
    asked = problem(record=wf.Record(responses=True))
    with pytest.raises(wf.NotInScope, match=r"record\.responses"):
        comparison.compare(asked, [wf.Lazy()], wf.FiniteWidth(8))
    refused = comparison.refused(problem(), [wf.Lazy(), wf.ClosedLinear("fixed-point"), wf.TwoLayer()])
    assert set(refused) == {"closed linear equations (iterated)", "two-layer"}


def test_solvers_follow_from_their_scopes():
    lazy = wf.Problem(wf.MLP(2, parameterisation="ntk"), wf.data.sphere(samples=3, dimension=4))
    known = crosschecking.solvers(lazy)
    applying = [theory.kind for theory in known if not theory.scope.reasons(lazy)]
    assert applying == ["infinite-width", "lazy"]
    assert len(comparison.refused(lazy, known)) == 4
