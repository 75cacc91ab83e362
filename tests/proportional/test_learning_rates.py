"""Which learning rates work in the proportional limit, and whether they transfer over width and depth."""

import math

import numpy as np
import pytest

from widefield.base.errors import Interrupted, InvalidInput
from widefield.proportional import (
    LinearNetwork,
    LinearTask,
    largest_stable_rate,
    lr_sweep,
    simulated_sweep,
    solve_many,
    transfer,
)
from widefield.proportional.closed_forms import two_layer_losses
from widefield.proportional.stability import lazy_limit, rich_limit

INF = math.inf
WIDTHS = (0.5, 1, 2, 4, 8, 16, 64)
RATES = np.geomspace(0.004, 1, 33)
WIDE = {
    "ntk": (0.045, 0.075, 0.106, 0.150, 0.212, 0.252, 0.252),
    "mean-field": (0.075, 0.075, 0.075, 0.063, 0.063, 0.063, 0.063),
}


@pytest.mark.parametrize("parameterisation", WIDE)
def test_transfer_over_widths(parameterisation):
    """BP25 Figure 2: the optimal rate moves in the NTK parameterisation and stays in the mean-field one."""
    sweep = lr_sweep(LinearNetwork(2, 1.0, 4.0, parameterisation), LinearTask(), RATES, 19, values=WIDTHS)
    step = RATES[1] / RATES[0]  # known are the best of these rates, and a parabola moves by half a step at most
    assert (np.abs(np.log(sweep.optimal / WIDE[parameterisation])) < 0.53 * math.log(step)).all()
    if parameterisation == "ntk":
        assert sweep.spread > 5
        assert (np.diff(sweep.optimal) > 0).all()
        assert "does not transfer" in sweep.verdict or "settles" in sweep.verdict
    else:
        assert sweep.spread < 1.2
        assert sweep.verdict.startswith("it transfers: the optimal rate spreads by a factor 1.")


def test_wider_is_better_or_slower():
    """Loss at one rate after 19 steps, against the width."""
    known = {
        "ntk": (0.0080, 0.0172, 0.0327, 0.0552, 0.0778, 0.0943, 0.1098),
        "mean-field": (0.0810, 0.0172, 0.0044, 0.0014, 0.0006, 0.0003, 0.0001),
    }
    for parameterisation, losses in known.items():
        networks = [LinearNetwork(2, width, 4.0, parameterisation) for width in WIDTHS]
        found = solve_many(networks, [LinearTask()] * 7, np.full((7, 19), RATES[9])).test[:, -1]
        np.testing.assert_allclose(found, losses, rtol=0, atol=5e-5)


def test_no_transfer_over_depths_with_branches_of_fixed_scale():
    """BP25 Figure 5a."""
    network = LinearNetwork(2, 4.0, branch=1.0)
    sweep = lr_sweep(network, LinearTask(), np.geomspace(3e-4, 1, 60), 14, over="depth", values=(2, 4, 8))
    np.testing.assert_allclose(sweep.optimal, (0.151, 0.024, 0.00095), rtol=0.15)
    assert sweep.spread > 150
    assert sweep.verdict.startswith("it does not transfer")


@pytest.mark.slow
def test_transfer_over_depths_with_scaled_branches():
    """BP25 Figure 5b: settling with depth, infinite depth included."""
    network = LinearNetwork(2, 4.0, branch=1.25, depth_scaled=True)
    sweep = lr_sweep(
        network, LinearTask(), np.geomspace(0.01, 0.5, 33), 14, over="depth", values=(2, 4, 8, 16, 32, INF)
    )
    np.testing.assert_allclose(sweep.optimal[:5], (0.190, 0.095, 0.060, 0.048, 0.038), rtol=0.13)
    assert sweep.optimal[0] / sweep.optimal[2] < 3.2
    assert sweep.optimal[2] / sweep.optimal[4] < 1.6
    assert sweep.optimal[4] / sweep.optimal[5] < 1.2
    assert sweep.verdict.startswith("it settles")


def optima_of_networks(network, rates, steps, dimension, seeds, **varied):
    """A sweep of networks, and how far at most its optimal rates are from those of the theory, in steps."""
    theory = lr_sweep(network, LinearTask(), rates, steps, **varied)
    networks = simulated_sweep(network, LinearTask(), rates, steps, dimension=dimension, seeds=seeds, **varied)
    apart = np.abs(np.log(networks.optimal / theory.optimal)) / math.log(rates[1] / rates[0])
    return networks, apart.max()


