"""Files that are damaged, or made to do harm, are refused, or read as what they are."""

import file_attacks
import numpy as np
import pytest
from tally import Tally

import widefield as wf
from widefield import cli


def test_damaged_files(tmp_path):
    file_attacks.attack(tmp_path / "run.nc", 150).check()


@pytest.mark.slow
def test_very_many_damaged_files(tmp_path):
    file_attacks.attack(tmp_path / "run.nc", 2000, seed=1).check()
    file_attacks.attack_unsealed(tmp_path / "old.nc", 300, seed=2).check()


def test_damaged_files_of_old_versions(tmp_path):
    file_attacks.attack_unsealed(tmp_path / "old.nc", 8).check()


READ_AS_THEY_ARE = {"units", "scale and offset", "missing values", "no seconds", "no status", "seconds are a text"}
READ_AS_THEY_ARE |= {"seconds are an array", "status is a number", "escape codes in the status"}
READ_AS_THEY_ARE |= {"escape codes in the message", "markup in the message"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return file_attacks.hostile(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("name", list(file_attacks._CHANGES))
def test_hostile_files(name, hostile, monkeypatch, capsys):
    tally = Tally(name)
    with tally.attack(name):
        loaded = wf.load(hostile[name])
        assert str(loaded)
        np.testing.assert_array_equal(loaded.data["loss"], file_attacks.answer().data["loss"])
    tally.check()
    assert tally.counts["answered"] == (name in READ_AS_THEY_ARE), dict(tally.counts)
    monkeypatch.setattr("sys.argv", ["widefield", "show", str(hostile[name])])
    code = 0
    try:
        cli.main()
    except SystemExit as ending:
        code = ending.code
    said = capsys.readouterr()
    assert code == (0 if name in READ_AS_THEY_ARE else 2)
    for stream in (said.out, said.err):
        assert "\x07" not in stream
        assert "\x1b[31m[bold]" not in stream
        assert "Traceback" not in stream
