"""Alternating Monte Carlo against closed equations, tabulated oracles and the causal solver, for every rule."""

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from problems import INPUTS as X
from problems import REFERENCE_KERNELS as KERNELS
from problems import TARGETS as Y
from references import linear as linear_reference
from references.particles import deep_single_point
from widefield.asking import comparison
from widefield.base.errors import InvalidInput, NotAccurate, UnknownName
from widefield.base.numbers import double_precision
from widefield.base.statistics import widening
from widefield.kernels import StaticKernel
from widefield.solvers.alternating import iteration, marching, triangular
from widefield.solvers.alternating.equations import Equations, Surroundings
from widefield.solvers.alternating.iteration import Iteration
from widefield.solvers.alternating.noise import Sampling, Sources

RULES = {
    "gd": (wf.GradientDescent(), {"rule": "gd"}),
    "fa 0": (wf.FeedbackAlignment(0.0), {"rule": "fa", "rho": 0.0}),
    "fa 0.5": (wf.FeedbackAlignment(0.5), {"rule": "fa", "rho": 0.5}),
    "fa 1": (wf.FeedbackAlignment(1.0), {"rule": "fa", "rho": 1.0}),
    "dfa": (wf.DirectFeedbackAlignment(), {"rule": "dfa"}),
    "hebb": (wf.Hebb(), {"rule": "hebb"}),
    "gln": (wf.GatedLinear(), {"rule": "gd"}),  # gates of a linear activation are open
}
COMMON = {"fresh": False, "damping": 1.0, "replicas": 1}
EXACT = wf.AlternatingMonteCarlo(120, matched=True, jitter=1e-13, tolerance=1e-9, jacobian_particles=1, **COMMON)


STALLS = pytest.mark.filterwarnings("ignore::widefield.base.errors.NotAccurate")
"""Fresh noise never comes to rest."""


def slow(*parameters):
    return pytest.param(*parameters, marks=pytest.mark.slow)


def raw(problem, sampling, combined, **options):
    """Order parameters, without the theory around them."""
    with double_precision():
        start = StaticKernel(problem.network, problem.rule).layers(problem.samples.x)
        return iteration.alternate(Equations.of(problem), start, sampling, combined, **options)


# Linear networks: nothing is random if second moments are exact.

CHANGES = {
    "plain": ({}, {}, {}),
    "momentum, decay, minibatches, schedule": (
        {"momentum": 0.5, "weight_decay": 0.3, "batch_size": 2, "learning_rate": (0.08, 0.07, 0.06, 0.05, 0.04, 0.03)},
        {},
        {"momentum": 0.5, "decay": 0.3, "eta": [0.08, 0.07, 0.06, 0.05, 0.04, 0.03]},
    ),
    "variances, widths, biases, decay": (
        {"weight_decay": 0.2},
        {"weight_variances": (1.3, 0.8, 1.2, 0.7), "width_ratios": (2.0, 0.5, 1.0), "bias_variances": 0.3},
        {
            "decay": 0.2,
            "weight_variances": (1.3, 0.8, 1.2, 0.7),
            "width_ratios": (2.0, 0.5, 1.0),
            "bias_variances": 0.3,
        },
    ),
    "trained biases": (
        {"weight_decay": 0.2, "momentum": 0.3},
        {"bias_variances": 0.3, "train_biases": True},
        {"decay": 0.2, "momentum": 0.3, "bias_variances": 0.3, "train_biases": True},
    ),
}
QUICK = [("gd", 2, "plain", "auto"), ("fa 0.5", 2, "momentum, decay, minibatches, schedule", "stein")]
LINEAR = QUICK + [
    slow(rule, layers, "plain", responses)
    for rule in RULES
    for layers in (1, 2, 3)
    for responses in ("jacobian", "stein")
    if (rule, layers, "plain", responses) != ("gd", 2, "plain", "jacobian")
]
LINEAR += [
    slow(rule, 3, change, responses)
    for rule in RULES
    for change, responses in zip(list(CHANGES)[1:], ("stein", "jacobian", "stein"), strict=True)
]


