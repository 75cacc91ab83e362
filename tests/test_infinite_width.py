"""Infinite width against closed forms, tabulated oracles and real networks."""

import numpy as np
import pytest

import linear_reference
import particle_reference
import widefield as wf

PAIR = [[1.0, 0.5], [0.5, 1.0]]


def solved(
    rule=None, *, layers, kernel=((1.0,),), y=(1.0,), rate=0.05, steps=20, activation="linear", theory=None, **network
):
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, **{"richness": 1.0, **network}),
        data=wf.data.gram(kernel=kernel, y=y),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(learning_rate=rate, steps=steps),
        record=wf.Record(every=1, neurons=0),
    )
    return wf.solve(problem, theory).data


SHARP = wf.InfiniteWidth(particles=256, replicas=2, rank_tolerance=1e-7)
X = np.array([[1.0, 0.3, -0.4], [0.2, -1.1, 0.5], [0.7, 0.6, 0.9]])
Y = np.array([1.0, -0.5, 0.8])

# Everything that the optimiser and the network can do, as options of the problem and of the independent solver.
VARIANTS = {
    "plain, L = 1": ({"layers": 1}, {}),
    "plain, L = 2": ({"layers": 2}, {}),
    "plain, L = 5": ({"layers": 5, "steps": 6}, {}),
    "feedback alignment, rho = 0": ({"rule": wf.FeedbackAlignment(0.0)}, {"rule": "fa", "rho": 0.0}),
    "feedback alignment, rho = 0.5": ({"rule": wf.FeedbackAlignment(0.5)}, {"rule": "fa", "rho": 0.5}),
    "feedback alignment, rho = 1": ({"rule": wf.FeedbackAlignment(1.0)}, {"rule": "fa", "rho": 1.0}),
    "direct feedback alignment": ({"rule": wf.DirectFeedbackAlignment()}, {"rule": "dfa"}),
    "Hebb": ({"rule": wf.Hebb()}, {"rule": "hebb"}),
    "momentum and decay": ({"momentum": 0.6, "weight_decay": 0.4}, {"momentum": 0.6, "decay": 0.4}),
    "unequal widths and variances": (
        {"width_ratios": (2.0, 0.5, 1.0), "weight_variances": (1.3, 0.8, 1.2, 0.7)},
        {"width_ratios": (2.0, 0.5, 1.0), "weight_variances": (1.3, 0.8, 1.2, 0.7)},
    ),
    "trained biases": (
        {"train_biases": True, "bias_variances": 0.3},
        {"train_biases": True, "bias_variances": 0.3},
    ),
    "minibatches": ({"batch_size": 2}, {}),
    "everything, feedback alignment": (
        {
            "rule": wf.FeedbackAlignment(0.4),
            "momentum": 0.5,
            "weight_decay": 0.2,
            "batch_size": 2,
            "width_ratios": (1.0, 2.0, 0.5),
            "train_biases": True,
            "bias_variances": 0.2,
        },
        {
            "rule": "fa",
            "rho": 0.4,
            "momentum": 0.5,
            "decay": 0.2,
            "width_ratios": (2.0, 4.0, 1.0),
            "train_biases": True,
            "bias_variances": 0.2,
        },
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_linear_networks_equal_the_closed_equations(name):
    """Outputs and all kernels, with no dependence on the draws."""
    options, reference = VARIANTS[name]
    options = dict(options)
    layers, steps = options.pop("layers", 3), options.pop("steps", 8)
    rule = options.pop("rule", wf.GradientDescent())
    network = {key: options.pop(key) for key in list(options) if key in wf.MLP.__dataclass_fields__}
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation="linear", richness=1.2, **network),
        data=wf.Data(X, Y),
        rule=rule,
        optimiser=wf.SGD(learning_rate=0.06, steps=steps, **options),
        record=wf.Record(every=2, neurons=0),
    )
    batches = problem.optimiser.batches(3)
    mask = None
    if batches is not None:
        mask = np.zeros((steps, 3))
        np.put_along_axis(mask, batches, 1.0, axis=1)
    expected = linear_reference.sweep(
        X @ X.T / 3, Y, depth=layers, gamma0=1.2, eta=0.06, steps=steps, batches=mask, **reference
    )
    data = wf.solve(problem, SHARP).data
    chosen = data["step"].values
    close = {"rtol": 0, "atol": 2e-8}
    np.testing.assert_allclose(data.outputs.values[:, :, 0], expected.f[chosen], **close)
    for ours, theirs in {
        "feature_kernel": "features",
        "gradient_kernel": "gradients",
        "alignment_kernel": "alignment",
        "pseudo_gradient_kernel": "pseudo",
    }.items():
        np.testing.assert_allclose(data[ours].values, expected.equal_time(theirs)[chosen], **close, err_msg=ours)
        assert float(data[f"{ours}_error"].max()) < 1e-10, ours
    np.testing.assert_allclose(data.ntk.values, expected.ntk()[chosen], **close)


