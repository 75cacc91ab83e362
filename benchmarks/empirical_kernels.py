"""Kernels of real networks by products of fields and by Jacobians: time and peak memory, measured in one run.

    python benchmarks/empirical_kernels.py [--width 1024] [--samples 100] [--layers 3] [--rounds 3]

Three routes to the tangent kernel of the same network, in float64: `network_kernels`; `ntk_of_function` of the plain
function; and the whole Jacobian of that function times its transpose. Every route runs in a process of its own, so
that the peak of its resident memory is its own; the peak counts from before the first call. Seconds are those of
the fastest of several rounds after the one that compiles.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import widefield as wf
from widefield.kernels.empirical import network_kernels
from widefield.kernels.functions import ntk_of_function
from widefield.matrices.dense import Dense
from widefield.problem.rules import hidden

DIMENSION = 25
ROUTES = ("products of fields", "vjp then jvp", "whole Jacobian")


def plain_function(params: Any, x: Any) -> Any:
    """f = w phi(h) / sqrt(N), textbook."""
    first, matrices, last = params
    signal = jnp.tanh(x @ first.T / np.sqrt(x.shape[1]))
    for weight in matrices:
        signal = jnp.tanh(signal @ weight.T / np.sqrt(weight.shape[1]))
    return signal @ last / np.sqrt(len(last))


def plain_params(width: int, layers: int) -> Any:
    """The weights of the network that `network_kernels` draws with seed 0."""
    dense = Dense(jnp.asarray(0), (width,) * layers)
    for layer in range(1, layers):
        dense = dense.with_matrix(hidden(layer), layer - 1, layer, 1.0)
    first, last = dense.gaussian("input", 0, DIMENSION)[0], dense.gaussian("readout", layers - 1, 1)[0]
    return first.T, [dense.values[hidden(layer)] for layer in range(1, layers)], last[0]


@jax.jit
def whole_jacobian(params: Any, x: Any) -> Any:
    leaves = jax.tree.leaves(jax.vmap(lambda row: jax.grad(lambda p: plain_function(p, row[None])[0])(params))(x))
    flat = [leaf.reshape(len(x), -1) for leaf in leaves]
    return sum(leaf @ leaf.T for leaf in flat)


def kernel_by(route: str, width: int, samples: int, layers: int) -> Callable[[], Any]:
    """A function without arguments that computes the kernel."""
    x = np.random.default_rng(0).normal(size=(samples, DIMENSION))
    if route == ROUTES[0]:
        network = wf.MLP(hidden_layers=layers, activation="tanh")
        return lambda: network_kernels(network, x, width=width).ntk
    params = plain_params(width, layers)
    if route == ROUTES[1]:
        return lambda: ntk_of_function(plain_function, params, x)
    return lambda: np.asarray(whole_jacobian(params, jnp.asarray(x)))


def measure(arguments: tuple[str, int, int, int, int]) -> tuple[float, float, Any]:
    """Seconds, MiB of memory beyond those at the start, and the kernel."""
    route, width, samples, layers, rounds = arguments
    unit = 2**10 if sys.platform == "linux" else 2**20
    with jax.enable_x64(True):
        compute = kernel_by(route, width, samples, layers)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kernel, best = compute(), np.inf
        for _ in range(rounds):
            began = time.perf_counter()
            compute()
            best = min(best, time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return best, (after - before) / unit, kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = (options.width, options.samples, options.layers, options.rounds)
    # one process per route, one after the other
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = pool.map(measure, [(route, *sizes) for route in ROUTES], chunksize=1)
    table = Table(title=f"tangent kernel (L={options.layers}, N={options.width}, P={options.samples}, float64)")
    for name in ("route", "seconds", "time / products", "peak memory, MiB", "largest deviation"):
        table.add_column(name, justify="left" if name == "route" else "right")
    for route, (seconds, memory, kernel) in zip(ROUTES, results, strict=True):
        deviation = np.max(np.abs(kernel - results[0][2]))
        table.add_row(route, f"{seconds:.3f}", f"{seconds / results[0][0]:.1f}", f"{memory:.0f}", f"{deviation:.0e}")
    Console().print(table)


if __name__ == "__main__":
    main()
