"""Width infinity as it was before it asked for a tolerance: the program of an earlier commit, from this repository.

    python benchmarks/claims/former.py '{"samples": 10, "layers": 3, "steps": 100, "times": 2}'

prints the seconds of every solve of the default problem. Whichever `widefield` comes first in PYTHONPATH is timed, so
this file must run with both: it names nothing that either does not have.
"""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

COMMIT = "8bfdfc6"
"""8 replicas of 2048 particles with rank_tolerance = 0.01, one after the other; numbers were compiled in."""

_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Until the process ends."""


def seconds(*, samples: int, layers: int, steps: int, times: int, present: bool = False) -> list[float]:
    """Seconds of the first and later solves in a new process that has nothing compiled; `present` is today's code."""
    environment = {**os.environ, "WIDEFIELD_CACHE": "off"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    if not present:
        environment["PYTHONPATH"] = str(source())
    asked = json.dumps({"samples": samples, "layers": layers, "steps": steps, "times": times})
    command = [sys.executable, str(Path(__file__)), asked]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the former program ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


@functools.cache
def source() -> Path:
    """A folder with the former package."""
    root = Path(__file__).parents[2]
    packed = subprocess.run(["git", "archive", COMMIT, "src"], cwd=root, capture_output=True, check=False)
    if packed.returncode:
        raise RuntimeError(f"commit {COMMIT} is not in this clone: fetch its whole history, git fetch --unshallow")
    folder = tempfile.TemporaryDirectory(prefix="widefield-former-")
    _KEPT.append(folder)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder.name, filter="data")
    return Path(folder.name) / "src"


def main() -> None:
    import widefield as wf

    asked, spent = json.loads(sys.argv[1]), []
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=asked["layers"], activation="tanh", richness=1.0),
        data=wf.data.sphere(samples=asked["samples"], dimension=25, seed=0),
        optimiser=wf.SGD(learning_rate=0.05, steps=asked["steps"]),
    )
    for _ in range(asked["times"]):
        began = time.perf_counter()
        wf.solve(problem, wf.InfiniteWidth(), progress=False)
        spent.append(time.perf_counter() - began)
    print(json.dumps(spent))


if __name__ == "__main__":
    main()
