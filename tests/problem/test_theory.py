"""What a theory answers: refusals before any work, all reasons at once, in the same words everywhere."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield.problem.theory import OPTIONS, RECORDS, Reason, Scope

THEORIES = {
    "alternating-monte-carlo": wf.AlternatingMonteCarlo(20, replicas=1),
    "closed-linear": wf.ClosedLinear(),
    "effective-theory": wf.EffectiveTheory(8),
    "finite-width": wf.FiniteWidth(4),
    "fluctuations": wf.Fluctuations(4),
    "gradient-independence": wf.GradientIndependence(64, 1),
    "infinite-width": wf.InfiniteWidth(64, 1),
    "lazy": wf.Lazy(),
    "perturbative": wf.Perturbative(64),
    "two-layer": wf.TwoLayer(64, 1),
}


def problem(**parts):
    network = {"hidden_layers": 1, "activation": "linear", **parts.pop("network", {})}
    default = {"data": wf.data.sphere(samples=3, dimension=4), "optimiser": wf.SGD(0.1, 3)}
    return wf.Problem(wf.MLP(**network), **{**default, **parts})


def reasons(theory, **parts):
    return {reason.field: reason for reason in THEORIES[theory].scope.reasons(problem(**parts))}


@pytest.mark.parametrize("theory", THEORIES)
def test_all_of_them_answer_a_simple_problem(theory):
    assert reasons(theory) == {}
    assert THEORIES[theory].kind == theory


def test_all_reasons_at_once_and_who_answers():
    asked = problem(
        network={"activation": "relu", "hidden_layers": 2},
        optimiser=wf.SGD(0.1, 3, momentum=0.5, temperature=0.25),
        record=wf.Record(responses=True),
        rule=wf.Hebb(),
    )
    with pytest.raises(wf.NotInScope) as caught:
        wf.solve(asked, wf.Perturbative())
    assert isinstance(caught.value, wf.InvalidInput)
    first, *lines, last = str(caught.value).split("\n")
    assert first == "the theory 'perturbative' does not answer this problem:"
    begun = [line.split(": ")[0] for line in lines]
    assert begun == [
        "rule = 'hebb'",
        "optimiser.momentum = 0.5",
        "optimiser.temperature = 0.25",
        "network.activation = 'relu'",
        "record.responses = true",
    ]
    assert [str(reason) for reason in caught.value.reasons] == lines
    assert last == "no theory answers all of it"  # response functions with noise
    quiet = dataclasses.replace(asked, optimiser=wf.SGD(0.1, 3, momentum=0.5))
    with pytest.raises(wf.NotInScope, match="theories that answer it: alternating-monte-carlo, infinite-width, lazy"):
        wf.solve(quiet, wf.Perturbative())


@pytest.mark.parametrize("theory", THEORIES)
def test_refusals_come_before_any_work(theory, monkeypatch):
    def work(*arguments):
        raise AssertionError("it began to work")

    monkeypatch.setattr(type(THEORIES[theory]), "predict", work)
    refused = problem(
        network={"richness": 0.0, "parameterisation": "ntk", "centred": False},
        optimiser=wf.SGD(0.1, 3, temperature=0.1),
        record=wf.Record(responses=True),
    )
    with pytest.raises(wf.NotInScope):
        wf.solve(refused, THEORIES[theory])


REFUSED = {
    "rule": ({"rule": wf.Hebb()}, {"effective-theory", "fluctuations", "perturbative"}),
    "loss": ({"loss": wf.Huber()}, {"effective-theory", "fluctuations"}),
    "optimiser": ({"optimiser": wf.GradientFlow(0.3)}, {"alternating-monte-carlo", "closed-linear", "fluctuations"}),
    "optimiser.momentum": (
        {"optimiser": wf.SGD(0.1, 3, momentum=0.5)},
        {"effective-theory", "fluctuations", "perturbative"},
    ),
    "optimiser.weight_decay": (
        {"optimiser": wf.SGD(0.1, 3, weight_decay=0.5)},
        {"effective-theory", "fluctuations", "gradient-independence", "lazy", "perturbative"},
    ),
    "optimiser.temperature": (
        {"optimiser": wf.SGD(0.1, 3, temperature=0.5)},
        {
            "alternating-monte-carlo",
            "effective-theory",
            "fluctuations",
            "gradient-independence",
            "lazy",
            "perturbative",
        },
    ),
    "optimiser.batch_size": ({"optimiser": wf.SGD(0.1, 3, batch_size=1)}, {"effective-theory", "fluctuations"}),
    "network.activation": ({"network": {"activation": "relu"}}, {"closed-linear", "effective-theory", "perturbative"}),
    "network.hidden_layers": ({"network": {"hidden_layers": 2}}, {"two-layer"}),
    "network.outputs": (
        {"data": wf.data.sphere(samples=3, dimension=4, outputs=2)},
        {"alternating-monte-carlo", "fluctuations"},
    ),
    "network.parameterisation": (
        {"network": {"parameterisation": "ntk"}},
        {"alternating-monte-carlo", "closed-linear", "two-layer"},
    ),
    "network.richness": (
        {"network": {"richness": 0.0}},
        {"alternating-monte-carlo", "closed-linear", "effective-theory", "finite-width", "two-layer"},
    ),
    "network.centred": (
        {"network": {"parameterisation": "ntk", "centred": False}},
        {"fluctuations", "gradient-independence", "infinite-width", "perturbative"},
    ),
    "record.responses": (
        {"record": wf.Record(responses=True)},
        {"effective-theory", "finite-width", "gradient-independence", "perturbative"},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_thing_is_refused_in_the_same_words(name):
    parts, expected = REFUSED[name]
    found = {theory: reasons(theory, **parts) for theory in THEORIES}
    assert {theory for theory, why in found.items() if name in why} == expected
    values = {str(why[name]).split(":")[0] for why in found.values() if name in why}
    assert len(values) == 1
    others = {field for why in found.values() for field in why} - {name}
    assert others <= {"network.parameterisation"}  # which stands for a start that it does not know either


@pytest.mark.parametrize("name", ["two_time", "test_kernels"])
def test_nobody_ignores_what_is_to_be_recorded(name):
    answering = set(THEORIES) - {"effective-theory"}  # which refuses what it does not have: kernels
    assert all(not reasons(theory, record=wf.Record(**{name: True})) for theory in answering)
    assert list(reasons("effective-theory", record=wf.Record(**{name: True}))) == [f"record.{name}"]


def test_jumps_and_kinks():
    """The perceptron jumps, so that its NTK is infinite; a kink is no jump."""
    for theory in ("lazy", "fluctuations"):
        assert "network.activation" in reasons(theory, network={"activation": "perceptron"})
        assert not reasons(theory, network={"activation": "leaky_relu(0.3)"})
    assert "it jumps" in str(reasons("lazy", network={"activation": "perceptron"})["network.activation"])


def test_settings_decide_too():
    asked = problem(record=wf.Record(two_time=True))
    assert not wf.ClosedLinear().scope.reasons(asked)
    (reason,) = wf.ClosedLinear("fixed-point").scope.reasons(asked)
    assert reason == Reason("record.two_time", True, "is kept by method = 'sweep' only")
    responses = problem(record=wf.Record(responses=True))
    assert [reason.field for reason in wf.ClosedLinear("fixed-point").scope.reasons(responses)] == ["record.responses"]
    grid = wf.TwoLayer(method="grid").scope.reasons(problem(optimiser=wf.SGD(0.1, 3, temperature=0.1)))
    assert "has to be sampled" in str(grid[0])


def test_random_starts_of_ntk_networks_are_refused_where_they_were_wrong():
    """Infinite width divided the overlap of few particles by a tiny richness; now it names who knows better."""
    asked = problem(network={"hidden_layers": 2, "parameterisation": "ntk", "centred": False})
    for theory in (wf.InfiniteWidth(64, 1), wf.GradientIndependence(64, 1), wf.Perturbative()):
        with pytest.raises(wf.NotInScope, match=r"network.centred = false: .*\n.*finite-width, lazy"):
            wf.solve(asked, theory)
    assert float(wf.solve(asked, wf.Lazy()).data.outputs_deviation.min()) > 0


def test_first_outputs_of_mean_field_networks_vanish_at_infinite_width():
    """Centred or not. What a few particles leave of them stays small, but for the lazy limit, which would divide by 0.

    It is not taken away elsewhere: identities of uncentred networks (weight decay) hold for any number of particles.
    """
    for richness, remainder in ((0.0, 0.0), (0.5, 0.01)):
        networks = [
            {"hidden_layers": 2, "activation": "tanh", "richness": richness, "centred": c} for c in (True, False)
        ]
        found = [wf.solve(problem(network=network), wf.InfiniteWidth(256, 1)).data for network in networks]
        np.testing.assert_allclose(found[1].outputs, found[0].outputs, rtol=0, atol=remainder)
        np.testing.assert_allclose(found[1].outputs[0], 0.0, atol=remainder or 1e-9)


def test_what_is_left_out_is_said():
    found = wf.solve(problem(record=wf.Record(test_kernels=True)), wf.Lazy()).data
    assert found.attrs["left_out"].split("; ") == [
        "record.neurons = 32: there are no sampled neurons to keep",
        "record.test_kernels = true: there are no test samples",
        "network.richness = 1: is taken to be 0",
    ]
    assert "test_ntk" not in found
    assert "left_out" not in wf.solve(problem(), wf.FiniteWidth(4)).data.attrs
    sampled = wf.solve(problem(rule=wf.Hebb()), wf.TwoLayer(64, 2, method="sampled"))
    assert "left_out" not in sampled.data.attrs
    assert sampled.field("preactivation", 1).sizes == {"sample": 3, "neuron": 64}
    assert sampled.field("pregradient", 1).sizes == {"sample": 3, "neuron": 64}


def test_a_theory_of_ones_own_answers_everything_unless_it_says_otherwise():
    class Own(wf.Theory):
        pass

    asked = problem(network={"parameterisation": "ntk", "centred": False}, record=wf.Record(responses=True))
    assert Own().scope == Scope()
    assert Own().scope.reasons(asked) == []
    narrow = Scope(options=frozenset(OPTIONS[:1]), records=frozenset(RECORDS[:1]))
    assert [str(reason) for reason in narrow.reasons(asked)] == [
        "record.responses = true: is not among what it can record; set it to false"
    ]
