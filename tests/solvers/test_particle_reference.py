"""The oracles for nonlinear networks against known numbers, the linear oracle, and each other."""

import numpy as np
import pytest
from scipy import integrate

from references.linear import sweep
from references.particles import deep_single_point, two_layer, two_layer_relu

K2 = np.array([[1.0, 0.3], [0.3, 0.8]])
Y2 = np.array([1.0, -0.7])
KERNELS = ("features", "gradients", "alignment", "pseudo")
RULES = [("gd", 0.0), ("fa", 0.4), ("dfa", 0.0), ("hebb", 0.0)]
OPTIONS = {
    "momentum": 0.4,
    "decay": 0.2,
    "batches": [[1, 0], [1, 1], [0, 1], [1, 1]],
    "weight_variances": [1.3, 0.7],
    "bias_variances": 0.3,
    "train_biases": True,
}


def difference(a, b):
    return max(np.max(np.abs(getattr(a, name) - getattr(b, name))) for name in ("f", *KERNELS))


def test_two_layer_tanh_numbers():
    """The published digits come from an 80-point Gauss-Hermite rule, which is good to 1e-5 (f) and 1e-3 (G) only."""
    found = two_layer([[1.0]], [1.0], activation="tanh", gamma0=2.0, eta=0.1, steps=10)
    f, features, gradients = found.f[:, 0], found.features[:, 0, 0], found.gradients[:, 0, 0]
    np.testing.assert_allclose(f[[1, 5, 10]], (0.0847703684, 0.3358424162, 0.5508566997), rtol=2e-5)
    np.testing.assert_allclose((features[0], gradients[0]), (0.3942944906, 0.4644028952), rtol=2e-8)
    np.testing.assert_allclose((features[10], gradients[10]), (0.6024436, 0.1716578), rtol=2e-3)
    np.testing.assert_allclose(f[[1, 5, 10]], (0.084770378525, 0.335843561408, 0.550863837313), atol=1e-11)
    np.testing.assert_allclose((features[0], features[10]), (0.394294490398, 0.602479078446), atol=1e-11)
    np.testing.assert_allclose((gradients[0], gradients[10]), (0.464402902448, 0.171835868362), atol=1e-11)


def test_published_digits_are_those_of_a_gauss_hermite_rule():
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = np.outer(w, w) / w.sum() ** 2
    h, z = np.meshgrid(x, x, indexing="ij")
    for _ in range(10):
        drive = 0.2 * (1 - np.sum(w * z * np.tanh(h)) / 2)
        h, z = h + drive * (1 - np.tanh(h) ** 2) * z, z + drive * np.tanh(h)
    assert np.sum(w * z * np.tanh(h)) / 2 == pytest.approx(0.5508566997, abs=1e-10)


@pytest.mark.parametrize(("rule", "rho"), RULES)
@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["plain", "options"])
def test_two_layer_linear_is_the_closed_solution(rule, rho, options):
    settings = {"gamma0": 1.5, "eta": 0.2, "steps": 4, "rule": rule, "rho": rho, **options}
    known = sweep(K2, Y2, depth=1, **settings)
    found = two_layer(K2, Y2, activation="linear", spacing=0.5, cutoff=8.5, **settings)
    np.testing.assert_allclose(found.f, known.f, atol=1e-11)
    for name in KERNELS:
        np.testing.assert_allclose(found.equal_time(name), known.equal_time(name), atol=1e-11)
    np.testing.assert_allclose(found.ntk(), known.ntk(), atol=1e-11)


@pytest.mark.parametrize(("rule", "rho"), RULES)
@pytest.mark.parametrize("activation", ["tanh", "erf", "gelu"])
def test_two_layer_has_converged(rule, rho, activation):
    settings = {"activation": activation, "gamma0": 1.5, "eta": 0.1, "steps": 6, "rule": rule, "rho": rho}
    default = two_layer([[1.0]], [1.0], **settings)
    assert difference(default, two_layer([[1.0]], [1.0], spacing=0.035, **settings)) < 1e-9


