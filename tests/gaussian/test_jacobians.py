"""The table of averages of derivatives, by differences, quadrature and closed forms with delta functions."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation, get
from widefield.base.errors import InvalidInput
from widefield.gaussian import average_product
from widefield.gaussian.pair_table import along, average_derivatives
from widefield.gaussian.sample_pairs import Pairs

HARD_TANH = Activation(
    "hard_tanh_with_jumps", lambda z: jnp.clip(z, -1.0, 1.0), kinks=(-1.0, 1.0), jumps=((-1.0, 1.0), (1.0, -1.0))
)
BENT = Activation(
    "bent_with_jump",
    lambda z: jnp.where(z > 0.3, jnp.tanh(z), 2 * z + math.tanh(0.3) - 0.6),
    kinks=(0.3,),
    jumps=((0.3, -1 - math.tanh(0.3) ** 2),),
)
ONES = Pairs(np.array([0, 0, 1]), np.array([0, 1, 1]))
K = (1.3, 0.4, 0.7)


def table(activation, entries, orders):
    k11, k12, k22 = entries
    found = average_derivatives(activation, np.array([[k11, k12], [k12, k22]]), ONES, orders)
    return {order: float(values[1]) for order, values in found.items()}


def moved(place, step):
    return tuple(k + step * (i == place) for i, k in enumerate(K))


@pytest.mark.parametrize("activation", [get("tanh"), get("relu"), get("gelu"), HARD_TANH, BENT], ids=lambda a: a.name)
def test_price(activation):
    """d<s^(i)_1 s^(j)_2> / d(K11, K12, K22) = <s^(i+2)_1 s^(j)_2>/2, <s^(i+1)_1 s^(j+1)_2>, <s^(i)_1 s^(j+2)_2>/2."""
    lower = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)]
    steps = ((2, 0, 0.5), (1, 1, 1.0), (0, 2, 0.5))
    upper = table(activation, K, sorted({(i + a, j + b) for i, j in lower for a, b, _ in steps}))
    step = 1e-3
    for place, (a, b, factor) in enumerate(steps):
        up, down = (table(activation, moved(place, sign * step), lower) for sign in (1, -1))
        for i, j in lower:
            slope = (up[i, j] - down[i, j]) / (2 * step)
            assert slope == pytest.approx(factor * upper[i + a, j + b], abs=2e-5), (i, j, place)


@pytest.mark.parametrize("stated", [get("relu"), get("leaky_relu(0.1)"), HARD_TANH, BENT], ids=lambda a: a.name)
def test_jumps_need_not_be_stated(stated):
    orders = [(2, 0), (2, 1), (2, 2), (3, 1)]
    unstated = Activation(f"{stated.name} unstated", stated.function, kinks=stated.kinks)
    expected = table(stated, K, orders)
    assert abs(expected[2, 2]) > 0.01
    assert table(unstated, K, orders) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_smooth_averages_are_integrals():
    tanh = get("tanh")
    orders = list(itertools.product(range(4), repeat=2))
    found = table(tanh, K, orders)
    for i, j in orders:
        expected = average_product(tanh.derivative(i), tanh.derivative(j), *K, kinks=())
        assert found[i, j] == pytest.approx(float(expected), abs=1e-11)


def test_a_kink_in_closed_form():
    """s'' of relu is a delta function at 0."""
    k11, k12, k22 = K
    rest = k11 * k22 - k12**2
    found = table(get("relu"), K, [(2, 2), (2, 1), (2, 0)])
    assert found[2, 2] == pytest.approx(1 / (2 * math.pi * math.sqrt(rest)), rel=1e-12)
    assert found[2, 1] == pytest.approx(1 / (2 * math.sqrt(2 * math.pi * k11)), rel=1e-9)
    assert found[2, 0] == pytest.approx(math.sqrt(rest) / (2 * math.pi * k11), rel=1e-9)


@pytest.mark.parametrize("activation", [get("relu"), HARD_TANH], ids=lambda a: a.name)
def test_along_a_common_direction(activation):
    """Where z_2 = c z_1, the derivative of <s(z_1) s(z_2)> in the variance of z_1."""
    c, variance, step = -1.5, 0.8, 1e-4
    line = np.array([[1, c], [c, c**2]])
    s = activation.derivative(0)

    def mean(k):
        return float(average_product(s, s, k, c * k, c**2 * k, kinks=activation.kinks))

    slope = (mean(variance + step) - mean(variance - step)) / (2 * step)
    found = along(activation, variance * line, ONES, 0, 2) / 2
    assert found[1] == pytest.approx(slope, rel=1e-6)
    np.testing.assert_array_equal(found[[0, 2]], 0.0)
    np.testing.assert_array_equal(along(get("tanh"), variance * line, ONES, 0, 2), 0.0)
    bent = average_derivatives(activation, variance * line, ONES, [(1, 1), (2, 2)])
    assert bent[2, 2][1] == 0
    expected = average_product(
        *[activation.derivative(1)] * 2, *(variance * line)[[0, 0, 1], [0, 1, 1]], kinks=(-1, 0, 1)
    )
    assert bent[1, 1][1] == pytest.approx(float(expected), rel=1e-9)


def test_too_many_derivatives_of_a_kink():
    with pytest.raises(InvalidInput, match=r"orders \(4, 3\): with kinks, as 'relu' has, at most 6"):
        table(get("relu"), K, [(4, 3)])
