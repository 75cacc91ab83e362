"""Networks of infinite depth in the proportional limit."""

import math

import numpy as np
import pytest

from widefield.proportional import LinearNetwork, LinearTask, solve
from widefield.proportional.equations import equations
from widefield.proportional.sweep import sweep

INF = math.inf


@pytest.mark.parametrize(
    ("width", "task", "losses"),
    [
        (1.0, LinearTask(), (1 + math.e, 1.86848, 0.75639, 0.44011, 0.17532)),
        (INF, LinearTask(), (1, 0.700407, 0.092384, 0.003908, 3.14e-6)),
        (1.0, LinearTask(samples=2, noise=0.3), (1.09 + math.e, 2.03971, 1.07232, 0.78374, 0.53391)),
    ],
)
def test_infinite_depth(width, task, losses):
    found = solve(LinearNetwork(INF, width, branch=1.0, depth_scaled=True), task, 0.02, 24)
    np.testing.assert_allclose(found.test_loss[[0, 1, 6, 12, 24]], losses, atol=3e-5)
    assert found.data.test_loss_bound.values.max() < 3e-5


@pytest.mark.slow
def test_deep_networks_approach_infinite_depth():
    task = LinearTask()
    known = {16: (3.48276, 1.95374, 0.77964, 0.45248, 0.18304), 64: (3.65585, 1.89175, 0.76196, 0.44305, 0.17716)}
    limit = solve(LinearNetwork(INF, 1.0, branch=1.0, depth_scaled=True), task, 0.02, 24).test_loss
    gaps = {}
    for layers, losses in known.items():
        found = solve(LinearNetwork(layers, 1.0, branch=1.0, depth_scaled=True), task, 0.02, 24).test_loss
        np.testing.assert_allclose(found[[0, 1, 6, 12, 24]], losses, rtol=3e-5)
        gaps[layers] = np.abs(found - limit).max()
    assert gaps[16] / gaps[64] == pytest.approx(4, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("branch", [0.6, 1.4])
def test_branches_enter_by_their_square(branch):
    """With beta_0 in its place, as in BP25 eq. (85), outputs at the start would have variance e^beta_0 / nu.

    At infinite width the first step is that of the lazy kernel, (2 + beta_0^2) e^(beta_0^2); after that the losses are
    those of depths 64 and 128, extrapolated in 1/L.
    """
    task, network = LinearTask(), LinearNetwork(INF, 2.0, branch=branch, depth_scaled=True)
    found = solve(network, task, 0.01, 12).test_loss
    assert found[0] == pytest.approx(1 + math.exp(branch**2) / 2, rel=1e-5)
    assert abs(found[0] - 1 - math.exp(branch) / 2) > 0.1
    wide = solve(LinearNetwork(INF, INF, branch=branch, depth_scaled=True), task, 0.01, 1).test_loss
    assert wide[1] == pytest.approx((1 - 0.01 * (2 + branch**2) * math.exp(branch**2)) ** 2, rel=1e-5)
    deep = [solve(LinearNetwork(L, 2.0, branch=branch, depth_scaled=True), task, 0.01, 12).test_loss for L in (64, 128)]
    np.testing.assert_allclose(2 * deep[1] - deep[0], found, rtol=3e-3)


def test_heuns_method_is_of_second_order():
    network = LinearNetwork(INF, 1.0, branch=1.0, depth_scaled=True)
    runs = [sweep(equations([network], [LinearTask(samples=2)], np.full((1, 8), 0.03), n)).test for n in (8, 16, 32)]
    ratio = np.abs(runs[0] - runs[1]).max() / np.abs(runs[1] - runs[2]).max()
    assert ratio == pytest.approx(4, rel=0.1)
