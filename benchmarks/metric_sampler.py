"""Random networks drawn by their metrics, layer by layer, against the same networks drawn with all their weights.

    python benchmarks/metric_sampler.py [--widths 32 128 512] [--depth 8] [--inputs 2] [--seeds 200]

Both give the stochastic metric of every layer, with the same law. A layer of n neurons takes n normals for each input
one way, n^2 the other. Both ways are batched, use the same generator and are compiled before the clock starts; the
number of networks is the same, and the faster of three runs counts. The last column tells how many standard errors lie
between the two means of the last metric: the largest over pairs of inputs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from widefield.effective import sampler
from widefield.problem.network import MLP

COLUMNS = ("width", "by metrics (networks / s)", "with weights (networks / s)", "ratio", "largest |z|")

Floats = NDArray[np.float64]


def timed(draw: Callable[[], Floats]) -> tuple[float, Floats]:
    """Seconds of the fastest of three runs after the first, and what they gave."""
    found, seconds = draw(), []
    for _ in range(3):
        start = time.perf_counter()
        draw()
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def deviation(first: Floats, second: Floats) -> float:
    """Largest difference of means over networks in standard errors."""
    gap = first.mean(axis=0) - second.mean(axis=0)
    error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / len(first))
    return float(np.abs(gap / error).max())


def measured(width: int, depth: int, samples: int, seeds: int) -> list[str]:
    network = MLP(depth - 1, "tanh", weight_variances=1.2, bias_variances=0.05)
    x = np.random.default_rng(0).normal(size=(samples, 10))
    fast, by_metrics = timed(lambda: sampler.metrics(network, x, width, seeds=seeds, seed=1))
    slow, with_weights = timed(lambda: sampler.networks(network, x, width, seeds=seeds, seed=2).metrics)
    z = deviation(by_metrics[:, -1], with_weights[:, -1])
    return [str(width), f"{seeds / fast:.0f}", f"{seeds / slow:.0f}", f"{slow / fast:.0f}", f"{z:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--inputs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=200)
    options: Any = parser.parse_args()
    table = Table(*COLUMNS)
    for width in options.widths:
        table.add_row(*measured(width, options.depth, options.inputs, options.seeds))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
