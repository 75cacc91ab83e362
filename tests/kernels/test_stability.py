"""Limits of learning rates with a fixed kernel, against spectral radii and against training itself."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.kernels.stability import kernel_limit, largest_stable

DATA = wf.data.sphere(samples=6, dimension=9, seed=2)


def problem(loss=None, rule=None, data=DATA, **optimiser):
    return wf.Problem(wf.MLP(2, "relu"), data, loss=loss, rule=rule, optimiser=wf.SGD(0.1, 400, **optimiser))


@given(st.floats(0.1, 5), st.floats(-3, 3), st.floats(0, 0.95), st.sampled_from([0.97, 1.03]))
def test_limit_of_one_mode_is_that_of_its_matrix(real, imaginary, momentum, factor):
    """(f, Q) -> (f + eta Q', Q'), Q' = m Q - (1 - m) mu f, shrinks below the limit and grows above."""
    mu = complex(real, imaginary)
    eta = factor * largest_stable(mu, momentum)
    kept = np.array([[1 - eta * (1 - momentum) * mu, eta * momentum], [-(1 - momentum) * mu, momentum]])
    assert (np.abs(np.linalg.eigvals(kept)).max() > 1) == (factor > 1)


def test_modes_without_a_limit():
    assert largest_stable(0.0) == np.inf
    assert largest_stable(-1 + 2j) == 0.0


@pytest.mark.parametrize(
    ("loss", "rule", "options"),
    [
        (wf.SquaredError(), wf.GradientDescent(), {}),
        (wf.SquaredError(reduction="mean"), wf.GradientDescent(), {"momentum": 0.8}),
        (wf.SquaredError(), wf.FeedbackAlignment(0.5), {}),
        (wf.SquaredError(), wf.DirectFeedbackAlignment(), {"momentum": 0.5}),
        (wf.SquaredError(), wf.GatedLinear(), {}),
        (wf.Huber(10.0), wf.GradientDescent(), {}),
    ],
)
def test_the_lazy_limit_trains_below_and_explodes_above(loss, rule, options):
    asked = problem(loss, rule, **options)
    limit = kernel_limit(asked).rate
    for factor in (0.98, 1.02):
        optimiser = dataclasses.replace(asked.optimiser, learning_rate=factor * limit)
        answer = wf.solve(dataclasses.replace(asked, optimiser=optimiser), wf.Lazy(), throw=False)
        losses = answer.data["loss"].values
        assert (losses[-1] > losses[0]) == (factor > 1)


def test_curvature_of_other_losses_is_counted():
    """Eigenvalues of K H by a dense matrix: H = 1/4 of the logistic loss, diag(p) - p p^T of the softmax."""
    ntk = wf.kernels.StaticKernel(wf.MLP(2, "relu"))(DATA.load().x).ntk
    logistic = kernel_limit(problem(wf.Logistic()))
    assert logistic.eigenvalue.real == pytest.approx(np.linalg.eigvalsh(ntk)[-1] / 4)
    classes = wf.data.sphere(samples=6, dimension=9, seed=2, labels="one-hot", outputs=3)
    softmax = kernel_limit(problem(wf.SoftmaxCrossEntropy(), data=classes))
    largest = 0.0
    for f in (np.zeros((6, 3)), classes.load().y):
        p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
        H = np.zeros((6, 3, 6, 3))
        for k in range(6):
            H[k, :, k] = np.diag(p[k]) - np.outer(p[k], p[k])
        product = np.kron(ntk, np.eye(3)) @ H.reshape(18, 18)
        largest = max(largest, np.linalg.eigvals(product).real.max())
    assert softmax.eigenvalue.real == pytest.approx(largest)
    assert softmax.rate == pytest.approx(2 / largest)


def test_large_kernels_give_the_same_by_iteration(monkeypatch):
    classes = wf.data.sphere(samples=6, dimension=9, seed=2, labels="one-hot", outputs=3)
    asked = [problem(wf.SoftmaxCrossEntropy(), data=classes), problem(wf.Logistic())]
    dense = [kernel_limit(one).rate for one in asked]
    monkeypatch.setattr("widefield.kernels.stability._DENSE", 2)
    np.testing.assert_allclose([kernel_limit(one).rate for one in asked], dense, rtol=1e-6)


def test_decay_batches_and_kernels_that_are_not_symmetric():
    plain = kernel_limit(problem()).eigenvalue.real
    assert kernel_limit(problem(weight_decay=0.3)).eigenvalue.real == pytest.approx(plain + 0.3)
    assert kernel_limit(problem(batch_size=2)).eigenvalue.real == pytest.approx(plain / 3)
    assert kernel_limit(problem(wf.SquaredError(reduction="mean"), batch_size=2)).eigenvalue.real == pytest.approx(
        plain / 6
    )
    turning = np.kron(np.eye(3), [[1.0, -2.0], [2.0, 1.0]])  # eigenvalues 1 +- 2i
    found = kernel_limit(problem(), turning)
    assert found.rate == pytest.approx(2 / 5)
    assert abs(found.eigenvalue.imag) == pytest.approx(2)
    assert kernel_limit(problem(), np.diag([4.0, -9, 1, 1, 1, 1])).rate == pytest.approx(0.5)
