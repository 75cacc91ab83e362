"""Predictions with a fixed kernel against brute force, scikit-learn, and simulations of networks' outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from widefield.base.errors import InvalidInput
from widefield.kernels import Blocks, Prediction, StaticKernel, log_evidence, posterior, trained
from widefield.problem.network import MLP

INPUTS = np.array([[1, 0.5, -0.4], [-0.2, 0.9, 0.7], [0.5, 0.6, 0.3], [0.9, -0.8, 0.1]])
TARGETS = np.array([0.9, -0.6])


def blocks(kernel):
    """The first half of the samples is for training."""
    half = len(kernel) // 2
    return Blocks(kernel[:half, :half], kernel[half:, :half], kernel[half:, half:])


def random_kernel(seed, samples=8, features=20):
    x = np.random.default_rng(seed).normal(size=(samples, features))
    return x @ x.T / features


@pytest.fixture
def kernels():
    """Of NNGP and NTK, four samples for training and four for test, and targets of two outputs."""
    return blocks(random_kernel(0)), blocks(random_kernel(1)), np.random.default_rng(2).normal(size=(4, 2))


def network(activation, layers=2, weights=1.0, biases=0.1):
    return MLP(hidden_layers=layers, activation=activation, weight_variances=weights, bias_variances=biases)


# Published values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "weights", "mean", "covariance", "errors"),
    [
        ("relu", 2.0, (0.1348634826, 0.3696793245), (0.1022488181, 0.0057384846, 0.6731956570),
         (0.0010674029, 0.3877222376)),
        ("tanh", 1.0, (0.1574391819, 0.6319535876), (0.0123213450, 0.0146272831, 0.1888100132),
         (0.0285508632, 0.1005656791)),
        ("sin", 1.0, (0.1559344704, 0.6192256689), (0.0160730361, 0.0194271786, 0.2388980380), None),
    ],
)  # fmt: skip
def test_trained_networks(activation, weights, mean, covariance, errors):
    """Reference values."""
    found = StaticKernel(network(activation, 2, weights), weight_rates=0.5, bias_rates=0.5)(INPUTS)
    prediction = trained(blocks(found.nngp), blocks(found.ntk), TARGETS)
    np.testing.assert_allclose(prediction.mean[:, 0], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(prediction.covariance[np.triu_indices(2)], covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(prediction.deviation, np.sqrt(covariance)[[0, 2]], rtol=1e-7)
    if errors is not None:
        np.testing.assert_allclose(prediction.squared_error([0.1, 0.4]), errors, rtol=1e-8, atol=1e-10)


def test_bayesian_rates():
    """Reference values: only the last layer learns, at rates that are its variances."""
    given = network("tanh")
    found = StaticKernel(given, weight_rates=(0.0, 0.0, 1.0), bias_rates=(0.0, 0.0, 0.1))(INPUTS)
    np.testing.assert_allclose(found.ntk, found.nngp, rtol=1e-14)
    bayes = posterior(blocks(found.nngp), TARGETS)
    np.testing.assert_allclose(bayes.mean[:, 0], (0.1609284214, 0.7194729310), rtol=1e-8, atol=1e-10)
    expected = (0.0122665791, 0.0153624528, 0.1764816204)
    np.testing.assert_allclose(bayes.covariance[np.triu_indices(2)], expected, rtol=1e-8, atol=1e-10)
    lazy = trained(blocks(found.nngp), blocks(found.ntk), TARGETS)
    np.testing.assert_allclose(lazy.mean, bayes.mean, rtol=1e-12)
    np.testing.assert_allclose(lazy.covariance, bayes.covariance, rtol=1e-11)


@pytest.mark.parametrize(
    ("layers", "variance"),
    [(2, 0.6309924091), (3, 0.5413373930), (5, 0.4653963102), (10, 0.4321304911), (100, 0.5220226349)],
)
def test_variance_beside_a_training_input(layers, variance):
    """Reference values: in units of the kernel's diagonal."""
    x = np.linalg.cholesky(2 * np.array([[1, 0.5], [0.5, 1]]))
    found = StaticKernel(network("relu", layers - 1, 2.0, 0.0), bias_rates=1.0)(x)
    prediction = trained(blocks(found.nngp), blocks(found.ntk), [1.0])
    assert prediction.covariance[0, 0] / found.nngp[0, 0] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(("delta", "variance"), [(0.1, 8.070e-4), (0.05, 8.090e-4)])
