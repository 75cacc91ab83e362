"""Deep linear networks as problems: described, written, solved and shown like all others."""

import math
import sys

import numpy as np
import pytest

import widefield as wf
from pages import blocks
from problems import NETWORKS, TASKS, assert_same_data
from widefield import cli
from widefield.asking.loading import read_problem
from widefield.base.errors import Diverged, InvalidInput, NotAccurate, UnknownName
from widefield.proportional import (
    Dynamics,
    LinearNetwork,
    LinearProblem,
    LinearTask,
    ProportionalLimit,
    ProportionalNetworks,
    gradient_flow,
    power_law,
    simulate,
    solve,
    solve_long,
)

NETWORK, TASK = LinearNetwork(2, 1.0), LinearTask(samples=2.0, noise=0.5)
PROBLEM = LinearProblem(NETWORK, TASK, wf.SGD(0.05, 6))
TEXT = """
[network]
kind = "deep-linear"
hidden_layers = 2
width = 1.0

[task]
samples = 2.0
noise = 0.5

[optimiser]
kind = "sgd"
learning_rate = 0.05
steps = 6
"""


# Descriptions


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_toml_is_an_exact_inverse(network, task):
    for optimiser in (wf.SGD(wf.Cosine(0.1), 5), wf.SGD((0.1, 0.2), 2), wf.GradientFlow(1 / 3)):
        problem = LinearProblem(network, task, optimiser)
        again = LinearProblem.from_toml(problem.to_toml())
        assert again == problem
        assert hash(again) == hash(problem)
        assert read_problem(problem.to_toml()) == problem


def test_a_long_spectrum_is_packed_and_comes_back(tmp_path):
    problem = LinearProblem(NETWORK, LinearTask(batch_size=16, spectrum=power_law(1.5, 0.5, 1000)), wf.SGD(0.05, 2))
    problem.to_toml(tmp_path / "problem.toml")
    assert len((tmp_path / "problem.toml").read_text()) < 40_000
    assert LinearProblem.from_toml(tmp_path / "problem.toml") == problem


def test_files_may_leave_out_what_has_a_default():
    assert LinearProblem.from_toml(TEXT) == PROBLEM == read_problem(TEXT)
    assert read_problem(TEXT.replace('kind = "deep-linear"\n', "")) == PROBLEM
    deep = TEXT.replace("hidden_layers = 2", "hidden_layers = inf\nbranch = 1.0\ndepth_scaled = true")
    assert math.isinf(read_problem(deep).network.hidden_layers)


def test_power_laws_in_files():
    law = '[task.spectrum]\nkind = "power-law"\ncapacity = 1.5\nsource = 0.5\nmodes = 100\n\n[optimiser]'
    assert read_problem(TEXT.replace("[optimiser]", law)).task.spectrum == power_law(1.5, 0.5, 100)
    binned = law.replace("modes = 100", "modes = 100\nbins = 7")
    assert read_problem(TEXT.replace("[optimiser]", binned)).task.spectrum == power_law(1.5, 0.5, 100, bins=7)
    with pytest.raises(InvalidInput, match="needs a value for source"):
        read_problem(TEXT.replace("[optimiser]", law.replace("source = 0.5\n", "")))


def test_the_template_of_the_page():
    """As it stands, and with its remarks turned into values."""
    (block,) = (block for block in blocks("docs/proportional.md") if block.language == "toml")
    plain = LinearProblem(LinearNetwork(3, 1.0), LinearTask(samples=2.0, noise=0.5), wf.SGD(0.05, 40))
    assert read_problem(block.code) == plain
    lines = [line.removeprefix("# ") for line in block.code.splitlines()[1:] if not line.startswith("samples")]
    other = read_problem("\n".join(lines))
    assert other.network == LinearNetwork(3, 1.0, 1.0, "ntk", branch=1.0, centred=True)
    assert other.task == LinearTask(batch_size=1.0, noise=0.5, spectrum=power_law(1.5, 0.5, 100))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("deep-linear", "deep-liner", "kind of network 'deep-liner'; did you mean 'deep-linear'"),
        ("width = 1.0", "widht = 1.0", "key in .network. 'widht'; did you mean 'width'"),
        ("width = 1.0", "width = -1.0", "width = -1.0"),
        ("samples", "sampels", "did you mean 'samples'"),
        ("[task]", "[data]", "section of a problem 'data'"),
        ("[optimiser]", "[optimizer]", "did you mean 'optimiser'"),
        ('kind = "sgd"', 'kind = "sdg"', "did you mean 'sgd'"),
        ("steps = 6", "steps = 6\nmomentum = 0.5", r"optimiser.momentum = 0.5: .*leave it out"),
        ("steps = 6", "steps = 6\nbatch_size = 4", "`batch_size` of the task"),
        ("steps = 6", "steps = 0", "steps = 0"),
        ("[network]", "[network", "not valid TOML"),
        ("hidden_layers = 2\n", "", "needs a value for hidden_layers"),
        ('[network]\nkind = "deep-linear"\nhidden_layers = 2\nwidth = 1.0', "", r"needs a section \[network\]"),
        ("[task]\nsamples = 2.0\nnoise = 0.5", "", r"needs a section \[task\]"),
        ("noise = 0.5", "noise = 0.5\nspectrum = 3", r"\[spectrum\] must be a table"),
    ],
)
def test_mistakes_in_files_are_named(old, new, message):
    assert old in TEXT
    with pytest.raises(InvalidInput, match=message):
        read_problem(TEXT.replace(old, new))


