"""Gradient independence against a dense solution for linear networks, exact limits, and the published expansion."""

import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import InvalidInput

K2 = np.array([[1.0, 0.5], [0.5, 1.2]])
Y2 = np.array([1.0, -0.6])
NAMES = ("outputs", "feature_kernel", "gradient_kernel", "ntk")


def problem(layers, richness, *, activation="linear", optimiser=None, rule=None, every=1, **network):
    x = np.sqrt(2) * np.linalg.cholesky(K2)
    return wf.Problem(
        wf.MLP(layers, activation, richness=richness, **network),
        wf.Data(x, Y2, x[:1] + 0.3, [0.0]),
        rule=rule or wf.GradientDescent(),
        optimiser=optimiser or wf.SGD(0.08, 8),
        record=wf.Record(every=every, neurons=0),
    )


def dense(layers, gamma, eta, steps):
    """h = u + C g, g = r + D h with C = eta gamma Theta H Delta, D = eta gamma Theta G Delta and no responses.

    f(t+1) = f(t) + eta K(t, t) Delta(t). Everything at times <= t is known once Delta(< t) is.
    """
    T, P = steps + 1, len(Y2)
    later = np.tril(np.ones((T, T)), -1)
    f, delta = np.zeros((T, P)), np.zeros((T, P))
    for now in range(T):
        delta[now] = Y2 - f[now]
        H, G = _kernels(layers, eta * gamma, delta, later)
        if now + 1 < T:
            K = sum(G[l + 1][now, now] * H[l].reshape(T, P, T, P)[now, :, now] for l in range(layers + 1))  # noqa: E741
            f[now + 1] = f[now] + eta * K @ delta[now]
    equal = lambda kernel: np.stack([kernel.reshape(T, P, T, P)[t, :, t] for t in range(T)])  # noqa: E731
    features = np.stack([equal(kernel) for kernel in H[1:]], axis=1)
    gradients = np.stack([np.diag(kernel) for kernel in G[1:-1]], axis=1)
    return f, features, gradients


def _kernels(layers, strength, delta, later):
    T, P = delta.shape
    H = [np.kron(np.ones((T, T)), K2)] + [None] * layers
    G = [None] * (layers + 1) + [np.ones((T, T))]
    fixed = [np.kron(np.ones((T, T)), K2)] * (layers + 1)
    backward = [np.ones((T, T))] * (layers + 2)
    for _ in range(2 * T + 2):  # layers see each other through kernels only: iterate until nothing changes
        for layer in range(1, layers + 1):
            below, above = fixed[layer - 1], backward[layer + 1]
            C = strength * np.einsum("tasb,ts,sb->tas", below.reshape(T, P, T, P), later, delta).reshape(T * P, T)
            D = strength * np.einsum("ts,ts,sb->tsb", above, later, delta).reshape(T, T * P)
            R1, R2 = np.linalg.inv(np.eye(T * P) - C @ D), np.linalg.inv(np.eye(T) - D @ C)
            fixed[layer] = R1 @ (below + C @ above @ C.T) @ R1.T
            backward[layer] = R2 @ (above + D @ below @ D.T) @ R2.T
    H[1:], G[1:-1] = fixed[1:], backward[1 : layers + 1]
    return H, G


@pytest.mark.parametrize("layers", [*(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2)), 3])
def test_linear_networks(layers):
    found = wf.solve(problem(layers, 1.5), wf.GradientIndependence(128, 1, rank_tolerance=1e-7)).data
    f, features, gradients = dense(layers, 1.5, 0.08, 8)
    np.testing.assert_allclose(found.outputs[..., 0], f, atol=1e-7)
    np.testing.assert_allclose(found.feature_kernel, features, atol=1e-7)
    np.testing.assert_allclose(found.gradient_kernel[:, :, 0, 0], gradients, atol=1e-7)


def test_exact_for_one_hidden_layer():
    """There W and W^T never meet, and for gradient flow both forms of the output agree."""
    flow = wf.GradientFlow(t_end=1.5, steps=3, tolerance=1e-6)
    asked = problem(1, 2.0, optimiser=flow)
    found = wf.solve(asked, wf.GradientIndependence(64, 1)).data
    exact = wf.solve(asked, wf.InfiniteWidth(64, 1)).data
    for name in (*NAMES, "test_outputs"):
        np.testing.assert_allclose(found[name], exact[name], rtol=2e-5, atol=2e-5)


def test_the_published_expansion_is_that_of_gradient_independence():
    """BP22 eq. (12) leaves out the responses: it is the leading order of this theory, not of the full one."""
    asked = problem(3, 0.02, every=8)
    found = wf.solve(asked, wf.GradientIndependence(128, 1, rank_tolerance=1e-7)).data
    lazy, published = (wf.solve(asked, theory).data for theory in (wf.Lazy(), wf.Perturbative(published=True)))
    full = wf.solve(asked, wf.Perturbative()).data
    for name in NAMES[1:]:
        moved = np.abs(published[name] - lazy[name]).max()
        assert np.abs(found[name] - published[name]).max() < 2e-3 * moved
        assert np.abs(found[name] - full[name]).max() > 0.2 * moved


@pytest.mark.parametrize(
    "rule",
    [wf.FeedbackAlignment(0.5), pytest.param(wf.Hebb(), marks=pytest.mark.slow)],
    ids=["feedback-alignment", "hebb"],
)
def test_other_rules_and_test_samples_in_the_lazy_limit(rule):
    asked = problem(2, 1e-5, activation="erf", rule=rule, every=8, train_biases=True, bias_variances=0.1)
    found = wf.solve(asked, wf.GradientIndependence(1024, 24)).data
    lazy = wf.solve(asked, wf.Lazy()).data
    for name in (*NAMES, "test_outputs"):
        allowed = 5 * found[f"{name}_error"] + 1e-6 + 3e-3 * float(np.abs(lazy[name]).max())
        assert np.all(np.abs(found[name] - lazy[name]) < allowed), name


def test_what_it_cannot_do():
    with pytest.raises(InvalidInput, match="weight_decay"):
        wf.solve(problem(1, 1.0, optimiser=wf.SGD(0.1, 2, weight_decay=0.1)), wf.GradientIndependence(64, 1))
    asked = problem(2, 1.0)
    asked = wf.Problem(asked.network, asked.data, optimiser=asked.optimiser, record=wf.Record(responses=True))
    with pytest.raises(InvalidInput, match="sets all response functions to zero"):
        wf.solve(asked, wf.GradientIndependence(64, 1))
