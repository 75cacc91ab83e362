"""The effective theory against random networks of finite width: every correlator, within 4 standard errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, polygamma

import widefield as wf
from problems import assert_same_data
from widefield.base.errors import InvalidInput
from widefield.effective import Flow, critical_point, flow, monte_carlo, sampler
from widefield.effective.agreement import Check, Correlator
from widefield.effective.deep_linear import DeepLinear
from widefield.gaussian.sample_pairs import Pairs
from widefield.problem.network import MLP

ACTIVATIONS = ("tanh", "relu", "gelu", "swish", "sin", "linear")
TWO = np.array([[1.0, 0.6], [0.6, 1.5]])
THREE = np.array([[1.0, 0.6, -0.3], [0.6, 1.5, 0.2], [-0.3, 0.2, 0.8]])


def inputs(K, bias=0.0, weight=1.0):
    """With C_b + C_W x x^T / D = K."""
    return math.sqrt(len(K)) * np.linalg.cholesky((K - bias) / weight)


def critical(activation, layers, K):
    """A critical network, and inputs with the kernel K (times K* if there is one) in the first layer."""
    point = critical_point(activation)
    bias, weight = point.bias_variance, point.weight_variance
    network = MLP(layers - 1, activation, bias_variances=bias, weight_variances=weight)
    return network, inputs(K * (point.kernel or 1.0), bias, weight)


def seed(activation, first):
    """One of its own: from the same normals similar activations make nearly the same networks."""
    return first + ACTIVATIONS.index(activation)


def mean(values):
    """Of rows, and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))


def variance(values):
    """Over rows, and its standard error."""
    return mean((values - values.mean(axis=0)) ** 2)


def close(found, expected, other_error=0.0, bias=0.0):
    """Whether (value, error) is 4 standard errors and a bias from what is expected, at most."""
    value, error = found
    return bool(np.all(np.abs(value - expected) < 4 * np.hypot(error, other_error) + bias))


def extrapolated(narrow, wide):
    """2 Q(2n) - Q(n), and its standard error."""
    return 2 * wide[0] - narrow[0], np.hypot(2 * wide[1], narrow[1])


# Every activation through depth


def assert_notices(found, vertex, four_point):
    """Agreement, and error bars that are small: anywhere, and of Var(Ghat_aa) in the last layer."""
    assert found.agrees, str(found)
    assert set(found.summary()["correlator"].values) == {"metric", "vertex", "nlo_metric", "four_point"}
    assert found.threshold == 4
    diagonal = found.flow.pairs.rows == found.flow.pairs.columns
    last = found["vertex"].limit_error[-1] / np.abs(found["vertex"].predicted[-1])
    assert np.diagonal(last)[diagonal].max() < vertex, str(found)
    assert found["four_point"].resolution < four_point, str(found)
    assert found["metric"].resolution < 0.005


@pytest.mark.parametrize(
    "activation",
    ["tanh", "relu", "gelu", *(pytest.param(n, marks=pytest.mark.slow) for n in ("swish", "sin", "linear"))],
)
def test_every_activation_through_depth(activation):
    """Two inputs, eight layers: a vertex that is off by a tenth would show."""
    network, x = critical(activation, 8, TWO)
    found = monte_carlo.check(network, x, 48, seeds=19_000, seed=seed(activation, 10))
    assert_notices(found, vertex=0.075, four_point=0.09)
    assert 4 * found["vertex"].resolution < 0.1


@pytest.mark.parametrize("activation", ["tanh", pytest.param("gelu", marks=pytest.mark.slow)])
def test_weights_of_some_activations(activation):
    network, x = critical(activation, 4, TWO)
    found = monte_carlo.check(network, x, (24, 32, 24), seeds=12_000, seed=2, explicit=True)
    assert_notices(found, vertex=0.07, four_point=0.1)
    assert 4 * found["vertex"].resolution < 0.13


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_with_many_networks(activation):
    """Three inputs, twelve layers: a vertex that is off by a twentieth would show."""
    network, x = critical(activation, 12, THREE)
    found = monte_carlo.check(network, x, 96, seeds=75_000, seed=seed(activation, 30))
    assert_notices(found, vertex=0.05, four_point=0.05)
    assert 4 * found["vertex"].resolution < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_weights_of_every_activation(activation):
    network, x = critical(activation, 6, TWO)
    found = monte_carlo.check(network, x, (40, 40, 48, 40, 40), seeds=30_000, seed=4, explicit=True)
    assert_notices(found, vertex=0.06, four_point=0.07)
    assert 4 * found["vertex"].resolution < 0.09