def test_parts_of_the_wrong_kind():
    with pytest.raises(InvalidInput, match=r"network = .* must be a LinearNetwork"):
        LinearProblem(wf.MLP(2), TASK, wf.SGD(0.1, 2))
    with pytest.raises(InvalidInput, match="task = 3 must be a LinearTask"):
        LinearProblem(NETWORK, 3, wf.SGD(0.1, 2))
    with pytest.raises(InvalidInput, match="weight_decay"):
        LinearProblem(NETWORK, TASK, wf.GradientFlow(1.0, weight_decay=0.1))
    with pytest.raises(UnknownName, match="section of a problem 'task'"):
        wf.Problem.from_toml(TEXT)


# Theories


def test_the_limit_answers_by_itself():
    found, direct = wf.solve(PROBLEM), solve(NETWORK, TASK, 0.05, 6)
    assert isinstance(found, Dynamics)
    assert (found.network, found.task, found.status, found.label) == (NETWORK, TASK, "complete", "proportional limit")
    assert_same_data(direct.data, found.data)
    assert found.verdict == direct.verdict != ""


def test_schedules_two_time_functions_and_reports():
    schedule = wf.Cosine(0.1)
    calls = []
    problem = LinearProblem(NETWORK, TASK, wf.SGD(schedule, 5))
    found = wf.solve(problem, ProportionalLimit(keep=True), progress=lambda *told: calls.append(told))
    assert_same_data(solve(NETWORK, TASK, schedule, 5, keep=True).data, found.data)
    assert calls[-1][:2] == (5, 5)


def test_long_runs_and_gradient_flow():
    long = LinearProblem(NETWORK, TASK, wf.SGD(0.001, 600))
    found = wf.solve(long, ProportionalLimit(tolerance=1e-4, records=5))
    assert_same_data(solve_long(NETWORK, TASK, 0.001, 600, tolerance=1e-4, records=5).data, found.data)
    flow = wf.solve(LinearProblem(NETWORK, TASK, wf.GradientFlow(0.5, steps=5)))
    assert_same_data(gradient_flow(NETWORK, TASK, 0.5, records=5).data, flow.data)
    with pytest.raises(InvalidInput, match="one learning rate"):
        wf.solve(LinearProblem(NETWORK, TASK, wf.SGD((0.1, 0.2), 2)), ProportionalLimit(tolerance=1e-4))
    with pytest.raises(InvalidInput, match="two-time functions are not extrapolated"):
        wf.solve(long, ProportionalLimit(tolerance=1e-4, keep=True))
    with pytest.raises(InvalidInput, match="batch"):
        wf.solve(LinearProblem(NETWORK, LinearTask(batch_size=1.0), wf.GradientFlow(0.5)))


def test_a_tolerance_that_cannot_be_reached_is_in_the_status(monkeypatch, tmp_path):
    monkeypatch.setattr("widefield.proportional.long_times._MOST", 100)
    stiff = LinearProblem(LinearNetwork(2, 2.0, 0.5), LinearTask(samples=3.0), wf.SGD(0.001, 3000))
    with pytest.warns(NotAccurate, match="known to"):
        found = wf.solve(stiff, ProportionalLimit(tolerance=1e-12, records=5))
    assert found.status == "not accurate"
    assert "known to" in found.message
    found.save(tmp_path / "run.nc")
    assert wf.load(tmp_path / "run.nc").status == "not accurate"


def test_networks_answer_too():
    theory = ProportionalNetworks(dimension=12, seeds=3, seed=5)
    found = wf.solve(PROBLEM, theory)
    assert_same_data(simulate(NETWORK, TASK, 0.05, 6, dimension=12, seeds=3, seed=5).data, found.data)
    assert not found.splits
    assert found.verdict == ""
    assert "±" in str(found)
    assert found.plot().axes[0].get_ylabel() == "loss"
    with pytest.raises(InvalidInput, match="networks take steps"):
        wf.solve(LinearProblem(NETWORK, TASK, wf.GradientFlow(0.5)), theory)
    with pytest.raises(InvalidInput, match="must be finite"):
        wf.solve(LinearProblem(LinearNetwork(2), TASK, wf.SGD(0.1, 2)), theory)


