"""What both solutions of two-layer networks measure, and the names under which a `Trajectory` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ...base.arrays import Floats

if TYPE_CHECKING:
    from ...problem.problem import Problem

Arrays = dict[str, Floats]


class Measured(eqx.Module):
    """Outputs of all samples (training, then test), and kernels between some of them and the recorded ones."""

    outputs: Float[Array, "all c"]
    features: Float[Array, "rows k"]
    gradients: Float[Array, "rows c k c"]
    alignment: Float[Array, "rows c k c"]
    pseudo: Float[Array, "k c k c"]


def rows_recorded(problem: Problem) -> NDArray[np.int64]:
    """Rows of kernels: the recorded training samples and, if asked for, the test samples."""
    samples, recorded = problem.samples, problem.recorded_samples
    if not problem.record.test_kernels:
        return np.arange(recorded)
    tests = np.arange(samples.samples, samples.samples + samples.test_samples)
    return np.concatenate([np.arange(recorded), tests])


def recorded(problem: Problem, measured: Measured, inputs: Floats) -> Arrays:
    """Everything that the record asks for; the NTK is G~ K^x + Phi (BP23 eq. (4)), + 1 where biases learn."""
    samples, loss, count = problem.samples, problem.loss, problem.recorded_samples
    train = samples.samples
    outputs = jnp.asarray(measured.outputs)
    arrays = {
        "outputs": outputs[:count],
        "loss": loss.total(outputs[:train], jnp.asarray(samples.y)),
    }
    if samples.test_samples:
        arrays["test_outputs"] = outputs[train:]
        arrays["test_loss"] = loss.total(outputs[train:], jnp.asarray(samples.y_test))
    if problem.record.kernels:
        bias = 1.0 if problem.network.train_biases else 0.0
        rows = rows_recorded(problem)
        below = (inputs[np.ix_(rows, np.arange(count))] + bias)[:, None, :, None]
        top = (measured.features + bias)[:, None, :, None] * np.eye(samples.outputs)[None, :, None, :]
        kernels = {
            "feature_kernel": measured.features[None],
            "gradient_kernel": measured.gradients[None],
            "alignment_kernel": measured.alignment[None],
        }
        arrays["pseudo_gradient_kernel"] = measured.pseudo[None]
        for name, kernel in kernels.items():
            arrays[name] = kernel[:, :count]
            if problem.record.test_kernels and samples.test_samples:
                arrays[f"test_{name}"] = kernel[:, count:]
        ntk = np.asarray(measured.alignment) * below + np.asarray(top)
        arrays["ntk"] = ntk[:count]
        if problem.record.test_kernels and samples.test_samples:
            arrays["test_ntk"] = ntk[count:]
    return {name: np.asarray(value) for name, value in arrays.items()}
