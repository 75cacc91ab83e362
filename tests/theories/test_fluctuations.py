"""Fluctuations of kernels at order 1/N: closed forms, tables, derivatives, and ensembles of real networks."""

import jax
import numpy as np
import pytest

import widefield as wf
from widefield import activations, gaussian
from widefield.base.errors import Diverged, InvalidInput
from widefield.gaussian.jacobians import feature_jacobian, slope_jacobian
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels import fluctuations
from widefield.kernels.fluctuations import kernel_fluctuations, ntk_weights, saddle_point

RELU = "scale_invariant(1.4142135623730951, 0)"  # sqrt(2) max(0, h), which preserves the norm
PAIR = np.array([[1.0, 0.6], [0.6, 1.5]])
ONE = np.ones((1, 1))


def inputs_with(kernel):
    """x with x x^T / D = kernel."""
    kernel = np.asarray(kernel)
    root = np.zeros_like(kernel)
    for i in range(len(kernel)):  # Cholesky, singular kernels included
        rest = kernel[i:, i] - root[i:, :i] @ root[i, :i]
        root[i:, i] = rest / np.sqrt(rest[0]) if rest[0] > 1e-12 else 0.0
    return np.sqrt(len(kernel)) * root


def covariance(kernel, layers, activation, *, ratios=None, points=2**12, **network):
    """N Cov of all kernels, for K^x = kernel."""
    net = wf.MLP(layers, activation, width_ratios=ratios, **network)
    return kernel_fluctuations(saddle_point(net, inputs_with(kernel)), net.normalised_width_ratios, points=points)


def test_pairs():
    pairs = Pairs.within(2, 1)
    assert pairs.rows.tolist() == [0, 0, 0, 1, 1, 2]
    assert pairs.columns.tolist() == [0, 1, 2, 1, 2, 2]
    assert len(Pairs.within(2, 2)) == 3 + 4 + 2  # no pair of two different test samples
    kernel = np.arange(9.0).reshape(3, 3)
    kernel = kernel + kernel.T
    np.testing.assert_array_equal(pairs.matrix(pairs.of(kernel)), kernel)


@pytest.mark.parametrize(("activation", "V", "variance"), [(RELU, 5, 1.0), ("linear", 2, 1.0), ("relu", 5, 2.0)])
def test_one_sample_law(activation, V, variance):
    """Cov(Phi^l, Phi^m) = V min(l, m) / N and Cov(G^l, G^m) = V min(L+1-l, L+1-m) / N (BP23 App. H.3)."""
    found = covariance(ONE / variance, 4, activation, weight_variances=variance)
    layer, scale = np.arange(1, 5), 1 / variance**2 if activation == "relu" else 1.0
    np.testing.assert_allclose(found.features[:, 0, :, 0], scale * V * np.minimum.outer(layer, layer), rtol=1e-10)
    np.testing.assert_allclose(found.gradients[:, 0, :, 0], V * np.minimum.outer(5 - layer, 5 - layer), rtol=1e-10)
    assert found.relative_error == 0


def test_one_sample_unequal_widths():
    """A layer contributes V / N_l (PDLT section 5.4.1 with unequal widths)."""
    found = covariance(ONE, 3, RELU, ratios=(0.5, 2.0, 1.0))
    np.testing.assert_allclose(np.diag(found.features[:, 0, :, 0]), 5 * np.cumsum([2.0, 0.5, 1.0]), rtol=1e-10)
    np.testing.assert_allclose(np.diag(found.gradients[:, 0, :, 0])[::-1], 5 * np.cumsum([1.0, 0.5, 2.0]), rtol=1e-10)


