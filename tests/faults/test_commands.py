"""Whatever is typed ends in an answer or in a sentence."""

import subprocess
import sys

import command_attacks
import pytest


def test_command_lines(tmp_path):
    command_attacks.attack(tmp_path, 60).check()


@pytest.mark.slow
def test_very_many_command_lines(tmp_path):
    command_attacks.attack(tmp_path, 1000, seed=1).check()


@pytest.mark.parametrize("language", ["C", pytest.param("POSIX", marks=pytest.mark.slow)])
def test_a_terminal_without_unicode(tmp_path, language):
    """Signs that it does not know are replaced, and nothing fails."""
    (tmp_path / "p.toml").write_text(command_attacks.PROBLEM)
    environment = {"LANG": language, "LC_ALL": language, "PATH": "/usr/bin:/bin", "PYTHONUTF8": "0"}
    environment |= {"PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii", "HOME": str(tmp_path)}
    commands = (["solve", "p.toml", "-o", "run.nc", "--theory", "lazy"], ["show", "run.nc"], ["--help"])
    for arguments in (*commands, ["solve", "λ.toml", "-o", "run.nc"]):
        done = subprocess.run(
            [sys.executable, "-m", "widefield.cli", *arguments], cwd=tmp_path, env=environment, capture_output=True
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert done.returncode == (2 if "λ.toml" in arguments else 0), done.stderr.decode()


def test_widths_and_endings_that_would_be_ignored(tmp_path, monkeypatch, capsys):
    (tmp_path / "p.toml").write_text(command_attacks.PROBLEM)
    monkeypatch.chdir(tmp_path)
    for arguments, words in {
        "solve p.toml -o run.nc --theory lazy --width 10": "--width: the theory lazy has no width",
        "solve p.toml -o run.nc --width 10 --particles 100": "--particles: the theory finite-width has no particles",
        "solve p.toml -o run.csv": "answers are NetCDF files, whose names end with .nc",
        "compare p.toml --plot x.0": "x.0: figures end with png, pdf or svg",
        "show run.nc --plot x.0": "x.0: figures end with png, pdf or svg",
        "advise --activation tanh --depth 3 --width 9 --plot x.0": "x.0: figures end with png, pdf or svg",
        "proportional --steps 3 --learning-rate 0.1 -o run.csv": "answers are NetCDF files",
    }.items():
        code, said = command_attacks.ran(arguments.split())
        assert code == 2, said
        assert words in " ".join(said.split())
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]
