"""Figures of the proportional limit."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from problems import small_sweep
from widefield.base.errors import InvalidInput
from widefield.proportional import LinearNetwork, LinearTask, lr_sweep, plots, simulate, simulated_sweep, solve


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_loss_plot():
    task = LinearTask(samples=2.0, noise=0.5)
    answers = [solve(LinearNetwork(2, nu), task, 0.05, 10) for nu in (0.5, 2.0)]
    networks = simulate(answers[0].network, task, 0.05, 10, dimension=10, seeds=4)
    axes = plots.losses(*answers, simulated=networks)
    assert axes.get_yscale() == "log"
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert labels(axes) == [r"$\nu$ = 0.5", r"$\nu$ = 2", "test", "training", "networks, ± 2 errors"]
    solid = next(line for line in axes.lines if line.get_label() == r"$\nu$ = 2")
    np.testing.assert_array_equal(solid.get_ydata(), answers[1].test_loss)
    assert len(axes.containers) == 2  # test and training losses of the networks
    assert plots.losses(answers[0], axes=axes) is axes


def test_loss_plot_of_the_population_has_one_curve_and_marks_divergence():
    diverging = solve(LinearNetwork(2, 1.0), LinearTask(), 3.0, 9, throw=False)
    axes = plots.losses(diverging)
    assert [line.get_marker() for line in axes.lines] == ["None", "x"]
    assert labels(axes) == ["diverges"]
    with pytest.raises(InvalidInput, match="at least one"):
        plots.losses()
    with pytest.raises(InvalidInput, match="2 labels"):
        plots.losses(diverging, labels=["a", "b"])


def test_fresh_samples_have_one_loss():
    axes = plots.losses(solve(LinearNetwork(2, 1.0), LinearTask(batch_size=1.0), 0.05, 5))
    assert len(axes.lines) == 1


def test_split_plot_shows_the_parts_that_there_are():
    axes = plots.split(solve(LinearNetwork(2, 1.0), LinearTask(samples=2.0), 0.05, 10))
    assert labels(axes) == ["test loss", "bias", "variance over networks", "variance over data sets"]
    total = sum(np.nan_to_num(line.get_ydata()) for line in axes.lines[1:])
    np.testing.assert_allclose(total, axes.lines[0].get_ydata(), rtol=1e-12)
    with pytest.raises(InvalidInput, match="do not split"):
        plots.split(simulate(LinearNetwork(1, 1.0), LinearTask(), 0.05, 2, dimension=4, seeds=2))


def test_transfer_plot():
    sweep = small_sweep()
    options = {"values": (0.5, 2), "dimension": 8, "seeds": 3}
    networks = simulated_sweep(sweep.networks[0], sweep.task, sweep.learning_rates[:3], 9, **options)
    left, right = plots.transfer(sweep, networks)
    assert left.figure.get_suptitle().replace(",\n", ", ").replace("∞", "inf") == sweep.verdict
    assert labels(right)[:3] == ["0.5", "2", "∞"]
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["0.5", "2", "∞"]
    assert right.get_xticks()[-1] > 2
    best = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "*"]
    np.testing.assert_array_equal(best, sweep.optimal)
    assert len(left.containers) == 2
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in (left, right))
    with pytest.raises(InvalidInput, match="no errors"):
        plots.transfer(networks, sweep)
    other = lr_sweep(LinearNetwork(2, 1.0), LinearTask(), sweep.learning_rates, 9, values=(1, 2))
    with pytest.raises(InvalidInput, match=r"width = 0.5, which the sweep has not"):
        plots.transfer(other, networks)
    depths = lr_sweep(LinearNetwork(1, 1.0), LinearTask(), sweep.learning_rates, 5, over="depth", values=(1, 2))
    with pytest.raises(InvalidInput, match="over depth"):
        plots.transfer(sweep, depths)
