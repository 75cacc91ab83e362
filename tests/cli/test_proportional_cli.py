"""The proportional limit on the command line, and its sentences."""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import widefield as wf
from problems import assert_same_data
from widefield import cli
from widefield.base.errors import Interrupted
from widefield.cli import options as options_module
from widefield.proportional import (
    Dynamics,
    LinearNetwork,
    LinearTask,
    RateSweep,
    lr_sweep,
    power_law,
    simulate,
    solve,
    solve_long,
    suggested_rates,
)


def run(monkeypatch, *arguments):
    """Call the entry point as the shell would; returns the exit code."""
    monkeypatch.setattr(sys, "argv", ["widefield", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# Rates and sentences


@pytest.mark.parametrize("parameterisation", ["mean-field", "ntk"])
@pytest.mark.parametrize("task", [LinearTask(), LinearTask(samples=2.0, noise=0.5)], ids=["population", "samples"])
def test_suggested_rates_hold_the_best_one(parameterisation, task):
    network, widths = LinearNetwork(2, 1.0, 2.0, parameterisation), (0.5, 4, math.inf)
    rates = suggested_rates(network, task, 12, values=widths)
    sweep = lr_sweep(network, task, rates, 12, values=widths)
    assert not sweep.at_edge.any()
    assert (sweep.largest < rates[-1]).all()
    assert len(suggested_rates(network, task, 12, values=widths, count=5)) == 5


def test_infinite_width_is_lazy_in_the_ntk_parameterisation():
    """Its loss is (1 + 1/gamma^2) (1 - 3 eta)^(2t) for two hidden layers, and that of large widths tends to it."""
    rates = np.array([0.05, 0.1, 0.2])
    sweep = lr_sweep(LinearNetwork(2, 1.0, 2.0, "ntk"), LinearTask(), rates, 3, values=(1e4, math.inf))
    np.testing.assert_allclose(sweep.data["loss"][1], 1.25 * (1 - 3 * rates) ** 6, rtol=1e-6)
    np.testing.assert_allclose(sweep.data["loss"][0], sweep.data["loss"][1], rtol=3e-3)


def test_sentences_name_the_largest_part():
    early = solve(LinearNetwork(2, 100.0), LinearTask(), 0.01, 2)
    narrow = solve(LinearNetwork(2, 0.1), LinearTask(), 0.001, 2)
    few = solve(LinearNetwork(2, 100.0, 0.1), LinearTask(samples=1.0, noise=2.0), 0.1, 40)
    assert "% of the test loss is bias" in early.verdict
    assert "stop there" not in early.verdict
    assert "% of the test loss is variance over networks" in narrow.verdict
    said = few.verdict
    assert f"{4 / few.test_loss[-1]:.0%} of the test loss is label noise" in said
    share = float(few.data["data_variance"][-1]) / (few.test_loss[-1] - 4)
    assert f"{share:.0%} of the rest variance over data sets" in said
    best = int(np.argmin(few.test_loss))
    assert f"it was lowest at time {0.1 * best:.3g}, {few.test_loss[best]:.4g}: stop there" in said


# Commands


def test_losses_on_the_command_line(tmp_path, monkeypatch, capsys):
    output, figure = tmp_path / "run.nc", tmp_path / "run.pdf"
    options = (
        "--hidden-layers",
        3,
        "--width",
        1.0,
        "--learning-rate",
        0.05,
        "--steps",
        16,
        "--samples",
        2,
        "--noise",
        0.5,
    )
    extra = ("--simulate", 20, "--seeds", 6, "-o", output, "--plot", figure, "-q")
    assert run(monkeypatch, "proportional", *options, *extra) == 0
    printed = capsys.readouterr().out
    network, task = LinearNetwork(3, 1.0), LinearTask(samples=2.0, noise=0.5)
    direct = solve(network, task, 0.05, 16)
    loaded = Dynamics.load(output)
    assert (loaded.network, loaded.task) == (network, task)
    assert_same_data(direct.data, loaded.data)
    trained = Dynamics.load(tmp_path / "run-networks.nc")
    assert_same_data(simulate(network, task, 0.05, 16, dimension=20, seeds=6).data, trained.data)
    mean, error = (float(trained.data[name][-1]) for name in ("test_loss", "test_loss_error"))
    assert f"{mean:.4g} ± {error:.1g}  {abs(mean - direct.test_loss[-1]) / error:.1f}" in printed
    assert f"{float(direct.data['width_variance'][8]):.4g}" in printed
    assert direct.verdict in printed
    assert figure.read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize(
    ("options", "network", "task"),
    [
        (("--widths", "0.5,1,2"), LinearNetwork(3, (0.5, 1.0, 2.0)), LinearTask()),
        (
            ("--batch-size", 2, "--centred", "--width", 1),
            LinearNetwork(2, 1.0, centred=True),
            LinearTask(batch_size=2.0),
        ),
        (("--richness", 2, "--parameterisation", "ntk", "--width", 4), LinearNetwork(2, 4.0, 2.0, "ntk"), LinearTask()),
        (
            ("--hidden-layers", "inf", "--branch", 1.2, "--depth-scaled", "--width", "inf"),
            LinearNetwork(math.inf, math.inf, branch=1.2, depth_scaled=True),
            LinearTask(),
        ),
        (
            ("--power-law", "1.5,0.5,30", "--width", 16),
            LinearNetwork(2, 16.0),
            LinearTask(spectrum=power_law(1.5, 0.5, 30)),
        ),
    ],
)
def test_options_become_the_network_and_task(options, network, task, tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    assert run(monkeypatch, "proportional", *options, "--learning-rate", 0.05, "--steps", 4, "-q", "-o", output) == 0
    loaded = Dynamics.load(output)
    assert (loaded.network, loaded.task) == (network, task)


def test_long_runs(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    options = ("--width", 2, "--richness", 0.5, "--learning-rate", 0.002, "--steps", 500, "--long")
    assert run(monkeypatch, "proportional", *options, "-q", "-o", output) == 0
    direct = solve_long(LinearNetwork(2, 2.0, 0.5), LinearTask(), 0.002, 500)
    assert_same_data(direct.data, Dynamics.load(output).data)
    assert "500" in capsys.readouterr().out


def test_interrupted_networks_are_saved_with_the_theory(tmp_path, monkeypatch, capsys):
    train = wf.proportional.simulate

    def interrupted(*arguments, **options):
        raise Interrupted("interrupted after 3 of 8 networks", train(*arguments, **{**options, "seeds": 3}))

    monkeypatch.setattr("widefield.proportional.simulate", interrupted)
    output = tmp_path / "run.nc"
    options = ("--learning-rate", 0.05, "--steps", 5, "--width", 1, "--samples", 2, "--simulate", 20, "--seeds", 8)
    assert run(monkeypatch, "proportional", *options, "-o", output, "-q") == 130
    assert "after 3 of 8 networks" in capsys.readouterr().err
    assert Dynamics.load(output).test_loss.shape == (6,)
    assert np.isfinite(Dynamics.load(tmp_path / "run-networks.nc").test_loss).all()


@pytest.mark.filterwarnings("ignore::widefield.NotAccurate")  # so near the limit small networks are far off
def test_divergence_names_the_rate_to_use(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    options = ("--width", 1, "--learning-rate", 0.9, "--steps", 20, "--simulate", 8)
    assert run(monkeypatch, "proportional", *options, "-q", "-o", output) == 1
    said = capsys.readouterr().err
    assert Dynamics.load(output).diverged == 4
    assert "exploded at step 4" in said
    limit = float(said.rsplit("is ", 1)[1])
    task, network = LinearTask(), LinearNetwork(2, 1.0)
    works, fails = (solve(network, task, factor * limit, 20, throw=False).test_loss[-1] for factor in (0.97, 1.03))
    assert works < 2.0 <= np.nan_to_num(fails, nan=np.inf)
    assert not (tmp_path / "run-networks.nc").exists()


def test_transfer_on_the_command_line(tmp_path, monkeypatch, capsys):
    output, figure = tmp_path / "sweep.nc", tmp_path / "sweep.png"
    options = ("--over", "width", "--values", "0.5,2,inf", "--richness", 4, "--parameterisation", "ntk", "--steps", 9)
    extra = ("--simulate", 12, "--seeds", 3, "--plot", figure, "-o", output, "-q")
    assert run(monkeypatch, "lr-transfer", *options, *extra) == 0
    printed = capsys.readouterr().out
    sweep, trained = RateSweep.load(output), RateSweep.load(tmp_path / "sweep-networks.nc")
    assert sweep.verdict in printed
    assert "width N/D" in printed
    assert not sweep.at_edge.any()
    assert list(sweep.values) == [0.5, 2, math.inf]
    assert list(trained.values) == [0.5, 2]
    assert set(trained.learning_rates) <= set(sweep.learning_rates)
    for best, largest in zip(sweep.optimal, sweep.largest, strict=True):
        assert f"{best:.4g}" in printed
        assert f"{largest:.4g}" in printed
    below = trained.learning_rates[trained.learning_rates <= sweep.optimal[1]][-1]
    mean, error = (float(trained.data[name].sel(width=2, rate=below)) for name in ("loss", "loss_error"))
    theory = float(sweep.data["loss"].sel(width=2, rate=below))
    assert f"{theory:.4g}  {mean:.4g} ± {error:.1g}  {abs(mean - theory) / error:.1f}" in printed
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_transfer_over_depth(tmp_path, monkeypatch, capsys):
    output = tmp_path / "sweep.nc"
    options = ("--over", "depth", "--values", "1,2,inf", "--width", 4, "--branch", 1, "--depth-scaled")
    assert (
        run(monkeypatch, "lr-transfer", *options, "--steps", 5, "--learning-rates", "0.02,0.5,6", "-o", output, "-q")
        == 0
    )
    sweep = RateSweep.load(output)
    assert [network.hidden_layers for network in sweep.networks] == [1, 2, math.inf]
    np.testing.assert_allclose(sweep.learning_rates, np.geomspace(0.02, 0.5, 6))
    printed = capsys.readouterr().out
    assert sweep.verdict in printed
    assert "depth (hidden layers)" in printed


def test_widths_are_neurons_where_inputs_have_a_dimension(monkeypatch, capsys):
    """And a sweep that reaches from narrow to wide is nobody's mistake."""
    options = ("lr-transfer", "--over", "width", "--steps", 3, "--learning-rates", "0.02,0.5,4", "-q")
    assert run(monkeypatch, *options, "--values", "16,64", "--power-law", "1.5,0.5,20") == 0
    assert "width N " in capsys.readouterr().out
    assert run(monkeypatch, *options, "--values", "1,64") == 0


def test_rates_that_all_fail_and_rates_that_are_too_small(monkeypatch, capsys):
    options = ("lr-transfer", "--over", "width", "--values", "1,2", "--steps", 19, "-q")
    assert run(monkeypatch, *options, "--learning-rates", "10,20,4") == 1
    caught = capsys.readouterr()
    assert "none works" in caught.out
    assert "diverges at all rates" in caught.err
    assert run(monkeypatch, *options, "--learning-rates", "0.001,0.01,4") == 0
    printed = capsys.readouterr().out
    assert "0.01 (edge)" in printed
    assert "cannot tell" in printed


OLD_OPTIONS = {
    "proportional": (
        ("--hidden-layers", 1, "--width", 1, "--batch-size", 2, "--learning-rate", 0.05, "--steps", 2),
        ("--layers", 1, "--width", 1, "--batch", 2, "--rate", 0.05, "--steps", 2),
    ),
    "lr-transfer": (
        ("--over", "width", "--values", "1,2", "--hidden-layers", 1, "--learning-rates", "0.01,0.1,3", "--steps", 2),
        ("--over", "width", "--values", "1,2", "--layers", 1, "--rates", "0.01,0.1,3", "--steps", 2),
    ),
}


@pytest.mark.parametrize("command", OLD_OPTIONS)
def test_old_options(command, tmp_path, monkeypatch, capsys):
    answers = []
    for index, (options, networks) in enumerate(zip(OLD_OPTIONS[command], ("--seeds", "--networks"), strict=True)):
        output = tmp_path / f"{index}.nc"
        given = (*options, "--simulate", 4, networks, 3, "-q", "-o", output)
        assert run(monkeypatch, command, *given) == 0
        told = capsys.readouterr().err
        answers.append([wf.load(path).data for path in (output, output.with_stem(f"{index}-networks"))])
        for old, new in options_module.OLD_OPTIONS[command].items():
            assert (f"note: {old} is now called {new}" in told) == (old in given)
    for one, two in zip(*answers, strict=True):
        assert_same_data(one, two)


RUN = ("proportional", "--learning-rate", 0.05, "--steps", 4)
SWEEP = ("lr-transfer", "--steps", 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RUN, "--width=-1"), "width = -1.0 must be > 0"),
        ((*RUN, "--width", 0), "width = 0.0"),
        ((*RUN, "--width", "nan"), "not a finite number"),
        ((*RUN, "--width", 1, "--widths", "1,2"), "exclude each other"),
        ((*RUN, "--widths", "1,wide"), "separated by commas"),
        ((*RUN, "--widths", "1,2", "--hidden-layers", 3), "one entry for each of 3"),
        ((*RUN, "--hidden-layers", 0), "hidden_layers = 0"),
        ((*RUN, "--hidden-layers", 1.5), "hidden_layers = 1.5"),
        ((*RUN, "--hidden-layers", "inf"), "depth_scaled"),
        ((*RUN, "--samples=-2"), "samples = -2.0"),
        ((*RUN, "--samples", 1, "--batch-size", 1), "--samples and --batch-size exclude each other"),
        ((*RUN, "--noise=-1"), "noise = -1.0"),
        ((*RUN, "--richness", 0), "richness = 0.0"),
        ((*RUN, "--parameterisation", "ntks"), "did you mean 'ntk'"),
        ((*RUN, "--power-law", "1.5,0.5,0"), "modes = 0"),
        ((*RUN, "--power-law", "1.5,0.5"), "capacity,source,modes"),
        ((*RUN, "--power-law", "0.5,0.5,10"), "capacity = 0.5"),
        ((*RUN, "--simulate", 10), "must be finite"),
        ((*RUN, "--width", 1, "--simulate", 10, "--seeds", 1), "seeds = 1"),
        ((*RUN, "--plot", "figure.xyz"), "png, pdf or svg"),
        ((*RUN, "--output", "none/run.nc"), "does not exist"),
        ((*RUN, "--output", "taken.nc"), "--overwrite"),
        ((*RUN, "--plot", "taken.nc"), "--overwrite"),
        (("proportional", "--learning-rate=-1", "--steps", 4), "learning_rate = -1"),
        (("proportional", "--learning-rate", 0.1, "--steps", 0), "steps = 0"),
        ((*SWEEP, "--over", "height", "--values", "1,2"), "known: depth, width"),
        ((*SWEEP, "--over", "width", "--values", "2,1"), "must increase"),
        ((*SWEEP, "--over", "width", "--values", "-1,1"), "width = -1"),
        ((*SWEEP, "--over", "width", "--values", ""), "separated by commas"),
        ((*SWEEP, "--over", "width", "--values", "64,128"), "widths are over the input dimension, N/D"),
        ((*SWEEP, "--over", "width", "--values", "16,inf"), "divide numbers of neurons by D"),
        ((*SWEEP, "--over", "width", "--values", "0.5,4", "--power-law", "1.5,0.5,100"), "numbers of neurons N"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--width", 2), "leave --width out"),
        ((*SWEEP, "--over", "depth", "--values", "1,2", "--hidden-layers", 2), "leave --hidden-layers out"),
        ((*SWEEP, "--over", "depth", "--values", "1,2.5", "--width", 1), "hidden_layers = 2.5"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--learning-rates", "0.1,0.01,5"), "increase"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--learning-rates", "0.1,1"), "lowest,highest,count"),
        ((*SWEEP, "--over", "width", "--values", "inf", "--simulate", 8), "needs a finite width"),
        ((*SWEEP, "--over", "width", "--values", "0.01,1", "--simulate", 8), "too small"),
    ],
)
def test_mistakes_are_one_clear_line_and_nothing_is_written(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.nc").write_text("mine")
    files = () if "--output" in arguments else ("--output", "run.nc")
    assert run(monkeypatch, *arguments, *files, "-q") == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken.nc"]
    assert (tmp_path / "taken.nc").read_text() == "mine"


def test_overwrite(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    output.write_text("old")
    assert run(monkeypatch, *RUN, "-o", output, "--overwrite", "-q") == 0
    assert len(Dynamics.load(output).test_loss) == 5


def test_doubts_about_accuracy_are_told(monkeypatch, capsys):
    """Losses of stiff problems that extrapolation cannot tell from zero become bounds."""
    monkeypatch.setattr("widefield.proportional.long_times._MOST", 60)
    options = ("--width", 2, "--richness", 0.5, "--samples", 3, "--learning-rate", 0.01, "--steps", 1000, "--long")
    assert run(monkeypatch, "proportional", *options, "-q") == 0
    printed = capsys.readouterr().out
    assert "note: losses at small steps are known to" in printed
    assert "< 0.0" in printed
    assert "-0." not in printed
    assert "below what extrapolation can tell" in printed