def test_several_outputs_of_a_linear_network():
    targets = np.array([[1.0, -0.5], [0.3, 0.8], [-1.0, 0.2]])
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="linear", richness=1.2),
        data=wf.Data(X, targets),
        optimiser=wf.SGD(learning_rate=0.06, steps=6),
        record=wf.Record(every=3, neurons=0),
    )
    expected = linear_reference.sweep(X @ X.T / 3, targets, depth=2, gamma0=1.2, eta=0.06, steps=6)
    data = wf.solve(problem, SHARP).data
    np.testing.assert_allclose(data.outputs.values, expected.f[::3], rtol=0, atol=2e-8)
    np.testing.assert_allclose(data.gradient_kernel.values, expected.equal_time("gradients")[::3], rtol=0, atol=2e-8)


def within(trajectory, name, index, expected, slack):
    """At 4 standard errors of the solution plus that of the oracle."""
    value = trajectory[name].values[index]
    error = trajectory[f"{name}_error"].values[index]
    np.testing.assert_array_less(np.abs(value - np.asarray(expected)), 4 * error + slack)


DEEP = {
    "gd": wf.GradientDescent(),
    "fa": wf.FeedbackAlignment(0.5),
    "dfa": wf.DirectFeedbackAlignment(),
    "hebb": wf.Hebb(),
}


@pytest.mark.parametrize("rule", DEEP)
def test_two_hidden_tanh_layers_against_quadrature(rule):
    """One sample, every kernel; the quadrature is good to 1e-4 here."""
    expected = particle_reference.deep_single_point(
        1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.1, steps=3, rule=rule, rho=0.5
    )
    theory = wf.InfiniteWidth(particles=4096, replicas=8)
    data = solved(DEEP[rule], layers=2, activation="tanh", richness=1.5, rate=0.1, steps=3, theory=theory)
    within(data, "outputs", np.s_[1:, 0, 0], expected["f"][1:], 1e-4)
    for ours, theirs in {
        "feature_kernel": "features",
        "gradient_kernel": "gradients",
        "alignment_kernel": "alignment",
        "pseudo_gradient_kernel": "pseudo",
    }.items():
        within(data, ours, np.s_[3, :, 0, 0], [kernel[3, 3] for kernel in expected[theirs]], 1e-4)
        assert float(data[f"{ours}_error"].max()) < 3e-3, ours


def test_large_steps_with_two_hidden_tanh_layers():
    """gamma_0 = 1.5, eta = 0.3, K = y = 1, converged values of the same quadrature."""
    theory = wf.InfiniteWidth(particles=4096, replicas=8)
    data = solved(layers=2, activation="tanh", richness=1.5, rate=0.3, steps=3, theory=theory)
    within(data, "outputs", np.s_[1:, 0, 0], [0.21163349, 0.35121154, 0.46689408], 1e-5)
    within(data, "feature_kernel", np.s_[3, :, 0, 0], [0.4768767, 0.4052079], 1e-5)
    within(data, "gradient_kernel", np.s_[3, :, 0, 0], [0.0623358, 0.3127570], 1e-5)
    assert float(data.outputs_error.max()) < 3e-4


