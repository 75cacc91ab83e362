"""Limits of the process and of its container: what is too large is refused before it starts, what is small runs."""

import os
import resource
import subprocess
import sys

import pytest

from widefield.base import check

GIB = 2**30
ASKED = """
import time
import widefield as wf

def asked(name, theory, samples=3, steps=3, **record):
    began = time.monotonic()
    try:
        problem = wf.Problem(
            wf.MLP(2, "tanh"), wf.data.sphere(samples=samples, dimension=4), optimiser=wf.SGD(0.01, steps),
            record=wf.Record(neurons=0, **record),
        )
        ended = wf.solve(problem, theory, progress=False).status
    except wf.InvalidInput as error:
        ended = "late" if "ran out" in str(error) else "refused" if "GiB are free" in str(error) else str(error)
    print(f"{name}: {ended} {'at once' if time.monotonic() - began < 1 else ''}".strip())

asked("wide", wf.FiniteWidth(12000))
asked("many particles", wf.InfiniteWidth(particles=2**20, replicas=2))
asked("many records", wf.FiniteWidth(16), samples=40, steps=20_000, every=1)
asked("many samples", wf.Lazy(), samples=10_000)
asked("many steps", wf.FiniteWidth(16), steps=10**9)
asked("small", wf.FiniteWidth(16))
"""


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_too_large_problems_are_refused_under_a_limit_of_2_gib(limit):
    """`ulimit -v` and `ulimit -d`: a real process that may take 2 GiB."""
    set_limit = lambda: resource.setrlimit(getattr(resource, limit), (2 * GIB, 2 * GIB))  # noqa: E731
    command, environment = [sys.executable, "-c", ASKED], {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, preexec_fn=set_limit, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *large, small = done.stdout.splitlines()
    assert [line.partition(": ")[2] for line in large] == ["refused at once"] * 5, done.stdout
    assert small.startswith("small: complete"), done.stdout


TRAINED = """
import resource, sys
import widefield as wf

problem = wf.Problem(
    wf.MLP(2, "tanh"), wf.data.sphere(samples=3, dimension=4), optimiser=wf.SGD(1e-3, int(sys.argv[1])),
    record=wf.Record(every=int(sys.argv[1]) // 4, neurons=0),
)
theory = {"networks": wf.FiniteWidth(16, seeds=2), "infinite": wf.InfiniteWidth(particles=64, replicas=2)}[sys.argv[2]]
assert wf.solve(problem, theory, progress=False).status == "complete"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("theory", ["networks", "infinite"])
def test_memory_does_not_grow_with_the_number_of_steps(theory):
    """Peaks of processes: a hundred times the steps may add a tenth, while 100 kB for each would add 10 GiB."""
    peaks = []
    for steps in ("1000", "100000"):
        command = [sys.executable, "-c", TRAINED, steps, theory]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        peaks.append(float(done.stdout))
    assert peaks[1] < 1.1 * peaks[0]


def group(folder, names, most, used, cached):
    """A control group as the system shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    limit, usage, cache = names
    (folder / limit).write_text(f"{most}\n")
    (folder / usage).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{cache} {cached}\n")


NEW = ("memory.max", "memory.current", "inactive_file")
OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
UNLIMITED = 9223372036854771712


@pytest.mark.parametrize(
    ("own", "groups", "left"),
    [
        ("0::/a/b\n", {"a/b": (NEW, 2 * GIB, GIB, GIB // 2)}, 1.5),
        ("0::/a/b\n", {"a": (NEW, GIB, 0, 0), "a/b": (NEW, "max", GIB, 0)}, 1.0),
        ("0::/a/b\n", {"a": (NEW, 3 * GIB, GIB, 0), "a/b": (NEW, GIB, GIB, 0)}, 0.0),
        ("0::/\n", {"": (NEW, 2 * GIB, GIB, 0)}, 1.0),
        ("0::/outside\n", {"": (NEW, 2 * GIB, GIB, 0)}, 1.0),
        ("5:cpu:/x\n4:memory:/x\n0::/\n", {"memory/x": (OLD, 2 * GIB, GIB, 0)}, 1.0),
        ("4:cpu,memory:/x\n", {"memory": (OLD, 2 * GIB, 0, 0), "memory/x": (OLD, UNLIMITED, 0, 0)}, 2.0),
        ("0::/a\n", {"a": (NEW, "max", GIB, 0)}, None),
        ("0::/a\n", {"a": (NEW, "what", GIB, 0)}, None),
        ("nonsense\n", {}, None),
    ],
)
def test_limits_of_control_groups(tmp_path, monkeypatch, own, groups, left):
    """Of version 2 and 1, of a group and of those around it; inside a container its group is the root."""
    (tmp_path / "own").write_text(own)
    for name, numbers in groups.items():
        group(tmp_path / "groups" / name, *numbers)
    monkeypatch.setattr(check, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(check, "_CGROUPS", tmp_path / "groups")
    assert min(check._of_groups(), default=None) == (None if left is None else left * GIB)
    if left == 0.0:
        assert check.available() == 0


def test_a_problem_that_does_not_fit_into_its_group(tmp_path, monkeypatch):
    (tmp_path / "own").write_text("0::/a\n")
    group(tmp_path / "groups" / "a", NEW, 2 * GIB, 2 * GIB - 10_000, 0)
    monkeypatch.setattr(check, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(check, "_CGROUPS", tmp_path / "groups")
    with pytest.raises(ValueError, match=r"the numbers would take 1\.9e-05 GiB of memory; 9\.3e-06 GiB are free: wait"):
        check.memory("numbers", 20_000, "wait")
