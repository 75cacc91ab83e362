"""Kernel, vertex and NLO metric of finite networks against tables and other forms of the equations."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from problems import assert_same_data
from widefield import activations
from widefield.base.errors import InvalidInput
from widefield.effective import monte_carlo, sampler
from widefield.effective.curvature import derivatives
from widefield.effective.vertex_flow import Flow, flow
from widefield.gaussian import average_four, feature_kernel
from widefield.gaussian.chaos import Chaos
from widefield.gaussian.gradients import Gradients, _from_integrals, gradients
from widefield.gaussian.jacobians import feature_jacobian
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels.fluctuations import saddle_point
from widefield.kernels.noise import sampled_moments
from widefield.problem.network import MLP

TWO = np.array([[1.0, 0.6], [0.6, 1.5]])
SLOWLY = [pytest.param(name, marks=pytest.mark.slow) for name in ("swish", "erf", "softplus")]
ORDER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def inputs(K):
    """With x x^T / D = K."""
    return math.sqrt(len(K)) * np.linalg.cholesky(K)


# Tables


def test_two_inputs_of_tanh():
    found = flow(MLP(2, "tanh"), inputs(TWO), 7)
    np.testing.assert_allclose(found.kernel(1), TWO, rtol=1e-12)
    assert not found.vertex(1).any()
    tables = {
        2: (
            (0.394294490398, 0.196571605627, 0.468288210531),
            (0.097523738, 0.057803205, 0.017258236, 0.163261301, 0.058041792, 0.112152156),
            (0, 0, 0),
        ),
        3: (
            (0.236450410499, 0.111269614827, 0.263137202852),
            (0.067807494, 0.038635580, 0.012644541, 0.107351397, 0.038883321, 0.074683437),
            (-0.030932520, -0.014796258, -0.028838307),
        ),
    }
    for layer, (kernel, vertex, nlo) in tables.items():
        np.testing.assert_allclose(found.pairs.of(found.kernel(layer)), kernel, atol=1e-10)
        np.testing.assert_allclose([found.vertex(layer)[place] for place in ORDER], vertex, atol=1e-7)
        np.testing.assert_allclose(found.pairs.of(found.nlo_metric(layer)), nlo, atol=1e-7)
    assert found.relative_error == 0


def test_one_input_of_tanh():
    found = flow(MLP(9, "tanh"), [[1.0]], 3)
    table = {
        2: (0.394294490398, 0.0975237380859, 0),
        3: (0.236450410499, 0.0678074938921, -0.0309325198661),
        5: (0.127904735299, 0.0393984430357, -0.0682253713605),
        10: (0.0580118478402, 0.0185887275859, -0.107133750309),
    }
    for layer, expected in table.items():
        values = found.kernel(layer).item(), found.vertex(layer).item(), found.nlo_metric(layer).item()
        np.testing.assert_allclose(values, expected, atol=1e-8, rtol=1e-8)


def test_one_input_of_sin():
    found = flow(MLP(9, "sin"), [[1.0]], 3)
    for layer, expected in {
        3: (0.289403626088, 0.105953701558, -0.0507381517133),
        10: (0.0921811387302, 0.0500900685579, -0.193357975409),
    }.items():
        values = found.kernel(layer).item(), found.vertex(layer).item(), found.nlo_metric(layer).item()
        np.testing.assert_allclose(values, expected, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("tanh", (0.000501666534947, 0.00016714568178, -0.165816387675)),
        ("sin", (0.000997643527276, 0.000663550376351, -0.331140923095)),
    ],
)
def test_a_thousand_layers(activation, expected):
    found = flow(MLP(999, activation), [[1.0]], 3)
    values = found.kernel(1000).item(), found.vertex(1000).item(), found.nlo_metric(1000).item()
    np.testing.assert_allclose(values, expected, rtol=1e-7)


def test_relu_and_unequal_widths():
    """V / n_{l-1} = 5 K^2 sum 1/n and no NLO metric of one input."""
    found = flow(MLP(3, "relu", weight_variances=2.0), inputs(TWO), (5, 10, 20))
    K = found.kernel(4)
    np.testing.assert_allclose(np.diagonal(K), 2 * np.diagonal(TWO), rtol=1e-12)
    covariance = found.metric_covariance(4)
    for a in (0, 1):
        assert covariance[a, a, a, a] == pytest.approx(5 * K[a, a] ** 2 * (1 / 5 + 1 / 10 + 1 / 20), rel=1e-9)
        assert found.nlo_metric(4)[a, a] == pytest.approx(0, abs=1e-12)


def test_linear_network():
    found = flow(MLP(3, "linear"), inputs(TWO), 4)
    pair = np.einsum("ac,bd->abcd", TWO, TWO)
    np.testing.assert_allclose(found.four_point(4), 3 * (pair + pair.transpose(0, 1, 3, 2)), rtol=1e-8)
    assert not found.nlo_metric(4).any()


# Other forms of the equations


def hermite_nodes(K, nodes=70):
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * len(K), indexing="ij")], axis=1)
    product = np.ones(1)
    for _ in K:
        product = np.multiply.outer(product, weights / weights.sum()).ravel()
    return grid @ np.linalg.cholesky(K).T, product


def random_vertex(generator, size):
    v = generator.normal(size=(size,) * 4)
    v = v + v.transpose(1, 0, 2, 3)
    v = v + v.transpose(0, 1, 3, 2)
    return v + v.transpose(2, 3, 0, 1)


@pytest.mark.parametrize(("activation", "function"), [("tanh", np.tanh), ("sin", np.sin)])
@pytest.mark.parametrize("size", [1, 2])
def test_derivatives_against_tensors(activation, function, size):
    """(4.119) and (4.115) as they stand, for a random vertex and a random shift of the mean."""
    K = TWO[:size, :size] * 0.4
    generator = np.random.default_rng(size)
    V = random_vertex(generator, size)
    shift = generator.normal(size=(size, size))
    shift = shift + shift.T
    z, weights = hermite_nodes(K)
    upper = np.linalg.inv(K)
    V_up = np.einsum("abcd,ia,jb,kc,ld->ijkl", V, upper, upper, upper, upper)
    s = function(z)
    square = z[:, :, None] * z[:, None, :] - K
    bent = np.einsum("n,na,nb,nij->abij", weights, s, s, square)
    carried = np.einsum("ijkl,abij,cdkl->abcd", V_up, bent, bent) / 4
    twice = np.einsum("n,na,nb,nij,nkl,ijkl->ab", weights, s, s, square, square, V_up, optimize=True) / 8
    moved = np.einsum("ik,jl,kl,abij->ab", upper, upper, shift, bent) / 2
    plain = -2 * np.einsum("n,na,nb,ni,nj->abij", weights, s, s, z, z)
    plain += np.einsum("n,na,nb,ij->abij", weights, s, s, K)
    mixed = np.einsum("ikjl,kl,abij->ab", V_up, K, plain) / 4
    pairs = Pairs.within(size)
    slopes, bends = derivatives(activations.get(activation), K, pairs)
    over_pairs = V[pairs.rows, pairs.columns][:, pairs.rows, pairs.columns]
    np.testing.assert_allclose(
        slopes.carried(over_pairs),
        carried[pairs.rows, pairs.columns][:, pairs.rows, pairs.columns],
        rtol=1e-6,
        atol=1e-6,
    )
    found = (slopes @ pairs.of(shift)[:, None])[:, 0] + 0.5 * bends.contracted(over_pairs)
    np.testing.assert_allclose(found, pairs.of(moved + twice + mixed), rtol=1e-6, atol=1e-6)


def by_differences(activation, k, step=1e-3):
    """First and second derivatives of <s s> in (k11, k12, k22)."""

    def value(change):
        return float(feature_kernel(activation, *(np.array(k) + change)))

    units = step * np.eye(3)
    first = [(value(u) - value(-u)) / (2 * step) for u in units]
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    second = [sum(a * b * value(a * units[i] + b * units[j]) for a, b in signs) / (4 * step**2) for i, j in ORDER]
    return first, second


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu(0.3)", "gelu", *SLOWLY])
def test_derivatives_by_differences(activation):
    k, pairs = (1.3, 0.4, 0.7), Pairs.within(2)
    slopes, bends = derivatives(activations.get(activation), np.array([[1.3, 0.4], [0.4, 0.7]]), pairs)
    first, second = by_differences(activation, k)
    np.testing.assert_allclose((slopes.first[1], slopes.both[1], slopes.second[1]), first, atol=2e-6)
    np.testing.assert_allclose(bends.values[:, 1], second, atol=2e-5)


def test_kinks_away_from_zero():
    """A clipped line has delta functions in its second derivative at -1 and 1."""
    activations.register(
        "clipped_line", lambda z: jnp.clip(z, -1.0, 1.0), kinks=(-1.0, 1.0), jumps=((-1.0, 1.0), (1.0, -1.0))
    )
    clipped = activations.get("clipped_line")
    slopes, bends = derivatives(clipped, np.array([[1.3, 0.4], [0.4, 0.7]]), Pairs.within(2))
    first, second = by_differences(clipped, (1.3, 0.4, 0.7), step=2e-3)
    np.testing.assert_allclose((slopes.first[1], slopes.both[1], slopes.second[1]), first, atol=1e-5)
    np.testing.assert_allclose(bends.values[:, 1], second, atol=1e-4)


@pytest.mark.parametrize("activation", ["tanh", pytest.param("gelu", marks=pytest.mark.slow), "relu"])
def test_slopes_are_the_jacobian(activation):
    x = np.random.default_rng(0).normal(size=(3, 3))
    K, pairs = x @ x.T, Pairs.within(3)
    V = np.cov(np.random.default_rng(1).normal(size=(len(pairs), 9)))
    slopes, _ = derivatives(activations.get(activation), K, pairs)
    J = feature_jacobian(activations.get(activation), K, pairs)
    np.testing.assert_allclose(slopes @ np.eye(len(pairs)), J, atol=1e-8)
    np.testing.assert_allclose(slopes.carried(V), J @ V @ J.T, atol=1e-8)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_same_input_twice(activation):
    """Two samples that are one behave like one."""
    network = MLP(3, activation, weight_variances=1.5)
    one, two = (flow(network, x, 8) for x in ([[1.2]], [[1.2], [1.2]]))
    np.testing.assert_allclose(two.vertex(4), one.vertex(4).item(), rtol=1e-7)
    np.testing.assert_allclose(two.nlo_metric(4), one.nlo_metric(4).item(), rtol=1e-6, atol=1e-10)


def test_sampled_averages_are_as_accurate_as_stated():
    """Three inputs are sampled, two are integrated."""
    network, x = MLP(2, "tanh", bias_variances=0.1), np.random.default_rng(0).normal(size=(3, 4))
    few, many = flow(network, x[:2], (8, 4)), flow(network, x, (8, 4), points=2**11)
    for layer in (2, 3):
        error = many.widths[layer - 2] * many.covariance_error[layer - 1]
        gap = many.four_point(layer)[:2, :2, :2, :2] - few.four_point(layer)
        kept = np.ix_(*[[0, 1, 3]] * 2)
        over_pairs = gap[few.pairs.rows, few.pairs.columns][:, few.pairs.rows, few.pairs.columns]
        assert np.all(np.abs(over_pairs) < 8 * error[kept] + 1e-6)
    assert 0 < many.relative_error < 0.02
    assert many.shift_error[2].max() < 1e-3
    np.testing.assert_allclose(many.nlo_metric(3)[:2, :2], few.nlo_metric(3), atol=2e-3)


# Many inputs

GELU = {"weight_variances": 1.98305826, "bias_variances": 0.17292239}
CASES = {
    "tanh": MLP(1, "tanh", weight_variances=1.2, bias_variances=0.05),
    "relu": MLP(1, "relu", weight_variances=2.0),
    "gelu": MLP(1, "gelu", **GELU),
}


def with_clipped_line():
    """A clipped line with kinks at -1 and 2 and s(0) = 0.5: neither closed forms nor series."""
    activations.register(
        "lifted_line", lambda z: 0.5 + jnp.clip(z, -1.0, 2.0), kinks=(-1.0, 2.0), jumps=((-1.0, 1.0), (2.0, -1.0))
    )
    return activations.get("lifted_line")


def exact_covariance(activation, K, pairs, tolerance=1e-8):
    """Cov(s_a s_b, s_c s_d) from integrals over up to four variables."""
    s = activations.get(activation)
    known = {}

    def average(*samples):
        key = tuple(sorted(int(a) for a in samples))
        if key not in known:
            known[key] = float(average_four(s, s, s, s, K[np.ix_(key, key)], tolerance=tolerance))
        return known[key]

    tuples = list(zip(pairs.rows, pairs.columns, strict=True))
    fourth = np.array([[average(*p, *q) for q in tuples] for p in tuples])
    mean = np.array([float(feature_kernel(s, K[a, a], K[a, b], K[b, b])) for a, b in tuples])
    return fourth - np.outer(mean, mean)


def plain_covariance(activation, K, pairs, points, seed):
    """From Sobol points alone."""
    moments = sampled_moments(activation, K, pairs, seed, 0, points)
    return moments.features - np.outer(moments.mean_features, moments.mean_features)


def spread_of(values):
    """Root mean square of the standard error of the mean."""
    return np.sqrt(np.mean(np.var(values, axis=0, ddof=1)) / len(values))


@pytest.mark.parametrize("samples", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_many_inputs_against_integrals(name, samples):
    """All entries of the second layer, and their error bars over several seeds."""
    network, x = CASES[name], np.random.default_rng(samples).normal(size=(samples, 6))
    found = [flow(network, x, 1, points=2**9, seed=4 * seed) for seed in range(6)]
    weight, pairs = network.weight_scales[1] ** 2, found[0].pairs
    exact = weight**2 * exact_covariance(name, found[0].kernel(1), pairs)
    scale = np.sqrt(np.mean(exact**2))
    gaps = np.array([f.covariances[1] - exact for f in found])
    errors = np.array([f.covariance_error[1] for f in found])
    assert np.all(np.abs(np.diagonal(gaps, axis1=1, axis2=2)) < 1e-6 * scale)  # variances are not sampled
    assert np.sqrt(np.mean(gaps**2)) < 5e-3 * scale
    assert 0.4 < np.sqrt(np.mean(gaps**2) / np.mean(errors**2)) < 2.5
    sampled = errors > 1e-7 * scale
    assert np.quantile(np.abs(gaps[sampled]) / errors[sampled], 0.9) < 4  # 2.4 for three degrees of freedom


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_remainders(name):
    """Closed forms and series against integrals; the remainder has no polynomial part; degenerate samples."""
    x = np.random.default_rng(1).normal(size=(3, 5))
    x = np.concatenate([x, -1.3 * x[:1], np.zeros((1, 5)), x[1:2]])
    K, pairs, s = x @ x.T / 5, Pairs.within(6), activations.get(name)
    low, integrals = gradients(s, K, pairs), _from_integrals(s, K, pairs)
    both = [Chaos(s, K, pairs, Gradients(t.values[:3], t.square)) for t in (low, integrals)]
    np.testing.assert_allclose(both[0].covariance, both[1].covariance, atol=1e-12)
    np.testing.assert_allclose(low.square, integrals.square, atol=1e-11)
    z = np.random.default_rng(0).normal(size=(9, 5)) @ x.T / math.sqrt(5)
    np.testing.assert_allclose(both[0].remainders(z), both[1].remainders(z), atol=1e-11)
    two = Pairs.within(2)
    nodes, weights = hermite_nodes(K[:2, :2], nodes=90)
    R = Chaos.of(s, K[:2, :2], two).remainders(nodes)
    for i, j in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1)):
        overlap = (R * weights) @ (nodes[:, 0] ** i * nodes[:, 1] ** j)
        np.testing.assert_allclose(overlap, 0, atol=2e-3 if s.kinks else 1e-9)


def test_degrees_beyond_the_fourth():
    """Var(s^2) = sum_m c_m^2 / m! with c_m = <s^2 He_m>."""
    K, s = np.array([[0.4]]), activations.get("softplus")
    chaos = Chaos.of(s, K, Pairs.within(1))
    nodes, weights = hermite_nodes(K, nodes=90)
    x, values = nodes[:, 0] / math.sqrt(0.4), np.logaddexp(0, nodes[:, 0]) ** 2
    unit = np.eye(7)
    c = [weights @ (values * np.polynomial.hermite_e.hermeval(x, unit[m])) for m in range(7)]
    assert chaos.degrees == (1, 2, 3, 4, 5, 6)
    expected = sum(value**2 / math.factorial(m) for m, value in enumerate(c) if m)
    assert chaos.covariance.item() == pytest.approx(expected, rel=1e-11)
    assert chaos.gradients.square.item() == pytest.approx(weights @ values**2, rel=1e-11)


@pytest.mark.parametrize("name", [*CASES, pytest.param("lifted_line", marks=pytest.mark.slow)])
def test_degenerate_inputs(name):
    """A duplicate, an opposite and a zero input add nothing new: the vertex of two inputs holds all of it."""
    activation = with_clipped_line().name if name == "lifted_line" else name
    network, x = MLP(2, activation, weight_variances=1.3), np.array([[1.0, 0.5, 0.0], [-0.2, 0.8, 1.0]])
    more = np.stack([x[0], x[0], x[1], -x[1], np.zeros(3)])
    found, few = flow(network, more, 5, points=2**9), flow(network, x, 5)
    V, expected = found.four_point(3), few.four_point(3)
    error = found.pairs.matrix(np.moveaxis(found.pairs.matrix(found.covariance_error[2]), 0, -1)) * 5
    for chosen in ([0, 2], [1, 2]):
        place = np.ix_(*[chosen] * 4)
        assert np.all(np.abs(V[place] - expected) < 10 * error[place] + 1e-6 * np.abs(expected).max())
        np.testing.assert_allclose(found.nlo_metric(3)[np.ix_(chosen, chosen)], few.nlo_metric(3), rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(V[0, 0, 0, 0], V[1, 1, 1, 1], rtol=1e-9)
    np.testing.assert_allclose(V[0, 1, 2, 3], V[1, 0, 2, 3], rtol=1e-9)
    assert np.isfinite(V).all()
    assert np.linalg.eigvalsh(found.covariances[2]).min() > -1e-9 * np.abs(V).max()
    if name == "tanh":  # odd: the opposite input has the opposite sign
        np.testing.assert_allclose(V[0, 2, 0, 3], -V[0, 2, 0, 2], rtol=1e-7)
        assert not V[4].any()
    if name == "relu":
        opposite = exact_covariance(activation, found.kernel(1), found.pairs, tolerance=1e-6)
        gap = found.covariances[1] * 5 / 1.3**2 - opposite
        assert np.all(np.abs(gap) < 10 * found.covariance_error[1] * 5 / 1.3**2 + 1e-6 * np.abs(opposite).max())


def test_linear_networks_are_not_sampled():
    """Products of two lines have degree 2."""
    x = np.random.default_rng(0).normal(size=(5, 3))
    found, K = flow(MLP(3, "linear"), x, 4), x @ x.T / 3
    pair = np.einsum("ac,bd->abcd", K, K)
    np.testing.assert_allclose(found.four_point(4), 3 * (pair + pair.transpose(0, 1, 3, 2)), rtol=1e-9, atol=1e-12)
    assert found.relative_error == 0
    assert not found.covariance_error.any()
    assert not found.shift_error.any()


@pytest.mark.parametrize(("name", "factor"), [("tanh", 5), ("relu", 5), ("gelu", 10)])
def test_more_accurate_than_sampling_alone(name, factor):
    """At equal points, for eight inputs in the third layer."""
    network, x = CASES[name], np.random.default_rng(0).normal(size=(8, 20))
    deep = MLP(3, name, weight_variances=network.weight_variances, bias_variances=network.bias_variances)
    K, pairs, s = saddle_point(deep, x).preactivation[2], Pairs.within(8), network.phi
    chaos = Chaos.of(s, K, pairs)
    new = spread_of([chaos.sampled(seed, 0, 2**10) for seed in range(6)])
    old = [plain_covariance(s, K, pairs, 2**10, seed) for seed in range(6)]
    assert factor * new < spread_of(old)
    mean = np.mean([chaos.sampled(seed, 0, 2**10) for seed in range(6)], axis=0)
    assert np.sqrt(np.mean((chaos.covariance + mean - np.mean(old, axis=0)) ** 2)) < 3 * spread_of(old)


def test_points_of_both_widths_are_even():
    """With a random half of the points for each width, the spread is four times as large."""
    x = np.random.default_rng(3).normal(size=(3, 6))
    chaos = Chaos.of(activations.get("tanh"), x @ x.T / 6, Pairs.within(3))
    spread = spread_of([chaos.sampled(seed, 0, 2**13) for seed in range(12)])
    assert spread < 1.3e-4 * np.sqrt(np.mean(chaos.covariance**2))


@pytest.mark.slow
def test_activations_that_are_almost_steps():
    """At a large variance series do not converge; low degrees from integrals take over."""
    K = 40.0 * np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.5], [0.2, 0.5, 1.0]])
    pairs, s = Pairs.within(3), activations.get("tanh")
    chaos = Chaos.of(s, K, pairs)
    assert chaos.degrees == (2,)
    sampled = np.array([chaos.sampled(seed, 0, 2**12) for seed in range(4)])
    gap = chaos.covariance + sampled.mean(axis=0) - exact_covariance("tanh", K, pairs, tolerance=1e-6)
    assert np.all(np.abs(gap) < 8 * sampled.std(axis=0, ddof=1) / 2 + 1e-5)


# What a flow offers


def test_correlators_of_a_flow():
    found = flow(MLP(2, "tanh", weight_variances=1.2, bias_variances=0.05), inputs(TWO), 16)
    V = found.four_point(3)
    assert V.shape == (2,) * 4
    np.testing.assert_allclose(V, V.transpose(1, 0, 2, 3))
    np.testing.assert_allclose(V, V.transpose(2, 3, 0, 1))
    np.testing.assert_allclose(found.connected(3, (0, 0, 1, 1)), V / 16)
    np.testing.assert_allclose(found.connected(3, (0, 1, 0, 1)), V.transpose(0, 2, 1, 3) / 16)
    assert not found.connected(3, (0, 1, 2, 2)).any()
    assert found.connected(3, (0, 0, 0, 0))[0, 0, 0, 0] == pytest.approx(3 * V[0, 0, 0, 0] / 16)
    np.testing.assert_allclose(found.metric(3), found.kernel(3) + found.nlo_metric(3) / 16)


def test_covariance_of_observables():
    """That of s_a s_b of two neurons carries the vertex to the next layer."""
    found = flow(MLP(2, "tanh"), inputs(TWO), (16, 8))
    slopes, _ = derivatives(activations.get("tanh"), found.kernel(2), found.pairs)
    expected = slopes.carried(found.covariances[1])

    def features(a, b):
        return lambda z: np.tanh(z[:, a]) * np.tanh(z[:, b])

    assert found.observable_covariance(2, features(0, 1), features(0, 0)) == pytest.approx(expected[0, 1], rel=1e-8)
    alone = found.observable_covariance(2, features(0, 0), lambda z: z[:, 0] ** 2, samples=[1])
    by_hand = slopes.both[2] * found.covariances[1, 2, 2]
    assert alone == pytest.approx(by_hand, rel=1e-8)


@pytest.mark.parametrize("neurons", [1, 3])
def test_action_of_a_layer(neurons):
    found = flow(MLP(2, "tanh"), inputs(TWO), 10**4)
    action = found.action(3, neurons)
    np.testing.assert_allclose(action.two_point, found.metric(3), atol=1e-6)
    np.testing.assert_allclose(action.connected((0, 0, 1, 1)), found.connected(3, (0, 0, 1, 1)), atol=1e-7)
    assert found.action(3, neurons, samples=[1]).g.shape == (1, 1)


def test_data():
    found = flow(MLP(2, "relu", weight_variances=2.0), inputs(TWO), (4, 8))
    data = found.data
    assert data.sizes == {"layer": 3, "sample": 2, "sample_": 2, "pair": 3, "pair_": 3}
    np.testing.assert_allclose(data["vertex"].sel(layer=3, pair="0,1", pair_="1,1"), found.vertex(3)[1, 2])
    np.testing.assert_allclose(data["metric"].sel(layer=2), found.metric(2))
    np.testing.assert_allclose(found.covariances[2], data["vertex"].sel(layer=3) / 8, rtol=1e-15)
    np.testing.assert_allclose(found.pairs.matrix(found.shifts), data["metric"] - data["kernel"], rtol=1e-9, atol=1e-12)
    assert found.widths == (4, 8)


def test_the_old_dataset_still_works():
    found = flow(MLP(1, "relu"), inputs(TWO), 4)
    with pytest.warns(DeprecationWarning, match="Flow.data"):
        old = found.dataset()
    assert old["vertex"].dims == ("layer", "pair", "other_pair")
    assert old["kernel"].dims == ("layer", "sample", "other_sample")


def test_flows_come_back_as_they_were(tmp_path):
    found = flow(MLP(2, "tanh", weight_variances=(1.0, 1.5, 2.0)), inputs(TWO), (4, 8))
    found.save(tmp_path / "flow.nc")
    again = wf.load(tmp_path / "flow.nc")
    assert isinstance(again, Flow)
    assert again.network == found.network
    assert_same_data(found.data, again.data)
    for name in ("kernels", "covariances", "shifts", "covariance_error", "shift_error"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert again.widths == (4, 8)
    assert str(again) == str(found)
    assert "tanh, 3 layers, widths 4, 8, 2 inputs" in str(found)
    assert {axes.get_xlabel() for axes in found.plot().axes} == {"layer"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flow(MLP(2), [[1.0]], (3,)), "widths has 1"),
        (lambda: flow(MLP(2), [[1.0]], 0), "widths"),
        (lambda: flow(MLP(2), [1.0], 3), "x"),
        (lambda: flow(MLP(2), [[math.nan]], 3), "x"),
        (lambda: flow(MLP(2, "perceptron"), [[1.0]], 3), "jumps"),
        (lambda: flow(MLP(2), [[1.0]], 3, replicas=1), "replicas"),
        (lambda: flow(MLP(2), [[1.0]], 3).kernel(4), "layer"),
        (lambda: flow(MLP(2), [[1.0]], 3).action(3, 1, samples=[1]), "sample"),
        (lambda: sampler.metrics(MLP(2), [[1.0]], 3, seeds=0, seed=0), "seeds"),
        (lambda: sampler.outputs(MLP(2), [[1.0]], 3, seeds=1, seed=0, law="cauchy"), "law"),
        (lambda: monte_carlo.check(MLP(2), [[1.0]], 3, seeds=10, seed=0), "seeds"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
