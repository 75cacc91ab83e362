"""NNGP and NTK against neural-tangents, which lives in an environment of its own: `make peer`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from widefield.kernels import StaticKernel
from widefield.problem.network import MLP

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("WIDEFIELD_PEER_PYTHON", ROOT / ".venv-neural-tangents" / "bin" / "python"))
SCRIPT = ROOT / "benchmarks" / "peers" / "neural_tangents_kernels.py"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="no neural-tangents: run `make peer` or set WIDEFIELD_PEER_PYTHON"
)


CASES = [(activation, layers) for activation in ("relu", "erf", "gelu") for layers in (1, 2, 3, 5, 10)]


def inputs(layers):
    return np.random.default_rng(layers).normal(size=(12, 7))


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """All in one process, for starting one takes longest."""
    folder, files = tmp_path_factory.mktemp("kernels"), []
    for number, (activation, layers) in enumerate(CASES):
        request, answer = folder / f"request-{number}.npz", folder / f"answer-{number}.npz"
        settings = {"hidden_layers": layers, "activation": activation, "degree": 0, "rounds": 0}
        np.savez(request, inputs=inputs(layers), weight_std=1.3, bias_std=0.4, **settings)
        files += [str(request), str(answer)]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "XLA_FLAGS")}
    done = subprocess.run([str(PYTHON), str(SCRIPT), *files], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return {case: dict(np.load(answer)) for case, answer in zip(CASES, files[1::2], strict=True)}


@pytest.mark.parametrize(("activation", "layers"), CASES)
def test_kernels(activation, layers, answers):
    """Their learning rates are the variances. Errors are relative to the diagonal."""
    network = MLP(hidden_layers=layers, activation=activation, weight_variances=1.3**2, bias_variances=0.4**2)
    ours = StaticKernel(network, weight_rates=1.3**2, bias_rates=0.4**2)(inputs(layers))
    for name, kernel in (("nngp", ours.nngp), ("ntk", ours.ntk)):
        theirs = answers[activation, layers][name]
        error = np.abs(kernel - theirs).max() / np.diag(theirs).max()
        print(f"{activation}, L={layers}, {name}: {error:.1e}")
        assert error < 1e-6
