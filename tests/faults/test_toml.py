"""Problem files that are wrong end in a clear error."""

import pytest
import toml_attacks
from tally import Tally

from widefield import cli
from widefield.asking.loading import read_problem


def test_mutated_problems():
    toml_attacks.attack(400).check()


@pytest.mark.slow
def test_very_many_mutated_problems():
    toml_attacks.attack(10_000, seed=1).check()


@pytest.mark.parametrize("name", sorted(toml_attacks.hostile()))
def test_hostile_problems(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "p.toml").write_text(toml_attacks.hostile()[name])
    tally = Tally(name)
    with tally.attack(name):
        problem = read_problem(tmp_path / "p.toml")
        problem.samples  # noqa: B018
    tally.check()
    monkeypatch.setattr("sys.argv", ["widefield", "solve", str(tmp_path / "p.toml"), "-o", str(tmp_path / "o.nc")])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    said = capsys.readouterr().err
    assert ending.value.code == 2
    assert "\x1b[31m" not in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


def test_a_problem_file_that_never_ends():
    with pytest.raises(ValueError, match="longer than 64 MiB"):
        read_problem(__import__("pathlib").Path("/dev/zero"))