def test_four_point_vertex_of_tanh():
    """V^(l+1) = N Var(Phi^l) of the recursion of PDLT eq. (5.109), and eq. (4.119) for two samples."""
    one = np.diag(covariance(ONE, 9, "tanh").features[:, 0, :, 0])
    expected = [0.0975237380859, 0.0678074938921, 0.0501465964673, 0.0393984430357]
    np.testing.assert_allclose(one[[0, 1, 2, 3, 8]], [*expected, 0.0185887275859], rtol=1e-10)
    two = covariance(PAIR, 2, "tanh").features
    upper = np.triu_indices(3)
    first = [0.097523738, 0.057803205, 0.017258236, 0.163261301, 0.058041792, 0.112152156]
    second = [0.067807494, 0.038635580, 0.012644541, 0.107351397, 0.038883321, 0.074683437]
    np.testing.assert_allclose(two[0, :, 0][upper], first, atol=1e-9)
    np.testing.assert_allclose(two[1, :, 1][upper], second, atol=1e-9)


def test_linear_networks():
    """N Cov(Phi^l_ab, Phi^m_cd) = min(l, m) (K_ac K_bd + K_ad K_bc); sampled averages keep to their stated error."""
    x = np.random.default_rng(0).normal(size=(4, 5))
    K, found = x @ x.T / 5, covariance(x @ x.T / 5, 2, "linear")
    a, b = found.pairs.rows, found.pairs.columns
    wick = K[np.ix_(a, a)] * K[np.ix_(b, b)] + K[np.ix_(a, b)] * K[np.ix_(b, a)]
    assert 0 < found.relative_error < 5e-3
    for layer, other in ((0, 0), (0, 1), (1, 1)):
        error = np.linalg.norm(found.features[layer, :, other] - wick * (1 + min(layer, other)))
        assert error < 5 * found.relative_error * np.linalg.norm(wick) * (1 + min(layer, other))
    np.testing.assert_allclose(found.gradients[1, 0, 1, 0], 2.0, rtol=1e-12)  # g = w is averaged exactly
    one = covariance(ONE, 2, "linear")
    ntk = one.ntk(saddle_point(wf.MLP(2, "linear"), ONE), ONE)
    # K = sum_l G^{l+1} Phi^l, and features are independent of gradients.
    expected = sum(2 * min(i, j) + 2 * min(2 - i, 2 - j) for i in range(3) for j in range(3))
    np.testing.assert_allclose(ntk, expected, rtol=1e-10)


def test_parallel_samples():
    """h(c x) = c h(x) in every network of a homogeneous activation: kernels of x and c x fluctuate as one."""
    c = 0.7
    one, two = covariance(ONE, 3, RELU), covariance([[1.0, c], [c, c * c]], 3, RELU)
    scale = np.array([1, c, c * c])
    np.testing.assert_allclose(two.features, np.einsum("lm,p,q->lpmq", one.features[:, 0, :, 0], scale, scale))
    np.testing.assert_allclose(two.gradients, np.broadcast_to(one.gradients, two.gradients.shape), rtol=1e-8)


def test_sample_without_variance():
    """An input of zero has kernels that are zero in every network, and does not disturb the others."""
    two = covariance([[1.0, 0.0], [0.0, 0.0]], 2, "tanh")
    assert np.all(np.isfinite(two.covariance))
    assert np.all(two.features[:, 1:] == 0)
    one = covariance(ONE, 2, "tanh")
    np.testing.assert_allclose(two.covariance[:, :, 0, :, :, 0], one.covariance[:, :, 0, :, :, 0], rtol=1e-9)


def test_sampled_averages_agree_with_integrals(monkeypatch):
    settings = {"weight_variances": (1.0, 1.5, 0.8), "bias_variances": 0.1, "ratios": (2.0, 1.0)}
    exact = covariance(PAIR, 2, "relu", **settings)
    monkeypatch.setattr(fluctuations, "MOST_EXACT", 0)
    sampled = covariance(PAIR, 2, "relu", **settings)
    assert 0 < sampled.relative_error < 1e-2
    scale = np.sqrt(np.einsum("ilpilp->ilp", exact.covariance))
    difference = (sampled.covariance - exact.covariance) / np.multiply.outer(scale, scale)
    assert np.abs(difference).max() < 5 * sampled.relative_error


