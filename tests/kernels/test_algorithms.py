"""One lazy network under any algorithm: the same end, and single steps against plain arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import widefield as wf
from learning_problems import INPUTS, TARGETS, blocks, network
from widefield.base.errors import InvalidInput
from widefield.kernels import (
    Blocks,
    StaticKernel,
    TensorStep,
    batch_tensor,
    generalised_error,
    logits,
    newton_tensor,
    response,
    slopes,
    smoothed_labels,
    tensor_descent,
    trained,
    trained_network,
)


@pytest.fixture(scope="module")
def ntk():
    return blocks(StaticKernel(network("tanh"), weight_rates=0.5, bias_rates=0.5)(INPUTS).ntk)


def random_start(seed, outputs=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, outputs)), rng.normal(size=(2, outputs))


def test_one_step(ntk):
    """z - eta Theta eps at every sample, and no wiring between outputs: one output moves by its own errors alone."""
    first, second = random_start(0, 3)
    y = np.random.default_rng(1).normal(size=(2, 3))
    train, test = tensor_descent(ntk, y, first, second, [TensorStep(0.1)])
    np.testing.assert_allclose(train[1], first - 0.1 * ntk.train @ (first - y), rtol=1e-14)
    np.testing.assert_allclose(test[1], second - 0.1 * ntk.cross @ (first - y), rtol=1e-14)
    other = y.copy()
    other[:, 0] += 1.0
    _, moved = tensor_descent(ntk, other, first, second, [TensorStep(0.1)])
    np.testing.assert_array_equal(moved[1][:, 1:], test[1][:, 1:])


def test_slopes_and_curvatures():
    z, p = np.array([[0.3, -0.2, 1.0]]), np.array([[0.2, 0.5, 0.3]])
    q = np.exp(z) / np.exp(z).sum()
    np.testing.assert_allclose(slopes(wf.SquaredError(), z, p), z - p, rtol=1e-15)
    np.testing.assert_allclose(slopes(wf.SoftmaxCrossEntropy(), z, p), q - p, rtol=1e-14)
    curvature = wf.kernels.loss_curvature(wf.SoftmaxCrossEntropy(), z, p)[0]
    np.testing.assert_allclose(curvature, np.diag(q[0]) - np.outer(q, q), atol=1e-15)
    np.testing.assert_allclose(wf.kernels.loss_curvature(wf.SquaredError(), z, p)[0], np.eye(3), atol=1e-15)


@given(seed=st.integers(0, 10**6), rate=st.floats(0.1, 3))
def test_newton_ends_training_in_one_step(ntk, seed, rate):
    first, second = random_start(seed)
    train, test = tensor_descent(ntk, TARGETS, first, second, [TensorStep(rate, newton_tensor(ntk.train, rate))])
    np.testing.assert_allclose(train[-1][:, 0], TARGETS, atol=1e-13 * (1 + np.abs(first).max()))
    np.testing.assert_allclose(test[-1], trained_network(ntk, TARGETS, first, second), atol=1e-12)


def test_a_tensor_is_descent_on_the_generalised_error(ntk):
    """PDLT eq. (10.22), by differences."""
    kappa = np.array([[1.3, 0.4], [0.4, 0.8]])
    first, second = random_start(2)
    gradient = np.zeros((2, 1))
    for a in range(2):
        step = np.zeros((2, 1))
        step[a] = 1e-5
        sides = [generalised_error(first + sign * step, TARGETS, kappa) for sign in (1, -1)]
        gradient[a] = (sides[0] - sides[1]) / 2e-5
    train, _ = tensor_descent(ntk, TARGETS, first, second, [TensorStep(0.1, kappa)])
    np.testing.assert_allclose(train[1], first - 0.1 * ntk.train @ gradient, atol=1e-9)


def algorithm(name):
    """So many steps that nothing is left to learn."""
    kinds = {
        "descent": lambda: [TensorStep(0.3)] * 400,
        "falling rate": lambda: [TensorStep(0.5 / (1 + 0.002 * t)) for t in range(800)],
        "minibatches": lambda: [TensorStep(0.4, batch_tensor(2, [t % 2])) for t in range(2000)],
        "damped Newton": lambda: [TensorStep(0.5, np.array([[1.9, -1.4], [-1.4, 1.9]]))] * 200,
        "other loss first": lambda: [TensorStep(0.2, loss=wf.Huber())] * 20 + [TensorStep(0.3)] * 400,
    }
    return kinds[name]()


@pytest.mark.parametrize(
    "name", ["descent", "falling rate", "minibatches", "damped Newton", "other loss first"]
)  # fmt: skip
def test_all_algorithms_end_at_one_place(ntk, name):
    first, second = random_start(3)
    train, test = tensor_descent(ntk, TARGETS, first, second, algorithm(name))
    np.testing.assert_allclose(train[-1][:, 0], TARGETS, atol=1e-12)
    np.testing.assert_allclose(test[-1], trained_network(ntk, TARGETS, first, second), atol=1e-11)


def test_steps_are_those_of_lazy_training():
    """The same recurrence as the theory `Lazy`, and `trained` at every time, to 1e-12."""
    data = wf.data.sphere(samples=5, dimension=7, seed=1, test_samples=3)
    problem = wf.Problem(wf.MLP(2, "tanh"), data, optimiser=wf.SGD(0.1, 12), record=wf.Record(every=12, neurons=0))
    answer = wf.solve(problem, wf.Lazy()).data
    samples = problem.samples
    kernel = StaticKernel(problem.network)(np.concatenate([samples.x, samples.x_test]))
    ntk, nngp = (Blocks(k[:5, :5], k[5:, :5], k[5:, 5:]) for k in (kernel.ntk, kernel.nngp))
    train, test = tensor_descent(ntk, samples.y, np.zeros((5, 1)), np.zeros((3, 1)), [TensorStep(0.1)] * 12)
    np.testing.assert_allclose(train[-1], answer["outputs"].values[-1], atol=1e-12)
    np.testing.assert_allclose(test[-1], answer["test_outputs"].values[-1], atol=1e-12)
    known = trained(nngp, ntk, samples.y, time=1.2, learning_rate=0.1)
    np.testing.assert_allclose(test[-1], known.mean, atol=1e-12)
    np.testing.assert_allclose(response(ntk, time=1.2, learning_rate=0.1) @ samples.y, known.mean, atol=1e-14)


# Classes -------------------------------------------------------------------------------------------------


def test_cross_entropy_of_smoothed_labels_ends_where_squared_error_with_logits_does(ntk):
    """But for shifts of all outputs of a sample, which the kernel carries to test samples without a trace."""
    p = smoothed_labels(np.array([[1.0, 0, 0], [0, 0, 1.0]]), 0.1)
    np.testing.assert_allclose(p, [[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]], rtol=1e-15)
    np.testing.assert_allclose(softmax(logits(p), axis=1), p, rtol=1e-14)
    first, second = random_start(4, 3)
    steps = [TensorStep(1.0, newton_tensor(ntk.train), wf.SoftmaxCrossEntropy())] * 600
    train, test = tensor_descent(ntk, p, first, second, steps)
    shifted = logits(p) + np.array([[0.7], [-2.0]])
    for y in (logits(p), shifted):
        expected = trained_network(ntk, y, first, second)
        for found, known in ((test[-1], expected), (train[-1], y)):
            apart = (found - found.mean(1, keepdims=True)) - (known - known.mean(1, keepdims=True))
            np.testing.assert_allclose(apart, 0, atol=1e-9)


def test_refusals(ntk):
    with pytest.raises(InvalidInput, match="zeros"):
        logits([[1.0, 0.0]])
    with pytest.raises(InvalidInput, match="distribution"):
        smoothed_labels([[0.4, 0.4]], 0.1)
    with pytest.raises(InvalidInput, match="not symmetric"):
        TensorStep(0.1, np.array([[1.0, 0.0], [0.5, 1.0]]))
    with pytest.raises(InvalidInput, match="singular"):
        newton_tensor(np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="rows"):
        trained_network(ntk, TARGETS, [0.0], [0.0, 0.0])
    with pytest.raises(InvalidInput, match="training samples"):
        tensor_descent(ntk, TARGETS, [0.0, 0.0], [0.0, 0.0], [TensorStep(0.1, np.eye(3))])
    with pytest.raises(InvalidInput, match="same"):
        slopes(wf.SquaredError(), [1.0], [1.0, 2.0])