def test_between_two_training_inputs(delta, variance):
    """Reference values: weights of the two targets for an input between them."""
    rates = tuple(1 / layer for layer in range(1, 6))
    middle, step = np.array([1, 0.6, -0.3]), np.array([0.6, -1, 0])
    step = delta * step / np.linalg.norm(step)
    x = np.stack([middle + step / 2, middle - step / 2, middle - 0.2 * step])
    found = StaticKernel(network("tanh", 4, 1.0, 0.0), bias_rates=rates)(x)
    parts = [Blocks(k[:2, :2], k[2:, :2], k[2:, 2:]) for k in (found.nngp, found.ntk)]
    prediction = trained(*parts, np.eye(2))
    assert prediction.covariance[0, 0] / delta**4 == pytest.approx(variance, abs=6e-8)
    if delta == 0.1:
        np.testing.assert_allclose(prediction.mean[0], (0.2999868638, 0.7004678212), atol=1e-9)
        assert prediction.mean.sum() - 1 == pytest.approx(4.5468492e-4, abs=1e-10)


@given(s=st.floats(-2, 3), rates=st.lists(st.floats(0.1, 3), min_size=8, max_size=8))
def test_linear_networks_interpolate(s, rates):
    """Reference values: weights s and 1 - s whatever the variances and rates."""
    x = np.array([[1, 0.5, -0.4], [-0.2, 0.9, 0.7]])
    x = np.concatenate([x, [s * x[0] + (1 - s) * x[1]]])
    kernel = StaticKernel(
        network("linear", 3, tuple(rates[:4]), 0.3), weight_rates=tuple(rates[4:]), bias_rates=tuple(rates[:4])
    )
    found = kernel(x)
    parts = [Blocks(k[:2, :2], k[2:, :2], k[2:, 2:]) for k in (found.nngp, found.ntk)]
    prediction = trained(*parts, np.eye(2))
    np.testing.assert_allclose(prediction.mean[0], (s, 1 - s), atol=1e-10)
    assert abs(prediction.covariance[0, 0]) < 1e-9 * np.abs(found.nngp).max()


@pytest.mark.parametrize(("activation", "factor"), [("linear", 4.0)])
def test_first_step(activation, factor):
    """Reference values: f(1) = eta (L + 1) K y."""
    x, y = np.linalg.cholesky(2 * np.array([[1, 0.5], [0.5, 1]])), np.array([1.0, 0.5])
    found = StaticKernel(network(activation, 3, 1.0, 0.0))(x)
    prediction = trained(
        Blocks(*[found.nngp] * 3), Blocks(*[found.ntk] * 3), y, time=0.05, learning_rate=0.05
    )  # fmt: skip
    np.testing.assert_allclose(prediction.mean[:, 0], 0.05 * factor * x @ x.T / 2 @ y, rtol=1e-13)


# Bayesian inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_posterior(kernels, noise):
    kernel, _, y = kernels
    inverse = np.linalg.inv(kernel.train + noise * np.eye(4))
    found = posterior(kernel, y, ridge=noise)
    np.testing.assert_allclose(found.mean, kernel.cross @ inverse @ y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.covariance, kernel.test - kernel.cross @ inverse @ kernel.cross.T, atol=1e-12)
    if noise == 0:
        again = posterior(Blocks(kernel.train, kernel.train, kernel.train), y)
        np.testing.assert_allclose(again.mean, y, atol=1e-10)
        np.testing.assert_allclose(again.covariance, 0.0, atol=1e-12)


