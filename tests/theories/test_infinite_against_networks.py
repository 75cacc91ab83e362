"""Infinite width against real networks of several widths, extrapolated to 1/N = 0, and against independent oracles."""

from functools import cache

import numpy as np
import pytest

import widefield as wf
from widefield import gaussian

SPHERE = wf.data.sphere(samples=3, dimension=5, seed=1)
KERNELS = ("feature_kernel", "gradient_kernel", "alignment_kernel", "ntk")
SEEDS = {64: 512, 128: 768, 256: 256, 512: 80, 1024: 96}
PARALLEL = {64: 256, 128: 128, 256: 32, 512: 1, 1024: 1}  # divides SEEDS, so that one size is compiled


def learning(
    rule=None, *, layers=2, activation="tanh", richness=1.5, rate=0.1, steps=12, every=4, optimiser=None, **network
):
    """Three samples in five dimensions."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, richness=richness, **network),
        data=SPHERE,
        rule=rule or wf.GradientDescent(),
        optimiser=optimiser or wf.SGD(rate, steps),
        record=wf.Record(every=every, neurons=0),
    )


@cache
def trained(problem, width):
    """Networks of one width."""
    return wf.solve(problem, wf.FiniteWidth(width, seeds=SEEDS[width], parallel=PARALLEL[width])).data


@cache
def replicas(problem, particles, count):
    """Independent solutions at infinite width, which are kept apart."""
    return [wf.solve(problem, wf.InfiniteWidth(particles, 1, seed=k)).data for k in range(count)]


def numbers(data):
    """Outputs at all times but the first; of every final kernel the mean diagonal and, times y y', the rest."""
    y = data.targets.values[:, 0]
    off = np.multiply.outer(y, y) - np.diag(y**2)
    found = [data.outputs.values[..., 1:, :, 0].reshape(*data.loss.shape[:-1], -1)]
    for name in KERNELS:
        kernel = data[name].isel(time=-1).values
        kernel = kernel.reshape(*data.loss.shape[:-1], -1, len(y), len(y))
        found.append(np.einsum("...lpp->...l", kernel) / len(y))
        found.append(np.einsum("...lpq,pq->...l", kernel, off) / np.abs(off).sum())
    return np.concatenate(found, axis=-1)


