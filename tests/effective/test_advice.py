"""Advice on initialisation, depth and width: numbers, words, snippets and the command."""

import ast
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield import cli
from widefield.activations import get
from widefield.effective import plots
from widefield.effective.advice import advise
from widefield.effective.aspect_ratio import critical_block
from widefield.effective.critical_points import NotCritical
from widefield.effective.residual import BlockLayer, residual_flow
from widefield.effective.residual_sampler import sample_residual


def test_relu_is_known_in_closed_form():
    """Kaiming's variance, signals and gradients of constant size, V / K^2 = 5 (l - 1)."""
    advice = advise("relu", 20, 500)
    assert advice.first == advice.hidden == advice.output == BlockLayer(0.0, 2.0)
    np.testing.assert_allclose(advice.kernels, 2.0)
    np.testing.assert_allclose(advice.gradients, 1.0)
    np.testing.assert_allclose(advice.kernel_deviation, np.sqrt(5 * np.arange(20) / 500))
    assert advice.optimal_aspect_ratio == pytest.approx(4 / 50 / 5)  # 4 / (20 + 3 n_L) / nu
    assert "keep their size at any depth" in advice.verdict
    assert "too deep for its width; take a width of 1250, or 8 layers, or add skip connections" in advice.verdict


def test_gelu_starts_at_its_fixed_point():
    advice = advise("gelu", 24, 512)
    variances = (advice.hidden.weight_variance, advice.hidden.bias_variance)
    assert variances == pytest.approx((1.98305825743755, 0.172922390756067), abs=1e-11)
    assert advice.first.weight_variance + advice.first.bias_variance == pytest.approx(
        (3 + math.sqrt(17)) / 2, abs=1e-10
    )
    np.testing.assert_allclose(advice.kernels, advice.kernels[0], rtol=1e-9)
    np.testing.assert_allclose(advice.gradients, 1.0, rtol=1e-9)


def test_tanh_decays_as_a_power():
    """K' = <tanh(sqrt(K) z)^2> from layer to layer; gradients fall by <tanh'(sqrt(K) z)^2>."""
    advice = advise("tanh", 400, 4000)
    z = np.linspace(-9.0, 9.0, 181)  # of the trapezium rule, exact to rounding
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    kernels, slopes = [advice.kernels[0]], []
    for _ in range(399):
        squares = np.tanh(np.sqrt(kernels[-1]) * z) ** 2
        kernels.append(weights @ squares)
        slopes.append(weights @ (1 - squares) ** 2)
    np.testing.assert_allclose(advice.kernels, kernels, rtol=1e-9)
    np.testing.assert_allclose(advice.gradients, [*np.cumprod(slopes[::-1])[::-1], 1.0], rtol=1e-9)
    assert "shrink like powers of the depth" in advice.verdict


def test_skip_connections_make_a_deep_network_a_good_shape():
    plain, skipping = advise("tanh", 60, 200), advise("tanh", 60, 200, residual=True)
    assert plain.skip == 0.0
    assert "too deep" in plain.verdict
    assert skipping.skip > 0.5
    np.testing.assert_allclose(skipping.hidden.weight_variance, 1 - skipping.skip**2, rtol=1e-12)
    assert skipping.optimal_aspect_ratio == pytest.approx(skipping.aspect_ratio, rel=1e-6)
    assert "L/n = 0.3 is optimal" in skipping.verdict
    assert f"W s(z) + b + {skipping.skip:.4g} z" in skipping.verdict
    assert skipping.kernel_deviation[-1] < plain.kernel_deviation[-1]


def test_words_follow_the_numbers():
    assert "nearly alike" in advise("relu", 2, 5000).verdict
    assert "close to a Gaussian process" in advise("relu", 2, 5000).verdict
    assert "a world of its own" in advise("relu", 50, 100).verdict
    assert "a good shape" in advise("tanh", 20, 200).verdict
    assert "larger ones drift back to it and slightly smaller ones away" in advise("gelu", 5, 500).verdict
    assert "smaller ones drift back to it and slightly larger ones away" in advise("swish", 5, 500).verdict
    assert "rough guide at best" in advise("relu", 5, 3).verdict
    assert "one layer" in advise("relu", 1, 100).verdict
    assert "Skip connections would not help" in advise("linear", 5, 500, residual=True).verdict
    assert "No layer has a skip connection" in advise("linear", 2, 500, residual=True).verdict
    assert "the largest fluctuations" in advise("relu", 5, 500, residual=True).verdict


@pytest.mark.parametrize("name", ["softplus", "sigmoid", "monomial(2)"])
def test_no_advice_without_a_critical_point(name):
    with pytest.raises(NotCritical, match="no critical initialisation"):
        advise(name, 10, 100)


