"""Bits of answers do not depend on how many cores and threads there are: real processes with other settings."""

import os
import subprocess
import sys

import pytest

SOLVE = """
import hashlib
import numpy as np
import widefield as wf
record = wf.Record(every=4, neurons=0)
problem = wf.Problem(
    wf.MLP(3, "tanh"), wf.data.sphere(samples=6, dimension=8), optimiser=wf.SGD(0.05, 4), record=record
)
for theory in (wf.FiniteWidth(256, seeds=3), wf.InfiniteWidth(particles=1024, replicas=2, rank_tolerance=0.1)):
    data = wf.solve(problem, theory, progress=False).data
    digest = hashlib.sha256()
    for name in sorted(map(str, data.data_vars)):
        digest.update(np.ascontiguousarray(data[name].values).tobytes())
    print(theory.kind, digest.hexdigest())
"""
SETTINGS = {
    "one thread of OpenMP": {"OMP_NUM_THREADS": "1"},
    "one core": {},
    "a pool of 8 threads": {"NPROC": "8"},
}


def digests(cores=None, **settings):
    """Of the answers of a process with these settings, at width N and at width infinity."""
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "OMP_NUM_THREADS")}
    pinned = None if cores is None else lambda: os.sched_setaffinity(0, cores)
    command = [sys.executable, "-c", SOLVE]
    done = subprocess.run(
        command, env={**environment, **settings}, preexec_fn=pinned, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def usual():
    return digests()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be tied to a core here")
def test_one_core_and_one_thread_give_the_same_bits(usual):
    core = {min(os.sched_getaffinity(0))}
    assert digests(core, OMP_NUM_THREADS="1") == usual


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SETTINGS))
def test_each_setting_alone_gives_the_same_bits(name, usual):
    core = {min(os.sched_getaffinity(0))} if name == "one core" else None
    assert digests(core, **SETTINGS[name]) == usual


@pytest.mark.slow
def test_other_products_of_matrices_give_other_bits(usual):
    """What docs/safety.md says is not promised; also, the digests do notice a difference in rounding."""
    other = digests(XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    assert other[0::2] == usual[0::2]
    assert other[3] != usual[3]
