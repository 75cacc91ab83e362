"""The lazy limit against closed forms, brute-force linear models, infinite width at zero richness, and networks."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import widefield as wf
from widefield.base.errors import Diverged, InvalidInput
from widefield.kernels import Blocks, StaticKernel, trained

K2 = np.array([[1.0, 0.5], [0.5, 1.0]])
Y2 = np.array([1.0, -0.5])
X2 = np.sqrt(2) * np.linalg.cholesky(K2)
SPHERE = wf.data.sphere(samples=5, dimension=7, seed=1, test_samples=3)
KERNELS = ("feature_kernel", "gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel", "ntk")


def lazy(data=SPHERE, *, layers=2, activation="tanh", loss=None, rule=None, optimiser=None, record=None, **network):
    problem = wf.Problem(
        wf.MLP(layers, activation, **network),
        data,
        loss=loss or wf.SquaredError(),
        rule=rule or wf.GradientDescent(),
        optimiser=optimiser or wf.SGD(0.1, 12),
        record=record or wf.Record(every=3, neurons=0),
    )
    return wf.solve(problem, wf.Lazy(particles=2000))


def kernels_of(problem):
    samples = problem.samples
    found = StaticKernel(problem.network, problem.rule)(np.concatenate([samples.x, samples.x_test]))
    return found.ntk[:, : samples.samples], found.nngp


@pytest.mark.parametrize(
    ("rule", "activation", "kernel"),
    [
        (wf.GradientDescent(), "linear", 4 * K2),
        (wf.FeedbackAlignment(0.5), "linear", (1 + 0.5 + 0.25 + 0.125) * K2),
        (wf.DirectFeedbackAlignment(), "linear", K2),
        (wf.Hebb(), "linear", K2),
        (wf.GatedLinear(), "relu", 4 * np.array([[1 / 2, 1 / 3], [1 / 3, 1 / 2]]) ** 3 * K2),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_effective_kernels_of_the_rules(rule, activation, kernel):
    """One step gives eta K y with K from BP23 Table 2 (L = 3; the gates are open together with chance 1/3 at 60°)."""
    data = lazy(wf.Data(X2, Y2), layers=3, activation=activation, rule=rule, optimiser=wf.SGD(0.05, 1)).data
    np.testing.assert_allclose(data.ntk[0], kernel, rtol=1e-12)
    np.testing.assert_allclose(data.outputs[-1, :, 0], 0.05 * kernel @ Y2, atol=1e-14)


def simulated(problem, initial, kernel=None):
    """The linear model step by step in plain numpy: outputs (steps + 1, train + test)."""
    K = kernels_of(problem)[0] if kernel is None else kernel
    samples, optimiser = problem.samples, problem.optimiser
    y, p = samples.y[:, 0], samples.samples
    batches = optimiser.batches(p)
    f, velocity, course = initial.copy(), np.zeros(len(K)), [initial.copy()]
    for number, rate in enumerate(optimiser.rates()):
        rows = np.arange(p) if batches is None else batches[number]
        delta = np.zeros(p)
        if isinstance(problem.loss, wf.Logistic):
            delta[rows] = y[rows] / (1 + np.exp(y[rows] * f[rows]))
        else:
            delta[rows] = y[rows] - f[rows]
        if problem.loss.reduction == "mean":
            delta /= len(rows)
        velocity = optimiser.momentum * velocity + (1 - optimiser.momentum) * (K @ delta)
        f = f + rate * velocity
        course.append(f)
    return np.array(course)


@pytest.mark.parametrize("loss", [wf.SquaredError(), wf.SquaredError(reduction="mean"), wf.Logistic()], ids=str)
@pytest.mark.parametrize(
    "optimiser",
    [
        wf.SGD(0.1, 12),
        wf.SGD((0.3, 0.2, 0.1) * 4, 12, momentum=0.7),
        wf.SGD(0.2, 12, batch_size=2, momentum=0.3),
        wf.SGD(wf.Cosine(peak=0.2), 12, batch_size=2),
    ],
    ids=["steps", "momentum", "minibatches with momentum", "minibatches"],
)
def test_training_of_the_linear_model(loss, optimiser, double):
    answer = lazy(loss=loss, optimiser=optimiser, bias_variances=0.1, train_biases=True)
    course = simulated(answer.problem, np.zeros(8))[::3]
    np.testing.assert_allclose(answer.data.outputs[..., 0], course[:, :5], atol=1e-12)
    np.testing.assert_allclose(answer.data.test_outputs[..., 0], course[:, 5:], atol=1e-12)
    targets = jnp.asarray(answer.problem.samples.y)
    total = [float(loss.total(jnp.asarray(f[:5, None]), targets)) for f in course]
    np.testing.assert_allclose(answer.data.loss, total, rtol=1e-10)


@pytest.mark.parametrize("loss", [wf.SquaredError(), wf.Logistic(reduction="mean")], ids=lambda loss: loss.kind)
def test_gradient_flow(loss):
    answer = lazy(loss=loss, optimiser=wf.GradientFlow(t_end=4.0, steps=6), record=wf.Record(every=1, neurons=0))
    K, _ = kernels_of(answer.problem)
    y, times = answer.problem.samples.y[:, 0], answer.data.time.values

    def slope(t, f):
        error = y - f[:5] if isinstance(loss, wf.SquaredError) else y / (1 + np.exp(y * f[:5])) / 5
        return K @ error

    solved = scipy.integrate.solve_ivp(slope, (0, times[-1]), np.zeros(8), t_eval=times, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(answer.data.outputs[..., 0], solved.y[:5].T, atol=2e-8)
    np.testing.assert_allclose(answer.data.test_outputs[..., 0], solved.y[5:].T, atol=2e-8)


@pytest.mark.parametrize("flow", [False, True])
def test_ensemble_of_random_initial_outputs(flow):
    """Mean, deviation and expected loss over networks that begin with outputs N(0, nngp / gamma^2)."""
    optimiser = wf.GradientFlow(t_end=2.0, steps=4) if flow else wf.SGD(0.2, 10)
    record = wf.Record(every=optimiser.steps, neurons=0)
    answer = lazy(optimiser=optimiser, record=record, parameterisation="ntk", centred=False, richness=2.0)
    nngp = kernels_of(answer.problem)[1] / 4
    whole = StaticKernel(answer.problem.network)(np.concatenate([SPHERE.load().x, SPHERE.load().x_test])).ntk
    blocks = [Blocks(m[:5, :5], m[:, :5], m) for m in (nngp, whole)]
    y = answer.problem.samples.y
    expected = trained(*blocks, y, time=2.0, learning_rate=None if flow else 0.2)
    np.testing.assert_allclose(answer.data.outputs[-1], expected.mean[:5], rtol=1e-10)
    np.testing.assert_allclose(answer.data.test_outputs[-1], expected.mean[5:], rtol=1e-10)
    np.testing.assert_allclose(answer.data.test_outputs_deviation[-1, :, 0], expected.deviation[5:], rtol=1e-8)
    np.testing.assert_allclose(answer.data.outputs_deviation[0, :, 0], np.sqrt(np.diag(nngp)[:5]), rtol=1e-10)
    square = np.sum((expected.mean[:5] - y) ** 2) + np.sum(expected.deviation[:5] ** 2)
    np.testing.assert_allclose(answer.data.loss[-1], square / 2, rtol=1e-8)


@pytest.mark.parametrize("loss", [wf.SquaredError(), wf.Logistic()], ids=lambda loss: loss.kind)
def test_drawn_ensembles(loss):
    """Minibatches and other losses: against other draws of the same prior, simulated one by one."""
    settings = {"parameterisation": "ntk", "centred": False, "richness": 1.0}
    answer = lazy(loss=loss, optimiser=wf.SGD(0.2, 6, batch_size=2), record=wf.Record(every=6, neurons=0), **settings)
    ntk, nngp = kernels_of(answer.problem)
    initial = np.random.default_rng(7).multivariate_normal(np.zeros(8), nngp, size=2000)
    final = np.array([simulated(answer.problem, f, ntk)[-1] for f in initial])
    both = np.concatenate([answer.data.outputs[-1, :, 0], answer.data.test_outputs[-1, :, 0]])
    assert np.all(np.abs(both - final.mean(axis=0)) < 4 * final.std(axis=0) / np.sqrt(1000))
    spread = np.concatenate([answer.data.outputs_deviation[-1, :, 0], answer.data.test_outputs_deviation[-1, :, 0]])
    # The relative error of a deviation is 1 / sqrt(2 draws), and both have 2000.
    np.testing.assert_allclose(spread, final.std(axis=0), rtol=4 / np.sqrt(2 * 1000))
    assert np.all(answer.data.outputs_error[-1] < answer.data.outputs_deviation[-1] / 10)


def test_several_outputs_and_kernels():
    x = np.random.default_rng(0).normal(size=(4, 6))
    data = wf.Data(x, np.eye(3)[[0, 1, 2, 0]], x[:2] + 0.1, np.eye(3)[[0, 1]])
    record = wf.Record(every=5, neurons=0, samples=3, test_kernels=True)
    answer = lazy(data, loss=wf.SoftmaxCrossEntropy(), optimiser=wf.SGD(0.1, 5), record=record)
    assert answer.data.ntk.dims == ("time", "sample", "output", "sample_", "output_")
    found = StaticKernel(answer.problem.network).layers(x[:3])
    np.testing.assert_allclose(answer.data.gradient_kernel[-1, :, :, 1, :, 1], found.gradient)
    assert np.all(answer.data.gradient_kernel[-1, :, :, 1, :, 0] == 0)
    crossed = StaticKernel(answer.problem.network)(x[:2] + 0.1, x[:3])
    np.testing.assert_allclose(answer.data.test_ntk[0, :, 2, :, 2], crossed.ntk, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        wf.GradientDescent(),
        wf.FeedbackAlignment(0.5),
        wf.DirectFeedbackAlignment(),
        wf.Hebb(),
        wf.GatedLinear(),
    ],
    ids=lambda rule: rule.kind,
)
def test_infinite_width_without_richness(rule):
    """Outputs and all kernels of every rule, with biases and variances, are those of DMFT at gamma_0 = 0."""
    answer = lazy(
        rule=rule,
        activation="relu",
        richness=0.0,
        weight_variances=1.3,
        bias_variances=0.2,
        train_biases=True,
        optimiser=wf.SGD(0.05, 6),
        record=wf.Record(every=6, neurons=0),
    )
    exact = wf.solve(answer.problem, wf.InfiniteWidth(1024, 12))
    for name in ("outputs", "test_outputs", *KERNELS):
        distance = np.abs(answer.data[name] - exact.data[name])
        allowed = 5 * exact.data[f"{name}_error"] + 1e-9 + 5e-3 * float(np.abs(exact.data[name]).max())
        assert np.all(distance <= allowed), name


@pytest.mark.slow
def test_real_networks_in_the_ntk_parameterisation():
    """Mean and deviation of trained ensembles, PDLT (10.40) and (10.41), up to 1/N."""
    answer = lazy(parameterisation="ntk", centred=False, optimiser=wf.SGD(0.2, 30), record=wf.Record(steps=(30,)))
    networks = wf.solve(answer.problem, wf.FiniteWidth(256, seeds=600))
    outputs = networks.data.test_outputs.isel(time=-1, output=0)
    mean, spread = outputs.mean("seed"), outputs.std("seed", ddof=1)
    expected = answer.data.test_outputs[-1, :, 0], answer.data.test_outputs_deviation[-1, :, 0]
    assert np.all(np.abs(mean - expected[0]) < 4 * spread / np.sqrt(600) + 0.02 * spread)
    np.testing.assert_allclose(spread, expected[1], rtol=4 / np.sqrt(1200) + 0.03)


def test_divergence_and_storage(tmp_path):
    with pytest.raises(Diverged, match="exploded"):
        lazy(optimiser=wf.SGD(50.0, 200))
    answer = lazy()
    answer.save(tmp_path / "lazy.nc")
    again = wf.Trajectory.load(tmp_path / "lazy.nc")
    assert again.theory == answer.theory
    np.testing.assert_array_equal(again.data.outputs, answer.data.outputs)
    assert again.kernel_movement().max() == 0
    assert float(again.gradient_cosine().min()) == pytest.approx(1.0)


def test_what_a_fixed_kernel_cannot_describe():
    with pytest.raises(InvalidInput, match=r"weight_decay = 0\.1: moves the weights"):
        lazy(optimiser=wf.SGD(0.1, 5, weight_decay=0.1))
    with pytest.raises(InvalidInput, match=r"temperature = 0\.5"):
        lazy(optimiser=wf.SGD(0.1, 5, temperature=0.5))
    with pytest.raises(InvalidInput, match="weight_decay"):
        lazy(optimiser=wf.GradientFlow(t_end=1.0, weight_decay=0.1))
    with pytest.raises(InvalidInput, match="particles = 1 "):
        wf.Lazy(particles=1)
    with pytest.raises(InvalidInput, match="perceptron"):
        lazy(activation="perceptron")

    @dataclass(frozen=True)
    class Unknown(wf.LearningRule, kind="unknown-rule-of-this-test"):
        pass

    with pytest.raises(InvalidInput, match="does not define `transmission`"):
        lazy(rule=Unknown())
