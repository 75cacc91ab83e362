"""The proportional limit against what can be solved by hand."""

import math

import numpy as np
import pytest

from widefield.proportional import LinearNetwork, LinearTask, Spectrum, gradient_flow, solve
from widefield.proportional.closed_forms import (
    final_losses,
    lazy_finite_width,
    lazy_full_batch,
    lazy_kernel,
    lazy_online,
    one_step_centred,
    one_step_loss,
    two_layer_flow,
    two_layer_losses,
    two_layer_structured,
)

INF = math.inf


@pytest.mark.parametrize(("richness", "rate"), [(1.0, 0.1), (2.0, 0.05), (0.3, 0.4)])
def test_two_layers_in_closed_form(richness, rate):
    found = solve(LinearNetwork(1, INF, richness), LinearTask(), rate, 30)
    expected = two_layer_losses(richness, rate, 30)
    np.testing.assert_allclose(np.sqrt(found.test_loss), np.sqrt(expected), rtol=1e-12, atol=1e-14)


def test_gradient_flow_in_closed_form():
    losses = (0.664143427, 0.326735996, 0.0687227601, 1.17861185e-3, 1.62475816e-7)
    np.testing.assert_allclose(two_layer_flow(2.0, np.array([0.1, 0.25, 0.5, 1, 2])), losses, rtol=1e-8)
    found = gradient_flow(LinearNetwork(1, INF, 2.0), LinearTask(), 2.0, records=20, tolerance=1e-8)
    np.testing.assert_allclose(found.test_loss, two_layer_flow(2.0, found.data.time.values), atol=1e-8)
    coarse = [solve(LinearNetwork(1, INF, 2.0), LinearTask(), 2 / n, n).test_loss for n in (20, 40)]
    exact = [two_layer_flow(2.0, np.linspace(0, 2, n + 1)) for n in (20, 40)]
    errors = [np.abs(one - two).max() for one, two in zip(coarse, exact, strict=True)]
    assert errors == pytest.approx([2.6e-2, 1.25e-2], rel=0.03)


def test_structured_data_in_closed_form():
    spectrum = Spectrum([1.0, 0.5, 0.2], [0.3, 1.0, 2.0], [1, 2, 3])
    found = solve(LinearNetwork(1, INF, 1.5), LinearTask(spectrum=spectrum), 0.3, 25)
    expanded = Spectrum([1.0, 0.5, 0.5, 0.2, 0.2, 0.2], [0.3, 1, 1, 2, 2, 2])
    both = two_layer_structured(expanded, 1.5, 0.3, 25)
    np.testing.assert_allclose(found.test_loss, both, rtol=1e-12, atol=1e-17)
    np.testing.assert_allclose(two_layer_structured(spectrum, 1.5, 0.3, 25), both, rtol=1e-12)


def test_one_step_in_closed_form():
    assert one_step_loss(0.1, 0.5, 1.0) == pytest.approx(1.5012, rel=1e-12)
    assert one_step_loss(0.1, 0.5, 1.0, 2.0, 0.3) == pytest.approx(1.672158, rel=1e-12)
    for task in (LinearTask(samples=2, noise=0.3), LinearTask(batch_size=2, noise=0.3)):
        found = solve(LinearNetwork(1, 0.7, 1.3), task, 0.15, 1)
        assert found.test_loss[1] == pytest.approx(one_step_loss(0.15, 0.7, 1.3, 2.0, 0.3), rel=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3, 6])
@pytest.mark.parametrize("richness", [0.2, 3.0])
def test_one_centred_step_in_closed_form(layers, richness):
    task = LinearTask(samples=1.7, noise=0.4, target=1.6)
    found = solve(LinearNetwork(layers, 0.6, richness, centred=True), task, 0.05, 1)
    assert found.test_loss[1] == pytest.approx(one_step_centred(layers, 0.05, 0.6, 1.7, 0.4, 1.6), rel=1e-12)


@pytest.mark.parametrize(("layers", "samples"), [(1, 0.5), (3, 2.0)])
def test_lazy_training_set(layers, samples):
    rate = 0.25 / (layers + 1)
    found = solve(LinearNetwork(layers, INF, 1e-4), LinearTask(samples=samples, noise=0.4, target=1.3), rate, 15)
    test, train = lazy_full_batch(layers + 1, rate, samples, 15, 0.4, 1.3)
    np.testing.assert_allclose(found.test_loss, test, rtol=1e-7)
    np.testing.assert_allclose(found.train_loss, train, rtol=1e-7)


def test_lazy_fresh_samples_and_finite_width():
    found = solve(LinearNetwork(2, INF, 1e-5), LinearTask(batch_size=1.5, noise=0.4), 0.1, 20)
    np.testing.assert_allclose(found.test_loss, lazy_online(3.0, 0.1, 1.5, 20, 0.4), rtol=1e-8)
    for width in (0.5, 2.0):
        found = solve(LinearNetwork(1, width, 1e-3, centred=True), LinearTask(), 0.1, 20)
        np.testing.assert_allclose(found.test_loss, lazy_finite_width(0.1, width, 20), rtol=1e-4)


@pytest.mark.parametrize(("layers", "branch"), [(1, None), (4, None), (4, 0.7), (6, 1.0)])
def test_kernel_at_the_start(layers, branch):
    found = solve(LinearNetwork(layers, INF, branch=branch), LinearTask(), 0.003, 1)
    assert found.test_loss[1] == pytest.approx((1 - 0.003 * lazy_kernel(layers, branch)) ** 2, rel=1e-12)


def test_correlations_at_the_start():
    data = solve(LinearNetwork(4, 0.7, branch=0.9), LinearTask(), 0.01, 1, keep=True).data
    np.testing.assert_allclose(data.gradient_kernel.values[:, 0, 0], 1.81 ** np.arange(3, -1, -1), rtol=1e-13)
    assert float(data.test_loss[0]) == pytest.approx(1 + 1.81**3 / 0.7, rel=1e-13)
    data = solve(LinearNetwork(3, 0.7, 2.0), LinearTask(samples=1.5), 0.01, 1, keep=True).data
    first = float(data.feature_kernel[0, 0, 0])
    expected = first + np.arange(4) / (0.7 * 2) ** 2
    np.testing.assert_allclose(data.feature_kernel.values[:, 0, 0], expected, rtol=1e-13)


def test_converged_losses():
    found = solve(LinearNetwork(4, 4.0, 0.5, centred=True), LinearTask(samples=4, noise=1.0), 0.03, 160)
    assert (found.test_loss[-1], found.train_loss[-1]) == pytest.approx(final_losses(4, 1.0), abs=1e-3)
