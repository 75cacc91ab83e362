"""Studies by their command, in processes of their own: stopped by Ctrl-C and taken up again; other rules; many rows."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import widefield as wf

pytestmark = pytest.mark.slow

SMALL = [
    "--target",
    "y",
    "--minutes",
    "1.5",
    "--width",
    "16",
    "--richness",
    "0,1",
    "--depths",
    "1,2",
    "--widths",
    "8,16",
]


def table(path, rows):
    """A product of two inputs, and noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 3))
    y = x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(rows)
    lines = ["a,b,c,y", *(",".join(f"{v:.6f}" for v in row) for row in np.column_stack([x, y]))]
    path.write_text("\n".join(lines))


def started(folder, *options):
    """The command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "widefield.cli", "study", "t.csv", *SMALL, *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(tmp_path):
    table(tmp_path / "t.csv", 60)
    parts, report = tmp_path / "t-study" / "parts", tmp_path / "t-study" / "report.html"
    first = started(tmp_path)
    until = time.monotonic() + 120
    while not list(parts.glob("richness-*.nc")) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 130, said
    assert "the same command or call goes on from there" in said
    assert "Traceback" not in said
    assert not report.exists()
    before = {path: path.stat().st_mtime_ns for path in parts.glob("*.nc") if not path.name.startswith("answer-")}
    assert before
    second = started(tmp_path)
    said, _ = second.communicate(timeout=300)
    assert second.returncode == 0, said
    assert "going on with what is there" in said
    assert report.exists()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "Lazy or rich" in said


def test_other_rules_are_trained_and_compared(tmp_path):
    table(tmp_path / "t.csv", 60)
    ran = started(tmp_path, "--rules", "feedback-alignment,hebb", "--minutes", "3")
    said, _ = ran.communicate(timeout=400)
    assert ran.returncode == 0, said
    kept = wf.load(tmp_path / "t-study" / "parts" / "answer-rule.nc").data
    assert kept["rule"].values.tolist() == ["gradient-descent", "feedback-alignment", "hebb"]
    assert np.isfinite(kept["test_loss"].values).all()
    assert "Which learning rule?" in said


def test_of_many_rows_a_stated_number_is_drawn(tmp_path):
    table(tmp_path / "t.csv", 5000)
    ran = started(tmp_path)
    said, _ = ran.communicate(timeout=300)
    assert ran.returncode == 0, said
    assert "of 5000 rows, drawn at random" in said
    assert "of 5000, drawn at random" in (tmp_path / "t-study" / "report.html").read_text()
