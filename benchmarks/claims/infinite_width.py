"""What is claimed about width infinity: each claim in a function of its own, named in `floors.toml`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import widefield as wf
from claims import brute_force, children, former, known_truths, problems
from claims.measuring import Claim, Cost, seconds
from claims.memory import GIB
from claims.problems import Sizes

NOTHING = wf.Record(steps=(0,), neurons=0, kernels=False)


def against_former(sizes: Sizes) -> Claim:
    """The default problem, warm, against the program and the settings that were there before."""
    ours = _solving(problems.default(sizes), sizes.ours)
    ours()
    return Claim(ours, lambda: _former(sizes, 2)[1])


def against_networks(name: str) -> Callable[[Sizes], Claim]:
    """A problem, warm, against the cheapest ensemble of networks with the same error."""
    asked = known_truths.KNOWN[name].tolerance
    return lambda sizes: brute_force.claim(*known_truths.load(name, sizes), sizes.asking_for(asked))


def cold(sizes: Sizes) -> Claim:
    """The first answer of a process that has nothing compiled."""
    first = partial(children.run, "first_solve", quick=sizes.quick)
    return Claim(lambda: first(theory="ours")["seconds"], lambda: _former(sizes, 1)[0])


def compiled(sizes: Sizes) -> Claim:
    """The first answer of a process that finds compiled programs on disk, against one that has none."""
    folder = tempfile.TemporaryDirectory(prefix="widefield-claims-")
    cached = partial(children.run, "first_solve", quick=sizes.quick, cache=Path(folder.name))
    cached(theory="ours")

    def ours() -> float:
        if not Path(folder.name).is_dir():  # it is deleted with the last function that names it, which is this one
            raise FileNotFoundError(folder.name)
        return cached(theory="ours")["seconds"]

    return Claim(ours, lambda: _former(sizes, 1)[0])


def learning_rates(sizes: Sizes) -> Claim:
    """Several learning rates in one process, against the same where all but the first are compiled before."""
    rates = partial(children.run, "learning_rates", quick=sizes.quick)
    return Claim(lambda: rates(warm=False)["seconds"], lambda: rates(warm=True)["seconds"])


def every_step(sizes: Sizes) -> Claim:
    """Many steps, all recorded, against the same with nothing recorded; numerical settings are the same."""
    every, nothing = problems.long(sizes, wf.Record(every=1)), problems.long(sizes, NOTHING)
    return _warm_claim(_solving(every, sizes.fixed), _solving(nothing, sizes.fixed))


def every_step_memory(sizes: Sizes) -> Claim:
    """What the recorded run adds to the process at its peak, against what the check before it counts."""
    run = partial(children.run, "long_record", quick=sizes.quick)
    stated = run()["stated"] / GIB
    return Claim(lambda: run()["peak"] / GIB, lambda: stated, unit="GiB")


def many_digits(sizes: Sizes) -> str:
    """Cost of a large problem, with compilation; there is nothing to compare it with."""
    found = children.run("many_digits", quick=sizes.quick)
    cost = f"{found['seconds']:.0f} s with compilation, {found['peak'] / GIB:.1f} GiB"
    size = f"{sizes.more_digits} digits, L = {sizes.layers}, T = {sizes.slow_digit_steps}"
    return f"{size}: {cost}, error {found['relative_error']:.1%}"


CLAIMS: dict[str, Callable[[Sizes], Claim]] = {
    "default-former": against_former,
    "default-networks": against_networks("default"),
    "sphere-networks": against_networks("sphere"),
    "digits-64-small-networks": against_networks("digits-64-small"),
    "digits-64-large-networks": against_networks("digits-64-large"),
    "digits-256-small-networks": against_networks("digits-256-small"),
    "digits-256-large-networks": against_networks("digits-256-large"),
    "cold-former": cold,
    "compiled-former": compiled,
    "learning-rates": learning_rates,
    "every-step": every_step,
    "every-step-memory": every_step_memory,
}

REPORTS: dict[str, Callable[[Sizes], str]] = {"many-digits": many_digits}
"""What is measured without a promise."""


def _former(sizes: Sizes, times: int) -> list[float]:
    """Seconds of the former program in a new process; tiny sizes are tried with the present one."""
    size = {"samples": sizes.samples, "layers": sizes.layers, "steps": sizes.steps}
    return former.seconds(**size, times=times, present=sizes.quick)


def _solving(problem: wf.Problem, theory: wf.Theory) -> Cost:
    return seconds(lambda: wf.solve(problem, theory, progress=False))


def _warm_claim(ours: Cost, theirs: Cost) -> Claim:
    ours()
    theirs()
    return Claim(ours, theirs)
