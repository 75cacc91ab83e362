"""Four inputs and two targets with known kernels and predictions, and how their kernels are cut."""

import numpy as np

from widefield.kernels import Blocks
from widefield.problem.network import MLP

INPUTS = np.array([[1, 0.5, -0.4], [-0.2, 0.9, 0.7], [0.5, 0.6, 0.3], [0.9, -0.8, 0.1]])
TARGETS = np.array([0.9, -0.6])


def blocks(kernel, train=2):
    """The first inputs are for training."""
    return Blocks(kernel[:train, :train], kernel[train:, :train], kernel[train:, train:])


def network(activation, layers=2, weights=1.0, biases=0.1):
    return MLP(hidden_layers=layers, activation=activation, weight_variances=weights, bias_variances=biases)
