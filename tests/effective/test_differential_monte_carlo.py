"""P, Q, R, S, T, U against networks of finite width with all their weights."""

import jax.numpy as jnp
import numpy as np
import pytest

from widefield.activations import Activation
from widefield.effective import differential_flow
from widefield.effective.differential_sampler import NAMES, differential_networks
from widefield.problem.network import MLP

BENT = Activation("bent sine", lambda z: jnp.sin(z) + 0.3 * (1 - jnp.cos(z)))
TWO = [[1, 0.5], [0.3, -1.2]]
RATES = {"weight_rates": 0.8, "bias_rates": 0.5}


def largest_z(measured, errors, flow, layer):
    return max(float(np.abs((measured[n] - flow.tensor(n, layer)) / errors[n]).max()) for n in NAMES)


def test_second_layer_is_exact_at_any_width():
    network = MLP(1, BENT, weight_variances=1.1, bias_variances=0.1)
    drawn, found = (
        differential_networks(network, TWO, 3, seeds=8000, seed=1, **RATES),
        differential_flow(network, TWO, 3, **RATES),
    )
    assert largest_z(drawn.means, drawn.errors, found, 2) < 4
    for name in NAMES:
        assert drawn.errors[name].max() < 0.04 * np.abs(found.tensor(name, 2)).max()


def test_third_layer_of_linear_networks_at_small_width():
    """n E[dH z]: P = 4/n, Q = 8 + O(1/n); E[ddI] = R: 0 at leading order; known to all orders (rates 1, n = 8)."""
    drawn = differential_networks(MLP(2, "linear"), [[1.0]], 8, weight_rates=1.0, bias_rates=1.0, seeds=8000, seed=2)
    P, error = drawn.means["P"].item(), drawn.errors["P"].item()
    assert abs(P - 4 / 8) < 4 * error
    assert error < 0.15


DEEPER = {
    "two inputs, 3 layers": (BENT, 2, TWO, 16, 20_000),
    "one input, 5 layers": ("tanh", 4, [[1.0, -0.6]], 24, 20_000),
    "one input, 8 layers": ("sin", 7, [[1.0, -0.6]], 24, 20_000),
    "four inputs, 3 layers": ("gelu", 2, [[1, 0.5], [0.3, -1.2], [-0.8, 0.9], [1.4, 0.2]], 12, 3000),
    "three inputs, 4 layers": ("tanh", 3, [[1, 0.5], [0.3, -1.2], [-0.8, 0.9]], 12, 4000),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", list(DEEPER))
def test_deeper_layers(case):
    """Two widths, extrapolated: what is left is of order 1/n^2 of the narrower one, which counts as uncertain."""
    activation, hidden, x, width, seeds = DEEPER[case]
    network = MLP(hidden, activation, weight_variances=1.1, bias_variances=0.1)
    one, two = (differential_networks(network, x, (k + 1) * width, seeds=seeds, seed=k, **RATES) for k in range(2))
    found = differential_flow(network, x, width, **RATES)
    layer = hidden + 1
    for name in NAMES:
        limit = 2 * two.means[name] - one.means[name]
        error = np.hypot(2 * two.errors[name], one.errors[name])
        theory, uncertain = found.tensor(name, layer), found.data[f"{name}_error"].values[-1]
        size = np.abs(theory).max()
        order = np.abs(two.means[name] - one.means[name]).max() / size
        allowed = 4 * np.hypot(error, uncertain) + 2 * order**2 * size
        assert np.all(np.abs(limit - theory) < allowed), name
        assert error.max() < 0.2 * size, name
