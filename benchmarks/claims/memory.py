"""Memory of this process, and what widefield states before a run that it will take."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import psutil

import widefield as wf

GIB = 2**30


def reset_peak() -> int:
    """Forget what the process needed so far; the bytes that it holds now."""
    marks = Path("/proc/self/clear_refs")
    if marks.exists():
        marks.write_text("5")
    return int(psutil.Process().memory_info().rss)


def peak() -> int:
    """Most bytes that the process held since the peak was reset, or since its start where it cannot be reset."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held when it started this process
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def stated(problem: wf.Problem, theory: wf.InfiniteWidth) -> int:
    """Bytes that the check before a run counts: the states of a group of replicas, and the records of all of them."""
    return theory.cost(problem).bytes