# Numbers of networks


def single(activation, kernel, layers, width, draws, seed, weight=1.0):
    """Ghat of one input with K^1 = `kernel`, (draws, layers)."""
    network = MLP(layers - 1, activation, weight_variances=weight)
    x = [[math.sqrt(kernel / weight)]]
    return sampler.metrics(network, x, width, seeds=draws, seed=seed)[:, :, 0, 0]


@pytest.mark.slow
def test_tanh_table():
    """n Var(Ghat) at n = 64, and its limit; n (E[Ghat] - K)."""
    narrow, wide = (single("tanh", 1.0, 8, n, 400_000, n) for n in (64, 128))
    found = flow(MLP(7, "tanh"), [[1.0]], 64)
    for layer, networks, error in ((2, 0.0972, 0.0002), (5, 0.0391, 0.0001), (8, 0.0232, 0.0001)):
        here, there = (n * np.array(variance(drawn[:, layer - 1])) for n, drawn in ((64, narrow), (128, wide)))
        assert close(here, networks, error)
        assert close(extrapolated(here, there), found.vertex(layer).item())
        assert here[1] < 0.003 * networks
    shift = 64 * (np.array(mean(narrow[:, 7])) - [found.kernel(8).item(), 0])
    assert close(shift, -0.096, 0.002)
    assert close(shift, -0.09618)
    assert found.nlo_metric(8).item() == pytest.approx(-0.09618, abs=1e-5)


@pytest.mark.slow
def test_sin_table():
    narrow, wide = (single("sin", 0.5, 6, n, 400_000, n)[:, 5] for n in (64, 128))
    found = flow(MLP(5, "sin"), [[math.sqrt(0.5)]], 64)
    assert found.vertex(6).item() == pytest.approx(0.06626, abs=1e-5)
    assert found.nlo_metric(6).item() == pytest.approx(-0.13916, abs=1e-5)
    here, there = (n * np.array(variance(drawn)) for n, drawn in ((64, narrow), (128, wide)))
    assert close(here, 0.0652, 0.0002)
    assert close(extrapolated(here, there), 0.06626)
    shift = 64 * (np.array(mean(narrow)) - [found.kernel(6).item(), 0])
    assert close(shift, -0.137, 0.003)
    assert close(shift, -0.13916)


@pytest.mark.parametrize(("width", "expected", "networks", "error"), [(64, 44.36, 44.4, 0.3), (32, 56.41, 56.4, 0.7)])
def test_relu_at_all_orders(width, expected, networks, error):
    """n Var / K^2 = n [(1 + 5/n)^(l-1) - 1] and E[Ghat] = K without bias; the leading order would be 35."""
    assert width * ((1 + 5 / width) ** 7 - 1) == pytest.approx(expected, abs=0.005)
    drawn = single("relu", 1.0, 8, width, 60_000, width, weight=2.0)[:, 7]
    assert close(mean(drawn), 1.0)
    squares = width * (drawn - 1) ** 2
    assert close(mean(squares), expected)
    assert close(mean(squares), networks, error)
    assert not close(mean(squares), 35.0)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_second_layer_is_exact_at_any_width(width):
    found = flow(MLP(1, "tanh"), inputs(TWO), width)
    drawn = found.pairs.of(sampler.metrics(MLP(1, "tanh"), inputs(TWO), width, seeds=50_000, seed=width))[:, 1]
    K = found.pairs.of(found.kernel(2))
    assert close(mean(drawn), K)
    centred = drawn - K
    assert close(mean(centred[:, :, None] * centred[:, None, :]), found.covariances[1])