def test_one_hidden_tanh_layer():
    """Converged trapezoidal values for P = 1, K = y = 1, gamma_0 = 2, eta = 0.1."""
    theory = wf.InfiniteWidth(particles=4096, replicas=8)
    data = solved(layers=1, activation="tanh", richness=2.0, rate=0.1, steps=10, theory=theory)
    within(data, "outputs", np.s_[[1, 5, 10], 0, 0], [0.084770378525, 0.335843561408, 0.550863837313], 1e-6)
    within(data, "feature_kernel", np.s_[[0, 10], 0, 0, 0], [0.3942944906, 0.602479078446], 1e-6)
    within(data, "gradient_kernel", np.s_[[0, 10], 0, 0, 0], [0.4644028952, 0.171835868362], 1e-6)


def test_one_hidden_relu_layer_on_two_points():
    theory = wf.InfiniteWidth(particles=8192, replicas=8)
    for kind, rule in {"gd": wf.GradientDescent(), "fa": wf.FeedbackAlignment(0.5)}.items():
        expected = particle_reference.two_layer_relu(
            np.array(PAIR), np.array([1.0, -1.0]), gamma0=1.5, eta=0.1, steps=6, rule=kind, rho=0.5
        )
        data = solved(
            rule, layers=1, kernel=PAIR, y=(1, -1), activation="relu", richness=1.5, rate=0.1, steps=6, theory=theory
        )
        within(data, "outputs", np.s_[1:, :, 0], expected.f[1:], 1e-6)
        within(data, "feature_kernel", np.s_[6, 0], expected.features[6], 1e-6)
        within(data, "gradient_kernel", np.s_[6, 0], expected.gradients[6], 1e-6)


def test_gated_linear_network():
    """Exact sum over gate patterns, P = 2, y = (1, -1), L = 2, gamma_0 = 1, eta = 0.1."""
    theory = wf.InfiniteWidth(particles=8192, replicas=8)
    data = solved(
        wf.GatedLinear(), layers=2, kernel=PAIR, y=(1.0, -1.0), rate=0.1, steps=10, activation="relu", theory=theory
    )
    within(data, "outputs", np.s_[[1, 2, 5, 10], 0, 0], [0.0583333333, 0.1154309082, 0.3100816076, 0.7260164140], 1e-6)
    within(data, "feature_kernel", np.s_[10, 1, 0], [0.8079025706, -0.1318288021], 1e-6)
    within(data, "gradient_kernel", np.s_[10, 0, 0], [1.1528084821, 0.5571272456], 1e-6)


def test_small_richness_is_the_kernel_regime():
    """Outputs follow df = eta K Delta with the kernel at the start, which does not move."""
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="relu", richness=0.0),
        data=wf.data.sphere(samples=4, dimension=6, seed=2),
        optimiser=wf.SGD(learning_rate=0.1, steps=20),
        record=wf.Record(every=1, neurons=0),
    )
    data = wf.solve(problem, wf.InfiniteWidth(particles=1024, replicas=1)).data
    kernel, y = data.ntk.values[0], data.targets.values[:, 0]
    np.testing.assert_allclose(data.ntk.values[-1], kernel, rtol=0, atol=1e-7)
    outputs = np.zeros(4)
    for step in range(21):
        np.testing.assert_allclose(data.outputs.values[step, :, 0], outputs, rtol=0, atol=2e-4)
        outputs = outputs + 0.1 * kernel @ (y - outputs)


def test_the_span_grows_when_it_must(monkeypatch):
    """Too little room at the start changes nothing but the time that it takes."""
    roomy = solved(layers=2, steps=12, activation="tanh", theory=wf.InfiniteWidth(particles=256, replicas=1))
    monkeypatch.setattr("widefield.theories.infinite_width.initial_capacity", lambda program: 10)
    tight = solved(layers=2, steps=12, activation="tanh", theory=wf.InfiniteWidth(particles=256, replicas=1))
    np.testing.assert_allclose(tight.outputs.values, roomy.outputs.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tight.gradient_kernel.values, roomy.gradient_kernel.values, rtol=0, atol=1e-12)


def test_too_few_particles_are_refused():
    with pytest.raises(wf.InvalidInput, match="particles = 8 are too few"):
        solved(layers=2, kernel=PAIR, y=(1, -1), activation="tanh", theory=wf.InfiniteWidth(8, 1, rank_tolerance=1e-5))
