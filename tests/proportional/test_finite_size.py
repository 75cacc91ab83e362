"""How far networks of finite size are from the limit is estimated, and a limit that is useless is not silent."""

import math
import warnings

import numpy as np
import pytest

import widefield as wf
from widefield.proportional import LinearNetwork, LinearProblem, LinearTask, simulate, solve
from widefield.proportional.words import distance

UNSTABLE = LinearNetwork(3, width=0.5, branch=0.9)
"""Directions of its kernel are unstable at a rate of 0.05: right in the limit, and 25% off with D = 1000."""


def test_a_limit_that_networks_are_far_from_warns():
    with pytest.warns(wf.NotAccurate, match=r"networks with D = 1000 are expected to be about \d+% off"):
        found = solve(UNSTABLE, LinearTask(), 0.05, 20, progress=False)
    assert found.test_loss[20] == pytest.approx(0.987, abs=1e-3)
    # The distances of networks with D = 100, 300, 1000, 2400 are 72%, 60%, 24%, 12% (0.28, 0.39, 0.75, 0.87).
    assert 60 < found.finite_size < 600
    assert "networks with D = 1000" in found.verdict
    with pytest.warns(wf.NotAccurate, match="D = 1000"):
        again = wf.solve(LinearProblem(UNSTABLE, LinearTask(), wf.SGD(0.05, 20)), progress=False)
    assert again.finite_size == found.finite_size


def test_the_estimate_is_that_of_networks_which_are_not_small(recwarn):
    found = solve(UNSTABLE, LinearTask(), 0.05, 20, progress=False)
    real = simulate(UNSTABLE, LinearTask(), 0.05, 20, dimension=400, seeds=16, seed=1, progress=False)
    off = np.max(np.abs(real.test_loss - found.test_loss)[5:] / np.maximum(real.test_loss, found.test_loss)[5:])
    assert off > 0.2
    assert distance(found.finite_size, 400) == pytest.approx(off, rel=0.7)


@pytest.mark.parametrize(
    ("network", "task", "rate", "steps"),
    [
        (LinearNetwork(3, width=1.0), LinearTask(samples=2.0, noise=0.5), 0.05, 40),
        (LinearNetwork(3, width=1.0), LinearTask(samples=2.0), 0.05, 40),
        (LinearNetwork(2, width=1.0, richness=4.0), LinearTask(samples=4.0), 0.05, 20),
        (LinearNetwork(4, width=4.0, branch=1.0), LinearTask(), 0.02, 14),
        (LinearNetwork(2, width=1.0), LinearTask(batch_size=1.0, noise=0.3), 0.05, 40),
        (UNSTABLE, LinearTask(), 0.02, 40),
    ],
)
def test_benign_problems_do_not_warn(network, task, rate, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert distance(solve(network, task, rate, steps, progress=False).finite_size, 1000) < 0.02


@pytest.mark.parametrize(
    ("network", "task"),
    [
        (LinearNetwork(2, width=math.inf), LinearTask(samples=2.0)),
        (LinearNetwork(math.inf, width=1.0, branch=1.0, depth_scaled=True), LinearTask()),
        (LinearNetwork(2, width=100.0), LinearTask()),
        (LinearNetwork(2, width=64, centred=True), LinearTask(spectrum=wf.proportional.power_law(1.5, 0.5, 10))),
    ],
)
def test_without_small_networks_there_is_no_estimate(network, task):
    assert solve(network, task, 0.01, 3, progress=False).finite_size is None


def test_networks_that_explode_are_far_away():
    """The limit has a loss of 0.17; some of the small networks explode, and the mean of all is no number."""
    network, task = LinearNetwork(2, width=0.5, richness=4.0), LinearTask(samples=4.0)
    real = simulate(network, task, 0.12, 20, dimension=16, seeds=16, progress=False)
    assert not np.isfinite(real.test_loss[-1])
    with pytest.warns(wf.NotAccurate, match="D = 1000"):
        found = solve(network, task, 0.12, 20, progress=False)
    assert found.status == "complete"
    assert 20 < found.finite_size < 1000


def test_the_estimate_can_be_left_out_and_is_kept_in_files(tmp_path, recwarn):
    assert solve(UNSTABLE, LinearTask(), 0.05, 5, finite_size=False, progress=False).finite_size is None
    found = solve(UNSTABLE, LinearTask(), 0.05, 12, progress=False)
    found.save(tmp_path / "run.nc")
    assert wf.load(tmp_path / "run.nc").finite_size == found.finite_size > 0
    with pytest.raises(wf.InvalidInput, match="finite_size = 1 must be true or false"):
        solve(UNSTABLE, LinearTask(), 0.05, 5, finite_size=1, progress=False)