@pytest.mark.slow
def test_weights_and_biases():
    """tanh of widths (16, 16, 16, 2): E[z^2], Cov(z_1^2, z_2^2) and E[z^4]_c, as networks and theory have them."""
    network = MLP(3, "tanh", weight_variances=1.2, bias_variances=0.05)
    found = flow(network, [[1.0, 1.0]], 16)
    assert found.metric(4).item() == pytest.approx(0.33482, abs=1e-5)
    assert found.connected(4, (0, 0, 1, 1)).item() == pytest.approx(0.00648, abs=1e-5)
    assert found.connected(4, (0, 0, 0, 0)).item() == pytest.approx(0.01944, abs=1e-5)
    z = sampler.outputs(network, [[1.0, 1.0]], 16, seeds=400_000, seed=2)[:, :, 0]
    square = mean(z[:, 0] ** 2)
    centred = z**2 - square[0]
    between, within = mean(centred[:, 0] * centred[:, 1]), mean(z[:, 0] ** 4 - 6 * square[0] * z[:, 0] ** 2)
    fourth = within[0] + 3 * square[0] ** 2, within[1]  # E[z^4] - 3 E[z^2]^2, varied in both averages
    for measured, networks, error, predicted in (
        (square, 0.3343, 0.0005, 0.33482),
        (between, 0.0065, 0.0003, 0.00648),
        (fourth, 0.0184, 0.0007, 0.01944),
    ):
        assert close(measured, networks, error)
        assert close(measured, predicted, bias=0.02 * predicted)
    assert not close(between, 0.0)
    assert not close(fourth, 0.0)


@pytest.mark.parametrize(("activation", "weight", "layers", "n"), [("tanh", 1.0, 8, 16), ("relu", 2.0, 5, 32)])
def test_extrapolation_removes_the_bias(activation, weight, layers, n):
    """2 Q(2n) - Q(n) of Q(n) = n Var(Ghat)."""
    draws = 60_000
    narrow, wide = (
        width * np.array(variance(single(activation, 1.0, layers, width, draws, width, weight)[:, -1]))
        for width in (n, 2 * n)
    )
    predicted = flow(MLP(layers - 1, activation, weight_variances=weight), [[weight**-0.5]], n).vertex(layers).item()
    assert not close(narrow, predicted)
    assert close(extrapolated(narrow, wide), predicted)


@pytest.mark.slow
def test_fluctuations_grow_with_depth():
    """Var(Ghat) / K^2 of tanh at n = 64: the leading order in 1/n is too large, more so in deeper layers."""
    drawn = single("tanh", 1.0, 32, 64, 400_000, 5)
    found = flow(MLP(31, "tanh"), [[1.0]], 64)
    gaps = []
    for layer, networks, leading in ((8, 0.0657, 0.0666), (16, 0.138, 0.1464), (32, 0.263, 0.3096)):
        square = found.kernel(layer).item() ** 2
        assert found.covariances[layer - 1].item() / square == pytest.approx(leading, abs=5e-5)
        value, error = np.array(variance(drawn[:, layer - 1])) / square
        # As many networks were drawn for the numbers above, which have three digits.
        assert close((value, error), networks, error, bias=5e-4)
        gaps.append(1 - value / leading)
    assert 0 < gaps[0] < gaps[1] < gaps[2]
    assert gaps[2] == pytest.approx(0.15, abs=0.02)


def test_deep_linear_networks_are_lognormal():
    """log Ghat has the mean -r and the variance 2r, r = 1/2, up to O(1/n)."""
    n, layer = 200, 101
    logarithm = np.log(DeepLinear((n,) * (layer - 1)).sample(60_000, layer, seed=6))
    average, spread = mean(logarithm), variance(logarithm)
    assert close(average, -0.5001, average[1])
    assert close(spread, 1.0039, spread[1])
    assert close(average, -0.5, bias=1 / n)
    assert close(spread, 1.0, bias=2 / n)
    # chi^2_n / n of every layer has the mean psi(n/2) - log(n/2) and the variance psi'(n/2) of the logarithm.
    assert close(average, 100 * (digamma(n / 2) - math.log(n / 2)))
    assert close(spread, 100 * polygamma(1, n / 2))
    metrics = np.log(single("linear", 1.0, layer, n, 2000, 6)[:, -1])
    assert close(mean(metrics), -0.5, bias=1 / n)
    assert close(variance(metrics), 1.0, bias=2 / n)


