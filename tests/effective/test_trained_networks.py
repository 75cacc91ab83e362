"""Trained networks of finite width: tables, closed forms, structure."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from references import shifted_sines
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import tangent_flow, trained_ensemble
from widefield.effective.trained_networks import Initial
from widefield.effective.training_paths import Descent
from widefield.gaussian.four_table import KINDS, Quadruple
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels import StaticKernel, trained
from widefield.kernels.prediction import Blocks
from widefield.problem.network import MLP

PHASE = 0.3
SHIFTED = Activation("shifted sine", lambda z: jnp.sin(z + PHASE))
X, X_TEST = [(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4)], [(0.3, -0.4, 1.5)]
Y = np.array([[1, -0.5], [-0.6, 0.9]])
RATES = {
    2: {"weight_rates": (1.5, 0.3), "bias_rates": (0.5, 0.1)},
    3: {"weight_rates": (1.5, 0.3, 0.4), "bias_rates": (0.5, 0.1, 0.2)},
}
STEP = {2: 0.7262808673, 3: 0.6598282015}
"""eta h_max = 1."""


def network(layers):
    return MLP(layers - 1, SHIFTED, weight_variances=1.1, bias_variances=0.1)


@pytest.fixture
def exact(monkeypatch):
    """Averages of four sines in closed form: nothing is sampled."""

    def quadruples(activation, K, kinds, **options):
        found = {}
        for kind in kinds:
            ends = [Pairs.within(len(K)) if orders[0] == orders[1] else Pairs.ordered(len(K)) for orders in KINDS[kind]]
            places = np.broadcast_arrays(
                ends[0].rows[:, None], ends[0].columns[:, None], ends[1].rows[None], ends[1].columns[None]
            )
            whole = shifted_sines.average((*KINDS[kind][0], *KINDS[kind][1]), K, PHASE)[tuple(places)]
            one, two = (
                shifted_sines.average(orders, K, PHASE)[end.rows, end.columns]
                for orders, end in zip(KINDS[kind], ends, strict=True)
            )
            found[kind] = Quadruple(*ends, (one, two), (whole - np.outer(one, two))[None])
        return found

    monkeypatch.setattr(tangent_flow, "quadruples", quadruples)


# Projectors


def test_projectors_at_times():
    h = np.array([1.0, 2.0])
    places = {"A": (0, 1), "B": (0, 1), "IA": (0, 0, 1), "IB": (0, 0, 1), "IIA": (0, 0, 1), "IIB": (0, 0, 1)}
    table = {
        (0.25, 3): (0.0996093750, 0.1469726562, -0.0184936523, -0.0301386515, -0.0065917969, -0.0575866699),
        (0.0, 1.0): (0.1576914575, 0.1576914575, -0.0354441888, -0.0354441888, -0.0354441888, -0.0996800122),
        (0.25, None): (0.3, 0.35, -0.1164596273, -0.1340579710, -0.0838509317, -0.3),
    }
    for (rate, time), expected in table.items():
        found = Descent.of(h, rate, time).projectors
        assert [getattr(found, name)[place] for name, place in places.items()] == pytest.approx(expected, abs=6e-11)
    steps, flow = Descent.of(h, 0.25, 3), Descent.of(h, 0.0, 1.0)
    values = steps.first[0], steps.second[0, 1], steps.third[0, 0, 1]
    assert values == pytest.approx((0.578125, -0.140625, 0.015625), abs=1e-12)
    values = flow.first[0], flow.second[0, 1], flow.third[0, 0, 1]
    assert values == pytest.approx((0.6321205588, -0.1997882004, 0.0644529172), abs=6e-11)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.6])
def test_projectors_of_the_book(rate):
    """At the end, in the longer forms of PDLT eqs. (inf.138)-(inf.147), where they count."""
    h = np.array([0.7, 1.9, 2.6])
    found = Descent.of(h, rate).projectors
    for a, b, c in itertools.product(range(3), repeat=3):

        def x(*modes):
            return sum(h[list(modes)]) if rate == 0 else (1 - np.prod(1 - rate * h[list(modes)])) / rate

        def y3(a, b, c):
            inner = 1 / (h[b] * h[c] * x(a, b)) + 1 / (h[a] * h[c] * x(b, c))
            return 1 / (h[a] * h[b] * h[c]) - inner + 1 / (h[c] * x(b, c) * x(a, b, c))

        y1 = 1 / (x(a, b) * h[c]) - 1 / (h[c] * x(a, b, c))
        y4 = 1 / (h[a] * x(b, c)) - 1 / (x(b, c) * x(a, b, c))
        assert found.A[a, b] == pytest.approx((1 - rate * h[a]) / (h[a] * x(a, b)), rel=1e-12)
        assert found.IIA[a, b, c] == pytest.approx(-y3(a, b, c), rel=1e-10)
        assert found.IA[a, b, c] == pytest.approx(-y3(a, b, c) - rate * y4 / 2, rel=1e-10)
        assert found.IB[a, b, c] == pytest.approx(
            -y3(a, b, c) - rate * (y4 + y1) / 2 - rate**2 / (6 * x(a, b, c)), rel=1e-10
        )
        long = -y3(a, b, c) - y3(b, a, c) - y3(a, c, b) - rate * (y4 + y1)
        assert found.IIB[a, b, c] == pytest.approx(long, rel=1e-10)
        assert found.IIB[a, b, c] == pytest.approx(-found.A[a, c] / h[b], rel=1e-10)
    symmetric = sum(found.IB.transpose(order) for order in itertools.permutations(range(3))) / 6
    np.testing.assert_allclose(symmetric, -1 / (6 * h[:, None, None] * h[:, None] * h), rtol=1e-12)


@pytest.mark.parametrize(("rate", "time"), [(0.2, 4), (0.0, 1.3)])
def test_projectors_are_sums_over_the_path(rate, time):
    """C, D, E of the path w = eta (1 - eta h)^s; for flow of very small steps, and what training samples answer."""
    h, steps = np.array([0.7, 1.9, 1.9]), time if rate else 20000
    eta = rate or time / steps
    W, C = np.zeros(3), np.zeros((3, 3))
    D, E = np.zeros((2, 3, 3, 3))
    answer = np.zeros((3, 3, 3))
    for s in range(steps):
        w = eta * (1 - eta * h) ** s
        later = (1 - eta * h) ** (steps - 1 - s)
        E += w[:, None, None] * C[None]
        D += w[:, None, None] * W[:, None] * W
        answer += later[:, None, None] * np.outer(w, W)
        C += np.outer(w, W)
        W += w
    found = Descent.of(h, rate, time)
    near = {"rtol": 1e-10 if rate else 2e-4, "atol": 1e-12 if rate else 1e-4}
    np.testing.assert_allclose(found.first, W, **near)
    np.testing.assert_allclose(found.projectors.A, C, **near)
    np.testing.assert_allclose(found.projectors.IIA, -E, **near)
    np.testing.assert_allclose(found.projectors.IA + found.projectors.IA.transpose(0, 2, 1), -D, **near)
    for mode in range(3):
        np.testing.assert_allclose(found.projectors.A - found.answered(mode).A, answer[mode], **near)


def test_long_times_are_the_end():
    h = np.array([0.7, 1.9, 2.6])
    for rate, time in ((0.0, 60.0), (0.3, 200)):
        one, two = Descent.of(h, rate, time), Descent.of(h, rate)
        for name in ("first", "second", "third"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10)
        np.testing.assert_allclose(one.projectors.IIB, two.projectors.IIB, rtol=1e-10)


# Tables

MEAN = {
    (2, "steps", None): (0.0285096220, 0, 0.0216171834, -0.0010184564, 0.0659930946, -0.0187860682),
    (2, "steps", 3): (0.0282814888, 0, 0.0142687103, 0.0039868258, 0.0347596231, -0.0098357224),
    (2, "flow", None): (0.0285096220, 0, 0.0216171834, 0.0038443689, 0.0812601418, -0.0300297920),
    (2, "flow", 1): (0.0199522503, 0, 0.0039659286, 0.0025416980, 0.0031836225, -0.0013738141),
    (3, "steps", None): (0.0714163074, 0.0090058306, 0.0668051534, -0.0152993719, 0.2368994340, -0.0559593591),
    (3, "flow", None): (0.0714163074, 0.0090058306, 0.0668051534, -0.0254269736, 0.2969408176, -0.1474114544),
}
VARIANCE = {
    (2, "steps", None): (0.5378639129, 0, 0.1303081127, -0.0187545868, -0.1990744673, -0.0685484213),
    (2, "steps", 3): (0.5378599427, 0, 0.1258353288, -0.0162747416, -0.1978129720, -0.0670156213),
    (2, "flow", None): (0.5378639129, 0, 0.1303081127, -0.0065054151, -0.1990744673, 0.1052119711),
    (3, "steps", None): (0.3699697009, -0.0580094518, 0.3016955484, -0.1692298481, -0.3283015389, 0.0940439079),
    (3, "flow", None): (0.3699697009, -0.0580094518, 0.3016955484, -0.1076973398, -0.3283015389, 0.3434963900),
}
"""At the test sample: infinite width, and n times the parts in their order."""


def options(layers, algorithm, time):
    if algorithm == "flow":
        return {} if time is None else {"time": float(time)}
    return {"learning_rate": STEP[layers]} | ({} if time is None else {"time": time * STEP[layers]})


@pytest.mark.parametrize("layers", [2, 3])
def test_tables(exact, layers):
    initial = Initial.of(network(layers), np.array([*X, *X_TEST]), 7, **RATES[layers])
    for key, expected in MEAN.items():
        if key[0] == layers:
            found = initial.trained(Y[:, :1], **options(*key))
            parts = [7 * part[2, 0] for part in found.mean_parts.values()]
            assert (found.infinite_mean[2, 0], *parts) == pytest.approx(expected, abs=2e-9)
    for key, expected in VARIANCE.items():
        if key[0] == layers:
            found = initial.trained(Y[:, :1], **options(*key))
            parts = [7 * part[2, 0, 2, 0] for part in found.covariance_parts.values()]
            assert (found.infinite_covariance[2, 2], *parts) == pytest.approx(expected, abs=2e-9)
    three = initial.trained(Y[:, :1], **options(layers, "steps", 3))
    corner = {2: 0.0709383588, 3: 0.3634483705}[layers]
    assert 7 * three.covariance_shift[0, 0, 0, 0] == pytest.approx(corner, abs=2e-9)
    two = initial.trained(Y, **options(layers, "steps", None))
    means = {2: (0.0358204646, 0.1982210648), 3: (0.1774436932, 0.5019281818)}[layers]
    assert 7 * two.mean_shift[2] == pytest.approx(means, abs=2e-9)
    wired = {
        2: (-0.1839499998, -0.0490380478, -0.2231187133),
        3: (-0.2161324503, -0.2061371221, -0.3045936188),
    }[layers]
    shift = 7 * two.covariance_shift[2, :, 2, :]
    assert (shift[0, 0], shift[0, 1], shift[1, 1]) == pytest.approx(wired, abs=2e-9)
    assert two.mean_error.max() == 0


def test_sampled_averages_say_how_wrong_they_are():
    found = trained_ensemble(network(2), X, Y[:, 0], X_TEST, widths=1, learning_rate=STEP[2], **RATES[2])
    assert found.mean_shift[2, 0] == pytest.approx(0.0678057534, abs=4 * found.mean_error[2, 0])
    error = found.covariance_error[2, 0, 2, 0]
    assert found.covariance_shift[2, 0, 2, 0] == pytest.approx(-0.1560693626, abs=4 * error)
    assert 0 < error < 2e-4
    assert 0 < found.mean_error[2, 0] < 1e-4


# Closed forms


@pytest.mark.parametrize("y", [0.7, 1.5])
def test_linear_networks_beside_their_training_sample(y):
    """n [Var - 1] = (y^2 - 1)/2 at a test sample at a right angle, gradient flow; before the end by other ways."""
    x = np.sqrt(2) * np.eye(2)
    found = trained_ensemble(MLP(1, "linear"), x[:1], [y], x[1:], widths=1)
    assert found.infinite_covariance[1, 1] == pytest.approx(1, abs=1e-13)
    assert found.covariance_shift[1, 0, 1, 0] == pytest.approx((y**2 - 1) / 2, abs=1e-12)
    assert found.mean_shift[1, 0] == pytest.approx(0, abs=1e-13)
    if y == 0.7:
        table = {0.3: (0.3158318547, -0.1519625550, 0.3011942119, -0.2033367375, -0.2995280138)}
        table[1.0] = (0.6052653017, -0.2786934554, 0.0183156389, 0.1186977635, -0.3076691378)
        for time, expected in table.items():
            now = trained_ensemble(MLP(1, "linear"), x[:1], [y], x[1:], widths=1, time=time)
            train = now.infinite_mean[0, 0], now.mean_shift[0, 0], now.infinite_covariance[0, 0]
            shifts = now.covariance_shift[0, 0, 0, 0], now.covariance_shift[1, 0, 1, 0]
            assert (*train, *shifts) == pytest.approx(expected, abs=6e-11)


@pytest.mark.parametrize(("layers", "v"), [(2, 0.0), (3, 0.3), (6, 1.0), (4, 1.7)])
def test_linear_networks_at_an_angle(layers, v):
    """Mean c y; n Var = n s^2 + s^2 [(y^2+1) f_L - (L-1)], f_L = (L-1)/2 - ((L^2-1)/(6L)) v/(2-v), v = eta H."""
    y, angle = 0.7, 0.9
    x = np.sqrt(2) * np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    rate = {"learning_rate": v / layers} if v else {}
    found = trained_ensemble(MLP(layers - 1, "linear"), x[:1], [y], x[1:], widths=5, **rate)
    f = (layers - 1) / 2 - (layers**2 - 1) / (6 * layers) * v / (2 - v)
    sine = np.sin(angle) ** 2
    assert found.mean[1, 0] == pytest.approx(np.cos(angle) * y, abs=1e-12)
    expected = sine * (1 + ((y**2 + 1) * f - (layers - 1)) / 5)
    assert found.covariance[1, 0, 1, 0] == pytest.approx(expected, abs=1e-12)


def test_depth():
    """sin, C_W = 1, lambda_b = 1/l, one training and one test sample at the angle 1.2, y^2 = K, gradient flow."""
    x = np.sqrt(2) * np.array([[1.0, 0.0], [np.cos(1.2), np.sin(1.2)]])
    table = {2: (0.0096216634, -0.2099035934), 8: (-0.4035729712, -2.6513374265)}
    for layers, expected in table.items():
        rates = {"bias_rates": tuple(1 / layer for layer in range(1, layers + 1))}
        own = MLP(layers - 1, "sin")
        y = np.sqrt(Initial.of(own, x, 1, **rates).tensors[0].K[0, 0])
        found = trained_ensemble(own, x[:1], [y], x[1:], widths=1, **rates)
        ratios = found.mean_shift[1, 0] / found.infinite_mean[1, 0]
        spread = found.covariance_shift[1, 0, 1, 0] / found.infinite_covariance[1, 1]
        assert (ratios, spread) == pytest.approx(expected, abs=3e-9)


# Structure


def test_training_samples_are_learned(exact):
    """At the end they have their targets, and no variance, at this order; at the start nothing has happened."""
    initial = Initial.of(network(3), np.array([*X, *X_TEST]), 20, **RATES[3])
    found = initial.trained(Y, learning_rate=STEP[3])
    np.testing.assert_allclose(found.mean[:2], Y, atol=1e-13)
    np.testing.assert_allclose(found.covariance[:2], 0, atol=1e-13)
    start = initial.trained(Y, time=0.0)
    np.testing.assert_allclose(start.mean, 0, atol=1e-14)
    tensors = initial.tensors[0]
    metric = tensors.K + tensors.G1 / 20
    np.testing.assert_allclose(start.covariance[:, 1, :, 1], metric, atol=1e-13)
    np.testing.assert_allclose(start.covariance[:, 0, :, 1], 0, atol=1e-14)


def test_infinite_width_is_that_of_lazy_training(exact):
    kernel = StaticKernel(network(3), **RATES[3])
    blocks = [kernel(np.array(a), np.array(b)) for a, b in ((X, X), (X_TEST, X), (X_TEST, X_TEST))]
    both = (Blocks(*(getattr(block, name) for block in blocks)) for name in ("nngp", "ntk"))
    lazy = trained(*both, Y, time=3 * STEP[3], learning_rate=STEP[3])
    found = trained_ensemble(network(3), X, Y, X_TEST, widths=9, learning_rate=STEP[3], time=3 * STEP[3], **RATES[3])
    np.testing.assert_allclose(found.infinite_mean[2:], lazy.mean, rtol=1e-9)
    np.testing.assert_allclose(found.infinite_covariance[2:, 2:], lazy.covariance, rtol=1e-9)


def test_scales(exact):
    """lambda -> c lambda with eta -> eta/c changes nothing; z -> c z and y -> c y multiply the mean by c."""
    points, eta = np.array([*X, *X_TEST]), STEP[3] / 2
    found = Initial.of(network(3), points, 5, **RATES[3]).trained(Y, learning_rate=eta, time=4 * eta)
    slower = {name: tuple(3 * rate for rate in rates) for name, rates in RATES[3].items()}
    other = Initial.of(network(3), points, 5, **slower).trained(Y, learning_rate=eta / 3, time=4 * eta / 3)
    np.testing.assert_allclose(other.mean, found.mean, rtol=1e-11)
    np.testing.assert_allclose(other.covariance, found.covariance, rtol=1e-9, atol=1e-13)
    larger = MLP(2, SHIFTED, weight_variances=(1.1, 1.1, 4.4), bias_variances=(0.1, 0.1, 0.4))
    rates = {name: (*rates[:2], 4 * rates[2]) for name, rates in RATES[3].items()}
    double = Initial.of(larger, points, 5, **rates).trained(2 * Y, learning_rate=eta / 4, time=eta)
    np.testing.assert_allclose(double.mean, 2 * found.mean, rtol=1e-11)
    np.testing.assert_allclose(double.covariance, 4 * found.covariance, rtol=1e-9, atol=1e-13)


def test_small_steps_are_flow(exact):
    initial = Initial.of(network(2), np.array([*X, *X_TEST]), 1, **RATES[2])
    flow = initial.trained(Y, time=1.0)
    apart = [
        np.abs(initial.trained(Y, time=1.0, learning_rate=1 / steps).mean_shift - flow.mean_shift).max()
        for steps in (200, 400)
    ]
    assert apart[0] / apart[1] == pytest.approx(2, abs=0.02)


def test_order_of_samples_and_outputs(exact):
    x = np.array(X)
    one = trained_ensemble(network(2), x, Y, X_TEST, widths=3, **RATES[2])
    two = trained_ensemble(network(2), x[::-1], Y[::-1, ::-1], X_TEST, widths=3, **RATES[2])
    np.testing.assert_allclose(two.mean[2], one.mean[2, ::-1], rtol=1e-11)
    np.testing.assert_allclose(two.covariance[2, :, 2], one.covariance[2, ::-1, 2, ::-1], rtol=1e-9)
    np.testing.assert_allclose(one.covariance, one.covariance.transpose(2, 3, 0, 1), atol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 5.0}, "must be below 2 / "),
        ({"time": -1.0}, "time = -1.0 must be at least 0"),
        ({"time": 0.1, "learning_rate": 0.07}, "not a whole number of steps"),
        ({"x": [X[0], X[0]]}, "it has no inverse"),
        ({"y": [1.0, 2.0, 3.0]}, "a row for each of 2 training inputs"),
        ({"network": MLP(1, "relu")}, "has kinks"),
    ],
)
def test_wrong_questions(change, message):
    asked = {"network": MLP(1, "tanh"), "x": X, "y": [1.0, -1.0], "widths": 10} | change
    with pytest.raises(InvalidInput, match=message):
        trained_ensemble(**asked)


def test_targets_that_are_too_large_for_the_width():
    x = np.sqrt(2) * np.eye(2)
    found = trained_ensemble(MLP(1, "linear"), x[:1], [0.01], x[1:], widths=1, learning_rate=0.95)
    assert found.expansion > 0.3
    with pytest.raises(InvalidInput, match="width = 1 is too small"):
        _ = found.variance
