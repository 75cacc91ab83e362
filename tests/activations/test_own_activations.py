"""Activations that are not in the table: networks take them, nothing confuses them, files refuse them."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.activations import Activation, get, register, table

DATA = wf.data.sphere(samples=3, dimension=4, seed=1)


def softsign(z):
    return z / (1 + jnp.abs(z))


@pytest.fixture
def forget():
    """Take away again what is registered."""
    known = dict(table._ACTIVATIONS)
    yield
    table._ACTIVATIONS.clear()
    table._ACTIVATIONS.update(known)


def asked(activation):
    return wf.Problem(wf.MLP(2, activation), DATA, optimiser=wf.SGD(0.2, 3), record=wf.Record(neurons=0))


def final_loss(activation, theory):
    return float(wf.solve(asked(activation), theory).mean("loss")[-1])


@pytest.mark.parametrize("theory", [wf.FiniteWidth(8), wf.InfiniteWidth(32, 1), wf.Lazy()])
def test_networks_take_functions_and_activations(theory):
    """A function that behaves like tanh gives the numbers of tanh; lambdas of one name are not confused."""
    exact = final_loss("tanh", theory)
    assert final_loss(lambda z: jnp.tanh(z), theory) == pytest.approx(exact, rel=1e-9)
    assert final_loss(Activation("mine", lambda z: jnp.tanh(z)), theory) == pytest.approx(exact, rel=1e-9)
    for scale in (0.5, 2.0):
        assert abs(final_loss(lambda z, a=scale: jnp.tanh(a * z), theory) / exact - 1) > 0.01
        assert abs(final_loss(Activation("mine", lambda z, a=scale: jnp.tanh(a * z)), theory) / exact - 1) > 0.01


def test_compare_takes_them():
    found = wf.compare(asked(jnp.arctan), [wf.Lazy()], wf.FiniteWidth(8, seeds=2))
    assert [answer.label for answer in found.answers] == ["lazy"]
    assert "arctan" in str(found.networks)


def test_compare_refuses_a_kink_that_is_not_declared():
    kinked = wf.compare(asked(softsign), [wf.Lazy()], wf.FiniteWidth(8, seeds=2))
    assert "declare every kink" in kinked.refusals["lazy"]


def test_names():
    assert wf.MLP(activation=softsign).activation == Activation("softsign", softsign)
    assert str(wf.MLP(activation=softsign).activation) == "softsign"
    assert get(lambda z: z).name == "lambda"
    assert wf.MLP(activation=jnp.tanh).activation == "tanh"
    assert wf.MLP(activation=jax.nn.silu).activation == "swish"
    assert wf.MLP(activation=get("relu")).activation == "relu"
    assert wf.MLP(activation=get("leaky_relu(0.1)")).activation == "leaky_relu(0.1)"


def test_a_namesake_of_one_in_the_table_is_not_it():
    def tanh(z):
        return jnp.tanh(2 * z)

    network = wf.MLP(activation=tanh)
    assert network.phi.function is tanh
    assert network != wf.MLP(activation="tanh")
    with pytest.raises(wf.InvalidInput, match="register"):
        network.to_table()
    with pytest.raises(wf.InvalidInput, match="register"):
        wf.data.teacher(samples=3, dimension=4, activation=tanh)


def test_equality_looks_at_all_that_is_stated():
    one = Activation("mine", softsign)
    assert one == Activation("mine", softsign)
    assert hash(one) == hash(Activation("mine", softsign))
    others = [
        Activation("other", softsign),
        Activation("mine", lambda z: softsign(z)),
        Activation("mine", softsign, (jnp.sign,)),
        Activation("mine", softsign, kinks=(0.0,)),
        Activation("mine", softsign, feature_moment=lambda a, b, c: b),
    ]
    assert all(one != other for other in others)
    moment = lambda a, b, c: b  # noqa: E731
    assert Activation("mine", softsign, feature_moment=moment) == Activation("mine", softsign, feature_moment=moment)
    assert one.derivative(1) is not others[2].derivative(1)
    for same in (copy.copy(one), copy.deepcopy(one), copy.deepcopy(wf.MLP(activation=one)).phi):
        assert same is one


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=4))
def test_functions_are_equal_only_to_themselves(scales):
    """Also if they are the same in all but identity: code is never compared."""
    made = [wf.MLP(activation=lambda z, a=scale: a * z) for scale in scales]
    assert len(set(made)) == len(made)
    assert all(network == replace(network) for network in made)


def test_pickling():
    again = pickle.loads(pickle.dumps(wf.MLP(activation=softsign)))
    assert again == wf.MLP(activation=softsign)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(wf.MLP(activation=lambda z: z))


def test_files_and_checkpoints_refuse_what_they_cannot_name(tmp_path):
    problem = asked(softsign)
    answer = wf.solve(problem, wf.FiniteWidth(8))
    for save in (problem.to_toml, lambda: answer.save(tmp_path / "run.nc")):
        with pytest.raises(wf.InvalidInput, match=r"softsign.*wf\.activations\.register"):
            save()
    with pytest.raises(wf.InvalidInput, match="checkpoints"):
        wf.solve(problem, wf.FiniteWidth(8), checkpoint=tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_registered_functions_are_saved_by_their_name(tmp_path, forget):
    activation = register("soft sign", softsign, kinks=(0.0,))
    problem = asked(softsign)
    assert problem.network.activation == "soft_sign"
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    assert wf.MLP(2, activation) == problem.network
    wf.solve(problem, wf.FiniteWidth(8), checkpoint=tmp_path / "checkpoint").save(tmp_path / "run.nc")
    assert wf.load(tmp_path / "run.nc").problem == problem


def test_a_name_registered_otherwise_is_another_run(forget):
    """A checkpoint is not resumed with another function of that name; those of the package need no mark."""
    theory, marks = wf.FiniteWidth(8), []
    for scale in (1.0, 2.0):
        register("mine", lambda z, a=scale: jnp.tanh(a * z), overwrite=True)
        marks.append(theory.fingerprint(asked("mine")))
    assert marks[0] != marks[1]
    assert table.mark_of_own(get("tanh")) == table.mark_of_own(get("leaky_relu(0.3)")) == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(np.tanh, "jax.numpy"), (jnp.sum, "not elementwise"), (lambda z: 1 / z, "not finite"), (3, "unknown activation")],
)
def test_mistakes(wrong, message):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.MLP(activation=wrong)
    if callable(wrong):
        with pytest.raises(wf.InvalidInput, match=message):
            wf.MLP(activation=Activation("mine", wrong))


@pytest.mark.parametrize(
    ("name", "universality_class", "variances"),
    [
        ("elu", "zero-kernel", (1.0, 0.0)),
        ("mish", "half-stable", (2.0135240697, 0.0945217874)),
        ("silu", "half-stable", (1.9880046783, 0.5551431707)),
    ],
)
def test_criticality(name, universality_class, variances):
    found = wf.effective.criticality(name)
    assert found.universality_class == get(name).universality_class == universality_class
    assert (found.best.weight_variance, found.best.bias_variance) == pytest.approx(variances, rel=1e-9, abs=1e-12)


def test_criticality_of_selu_follows_from_its_slopes():
    """At K -> 0 half of the neurons have the slope of either side: C_W = 2 / (l^2 + l^2 a^2)."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    found = wf.effective.criticality("selu")
    assert found.universality_class == get("selu").universality_class == "zero-kernel"
    assert found.best.weight_variance == pytest.approx(2 / (scale**2 * (1 + alpha**2)), rel=1e-9)


def test_the_fixed_point_of_selu():
    """Klambauer et al. 2017: mean 0 and variance 1 are kept; against a plain sum over a fine grid."""
    z = np.linspace(-12, 12, 400_001)
    weight = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    with jax.enable_x64(True):
        values = np.asarray(get("selu")(jnp.asarray(z)))
    assert weight @ values == pytest.approx(0, abs=1e-6)
    assert weight @ values**2 == pytest.approx(1, abs=1e-6)
    kernel = wf.kernels.StaticKernel(wf.MLP(1, "selu"))(np.ones((1, 1)))
    assert float(kernel.nngp[0, 0]) == pytest.approx(1, abs=1e-9)