@pytest.mark.parametrize(("rule", "layers", "change", "responses"), LINEAR)
def test_linear_networks_equal_the_closed_equations(rule, layers, change, responses):
    """The third sample is a test sample, which is in no batch of the closed equations."""
    optimiser, network, reference = CHANGES[change]
    ours, theirs = RULES[rule]
    problem = wf.Problem(
        network=wf.MLP(layers, "linear", richness=1.2, **network),
        data=wf.Data(X[:2], Y[:2], X[2:], Y[2:]) if change == "plain" else wf.Data(X, Y),
        rule=ours,
        optimiser=wf.SGD(**({"learning_rate": 0.06, "steps": 6} | optimiser)),
        record=wf.Record(every=2, neurons=0, test_kernels=change == "plain"),
    )
    train = problem.samples.samples
    used = np.tile([1.0, 1.0, float(train == 3)], (6, 1))
    batches = problem.optimiser.batches(train)
    if batches is not None:
        used[:] = 0.0
        np.put_along_axis(used, batches, 1.0, axis=1)
    options = {"eta": 0.06} | theirs | reference
    exact = linear_reference.sweep(X @ X.T / 3, Y, depth=layers, gamma0=1.2, steps=6, batches=used, **options)
    data = wf.solve(problem, dataclasses.replace(EXACT, responses=responses)).data
    assert data.attrs["converged"] == 1
    close = {"rtol": 0, "atol": 1e-6 if responses != "stein" else 1e-7}
    np.testing.assert_allclose(data.outputs.values[:, :, 0], exact.f[::2, :train], **close)
    for name, known in KERNELS.items():
        kernel = exact.equal_time(known)[::2, :, :train, :train]
        np.testing.assert_allclose(data[name].values, kernel, **close, err_msg=name)
    np.testing.assert_allclose(data.ntk.values, exact.ntk()[::2, :train, :train], **close)
    if train == 2:
        np.testing.assert_allclose(data.test_outputs.values[:, 0, 0], exact.f[::2, 2], **close)
        np.testing.assert_allclose(data.test_loss.values, (exact.f[::2, 2] - Y[2]) ** 2 / 2, **close)
        np.testing.assert_allclose(data.test_ntk.values, exact.ntk()[::2, 2:, :2], **close)
        gradients = exact.equal_time("gradients")[::2, :, 2:, :2]
        np.testing.assert_allclose(data.test_gradient_kernel.values, gradients, **close)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["gd", "fa 0.5", "hebb"])
def test_responses_of_linear_networks(rule):
    """a or c, b and d at all pairs of times."""
    ours, theirs = RULES[rule]
    problem = wf.Problem(wf.MLP(3, "linear", richness=1.2), wf.Data(X, Y), rule=ours, optimiser=wf.SGD(0.06, 5))
    exact = linear_reference.sweep(X @ X.T / 3, Y, depth=3, gamma0=1.2, eta=0.06, steps=5, **theirs)
    found = raw(problem, Sampling(120, "stein", True, 1e-13), Iteration(1.0, 60, 1e-10, False)).order
    kinds = {"forward": exact.a if rule == "gd" else exact.c, "backward": exact.b[1:], "returned": exact.d[1:]}
    for name, known in kinds.items():
        for ours, matrix in zip(getattr(found, name), known, strict=False):
            # Where fields at several times are parallel only the product of a response and a field means something.
            field = np.asarray(found.gradients[1] if name == "forward" else found.features[1])
            theirs = matrix.reshape(18, 18)
            np.testing.assert_allclose(np.asarray(ours) @ field, theirs @ field, rtol=0, atol=2e-5, err_msg=name)
    assert len(found.forward) == (0 if rule == "hebb" else 2)
    assert len(found.returned) == (2 if rule == "fa 0.5" else 0)


