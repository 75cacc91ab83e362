"""Infinite width against closed forms, tabulated oracles and real networks."""

import dataclasses
import re

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import widefield as wf
from problems import INPUTS as X
from problems import REFERENCE_KERNELS
from problems import TARGETS as Y
from references import linear as linear_reference
from references import particles as particle_reference
from widefield.theories import replicas
from widefield.training.runner import Runner

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
    "Langevin noise": ({"temperature": 0.1, "weight_decay": 0.3}, {"temperature": 0.1, "decay": 0.3}),
    "Langevin noise, feedback alignment, unequal widths": (
        {
            "rule": wf.FeedbackAlignment(0.5),
            "temperature": 0.2,
            "momentum": 0.4,
            "width_ratios": (2.0, 0.5, 1.0),
            "weight_variances": (1.3, 0.8, 1.2, 0.7),
        },
        {
            "rule": "fa",
            "rho": 0.5,
            "temperature": 0.2,
            "momentum": 0.4,
            "width_ratios": (2.0, 0.5, 1.0),
            "weight_variances": (1.3, 0.8, 1.2, 0.7),
        },
    ),
    "Langevin noise, direct feedback alignment": (
        {"rule": wf.DirectFeedbackAlignment(), "temperature": 0.1, "steps": 5},
        {"rule": "dfa", "temperature": 0.1},
    ),
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


