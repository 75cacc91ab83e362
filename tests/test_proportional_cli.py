"""The proportional limit as a user meets it: commands, files, figures, sentences."""

import math
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import widefield as wf
from widefield import cli
from widefield.errors import FileProblem, InvalidInput
from widefield.proportional import (
    Dynamics,
    LinearNetwork,
    LinearTask,
    RateSweep,
    Spectrum,
    gradient_flow,
    lr_sweep,
    plots,
    power_law,
    simulate,
    simulated_sweep,
    solve,
    solve_long,
    suggested_rates,
    words,
)

GRAM = np.array([[2.0, 0.5], [0.5, 1.0]])
NETWORKS = {
    "infinite": LinearNetwork(2),
    "unequal": LinearNetwork(3, (0.1, 1 / 3, 2.0), centred=True),
    "residual": LinearNetwork(2, 2.0, branch=0.7),
    "infinitely deep": LinearNetwork(math.inf, 2.0, branch=1.2, depth_scaled=True),
    "ntk": LinearNetwork(1, 0.7, 1 / 7, "ntk"),
}
TASKS = {
    "population": LinearTask(),
    "samples": LinearTask(samples=1 / 3, noise=0.3),
    "batch": LinearTask(batch=2.0),
    "several outputs": LinearTask(target=GRAM),
    "bins": LinearTask(spectrum=power_law(1.5, 0.5, 1000, bins=7)),
    "coefficients": LinearTask(spectrum=Spectrum([1.0, 0.3], [[1.0, 2.0], [3.0, 4.0]], [1, 5])),
}


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


def assert_same_data(one, other):
    assert set(one.variables) == set(other.variables)
    for name, value in one.variables.items():
        assert value.dims == other.variables[name].dims
        assert value.dtype == other.variables[name].dtype
        np.testing.assert_array_equal(value.values, other.variables[name].values)
    assert one.attrs.items() <= other.attrs.items()


# Equality, without which a round trip means nothing


def test_tasks_are_equal_if_their_contents_are():
    for name, task in TASKS.items():
        equal = [other for other in TASKS if TASKS[other] == task]
        assert equal == [name]
    assert LinearTask(target=GRAM.copy()) == LinearTask(target=GRAM)
    assert hash(LinearTask(target=GRAM.copy())) == hash(LinearTask(target=GRAM))
    assert power_law(1.5, 0.5, 9) == power_law(1.5, 0.5, 9) != power_law(1.5, 0.6, 9)
    assert LinearTask() != "a task"


# Files


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_networks_come_back_as_they_were(network, tmp_path):
    answer = solve(network, LinearTask(), 0.01, 3)
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(tmp_path / "run.nc")
    assert (again.network, again.task) == (network, LinearTask())
    assert_same_data(answer.data, again.data)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_tasks_come_back_as_they_were(task, tmp_path):
    answer = solve(LinearNetwork(1, 20.0), task, 0.01, 3)
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(tmp_path / "run.nc")
    assert (again.network, again.task) == (LinearNetwork(1, 20.0), task)
    assert_same_data(answer.data, again.data)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: solve(LinearNetwork(2, 1.0), LinearTask(target=GRAM), 0.05, 4, keep=True),
        lambda: solve(LinearNetwork(2, 1.0), LinearTask(), 3.0, 9, throw=False),
        lambda: gradient_flow(LinearNetwork(1, 1.0), LinearTask(), 0.5, times=3),
        lambda: simulate(LinearNetwork(2, 1.0), LinearTask(batch=1.0), 0.05, 3, dimension=4, networks=3),
    ],
    ids=["two-time functions", "diverged", "flow", "networks"],
)
def test_all_kinds_of_answers_come_back(answer, tmp_path):
    answer = answer()
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(str(tmp_path / "run.nc"))
    assert_same_data(answer.data, again.data)
    assert again.diverged == answer.diverged


def small_sweep(parameterisation="mean-field", **options):
    widths = (0.5, 2, math.inf)
    network = LinearNetwork(2, 1.0, 2.0, parameterisation)
    return lr_sweep(network, LinearTask(samples=3.0), np.geomspace(0.01, 0.5, 7), 9, widths=widths, **options)


