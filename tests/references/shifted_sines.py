"""Gaussian averages of products of sin(z + phase) and its derivatives, in closed form, for any samples.

sin(z + p) = Im e^{i (z + p)}, its k-th derivative is sin(z + p + k pi / 2), and <e^{i s . z}> = exp(-s K s / 2).
"""

from __future__ import annotations

import itertools

import numpy as np


def average(orders, K, phase):
    """<prod_k s^(p_k)(z_k)> over all choices of samples: an array with an axis for each factor."""
    axes, samples = len(orders), len(K)
    total = np.zeros((samples,) * axes, dtype=complex)
    variance = np.diagonal(K)
    for signs in itertools.product((1, -1), repeat=axes):
        exponent = np.zeros((samples,) * axes)
        for one in range(axes):
            shape = [1] * axes
            shape[one] = samples
            exponent = exponent - variance.reshape(shape) / 2
            for two in range(one):
                shape = [1] * axes
                shape[one] = shape[two] = samples
                exponent = exponent - signs[one] * signs[two] * K.reshape(shape)
        turn = sum(sign * (phase + order * np.pi / 2) for sign, order in zip(signs, orders, strict=True))
        total += np.prod(signs) * np.exp(exponent + 1j * turn)
    return np.real(total / (2j) ** axes)
