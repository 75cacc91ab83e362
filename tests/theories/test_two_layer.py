"""Networks with one hidden layer: closed forms, moments under gradient flow, neurons on grids and sampled."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from problems import REFERENCE_KERNELS as KERNELS
from references import linear as linear_reference
from references import particles as particle_reference
from widefield import two_layer
from widefield.asking import comparison
from widefield.base.errors import Diverged, InvalidInput

GD, DFA, HEBB, GLN = wf.GradientDescent(), wf.DirectFeedbackAlignment(), wf.Hebb(), wf.GatedLinear()
K1, K2 = np.ones((1, 1)), np.array([[1.0, 0.5], [0.5, 1.2]])
K3 = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.9]])
Y2 = np.array([1.0, -0.6])
RULES = {
    "gradient descent": (GD, {"rule": "gd"}),
    "feedback alignment": (wf.FeedbackAlignment(0.5), {"rule": "fa", "rho": 0.5}),
    "direct feedback alignment": (DFA, {"rule": "dfa"}),
    "Hebb": (HEBB, {"rule": "hebb"}),
}
SLOW = pytest.mark.slow


def problem(K=K2, y=Y2, *, rule=GD, activation="linear", richness=1.5, optimiser=None, loss=None, record=None, **net):
    return wf.Problem(
        wf.MLP(1, activation, richness=richness, **net),
        wf.data.gram(K, y),
        loss=loss or wf.SquaredError(),
        rule=rule,
        optimiser=optimiser or wf.SGD(0.1, 6),
        record=record or wf.Record(every=1, neurons=0),
    )


def solved(*args, theory=None, **settings):
    return wf.solve(problem(*args, **settings), theory or wf.TwoLayer()).data


def differences(data, exact, times=slice(None)):
    """Largest differences of outputs, kernels and NTK from a reference solution."""
    outputs = data.outputs.values if exact.f.ndim == 3 else data.outputs.values[..., 0]
    found = {"outputs": outputs - exact.f[times], "ntk": data.ntk.values - exact.ntk()[times]}
    found |= {name: data[name].values - exact.equal_time(kernel)[times] for name, kernel in KERNELS.items()}
    return {name: np.abs(value) for name, value in found.items()}


def worst(found):
    return max(value.max() for value in found.values())


def exponent(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


# Whitened data


def test_whitened_gradient_descent():
    for richness, target, expected in (
        (0.5, 1.0, 0.454409200879),
        (2.0, 1.5, 0.839659396321),
        (10.0, 1.0, 0.957857270020),
    ):
        found = two_layer.solve_whitened([0.0, 0.3, 1.0], richness=richness, target=target, rule=GD)
        assert found.outputs[1] == pytest.approx(expected, abs=2e-11)
        reached = two_layer.time_to_reach(found.outputs[:2], richness=richness, target=target)
        np.testing.assert_allclose(reached, (0.0, 0.3), atol=1e-11)
    assert two_layer.solve_whitened([1.0], richness=2.0, rule=GD).outputs[0] == pytest.approx(0.965669083, abs=1e-9)
    end = two_layer.solve_whitened([20.0], richness=3.0, target=-0.7, rule=GD)
    assert end.outputs[0] == pytest.approx(-0.7, abs=1e-10)
    assert end.feature_kernel[0] == pytest.approx(float(two_layer.final_feature_kernel(3.0, target=-0.7, rule=GD)))


def test_whitened_data_are_learned_by_both_layers():
    """Small steps of the closed equations follow the flow, whose rate has a factor 2 that BP23 eq. (7) leaves out."""
    printed, flow = two_layer.solve_whitened([0.15, 0.3], richness=2.0, target=1.5, rule=GD).outputs
    errors = []
    for steps in (60, 120):
        exact = linear_reference.sweep(K1, [1.5], depth=1, gamma0=2.0, eta=0.3 / steps, steps=steps, rule="gd")
        errors.append(abs(float(exact.f[-1, 0]) - flow))
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
    assert abs(printed - flow) > 50 * errors[1]


def test_discrete_steps_violate_the_conservation_law_at_first_order():
    """H^2 - gamma_0^2 f^2 = 1 under gradient flow; at t = 1, gamma_0 = 2."""
    found = []
    for steps in (20, 40, 80):
        data = solved(
            K1, [1.0], richness=2.0, optimiser=wf.SGD(1 / steps, steps), record=wf.Record(every=steps, neurons=0)
        )
        found.append(float(data.feature_kernel[-1, 0, 0, 0] ** 2 - 4 * data.outputs[-1, 0, 0] ** 2 - 1))
    np.testing.assert_allclose(np.abs(found), (0.0863, 0.0422, 0.0209), atol=6e-5)


def test_feedback_alignment_fixed_points():
    cubic = two_layer.final_overlap([2.0, 1.5, 2.5, 0.5], correlation=[0.5, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(cubic, (1.0, 1.0, 1.0, 0.453397651516), atol=1e-11)
    alignment = two_layer.final_alignment([2.0, 1.5, 2.5], correlation=[0.5, 0.0, 1.0])
    np.testing.assert_allclose(alignment, (1.0, 0.5, 1.5), atol=1e-12)
    rho, step = np.array([0.1, 0.5, 0.9]), 1e-5
    for value, slope in (
        (two_layer.final_overlap, two_layer.overlap_slope),
        (two_layer.final_alignment, two_layer.alignment_slope),
    ):
        numeric = value(3.0, correlation=rho + step) - value(3.0, correlation=rho - step)
        np.testing.assert_allclose(slope(3.0, correlation=rho), numeric / (2 * step), rtol=1e-8)
    assert np.all(two_layer.alignment_slope(np.logspace(-2, 4, 20)) > 1 / 3)
    rule = wf.FeedbackAlignment(0.5)
    end = two_layer.solve_whitened([30.0], richness=2.0, rule=rule)
    measured = (end.outputs[0], end.feature_kernel[0], end.alignment_kernel[0])
    np.testing.assert_allclose(measured, (1.0, 2.0, 1.0), atol=1e-9)


def test_feedback_alignment_at_any_depth():
    np.testing.assert_allclose(two_layer.feedback_polynomials(1, 0.3)[-1].coef, (0, 1.3, 0, 0.5))
    odd = [p.coef[1:8:2] for p in (two_layer.feedback_polynomials(3, rho)[-1] for rho in (0.0, 1.0))]
    np.testing.assert_allclose(odd, [(1, 1.5, 1.125, 0.5625), (4, 10, 8.25, 3.875)])
    times = np.linspace(0, 1, 3)
    exact, kernels = two_layer.solve_deep_feedback(times, hidden_layers=3, richness=1.2, correlation=0.4)
    errors = []
    for steps in (40, 80):
        reference = linear_reference.sweep(
            K1, [1.0], depth=3, gamma0=1.2, eta=1 / steps, steps=steps, rule="fa", rho=0.4
        )
        features = [np.diag(k[:, 0, :, 0])[:: steps // 2] for k in reference.features]
        errors.append([np.abs(exact - reference.f[:: steps // 2, 0]).max(), np.abs(kernels.T - features).max()])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 1.0, atol=0.05)
    _, late = two_layer.solve_deep_feedback([0.0, 30.0], hidden_layers=3, richness=1.2, correlation=0.4)
    final = two_layer.final_deep_feedback(hidden_layers=3, richness=1.2, correlation=0.4)
    np.testing.assert_allclose(late[-1], final, atol=1e-9)
    shallow = two_layer.final_deep_feedback(hidden_layers=1, richness=2.0, correlation=0.5)
    assert shallow == pytest.approx([2.0], abs=1e-12)


def test_hebb_final_kernel_and_fixed_points():
    final = two_layer.final_feature_kernel([1.0, 1.0, 4.0], target=[1.0, -1.0, 1.0], rule=HEBB)
    np.testing.assert_allclose(final, (1.902376851, 1.902376851, 4.230699928), atol=1e-9)
    course = two_layer.solve_whitened([0.5, 2.0, 40.0], richness=4.0, rule=HEBB)
    assert course.feature_kernel[-1] == pytest.approx(4.230699928, abs=1e-8)
    invariant = two_layer.hebb_invariant(course.outputs, course.feature_kernel, richness=4.0)
    np.testing.assert_allclose(invariant, 1.0, atol=1e-9)
    kernel = course.feature_kernel[:2]
    for delta in two_layer.hebb_fixed_points(kernel, richness=4.0):
        np.testing.assert_allclose(kernel + 4.0 * (1.0 - delta) * delta, 0.0, atol=1e-12)  # df/dt = K Delta = 0


@pytest.mark.parametrize(
    ("rule", "small", "large"),
    [(GD, 2, 1), (DFA, 2, 2 / 3), (wf.FeedbackAlignment(1.0), 2, 2 / 3), (HEBB, 1, 1)],
    ids=["gradient descent", "direct feedback", "feedback, rho = 1", "Hebb"],
)
def test_how_features_grow_with_the_richness(rule, small, large):
    """Fitted exponents of H_y - 1."""
    for richness, expected in ((np.logspace(-3, -2, 9), small), (np.logspace(3, 4, 9), large)):
        grown = two_layer.final_feature_kernel(richness, rule=rule) - 1
        assert exponent(richness, grown) == pytest.approx(expected, abs=0.01)
    assert np.all(np.diff(two_layer.final_feature_kernel(2.0, rule=rule, target=np.linspace(0.1, 3, 7))) > 0)


# Moments under gradient flow


@pytest.mark.parametrize("name", ["Hebb", *(pytest.param(n, marks=SLOW) for n in list(RULES)[:3])])
def test_conservation_laws_along_the_flow(name):
    """Moments know nothing of the reduced equations on whitened data."""
    rule = RULES[name][0]
    data = solved(K1, [1.0], rule=rule, richness=2.0, optimiser=wf.GradientFlow(2.0, 4))
    assert data.attrs["method"] == "ode"
    f, H = data.outputs.values[:, 0, 0], data.feature_kernel.values[:, 0, 0, 0]
    G, Gt = data.gradient_kernel.values[:, 0, 0, 0], data.alignment_kernel.values[:, 0, 0, 0]
    if name == "gradient descent":
        np.testing.assert_allclose(H**2 - 4 * f**2, 1.0, atol=1e-9)
        np.testing.assert_allclose(H, G, atol=1e-9)
    elif name == "Hebb":
        np.testing.assert_allclose(two_layer.hebb_invariant(f, H, richness=2.0), 1.0, atol=1e-9)
    else:
        a, rho = np.sqrt(H - 1), getattr(rule, "correlation", 0.0)
        np.testing.assert_allclose(2 * f, (1 + rho) * a + a**3 / 2, atol=1e-9)
        np.testing.assert_allclose(Gt, rho + a**2 / 2, atol=1e-9)
    reduced = two_layer.solve_whitened(data.time.values, richness=2.0, rule=rule)
    for found, expected in ((f, reduced.outputs), (H, reduced.feature_kernel), (G, reduced.gradient_kernel)):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(data.ntk.values[:, 0, 0], reduced.ntk, atol=1e-9)


FLOWS = {
    "gradient descent": (GD, {"rule": "gd"}),
    "Hebb": (HEBB, {"rule": "hebb"}),
    "feedback, rho = 0": (wf.FeedbackAlignment(0.0), {"rule": "fa", "rho": 0.0}),
    "feedback, rho = 0.5": (wf.FeedbackAlignment(0.5), {"rule": "fa", "rho": 0.5}),
    "feedback, rho = 1": (wf.FeedbackAlignment(1.0), {"rule": "fa", "rho": 1.0}),
    "direct feedback": (DFA, {"rule": "dfa"}),
}


@pytest.mark.parametrize(
    "name", [name if name == "feedback, rho = 0.5" else pytest.param(name, marks=SLOW) for name in FLOWS]
)
def test_flow_is_the_limit_of_small_steps(name):
    """The error of discrete steps falls as the first power of the step, with variances, biases and decay."""
    rule, options = FLOWS[name]
    network = {"weight_variances": (1.3, 0.8), "bias_variances": 0.2, "train_biases": True}
    data = solved(rule=rule, optimiser=wf.GradientFlow(1.0, 2, weight_decay=0.2), **network)
    found = []
    for steps in (32, 64):
        exact = linear_reference.sweep(
            K2, Y2, depth=1, gamma0=1.5, eta=1 / steps, steps=steps, decay=0.2, **network, **options
        )
        found.append(differences(data, exact, slice(None, None, steps // 2)))
    for quantity, coarse in found[0].items():
        if coarse.max() > 1e-12:  # the kernel of feedback does not move
            assert np.log2(coarse.max() / found[1][quantity].max()) == pytest.approx(1.0, abs=0.08)


def with_a_test_sample(optimiser):
    """The third sample of K3 is a test sample."""
    x = np.linalg.cholesky(K3) * np.sqrt(3)
    record = wf.Record(every=1, neurons=0, test_kernels=True)
    data = wf.Data(x[:2], Y2, x[2:], [0.3])
    return wf.Problem(wf.MLP(1, "linear", richness=1.5), data, optimiser=optimiser, record=record)


def test_conserved_moments_of_any_kernel():
    """Tr(K^-1 H) - G stands still under gradient descent."""
    found = wf.solve(with_a_test_sample(wf.GradientFlow(2.0, 4)), wf.TwoLayer()).data
    traces = np.einsum("pq,tqp->t", np.linalg.inv(K3[:2, :2]), found.feature_kernel.values[:, 0])
    np.testing.assert_allclose(traces - found.gradient_kernel.values[:, 0, 0, 0], 1.0, atol=1e-9)
    assert float(found.loss[-1]) < 0.01 * float(found.loss[0])


def test_test_samples_are_samples_without_errors():
    """Discrete steps, against points in no batch."""
    found = wf.solve(with_a_test_sample(wf.SGD(0.1, 4)), wf.TwoLayer(64, 1, method="sampled")).data
    mask = np.broadcast_to([1.0, 1.0, 0.0], (4, 3))
    exact = linear_reference.sweep(K3, [*Y2, 0.3], depth=1, gamma0=1.5, eta=0.1, steps=4, batches=mask)
    np.testing.assert_allclose(found.outputs[..., 0], exact.f[:, :2], atol=1e-12)
    np.testing.assert_allclose(found.test_outputs[..., 0], exact.f[:, 2:], atol=1e-12)
    np.testing.assert_allclose(found.test_ntk, exact.ntk()[:, 2:, :2], atol=1e-12)
    for name in ("feature_kernel", "gradient_kernel"):
        np.testing.assert_allclose(found[f"test_{name}"], exact.equal_time(KERNELS[name])[:, :, 2:, :2], atol=1e-12)


@SLOW
def test_moments_and_neurons_agree_under_flow():
    asked = with_a_test_sample(wf.GradientFlow(2.0, 4))
    moments = wf.solve(asked, wf.TwoLayer()).data
    neurons = wf.solve(asked, wf.TwoLayer(64, 1, method="sampled")).data
    for name in (
        "outputs",
        "ntk",
        "test_outputs",
        "test_loss",
        "test_feature_kernel",
        "test_ntk",
        "test_gradient_kernel",
    ):
        np.testing.assert_allclose(neurons[name], moments[name], atol=1e-8)


# Neurons


@pytest.mark.parametrize("name", [n if n == "feedback alignment" else pytest.param(n, marks=SLOW) for n in RULES])
def test_linear_neurons_are_exact(name):
    """Whether on a grid or sampled, with everything that the optimiser and the network can do."""
    rule, options = RULES[name]
    exact = linear_reference.sweep(K2, Y2, depth=1, gamma0=1.5, eta=0.1, steps=6, **options)
    assert worst(differences(solved(rule=rule, theory=wf.TwoLayer(method="grid", spacing=0.5)), exact)) < 1e-10
    assert worst(differences(solved(rule=rule, theory=wf.TwoLayer(64, 1, method="sampled")), exact)) < 1e-10


VARIANTS = {
    "momentum, decay, variances": (
        {"weight_variances": (1.3, 0.8)},
        {"momentum": 0.6, "weight_decay": 0.4},
        {"momentum": 0.6, "decay": 0.4, "weight_variances": (1.3, 0.8)},
    ),
    "biases that learn": (
        {"bias_variances": 0.3, "train_biases": True},
        {"weight_decay": 0.4},
        {"bias_variances": 0.3, "train_biases": True, "decay": 0.4},
    ),
    "frozen biases, decay": (
        {"bias_variances": 0.3},
        {"weight_decay": 0.4},
        {"bias_variances": 0.3, "decay": 0.4},
    ),
    "noise": (
        {},
        {"temperature": 0.1, "weight_decay": 0.3, "momentum": 0.4},
        {"temperature": 0.1, "decay": 0.3, "momentum": 0.4},
    ),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [("momentum, decay, variances", "gradient descent")]
    + [pytest.param(case, name, marks=SLOW) for case in VARIANTS for name in RULES],
)
def test_variants_are_exact_for_linear_neurons(case, name):
    network, optimiser, options = VARIANTS[case]
    rates = (0.1, 0.2, 0.05, 0.1)
    rule, named = RULES[name]
    exact = linear_reference.sweep(K2, Y2, depth=1, gamma0=1.5, eta=rates, steps=4, **named, **options)
    data = solved(
        rule=rule, optimiser=wf.SGD(rates, 4, **optimiser), theory=wf.TwoLayer(64, 1, method="sampled"), **network
    )
    assert worst(differences(data, exact)) < 1e-10


@pytest.mark.parametrize("name", ["Hebb", *(pytest.param(name, marks=SLOW) for name in list(RULES)[:3])])
def test_minibatches_outputs_and_losses(name):
    """Two outputs, another loss, the mean over a batch."""
    rule, options = RULES[name]
    y = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    optimiser = wf.SGD(0.2, 4, batch_size=2, seed=3)
    mask = np.zeros((4, 3))
    np.put_along_axis(mask, optimiser.batches(3), 1.0, axis=1)

    def error(f, y):
        return y / (1 + np.exp(y * f))

    settings = {"depth": 1, "gamma0": 1.5, "eta": 0.2, "steps": 4, "error": error, "weight": 0.5, "batches": mask}
    exact = linear_reference.sweep(K3, y, **settings, **options)
    loss = wf.Logistic(reduction="mean")
    data = solved(K3, y, rule=rule, optimiser=optimiser, loss=loss, theory=wf.TwoLayer(64, 1, method="sampled"))
    found = differences(data, exact)
    if name == "Hebb":  # recorded pseudo-gradients have the weights of the full batch, 1/3, there 1/2
        data["alignment_kernel"] = data.alignment_kernel * 1.5
        data["pseudo_gradient_kernel"] = data.pseudo_gradient_kernel * 1.5**2
        found = differences(data, exact)
        del found["ntk"]
    assert worst(found) < 1e-10


@pytest.mark.parametrize("name", ["Hebb", *(pytest.param(n, marks=SLOW) for n in list(RULES)[:3])])
def test_tanh_against_quadrature(name):
    """On the same grid to rounding; sampled neurons within standard errors of a fine one."""
    rule, options = RULES[name]
    network = {"weight_variances": (1.3, 0.8), "bias_variances": 0.2, "train_biases": True}
    options = {"activation": "tanh", "gamma0": 1.5, "eta": 0.1, "steps": 5, "momentum": 0.3, "decay": 0.2, **options}
    optimiser = wf.SGD(0.1, 5, momentum=0.3, weight_decay=0.2)
    settings = {"rule": rule, "activation": "tanh", "optimiser": optimiser, **network}
    grid = solved(theory=wf.TwoLayer(spacing=0.25), **settings)
    assert grid.attrs["method"] == "grid"
    assert worst(differences(grid, particle_reference.two_layer(K2, Y2, spacing=0.25, **network, **options))) < 1e-11
    exact = particle_reference.two_layer(K2, Y2, spacing=0.12, **network, **options)
    sampled = solved(theory=wf.TwoLayer(2**12, 6, method="sampled"), **settings)
    check_errors(sampled, differences(sampled, exact))


def check_errors(data, found, most=4.5):
    """Standard errors from 6 replicas hold, and are small."""
    for name, difference in found.items():
        error = data[f"{name}_error"].values.reshape(difference.shape)
        assert np.all(difference <= most * error + 1e-9 + 0.3 * error.max()), name
        assert error.max() < 0.02


def test_tanh_numbers():
    """Published digits, which come from an 80-point Gauss-Hermite rule, and more of them."""
    data = solved(K1, [1.0], activation="tanh", richness=2.0, optimiser=wf.SGD(0.1, 10))
    f, features, gradients = data.outputs[:, 0, 0], data.feature_kernel[:, 0, 0, 0], data.gradient_kernel[:, 0, 0, 0]
    np.testing.assert_allclose(f[[1, 5, 10]], (0.0847703684, 0.3358424162, 0.5508566997), rtol=2e-5)
    np.testing.assert_allclose(f[[1, 5, 10]], (0.084770378525, 0.335843561408, 0.550863837313), atol=1e-11)
    np.testing.assert_allclose((features[0], features[10]), (0.394294490398, 0.602479078446), atol=1e-11)
    np.testing.assert_allclose((gradients[0], gradients[10]), (0.464402902448, 0.171835868362), atol=1e-11)


@SLOW
@pytest.mark.parametrize("name", RULES)
def test_relu_against_exact_cones(name):
    rule, options = RULES[name]
    exact = particle_reference.two_layer_relu(K2, Y2, gamma0=1.5, eta=0.1, steps=5, **options)
    data = solved(rule=rule, activation="relu", optimiser=wf.SGD(0.1, 5), theory=wf.TwoLayer(2**12, 6))
    assert data.attrs["method"] == "sampled"
    check_errors(data, differences(data, exact))


def test_gates_against_exact_patterns():
    exact = linear_reference.sweep(K2, Y2, depth=1, gamma0=1.5, eta=0.1, steps=5, rule="gln")
    data = solved(rule=GLN, activation="relu", optimiser=wf.SGD(0.1, 5), theory=wf.TwoLayer(2**12, 6))
    check_errors(data, differences(data, exact))


@SLOW
@pytest.mark.parametrize("rule", [GD, wf.FeedbackAlignment(0.5), DFA, HEBB, GLN], ids=lambda rule: rule.kind)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_against_the_conditioned_program(rule, activation):
    """Four samples, a test sample, momentum and decay: two programs that share no code."""
    x = np.random.default_rng(3).normal(size=(5, 6))
    asked = wf.Problem(
        wf.MLP(1, activation, richness=1.5),
        wf.Data(x[:4], [1.0, -0.5, 0.8, -1.0], x[4:], [0.5]),
        rule=rule,
        optimiser=wf.SGD(0.05, 12, momentum=0.3, weight_decay=0.1),
        record=wf.Record(every=4, neurons=0, test_kernels=True),
    )
    own, other = wf.solve(asked, wf.TwoLayer(2**13, 6)), wf.solve(asked, wf.InfiniteWidth(2**12, 6))
    for name in (
        *KERNELS,
        "outputs",
        "ntk",
        "test_outputs",
        "test_ntk",
        "test_feature_kernel",
        "test_alignment_kernel",
    ):
        # Errors from 6 replicas are uncertain: each is helped by those of all samples at its time.
        square = own.standard_error(name) ** 2 + other.standard_error(name) ** 2
        error = (square + square.mean([dim for dim in square.dims if dim != "time"])) ** 0.5
        difference = np.abs(own.mean(name) - other.mean(name))
        assert float((difference - 4 * error).max()) <= 1e-9, name


@SLOW
@pytest.mark.parametrize("rule", [GD, wf.FeedbackAlignment(0.5), HEBB], ids=lambda rule: rule.kind)
def test_flow_of_neurons_is_the_limit_of_small_steps(rule):
    flow = solved(K1, [1.0], rule=rule, activation="tanh", optimiser=wf.GradientFlow(1.0, 2))
    found = []
    for steps in (64, 128):
        record = wf.Record(every=steps // 2, neurons=0)
        data = solved(K1, [1.0], rule=rule, activation="tanh", optimiser=wf.SGD(1 / steps, steps), record=record)
        found.append([float(np.abs(data[name] - flow[name]).max()) for name in ("outputs", "feature_kernel", "ntk")])
    np.testing.assert_allclose(np.log2(np.divide(*found)), 1.0, atol=0.05)


@SLOW
def test_flow_with_kinks():
    """ReLU under gradient flow: outputs and features follow small steps."""
    flow = solved(rule=GD, activation="relu", optimiser=wf.GradientFlow(1.0, 1), theory=wf.TwoLayer(2**11, 2))
    steps = wf.SGD(1 / 800, 800)
    record = wf.Record(every=800, neurons=0)
    data = solved(rule=GD, activation="relu", optimiser=steps, record=record, theory=wf.TwoLayer(2**11, 2))
    for name in ("outputs", "feature_kernel"):
        np.testing.assert_allclose(flow[name], data[name], atol=3e-3)


# The theory


def test_description_progress_and_names():
    theory = wf.TwoLayer(64, 2, spacing=0.5, method="grid")
    assert type(theory).from_table(theory.to_table()) == theory
    assert theory.label == "two-layer"
    assert comparison.named("two-layer") == [wf.TwoLayer()]
    seen = []
    wf.solve(problem(K1, [1.0]), theory, progress=lambda done, total, loss: seen.append((done, total, loss)))
    assert [done for done, _, _ in seen] == list(range(7))
    assert {total for _, total, _ in seen} == {6}
    assert seen[0][2] == pytest.approx(0.5)


def test_explosions_are_reported():
    with pytest.raises(Diverged, match="the loss exploded by step"):
        solved(K1, [1.0], optimiser=wf.SGD(50.0, 40), theory=wf.TwoLayer(spacing=0.5))


BAD = {
    "hidden_layers = 2": {"network": wf.MLP(2, "linear")},
    "parameterisation = 'ntk'": {"network": wf.MLP(1, "linear", parameterisation="ntk")},
    "richness = 0": {"network": wf.MLP(1, "linear", richness=0.0)},
}


@pytest.mark.parametrize("match", BAD)
def test_problems_that_it_refuses(match):
    with pytest.raises(InvalidInput, match=match):
        wf.solve(dataclasses.replace(problem(), **BAD[match]), wf.TwoLayer())


def test_settings_that_it_refuses():
    for match, settings in (
        (
            "activation = 'tanh': second moments close for linear networks",
            {"theory": wf.TwoLayer(method="ode"), "activation": "tanh"},
        ),
        ("optimiser = 'sgd': second moments are followed along gradient flow", {"theory": wf.TwoLayer(method="ode")}),
        (
            "temperature = 0.1: noise on the weights has to be sampled",
            {"theory": wf.TwoLayer(method="grid"), "optimiser": wf.SGD(0.1, 2, temperature=0.1)},
        ),
        (
            "method = 'grid': a neuron begins with 4",
            {"K": K3, "y": [1.0, 2.0, 3.0], "theory": wf.TwoLayer(method="grid")},
        ),
        ("particles = 4 are too few", {"theory": wf.TwoLayer(particles=4, method="sampled")}),
    ):
        with pytest.raises(InvalidInput, match=match):
            solved(**settings)
    for match, settings in (
        ("spacing = 0", {"spacing": 0.0}),
        ("replicas = 0", {"replicas": 0}),
        ("unknown method 'monte carlo'", {"method": "monte carlo"}),
        ("tolerance = 1", {"tolerance": 1.0}),
    ):
        with pytest.raises(InvalidInput, match=match):
            wf.TwoLayer(**settings)


def test_arguments_of_closed_forms():
    for match, call in (
        ("richness = 0", lambda: two_layer.final_feature_kernel(0.0, rule=GD)),
        ("rule = GatedLinear", lambda: two_layer.final_feature_kernel(1.0, rule=GLN)),
        ("correlation = 2", lambda: two_layer.final_overlap(1.0, correlation=2.0)),
        ("correlation = -1", lambda: two_layer.final_overlap(1.0, correlation=-1.0)),
        ("increasing times", lambda: two_layer.solve_whitened([0.2, 0.1], richness=1.0, rule=GD)),
        ("takes for ever", lambda: two_layer.time_to_reach([1.0], richness=1.0)),
        ("hidden_layers = 0", lambda: two_layer.feedback_polynomials(0)),
    ):
        with pytest.raises(InvalidInput, match=match):
            call()
