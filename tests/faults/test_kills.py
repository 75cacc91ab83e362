"""Runs that are killed, told to end or interrupted lose at most the time since the last checkpoint."""

import kill_attacks
import pytest


@pytest.mark.parametrize("run", list(kill_attacks.RUNS))
def test_stopped_runs_go_on_to_the_same_bits(run, tmp_path):
    kill_attacks.attack(tmp_path, run, 2, seed=5).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("run", list(kill_attacks.RUNS))
def test_very_many_stopped_runs(run, seed, tmp_path):
    kill_attacks.attack(tmp_path, run, 18, seed=10 + seed).check()


def test_a_killed_run_loses_no_more_than_the_interval(tmp_path):
    import time

    process = kill_attacks.start(tmp_path, "width inf")
    checkpoint = tmp_path / "run.nc.checkpoint"
    began = time.monotonic()
    while not checkpoint.exists() and process.poll() is None and time.monotonic() - began < 100:
        time.sleep(0.01)
    time.sleep(0.6)
    alive = process.poll() is None
    age = time.time() - checkpoint.stat().st_mtime if alive and checkpoint.exists() else 0.0
    process.kill()
    kill_attacks.end(process)
    # between two looks at the clock lie a call of the compiled program, half a second, and the writing itself
    assert age < kill_attacks.INTERVAL + 2.0
    assert kill_attacks.finished(tmp_path, "width inf").status == "complete"
