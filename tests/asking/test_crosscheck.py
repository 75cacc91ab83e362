"""Solvers against each other: what agrees, what does not, and how it is told."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield import cli
from widefield.asking import crosschecking
from widefield.base import tables

LINEAR = (wf.ClosedLinear(), wf.ClosedLinear("fixed-point"))


def problem(activation="linear", layers=2, rule=None, steps=8, **network):
    generator = np.random.default_rng(0)
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, **network),
        data=wf.Data(generator.normal(size=(3, 5)), generator.normal(size=3), generator.normal(size=(1, 5)), [0.3]),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(learning_rate=0.05, steps=steps),
        record=wf.Record(neurons=0),
    )


def test_solvers_that_agree():
    found = wf.crosscheck(problem(rule=wf.FeedbackAlignment(0.5)), LINEAR, progress=False)
    assert found.agrees
    assert found.verdict.startswith("2 solvers agree in all 6 comparisons, of which the loosest would notice ")
    assert found.verdict.endswith("e-09.")
    assert {d.name for d in found.differences} == set(crosschecking.QUANTITIES)
    assert all(0 <= d.difference < 1e-9 and d.allowed < 1e-7 for d in found.differences)
    text = tables.as_text(found.table())
    assert "1-2" in text
    assert all(answer.label in text for answer in found.answers)
    losses, points = found.plot().axes
    assert len(losses.lines) == 2
    names = [label.get_text().replace("\n", "_") for label in points.get_xticklabels()]
    heights = [max(line.get_ydata()) for line in points.lines[: len(names)]]
    expected = {d.name: max(d.difference / d.allowed, 1e-6) for d in found.differences}
    assert dict(zip(names, heights, strict=True)) == pytest.approx(expected)


def test_gradient_descent_has_nothing_but_gradients_to_align():
    found = wf.crosscheck(problem(), LINEAR, progress=False)
    assert {d.name for d in found.differences} == set(crosschecking.QUANTITIES) - {"alignment_kernel"}


def test_an_answer_that_is_wrong_is_noticed():
    found = wf.crosscheck(problem(), (wf.ClosedLinear(), wf.Lazy()), progress=False)
    assert not found.agrees
    assert "DISAGREE; the worst: closed linear equations and lazy differ by" in found.verdict


def test_standard_errors_count_four_times():
    asked = dataclasses.replace(problem("tanh", layers=1), record=wf.Record(neurons=0, kernels=False))
    first, second = (
        wf.solve(asked, wf.TwoLayer(particles=64, replicas=4, seed=seed, method="sampled")) for seed in (0, 4)
    )
    found = crosschecking.difference(first, second, "outputs")
    errors = np.concatenate([a.standard_error("outputs").values.ravel() for a in (first, second)])
    size = max(np.linalg.norm(a.data["outputs"]) for a in (first, second))
    assert found.allowed == pytest.approx(4 * np.linalg.norm(errors) / size, rel=1e-5)
    apart = np.linalg.norm(first.data["outputs"] - second.data["outputs"]) / size
    assert found.difference == pytest.approx(apart, rel=1e-10)
    assert found.agrees


def test_solvers_that_do_not_apply_say_why():
    found = wf.crosscheck(problem("tanh"), LINEAR, progress=False)
    assert found.answers == ()
    assert not found.agrees
    assert found.verdict.startswith("Nothing to check: 0 solvers apply")
    assert all("activation = 'tanh'" in reason for reason in found.refusals.values())
    found = wf.crosscheck(problem(), (*LINEAR[:1], wf.TwoLayer()), progress=False)
    assert found.verdict.startswith("Nothing to check: 1 solver applies")


def test_solvers_of_a_problem():
    kinds = [theory.kind for theory in crosschecking.solvers(problem())]
    assert kinds == ["infinite-width", "closed-linear", "closed-linear", "two-layer", "alternating-monte-carlo"]
    lazy = [theory.kind for theory in crosschecking.solvers(problem(parameterisation="ntk"))]
    assert lazy == [*kinds, "lazy"]


def test_command_line(tmp_path, capsys, monkeypatch):
    file = tmp_path / "problem.toml"
    problem().to_toml(file)
    monkeypatch.setattr(crosschecking, "solvers", lambda problem: [*LINEAR, wf.TwoLayer()])
    monkeypatch.setattr("sys.argv", ["widefield", "crosscheck", str(file), "--quiet"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert "2 solvers agree in all 5 comparisons" in printed
    assert "not two-layer: network.hidden_layers = 2" in printed
    assert "1-2" in printed
    monkeypatch.setattr(crosschecking, "solvers", lambda problem: [*LINEAR[:1], wf.Lazy()])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert "DISAGREE" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("rule", [wf.GradientDescent(), wf.FeedbackAlignment(0.5), wf.Hebb()])
@pytest.mark.parametrize(
    ("activation", "layers"), [("linear", 1), ("linear", 3), ("tanh", 1), ("tanh", 2), ("relu", 1)]
)
def test_all_solvers_agree(activation, layers, rule):
    found = wf.crosscheck(problem(activation, layers, rule), progress=False)
    applying = {("linear", 1): 5, ("linear", 3): 4, ("tanh", 1): 3, ("tanh", 2): 2, ("relu", 1): 3}
    assert len(found.answers) == applying[activation, layers]
    assert found.agrees, found.verdict
    assert max(d.allowed for d in found.differences) < 0.2  # wide error bars would agree with anything


def test_the_old_word_for_the_name_of_a_difference():
    apart = crosschecking.Difference("ntk", 0.1, 0.2, "one", "other")
    with pytest.warns(DeprecationWarning, match="Difference.name"):
        assert apart.quantity == apart.name == "ntk"
