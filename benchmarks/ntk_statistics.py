"""Statistics of the neural tangent kernel of many inputs, and of one input through many layers: time, memory, error.

    python benchmarks/ntk_statistics.py [--inputs 8 16 32] [--layers 10] [--points 512] [--deep 10000]

`ntk_flow` keeps symmetric kernels as vectors over pairs and derivatives sparse, sums low degrees of averages of four
exactly and samples the rest. The plain way keeps tensors over samples for V, D, A, F, B and for the averages of four,
which it takes from Sobol points alone, and contracts them with einsum; it leaves out the order 1/n of the means, which
`ntk_flow` has too. It gets the same derivatives.

Errors are those of B in the second layer: the standard error of the mean of the replicas, root mean square of entries,
relative to that of B. The plain way is timed at the points of `ntk_flow` and at 16 times as many; the points where its
error would be that of `ntk_flow`, and the time for these, are extrapolated (time is linear in the points).

Every row runs in a process of its own, so that peaks of memory belong to it; what is compiled once for all is compiled
before the clock starts. Seconds are those of the processor, of all threads together; in parentheses those of the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from widefield.effective import ntk_flow, single_ntk
from widefield.effective.curvature import derivatives
from widefield.gaussian.jacobians import Slopes
from widefield.gaussian.nested import evaluate
from widefield.gaussian.pair_table import bends
from widefield.gaussian.roots import root
from widefield.gaussian.sample_pairs import Pairs
from widefield.gaussian.sobol import normals
from widefield.kernels.fluctuations import saddle_point
from widefield.problem.network import MLP

DIMENSION, WIDTH, REPLICAS, MORE = 20, 128, 4, 16

Floats = NDArray[np.float64]


def network(layers: int) -> MLP:
    return MLP(layers - 1, "tanh", weight_variances=1.2, bias_variances=0.05)


def inputs(samples: int) -> Floats:
    return np.random.default_rng(0).normal(size=(samples, DIMENSION))


def jacobian(slopes: Slopes, pairs: Pairs, samples: int) -> Floats:
    """d<f_a f_b>/dK_cd as a tensor whose contraction with symmetric kernels counts every pair once."""
    rows = pairs.matrix((slopes @ np.eye(len(pairs))).T)  # (q, a, b)
    tensor = np.zeros((samples,) * 4)
    tensor[:, :, pairs.rows, pairs.columns] = np.moveaxis(rows, 0, -1)
    return np.asarray(0.5 * (tensor + tensor.transpose(0, 1, 3, 2)))


def fours(K: Floats, layer: int, points: int, seed: int) -> list[Floats]:
    """<s s s s>, <s s s' s'>, <s' s' s' s'> with sample indices, and the means <s s>, <s' s'>."""
    z, s = normals(seed, layer, len(K), points).T @ root(K).T, network(2).phi
    fields = [np.asarray(evaluate(s.derivative(order), z)) for order in (0, 1)]
    total = [np.zeros((len(K),) * 4) for _ in range(3)]
    for start in range(0, points, 1024):
        one, two = (np.einsum("na,nb->nab", f[start : start + 1024], f[start : start + 1024]) for f in fields)
        for kept, (left, right) in zip(total, ((one, one), (one, two), (two, two)), strict=True):
            kept += np.einsum("nab,ncd->abcd", left, right, optimize=True) / points
    return [*total, *(f.T @ f / points for f in fields)]


def plain_step(state: dict[str, Floats], point: Any, layer: int, points: int) -> dict[str, Floats]:
    """V, D, A, F, B of the layer above, over its fan-in, in tensors."""
    K, samples = point.preactivation[layer], point.preactivation.shape[1]
    pairs, C, theta, m = (
        Pairs.within(samples),
        point.weight_variances[layer + 1],
        point.tangents[layer],
        point.slopes[layer],
    )
    J, bent = (jacobian(derivatives(point.activation, K, pairs, order)[0], pairs, samples) for order in (0, 1))
    every = [fours(K, layer, points, seed) for seed in range(REPLICAS)]
    four, mixed, slopes, mean, slope = (sum(part) / REPLICAS for part in zip(*every, strict=True))
    W = J + C * theta[:, :, None, None] * bent
    V, D, A, F, B = (state[name] for name in "VDAFB")
    S00, S01 = four - np.multiply.outer(mean, mean), (mixed - np.multiply.outer(mean, slope)) * theta
    S11 = (slopes - np.multiply.outer(slope, slope)) * np.multiply.outer(theta, theta)
    WD = np.einsum("abij,ijcd->abcd", W, D, optimize=True) * m
    b = bends(point.activation, K)
    first = m[:, :, None, None] * F + b[:, :, None, None] * np.einsum("iijk->ijk", F)[None]
    second = m[None, None] * first + b[None, None] * np.einsum("abii->abi", first)[:, :, None, :]
    return {
        "V": C**2 * (S00 / WIDTH + np.einsum("abij,ijkl,cdkl->abcd", J, V, J, optimize=True)),
        "D": C * ((S00 + C * S01) / WIDTH + np.einsum("abij,ijkl,cdkl->abcd", J, V, W, optimize=True))
        + C**2 * np.einsum("abij,ijcd->abcd", J, D, optimize=True) * m,
        "A": (S00 + C * (S01 + S01.transpose(2, 3, 0, 1)) + C**2 * S11) / WIDTH
        + np.einsum("abij,ijkl,cdkl->abcd", W, V, W, optimize=True)
        + C * (WD + WD.transpose(2, 3, 0, 1))
        + C**2 * np.multiply.outer(m, m) * A,
        "F": C**2 * (np.swapaxes(mixed * theta, 1, 2) / WIDTH + second),
        "B": C**2 * (np.swapaxes(slopes * np.multiply.outer(theta, theta), 1, 2) / WIDTH + np.multiply.outer(m, m) * B),
    }


def clocks() -> Floats:
    return np.array([time.process_time(), time.perf_counter()])


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def of_flow(samples: int, layers: int, points: int) -> dict[str, Any]:
    x = inputs(samples)
    ntk_flow(network(3), x, WIDTH, points=points)
    start = clocks()
    found = ntk_flow(network(layers), x, WIDTH, points=points, replicas=REPLICAS)
    seconds = clocks() - start
    sizes = [
        float(np.sqrt(np.mean(found.data[name].values[1] ** 2)))
        for name in ("variance_paired_error", "variance_paired")
    ]
    return {"seconds": list(seconds), "memory": peak(), "error": sizes[0] / sizes[1]}


def of_tensors(samples: int, layers: int, points: int) -> dict[str, Any]:
    """Seconds are for each layer."""
    point = saddle_point(network(layers + 1), inputs(samples))
    derivatives(point.activation, point.preactivation[0], Pairs.within(samples), 1)
    state = {name: np.zeros((samples,) * 4) for name in "VDAFB"}
    start = clocks()
    for layer in range(layers):
        state = plain_step(state, point, layer, points)
    seconds = (clocks() - start) / layers
    memory = peak()
    each = np.stack([fours(point.preactivation[0], 0, points, seed)[2] for seed in range(REPLICAS)])
    error = np.sqrt(np.mean(np.var(each, axis=0, ddof=1)) / REPLICAS / np.mean(each.mean(axis=0) ** 2))
    return {"seconds": list(seconds), "memory": memory, "error": float(error)}


def of_depth(samples: int, layers: int, points: int) -> dict[str, Any]:
    """One input; twice, so that the second time nothing is compiled."""
    every = []
    for _ in range(2):
        start = clocks()
        single_ntk("tanh", 1.0, layers)
        every.append(list(clocks() - start))
    return {"seconds": every[1], "first": every[0], "memory": peak(), "error": 0.0}


def alone(kind: str, samples: int, layers: int, points: int) -> dict[str, Any]:
    """In a process of its own."""
    arguments = ["--row", kind, "--inputs", samples, "--layers", layers, "--points", points]
    command = [sys.executable, Path(__file__), *arguments]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def report(options: Any) -> None:
    table = Table(
        "inputs",
        "s",
        "s / layer",
        "MB",
        "error",
        "plain: s / layer",
        "MB",
        "error",
        "at equal points",
        "at equal error",
    )
    for samples in options.inputs:
        fast = alone("flow", samples, options.layers, options.points)
        few, many = (alone("plain", samples, options.plain_layers, n) for n in (options.points, MORE * options.points))
        (cpu, wall), short, long = fast["seconds"], few["seconds"][0], many["seconds"][0]
        each, power = cpu / options.layers, math.log(few["error"] / many["error"]) / math.log(MORE)
        factor = (few["error"] / fast["error"]) ** (1 / power)
        there = short + (factor - 1) * (long - short) / (MORE - 1)
        own = [str(samples), f"{cpu:.1f} ({wall:.1f})", f"{each:.2f}", f"{fast['memory']:.0f}", f"{fast['error']:.1e}"]
        plain = [
            f"{short:.2f}",
            f"{few['memory']:.0f}",
            f"{few['error']:.1e}",
            f"{short / each:.1f}",
            f"{there / each:.0f}",
        ]
        table.add_row(*own, *plain)
    console = Console(width=140)
    console.print(f"{options.layers} layers, {options.points} points in each of {REPLICAS} replicas", table)
    deep = alone("deep", 1, options.deep, 2)
    first, later = deep["first"][1], deep["seconds"][1]
    console.print(
        f"one input, {options.deep} layers of tanh: {first:.2f} s the first time, {later:.2f} s after that (clock)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--points", type=int, default=2**9)
    parser.add_argument("--plain-layers", type=int, default=2)
    parser.add_argument("--deep", type=int, default=10_000)
    parser.add_argument("--row", choices=("flow", "plain", "deep"), help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.row is None:
        report(options)
        return
    measured = {"flow": of_flow, "plain": of_tensors, "deep": of_depth}[options.row]
    print(json.dumps(measured(options.inputs[0], options.layers, options.points)))


if __name__ == "__main__":
    main()