def test_against_scikit_learn():
    rng = np.random.default_rng(3)
    x, x_test, y = rng.normal(size=(12, 3)), rng.normal(size=(5, 3)), rng.normal(size=12)
    theirs = GaussianProcessRegressor(RBF(1.3), alpha=0.2, optimizer=None).fit(x, y)
    mean, covariance = theirs.predict(x_test, return_cov=True)
    kernel = Blocks.of(RBF(1.3), x, x_test)
    ours = posterior(kernel, y, ridge=0.2)
    np.testing.assert_allclose(ours.mean[:, 0], mean, rtol=1e-10)
    np.testing.assert_allclose(ours.covariance, covariance, rtol=1e-9, atol=1e-12)
    evidence = log_evidence(kernel.train, y, ridge=0.2)
    assert evidence == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-12)


def test_evidence(kernels):
    """Outputs are independent."""
    kernel, _, y = kernels
    expected = scipy.stats.multivariate_normal(np.zeros(4), kernel.train + 0.3 * np.eye(4)).logpdf(y.T).sum()
    assert log_evidence(kernel.train, y, ridge=0.3) == pytest.approx(expected, rel=1e-12)


def test_static_kernels_as_functions():
    """Blocks.of takes any kernel(a, b) -> array."""
    kernel = StaticKernel(network("relu"))
    found = Blocks.of(lambda a, b: kernel(a, b).nngp, INPUTS[:2], INPUTS[2:])
    np.testing.assert_allclose(found.cross, kernel(INPUTS).nngp[2:, :2], rtol=1e-13)


# Lazy training -------------------------------------------------------------------------------------------


def simulated(nngp, ntk, y, initial, advance):
    """Outputs at test samples of one network, from f(0) on training and test samples; `advance` maps errors."""
    half = len(ntk.train)
    both = np.concatenate([ntk.train, ntk.cross])
    return (initial + both @ advance(y - initial[:half]))[half:]


def flow(kernel, time, ridge):
    """Integral of the errors, from the exponential of the linear system for errors, parameters' pull and integral."""

    def advance(error):
        p = len(kernel)
        # u = integral of what drives the parameters: du/dt = error - ridge u, error = error(0) - K u.
        system = np.zeros((p + 1, p + 1))
        system[:p, :p], system[:p, p] = -kernel - ridge * np.eye(p), error
        return scipy.linalg.expm(system * time)[:p, p]

    return advance


def steps(kernel, eta, count, ridge):
    """The same by gradient descent."""

    def advance(error):
        u = np.zeros_like(error)
        for _ in range(count):
            u = u + eta * (error - kernel @ u - ridge * u)
        return u

    return advance


@pytest.mark.parametrize("ridge", [0.0, 0.4])
@pytest.mark.parametrize("time", [0.0, 0.7, 5.0, math.inf])
@pytest.mark.parametrize("eta", [None, 0.1])
def test_ensembles(kernels, time, eta, ridge):
    """Mean and covariance are those of a linear map of f(0), which is found by simulating unit vectors."""
    nngp, ntk, y = kernels[0], kernels[1], kernels[2][:, 0]
    until = 2000.0 if math.isinf(time) else time
    advance = flow(ntk.train, until, ridge) if eta is None else steps(ntk.train, eta, round(until / eta), ridge)
    full = np.block([[nngp.train, nngp.cross.T], [nngp.cross, nngp.test]])
    mean = simulated(nngp, ntk, y, np.zeros(8), advance)
    response = np.stack([simulated(nngp, ntk, y, e, advance) - mean for e in np.eye(8)], axis=1)
    found = trained(nngp, ntk, y, time=time, learning_rate=eta, ridge=ridge)
    np.testing.assert_allclose(found.mean[:, 0], mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance, response @ full @ response.T, atol=1e-9)


