"""Real networks against the proportional limit, and both against the training program of the package."""

import math
import signal

import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import Interrupted, InvalidInput
from widefield.proportional import (
    LinearNetwork,
    LinearTask,
    Spectrum,
    as_problem,
    power_law,
    simulate,
    simulation,
    solve,
)
from widefield.proportional.simulation import Networks, Sizes

MODES = power_law(1.5, 0.5, 64)
TARGETS = np.sqrt(MODES.target)[:, None] * np.stack([np.cos(np.arange(64)), np.sin(np.arange(64))], axis=1)
CASES = {
    "training set": (LinearNetwork(3, 1.0), LinearTask(samples=2, noise=0.3), 0.05),
    "fresh samples": (LinearNetwork(2, 0.5), LinearTask(batch_size=0.5, noise=0.3), 0.05),
    "population": (LinearNetwork(2, 0.5), LinearTask(), 0.05),
    "centred": (LinearNetwork(2, 0.5, 0.1, centred=True), LinearTask(samples=2), 0.04),
    "ntk": (LinearNetwork(2, 0.5, 1.0, "ntk"), LinearTask(samples=1), 0.05),
    "residual": (LinearNetwork(3, 0.7, branch=1.2, depth_scaled=True), LinearTask(), 0.05),
    "residual, training set": (
        LinearNetwork(5, 1.0, branch=1.2, depth_scaled=True),
        LinearTask(samples=2, noise=0.3),
        0.05,
    ),
    "widths": (LinearNetwork(3, (1.0, 0.5, 2.0)), LinearTask(samples=2, noise=0.3), 0.05),
    "outputs": (LinearNetwork(2, 1.0), LinearTask(samples=2, noise=0.3, target=[[1, 0.6], [0.6, 1]]), 0.05),
    "schedule": (LinearNetwork(2, 0.7), LinearTask(samples=1.5, noise=0.3), 0.05 * (1 + np.arange(25) / 25)),
    "structured, fresh samples": (LinearNetwork(2, 64, centred=True), LinearTask(batch_size=32, spectrum=MODES), 0.1),
    "structured, training set": (LinearNetwork(2, 64, centred=True), LinearTask(samples=64, spectrum=MODES), 0.1),
    "structured, outputs": (
        LinearNetwork(2, 64, centred=True),
        LinearTask(samples=96, noise=0.2, spectrum=Spectrum(MODES.eigenvalues, TARGETS)),
        0.1,
    ),
}


def assert_agrees(networks, theory, bias):
    """Every loss within 4 standard errors plus a relative bias; also that the errors are small enough to matter."""
    for name in ("test_loss", "train_loss"):
        mean, error, expected = (
            np.asarray(v) for v in (networks.data[name], networks.data[f"{name}_error"], theory.data[name])
        )
        assert (np.abs(mean - expected) <= 4 * error + bias * expected).all(), name
        assert np.median(error / expected) < 0.06
        assert np.linalg.norm(mean - expected) / np.linalg.norm(expected) < 0.06, name