def test_sweeps_come_back_as_they_were(tmp_path):
    sweep = small_sweep()
    sweep.save(tmp_path / "sweep.nc")
    again = RateSweep.load(tmp_path / "sweep.nc")
    assert (again.networks, again.task, again.over) == (sweep.networks, sweep.task, sweep.over)
    assert_same_data(sweep.data, again.data)
    assert again.verdict == sweep.verdict
    np.testing.assert_array_equal(again.largest, sweep.largest)


def test_files_of_another_kind_or_damaged_are_named(tmp_path):
    run_file, sweep_file, text = tmp_path / "run.nc", tmp_path / "sweep.nc", tmp_path / "text.nc"
    solve(LinearNetwork(1), LinearTask(), 0.1, 3).save(run_file)
    small_sweep().save(sweep_file)
    text.write_text("no data")
    with pytest.raises(FileProblem, match="not a learning-rate sweep saved by widefield; it holds a solution"):
        RateSweep.load(run_file)
    with pytest.raises(FileProblem, match="it holds a learning-rate sweep"):
        Dynamics.load(sweep_file)
    with pytest.raises(FileProblem, match="not a trajectory"):
        wf.Trajectory.load(run_file)
    with pytest.raises(FileProblem, match="cannot be read as NetCDF"):
        Dynamics.load(text)
    with pytest.raises(FileProblem, match="there is no file"):
        Dynamics.load(tmp_path / "none.nc")
    with pytest.raises(FileProblem, match="does not exist"):
        small_sweep().save(tmp_path / "none" / "sweep.nc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.drop_vars("_task"), "lacks its task"),
        (lambda data: data.drop_vars("test_loss"), "lacks losses"),
        (lambda data: data.assign(_network=((), "hidden_layers = 0")), "hidden_layers = 0"),
        (lambda data: data.assign(_network=((), "depth = 3")), "cannot be understood"),
        (lambda data: data.assign(_task=((), "samples = ")), "cannot be understood"),
        (lambda data: data.assign_attrs(schema=99), "please upgrade"),
    ],
)
def test_damage_inside_is_named(change, message, tmp_path):
    solve(LinearNetwork(1), LinearTask(), 0.1, 3).save(tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as opened:
        data = opened.load()
    change(data).to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")
    with pytest.raises(FileProblem, match=message):
        Dynamics.load(tmp_path / "changed.nc")


# Figures


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_loss_plot():
    task = LinearTask(samples=2.0, noise=0.5)
    answers = [solve(LinearNetwork(2, nu), task, 0.05, 10) for nu in (0.5, 2.0)]
    networks = simulate(answers[0].network, task, 0.05, 10, dimension=10, networks=4)
    axes = plots.loss_plot(*answers, simulated=networks)
    assert axes.get_yscale() == "log"
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert labels(axes) == [r"$\nu$ = 0.5", r"$\nu$ = 2", "test", "training", "networks, ± 2 errors"]
    solid = next(line for line in axes.lines if line.get_label() == r"$\nu$ = 2")
    np.testing.assert_array_equal(solid.get_ydata(), answers[1].test_loss)
    assert len(axes.containers) == 2  # test and training losses of the networks
    assert plots.loss_plot(answers[0], axes=axes) is axes


def test_loss_plot_of_the_population_has_one_curve_and_marks_divergence():
    diverging = solve(LinearNetwork(2, 1.0), LinearTask(), 3.0, 9, throw=False)
    axes = plots.loss_plot(diverging)
    assert [line.get_marker() for line in axes.lines] == ["None", "x"]
    assert labels(axes) == ["diverges"]
    with pytest.raises(InvalidInput, match="at least one"):
        plots.loss_plot()
    with pytest.raises(InvalidInput, match="2 labels"):
        plots.loss_plot(diverging, labels=["a", "b"])


def test_fresh_samples_have_one_loss():
    axes = plots.loss_plot(solve(LinearNetwork(2, 1.0), LinearTask(batch=1.0), 0.05, 5))
    assert len(axes.lines) == 1


def test_split_plot_shows_the_parts_that_there_are():
    axes = plots.split_plot(solve(LinearNetwork(2, 1.0), LinearTask(samples=2.0), 0.05, 10))
    assert labels(axes) == ["test loss", "bias", "variance over networks", "variance over data sets"]
    total = sum(np.nan_to_num(line.get_ydata()) for line in axes.lines[1:])
    np.testing.assert_allclose(total, axes.lines[0].get_ydata(), rtol=1e-12)
    with pytest.raises(InvalidInput, match="do not split"):
        plots.split_plot(simulate(LinearNetwork(1, 1.0), LinearTask(), 0.05, 2, dimension=4, networks=2))


def test_transfer_plot():
    sweep = small_sweep()
    options = {"widths": (0.5, 2), "dimension": 8, "seeds": 3}
    networks = simulated_sweep(sweep.networks[0], sweep.task, sweep.rates[:3], 9, **options)
    left, right = plots.transfer_plot(sweep, networks)
    assert left.figure.get_suptitle().replace(",\n", ", ").replace("∞", "inf") == sweep.verdict
    assert labels(right)[:3] == ["0.5", "2", "∞"]
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["0.5", "2", "∞"]
    assert right.get_xticks()[-1] > 2
    best = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "*"]
    np.testing.assert_array_equal(best, sweep.optimal)
    assert len(left.containers) == 2
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in (left, right))
    with pytest.raises(InvalidInput, match="no errors"):
        plots.transfer_plot(networks, sweep)
    other = lr_sweep(LinearNetwork(2, 1.0), LinearTask(), sweep.rates, 9, widths=(1, 2))
    with pytest.raises(InvalidInput, match=r"width = 0.5, which the sweep has not"):
        plots.transfer_plot(other, networks)
    depths = lr_sweep(LinearNetwork(1, 1.0), LinearTask(), sweep.rates, 5, depths=(1, 2))
    with pytest.raises(InvalidInput, match="over depth"):
        plots.transfer_plot(sweep, depths)