@STALLS
@pytest.mark.slow
def test_gated_networks_follow_the_closed_equations():
    """Gates are sampled here and enumerated there."""
    kernel, y = [[1.0, 0.5], [0.5, 1.0]], [1.0, -1.0]
    problem = wf.Problem(
        network=wf.MLP(2, "relu", richness=1.0),
        data=wf.data.gram(kernel=kernel, y=y),
        rule=wf.GatedLinear(),
        optimiser=wf.SGD(0.1, 10),
        record=wf.Record(every=5, neurons=0),
    )
    exact = linear_reference.sweep(kernel, y, depth=2, gamma0=1.0, eta=0.1, steps=10, rule="gln")
    theory = wf.AlternatingMonteCarlo(4000, replicas=6, tolerance=0.0, jacobian_particles=200, matched=True)
    data = wf.solve(problem, theory).data
    assert_agrees(data, "outputs", exact.f[::5, :, None])
    for name, known in KERNELS.items():
        assert_agrees(data, name, exact.equal_time(known)[::5])


def assert_agrees(data, name, expected, error=0.0, bias=0.0):
    """Within four standard errors, in the norm over times and samples of every layer, and a fraction for the bias."""
    over = tuple(k for k, dim in enumerate(data[name].dims) if dim != "layer")
    value, expected = data[name].values, np.asarray(expected)
    distance, size = (np.sqrt(np.sum(x**2, axis=over)) for x in (value - expected, expected))
    noise = np.sqrt(np.sum(data[f"{name}_error"].values ** 2 + error**2, axis=over))
    assert np.all(distance <= 4 * noise + bias * size + 1e-12), (name, distance / size, noise / size)


# Nonlinear networks with responses: tensor quadrature.

RESPONDING = Sampling(5000, jacobian_particles=500)
SEEDS = range(0, 800, 100)


def one_sample(steps=3, layers=2, richness=1.5, rate=0.3):
    return wf.Problem(
        network=wf.MLP(layers, "tanh", richness=richness),
        data=wf.data.gram(kernel=[[1.0]], y=[1.0]),
        optimiser=wf.SGD(rate, steps),
        record=wf.Record(every=1, neurons=0),
    )


@pytest.fixture(scope="module")
def quadrature():
    """The same problem by the causal sweep of the reference, converged to seven digits."""
    return deep_single_point(1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.3, steps=3)


def relative(value, exact):
    return np.linalg.norm(np.asarray(value) - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("sampling", "noticed"),
    [
        (RESPONDING, {"outputs": 0.005, "features": 0.005, "gradients": 0.02, "forward": 0.01, "backward": 0.02}),
        slow(
            Sampling(50_000, "stein", jitter=1e-4),
            {"outputs": 0.01, "features": 0.01, "gradients": 0.04, "forward": 0.06, "backward": 0.06},
        ),
    ],
    ids=["jacobian", "stein"],
)
def test_two_hidden_layers_with_responses(sampling, noticed, quadrature):
    """Within 4 standard errors of eight seeds, in the norm over all times; errors of these fractions are noticed.

    The part of the backward response at equal times is looked at alone, too: it is easily lost.
    """
    found = [raw(one_sample(), sampling, Iteration(0.6, 40, settle=14), seed=seed) for seed in SEEDS]
    quantities = {"outputs": ([one.outputs[:, 0] for one in found], quadrature["f"])}
    for name in ("features", "gradients"):
        for k in (0, 1):
            quantities[f"{name} {k}"] = ([getattr(one.order, name)[k] for one in found], quadrature[name][k])
    quantities["forward"] = ([one.order.forward[0] for one in found], quadrature["a"][0])
    backward, exact = np.array([one.order.backward[0] for one in found]), quadrature["b"][1]
    quantities["backward"] = (backward, exact)
    quantities["backward, equal times"] = (np.diagonal(backward, axis1=1, axis2=2), np.diag(exact))
    for name, (values, exact) in quantities.items():
        error = np.linalg.norm(np.std(values, axis=0, ddof=1) / math.sqrt(len(SEEDS))) / np.linalg.norm(exact)
        assert 4 * error < noticed[name.replace(",", "").split()[0]], name
        assert relative(np.mean(values, axis=0), exact) < 4 * error, name


def test_without_the_response_at_equal_times_gradients_are_wrong(monkeypatch, quadrature):
    """The gradients of the first layer need it; the solver must notice if it is lost on the way."""
    whole = Equations.surroundings

    def lame(self, order, errors, layer):
        strict = tuple(jnp.tril(b, -1) for b in order.backward)
        return whole(self, order._replace(backward=strict), errors, layer)

    monkeypatch.setattr(iteration, "_surroundings", lame)
    without = raw(one_sample(), RESPONDING, Iteration(0.6, 20)).order.gradients[0][3, 3]
    assert abs(float(without) / quadrature["gradients"][0][3, 3] - 1) > 0.3