def fourth_cumulant(z):
    """E[z^4]_c of all neurons (they have the same law), and its standard error."""
    square = float(np.mean(z**2))
    value, error = mean(np.mean(z**4 - 6 * square * z**2, axis=1))
    return value + 3 * square**2, error


def test_law_of_the_weights():
    """Uniform weights have the same K; n E[z^4]_c differs by -(6/5) C_W^2 <s^4>, from E[W^4] = 9/5 instead of 3."""
    square, fourth = 0.394294490398, 0.252991883244  # <s^2>, <s^4> at K = 1
    gaussian = 3 * (fourth - square**2)
    for law, expected in (("normal", gaussian), ("uniform", gaussian - 1.2 * fourth)):
        means, cumulants = [], []
        for n in (16, 32):  # as many inputs as neurons: their weights are uniform, too
            z = sampler.outputs(MLP(1, "tanh"), np.ones((1, n)), n, seeds=20_000, seed=n, neurons=32, law=law)[:, :, 0]
            means.append(mean(np.mean(z**2, axis=1)))
            cumulants.append(n * np.array(fourth_cumulant(z)))
        assert close(extrapolated(*means), square)
        assert means[0][1] < 0.003 * square
        assert close(extrapolated(*cumulants), expected)
        assert cumulants[0][1] < 0.06


@pytest.mark.slow
def test_two_inputs_of_tanh():
    """n Cov(Ghat, Ghat) of the third layer at n = 64, and its limit."""
    narrow, wide = (
        Pairs.within(2).of(sampler.metrics(MLP(2, "tanh"), inputs(TWO), n, seeds=400_000, seed=n)[:, 2])
        for n in (64, 128)
    )
    found = flow(MLP(2, "tanh"), inputs(TWO), 64).vertex(3)
    places = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    for (a, b), networks in zip(places, (0.0675, 0.0384, 0.0134, 0.1071, 0.0390, 0.0749), strict=True):
        here, there = (
            n * np.array(mean((drawn[:, a] - drawn[:, a].mean()) * (drawn[:, b] - drawn[:, b].mean())))
            for n, drawn in ((64, narrow), (128, wide))
        )
        # As many networks were drawn for the numbers above, which have four digits.
        assert close(here, networks, here[1], bias=5e-5)
        assert close(extrapolated(here, there), found[a, b])


@pytest.mark.slow
def test_two_inputs_of_gelu():
    """n (E[Ghat] - K) of the fifth layer at n = 32."""
    point = critical_point("gelu")
    bias, weight = point.bias_variance, point.weight_variance
    network = MLP(4, "gelu", bias_variances=bias, weight_variances=weight)
    x = inputs(np.array([[3.0, 1.0], [1.0, 2.0]]), bias, weight)
    found = flow(network, x, 32)
    predicted, pairs = found.pairs.of(found.nlo_metric(5)), found.pairs
    np.testing.assert_allclose(predicted, (0.1204, -0.8514, 0.5463), atol=5e-5)
    narrow, wide = (
        n * (np.array(mean(pairs.of(drawn) - pairs.of(found.kernel(5)))))
        for n in (32, 64)
        for drawn in [sampler.metrics(network, x, n, seeds=400_000, seed=n)[:, 4]]
    )
    assert close(narrow, (0.097, -0.839, 0.545), narrow[1])
    assert close(extrapolated(narrow, wide), predicted)
    assert not np.any([close(narrow[:, entry], 0.0) for entry in (1, 2)])  # 0.12 is lost in the noise


# The sampler


