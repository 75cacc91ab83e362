"""The tangent kernel of networks of finite width at the end of training, and how large learning rates may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.statistics import mean_and_error
from ..problem.network import MLP
from .trained_networks import Initial, rotated, targets_of
from .trained_terms import Tensors
from .training_paths import Descent

_LARGEST = {1: 0.0, 2: math.sqrt(math.pi / 2), 3: 3 * math.sqrt(3 / (2 * math.pi))}
"""E[lambda_max] of symmetric Gaussian matrices M with Var M_ii = 2, Var M_ij = 1."""


@dataclass(frozen=True, eq=False)
class TrainedNTK:
    """E[H] = `infinite` + `initial_shift` + `learned`, over all samples, training samples first; errors O(1/n^2)."""

    infinite: Float[Floats, "d d"]
    initial_shift: Float[Floats, "d d"]
    """The order 1/n of the mean before training."""

    learned: Float[Floats, "d d"]
    """E[H(end) - H(0)]."""

    error: Float[Floats, "d d"]
    """Standard error of `learned` from sampled averages of four activations."""

    @property
    def mean(self) -> Float[Floats, "d d"]:
        """E[H(end)]."""
        return np.asarray(self.infinite + self.initial_shift + self.learned)


def trained_ntk(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike | None = None,
    *,
    widths: int | Sequence[int],
    learning_rate: float | None = None,
    centred: bool = False,
    **options: Any,
) -> TrainedNTK:
    """Mean NTK after training a network with one output to the end, with the loss sum (z - y)^2 / 2.

    From PDLT eqs. (inf.117) at the end of training, in modes c, d of the NTK on the training samples, with
    R' = R_0123 + R_0231 + R_0312, S' = S_1234 + T_1342 + U_1423, x_cd = h_c + h_d - eta h_c h_d, and (1 <-> 2) for the
    same with these labels exchanged,

        n E[H(end) - H(0)]_12 = -{P_12cc + Q_12cc + Q_1c2c + (1 <-> 2)} / h_c
            + (K_cd + y_c y_d) {[R'_12cd + S'_12cd + S'_1c2d + (1 <-> 2)] (1/h_c - 1/x_cd) / h_d
                                + (eta / 2) [R'_12cd + R'_21cd + 2 S'_12cd] / x_cd}

    The pole of 1/(2 - eta h) is what the catapult announces: large steps end at smaller kernels.

    Args:
        network, x, y, x_test, widths, learning_rate: as `trained_ensemble`; y has one output.
        centred: whether the first outputs are subtracted.
        **options: rates and sampling, as `trained_ensemble`.
    """
    inputs, tests = check.inputs(x, x_test)
    targets = targets_of(y, len(inputs))
    if targets.shape[1] != 1:
        raise InvalidInput(f"y has {targets.shape[1]} outputs; the trained NTK is known for one")
    everything = inputs if tests is None else np.concatenate([inputs, tests])
    initial = Initial.of(network, everything, widths, **options)
    initial = initial.centred() if centred else initial
    count, H = len(inputs), initial.tensors[0].H
    h, modes = np.linalg.eigh(H[:count, :count])
    descent = Descent.of(h, 0.0 if learning_rate is None else learning_rate)
    basis = np.eye(len(H))
    basis[:count, :count] = modes
    found = [
        basis @ _learned(rotated(tensors, basis), descent, (modes.T @ targets)[:, 0]) @ basis.T
        for tensors in initial.tensors
    ]
    mean, error = mean_and_error(np.stack(found) / initial.width, alone=0.0)
    return TrainedNTK(H, initial.tensors[0].H1 / initial.width, mean, error)


def _learned(tensors: Tensors, descent: Descent, y: Float[Floats, " a"]) -> Float[Floats, "d d"]:
    """n E[H(end) - H(0)] over points."""
    h, eta, a = descent.h, descent.rate, slice(len(descent.h))
    P, Q, R, S, T, U = (tensors.fours[name] for name in "PQRSTU")
    first = np.einsum("xycc->xyc", (P + Q)[:, :, a, a]) + np.einsum("xcyc->xyc", Q[:, a, :, a])
    # R'_0123, whose last two positions are over modes, and S' in two orders of positions
    bent = R + R.transpose(0, 3, 1, 2) + R.transpose(0, 2, 3, 1)
    both = S + T.transpose(0, 3, 1, 2) + U.transpose(0, 2, 3, 1)
    straight, crossed = both[:, :, a, a], np.einsum("xcyd->xycd", both[:, a, :, a])
    spread = tensors.K[a, a] + np.outer(y, y)
    pairs = h[:, None] + h - eta * h[:, None] * h
    slow, fast = spread * (1 / h[:, None] - 1 / pairs) / h, spread * eta / 2 / pairs
    total = -first @ (1 / h) + np.einsum("xycd,cd->xy", bent[:, :, a, a] + straight + crossed, slow, optimize=True)
    total = total + np.einsum("xycd,cd->xy", bent[:, :, a, a] + straight, fast, optimize=True)
    return np.asarray(total + total.T)


def stability_limit(largest: float, variance_paired: float, width: float, outputs: int = 1) -> float:
    """Mean learning rate beyond which networks of finite width diverge, at leading order: (2/h) (1 - sqrt(B/n) e / h).

    The largest eigenvalue h of the NTK is as often there as there are outputs, and fluctuations between these,
    B = `variance_paired` of its mode, spread it by n^(-1/2), e the mean largest eigenvalue of a Gaussian matrix of
    that size: 0, 1.2533, 2.0730 for one, two, three outputs. Of one output the shift is of order 1/n.

    >>> round(stability_limit(2.0, 0.5, 100, outputs=2), 6)
    0.955689
    """
    if outputs not in _LARGEST:
        raise InvalidInput(f"outputs = {outputs}: the mean largest eigenvalue is tabulated for 1, 2 and 3")
    h = check.number("largest", largest, above=0)
    spread = math.sqrt(
        check.number("variance_paired", variance_paired, least=0) / check.number("width", width, above=0)
    )
    return 2 / h * (1 - spread * _LARGEST[outputs] / h)