COVERED = (
    "plain, L = 1",
    "plain, L = 5",
    "feedback alignment, rho = 0.5",
    "Langevin noise, direct feedback alignment",
    "feedback alignment, rho = 0",
    "feedback alignment, rho = 1",
    "Langevin noise",
    "momentum and decay",
    "trained biases",
    "minibatches",
    "unequal widths and variances",
)
"""Special cases of others, which the default suite leaves out."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in COVERED else ()) for n in VARIANTS])
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
    for ours, theirs in REFERENCE_KERNELS.items():
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


def assert_within(trajectory, name, index, expected, slack):
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


@pytest.mark.parametrize("rule", ["gd", *(pytest.param(n, marks=pytest.mark.slow) for n in ("fa", "dfa")), "hebb"])
def test_two_hidden_tanh_layers_against_quadrature(rule):
    """One sample, every kernel; the quadrature is good to 1e-4 here."""
    expected = particle_reference.deep_single_point(
        1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.1, steps=3, rule=rule, rho=0.5
    )
    theory = wf.InfiniteWidth(particles=4096, replicas=16)
    data = solved(DEEP[rule], layers=2, activation="tanh", richness=1.5, rate=0.1, steps=3, theory=theory)
    assert_within(data, "outputs", np.s_[1:, 0, 0], expected["f"][1:], 1e-4)
    for ours, theirs in REFERENCE_KERNELS.items():
        assert_within(data, ours, np.s_[3, :, 0, 0], [kernel[3, 3] for kernel in expected[theirs]], 1e-4)
        assert float(data[f"{ours}_error"].max()) < 3e-3, ours


def test_large_steps_with_two_hidden_tanh_layers():
    """gamma_0 = 1.5, eta = 0.3, K = y = 1, converged values of the same quadrature."""
    theory = wf.InfiniteWidth(particles=4096, replicas=8)
    data = solved(layers=2, activation="tanh", richness=1.5, rate=0.3, steps=3, theory=theory)
    assert_within(data, "outputs", np.s_[1:, 0, 0], [0.21163349, 0.35121154, 0.46689408], 1e-5)
    assert_within(data, "feature_kernel", np.s_[3, :, 0, 0], [0.4768767, 0.4052079], 1e-5)
    assert_within(data, "gradient_kernel", np.s_[3, :, 0, 0], [0.0623358, 0.3127570], 1e-5)
    assert float(data.outputs_error.max()) < 3e-4


def test_one_hidden_tanh_layer():
    """Converged trapezoidal values for P = 1, K = y = 1, gamma_0 = 2, eta = 0.1."""
    theory = wf.InfiniteWidth(particles=4096, replicas=8)
    data = solved(layers=1, activation="tanh", richness=2.0, rate=0.1, steps=10, theory=theory)
    assert_within(data, "outputs", np.s_[[1, 5, 10], 0, 0], [0.084770378525, 0.335843561408, 0.550863837313], 1e-6)
    assert_within(data, "feature_kernel", np.s_[[0, 10], 0, 0, 0], [0.3942944906, 0.602479078446], 1e-6)
    assert_within(data, "gradient_kernel", np.s_[[0, 10], 0, 0, 0], [0.4644028952, 0.171835868362], 1e-6)


def test_one_hidden_relu_layer_on_two_points():
    theory = wf.InfiniteWidth(particles=8192, replicas=8)
    for kind, rule in {"gd": wf.GradientDescent(), "fa": wf.FeedbackAlignment(0.5)}.items():
        expected = particle_reference.two_layer_relu(
            np.array(PAIR), np.array([1.0, -1.0]), gamma0=1.5, eta=0.1, steps=6, rule=kind, rho=0.5
        )
        data = solved(
            rule, layers=1, kernel=PAIR, y=(1, -1), activation="relu", richness=1.5, rate=0.1, steps=6, theory=theory
        )
        assert_within(data, "outputs", np.s_[1:, :, 0], expected.f[1:], 1e-6)
        assert_within(data, "feature_kernel", np.s_[6, 0], expected.features[6], 1e-6)
        assert_within(data, "gradient_kernel", np.s_[6, 0], expected.gradients[6], 1e-6)


def test_gated_linear_network():
    """Exact sum over gate patterns, P = 2, y = (1, -1), L = 2, gamma_0 = 1, eta = 0.1."""
    theory = wf.InfiniteWidth(particles=8192, replicas=16)
    data = solved(
        wf.GatedLinear(), layers=2, kernel=PAIR, y=(1.0, -1.0), rate=0.1, steps=10, activation="relu", theory=theory
    )
    assert_within(
        data, "outputs", np.s_[[1, 2, 5, 10], 0, 0], [0.0583333333, 0.1154309082, 0.3100816076, 0.7260164140], 1e-6
    )
    assert_within(data, "feature_kernel", np.s_[10, 1, 0], [0.8079025706, -0.1318288021], 1e-6)
    assert_within(data, "gradient_kernel", np.s_[10, 0, 0], [1.1528084821, 0.5571272456], 1e-6)


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
    theory = wf.InfiniteWidth(particles=256, replicas=3)
    roomy = solved(layers=2, steps=12, activation="tanh", theory=theory)
    monkeypatch.setattr("widefield.theories.replicas.expected_directions", lambda problem, tolerance: (1.0, 1.0))
    grown, enlarged = [], replicas._enlarged
    monkeypatch.setattr(replicas, "_enlarged", lambda *args: grown.append(args) or enlarged(*args))
    tight = solved(layers=2, steps=12, activation="tanh", theory=theory)
    assert grown
    np.testing.assert_allclose(tight.outputs.values, roomy.outputs.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tight.gradient_kernel.values, roomy.gradient_kernel.values, rtol=0, atol=1e-12)


def test_too_few_particles_are_refused():
    with pytest.raises(wf.InvalidInput, match="particles = 8 are too few"):
        solved(layers=2, kernel=PAIR, y=(1, -1), activation="tanh", theory=wf.InfiniteWidth(8, 1, rank_tolerance=1e-5))


def single_point(rule=None, **record):
    """The problem of `particle_reference`: one point, two tanh layers, large steps."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="tanh", richness=1.5),
        data=wf.data.gram(kernel=[[1.0]], y=[1.0]),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(learning_rate=0.3, steps=3),
        record=wf.Record(every=1, **record),
    )


