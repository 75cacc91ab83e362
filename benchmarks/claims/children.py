"""Work that needs a process of its own: a first solve, an empty cache, a peak of memory that nobody else raised.

    python -m claims.children '{"task": "first_solve", "quick": true, "theory": "ours"}'

A child prints one line of JSON at its end. The parent reads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
CACHE_SETTINGS = ("JAX_COMPILATION_CACHE_DIR", "WIDEFIELD_CACHE")


class ChildFailed(Exception):
    """A child process ended with an error."""


def run(task: str, *, quick: bool, cache: Path | None = None, **options: Any) -> dict[str, float]:
    """What a task measured in a new process, with this folder of compiled programs or none."""
    asked = json.dumps({"task": task, "quick": quick, **options})
    command = [sys.executable, "-m", "claims.children", asked]
    done = subprocess.run(command, env=environment(cache), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"{task} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def environment(cache: Path | None) -> dict[str, str]:
    """Ours, but programs are kept in `cache` and nowhere else; every one of them, however quickly it compiles."""
    kept = {name: value for name, value in os.environ.items() if name not in CACHE_SETTINGS}
    kept["PYTHONPATH"] = os.pathsep.join([str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])])
    if cache is None:
        return kept | {"WIDEFIELD_CACHE": "off"}
    every_program = {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return kept | every_program | {"JAX_COMPILATION_CACHE_DIR": str(cache)}


def first_solve(sizes: Any, asked: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the first `solve` of the default problem, imports of names left out."""
    import widefield as wf
    from claims import problems

    problem, theory = problems.default(sizes), getattr(sizes, asked["theory"])
    began = time.perf_counter()
    wf.solve(problem, theory, progress=False)
    return {"seconds": time.perf_counter() - began}


def learning_rates(sizes: Any, asked: Mapping[str, Any]) -> dict[str, float]:
    """Seconds for several learning rates one after the other; all but the first may be solved once before, untimed."""
    import numpy as np

    import widefield as wf
    from claims import problems

    base, total = problems.default(sizes), 0.0
    for number, factor in enumerate(np.geomspace(0.5, 2.0, sizes.rates)):
        problem = problems.at_rate(base, 0.05 * float(factor))
        if number and asked["warm"]:
            wf.solve(problem, sizes.ours, progress=False)
        began = time.perf_counter()
        wf.solve(problem, sizes.ours, progress=False)
        total += time.perf_counter() - began
    return {"seconds": total}


def long_record(sizes: Any, asked: Mapping[str, Any]) -> dict[str, float]:
    """Bytes that a run with every step recorded adds to the process at its peak, and those stated before."""
    import widefield as wf
    from claims import memory, problems

    wf.solve(problems.default(sizes), sizes.fixed, progress=False)  # modules and compiled programs are no part of it
    problem = problems.long(sizes, wf.Record(every=1))
    before = memory.reset_peak()
    wf.solve(problem, sizes.fixed, progress=False)
    return {"peak": memory.peak() - before, "stated": memory.stated(problem, sizes.fixed)}


def many_digits(sizes: Any, asked: Mapping[str, Any]) -> dict[str, float]:
    """Seconds with compilation, peak of memory and stated error of a large problem to 2%."""
    import widefield as wf
    from claims import memory, problems

    problem = problems.slow_digits(sizes)
    began = time.perf_counter()
    answer = wf.solve(problem, sizes.to_two_percent, progress=False)
    spent = time.perf_counter() - began
    return {"seconds": spent, "peak": memory.peak(), "relative_error": answer.data.attrs["relative_error"]}


TASKS = {task.__name__: task for task in (first_solve, learning_rates, long_record, many_digits)}


def main() -> None:
    asked = json.loads(sys.argv[1])
    from claims.problems import FULL, QUICK

    print(json.dumps(TASKS[asked["task"]](QUICK if asked["quick"] else FULL, asked)))


if __name__ == "__main__":
    main()
