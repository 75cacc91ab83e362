"""Wick's theorem, cumulants, nearly Gaussian actions, running couplings and deep linear networks."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widefield.base.errors import InvalidInput
from widefield.effective import couplings, deep_linear
from widefield.effective.couplings import SingleInputCouplings
from widefield.effective.cumulants import (
    connected,
    cumulant_tensors,
    disconnected,
    from_samples,
    moment_tensors,
    set_partitions,
)
from widefield.effective.deep_linear import DeepLinear
from widefield.effective.quartic import NearlyGaussian, NeuronAction, QuarticAction
from widefield.effective.wick import (
    double_factorial,
    generating_function,
    moment,
    moment_tensor,
    pairings,
    single_moment,
)

K = np.array([[2.0, 1.0], [1.0, 3.0]])


def random_covariance(generator, size):
    root = generator.normal(size=(size, size))
    return root @ root.T + 0.3 * np.eye(size)


def random_vertex(generator, size, scale):
    """With the symmetries of V_(ab)(cd)."""
    v = generator.normal(size=(size,) * 4)
    v = v + v.transpose(1, 0, 2, 3)
    v = v + v.transpose(0, 1, 3, 2)
    return scale * (v + v.transpose(2, 3, 0, 1)) / 8


# Wick's theorem


def test_numbers_of_pairings():
    counts = [sum(1 for _ in pairings(range(order))) for order in (2, 4, 6, 8, 10)]
    assert counts == [1, 3, 15, 105, 945] == [double_factorial(order) for order in (2, 4, 6, 8, 10)]
    assert double_factorial(12) == 10395
    assert list(pairings(range(3))) == []
    assert double_factorial(3) == 0


@pytest.mark.parametrize(
    ("indices", "expected"),
    [((0, 0, 1, 1), 8), ((0,) * 4 + (1,) * 2, 60), ((0,) * 3 + (1,) * 3, 60), ((0,) * 6, 120), ((0, 0, 1), 0)],
)
def test_moments_of_two_variables(indices, expected):
    assert moment(K, indices) == pytest.approx(expected, rel=1e-12)


def test_one_variable():
    assert [single_moment(2.0, order) for order in (0, 1, 2, 4, 6)] == [1.0, 0.0, 2.0, 12.0, 120.0]


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_moments_against_quadrature(order):
    covariance = random_covariance(np.random.default_rng(order), 3)
    points, weights = np.polynomial.hermite_e.hermegauss(10)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(points, points, points)], axis=1)
    weights = np.prod(np.stack(np.meshgrid(weights, weights, weights)), axis=0).ravel() / weights.sum() ** 3
    z = grid @ np.linalg.cholesky(covariance).T
    indices = np.random.default_rng(1).integers(0, 3, order)
    expected = weights @ np.prod(z[:, indices], axis=1)
    assert moment(covariance, indices) == pytest.approx(expected, rel=1e-10)
    by_pairings = sum(math.prod(covariance[pair] for pair in pairing) for pairing in pairings(indices.tolist()))
    assert moment(covariance, indices) == pytest.approx(by_pairings, rel=1e-12)
    assert moment_tensor(covariance, order)[tuple(indices)] == pytest.approx(by_pairings, rel=1e-12)


def test_generating_function():
    """Its fourth derivative at zero is the moment, PDLT eq. (1.41)."""
    h, shifts = 0.02, np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])
    weights = np.array([1, 1, 1, 1, -2, -2, -2, -2, 4])
    fourth = sum(w * generating_function(K, h * shift) for w, shift in zip(weights, shifts, strict=True)) / h**4
    assert fourth == pytest.approx(moment(K, (0, 0, 1, 1)), rel=5e-3)
    assert generating_function([[1.5]], [2.0]) == pytest.approx(math.exp(3.0))
    with pytest.raises(InvalidInput):
        generating_function(K, [1.0])


def test_high_orders_are_cheap():
    assert moment(np.eye(2), [0] * 60 + [1] * 40) == pytest.approx(double_factorial(60) * double_factorial(40))


@pytest.mark.parametrize("bad", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[1.0, 2.0]], [1.0], [[math.nan]]])
def test_no_covariance(bad):
    with pytest.raises(InvalidInput):
        moment(bad, (0, 0))


def test_bad_indices():
    with pytest.raises(InvalidInput, match="index"):
        moment(K, (0, 2))
    with pytest.raises(InvalidInput, match="use `moment`"):
        moment_tensor(np.eye(10), 8)


# Cumulants


def test_numbers_of_partitions():
    assert [sum(1 for _ in set_partitions(range(n))) for n in range(7)] == [1, 1, 2, 5, 15, 52, 203]


@pytest.mark.parametrize("order", [4, 6])
def test_a_gaussian_has_no_higher_cumulants(order):
    covariance = random_covariance(np.random.default_rng(0), 3)
    indices = tuple(np.random.default_rng(2).integers(0, 3, order))
    assert connected(lambda block: moment(covariance, block), indices) == pytest.approx(0, abs=1e-10)


def test_random_sign():
    def moments(block):
        return float(len(block) % 2 == 0)

    assert [connected(moments, (0,) * order) for order in (2, 4, 6)] == [1, -2, 16]


def test_six_point_formula():
    """(1.61) for a mixture of Gaussians, whose odd moments vanish."""
    one, two = (random_covariance(np.random.default_rng(seed), 6) for seed in (1, 2))

    def moments(block):
        return 0.3 * moment(one, block) + 0.7 * moment(two, block)

    six = tuple(range(6))
    expected = moments(six)
    for pair in combinations(six, 2):
        expected -= moments(tuple(i for i in six if i not in pair)) * moments(pair)
    for pairing in pairings(six):
        expected += 2 * math.prod(moments(pair) for pair in pairing)
    assert connected(moments, six) == pytest.approx(expected, rel=1e-10)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_cumulants_there_and_back(count, orders, seed):
    z = np.random.default_rng(seed).normal(size=(7, count))
    letters = "abcd"
    moments = [
        np.einsum(",".join(f"n{i}" for i in letters[:order]) + "->" + letters[:order], *[z] * order) / 7
        for order in range(1, orders + 1)
    ]
    back = moment_tensors(cumulant_tensors(moments))
    for found, expected in zip(back, moments, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


@given(st.lists(st.floats(-2, 2), min_size=5, max_size=5))
def test_moments_of_one_variable_there_and_back(values):
    cumulants = dict(enumerate(values, start=1))
    moments = {n: disconnected(lambda block: cumulants[len(block)], (0,) * n) for n in cumulants}
    for n, value in cumulants.items():
        assert connected(lambda block: moments[len(block)], (0,) * n) == pytest.approx(value, abs=1e-8)


def test_cumulants_of_samples():
    z = np.random.default_rng(0).exponential(size=(200000, 2))
    for indices, expected in (((0,), 1), ((0, 0), 1), ((1, 1, 1), 2), ((0, 0, 1), 0), ((0,) * 4, 6)):
        found = from_samples(z, indices)
        assert abs(found.value - expected) < 4 * found.error
        assert found.error < 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((10, 1)), (0,)), "too few"),
        ((np.zeros((100, 1)), ()), "empty"),
        ((np.zeros((100, 1)), (1,)), "index"),
    ],
)
def test_bad_samples(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        from_samples(*arguments)


def test_bad_tensors():
    with pytest.raises(InvalidInput, match="shape"):
        cumulant_tensors([np.zeros(2), np.zeros((3, 3))])
    with pytest.raises(InvalidInput, match="no tensors"):
        cumulant_tensors([])


# Nearly Gaussian distributions


def quartic_integrals(action, half=9.0, nodes=301):
    """Moments of exp(-S) of two variables by the trapezoidal rule: Z, E[z z], E[z z z z]."""
    axis = np.linspace(-half, half, nodes)
    z = np.stack([part.ravel() for part in np.meshgrid(axis, axis)], axis=1)
    weights = np.exp(-action(z)) * (axis[1] - axis[0]) ** 2
    Z = weights.sum()
    two = np.einsum("n,na,nb->ab", weights, z, z) / Z
    return Z, two, np.einsum("n,na,nb,nc,nd->abcd", weights, z, z, z, z, optimize=True) / Z


def test_scalar_quartic_action():
    action = QuarticAction([[1.3]], np.full((1, 1, 1, 1), 0.7e-3))
    assert action.partition == pytest.approx(1 - 0.7e-3 * 1.3**2 / 8, abs=1e-14)
    assert action.two_point.item() == pytest.approx(1.3 - 0.7e-3 * 1.3**3 / 2, abs=1e-14)
    assert action.connected.item() == pytest.approx(-0.7e-3 * 1.3**4, abs=1e-14)
    z = np.linspace(-15, 15, 4001)[:, None]
    weights = np.exp(-action(z))
    two, four = (weights @ z[:, 0] ** n / weights.sum() for n in (2, 4))
    assert weights.sum() * (z[1] - z[0]).item() / math.sqrt(2 * math.pi * 1.3) == pytest.approx(0.99985225, abs=1e-8)
    assert two == pytest.approx(1.2992323, abs=1e-7)
    assert four - 3 * two**2 == pytest.approx(-1.9910e-3, abs=1e-7)


def test_first_order_of_two_variables():
    """What is left of the differences is of second order: halving the coupling divides it by four."""
    covariance = np.array([[1.0, 0.4], [0.4, 0.8]])
    v = np.random.default_rng(0).uniform(size=2)
    coupling = np.einsum("a,b,c,d->abcd", v, v, v, v)
    gaps = []
    for scale in (2e-3, 1e-3):
        action = QuarticAction(covariance, scale * coupling)
        Z, two, four = quartic_integrals(action)
        free = math.sqrt(np.linalg.det(2 * math.pi * covariance))
        joined = four - moment_tensor(two, 4)
        pairs = ((Z / free, action.partition), (two, action.two_point), (four, action.four_point))
        gaps.append([np.abs(a - b).max() for a, b in (*pairs, (joined, action.connected))])
    np.testing.assert_allclose(np.divide(*gaps), 4, rtol=0.02)


def test_couplings_from_cumulants_and_back():
    covariance = np.array([[1.0, 0.4], [0.4, 0.8]])
    coupling = 1e-7 * moment_tensor(K, 4)
    action = QuarticAction(covariance, coupling)
    found = QuarticAction.from_correlators(action.two_point, action.connected)
    np.testing.assert_allclose(found.coupling, coupling, rtol=1e-4)
    np.testing.assert_allclose(found.K, covariance, atol=1e-9)


def test_general_action_holds_the_quartic_one():
    covariance, coupling = np.array([[1.0, 0.4], [0.4, 0.8]]), 1e-3 * moment_tensor(K, 4)
    special, general = QuarticAction(covariance, coupling), NearlyGaussian(covariance, {4: coupling})
    assert general.partition == pytest.approx(special.partition, rel=1e-12)
    np.testing.assert_allclose(general.moments(2), special.two_point, rtol=1e-12)
    np.testing.assert_allclose(general.moments(4), special.four_point, rtol=1e-12)
    unit = NearlyGaussian(np.eye(2), {4: coupling})
    assert unit.strengths[4] == pytest.approx(np.abs(coupling).max())


def test_sextic_coupling_is_the_six_point_correlator():
    """E[z^6]_c = -s K^6 at first order."""
    s, variance = 1e-5, 1.3
    action = NearlyGaussian([[variance]], {6: np.full((1,) * 6, s)})
    moments = {order: action.moments(order).item() for order in (2, 4, 6)}
    found = connected(lambda block: moments.get(len(block), 0.0), (0,) * 6)
    assert found == pytest.approx(-s * variance**6, rel=2e-3)


@pytest.mark.parametrize("neurons", [1, 2, 3])
def test_neurons_in_a_quartic_action(neurons):
    generator = np.random.default_rng(neurons)
    action = NeuronAction(random_covariance(generator, 2), random_vertex(generator, 2, 1e-3), neurons)
    plain = action.as_quartic()
    two = plain.two_point.reshape(neurons, 2, neurons, 2)
    four = plain.connected.reshape((neurons, 2) * 4)
    np.testing.assert_allclose(two[0, :, 0], action.two_point, rtol=1e-10)
    for indices in np.ndindex((neurons,) * 4):
        i, j, k, m = indices
        np.testing.assert_allclose(four[i, :, j, :, k, :, m], action.connected(indices), atol=1e-12)
    square = action.mean(lambda z: z[:, 0] * z[:, 1])
    assert square == pytest.approx(action.two_point[0, 1], rel=1e-10)
    assert action.covariance(lambda z: z[:, 0] ** 2, lambda z: z[:, 0] * z[:, 1]) == pytest.approx(
        action.lowered[0, 0, 0, 1], rel=1e-10
    )


def test_observables_of_neurons_by_brute_force():
    """(4.46) in full, with three neurons, one sample, for tanh^2."""
    g, v, n = 0.9, 0.02, 3
    action = NeuronAction([[g]], np.full((1,) * 4, v), n)
    points, weights = np.polynomial.hermite_e.hermegauss(48)
    z = math.sqrt(g) * np.stack([axis.ravel() for axis in np.meshgrid(points, points, points)])
    weights = np.prod(np.stack(np.meshgrid(weights, weights, weights)), axis=0).ravel() / weights.sum() ** 3
    quartic = (z**2).sum(axis=0) ** 2

    def average(F):
        return weights @ F + v / 8 * (weights @ (quartic * F) - (weights @ quartic) * (weights @ F))

    F, H = np.tanh(z[0]) ** 2, np.cos(z[1])
    assert action.mean(lambda z: np.tanh(z[:, 0]) ** 2) == pytest.approx(average(F), rel=1e-12)
    # Cov = E[FH] - E[F] E[H], the last product to first order too.
    f, h = weights @ F, weights @ H
    expected = average(F * H) - f * average(H) - h * average(F) + f * h
    found = action.covariance(lambda z: np.tanh(z[:, 0]) ** 2, lambda z: np.cos(z[:, 0]))
    assert found == pytest.approx(expected, rel=1e-10)


def test_bad_actions():
    with pytest.raises(InvalidInput, match="symmetric"):
        QuarticAction(K, np.random.default_rng(0).normal(size=(2,) * 4))
    with pytest.raises(InvalidInput, match="shape"):
        QuarticAction(K, np.zeros((1,) * 4))
    with pytest.raises(InvalidInput, match="odd"):
        NearlyGaussian(K, {5: np.zeros((2,) * 5)})
    with pytest.raises(InvalidInput, match="must not change"):
        NeuronAction(K, np.random.default_rng(0).normal(size=(2,) * 4), 1)
    with pytest.raises(InvalidInput, match="no inverse"):
        QuarticAction(np.ones((2, 2)), np.zeros((2,) * 4))([0.0, 0.0])
    with pytest.raises(InvalidInput, match="too many"):
        NeuronAction(np.eye(5), np.zeros((5,) * 4), 1).mean(lambda z: z[:, 0])


# Running couplings


def test_observables_do_not_depend_on_the_neurons_kept():
    """(4.102) in (4.101) gives the same metric up to second order."""
    for variance in (1e-4, 1e-5):
        metrics = [SingleInputCouplings.from_correlators(1.7, variance, m).metric for m in (1, 2, 5)]
        np.testing.assert_allclose(metrics, 1.7, atol=40 * variance**2)
    whole = SingleInputCouplings.from_correlators(1.7, 1e-5, 5)
    for m in (1, 2):
        some = whole.marginalised(m)
        direct = SingleInputCouplings.from_correlators(1.7, 1e-5, m)
        assert some.quadratic == pytest.approx(direct.quadratic, abs=1e-9)
        assert some.metric == pytest.approx(1.7, abs=1e-8)
    assert whole.variance == pytest.approx(1e-5, rel=1e-4)


@pytest.mark.parametrize("neurons", [1, 2, 5])
def test_several_inputs_keep_their_metric(neurons):
    generator = np.random.default_rng(0)
    kernel, shift = random_covariance(generator, 3), 1e-7 * random_covariance(generator, 3)
    covariance = random_vertex(generator, 3, 1e-7)
    action = couplings.action(kernel, shift, covariance, neurons)
    np.testing.assert_allclose(action.two_point, kernel + shift, atol=1e-10)
    np.testing.assert_allclose(action.lowered, covariance, atol=1e-10)
    upper = couplings.inverse_quadratic_coupling(kernel, shift, covariance, neurons)
    np.testing.assert_allclose(upper @ action.g, np.eye(3), atol=1e-7)


def test_one_input_is_a_case_of_several():
    G, variance, m = 1.7, 1e-3, 4
    action = couplings.action([[G]], [[0.0]], np.full((1,) * 4, variance), m)
    single = SingleInputCouplings.from_correlators(G, variance, m)
    assert action.g.item() == pytest.approx(1 / single.quadratic, rel=1e-12)
    assert action.v.item() == pytest.approx(single.quartic, rel=1e-12)


def test_too_strong_couplings():
    with pytest.raises(InvalidInput, match="too strong"):
        SingleInputCouplings.from_correlators(1.0, 1.0, 5)
    with pytest.raises(InvalidInput, match="too strong"):
        couplings.action([[1.0]], [[0.0]], np.ones((1,) * 4), 5)
    with pytest.raises(InvalidInput, match="no inverse"):
        couplings.raised(np.zeros((2,) * 4), np.ones((2, 2)))


# Deep linear networks


def test_growth():
    assert [deep_linear.growth(m, 4) for m in (1, 2, 3, 4)] == [1, 1.5, 3, 7.5]
    for m in (2, 3, 5):
        expected = (2 / 7) ** m * math.gamma(3.5 + m) / math.gamma(3.5)
        assert deep_linear.growth(m, 7) == pytest.approx(expected, rel=1e-12)


def test_unequal_widths():
    network = DeepLinear((5, 8, 6), 1.0)
    assert network.ratio(2, 4) == pytest.approx(7 / 3, rel=1e-10)
    assert network.ratio(3, 4) == pytest.approx(10.5, rel=1e-10)
    norm = (1 + 0.25 + 4) / 3
    assert network.two_point(4, norm) == pytest.approx(1.75)
    assert network.correlator(2, 4, norm) == pytest.approx(7.1458, abs=1e-4)
    assert network.correlator(3, 4, norm) == pytest.approx(56.27, abs=1e-2)


def test_uniform_width():
    n, layer = 1000, 101
    network = DeepLinear((n,) * (layer - 1))
    assert network.connected(2, layer) == pytest.approx((1 + 2 / n) ** (layer - 1) - 1, rel=1e-10)
    assert network.connected(2, layer) == pytest.approx(deep_linear.double_scaling_connected(2, 0.1), rel=2e-3)
    four, two = (network.correlator(m, layer) for m in (2, 1))
    six = network.correlator(3, layer)
    assert network.connected(3, layer) == pytest.approx(six - 3 * two * four + 2 * two**3, rel=1e-9)
    mean, variance = DeepLinear((10,) * 4).mean_square(3)
    assert mean == 1
    assert variance == pytest.approx(1.2**3 - 1, rel=1e-10)


def test_double_scaling():
    assert deep_linear.double_scaling_connected(2, 0.1) == pytest.approx(0.2214027582, abs=1e-10)
    assert deep_linear.double_scaling_connected(3, 0.1) == pytest.approx(0.1579105259, abs=1e-10)
    assert deep_linear.double_scaling(3, 0.1) == pytest.approx(math.exp(0.6), rel=1e-12)


def test_neurons_of_a_linear_network():
    network = DeepLinear((5, 8))
    four = network.correlator(2, 3)
    assert network.moment((0, 0, 1, 1), 3) == pytest.approx(four)
    assert network.moment((0, 0, 0, 0), 3) == pytest.approx(3 * four)
    assert network.moment((0, 0, 0, 1), 3) == 0
    assert network.moment((0,), 3) == 0


def test_several_inputs_of_a_linear_network():
    kernel = np.array([[1, 0.5], [0.5, 2]])
    A = DeepLinear((10,) * 3).metric_products(4, kernel)
    found = [A[0, 0, 0, 0], A[0, 0, 1, 1], A[0, 1, 0, 1], A[0, 0, 0, 1]]
    np.testing.assert_allclose(found, [1.728, 2.2905, 1.01475, 0.864], rtol=1e-12)
    wide = DeepLinear((10**6,) * 3).metric_covariance(4, kernel) * 10**6
    outer = np.einsum("ac,bd->abcd", kernel, kernel)
    np.testing.assert_allclose(wide, 3 * (outer + outer.transpose(0, 1, 3, 2)), rtol=1e-4)


def test_samples_of_linear_networks():
    drawn = DeepLinear((8, 8), (1.0, 0.5, 2.0)).sample(200000, 3, input_norm=3.0, seed=0)
    exact = DeepLinear((8, 8), (1.0, 0.5, 2.0))
    for m in (1, 2):
        error = (drawn**m).std() / math.sqrt(len(drawn))
        assert abs((drawn**m).mean() - exact.correlator(m, 3, 3.0)) < 4 * error
    limit = np.log(deep_linear.sample_double_scaling(200000, 0.5, seed=1))
    assert limit.mean() == pytest.approx(-0.5, abs=0.01)
    assert limit.var() == pytest.approx(1.0, abs=0.015)
    deep = np.log(DeepLinear((200,) * 100).sample(100000, 101, seed=2))
    assert deep.mean() == pytest.approx(-0.5, abs=0.015)
    assert deep.var() == pytest.approx(1.0039, abs=0.02)


@pytest.mark.parametrize(
    "call",
    [
        lambda: DeepLinear((5, 0)),
        lambda: DeepLinear((5,), (1.0,)),
        lambda: DeepLinear((5,)).ratio(2, 3),
        lambda: DeepLinear((5,)).mean_square(2),
        lambda: DeepLinear((5,)).sample(0, 1, seed=0),
        lambda: deep_linear.double_scaling(2, -1.0),
    ],
)
def test_bad_linear_networks(call):
    with pytest.raises(InvalidInput):
        call()
