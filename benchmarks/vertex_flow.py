"""The four-point vertex and NLO metric of many inputs through many layers: time and memory, and against plain tensors.

    python benchmarks/vertex_flow.py [--inputs 8 16 32] [--layers 50] [--points 8192] [--naive-layers 3]

`flow` keeps symmetric kernels as vectors over pairs and its derivatives sparse. The plain way keeps tensors with P^4
entries for the vertex, the Jacobian and the average of four activations, and contracts them with einsum; it leaves out
the NLO metric, whose second derivatives would have P^6 entries. It gets the same derivatives and the same Sobol points,
a few layers of it are measured in the same run after the flow, and both give the same vertex. Every number of inputs
runs in a process of its own, so that peaks of memory belong to it; code that is compiled once for all is compiled
before the clock starts.
"""

from __future__ import annotations

import argparse
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

from widefield.effective.curvature import Slopes, derivatives
from widefield.effective.flow import Flow, flow
from widefield.gaussian.nested import evaluate
from widefield.kernels.sample_pairs import Pairs
from widefield.network import MLP
from widefield.sources import normals

DIMENSION, WIDTH, REPLICAS = 20, 128, 4
COLUMNS = ("inputs", "layers", "flow (s)", "s / layer", "memory (MB)", "plain s / layer", "plain (MB)", "ratio", "gap")

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


def four(K: Floats, layer: int, points: int) -> Floats:
    """Cov(s_a s_b, s_c s_d) with sample indices, from the points that `flow` takes."""
    values, directions = np.linalg.eigh(K)
    factor = directions[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    total = np.zeros((len(K),) * 4)
    for seed in range(REPLICAS):
        z = normals(seed, layer, len(K), points).T @ factor.T
        s = np.asarray(evaluate(network(1).phi, z))
        mean = s.T @ s / points
        for start in range(0, points, 1024):
            part = s[start : start + 1024]
            products = np.einsum("na,nb->nab", part, part)
            total += np.einsum("nab,ncd->abcd", products, products, optimize=True) / points / REPLICAS
        total -= np.multiply.outer(mean, mean) / REPLICAS
    return total


def plain(found: Flow, layers: int, points: int) -> tuple[float, float]:
    """Seconds for each layer, and the largest difference from the flow relative to the largest entry."""
    samples, pairs = found.kernels.shape[1], found.pairs
    V = np.zeros((samples,) * 4)
    start = time.perf_counter()
    for layer in range(layers):
        K, weight = found.kernels[layer], found.network.weight_scales[layer + 1] ** 2
        slopes, _ = derivatives(found.network.phi, K, pairs)
        M = jacobian(slopes, pairs, samples)
        carried = np.einsum("abij,ijkl,cdkl->abcd", M, V, M, optimize=True)
        V = weight**2 * (four(K, layer, points) / WIDTH + carried)
    seconds = (time.perf_counter() - start) / layers
    expected = found.metric_covariance(layers + 1)
    return seconds, float(np.abs(V - expected).max() / np.abs(expected).max())


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(samples: int, layers: int, points: int, naive: int) -> list[str]:
    x = inputs(samples)
    flow(network(2), x, WIDTH, points=points)
    before = peak()
    start = time.perf_counter()
    found = flow(network(layers), x, WIDTH, points=points, replicas=REPLICAS)
    seconds, memory = time.perf_counter() - start, peak()
    row = [
        str(samples),
        str(layers),
        f"{seconds:.2f}",
        f"{seconds / layers:.3f}",
        f"{memory:.0f} (+{memory - before:.0f})",
    ]
    if not naive:
        return [*row, "-", "-", "-", "-"]
    slow, gap = plain(found, min(naive, layers), points)
    return [*row, f"{slow:.3f}", f"{peak():.0f}", f"{slow / (seconds / layers):.1f}", f"{gap:.1e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--points", type=int, default=2**13)
    parser.add_argument("--naive-layers", type=int, default=3)
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.row:
        print("\t".join(measured(options.inputs[0], options.layers, options.points, options.naive_layers)))
        return
    table = Table(*COLUMNS)
    for samples in options.inputs:
        arguments = ["--inputs", samples, "--layers", options.layers, "--points", options.points]
        command = [sys.executable, Path(__file__), "--row", *arguments, "--naive-layers", options.naive_layers]
        done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
        table.add_row(*done.stdout.strip().splitlines()[-1].split("\t"))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