@STALLS
@pytest.mark.slow
def test_one_hidden_layer():
    theory = wf.AlternatingMonteCarlo(20_000, replicas=6, tolerance=0.0)
    data = wf.solve(one_sample(10, 1, 2.0, 0.1), theory).data
    times = [1, 5, 10]
    assert_agrees(data.isel(time=times), "outputs", np.reshape((0.0847703684, 0.3358424162, 0.5508566997), (3, 1, 1)))
    assert_agrees(data.isel(time=[0, 10]), "feature_kernel", np.reshape((0.3942944906, 0.6024436), (2, 1, 1, 1)))
    assert_agrees(data.isel(time=[0, 10]), "gradient_kernel", np.reshape((0.4644028952, 0.1716578), (2, 1, 1, 1)))


# Against the causal solver, which shares neither dynamics nor responses.


@dataclasses.dataclass(frozen=True)
class Effort:
    """Both solvers, and the largest standard errors that they may have, as fractions."""

    causal: wf.InfiniteWidth
    alternating: wf.AlternatingMonteCarlo
    errors: dict[str, float]


SCHEDULE = {"iterations": 30, "tolerance": 0.0}
EFFORTS = {
    "few": Effort(
        wf.InfiniteWidth(1024, 4),
        wf.AlternatingMonteCarlo(2000, replicas=4, settle=15, **SCHEDULE),
        {"outputs": 0.035, "feature_kernel": 0.03, "ntk": 0.05},
    ),
    "many": Effort(
        wf.InfiniteWidth(4096, 4),
        wf.AlternatingMonteCarlo(4000, replicas=8, settle=10, **SCHEDULE),
        {"outputs": 0.003, "feature_kernel": 0.003, "gradient_kernel": 0.01, "ntk": 0.005},
    ),
}
QUICK_PAIRS = [("tanh", 1, "gd", "many"), ("relu", 1, "dfa", "many")]
PAIRS = QUICK_PAIRS + [
    slow(activation, layers, rule, "few")
    for activation in ("tanh", "relu")
    for layers in (1, 2, 3)
    for rule in RULES
    if (activation, layers, rule, "many") not in QUICK_PAIRS
]


BIAS = {"tanh": 0.0, "relu": 0.01}
"""Fraction of a norm that finite samples add by Stein's lemma."""


def pair(activation, layers, rule, steps=10):
    return wf.Problem(
        network=wf.MLP(layers, activation, richness=1.0),
        data=wf.data.gram(kernel=[[1.0, 0.4], [0.4, 1.2]], y=[1.0, -0.7]),
        rule=RULES[rule][0],
        # Hebb's rule feeds on itself: three ReLU layers explode at the rate of the others.
        optimiser=wf.SGD(0.06 if rule == "hebb" else 0.12, steps),
        record=wf.Record(every=2, neurons=0),
    )


@STALLS
@pytest.mark.parametrize(("activation", "layers", "rule", "effort"), PAIRS)
def test_agrees_with_the_causal_solver(activation, layers, rule, effort):
    """Within 4 standard errors and the bias: many samples notice 2% in outputs, 5% in gradient kernels."""
    problem, spent = pair(activation, layers, rule), EFFORTS[effort]
    causal, data = (wf.solve(problem, theory).data for theory in (spent.causal, spent.alternating))
    for name in ("outputs", *KERNELS, "ntk"):
        assert_agrees(data, name, causal[name].values, causal[f"{name}_error"].values, BIAS[activation])
    # Wide error bars would agree with anything; those of outputs are widest where they have hardly begun to grow.
    wider = 2 if rule == "hebb" else 1  # which feeds on itself, errors included
    for name, most in spent.errors.items():
        for solution, widened in ((data, 1.0), (causal, widening(causal.attrs["replicas"]))):
            error = np.linalg.norm(solution[f"{name}_error"]) / np.linalg.norm(causal[name])
            assert error / widened < wider * most, name


