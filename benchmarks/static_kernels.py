"""Static kernels of widefield: time against neural-tangents and against closed forms, growth, memory and accuracy.

    python benchmarks/static_kernels.py [--scale 1.0] [--largest 10000]

Everything is measured in one run on one machine, in float64, after a call that compiles; the fastest of three counts.
neural-tangents runs in an environment of its own (`make peer`, or the environment variable WIDEFIELD_PEER_PYTHON) and
is left out if there is none. `--scale` shrinks the numbers of samples.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from widefield.kernels import Kernels, StaticKernel
from widefield.problem.network import MLP

ROOT = Path(__file__).resolve().parents[1]
PEER = Path(os.environ.get("WIDEFIELD_PEER_PYTHON", ROOT / ".venv-neural-tangents" / "bin" / "python"))
SCRIPT = ROOT / "benchmarks" / "peers" / "neural_tangents_kernels.py"
DIMENSION = 20
WEIGHT_STD, BIAS_STD = 1.3, 0.3
ROUNDS = 3
DEGREES = (25, 50, 100, 200)
"""Nodes of numerical quadrature: their documentation's suggestion, and more."""

FEW = 50
"""Samples with which many nodes are tried: their memory grows with the square of both, to 20 GiB for 50 and 500."""

Floats = NDArray[np.float64]


def inputs(samples: int) -> Floats:
    return np.random.default_rng(0).normal(size=(samples, DIMENSION))


def kernel(activation: str, layers: int) -> StaticKernel:
    """With the learning rates that neural-tangents has."""
    network = MLP(
        hidden_layers=layers, activation=activation, weight_variances=WEIGHT_STD**2, bias_variances=BIAS_STD**2
    )
    return StaticKernel(network, weight_rates=WEIGHT_STD**2, bias_rates=BIAS_STD**2)


def ours(activation: str, layers: int, samples: int) -> tuple[float, Kernels]:
    """Seconds of the fastest call, and the kernels."""
    compute, x = kernel(activation, layers), inputs(samples)
    found, best = compute(x), np.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = compute(x)
        best = min(best, time.perf_counter() - began)
    return best, found


def theirs(activation: str, layers: int, samples: int, degree: int) -> tuple[float, Any]:
    """The same by neural-tangents."""
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder, "request.npz"), Path(folder, "answer.npz")
        settings: dict[str, Any] = {"hidden_layers": layers, "activation": activation, "degree": degree}
        settings |= {"weight_std": WEIGHT_STD, "bias_std": BIAS_STD, "rounds": ROUNDS}
        np.savez(request, inputs=inputs(samples), **settings)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(PEER), str(SCRIPT), str(request), str(answer)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        with np.load(answer) as found:
            return float(found["seconds"]), Kernels(found["nngp"], found["ntk"])


def difference(first: Kernels, second: Kernels) -> float:
    """The largest of NNGP and NTK, relative to the diagonal."""
    pairs = ((first.nngp, second.nngp), (first.ntk, second.ntk))
    return max(float(np.abs(a - b).max() / np.diag(a).max()) for a, b in pairs)


def table(title: str, *columns: str) -> Table:
    made = Table(title=title)
    for column in columns:
        made.add_column(column, justify="right")
    return made


def compare(scale: float) -> Table:
    """(a) and (b): against neural-tangents, by closed forms and by quadrature."""
    made = table("neural-tangents / widefield", "kernel", "samples", "theirs", "ours, s", "theirs, s", "ratio", "apart")
    quadrature = DEGREES[:1]
    cases: list[tuple[str, int, int, tuple[int, ...]]] = [("erf", 5, 2000, (0,)), ("relu", 5, 2000, (0,))]
    cases += [("tanh", 3, 500, quadrature), ("gelu", 3, 500, (0, *quadrature))]
    for activation, layers, samples, degrees in cases:
        count = round(scale * samples)
        seconds, found = ours(activation, layers, count)
        for degree in degrees:
            peer_seconds, peer = theirs(activation, layers, count, degree)
            method = f"{degree} nodes" if degree else "closed form"
            numbers = [f"{seconds:.3f}", f"{peer_seconds:.3f}", f"{peer_seconds / seconds:.2f}"]
            made.add_row(f"{activation}, L={layers}", str(count), method, *numbers, f"{difference(found, peer):.1e}")
    return made