def assert_responses(rule, name, rho, close):
    reference = particle_reference.deep_single_point(
        1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.3, steps=3, rule=name, rho=rho
    )
    theory = wf.InfiniteWidth(particles=2048, replicas=3, rank_tolerance=1e-3)
    trajectory = wf.solve(single_point(rule, neurons=0, responses=True), theory)
    for variable, (symbol, index, tolerance) in close.items():
        found = trajectory.two_time(variable, 1).values[:, 0, :, 0]
        np.testing.assert_allclose(found, reference[symbol][index], rtol=0, atol=tolerance, err_msg=variable)
        future = np.triu(np.ones((4, 4), bool), 0 if index == 0 else 1)
        np.testing.assert_allclose(found[future], 0.0, rtol=0, atol=1e-6)
        one = trajectory.two_time(variable, 1, time=0.9, time_=0.3)
        np.testing.assert_allclose(one.values[0, 0], found[3, 1], rtol=1e-12)


def test_response_functions_of_a_linear_network_equal_the_closed_equations():
    """a G and b Phi, with the factors that unequal widths and variances bring."""
    options = {"width_ratios": (2.0, 0.5, 1.0), "weight_variances": (1.3, 0.8, 1.2, 0.7)}
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=3, activation="linear", richness=1.2, **options),
        data=wf.Data(X[:2], Y[:2]),
        optimiser=wf.SGD(learning_rate=0.3, steps=3),
        record=wf.Record(every=1, neurons=0, responses=True),
    )
    trajectory = wf.solve(problem, wf.InfiniteWidth(particles=256, replicas=2, rank_tolerance=1e-6))
    kernel = X[:2] @ X[:2].T / 3
    exact = linear_reference.sweep(kernel, Y[:2], depth=3, gamma0=1.2, eta=0.3, steps=3, **options)

    def flat(name, layer):
        return trajectory.two_time(name, layer).transpose("time", "sample", "time_", "sample_").values.reshape(8, 8)

    for layer, factor in ((1, 2.0), (2, np.sqrt(0.5))):
        variance = options["weight_variances"][layer]
        gradients, features = flat("gradient_kernel", layer + 1), flat("feature_kernel", layer)
        a, b = exact.a[layer - 1].reshape(8, 8), exact.b[layer].reshape(8, 8)
        close = {"rtol": 0, "atol": 1e-6}
        np.testing.assert_allclose(
            flat("feature_response", layer) @ gradients, variance * factor * a @ gradients, **close
        )
        np.testing.assert_allclose(
            flat("gradient_response", layer) @ features, variance / factor * b @ features, **close
        )


@pytest.mark.slow
def test_response_functions_of_gradient_descent_against_quadrature():
    """a = <d phi / d r> and b = <d g / d u>, with its equal-time part, at every pair of times."""
    close = {"feature_response": ("a", 0, 8e-3), "gradient_response": ("b", 1, 3e-2)}
    assert_responses(wf.GradientDescent(), "gd", 0.0, close)


@pytest.mark.slow
def test_response_functions_of_feedback_alignment_against_quadrature():
    close = {"pseudo_feature_response": ("c", 0, 1e-2), "pseudo_gradient_response": ("d", 1, 6e-2)}
    assert_responses(wf.FeedbackAlignment(0.5), "fa", 0.5, close)


def test_response_functions_that_are_not_there():
    trajectory = wf.solve(single_point(neurons=0, two_time=True), wf.InfiniteWidth(particles=64, replicas=1))
    with pytest.raises(wf.InvalidInput, match=r"no feature_response .*Record\(responses=True\)"):
        trajectory.two_time("feature_response", 1)
    with pytest.raises(wf.InvalidInput, match="infinite width only"):
        wf.solve(single_point(neurons=0, responses=True), wf.FiniteWidth(4))
    noisy = dataclasses.replace(single_point(responses=True), optimiser=wf.SGD(0.1, 2, temperature=0.1))
    with pytest.raises(wf.InvalidInput, match="Langevin"):
        wf.solve(noisy)


