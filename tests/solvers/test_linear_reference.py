"""The oracle for linear networks against published and known numbers."""

import numpy as np
import pytest

import widefield as wf
from problems import LINEAR_DESCENT
from references.linear import relu_gates, sweep

K2 = np.array([[1.0, 0.5], [0.5, 1.0]])
Y2 = np.array([1.0, 0.5])
ONE = {"gamma0": 1.0, "eta": 0.05, "steps": 20}
TWO = {"gamma0": 1.0, "eta": 0.05, "steps": 10}
DIGITS = {"rtol": 0, "atol": 6e-11}


def data(points, dimension=5, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(points, dimension))
    return x @ x.T / dimension, generator.normal(size=points)


def close(actual, desired):
    np.testing.assert_allclose(actual, desired, **DIGITS)


@pytest.mark.parametrize(("depth", "f", "last", "first"), LINEAR_DESCENT)
def test_gd_one_point(depth, f, last, first):
    found = sweep([[1.0]], [1.0], depth=depth, **ONE)
    close(found.f[[1, 5, 10, 20], 0], f)
    close(found.features[-1][20, 0, 20, 0], last)
    close(found.gradients[0][20, 0, 20, 0], last)
    close(found.features[0][20, 0, 20, 0], first)


def test_gd_two_points():
    found = sweep(K2, Y2, depth=3, **TWO)
    close(found.f[5], (0.8009064622, 0.5644725364))
    close(found.f[10], (0.9419520414, 0.5618792863))
    close(found.features[2][10, :, 10], [[2.0154454712, 1.0964266327], [1.0964266327, 1.3480855302]])
    close(found.gradients[0][10, :, 10], np.full((2, 2), 2.0215519093))
    close(found.features[2][10, :, 0], [[1.1649741068, 0.6231759762], [0.5691356872, 1.0544604198]])


@pytest.mark.parametrize(
    ("rho", "f", "kernel"),
    [
        (0.0, (0.2351986700, 0.4531547438, 0.7947317497), 1.8002256394),
        (0.5, (0.3802036116, 0.6513439721, 0.9171676953), 1.6720398772),
        (1.0, (0.5693031087, 0.8329097697, 0.9789129659), 1.4683735334),
    ],
)
def test_feedback_one_point(rho, f, kernel):
    found = sweep([[1.0]], [1.0], depth=2, rule="fa", rho=rho, **ONE)
    close(found.f[[5, 10, 20], 0], f)
    close(found.features[1][20, 0, 20, 0], kernel)


def test_feedback_two_points():
    found = sweep(K2, Y2, depth=3, rule="fa", rho=0.0, **TWO)
    close(found.f[[5, 10]], [[0.2976410118, 0.2323147923], [0.5809048317, 0.4358179417]])
    close(found.features[2][10, :, 10], [[1.7024875515, 1.0270341405], [1.0270341405, 1.3954020035]])
    close([k[10, 0, 10, 1] for k in found.alignment], (0.1128775959, 0.1071056553, 0.1014056944))
    found = sweep(K2, Y2, depth=3, rule="fa", rho=0.5, **TWO)
    close(found.f[10], (0.7830600297, 0.5528935881))
    close([k[10, 0, 10, 0] for k in found.alignment], (0.3164874913, 0.4236080203, 0.5952742358))


def test_hebb_numbers():
    found = sweep([[1.0]], [1.0], depth=2, rule="hebb", **ONE)
    close(found.f[[1, 5, 10, 20], 0], (0.055125, 0.3846814528, 0.7468906856, 0.9588960007))
    close(found.features[1][20, 0, 20, 0], 3.0846399693)
    found = sweep(K2, Y2, depth=2, rule="hebb", **TWO)
    close(found.f[10], (0.7829678502, 0.5158708135))
    close(found.features[1][10, :, 10], [[2.7062777948, 1.4721451131], [1.4721451131, 1.6465946594]])


def test_gated_numbers():
    patterns, chances = relu_gates(K2)
    np.testing.assert_allclose(chances, np.where(patterns[:, 0] == patterns[:, 1], 1 / 3, 1 / 6))
    found = sweep(K2, [1.0, -1.0], depth=2, gamma0=1.0, eta=0.1, steps=10, rule="gln")
    f = np.array([0.0583333333, 0.1154309082, 0.3100816076, 0.7260164140])
    close(found.f[[1, 2, 5, 10]], np.stack([f, -f], axis=1))
    close(found.features[1][10, 0, 10], (0.8079025706, -0.1318288021))
    close(found.gradients[0][10, 0, 10], (1.1528084821, 0.5571272456))


def test_three_gates_have_the_known_orthant_probability():
    K = data(3)[0]
    patterns, chances = relu_gates(K)
    cosines = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    known = 1 / 8 + np.sum(np.arcsin(cosines[np.triu_indices(3, 1)])) / (4 * np.pi)
    assert np.sum(chances) == pytest.approx(1)
    assert chances[patterns.all(axis=1)][0] == pytest.approx(known)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_first_step(depth):
    K, y = data(3)
    settings = {"depth": depth, "gamma0": 1.3, "eta": 0.07, "steps": 1}
    np.testing.assert_allclose(sweep(K, y, **settings).f[1], 0.07 * (depth + 1) * K @ y, atol=1e-14)
    powers = sum(0.6**k for k in range(depth + 1))
    np.testing.assert_allclose(sweep(K, y, rule="fa", rho=0.6, **settings).f[1], 0.07 * powers * K @ y, atol=1e-14)
    angle = np.arccos(np.clip(K / np.sqrt(np.outer(np.diag(K), np.diag(K))), -1, 1))
    gated = (depth + 1) * ((np.pi - angle) / (2 * np.pi)) ** depth * K
    np.testing.assert_allclose(sweep(K, y, rule="gln", **settings).f[1], 0.07 * gated @ y, atol=1e-14)