@pytest.mark.slow
@pytest.mark.parametrize("parameterisation", WIDE)
def test_networks_have_the_same_optima_over_widths(parameterisation):
    rates = np.geomspace(0.02, 0.4, 13)
    network = LinearNetwork(2, 1.0, 4.0, parameterisation)
    networks, apart = optima_of_networks(network, rates, 19, 96, 12, values=(0.5, 1, 2, 4))
    assert apart < 0.45
    assert networks.spread < 1.1 if parameterisation == "mean-field" else networks.spread > 2.5


@pytest.mark.parametrize(("branch", "scaled", "rates"), [(1.0, False, (4e-4, 0.6)), (1.25, True, (0.02, 0.4))])
def test_networks_have_the_same_optima_over_depths(branch, scaled, rates):
    network = LinearNetwork(2, 4.0, branch=branch, depth_scaled=scaled)
    depths = (2, 4, 8)
    networks, apart = optima_of_networks(network, np.geomspace(*rates, 14), 14, 32, 6, over="depth", values=depths)
    assert apart < (0.7 if scaled else 1.5)  # of fixed scale, rates from one to the next differ by 1.75
    assert networks.spread < 3 if scaled else networks.spread > 50


LAZY = {
    "population": (LinearNetwork(2, INF, 1e-5), LinearTask()),
    "training set": (LinearNetwork(1, INF, 1e-5), LinearTask(samples=2)),
    "fresh samples": (LinearNetwork(2, INF, 1e-5), LinearTask(batch_size=1)),
    "residual": (LinearNetwork(4, INF, 1e-5, branch=0.7), LinearTask()),
    "finite width": (LinearNetwork(1, 0.5, 1e-3, centred=True), LinearTask()),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_stability_limits(name):
    """To the tolerance of the search, 0.5%; edges of a continuous spectrum need more than 100 steps to be seen."""
    network, task = LAZY[name]
    allowed = 0.03 if name in ("training set", "finite width") else 0.0025
    assert largest_stable_rate(network, task, 100) == pytest.approx(lazy_limit(network, task), rel=allowed)


def test_lazy_limits_in_numbers():
    assert lazy_limit(*LAZY["training set"]) == pytest.approx(0.3431, abs=5e-5)
    assert lazy_limit(*LAZY["finite width"]) == pytest.approx(0.2929, abs=5e-5)
    deep = LinearNetwork(INF, INF, branch=1.0, depth_scaled=True)
    assert lazy_limit(deep, LinearTask()) == pytest.approx(2 / (3 * math.e))
    assert lazy_limit(LinearNetwork(2, 1.0), LinearTask()) is None


@pytest.mark.parametrize(
    ("layers", "richness", "known"),
    [(2, 4.0, 0.105), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, 8.0, 0.0417), (3, 4.0, 0.0625)))],
)
def test_rich_stability_limits(layers, richness, known):
    network = LinearNetwork(layers, INF, richness)
    assert rich_limit(network) == pytest.approx(known, rel=3e-3)
    assert largest_stable_rate(network, LinearTask(), 150, reduction=1e-2) == pytest.approx(known, rel=0.05)


@pytest.mark.parametrize(("width", "known"), [(1, 0.0066), (16, 0.0417), (64, 0.105)])
def test_rich_stability_limits_of_finite_widths(width, known):
    """Converges at 0.9 of the limit and not at the limit."""
    network = LinearNetwork(2, width, 32.0, "ntk")
    assert rich_limit(network) == pytest.approx(known, rel=0.01)
    rates = np.array([0.9, 0.95, 1.0]) * rich_limit(network)
    losses = solve_many([network] * 3, [LinearTask()] * 3, np.repeat(rates[:, None], 159, axis=1)).test[:, -1]
    assert (losses[:2] < 3.5e-4).all()
    assert not losses[2] < 1e-3


@pytest.mark.parametrize(
    ("richness", "known"),
    [
        (0.01, 1.976),
        pytest.param(0.5, 1.646, marks=pytest.mark.slow),
        (1.0, 0.989),
        pytest.param(2.0, 0.495, marks=pytest.mark.slow),
        pytest.param(5.0, 0.198, marks=pytest.mark.slow),
        pytest.param(10.0, 0.0993, marks=pytest.mark.slow),
    ],
)
def test_catapults_of_two_layers(richness, known):
    """Beyond 2/K0 = 1 training may converge after a burst, up to about 4/K0; in closed form, along the target."""
    with np.errstate(all="ignore"):
        losses = [two_layer_losses(richness, factor * known, 2000)[-1] for factor in (0.99, 1.03)]
    assert losses[0] < 1e-4
    assert not losses[1] < 1e-4
    if richness in (1, 10):
        found = largest_stable_rate(LinearNetwork(1, INF, richness), LinearTask(), 150, reduction=1e-2)
        assert found == pytest.approx(known, rel=0.05)


