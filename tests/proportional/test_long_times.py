"""Long times in the proportional limit: extrapolation that knows its error; memory that is expected."""

import math

import numpy as np
import pytest

from widefield.base.errors import NotAccurate
from widefield.proportional import LinearNetwork, LinearTask, gradient_flow, long_times, power_law, solve, solve_long
from widefield.proportional.closed_forms import two_layer_flow
from widefield.proportional.equations import equations
from widefield.proportional.extrapolation import best_polynomial
from widefield.proportional.sweep import sweep

INF = math.inf
MODES = power_law(1.5, 0.5, 64, 16)
NOISY = LinearTask(samples=2, noise=0.3)

LONG = {
    "one layer": (LinearNetwork(1, 1.0), NOISY, 4.0),
    "residual": (LinearNetwork(2, 1.0, branch=1.0, depth_scaled=True), NOISY, 1.5),
    "fresh samples": (LinearNetwork(2, 1.0), LinearTask(batch_size=1.0, noise=0.3), 3.0),
    "structured": (LinearNetwork(2, 64.0, centred=True), LinearTask(samples=64, spectrum=MODES), 6.0),
    "coarse steps oscillate": (LinearNetwork(1, 1.0), NOISY, 7.0),
}


@pytest.mark.parametrize("name", LONG)
def test_long_times_claim_no_less_than_their_error(name):
    network, task, time = LONG[name]
    exact = solve(network, task, time / 400, 400).data.isel(time=slice(0, None, 40))
    found = solve_long(network, task, time / 400, 400, records=10, tolerance=1e-4).data
    for loss in ("test_loss", "train_loss"):
        true, claimed = float(abs(found[loss] - exact[loss].values).max()), float(found[f"{loss}_bound"].max())
        assert 1e-12 < true < claimed < 1e-4 * float(exact[loss].max())
    total = found.bias + found.width_variance + found.data_variance + found.noise
    np.testing.assert_allclose(total, found.test_loss, rtol=1e-11)


def test_gradient_flow_claims_no_less_than_its_error():
    found = gradient_flow(LinearNetwork(1, INF, 2.0), LinearTask(), 2.0, records=10, tolerance=1e-5).data
    error = float(abs(found.test_loss - two_layer_flow(2.0, np.linspace(0, 2, 11))).max())
    assert 1e-12 < error < float(found.test_loss_bound.max()) < 1e-5


def test_few_steps_are_taken_at_once():
    found = solve_long(LinearNetwork(1, 1.0), NOISY, 0.02, 80, records=10)
    assert "test_loss_bound" not in found.data
    np.testing.assert_array_equal(found.test_loss, solve(LinearNetwork(1, 1.0), NOISY, 0.02, 80).test_loss[::8])


@pytest.mark.slow
def test_infinite_depth_adds_its_own_error():
    network = LinearNetwork(INF, 1.0, branch=1.0, depth_scaled=True)
    found = solve_long(network, NOISY, 1e-3, 300, records=2, tolerance=1e-2).data
    alone = solve(network, NOISY, 0.3 / 8, 8).data
    assert float(found.test_loss_bound.max()) > 0.3 * float(alone.test_loss_bound.max())


def test_a_spoiled_coarse_value_is_left_out():
    steps = [1.0, 0.5, 1 / 3, 0.25, 1 / 6]
    values = [np.array([np.exp(-h)]) for h in steps]
    values[0] += 100.0
    value, error = best_polynomial(steps, values, 0.0, 1.0)
    assert abs(value - 1.0) < error < 0.05


FORMS = {
    "plain": (LinearNetwork(2, 1.0), NOISY),
    "residual": (LinearNetwork(3, 1.0, branch=1.0), NOISY),
    "continuous": (LinearNetwork(INF, 1.0, branch=1.0, depth_scaled=True), NOISY),
    "structured": (LinearNetwork(2, 64.0, centred=True), LinearTask(samples=64, spectrum=MODES)),
    "two outputs": (LinearNetwork(2, 1.0), LinearTask(samples=2.0, target=np.eye(2))),
}


@pytest.mark.parametrize("name", FORMS)
def test_memory_is_expected(name):
    network, task = FORMS[name]
    together = equations([network], [task], np.full((1, 40), 0.01), 3)
    found = sweep(together)
    bases: dict[int, int] = {}
    _collect([found.chain, found.block], bases)
    assert together.numbers() == pytest.approx(sum(bases.values()), rel=0.1)


def _collect(things, bases):
    """Sizes of all arrays that objects hold, views once."""
    for thing in things:
        if isinstance(thing, np.ndarray):
            while thing.base is not None:
                thing = thing.base
            bases[id(thing)] = thing.size
        elif isinstance(thing, list | tuple):
            _collect(thing, bases)
        elif type(thing).__module__.startswith("widefield.proportional"):
            _collect(vars(thing).values(), bases)


@pytest.mark.slow
def test_many_small_steps():
    network, task = LinearNetwork(2, 1.0, 2.0), LinearTask(samples=2.0)
    exact = solve(network, task, 0.15 / 24, 240).test_loss[::12]
    found = solve_long(network, task, 0.15 / 24, 240, records=20, tolerance=1e-5)
    error = np.abs(found.test_loss - exact)
    assert error.max() < 1e-5 * exact.max()
    assert error.max() < found.data.test_loss_bound.values.max() < 30 * error.max()
    np.testing.assert_allclose(found.data.step, np.arange(21) * 12.0, rtol=1e-12)
    few = solve_long(network, task, 0.05, 30, records=10)
    np.testing.assert_allclose(few.test_loss, solve(network, task, 0.05, 30).test_loss[::3], rtol=1e-13)


def test_many_small_steps_say_when_they_are_not_accurate(monkeypatch):
    monkeypatch.setattr(long_times, "_MOST", 60)
    with pytest.warns(NotAccurate, match="tolerance"):
        solve_long(LinearNetwork(1, 1.0), LinearTask(), 1e-4, 20000, records=10, tolerance=1e-15)