# Rates and sentences


@pytest.mark.parametrize("parameterisation", ["mean-field", "ntk"])
@pytest.mark.parametrize("task", [LinearTask(), LinearTask(samples=2.0, noise=0.5)], ids=["population", "samples"])
def test_suggested_rates_hold_the_best_one(parameterisation, task):
    network, widths = LinearNetwork(2, 1.0, 2.0, parameterisation), (0.5, 4, math.inf)
    rates = suggested_rates(network, task, 12, widths=widths)
    sweep = lr_sweep(network, task, rates, 12, widths=widths)
    assert not sweep.at_edge.any()
    assert (sweep.largest < rates[-1]).all()
    assert len(suggested_rates(network, task, 12, widths=widths, count=5)) == 5


def test_infinite_width_is_lazy_in_the_ntk_parameterisation():
    """Its loss is (1 + 1/gamma^2) (1 - 3 eta)^(2t) for two hidden layers, and that of large widths tends to it."""
    rates = np.array([0.05, 0.1, 0.2])
    sweep = lr_sweep(LinearNetwork(2, 1.0, 2.0, "ntk"), LinearTask(), rates, 3, widths=(1e4, math.inf))
    np.testing.assert_allclose(sweep.data["loss"][1], 1.25 * (1 - 3 * rates) ** 6, rtol=1e-6)
    np.testing.assert_allclose(sweep.data["loss"][0], sweep.data["loss"][1], rtol=3e-3)


def test_sentences_name_the_largest_part():
    early = solve(LinearNetwork(2, 100.0), LinearTask(), 0.01, 2)
    narrow = solve(LinearNetwork(2, 0.1), LinearTask(), 0.001, 2)
    few = solve(LinearNetwork(2, 100.0, 0.1), LinearTask(samples=1.0, noise=2.0), 0.1, 40)
    assert "% of the test loss is bias" in words.interpretation(early)
    assert "stop there" not in words.interpretation(early)
    assert "% of the test loss is variance over networks" in words.interpretation(narrow)
    said = words.interpretation(few)
    assert f"{4 / few.test_loss[-1]:.0%} of the test loss is label noise" in said
    share = float(few.data["data_variance"][-1]) / (few.test_loss[-1] - 4)
    assert f"{share:.0%} of the rest variance over data sets" in said
    best = int(np.argmin(few.test_loss))
    assert f"it was lowest at time {0.1 * best:.3g}, {few.test_loss[best]:.4g}: stop there" in said


# Commands