@STALLS
@pytest.mark.slow
def test_sampling_bias_falls_with_the_number_of_particles():
    """ReLU by Stein's lemma, the noisiest case: with 16 times the particles gradients are at least twice as close."""
    problem = dataclasses.replace(pair("relu", 2, "gd"), network=wf.MLP(2, "relu", richness=1.5))
    causal = wf.solve(problem, wf.InfiniteWidth(4096, 8, rank_tolerance=1e-3)).data
    distances = []
    for particles in (1000, 4000, 16_000):
        data = wf.solve(problem, wf.AlternatingMonteCarlo(particles, replicas=8, tolerance=0.0)).data
        distances.append([relative(data[name], causal[name]) for name in ("outputs", "gradient_kernel", "ntk")])
    few, many = np.array(distances)[[0, 2]]
    assert few[0] < 0.005  # outputs are as good as their error bars from the start
    assert np.all(many[1:] < 0.5 * few[1:])


@pytest.mark.slow
def test_losses_and_weights_of_minibatches():
    """Hebb's pseudo-gradients hold the weight of a sample: in a step that of the batch, in a record that of the set."""
    y = np.sign(Y)
    problem = wf.Problem(
        network=wf.MLP(2, "linear", richness=1.2),
        data=wf.Data(X, y),
        loss=wf.Logistic(reduction="mean"),
        rule=wf.Hebb(),
        optimiser=wf.SGD(0.2, 5, batch_size=2),
        record=wf.Record(every=1, samples=2),
    )
    used = np.zeros((5, 3))
    np.put_along_axis(used, problem.optimiser.batches(3), 1.0, axis=1)
    exact = linear_reference.sweep(
        X @ X.T / 3,
        y,
        depth=2,
        gamma0=1.2,
        eta=0.2,
        steps=5,
        rule="hebb",
        batches=used,
        weight=0.5,
        error=lambda f, y: y / (1 + np.exp(y * f)),
    )
    data = wf.solve(problem, EXACT).data
    close = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(data.outputs.values[:, :, 0], exact.f[:, :2], **close)
    np.testing.assert_allclose(data.loss, np.mean(np.log1p(np.exp(-y * exact.f)), axis=1), **close)
    ratio = 2 / 3
    alignment, pseudo = (exact.equal_time(name)[:, :, :2, :2] for name in ("alignment", "pseudo"))
    np.testing.assert_allclose(data.alignment_kernel, ratio * alignment, **close)
    np.testing.assert_allclose(data.pseudo_gradient_kernel, ratio**2 * pseudo, **close)


# How it iterates.

SMALL = wf.AlternatingMonteCarlo(500, iterations=3, replicas=2, tolerance=0.0)
"""The tests that follow share compiled code."""


def test_common_random_numbers_converge_and_fresh_ones_stall():
    problem = pair("tanh", 2, "gd", steps=5)
    common = wf.solve(problem, dataclasses.replace(SMALL, iterations=50, tolerance=1e-6, **COMMON)).data
    assert common.attrs["converged"] == 1
    assert common.attrs["iterations"] < 40
    assert "outputs_error" not in common
    with pytest.warns(NotAccurate, match="tolerance = 1e-06 was not reached"):
        fresh = wf.solve(problem, dataclasses.replace(SMALL, iterations=50, tolerance=1e-6, settle=50)).data
    assert fresh.attrs["converged"] == 0
    assert fresh.attrs["iterations"] == 50
    assert fresh.attrs["change"] > 1e-3


@STALLS
def test_the_same_seed_gives_the_same_numbers_and_reports_progress():
    problem, told = pair("tanh", 2, "gd", steps=5), []
    first = wf.solve(problem, SMALL, progress=lambda *report: told.append(report))
    again, other = wf.solve(problem, SMALL), wf.solve(problem, dataclasses.replace(SMALL, seed=7))
    for name in ("outputs", "ntk", "gradient_kernel_error"):
        assert np.array_equal(first.data[name], again.data[name])
        assert not np.array_equal(first.data[name], other.data[name])
    assert first.data.attrs["replicas"] == 2
    assert [(done, total) for done, total, _ in told] == [(k, 6) for k in range(1, 7)]
    # Of two replicas each is one standard error from the mean.
    assert abs(told[-1][2] - float(first.data.loss[-1])) == pytest.approx(float(first.data.loss_error[-1]), rel=1e-6)