@pytest.mark.slow
def test_a_tolerance_is_reached_and_the_answer_is_right():
    trajectory = wf.solve(single_point(neurons=0), wf.InfiniteWidth(tolerance=0.02))
    attributes = trajectory.data.attrs
    assert attributes["reached"] == 1
    assert attributes["relative_error"] <= 0.02
    np.testing.assert_allclose(
        trajectory.data.outputs.values[1:, 0, 0], [0.21163349, 0.35121154, 0.46689408], rtol=0.02
    )
    assert float(trajectory.data.feature_kernel.values[-1, 1, 0, 0]) == pytest.approx(0.4052079, rel=0.02)


def test_a_tolerance_out_of_reach_is_admitted(monkeypatch):
    monkeypatch.setattr("widefield.theories.infinite_width._MOST_PARTICLES", 512)
    monkeypatch.setattr("widefield.theories.infinite_width._MOST_REPLICAS", 16)
    with pytest.warns(wf.NotAccurate, match="tolerance = 1e-05 was not reached: the relative error is about"):
        trajectory = wf.solve(single_point(neurons=0), wf.InfiniteWidth(tolerance=1e-5))
    assert trajectory.data.attrs["reached"] == 0
    assert trajectory.data.attrs["replicas"] == 16
    assert trajectory.data.attrs["particles"] == 512


def test_a_linear_network_has_no_bias():
    linear = dataclasses.replace(single_point(neurons=0), network=wf.MLP(hidden_layers=2, activation="linear"))
    assert (
        wf.solve(linear, wf.InfiniteWidth(particles=64, replicas=2, particle_bias=True)).data.attrs["particle_bias"]
        < 1e-7
    )


@pytest.mark.slow
def test_bias_of_few_particles_is_seen():
    crude = wf.solve(single_point(neurons=0), wf.InfiniteWidth(particles=32, replicas=400, particle_bias=True)).data
    exact = 0.46689408
    true_bias = abs(float(crude.outputs[-1, 0, 0]) - exact) / exact
    assert crude.attrs["particle_bias"] > 0.003
    assert true_bias < 4 * crude.attrs["particle_bias"] + 4 * float(crude.outputs_error[-1, 0, 0]) / exact


def test_duplicate_points_and_more_points_than_dimensions():
    """Rank-deficient data: equal points have equal outputs and kernels, and a linear network its closed solution."""
    x = np.array([[1.0, 0.2], [1.0, 0.2], [-0.3, 0.9], [0.5, -1.1]])
    y = np.array([1.0, 1.0, -0.5, 0.3])
    for activation in ("linear", "tanh"):
        problem = wf.Problem(
            network=wf.MLP(hidden_layers=2, activation=activation),
            data=wf.Data(x, y),
            optimiser=wf.SGD(learning_rate=0.05, steps=6),
            record=wf.Record(every=2, neurons=0),
        )
        data = wf.solve(problem, wf.InfiniteWidth(particles=256, replicas=2, rank_tolerance=1e-5)).data
        np.testing.assert_allclose(data.outputs[:, 0], data.outputs[:, 1], rtol=0, atol=1e-10)
        np.testing.assert_allclose(data.feature_kernel[:, :, 0], data.feature_kernel[:, :, 1], rtol=0, atol=1e-10)
        if activation == "linear":
            exact = linear_reference.sweep(x @ x.T / 2, y, depth=2, gamma0=1.0, eta=0.05, steps=6)
            np.testing.assert_allclose(data.outputs[:, :, 0], exact.f[::2], rtol=0, atol=1e-8)


def test_divergence_names_the_step_and_keeps_what_there_was():
    problem = dataclasses.replace(single_point(neurons=0), optimiser=wf.SGD(learning_rate=60.0, steps=40))
    with pytest.raises(
        wf.Diverged, match=r"exploded at step \d+ \(seed [01]\); the tangent kernel at the start allows"
    ) as stop:
        wf.solve(problem, wf.InfiniteWidth(particles=64, replicas=2))
    assert 1 <= stop.value.trajectory.data.sizes["time"] < 41
    assert np.all(np.isfinite(stop.value.trajectory.data.outputs))