def test_sampled_networks(kernels):
    """Statistics over draws of f(0)."""
    nngp, ntk, y = kernels[0], kernels[1], kernels[2][:, 0]
    full = np.block([[nngp.train, nngp.cross.T], [nngp.cross, nngp.test]])
    draws = np.random.default_rng(5).multivariate_normal(np.zeros(8), full, size=4000)
    advance = steps(ntk.train, 0.2, 10, 0.0)
    outputs = np.stack([simulated(nngp, ntk, y, draw, advance) for draw in draws])
    found = trained(nngp, ntk, y, time=2.0, learning_rate=0.2)
    error = found.deviation / math.sqrt(len(draws))
    assert np.all(np.abs(outputs.mean(axis=0) - found.mean[:, 0]) < 4.5 * error)
    spread = np.multiply.outer(found.deviation, found.deviation)
    assert np.all(np.abs(np.cov(outputs.T) - found.covariance) < 4.5 * 1.5 * spread / math.sqrt(len(draws)))


def test_kernel_regression(kernels):
    nngp, ntk, y = kernels
    for ridge in (0.0, 0.3):
        found = trained(nngp, ntk, y, ridge=ridge)
        expected = ntk.cross @ np.linalg.solve(ntk.train + ridge * np.eye(4), y)
        np.testing.assert_allclose(found.mean, expected, rtol=1e-10, atol=1e-11)


@given(seed=st.integers(0, 10**6), time=st.floats(0, 50))
def test_covariance_is_positive(seed, time):
    """And zero on the training samples, at the end of training."""
    nngp, ntk = blocks(random_kernel(seed)), blocks(random_kernel(seed + 1))
    for until in (time, math.inf):
        covariance = trained(nngp, ntk, np.ones(4), time=until).covariance
        assert np.linalg.eigvalsh(covariance).min() > -1e-9 * max(1.0, np.trace(covariance))
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-9 * max(1.0, np.abs(covariance).max()))
    on_training = [Blocks(k.train, k.train, k.train) for k in (nngp, ntk)]
    found = trained(*on_training, np.arange(4.0))
    np.testing.assert_allclose(found.mean[:, 0], np.arange(4.0), atol=1e-8)
    np.testing.assert_allclose(found.covariance, 0.0, atol=1e-8)


def test_nothing_learned_is_the_prior(kernels):
    nngp, ntk, y = kernels
    found = trained(nngp, ntk, y, time=0.0)
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_array_equal(found.covariance, nngp.test)


def test_small_steps_are_flow(kernels):
    nngp, ntk, y = kernels
    found = trained(nngp, ntk, y, time=1.0, learning_rate=1e-6)
    np.testing.assert_allclose(found.mean, trained(nngp, ntk, y, time=1.0).mean, atol=1e-5)


def test_slow_directions():
    """Where next to nothing is learned, the little there is keeps its digits."""
    for rate in (None, 0.1):
        tiny = 1e-13
        found = trained(*[Blocks(tiny * np.eye(1), np.eye(1), np.eye(1))] * 2, [1.0], time=1.0, learning_rate=rate)
        assert found.mean[0, 0] == pytest.approx(1.0, rel=1e-12)


# Singular kernels ----------------------------------------------------------------------------------------


def test_duplicate_samples():
    """Two targets of one input: nothing between them can be learned, and their mean is."""
    x = np.array([[1.0, 0.5], [1.0, 0.5], [0.3, -1.0], [0.4, 0.4]])
    k = StaticKernel(network("relu", 2, 2.0))(x)
    parts = [Blocks(kernel[:3, :3], kernel[3:, :3], kernel[3:, 3:]) for kernel in (k.nngp, k.ntk)]
    apart = [Blocks(kernel[1:3, 1:3], kernel[3:, 1:3], kernel[3:, 3:]) for kernel in (k.nngp, k.ntk)]
    found, expected = trained(*parts, [1.0, 0.0, 2.0]), trained(*apart, [0.5, 2.0])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-7)
    with pytest.raises(InvalidInput, match="ridge = 0 is too small"):
        posterior(Blocks(np.ones((2, 2)), np.ones((1, 2)), np.ones((1, 1))), [1.0, 1.0])
    with pytest.raises(InvalidInput, match="ridge = 0 is too small"):
        log_evidence(np.ones((2, 2)), [1.0, 1.0])