@pytest.mark.parametrize("rule", ["gd", "fa", "dfa", "hebb", "gln"])
def test_invariants(rule):
    K, y = data(3)
    settings = {"depth": 2, "gamma0": 1.2, "eta": 0.05, "steps": 8, "rule": rule, "rho": 0.5}
    found = sweep(K, y, **settings)
    for kernels in (found.features, found.gradients, found.pseudo):
        for kernel in kernels:
            matrix = kernel.reshape(27, 27)
            np.testing.assert_allclose(matrix, matrix.T, atol=1e-13)
            assert np.linalg.eigvalsh(matrix)[0] > -1e-12
    for k in range(2):
        for t in range(9):
            assert not np.any(found.a[k][t, :, t:])
            assert not np.any(found.c[k][t, :, t:])
            assert not np.any(found.b[k][t, :, t + 1 :])
    assert np.any(found.a[1]) == (rule in ("gd", "gln"))
    order = [2, 0, 1]
    permuted = sweep(K[np.ix_(order, order)], y[order], **settings)
    np.testing.assert_allclose(permuted.f, found.f[:, order], atol=1e-13)
    np.testing.assert_allclose(sweep(K, -y, **settings).f, -found.f, atol=1e-13)
    if rule != "gln":  # a point in no batch changes nothing
        more, _ = data(4, seed=5)
        alone = sweep(more[:3, :3], y, **settings)
        both = sweep(more, np.append(y, 0.3), batches=np.tile([1, 1, 1, 0], (8, 1)), **settings)
        np.testing.assert_allclose(both.f[:, :3], alone.f, atol=1e-13)
        np.testing.assert_allclose(both.gradients[0][:, :3, :, :3], alone.gradients[0], atol=1e-13)


def test_whitened_data_have_mirrored_kernels():
    y = np.array([0.6, -0.8])
    found = sweep(np.eye(2), y, depth=3, gamma0=1.5, eta=0.05, steps=15)
    for k in range(3):
        along = np.einsum("p,tpsq,q->ts", y, found.features[k], y)
        np.testing.assert_allclose(along, found.gradients[2 - k][:, 0, :, 0], atol=1e-12)


@pytest.mark.parametrize("rule", ["gd", "fa", "dfa", "hebb", "gln"])
def test_outputs_that_are_never_trained_change_nothing(rule):
    K, y = data(2)
    options = {"depth": 2, "gamma0": 1.2, "eta": 0.05, "steps": 6, "rule": rule, "rho": 0.5, "train_biases": True}
    options |= {"momentum": 0.3, "decay": 0.2}
    alone = sweep(K, y, **options)
    several = sweep(K, np.stack([y, 0 * y], axis=1), error=lambda f, y: (y - f) * np.array([1.0, 0.0]), **options)
    assert several.f.shape == (7, 2, 2)
    np.testing.assert_allclose(several.f[:, :, 0], alone.f, atol=1e-13)
    np.testing.assert_allclose(several.features, alone.features, atol=1e-13)
    np.testing.assert_allclose(several.gradients[0][:, :, 0, :, :, 0], alone.gradients[0], atol=1e-13)
    np.testing.assert_allclose(several.ntk()[:, :, 0, :, 0], alone.ntk(), atol=1e-13)


@pytest.mark.slow
def test_conventions_are_those_of_real_networks():
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(3, 4)), generator.normal(size=3)
    rates, weights, biases, ratios = (0.15, 0.1, 0.08, 0.12, 0.1), (2.0, 0.5, 1.5), (0.3, 0.2, 0.1), (2.0, 1.0)
    optimiser = wf.SGD(
        learning_rate=rates, steps=5, batch_size=2, momentum=0.5, weight_decay=0.3, temperature=0.2, seed=3
    )
    network = wf.MLP(
        hidden_layers=2,
        activation="linear",
        richness=1.2,
        weight_variances=weights,
        bias_variances=biases,
        train_biases=True,
        width_ratios=ratios,
    )
    problem = wf.Problem(network=network, data=wf.Data(x, y), optimiser=optimiser)
    nets = wf.solve(problem, wf.FiniteWidth(300, seeds=16))
    batches = np.zeros((5, 3))
    np.put_along_axis(batches, optimiser.batches(3), 1.0, axis=1)
    theory = sweep(
        x @ x.T / 4,
        y,
        depth=2,
        gamma0=1.2,
        eta=rates,
        steps=5,
        momentum=0.5,
        decay=0.3,
        temperature=0.2,
        batches=batches,
        weight_variances=weights,
        bias_variances=biases,
        train_biases=True,
        width_ratios=ratios,
    )
    pairs = {"outputs": theory.f[:, :, None], "ntk": theory.ntk()}
    pairs |= {"feature_kernel": theory.equal_time("features"), "gradient_kernel": theory.equal_time("gradients")}
    pairs |= {"alignment_kernel": theory.equal_time("alignment"), "pseudo_gradient_kernel": theory.equal_time("pseudo")}
    for name, expected in pairs.items():
        mean, spread = nets.mean(name).values, nets.standard_error(name).values
        assert mean.shape == expected.shape
        assert np.all(np.abs(mean - expected) < 4.5 * spread + 0.01), name