def test_too_little_memory_is_known_before_starting():
    with pytest.raises(wf.InvalidInput, match=r"the particles would take [\d.]+ GiB .* reduce particles"):
        wf.solve(single_point(), wf.InfiniteWidth(particles=2**32))
    problem = dataclasses.replace(
        single_point(), optimiser=wf.SGD(0.1, 2_000_000), record=wf.Record(every=1, neurons=4096)
    )
    with pytest.raises(wf.InvalidInput, match=r"the records would take [\d.]+ GiB .* record less often"):
        wf.solve(problem, wf.InfiniteWidth(particles=4096))


def test_the_first_answer_is_the_cheapest_that_reaches_the_tolerance():
    """Two percent if nothing is said; a wider tolerance takes no more replicas than the fewest."""
    usual = wf.solve(single_point(neurons=0)).data.attrs
    assert usual["tolerance"] == 0.02
    assert usual["relative_error"] <= 0.02
    assert usual["reached"] == 1
    crude = wf.solve(single_point(neurons=0), wf.InfiniteWidth(tolerance=0.5)).data.attrs
    assert (crude["replicas"], crude["particles"]) == (4, 256)
    assert crude["relative_error"] < 0.5


def test_replicas_come_in_whole_groups():
    """One in the middle that is not full would be skipped when more are asked for."""
    theory = wf.InfiniteWidth(particles=128, replicas=5, tolerance=0.01, seed=3)
    answer = wf.solve(single_point(neurons=0), theory).data
    count = answer.attrs["replicas"]
    assert count % 8 == 0
    assert count > 8
    same = wf.InfiniteWidth(128, count, answer.attrs["rank_tolerance"], seed=3, dtype=answer.attrs["dtype"])
    plain = wf.solve(single_point(neurons=0), same).data
    np.testing.assert_array_equal(answer.outputs, plain.outputs)


def test_particles_that_were_asked_for_are_kept():
    attributes = wf.solve(single_point(neurons=0), wf.InfiniteWidth(particles=128, tolerance=0.03)).data.attrs
    assert attributes["particles"] == 128
    assert attributes["relative_error"] <= 0.03


def test_crowded_populations_get_more_particles(monkeypatch):
    """With hardly more particles than directions answers would be biased."""
    monkeypatch.setattr("widefield.theories.infinite_width._ROOMY", 40.0)
    attributes = wf.solve(single_point(neurons=0), wf.InfiniteWidth(tolerance=0.5)).data.attrs
    assert attributes["particles"] > 256


