"""Real networks against what is known of them: the limit of large width, the approach to it, and small widths."""

import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import InvalidInput

RELU = "scale_invariant(1.4142135623730951, 0)"  # sqrt(2) max(0, h), which preserves the norm
PAIR = [[1.0, 0.5], [0.5, 1.0]]


def train(width, seeds, *, data, steps, layers=2, activation="linear", rule=None, rate=0.05, kernels=False, **network):
    """Data of many networks of one width, trained side by side."""
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, **network),
        data=data,
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(rate, steps),
        record=wf.Record(steps=range_of(steps), neurons=0, kernels=kernels),
    )
    return wf.solve(problem, wf.FiniteWidth(width, seeds=seeds, parallel=seeds)).data


def range_of(steps):
    return [steps // 2, steps]


def deviations(values, expected):
    """(mean - expected) in standard errors, over the first axis."""
    values = np.asarray(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return (values.mean(axis=0) - expected) / error


def extrapolate(means, errors, widths):
    """Value at N = infinity of a weighted fit mean(N) = value + slope/N: value, its error, slope, residuals."""
    means, errors, x = np.asarray(means), np.asarray(errors), 1.0 / np.asarray(widths)
    weights = 1.0 / errors**2
    total, mean_x = weights.sum(axis=0), (weights.T @ x).T / weights.sum(axis=0)
    spread = (weights.T @ x**2).T / total - mean_x**2
    mean_y = (weights * means).sum(axis=0) / total
    slope = ((weights.T * x).T * means).sum(axis=0) / total
    slope = (slope - mean_x * mean_y) / spread
    value = mean_y - slope * mean_x
    fitted = value + np.multiply.outer(x, slope)
    return value, np.sqrt((1 + mean_x**2 / spread) / total), slope, (means - fitted) / errors


def curves(widths, seeds, **problem):
    """Mean, standard error and spread over seeds of the outputs, for every width."""
    runs = [train(width, seeds, **problem).outputs.values[:, 1:, :, 0] for width in widths]
    means = np.array([run.mean(axis=0) for run in runs])
    spreads = np.array([run.std(axis=0, ddof=1) for run in runs])
    return means, spreads / np.sqrt(seeds), spreads


def check_scaling(widths, seeds):
    data = wf.data.sphere(samples=3, dimension=4, seed=2)
    problem = {"data": data, "steps": 10, "rate": 0.2, "activation": "tanh"}
    means, errors, spreads = curves(widths, seeds, **problem)
    value, _, slope, residuals = extrapolate(means, errors, widths)
    assert np.abs(value).max() > 0.4  # they have learned something
    assert np.abs(residuals).max() < 4
    assert np.abs(slope / widths[0]).max() < 0.1  # at the smallest width already the curve is that of the limit
    pooled = np.sqrt((spreads**2).mean(axis=(1, 2)))
    exponent = np.polyfit(np.log(widths), np.log(pooled), 1)[0]
    assert -0.6 < exponent < -0.4
    return exponent, np.abs(residuals).max(), np.abs(slope / widths[0]).max()


@pytest.mark.slow
def test_width_leaves_the_mean_curve_and_its_spread_falls_as_the_square_root():
    check_scaling((32, 64, 128, 256), 150)


@pytest.mark.slow
def test_width_leaves_the_mean_curve_and_its_spread_falls_as_the_square_root_up_to_1024():
    check_scaling((32, 64, 128, 256, 512, 1024), 300)


def test_equal_gamma_does_not_give_equal_curves():
    """gamma = gamma0 sqrt(N) fixed instead of gamma0: wider networks are lazier."""
    data = wf.data.sphere(samples=3, dimension=4, seed=2)
    problem = {"data": data, "steps": 10, "rate": 0.2, "activation": "tanh", "layers": 1}
    richness = 3 * np.sqrt(32)
    means, errors, _ = curves((32, 512), 150, parameterisation="ntk", richness=richness, **problem)
    rich, rich_errors, _ = curves((512,), 150, richness=3.0, **problem)
    assert np.abs((means[0] - means[1]) / np.hypot(*errors)).max() > 20
    assert np.abs((rich[0] - means[1]) / np.hypot(rich_errors[0], errors[1])).max() > 20
    distance = np.abs(rich[0] - means).max(axis=(1, 2))
    assert distance[1] > 4 * distance[0]  # gamma0 = 3 at width 32 is nearly what gamma0 = 3 is at 512


GAM = 1 / 3  # <phi'(m1) phi'(m2)> of ReLU gates at cosine 1/2: (pi - pi/3) / 2 pi
ONE_STEP = {
    "gradient descent": (wf.GradientDescent(), "linear", 3 * np.array(PAIR)),
    "feedback alignment": (wf.FeedbackAlignment(0.5), "linear", (1 + 0.5 + 0.25) * np.array(PAIR)),
    "feedback alignment, negative": (wf.FeedbackAlignment(-0.8), "linear", (1 - 0.8 + 0.64) * np.array(PAIR)),
    "direct feedback alignment": (wf.DirectFeedbackAlignment(), "linear", np.array(PAIR)),
    "gated linear": (wf.GatedLinear(), "relu", 3 * np.array([[0.5, GAM], [GAM, 0.5]]) ** 2 * PAIR),
}


def check_one_step(name, seeds):
    """f(1) = eta K_eNTK(0) y of linear networks; at one step the mean has no correction of order 1/N."""
    rule, activation, kernel = ONE_STEP[name]
    y = np.array([1.0, 0.5])
    run = train(64, seeds, data=wf.data.gram(PAIR, y), steps=1, activation=activation, rule=rule)
    off = deviations(run.outputs.values[:, -1, :, 0], 0.05 * kernel @ y)
    assert np.abs(off).max() < 4
    wrong = deviations(run.outputs.values[:, -1, :, 0], 1.1 * 0.05 * kernel @ y)
    assert np.abs(wrong).min() > 4  # and the test would notice ten percent
    return off


@pytest.mark.parametrize("name", ["gradient descent", "feedback alignment", "gated linear"])
def test_the_first_step_follows_the_kernel(name):
    check_one_step(name, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_STEP)
def test_the_first_step_follows_the_kernel_precisely(name):
    check_one_step(name, 30000)


LINEAR = {1: (0.4170365770, 0.6803670677), 2: (0.5878116092, 0.8734416714), 3: (0.7428987141, 0.9700862296)}
"""f(5), f(10) of linear networks at infinite width, P = 1, K = y = gamma0 = 1, eta = 0.05 (reference values)."""


def check_linear(layers, widths, seeds):
    data = wf.data.gram(kernel=[[1.0]], y=[1.0])
    means, errors, _ = curves(widths, seeds, data=data, steps=10, layers=layers)
    value, error, _, residuals = extrapolate(means[..., 0], errors[..., 0], widths)
    off = (value - LINEAR[layers]) / error
    assert np.abs(off).max() < 4
    assert error.max() < 0.01
    assert np.abs(residuals).max() < 4
    return off


@pytest.mark.parametrize("layers", [1, 2])
def test_linear_networks_follow_the_curve_of_infinite_width(layers):
    check_linear(layers, (48, 192), 600)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_linear_networks_follow_the_curve_of_infinite_width_precisely(layers):
    check_linear(layers, (64, 128, 256, 512), 600)


ANGLES = wf.data.gram(np.cos(np.subtract.outer([0, np.pi / 4, np.pi / 2], [0, np.pi / 4, np.pi / 2])), [1.0, 0.5, -1.0])
LAZY = {  # angles 0, pi/4, pi/2 with three hidden layers (reference values)
    "gradient descent": (wf.GradientDescent(), (4.0, 2.233324, 1.060388)),
    "half": (wf.FeedbackAlignment(0.5), (1.875, 1.290165, 0.800721)),
    "none": (wf.FeedbackAlignment(0.0), (1.0, 0.820913, 0.604826)),
    "direct": (wf.DirectFeedbackAlignment(), (1.0, 0.820913, 0.604826)),
    "hebb": (wf.Hebb(), (1.0, 0.820913, 0.604826)),
    "gated": (wf.GatedLinear(), (4.0, 4 * 0.298311, 0.0)),
}


def check_lazy(name, width, seeds):
    rule, expected = LAZY[name]
    run = train(width, seeds, data=ANGLES, steps=1, layers=3, activation=RELU, rule=rule, kernels=True)
    ntk = run.ntk.values[:, 0]
    off = deviations(np.stack([ntk[:, 1, 1], ntk[:, 0, 1], ntk[:, 0, 2]], axis=1), expected)
    assert np.abs(off).max() < 4
    return off


@pytest.mark.parametrize("name", ["gradient descent"])
def test_the_kernel_at_the_start_is_that_of_infinite_width(name):
    check_lazy(name, 256, 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAZY)
def test_the_kernel_at_the_start_is_that_of_infinite_width_for_every_rule(name):
    check_lazy(name, 1024, 100)


def check_covariance(layers, width, seeds):
    """Cov(Phi^l, Phi^l') = (1 + 5/N)^min(l, l') - 1 at every N, and N Var G^L = 5 (BP23 H.3)."""
    data = wf.data.gram(kernel=[[1.0]], y=[1.0])
    run = train(width, seeds, data=data, steps=1, layers=layers, activation=RELU, kernels=True)
    phi = run.feature_kernel.values[:, 0, :, 0, 0]
    assert np.abs(deviations(phi, 1.0)).max() < 4
    level = np.arange(1, layers + 1)
    expected = (1 + 5 / width) ** np.minimum.outer(level, level) - 1
    products = (phi - 1)[:, :, None] * (phi - 1)[:, None, :]
    off = deviations(products, expected)
    assert np.abs(off).max() < 4
    assert np.abs(deviations(products, 0.8 * expected)).min() > 4
    top = run.gradient_kernel.values[:, 0, -1, 0, 0]
    assert abs(deviations((top - 1) ** 2, 5 / width)) < 4
    return off


def test_kernels_fluctuate_as_at_finite_width():
    check_covariance(3, 40, 6000)


@pytest.mark.slow
def test_kernels_fluctuate_as_at_finite_width_in_deep_networks():
    check_covariance(5, 60, 20000)


def test_precision_float32_trains_in_float32(small_problem):
    single = wf.solve(small_problem, wf.FiniteWidth(8, dtype="float32")).data
    assert single.outputs.dtype == np.float32
    assert single.loss[0, -1] < single.loss[0, 0]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"width": 0}, "width = 0 must be a whole number of at least 1"),
        ({"width": -5}, "width = -5"),
        ({"width": 10.5}, "width = 10.5 is not a whole number"),
        ({"width": "wide"}, "width = 'wide' is not a whole number"),
        ({"width": True}, "width = True"),
        ({"width": 4, "seeds": 0}, "seeds = 0"),
        ({"width": 4, "seed": -1}, "seed = -1"),
        ({"width": 4, "dtype": "float46"}, "dtype 'float46'; did you mean 'float64'"),
        ({"width": 4, "parallel": 0}, "parallel = 0"),
    ],
)
def test_settings_that_cannot_work_are_named(arguments, match):
    with pytest.raises(InvalidInput, match=match):
        wf.FiniteWidth(**arguments)


def test_no_network_has_richness_zero(small_problem):
    problem = wf.Problem(wf.MLP(richness=0), small_problem.data)
    with pytest.raises(InvalidInput, match=r"richness = 0: is the lazy limit, which no finite network reaches"):
        wf.solve(problem, wf.FiniteWidth(4))


def test_records_that_cannot_fit_into_memory_are_refused_at_once(small_problem):
    problem = wf.Problem(
        small_problem.network,
        wf.data.sphere(samples=200, dimension=5),
        optimiser=wf.SGD(0.1, 10**6),
        record=wf.Record(every=1),
    )
    with pytest.raises(InvalidInput, match=r"the records would take \d+\.\d GiB .*record less often"):
        wf.solve(problem, wf.FiniteWidth(64))


def test_weights_that_cannot_fit_into_memory_are_refused_at_once(small_problem, monkeypatch):
    little = type("Memory", (), {"available": 20_000})
    monkeypatch.setattr("psutil.virtual_memory", lambda: little)
    with pytest.raises(InvalidInput, match=r"the weights would take \d+\.\d GiB .*reduce width"):
        wf.solve(small_problem, wf.FiniteWidth(4096))
