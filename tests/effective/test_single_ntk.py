"""The NTK of one input: tables, the book's own form of its recursions, asymptotics, gradients of layers."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import (
    equivalent_rates,
    gradient_covariances,
    gradient_moments,
    ntk_contributions,
    ntk_exponents,
    single_flow,
    single_ntk,
)
from widefield.effective.single_input import moments
from widefield.effective.tangent_asymptotics import (
    scale_invariant_mean,
    scale_invariant_ntk,
    uniform_rates_ntk,
    zero_kernel_ntk,
)

NAMES = ("kernel", "vertex", "ntk", "cross_shared", "cross_paired", "variance_paired", "variance_shared")


def bent(c):
    """sin z + c (1 - cos z): p_perp = (c^2 - 1) / (3 c^2 / 4 - 1)."""
    return Activation(f"sine_with_{c}", lambda z: jnp.sin(z) + c * (1 - jnp.cos(z)), universality_class="zero-kernel")


def row(found, layer):
    return [float(found[name].sel(layer=layer)[0]) for name in NAMES]


TABLES = {
    "sin": {
        2: (
            0.432332358382,
            0.120463023106,
            2.567667641618,
            -0.120463023106,
            0.249916134343,
            1.770838297787,
            0.120463023106,
        ),
        3: (
            0.289403626088,
            0.105953701558,
            3.113978941633,
            -0.202154536069,
            0.355193224042,
            4.780904697496,
            0.434259824365,
        ),
        5: (
            0.177799287863,
            0.080977024753,
            4.178422798127,
            -0.364529535760,
            0.569548753343,
            15.917191254783,
            2.072830365774,
        ),
        10: (
            0.092181138730,
            0.050090068558,
            6.774661254731,
            -0.777800509036,
            1.095874210042,
            88.645532239485,
            16.961360385191,
        ),
    },
    "tanh": {
        2: (
            0.39429449039784,
            0.097523738085857,
            2.3231002952944,
            -0.11859736743229,
            0.15010190600209,
            1.3660368292667,
            0.16863813310672,
        ),
        3: (
            0.2364504104993,
            0.067807493892096,
            2.7152072715504,
            -0.1637669471112,
            0.20934914412866,
            3.2479173965749,
            0.45882556193078,
        ),
        5: (
            0.12790473529941,
            0.039398443035743,
            3.5827203510586,
            -0.24138905221659,
            0.30604870075455,
            10.250632841996,
            1.845170693739,
        ),
    },
}

LAYERED = {
    "sin": (10, (2.102477128539, -0.203798031951, 0.420795571815, 14.114785289523, 1.410899370576)),
    "tanh": (5, (1.6367423962895, -0.11445492813476, 0.1763036979181, 3.6572746751784, 0.48282335895419)),
}


@pytest.mark.parametrize("activation", TABLES)
def test_tables(activation):
    found = single_ntk(activation, 1.0, 10)
    for layer, expected in TABLES[activation].items():
        np.testing.assert_allclose(row(found, layer), expected, rtol=1e-10)
    depth, expected = LAYERED[activation]
    layered = single_ntk(activation, 1.0, depth, bias_rates=tuple(1 / layer for layer in range(1, depth + 1)))
    np.testing.assert_allclose(row(layered, depth)[2:], expected, rtol=1e-10)


def test_mean_at_order_1_over_n():
    """tanh, C_W = 2, layer 3; the metric is that of `single_flow`; nothing for lines with a kink."""
    for weight, bias, expected in ((0.0, 1.0, 0.166655911313), (3.0, 0.0, -0.209028866514)):
        found = single_ntk("tanh", 1.0, 3, weight_variance=2.0, weight_rates=weight, bias_rates=bias)
        assert float(found["ntk_correction"][2, 0]) == pytest.approx(expected, abs=1e-10)
    other = single_flow("tanh", 1.0, 6, weight_variance=1.3, bias_variance=0.2, widths=(5, 10, 20, 10, 5))
    found = single_ntk("tanh", 1.0, 6, weight_variance=1.3, bias_variance=0.2, widths=(5, 10, 20, 10, 5))
    for name in ("kernel", "vertex", "correction"):
        np.testing.assert_allclose(found[name], other[name], rtol=1e-10, atol=1e-14)
    assert not single_ntk("relu", 1.0, 9, weight_variance=2.0)["ntk_correction"].values.any()
    np.testing.assert_allclose(
        found["variance"][1:, 0] * (5, 10, 20, 10, 5), (found["variance_shared"] + 2 * found["variance_paired"])[1:, 0]
    )


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_the_form_of_the_book(activation):
    """PDLT eqs. (9.13)-(9.16) with h, and the compact (9.20), (9.21)."""
    C_b, C, w, b, K, theta = 0.15, 1.4, 0.8, 0.6, 0.9, 0.6 + 0.8 * 0.5
    found = single_ntk(
        activation, K, 7, bias_variance=C_b, weight_variance=C, weight_rates=w, bias_rates=b, mean_square=0.5
    )
    V = D = F = A = B = 0.0
    for layer in range(2, 8):
        nodes, weights = np.polynomial.hermite_e.hermegauss(150)
        z, weights = math.sqrt(K) * nodes, weights / weights.sum()
        s, slope = (np.asarray(wf.activations.get(activation).derivative(n)(z), dtype=float) for n in (0, 1))
        at = moments(activation, K)
        g, chi_par, chi, h = (
            float(v) for v in (at.square, C * at.square_slope, C * at.slope_square, C * at.slope_square_slope / 2)
        )
        fourth, mixed, fourth_slope = (C**2 * weights @ f for f in (s**4, (s * slope) ** 2, slope**4))
        T1 = fourth - (C * g) ** 2 + chi_par**2 * V
        T2 = mixed - C * g * chi + 2 * h * chi_par * V
        T3 = fourth_slope - chi**2 + (2 * h) ** 2 * V
        D_next = chi * chi_par * D + w / C * T1 + theta * T2
        A = chi**2 * A - (w / C) ** 2 * T1 + 2 * w / C * D_next + 4 * h * chi * theta * D + theta**2 * T3
        V, D, F, B = T1, D_next, chi_par**2 * F + mixed * theta, chi**2 * B + fourth_slope * theta**2
        K, theta = C_b + C * g, b + w * g + chi * theta
        np.testing.assert_allclose(row(found, layer), (K, V, theta, D, F, B, A), rtol=2e-6)


def test_contributions():
    """They sum to the NTK; the equivalence principle makes them equal."""
    rates = {"weight_rates": (0.8, 1.5, 0.6, 1.0), "bias_rates": (0.7, 0.4, 0.9, 0.2)}
    parts = ntk_contributions("tanh", [0.5, 1.0], 4, weight_variance=1.2, **rates)
    found = single_ntk("tanh", [0.5, 1.0], 4, weight_variance=1.2, **rates)
    total = parts["bias"].sum("layer") + parts["weight"].sum("layer")
    np.testing.assert_allclose(total, found["ntk"][3], rtol=1e-12)
    weights, biases = equivalent_rates("sin", 1000)
    equal = ntk_contributions("sin", 1.0, 1000, weight_rates=weights, bias_rates=biases).isel(sample=0)
    theta = float((equal["bias"] + equal["weight"]).sum())
    assert theta == pytest.approx(2.008491534, abs=2e-9)
    chosen = equal.sel(layer=[10, 100, 500, 1000])
    np.testing.assert_allclose(1000 * chosen["bias"], (1.1167, 1.0166, 1.0022, 1.0000), atol=6e-5)
    np.testing.assert_allclose(1000 * chosen["weight"], (1.0294, 1.0006, 0.9980, 0.9976), atol=6e-5)
    uniform = ntk_contributions("sin", 1.0, 1000).isel(sample=0)
    assert float((uniform["bias"] + uniform["weight"]).sum()) == pytest.approx(502.514540855, abs=1e-6)
    np.testing.assert_allclose(uniform["bias"].sel(layer=[10, 100, 500, 1000]), (0.0112, 0.1017, 0.5011, 1), atol=6e-5)


# Large depth


@pytest.mark.parametrize(("activation", "weight"), [("relu", 2.0), ("linear", 1.0), ("leaky_relu(0.3)", 2 / 1.09)])
def test_scale_invariant(activation, weight):
    """Closed forms are the recursion."""
    found = single_ntk(activation, 0.7, 40, weight_variance=weight, weight_rates=1.3, bias_rates=0.4)
    closed = scale_invariant_ntk(activation, np.arange(1, 41), 0.7, weight_rate=1.3, bias_rate=0.4)
    for name in NAMES:
        np.testing.assert_allclose(found[name][:, 0], closed[name], rtol=1e-9, atol=1e-12)
    weights, biases = equivalent_rates(activation, 40, weight_rate=1.3, bias_rate=0.4)
    equal = single_ntk(activation, 0.7, 40, weight_variance=weight, weight_rates=weights, bias_rates=biases)
    assert float(equal["ntk"][-1, 0]) == pytest.approx(0.4 + 1.3 * 0.7 / weight)


def test_off_criticality():
    found = scale_invariant_mean("relu", [1, 2, 3, 4], 0.8, weight_variance=2.4, weight_rate=0.7, bias_rate=0.3)
    np.testing.assert_allclose(found["ntk"], (0.86, 2.004, 3.5112, 5.48112), rtol=1e-12)
    np.testing.assert_allclose(found["kernel"], (1.92, 2.304, 2.7648, 3.31776), rtol=1e-12)
    again = single_ntk("relu", 1.92, 4, weight_variance=2.4, weight_rates=0.7, bias_rates=0.3)
    np.testing.assert_allclose(again["ntk"][:, 0], found["ntk"], rtol=1e-12)


def layered(activation, depth, kernel):
    p = -ntk_exponents(activation).ntk
    layers = np.arange(1.0, depth + 1)
    rates = {"weight_rates": tuple(1.3 * layers**p), "bias_rates": tuple(0.7 * layers ** (p - 1))}
    return single_ntk(activation, kernel, depth, **rates)


@pytest.mark.parametrize(
    ("activation", "kernel", "ratios"),
    [
        ("sin", 1.0, (0.9997, 0.9995, 1.0005, 1.0018, 1.0004, 1.0015, 1.0045)),
        ("tanh", 0.5, (1.0004, 1.0003, 0.9998, 0.9994, 0.9997, 0.9992, 0.9981)),
    ],
)
def test_zero_kernel_class(activation, kernel, ratios):
    found, leading = (
        layered(activation, 10_000, kernel),
        zero_kernel_ntk(activation, [10_000], weight_rate=1.3, bias_rate=0.7),
    )
    quotient = [float(found[name][-1, 0] / leading[name][0]) for name in NAMES]
    np.testing.assert_allclose(quotient, ratios, atol=6e-5)
    uniform = single_ntk(activation, kernel, 10_000)
    np.testing.assert_allclose(uniform["ntk"][-1, 0], uniform_rates_ntk(activation, [10_000])[0], rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.5, 1.0])
def test_exponents_of_uneven_activations(c):
    """p_perp = 12/13 and 0: fitted exponents obey the scaling laws."""
    activation = bent(c)
    p = ntk_exponents(activation)
    assert 1 + p.ntk == pytest.approx((c**2 - 1) / (0.75 * c**2 - 1), abs=1e-9)
    found, leading = (
        layered(activation, 100_000, 0.5),
        zero_kernel_ntk(activation, [100_000], weight_rate=1.3, bias_rate=0.7),
    )
    for name in NAMES:
        values = found[name].sel(layer=[10_000, 100_000])[:, 0].values
        assert -math.log10(values[1] / values[0]) == pytest.approx(getattr(p, name), abs=1e-2)
        assert values[1] / float(leading[name][0]) == pytest.approx(1, abs=4e-3)


@pytest.mark.parametrize("activation", ["tanh", "relu", bent(0.5)])
def test_scaling_laws(activation):
    p = ntk_exponents(activation)
    laws = [p.vertex - 2 * p.kernel, p.cross_shared - p.ntk - p.kernel, p.cross_paired - p.ntk - p.kernel]
    laws += [p.variance_shared - 2 * p.ntk, p.variance_paired - 2 * p.ntk]
    assert laws == pytest.approx([-1] * 5)


# Gradients


def test_gradients_of_layers():
    """n times the relative variance, and means."""
    tanh = gradient_moments("tanh", 1.0, 5, 100).data
    known = {("bias", 1): (12.5191763223, 0.1679587015), ("weight", 2): (8.1227570608, 0.1426028784)}
    known |= {("bias", 3): (4.9773635963, 0.5681706170), ("weight", 5): (2.4082735342, 0.1279047353)}
    for (group, layer), expected in known.items():
        here = tanh.sel(group=group, layer=layer)
        found = 100 * float(here["relative_variance"]), float(here["mean"])
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    sin = gradient_moments("sin", 1.0, 5, 100).data["relative_variance"]
    assert 100 * float(sin.sel(group="bias", layer=1)) == pytest.approx(11.2456468817, rel=1e-9)
    assert 100 * float(sin.sel(group="weight", layer=3)) == pytest.approx(5.1928652730, rel=1e-9)
    linear = gradient_moments("linear", 1.0, 5, 100).data["relative_variance"].values
    np.testing.assert_allclose(100 * linear.T, [[8, 6, 4, 2, 0], [8] * 5], atol=1e-9)


@pytest.mark.slow
def test_gradients_at_large_depth():
    found = gradient_moments("tanh", 1.0, 2000, 2000).data["relative_variance"].sel(layer=[200, 1000, 1800])
    np.testing.assert_allclose(found.sel(group="bias"), (2.33986, 1.16676, 0.20667), atol=6e-6)
    np.testing.assert_allclose(found.sel(group="weight"), (2.28745, 1.16649, 0.68548), atol=6e-6)


def test_covariances_of_gradients():
    """All of them together are those of the NTK with equal rates."""
    found = gradient_covariances("tanh", 1.0, 5, 50)
    ntk = single_ntk("tanh", 1.0, 5, widths=50)
    assert float(found.sum()) == pytest.approx(float(ntk["variance"][4, 0]), rel=1e-10)
    own = gradient_moments("tanh", 1.0, 5, 50).data
    squares = (own["relative_variance"] * own["mean"] ** 2).values.T.ravel()
    np.testing.assert_allclose(np.diagonal(found.values), squares, rtol=1e-10, atol=1e-15)
    assert np.linalg.eigvalsh(found.values).min() > -1e-12


@pytest.mark.parametrize(
    ("weight", "words"),
    [(2.6, ("explode", "EXPLODE")), (1.5, ("falls to", "VANISH")), (2.0, ("keeps its size", "reach the first layer"))],
)
def test_diagnosis(weight, words):
    found = gradient_moments("relu", 1.0, 30, 64, weight_variance=weight)
    assert all(word in found.verdict for word in words), found.verdict
    assert found.gradient_growth == pytest.approx(29 * math.log(weight / 2))
    assert len(found.plot().axes) == 2
    assert found.verdict in " ".join(str(found).split())


def test_gradients_in_files(tmp_path):
    found = gradient_moments("tanh", 1.0, 4, 20)
    found.save(tmp_path / "gradients.nc")
    np.testing.assert_array_equal(wf.load(tmp_path / "gradients.nc").data["mean"], found.data["mean"])


# Rates


def test_rates():
    assert equivalent_rates("relu", 4, weight_rate=2.0) == ((0.5,) * 4, (0.25,) * 4)
    assert equivalent_rates("gelu", 2) == ((0.5,) * 2, (0.5,) * 2)
    weights, biases = equivalent_rates(bent(0.5), 3)
    p = 12 / 13
    np.testing.assert_allclose(weights, [(3 / layer) ** (p - 1) for layer in (1, 2, 3)], rtol=1e-9)
    np.testing.assert_allclose(biases, [layer**-p * 3 ** (p - 1) for layer in (1, 2, 3)], rtol=1e-9)


def test_refusals():
    with pytest.raises(InvalidInput, match="mean_square"):
        single_ntk("tanh", 0.1, 3, bias_variance=0.5)
    with pytest.raises(InvalidInput, match="no critical initialisation"):
        equivalent_rates("softplus", 4)
    with pytest.raises(InvalidInput, match="half-stable"):
        ntk_exponents("gelu")
    with pytest.raises(InvalidInput, match="weight_rates has 2 entries"):
        single_ntk("tanh", 1.0, 3, weight_rates=(1.0, 1.0))
    with pytest.raises(InvalidInput, match="widths"):
        gradient_moments("tanh", 1.0, 3, 0)
