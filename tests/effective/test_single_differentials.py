"""P, Q, R, S, T, U of one input: tables, the book's own recursions in other variables, asymptotics."""

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import differential_exponents, single_differentials
from widefield.effective.differential_asymptotics import scale_invariant_differentials, zero_kernel_differentials

ALL = "PQRSTU"


def bent(c):
    """sin z + c (1 - cos z): p_perp = (c^2 - 1) / (3 c^2 / 4 - 1)."""
    return Activation(f"sine_with_{c}", lambda z: jnp.sin(z) + c * (1 - jnp.cos(z)), universality_class="zero-kernel")


def row(found, layer, names=ALL):
    return [float(found[name].sel(layer=layer)[0]) for name in names]


def layered(depth):
    return [1 / layer for layer in range(1, depth + 1)]


TANH = {
    2: (-0.382741937, -0.232640031, -4.225296269, 2.447098819, 0.4656800221, 1.08106199),
    3: (-0.925217648, -0.5206693475, -13.29474817, 7.018769261, 1.562782951, 2.565593612),
    4: (-1.675787366, -0.9683874273, -32.41757926, 15.2522703, 4.359454221, 4.872464173),
    10: (-13.611857, -9.751631511, -1047.23364, 267.4389644, 242.2549702, 51.74061623),
}
"""C_b = 0, C_W = 1, rates 1, K^(1) = 1."""


def test_tables():
    found = single_differentials("tanh", 1.0, 10)
    for layer, expected in TANH.items():
        assert row(found, layer) == pytest.approx(expected, rel=3e-9)
    assert row(found, 1) == [0] * 6


@pytest.mark.parametrize(
    ("name", "layer", "P", "Q"),
    [
        ("tanh", 2, -0.3827419370, -0.2326400310),
        ("tanh", 3, -0.6904543628, -0.3128443939),
        ("tanh", 5, -1.1541194716, -0.4569749204),
        ("tanh", 10, -2.1104131891, -0.8485179344),
        ("sin", 2, -0.4998322687, -0.2499161343),
        ("sin", 3, -1.0313576236, -0.3893985916),
        ("sin", 6, -2.4459562928, -0.8124313954),
    ],
)
def test_rates_that_make_layers_equal(name, layer, P, Q):
    found = single_differentials(name, 1.0, layer, bias_rates=layered(layer))
    assert row(found, layer, "PQ") == pytest.approx((P, Q), abs=1.1e-10)


def test_sine_without_biases():
    """Q = 0 and P^(2) = -F^(2) at all depths, in closed form."""
    found = single_differentials("sin", 1.0, 6, bias_rates=0.0)
    assert found.Q.values[:, 0] == pytest.approx(np.zeros(6), abs=1e-14)
    assert found.ntk.values[:, 0] == pytest.approx(np.ones(6), abs=1e-13)
    assert row(found, 2, "P") == pytest.approx((-(1 - np.exp(-8)) / 8,), abs=1e-13)
    assert (*row(found, 3, "P"), *row(found, 6, "P")) == pytest.approx((-0.2495085671, -0.5632772403), abs=1e-10)


def test_second_layer_of_sine_by_hand():
    """R^(2) .. U^(2) are averages of products of sines and cosines at K = 1; C = 1.3, lambda = 0.7, Theta = 1.6."""
    found = single_differentials(
        "sin", 1.0, 2, weight_variance=1.3, weight_rates=(0.9, 0.7), bias_rates=(0.7, 0.2), mean_square=1.0
    )
    C, lam, H = 1.3, 0.7, 1.6
    mixed = (1 - np.exp(-8)) / 8  # <s^2 c^2>
    cosines = 3 / 8 + np.exp(-2) / 2 + np.exp(-8) / 8  # <c^4>
    expected = (
        -lam * C * mixed * H**2 - C**2 * cosines * H**3,
        C * lam * cosines * H**2 + C**2 * mixed * H**3,
        -2 * C * lam * mixed * H**2 + C**2 * mixed * H**3 + lam**2 * mixed * H,
        C**2 * mixed * H**3,
    )
    assert row(found, 2, "RSTU") == pytest.approx(expected, rel=1e-11)


def test_linear_networks_at_all_depths():
    """K = 1.3, both rates divided by the depth: S, T, Q exactly."""
    found = single_differentials("linear", 1.3, 10, weight_rates=0.11, bias_rates=0.07)
    table = {
        2: (0.00499059, 0.00335049, 0.030459),
        5: (0.2495295, 0.1675245, 0.60918),
        10: (4.11723675, 2.76415425, 5.025735),
    }
    for layer, expected in table.items():
        assert row(found, layer, "STQ") == pytest.approx(expected, rel=1e-12)
    assert row(found, 10, "PRU") == [0, 0, 0]
    closed = scale_invariant_differentials("linear", found.layer.values, 1.3, weight_rate=0.11, bias_rate=0.07)
    for name in ALL:
        assert closed[name].values == pytest.approx(found[name].values[:, 0], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.1)"])
