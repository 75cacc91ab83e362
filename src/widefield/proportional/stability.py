"""Learning rates beyond which training diverges, where theory knows them."""

from __future__ import annotations

import math

from .closed_forms import MarchenkoPastur, lazy_kernel
from .setting import LinearNetwork, LinearTask


def lazy_limit(network: LinearNetwork, task: LinearTask) -> float | None:
    """2 / (largest eigenvalue of the kernel at the start) for gamma_0 -> 0, isotropic data; None if that is not known.

    Infinite width: 2/K0, with a training set 2/[K0 (1 + alpha^-1/2)^2], with fresh samples 2/[K0 (1 + 1/alpha_B)].
    Finite width, one hidden layer, population: 2/[1 + (1 + nu^-1/2)^2].
    """
    if task.spectrum is not None:
        return None
    if math.isinf(network.widths[-1]):
        K0 = _initial_kernel(network)
        if task.online:
            return 2 / (K0 * (1 + 1 / task.batch_size))
        return 2 / (K0 * MarchenkoPastur(1 / task.samples).edges[1])
    if network.hidden_layers == 1 and math.isinf(task.samples) and not task.online:
        return 2 / (1 + MarchenkoPastur(1 / network.widths[-1]).edges[1])
    return None


def rich_limit(network: LinearNetwork) -> float:
    """2 / [(L + 1) gamma_0^(2L/(L+1))]: the least sharpness of a perfect solution, for gamma_0 of 1 or more."""
    L = network.hidden_layers
    return float(2 / ((L + 1) * network.mean_field_richness ** (2 * L / (L + 1))))


def _initial_kernel(network: LinearNetwork) -> float:
    if math.isinf(network.hidden_layers):  # the limit of many weak branches
        b = network.branch_scale**2
        return (2 + b) * math.exp(b)
    return lazy_kernel(int(network.hidden_layers), None if network.branch is None else network.branch_scale)