@pytest.mark.parametrize(("rule", "activation"), [("gd", "tanh"), ("dfa", "erf")])
def test_two_layer_with_two_points_has_converged(rule, activation):
    settings = {"activation": activation, "gamma0": 1.5, "eta": 0.1, "steps": 6, "rule": rule}
    default = two_layer(K2, Y2, **settings)
    assert difference(default, two_layer(K2, Y2, spacing=0.12, **settings)) < 2e-6


def test_two_layer_points_that_are_the_same():
    settings = {"activation": "tanh", "gamma0": 1.5, "eta": 0.1, "steps": 5}
    one = two_layer([[1.0]], [1.0], **settings)
    both = two_layer(np.ones((2, 2)), [1.0, 0.0], batches=np.tile([1, 0], (5, 1)), **settings)
    np.testing.assert_allclose(both.f[:, 1], one.f[:, 0], atol=1e-12)
    np.testing.assert_allclose(both.gradients[:, 0, 1], one.gradients[:, 0, 0], atol=1e-12)


@pytest.mark.parametrize(("rule", "rho"), RULES)
def test_relu_two_points(rule, rho):
    settings = {"gamma0": 1.5, "eta": 0.15, "steps": 4, "rule": rule, "rho": rho, **OPTIONS}
    found = two_layer_relu(K2, Y2, **settings)
    assert difference(found, two_layer(K2, Y2, activation="relu", spacing=0.15, **settings)) < 0.03
    swapped = two_layer_relu(K2[::-1, ::-1], Y2[::-1], **(settings | {"batches": np.fliplr(OPTIONS["batches"])}))
    np.testing.assert_allclose(swapped.f[:, ::-1], found.f, atol=1e-11)
    np.testing.assert_allclose(swapped.gradients[:, ::-1, ::-1], found.gradients, atol=1e-11)
    # a point in no batch changes nothing, and one point needs no quadrature on the sphere
    settings["batches"] = np.tile([1, 0], (4, 1))
    both = two_layer_relu(K2, Y2, **settings)
    alone = two_layer_relu(K2[:1, :1], Y2[:1], **(settings | {"batches": None}))
    np.testing.assert_allclose(both.f[:, 0], alone.f[:, 0], atol=1e-11)
    for name in KERNELS:
        np.testing.assert_allclose(getattr(both, name)[:, 0, 0], getattr(alone, name)[:, 0, 0], atol=1e-11)


def test_relu_initial_kernels():
    found = two_layer_relu(K2, Y2, gamma0=1.0, eta=0.1, steps=1)
    scale = np.sqrt(0.8)
    angle = np.arccos(0.3 / scale)
    features = scale * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    np.testing.assert_allclose(found.features[0], [[0.5, features], [features, 0.4]], atol=1e-12)
    np.testing.assert_allclose(found.gradients[0, 0, 1], (np.pi - angle) / (2 * np.pi), atol=1e-12)


@pytest.mark.parametrize(("rule", "rho"), [*RULES, ("fa", 1.0)])
def test_deep_linear_is_the_closed_solution(rule, rho):
    for depth, steps in ((1, 3), (2, 2), (3, 1 if rule == "gd" else 2)):
        settings = {"depth": depth, "gamma0": 1.2, "eta": 0.3, "steps": steps, "rule": rule, "rho": rho}
        found = deep_single_point(1.0, 1.0, activation="linear", spacing=0.5, **settings)
        known = sweep([[1.0]], [1.0], **settings)
        np.testing.assert_allclose(found["f"], known.f[:, 0], atol=1e-8)
        for name in KERNELS:
            for mine, other in zip(found[name], getattr(known, name), strict=True):
                np.testing.assert_allclose(mine, other[:, 0, :, 0], atol=1e-8)


@pytest.mark.parametrize(("rule", "rho"), RULES)
def test_deep_with_one_layer_is_the_two_layer_process(rule, rho):
    settings = {"activation": "tanh", "gamma0": 1.5, "eta": 0.1, "steps": 3, "rule": rule, "rho": rho}
    found = deep_single_point(1.0, 1.0, depth=1, spacing=0.15, **settings)
    known = two_layer([[1.0]], [1.0], **settings)
    np.testing.assert_allclose(found["f"], known.f[:, 0], atol=1e-8)
    for name in KERNELS:
        np.testing.assert_allclose(np.diag(found[name][0]), getattr(known, name)[:, 0, 0], atol=1e-8)


