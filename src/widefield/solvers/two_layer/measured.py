"""What both solutions of two-layer networks measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
from jaxtyping import Array, Float

if TYPE_CHECKING:
    from ...problem.network import MLP
    from ...problem.optimisers import Optimiser


class Measured(eqx.Module):
    """Outputs of all samples (training, then test), and kernels between some of them and the recorded ones."""

    outputs: Float[Array, "all c"]
    features: Float[Array, "rows k"]
    gradients: Float[Array, "rows c k c"]
    alignment: Float[Array, "rows c k c"]
    pseudo: Float[Array, "k c k c"]


def freezes_biases(network: MLP, optimiser: Optimiser) -> bool:
    """Whether biases stand still while weights decay: then they are a field of their own, which no moment holds."""
    decay = getattr(optimiser, "weight_decay", 0.0)
    return bool(network.bias_scales[0]) and not network.train_biases and bool(decay)