@pytest.mark.slow
def test_largest_stable_rate_over_widths():
    """BP25 Figure 7: rises and saturates in the NTK parameterisation, flat in the mean-field one."""
    known = {"ntk": {1: 0.096, 4: 0.235, 16: 0.49, 64: 0.736, 256: 1.02}, "mean-field": {1: 0.096, 256: 0.096}}
    rates = np.geomspace(0.05, 1.2, 40)
    schedules = np.repeat(rates[:, None], 99, axis=1)
    for parameterisation, limits in known.items():
        for width, limit in limits.items():
            network = LinearNetwork(2, width, 4.0, parameterisation)
            test = solve_many([network] * 40, [LinearTask()] * 40, schedules).test
            assert rates[test[:, -1] < 1e-3 * test[:, 0]].max() == pytest.approx(limit, rel=3e-3)


@pytest.mark.slow
def test_first_failure_over_widths():
    """The same by search; near the edge success and failure alternate within some per cent."""
    for width, limit in ((1, 0.096), (16, 0.49)):
        network = LinearNetwork(2, width, 4.0, "ntk")
        found = largest_stable_rate(network, LinearTask(), 99, reduction=1e-3, low=0.03, high=1.6)
        assert found == pytest.approx(limit, rel=0.05)


def test_interrupted_sweeps_keep_what_there_is(monkeypatch):
    rates = np.geomspace(0.02, 0.2, 4)
    run, calls = transfer.simulate, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        found = run(*arguments, **options)
        if len(calls) == 6:
            raise Interrupted("interrupted", found)
        return found

    monkeypatch.setattr(transfer, "simulate", interrupted)
    with pytest.raises(Interrupted, match=r"width 2, rate 0\.0431") as caught:
        simulated_sweep(LinearNetwork(1, 1.0), LinearTask(), rates, 4, values=(1, 2), dimension=12, seeds=3)
    losses = caught.value.trajectory.data.loss.values
    assert np.isfinite(losses[0]).all()
    assert np.isfinite(losses[1]).tolist() == [True, False, False, False]


def test_progress_of_searches(capsys):
    largest_stable_rate(LinearNetwork(1, INF, 1e-5), LinearTask(), 20, progress=True)
    assert "20/20 steps" in capsys.readouterr().err


def test_verdict_when_the_optimum_is_not_in_range():
    sweep = lr_sweep(LinearNetwork(1, 1.0), LinearTask(), [0.001, 0.002, 0.003], 5, values=(1, 2))
    assert sweep.at_edge.all()
    assert sweep.verdict.startswith("cannot tell")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.1, 0.2, 0.3], 5), {}, "values is empty: give at least one width"),
        (([0.1, 0.2, 0.3], 5), {"over": "richness", "values": (1,)}, "unknown over 'richness'"),
        (([0.1, 0.2, 0.3], 5), {"values": ()}, "values is empty"),
        (([0.1, 0.2, 0.3], 5), {"values": (2, 1)}, "must increase"),
        (([0.1, 0.2, 0.3], 5), {"values": (-1, 1)}, "width = -1 must be > 0"),
        (([0.3, 0.2, 0.1], 5), {"values": (1,)}, "rates must be"),
        (([0.1, 0.2], 5), {"values": (1,)}, "rates must be"),
        (([-0.1, 0.2, 0.3], 5), {"values": (1,)}, "rates must be"),
        (([0.1, 0.2, 0.3], 0), {"values": (1,)}, "steps = 0"),
    ],
)
def test_bad_sweeps(arguments, options, message):
    with pytest.raises(InvalidInput, match=message):
        lr_sweep(LinearNetwork(1, 1.0), LinearTask(), *arguments, **options)


def test_bad_searches():
    network = LinearNetwork(1, INF, 1e-5)
    with pytest.raises(InvalidInput, match=r"high = 0\.5: training works"):
        largest_stable_rate(network, LinearTask(), 20, high=0.5)
    with pytest.raises(InvalidInput, match="training fails at all rates"):
        largest_stable_rate(network, LinearTask(), 20, low=1.5, high=3.0)
