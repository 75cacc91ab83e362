"""Gradient descent with a tensor over the training samples, of one lazy network: every algorithm ends at one place.

All motion of a linear model is z <- z - eta Theta_{.A} kappa eps, whatever the rate eta, the symmetric matrix kappa
over training samples and the loss with slopes eps = dL/dz may be in each step (PDLT eqs. (10.20), (10.33)). What is
done to the training outputs decides about the test outputs, so that all ways to z_A = y end at `trained_network`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..data.samples import column
from ..problem.losses import Loss, SquaredError
from .prediction import Blocks, response, spectrum


@dataclass(frozen=True, eq=False)
class TensorStep:
    """A step of rate eta with kappa (None is 1, plain gradient descent) down the slope of a loss."""

    rate: float
    tensor: Floats | None = None
    loss: Loss = field(default_factory=SquaredError)

    def __post_init__(self) -> None:
        """Check that the tensor is symmetric."""
        put(self, rate=check.number("rate", self.rate))
        if self.tensor is not None:
            put(self, tensor=check.array("tensor", self.tensor, ndim=2))
            if self.tensor.shape[0] != self.tensor.shape[1] or not np.allclose(self.tensor, self.tensor.T, rtol=1e-8):
                raise InvalidInput(f"tensor of shape {self.tensor.shape} is not symmetric: use (T + T^T) / 2")


def slopes(loss: Loss, outputs: ArrayLike, targets: ArrayLike) -> Floats:
    """eps = dL/dz of every sample and output: z - y for the squared loss, softmax(z) - p for the cross-entropy.

    PDLT eqs. (10.5), (10.6). Weights of samples (`reduction`) are included.

    >>> slopes(SquaredError(), [[2.0]], [[0.5]]).tolist()
    [[1.5]]
    """
    z, y = column("outputs", outputs), column("targets", targets)
    if z.shape != y.shape:
        raise InvalidInput(f"targets has shape {y.shape} and outputs {z.shape}: they need the same")
    with double_precision():
        return -loss.weight(max(1, len(z))) * np.asarray(loss.error(jnp.asarray(z), jnp.asarray(y)))


def newton_tensor(train: ArrayLike, rate: float = 1.0) -> Floats:
    """kappa with eta kappa = Theta_AA^-1, PDLT eq. (10.25): one step of the squared loss ends training.

    >>> newton_tensor([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    values, vectors = spectrum(check.array("train", train, ndim=2))
    if not (values > 0).all():
        raise InvalidInput("train is singular, because of duplicate samples or too simple a network: leave out samples")
    return np.asarray(vectors / values @ vectors.T / check.number("rate", rate, above=0.0))


def batch_tensor(samples: int, batch: Sequence[int]) -> Floats:
    """kappa of a minibatch: 1 for its samples and 0 for the others (PDLT section 10.2.2)."""
    chosen = np.zeros(check.integer("samples", samples, least=1))
    chosen[list(batch)] = 1.0
    return np.diag(chosen)


def generalised_error(outputs: ArrayLike, targets: ArrayLike, tensor: ArrayLike) -> float:
    """1/2 sum kappa_ab (z_a - y_a) (z_b - y_b), PDLT eq. (10.22): plain descent on it is a step with kappa."""
    apart = column("outputs", outputs) - column("targets", targets)
    return 0.5 * float(np.einsum("ab,ai,bi->", check.array("tensor", tensor, ndim=2), apart, apart))


def tensor_descent(
    ntk: Blocks, y: ArrayLike, initial: ArrayLike, initial_test: ArrayLike, steps: Iterable[TensorStep]
) -> tuple[Floats, Floats]:
    """Outputs (step, P, C) and (step, Q, C) of one lazy network before training and after every step, PDLT eq. (10.33).

    `initial` and `initial_test` are its first outputs at training and test samples.
    """
    targets, start = column("y", y), _joined(ntk, initial, initial_test)
    columns, found, train = np.concatenate([ntk.train, ntk.cross]), [start], len(ntk.train)
    for step in steps:
        errors = slopes(step.loss, found[-1][:train], targets)
        if step.tensor is not None and len(step.tensor) != train:
            raise InvalidInput(f"tensor has shape {step.tensor.shape}; there are {train} training samples")
        moved = errors if step.tensor is None else step.tensor @ errors
        found.append(found[-1] - step.rate * columns @ moved)
    every = np.stack(found)
    return every[:, :train], every[:, train:]


def trained_network(ntk: Blocks, y: ArrayLike, initial: ArrayLike, initial_test: ArrayLike) -> Floats:
    """Test outputs (Q, C) of one fully trained network, z_B - Theta_BA Theta_AA^-1 (z_A - y), PDLT eq. (10.39).

    >>> trained_network(Blocks([[2.0]], [[1.0]], [[2.0]]), [1.0], [0.0], [0.25]).tolist()
    [[0.75]]
    """
    start, train = _joined(ntk, initial, initial_test), len(ntk.train)
    return np.asarray(start[train:] - response(ntk) @ (start[:train] - column("y", y)))


def _joined(ntk: Blocks, initial: ArrayLike, initial_test: ArrayLike) -> Floats:
    first, second = column("initial", initial), column("initial_test", initial_test)
    if (len(first), len(second)) != (len(ntk.train), len(ntk.test)):
        sizes = f"{len(ntk.train)} training and {len(ntk.test)} test samples"
        raise InvalidInput(f"initial has {len(first)} rows and initial_test {len(second)}; the kernel has {sizes}")
    return np.concatenate([first, second])