def test_linear_sampler_has_the_exact_covariance():
    """Three samples in the two dimensions that they span, unequal widths and variances."""
    x = np.array([[1.0, 0.2], [0.3, -1.0], [1.3, -0.8]])
    network = MLP(2, "linear", weight_variances=(1.0, 0.5, 2.0))
    exact = DeepLinear((6, 3), (1.0, 0.5, 2.0))
    for drawn in (
        sampler.metrics(network, x, (6, 3), seeds=20_000, seed=0)[:, 2],
        sampler.networks(network, x, (6, 3), seeds=20_000, seed=1).metrics[:, 2],
    ):
        assert close(mean(drawn), exact.two_point(3, x @ x.T / 2))
        products = drawn[:, :, :, None, None] * drawn[:, None, None, :, :]
        assert close(mean(products), exact.metric_products(3, x @ x.T / 2))


def test_sampler_is_reproducible_and_agrees_with_weights():
    network, x = MLP(2, "tanh", weight_variances=1.2, bias_variances=0.05), inputs(TWO)
    one, two = (sampler.metrics(network, x, 6, seeds=20_000, seed=4) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    drawn = sampler.networks(network, x, 6, seeds=20_000, seed=5)
    pairs = Pairs.within(2)
    from_outputs = drawn.outputs[:, 0, pairs.rows] * drawn.outputs[:, 0, pairs.columns]
    fast = mean(pairs.of(one[:, 2]))
    assert close(mean(from_outputs), *fast)
    assert close(mean(pairs.of(drawn.metrics[:, 2])), *fast)
    np.testing.assert_allclose(drawn.metrics[:, 0], one[:, 0], rtol=1e-12)


def test_many_samples_in_one_batch_and_in_many():
    """More than four samples, of which two are the same, and batches of one network."""
    x = np.random.default_rng(0).normal(size=(6, 8))
    x[5] = x[2]
    network = MLP(2, "relu", weight_variances=2.0)
    drawn = sampler.metrics(network, x, 12, seeds=20_000, seed=0)[:, 2]
    np.testing.assert_allclose(drawn[:, 5], drawn[:, 2], rtol=1e-9, atol=1e-9)
    assert close(mean(drawn), flow(network, x, 12).metric(3), bias=0.02)
    assert len(sampler.metrics(network, x, 2**17, seeds=3, seed=0)) == 3


# Verdicts


@pytest.fixture(scope="module")
def small():
    return monte_carlo.check(MLP(7, "tanh"), [[1.0]], 24, seeds=40_000, seed=0)


def test_check_of_a_network(small):
    assert small.agrees, str(small)
    assert small["vertex"].measured.shape == (7, 1, 1)
    with pytest.raises(InvalidInput, match="correlator"):
        small["nothing"]
    data = small.summary()
    assert set(data.data_vars) == {"numbers", "largest_z", "relative_difference", "relative_higher_order", "noticed"}
    np.testing.assert_array_equal(data["numbers"], [7, 7, 7, 1])
    assert float(data["noticed"].sel(correlator="vertex")) == pytest.approx(4 * small["vertex"].resolution)


def test_printed_check(small):
    text = str(small)
    assert text.startswith("tanh, 8 layers, width 24, 1 input: 40000 networks drawn by their metrics")
    assert [line.split()[0] for line in text.splitlines()[3:7]] == ["metric", "vertex", "nlo_metric", "four_point"]
    noticed = 4 * small["vertex"].resolution
    assert "agrees: all 22 numbers are within 4 standard errors" in text
    assert f"A vertex off by {noticed:.1%}" in " ".join(text.split())
    assert "inf" not in text
    assert "nan" not in text


def test_checks_come_back_as_they_were(small, tmp_path):
    small.save(tmp_path / "check.nc")
    again = wf.load(tmp_path / "check.nc")
    assert type(again) is type(small)
    assert again.network == small.network
    assert_same_data(small.data, again.data)
    assert (again.seeds, again.threshold, again.explicit) == (40_000, 4.0, False)
    assert str(again) == str(small)
    np.testing.assert_array_equal(again["vertex"].z, small["vertex"].z)
    assert_same_data(small.flow.data, again.flow.data)
    assert (again.status, again.message) == ("complete", "")
    (axes,) = again.plot().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["metric", "vertex", "nlo metric", "four point"]
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    np.testing.assert_array_equal(drawn, np.concatenate([c.z.ravel() for c in small.correlators]))


def test_entries_of_several_inputs_keep_their_places():
    """Correlators of different shapes side by side, and out again."""
    network, x = critical("tanh", 3, TWO)
    theory = flow(network, x, 8)
    rng = np.random.default_rng(0)
    shapes = {"metric": (2, 3), "vertex": (2, 3, 3), "nlo_metric": (2, 3), "four_point": (3, 3)}
    made = [Correlator(name, *rng.normal(size=(5, *shape))) for name, shape in shapes.items()]
    found = Check.of(theory, made, seeds=100, threshold=3.0, explicit=True)
    assert found.data["predicted"].shape == (4, 18)
    for correlator in made:
        for name in ("predicted", "measured", "error", "higher_order", "limit_error"):
            np.testing.assert_array_equal(getattr(found[correlator.name], name), getattr(correlator, name))
    np.testing.assert_array_equal(found.flow.covariances, theory.covariances)
    with pytest.warns(DeprecationWarning, match="summary"):
        found.dataset()


def rescaled(**factors):
    """A theory whose arrays are multiplied."""
    names = ("kernels", "covariances", "shifts", "covariance_error", "shift_error")

    def wrong(*arguments, **options):
        theory = flow(*arguments, **options)
        arrays = {name: factors.get(name, 1.0) * getattr(theory, name) for name in names}
        return Flow.of(theory.network, theory.widths, **arrays)

    return wrong


def with_weights(C_W):
    return lambda network, *arguments, **options: flow(replace(network, weight_variances=C_W), *arguments, **options)


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        (rescaled(covariances=1.1), "vertex"),
        (rescaled(covariances=0.9), "vertex"),
        (rescaled(shifts=0.0), "nlo_metric"),
        (rescaled(kernels=1.01), "metric"),
        (with_weights(1.02), "metric"),
    ],
)
def test_wrong_theories_are_noticed(monkeypatch, small, wrong, culprit):
    assert small.agrees
    assert 4 * small["vertex"].resolution < 0.07
    monkeypatch.setattr(monte_carlo, "flow", wrong)
    found = monte_carlo.check(MLP(7, "tanh"), [[1.0]], 24, seeds=40_000, seed=0)
    assert not found.agrees
    assert found[culprit].worst > 4
    assert "DIFFERS" in str(found)