def hard_tanh():
    function = lambda z: jax.numpy.clip(z, -1.0, 1.0)  # noqa: E731
    return activations.register(
        "hard_tanh_of_test", function, kinks=(-1.0, 1.0), jumps=((-1.0, 1.0), (1.0, -1.0)), overwrite=True
    )


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu(0.3)", "hard tanh"])
def test_jacobians_are_derivatives(activation):
    phi = hard_tanh() if activation == "hard tanh" else activations.get(activation)
    pairs, step = Pairs.within(2), 1e-4
    for jacobian, kernel in ((feature_jacobian, gaussian.feature_kernel), (slope_jacobian, gaussian.slope_kernel)):
        found = jacobian(phi, PAIR, pairs)
        for column, (a, b) in enumerate(zip(pairs.rows, pairs.columns, strict=True)):
            change = np.zeros((2, 2))
            change[a, b] = change[b, a] = step
            up, down = (kernel(phi, *pairs.entries(PAIR + sign * change)) for sign in (1, -1))
            np.testing.assert_allclose(found[:, column], (up - down) / (2 * step), atol=2e-7)


def test_perceptron_is_refused():
    with pytest.raises(InvalidInput, match="perceptron"):
        covariance(ONE, 2, "perceptron")
    with pytest.raises(InvalidInput, match="ratios has 1 entries"):
        kernel_fluctuations(saddle_point(wf.MLP(2, "tanh"), ONE), (1.0,))


def networks(activation, *, samples, layers=3, steps=1, rate=0.1, test_samples=0, general=False, **network):
    """A problem whose first record is a random network."""
    if general:
        network["weight_variances"] = (1.2, 1.5, 0.8, 1.3)[: layers + 1]
        network["bias_variances"] = (0.1, 0.2, 0.05, 0.3)[: layers + 1]
        network["width_ratios"] = (2.0, 1.5, 1.0)[-layers:]
        network["train_biases"] = True
    return wf.Problem(
        network=wf.MLP(layers, activation, parameterisation="ntk", **network),
        data=wf.data.sphere(samples=samples, dimension=5, test_samples=test_samples, seed=3),
        optimiser=wf.SGD(rate, steps),
        record=wf.Record(every=max(1, steps // 3), neurons=0),
    )


def drawn(problem, width, seeds):
    """Feature kernels, gradient kernels and NTK of random networks, side by side: (seed, entry)."""
    theory = wf.FiniteWidth(width, seeds=seeds, parallel=min(seeds, 500), dtype="float32")
    data = wf.solve(problem, theory).data.isel(time=0)
    pairs = Pairs.within(data.sizes["sample"])
    kernels = [data[name].values.astype(np.float64) for name in ("feature_kernel", "gradient_kernel", "ntk")]
    return np.concatenate([pairs.of(kernel).reshape(seeds, -1) for kernel in kernels], axis=1)


def measured(values):
    """Covariance matrix over the first axis and the standard error of its entries."""
    centred = values - values.mean(axis=0)
    count = len(values)
    matrix = centred.T @ centred / (count - 1)
    return matrix, np.sqrt(((centred**2).T @ centred**2 / count - matrix**2) / count)


def predicted(problem):
    """N times the same covariance at order 1/N."""
    network, inputs = problem.network, problem.samples.kernel()
    point = saddle_point(network, problem.samples.x)
    found = kernel_fluctuations(point, network.normalised_width_ratios)
    weights = ntk_weights(found.pairs, point, inputs, train_biases=network.train_biases)
    count, size = weights.size, len(found.pairs)
    ntk = np.concatenate([np.diag(row) for row in weights.reshape(-1, size)], axis=1)
    to_all = np.concatenate([np.eye(count), ntk])
    return to_all @ found.covariance.reshape(count, count) @ to_all.T


def test_covariance_of_the_ntk_follows_from_that_of_the_kernels():
    problem = networks("tanh", samples=2, layers=2, general=True)
    network, inputs = problem.network, problem.samples.kernel()
    point = saddle_point(network, problem.samples.x)
    ntk = kernel_fluctuations(point, network.normalised_width_ratios).ntk(
        point, inputs, train_biases=network.train_biases
    )
    np.testing.assert_allclose(predicted(problem)[-len(ntk) :, -len(ntk) :], ntk)


def test_law_of_exact_products():
    """Cov(Phi^l, Phi^m) = (1 + V/N)^min(l, m) - 1 exactly, for one sample and the normalised ReLU.

    Within 4 standard errors, for order 1/N also a relative bias of depth / width: an error of a fifth is noticed.
    """
    problem, width, layer = networks(RELU, samples=1, layers=2), 100, np.arange(1, 3)
    matrix, error = (width * part for part in measured(drawn(problem, width, 2000)))
    exact = width * ((1 + 5 / width) ** np.minimum.outer(layer, layer) - 1)
    assert np.all(np.abs(matrix[:2, :2] - exact) < 4 * error[:2, :2])
    expected = predicted(problem)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(matrix - expected) < 4 * error + 2 / width * scale)
    assert np.all(4 * error + 2 / width * scale < 0.2 * scale)


def test_two_samples_in_networks():
    """All covariances of a small ensemble within 4 standard errors and a relative bias of depth / width."""
    problem, width = networks("tanh", samples=2, layers=2, general=True), 32
    matrix, error = measured(drawn(problem, width, 1500))
    expected = predicted(problem)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(width * matrix - expected) < 4 * width * error + 2 / width * scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "samples", "layers"), [("tanh", 2, 3), ("relu", 2, 3), ("relu", 3, 3), ("gelu", 3, 2)]
)
def test_networks_extrapolated(activation, samples, layers):
    """All entries, between layers and kernels too, of N Cov at 1/N -> 0, with biases and unequal widths."""
    problem = networks(activation, samples=samples, layers=layers, general=True)
    widths, seeds = np.array([32, 64, 128]), (6000, 5000, 2500)
    found = [measured(drawn(problem, int(n), count)) for n, count in zip(widths, seeds, strict=True)]
    values, errors = (np.stack([n * pair[k] for n, pair in zip(widths, found, strict=True)]) for k in (0, 1))
    weight, x = errors**-2, 1 / widths[:, None, None]
    total, first, second = weight.sum(0), (weight * x).sum(0), (weight * x**2).sum(0)
    determinant = total * second - first**2
    limit = (second * (weight * values).sum(0) - first * (weight * x * values).sum(0)) / determinant
    z = (limit - predicted(problem)) / np.sqrt(second / determinant)
    print(f"{activation}, {samples} samples: rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}")
    assert np.abs(z).max() < 4
    # Entries rise and fall together with the kernels of the first layers, so their rms scatters more than that of
    # independent numbers: 0.74, 0.75, 1.04 and 1.40 for four sets of networks with gelu, 0.85 for all of them together.
    assert np.sqrt(np.mean(z**2)) < 2