def test_divergence():
    problem = LinearProblem(NETWORK, LinearTask(), wf.SGD(3.0, 9))
    with pytest.raises(Diverged, match=r"exploded at step \d; a smaller learning_rate") as caught:
        wf.solve(problem)
    assert caught.value.result is caught.value.trajectory
    quiet = wf.solve(problem, throw=False)
    assert (quiet.status, quiet.diverged) == ("diverged", caught.value.result.diverged)
    assert quiet.message == f"the loss has exploded at step {quiet.diverged}"
    long = wf.solve(
        LinearProblem(NETWORK, LinearTask(), wf.SGD(3.0, 20)), ProportionalLimit(tolerance=0.1), throw=False
    )
    assert long.status == "diverged"


def test_theories_that_cannot_answer_are_refused(small_problem):
    with pytest.raises(
        InvalidInput, match=r"Lazy.* does not answer a LinearProblem; .*ProportionalLimit, Proportional"
    ):
        wf.solve(PROBLEM, wf.Lazy())
    with pytest.raises(InvalidInput, match=r"ProportionalLimit.* does not answer a Problem; .*FiniteWidth"):
        wf.solve(small_problem, ProportionalLimit())
    with pytest.raises(InvalidInput, match="theory = 3 must be a theory, for example ProportionalLimit"):
        wf.solve(PROBLEM, 3)
    with pytest.raises(InvalidInput, match=r"must be a Problem or a proportional.LinearProblem"):
        wf.solve("a problem")
    for change in ({"layer_steps": 1}, {"tolerance": 0.0}, {"records": 0}, {"keep": 1}):
        with pytest.raises(InvalidInput, match=next(iter(change))):
            ProportionalLimit(**change)
    for change in ({"dimension": 0}, {"seeds": 1}, {"seed": -1}):
        with pytest.raises(InvalidInput, match=next(iter(change))):
            ProportionalNetworks(**change)


# The command line


def run(monkeypatch, *arguments):
    """Call the entry point as the shell would; returns the exit code."""
    monkeypatch.setattr(sys, "argv", ["widefield", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


def test_solve_and_show(tmp_path, monkeypatch, capsys):
    problem, output, figure = tmp_path / "p.toml", tmp_path / "run.nc", tmp_path / "figure.png"
    problem.write_text(TEXT)
    direct = solve(NETWORK, TASK, 0.05, 6)
    assert run(monkeypatch, "solve", problem, "-o", output, "-q") == 0
    solved = capsys.readouterr().out
    assert_same_data(direct.data, Dynamics.load(output).data)
    assert run(monkeypatch, "show", output, "--plot", figure) == 0
    shown = capsys.readouterr().out
    for told in (solved, shown):
        assert "2 hidden layers" in told
        assert f"{direct.test_loss[-1]:.4g}" in told
        assert direct.verdict in " ".join(told.split())
    assert figure.read_bytes()[:4] == b"\x89PNG"
    networks = tmp_path / "networks.nc"
    problem.write_text(TEXT.replace("width = 1.0", "width = 0.02").replace("samples = 2.0", "samples = 0.01"))
    options = ("--theory", "proportional-networks", "--seeds", 3, "--seed", 2)
    code = run(monkeypatch, "solve", problem, *options, "-o", networks, "-q")
    trained = Dynamics.load(networks)
    assert code == (trained.status == "diverged")
    by_hand = simulate(trained.network, trained.task, 0.05, 6, seeds=3, seed=2)
    np.testing.assert_array_equal(trained.test_loss, by_hand.test_loss)


def test_what_makes_no_sense_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    problem, output = tmp_path / "p.toml", tmp_path / "run.nc"
    problem.write_text(TEXT)
    for options, message in (
        (("--width", 8), "`width` of the section [network]"),
        (("--theory", "lazy"), "unknown theory 'lazy'"),
        (("--seeds", 3), "add --theory proportional-networks"),
        (("--theory", "proportional-limt"), "did you mean 'proportional-limit'"),
    ):
        assert run(monkeypatch, "solve", problem, *options, "-o", output, "-q") == 2
        assert message in capsys.readouterr().err
    for command in (("compare", problem, "--plot", tmp_path / "figure.png"), ("crosscheck", problem)):
        assert run(monkeypatch, *command) == 2
        assert "describes a LinearProblem, which only `widefield solve` answers" in capsys.readouterr().err
    problem.write_text(TEXT.replace("0.05", "3.0").replace("steps = 6", "steps = 20"))
    assert run(monkeypatch, "solve", problem, "-o", output, "-q") == 1
    assert "a smaller learning_rate" in capsys.readouterr().err
    assert Dynamics.load(output).status == "diverged"
    assert np.isnan(Dynamics.load(output).test_loss[-1])
