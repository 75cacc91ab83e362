"""What a layer adds to the four-point vertex of many inputs: the covariance of its products of activations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats
from ..gaussian.chaos import Chaos
from ..gaussian.sample_pairs import Pairs
from ..kernels.noise import MOST_EXACT, exact_features


def feature_covariances(
    activation: Activation, kernels: Float[Floats, "l p p"], pairs: Pairs, points: int, seeds: range
) -> Iterator[Float[Floats, "r q q"]]:
    """Cov(s_a s_b, s_c s_d) at every kernel: one if it is exact, else one for every seed."""
    if kernels.shape[1] <= MOST_EXACT:
        if len(kernels):
            yield from exact_features(activation, kernels, pairs)[:, None]
        return
    for layer, K in enumerate(kernels):
        chaos = Chaos.of(activation, K, pairs)
        exact = not chaos.rest.any()
        sampled = [np.zeros((1, 1))] if exact else [chaos.sampled(seed, layer, points) for seed in seeds]
        yield chaos.covariance + np.stack(sampled)
