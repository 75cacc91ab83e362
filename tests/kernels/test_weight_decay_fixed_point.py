"""Where weight decay comes to rest: regression with the final NTK, at finite and infinite width, and in closed form."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import InvalidInput
from widefield.kernels import weight_decay_fixed_point

# Inputs with positive inner products and targets of one sign: no ReLU neuron comes to rest on its kink.
X = 1.4 * np.array([[1.0, 0.3, 0.0, 0.1], [0.6, -0.5, 0.9, 0.0], [0.2, 0.9, 0.3, 0.0], [0.5, 0.2, -0.4, 0.9]])
Y = np.array([1.0, 0.7])
SLOW = pytest.mark.slow


def problem(layers=1, activation="linear", *, steps=1200, y=Y, optimiser=None, rule=None, loss=None, **network):
    y = np.asarray(y)
    return wf.Problem(
        wf.MLP(layers, activation, **{"richness": 1.5, "centred": False, **network}),
        wf.Data(X[:2], y, X[2:], y[::-1]),
        rule=rule or wf.GradientDescent(),
        loss=loss or wf.SquaredError(),
        optimiser=optimiser or wf.SGD(0.1, steps, weight_decay=0.15, momentum=0.3),
        record=wf.Record(every=steps, neurons=0, test_kernels=True),
    )


def by_hand(kernel, cross, targets, ridge):
    return cross @ np.linalg.inv(kernel + ridge * np.eye(len(kernel))) @ targets


def check(trajectory, kappa, tolerance, *, seed=0):
    found = weight_decay_fixed_point(trajectory)
    assert found.degree == kappa
    assert found.residual < tolerance
    assert found.test_residual < tolerance
    data = trajectory.data.isel(time=-1)
    data = data.isel(seed=seed) if "seed" in data.dims else data
    mine = found.outputs.isel(seed=seed) if "seed" in found.outputs.dims else found.outputs
    expected = by_hand(data.ntk.values, data.ntk.values, data.targets.values, 0.15 * kappa)
    np.testing.assert_allclose(mine, expected, atol=1e-12)
    np.testing.assert_allclose(data.outputs, expected, atol=max(3 * tolerance, 1e-8))
    assert np.all(np.abs(data.outputs) > 0.3)  # and not the trivial fixed point


@pytest.mark.parametrize(
    ("layers", "activation"),
    [(2, "relu"), *(pytest.param(*case, marks=SLOW) for case in ((1, "linear"), (2, "linear"), (1, "relu")))],
)
def test_real_networks(layers, activation):
    """At any width, with momentum, training and test samples; what is left falls as exp(-lambda t)."""
    trajectory = wf.solve(problem(layers, activation), wf.FiniteWidth(48, seeds=2))
    check(trajectory, layers + 1, 1e-5, seed=1)


def test_one_hidden_layer_at_infinite_width():
    """Discrete steps, of which the fixed points are those of gradient flow."""
    trajectory = wf.solve(problem(), wf.TwoLayer(64, 1))
    check(trajectory, 2, 1e-6)
    early = wf.solve(problem(steps=15), wf.TwoLayer(64, 1))
    assert weight_decay_fixed_point(early).residual > 1e-3  # not at rest


@SLOW
@pytest.mark.parametrize(("layers", "activation"), [(1, "linear"), (2, "linear"), (1, "relu"), (2, "relu")])
def test_infinite_width(layers, activation):
    trajectory = wf.solve(problem(layers, activation, steps=800), wf.InfiniteWidth(512, 1))
    check(trajectory, layers + 1, 1e-3)


@SLOW
def test_gradient_flow_and_other_degrees():
    """phi = h^2 (kappa = 3), the mean loss, and gates, which are linear whatever opens them."""
    flow = wf.GradientFlow(120.0, 1, weight_decay=0.15)
    trajectory = wf.solve(
        dataclasses.replace(problem(optimiser=flow), record=wf.Record(test_kernels=True)), wf.TwoLayer()
    )
    check(trajectory, 2, 1e-6)
    gentle = wf.SGD(0.02, 8000, weight_decay=0.15)
    for settings, kappa, ridge in (
        ({"activation": "monomial(2)", "richness": 2.0, "steps": 8000, "optimiser": gentle}, 3, 0.15),
        ({"activation": "tanh", "rule": wf.GatedLinear()}, 2, 0.15),
        ({"loss": wf.SquaredError(reduction="mean"), "richness": 3.0}, 2, 0.3),
    ):
        trajectory = wf.solve(problem(**{"steps": 2000, **settings}), wf.FiniteWidth(48, seeds=1))
        found = weight_decay_fixed_point(trajectory)
        data = trajectory.data.isel(time=-1, seed=0)
        assert found.degree == kappa
        expected = by_hand(data.ntk.values, data.ntk.values, data.targets.values, ridge * kappa)
        np.testing.assert_allclose(data.outputs, expected, atol=1e-5)
        assert np.abs(data.outputs).max() > 0.2


def test_several_outputs():
    """The NTK has output axes."""
    y = np.array([[1.0, 0.3], [0.7, 0.9]])
    trajectory = wf.solve(problem(y=y), wf.TwoLayer(64, 1, method="sampled"))
    found = weight_decay_fixed_point(trajectory)
    data = trajectory.data.isel(time=-1)
    kernel, cross = data.ntk.values.reshape(4, 4), data.test_ntk.values.reshape(4, 4)
    np.testing.assert_allclose(found.outputs, by_hand(kernel, kernel, y.ravel(), 0.3).reshape(2, 2), atol=1e-12)
    np.testing.assert_allclose(found.test_outputs, by_hand(kernel, cross, y.ravel(), 0.3).reshape(2, 2), atol=1e-12)
    assert found.residual < 1e-6
    assert found.test_residual < 1e-6


@pytest.mark.parametrize("layers", [1, pytest.param(2, marks=SLOW), pytest.param(3, marks=SLOW)])
def test_deep_linear_networks_of_one_sample(layers):
    """Balanced layers: H^l = a^2l, G^l = a^(2 (L+1-l)), gamma_0 f = a^(L+1), a^(L-1) (gamma_0 y - a^(L+1)) = lambda."""
    gamma, decay, y = 2.0, 0.15, 1.0
    roots = np.roots([-1.0, *[0.0] * layers, gamma * y, *[0.0] * (layers - 1)] - np.eye(2 * layers + 1)[-1] * decay)
    a = max(root.real for root in roots if abs(root.imag) < 1e-9)
    asked = wf.Problem(
        wf.MLP(layers, "linear", richness=gamma, centred=False),
        wf.data.gram([[1.0]], [y]),
        optimiser=wf.SGD(0.05, 2400, weight_decay=decay),
        record=wf.Record(every=2400, neurons=0),
    )
    theory = wf.TwoLayer(64, 1, method="sampled") if layers == 1 else wf.FiniteWidth(32, seeds=1)
    trajectory = wf.solve(asked, theory)
    data = trajectory.data.isel(time=-1)
    level = np.arange(1, layers + 1)
    np.testing.assert_allclose(data.outputs.values.ravel(), a ** (layers + 1) / gamma, rtol=1e-5)
    np.testing.assert_allclose(data.feature_kernel.values.ravel(), a ** (2 * level), rtol=1e-5)
    np.testing.assert_allclose(data.gradient_kernel.values.ravel(), a ** (2 * (layers + 1 - level)), rtol=1e-5)
    kernel = (layers + 1) * a ** (2 * layers)
    predicted = kernel / (kernel + decay * (layers + 1)) * y
    assert float(weight_decay_fixed_point(trajectory).outputs.values.ravel()[0]) == pytest.approx(predicted, rel=1e-5)
    assert predicted == pytest.approx(a ** (layers + 1) / gamma, rel=1e-9)


def test_too_much_decay_leaves_nothing():
    """One hidden layer: f = y - lambda / gamma_0, or 0."""
    for decay, expected in ((0.5, 0.5), (1.5, 0.0)):
        asked = wf.Problem(
            wf.MLP(1, "linear", richness=1.0),
            wf.data.gram([[1.0]], [1.0]),
            optimiser=wf.SGD(0.05, 800, weight_decay=decay),
            record=wf.Record(every=800, neurons=0),
        )
        found = wf.solve(asked, wf.TwoLayer(64, 1, method="sampled"))
        assert float(found.data.outputs[-1, 0, 0]) == pytest.approx(expected, abs=1e-8)


@SLOW
def test_centred_networks_keep_their_initial_output():
    """f = k^T [K + lambda kappa]^-1 (y + f(0)) - f(0): the same residual as f(0) gives, smaller at larger width."""
    residuals = [
        weight_decay_fixed_point(wf.solve(problem(centred=True), wf.FiniteWidth(width, seeds=8))).residual
        for width in (16, 256)
    ]
    assert residuals[0] > 1e-2
    assert 2 < residuals[0] / residuals[1] < 8  # 4 on average


def test_what_it_refuses():
    answer = wf.solve(problem(steps=2), wf.TwoLayer(64, 1))
    decaying = {"learning_rate": 0.1, "steps": 2, "weight_decay": 0.1}
    for match, changed in (
        ("activation = 'tanh' is not homogeneous", problem(activation="tanh")),
        ("activation = 'perceptron'", problem(activation="perceptron")),
        ("weight_decay = 0", problem(optimiser=wf.SGD(0.1, 2))),
        ("rule = 'hebb'", problem(rule=wf.Hebb())),
        ("loss = 'huber'", problem(loss=wf.Huber())),
        ("train_biases", problem(train_biases=True)),
        ("batch_size = 1", problem(optimiser=wf.SGD(**decaying, batch_size=1))),
        ("temperature = 0.1", problem(optimiser=wf.SGD(**decaying, temperature=0.1))),
    ):
        with pytest.raises(InvalidInput, match=match):
            weight_decay_fixed_point(dataclasses.replace(answer, problem=changed))
    for match, missing in (("record.kernels = false", ["ntk"]), ("test_kernels=True", ["test_ntk"])):
        with pytest.raises(InvalidInput, match=match):
            weight_decay_fixed_point(dataclasses.replace(answer, data=answer.data.drop_vars(missing)))
    few = answer.data.isel(sample=slice(1), sample_=slice(1))
    with pytest.raises(InvalidInput, match=r"record.samples = 1"):
        weight_decay_fixed_point(dataclasses.replace(answer, data=few))
