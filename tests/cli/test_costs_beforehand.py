"""Own data of 16 training and 8 test points, solved by default: what it costs is said before it starts."""

import re

import numpy as np
import pytest

import widefield as wf
from widefield import cli

rng = np.random.default_rng(0)
X = rng.normal(size=(24, 8))
DATA = wf.Data(X[:16], np.sign(X[:16, 0]), X[16:], np.sign(X[16:, 0]))
PROBLEM = wf.Problem(wf.MLP(2, "tanh"), DATA, optimiser=wf.SGD(0.05, 2), record=wf.Record(neurons=0))
SAID = r"\d+ replicas of \d+ particles: about \d+ s and \d+\.\d GiB .* to wait less: a larger tolerance"


class Started(Exception):
    """The first step is about to be taken."""


@pytest.fixture
def long_and_not_run(monkeypatch):
    """Everything is long, and nothing is run: what was said was said before."""

    def run(self):
        raise Started

    monkeypatch.setattr("widefield.theories.replicas._LONG", 0.0)
    monkeypatch.setattr("widefield.training.runner.Runner.run", run)


def test_in_python(long_and_not_run, capsys):
    with pytest.raises(Started):
        wf.solve(PROBLEM, progress=True)
    assert_said(capsys.readouterr().err)


def test_on_the_command_line(long_and_not_run, capsys, tmp_path, monkeypatch):
    PROBLEM.to_toml(tmp_path / "p.toml")
    monkeypatch.setattr("sys.argv", ["widefield", "solve", str(tmp_path / "p.toml"), "-o", str(tmp_path / "run.nc")])
    with pytest.raises((Started, SystemExit)):
        cli.main()
    assert_said(capsys.readouterr().err)


def assert_said(text):
    assert re.search(SAID, " ".join(text.split())), text


def test_the_estimate_covers_what_such_data_need():
    """The default solve once took 5 GB and minutes on such data; now a tenth of that, and the estimate knows it."""
    long = wf.Problem(PROBLEM.network, DATA, optimiser=wf.SGD(0.05, 10**6), record=wf.Record(every=10**5, neurons=0))
    cost = wf.InfiniteWidth().cost(long)
    assert cost.long
    assert 1e6 < cost.bytes < 1e9
    assert not wf.InfiniteWidth().cost(PROBLEM).long
