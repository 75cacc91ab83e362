"""The command line, as a user meets it."""

import os
import pty
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import widefield as wf
from widefield import cli
from widefield.cli.demo import default_problem, template


def run(monkeypatch, *arguments):
    """Call the entry point as the shell would; returns the exit code."""
    monkeypatch.setattr(sys, "argv", ["widefield", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


@pytest.fixture
def problem_file(tmp_path, small_problem):
    path = tmp_path / "problem.toml"
    small_problem.to_toml(path)
    return path


def test_template_is_the_default_problem_and_every_commented_value_is_valid():
    problem = default_problem()
    assert problem.network == wf.MLP(hidden_layers=3, activation="tanh", richness=1.0)
    assert problem.samples.samples == 10
    alternatives = {"kind", "correlation"}  # these replace a line instead of adding one
    lines = [
        line.removeprefix("# ") if "=" in line.split("#")[-1 if line[0] != "#" else 1] else line
        for line in template().splitlines()
        if line
    ]
    kept = [line for line in lines if not line.startswith("#") and line.split(" = ")[0] not in alternatives - {"kind"}]
    seen, unique = set(), []
    for line in kept:
        if line.startswith("["):
            seen = set()
        name = line.split(" = ")[0]
        if name not in seen or line.startswith("["):
            unique.append(line)
        seen.add(name)
    full = wf.Problem.from_toml("\n".join(unique) + "\n")
    assert full.optimiser.batch_size == 5
    assert full.record.two_time is False
    assert full.network.weight_variances == 1.0


def test_new_solve_show(tmp_path, monkeypatch, capsys):
    problem, output, figure = tmp_path / "p.toml", tmp_path / "run.nc", tmp_path / "figure.png"
    assert run(monkeypatch, "new", problem) == 0
    assert wf.Problem.from_toml(problem) == default_problem()
    text = problem.read_text().replace("steps = 100", "steps = 4")
    problem.write_text(text)
    assert run(monkeypatch, "solve", problem, "--width", 8, "--seeds", 2, "-o", output, "-q") == 0
    loaded = wf.Trajectory.load(output)
    direct = wf.solve(wf.Problem.from_toml(problem), wf.FiniteWidth(8, seeds=2))
    assert loaded.data.drop_attrs().equals(direct.data.drop_attrs())
    assert not output.with_name("run.nc.checkpoint").exists()
    capsys.readouterr()
    assert run(monkeypatch, "show", output, "--plot", figure) == 0
    shown = capsys.readouterr().out
    assert "width 8" in shown
    assert f"{float(direct.mean('loss')[-1]):.4g}" in shown
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_width_infinity(tmp_path, problem_file, monkeypatch, capsys):
    output, page = tmp_path / "inf.nc", tmp_path / "page.png"
    options = ("--width", "inf", "--particles", 256, "--replicas", 2)
    assert run(monkeypatch, "solve", problem_file, *options, "-o", output, "-q") == 0
    loaded = wf.Trajectory.load(output)
    assert loaded.theory == wf.InfiniteWidth(particles=256, replicas=2)
    direct = wf.solve(wf.Problem.from_toml(problem_file), loaded.theory)
    assert loaded.data.drop_attrs().equals(direct.data.drop_attrs())
    assert run(monkeypatch, "show", output, "--plot", page) == 0
    assert "width ∞" in capsys.readouterr().out


def test_old_options(tmp_path, problem_file, monkeypatch, capsys):
    output, expected = tmp_path / "run.nc", wf.FiniteWidth(4, seeds=1, seed=3, dtype="float32")
    solve = ("solve", problem_file, "--width", 4, "-o", output, "-q", "--overwrite")
    assert run(monkeypatch, *solve, "--seed", 3, "--dtype", "float32") == 0
    assert "is now called" not in capsys.readouterr().err
    data = wf.load(output).data
    assert run(monkeypatch, *solve, "--first-seed", 3, "--precision=float32") == 0
    told = capsys.readouterr().err
    assert "note: --first-seed is now called --seed" in told
    assert "note: --precision is now called --dtype" in told
    assert wf.load(output).theory == expected
    assert wf.load(output).data.drop_attrs().equals(data.drop_attrs())
    assert run(monkeypatch, *solve, "--first-seed", 3, "--seed", 3) == 2
    assert "--first-seed and --seed are two words for one thing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tanh", "tahn"), "did you mean 'tanh'"),
        (('"gradient-descent"', '"gradient-decent"'), "did you mean 'gradient-descent'"),
        (("richness", "richnes"), "did you mean 'richness'"),
        (("[rule]", "[rules]"), "did you mean 'rule'"),
        (("learning_rate = 0.05", "learning_rate = -1"), "learning_rate = -1"),
        (("[network]", "[network"), "not valid TOML"),
    ],
)
def test_mistakes_in_a_problem_are_one_clear_line(tmp_path, monkeypatch, capsys, change, message):
    problem = tmp_path / "p.toml"
    problem.write_text(template().replace(*change))
    assert run(monkeypatch, "solve", problem, "--width", 8, "-o", tmp_path / "run.nc") == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


