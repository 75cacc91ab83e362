"""Where weight decay comes to rest: kernel regression with the final NTK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..base.errors import InvalidInput
from ..problem.layer_rates import layered
from ..problem.losses import SquaredError
from ..problem.optimisers import SGD

if TYPE_CHECKING:
    from ..problem.network import MLP
    from ..problem.problem import Problem
    from ..trajectory.trajectory import Trajectory


@dataclass(frozen=True)
class FixedPoint:
    """What the final kernel predicts of a network trained with weight decay, and how far off the network is."""

    outputs: xr.DataArray
    """Predictions for the training samples, with the axes of `Trajectory.data["outputs"]` (but for time)."""

    test_outputs: xr.DataArray | None
    """The same for the test samples; None if there are none."""

    degree: int
    """kappa: f(c theta) = c^kappa f(theta)."""

    residual: float
    """Root mean square of outputs minus predictions, over that of the predictions: small at rest."""

    test_residual: float | None
    """The same for the test samples."""


def weight_decay_fixed_point(trajectory: Trajectory) -> FixedPoint:
    """f(x) = k(x)^T [K + lambda kappa]^-1 y with the NTK at the last recorded time (BP22 App. J).

    A network whose output is homogeneous of degree kappa in its weights obeys df/dt = K Delta - lambda kappa f (theta
    . df/dtheta = kappa f, Euler's theorem), so that where the weights stand still K Delta = lambda kappa f. That holds
    for gradient flow and for discrete steps, with or without momentum, at any width, for every sample x; with the
    squared loss it is kernel ridge regression. kappa = 1 + q + ... + q^L for L hidden layers with an activation of
    degree q. With reduction = "mean" the ridge is P times larger.

    Three things to know. The final kernel depends on the data: this explains a network and does not replace training.
    f is the network's own output: with `centred`, training moves f - f(0), and at finite width the fixed point is
    f = k^T [K + lambda kappa]^-1 (y + f(0)) - f(0); the random f(0), of order 1 / (gamma_0 sqrt(N)), stays in the
    `residual`. At infinite width f(0) = 0. And neurons may come to rest on the kink of an activation such as ReLU for
    some sample, pushed back from both sides: then phi' there lies between its two values, the recorded NTK takes one
    of them, and the residual does not fall to zero.
    """
    problem, data = trajectory.problem, trajectory.data
    ridge = _checked(problem)
    kappa = degree(problem.network, gated=problem.rule.gated)
    if "ntk" not in data:
        raise InvalidInput("record.kernels = false: the fixed point needs the NTK at the end; record kernels")
    if data.sizes["sample"] < problem.samples.samples:
        raise InvalidInput(
            f"record.samples = {data.sizes['sample']}: the fixed point needs the NTK of all "
            f"{problem.samples.samples} training samples; record all of them"
        )
    if problem.samples.test_samples and "test_ntk" not in data:
        raise InvalidInput("record.test_kernels = false: test samples need it; use Record(test_kernels=True)")
    last = data.isel(time=-1, drop=True)
    coefficients = _coefficients(last, ridge * kappa)
    outputs = _predicted(last, coefficients, "")
    tests = _predicted(last, coefficients, "test_") if problem.samples.test_samples else None
    return FixedPoint(
        outputs,
        tests,
        kappa,
        _distance(last["outputs"], outputs),
        None if tests is None else _distance(last["test_outputs"], tests),
    )


def degree(network: MLP, *, gated: bool = False) -> int:
    """kappa = 1 + q + ... + q^L, for an activation with phi(c h) = c^q phi(h); gates make the network linear, q = 1."""
    q = 1 if gated else network.phi.homogeneity
    if q is None or q < 1:
        raise InvalidInput(
            f"activation = {network.activation!r} is not homogeneous of a degree >= 1, so that weight decay has no "
            "such fixed point; use linear, relu, leaky_relu(a) or monomial(p)"
        )
    if network.has_biases:
        raise InvalidInput("bias_variances, train_biases: a network with biases is not homogeneous in its weights")
    return sum(q**layer for layer in range(network.hidden_layers + 1))


def _checked(problem: Problem) -> float:
    """lambda times P if the loss is a mean."""
    optimiser, loss = problem.optimiser, problem.loss
    decay = float(getattr(optimiser, "weight_decay", 0.0))
    if not problem.rule.exact:
        raise InvalidInput(f"rule = {problem.rule.kind!r} does not follow a gradient; the fixed point is that of one")
    if not decay:
        raise InvalidInput("optimiser.weight_decay = 0: without weight decay a network comes to rest where Delta = 0")
    if not isinstance(loss, SquaredError):
        raise InvalidInput(f"loss = {loss.kind!r}: the fixed point is kernel regression for the squared loss only")
    if isinstance(optimiser, SGD) and (optimiser.batch_size is not None or optimiser.temperature):
        raise InvalidInput(
            f"optimiser.batch_size = {optimiser.batch_size}, optimiser.temperature = {optimiser.temperature:g}: "
            "networks do not come to rest; use the full batch and no noise"
        )
    if layered(optimiser.weight_rates):
        raise InvalidInput(
            f"optimiser.weight_rates = {optimiser.weight_rates!r}: rates of layers do not move the fixed point, but "
            "the NTK that is recorded has them in it; leave them out, the network comes to rest where it does with them"
        )
    return decay / loss.weight(problem.samples.samples)


def _coefficients(last: xr.Dataset, ridge: float) -> xr.DataArray:
    """[K + ridge]^-1 y, for every seed."""
    kernel, targets = last["ntk"], last["targets"]
    several = "output_" in kernel.dims
    rows, columns = (("sample", "output"), ("sample_", "output_")) if several else (("sample",), ("sample_",))
    lead = [dim for dim in kernel.dims if dim not in (*rows, *columns)]
    arranged = kernel.transpose(*lead, *rows, *columns).values
    size = targets.sizes["sample"] * (targets.sizes["output"] if several else 1)
    matrices = arranged.reshape(*arranged.shape[: len(lead)], size, size) + ridge * np.eye(size)
    flat = targets.transpose("sample", "output").values.reshape(size, 1)
    solved = np.linalg.solve(matrices, np.broadcast_to(flat, (*matrices.shape[:-1], 1)))
    shape = (*arranged.shape[: len(lead)], targets.sizes["sample"], targets.sizes["output"])
    return xr.DataArray(solved.reshape(shape), dims=(*lead, "sample_", "output_"))


def _predicted(last: xr.Dataset, coefficients: xr.DataArray, part: str) -> xr.DataArray:
    """k(x)^T [K + ridge]^-1 y."""
    kernel = last[f"{part}ntk"]
    if "output_" in kernel.dims:
        found = (kernel * coefficients).sum(("sample_", "output_"))
    else:
        found = (kernel * coefficients).sum("sample_").rename(output_="output")
    return found.transpose(*last[f"{part}outputs"].dims)


def _distance(outputs: xr.DataArray, predicted: xr.DataArray) -> float:
    return float(np.sqrt(((outputs - predicted) ** 2).mean() / (predicted**2).mean()))
