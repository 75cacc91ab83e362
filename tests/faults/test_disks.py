"""Full disks, limits of file sizes, folders that vanish or cannot be written to, and two runs at once."""

import os
import resource
import shutil
import subprocess
import sys

import kill_attacks
import pytest

import widefield as wf
from problems import assert_same_data
from widefield.base import files

PROBLEM = wf.Problem(
    wf.MLP(2, "tanh"), wf.data.sphere(samples=3, dimension=4), optimiser=wf.SGD(0.1, 40), record=wf.Record(every=4)
)
THEORY = wf.FiniteWidth(4, seeds=2, parallel=1)


@pytest.fixture(scope="module")
def whole():
    return wf.solve(PROBLEM, THEORY, progress=False)


def full_at(monkeypatch, *numbers):
    """The disk is full at these writes, or at all of them."""
    real, count = files._flush, iter(range(10**9))

    def flush(path):
        if next(count) in numbers or not numbers:
            raise OSError(28, "No space left on device")
        real(path)

    monkeypatch.setattr(files, "_flush", flush)


def solved(folder, **options):
    return wf.solve(
        PROBLEM,
        THEORY,
        progress=False,
        checkpoint=folder / "run.checkpoint",
        checkpoint_seconds=0,
        output=folder / "run.nc",
        **options,
    )


def test_a_full_disk_at_every_write(tmp_path, monkeypatch, whole):
    """A checkpoint that cannot be written is no reason to stop; the answer goes elsewhere, and is in the error."""
    monkeypatch.setattr("widefield.training.runner._MOMENTS", 8)
    for number in range(100):
        try:
            with monkeypatch.context() as patch:
                full_at(patch, number)
                found = solved(tmp_path)
        except wf.NotSaved as error:
            failed = error
            break
        assert_same_data(found.data.drop_attrs(), whole.data.drop_attrs())
        assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]
        (tmp_path / "run.nc").unlink()
    assert number > 3
    assert "No space left on device; the answer was saved to" in str(failed)
    assert_same_data(failed.result.data.drop_attrs(), whole.data.drop_attrs())
    elsewhere = str(failed).partition("saved to ")[2].removesuffix(" instead")
    assert_same_data(wf.load(elsewhere).data.drop_attrs(), whole.data.drop_attrs())
    shutil.rmtree(os.path.dirname(elsewhere))
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint"]
    assert_same_data(solved(tmp_path).data.drop_attrs(), whole.data.drop_attrs())
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]


def test_a_disk_that_is_full_everywhere(tmp_path, monkeypatch, whole):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    full_at(monkeypatch)
    with pytest.raises(wf.NotSaved, match="the answer is in `result` of this error") as caught:
        solved(tmp_path)
    assert_same_data(caught.value.result.data.drop_attrs(), whole.data.drop_attrs())
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("what", ["folder vanishes", "output becomes a folder"])
def test_places_that_change_during_a_run(tmp_path, what, whole):
    folder = tmp_path / "runs"
    folder.mkdir()

    def change(done, total, loss):
        if what == "folder vanishes":
            shutil.rmtree(folder, ignore_errors=True)
        else:
            (folder / "run.nc").mkdir(exist_ok=True)

    with pytest.raises(wf.NotSaved, match="was saved to") as caught:
        wf.solve(PROBLEM, THEORY, progress=change, output=folder / "run.nc")
    assert_same_data(caught.value.result.data.drop_attrs(), whole.data.drop_attrs())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(wf.FileProblem, match="Permission denied"):
        solved(tmp_path)


@pytest.mark.parametrize("limit", [0, 1000, 20_000])
def test_a_limit_of_file_sizes(tmp_path, limit):
    """`ulimit -f`: a clear error and the numbers on the terminal, no crash inside a library."""
    (tmp_path / "p.toml").write_text(PROBLEM.to_toml())
    command = [sys.executable, "-m", "widefield.cli", "solve", "p.toml", "-o", "run.nc", "--width", "4", "--quiet"]
    set_limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    environment = {**os.environ, "WIDEFIELD_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(
        command, cwd=tmp_path, preexec_fn=set_limit, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    if limit:
        assert "final" in done.stdout or "loss" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


@pytest.mark.slow
def test_two_runs_at_once(tmp_path):
    first = kill_attacks.start(tmp_path, "width inf")
    lock = None
    for _ in range(1000):
        lock = next(tmp_path.glob(".run.nc.*lock"), None)
        if lock is not None or first.poll() is not None:
            break
        __import__("time").sleep(0.02)
    assert lock is not None
    code, said = kill_attacks.end(kill_attacks.start(tmp_path, "width inf", "--overwrite"))
    assert kill_attacks.end(first)[0] == 0
    assert code == 2
    assert "another run is at work on run.nc" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.toml", "run.nc"]


def test_what_dead_processes_left_is_removed(tmp_path):
    orphan = files._temporary(tmp_path / "run.nc")
    dead = tmp_path / orphan.name.replace(f"-{os.getpid()}-", "-999999999-")
    orphan.rename(dead)
    foreign = tmp_path / ".other.nc.part"
    foreign.touch()
    files.write_text(tmp_path / "run.nc", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [foreign.name, "run.nc"]
