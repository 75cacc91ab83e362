"""Advice on initialisation, depth and width: numbers, words, snippets and the command."""

import ast
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import widefield as wf
from widefield import cli
from widefield.effective import plots
from widefield.effective.advice import advise
from widefield.effective.aspect_ratio import critical_block
from widefield.effective.criticality import NotCritical
from widefield.effective.residual_sampler import sample_residual


def test_relu_is_known_in_closed_form():
    """Kaiming's variance, signals and gradients of constant size, V / K^2 = 5 (l - 1)."""
    advice = advise("relu", 20, 500)
    assert (advice.weight_variance, advice.bias_variance, advice.first_weight_variance) == (2.0, 0.0, 2.0)
    np.testing.assert_allclose(advice.kernels, 2.0)
    np.testing.assert_allclose(advice.gradients, 1.0)
    np.testing.assert_allclose(advice.fluctuations, np.sqrt(5 * np.arange(20) / 500))
    assert advice.optimal_ratio == pytest.approx(4 / 50 / 5)  # 4 / (20 + 3 n_L) / nu
    assert "keep their size at any depth" in advice.verdict
    assert "too deep for its width; make it wider, or add skip connections" in advice.verdict


def test_gelu_starts_at_its_fixed_point():
    advice = advise("gelu", 24, 512)
    assert advice.weight_variance == pytest.approx(1.98305825743755, abs=1e-11)
    assert advice.bias_variance == pytest.approx(0.172922390756067, abs=1e-11)
    assert advice.first_weight_variance + advice.bias_variance == pytest.approx((3 + math.sqrt(17)) / 2, abs=1e-10)
    np.testing.assert_allclose(advice.kernels, advice.kernels[0], rtol=1e-9)
    np.testing.assert_allclose(advice.gradients, 1.0, rtol=1e-9)


def test_tanh_decays_as_a_power():
    """K -> 1 / (2 l), and chi_perp = 1 - 1/l makes gradients fall likewise."""
    advice = advise("tanh", 400, 4000)
    assert 2 * 400 * advice.kernels[-1] == pytest.approx(1.0, abs=0.03)
    slopes = [float(np.mean(1 / np.cosh(np.sqrt(K) * _normals()) ** 4)) for K in advice.kernels[-3:-1]]
    np.testing.assert_allclose(advice.gradients[-3:-1], (slopes[0] * slopes[1], slopes[1]), rtol=1e-3)
    assert "shrink like powers of the depth" in advice.verdict


def _normals():
    return ndtri((np.arange(200_000) + 0.5) / 200_000)


def test_skip_connections_make_a_deep_network_a_good_shape():
    plain, skipping = advise("tanh", 60, 200), advise("tanh", 60, 200, residual=True)
    assert plain.gamma == 0.0
    assert "too deep" in plain.verdict
    assert skipping.gamma > 0.5
    assert skipping.weight_variance == pytest.approx(1 - skipping.gamma**2)
    assert skipping.optimal_ratio == pytest.approx(skipping.ratio, rel=1e-6)
    assert "a good shape" in skipping.verdict
    assert skipping.fluctuations[-1] < plain.fluctuations[-1]


def test_words_follow_the_numbers():
    assert "nearly alike" in advise("relu", 2, 5000).verdict
    assert "close to a Gaussian process" in advise("relu", 2, 5000).verdict
    assert "a world of its own" in advise("relu", 50, 100).verdict


@pytest.mark.parametrize("name", ["softplus", "sigmoid", "monomial(2)"])
def test_no_advice_without_a_critical_point(name):
    with pytest.raises(NotCritical, match="no critical initialisation"):
        advise(name, 10, 100)


@pytest.mark.parametrize("name", ["gelu", "tanh"])
def test_snippets(name):
    advice = advise(name, 10, 300)
    snippets = advice.snippets()
    assert list(snippets) == ["PyTorch", "Flax", "Equinox"]
    for code in snippets.values():
        ast.parse(code)
        assert repr(advice.weight_variance) in code
    scope = {"jax": jax, "eqx": eqx, "key": jax.random.key(0), "layer": eqx.nn.Linear(400, 300, key=jax.random.key(1))}
    exec(snippets["Equinox"], scope)
    layer = scope["layer"]
    assert float(jnp.var(layer.weight)) * 400 == pytest.approx(advice.weight_variance, rel=0.02)
    assert float(jnp.var(layer.bias)) == pytest.approx(advice.bias_variance, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("residual", [False, True])
def test_real_networks_scatter_as_predicted(residual):
    """Widths 64 and 128: the scatter of networks, extrapolated, against the advice."""
    advice = advise("relu", 6, 128, residual=residual)
    block = critical_block("relu", advice.gamma)
    rates = []
    for width in (64, 128):
        sample = sample_residual("relu", advice.kernels[0], 6, advice.gamma, block, width=width, networks=40_000)
        rates.append(np.array([part[-1] for part in sample.vertex]) / sample.kernel.value[-1] ** 2)
    value, error = 2 * rates[1][0] - rates[0][0], math.hypot(2 * rates[1][1], rates[0][1])
    assert abs(value - 128 * advice.fluctuations[-1] ** 2) < 4 * error


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
    for words in ("scale-invariant class", "N(0, 2 / fan-in)", "PyTorch", "Flax", "Equinox", "optimal 0.016"):
        assert words in printed
    assert figure.stat().st_size > 10_000
    monkeypatch.setattr("sys.argv", [*arguments[:3], "softplus", *arguments[4:]])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "no critical initialisation" in capsys.readouterr().err


def test_figure_marks_a_network_that_is_off_the_axis():
    figure = plots.advice_plot(advise("relu", 50, 100))
    labels = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert any("outside" in label for label in labels)
