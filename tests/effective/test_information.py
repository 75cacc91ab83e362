"""Entropy and information of nearly Gaussian layers against integrals, exact laws and PDLT's numbers."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln, kve

from widefield.base.errors import InvalidInput
from widefield.effective.aspect_ratio import (
    fluctuation_rate,
    information_drift,
    information_of_ratio,
    optimal_aspect_ratio,
    optimal_depth,
)
from widefield.effective.entropies import (
    table_cross_entropy,
    table_divergence,
    table_entropy,
    table_information,
    table_tripartite,
)
from widefield.effective.information import (
    deep_information,
    input_information,
    layer_entropy,
    mixture_entropy,
    mixture_information,
    mutual_information,
    tripartite_information,
)
from widefield.effective.residual import BlockLayer, kernel_flow, susceptibilities
from widefield.effective.universality import critical_point

TWO_LAYERS = [
    ((1, 1), 25, 6.183514e-4, 8.0e-4, 5.226667e-4),
    ((1, 1), 50, 1.727964e-4, 2.0e-4, 1.653333e-4),
    ((1, 1), 100, 4.620295e-5, 5.0e-5, 4.566667e-5),
    ((2, 1), 100, 9.161441e-5, 1.0e-4, 9.033333e-5),
    ((2, 3), 100, 2.701844e-4, 3.0e-4, 2.65e-4),
]


def chi_square_law(n, points=400):
    """Nodes and weights of G = chi^2_n / n: the trapezoid rule in log G."""
    t = np.linspace(math.log(1e-3), math.log(8.0), points)
    logs = 0.5 * n * t - 0.5 * n * np.exp(t)
    weights = np.exp(logs - logs.max())
    return np.exp(t), weights / weights.sum()


def bessel_entropy(n, m):
    """Of m outputs of a linear network with n hidden neurons, p(r) ~ r^((n-m)/2) K_((n-m)/2)(sqrt(n) r)."""
    t = np.arange(-40.0, math.log(12.0), 0.02)
    r, order = np.exp(t), (n - m) / 2
    x = math.sqrt(n) * r
    with np.errstate(divide="ignore", over="ignore"):
        log_bessel = np.log(kve(order, x)) - x
    small = gammaln(order) + (order - 1) * math.log(2.0) - order * np.log(x)
    log_density = order * t + np.where(np.isfinite(log_bessel), log_bessel, small)
    log_area = math.log(2.0) + 0.5 * m * math.log(math.pi) - gammaln(m / 2)
    weight = np.exp(log_density + log_area + m * t) * 0.02
    total = weight.sum()
    return float(-np.sum(weight * (log_density - math.log(total))) / total)


@pytest.mark.parametrize(("groups", "n", "exact", "leading", "improved"), TWO_LAYERS)
def test_two_layer_linear_network(groups, n, exact, leading, improved):
    assert mutual_information(1.0, 2.0, n, groups, order=2) == pytest.approx(leading, rel=1e-12)
    assert mutual_information(1.0, 2.0, n, groups) == pytest.approx(improved, rel=1e-6)
    G, w = chi_square_law(n)
    assert mixture_information(G, groups, weights=w) == pytest.approx(exact, rel=1e-6)
    bessel = bessel_entropy(n, groups[0]) + bessel_entropy(n, groups[1]) - bessel_entropy(n, sum(groups))
    assert bessel == pytest.approx(exact, rel=1e-6)


def test_entropy_of_the_two_layer_linear_network():
    G, w = chi_square_law(60)
    for m in (1, 2, 5):
        exact = mixture_entropy(G, m, weights=w)
        assert exact == pytest.approx(bessel_entropy(60, m), abs=1e-12)
        errors = [abs(layer_entropy(1.0, 2.0, 60, m, order=order) - exact) for order in (0, 2, 3)]
        assert errors[0] > 7 * errors[1] > 28 * errors[2]


def test_the_expansion_fails_at_fourth_order():
    """(exact - third order) / q^4 tends to a constant, 3.35 at n = 100."""
    found = []
    for n in (100, 200, 400):
        G, w = chi_square_law(n, points=2000)
        found.append(
            (mixture_information(G, (1, 1), weights=w) - mutual_information(1.0, 2.0, n, (1, 1))) * (n / 2) ** 4
        )
    assert found[0] == pytest.approx(3.35, abs=0.005)
    assert abs(found[2] - found[1]) < 0.7 * abs(found[1] - found[0])


def test_three_groups():
    assert tripartite_information(1.0, 2.0, 100, (1, 1, 1)) == pytest.approx(1e-6, rel=1e-12, abs=0)
    assert tripartite_information(2.0, 8.0, 100, (1, 2, 3)) == pytest.approx(6e-6, rel=1e-12, abs=0)
    G, w = chi_square_law(100)
    one, two, three = (mixture_entropy(G, m, weights=w) for m in (1, 2, 3))
    assert 3 * one - 3 * two + three == pytest.approx(7.914808e-7, rel=2e-6)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_one_input_coefficients(m):
    q = 0.03
    gaussian = m / 2 * math.log(2 * math.pi * math.e * 1.7)
    expected = gaussian - (m**2 + 2 * m) / 16 * q**2 + m * (m + 2) * (m + 8) / 48 * q**3
    assert layer_entropy(1.7, q * 1.7**2 * 50, 50, m) == pytest.approx(expected, abs=1e-14)
    assert layer_entropy(1.7, 0.3, 50, m, order=0) == pytest.approx(gaussian, abs=1e-14)
    nats, bits = (layer_entropy(1.7, 0.3, 50, m, unit=unit) for unit in ("nats", "bits"))
    assert nats == pytest.approx(bits * math.log(2))


def integrate(log_weight, dimensions, half_width=9.0, points=121):
    """Entropy and covariance of a density, by sums over a grid."""
    axis = np.linspace(-half_width, half_width, points)
    z = np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"))
    cell = (axis[1] - axis[0]) ** dimensions
    p = np.exp(log_weight(z))
    p /= p.sum() * cell
    entropy = -float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)) * cell)
    flat, weights = z.reshape(dimensions, -1), p.ravel() * cell
    return entropy, flat, weights


@pytest.mark.parametrize("m", [1, 2, 3])
def test_entropy_of_a_quartic_density(m):
    """p ~ exp(-z^2/2 - c (z^2)^2 / 8) on m neurons: its own G and V, then S to second and third order."""
    errors = {2: [], 3: []}
    for coupling in (0.02, 0.01):
        points = 121 if m < 3 else 81
        entropy, z, weights = integrate(
            lambda z, c=coupling: -(z**2).sum(0) / 2 - c * (z**2).sum(0) ** 2 / 8, m, 8.0, points
        )
        G = float(weights @ z[0] ** 2)
        V = (float(weights @ z[0] ** 4) - 3 * G**2) / 3
        for order in (2, 3):
            errors[order].append(layer_entropy(G, V, 1, m, order=order) - entropy)
    assert abs(errors[3][0]) < 0.1 * abs(errors[2][0])
    assert abs(errors[3][1]) < abs(errors[3][0]) / 11
    assert abs(errors[2][1]) < abs(errors[2][0]) / 6


def two_input_mixture(spread):
    """One neuron seen by two inputs: z ~ N(0, G), G one of eight metrics whose third cumulant is zero."""
    base = np.array([[1.3, 0.4], [0.4, 0.8]])
    shapes = np.array([[[1.0, 0.2], [0.2, -0.5]], [[-0.3, 0.6], [0.6, 0.7]], [[-0.7, -0.8], [-0.8, -0.2]]])
    signs = np.array(list(itertools.product((-1, 1), repeat=3)))
    deviations = spread * np.einsum("ms,sab->mab", signs, shapes)
    return base + deviations, base, np.einsum("sab,scd->abcd", deviations, deviations) / len(signs)


def mixture_log_density(metrics, z):
    """log of the mean of Gaussian densities; z is (inputs, neurons, ...)."""
    terms = []
    for G in metrics:
        form = np.einsum("a...,ab,b...->...", z, np.linalg.inv(G), z)
        terms.append(np.exp(-0.5 * form.sum(0)) / np.linalg.det(2 * np.pi * G) ** (z.shape[1] / 2))
    return np.log(np.mean(terms, axis=0))


def test_entropy_of_two_inputs():
    """Second and third order for two inputs, against sums over a grid in two dimensions."""
    errors = {2: [], 3: []}
    for spread in (0.1, 0.05):
        metrics, G, V = two_input_mixture(spread)
        entropy, _, _ = integrate(lambda z, metrics=metrics: mixture_log_density(metrics, z[:, None]), 2, 10.0, 201)
        for order in (2, 3):
            errors[order].append(layer_entropy(G, V, 1, 1, order=order) - entropy)
    # V is of second order in the spread: errors fall as its sixth and eighth power.
    assert abs(errors[2][1]) < abs(errors[2][0]) / 50
    assert abs(errors[3][1]) < abs(errors[3][0]) / 200
    assert abs(errors[3][1]) < 0.14 * abs(errors[2][1])


def test_information_of_two_neurons_and_two_inputs():
    """m1 m2/8 V V / n^2 and the third order, against sums over a grid in four dimensions."""
    metrics, G, V = two_input_mixture(0.06)
    one, _, _ = integrate(lambda z: mixture_log_density(metrics, z[:, None]), 2, 8.0, 33)
    both, _, _ = integrate(lambda z: mixture_log_density(metrics, z.reshape(2, 2, *z.shape[1:])), 4, 8.0, 33)
    exact = 2 * one - both
    whitened = np.einsum("ai,bj,ck,dl,ijkl->abcd", *[np.linalg.inv(np.linalg.cholesky(G))] * 4, V)
    leading = mutual_information(G, V, 1, (1, 1), order=2)
    assert leading == pytest.approx(np.sum(whitened**2) / 8, rel=1e-12)
    improved = mutual_information(G, V, 1, (1, 1))
    assert abs(improved - exact) < 0.2 * abs(leading - exact)
    assert improved == pytest.approx(exact, rel=2.5e-3)


def test_traces_over_neurons_are_those_of_the_full_cumulant():
    """tr k^2 and tr k^3 with every index of three neurons and two inputs written out."""
    _, G, V = two_input_mixture(0.3)
    m = 3
    white = np.einsum("ai,bj,ck,dl,ijkl->abcd", *[np.linalg.inv(np.linalg.cholesky(G))] * 4, V)
    one = np.eye(m)
    k = np.einsum("ij,kl,abcd->iajbkcld", one, one, white)
    k = k + np.einsum("ik,jl,acbd->iajbkcld", one, one, white) + np.einsum("il,jk,adbc->iajbkcld", one, one, white)
    k = k.reshape((2 * m) ** 2, -1)
    expected = (-np.trace(k @ k) + np.trace(k @ k @ k)) / 48
    found = layer_entropy(G, V, 1, m) - layer_entropy(G, V, 1, m, order=0)
    assert found == pytest.approx(expected, rel=1e-11)


def test_inputs_change_nothing_under_rotation():
    _, G, V = two_input_mixture(0.2)
    A = np.array([[1.0, 0.7], [-0.3, 2.0]])
    turned = layer_entropy(A @ G @ A.T, np.einsum("ai,bj,ck,dl,ijkl->abcd", A, A, A, A, V), 3, 4)
    assert turned - 4 * math.log(abs(np.linalg.det(A))) == pytest.approx(layer_entropy(G, V, 3, 4), abs=1e-12)


def test_deep_linear_samples():
    """Draws of the metric of deep linear networks: the estimate of I, exact in the law, against the expansion."""
    n, depth = 200, 4
    generator = np.random.default_rng(3)
    metric = np.prod(generator.chisquare(n, size=(depth, 4000)) / n, axis=0)
    q = (1 + 2 / n) ** depth - 1
    estimate = mixture_information(metric, (2, 3))
    assert estimate == pytest.approx(mutual_information(1.0, q, 1, (2, 3)), rel=0.08)


def test_infinite_depth_and_width():
    for x in (0.02, 0.01):
        exact = deep_information(x, (2, 1))
        q = math.expm1(x)
        assert exact == pytest.approx(mutual_information(1.0, q, 1, (2, 1)), rel=40 * x**2)
    values = [deep_information(x, (5, 5)) for x in (0.0, 0.05, 0.1, 0.3, 1.0)]
    assert values[0] == pytest.approx(0, abs=1e-12)
    assert values == sorted(values)


@pytest.mark.parametrize("m", [1, 2])
def test_three_point_function_lowers_the_entropy(m):
    """p ~ exp(-z^2/2 + c/2 sum z^2 sum z): E[z_i z_i z_j] = c, and - (m^2 + 2 m)/4 c^2 up to relative order c^2."""
    errors = []
    for c in (0.02, 0.01):
        entropy, z, weights = integrate(
            lambda z, c=c: -(z**2).sum(0) / 2 + c / 2 * (z**2).sum(0) * z.sum(0), m, 9.0, 181
        )
        covariance = np.atleast_2d(np.cov(z, aweights=weights, ddof=0))
        gaussian = 0.5 * float(np.linalg.slogdet(2 * math.pi * math.e * covariance)[1])
        found = layer_entropy(1.0, 0.0, 10, m, three_point=10 * c) - layer_entropy(1.0, 0.0, 10, m)
        assert found == pytest.approx(-(m**2 + 2 * m) / 4 * c**2, rel=1e-9)
        errors.append((entropy - gaussian) / found - 1)
    assert abs(errors[0]) < 0.05
    assert abs(errors[1]) < abs(errors[0]) / 4


def test_two_inputs_of_a_gaussian_neuron():
    for kappa, expected in ((0.01, 1.6193882433), (0.1, 0.5534555457), (1.0, 0.0)):
        kernel = [[1 + kappa, 1 - kappa], [1 - kappa, 1 + kappa]]
        assert input_information(kernel) == pytest.approx(expected, abs=1e-10)
    assert input_information([[1.0, 1.0], [1.0, 1.0]]) == math.inf
    assert input_information([[2.0, 0.5], [0.5, 3.0]]) == pytest.approx(0.5 * math.log(6 / 5.75))


def test_criticality_keeps_the_information():
    """Below, at and above the critical C_W = pi/4 of erf: to infinity, slowly, towards zero."""
    assert information_drift(1.0, 0.3) == 0 < information_drift(0.9, 0.3)
    assert information_drift(1.1, 0.3) < 0
    first = np.array([[1.0, 0.9], [0.9, 1.0]])
    cold, critical, hot = BlockLayer(0.1, 0.5), BlockLayer(0.0, math.pi / 4), BlockLayer(0.0, 5.0)
    change = []
    for layer in (cold, critical, hot):
        K = kernel_flow("erf", first, 12, 0.0, layer)
        change.append(input_information(K[-1]) - input_information(K[-3]))
    fixed = kernel_flow("erf", first[:1, :1], 60, 0.0, cold)[-1, 0, 0]
    chi = float(susceptibilities("erf", fixed, 0.0, cold)[1])
    assert change[0] == pytest.approx(2 * information_drift(chi), rel=5e-4)
    assert change[2] < 10 * -abs(change[1])
    assert abs(change[1]) < 0.012 * change[0]


RATIOS = [
    ("tanh", 2 / 3, (0.230769, 0.12, 0.01875)),
    ("sin", 2 / 3, (0.230769, 0.12, 0.01875)),
    ("linear", 2.0, (0.0769231, 0.04, 0.00625)),
    ("relu", 5.0, (0.0307692, 0.016, 0.0025)),
    ("leaky_relu(0.2)", 4.556213, (None, 0.0175585, None)),
    ("leaky_relu(0.1)", 4.882364, (None, 0.0163855, None)),
    ("leaky_relu(0.01)", 4.998800, (None, 0.0160038, None)),
]


@pytest.mark.parametrize(("activation", "rate", "ratios"), RATIOS)
def test_optimal_aspect_ratio(activation, rate, ratios):
    assert fluctuation_rate(activation) == pytest.approx(rate, abs=5e-7)
    for outputs, ratio in zip((2, 10, 100), ratios, strict=True):
        best = optimal_aspect_ratio(activation, outputs)
        assert best.information == pytest.approx((outputs / (20 + 3 * outputs)) ** 2 / 6, rel=1e-12)
        if ratio is not None:
            assert best.aspect_ratio == pytest.approx(ratio, rel=5e-6)
        around = [
            information_of_ratio(best.rate, best.aspect_ratio * x, (outputs / 2, outputs / 2)) for x in (0.99, 1, 1.01)
        ]
        assert max(around) == around[1] == pytest.approx(best.information)


def test_largest_information():
    assert optimal_aspect_ratio("relu", 10).information == pytest.approx(1 / 150)
    assert optimal_aspect_ratio("relu", 2).information == pytest.approx(9.861933e-4, rel=5e-8)
    assert optimal_aspect_ratio("tanh", 2).bits == pytest.approx(9.861933e-4 / math.log(2), rel=5e-8)
    assert information_of_ratio(5.0, 0.01, (2, 3), order=2) == pytest.approx(6 / 8 * 0.05**2)


def test_half_stable_activations():
    gelu, swish = critical_point("gelu"), critical_point("swish")
    assert gelu.kernel == pytest.approx((3 + math.sqrt(17)) / 2, rel=1e-11)
    assert (gelu.bias_variance, gelu.weight_variance) == pytest.approx((0.172922390756067, 1.98305825743755), rel=1e-11)
    assert (swish.kernel, swish.bias_variance, swish.weight_variance) == pytest.approx(
        (14.3201736180258, 0.55514317072153, 1.98800467826949), rel=1e-10
    )
    assert fluctuation_rate("gelu") == pytest.approx(4.904226, abs=5e-7)
    assert fluctuation_rate("swish") == pytest.approx(4.923187, abs=5e-7)
    assert math.isclose(critical_point("erf").weight_variance, math.pi / 4, rel_tol=1e-14)


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_optimal_depth_of_the_exact_recursion(activation):
    """The maximum over depths of the exact q = (1 + nu/n)^(L-1) - 1 is at the same depth up to O(nu L / n)."""
    n, outputs = 1000, 6
    best, ratio = optimal_depth(activation, n, outputs), optimal_aspect_ratio(activation, outputs)
    q = (1 + ratio.rate / n) ** np.arange(1, 400) - 1
    exact = [mutual_information(1.0, x, 1, (3, 3)) for x in q[:100]]
    assert best.depth == pytest.approx(2 + int(np.argmax(exact)), rel=0.08)
    assert best.aspect_ratio == pytest.approx(ratio.aspect_ratio, abs=2 / n)
    assert best.information == pytest.approx(ratio.information, rel=6e-4)


def test_optimal_depth_of_sin():
    best, ratio = optimal_depth("sin", 800, 10), optimal_aspect_ratio("sin", 10)
    assert best.aspect_ratio == pytest.approx(ratio.aspect_ratio, rel=0.04)
    assert best.information == pytest.approx(ratio.information, rel=1.2e-4)


def test_tables():
    copies, exclusive = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    for x, y in itertools.product((0, 1), repeat=2):
        exclusive[x, y, x ^ y] = 0.25
    assert table_tripartite(copies) == pytest.approx(math.log(2))
    assert table_tripartite(exclusive) == pytest.approx(-math.log(2))
    p = np.array([[0.1, 0.2], [0.3, 0.4]])
    independent = np.outer(p.sum(1), p.sum(0))
    assert table_information(p) == pytest.approx(table_divergence(p, independent))
    assert table_information(independent) == pytest.approx(0, abs=1e-15)
    assert table_entropy(np.full(8, 1 / 8), unit="bits") == pytest.approx(3)
    assert table_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert table_cross_entropy([0.5, 0.5], [0.25, 0.75]) == pytest.approx(-0.5 * math.log(0.25 * 0.75))
    assert table_cross_entropy(p, p, unit="bits") == pytest.approx(table_entropy(p, unit="bits"))


BAD = [
    lambda: layer_entropy(math.nan, 1.0, 10, 1),
    lambda: layer_entropy(1.0, math.nan, 10, 1),
    lambda: layer_entropy(1.0, 1.0, -10, 1),
    lambda: layer_entropy(-1.0, 1.0, 10, 1),
    lambda: layer_entropy(1.0, 1.0, 10, 0),
    lambda: layer_entropy(1.0, 1.0, 10, 1, order=1),
    lambda: layer_entropy(1.0, 1.0, 10, 1, unit="bytes"),
    lambda: layer_entropy(np.eye(2), 1.0, 10, 1),
    lambda: layer_entropy(np.ones((2, 2)), np.zeros((2, 2, 2, 2)), 10, 1),
    lambda: layer_entropy(np.eye(2), np.arange(16.0).reshape(2, 2, 2, 2), 10, 1),
    lambda: layer_entropy(np.eye(2), np.zeros((2, 2, 2, 2)), 10, 1, three_point=0.1),
    lambda: mutual_information(1.0, 1.0, 10, (1,)),
    lambda: mutual_information(1.0, 1.0, 10, (1, -1)),
    lambda: mixture_entropy([0.0, 1.0], 1),
    lambda: mixture_entropy([], 1),
    lambda: mixture_entropy([1.0, 2.0], 1, weights=[0.7, 0.7]),
    lambda: input_information([[1.0, 2.0], [2.0, 1.0]]),
    lambda: input_information(np.eye(3)),
    lambda: deep_information(-0.1, (1, 1)),
    lambda: information_drift(0.0),
    lambda: information_of_ratio(1.0, -1.0, (1, 1)),
    lambda: information_of_ratio(1.0, 1.0, (1, 1), order=4),
    lambda: optimal_aspect_ratio("relu", 1),
    lambda: optimal_aspect_ratio("tangent", 10),
    lambda: fluctuation_rate("softplus"),
    lambda: optimal_depth("relu", -5, 10),
    lambda: table_entropy([0.5, 0.6]),
    lambda: table_divergence([1.0], [0.5, 0.5]),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
