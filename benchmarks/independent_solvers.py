"""Solvers that check width infinity: the closed linear equations against their damped iteration, and how costs grow.

    python benchmarks/independent_solvers.py [--only ratio growth]

All ratios and exponents come from one run on one machine. Times exclude compilation: what is compiled has run before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import widefield as wf

console = Console(width=120)


def problem(
    samples: int,
    steps: int,
    layers: int,
    activation: str = "linear",
    rule: wf.LearningRule | None = None,
    *,
    richness: float = 0.3,
    duration: float = 1.0,
) -> wf.Problem:
    """Training for the time duration / (L + 1). Hebb's rule explodes if it is longer."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, richness=richness),
        data=wf.data.sphere(samples=samples, dimension=50, seed=1),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(learning_rate=duration / steps / (layers + 1), steps=steps),
        record=wf.Record(steps=(0,), neurons=0),
    )


def seconds(asked: wf.Problem, theory: wf.Theory, *, compiled: bool) -> float:
    """Time of one solution, after another one if something has to be compiled."""
    if compiled:
        wf.solve(asked, theory, progress=False)
    began = time.perf_counter()
    wf.solve(asked, theory, progress=False)
    return time.perf_counter() - began


def ratio() -> None:
    """P = 20, T = 100, L = 5: one causal pass against the damped iteration over the whole grid."""
    asked, tolerance = problem(20, 100, 5, richness=0.5, duration=2.0), 1e-10
    iterated = wf.solve(asked, wf.ClosedLinear("fixed-point", tolerance=tolerance), progress=False)
    swept = wf.solve(asked, wf.ClosedLinear(), progress=False)
    apart = max(
        float(abs(swept.data[n] - iterated.data[n]).max()) for n in ("outputs", "feature_kernel", "gradient_kernel")
    )
    best = min(seconds(asked, wf.ClosedLinear(), compiled=False) for _ in range(3))
    table = Table(title="deep linear network, P = 20, T = 100, L = 5")
    for heading in ("solver", "seconds", "iterations", "over one pass"):
        table.add_column(heading, justify="right")
    table.add_row("one pass", f"{best:.2f}", "1", "1")
    slow, count = iterated.data.attrs["seconds"], iterated.data.attrs["iterations"]
    table.add_row(f"damped iteration to {tolerance:g}", f"{slow:.1f}", str(count), f"{slow / best:.0f}")
    console.print(table)
    console.print(f"largest difference of outputs and kernels: {apart:.1e}")


@dataclass(frozen=True)
class Case:
    """A solver and the sizes at which it is timed: samples, steps, layers; one of them at a time."""

    name: str
    theory: wf.Theory
    make: Callable[[int, int, int], wf.Problem]
    base: tuple[int, int, int]
    sizes: tuple[tuple[int, ...], ...]
    compiled: bool = False


def cases() -> list[Case]:
    def linear(rule: wf.LearningRule, activation: str = "linear") -> Callable[[int, int, int], wf.Problem]:
        return lambda p, t, k: problem(p, t, k, activation, rule)

    closed, many = wf.ClosedLinear(), (2, 4, 8)
    tanh = linear(wf.GradientDescent(), "tanh")
    single = wf.AlternatingMonteCarlo(particles=1000, iterations=5, replicas=1, tolerance=1e-30)
    return [
        Case(
            "closed, one pass, GD",
            closed,
            linear(wf.GradientDescent()),
            (20, 100, 3),
            ((20, 40, 80), (100, 200, 400), many),
        ),
        Case(
            "closed, one pass, FA",
            closed,
            linear(wf.FeedbackAlignment(0.5)),
            (20, 200, 3),
            ((20, 40, 80), (200, 400, 800), many),
        ),
        Case("closed, one pass, Hebb", closed, linear(wf.Hebb()), (10, 100, 3), ((5, 10, 20), (50, 100, 200), many)),
        Case(
            "closed, one pass, gated",
            closed,
            linear(wf.GatedLinear(), "relu"),
            (3, 50, 2),
            ((1, 2, 3), (50, 100, 200), many),
        ),
        Case(
            "closed, iterated, GD",
            wf.ClosedLinear("fixed-point", iterations=10, tolerance=1e-30),
            linear(wf.GradientDescent()),
            (10, 50, 3),
            ((10, 20, 40), (50, 100, 200), many),
        ),
        Case(
            "two layers, sampled",
            wf.TwoLayer(replicas=1),
            tanh,
            (10, 200, 1),
            ((10, 20, 40), (200, 400, 800), ()),
            compiled=True,
        ),
        Case("alternating, 5 iterations", single, tanh, (4, 20, 3), ((4, 8, 16), (20, 40, 80), many), compiled=True),
        Case(
            "infinite width",
            wf.InfiniteWidth(2048, 1),
            tanh,
            (10, 200, 3),
            ((10, 20, 40), (200, 400, 800), many),
            compiled=True,
        ),
    ]


def exponent(sizes: tuple[int, ...], times: list[float]) -> str:
    """Of time ~ size^exponent."""
    if len(sizes) < 2:
        return "-"
    return f"{np.polyfit(np.log(sizes), np.log(times), 1)[0]:.1f}"


def growth() -> None:
    """Fitted exponents of time against P, T and L."""
    table = Table(title="time ~ P^a T^b L^c")
    for heading in ("solver", "P, T, L", "seconds", "a", "b", "c"):
        table.add_column(heading, justify="right")
    for case in cases():
        row: list[Any] = []
        for axis, sizes in enumerate(case.sizes):
            at = [tuple(size if k == axis else case.base[k] for k in range(3)) for size in sizes]
            row.append(
                exponent(sizes, [seconds(case.make(*sizes_), case.theory, compiled=case.compiled) for sizes_ in at])
            )
        base = seconds(case.make(*case.base), case.theory, compiled=case.compiled)
        table.add_row(case.name, ", ".join(map(str, case.base)), f"{base:.2f}", *row)
    console.print(table)


def main() -> None:
    parts = {"ratio": ratio, "growth": growth}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    warnings.simplefilter("ignore", wf.NotAccurate)
    for name in parser.parse_args().only:
        parts[name]()


if __name__ == "__main__":
    main()
