"""The matrix interface on dense arrays."""

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.matrices.dense import Dense
from widefield.matrices.substrate import OuterProducts, inner


@pytest.fixture
def substrate(double):
    return Dense(jnp.asarray(7), (40, 60)).with_matrix("W", 0, 1, 1.5)


def test_transpose_is_the_adjoint_up_to_the_sizes(substrate):
    """<u, W v/sqrt(n_s)> n_t/sqrt(n_t) = <W^T u/sqrt(n_t), v> n_s/sqrt(n_s)."""
    v, substrate = substrate.gaussian("v", 0, 3)
    u, substrate = substrate.gaussian("u", 1, 2)
    forward, substrate = substrate.apply("W", v)
    backward, substrate = substrate.apply_transpose("W", u)
    np.testing.assert_allclose(inner(u, forward) * np.sqrt(60), inner(backward, v) * np.sqrt(40), rtol=1e-12)


def test_products_have_the_size_that_the_interface_promises(double):
    substrate = Dense(jnp.asarray(0), (2000, 1000)).with_matrix("W", 0, 1, 1.5)
    v, _ = substrate.gaussian("v", 0, 1)
    u, _ = substrate.gaussian("u", 1, 1)
    forward, backward = substrate.apply("W", v)[0], substrate.apply_transpose("W", u)[0]
    assert np.isclose(inner(forward, forward) / inner(v, v), 1.5**2, rtol=4 * np.sqrt(2 / 1000))
    assert np.isclose(inner(backward, backward) / inner(u, u), 1.5**2, rtol=4 * np.sqrt(2 / 2000))


def test_update_adds_outer_products(substrate):
    left, _ = substrate.gaussian("left", 1, 3)
    right, _ = substrate.gaussian("right", 0, 3)
    v, _ = substrate.gaussian("v", 0, 2)
    u, _ = substrate.gaussian("u", 1, 2)
    weights = jnp.asarray([1.0, -2.0, 0.5])
    direction, _ = substrate.direction("W", OuterProducts(left, right, weights, jnp.asarray(0.7)))
    moved = substrate.with_values({"W": substrate.values["W"] + 0.1 * direction})
    change = moved.apply("W", v)[0] - substrate.apply("W", v)[0]
    left = weights[:, None] * left
    np.testing.assert_allclose(change, 0.07 * inner(v, right) @ left, rtol=1e-10)
    change = moved.apply_transpose("W", u)[0] - substrate.apply_transpose("W", u)[0]
    np.testing.assert_allclose(change, 0.07 * np.sqrt(60 / 40) * inner(u, left) @ right, rtol=1e-10)


def test_partner_has_the_correlation_and_scale_asked_for(double):
    substrate = Dense(jnp.asarray(0), (300, 300)).with_matrix("W", 0, 1, 2.0).with_partner("B", "W", 2.0, 0.6)
    own, partner = (np.asarray(substrate.values[name]).ravel() for name in "WB")
    standard_error = 1 / 300
    assert abs(np.corrcoef(own, partner)[0, 1] - 0.6) < 4 * standard_error
    assert abs(partner.std() / 2 - 1) < 4 * standard_error


def test_equal_names_give_equal_numbers_whatever_else_is_drawn(double):
    one = Dense(jnp.asarray(3), (5,))
    _, other = one.gaussian("something else", 0, 4)
    np.testing.assert_array_equal(one.gaussian("a", 0, 2)[0], other.gaussian("a", 0, 2)[0])
    assert not np.array_equal(one.gaussian("a", 0, 2)[0], one.gaussian("b", 0, 2)[0])
    steps = [one.gaussian("a", 0, 2, jnp.asarray(k))[0] for k in (0, 1, 0)]
    assert not np.array_equal(steps[0], steps[1])
    np.testing.assert_array_equal(steps[0], steps[2])
    assert not np.array_equal(one.gaussian("a", 0, 2)[0], Dense(jnp.asarray(4), (5,)).gaussian("a", 0, 2)[0])