def test_interruption_leaves_nothing_behind(monkeypatch, small):
    """Ctrl-C stops between batches; the same check gives the same numbers afterwards."""
    batches = []

    def stopping(network, x, widths, *, seeds, seed, report):
        def interrupted(done):
            batches.append(done)
            report(done)
            if done > seeds // 4:
                raise KeyboardInterrupt

        return metrics(network, x, widths, seeds=seeds, seed=seed, report=interrupted)

    metrics = sampler.metrics
    with monkeypatch.context() as patch:
        patch.setattr(sampler, "metrics", stopping)
        with pytest.raises(KeyboardInterrupt):
            monte_carlo.check(MLP(7, "tanh"), [[1.0]], 24, seeds=40_000, seed=0, progress=True)
    assert len(batches) > 1
    assert batches[-1] < 20_000
    again = monte_carlo.check(MLP(7, "tanh"), [[1.0]], 24, seeds=40_000, seed=0)
    np.testing.assert_array_equal(again["vertex"].measured, small["vertex"].measured)


def test_progress(capsys):
    monte_carlo.check(MLP(1, "linear"), [[1.0]], 4, seeds=200, seed=0, progress=True)
    assert "400/400 networks" in capsys.readouterr().err
    monte_carlo.check(MLP(1, "linear"), [[1.0]], 4, seeds=200, seed=0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("options", "message"), [({"seed": -1}, "seed"), ({"explicit": 1}, "explicit")])
def test_bad_options(options, message):
    with pytest.raises(InvalidInput, match=message):
        monte_carlo.check(MLP(1), [[1.0]], 4, **{"seeds": 200, "seed": 0, **options})