@pytest.mark.parametrize("name", CASES)
def test_networks_agree(name):
    """Deviations of order 1/D are a few per cent at D = 128; structured data are a mean-field approximation."""
    problem = CASES[name]
    assert_agrees(simulate(*problem, 25, dimension=128, seeds=48), solve(*problem, 25), bias=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_larger_networks_agree(name):
    problem = CASES[name]
    assert_agrees(simulate(*problem, 25, dimension=256, seeds=64, seed=1), solve(*problem, 25), bias=0.02)


@pytest.mark.slow
def test_deviations_fall_with_the_dimension():
    """A curve's distance from the limit, with many networks: the bias falls as 1/D."""
    problem = (LinearNetwork(2, 1.0), LinearTask(samples=2, noise=0.3), 0.05)
    theory = solve(*problem, 20).test_loss
    gaps = {}
    for dimension, networks in ((16, 6000), (64, 1500)):
        found = simulate(*problem, 20, dimension=dimension, seeds=networks)
        assert found.data.test_loss_error.values.max() < 0.02
        gaps[dimension] = np.linalg.norm(found.test_loss - theory)
    assert gaps[16] / gaps[64] > 2


@pytest.mark.parametrize("network", [LinearNetwork(2, (0.5, 1.5)), LinearNetwork(2, 0.5, 0.8, "ntk", centred=True)])
@pytest.mark.filterwarnings("ignore::widefield.UnusualScale")  # x has another normalisation there
def test_training_program_of_the_package_agrees(network):
    """The same question as a `Problem`: one data set and one network each, gradient descent by the package."""
    task = LinearTask(samples=2, noise=0.3)
    train, test = [], []
    for seed in range(12):
        problem, width = as_problem(network, task, 0.05, 10, dimension=48, test_samples=400, seed=seed)
        found = wf.solve(problem, wf.FiniteWidth(width, seeds=1, seed=seed))
        train.append(2 * found.mean("loss").values)
        test.append(2 * found.mean("test_loss").values)
    ours = simulate(network, task, 0.05, 10, dimension=48, seeds=400)
    for losses, name in ((train, "train_loss"), (test, "test_loss")):
        error = np.std(losses, axis=0, ddof=1) / math.sqrt(len(losses))
        gap = np.mean(losses, axis=0) - ours.data[name].values
        assert (np.abs(gap) < 4 * np.hypot(error, ours.data[f"{name}_error"].values)).all()
        assert (error < 0.15 * np.mean(losses, axis=0)).all()


def test_same_seed_same_networks():
    problem = (LinearNetwork(2, 1.0), LinearTask(samples=2), 0.05)
    one, two, other = (simulate(*problem, 5, dimension=20, seeds=4, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.test_loss, two.test_loss)
    assert not np.array_equal(one.test_loss, other.test_loss)


def test_interruption_keeps_the_networks_that_were_finished(monkeypatch):
    problem = (LinearNetwork(2, 1.0), LinearTask(samples=2), 0.05)
    monkeypatch.setattr(simulation, "_NUMBERS", 1)  # one network at a time
    train, calls = Networks.train, []

    def interrupted(self, *arguments):
        calls.append(self)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return train(self, *arguments)

    monkeypatch.setattr(Networks, "train", interrupted)
    with pytest.raises(Interrupted, match="after 3 of 8 networks") as caught:
        simulate(*problem, 5, dimension=16, seeds=8, seed=2)
    monkeypatch.setattr(Networks, "train", train)
    whole = simulate(*problem, 5, dimension=16, seeds=3, seed=2)
    np.testing.assert_array_equal(caught.value.trajectory.test_loss, whole.test_loss)


def test_progress_counts_networks(capsys):
    simulate(LinearNetwork(1, 1.0), LinearTask(), 0.05, 4, dimension=10, seeds=6, progress=True)
    assert "6/6 networks" in capsys.readouterr().err


def test_divergence_of_networks_is_seen():
    found = simulate(LinearNetwork(3, 1.0), LinearTask(), 5.0, 200, dimension=20, seeds=2)
    assert found.diverged is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulate(LinearNetwork(2), LinearTask(), 0.1, 5), "must be finite"),
        (lambda: simulate(LinearNetwork(2, 0.01), LinearTask(), 0.1, 5, dimension=10), "too small"),
        (lambda: simulate(LinearNetwork(2, 1.0), LinearTask(), 0.1, 5, seeds=1), "seeds = 1"),
        (lambda: simulate(LinearNetwork(2, 1.0), LinearTask(target=np.eye(3)), 0.1, 5, dimension=2), "at least"),
        (lambda: as_problem(LinearNetwork(2, 1.0), LinearTask(), 0.1, 5), "fixed training set"),
        (
            lambda: as_problem(LinearNetwork(2, 1.0), LinearTask(samples=5, spectrum=Spectrum([1.0, 2.0])), 0.1, 5),
            "isotropic",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_bias_is_the_error_of_the_mean_predictor():
    """Networks and data sets averaged: |mean v|^2 / D, corrected for the number of networks."""
    network, task, rates = CASES["schedule"]
    theory = solve(network, task, rates, 25)
    np.testing.assert_allclose(theory.data.bias[[0, 1, 5, 10, 24]], (1, 0.7465, 0.4082, 0.2318, 0.0582), atol=6e-5)
    sizes, count = Sizes.of(network, task, 80), 400
    group = Networks(network, task, sizes, count, np.random.default_rng(0))
    group.train(rates[:10])
    v = group.errors()[..., 0]
    scatter = v.var(axis=0, ddof=1).sum() / count
    found = (np.sum(v.mean(axis=0) ** 2) - scatter) / sizes.dimension
    assert found == pytest.approx(float(theory.data.bias[10]), rel=0.06)


def trained_fields(D, N, P, rates, noise, branch, seed):
    """Two hidden layers, trained on activations of samples: v, Delta, h^0 .. h^2, g^1, g^2 at all times."""
    drawn, target = np.random.default_rng(seed), np.ones(D)
    W0, W1, w = drawn.standard_normal((N, D)), drawn.standard_normal((N, N)), drawn.standard_normal(N)
    x = drawn.standard_normal((P, D))
    y = x @ target / math.sqrt(D) + noise * drawn.standard_normal(P)
    skip, beta = (np.zeros((N, N)), 1.0) if branch is None else (np.eye(N), branch)
    found = {name: [] for name in ("v", "delta", "h0", "h1", "h2", "g1", "g2")}
    for rate in (*rates, 0.0):
        middle = skip + beta * W1 / math.sqrt(N)
        first = x @ W0.T  # (samples, neurons)
        second = first @ middle.T
        delta, back = y - second @ w / N, middle.T @ w
        fields = (
            target - math.sqrt(D) / N * W0.T @ back,
            delta,
            math.sqrt(D) / P * x.T @ delta,
            first.T @ delta / P,
            second.T @ delta / P,
            back,
            w,
        )
        for name, value in zip(found, fields, strict=True):
            found[name].append(value)
        # N eta times half the gradient of mean Delta^2
        W0 = W0 + rate / P * np.outer(back, delta @ x)
        W1 = W1 + rate / P * beta / math.sqrt(N) * np.outer(w, delta @ first)
        w = w + rate / P * delta @ second
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("branch", [None, 0.8])
def test_two_time_kernels_are_those_of_networks(branch):
    """All correlations, at all pairs of times, with networks that share no code with the theory or with `simulate`."""
    D, ratio, alpha, noise, steps, networks = 160, 0.75, 1.5, 0.3, 10, 40
    rates = 0.04 * (1 + np.arange(steps) / 10)
    network = LinearNetwork(2, ratio, branch=branch)
    theory = solve(network, LinearTask(samples=alpha, noise=noise), rates, steps, keep=True).data
    N, P = round(ratio * D), round(alpha * D)
    sums = {}
    for seed in range(networks):
        for name, value in trained_fields(D, N, P, rates, noise, branch, seed).items():
            sums.setdefault(name, []).append(value @ value.T / value.shape[1])
    expected = {
        "v": theory.error_correlation,
        "delta": theory.train_error_correlation,
        **{f"h{layer}": theory.feature_kernel[layer] for layer in range(3)},
        **{f"g{layer + 1}": theory.gradient_kernel[layer] for layer in range(2)},
    }
    for name, kernel in expected.items():
        mean, error = np.mean(sums[name], axis=0), np.std(sums[name], axis=0, ddof=1) / math.sqrt(networks)
        gap = mean - kernel.values
        assert (np.abs(gap) < 4 * error + 0.02 * np.abs(kernel.values).max()).all(), name
        assert np.linalg.norm(gap) < 0.08 * np.linalg.norm(kernel.values), name


def test_lazy_three_layers_are_random_matrices():
    """L = 2, gamma -> 0: the kernel in input space of random weights, BP25's setting."""
    size, rate, steps = 400, 0.1, 12
    drawn = np.random.default_rng(2)
    first, second = drawn.standard_normal((2, size, size)) / math.sqrt(size)
    both = second @ first
    # Norms of readout and gradient, which multiply the first two terms, are 1 in the limit.
    values = np.linalg.eigvalsh(np.eye(size) + first.T @ first + both.T @ both)
    losses = [np.mean((1 - rate * values) ** (2 * t)) for t in range(steps + 1)]
    found = solve(LinearNetwork(2, 1.0, 1e-3, centred=True), LinearTask(), rate, steps)
    np.testing.assert_allclose(found.test_loss, losses, rtol=0.01)