def test_lines_with_a_kink(name):
    """P = 0 and Q = l (l^2-1)/6 r t w."""
    critical = {"relu": 2.0, "leaky_relu(0.1)": 2 / 1.01}[name]
    found = single_differentials(name, 2.0, 6, weight_variance=critical, weight_rates=0.8, bias_rates=0.3)
    closed = scale_invariant_differentials(name, found.layer.values, 2.0, weight_rate=0.8, bias_rate=0.3)
    for part in "PQ":
        assert closed[part].values == pytest.approx(found[part].values[:, 0], rel=1e-9, abs=1e-12)
    assert "R" not in found
    assert "R" not in closed
    one = single_differentials("relu", 2.0, 3, weight_variance=2.0)
    assert one.Q.values[:, 0] == pytest.approx((0, 4, 16), rel=1e-12)


def test_unequal_widths_by_superposition():
    """Linear: S' = lam Theta^2 + r (lam B + S), and so on; widths 10, 40 have r = 4."""
    found = single_differentials("linear", 1.0, 3, widths=(10, 40))
    equal = single_differentials("linear", 1.0, 3)
    assert row(found, 2) == row(equal, 2)
    B, S, T, Q, F = 4.0, 4.0, 2.0, 2.0, 2.0
    theta = 4.0
    expected = (theta**2 + 4 * (B + S), theta + 4 * (F + 2 * Q + T), theta + 4 * F + 4 * Q)
    assert row(found, 3, "STQ") == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bias", "weight"), [("tanh", 1.0, 1.0), ("sin", 0.7, 1.1)])
def test_large_depth_of_odd_activations(name, bias, weight):
    depth = 20001
    found = single_differentials(
        name, 1.0, depth, mean_square=1.0, bias_rates=[bias * rate for rate in layered(depth)], weight_rates=weight
    )
    limit = zero_kernel_differentials(name, [depth], weight_rate=weight, bias_rate=bias)
    for part in ALL:
        assert row(found, depth, part)[0] == pytest.approx(float(limit[part][0]), rel=0.004)
    if name == "tanh":
        K, theta = (float(found[part][-1, 0]) for part in ("kernel", "ntk"))
        ratios = [value * K / theta**3 / depth for value in row(found, depth, "RST")]
        assert ratios == pytest.approx((-0.069396, 0.0277771, 0.0138639), abs=1e-6)


@pytest.mark.slow
def test_large_depth_of_others():
    """sin z + 0.6 (1 - cos z): p_perp = 0.8767; ratios at 60001 layers, of which limits are 1e-4 off."""
    depth, s = 60001, bent(0.6)
    p = 0.64 / 0.73
    layer = np.arange(1, depth + 1)
    found = single_differentials(
        s, 0.5, depth, mean_square=0.5, bias_rates=0.7 * layer**-p, weight_rates=1.1 * layer ** (1 - p)
    )
    limit = zero_kernel_differentials(s, [depth], weight_rate=1.1, bias_rate=0.7)
    K, theta = (float(found[part][-1, 0]) for part in ("kernel", "ntk"))
    ratios = [value * K / theta**3 for value in row(found, depth, "RSTU")]
    assert ratios[:2] == pytest.approx((-0.106502 * depth, 0.0950898 * depth), rel=3e-4)
    assert ratios[2:] == pytest.approx((0.00107614 * depth, 0.1579015), rel=2e-3)
    one = limit.isel(layer=0)
    expected = [float(one[part] * one.kernel / one.ntk**3) for part in "RSTU"]
    assert expected[:3] == pytest.approx((-0.1064715 * depth, 0.0950662 * depth, 0.00107271 * depth), rel=1e-5)
    assert expected[3] == pytest.approx(0.1578947, abs=1e-7)


def test_exponents():
    """As the slope of the recursion between 512 and 1024 layers, where corrections are 3%."""
    depth = 1024
    found = single_differentials("tanh", 1.0, depth, bias_rates=layered(depth))
    for part, exponent in differential_exponents("tanh").items():
        values = [row(found, layer, part)[0] for layer in (512, 1024)]
        assert np.log2(values[1] / values[0]) == pytest.approx(-exponent, abs=0.03)
    limit = zero_kernel_differentials("tanh", [depth])
    for part in ALL:
        assert row(found, depth, part)[0] == pytest.approx(float(limit[part][0]), rel=0.035)
    assert set(differential_exponents("linear")) == {"Q", "S", "T"}
    with pytest.raises(InvalidInput, match="half-stable"):
        differential_exponents("gelu")


def test_frozen_hidden_layers_learn_nothing():
    found = single_differentials("tanh", 1.0, 4, weight_rates=(0, 0, 0, 1.0), bias_rates=(0, 0, 0, 1.0))
    assert row(found, 4) == [0] * 6


def test_kinks_are_refused():
    with pytest.raises(InvalidInput, match="kinks"):
        single_differentials(Activation("clipped", lambda z: jnp.clip(z, -1, 1), kinks=(-1.0, 1.0)), 1.0, 3)
