"""The published solver, the baseline of our speed claims, against oracles of theory/dmft.md section 17 and networks."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import alternating
from alternating import Settings, alternate

pytestmark = pytest.mark.slow  # it guards a baseline, not the package

ONE = np.ones((1, 1))
PAIR = np.array([[1.0, 0.5], [0.5, 1.0]])
MATCHED = Settings(samples=300, matched=True, iterations=60, jitter=1e-12, responses="stein")


def relative(value, exact):
    return np.linalg.norm(np.asarray(value) - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("layers", "outputs", "last", "first"),
    [
        (1, (0.1, 0.4170365770, 0.6803670677, 0.9190910960), 1.3491718952, 1.3491718952),
        (2, (0.15, 0.5878116092, 0.8734416714, 0.9925125620), 1.7735054146, 1.2326784447),
        (3, (0.2, 0.7428987141, 0.9700862296, 0.9997750812), 2.1391904826, 1.1574624912),
    ],
)
def test_deep_linear_networks_with_matched_draws_are_exact(layers, outputs, last, first):
    solution = alternate(ONE, np.ones(1), "linear", layers, 1.0, 0.05, 20, MATCHED)
    assert solution.outputs[[1, 5, 10, 20], 0] == pytest.approx(outputs, abs=1e-6)
    assert solution.at(solution.features, layers, 20, 20).item() == pytest.approx(last, abs=1e-6)
    assert solution.at(solution.features, 1, 20, 20).item() == pytest.approx(first, abs=1e-6)
    assert solution.at(solution.gradients, 1, 20, 20).item() == pytest.approx(last, abs=1e-6)


def test_linear_network_on_two_samples():
    solution = alternate(PAIR, np.array([1.0, 0.5]), "linear", 3, 1.0, 0.05, 10, MATCHED)
    assert solution.outputs[5] == pytest.approx((0.8009064622, 0.5644725364), abs=1e-6)
    assert solution.outputs[10] == pytest.approx((0.9419520414, 0.5618792863), abs=1e-6)
    now, past = solution.at(solution.features, 3, 10, 10), solution.at(solution.features, 3, 10, 0)
    assert now == pytest.approx(np.array([[2.0154454712, 1.0964266327], [1.0964266327, 1.3480855302]]), abs=1e-6)
    assert past == pytest.approx(np.array([[1.1649741068, 0.6231759762], [0.5691356872, 1.0544604198]]), abs=1e-6)
    assert solution.at(solution.gradients, 1, 10, 10) == pytest.approx(np.full((2, 2), 2.0215519093), abs=1e-6)


def test_linear_network_with_published_draws_is_right_up_to_noise():
    solution = alternate(
        ONE, np.ones(1), "linear", 3, 1.0, 0.05, 20, Settings(samples=20_000, iterations=25, settle=18)
    )
    assert relative(solution.outputs[[1, 5, 10, 20], 0], [0.2, 0.7428987141, 0.9700862296, 0.9997750812]) < 0.02
    assert solution.at(solution.features, 3, 20, 20).item() == pytest.approx(2.1391904826, rel=0.03)


def test_two_layer_tanh():
    solution = alternate(ONE, np.ones(1), "tanh", 1, 2.0, 0.1, 10, Settings(samples=100_000, settle=10, iterations=30))
    assert solution.outputs[[1, 5, 10], 0] == pytest.approx((0.0847703684, 0.3358424162, 0.5508566997), rel=0.01)
    assert solution.features[0][[0, -1], [0, -1]] == pytest.approx((0.3942944906, 0.6024436), rel=0.01)
    assert solution.gradients[0][[0, -1], [0, -1]] == pytest.approx((0.4644028952, 0.1716578), rel=0.01)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(samples=20_000, settle=12, iterations=40, jacobian_samples=4000),
        Settings(samples=50_000, settle=12, iterations=40, responses="stein", jitter=1e-4),
        Settings(samples=50_000, settle=12, iterations=40, responses="stein", jitter=1e-4, control=False),
    ],
    ids=["jacobian", "stein", "stein without control variates"],
)
def test_three_layer_tanh_with_both_responses(settings):
    noise = 0.02 if settings.responses == "jacobian" else 0.05
    solution = alternate(ONE, np.ones(1), "tanh", 2, 1.5, 0.3, 3, settings)
    assert solution.outputs[:, 0] == pytest.approx((0, 0.21162, 0.35117, 0.46685), rel=0.01)
    assert solution.features[:, 3, 3] == pytest.approx((0.47680, 0.40520), rel=0.01)
    assert solution.gradients[:, 3, 3] == pytest.approx((0.06229, 0.31268), rel=noise)
    forward = [[0, 0, 0, 0], [0.1975, 0, 0, 0], [0.1637, 0.1459, 0, 0], [0.1513, 0.1211, 0.1106, 0]]
    backward = [[0, 0, 0, 0], [0.3352, -0.3053, 0, 0], [0.2436, 0.2961, -0.4427, 0], [0.2059, 0.2190, 0.2424, -0.5208]]
    assert relative(solution.forward[0], forward) < 2 * noise
    assert relative(solution.backward[0], backward) < 2 * noise


def test_lazy_limit(double):
    x = np.random.default_rng(0).normal(size=(3, 5))
    kernel, y, rate, steps = x @ x.T / 5, np.array([1.0, -1.0, 0.5]), 0.1, 6
    solution = alternate(
        kernel, y, "tanh", 3, 1e-4, rate, steps, Settings(samples=10_000, iterations=40, settle=8, jacobian_samples=300)
    )
    features, gradients = alternating.lazy_kernels(jnp.tanh, jnp.asarray(kernel), 3)
    ntk = sum(g * k for g, k in zip([*gradients, jnp.ones((3, 3))], [kernel, *features], strict=True))
    outputs = [np.zeros(3)]
    for _ in range(steps):
        outputs.append(outputs[-1] + rate * np.asarray(ntk) @ (y - outputs[-1]))
    assert relative(solution.outputs, np.array(outputs)) < 0.02
    for layer in (1, 2, 3):
        assert relative(solution.at(solution.features, layer, steps, 0), features[layer - 1]) < 0.02
        assert relative(solution.at(solution.gradients, layer, steps, 0), gradients[layer - 1]) < 0.03


def test_agrees_with_networks():
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=3, activation="tanh", richness=1.5),
        data=wf.data.sphere(samples=3, dimension=6, seed=0),
        optimiser=wf.SGD(learning_rate=0.1, steps=12),
        record=wf.Record(every=12, neurons=0),
    )
    final = wf.solve(problem, wf.FiniteWidth(512, seeds=32)).data.isel(time=-1).mean("seed")
    x, y = problem.samples.x, problem.samples.y[:, 0]
    settings = Settings(samples=4000, settle=10, iterations=30, jacobian_samples=100)
    solution = alternate(x @ x.T / x.shape[1], y, "tanh", 3, 1.5, 0.1, 12, settings)
    assert relative(solution.outputs[-1], final["outputs"].values.reshape(-1)) < 0.02
    for layer in (1, 2, 3):
        expected = final.sel(layer=layer)
        assert relative(solution.at(solution.features, layer, 12, 12), expected["feature_kernel"].values) < 0.03
        gradient = expected["gradient_kernel"].values.reshape(3, 3)
        assert relative(solution.at(solution.gradients, layer, 12, 12), gradient) < 0.05


def test_common_random_numbers_converge_and_fresh_ones_stall():
    arguments = (PAIR, np.array([1.0, -1.0]), "tanh", 2, 1.0, 0.2, 5)
    common = alternate(*arguments, Settings(samples=500, fresh=False, damping=1.0, tolerance=1e-6, iterations=40))
    fresh = alternate(*arguments, Settings(samples=500, tolerance=1e-6, iterations=40))
    assert common.converged
    assert len(common.change) < 40
    assert not fresh.converged
    assert fresh.change[-5:].min() > 1e-3


@pytest.mark.parametrize("responses", ["stein", "jacobian"])
def test_kernels_are_symmetric_and_responses_causal(responses):
    settings = Settings(samples=300, iterations=3, responses=responses, jitter=1e-3)
    solution = alternate(PAIR, np.array([1.0, -1.0]), "relu", 3, 1.0, 0.1, 4, settings)
    times = np.arange(10) // 2
    before, same = times[:, None] < times[None, :], times[:, None] == times[None, :]
    for kernels in (solution.features, solution.gradients):
        assert np.array_equal(kernels, kernels.transpose(0, 2, 1))
        assert np.linalg.eigvalsh(kernels).min() > -1e-10
    assert solution.forward.shape == solution.backward.shape == (2, 10, 10)
    assert not solution.forward[:, before | same].any()
    assert not solution.backward[:, before | (same & ~np.eye(10, dtype=bool))].any()
    assert solution.outputs.shape == (5, 2)
    assert len(solution.change) == len(solution.seconds) == 3


def test_blocked_march_and_products_equal_the_plain_ones(double, monkeypatch):
    monkeypatch.setattr(alternating, "MARCH_ROWS", 7)
    monkeypatch.setattr(alternating, "PRODUCT_ROWS", 5)
    monkeypatch.setattr(alternating, "JACOBIAN_ROWS", 5)
    rng = np.random.default_rng(0)
    count, n = 3, 24
    times = np.arange(n) // count
    u, r = rng.normal(size=(2, n, 9))
    forward, backward = rng.normal(size=(2, n, n)) * (times[:, None] > times[None, :]) / n
    backward = backward + np.diag(rng.normal(size=n))
    features, gradients = np.zeros((2, n, 9))
    for t in range(n // count):
        rows = times == t
        h = u[rows] + forward[rows] @ gradients
        features[rows] = np.tanh(h)
        gradients[rows] = (r[rows] + backward[rows] @ features) / np.cosh(h) ** 2
    arrays = [jnp.asarray(a) for a in (u, r, forward, backward)]
    found = alternating._march(jnp.tanh, count, *arrays, first=False, last=False)
    assert found[0] == pytest.approx(features, abs=1e-12)
    assert found[1] == pytest.approx(gradients, abs=1e-12)
    assert alternating._gram(arrays[0]) == pytest.approx(u @ u.T / 9, abs=1e-12)
    lower = jnp.asarray(np.tril(backward))
    assert alternating._triangular_product(lower, arrays[0]) == pytest.approx(np.tril(backward) @ u, abs=1e-12)
    assert alternating._lower_lower(lower, lower) == pytest.approx(
        np.linalg.matrix_power(np.tril(backward), 2), abs=1e-12
    )
    unit = np.tril(forward, -1) + np.eye(n)
    assert alternating._unit_lower_inverse(jnp.asarray(unit)) == pytest.approx(np.linalg.inv(unit), abs=1e-10)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="more samples"):
        alternate(PAIR, np.ones(2), "tanh", 3, 1.0, 0.1, 20, Settings(samples=50, matched=True))
    with pytest.raises(ValueError, match="positive richness"):
        alternate(PAIR, np.ones(2), "tanh", 3, 0.0, 0.1, 20)
