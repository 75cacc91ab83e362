"""How many modules an answer at infinite width takes: a short walk is one that a reader can follow."""

import sys
from pathlib import Path

import jax

import widefield as wf

ROOT = Path(wf.__file__).parent


def visited(action):
    """Modules of the package in which a function is called, in order of the first call; imports do not count."""
    modules = {}

    def watch(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            modules.setdefault(str(Path(name).relative_to(ROOT).with_suffix("")))

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    return list(modules)


def test_infinite_width_is_a_short_walk():
    problem = wf.Problem(
        wf.MLP(hidden_layers=3, activation="tanh"),
        wf.data.sphere(samples=4, dimension=6),
        optimiser=wf.SGD(learning_rate=0.1, steps=6),
    )
    solve, theory = wf.solve, wf.InfiniteWidth(particles=512, replicas=2)
    jax.clear_caches()  # compiled code would hide what it was made of
    modules = visited(lambda: solve(problem, theory, progress=False))
    modules.remove("base/renamed")  # constructors pass through it as long as old words are accepted
    assert {"matrices/conditioned", "training/observe", "activations/activation"} <= set(modules)
    assert "problem/question" not in modules  # no problem is written as text for a checkpoint that nobody asked for
    assert "trajectory/two_time" not in modules
    assert len(modules) <= 32, modules
