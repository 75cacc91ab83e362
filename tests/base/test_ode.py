"""Adaptive integration against solutions in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widefield.base import ode


class Oscillator(eqx.Module):
    """x'' = -w^2 x, as a pytree of two arrays."""

    w: jax.Array

    def slope(self, state):
        x, v = state
        return v, -(self.w**2) * x


class Explosion(eqx.Module):
    """x' = x^2 is infinite at 1 / x(0)."""

    def slope(self, state):
        return state**2


def test_oscillations():
    times, w = [0.0, 0.3, 2.0, 2.0, 10.0], np.array([0.5, 3.0])
    with jax.enable_x64(True):
        x, v = ode.solutions(Oscillator(jnp.asarray(w)), (jnp.ones(2), jnp.zeros(2)), times, 1e-10)
    phase = np.outer(times, w)
    np.testing.assert_allclose(x, np.cos(phase), atol=1e-8)
    np.testing.assert_allclose(v, -w * np.sin(phase), atol=1e-8)


def test_a_tighter_tolerance_is_more_accurate():
    def error(tolerance):
        with jax.enable_x64(True):
            x, _ = ode.after(Oscillator(jnp.ones(1)), (jnp.ones(1), jnp.zeros(1)), 20.0, tolerance)
        return abs(float(x[0]) - np.cos(20.0))

    assert error(1e-12) < 1e-10 < error(1e-4) < 1e-2


def test_beyond_an_explosion_the_state_is_infinite():
    with jax.enable_x64(True):
        assert np.isfinite(ode.after(Explosion(), jnp.ones(1), 0.9, 1e-8)).all()
        assert np.isinf(ode.after(Explosion(), jnp.ones(1), 1.1, 1e-8)).all()
