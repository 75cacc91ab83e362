"""A network of given weights as a linear model of its parameters: its features, and what weight decay does to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.numbers import double_precision


@dataclass(frozen=True, eq=False)
class _Passed:
    """Weights, biases, and features below and slopes above every layer of weights, for all samples."""

    weights: list[Floats]
    biases: list[Floats]
    features: list[Float[Floats, "p _"]]
    slopes: list[Float[Floats, "p _"]]

    @classmethod
    def of(
        cls, activation: str | Activation, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike], x: ArrayLike
    ) -> _Passed:
        s, inputs = get(activation), check.inputs(x, None)[0]
        matrices = [check.array("weights", W, ndim=2) for W in weights]
        shifts = [check.array("biases", b, ndim=1) for b in biases]
        fits = all(low.shape[0] == high.shape[1] for low, high in pairwise(matrices))
        rows = [len(W) for W in matrices] == [len(b) for b in shifts]
        if not matrices or not fits or not rows or matrices[0].shape[1] != inputs.shape[1]:
            shapes = [W.shape for W in matrices], [b.shape for b in shifts]
            raise InvalidInput(f"weights and biases have shapes {shapes}, for inputs of dimension {inputs.shape[1]}")
        features, slopes = [inputs], []
        with double_precision():
            for W, b in list(zip(matrices, shifts, strict=True))[:-1]:
                z = jnp.asarray(features[-1] @ W.T + b)
                features.append(np.asarray(s(z)))
                slopes.append(np.asarray(s.derivative(1)(z)))
        return cls(matrices, shifts, features, slopes)


@dataclass(frozen=True, eq=False)
class NetworkFeatures:
    """dz_i / d theta of the outputs i at every sample: random features, PDLT eqs. (10.137)-(10.139)."""

    chains: tuple[Float[Floats, "p c _"], ...]
    """dz_i / dz^(l)_k of the layers l = 1 .. L, which is also the derivative by the biases b^(l)_k."""

    below: tuple[Float[Floats, "p _"], ...]
    """sigma^(l-1): x for the first layer."""

    def weight(self, layer: int) -> Float[Floats, "p c k j"]:
        """dz_i / dW^(l)_kj = chain_ik sigma_j, of the layers 1 .. L."""
        return np.asarray(self.chains[layer - 1][:, :, :, None] * self.below[layer - 1][:, None, None, :])

    def bias(self, layer: int) -> Float[Floats, "p c k"]:
        """dz_i / db^(l)_k."""
        return self.chains[layer - 1]

    def kernel(self, weight_rates: Sequence[float], bias_rates: Sequence[float]) -> Float[Floats, "p p c c"]:
        """sum lambda phi phi over all parameters, with lambda_W / n_{l-1} for weights: the NTK, PDLT eq. (10.140).

        Rates of the layers 1 .. L; all but the last zero leave the kernel of the last hidden layer, PDLT eq. (10.135).
        """
        if not len(weight_rates) == len(bias_rates) == len(self.chains):
            raise InvalidInput(
                f"rates of {len(weight_rates)} and {len(bias_rates)} layers; there are {len(self.chains)}"
            )
        total = np.zeros((len(self.below[0]),) * 2 + (self.chains[-1].shape[1],) * 2)
        for chain, s, w, b in zip(self.chains, self.below, weight_rates, bias_rates, strict=True):
            products = b + w * s @ s.T / s.shape[1]
            total += products[:, :, None, None] * np.einsum("pik,qjk->pqij", chain, chain)
        return total


def network_features(
    activation: str | Activation, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike], x: ArrayLike
) -> NetworkFeatures:
    """The features of z' = W s(z) + b with these weights, PDLT eq. (10.139).

    >>> network_features("linear", [[[2.0]], [[3.0]]], [[0.0], [0.0]], [[5.0]]).weight(1).tolist()
    [[[[15.0]]]]
    """
    passed = _Passed.of(activation, weights, biases, x)
    samples, outputs = len(passed.features[0]), len(passed.weights[-1])
    chains = [np.broadcast_to(np.eye(outputs), (samples, outputs, outputs))]
    for W, slope in zip(passed.weights[:0:-1], passed.slopes[::-1], strict=True):
        chains.append(np.einsum("pik,kj,pj->pij", chains[-1], W, slope))
    return NetworkFeatures(tuple(chains[::-1]), tuple(passed.features))


def weight_decay_pull(
    activation: str | Activation,
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    x: ArrayLike,
    *,
    weight_rates: Sequence[float],
    bias_rates: Sequence[float],
    weight_decays: Sequence[float],
    bias_decays: Sequence[float],
) -> Float[Floats, "p c"]:
    """R_i = sum lambda a theta dz_i/d theta of the outputs, layer by layer from the inputs, PDLT eqs. (10.42), (10.43).

    A regulariser sum a theta^2 adds -2 eta R to the first change of the outputs:

        R' = a_b lambda_b b + a_W (lambda_W / n) W s + W (s' R)

    with the rates lambda_W, lambda_b and the strengths a_W, a_b of all layers.
    """
    passed = _Passed.of(activation, weights, biases, x)
    given = (weight_rates, bias_rates, weight_decays, bias_decays)
    if any(len(each) != len(passed.weights) for each in given):
        counts = [len(each) for each in given]
        raise InvalidInput(f"rates and decays have {counts} entries; each needs {len(passed.weights)}, one a layer")
    pull = np.zeros_like(passed.features[0])
    slopes = [np.zeros_like(pull), *passed.slopes]
    for W, b, s, slope, w, v, a, c in zip(passed.weights, passed.biases, passed.features, slopes, *given, strict=True):
        pull = c * v * b + (a * w / s.shape[1] * s + slope * pull) @ W.T
    return pull
