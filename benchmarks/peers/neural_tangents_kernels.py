"""Kernels of neural-tangents, for comparison. Runs inside an environment of its own, which `make peer` builds.

    python neural_tangents_kernels.py request.npz answer.npz [request.npz answer.npz ...]

A request holds `inputs` (P, D), `hidden_layers`, `activation`, `weight_std`, `bias_std`, `rounds`, and `degree`:
0 asks for the closed form, anything else for numerical quadrature with so many nodes. The answer holds `nngp`, `ntk`
and `seconds`, the best of `rounds` calls after the one that compiles.

Parameters of neural-tangents are N(0, 1) with W_std / sqrt(n) and b_std in front, so that its NTK has learning rates
W_std^2 and b_std^2 in the place of 1.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax

jax.config.update("jax_enable_x64", True)

CLOSED = {"relu": stax.Relu, "erf": stax.Erf, "gelu": stax.Gelu}
FUNCTIONS = {
    "tanh": jnp.tanh,
    "erf": jax.scipy.special.erf,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
}


def nonlinearity(name: str, degree: int) -> Any:
    return stax.ElementwiseNumerical(FUNCTIONS[name], deg=degree) if degree else CLOSED[name]()


def kernel_function(layers: int, activation: str, degree: int, weight_std: float, bias_std: float) -> Any:
    def dense(width: int) -> Any:
        return stax.Dense(width, W_std=weight_std, b_std=bias_std or None)

    hidden = [part for _ in range(layers) for part in (dense(512), nonlinearity(activation, degree))]
    return jax.jit(stax.serial(*hidden, dense(1))[2], static_argnames="get")


def answer(request_file: str, answer_file: str) -> None:
    request = np.load(request_file)
    kernel = kernel_function(
        int(request["hidden_layers"]),
        str(request["activation"]),
        int(request["degree"]),
        float(request["weight_std"]),
        float(request["bias_std"]),
    )
    inputs = jnp.asarray(request["inputs"])
    found: Any = None
    seconds = [0.0]
    for attempt in range(int(request["rounds"]) + 1):
        began = time.perf_counter()
        found = jax.block_until_ready(kernel(inputs, None, get=("nngp", "ntk")))
        if attempt:  # the first call compiles
            seconds.append(time.perf_counter() - began)
    np.savez(answer_file, nngp=found.nngp, ntk=found.ntk, seconds=min(seconds[1:], default=0.0))


if __name__ == "__main__":
    for asked, answered in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        answer(asked, answered)
