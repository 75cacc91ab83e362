"""Targets from a random neural network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
import numpy as np

from ..activations import get
from ..activations.table import name_in_files
from ..base.arrays import Floats
from ..base.describe import put
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .labels import Rule
from .source import integers, stream
from .synthetic import Synthetic

_REFERENCE_POINTS = 4096
"""Inputs over which <y^2> is measured: to about two percent if y is close to Gaussian."""


@dataclass(frozen=True)
class Teacher(Synthetic, kind="teacher"):
    """Inputs x_k ~ N(0, 1) and targets from a random multilayer perceptron, the teacher:

        h^1 = W^0 x / sqrt(D),   h^{l+1} = W^l phi(h^l) / sqrt(N_l),   y = W^L phi(h^L) / sqrt(N_L) / c

    with all entries of W^l ~ N(0, 1). The scale c of every output gives it <y^2> = 1 over the population of
    inputs for this very teacher, as estimated from 4096 inputs that are neither training nor test points.
    Nothing is subtracted: the teacher stays a network without biases.

    Args:
        samples: P, number of training points.
        dimension: D, number of input coordinates.
        hidden: widths N_1 .. N_L of the hidden layers; a single number means one hidden layer.
        activation: phi, a name known to `widefield.activations`.
        outputs: C, number of targets per point.
        test_samples: Q, number of test points.
        noise: standard deviation of the Gaussian noise added to all targets, test targets included.
        seed: seed of every random draw.
    """

    hidden: int | tuple[int, ...] = 100
    activation: str = "tanh"

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        put(self, hidden=integers("hidden", self.hidden, least=1))
        if not self.hidden:
            raise InvalidInput("hidden = () must hold the width of at least one hidden layer")
        put(self, activation=name_in_files(self.activation))

    def _rule(self) -> Rule:
        phi = get(self.activation)
        sizes = (self.dimension, *integers("hidden", self.hidden), self.outputs)
        rng = stream(self.seed, "rule", "weights")
        # an output per row, so that the first outputs do not depend on how many there are
        first, *rest = [rng.standard_normal((n, m)).T / math.sqrt(m) for m, n in pairwise(sizes)]

        def network(x: Floats) -> Floats:
            h = x @ first
            for weights in rest:
                with double_precision():
                    h = np.asarray(phi(jnp.asarray(h))) @ weights
            return h

        scale = np.sqrt(np.mean(network(self._inputs("rule", _REFERENCE_POINTS)) ** 2, axis=0))
        if not np.all((scale > 0) & (scale < np.inf)):
            raise InvalidInput(
                f"the teacher with hidden = {self.hidden}, activation = {self.activation!r} and "
                f"seed = {self.seed} is zero for every input, or infinite; try another seed or wider layers"
            )
        return lambda x, draw: network(x) / scale
