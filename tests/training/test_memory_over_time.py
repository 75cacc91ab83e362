"""Memory does not grow with the number of steps where few of them are recorded, in real processes."""

import subprocess
import sys

import pytest

SOLVE = """
import sys
import psutil
import widefield as wf

few, many, theory = int(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3])
most = 0

def look(done, total, loss):
    global most
    most = max(most, psutil.Process().memory_info().rss)

for steps in (few, many):  # the first run compiles, and what that takes is not given back
    problem = wf.Problem(
        wf.MLP(2, "tanh"), wf.data.sphere(samples=2, dimension=3), optimiser=wf.SGD(1e-3, steps),
        record=wf.Record(every=steps // 4, neurons=0),
    )
    before, most = psutil.Process().memory_info().rss, 0
    answer = wf.solve(problem, theory, progress=look)
    assert answer.data.sizes["time"] == 5 and answer.status == "complete", answer
print((most - before) / 2**20)
"""
THEORIES = {
    "width N": "wf.FiniteWidth(16, seeds=2)",
    "width infinity": "wf.InfiniteWidth(particles=64, replicas=2, rank_tolerance=0.1)",
}


def growth(few, many, theory):
    """MiB that the longer of two runs in one process takes at most, beyond what there was before."""
    command = [sys.executable, "-c", SOLVE, str(few), str(many), THEORIES[theory]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("theory", list(THEORIES))
def test_ten_thousand_steps_take_the_memory_of_a_thousand(theory):
    assert growth(1000, 10_000, theory) < 40


@pytest.mark.slow
@pytest.mark.parametrize("theory", list(THEORIES))
def test_a_hundred_thousand_steps_take_the_memory_of_ten_thousand(theory):
    """What grows are the learning rates of all steps, 0.8 MB an array."""
    assert growth(10_000, 100_000, theory) < 40
