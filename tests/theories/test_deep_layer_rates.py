"""Fifty layers of real networks: what every one contributes to the NTK, before and after training."""

import numpy as np
import pytest

import widefield as wf


def contributions(activation, variance, weights, biases, rate):
    """Shares of the weights and of the biases of every layer, first and last time, means over networks and samples."""
    network = wf.MLP(49, activation, weight_variances=variance, train_biases=True, parameterisation="ntk", richness=1.0)
    data = wf.data.sphere(samples=3, dimension=10, seed=1)
    sgd = wf.SGD(rate, 10, weight_rates=weights, bias_rates=biases)
    problem = wf.Problem(network, data, optimiser=sgd, record=wf.Record(steps=(10,), neurons=0))
    found = wf.solve(problem, wf.FiniteWidth(200, seeds=6)).data
    assert float(found.loss.mean("seed")[-1]) < float(found.loss.mean("seed")[0])
    x = problem.samples.x
    first = np.broadcast_to(np.sum(x**2, axis=1) / x.shape[1], (6, 2, 1, 3))
    diagonal = "stlii->stli"
    features = np.concatenate(
        [first, np.einsum(diagonal, found.feature_kernel.transpose("seed", "time", ...).values)], 2
    )
    slopes = np.einsum(diagonal, found.gradient_kernel.transpose("seed", "time", ...).values)
    slopes = np.concatenate([slopes, np.ones_like(first)], 2)
    parts = [np.array(w)[:, None] * features * slopes for w in (weights,)] + [np.array(biases)[:, None] * slopes]
    ntk = np.einsum("stii->sti", found.ntk.transpose("seed", "time", ...).values)
    assert np.allclose(sum(parts).sum(axis=2), ntk, rtol=1e-9)
    return [part.mean(axis=(0, 3)) for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "variance"), [("tanh", 1.0), ("relu", 2.0)])
def test_all_layers_contribute_alike(activation, variance):
    """PDLT eqs. (9.94), (9.96), at width 200 and within its fluctuations; uniform rates of tanh are far from it."""
    weights, biases = wf.effective.equivalent_rates(activation, 50)
    even = contributions(activation, variance, weights, biases, 0.05)
    uniform = contributions(activation, variance, (1.0,) * 50, (1.0,) * 50, 0.002)
    for name, one, other in zip(("weights", "biases"), even, uniform, strict=True):
        thirds = [np.array([part[t, 5:20].mean(), part[t, 35:].mean()]) for part in (one, other) for t in (0, 1)]
        print(activation, name, [float(np.round(a / b, 3)) for a, b in thirds])
        for shallow, deep in thirds[:2]:
            assert 0.5 < shallow / deep < 2
    if activation == "tanh":
        assert thirds[2][0] / thirds[2][1] < 0.4  # biases of shallow layers hardly count
    else:
        totals = [sum(part[0].sum() for part in each) for each in (even, uniform)]
        assert totals[1] > 40 * totals[0]  # alike too, but the NTK grows with the depth