@pytest.mark.slow
def test_single_precision_agrees_within_its_error_bars():
    theory = wf.InfiniteWidth(512, 8, 0.05)
    double = wf.solve(single_point(neurons=0), theory).data
    single = wf.solve(single_point(neurons=0), dataclasses.replace(theory, dtype="float32")).data
    for name in ("outputs", "feature_kernel", "gradient_kernel"):
        allowed = 4 * np.hypot(double[f"{name}_error"], single[f"{name}_error"]) + 1e-6
        assert np.all(np.abs(single[name] - double[name]) <= allowed)
    linear = dataclasses.replace(single_point(neurons=0), network=wf.MLP(2, "linear", richness=1.5))
    exact, rounded = (
        wf.solve(linear, dataclasses.replace(theory, dtype=dtype)).data for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(rounded.outputs, exact.outputs, rtol=0, atol=3e-6)
    with pytest.raises(wf.InvalidInput, match=r"rank_tolerance = 0.001 is below the rounding errors of dtype"):
        wf.InfiniteWidth(rank_tolerance=1e-3, dtype="float32")


def test_single_precision_where_a_coarse_tolerance_decides():
    """And only there; what comes out is in double precision always."""
    chosen = {
        "float32": [{}, {"tolerance": 0.05}, {"tolerance": 0.05, "particles": 128}],
        "float64": [{"particles": 128, "replicas": 2}, {"tolerance": 0.05, "rank_tolerance": 5e-3}],
    }
    for dtype, settings in chosen.items():
        for setting in settings:
            data = wf.solve(single_point(neurons=0), wf.InfiniteWidth(**setting)).data
            assert data.attrs["dtype"] == dtype
            assert {str(data[name].dtype) for name in ("outputs", "feature_kernel", "loss_error")} == {"float64"}
    assert wf.InfiniteWidth(tolerance=5e-3)._settings(128, 0.05).dtype == "float64"


def test_a_cost_is_known_beforehand():
    small, large = (wf.InfiniteWidth(n, 8).cost(single_point()) for n in (128, 1024))
    assert large.flops > 6 * small.flops
    assert large.state_bytes > 3 * small.state_bytes
    assert not small.long
    problem = dataclasses.replace(
        single_point(neurons=0),
        data=wf.data.sphere(samples=200, dimension=100, seed=0),
        optimiser=wf.SGD(0.01, 10**7),
        record=wf.Record(steps=(0,), neurons=0),
    )

    cost = wf.InfiniteWidth().cost(problem)
    assert cost.long
    assert "GFlop/s" in str(cost)
    assert " h and " in str(cost)


def test_long_work_says_beforehand_what_it_will_cost(monkeypatch, capsys):
    monkeypatch.setattr("widefield.theories.replicas._LONG", 0.0)
    wf.solve(single_point(neurons=0), wf.InfiniteWidth(64, 2), progress=True)
    assert "2 replicas of 64 particles: about 0 s and 0.0 GiB" in capsys.readouterr().err
    wf.solve(single_point(neurons=0), wf.InfiniteWidth(64, 2), progress=False)
    assert "replicas" not in capsys.readouterr().err


def test_many_layers_say_beforehand_how_long_they_are_compiled(monkeypatch, capsys):
    monkeypatch.setattr("widefield.theories.infinite_width._WORTH_TELLING", 0.0)
    wf.solve(single_point(neurons=0), wf.InfiniteWidth(64, 2), progress=True)
    assert re.search(r"jax first compiles \d layers: about \d s", capsys.readouterr().err)


def test_densities_of_fields():
    """At the start preactivations are normal; histograms integrate to one."""
    trajectory = wf.solve(single_point(neurons=1024), wf.InfiniteWidth(particles=1024, replicas=4))
    h = trajectory.field("preactivation", 1, time=0.0)
    assert h.sizes["neuron"] == 4096
    assert float(h.var()) == pytest.approx(1.0, abs=0.05)
    for name in ("preactivation", "pregradient"):
        density = trajectory.histogram(name, 2, time=0.9, bins=30)
        width = float(density[name][1] - density[name][0])
        assert float(density.sum()) * width == pytest.approx(1.0)
    normal = trajectory.histogram("preactivation", 1, time=0.0, sample=0, bins=12, limits=(-3.0, 3.0))
    expected = np.exp(-(normal.preactivation**2) / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(normal, expected, rtol=0, atol=0.03)
    for arguments, message in {
        ("preactivation", 3): "layer = 3 does not exist",
        ("outputs", 1): "unknown field",
        ("preactivation", 1, 0.5): "time 0.5 was not recorded",
        ("preactivation", 1, 0.0, 7): "sample = 7 does not exist",
    }.items():
        with pytest.raises(wf.InvalidInput, match=message):
            trajectory.histogram(*arguments)


def test_threads_of_blas_stand_back_while_xla_runs(monkeypatch):
    """Both at once take 30 ms for eigenvalues that one thread has in 2; whoever calls finds their number as it was."""
    seen, run = [], Runner.run

    def watched(self):
        seen.append([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])
        return run(self)

    monkeypatch.setattr(Runner, "run", watched)
    with threadpool_limits(2, user_api="blas"):
        solved(layers=2, steps=2, theory=wf.InfiniteWidth(64, 2))
        after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert seen
    assert set(seen[0]) == {1}
    assert set(after) == {2}
