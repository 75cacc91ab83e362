"""Real processes of `widefield solve` that are stopped in every way, and go on."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
from tally import Lost, Tally, Wrong

import widefield as wf

PROBLEM = """
[network]
kind = "mlp"
hidden_layers = 2
activation = "tanh"

[data]
kind = "sphere"
samples = 3
dimension = 4

[optimiser]
kind = "sgd"
learning_rate = 0.001
steps = {steps}

[record]
every = {every}
neurons = 0
"""
RUNS = {
    "width 16": ({"steps": 60000, "every": 6000}, ["--width", "16", "--seeds", "2"]),
    "width inf": ({"steps": 6000, "every": 600}, ["--particles", "64", "--replicas", "2"]),
}
ENDLESS = {
    "width 16": ({"steps": 10**8, "every": 10**7}, RUNS["width 16"][1]),
    "width inf": ({"steps": 10**7, "every": 10**6}, RUNS["width inf"][1]),
}
"""The same, so long that nobody sees their end."""
INTERVAL = 0.2
ENDINGS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "twice SIGINT")
SLACK = 2.0
"""Processor seconds beyond the interval: a call of the compiled program on two cores, and the writing itself."""
CODES = {"SIGTERM": {143}, "SIGHUP": {129}, "SIGINT": {130}, "twice SIGINT": {130}, "SIGKILL": {-9}}


def start(folder, run, *more, runs=RUNS):
    """A process that solves the problem in this folder."""
    sizes, options = runs[run]
    (folder / "p.toml").write_text(PROBLEM.format(**sizes))
    keep = ["--checkpoint-seconds", str(INTERVAL), "--quiet"]
    command = [sys.executable, "-m", "widefield.cli", "solve", "p.toml", "-o", "run.nc", *options, *keep, *more]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    """Wait; the code and what was said."""
    out, err = process.communicate(timeout=300)
    return process.returncode, (out + err).decode()


def spent(process):
    """Processor seconds of a process, which is not waited for yet."""
    with open(f"/proc/{process.pid}/stat") as handle:
        numbers = handle.read().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def followed(process, folder, seconds=1e9):
    """Look on for so many processor seconds: how many it took until every checkpoint, and until the end."""
    moments, seen = [], None
    while spent(process) < seconds and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        with contextlib.suppress(FileNotFoundError):
            written = (folder / "run.nc.checkpoint").stat().st_mtime_ns
            moments += [spent(process)] if written != seen else []
            seen = written
        time.sleep(0.01)
    return moments, spent(process)


def whole(folder, run):
    """The answer of a run that nobody disturbs, its processor seconds, and those before its first checkpoint."""
    process = start(folder, run)
    moments, last = followed(process, folder)
    code, said = end(process)
    assert code == 0, said
    return wf.load(folder / "run.nc"), last, moments[0]


def stopped(folder, run, how, seconds):
    """Stop a run after so many processor seconds; its code, what it said, its checkpoints and its seconds."""
    process = start(folder, run)
    moments, last = followed(process, folder, seconds)
    name = how.removeprefix("twice ")
    process.send_signal(getattr(signal, name))
    if how.startswith("twice"):
        time.sleep(0.05)
        process.send_signal(getattr(signal, name))
    return *end(process), moments, last


def stopped_in_time(folder, run, how, seconds):
    """The same, before the run has come to its end."""
    for _ in range(8):
        code, *rest = stopped(folder, run, how, seconds)
        if code:
            return code, *rest
        (folder / "run.nc").unlink()
        seconds *= 0.7
    raise Wrong("it is always too late")


def finished(folder, run):
    """Go on until the run is complete."""
    for _ in range(5):
        if (folder / "run.nc.checkpoint").exists():
            code, said = end(start(folder, run, "--resume"))
        elif not (folder / "run.nc").exists():
            code, said = end(start(folder, run))
        else:
            code, said = 0, ""
        if code:
            raise Wrong(f"exit code {code}: {said[-300:]}")
        if wf.load(folder / "run.nc").status == "complete":
            return wf.load(folder / "run.nc")
        (folder / "run.nc").unlink()
    raise Wrong("it never ends")


def check_same(one, other):
    """All numbers have the same bits."""
    if set(one.data.variables) != set(other.data.variables):
        raise Wrong("other variables")
    for name, value in one.data.variables.items():
        if not np.array_equal(value.values, other.data[name].values):
            raise Wrong(f"other bits in {name}")


def attack(folder, run, count, seed=0):
    """Stop so many runs, each at another moment and in another way."""
    tally, rng = Tally(f"stopped runs, {run}"), random.Random(seed)
    reference = folder / "whole"
    reference.mkdir()
    expected, seconds, first = whole(reference, run)
    for number in range(count):
        how, moment = ENDINGS[number % len(ENDINGS)], rng.uniform(0.0, seconds)
        place = folder / str(number)
        place.mkdir()
        with tally.attack(f"{run}: {how} after {moment:.2f} of {seconds:.2f} processor seconds"):
            code, said, moments, last = stopped_in_time(place, run, how, moment)
            tally.remark("at work" if moments else "before the first checkpoint")
            if code not in CODES[how] | {-getattr(signal, how.removeprefix("twice "))} or "Traceback" in said:
                raise Wrong(f"exit code {code}: {said[-300:]}")
            gone = last - (moments[-1] if moments else first)
            if how == "SIGKILL" and gone > INTERVAL + SLACK:
                raise Lost(f"{gone:.2f} processor seconds")
            check_same(expected, finished(place, run))
            left = sorted(path.name for path in place.iterdir())
            if left != ["p.toml", "run.nc"]:
                raise Wrong(f"files left: {left}")
    return tally