def nodes(scale: float) -> Table:
    """(b) and (e): nodes that their quadrature needs to be accurate, and its time for so many samples as above."""
    count = round(scale * 500)
    made = table(
        f"neural-tangents by quadrature (L=3, seconds scaled from {FEW} samples to {count})",
        *("activation", "nodes", "error", "theirs, s", "ours, s", "ratio"),
    )
    for activation in ("tanh", "gelu"):
        seconds, exact = ours(activation, 3, count)[0], kernel(activation, 3)(inputs(FEW))
        for degree in DEGREES:
            peer_seconds, peer = theirs(activation, 3, FEW, degree)
            scaled = peer_seconds * (count / FEW) ** 2
            numbers = [f"{scaled:.2f}", f"{seconds:.3f}", f"{scaled / seconds:.0f}"]
            made.add_row(activation, str(degree), f"{difference(exact, peer):.1e}", *numbers)
    return made


def accuracy(activation: str, layers: int) -> float:
    """Against the same recursion with adaptive integrals in two dimensions, for a few pairs of samples."""
    from widefield import gaussian
    from widefield.activations import get

    x, s = inputs(6), get(activation)
    f = [s.derivative(order) for order in (0, 1)]
    weights, biases = WEIGHT_STD**2, BIAS_STD**2
    k = weights * x @ x.T / DIMENSION + biases
    t = k
    for _ in range(layers):
        entries = np.diag(k)[:, None], k, np.diag(k)[None, :]
        feature, slope = (gaussian.average_product(g, g, *entries, kinks=s.kinks) for g in f)
        k = weights * feature + biases
        t = k + weights * slope * t
    return difference(Kernels(k, t), kernel(activation, layers)(x))


def series(scale: float) -> Table:
    """(c) and (e): activations without a closed form beside those with one."""
    count = round(scale * 2000)
    made = table(f"series / closed form (L=3, {count} samples)", "activation", "seconds", "/ erf", "/ gelu", "error")
    names = ("erf", "relu", "gelu", "tanh", "swish", "sigmoid")
    seconds = {name: ours(name, 3, count)[0] for name in names}
    for name, value in seconds.items():
        ratios = [f"{value / seconds[closed]:.2f}" for closed in ("erf", "gelu")]
        made.add_row(name, f"{value:.3f}", *ratios, f"{accuracy(name, 3):.0e}")
    return made


def measure(activation: str, samples: int) -> None:
    """In a process of its own: seconds, and bytes at the peak before and after."""
    compute = kernel(activation, 3)
    compute(inputs(1000))  # compiles for blocks of 500, as thousands of samples have them
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    compute(inputs(samples))
    print(time.perf_counter() - began, 1024 * before, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def growth(largest: int) -> Table:
    """(d): how time and memory grow with the number of samples."""
    made = table(
        "growth (L=3)", "activation", "samples", "seconds", "exponent", "peak, GiB", "of which results", "before"
    )
    for activation in ("relu", "tanh"):
        last: tuple[int, float] | None = None
        for samples in (largest // 4, largest // 2, largest):
            command = [sys.executable, __file__, "--measure", activation, str(samples)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            seconds, before, peak = (float(value) for value in output)
            exponent = "" if last is None else f"{np.log(seconds / last[1]) / np.log(samples / last[0]):.2f}"
            sizes = [f"{value / 2**30:.2f}" for value in (peak, 16 * samples**2, before)]
            made.add_row(activation, str(samples), f"{seconds:.2f}", exponent, *sizes)
            last = samples, seconds
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--measure", nargs=2, metavar=("activation", "samples"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], int(options.measure[1]))
        return
    console = Console()
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    console.print(growth(options.largest))  # first: processes inherit the peak memory of the one that starts them
    if PEER.exists():
        console.print(compare(options.scale))
        console.print(nodes(options.scale))
    else:
        console.print("neural-tangents is not installed (`make peer`): no comparison")
    console.print(series(options.scale))
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
