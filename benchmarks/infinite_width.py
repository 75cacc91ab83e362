"""Infinite width against the published algorithm, against brute force, and against itself as problems grow.

    python benchmarks/infinite_width.py [--only alternating brute growth size flow] [--digits 64 128 256]

All ratios come from one run on one machine. Times exclude compilation on both sides: whatever is timed has run once
before. Errors are relative (Frobenius norm), against a reference of 8 replicas with 4096 particles.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import widefield as wf
from widefield.cli.demo import default_problem
from widefield.solvers.alternating.equations import Equations
from widefield.solvers.alternating.iteration import Iteration, alternate
from widefield.solvers.alternating.noise import Sampling

console = Console(width=120)


def timed(problem: wf.Problem, theory: wf.Theory) -> tuple[wf.Trajectory, float]:
    """The answer, and the seconds that it takes once everything is compiled."""
    wf.solve(problem, theory, progress=False)
    began = time.perf_counter()
    answer = wf.solve(problem, theory, progress=False)
    return answer, time.perf_counter() - began


def peak_memory() -> float:
    """Largest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def final(trajectory: wf.Trajectory, name: str, layer: int) -> Any:
    """A kernel at the last time."""
    return trajectory.mean(name).isel(time=-1).sel(layer=layer).values


def distance(value: Any, reference: Any) -> float:
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))


class Reference:
    """The default problem (P = 10, T = 100, L = 3, tanh, gamma_0 = 1) and its answer."""

    def __init__(self) -> None:
        problem = default_problem()
        self.problem = dataclasses.replace(problem, record=wf.Record(steps=(0,), neurons=0))
        answer = wf.solve(self.problem, wf.InfiniteWidth(particles=4096), progress=False)
        self.features, self.gradients = final(answer, "feature_kernel", 3), final(answer, "gradient_kernel", 1)
        spread = final_error(answer)
        console.print(f"reference: standard error of Phi^3 {spread:.2%}, loss {float(answer.data.loss[-1]):.3g}")

    def errors(self, trajectory: wf.Trajectory) -> tuple[float, float]:
        """Of Phi^3 and G^1 at the end."""
        features, gradients = final(trajectory, "feature_kernel", 3), final(trajectory, "gradient_kernel", 1)
        return distance(features, self.features), distance(gradients, self.gradients)

    def cheapest(self, features: float, gradients: float) -> tuple[wf.InfiniteWidth, float, float, float]:
        """The fastest single replica whose errors (rms over 6 seeds) are below the given ones; its time and errors."""
        found = []
        for particles, rank_tolerance in ((256, 1e-1), (512, 1e-1), (512, 5e-2), (1024, 5e-2), (2048, 3e-2)):
            runs = [wf.InfiniteWidth(particles, 1, rank_tolerance, seed) for seed in range(100, 106)]
            squares = np.square([self.errors(wf.solve(self.problem, run, progress=False)) for run in runs])
            worst = np.sqrt(squares.mean(axis=0))
            if worst[0] <= features and worst[1] <= gradients:
                found.append((timed(self.problem, runs[0])[1], runs[0], float(worst[0]), float(worst[1])))
                break
        seconds, theory, phi, g = min(found, key=lambda item: item[0])
        return theory, seconds, phi, g


def final_error(trajectory: wf.Trajectory) -> float:
    error = trajectory.standard_error("feature_kernel").isel(time=-1, layer=-1).values
    return float(np.linalg.norm(error) / np.linalg.norm(final(trajectory, "feature_kernel", 3)))


