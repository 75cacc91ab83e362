"""What a plan knows of a network, and what it refuses: with the line, and what to do."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import made_networks as made
import widefield as wf
from widefield.graphs.parts import MatrixSpec
from widefield.graphs.plan import check_network, plan_of


def network(forward):
    """One whose forward pass is this function of net and x, with a population to use."""

    @dataclass(frozen=True)
    class Given(wf.Network):
        def forward(self, net, x):
            return forward(net, x, net.population("one"))

    return Given()


def outputs(net, features, population):
    return net.inner(features, net.vectors("readout", population, net.outputs))


def hidden(net, x, population):
    return net.map(jnp.tanh, x @ net.vectors("input", population, *x.shape))


def normalised(net, x, one):
    return outputs(net, net.map(lambda h: h / jnp.std(h, axis=-1, keepdims=True), hidden(net, x, one)), one)


def over_the_batch(net, x, one):
    return outputs(net, net.map(lambda h: h - jnp.mean(h, axis=0, keepdims=True), hidden(net, x, one)), one)


def array_of_samples(net, x, one):
    return outputs(net, net.map(lambda h: h * jnp.arange(3.0)[:, None], hidden(net, x, one)), one)


def two_populations(net, x, one):
    two = net.population("two")
    return outputs(net, hidden(net, x, one) * net.vectors("b", two), one)


def wrong_matrix(net, x, one):
    two = net.population("two")
    return outputs(net, net.matrix("w", two, one) @ hidden(net, x, one), one)


def two_meanings(net, x, one):
    two = net.population("two")
    net.matrix("w", one, two)
    return outputs(net, net.matrix("w", one, one) @ hidden(net, x, one), one)


def one_name(net, x, one):
    net.vectors("w", one)
    return outputs(net, net.matrix("w", one, one) @ hidden(net, x, one), one)


def no_influence(net, x, one):
    net.vectors("gain", one)
    return outputs(net, hidden(net, x, one), one)


def stopped(net, x, one):
    h = net.matrix("w", one, one) @ hidden(net, x, one)
    return outputs(net, net.map(jax.lax.stop_gradient, h) + hidden(net, x, one), one)


def never_applied(net, x, one):
    net.matrix("w", one, one)
    return outputs(net, hidden(net, x, one), one)


def jnp_on_a_field(net, x, one):
    return outputs(net, jnp.tanh(x @ net.vectors("input", one, *x.shape)), one)


def average_in_a_map(net, x, one):
    return net.map(lambda h: jnp.mean(h, axis=-1, keepdims=True), hidden(net, x, one))


def a_field_as_output(net, x, one):
    return hidden(net, x, one)


def too_many_outputs(net, x, one):
    return net.inner(hidden(net, x, one), net.vectors("readout", one, 3 * net.outputs))


def not_finite(net, x, one):
    return outputs(net, net.map(jnp.sqrt, hidden(net, x, one)), one)


def wrong_inputs(net, x, one):
    return outputs(net, x @ net.vectors("input", one, 7), one)


def beyond_the_end(net, x, one):
    return outputs(net, x[0] @ net.vectors("input", one, 3) + x[9] @ net.vectors("more", one, 3), one)


def an_array(net, x, one):
    return outputs(net, hidden(net, x, one) * jnp.ones(3), one)


def field_of_neurons_as_inputs(net, x, one):
    return outputs(net, hidden(net, x, one) @ net.vectors("b", one, 2), one)


def two_ratios(net, x, one):
    net.population("one", 2.0)
    return outputs(net, hidden(net, x, one), one)


def strange_population(net, x, one):
    return outputs(net, x @ net.vectors("input", "one", *x.shape), one)


def named_twice(net, x, one):
    net.name("h", hidden(net, x, one))
    return outputs(net, net.name("h", net.map(jnp.tanh, hidden(net, x, one))), one)


MESSAGES = {
    normalised: r"the function mixes neurons; use net\.mean or net\.inner for averages over neurons",
    over_the_batch: "the function mixes samples; networks see one sample at a time",
    array_of_samples: "fails on one of the samples alone .* pass arrays as fields",
    two_populations: "fields over the populations 'one' and 'two' meet in one function; connect them by a matrix or by",
    wrong_matrix: "matrix 'w' takes vectors over population 'two'; this one is over 'one'",
    two_meanings: "matrix 'w' was 'one' -> 'two' before, now 'one' -> 'one'",
    one_name: "'w' is the name of both vectors and a matrix",
    no_influence: "vectors 'gain' have no influence on the outputs; use them or give trained=False",
    stopped: "matrix 'w' has no influence on the outputs; use it or give trained=False",
    never_applied: "matrix 'w' is declared but never applied",
    jnp_on_a_field: r"a field is not an array; write net\.map\(function, field\)",
    average_in_a_map: r"its first axis must stay that of samples, and its last that of neurons \(use net\.mean",
    a_field_as_output: "must return 2 numbers for every sample, and not <Field over 'one'.* end with net.inner",
    too_many_outputs: "must return 2 numbers for every sample",
    not_finite: "not finite at random inputs",
    wrong_inputs: r"the right side must be net\.vectors\(name, population, 3\), and has the shape \(7,\)",
    beyond_the_end: "position 9 does not exist; there are 4",
    an_array: r"an array of shape \(3,\) is neither a field nor a number; write net\.map",
    field_of_neurons_as_inputs: "the left side must be numbers, such as the inputs x, and no field of neurons",
    two_ratios: "population 'one' had the ratio 1 before, now 2",
    strange_population: r"'one' is no population of this network: see net\.population\(name\)",
    named_twice: "'h' is the name of another field already",
}
WITHOUT_A_LINE = (no_influence, stopped, never_applied, a_field_as_output, too_many_outputs, not_finite)


@pytest.mark.parametrize("forward", MESSAGES, ids=lambda forward: forward.__name__)
def test_what_has_no_limit_is_refused_with_its_line_and_a_remedy(forward):
    shape = (4, 3) if forward is beyond_the_end else (3,)
    with pytest.raises(wf.InvalidInput, match=MESSAGES[forward]) as caught:
        check_network(network(forward), shape, 2)
    if forward not in WITHOUT_A_LINE:
        assert str(caught.value).startswith("test_plan.py:"), caught.value


def test_a_problem_refuses_it_too():
    with pytest.raises(wf.InvalidInput, match="mixes neurons"):
        wf.Problem(network(normalised), (np.eye(3), np.ones(3)))


def test_a_forward_pass_that_changes_is_refused():
    calls = []

    def changing(net, x, one):
        calls.append(1)
        h = hidden(net, x, one)
        w = net.matrix("w", one, one)
        for _ in calls:
            h = w @ h
        return outputs(net, h, one)

    with pytest.raises(wf.InvalidInput, match="gave another graph the second time"):
        plan_of(network(changing), (3,), 1)


def test_a_class_must_be_a_frozen_dataclass_with_hashable_fields():
    class Plain(wf.Network):
        pass

    @dataclass
    class Thawed(wf.Network):
        pass

    class Undecorated(made.Residual):
        more: int = 3

    for kind in (Plain, Thawed, Undecorated):
        with pytest.raises(wf.InvalidInput, match=r"write @dataclass\(frozen=True\) above the class"):
            kind()

    @dataclass(frozen=True)
    class Listed(wf.Network):
        values: list = field(default_factory=list)

        def forward(self, net, x):
            one = net.population("one")
            return outputs(net, hidden(net, x, one), one)

    with pytest.raises(wf.InvalidInput, match="fields must be hashable"):
        plan_of(Listed(), (3,), 1)


def test_every_network_has_the_common_fields_and_checks_them():
    given = made.Residual(5, richness=0.5, centred=False)
    assert (given.depth, given.richness, given.parameterisation, given.outputs) == (5, 0.5, "mean-field", None)
    assert isinstance(wf.MLP(2), wf.Network)
    for wrong in ({"richness": -1.0}, {"parameterisation": "mup"}, {"outputs": 0}, {"centred": 1}):
        with pytest.raises(wf.InvalidInput, match=next(iter(wrong))):
            replace(given, **wrong)


def test_a_plan_knows_populations_parameters_places_and_questions():
    plan = plan_of(made.Transformer(), (3, 4), 2)
    assert [(p.name, p.ratio) for p in plan.populations] == [("stream", 1.0), ("head", 0.5), ("hidden", 1.0)]
    assert {spec.name: spec.shape for spec in plan.vectors} == {
        "input": (4,),
        "position": (3,),
        "gain 1": (),
        "gain 2": (),
        "gain 3": (),
        "readout": (2,),
    }
    stream, head, _ = plan.populations
    assert plan.matrices[0] == MatrixSpec("query", stream, head)
    assert [q.matrix for q in plan.questions] == ["query", "key", "value", "out", "up", "down"]
    assert {q.positions for q in plan.questions} == {3}
    assert [(place.name, place.shape) for place in plan.places] == [
        ("attention", (3, 3)),
        ("layer 1", (3,)),
        ("layer 2", (3,)),
    ]
    assert plan.widths(9) == (9, 4, 9)
    assert plan.parameters(10) == 10 * (4 + 3 + 3 + 2) + 4 * 50 + 2 * 100
    assert plan_of(made.Tied(), (4,), 1).positions("tied") == 2


def test_plans_are_equal_for_equal_networks_only():
    assert plan_of(made.Residual(2), (4,), 1) == plan_of(made.Residual(2), (4,), 1)
    one, other = plan_of(made.Residual(2), (4,), 1), plan_of(made.Residual(2, beta=0.5), (4,), 1)
    assert one.graph != other.graph  # another number in an equation
    assert one.graph != plan_of(made.Residual(2, activation="linear"), (4,), 1).graph


def test_inputs_that_are_only_read_may_have_other_coordinates():
    assert plan_of(made.Recurrent(), (4, 2), 1).reducible
    assert plan_of(made.Recurrent(), (4, 2), 1).readers == ("input",)
    assert not plan_of(made.CNN(), (4, 2), 1).reducible  # a function shifts them before
    shifted = network(lambda net, x, one: outputs(net, x @ net.vectors("input", one, *x.shape, mean=1.0), one))
    assert not plan_of(shifted, (3,), 1).reducible  # the mean has a direction


def test_data_with_positions_are_refused_by_networks_of_layers():
    x = np.zeros((3, 4, 2))
    with pytest.raises(wf.InvalidInput, match=r"x has the shape \(samples, 4, 2\), and network = 'mlp' takes"):
        wf.Problem(wf.MLP(2), (x, np.ones(3)))
    problem = wf.Problem(made.Recurrent(), (x, np.ones(3)))
    assert problem.samples.inputs == (4, 2)
    assert (problem.samples.dimension, problem.samples.kernel().shape) == (2, (3, 3))