def test_simple_networks():
    """More samples than a linear network has dimensions: least squares."""
    rng = np.random.default_rng(6)
    x, x_test, y = rng.normal(size=(7, 3)), rng.normal(size=(2, 3)), rng.normal(size=7)
    kernel = StaticKernel(network("linear", 2, 1.0, 0.0))
    nngp, ntk = (Blocks.of(lambda a, b, n=n: getattr(kernel(a, b), n), x, x_test) for n in ("nngp", "ntk"))
    found = trained(nngp, ntk, y)
    np.testing.assert_allclose(found.mean[:, 0], x_test @ np.linalg.lstsq(x, y)[0], rtol=1e-10)
    np.testing.assert_allclose(found.covariance, 0.0, atol=1e-10)


def test_zero_kernel():
    zero = Blocks(np.zeros((2, 2)), np.zeros((1, 2)), np.ones((1, 1)))
    for time in (1.0, math.inf):
        found = trained(zero, zero, [1.0, 2.0], time=time)
        np.testing.assert_array_equal(found.mean, [[0.0]])


# Bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "cross", "test", "named"),
    [
        (np.eye(3), np.ones((1, 2)), np.eye(1), "shapes"),
        (np.ones((2, 3)), np.ones((1, 2)), np.eye(1), "shapes"),
        (np.array([[1.0, 0.2], [0.1, 1.0]]), np.ones((1, 2)), np.eye(1), "train.* is not symmetric"),
        (np.eye(1), np.ones((2, 1)), np.array([[1.0, 0.2], [0.1, 1.0]]), "test.* is not symmetric"),
        (np.array([[np.nan]]), np.ones((1, 1)), np.eye(1), "train holds"),
        (np.eye(2), np.ones(2), np.eye(1), "cross has shape"),
    ],
)
def test_bad_blocks(train, cross, test, named):
    with pytest.raises(InvalidInput, match=named):
        Blocks(train, cross, test)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"time": -1.0}, "time"),
        ({"time": math.nan}, "time"),
        ({"ridge": -1.0}, "ridge"),
        ({"learning_rate": 0.0, "time": 1.0}, "learning_rate"),
        ({"learning_rate": 0.3, "time": 1.0}, "whole number of steps"),
        ({"learning_rate": 1e3}, "learning_rate = 1000 diverges"),
    ],
)
def test_bad_training(kernels, options, named):
    nngp, ntk, y = kernels
    with pytest.raises(InvalidInput, match=named):
        trained(nngp, ntk, y, **options)


def test_bad_targets(kernels):
    nngp, ntk, y = kernels
    for predict in (lambda y: posterior(nngp, y), lambda y: trained(nngp, ntk, y)):
        with pytest.raises(InvalidInput, match="y has 3 rows"):
            predict(y[:3])
        with pytest.raises(InvalidInput, match="y holds"):
            predict(np.full(4, np.nan))
    with pytest.raises(InvalidInput, match=r"ridge = -1\.0"):
        posterior(nngp, y, ridge=-1.0)
    with pytest.raises(InvalidInput, match="same samples"):
        trained(blocks(random_kernel(0, 6)), ntk, y)
    with pytest.raises(InvalidInput, match="targets has shape"):
        Prediction(np.ones((2, 1)), np.eye(2)).squared_error(np.ones(3))
    with pytest.raises(InvalidInput, match="y has 3 rows"):
        log_evidence(nngp.train, y[:3])
    for bad in (np.ones((2, 3)), np.array([[1.0, 0.5], [0.0, 1.0]]), np.full((2, 2), np.nan), np.ones(2)):
        with pytest.raises(InvalidInput, match="train"):
            log_evidence(bad, y[:2])


def test_not_positive(kernels):
    nngp, _, y = kernels
    kernel = Blocks(np.diag([1.0, 1.0, 1.0, -0.5]), np.ones((4, 4)), np.eye(4))
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        trained(nngp, kernel, y)


def test_a_learning_rate_that_diverges_in_finite_time():
    blocks = Blocks(np.eye(1), np.ones((1, 1)), np.eye(1))
    with pytest.raises(InvalidInput, match="learning_rate = 5 diverges by time = 5000"):
        trained(blocks, blocks, [1.0], time=5000.0, learning_rate=5.0)