def test_iterations_that_explode_are_reported():
    wild = dataclasses.replace(pair("tanh", 2, "gd"), optimiser=wf.SGD(1e150, 5))
    with pytest.raises(InvalidInput, match=r"particles = 500, damping = 0.6: iteration \d diverged"):
        wf.solve(wild, SMALL)


def test_kernels_are_symmetric_and_responses_causal():
    problem = dataclasses.replace(pair("tanh", 2, "gd"), optimiser=wf.SGD(0.1, 5, batch_size=1))
    found = raw(problem, SMALL.sampling(problem), Iteration(iterations=3))
    order, times = found.order, np.arange(12) // 2
    for kernel in order.features + order.gradients:
        assert np.array_equal(kernel, kernel.T)
        assert np.linalg.eigvalsh(kernel).min() > -1e-10
    later = times[:, None] > times[None, :]
    a, b = np.asarray(order.forward[0]), np.asarray(order.backward[0])
    assert np.any(a)
    assert not np.any(a[~later])
    assert not np.any(b[~later & ~np.eye(12, dtype=bool)])
    # Nobody remembers a sample that was not in the batch.
    batch = np.eye(2, dtype=bool)[problem.optimiser.batches(2)[:, 0]].reshape(-1)
    assert not np.any(a[:, :10][:, ~batch])
    assert np.all(np.any(a[:, :10][:, batch], axis=0))
    assert len(found.change) == len(found.seconds) == 3
    assert found.at(order.features[0], 4, 2) == pytest.approx(np.asarray(order.features[0])[8:10, 4:6])


def test_rules_keep_what_they_need_only():
    sizes = {}
    for rule in ("gd", "fa 0", "fa 0.5", "dfa", "hebb"):
        with double_precision():
            equations = Equations.of(pair("tanh", 3, rule))
            start = StaticKernel(wf.MLP(3, "tanh"), RULES[rule][0]).layers(np.eye(2))
            order = iteration.resting(equations, start)
        sizes[rule] = [len(getattr(order, name)) for name in order._fields[:-1]]
    # features, gradients, alignment, pseudo, a or c, b, d
    assert sizes["gd"] == [3, 3, 0, 0, 2, 2, 0]
    assert sizes["fa 0"] == [3, 3, 3, 3, 0, 2, 0]
    assert sizes["fa 0.5"] == [3, 3, 3, 3, 2, 2, 2]
    assert sizes["dfa"] == sizes["hebb"] == sizes["fa 0"]


# Algebra.


