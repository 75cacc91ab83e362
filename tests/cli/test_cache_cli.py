"""Commands find what earlier ones have compiled."""

import json
import os
import subprocess
import sys

import pytest

COUNTED = """
import json, sys
import jax
from widefield.base.session import watching_compilation
from widefield.cli import main
sys.argv = ["widefield", *{arguments!r}]
with watching_compilation() as seen:
    try:
        main()
    except SystemExit as stopped:
        code = stopped.code or 0
print(json.dumps([code, seen.programs, seen.loaded]))
"""


@pytest.fixture
def environment(tmp_path):
    """One in which nobody told jax to keep anything, with an empty home."""
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    return kept | {"HOME": str(tmp_path / "home"), "WIDEFIELD_CACHE": str(tmp_path / "programs")}


@pytest.fixture
def problem_file(tmp_path, small_problem):
    path = tmp_path / "problem.toml"
    small_problem.to_toml(path)
    return path


def counted(environment, *arguments):
    """Programs that a command compiles and those that it finds, and what it says on standard error."""
    code = COUNTED.format(arguments=[str(argument) for argument in arguments])
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    stopped, compiled, loaded = json.loads(done.stdout.splitlines()[-1])
    assert stopped == 0, done.stderr
    return compiled, loaded, done.stderr


def widefield(environment, *arguments):
    command = [sys.executable, "-m", "widefield.cli", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_second_process_compiles_nothing(environment, problem_file, tmp_path):
    solve = ("solve", problem_file, "--particles", "128", "--replicas", "2", "--quiet", "-o")
    compiled, loaded, said = counted(environment, *solve, tmp_path / "first.nc")
    assert compiled > 10
    assert (loaded, said) == (0, "")
    assert counted(environment, *solve, tmp_path / "second.nc") == (0, compiled, "")
    assert not (tmp_path / "home").exists()

    told = widefield(environment, "cache")
    assert told.startswith(f"{tmp_path / 'programs'}: {compiled} programs, ")
    assert f"removed {compiled} programs" in widefield(environment, "cache", "--clear")
    assert ": 0 programs, 0.0 MB" in widefield(environment, "cache")


def test_it_can_be_switched_off(environment, tmp_path):
    environment |= {"WIDEFIELD_CACHE": "off"}
    counted(environment, "advise", "--activation", "tanh", "--depth", "3", "--width", "8")
    assert "off" in widefield(environment, "cache")
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_to_gives_a_note(environment, tmp_path):
    """A file in the place of the folder, since root may write everywhere."""
    (tmp_path / "home").write_text("")
    del environment["WIDEFIELD_CACHE"]
    compiled, _, said = counted(environment, "advise", "--activation", "tanh", "--depth", "3", "--width", "8")
    assert compiled > 0
    assert said.startswith("note: compiled programs are not kept: cannot write to ")
    assert said.count("\n") == 1


def test_a_folder_that_jax_was_given_is_used_and_never_cleared(environment, tmp_path):
    given = tmp_path / "given"
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(given), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    counted(environment, "advise", "--activation", "tanh", "--depth", "3", "--width", "8")
    kept = sorted(given.iterdir())
    assert kept
    assert not (tmp_path / "programs").exists()
    told = widefield(environment, "cache", "--clear")
    assert f"not in use: JAX_COMPILATION_CACHE_DIR is {given}" in told
    assert sorted(given.iterdir()) == kept


def test_the_command_that_tells_about_it_is_light(environment):
    code = "import sys\nfrom widefield.cli import main\nsys.argv = ['widefield', 'cache']\n"
    code += "try:\n    main()\nfinally:\n    print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
