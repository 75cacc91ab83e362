"""Power laws of the loss: exponents from balanced layers, from the proportional limit and from networks."""

import math

import numpy as np
import pytest

from widefield.base.errors import InvalidInput
from widefield.proportional import LinearNetwork, LinearTask, power_law, solve
from widefield.proportional.scaling import balanced_flow, kernel_exponent, local_exponent, loss_exponent


def test_exponents():
    assert [loss_exponent(0.5, L) for L in (1, 2, 4)] == pytest.approx([2 / 3, 3 / 4, 5 / 6])
    assert [kernel_exponent(0.5, L) for L in (1, 2, 4)] == pytest.approx([1 / 3, 1 / 2, 2 / 3])
    assert loss_exponent(0.3, 1) == pytest.approx(2 * 0.3 / 1.3)
    assert loss_exponent(0.5, math.inf) == pytest.approx(1)
    assert loss_exponent(1.5, 4) == 1.5
    assert loss_exponent(0.5, 3, lazy=True) == 0.5
    assert kernel_exponent(1.5, 2) == 0


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_balanced_layers_hard_task(layers):
    """Local exponents of 1e8 modes, where they have settled."""
    time = np.geomspace(1, 1e5, 51)
    found = balanced_flow(power_law(1.5, 0.5, 10**8, bins=120), layers, time)
    settled = slice(25, 36)
    exponents = local_exponent(time, found.loss)[settled]
    assert np.abs(exponents - loss_exponent(0.5, layers)).max() < 0.01
    growth = -local_exponent(time, found.kernel)[settled]
    assert np.abs(growth - kernel_exponent(0.5, layers)).max() < 0.02


def test_balanced_layers_other_sources():
    time = np.geomspace(1, 1e5, 51)
    for source, layers, tolerance in ((0.3, 1, 0.01), (0.3, 2, 0.02), (0.8, 1, 0.02), (1.5, 1, 0.01), (1.5, 2, 0.02)):
        found = balanced_flow(power_law(1.5, source, 10**8, bins=120), layers, time)
        exponent = local_exponent(time, found.loss)[35]
        assert exponent == pytest.approx(loss_exponent(source, layers), abs=tolerance)


@pytest.mark.parametrize(
    ("layers", "rate", "steps", "tolerance"), [(1, 0.05, 160, 0.015), (2, 0.02, 120, 0.02), (4, 0.008, 70, 0.06)]
)
def test_exponents_of_the_limit_depend_on_depth(layers, rate, steps, tolerance):
    """Rich networks of infinite width: the loss falls faster with depth, by the law of balanced layers."""
    task = LinearTask(spectrum=power_law(1.5, 0.3, 10**5, bins=60))
    found = solve(LinearNetwork(layers, math.inf, 4.0, centred=True), task, rate, steps)
    exponents = local_exponent(found.data.time.values[1:], found.test_loss[1:])
    late = exponents[steps // 2 :]
    assert late.mean() == pytest.approx(loss_exponent(0.3, layers), abs=tolerance)
    assert late.std() < 0.01


def test_lazy_exponent_of_the_limit():
    spectrum = power_law(1.5, 0.5, 10**5, bins=60)
    found = solve(LinearNetwork(1, math.inf, 1e-3, centred=True), LinearTask(spectrum=spectrum), 0.4, 150)
    exponent = local_exponent(found.data.time.values[1:], found.test_loss[1:])
    assert exponent[60:120].mean() == pytest.approx(loss_exponent(0.5, 1, lazy=True), abs=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: loss_exponent(-0.5, 1), "source"),
        (lambda: loss_exponent(0.5, 0), "hidden_layers"),
        (lambda: local_exponent([1.0, 2.0], [1.0, 2.0]), "3 or more"),
        (lambda: local_exponent([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), "positive"),
        (lambda: balanced_flow(power_law(1.5, 0.5, 10), 1, np.array([2.0, 1.0])), "increase"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
