"""Activations that a user might make, with and without kinks."""

import math

import jax
import jax.numpy as jnp

from widefield.activations import Activation


def swish(beta):
    return Activation(f"swish_{beta}", lambda z: z * jax.nn.sigmoid(beta * z))


def shifted_tanh(c):
    """tanh(z + c) - tanh(c): its a1 is 9 t^2 - 2 with t = tanh(c)."""
    return Activation(f"shifted_tanh_{c}", lambda z: jnp.tanh(z + c) - math.tanh(c))


SOFTPLUS_AT_ZERO = Activation("softplus_at_zero", lambda z: jax.nn.softplus(z) - math.log(2))
SIGMOID_AT_ZERO = Activation("sigmoid_at_zero", lambda z: jax.nn.sigmoid(z) - 0.5)
HARD_TANH = Activation("hard_tanh", lambda z: jnp.clip(z, -1.0, 1.0), kinks=(-1.0, 1.0))
MIXED = Activation("mixed", lambda z: jnp.tanh(z) + jnp.tanh(z) ** 2 / 2)
"""Neither odd nor even: p_perp = 0.8."""
