"""Trajectories side by side are called by what differs between them, and figures say what they measure from."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.trajectory import plots
from widefield.trajectory.labels import labels, shared

DATA = wf.data.sphere(samples=4, dimension=6, seed=1)
PROBLEM = wf.Problem(wf.MLP(1, "tanh"), DATA, optimiser=wf.SGD(0.05, 4))
RULES = (wf.GradientDescent(), wf.FeedbackAlignment(0.0), wf.FeedbackAlignment(0.5), wf.Hebb())
BOTH = ["richness 1, gradient descent", "richness 2, hebb"]
FA = "feedback alignment, correlation"


@pytest.fixture(scope="module")
def answer():
    return wf.solve(PROBLEM, wf.FiniteWidth(8, seeds=2))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def asked(answer, theory=None, **parts):
    """The same numbers, as the answer to another question: labels look at nothing else."""
    return replace(answer, problem=replace(PROBLEM, **parts), theory=theory or answer.theory)


def network(**fields):
    return {"network": wf.MLP(1, **fields)}


def optimiser(**fields):
    return {"optimiser": wf.SGD(**{"learning_rate": 0.05, "steps": 4, **fields})}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{"rule": r} for r in RULES], ["gradient descent", f"{FA} 0", f"{FA} 0.5", "hebb"]),
        ([network(richness=r) for r in (0.5, 2.0)], ["richness 0.5", "richness 2"]),
        ([network(activation=a) for a in ("tanh", "relu")], ["tanh", "relu"]),
        ([{"network": wf.MLP(n)} for n in (1, 3)], ["1 hidden layer", "3 hidden layers"]),
        ([network(centred=c) for c in (True, False)], ["centred", "not centred"]),
        ([network(parameterisation=p) for p in ("mean-field", "ntk")], ["mean-field", "ntk"]),
        ([optimiser(learning_rate=r) for r in (0.05, 0.1)], ["learning rate 0.05", "learning rate 0.1"]),
        ([optimiser(batch_size=b) for b in (None, 2)], ["full batch", "batch size 2"]),
        ([optimiser(batch_size=2, seed=s) for s in (0, 7)], ["optimiser seed 0", "optimiser seed 7"]),
        ([{"loss": loss} for loss in (wf.SquaredError(), wf.Huber(0.3))], ["squared error", "huber"]),
        ([{"data": replace(DATA, seed=s)} for s in (1, 2)], ["data seed 1", "data seed 2"]),
        ([{"data": wf.Data(np.eye(2) * k, [1.0, 2.0])} for k in (1, 2, 1)], ["x no. 1 (1)", "x no. 2", "x no. 1 (2)"]),
        ([{"rule": RULES[0]}, {"rule": RULES[3], **network(richness=2.0)}], BOTH),
        ([{}, {}], ["width 8 (1)", "width 8 (2)"]),
        ([{}], ["width 8"]),
        ([{}, {"record": wf.Record(neurons=0)}], ["width 8 (1)", "width 8 (2)"]),
    ],
)  # fmt: skip
def test_labels_name_what_differs(answer, parts, expected):
    assert labels([asked(answer, **part) for part in parts]) == expected


def test_a_schedule_is_named_in_a_label(answer):
    found = [asked(answer, **optimiser(learning_rate=rate)) for rate in (0.05, wf.Cosine(peak=0.1))]
    assert labels(found)[0] == "learning rate 0.05"
    assert labels(found)[1].startswith("learning rate cosine (peak 0.1")


def test_theories_are_named_if_there_are_several(answer):
    theories = (wf.FiniteWidth(8, seeds=2), wf.FiniteWidth(16), wf.Lazy())
    found = [asked(answer, theory) for theory in theories]
    assert labels(found) == ["width 8", "width 16", "lazy"]
    settings = [asked(answer, wf.FiniteWidth(8, seeds=2, seed=s)) for s in (0, 5)]
    assert labels(settings) == ["width 8, seed 0", "width 8, seed 5"]
    both = [asked(answer, theory, rule=rule) for theory in theories[:2] for rule in (RULES[0], RULES[3])]
    assert labels(both)[1:3] == ["width 8, hebb", "width 16, gradient descent"]
    assert shared(found, labels(found)) == ""
    assert shared([answer], labels([answer])) == ""
    rules = [asked(answer, rule=rule) for rule in RULES]
    assert shared(rules, labels(rules)) == "width 8"


@given(
    st.lists(
        st.tuples(st.sampled_from(RULES), st.sampled_from([0.5, 1.0]), st.sampled_from([0.1, 0.2]), st.integers(8, 9)),
        min_size=1,
        max_size=5,
    )
)
def test_labels_are_never_the_same(answer, drawn):
    """Also for hundreds of combinations; equal questions are told apart by their number."""
    found = [
        asked(answer, wf.FiniteWidth(width), rule=rule, **network(richness=gamma), **optimiser(learning_rate=eta))
        for rule, gamma, eta, width in drawn
    ]
    assert len(set(labels(found))) == len(found)


def test_own_labels(answer):
    assert labels([answer, answer], ["a", "b"]) == ["a", "b"]
    for wrong in (["a"], "ab", [1, 2]):
        with pytest.raises(wf.InvalidInput, match="one for each trajectory"):
            labels([answer, answer], wrong)
    axes = plots.losses([answer, answer], labels=["a", "b"])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert plots.kernel(answer, "feature_kernel", layer=1, label="mine").get_title().endswith("layer 1: mine")
    assert plots.curve(answer, "loss", label="mine").lines[-1].get_label() == "mine"


def words(figure):
    upper = figure.subfigs[0]
    (legend,) = upper.legends
    titles = [axes.get_title() for axes in figure.subfigs[1].get_axes()]
    said = {axes.get_ylabel().replace("\n", " ") for axes in upper.get_axes()}
    return [text.get_text() for text in legend.get_texts()], legend.get_title().get_text(), titles, said


def test_a_figure_of_several_rules_names_them_and_what_it_measures_from(answer):
    rules = [asked(answer, rule=rule) for rule in (RULES[0], RULES[3])]
    legend, title, titles, said = words(plots.compare(*rules))
    assert legend == ["gradient descent", "hebb", "standard error of gradient descent"]
    assert title == "width 8"
    assert titles[:2] == ["gradient descent", "hebb"]
    assert said == {"loss", "relative distance from gradient descent"}
    legend, _, _, said = words(plots.compare(*rules, labels=["backprop", "local"]))
    assert legend == ["backprop", "local", "standard error of backprop"]
    assert "relative distance from backprop" in said


def test_a_curve_has_one_colour_in_all_panels(answer):
    """Also if the networks, from which distances are measured, are not the first."""
    lazy = wf.solve(PROBLEM, wf.Lazy())
    figure = plots.compare(lazy, answer, asked(answer, wf.FiniteWidth(9)))
    losses, *others = figure.subfigs[0].get_axes()
    colours = {line.get_label(): line.get_color() for line in losses.lines}
    assert set(colours) == {"lazy", "width 8", "width 9"}
    for axes in others:
        assert axes.get_ylabel().endswith("width 8")
        assert {line.get_label(): line.get_color() for line in axes.lines} == {
            n: colours[n] for n in ("lazy", "width 9")
        }


def test_answers_about_other_samples_have_no_distance(answer):
    """And networks of other depth have a kernel of their own last layer."""
    other = wf.Problem(wf.MLP(2), wf.data.sphere(samples=3, dimension=6, seed=1), optimiser=wf.SGD(0.05, 4))
    figure = plots.compare(answer, wf.solve(other, wf.Lazy()))
    assert len(figure.subfigs[0].get_axes()) == 1
    assert "last layer" in figure.subfigs[1].get_suptitle()
