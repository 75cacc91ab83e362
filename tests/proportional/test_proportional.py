"""Deep linear networks in the proportional limit: known solutions, identities, other solvers, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widefield import Cosine
from widefield.base.errors import Diverged, InvalidInput, UnknownName
from widefield.proportional import (
    LinearNetwork,
    LinearTask,
    Spectrum,
    gradient_flow,
    power_law,
    simulate,
    solve,
    solve_long,
    solve_many,
)
from widefield.proportional.closed_forms import final_losses
from widefield.proportional.cross_layer import CrossLayerChain
from widefield.proportional.equations import equations
from widefield.proportional.sweep import sweep

INF = math.inf
TIMES = [0, 1, 2, 5, 10, 19]
MODES = power_law(1.5, 0.5, 64)
RAMP = 0.05 * (1 + np.arange(19) / 25)
LABELS = [[1.0, 0.6], [0.6, 1.0]]

# Network, task, rate; test losses at TIMES, and train losses where they differ.
KNOWN = {
    "one layer, population": (
        (LinearNetwork(1, 0.5), LinearTask(), 0.1),
        (3.0, 1.5012, 1.0249802, 0.554754306, 0.288923368, 0.0836166192),
        None,
    ),
    "two layers, population": (
        (LinearNetwork(2, 0.5), LinearTask(), 0.1),
        (3.0, 1.029888, 0.771024678, 0.524796036, 0.318246073, 0.102559293),
        None,
    ),
    "training set": (
        (LinearNetwork(3, 1.0), LinearTask(samples=2, noise=0.3), 0.05),
        (2.09, 1.2005011, 0.998817974, 0.742071779, 0.549752186, 0.379290369),
        (2.09, 0.961654552, 0.724889389, 0.438739978, 0.256361542, 0.135928088),
    ),
    "fresh samples": (
        (LinearNetwork(2, 0.5), LinearTask(batch_size=0.5, noise=0.3), 0.05),
        (3.09, 1.8545167, 1.40663848, 0.948003792, 0.705971503, 0.493945155),
        None,
    ),
    "centred": (
        (LinearNetwork(2, 0.5, 0.1, centred=True), LinearTask(samples=2), 0.04),
        (1, 0.8056, 0.703332484, 0.53581691, 0.390675867, 0.254997065),
        (1, 0.7036, 0.556881753, 0.347710935, 0.20507016, 0.104247205),
    ),
    "infinite width": (
        (LinearNetwork(3, INF, 2.0), LinearTask(), 0.03),
        (1, 0.7744, 0.588583676, 0.167687941, 0.00158481956, 1.60506675e-8),
        None,
    ),
    "infinite width, training set": (
        (LinearNetwork(2), LinearTask(samples=1, noise=0.5), 0.1),
        (1.25, 0.8525, 0.743600144, 0.660051207, 0.666069887, 0.735060768),
        (1.25, 0.395, 0.23174467, 0.107951122, 0.0635660463, 0.0410374062),
    ),
    "residual": (
        (LinearNetwork(3, 0.7, branch=1.2, depth_scaled=True), LinearTask(), 0.05),
        (4.12914286, 1.34972696, 0.9617217, 0.56836139, 0.313254057, 0.107496513),
        None,
    ),
    "residual, training set": (
        (LinearNetwork(5, 1.0, branch=1.2, depth_scaled=True), LinearTask(samples=2, noise=0.3), 0.05),
        (3.8420952, 1.62880836, 1.12558093, 0.736013121, 0.50723377, 0.335636861),
        (3.8420952, 1.31626909, 0.77449492, 0.376710262, 0.201780297, 0.106574146),
    ),
    "widths": (
        (LinearNetwork(3, (1.0, 0.5, 2.0)), LinearTask(noise=0.3), 0.05),
        (1.59, 0.961270702, 0.800545389, 0.52826915, 0.252858679, 0.107551646),
        None,
    ),
    "widths, training set": (
        (LinearNetwork(2, (0.5, 1.5)), LinearTask(samples=2, noise=0.3), 0.05),
        (1.75666667, 1.17445009, 0.997474861, 0.773765588, 0.588905233, 0.400880621),
        (1.75666667, 0.994488926, 0.772770428, 0.498281022, 0.29747031, 0.149243705),
    ),
    "two outputs": (
        (LinearNetwork(2, 1.0), LinearTask(samples=2, noise=0.3, target=LABELS), 0.05),
        (4.18, 2.79288156, 2.26666875, 1.59543437, 1.13173406, 0.761606257),
        (4.18, 2.34755459, 1.70452664, 0.957925033, 0.532638966, 0.279935607),
    ),
    "structured, fresh samples": (
        (LinearNetwork(2, 64, centred=True), LinearTask(batch_size=32, spectrum=MODES), 0.1),
        (1.90373823, 1.31114354, 0.969712592, 0.549451858, 0.357068673, 0.228297998),
        None,
    ),
    "structured, training set": (
        (LinearNetwork(2, 64, centred=True), LinearTask(samples=64, spectrum=MODES), 0.1),
        (1.90373823, 1.307796, 0.973024718, 0.565628422, 0.379632531, 0.25771933),
        (1.90373823, 1.27355421, 0.923677901, 0.503503704, 0.31070259, 0.185387108),
    ),
    "schedule": (
        (LinearNetwork(2, 0.7), LinearTask(samples=1.5, noise=0.3), RAMP),
        (2.51857143, 1.5567194, 1.270364, 0.935278085, 0.712543753, 0.509104029),
        (2.51857143, 1.23485689, 0.88738183, 0.506900117, 0.284304172, 0.134705263),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_solutions(name):
    problem, test, train = KNOWN[name]
    found = solve(*problem, 19)
    np.testing.assert_allclose(found.test_loss[TIMES], test, rtol=1e-8)
    np.testing.assert_allclose(found.train_loss[TIMES], test if train is None else train, rtol=1e-8)


def test_known_solution_of_many_modes():
    found = solve(LinearNetwork(1, INF, 1.5), LinearTask(spectrum=power_law(1.5, 0.5, 40)), 0.2, 29)
    expected = (1.87927137, 1.119215488, 0.4046145532, 0.2390766532, 0.08749853699)
    np.testing.assert_allclose(found.test_loss[[0, 1, 5, 10, 29]], expected, rtol=1e-9)


def test_known_order_parameters():
    data = solve(LinearNetwork(2, 0.5), LinearTask(), 0.1, 5, keep=True).data
    assert float(data.gradient_kernel[0, 5, 3]) == pytest.approx(0.28790951, abs=1e-8)
    assert float(data.feature_kernel[2, 5, 3]) == pytest.approx(0.05051459, abs=1e-8)
    assert float(data.gradient_response[0, 5, 3]) == pytest.approx(0.09087626, abs=1e-8)
    np.testing.assert_allclose(data.feature_response.values[:, range(6), range(6)], -2, rtol=1e-13)


FIGURE_1 = {  # Parameterisation, richness, width, depth: losses at 0, 5, 10, 20, 40 with the rate 0.02
    ("ntk", 4, 1, 4): (1.062, 0.3639, 0.03337, 1.748e-4, 9.837e-9),
    ("ntk", 4, 16, 4): (1.062, 0.3676, 0.1008, 4.693e-3, 2.028e-5),
    ("mean-field", 2, 0.5, 4): (1.5, 0.7446, 0.5791, 0.3117, 0.04892),
    ("mean-field", 2, 16, 4): (1.016, 0.271, 0.01419, 5.423e-5, 4.515e-9),
    ("mean-field", 1, 1, 1): (2, 1.265, 0.8731, 0.4768, 0.1709),
    ("mean-field", 1, 1, 8): (2, 0.678, 0.5094, 0.2803, 0.06608),
}


@pytest.mark.parametrize("key", FIGURE_1)
def test_figure_1(key):
    parameterisation, richness, width, layers = key
    found = solve(LinearNetwork(layers, width, richness, parameterisation), LinearTask(), 0.02, 40)
    np.testing.assert_allclose(found.test_loss[[0, 5, 10, 20, 40]], FIGURE_1[key], rtol=6e-4)


def test_figure_3_small_data_sets_are_fitted_faster_and_overfitted():
    expected = {
        0.25: ((2.25, 1.845, 1.915, 1.942, 1.946), (2.25, 0.03184, 3.142e-3, 6.865e-5, 8.951e-8)),
        4: ((2.25, 0.8723, 0.6688, 0.4719, 0.3561), (2.25, 0.6932, 0.4757, 0.2938, 0.2056)),
    }
    for samples, (test, train) in expected.items():
        found = solve(LinearNetwork(4, 1.0), LinearTask(samples=samples, noise=0.5), 0.02, 80)
        np.testing.assert_allclose(found.test_loss[[0, 10, 20, 40, 80]], test, rtol=6e-4)
        np.testing.assert_allclose(found.train_loss[[0, 10, 20, 40, 80]], train, rtol=6e-4)


@pytest.mark.slow
def test_figure_3_peak_at_as_many_samples_as_dimensions():
    expected = {0.25: (2.176, 2.206, 2.206), 1: (1.798, 2.470, 4.359), 4: (1.292, 1.303, 1.333)}
    for samples, losses in expected.items():
        task = LinearTask(samples=samples, noise=1.0)
        found = solve(LinearNetwork(4, 4.0, 0.5, centred=True), task, 0.03, 160)
        np.testing.assert_allclose(found.test_loss[[10, 40, 160]], losses, rtol=6e-4)


@pytest.mark.parametrize(
    ("width", "batch", "losses"),
    [
        (0.5, 0.5, (3, 0.9586, 0.77, 0.6104, 0.4175)),
        (0.5, INF, (3, 0.928, 0.745, 0.5879, 0.3966)),
        (0.25, 1.0, (5, 1.041, 0.8969, 0.8044, 0.719)),
        (4.0, 1.0, (1.25, 0.5084, 0.2243, 0.03893, 0.00128)),
    ],
)
def test_figure_3_fresh_samples(width, batch, losses):
    found = solve(LinearNetwork(4, width), LinearTask(batch_size=batch), 0.01, 80)
    np.testing.assert_allclose(found.test_loss[[0, 10, 20, 40, 80]], losses, rtol=6e-4)


@pytest.mark.parametrize(
    ("layers", "richness", "branch", "losses"),
    [
        (8, 0.5, 1.2, (1, 0.8163, 0.3944, 0.1784, 0.04368, 0.01204)),
        (8, 4.0, 1.2, (1, 0.8163, 0.2658, 0.01756, 1.032e-4, 9.576e-7)),
        (8, 1.0, 0.25, (1, 0.9571, 0.8041, 0.6474, 0.4184, 0.2677)),
        (8, 1.0, 1.5, (1, 0.6509, 0.1659, 0.03782, 2.573e-3, 2.138e-4)),
        (2, 1.0, 1.2, (1, 0.9187, 0.6587, 0.4373, 0.1922, 0.08359)),
        (32, 1.0, 1.2, (1, 0.7609, 0.2956, 0.1014, 0.01365, 2.091e-3)),
    ],
)
def test_figure_4(layers, richness, branch, losses):
    network = LinearNetwork(layers, 4.0, richness, branch=branch, depth_scaled=True, centred=True)
    found = solve(network, LinearTask(), 0.01, 30)
    np.testing.assert_allclose(found.test_loss[[0, 1, 5, 10, 20, 30]], losses, rtol=6e-4)


@pytest.mark.parametrize(
    ("source", "width", "batch", "losses"),
    [
        (0.5, 64, 4, (1.92, 1.449, 0.6763, 0.37, 0.2496, 0.1667)),
        (0.5, 16, INF, (1.92, 1.419, 0.6858, 0.3878, 0.269, 0.1852)),
        (0.5, INF, INF, (1.92, 1.406, 0.5644, 0.2561, 0.1445, 0.07586)),
        (1.5, 64, INF, (1.159, 0.7031, 0.1032, 0.02822, 0.01486, 8.628e-3)),
        (1.5, INF, INF, (1.159, 0.7001, 0.07922, 0.01339, 4.39e-3, 1.507e-3)),
    ],
)
def test_figure_6(source, width, batch, losses):
    task = LinearTask(batch_size=batch, spectrum=power_law(1.5, source, 100))
    found = solve(LinearNetwork(4, width, centred=True), task, 0.05, 59)
    np.testing.assert_allclose(found.test_loss[[0, 1, 5, 15, 30, 59]], losses, rtol=8e-4)


FORMS = {
    "plain": LinearNetwork(3, 0.8, 1.2),
    "widths": LinearNetwork(2, (0.5, 1.5)),
    "centred": LinearNetwork(2, 0.8, 0.5, centred=True),
    "residual": LinearNetwork(3, 0.8, branch=0.6),
}
TASKS = {
    "population": LinearTask(noise=0.2),
    "training set": LinearTask(samples=1.5, noise=0.2),
    "fresh samples": LinearTask(batch_size=2.0, noise=0.2),
    "outputs": LinearTask(samples=1.5, noise=0.2, target=LABELS),
    "structured": LinearTask(samples=30, noise=0.2, spectrum=power_law(1.5, 0.5, 20)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TASKS)
def test_structure_of_the_solution(form, kind):
    network, task = FORMS[form], TASKS[kind]
    data = solve(network, task, 0.03, 12, keep=True).data
    parts = data.bias + data.width_variance + data.data_variance + data.noise
    np.testing.assert_allclose(parts, data.test_loss, rtol=1e-13)
    for name in ("bias", "width_variance", "data_variance", "train_loss"):
        assert (data[name].values >= -1e-14).all()
    size = 13 * task.gram.shape[1]
    for name in ("feature_kernel", "gradient_kernel"):
        matrices = data[name].values.reshape(-1, size, size)
        np.testing.assert_allclose(matrices, matrices.swapaxes(1, 2), atol=1e-12)
        assert np.linalg.eigvalsh(matrices).min() > -1e-11 * np.abs(matrices).max()
    causal = data.gradient_response.values.reshape(-1, 13, size // 13, 13, size // 13)
    assert all(np.abs(causal[:, t, :, t:]).max() == 0 for t in range(13))
    shorter = solve(network, task, 0.03, 7)
    np.testing.assert_allclose(shorter.test_loss, data.test_loss.values[:8], rtol=1e-13)


def test_limits():
    population = solve(LinearNetwork(2, 0.7), LinearTask(noise=0.2), 0.05, 10).test_loss
    for task in (LinearTask(samples=1e8, noise=0.2), LinearTask(batch_size=1e8, noise=0.2)):
        np.testing.assert_allclose(solve(LinearNetwork(2, 0.7), task, 0.05, 10).test_loss, population, rtol=1e-6)
    task = LinearTask(samples=2.0)
    wide = [solve(LinearNetwork(2, width), task, 0.05, 10).test_loss for width in (1e8, INF)]
    np.testing.assert_allclose(*wide, rtol=1e-6)
    same = [solve(LinearNetwork(2, 1.0, 1.4, p), task, 0.05, 10).test_loss for p in ("mean-field", "ntk")]
    np.testing.assert_array_equal(*same)
    widths = [solve(LinearNetwork(3, width), task, 0.05, 10).test_loss for width in (0.6, (0.6, 0.6, 0.6))]
    np.testing.assert_allclose(*widths, rtol=1e-13)
    modes = [LinearTask(samples=2.0, noise=0.1), LinearTask(samples=2.0, noise=0.1, spectrum=Spectrum([1.0]))]
    np.testing.assert_allclose(*(solve(LinearNetwork(2, 0.6), task, 0.05, 10).test_loss for task in modes), rtol=1e-13)


def test_orthogonal_outputs_are_equal():
    task = LinearTask(samples=2.0, noise=0.2, target=np.eye(2))
    data = solve(LinearNetwork(2, 0.8), task, 0.05, 10, keep=True).data
    errors = data.error_correlation.values[range(11), :, range(11), :]
    np.testing.assert_allclose(errors[:, 0, 0], errors[:, 1, 1], rtol=1e-12)
    assert data.test_loss[0] == pytest.approx(2 * (1 + 1 / 0.8 + 0.04))


def test_without_branches_a_residual_network_is_shallow():
    """beta = 0 leaves h^l = h^1: one hidden layer."""
    pair = [
        solve(n, LinearTask(samples=2.0), 0.05, 10) for n in (LinearNetwork(1, 0.7), LinearNetwork(5, 0.7, branch=0.0))
    ]
    np.testing.assert_allclose(pair[0].test_loss, pair[1].test_loss, rtol=1e-12)


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("kind", ["population", "training set", "fresh samples", "outputs"])
@pytest.mark.parametrize("centred", [False, True])
def test_transfer_form_equals_cross_layer_form(layers, kind, centred):
    network = LinearNetwork(layers, 0.7, branch=1.1, depth_scaled=True, centred=centred)
    rates = np.array([[0.03] * 12, [0.02] * 12])
    together = equations([network] * 2, [TASKS[kind]] * 2, rates)
    one, two = sweep(together), sweep(together, chain=CrossLayerChain(together))
    np.testing.assert_allclose(one.test, two.test, rtol=1e-12)
    np.testing.assert_allclose(one.train, two.train, rtol=1e-12)
    for left, right in zip(one.chain.layers, two.chain.layers, strict=True):
        np.testing.assert_allclose(left.features, right.features, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(left.gradients, right.gradients, rtol=1e-10, atol=1e-12)


class WithoutSources(CrossLayerChain):
    """As printed below BP25 eq. (74): dh^{l+1}/du^k without beta delta_{k,l+1}."""

    def _strength(self, index, end):
        return 0.0 if end == 0 and index else super()._strength(index, end)


def test_cross_layer_form_needs_the_sources_of_all_layers():
    """Without them the losses are off from the first step on; the right ones are those of networks."""
    network = LinearNetwork(3, 0.7, branch=0.7)
    one = equations([network], [LinearTask()], np.full((1, 8), 0.03))
    right, printed = (sweep(one, chain=chain(one)).test[0] for chain in (CrossLayerChain, WithoutSources))
    trained = simulate(network, LinearTask(), 0.03, 8, dimension=128, seeds=48).data
    allowed = 4 * trained.test_loss_error.values + 0.02 * right
    assert (np.abs(trained.test_loss.values - right) < allowed).all()
    assert (np.abs(trained.test_loss.values - printed) > allowed)[1:].all()


def test_many_problems_at_once():
    networks = [LinearNetwork(2, width) for width in (0.5, 1.0, INF)]
    rates = np.array([[0.02] * 10, [0.05] * 10, [0.03] * 10])
    found = solve_many(networks, [LinearTask(samples=2.0)] * 3, rates)
    for index, network in enumerate(networks):
        alone = solve(network, LinearTask(samples=2.0), rates[index], 10)
        np.testing.assert_allclose(found.test[index], alone.test_loss, rtol=1e-13)
        np.testing.assert_allclose(found.train[index], alone.train_loss, rtol=1e-13)
    with pytest.raises(InvalidInput, match="agree"):
        solve_many([LinearNetwork(2, 1.0), LinearNetwork(3, 1.0)], [LinearTask()] * 2, rates[:2])


def test_divergence_is_named():
    with pytest.raises(Diverged, match=r"step \d+ \(learning_rate = 1.5\)") as caught:
        solve(LinearNetwork(2, 0.5), LinearTask(), 1.5, 30)
    step = caught.value.trajectory.diverged
    assert np.isnan(caught.value.trajectory.test_loss[step:]).all()
    assert np.isfinite(caught.value.trajectory.test_loss[:step]).all()
    assert solve(LinearNetwork(2, 0.5), LinearTask(), 1.5, 30, throw=False).diverged == step
    both = solve_many([LinearNetwork(2, 0.5)] * 2, [LinearTask()] * 2, np.array([[0.05] * 30, [1.5] * 30]))
    assert np.isfinite(both.test[0]).all()
    assert np.isnan(both.test[1, -1])


def test_schedules():
    schedule = Cosine(0.08, warmup=3)
    one = solve(LinearNetwork(2, 0.7), LinearTask(), schedule, 15)
    two = solve(LinearNetwork(2, 0.7), LinearTask(), schedule.rates(15), 15)
    np.testing.assert_array_equal(one.test_loss, two.test_loss)
    np.testing.assert_allclose(one.data.time[-1], schedule.rates(15).sum())


def test_bins_of_modes():
    fine, coarse = power_law(1.5, 0.5, 2000), power_law(1.5, 0.5, 2000, bins=60)
    assert coarse.multiplicities.sum() == 2000
    for weights in (np.ones(1), None):
        sums = [s.multiplicities @ (s.eigenvalues * (s.target if weights is None else 1)) for s in (fine, coarse)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    losses = [
        solve(LinearNetwork(2, 64), LinearTask(batch_size=32, spectrum=s), 0.1, 12).test_loss for s in (fine, coarse)
    ]
    np.testing.assert_allclose(*losses, rtol=2e-3)


@settings(max_examples=25, deadline=None)
@given(
    layers=st.integers(1, 4),
    width=st.floats(0.2, 20),
    richness=st.floats(0.3, 2),
    samples=st.floats(0.3, 10),
    centred=st.booleans(),
)
def test_small_rates_reduce_the_training_loss(layers, width, richness, samples, centred):
    network = LinearNetwork(layers, width, richness, centred=centred)
    task = LinearTask(samples=samples, noise=0.1)
    scale = (1 + 1 / math.sqrt(samples)) ** 2 * (1 + 1 / math.sqrt(width)) ** (2 * layers) * (layers + 1)
    found = solve(network, task, 0.1 / scale / max(1.0, 1 / (width * richness**2)), 4)
    assert (np.diff(found.train_loss) < 0).all()
    assert (found.data.width_variance.values >= 0).all()


BAD = [
    (lambda: LinearNetwork(0), "hidden_layers = 0"),
    (lambda: LinearNetwork(2, -1.0), "width = -1.0 must be > 0"),
    (lambda: LinearNetwork(2, 0), "width = 0 must be > 0"),
    (lambda: LinearNetwork(2, float("nan")), "width = nan"),
    (lambda: LinearNetwork(2, (1.0,)), "one entry for each of 2"),
    (lambda: LinearNetwork(2, (1.0, INF)), "all widths are infinite"),
    (lambda: LinearNetwork(2, (1.0, 2.0), branch=1.0), "same width"),
    (lambda: LinearNetwork(2, 1.0, 0.0), "richness = 0.0 must be > 0"),
    (lambda: LinearNetwork(INF, 1.0), "depth_scaled"),
    (lambda: LinearNetwork(2, 1.0, depth_scaled=True), "needs a branch"),
    (lambda: LinearNetwork(2, INF, parameterisation="ntk"), "lazy"),
    (lambda: LinearNetwork(2, 1.0, branch=-1.0), "branch = -1.0"),
    (lambda: LinearTask(samples=-2.0), "samples = -2.0"),
    (lambda: LinearTask(batch_size=0.0), "batch_size = 0.0"),
    (lambda: LinearTask(samples=1.0, batch_size=1.0), "give one of them"),
    (lambda: LinearTask(noise=-0.1), "noise = -0.1"),
    (lambda: LinearTask(target=[[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
    (lambda: LinearTask(target=[[1.0, 2.0]]), "symmetric"),
    (lambda: LinearTask(target=2.0, spectrum=MODES), "belongs into the spectrum"),
    (lambda: LinearTask(spectrum="power"), "must be a Spectrum"),
    (lambda: Spectrum([]), "empty"),
    (lambda: Spectrum([1.0, 0.0]), "must be > 0"),
    (lambda: Spectrum([1.0, np.nan]), "NaN"),
    (lambda: Spectrum([1.0], [1.0, 2.0]), "1 modes"),
    (lambda: Spectrum([1.0], [-1.0]), "negative"),
    (lambda: Spectrum([1.0], 1.0, [0.0]), "multiplicities"),
    (lambda: power_law(0.5, 0.5, 10), "capacity = 0.5"),
    (lambda: solve(LinearNetwork(1), LinearTask(), -0.1, 5), "rate = -0.1"),
    (lambda: solve(LinearNetwork(1), LinearTask(), [0.1, 0.2], 5), "one entry for each of steps = 5"),
    (lambda: solve(LinearNetwork(1), LinearTask(), 0.1, 0), "steps = 0"),
    (lambda: solve(LinearNetwork(3), LinearTask(), 0.1, 10**6), "GiB of memory"),
    (lambda: gradient_flow(LinearNetwork(1), LinearTask(batch_size=1.0), 1.0), "population"),
    (lambda: solve_long(LinearNetwork(1), LinearTask(), 0.1, 10, tolerance=0.0), "tolerance = 0.0"),
    (lambda: final_losses(0.5, 1.0), "samples = 0.5"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert message in str(caught.value)


def test_unknown_parameterisation():
    with pytest.raises(UnknownName, match="did you mean 'mean-field'"):
        LinearNetwork(2, 1.0, parameterisation="mean_field")
