"""The four-point vertex and NLO metric of many inputs through many layers: time, memory and error, against tensors.

    python benchmarks/vertex_flow.py [--inputs 8 16 32] [--layers 50] [--points 512] [--plain-layers 2]

`flow` keeps symmetric kernels as vectors over pairs and its derivatives sparse, sums low degrees of the average of
four activations exactly and samples the rest. The plain way keeps tensors with P^4 entries for the vertex, the
Jacobian and the average of four activations, which it takes from Sobol points alone, and contracts them with einsum; it
leaves out the NLO metric, whose second derivatives would have P^6 entries. It gets the same derivatives.

Errors are those of the second layer, where they are largest: the standard error of the mean of the replicas, root mean
square over entries, relative to that of the vertex. The plain way is timed at the points of `flow` and at 16 times as
many; its error at both gives the power of the points with which it falls, and the points at which it would be that of
`flow`: the time for these is extrapolated (time is linear in the points), not measured.

Every row runs in processes of its own, so that peaks of memory belong to it; code that is compiled once for all is
compiled before the clock starts. Seconds are those of the processor, of all threads together, in parentheses those
of the clock, which count other processes too.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from widefield.effective.curvature import derivatives
from widefield.effective.vertex_flow import flow
from widefield.gaussian.jacobians import Slopes
from widefield.gaussian.nested import evaluate
from widefield.gaussian.roots import root
from widefield.gaussian.sample_pairs import Pairs
from widefield.gaussian.sobol import normals
from widefield.kernels.fluctuations import saddle_point
from widefield.problem.network import MLP

DIMENSION, WIDTH, REPLICAS, MORE = 20, 128, 4, 16

Floats = NDArray[np.float64]


def network(layers: int) -> MLP:
    return MLP(layers, "tanh", weight_variances=1.2, bias_variances=0.05)


def inputs(samples: int) -> Floats:
    return np.random.default_rng(0).normal(size=(samples, DIMENSION))


def jacobian(slopes: Slopes, pairs: Pairs, samples: int) -> Floats:
    """d<s_a s_b>/dK_cd as a tensor whose contraction with symmetric kernels counts every pair once."""
    rows = pairs.matrix((slopes @ np.eye(len(pairs))).T)  # (q, a, b)
    tensor = np.zeros((samples,) * 4)
    tensor[:, :, pairs.rows, pairs.columns] = np.moveaxis(rows, 0, -1)
    return np.asarray(0.5 * (tensor + tensor.transpose(0, 1, 3, 2)))


def four(K: Floats, layer: int, points: int, seed: int) -> Floats:
    """Cov(s_a s_b, s_c s_d) with sample indices."""
    s = np.asarray(evaluate(network(1).phi, normals(seed, layer, len(K), points).T @ root(K).T))
    mean, total = s.T @ s / points, np.zeros((len(K),) * 4)
    for start in range(0, points, 1024):
        part = s[start : start + 1024]
        products = np.einsum("na,nb->nab", part, part)
        total += np.einsum("nab,ncd->abcd", products, products, optimize=True) / points
    total -= np.multiply.outer(mean, mean)
    return total


def relative(values: list[Floats]) -> float:
    """Standard error of the mean, root mean square over entries, relative to the mean."""
    stacked = np.stack(values)
    variance = np.mean(np.var(stacked, axis=0, ddof=1)) / len(values)
    return float(np.sqrt(variance / np.mean(stacked.mean(axis=0) ** 2)))


def clocks() -> Floats:
    return np.array([time.process_time(), time.perf_counter()])


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def of_flow(samples: int, layers: int, points: int) -> dict[str, Any]:
    x = inputs(samples)
    flow(network(2), x, WIDTH, points=points)
    start = clocks()
    found = flow(network(layers), x, WIDTH, points=points, replicas=REPLICAS)
    seconds = clocks() - start
    error, size = (float(np.sqrt(np.mean(part[1] ** 2))) for part in (found.covariance_error, found.covariances))
    return {"seconds": list(seconds), "memory": peak(), "error": error / size, "largest": found.relative_error}


def of_tensors(samples: int, layers: int, points: int) -> dict[str, Any]:
    """Seconds are for each layer."""
    point, pairs = saddle_point(network(layers), inputs(samples)), Pairs.within(samples)
    derivatives(point.activation, point.preactivation[0], pairs)
    V, weight = np.zeros((samples,) * 4), point.weight_variances[1]
    start = clocks()
    for layer, K in enumerate(point.preactivation):
        slopes, _ = derivatives(point.activation, K, pairs)
        M = jacobian(slopes, pairs, samples)
        source = sum(four(K, layer, points, seed) / REPLICAS for seed in range(REPLICAS))
        V = weight**2 * (source / WIDTH + np.einsum("abij,ijkl,cdkl->abcd", M, V, M, optimize=True))
    seconds = (clocks() - start) / layers
    memory = peak()
    over_pairs = np.ix_(pairs.rows * samples + pairs.columns, pairs.rows * samples + pairs.columns)
    first = [four(point.preactivation[0], 0, points, seed) for seed in range(REPLICAS)]
    error = relative([each.reshape(samples**2, samples**2)[over_pairs] for each in first])
    return {"seconds": list(seconds), "memory": memory, "error": error}


def alone(kind: str, samples: int, layers: int, points: int) -> dict[str, Any]:
    """In a process of its own."""
    arguments = ["--row", kind, "--inputs", samples, "--layers", layers, "--points", points]
    command = [sys.executable, Path(__file__), *arguments]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def report(options: Any) -> None:
    times = Table("inputs", "flow (s)", "s / layer", "MB", "error", "largest error")
    plain = Table("inputs", "points", "s / layer", "MB", "error", "power", "points at equal error", "s / layer there")
    ratios = Table("inputs", "ratio at equal points", "ratio at equal error")
    spent: list[tuple[int, float, float]] = []
    for samples in options.inputs:
        fast = alone("flow", samples, options.layers, options.points)
        few, many = (alone("plain", samples, options.plain_layers, n) for n in (options.points, MORE * options.points))
        (cpu, wall), (short, _), (long, _) = fast["seconds"], few["seconds"], many["seconds"]
        each, power = cpu / options.layers, math.log(few["error"] / many["error"]) / math.log(MORE)
        factor = (few["error"] / fast["error"]) ** (1 / power)
        there = short + (factor - 1) * (long - short) / (MORE - 1)
        spent.append((samples, each, short))
        times.add_row(
            str(samples),
            f"{cpu:.1f} ({wall:.1f})",
            f"{each:.3f}",
            f"{fast['memory']:.0f}",
            f"{fast['error']:.1e}",
            f"{fast['largest']:.1e}",
        )
        for n, row in ((options.points, few), (MORE * options.points, many)):
            end = ("", "", "") if row is few else (f"{power:.2f}", f"{factor * options.points:.1e}", f"{there:.1f}")
            memory, error = f"{row['memory']:.0f}", f"{row['error']:.1e}"
            plain.add_row(str(samples), str(n), f"{row['seconds'][0]:.3f}", memory, error, *end)
        ratios.add_row(str(samples), f"{short / each:.1f}", f"{there / each:.0f}")
    console = Console(width=120)
    console.print(f"flow: {options.layers} layers, {options.points} points in each of {REPLICAS} replicas", times)
    console.print("plain tensors; what is at equal error is extrapolated", plain, ratios)
    for (small, one, other), (large, two, another) in pairwise(spent):
        growth = [math.log(ratio) / math.log(large / small) for ratio in (two / one, another / other)]
        console.print(f"from {small} to {large} inputs: flow ~ P^{growth[0]:.1f}, tensors ~ P^{growth[1]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--points", type=int, default=2**9)
    parser.add_argument("--plain-layers", type=int, default=2)
    parser.add_argument("--row", choices=("flow", "plain"), help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.row is None:
        report(options)
        return
    measured = of_flow if options.row == "flow" else of_tensors
    print(json.dumps(measured(options.inputs[0], options.layers, options.points)))


if __name__ == "__main__":
    main()
