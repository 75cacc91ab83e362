"""Runs that are killed, told to end or interrupted lose at most the time since the last checkpoint."""

import contextlib
import signal
import time

import kill_attacks
import numpy as np
import pytest

from widefield.training.checkpoint import load


@pytest.mark.parametrize("run", list(kill_attacks.RUNS))
def test_stopped_runs_go_on_to_the_same_bits(run, tmp_path):
    kill_attacks.attack(tmp_path, run, 2, seed=5).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("run", list(kill_attacks.RUNS))
def test_very_many_stopped_runs(run, seed, tmp_path):
    kill_attacks.attack(tmp_path, run, 18, seed=10 + seed).check()


@pytest.mark.parametrize("run", list(kill_attacks.ENDLESS))
def test_a_killed_run_loses_no_more_than_the_interval(run, tmp_path):
    """It is killed in the midst of its work, and what is on disk then is younger than the interval."""
    process = kill_attacks.start(tmp_path, run, runs=kill_attacks.ENDLESS)
    checkpoint = tmp_path / "run.nc.checkpoint"
    written = []
    ends = time.monotonic() + 100
    while len(written) < 3 and time.monotonic() < ends:
        with contextlib.suppress(FileNotFoundError):
            moment = checkpoint.stat().st_mtime
            written += [moment] if moment not in written else []
        time.sleep(0.01)
    time.sleep(0.3)
    age = time.time() - checkpoint.stat().st_mtime
    process.kill()
    assert kill_attacks.end(process)[0] == -signal.SIGKILL
    # between two looks at the clock lie a call of the compiled program, half a second, and the writing itself
    assert len(written) == 3
    assert max([age, *np.diff(written)]) < kill_attacks.INTERVAL + 2.0
    meta, arrays = load(checkpoint)
    assert 0 < meta["position"] < 10**7
    assert "state/0" in arrays