def test_response_of_outputs():
    """Deviations of outputs follow from the covariance of the NTK by the derivative of gradient descent."""
    problem = networks("tanh", samples=2, layers=1, steps=6, rate=(0.3, 0.2, 0.1, 0.1, 0.2, 0.3), test_samples=1)
    data = wf.solve(problem, wf.Fluctuations(100, points=2**10)).data
    samples = problem.samples
    x = np.concatenate([samples.x, samples.x_test])
    inputs = x @ x.T / samples.dimension
    point = saddle_point(problem.network, x)
    pairs = Pairs.within(2, 1)
    found = kernel_fluctuations(point, (1.0,), pairs, points=2**10)
    kernel = point.gradient_kernel[0] * inputs + point.feature_kernel[0]

    def outputs(k):
        f = np.zeros(3)
        for rate in problem.optimiser.rates():
            f = f + rate * k[:, :2] @ (samples.y[:, 0] - f[:2])
        return f

    np.testing.assert_allclose(data.outputs.values[-1, :, 0], outputs(kernel)[:2], rtol=1e-12)
    step = 1e-5
    changes = [pairs.matrix(row) for row in step * np.eye(len(pairs))]
    slope = np.stack([(outputs(kernel + d) - outputs(kernel - d)) / (2 * step) for d in changes], axis=1)
    deviation = np.sqrt(np.diag(slope @ found.ntk(point, inputs) @ slope.T) / 100)
    both = [data[f"{name}_deviation"].values[-1, :, 0] for name in ("outputs", "test_outputs")]
    np.testing.assert_allclose(np.concatenate(both), deviation, rtol=1e-7)


