"""Memory of this process, and what widefield states before a run that it will take."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import psutil

import widefield as wf
from widefield.base.precision import double_precision
from widefield.theories.infinite_width import ConditionedStart, initial_capacity
from widefield.training.observe import Observer
from widefield.training.program import compile_problem
from widefield.training.runner import record_bytes

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
    """Bytes that the check before a run counts: the states of a replica, and the records of all of them.

    The one place that knows how the package counts; a public function of the package would take its place.
    """
    network = problem.network
    with double_precision():
        program = compile_problem(problem, network.richness, network.normalised_width_ratios, "float64")
        observer = Observer(program, jnp.asarray(problem.samples.y_test), problem.record)
        start = ConditionedStart(program, theory.particles, theory.rank_tolerance)
        capacity = initial_capacity(program, theory.rank_tolerance)
        state = eqx.filter_eval_shape(lambda: program.start(start._substrate(0, capacity, empty=True)))
        held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state) if hasattr(leaf, "dtype"))
        records = len(problem.record.at(problem.optimiser.steps))
        return int(3 * held) + record_bytes(observer, state, records, theory.replicas)