def test_bad_options_are_refused_before_any_work(tmp_path, problem_file, monkeypatch, capsys):
    output = tmp_path / "run.nc"
    assert run(monkeypatch, "solve", problem_file, "--width", 0, "-o", output) == 2
    assert "width = 0" in capsys.readouterr().err
    assert run(monkeypatch, "solve", problem_file, "--width=-3", "-o", output) == 2
    assert run(monkeypatch, "solve", problem_file, "--width", "wide", "-o", output) == 2
    assert "a whole number or inf" in capsys.readouterr().err
    assert run(monkeypatch, "solve", tmp_path / "none.toml", "--width", 4, "-o", output) == 2
    assert "none.toml" in capsys.readouterr().err
    assert run(monkeypatch, "solve", problem_file, "--width", 4, "-o", tmp_path / "no folder" / "run.nc") == 2
    assert "does not exist" in capsys.readouterr().err
    assert run(monkeypatch, "solve", problem_file, "--width", 4, "-o", output, "--resume") == 2
    assert "nothing to resume" in capsys.readouterr().err
    output.write_text("mine")
    assert run(monkeypatch, "solve", problem_file, "--width", 4, "-o", output) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert run(monkeypatch, "show", output) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert run(monkeypatch, "new", problem_file) == 2


def test_divergence_is_reported_and_what_there_is_gets_saved(tmp_path, monkeypatch, capsys):
    problem, output = tmp_path / "p.toml", tmp_path / "run.nc"
    text = template().replace('"tanh"', '"linear"').replace("learning_rate = 0.05", "learning_rate = 5.0")
    problem.write_text(text)
    assert run(monkeypatch, "solve", problem, "--width", 16, "-o", output, "-q") == 1
    assert "learning_rate" in capsys.readouterr().err
    loaded = wf.Trajectory.load(output)
    assert loaded.status == "diverged"
    assert loaded.data.sizes["time"] >= 1


def test_interrupt_and_resume_give_the_same_numbers_bit_for_bit(tmp_path):
    problem, output, whole = tmp_path / "p.toml", tmp_path / "run.nc", tmp_path / "whole.nc"
    text = template().replace("steps = 100", "steps = 1200\nmomentum = 0.5\nbatch_size = 4\ntemperature = 1e-4")
    problem.write_text(text)
    command = [sys.executable, "-m", "widefield.cli", "solve", str(problem), "--width", "64", "--seeds", "2"]
    terminal, end = pty.openpty()  # the progress bar is live on terminals only
    process = subprocess.Popen([*command, "-o", str(output)], stderr=end, stdout=subprocess.DEVNULL)
    seen = b""
    while not re.search(rb"[1-9]\d*/1200 steps", seen):
        assert process.poll() is None, "the run ended before it could be interrupted"
        seen += os.read(terminal, 1000)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    os.close(end)
    os.close(terminal)
    part = wf.Trajectory.load(output)
    assert part.status == "interrupted"
    assert 0 < part.data.sizes["time"] < 101
    again = [*command, "-o", str(output), "-q"]
    refused = subprocess.run(again, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    subprocess.run([*again, "--resume"], check=True, capture_output=True)
    subprocess.run([*command, "-q", "-o", str(whole)], check=True, capture_output=True)
    resumed, straight = wf.Trajectory.load(output), wf.Trajectory.load(whole)
    assert resumed.status == "complete"
    for name in straight.data.data_vars:
        assert np.array_equal(resumed.data[name], straight.data[name]), name
    assert not list(tmp_path.glob("*.checkpoint"))


def test_demo_table_and_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("widefield.cli.demo.WIDTHS", (8, 16, 32))
    monkeypatch.setattr("widefield.cli.demo.SEEDS", (6, 4, 3))
    monkeypatch.setattr("widefield.cli.demo.THEORY", wf.InfiniteWidth(particles=1024, replicas=2))
    assert run(monkeypatch, "demo", "--folder", tmp_path / "new" / "folder") == 0
    assert (tmp_path / "new" / "folder" / "demo.png").read_bytes()[:4] == b"\x89PNG"
    out = capsys.readouterr().out
    assert all(f" {width} " in out for width in (8, 16, 32, "∞"))