@pytest.mark.parametrize(("name", "depth", "residual"), [("relu", 4, True), ("gelu", 3, False), ("relu", 1, False)])
def test_snippets(name, depth, residual):
    """The one for Equinox is run; the variances of its weights and biases are those of the advice.

    Within 4 standard errors sqrt(2 / count): an error of 2% in the weights or 3.3% in the biases is noticed.
    """
    advice = advise(name, depth, 30, residual=residual)
    snippets = advice.snippets()
    assert list(snippets) == ["PyTorch", "Flax", "Equinox"]
    for code in snippets.values():
        ast.parse(code)
    keys = jax.random.split(jax.random.key(1), depth)
    layers = [eqx.nn.Linear(3, 30_000, key=key) for key in keys]
    scope = {"jax": jax, "eqx": eqx, "key": jax.random.key(0), "layers": layers}
    exec(snippets["Equinox"], scope)
    expected = [advice.first, *[advice.hidden] * (depth - 2), advice.output][:depth]
    assert len(scope["layers"]) == len(expected) == depth
    for layer, variances in zip(scope["layers"], expected, strict=True):
        assert float(jnp.mean(layer.weight**2)) * 3 == pytest.approx(
            variances.weight_variance, rel=4 * math.sqrt(2 / 90_000)
        )
        assert float(jnp.mean(layer.bias**2)) == pytest.approx(
            variances.bias_variance, rel=4 * math.sqrt(2 / 30_000), abs=0
        )
    assert ("* z between" in snippets["PyTorch"]) == residual


@pytest.mark.parametrize(("name", "residual"), [("relu", False), ("gelu", True), ("tanh", True)])
def test_signals_and_gradients_of_explicit_networks(name, residual):
    """Weights drawn with the variances: mean squares of all layers, and of the gradients, within 4 standard errors."""
    advice, n, networks = advise(name, 6, 20, residual=residual), 100, 150
    s, slope = get(name).derivative(0), get(name).derivative(1)
    generator = np.random.default_rng(7)
    layers = [advice.first, *[advice.hidden] * 4, advice.output]
    skips = [0.0, *[advice.skip] * 4, 0.0]
    found, backwards = np.zeros((2, networks, 6))
    for network in range(networks):
        weights = [math.sqrt(layer.weight_variance / n) * generator.normal(size=(n, n)) for layer in layers]
        x, z, history = generator.choice([-1.0, 1.0], n), np.zeros(n), []
        for layer, W, gamma in zip(layers, weights, skips, strict=True):
            below = np.asarray(s(z), dtype=np.float64) if history else x
            z = W @ below + math.sqrt(layer.bias_variance) * generator.normal(size=n) + gamma * z
            history.append(z)
        found[network] = [np.mean(z**2) for z in history]
        gradient = generator.normal(size=n)
        for row in range(5, -1, -1):
            backwards[network, row] = np.mean(gradient**2)
            if row:
                here = np.asarray(slope(history[row - 1]), dtype=np.float64)
                gradient = here * (weights[row].T @ gradient) + skips[row] * gradient
    for values, expected in ((found, advice.kernels), (backwards, advice.gradients)):
        error = values.std(0) / math.sqrt(networks)
        assert np.all(np.abs(values.mean(0) - expected) < 4 * error + expected / n)
    assert (advice.skip > 0.5) == residual


@pytest.mark.slow
@pytest.mark.parametrize("residual", [False, True])
def test_real_networks_scatter_as_predicted(residual):
    """Widths 64 and 128: the scatter of networks, extrapolated, against the advice."""
    advice = advise("relu", 6, 128, residual=residual)
    block = critical_block("relu", advice.skip)
    rates = []
    for width in (64, 128):
        sample = sample_residual("relu", advice.kernels[0], 5, advice.skip, block, width=width, seeds=40_000)
        rates.append(np.array([part[-1] for part in sample.vertex]) / sample.kernel.value[-1] ** 2)
    value, error = 2 * rates[1][0] - rates[0][0], math.hypot(2 * rates[1][1], rates[0][1])
    assert abs(value - 128 * advice.kernel_deviation[-2] ** 2) < 4 * error
    top = residual_flow("relu", advice.kernels[0], 5, advice.skip, block).readout(advice.output)
    assert advice.kernel_deviation[-1] == pytest.approx(math.sqrt(top.fluctuation[-1] / 128))


def test_bad_input():
    with pytest.raises(wf.InvalidInput, match="depth = 0"):
        advise("relu", 0, 100)
    with pytest.raises(wf.InvalidInput, match="width"):
        advise("relu", 10, -3)
    with pytest.raises(wf.UnknownName, match="gelo"):
        advise("gelo", 10, 100)
    with pytest.raises(wf.InvalidInput, match="outputs = 1"):
        advise("relu", 10, 100, outputs=1)


def test_command_line(tmp_path, capsys, monkeypatch):
    figure = tmp_path / "advice.png"
    arguments = ["widefield", "advise", "--activation", "relu", "--depth", "10", "--width", "1000"]
    monkeypatch.setattr("sys.argv", [*arguments, "--plot", str(figure)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for words in ("scale-invariant class", "N(0, 2 / fan-in)", "[2.0] * 10", "PyTorch", "Equinox", "optimal 0.016"):
        assert words in printed
    assert figure.stat().st_size > 10_000
    monkeypatch.setattr("sys.argv", [*arguments[:3], "softplus", *arguments[4:]])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "In plain words" in capsys.readouterr().err


@pytest.mark.parametrize("depth", [1, 2, 300])
def test_figures_of_any_depth(depth):
    figure = plots.advice(advise("tanh", depth, 50, outputs=3))
    sizes, spread, shape = figure.axes
    assert sizes.get_yscale() == ("log" if depth == 300 else "linear")
    assert spread.get_ylim()[1] >= 100 * advise("tanh", depth, 50).kernel_deviation[-1]
    assert shape.get_ylim()[1] > shape.lines[0].get_ydata().max() > 0


def test_figure_marks_a_network_that_is_off_the_axis():
    figure = plots.advice(advise("relu", 50, 100))
    labels = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert any("outside" in label for label in labels)
