"""A problem as the numbers that enter the closed equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...base.arrays import Floats
from ...base.numbers import double_precision
from ...problem.layer_rates import LayerRates
from ...problem.losses import Loss
from ...problem.optimisers import SGD
from ...problem.problem import Problem
from ...problem.weight_memory import WeightMemory


@dataclass(frozen=True)
class Setting:
    """Everything known before the first step. Lists with L + 1 entries run over the matrices W^0 .. W^L.

    Samples are the training samples, then the test samples, which are points that no step trains on.

    Args:
        kernel: K^x of all samples; (P, P).
        targets: of the training samples; (p, C).
        loss: gives Delta = -d loss / d f.
        batches: weight of every sample in the loss of every step, 0 if it is not in the batch; (T + 1, P).
        memory: what is left of weights and gradients after each step.
        weights: <W(t) W(s)> of weights that no gradient has moved; L + 1 arrays (T + 1, T + 1).
        biases: the same of biases.
        variances: sigma_l^2 of the weights at the start.
        ratios: N_l / N_L of the hidden layers 1 .. L, with a 1 before and after.
        richness: gamma_0.
        rates: w_l and b_l, learning rates of the layers of weights and biases; b = 0 where biases do not learn.
    """

    kernel: Float[Floats, "p p"]
    targets: Float[Floats, "q c"]
    loss: Loss
    batches: Float[Floats, "t p"]
    memory: WeightMemory
    weights: Sequence[Float[Floats, "t t"]]
    biases: Sequence[Float[Floats, "t t"]]
    variances: Sequence[float]
    ratios: Sequence[float]
    richness: float
    rates: LayerRates

    @classmethod
    def of(cls, problem: Problem) -> Setting:
        """Translate a problem whose optimiser is `SGD`."""
        network, samples, optimiser = problem.network, problem.samples, problem.optimiser
        assert isinstance(optimiser, SGD)
        memory = WeightMemory.of(optimiser)
        variances = [scale**2 for scale in network.weight_scales]
        fixed = np.ones_like(memory.noise)
        biases = [s**2 * fixed if not network.train_biases else memory.variance(s**2) for s in network.bias_scales]
        return cls(
            kernel=samples.kernel(everything=True),
            targets=samples.y,
            loss=problem.loss,
            batches=problem.batch_weights(),
            memory=memory,
            weights=[memory.variance(v) for v in variances],
            biases=biases,
            variances=variances,
            ratios=(1.0, *network.normalised_width_ratios, 1.0),
            richness=network.richness,
            rates=optimiser.layer_rates(network),
        )

    @property
    def layers(self) -> int:
        """L."""
        return len(self.variances) - 1

    @property
    def times(self) -> int:
        """T + 1."""
        return len(self.batches)

    @property
    def samples(self) -> int:
        """P, test samples included."""
        return len(self.kernel)

    @property
    def outputs(self) -> int:
        """C."""
        return int(self.targets.shape[1])

    def strength(self, layer: int) -> float:
        """gamma_0 / sqrt(N_l / N_L): how much the updates of a layer's weights move its fields (BP22 App. D.8)."""
        return self.richness / float(np.sqrt(self.ratios[layer]))

    def moved(self, layer: int, features: Float[Floats, "*n"], ones: Any = 1.0) -> Float[Floats, "*n"]:
        """w_l Phi^l + b_l, or the same of what is linear in features, where `ones` is what it makes of 1."""
        return np.asarray(self.rates.weights[layer] * features + self.rates.biases[layer] * ones)

    def updated(self, layer: int) -> float:
        """w_l: how fast the weights W^l learn."""
        return float(self.rates.weights[layer])

    def echo(self, source: int, target: int) -> float:
        """sqrt(N_source / N_target) in front of the response of layer `target` to itself through layer `source`."""
        return float(np.sqrt(self.ratios[source] / self.ratios[target]))

    def errors(self, outputs: Float[Floats, "*t p c"]) -> Float[Floats, "*t p c"]:
        """Delta of the training samples, zero for test samples."""
        train = len(self.targets)
        found = np.zeros_like(outputs)
        targets = np.broadcast_to(self.targets, (*outputs.shape[:-2], *self.targets.shape))
        with double_precision():
            flat = self.loss.error(
                *(jnp.asarray(x.reshape(-1, self.outputs)) for x in (outputs[..., :train, :], targets))
            )
        found[..., :train, :] = np.asarray(flat).reshape(targets.shape)
        return found