def statistics(values):
    """Mean and standard error over the first axis."""
    values = np.asarray(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def at_infinity(problem, particles=512, count=16):
    """The numbers at infinite width and their standard errors."""
    return statistics([numbers(data) for data in replicas(problem, particles, count)])


def extrapolated(samples):
    """Value and error at 1/N = 0 of a weighted fit a + b/N; with c/N^2 too for numbers that a line misses.

    `samples` maps a width to the numbers of all networks of that width, with the networks first.
    """
    x = 1.0 / np.array(list(samples))
    means, errors = (np.array(part) for part in zip(*map(statistics, samples.values()), strict=True))
    value, error = np.empty(means.shape[1]), np.empty(means.shape[1])
    for k, (mean, spread) in enumerate(zip(means.T, errors.T, strict=True)):
        for degree in (1, 2):
            design = np.vander(x, degree + 1, increasing=True) / spread[:, None]
            covariance = np.linalg.inv(design.T @ design)
            fit = covariance @ design.T @ (mean / spread)
            missed = np.sum((design @ fit - mean / spread) ** 2)
            if missed < 9 * max(1, len(x) - degree - 1):
                break
        value[k], error[k] = fit[0], np.sqrt(covariance[0, 0])
    return value, error


def networks(problem, widths=(128, 256, 512)):
    """The numbers of real networks, extrapolated."""
    return extrapolated({width: numbers(trained(problem, width)) for width in widths})


def distance(ours, theirs):
    """Largest difference in combined standard errors."""
    return np.max(np.abs(ours[0] - theirs[0]) / np.hypot(ours[1], theirs[1]))


def check_learning(problem):
    """The loss falls by more than half, and features and tangent kernel move by more than a tenth."""
    data = replicas(problem, 512, 16)[0]
    assert data.loss[-1] < 0.5 * data.loss[0]
    for name in ("feature_kernel", "ntk"):
        first, last = data[name].values[[0, -1]]
        assert np.linalg.norm(last - first) > 0.1 * np.linalg.norm(first), name


FEW = {"rate": 0.2, "steps": 6, "every": 2}
CASES = {
    "gradient descent, L = 1": {"layers": 1, "richness": 2.0, "rate": 0.15},
    "gradient descent, L = 2": {},
    "gradient descent, L = 3": {"layers": 3},
    "gradient descent, L = 5": {"layers": 5, "richness": 0.7, **FEW},
    "gradient descent, relu": {"activation": "relu", "richness": 0.7, "rate": 0.15},
    "gradient descent, gelu": {"activation": "gelu", "richness": 0.7, "rate": 0.2},
    "gradient descent, erf": {"activation": "erf"},
    "gradient descent, linear": {"activation": "linear", "richness": 0.7, "rate": 0.05},
    "feedback alignment, rho = 0": {"rule": wf.FeedbackAlignment(0.0), **FEW},
    "feedback alignment, rho = 0.5": {"rule": wf.FeedbackAlignment(0.5), **FEW},
    "feedback alignment, rho = 1": {"rule": wf.FeedbackAlignment(1.0), **FEW},
    "direct feedback alignment, L = 3": {"rule": wf.DirectFeedbackAlignment(), "layers": 3, **FEW},
    "gated linear": {"rule": wf.GatedLinear(), "richness": 0.7},
    "Hebb": {"rule": wf.Hebb()},
    "feedback alignment, relu": {"rule": wf.FeedbackAlignment(0.5), "activation": "relu", "richness": 0.7, **FEW},
    "direct feedback alignment, gelu": {
        "rule": wf.DirectFeedbackAlignment(),
        "activation": "gelu",
        "richness": 0.7,
        **FEW,
    },
}
CASES |= {
    "Langevin noise": {"optimiser": wf.SGD(0.2, 6, temperature=0.03, weight_decay=0.2), "every": 2},
    "Langevin noise, feedback alignment": {
        "rule": wf.FeedbackAlignment(0.5),
        "optimiser": wf.SGD(0.2, 6, temperature=0.03, momentum=0.3),
        "every": 2,
    },
    "momentum, minibatches, decay": {"optimiser": wf.SGD(0.2, 12, momentum=0.5, batch_size=2, weight_decay=0.1)},
    "unequal widths, biases": {
        "width_ratios": (2.0, 1.0),
        "bias_variances": 0.2,
        "train_biases": True,
        "weight_variances": (1.2, 0.8, 1.0),
    },
    "gradient flow": {"optimiser": wf.GradientFlow(t_end=1.2, steps=3), "every": 1},
}
QUICK = ("gradient descent, L = 2",)


def check_limit(problem, **settings):
    check_learning(problem)
    off = distance(at_infinity(problem), networks(problem, **settings))
    assert off < 4
    return off


@pytest.mark.parametrize("name", QUICK)
def test_networks_extrapolate_to_infinite_width(name):
    check_limit(learning(**CASES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
def test_networks_of_every_rule_depth_and_activation_extrapolate_to_infinite_width(name):
    check_limit(learning(**CASES[name]))


def check_wrong_richness(name, factor):
    options = {"richness": 1.5, **CASES[name]}
    wrong = learning(**{**options, "richness": factor * options["richness"]})
    off = distance(at_infinity(wrong), networks(learning(**options)))
    assert off > 8
    return off


@pytest.mark.slow
@pytest.mark.parametrize(("name", "factor"), [("gradient descent, L = 1", 1.1), ("Hebb", 0.85)])
def test_a_wrong_richness_would_be_noticed(name, factor):
    """The same comparison, with another richness in the theory."""
    check_wrong_richness(name, factor)


def check_rate_of_approach(problem, widths):
    """Distance of one network from infinity: exponents of the outputs and of the last layer's features."""
    exponents = []
    for select in (lambda data: data.outputs, lambda data: data.feature_kernel.isel(time=-1, layer=-1)):
        exact = np.mean([select(data).values for data in replicas(problem, 512, 16)], axis=0)
        rms = [np.sqrt(np.mean((select(trained(problem, width)).values - exact) ** 2)) for width in widths]
        weights = np.sqrt([SEEDS[width] for width in widths])
        exponents.append(np.polyfit(np.log(widths), np.log(rms), 1, w=weights)[0])
    assert np.all(np.abs(np.array(exponents) + 0.5) < 0.1)
    return exponents


def test_a_network_is_as_far_from_infinity_as_the_root_of_its_width():
    check_rate_of_approach(learning(), (64, 128, 256, 512))


@pytest.mark.slow
def test_a_network_is_as_far_from_infinity_as_the_root_of_its_width_up_to_1024():
    check_rate_of_approach(learning(), (64, 128, 256, 512, 1024))


EDGE = {"richness": 1.0, "rate": 1.1, "steps": 6, "every": 2}


@pytest.mark.slow
def test_large_steps_are_those_of_networks_and_not_of_gradient_flow():
    """Close to the edge of stability: eta lambda_max of the tangent kernel is 1.7 at the end, and above 2 before."""
    check_edge()


def check_edge(widths=(128, 256, 512)):
    problem = learning(**EDGE)
    sharpness = EDGE["rate"] * np.linalg.eigvalsh(replicas(problem, 512, 16)[0].ntk.values)[:, -1]
    assert 1.5 < sharpness[-1] < 1.95
    assert sharpness[1] > 2
    off = check_limit(problem, widths=widths)
    flow = learning(**{**EDGE, "rate": EDGE["rate"] / 20, "steps": 20 * EDGE["steps"], "every": 20 * EDGE["every"]})
    apart = distance(at_infinity(flow, count=4), networks(problem, widths=widths))
    assert apart > 20
    return sharpness, off, apart


def lazy_kernel(activation, layers, inputs):
    """K = sum_l G^{l+1} Phi^l of Gaussian averages: the tangent kernel at the start."""
    features, slopes = [inputs], []
    for _ in range(layers):
        last = features[-1]
        pairs = (np.diag(last)[:, None] + 0 * last, last, np.diag(last) + 0 * last)
        features.append(gaussian.feature_kernel(activation, *pairs))
        slopes.append(gaussian.slope_kernel(activation, *pairs))
    total, gradient = features[-1], np.ones_like(inputs)
    for slope, feature in zip(reversed(slopes), reversed(features[:-1]), strict=True):
        gradient = gradient * slope
        total = total + gradient * feature
    return total


def check_lazy(activation, layers):
    """Outputs and tangent kernel, with 4 standard errors and 1e-4 more."""
    problem = learning(layers=layers, activation=activation, richness=0.0, rate=0.3)
    solved = replicas(problem, 512, 16)
    y = solved[0].targets.values[:, 0]
    kernel = lazy_kernel(activation, layers, solved[0].input_kernel.values)
    outputs = [np.zeros(len(y))]
    for _ in range(problem.optimiser.steps):
        outputs.append(outputs[-1] + 0.3 * kernel @ (y - outputs[-1]))
    found = []
    for name, expected in {"outputs": np.array(outputs)[::4, :, None], "ntk": np.array([kernel] * 4)}.items():
        mean, error = statistics([data[name].values for data in solved])
        np.testing.assert_array_less(np.abs(mean - expected), 4 * error + 1e-4, err_msg=name)
        assert error.max() < 0.01 * np.abs(expected).max()
        found.append((np.abs(mean - expected).max(), error.max()))
    return found


def test_richness_zero_is_gradient_descent_with_the_closed_kernel():
    check_lazy("tanh", 2)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "layers"), [("relu", 2), ("tanh", 3), ("relu", 3)])
def test_richness_zero_is_gradient_descent_with_the_closed_kernel_of_deeper_networks(activation, layers):
    check_lazy(activation, layers)


def population(kernel, y, *, rate, steps, spacing):
    """One hidden tanh layer: a regular grid of neurons (h, w) with Gaussian weights, moved by the mean of all.

    At gamma_0 = 1, f = <w phi(h)>, dw = eta sum Delta phi(h) and dh = eta sum K Delta phi'(h) w.
    """
    points = np.arange(-6.5, 6.5 + spacing / 2, spacing)
    weights = np.exp(-0.5 * points**2)
    grid = np.stack(np.meshgrid(*[points] * (len(y) + 1), indexing="ij"), axis=-1).reshape(-1, len(y) + 1)
    share = np.prod(np.meshgrid(*[weights / weights.sum()] * (len(y) + 1), indexing="ij"), axis=0).ravel()
    h, w = grid[:, :-1] @ np.linalg.cholesky(kernel).T, grid[:, -1:]
    outputs = []
    for step in range(steps + 1):
        features = np.tanh(h)
        gradients = (1 - features**2) * w
        outputs.append(share @ (w * features))
        error = y - outputs[-1]
        if step < steps:
            h, w = h + rate * (gradients * error) @ kernel, w + rate * (features @ error)[:, None]
    return np.array(outputs), (features.T * share) @ features, (gradients.T * share) @ gradients


def check_population():
    kernel, y = np.array([[1.0, 0.4], [0.4, 0.8]]), np.array([1.0, -0.7])
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=1, activation="tanh", richness=1.0),
        data=wf.data.gram(kernel, y),
        optimiser=wf.SGD(0.3, 10),
        record=wf.Record(every=2, neurons=0),
    )
    rough, expected = (population(kernel, y, rate=0.3, steps=10, spacing=spacing) for spacing in (0.2, 0.16))
    for a, b in zip(rough, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    solved = replicas(problem, 1024, 16)
    assert solved[0].loss[-1] < 0.5 * solved[0].loss[0]
    largest = []
    for name, index, value in (
        ("outputs", np.s_[1:, :, 0], expected[0][2::2]),
        ("feature_kernel", np.s_[-1, 0], expected[1]),
        ("gradient_kernel", np.s_[-1, 0], expected[2]),
    ):
        mean, error = statistics([data[name].values[index] for data in solved])
        np.testing.assert_array_less(np.abs(mean - value), 4 * error + 1e-5, err_msg=name)
        assert error.max() < 2e-3
        largest.append((np.max(np.abs(mean - value) / error), error.max()))
    return largest


def test_richness_one_is_the_population_of_one_hidden_layer():
    check_population()


def textbook(x, y, *, width, seeds, rate, steps, every, rng):
    """Networks with two hidden tanh layers in muP as it is usually written, trained by backpropagation.

    h1 = W1 x / sqrt(D), h2 = W2 tanh(h1), f = w tanh(h2) / N; W1, w ~ N(0, 1), W2 ~ N(0, 1/N); learning rates
    N eta, eta, N eta of W1, W2, w on the loss sum (y - f)^2 / 2. f is not centred.

    Why these rates are `SGD.learning_rate` = eta at gamma_0 = 1: there theta moves by -eta N dLoss/dtheta for the
    entries of W^0 = W1, W^1 = sqrt(N) W2 and w, so W2 moves by -(eta N / N) dLoss/dW2.
    """
    x = x / np.sqrt(x.shape[1])
    W1 = rng.standard_normal((seeds, width, x.shape[1]))
    W2 = rng.standard_normal((seeds, width, width)) / np.sqrt(width)
    w = rng.standard_normal((seeds, width))
    outputs = []
    for step in range(steps + 1):
        a1 = np.tanh(W1 @ x.T)
        a2 = np.tanh(W2 @ a1)
        f = np.einsum("sn,snp->sp", w, a2) / width
        if step % every == 0 and step:
            outputs.append(f)
        if step == steps:
            break
        df = f - y
        dw = np.einsum("snp,sp->sn", a2, df) / width
        dh2 = (w[:, :, None] / width) * (1 - a2**2) * df[:, None, :]
        dh1 = np.swapaxes(W2, 1, 2) @ dh2 * (1 - a1**2)
        W2 -= rate * dh2 @ np.swapaxes(a1, 1, 2)
        W1 -= rate * width * dh1 @ x
        w -= rate * width * dw
    off = np.multiply.outer(y, y) - np.diag(y**2)
    kernels = [np.swapaxes(a, 1, 2) @ a / width for a in (a1, a2)]
    found = [np.concatenate(outputs, axis=1)]
    found += [np.einsum("spp->s", kernel)[:, None] / len(y) for kernel in kernels]
    found += [np.einsum("spq,pq->s", kernel, off)[:, None] / np.abs(off).sum() for kernel in kernels]
    return np.concatenate(found, axis=1)


@cache
def textbook_limit(samples, steps, every):
    """Their outputs and feature kernels, extrapolated."""
    rng, found = np.random.default_rng(0), {}
    run = {"rate": 0.15, "steps": steps, "every": every, "rng": rng}
    for width, (groups, seeds) in {128: (48, 32), 256: (64, 8), 512: (80, 2)}.items():
        parts = [textbook(samples.x, samples.y[:, 0], width=width, seeds=seeds, **run) for _ in range(groups)]
        found[width] = np.concatenate(parts)
    return extrapolated(found)


def check_textbook(richness=1.0):
    problem = learning(richness=richness, rate=0.15)
    check_learning(problem)
    theirs = textbook_limit(problem.samples, problem.optimiser.steps, problem.record.every)
    count = theirs[0].size  # outputs at three times and the feature kernels are the first of `numbers`
    mean, error = at_infinity(problem)
    return distance((mean[:count], error[:count]), theirs)


@pytest.mark.slow
def test_richness_one_is_textbook_mup():
    assert check_textbook() < 4
    assert check_textbook(richness=1.15) > 8


DIGITS = wf.data.digits(samples=12, classes=(0, 1, 2), test_samples=3)
PAIRS = wf.data.sphere(samples=8, dimension=5, test_samples=3, seed=2)
PARTS = {
    "softmax, one pass, feedback alignment": {
        "data": DIGITS,
        "loss": wf.SoftmaxCrossEntropy(),
        "rule": wf.FeedbackAlignment(0.5),
        "optimiser": wf.SGD(0.1, 4, batch_size=3, one_pass=True),
    },
    "three outputs, direct feedback alignment": {
        "data": DIGITS,
        "rule": wf.DirectFeedbackAlignment(),
        "optimiser": wf.SGD(0.05, 6),
    },
    "three outputs, Hebb, momentum": {
        "data": DIGITS,
        "rule": wf.Hebb(),
        "optimiser": wf.SGD(0.02, 6, momentum=0.5),
    },
    "Huber loss, gated linear, minibatches": {
        "data": PAIRS,
        "loss": wf.Huber(),
        "rule": wf.GatedLinear(),
        "optimiser": wf.SGD(0.1, 6, batch_size=4),
    },
    "logistic loss, feedback alignment, decay": {
        "data": PAIRS,
        "loss": wf.Logistic(),
        "rule": wf.FeedbackAlignment(0.0),
        "optimiser": wf.SGD(0.2, 6, weight_decay=0.1),
    },
    "softmax, Langevin noise": {
        "data": DIGITS,
        "loss": wf.SoftmaxCrossEntropy(),
        "optimiser": wf.SGD(0.1, 4, temperature=0.02),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_whatever_networks_can_be_trained_on_has_its_limit(name):
    """Losses, outputs, batches and rules in combination, on training and test points: rms of z-scores near 1."""
    network = wf.MLP(hidden_layers=2, activation="relu" if "gated" in name else "tanh")
    problem = wf.Problem(network=network, record=wf.Record(every=2, neurons=0), **PARTS[name])
    theory, real = wf.solve(problem, wf.InfiniteWidth(1024, 6)), wf.solve(problem, wf.FiniteWidth(512, seeds=24))
    for variable in ("outputs", "test_outputs", "feature_kernel", "gradient_kernel", "alignment_kernel"):
        off = (theory.mean(variable) - real.mean(variable)).isel(time=-1)
        error = np.hypot(theory.standard_error(variable), real.standard_error(variable)).isel(time=-1)
        assert float(np.sqrt(((off / error) ** 2).where(error > 1e-12).mean())) < 2, variable