def test_blocks_equal_plain_products(double, monkeypatch):
    monkeypatch.setattr(marching, "MARCH_ROWS", 7)
    monkeypatch.setattr(triangular, "PRODUCT_ROWS", 5)
    monkeypatch.setattr(triangular, "INVERSE_ROWS", 5)
    rng, count, n = np.random.default_rng(0), 3, 24
    times = np.arange(n) // count
    u, r = rng.normal(size=(2, n, 9))
    forward, backward = rng.normal(size=(2, n, n)) * (times[:, None] > times[None, :]) / n
    backward = backward + np.diag(rng.normal(size=n))
    features, gradients = np.zeros((2, n, 9))
    for t in range(n // count):
        rows = times == t
        h = u[rows] + forward[rows] @ gradients
        features[rows] = np.tanh(h)
        gradients[rows] = (r[rows] + backward[rows] @ features) / np.cosh(h) ** 2
    problem = wf.Problem(wf.MLP(2, "tanh"), wf.Data(X, Y), optimiser=wf.SGD(0.1, 7))
    unit = np.tril(forward, -1) + np.eye(n)
    below, above, ahead, back, one = (jnp.asarray(a) for a in (u, r, forward, backward, unit))
    around = Surroundings(None, None, None, None, ahead, back, None)
    sources = Sources(below, above, None, None, (below, ahead), None)

    @eqx.filter_jit
    def all_of_them(equations):
        marched = marching.march(equations, around, sources, below[:, 0], first=False, last=False)
        return (
            marched.features,
            marched.gradients,
            triangular.gram(below),
            triangular.lower_times(back, below),
            triangular.lower_lower(back, back),
            triangular.unit_lower_inverse(one),
            jnp.where(kept, triangular.lower_outer(below, above, count), 0.0),
        )

    kept = times[:, None] >= times[None, :]
    products = (u @ u.T / 9, backward @ u, backward @ backward, np.linalg.inv(unit), kept * (u @ r.T))
    for found, expected in zip(all_of_them(Equations.of(problem)), (features, gradients, *products), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


# What is refused.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": wf.Data(X, np.stack([Y, Y], axis=1))}, "network.outputs = 2: it is for at most 1"),
        ({"optimiser": wf.SGD(0.1, 3, temperature=0.2)}, "optimiser.temperature = 0.2: is not in its equations"),
        ({"optimiser": wf.GradientFlow(t_end=1.0)}, "optimiser = 'gradient-flow': known are sgd"),
        ({"network": wf.MLP(2, richness=0.0)}, "network.richness = 0: nothing moves"),
        ({"network": wf.MLP(2, parameterisation="ntk")}, "network.parameterisation = 'ntk'"),
    ],
)
def test_problems_that_it_cannot_solve_are_refused(change, message):
    problem = dataclasses.replace(wf.Problem(wf.MLP(2), wf.Data(X, Y), optimiser=wf.SGD(0.1, 3)), **change)
    with pytest.raises(InvalidInput, match=message):
        wf.solve(problem, wf.AlternatingMonteCarlo())


def test_unknown_rules_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Mine(wf.GradientDescent, kind="my-rule-of-alternating"):
        pass

    problem = wf.Problem(wf.MLP(2), wf.Data(X, Y), rule=Mine())
    with pytest.raises(InvalidInput, match=r"rule = 'my-rule-of-alternating': known are gradient-descent"):
        wf.solve(problem, wf.AlternatingMonteCarlo())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"particles": 0}, InvalidInput, "particles = 0"),
        ({"damping": 0.0}, InvalidInput, "damping = 0"),
        ({"damping": 1.1}, InvalidInput, "damping = 1.1"),
        ({"iterations": 0}, InvalidInput, "iterations = 0"),
        ({"tolerance": -1}, InvalidInput, "tolerance = -1"),
        ({"seed": -1}, InvalidInput, "seed = -1"),
        ({"responses": "jacobians"}, UnknownName, "did you mean 'jacobian'"),
        ({"fresh": 1}, InvalidInput, "fresh = 1"),
        ({"matched": "no"}, InvalidInput, "matched = 'no'"),
        ({"settle": None}, InvalidInput, "settle = None"),
        ({"jitter": 0.0}, InvalidInput, "jitter = 0"),
        ({"jacobian_particles": 0}, InvalidInput, "jacobian_particles = 0"),
        ({"replicas": 0}, InvalidInput, "replicas = 0"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        wf.AlternatingMonteCarlo(**settings)


def test_settings_that_do_not_suit_the_problem_are_refused():
    with pytest.raises(InvalidInput, match=r"particles = 20 must exceed the 24 sources"):
        wf.solve(pair("tanh", 2, "gd"), wf.AlternatingMonteCarlo(20, matched=True))
    with pytest.raises(InvalidInput, match=r"activation = 'relu': responses = 'jacobian' misses .*use 'stein'"):
        wf.solve(pair("relu", 2, "gd"), wf.AlternatingMonteCarlo(20, responses="jacobian"))
    many = wf.Problem(wf.MLP(2), wf.data.sphere(samples=1000, dimension=3), optimiser=wf.SGD(0.1, 5000))
    with pytest.raises(InvalidInput, match=r"GiB of memory.*fewer steps"):
        wf.solve(many, wf.AlternatingMonteCarlo(20))


def test_it_is_one_of_the_theories_to_compare():
    theory = comparison.named("alternating")[0]
    assert theory == wf.AlternatingMonteCarlo()
    assert wf.Theory.from_table(theory.to_table()) == theory