def against_alternating(reference: Reference, iterations: int) -> None:
    """Time to the same error in the final kernels as the published alternating Monte Carlo."""
    problem = reference.problem
    steps = problem.optimiser.steps
    table = Table(title=f"published alternating Monte Carlo against widefield (P = 10, T = {steps}, L = 3)")
    for column in ("", "seconds", "error of Phi^3", "error of G^1", "ratio"):
        table.add_column(column, justify="right")
    with jax.enable_x64(True):
        start = wf.kernels.StaticKernel(problem.network, problem.rule).layers(problem.samples.x)
        sampling = Sampling(particles=1000, jacobian_particles=32)
        iteration = Iteration(iterations=iterations, settle=12)
        solution = alternate(Equations.of(problem), start, sampling, iteration)
    theirs = solution.seconds_per_iteration * iterations
    phi = distance(solution.at(solution.order.features[2], steps, steps), reference.features)
    g = distance(solution.at(solution.order.gradients[0], steps, steps), reference.gradients)
    theory, ours, own_phi, own_g = reference.cheapest(phi, g)
    table.add_row(f"{iterations} iterations, S = 1000", f"{theirs:.1f}", f"{phi:.1%}", f"{g:.1%}", "")
    name = f"one replica, S = {theory.particles}, tolerance {theory.rank_tolerance:g}"
    table.add_row(name, f"{ours:.2f}", f"{own_phi:.1%}", f"{own_g:.1%}", f"{theirs / ours:.0f}")
    console.print(table)


def against_brute_force(reference: Reference, goal: float = 0.01) -> None:
    """Time to 1% error in the last-layer kernel, by averaging networks of the best width."""
    table = Table(title=f"networks that average to {goal:.0%} error in Phi^3 at the end")
    for column in ("width", "s / network", "spread", "bias", "networks needed", "seconds", "ratio"):
        table.add_column(column, justify="right")
    best = np.inf
    theory, ours, error, _ = reference.cheapest(goal, np.inf)
    for width, seeds in ((64, 256), (128, 128), (256, 64), (512, 32), (1024, 16), (2048, 4), (4096, 2)):
        answer, seconds = timed(reference.problem, wf.FiniteWidth(width, seeds=seeds))
        kernels = answer.variable("feature_kernel").isel(time=-1, layer=-1).values
        norm = np.linalg.norm(reference.features)
        spread = np.sqrt(np.sum(kernels.var(axis=0, ddof=1))) / norm
        squared = np.sum((kernels.mean(axis=0) - reference.features) ** 2) / norm**2 - spread**2 / seeds
        bias = float(np.sqrt(max(squared, 0.0)))
        needed = np.ceil(spread**2 / (goal**2 - bias**2)) if bias < goal else np.inf  # widths that are too small
        total = needed * seconds / seeds
        best = min(best, total)
        table.add_row(
            str(width),
            f"{seconds / seeds:.3f}",
            f"{spread:.1%}",
            f"{bias:.2%}",
            f"{needed:.0f}",
            f"{total:.1f}",
            f"{total / ours:.1f}",
        )
    console.print(table)
    console.print(
        f"width infinity, one replica, S = {theory.particles}, tolerance {theory.rank_tolerance:g}: {ours:.2f} s, "
        f"error {error:.2%}; brute force at its best width takes {best / ours:.1f} times as long"
    )


def growth_with_steps(counts: tuple[int, ...]) -> None:
    """Seconds against T; the slope of the logarithms."""
    table = Table(title="growth with the number of steps (P = 10, L = 3, tanh, one replica, S = 1024)")
    for column in ("T", "seconds", "ms / step", "ranks", "peak memory so far, GiB"):
        table.add_column(column, justify="right")
    base, seconds = default_problem(), []
    for steps in counts:
        optimiser = wf.SGD(learning_rate=base.optimiser.rates()[0], steps=steps)
        problem = dataclasses.replace(base, optimiser=optimiser, record=wf.Record(steps=(0,), neurons=0))
        answer, spent = timed(problem, wf.InfiniteWidth(particles=1024, replicas=1))
        seconds.append(spent)
        ranks = answer.data["rank"].values[-1].astype(int).tolist()
        table.add_row(str(steps), f"{spent:.2f}", f"{1e3 * spent / steps:.2f}", str(ranks), f"{peak_memory():.2f}")
    console.print(table)
    exponent = np.polyfit(np.log(counts), np.log(seconds), 1)[0]
    console.print(f"seconds grow as T^{exponent:.2f}")


