"""Losses over learning rates at several widths: the best one, files, figures and the command."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import widefield as wf
from widefield.asking.best_rates import LearningRates
from widefield.cli.app import app

RATES = np.geomspace(0.02, 4.0, 6)


@pytest.fixture(scope="module")
def problem():
    return wf.Problem(
        wf.MLP(hidden_layers=1, activation="tanh", richness=1.0),
        wf.data.sphere(samples=5, dimension=6),
        optimiser=wf.SGD("auto", 12),
    )


@pytest.fixture(scope="module")
def found(problem):
    return wf.best_rate(problem, (16, math.inf), learning_rates=RATES, repetitions=2, progress=False)


def test_losses_are_those_of_the_runs(problem, found):
    """Of the networks that `solve` trains at these rates."""
    for place, rate in enumerate(RATES):
        asked = dataclasses.replace(problem, optimiser=wf.SGD(rate, 12))
        networks = wf.solve(asked, wf.FiniteWidth(16, seeds=2), throw=False)
        losses = networks.variable("loss").values
        if networks.status == "complete" and (losses[:, -1] < losses[:, 0]).all():
            assert float(found.data["loss"][0, place]) == pytest.approx(losses[:, -1].mean(), rel=1e-3)
            assert float(found.data["initial_loss"][0]) == pytest.approx(losses[0, 0])
    assert np.isnan(found.data["loss"].values[:, -1]).all()  # 4 is too much
    best = RATES[np.nanargmin(found.data["loss"].values[1])]
    assert 0.5 * best < found.rate < 2 * best


def test_files_figures_and_words(found, tmp_path):
    found.save(tmp_path / "rates.nc")
    again = wf.load(tmp_path / "rates.nc")
    assert again.problem == found.problem
    np.testing.assert_array_equal(again.optimal, found.optimal)
    assert "width N" in str(again)
    assert again.verdict
    left, right = again.plot().axes[:2]
    assert left.get_ylabel() == "training loss at the end"
    assert right.get_xlabel() == "width $N$"


def test_rates_are_found_out(problem):
    """Up to beyond the largest that trains, the best among them."""
    lazy = dataclasses.replace(problem, network=wf.MLP(1, "tanh", 0.0))
    found = wf.best_rate(lazy, steps=40, progress=False)
    limit = wf.stable_rate(lazy, steps=40)
    assert found.learning_rates[0] < 0.05 * limit.rate
    assert limit.rate < found.learning_rates[-1] < 2 * limit.rate
    assert not found.at_edge.any()
    assert found.data["loss"].notnull().sum() > 10
    assert float(found.data["loss_error"].max()) == 0  # the lazy limit has no scatter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": (64, 16)}, "widths = .* must increase"),
        ({"widths": (0,)}, "widths"),
        ({"learning_rates": [0.1, 0.2]}, "three or more"),
        ({"learning_rates": [0.1, 0.3, 0.2]}, "increasing"),
        ({"repetitions": 0}, "repetitions"),
    ],
)
def test_what_is_refused(problem, options, message):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.best_rate(problem, **options)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_command(problem, tmp_path):
    problem.to_toml(tmp_path / "p.toml")
    answer, figure = tmp_path / "rates.nc", tmp_path / "rates.png"
    rates = ["--learning-rates", "0.02,4,6", "--seeds", "2", "-o", answer, "--plot", figure]
    done = run("lr-transfer", tmp_path / "p.toml", "--values", "16,inf", *rates, "--quiet")
    assert done.exit_code == 0, done.output
    assert "largest that works" in done.output
    assert figure.exists()
    assert "best rate" in run("show", answer).output
    for wrong in (["--over", "depth"], ["--noise", "0.5"]):
        done = run("lr-transfer", tmp_path / "p.toml", "--values", "16,inf", *wrong)
        assert done.exit_code == 2, done.output
    assert run("lr-transfer", "--values", "1,2").exit_code == 2  # --steps of a linear network


def made(losses, errors):
    """Curves of widths 16 and infinity over these rates, made up."""
    rates = np.array([0.1, 0.2, 0.4, 0.8])
    data = xr.Dataset(
        {
            "loss": (("width", "rate"), np.array(losses)),
            "loss_error": (("width", "rate"), np.array(errors)),
            "initial_loss": ("width", [10.0, 10.0]),
        },
        {"width": [16.0, math.inf], "rate": rates},
    )
    problem = wf.Problem(wf.MLP(1), wf.data.sphere(samples=3, dimension=3), optimiser=wf.SGD(0.1, 5))
    return LearningRates(data, problem)


@pytest.mark.parametrize(
    ("first", "last", "error", "words"),
    [
        ([4, 2, 1, 3], [5, 2, 3, 9], 0.1, "width ∞ ends at 3 ± 0.1 instead of 2 ± 0.1: 1.5 times as much"),
        ([4, 2, 1, 3], [5, 2, 2.1, 9], 0.1, "ends at 2.1 ± 0.1 instead of 2 ± 0.1: no difference within error bars"),
        ([4, 2, 1, 3], [5, 3, 2.1, 9], 0.1, "ends at 2.1 ± 0.1, its own best"),
        ([4, 2, 1, 3], [5, 2, np.nan, np.nan], 0.1, "with the best rate of width 16, width ∞ diverges"),
        ([4, 2, 1, 3], [5, 2, 3, 9], np.nan, "ends at 3 instead of 2: error bars need more than one network"),
        ([4, 2, 1, 3], [5, 2, 3, 9], 0.0, "ends at 3 instead of 2: 1.5 times as much"),
    ],
)
def test_what_the_rate_of_another_width_costs(first, last, error, words):
    found = made([first, last], np.full((2, 4), error))
    assert words in found.verdict
    plain = super(LearningRates, found).verdict
    assert plain.startswith("it transfers: ")
    if "diverges" in words:
        assert found.verdict == f"it does not transfer: {words}; {plain.removeprefix('it transfers: ')}"
    else:
        assert found.verdict.startswith(f"{plain}; ")


def test_losses_have_error_bars_in_tables_and_figures(found):
    place = int(np.nanargmin(found.data["loss"].values[0]))
    error = float(found.data["loss_error"].values[0, place])
    assert error > 0
    assert f"{float(found.data['loss'][0, place]):.4g} ± {error:.1g}" in str(found)
    assert len(found.plot().axes[0].collections) == 2  # a band for each width
