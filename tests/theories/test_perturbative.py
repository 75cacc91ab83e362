"""Perturbation theory: exact at order gamma_0^2, so that its error falls as gamma_0^4 and that of static kernels as
gamma_0^2, against exact solutions of linear networks and quadrature of nonlinear ones."""

import numpy as np
import pytest

import widefield as wf
from references import particles as particle_reference
from widefield.base.errors import InvalidInput, NotAccurate
from widefield.theories import perturbative

K2 = np.array([[1.0, 0.5], [0.5, 1.2]])
Y2 = np.array([1.0, -0.6])
NAMES = ("outputs", "feature_kernel", "gradient_kernel", "ntk")
EXACT = wf.InfiniteWidth(128, 1, rank_tolerance=1e-7)  # of linear networks


def problem(layers, richness, *, activation="linear", y=Y2, loss=None, optimiser=None, every=8, K=K2, **network):
    x = np.sqrt(len(K)) * np.linalg.cholesky(K)
    tested = np.concatenate([x, 0.3 * x[:1]])
    y = np.asarray(y).reshape(len(K), -1)
    return wf.Problem(
        wf.MLP(layers, activation, richness=richness, **network),
        wf.Data(x, y, tested[-1:], y[:1]),
        loss=loss or wf.SquaredError(),
        optimiser=optimiser or wf.SGD(0.06, 8),
        record=wf.Record(every=every, neurons=0, test_kernels=True),
    )


def errors(asked, exact, theory):
    found = wf.solve(asked, theory).data
    names = (*NAMES, "test_outputs", "test_ntk")
    return np.array([float(np.abs(found[name] - exact[name]).max()) for name in names])


def exponents(make, theory, richness=(0.1, 0.2)):
    """log2 of how the error grows when the richness doubles."""
    each = []
    for gamma in richness:
        asked = make(gamma)
        each.append(errors(asked, wf.solve(asked, EXACT).data, theory))
    return np.log2(each[1] / each[0]) / np.log2(richness[1] / richness[0])