def flow_against_steps() -> None:
    """Gradient flow by its integrator against small steps, time to the same error of the outputs."""
    # A linear network has no sampling error that would hide the error of the integrator.
    base = dataclasses.replace(default_problem(), network=wf.MLP(hidden_layers=3, activation="linear"))
    record = wf.Record(every=1, neurons=0, kernels=False)
    one = wf.InfiniteWidth(particles=512, replicas=1)
    problem = dataclasses.replace(base, optimiser=wf.GradientFlow(t_end=1.0, steps=5, tolerance=1e-6), record=record)
    exact = wf.solve(problem, one, progress=False).mean("outputs").values
    table = Table(title="gradient flow of a linear network (P = 10, L = 3) to time 1: seconds, error of the outputs")
    for column in ("", "seconds", "error"):
        table.add_column(column, justify="right")
    for tolerance in (1e-2, 1e-3, 1e-4):
        flow = dataclasses.replace(problem, optimiser=wf.GradientFlow(t_end=1.0, steps=5, tolerance=tolerance))
        answer, seconds = timed(flow, one)
        error = distance(answer.mean("outputs").values, exact)
        table.add_row(f"GradientFlow, tolerance {tolerance:g}", f"{seconds:.2f}", f"{error:.1e}")
    for steps in (100, 400, 1600):
        record = wf.Record(every=steps // 5, neurons=0, kernels=False)
        euler = dataclasses.replace(base, optimiser=wf.SGD(1.0 / steps, steps), record=record)
        answer, seconds = timed(euler, one)
        table.add_row(f"{steps} steps", f"{seconds:.2f}", f"{distance(answer.mean('outputs').values, exact):.1e}")
    console.print(table)


def digits(samples: int, particles: int, replicas: int, rank_tolerance: float, steps: int) -> None:
    """Solve a problem of real digits from a cold start; a process of its own, so that the peak of memory is its own."""
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=3, activation="tanh"),
        data=wf.data.digits(samples=samples, classes=(0, 1)),
        optimiser=wf.SGD(learning_rate=0.32 / samples, steps=steps),
        record=wf.Record(every=steps // 10, neurons=0),
    )
    began = time.perf_counter()
    theory = wf.InfiniteWidth(particles=particles, replicas=replicas, rank_tolerance=rank_tolerance)
    answer = wf.solve(problem, theory, progress=False)
    seconds = time.perf_counter() - began
    peak = peak_memory()
    ranks = answer.data["rank"].values[-1].round().astype(int).tolist()
    loss = f"{answer.data.loss.values[0]:.3g} to {answer.data.loss.values[-1]:.3g}"
    print(f"{samples} digits, S = {particles}, {replicas} replicas, tolerance {rank_tolerance:g}, T = {steps}:")
    error = answer.data.attrs["relative_error"]
    print(f"  {seconds:.0f} s with compilation, largest error bar {error:.2%}, {peak:.1f} GiB")
    print(f"  ranks {ranks}, loss {loss}", flush=True)


SIZES = {64: (64, 2048, 4, 1e-1, 500), 128: (128, 4096, 2, 5e-2, 500), 256: (256, 8192, 2, 1e-1, 100)}


def main() -> None:
    parts = ("alternating", "brute", "growth", "flow", "size")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--iterations", type=int, default=38, help="of the published algorithm")
    parser.add_argument("--digits", type=int, nargs="+", choices=sorted(SIZES), default=[64])
    parser.add_argument("--digits-here", type=int, choices=sorted(SIZES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.digits_here:
        digits(*SIZES[options.digits_here])
        return
    if {"alternating", "brute"} & set(options.only):
        reference = Reference()
        if "alternating" in options.only:
            against_alternating(reference, options.iterations)
        if "brute" in options.only:
            against_brute_force(reference)
    if "growth" in options.only:
        growth_with_steps((100, 200, 400, 800, 1600, 3200))
    if "flow" in options.only:
        flow_against_steps()
    if "size" in options.only:
        for samples in options.digits:
            subprocess.run([sys.executable, __file__, "--digits-here", str(samples)], check=True)


if __name__ == "__main__":
    main()
