"""Differentials of the tangent kernel of any inputs: tables, other forms of the equations, structure."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import DifferentialFlow, differential_flow, ntk_flow, single_differentials
from widefield.effective.flow_of_differentials import Whole
from widefield.effective.tangent_flow import climbed
from widefield.effective.tensor_recipes import RECIPES
from widefield.gaussian.four_table import KINDS
from widefield.kernels.fluctuations import saddle_point
from widefield.problem.network import MLP

SHIFTED = Activation("shifted sine", lambda z: jnp.sin(z + 0.3))
BENT = Activation("bent sine", lambda z: jnp.sin(z) + 0.3 * (1 - jnp.cos(z)))
THREE = [(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4), (0.3, -0.4, 1.5)]
LAYERED = {
    1: {"weight_rates": (1.5, 0.3), "bias_rates": (0.5, 0.1)},
    2: {"weight_rates": (1.5, 0.3, 0.4), "bias_rates": (0.5, 0.1, 0.2)},
}


def places(text):
    return [tuple(int(c) for c in word) for word in text.split()]


TWO_INPUTS = {
    "P": (-0.5865224, 0.0050167608, 0.0050167608, -0.21451039, -0.14990282),
    "Q": (-0.15495521, 0.5657342, 0.023694563, -0.16988618, -0.13168379),
    "R": (-4.0897048, -0.44004053, -0.59983348, -1.2771226, -0.44004053),
    "S": (2.9224704, 1.3952056, 0.52140761, 0.60194566, 0.2314786),
    "T": (0.34086779, -0.25806979, 0.054156911, 0.25652353, 0.89098136),
    "U": (0.7560313, 0.23671726, 0.0057150098, 0.33012123, 0.032327788),
}
NEIGHBOURS = {
    2: (-0.15726352, -0.0084893065, -0.77782898, 0.66208322, 0.059022607, 0.17957011),
    4: (-1.3264517, -0.40307867, -11.476291, 7.584845, 1.0844123, 1.7998537),
}
"""0000 of the layers beside the third."""


def test_two_inputs_of_equal_widths():
    network = MLP(3, BENT, weight_variances=1.1, bias_variances=0.1)
    found = differential_flow(network, [[1, 0.5], [0.3, -1.2]], 10, weight_rates=0.8, bias_rates=0.5)
    for name, expected in TWO_INPUTS.items():
        values = [found.tensor(name, 3)[place] for place in places("0000 0101 0011 1011 0110")]
        assert values == pytest.approx(expected, rel=3e-8)
    for layer, row in NEIGHBOURS.items():
        values = [found.tensor(name, layer)[0, 0, 0, 0] for name in "PQRSTU"]
        assert values == pytest.approx(row, rel=6e-8)


UNEQUAL = {
    ("P", 2): (-0.14569048, -0.02627597, -0.01950348, -0.11192955, -0.05438297, -0.10927031, -0.11314965),
    ("Q", 2): (-0.03329227, 0.19616609, 0.07862676, -0.01379930, -0.01107070, -0.01250858, -0.08875884),
    ("P", 3): (-0.50512700, -0.13783252, -0.09569070, -0.34631750, -0.26706934, -0.34235585, -0.30888356),
    ("Q", 3): (-0.23786201, 0.26396455, 0.05088877, -0.18396951, -0.11877801, -0.18119681, -0.28640057),
    ("P", 4): (-1.10490717, -0.43177662, -0.32402351, -0.79755430, -0.72449643, -0.79371520, -0.72117880),
    ("Q", 4): (-0.48856004, 0.38876634, -0.00072496, -0.44718081, -0.29297491, -0.44448866, -0.65967153),
}


def test_two_inputs_of_unequal_widths_and_rates():
    network = MLP(3, "tanh", weight_variances=1.1, bias_variances=0.2)
    rates = {"weight_rates": (0.8, 1.2, 0.7, 1.0), "bias_rates": (0.7, 0.5, 0.9, 0.6)}
    found = differential_flow(network, [[1, 0.5, -0.4], [0.2, 0.9, 0.7]], (10, 15, 20), **rates)
    for (name, layer), expected in UNEQUAL.items():
        values = [found.tensor(name, layer)[place] for place in places("0000 0101 1000 0010 0001 1101 0110")]
        assert values == pytest.approx(expected, abs=6e-9)
    equal = differential_flow(network, [[1, 0.5, -0.4], [0.2, 0.9, 0.7]], 10, **rates)
    values = equal.tensor("P", 4)[0, 0, 0, 0], *(equal.tensor("Q", 4)[place] for place in places("0000 0101"))
    assert values == pytest.approx((-0.93438810, -0.45865433, 0.24986338), abs=6e-9)


THREE_INPUTS = {
    1: {
        "V": 0.0229937222,
        "A": 0.0050870830,
        "B": 0.1470584644,
        "D": 0.0065291046,
        "F": 0.0743200028,
        "P": 0.0004848982,
        "Q": 0.0149050437,
        "R": -0.0146969443,
        "S": 0.0405587880,
        "T": -0.0022864704,
        "U": 0.0101820539,
    },
    2: {
        "V": 0.0611221395,
        "A": 0.0123098163,
        "B": 0.1777946294,
        "D": 0.0197433133,
        "F": 0.0861535360,
        "P": -0.0105213757,
        "Q": 0.0493976063,
        "R": -0.0283131456,
        "S": 0.0820518013,
        "T": -0.0059615517,
        "U": 0.0118933548,
    },
}
"""Of the outputs at the labels 0 2 0 1."""


@pytest.mark.parametrize("hidden", [1, 2])
def test_three_inputs(hidden):
    """Averages of four different samples are sampled, with errors that say how well."""
    network = MLP(hidden, SHIFTED, weight_variances=1.1, bias_variances=0.1)
    found = differential_flow(network, THREE, 10, **LAYERED[hidden])
    for name, expected in THREE_INPUTS[hidden].items():
        if name in "PQRSTU":
            value, error = (found.data[part].values[-1][0, 2, 0, 1] for part in (name, f"{name}_error"))
            assert value == pytest.approx(expected, abs=4 * error + 1e-9)
            assert error < 2e-6


@pytest.mark.parametrize("hidden", [1, 2])
def test_recipes_of_all_tensors_are_the_equations_of_the_tangent_kernel(hidden):
    """V, D, A, F, B by labels against `tangent_recursion` over pairs, and against the table."""
    network = MLP(hidden, SHIFTED, weight_variances=1.1, bias_variances=0.1)
    point = saddle_point(network, np.array(THREE), **LAYERED[hidden])
    sizes, shape = (10, 15)[:hidden], (1, 3, 3, 3, 3)
    now = {name: np.zeros(shape) for name in "VDAFB"}
    for step in climbed(point, sizes, LAYERED[hidden]["weight_rates"], tuple(KINDS), None, 4, 0):
        layer = Whole(step, now, {})
        now = {name: RECIPES[name](layer, tuple("abcd")) for name in now}
        pairs = step.after.pairs
        for name in "VDA":
            np.testing.assert_allclose(now[name], pairs.tensor(step.after.whole[name]), rtol=1e-9, atol=1e-12)
        for name in "FB":
            np.testing.assert_allclose(now[name], step.after.whole[name], rtol=1e-9, atol=1e-12)
    if hidden == 1:
        for name in "VDAFB":
            value = 10 * now[name][:, 0, 2, 0, 1]
            assert value.mean() == pytest.approx(THREE_INPUTS[1][name], abs=4 * value.std() / np.sqrt(3) + 1e-9)


def test_one_input_is_that_of_the_other_function():
    network = MLP(4, "gelu", weight_variances=1.3, bias_variances=0.2)
    rates = {"weight_rates": (0.8, 1.2, 0.7, 1.0, 0.4), "bias_rates": (0.7, 0.5, 0.9, 0.6, 0.3)}
    found = differential_flow(network, [[1.0, 0.5, -0.4]], (10, 20, 5, 15), **rates)
    square = (1.0 + 0.25 + 0.16) / 3
    single = single_differentials(
        "gelu",
        1.3 * square + 0.2,
        5,
        weight_variance=1.3,
        bias_variance=0.2,
        mean_square=square,
        widths=(10, 20, 5, 15),
        **rates,
    )
    for name in "PQRSTU":
        for layer in range(1, 6):
            expected = float(single[name].sel(layer=layer)[0])
            assert found.tensor(name, layer).item() == pytest.approx(expected, rel=1e-8, abs=1e-14)


SYMMETRIES = {
    "P": (0, 2, 1, 3),
    "R": (0, 1, 3, 2),
    "S": (1, 0, 3, 2),
    "T": (3, 2, 1, 0),
    "U": (2, 3, 0, 1),
}


def test_symmetries_and_no_others():
    network = MLP(2, SHIFTED, weight_variances=1.1, bias_variances=0.1)
    found = differential_flow(network, [[1, 0.5], [0.3, -1.2]], (10, 20), weight_rates=(0.8, 0.5, 0.6), bias_rates=0.5)
    for name in "PQRSTU":
        tensor = found.tensor(name, 3)
        for order in itertools.permutations(range(4)):
            same = order == (0, 1, 2, 3) or order == SYMMETRIES.get(name)
            assert np.allclose(tensor, tensor.transpose(order), atol=1e-9) == same, (name, order)


def test_neurons():
    """R_0231 is at 0 2 3 1, and so on, and all three forms count for one neuron."""
    found = differential_flow(MLP(2, SHIFTED), [[1, 0.5], [0.3, -1.2]], 10, bias_rates=0.5)
    P, Q, R, S, T, U = (found.tensor(name, 3) / 10 for name in "PQRSTU")
    for a, b, c, d in itertools.product(range(2), repeat=4):
        place = a, b, c, d
        correlated = {(0, 1, 1, 0): P[place], (0, 0, 1, 1): Q[place], (0, 1, 0, 1): Q[a, c, b, d], (0, 1, 2, 0): 0}
        first = {(0, 0, 1, 1): R[place], (0, 1, 0, 1): R[a, c, d, b], (0, 1, 1, 0): R[a, d, b, c]}
        second = {(0, 0, 1, 1): S[place], (0, 1, 0, 1): T[a, c, d, b], (0, 1, 1, 0): U[a, d, b, c]}
        for ask, expected in (
            (found.dntk_correlation, correlated),
            (found.first_ddntk, first),
            (found.second_ddntk, second),
        ):
            total = ask(3, (1, 1, 1, 1))[place]
            assert total == pytest.approx(sum(expected.values()), rel=1e-12, abs=1e-15)
            for neurons, value in expected.items():
                assert ask(3, neurons)[place] == pytest.approx(value, rel=1e-12, abs=1e-15)


def test_equal_and_parallel_inputs():
    """Nothing needs an inverse kernel: copies of an input have copies of its entries."""
    network = MLP(2, "tanh", weight_variances=1.3)
    one = differential_flow(network, [[0.8, -0.4]], 10)
    two = differential_flow(network, [[0.8, -0.4], [0.8, -0.4]], 10)
    for name in "PQRSTU":
        np.testing.assert_allclose(two.tensor(name, 3), one.tensor(name, 3).item(), rtol=1e-7)


def test_kinks():
    """ReLU has P and Q; P is 0 of one input, and of copies, but not between inputs."""
    network = MLP(2, "relu", weight_variances=2.0)
    found = differential_flow(network, [[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]], 10, bias_rates=1.0)
    assert found.names == ["P", "Q"]
    assert found.tensor("P", 3)[0, 0, 1, 1] == pytest.approx(0, abs=1e-12)
    assert abs(found.tensor("P", 3)[0, 0, 0, 2]) > 0.01
    single = single_differentials("relu", 1.0, 3, weight_variance=2.0)
    assert found.tensor("Q", 3)[0, 1, 1, 0] == pytest.approx(float(single.Q[2, 0]), rel=1e-9)
    with pytest.raises(InvalidInput, match="kinks"):
        differential_flow(MLP(2, Activation("clipped", lambda z: jnp.clip(z, -1, 1), kinks=(-1.0, 1.0))), [[1.0]], 10)


def test_frozen_hidden_layers_learn_nothing():
    network = MLP(2, "tanh", weight_variances=1.3)
    found = differential_flow(network, [[0.8, -0.4], [0.1, 1]], 10, weight_rates=(0, 0, 1.0), bias_rates=(0, 0, 1.0))
    for name in "PQRSTU":
        assert not found.tensor(name, 3).any()


def test_larger_rates_by_powers_of_them():
    """lambda -> c lambda: P, Q times c^2, R, S, T, U times c^3."""
    network, x = MLP(2, SHIFTED), [[0.8, -0.4], [0.1, 1.0]]
    one, two = (differential_flow(network, x, 10, weight_rates=c, bias_rates=0.5 * c) for c in (1.0, 3.0))
    for name in "PQRSTU":
        power = 2 if name in "PQ" else 3
        np.testing.assert_allclose(two.tensor(name, 3), 3.0**power * one.tensor(name, 3), rtol=1e-10, atol=1e-14)


def test_what_ntk_flow_has_is_there_and_files_keep_it(tmp_path):
    network, x = MLP(2, "tanh", weight_variances=1.3), [[0.8, -0.4], [0.1, 1.0]]
    found, known = differential_flow(network, x, 10), ntk_flow(network, x, 10)
    for name in known.data.data_vars:
        np.testing.assert_array_equal(found.data[name].values, known.data[name].values)
    found.save(tmp_path / "flow.nc")
    again = DifferentialFlow.load(tmp_path / "flow.nc")
    np.testing.assert_array_equal(again.tensor("T", 3), found.tensor("T", 3))
    assert "R / n H^3" in str([column.header for column in found.table().columns])
    with pytest.raises(InvalidInput, match="name"):
        found.tensor("Z", 3)


def test_memory_is_asked_for_before():
    with pytest.raises(InvalidInput, match="differentials of all layers"):
        differential_flow(MLP(3, "tanh"), np.ones((400, 3)), 10)
