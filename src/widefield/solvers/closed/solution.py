"""What the closed solvers return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ...base.arrays import Floats


@dataclass(frozen=True)
class Solution:
    """Outputs after every step, kernels at equal times after the recorded ones.

    Args:
        outputs: f; (T + 1, P, C).
        feature: Phi^l; (R, L, P, P).
        gradient: G^l; (R, L, P, C, P, C), as its two companions:
        alignment: <g gt>.
        pseudo: <gt gt>.
    """

    outputs: Float[Floats, "t p c"]
    feature: Float[Floats, "r l p p"]
    gradient: Float[Floats, "r l p c p c"]
    alignment: Float[Floats, "r l p c p c"]
    pseudo: Float[Floats, "r l p c p c"]


def for_all_samples(kernel: Float[Floats, "r l c c"], samples: int) -> Float[Floats, "r l p c p c"]:
    """A kernel of gradients that are the same for all samples, as a view."""
    records, layers, outputs, _ = kernel.shape
    shape = (records, layers, samples, outputs, samples, outputs)
    return np.broadcast_to(kernel[:, :, None, :, None, :], shape)


@dataclass(frozen=True)
class TwoTime:
    """Fields at all recorded times as vectors with the right inner products, and responses as products of two factors.

    Args:
        features: L arrays (R, P, rank) with Phi^l(t, s) = F(t) F(s)^T.
        gradients: the same of g^l; (R, P, C, rank).
        pseudo: the same of gt^l, with the inner products of both; None if gt = g.
        responses: by name, for every pair of layers l, l + 1: left and right factor, features (R, P, rank) and
            gradients (R, P, C, rank), in the normalisation of `Trajectory.two_time`.
    """

    features: list[Floats]
    gradients: list[Floats]
    pseudo: list[Floats] | None
    responses: dict[str, list[tuple[Floats, Floats]]]


def spread(rows: Float[Floats, "rc k"], outputs: int, samples: int) -> Float[Floats, "r p c k"]:
    """Rows (t, c), the same for all samples, as a view with an axis of samples."""
    shaped = rows.reshape(-1, 1, outputs, rows.shape[-1])
    return np.broadcast_to(shaped, (len(shaped), samples, outputs, rows.shape[-1]))


def on_first_sample(count: int, outputs: int, samples: int) -> Float[Floats, "r p c k"]:
    """Unit vectors for (t, c): gradients are the same for all samples, so a response may be ascribed to the first."""
    found = np.zeros((count, samples, outputs, count * outputs))
    found[:, 0] = np.eye(count * outputs).reshape(count, outputs, -1)
    return found
