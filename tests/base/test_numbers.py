"""Descriptions as trees: numbers are leaves, all else is structure."""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.base.numbers import present, root, traced, with_arrays

DESCRIBED = {
    "no number": wf.SGD(0.1, 3),
    "some numbers": wf.SGD(0.1, 3, momentum=0.5, temperature=2.0),
    "a tuple with a zero": wf.MLP(2, bias_variances=(0.5, 0.0, 0.2), width_ratios=(1.0, 2.0)),
    "old words": wf.GradientFlow(2.0, steps=7, weight_decay=0.1),
    "a loss": wf.Huber(0.3, reduction="mean"),
    "a rule": wf.FeedbackAlignment(-0.5),
    "a rule without numbers": wf.Hebb(),
}


@pytest.mark.parametrize("described", DESCRIBED.values(), ids=DESCRIBED)
def test_leaves_and_structure_make_the_same_thing(described):
    leaves, structure = jax.tree.flatten(described)
    assert jax.tree.unflatten(structure, leaves) == described
    again = jax.tree.flatten(described)[1]
    assert (structure, hash(structure)) == (again, hash(again))


@pytest.mark.parametrize("described", DESCRIBED.values(), ids=DESCRIBED)
def test_equinox_may_take_it_apart(described, double):
    arrays = with_arrays(described, float)
    for apart in (eqx.partition(arrays, eqx.is_array), eqx.partition(described, eqx.is_array)):
        assert eqx.combine(*apart) == described
    seen = []
    eqx.filter_jit(lambda part: seen.append(part))(arrays)
    assert type(seen[0]) is type(described)
    assert jax.tree.structure(seen[0]) == jax.tree.structure(described)


def test_only_numbers_that_are_not_zero_are_leaves():
    assert jax.tree.leaves(DESCRIBED["no number"]) == [1.0, 1.0]  # rates of layers
    assert jax.tree.leaves(DESCRIBED["some numbers"]) == [0.5, 2.0, 1.0, 1.0]
    assert jax.tree.leaves(DESCRIBED["a tuple with a zero"]) == [1.0, 0.5, 0.2, 1.0, 2.0]


def test_structure_is_equal_for_other_numbers_and_different_for_a_zero():
    def structure(**numbers):
        return jax.tree.structure(wf.SGD(0.1, 3, **numbers))

    assert structure(momentum=0.5) == structure(momentum=0.9)
    assert structure(momentum=0.5) != structure()
    assert structure(momentum=0.5) != structure(weight_decay=0.5)
    one, other = (jax.tree.structure(wf.MLP(1, bias_variances=pair)) for pair in ((0.0, 1.0), (1.0, 0.0)))
    assert one != other


def test_arrays_have_the_dtype_asked_for_and_zeros_stay_plain(double):
    arrays = with_arrays(wf.SGD(0.1, 3, momentum=0.5), "float32")
    assert arrays.momentum.dtype == jnp.float32
    assert (arrays.weight_decay, arrays.steps, arrays.learning_rate) == (0.0, 3, 0.1)


def test_properties_hold_inside_of_compiled_code(double):
    network = wf.MLP(2, weight_variances=2.0, bias_variances=(0.5, 0.0, 0.2))

    @jax.jit
    def inside(network, sgd, rule):
        assert network.has_biases
        assert (sgd.copies, sgd.shakes, rule.through_weights) == (2, 3, True)
        return network.weight_scales, network.bias_scales

    sgd = wf.SGD(0.1, 3, momentum=0.5, temperature=1.0)
    scales, biases = inside(network, sgd, wf.FeedbackAlignment(0.1))
    np.testing.assert_allclose(scales, network.weight_scales, rtol=1e-15)
    np.testing.assert_allclose(biases, network.bias_scales, rtol=1e-15)
    quiet = dataclasses.replace(sgd, momentum=0.0, temperature=0.0)
    with pytest.raises(AssertionError):
        inside(network, quiet, wf.FeedbackAlignment(0.0))


def test_plain_numbers_stay_plain():
    assert type(root(2.0)) is float
    assert (root(9), present(0.0), present(-0.1)) == (3.0, False, True)


def test_derived_classes_are_not_traced_and_unknown_fields_are_named():
    @dataclass(frozen=True)
    class Own(wf.SGD):
        nesterov: bool = True

    assert len(jax.tree.leaves(Own(0.1, 3, momentum=0.5))) == 1
    assert Own(0.1, 3).in_program() == Own(0.1, 3)
    with pytest.raises(wf.WidefieldError, match="nesterow"):
        traced("momentum", "nesterow")(Own)
