"""The proportional limit of deep linear networks: how costs grow, and what simulations of the same accuracy cost.

    python benchmarks/proportional.py [--only growth forms simulation long many memory] [--steps 200 400 800]

All numbers come from one run on one machine. Times are the least of a few repetitions of the processor's time; memory
is what a sweep takes in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from widefield.base.errors import NotAccurate
from widefield.proportional import LinearNetwork, LinearTask, power_law, simulate, solve, solve_long, solve_many
from widefield.proportional.cross_layer import CrossLayerChain
from widefield.proportional.equations import Equations, equations
from widefield.proportional.sweep import sweep

console = Console(width=120)

MIB = 2**20
TASK = LinearTask(samples=2.0, noise=0.3)


def asked(form: str, layers: int, steps: int) -> Equations:
    """A problem of one of the forms that are measured, trained for the time 3 / (L + 1)."""
    network, task, depth = LinearNetwork(layers, 1.0), TASK, layers
    if form in ("residual", "cross-layer"):
        network = LinearNetwork(layers, 1.0, branch=1.0, depth_scaled=True)
    elif form == "continuous":
        network, depth = LinearNetwork(math.inf, 1.0, branch=1.0, depth_scaled=True), 1
    elif form == "structured":
        network = LinearNetwork(layers, 64.0, centred=True)
        task = LinearTask(samples=64, spectrum=power_law(1.5, 0.5, 64))
    elif form == "two outputs":
        task = LinearTask(samples=2.0, noise=0.3, target=np.array([[1.0, 0.6], [0.6, 1.0]]))
    return equations([network], [task], np.full((1, steps), 3 / (depth + 1) / steps), layers)


def once(form: str, layers: int, steps: int, repeats: int) -> dict[str, float]:
    """Seconds of one sweep, MiB that its result holds (there is no more on the way) and MiB that were expected."""
    together, best = asked(form, layers, steps), math.inf
    process = psutil.Process()
    before = process.memory_info().rss
    kept = sweep(together, chain=_chain(form, together))
    taken = process.memory_info().rss - before
    del kept
    for _ in range(repeats):
        best = min(best, seconds(lambda: sweep(together, chain=_chain(form, together))))
    return {"seconds": best, "MiB": taken / MIB, "expected": 8 * together.numbers() / MIB}


def _chain(form: str, together: Equations) -> CrossLayerChain | None:
    return CrossLayerChain(together) if form == "cross-layer" else None


def measured(form: str, layers: int, steps: int, repeats: int = 1) -> dict[str, float]:
    """`once` in a process of its own."""
    command = [sys.executable, __file__, "--once", form, str(layers), str(steps), str(repeats)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def seconds(run: Callable[[], Any]) -> float:
    """Time of the processor."""
    began = time.process_time()
    run()
    return time.process_time() - began


def table(title: str, *headings: str) -> Table:
    made = Table(title=title)
    for heading in headings:
        made.add_column(heading, justify="right")
    return made


def exponent(sizes: list[int], values: list[float]) -> str:
    """Of value ~ size^exponent."""
    return f"{np.polyfit(np.log(sizes), np.log(values), 1)[0]:.1f}"


def growth(steps: list[int]) -> None:
    """Time and memory over T and L."""
    depths = [1, 4, 16]
    found = {(T, L): measured("plain", L, T, 3 if T < 800 else 1) for T in steps for L in depths}
    made = table("one sweep, training set", "T", *(f"L = {L}" for L in depths), "exponent in L", "MiB at L = 16")
    for T in steps:
        times = [found[T, L]["seconds"] for L in depths]
        made.add_row(
            str(T), *(f"{t:.2f} s" for t in times), exponent(depths, times), f"{found[T, depths[-1]]['MiB']:.0f}"
        )
    if len(steps) > 1:
        powers = [exponent(steps, [found[T, L]["seconds"] for T in steps]) for L in depths]
        made.add_row("exponent in T", *powers, "", exponent(steps, [found[T, depths[-1]]["MiB"] for T in steps]))
    console.print(made)


def forms(steps: list[int]) -> None:
    """Elimination between layers against the responses between all pairs of layers, residual networks."""
    made = table("residual networks, T = 80", "L", "elimination", "all pairs", "time ratio", "MiB", "MiB", "ratio")
    for L in (4, 8, 16):
        one, two = (measured(form, L, 80, 3) for form in ("residual", "cross-layer"))
        made.add_row(
            str(L),
            *(f"{x['seconds']:.2f} s" for x in (one, two)),
            f"{two['seconds'] / one['seconds']:.1f}",
            *(f"{x['MiB']:.0f}" for x in (one, two)),
            f"{two['MiB'] / one['MiB']:.1f}",
        )
    console.print(made)


def simulation(steps: list[int]) -> None:
    """Networks that reach an error of 1% in the test loss, L = 3, nu = 1, alpha = 2, T = 40."""
    network, rate, count, goal = LinearNetwork(3, 1.0), 0.05, 40, 0.01
    exact = solve(network, TASK, rate, count, progress=False).test_loss
    theory = min(
        seconds(lambda: solve(network, TASK, rate, count, finite_size=False, progress=False)) for _ in range(5)
    )
    made = table("networks for 1%", "D", "bias", "scatter", "networks", "CPU s", "over theory")
    rows = []
    for D, drawn in ((32, 4096), (64, 1024), (128, 32), (256, 16), (512, 4), (1024, 2)):
        began = time.process_time()
        found = simulate(network, TASK, rate, count, dimension=D, seeds=drawn, progress=False)
        each = (time.process_time() - began) / drawn
        spread = found.data["test_loss_error"].values / exact * math.sqrt(drawn * D)
        rows.append((D, drawn, D * (found.test_loss / exact - 1), spread, each))
    # Bias ~ 1/D and scatter ~ 1/sqrt(D) come from small networks, of which there are many, weighted by their accuracy.
    well = rows[:2]
    weights = [drawn / D for D, drawn, *_ in well]
    bias = float(np.abs(np.average([row[2] for row in well], axis=0, weights=weights)).max())
    scatter = float(np.average([row[3] for row in well], axis=0, weights=weights).max())
    for D, *_, each in rows:
        made.add_row(*_needed(D, bias / D, scatter / math.sqrt(D), goal, each, theory))
    console.print(made)
    console.print(
        f"theory: {theory:.4f} s; bias {bias:.2f} / D, scatter of one network {scatter:.2f} / sqrt D: measured at"
    )
    console.print(
        "D = 32 and 64, extrapolated. Networks for bias + scatter / sqrt(networks) = 1%; times from a few of them."
    )


def _needed(D: int, bias: float, scatter: float, goal: float, each: float, theory: float) -> tuple[str, ...]:
    """Networks for bias + scatter / sqrt(n) = goal."""
    known = str(D), f"{bias:.2%}", f"{scatter:.1%}"
    if bias >= goal:
        return (*known, "never", "-", "-")
    count = max(2, math.ceil((scatter / (goal - bias)) ** 2))
    return (*known, str(count), f"{each * count:.2f}", f"{each * count / theory:.0f}")


def long(steps: list[int]) -> None:
    """Extrapolation in the learning rate against all steps."""
    problems = {
        "L = 1": (LinearNetwork(1, 1.0), TASK, 4.0),
        "L = 3": (LinearNetwork(3, 1.0), TASK, 3.0),
        "residual, L = 4": (LinearNetwork(4, 1.0, branch=1.0, depth_scaled=True), TASK, 1.5),
        "fresh samples, L = 2": (LinearNetwork(2, 1.0), LinearTask(batch_size=1.0, noise=0.3), 3.0),
    }
    T = max(steps)
    made = table(f"T = {T}: all steps over extrapolation", "problem", "tolerance", "true error", "claimed", "ratio")
    for name, (network, task, duration) in problems.items():
        exact = solve(network, task, duration / T, T, progress=False)
        whole = seconds(partial(solve, network, task, duration / T, T, finite_size=False, progress=False))
        for tolerance in (1e-4, 1e-6, 1e-8):
            began = time.process_time()
            found = solve_long(network, task, duration / T, T, tolerance=tolerance, progress=False)
            taken = time.process_time() - began
            made.add_row(name, f"{tolerance:g}", *_errors(found.data, exact.test_loss), f"{whole / taken:.1f}")
    console.print(made)


def _errors(found: Any, exact: NDArray[np.float64]) -> tuple[str, str]:
    """True and claimed, relative to the largest loss."""
    if "test_loss_error" not in found:
        return "0", "all steps"
    true = np.abs(found["test_loss"].values - exact[np.round(found["step"].values).astype(np.int64)]).max()
    return f"{true / exact.max():.0e}", f"{found['test_loss_error'].values.max() / exact.max():.0e}"


def many(steps: list[int]) -> None:
    """33 learning rates at once against one after the other."""
    network, rates = LinearNetwork(3, 1.0), np.geomspace(0.002, 0.05, 33)
    made = table("33 learning rates, L = 3", "T", "together", "one by one", "ratio")
    for T in (20, 100):
        grid = np.tile(rates[:, None], (1, T))
        whole = min(seconds(partial(solve_many, [network] * 33, [TASK] * 33, grid)) for _ in range(3))
        alone = sum(seconds(partial(solve, network, TASK, rate, T, progress=False)) for rate in rates)
        made.add_row(str(T), f"{whole:.2f} s", f"{alone:.2f} s", f"{alone / whole:.1f}")
    console.print(made)


def memory(steps: list[int]) -> None:
    """What one sweep takes against what is expected of it."""
    made = table("peak memory of one sweep", "form", "L", "T", "MiB", "expected", "ratio")
    cases = (("plain", 4, 500), ("residual", 4, 400), ("continuous", 8, 300), ("structured", 2, 300))
    for form, L, T in (*cases, ("two outputs", 3, 250)):
        found = measured(form, L, T)
        ratio = found["MiB"] / found["expected"]
        made.add_row(form, str(L), str(T), f"{found['MiB']:.0f}", f"{found['expected']:.0f}", f"{ratio:.2f}")
    console.print(made)


def main() -> None:
    parts = {"growth": growth, "forms": forms, "simulation": simulation, "long": long, "many": many, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--steps", nargs="+", type=int, default=[200, 400, 800], help="T of growth and long")
    parser.add_argument("--once", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", NotAccurate)
    if chosen.once:
        form, layers, steps, repeats = chosen.once
        print(json.dumps(once(form, int(layers), int(steps), int(repeats))))
        return
    for name in chosen.only:
        parts[name](sorted(chosen.steps))


if __name__ == "__main__":
    main()