@pytest.mark.parametrize(
    "layers", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_errors_fall_with_the_richness(layers):
    """Outputs, kernels, NTK, training and test samples of linear networks, discrete steps."""
    small = exponents(lambda gamma: problem(layers, gamma), wf.Perturbative())
    static = exponents(lambda gamma: problem(layers, gamma), wf.Lazy())
    np.testing.assert_allclose(small, 4.0, atol=0.1)
    np.testing.assert_allclose(static, 2.0, atol=0.1)


CASES = {
    "variances, biases and widths": {
        "weight_variances": (1.2, 0.8, 1.3),
        "bias_variances": 0.2,
        "train_biases": True,
        "width_ratios": (2.0, 1.0),
    },
    "two outputs": {"y": np.array([[1.0, 0.3], [-0.6, 0.8]])},
    "minibatches": {"optimiser": wf.SGD(0.1, 8, batch_size=1)},
    "another loss": {"y": [1.0, -1.0], "loss": wf.Logistic()},
    "gradient flow": {"optimiser": wf.GradientFlow(t_end=0.6, steps=2, tolerance=1e-6), "every": 1},
}


@pytest.mark.parametrize(
    "case", [case if case == "two outputs" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_sampled_corrections_are_exact_for_linear_networks(case, monkeypatch):
    """The general theory, whose averages are exact where fields are linear in the sources, for all kinds of problem."""
    monkeypatch.setattr(perturbative, "_closed", lambda problem: False)
    richness = (0.4, 0.8) if case == "gradient flow" else (0.1, 0.2)
    found = exponents(lambda gamma: problem(2, gamma, **CASES[case]), wf.Perturbative(64, 2), richness)
    np.testing.assert_allclose(found, 4.0, atol=0.5 if case == "gradient flow" else 0.15)


def test_closed_form_and_sampled_averages_agree(monkeypatch):
    closed = wf.solve(problem(3, 0.3), wf.Perturbative()).data
    monkeypatch.setattr(perturbative, "_closed", lambda problem: False)
    sampled = wf.solve(problem(3, 0.3), wf.Perturbative(64, 2)).data
    for name in NAMES:
        np.testing.assert_allclose(sampled[name], closed[name], atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_ntk_of_linear_networks(layers):
    """[K(gamma_0) - K(0)] / gamma_0^2 at gamma_0 = 0.02, by the explicit formula of the whole NTK."""
    data = wf.solve(problem(layers, 0.02), wf.Perturbative()).data
    delta, v, pairs = Y2.copy(), np.zeros(2), np.zeros((2, 2))
    for _ in range(8):
        pairs, v = pairs + 0.06 * np.outer(delta, v), v + 0.06 * delta
        delta = delta - 0.06 * (layers + 1) * K2 @ delta
    S = K2 @ (pairs + pairs.T + np.outer(v, v)) @ K2
    s = np.trace(K2 @ (pairs + pairs.T)) + v @ K2 @ v
    expected = layers * (layers + 1) ** 2 * (layers + 2) / 12 * (S + K2 * s)
    np.testing.assert_allclose((data.ntk[-1] - data.ntk[0]) / 0.02**2, expected, rtol=5e-4)


@pytest.mark.parametrize(
    ("layers", "steps", "spacing"), [(2, 3, 0.25), pytest.param(3, 2, 0.4, marks=pytest.mark.slow)]
)
def test_tanh_against_quadrature(layers, steps, spacing):
    """One sample, several layers: responses and their equal-time part matter. Error falls as gamma_0^4."""
    each, static = [], []
    for gamma in (0.15, 0.3):
        exact = particle_reference.deep_single_point(
            1.0, 1.0, depth=layers, activation="tanh", gamma0=gamma, eta=0.4, steps=steps, spacing=spacing
        )
        settings = {"y": [1.0], "K": np.ones((1, 1)), "optimiser": wf.SGD(0.4, steps), "every": 1}
        asked = problem(layers, gamma, activation="tanh", **settings)
        parts = [exact["f"]] + [
            np.stack([np.diag(kernel) for kernel in exact[name]], axis=1) for name in ("features", "gradients")
        ]
        for found, out in ((wf.solve(asked, wf.Perturbative(2**15, 2)), each), (wf.solve(asked, wf.Lazy()), static)):
            pairs = zip(NAMES, parts, strict=False)
            out.append([np.abs(np.asarray(found.data[name]).reshape(part.shape) - part).max() for name, part in pairs])
    np.testing.assert_allclose(np.log2(np.divide(*each[::-1])), 4.0, atol=0.5)
    np.testing.assert_allclose(np.log2(np.divide(*static[::-1])), 2.0, atol=0.3)


def test_two_layers_against_quadrature():
    """Two samples, one hidden layer, with biases and variances; error bars hold."""
    settings = {"weight_variances": (1.3, 0.8), "bias_variances": (0.2, 0.1), "train_biases": True}
    differences = []
    for gamma in (0.2, 0.4):
        exact = particle_reference.two_layer(K2, Y2, activation="tanh", gamma0=gamma, eta=0.2, steps=4, **settings)
        asked = problem(1, gamma, activation="tanh", optimiser=wf.SGD(0.2, 4), every=1, **settings)
        data = wf.solve(asked, wf.Perturbative(2**13, 4)).data
        differences.append(np.abs(data.feature_kernel - exact.features.reshape(data.feature_kernel.shape)).max())
        assert np.all(np.abs(data.outputs[..., 0] - exact.f) < 4 * data.outputs_error[..., 0] + 0.4 * gamma**4)
    assert 3.4 < np.log2(differences[1] / differences[0]) < 4.6


def test_where_it_does_not_apply():
    with pytest.warns(NotAccurate, match="richness = 3"):
        wf.solve(problem(2, 3.0), wf.Perturbative())
    for match, change in (
        ("activation = 'relu': it has a kink", {"activation": "relu"}),
        ("momentum = 0.5", {"optimiser": wf.SGD(0.1, 2, momentum=0.5)}),
        ("weight_decay = 0.1", {"optimiser": wf.SGD(0.1, 2, weight_decay=0.1)}),
    ):
        with pytest.raises(InvalidInput, match=match):
            wf.solve(problem(1, 0.1, **change), wf.Perturbative())
    with pytest.raises(InvalidInput, match="published = true"):
        wf.solve(problem(1, 0.1, activation="tanh"), wf.Perturbative(published=True))
    with pytest.raises(InvalidInput, match="particles = 4 must exceed"):
        wf.solve(problem(1, 0.1, activation="tanh"), wf.Perturbative(particles=4))
    asked = problem(1, 0.1)
    asked = wf.Problem(asked.network, asked.data, rule=wf.Hebb(), optimiser=asked.optimiser)
    with pytest.raises(InvalidInput, match="rule = 'hebb': known are gradient-descent"):
        wf.solve(asked, wf.Perturbative())