def test_two_hidden_layers_with_responses():
    """To all digits given. They are those of grids of 0.3 to 0.22 standard deviations; the chain rule along 3e6 paths,
    in the place of Stein's identity on a grid, gives the forward responses to 3e-7 and the backward ones to 2e-5.
    """
    found = deep_single_point(1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.3, steps=3)
    (first, second), (g_first, g_second) = found["features"], found["gradients"]
    final = (first[3, 3], second[3, 3], g_first[3, 3], g_second[3, 3])
    np.testing.assert_allclose(found["f"], (0, 0.21163349, 0.35121154, 0.46689408), rtol=0, atol=2e-8)
    np.testing.assert_allclose(final, (0.4768767, 0.4052079, 0.0623358, 0.3127570), rtol=0, atol=3e-7)
    a, b = found["a"][0], found["b"][1]
    for t, row in enumerate([[0.196969], [0.164144, 0.145316], [0.151895, 0.121141, 0.110904]], 1):
        np.testing.assert_allclose(a[t, :t], row, rtol=0, atol=6e-7)
    rows = [[0.0], [0.335083, -0.304960], [0.243842, 0.295844, -0.442839], [0.205836, 0.218848, 0.242281, -0.520844]]
    for t, row in enumerate(rows):
        np.testing.assert_allclose(b[t, : t + 1], row, rtol=0, atol=6e-7)


def test_first_responses_are_integrals():
    """One step of a tanh network with L = 2, by adaptive quadrature and derivatives by hand.

    With w = eta gamma_0, a(1, 0) = w <phi'(h') phi'(h)> at h' = h + w phi'(h) r, <r r> = G^2; and
    b(1, 1) = <phi''(h') z'>, z' = z + w phi(k), h' = u' + c phi'(k) z, where k = u(0), and c = a(1, 0) + w Phi^1(1, 0).
    """
    found = deep_single_point(1.0, 1.0, depth=2, activation="tanh", gamma0=1.5, eta=0.3, steps=1)
    w, Phi = 0.45, found["features"][0]

    def slope(h):
        return 1 - np.tanh(h) ** 2

    def mean(F, *scales):
        """Over independent normals of these standard deviations."""
        ends = [(-9.0, 9.0)] * len(scales)
        chance = (2 * np.pi) ** (-len(scales) / 2)
        options = {"epsabs": 1e-9, "epsrel": 0}
        value, _ = integrate.nquad(
            lambda *x: F(*np.multiply(x, scales)) * chance * np.exp(-np.dot(x, x) / 2), ends, opts=options
        )
        return value

    start = mean(lambda h: np.tanh(h) ** 2, 1.0)
    gradient = mean(lambda k: slope(k) ** 2, np.sqrt(start))
    a = w * mean(lambda h, r: slope(h + w * slope(h) * r) * slope(h), 1.0, np.sqrt(gradient))
    np.testing.assert_allclose(Phi[0, 0], start, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["a"][0][1, 0], a, rtol=0, atol=2e-8)
    # <F(u', ...)> over u' given k: u' = m k + s x
    along = Phi[1, 0] / start
    across = np.sqrt(Phi[1, 1] - along**2 * start)
    c = a + w * Phi[1, 0]

    def bend(k, z, x):
        h = along * k + x + c * slope(k) * z
        return -2 * np.tanh(h) * slope(h) * (z + w * np.tanh(k))

    grid = np.linspace(-8.5, 8.5, 69)
    chance = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    k, z, x = np.meshgrid(np.sqrt(start) * grid, grid, across * grid, indexing="ij")
    b = np.einsum("i,j,k,ijk->", chance, chance, chance, bend(k, z, x))
    np.testing.assert_allclose(found["b"][1][1, 1], b, rtol=0, atol=2e-8)
