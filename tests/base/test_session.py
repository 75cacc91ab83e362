"""What jax traces and compiles is counted where somebody watches, and nowhere else."""

import json
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import widefield as wf
from widefield.base import session
from widefield.base.session import watching_compilation

TWICE = """
import json, jax, widefield as wf
problem = wf.Problem(
    wf.MLP(hidden_layers=1, activation="tanh"),
    wf.data.sphere(samples=3, dimension=4),
    optimiser=wf.SGD(learning_rate=0.1, steps=3),
)
before = len(jax._src.monitoring.get_event_duration_listeners())
answers = [wf.solve(problem, wf.{theory}) for _ in range(2)]
added = len(jax._src.monitoring.get_event_duration_listeners()) - before
print(json.dumps([added, *(answer.statistics for answer in answers)]))
"""


@pytest.fixture
def compiler():
    """New functions for jax, of which nothing is on disk."""
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    yield lambda: jax.jit(lambda x: jnp.sin(x) + 1.0)
    jax.config.update("jax_enable_compilation_cache", True)
    reset_cache()


def test_a_program_is_counted_once_and_in_every_block_around_it(compiler):
    x, program = jnp.zeros(3), compiler()
    with watching_compilation() as outer:
        with watching_compilation() as inner:
            program(x).block_until_ready()
        with watching_compilation() as again:
            program(x).block_until_ready()
    for seen in (outer, inner):
        assert (seen.programs, seen.loaded) == (1, 0)
        assert seen.traced > 0
        assert seen.compiled > 0
    assert (again.programs, again.traced, again.compiled) == (0, 0, 0)


def test_nothing_is_counted_after_the_block_also_if_it_fails(compiler):
    with pytest.raises(KeyError), watching_compilation() as seen:
        raise KeyError("x")
    compiler()(jnp.zeros(3))
    assert seen.programs == 0
    assert not session._watching


def test_other_threads_are_seen(compiler):
    x, program = jnp.zeros(3), compiler()
    with watching_compilation() as seen:
        thread = threading.Thread(target=lambda: program(x))
        thread.start()
        thread.join()
    assert seen.programs == 1


def test_seconds_inside_other_seconds_count_once():
    """A program may be compiled while another is traced: each second belongs to what was really done in it."""
    trace, compile_ = session._TRACED[0], session._COMPILED
    with watching_compilation() as seen:
        began = time.perf_counter()
        for _ in range(2):
            start = time.perf_counter()
            time.sleep(0.02)
            jax.monitoring.record_event_duration_secs(compile_, 0.02)
            time.sleep(0.01)
            jax.monitoring.record_event_duration_secs(trace, time.perf_counter() - start)
        passed = time.perf_counter() - began
    assert seen.compiled == pytest.approx(0.04)
    assert 0.02 <= seen.traced <= passed - 0.04 + 1e-3


def test_programs_from_disk_are_loaded_and_not_compiled():
    with watching_compilation() as seen:
        jax.monitoring.record_event_duration_secs(session._READ, 0.001)
        jax.monitoring.record_event_duration_secs(session._COMPILED, 0.002)
        time.sleep(0.01)
        jax.monitoring.record_event_duration_secs(session._COMPILED, 0.003)
    assert (seen.loaded, seen.programs) == (1, 1)
    assert (seen.loading, seen.compiled) == pytest.approx((0.002, 0.003))


@pytest.mark.parametrize("theory", ["InfiniteWidth(32, 2)", "FiniteWidth(8)", "Lazy()"])
def test_the_first_answer_compiles_and_the_second_does_not(theory, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")
    code = TWICE.format(theory=theory)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added, first, second = json.loads(done.stdout)
    assert added == 1, "one listener, however often somebody watches"
    assert first["programs_compiled"] > 5
    assert first["seconds_compiling"] > 0
    assert first["seconds_tracing"] > 0
    assert second["programs_compiled"] == second["seconds_compiling"] == 0


def test_answers_of_all_kinds_say_what_they_cost(tmp_path):
    linear = wf.proportional.LinearProblem(
        wf.proportional.LinearNetwork(1, 1.0), wf.proportional.LinearTask(samples=2.0), wf.SGD(0.1, 3)
    )
    answer = wf.solve(linear)
    answer.save(tmp_path / "answer.nc")
    costs = {"seconds_tracing", "seconds_compiling", "programs_compiled"}
    assert costs <= set(answer.statistics)
    again = wf.load(tmp_path / "answer.nc").statistics
    assert {name: again[name] for name in costs} == {name: answer.statistics[name] for name in costs}