def test_trajectory(tmp_path):
    problem = networks(RELU, samples=1, layers=2, steps=3)
    trajectory = wf.solve(problem, wf.Fluctuations(50))
    data = trajectory.data
    assert trajectory.label == "fluctuations at width 50"
    assert data.feature_kernel.dims == data.feature_kernel_deviation.dims == ("time", "layer", "sample", "sample_")
    norm = problem.samples.kernel()[0, 0]
    np.testing.assert_allclose(data.feature_kernel_deviation.values[-1, :, 0, 0], norm * np.sqrt([5 / 50, 10 / 50]))
    np.testing.assert_allclose(data.gradient_kernel_covariance.values[:, 0, :, 0], [[0.2, 0.1], [0.1, 0.1]])
    np.testing.assert_allclose(data.ntk_deviation.values[0] ** 2, data.ntk_covariance.values, rtol=1e-12)
    np.testing.assert_allclose(data.ntk.values[:, 0, 0], 3 * norm)
    trajectory.save(tmp_path / "fluctuations.nc")
    assert wf.Trajectory.load(tmp_path / "fluctuations.nc").data.equals(data)
    with pytest.raises(Diverged, match="exploded"):
        wf.solve(networks(RELU, samples=1, layers=2, steps=500, rate=2.0), wf.Fluctuations(50))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"rule": wf.Hebb()}, "rule = 'hebb'"),
        ({"rule": wf.GatedLinear()}, "rule = 'gated-linear'"),
        ({"loss": wf.Logistic()}, "loss = 'logistic'"),
        ({"optimiser": wf.GradientFlow(1.0)}, "optimiser = 'gradient-flow'"),
        ({"optimiser": wf.SGD(0.1, 3, momentum=0.5)}, "optimiser.momentum = 0.5"),
        ({"optimiser": wf.SGD(0.1, 3, batch_size=2)}, "optimiser.batch_size = 2"),
        ({"optimiser": wf.SGD(0.1, 3, weight_decay=0.1)}, "optimiser.weight_decay = 0.1"),
        ({"optimiser": wf.SGD(0.1, 3, temperature=0.1)}, "optimiser.temperature = 0.1"),
        ({"network": wf.MLP(2, centred=False)}, "network.centred = false"),
    ],
)
def test_refusals(parts, message):
    fine = {"network": wf.MLP(2), "data": wf.data.sphere(samples=3, dimension=5, seed=3)}
    with pytest.raises(InvalidInput, match=message):
        wf.solve(wf.Problem(**{**fine, **parts}), wf.Fluctuations(64))


def test_settings_are_checked():
    for settings in ({"width": 0}, {"points": 1000}, {"replicas": 1}):
        with pytest.raises(InvalidInput, match=next(iter(settings))):
            wf.Fluctuations(**{"width": 64, **settings})
    targets = wf.Data(x=np.eye(2), y=np.eye(2))
    with pytest.raises(InvalidInput, match=r"network\.outputs = 2"):
        wf.solve(wf.Problem(wf.MLP(2), targets), wf.Fluctuations(64))


@pytest.mark.slow
def test_outputs_of_networks():
    """Standard deviations of outputs of trained lazy networks, training and test samples."""
    problem = networks("tanh", samples=3, layers=2, steps=30, test_samples=2, train_biases=True, bias_variances=0.1)
    theory = wf.solve(problem, wf.Fluctuations(128)).data
    seeds = 2000
    found = wf.solve(problem, wf.FiniteWidth(128, seeds=seeds, parallel=200, dtype="float32")).data
    for name in ("outputs", "test_outputs"):
        values = found[name].values[:, 1:, :, 0]
        ratio = values.std(axis=0, ddof=1) / theory[f"{name}_deviation"].values[1:, :, 0]
        kurtosis = ((values - values.mean(0)) ** 4).mean(0) / values.var(0) ** 2
        error = np.sqrt((kurtosis - 1) / (4 * seeds))
        print(name, np.round(ratio, 3).tolist())
        assert np.all(np.abs(ratio - 1) < 4 * error + 10 / 128)
