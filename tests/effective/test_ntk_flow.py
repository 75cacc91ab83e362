"""The neural tangent kernel of finite networks: tables, other forms of the equations, structure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import InvalidInput
from widefield.effective import NTKFlow, flow, ntk_flow, single_ntk
from widefield.effective.tangent_sampler import network_ntk
from widefield.kernels import StaticKernel
from widefield.kernels.fluctuations import kernel_fluctuations, saddle_point
from widefield.problem.network import MLP

TWO = [[1.0, 0.0], [0.6, 0.8]]
X = [[1.0, 0.5, -0.3], [0.2, -0.9, 1.1]]
THREE = [*X, [0.7, 0.1, 0.8]]
PAIRS = ((0, 0), (0, 1), (1, 1))


def setting(activation, layers):
    return MLP(layers - 1, activation, weight_variances=1.3, bias_variances=0.1)


RATES = {"weight_rates": 0.9, "bias_rates": 0.7}


def labels(text):
    return tuple(int(c) - 1 for c in text)


def over_pairs(matrix, text):
    number = {(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 2}
    one, two, three, four = labels(text)
    return matrix[number[one, two], number[three, four]]


# Tables

SIN = {
    (10, 10): {
        2: {
            "V": (("1112", 0.059083648538), ("1122", 0.027427575203), ("1212", 0.093207255004)),
            "D": (
                ("1111", -0.046727817026),
                ("1112", -0.033597138505),
                ("1211", -0.029541824269),
                ("1212", 0.007361706914),
            ),
            "A": (("1111", 0.023363908513), ("1122", 0.006856893801), ("1212", 0.079036419780)),
            "F": (
                ("1111", 0.184065817708),
                ("1122", 0.066392098523),
                ("1212", 0.283107905982),
                ("1221", 0.066392098523),
            ),
            "B": (
                ("1111", 1.262765644755),
                ("1122", 0.836889887050),
                ("1212", 1.114202512345),
                ("1221", 0.836889887050),
            ),
        },
        3: {
            "V": (("1112", 0.058765588822), ("1122", 0.027911181296), ("1212", 0.097196769083)),
            "D": (
                ("1111", -0.140808086687),
                ("1112", -0.090050435911),
                ("1211", -0.092501203609),
                ("1212", -0.018937875543),
            ),
            "A": (("1111", 0.228178806923), ("1122", 0.069264197771), ("1212", 0.307560427633)),
            "F": (
                ("1111", 0.321380979694),
                ("1122", 0.133355849080),
                ("1212", 0.511667789009),
                ("1221", 0.118619954146),
            ),
            "B": (
                ("1111", 4.309414390029),
                ("1122", 2.938480341223),
                ("1212", 3.939186352717),
                ("1221", 2.907897117541),
            ),
        },
    },
    (10, 20): {
        3: {
            "V": (("1112", 0.077698919869), ("1122", 0.035658197660), ("1212", 0.137685469243)),
            "D": (
                ("1111", -0.195248186172),
                ("1112", -0.123664128512),
                ("1211", -0.131548717817),
                ("1212", -0.007470204559),
            ),
            "A": (("1111", 0.340454378125), ("1122", 0.102215091570), ("1212", 0.503775394621)),
            "F": (
                ("1111", 0.373371025889),
                ("1122", 0.152108533919),
                ("1212", 0.650441412841),
                ("1221", 0.122636744052),
            ),
            "B": (
                ("1111", 5.049830956545),
                ("1122", 3.429186704115),
                ("1212", 4.551776330953),
                ("1221", 3.368020256749),
            ),
        }
    },
}


@pytest.mark.parametrize("widths", SIN)
def test_two_inputs_of_sin(widths):
    """F and B have their labels in the order 1 3 2 4."""
    found = ntk_flow(MLP(2, "sin"), TWO, widths, bias_rates=1.0)
    np.testing.assert_allclose(found.ntk(1)[0], (1.5, 1.3), rtol=1e-12)
    np.testing.assert_allclose(found.ntk(2)[0], (2.341969860293, 2.008939710657), rtol=1e-11)
    np.testing.assert_allclose(found.ntk(3)[0], (3.027589000282, 2.625017107408), rtol=1e-11)
    for layer, table in SIN[widths].items():
        tensors = {"V": found.vertex(layer), "D": found.cross_shared(layer), "A": found.variance_shared(layer)}
        for name, matrix in tensors.items():
            for text, expected in table[name]:
                assert over_pairs(matrix, text) == pytest.approx(expected, abs=1e-10), (layer, name, text)
        for name, tensor in (("F", found.cross_paired(layer)), ("B", found.variance_paired(layer))):
            for text, expected in table[name]:
                assert tensor[labels(text)] == pytest.approx(expected, abs=1e-10), (layer, name, text)
    if widths == (10, 10):
        np.testing.assert_allclose(found.nlo_ntk(3)[0], (-0.104161113147, -0.140036848492), atol=1e-10)


MEANS = {
    "sin": (
        (-0.0643435020, 0.0719586660, -0.0522821264),
        (-0.0965152529, 0.1079379989, -0.0784231897),
        (-0.0919675104, 0.4483402388, -0.0630692341),
        (2.6588790305, 1.3633242455, 2.7282386744),
    ),
    "tanh": (
        (-0.0228920515, 0.0642776477, -0.0076712262),
        (-0.0343380772, 0.0964164716, -0.0115068393),
        (0.0134073642, 0.3150803886, 0.0552250521),
        (2.2882895018, 1.3081565158, 2.3120858156),
    ),
}


@pytest.mark.parametrize("activation", MEANS)
def test_mean_at_order_1_over_n(activation):
    """Two inputs; and three, whose means are those of groups of two, without errors."""
    equal, unequal, deeper, theta = MEANS[activation]
    found = ntk_flow(setting(activation, 4), X, (8, 12, 16), **RATES)
    np.testing.assert_allclose([found.ntk(3)[p] for p in PAIRS], theta, atol=2e-10)
    np.testing.assert_allclose([found.nlo_ntk(3)[p] for p in PAIRS], unequal, atol=2e-9)
    np.testing.assert_allclose([found.nlo_ntk(4)[p] for p in PAIRS], deeper, atol=2e-9)
    assert not found.nlo_ntk(2).any()
    three = ntk_flow(setting(activation, 3), THREE, 8, points=2**8, **RATES)
    np.testing.assert_allclose([three.nlo_ntk(3)[p] for p in PAIRS], equal, atol=2e-9)
    np.testing.assert_allclose(three.mean_ntk(3), three.ntk(3) + three.nlo_ntk(3) / 8)


def test_hidden_layers_and_covariances_between_them():
    found = ntk_flow(setting("sin", 3), X, 8, **RATES)
    A, B = found.variance_shared(3), found.variance_paired(3)
    rows = [[0.3997268419, 0.2374759761, 0.0024703100], [0.7530966680, 0.3036636510], [0.5416496024]]
    np.testing.assert_allclose([A[i, i:] for i in range(1)], [rows[0]], atol=1e-9)
    np.testing.assert_allclose([*A[1, 1:], A[2, 2]], [*rows[1], *rows[2]], atol=1e-9)
    assert B[0, 0, 0, 0] == pytest.approx(4.1150170863, abs=1e-9)
    assert B[0, 1, 0, 1] == pytest.approx(3.2298069583, abs=1e-9)
    between = found.between_layers(2, 3)[1, :, 1].T  # n Cov(X^2, X^3)
    expected = [
        [0.0643713880, 0.0555605319, 0.0011397543],
        [0.0678597839, 0.3228804524, 0.0951115173],
        [0.0014975940, 0.0951486025, 0.1260096836],
    ]
    np.testing.assert_allclose(between, expected, atol=1e-9)
    assert found.between_layers(2, 3)[1, 0, 0, 0] == pytest.approx(-0.15712, abs=1e-5)
    assert found.between_layers(2, 3)[0, 1, 1, 1] == pytest.approx(0.14406, abs=1e-5)
    np.testing.assert_allclose(found.between_layers(3, 3)[0, :, 1], found.cross_shared(3))
    for layer in (2, 3):
        assert np.linalg.eigvalsh(found.joint(layer)).min() > -1e-12  # 0 in layer 2, where cos^2 = 1 - sin^2


def test_linear_and_relu_of_one_input():
    linear = ntk_flow(MLP(5, "linear"), [[1.0]], 7, bias_rates=1.0)
    relu = ntk_flow(MLP(5, "relu", weight_variances=2.0), [[0.5**0.5]], 7, bias_rates=1.0)
    for layer in range(1, 7):
        both, squares = layer * (layer - 1), layer * (layer - 1) * (2 * layer - 1)
        values = linear.ntk(layer), linear.vertex(layer), linear.cross_shared(layer), linear.cross_paired(layer)
        np.testing.assert_allclose([v.item() for v in values], [2 * layer, 2 * (layer - 1), both, both], atol=1e-9)
        assert linear.variance_paired(layer).item() == pytest.approx(2 / 3 * squares)
        values = relu.ntk(layer), relu.vertex(layer), relu.cross_shared(layer), relu.cross_paired(layer)
        expected = [1.5 * layer, 5 * (layer - 1), 2 * both, 1.5 * both]
        np.testing.assert_allclose([v.item() for v in values], expected, atol=1e-9)
        assert relu.nlo_ntk(layer).item() == pytest.approx(0, abs=1e-9)
    for found, A, B in (
        (linear, (0, 2, 10, 28, 60, 110), (0, 4, 20, 56, 120, 220)),
        (relu, (0, 5, 23.5, 64, 135, 245), (0, 4.5, 22.5, 63, 135, 247.5)),
    ):
        layers = range(1, 7)
        np.testing.assert_allclose([found.variance_shared(layer).item() for layer in layers], A, atol=1e-8)
        np.testing.assert_allclose([found.variance_paired(layer).item() for layer in layers], B, atol=1e-8)


# Against other code


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "selu"])
def test_one_input_is_that_of_single_ntk(activation):
    """Recursions of one input, in their own code; the same input twice and three times is one input."""
    network = MLP(3, activation, weight_variances=(1.3, 1.1, 0.9, 1.2), bias_variances=(0.1, 0.2, 0.0, 0.1))
    rates = {"weight_rates": (0.8, 1.5, 0.6, 1.0), "bias_rates": (0.7, 0.4, 0.9, 0.2)}
    x = [[1.0, 0.5, -0.3]]
    found = ntk_flow(network, x, (8, 12, 6), **rates)
    one = single_ntk(
        activation,
        found.kernel(1).item(),
        4,
        bias_variance=(0.2, 0.0, 0.1),
        weight_variance=(1.1, 0.9, 1.2),
        mean_square=np.mean(np.square(x)),
        widths=(8, 12, 6),
        **rates,
    ).isel(sample=0)
    again = ntk_flow(network, x * 3, (8, 12, 6), points=2**8, **rates)
    for layer in (2, 3, 4):
        here = one.sel(layer=layer)
        for name, value in (
            ("ntk", found.ntk),
            ("ntk_correction", found.nlo_ntk),
            ("correction", found.nlo_metric),
            ("vertex", found.vertex),
            ("cross_shared", found.cross_shared),
            ("cross_paired", found.cross_paired),
            ("variance_shared", found.variance_shared),
            ("variance_paired", found.variance_paired),
        ):
            assert value(layer).item() == pytest.approx(float(here[name]), rel=1e-8, abs=1e-9), (name, layer)
            copies = getattr(again, value.__name__)(layer)
            assert np.ptp(copies) < 1e-8 * max(1.0, abs(float(here[name])))
            stated = f"{value.__name__}_error"
            error = float(again.data[stated].values[layer - 1].max()) if stated in again.data else 0.0
            assert copies.flat[0] == pytest.approx(float(here[name]), rel=1e-6, abs=10 * error + 1e-8)


@pytest.mark.parametrize("activation", ["tanh", "relu", "swish"])
def test_infinite_width_is_that_of_static_kernels(activation):
    network = MLP(3, activation, weight_variances=1.4, bias_variances=0.1)
    rates = {"weight_rates": (0.8, 1.5, 0.6, 1.0), "bias_rates": (0.7, 0.4, 0.9, 0.2)}
    found = ntk_flow(network, THREE, 9, points=2**8, **rates)
    static = StaticKernel(network, **rates)(THREE)
    np.testing.assert_allclose(found.ntk(4), static.ntk, rtol=1e-12)
    np.testing.assert_allclose(found.kernel(4), static.nngp, rtol=1e-12)
    shallow = MLP(1, activation, weight_variances=1.4, bias_variances=0.1)
    part = StaticKernel(shallow, weight_rates=(0.8, 1.5), bias_rates=(0.7, 0.4))(THREE)
    np.testing.assert_allclose(found.ntk(2), part.ntk, rtol=1e-12)


@pytest.mark.parametrize(("activation", "biases"), [("sin", True), ("relu", False), ("gelu", True)])
def test_variance_is_that_of_kernel_fluctuations(activation, biases):
    """A + B + B of one output, from the saddle point of the field theory: another derivation."""
    network = MLP(3, activation, weight_variances=1.4, bias_variances=0.1)
    x = np.array(X)
    point = saddle_point(network, x)
    other = kernel_fluctuations(point, (1.0, 1.5, 0.5)).ntk(point, x @ x.T / 3, train_biases=biases)
    found = ntk_flow(network, x, (10, 15, 5), bias_rates=float(biases))
    np.testing.assert_allclose(found.one_neuron(4) / 5, other / 10, rtol=1e-8)


def test_vertex_is_that_of_flow():
    network = setting("tanh", 4)
    found, other = ntk_flow(network, X, 9), flow(network, X, 9)
    np.testing.assert_allclose(found.covariances, other.covariances, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(found.shifts, other.shifts, rtol=1e-8, atol=1e-14)
    three, sampled = ntk_flow(network, THREE, 9), flow(network, THREE, 9)
    gap = np.abs(three.covariances - sampled.covariances)
    assert np.all(gap <= 6 * np.hypot(three.covariance_error, sampled.covariance_error) + 1e-9)
    np.testing.assert_allclose(three.shifts, sampled.shifts, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "relu", "selu"])
def test_some_of_three_inputs_are_two_inputs(activation):
    network = setting(activation, 3)
    three, two = ntk_flow(network, THREE, 8, **RATES), ntk_flow(network, X, 8, **RATES)
    chosen = np.flatnonzero((three.pairs.rows < 2) & (three.pairs.columns < 2))
    for name in ("cross_shared", "variance_shared", "cross_paired", "variance_paired"):
        value, error, expected = (
            np.asarray(part.data[key].values[2]) for part, key in ((three, name), (three, f"{name}_error"), (two, name))
        )
        place = np.ix_(chosen, chosen) if value.ndim == 2 else np.ix_(*[[0, 1]] * 4)
        scale = np.abs(expected).max()
        assert np.all(np.abs(value[place] - expected) < 8 * error[place] + 1e-7 * scale), name
        assert error.max() < 0.01 * scale
    np.testing.assert_allclose(three.nlo_ntk(3)[:2, :2], two.nlo_ntk(3), rtol=1e-9, atol=1e-12)


# Structure


def test_symmetries():
    found = ntk_flow(setting("gelu", 4), THREE, (8, 12, 6), points=2**8, **RATES)
    A, B, F = found.variance_shared(4), found.variance_paired(4), found.cross_paired(4)
    np.testing.assert_allclose(A, A.T, rtol=1e-9)
    np.testing.assert_allclose(B, B.transpose(1, 0, 3, 2), rtol=1e-9)
    np.testing.assert_allclose(B, B.transpose(2, 3, 0, 1), rtol=1e-9)
    np.testing.assert_allclose(F, F.transpose(2, 3, 0, 1), rtol=1e-9)
    assert np.abs(F - F.transpose(1, 0, 2, 3)).max() > 1e-3
    assert np.linalg.eigvalsh(found.joint(4)).min() > -1e-9
    H = found.ntk_covariance(4, (0, 1, 0, 1))
    np.testing.assert_allclose(6 * H[0, 1, 2, 1], B[0, 2, 1, 1])
    np.testing.assert_allclose(6 * found.ntk_covariance(4, (0, 1, 1, 0))[0, 1, 2, 1], B[0, 1, 1, 2])
    both = found.ntk_covariance(4, (0, 0, 0, 0))[found.pairs.rows, found.pairs.columns]
    np.testing.assert_allclose(6 * both[:, found.pairs.rows, found.pairs.columns], found.one_neuron(4))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_parallel_and_opposite_inputs(activation):
    """Odd activations: the opposite input has the opposite sign. Lines with a kink: half of an input has half of it."""
    network = MLP(2, activation, weight_variances=1.3)
    factor = -1.0 if activation == "tanh" else 0.5
    found = ntk_flow(network, [X[0], factor * np.array(X[0])], 7, weight_rates=1.0, bias_rates=0.0)
    one = ntk_flow(network, X[:1], 7, weight_rates=1.0, bias_rates=0.0)
    power = np.array([factor**k for k in range(3)])
    assert np.isfinite(found.variance_paired(3)).all()
    np.testing.assert_allclose(found.nlo_ntk(3)[0], one.nlo_ntk(3).item() * power[:2], atol=1e-9)
    A = one.variance_shared(3).item() * np.outer(power, power)
    np.testing.assert_allclose(found.variance_shared(3), A, rtol=1e-6, atol=1e-9)
    F = found.cross_paired(3)
    assert F[1, 0, 0, 0] == pytest.approx(factor * one.cross_paired(3).item(), rel=1e-6)
    assert F[1, 1, 1, 1] == pytest.approx(factor**4 * one.cross_paired(3).item(), rel=1e-6)


def test_continuity_at_a_kink():
    """Parallel inputs of ReLU are the limit of nearly parallel ones: a cusp, no divergence."""
    network, found = MLP(3, "relu", weight_variances=2.0), []
    for angle in (0.1, 0.01, 0.001, 0.0):
        x = 2**0.5 * np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
        found.append(ntk_flow(network, x, 9, bias_rates=0.0).one_neuron(4)[0, 1])
    np.testing.assert_allclose(found, (153.70, 159.43, 159.943, 160), atol=0.01)


# One network


def test_a_network_of_given_weights():
    weights = ([[0.5, -0.3], [0.8, 0.2]], [[1.0, -0.5], [0.3, 0.7]], [[0.6, -0.9]])
    biases, x = ([0.1, -0.2], [0.05, 0.0], [-0.1]), np.array([[1.0, -0.5], [0.3, 0.9]])
    rates = {"weight_rates": (0.8, 1.5, 0.6), "bias_rates": (0.7, 0.4, 0.9)}
    z, H = network_ntk("tanh", weights, biases, x, **rates)
    np.testing.assert_allclose(z[:, 0], (-0.270615704277, -0.276947787103), atol=1e-12)
    expected = [2.085449527298, 1.691803377706, 2.324039795935]
    np.testing.assert_allclose([H[0, 0, 0, 0], H[0, 1, 0, 0], H[1, 1, 0, 0]], expected, atol=1e-11)

    def outputs(parameters):
        signal = jnp.asarray(x)
        for number, (W, b) in enumerate(zip(*parameters, strict=True)):
            signal = (jnp.tanh(signal) if number else signal) @ W.T + b[None]
        return signal[:, 0]

    with jax.enable_x64(True):
        parameters = [[jnp.asarray(part, dtype=float) for part in group] for group in (weights, biases)]
        slopes = jax.jacobian(outputs)(parameters)
        total = np.zeros((2, 2))
        for number in range(3):
            W, b = (np.asarray(group[number]).reshape(2, -1) for group in slopes)
            fan_in = np.shape(weights[number])[1]
            total += rates["weight_rates"][number] / fan_in * W @ W.T + rates["bias_rates"][number] * b @ b.T
    np.testing.assert_allclose(H[:, :, 0, 0], total, rtol=1e-12)
    with pytest.raises(InvalidInput, match="weights have shapes"):
        network_ntk("tanh", weights[:2], biases, x, **rates)


# What a flow offers


def test_files_tables_and_figures(tmp_path):
    found = ntk_flow(setting("tanh", 3), X, 8, **RATES)
    found.save(tmp_path / "ntk.nc")
    again = wf.load(tmp_path / "ntk.nc")
    assert isinstance(again, NTKFlow)
    np.testing.assert_array_equal(again.variance_paired(3), found.variance_paired(3))
    np.testing.assert_allclose(again.between_layers(2, 3), found.between_layers(2, 3))
    assert "shift of the NTK" in str(again)
    assert len(again.plot().axes) == 2


def test_progress_and_refusals(capsys):
    ntk_flow(MLP(2, "sin"), TWO, 5, progress=True)
    assert "2/2 layers" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="jumps"):
        ntk_flow(MLP(1, "perceptron"), TWO, 5)
    with pytest.raises(InvalidInput, match="weight_rates has 2 entries"):
        ntk_flow(MLP(2, "sin"), TWO, 5, weight_rates=(1.0, 1.0))
