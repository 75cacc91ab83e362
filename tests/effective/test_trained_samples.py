"""Slices around one sample, and trained networks at many samples, against whole tensors."""

import jax.numpy as jnp
import numpy as np
import pytest

from references import shifted_sines
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import tangent_flow, trained_ensemble, trained_outputs
from widefield.effective.anchored_slices import ANCHORED, REPEATED, AnchoredLayer, LayerNodes, climbed_slices
from widefield.effective.trained_networks import Initial
from widefield.gaussian.four_table import KINDS, Quadruple
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels.fluctuations import saddle_point
from widefield.problem.network import MLP

PHASE = 0.3
SHIFTED = Activation("shifted sine", lambda z: jnp.sin(z + PHASE))
X = np.array([(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4), (0.3, -0.4, 1.5)])
Y = np.array([[1, -0.5], [-0.6, 0.9]])
RATES = {"weight_rates": (1.5, 0.3, 0.4), "bias_rates": (0.5, 0.1, 0.2)}
NETWORK = MLP(2, SHIFTED, weight_variances=1.1, bias_variances=0.1)
SIZES = (10, 15)


def quadruples(activation, K, kinds, **options):
    """In closed form."""
    found = {}
    for kind in kinds:
        ends = [Pairs.within(len(K)) if a == b else Pairs.ordered(len(K)) for a, b in KINDS[kind]]
        places = ends[0].rows[:, None], ends[0].columns[:, None], ends[1].rows[None], ends[1].columns[None]
        whole = shifted_sines.average((*KINDS[kind][0], *KINDS[kind][1]), K, PHASE)[np.broadcast_arrays(*places)]
        means = [
            shifted_sines.average(orders, K, PHASE)[end.rows, end.columns]
            for orders, end in zip(KINDS[kind], ends, strict=True)
        ]
        found[kind] = Quadruple(*ends, tuple(means), (whole - np.outer(*means))[None])
    return found


@pytest.fixture
def layers():
    point = saddle_point(NETWORK, X, **RATES)
    constants = [(point.weight_variances[k + 1], RATES["weight_rates"][k + 1], 1 / SIZES[k]) for k in range(2)]
    return point.preactivation, [
        LayerNodes.of(SHIFTED, K, point.tangents[k], constants[k], (0, k), 64)
        for k, K in enumerate(point.preactivation)
    ]


@pytest.mark.parametrize("anchor", [0, 2])
def test_every_slice_is_that_of_the_whole_tensor(monkeypatch, layers, anchor):
    kernels, nodes = layers

    def covariance(self, key):
        p, q, r, v, repeated = key
        K = kernels[next(k for k, own in enumerate(nodes) if own is self.nodes)]
        whole = shifted_sines.average((p, q, r, v), K, PHASE)
        one, two = (shifted_sines.average(orders, K, PHASE) for orders in ((p, q), (r, v)))
        if repeated:
            whole, one = np.einsum("bbcd->bcd", whole), np.diagonal(one)
        else:
            whole, one = whole[self.anchor], one[self.anchor]
        return whole - one[:, None, None] * two

    monkeypatch.setattr(AnchoredLayer, "_covariance", covariance)
    monkeypatch.setattr(tangent_flow, "quadruples", quadruples)
    tensors = Initial.of(NETWORK, X, SIZES, **RATES).tensors[0].fours
    slices = climbed_slices(nodes, anchor)
    for name, places in ANCHORED.items():
        for place in places:
            if name != "V":
                expected = np.take(tensors[name], anchor, axis=place)
                np.testing.assert_allclose(SIZES[1] * slices[name, place], expected, rtol=1e-9, atol=1e-12)
    for name, form in REPEATED.items():
        if name != "V":
            expected = np.einsum(f"{''.join(form)}->bcd", tensors[name])
            np.testing.assert_allclose(SIZES[1] * slices[name, -1], expected, rtol=1e-9, atol=1e-12)


def test_samples_one_by_one_are_all_at_once(monkeypatch):
    """Every part of the mean and of the variance, two outputs, within the stated errors of sampled averages."""
    tests = np.concatenate([X[2:], [[1.0, 0.2, -0.7]]])
    options = {"widths": SIZES, "learning_rate": 0.65, **RATES}
    found = trained_outputs(NETWORK, X[:2], Y, tests, points=2**13, replicas=4, **options)
    monkeypatch.setattr(tangent_flow, "quadruples", quadruples)
    whole = trained_ensemble(NETWORK, X[:2], Y, tests, **options)
    np.testing.assert_allclose(found.infinite_mean, whole.infinite_mean[2:], rtol=1e-9)
    np.testing.assert_allclose(found.infinite_variance, np.diagonal(whole.infinite_covariance)[2:], rtol=1e-9)
    for name, part in found.mean_parts.items():
        expected = whole.mean_parts[name][2:]
        np.testing.assert_allclose(part, expected, atol=4e-3 * np.abs(whole.mean_shift).max())
    for name, part in found.variance_parts.items():
        expected = np.einsum("xixk->xik", whole.covariance_parts[name][2:, :, 2:, :])
        np.testing.assert_allclose(part, expected, atol=4e-3 * np.abs(whole.covariance_shift).max())
    assert np.all(np.abs(found.mean - whole.mean[2:]) < 8 * found.mean_error)
    assert found.mean_error.max() < 2e-3 * np.abs(whole.mean_shift).max()
    assert found.variance_error.max() < 2e-3 * np.abs(whole.covariance_shift).max()


def test_a_training_sample_that_is_asked_for():
    """It has its target, and no variance but that from errors of averages."""
    found = trained_outputs(NETWORK, X[:2], Y, X[:1], widths=20, points=2**12, **RATES)
    np.testing.assert_allclose(found.mean, Y[:1], atol=1e-12)
    np.testing.assert_allclose(found.variance, 0, atol=2e-5)


def test_wrong_questions():
    with pytest.raises(InvalidInput, match="has kinks"):
        trained_outputs(MLP(1, "relu"), X[:2], Y, X[2:], widths=10)
    with pytest.raises(InvalidInput, match="more than twice the 3 samples"):
        trained_outputs(NETWORK, X[:2], Y, X[2:], widths=10, points=4)
    with pytest.raises(InvalidInput, match="slices of correlators"):
        trained_outputs(MLP(1, "tanh"), np.ones((5000, 3)), np.ones(5000), X[2:], widths=10)