def test_losses_on_the_command_line(tmp_path, monkeypatch, capsys):
    output, figure = tmp_path / "run.nc", tmp_path / "run.pdf"
    options = ("--layers", 3, "--width", 1.0, "--rate", 0.05, "--steps", 16, "--samples", 2, "--noise", 0.5)
    extra = ("--simulate", 20, "--networks", 6, "-o", output, "--plot", figure, "-q")
    assert run(monkeypatch, "proportional", *options, *extra) == 0
    printed = capsys.readouterr().out
    network, task = LinearNetwork(3, 1.0), LinearTask(samples=2.0, noise=0.5)
    direct = solve(network, task, 0.05, 16)
    loaded = Dynamics.load(output)
    assert (loaded.network, loaded.task) == (network, task)
    assert_same_data(direct.data, loaded.data)
    trained = Dynamics.load(tmp_path / "run-networks.nc")
    assert_same_data(simulate(network, task, 0.05, 16, dimension=20, networks=6).data, trained.data)
    mean, error = (float(trained.data[name][-1]) for name in ("test_loss", "test_loss_error"))
    assert f"{mean:.4g} ± {error:.1g}  {abs(mean - direct.test_loss[-1]) / error:.1f}" in printed
    assert f"{float(direct.data['width_variance'][8]):.4g}" in printed
    assert words.interpretation(direct) in printed
    assert figure.read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize(
    ("options", "network", "task"),
    [
        (("--widths", "0.5,1,2"), LinearNetwork(3, (0.5, 1.0, 2.0)), LinearTask()),
        (("--batch", 2, "--centred", "--width", 1), LinearNetwork(2, 1.0, centred=True), LinearTask(batch=2.0)),
        (("--richness", 2, "--parameterisation", "ntk", "--width", 4), LinearNetwork(2, 4.0, 2.0, "ntk"), LinearTask()),
        (
            ("--layers", "inf", "--branch", 1.2, "--depth-scaled", "--width", "inf"),
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
    assert run(monkeypatch, "proportional", *options, "--rate", 0.05, "--steps", 4, "-q", "-o", output) == 0
    loaded = Dynamics.load(output)
    assert (loaded.network, loaded.task) == (network, task)


def test_long_runs(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    options = ("--width", 2, "--richness", 0.5, "--rate", 0.002, "--steps", 500, "--long")
    assert run(monkeypatch, "proportional", *options, "-q", "-o", output) == 0
    direct = solve_long(LinearNetwork(2, 2.0, 0.5), LinearTask(), 0.002, 500)
    assert_same_data(direct.data, Dynamics.load(output).data)
    assert "500" in capsys.readouterr().out


def test_divergence_names_the_rate_to_use(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    options = ("--width", 1, "--rate", 0.9, "--steps", 20, "--simulate", 8)
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
    extra = ("--simulate", 12, "--networks", 3, "--plot", figure, "-o", output, "-q")
    assert run(monkeypatch, "lr-transfer", *options, *extra) == 0
    printed = capsys.readouterr().out
    sweep, trained = RateSweep.load(output), RateSweep.load(tmp_path / "sweep-networks.nc")
    assert sweep.verdict in printed
    assert not sweep.at_edge.any()
    assert list(sweep.values) == [0.5, 2, math.inf]
    assert list(trained.values) == [0.5, 2]
    assert set(trained.rates) <= set(sweep.rates)
    for best, largest in zip(sweep.optimal, sweep.largest, strict=True):
        assert f"{best:.4g}" in printed
        assert f"{largest:.4g}" in printed
    below = trained.rates[trained.rates <= sweep.optimal[1]][-1]
    mean, error = (float(trained.data[name].sel(width=2, rate=below)) for name in ("loss", "loss_error"))
    theory = float(sweep.data["loss"].sel(width=2, rate=below))
    assert f"{theory:.4g}  {mean:.4g} ± {error:.1g}  {abs(mean - theory) / error:.1f}" in printed
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_transfer_over_depth(tmp_path, monkeypatch, capsys):
    output = tmp_path / "sweep.nc"
    options = ("--over", "depth", "--values", "1,2,inf", "--width", 4, "--branch", 1, "--depth-scaled")
    assert run(monkeypatch, "lr-transfer", *options, "--steps", 5, "--rates", "0.02,0.5,6", "-o", output, "-q") == 0
    sweep = RateSweep.load(output)
    assert [network.hidden_layers for network in sweep.networks] == [1, 2, math.inf]
    np.testing.assert_allclose(sweep.rates, np.geomspace(0.02, 0.5, 6))
    assert sweep.verdict in capsys.readouterr().out


def test_rates_that_all_fail_and_rates_that_are_too_small(monkeypatch, capsys):
    options = ("lr-transfer", "--over", "width", "--values", "1,2", "--steps", 19, "-q")
    assert run(monkeypatch, *options, "--rates", "10,20,4") == 1
    caught = capsys.readouterr()
    assert "none works" in caught.out
    assert "diverges at all rates" in caught.err
    assert run(monkeypatch, *options, "--rates", "0.001,0.01,4") == 0
    printed = capsys.readouterr().out
    assert "0.01 (edge)" in printed
    assert "cannot tell" in printed


RUN = ("proportional", "--rate", 0.05, "--steps", 4)
SWEEP = ("lr-transfer", "--steps", 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RUN, "--width=-1"), "width = -1.0 must be > 0"),
        ((*RUN, "--width", 0), "width = 0.0"),
        ((*RUN, "--width", "nan"), "not a finite number"),
        ((*RUN, "--width", 1, "--widths", "1,2"), "exclude each other"),
        ((*RUN, "--widths", "1,wide"), "separated by commas"),
        ((*RUN, "--widths", "1,2", "--layers", 3), "one entry for each of 3"),
        ((*RUN, "--layers", 0), "hidden_layers = 0"),
        ((*RUN, "--layers", 1.5), "hidden_layers = 1.5"),
        ((*RUN, "--layers", "inf"), "depth_scaled"),
        ((*RUN, "--samples=-2"), "samples = -2.0"),
        ((*RUN, "--samples", 1, "--batch", 1), "--samples and --batch exclude each other"),
        ((*RUN, "--noise=-1"), "noise = -1.0"),
        ((*RUN, "--richness", 0), "richness = 0.0"),
        ((*RUN, "--parameterisation", "ntks"), "did you mean 'ntk'"),
        ((*RUN, "--power-law", "1.5,0.5,0"), "modes = 0"),
        ((*RUN, "--power-law", "1.5,0.5"), "capacity,source,modes"),
        ((*RUN, "--power-law", "0.5,0.5,10"), "capacity = 0.5"),
        ((*RUN, "--simulate", 10), "must be finite"),
        ((*RUN, "--width", 1, "--simulate", 10, "--networks", 1), "networks = 1"),
        ((*RUN, "--plot", "figure.xyz"), "png, pdf or svg"),
        ((*RUN, "--output", "none/run.nc"), "does not exist"),
        ((*RUN, "--output", "taken.nc"), "--overwrite"),
        ((*RUN, "--plot", "taken.nc"), "--overwrite"),
        (("proportional", "--rate=-1", "--steps", 4), "rate = -1"),
        (("proportional", "--rate", 0.1, "--steps", 0), "steps = 0"),
        ((*SWEEP, "--over", "height", "--values", "1,2"), "known: depth, width"),
        ((*SWEEP, "--over", "width", "--values", "2,1"), "must increase"),
        ((*SWEEP, "--over", "width", "--values", "-1,1"), "width = -1"),
        ((*SWEEP, "--over", "width", "--values", ""), "separated by commas"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--width", 2), "leave --width out"),
        ((*SWEEP, "--over", "depth", "--values", "1,2", "--layers", 2), "leave --layers out"),
        ((*SWEEP, "--over", "depth", "--values", "1,2.5", "--width", 1), "hidden_layers = 2.5"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--rates", "0.1,0.01,5"), "increase"),
        ((*SWEEP, "--over", "width", "--values", "1,2", "--rates", "0.1,1"), "lowest,highest,count"),
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
    options = ("--width", 2, "--richness", 0.5, "--samples", 3, "--rate", 0.01, "--steps", 1000, "--long")
    assert run(monkeypatch, "proportional", *options, "-q") == 0
    printed = capsys.readouterr().out
    assert "note: losses at small steps are known to" in printed
    assert "< 0.0" in printed
    assert "-0." not in printed
    assert "below what extrapolation can tell" in printed


# The page about it


def blocks(language):
    page = (Path(__file__).parents[1] / "docs" / "proportional.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def test_snippets_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks("python"):
        exec(block, scope)
    assert scope["theory"].test_loss.shape == (41,)
    assert scope["sweep"].verdict.startswith("it transfers")
    assert not scope["sweep"].at_edge.any()
    assert (tmp_path / "run.nc").exists()


@pytest.mark.slow
def test_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert [line.split()[1] for line in lines] == ["proportional", "lr-transfer", "lr-transfer", "lr-transfer"]
    for line in lines:
        assert run(monkeypatch, *line.split()[1:], "-q") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"losses.png", "transfer.png"}
    said = capsys.readouterr().out
    assert said.count("it does not transfer") == 2  # over depth
