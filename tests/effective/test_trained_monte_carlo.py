"""Mean and covariance of trained networks against real ones of several widths."""

import jax.numpy as jnp
import numpy as np
import pytest

from references import trained_at_finite_width as networks
from widefield.activations import Activation
from widefield.effective.trained_networks import Initial, rotated
from widefield.effective.trained_terms import Trained
from widefield.effective.training_paths import Descent
from widefield.problem.network import MLP

SHIFTED = Activation("shifted sine", lambda z: jnp.sin(z + networks.PHASE))
X = np.array([(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4), (0.3, -0.4, 1.5)])
Y = np.array([1.0, -0.6])
RATES = {
    2: {"weight_rates": (1.5, 0.3), "bias_rates": (0.5, 0.1)},
    3: {"weight_rates": (1.5, 0.3, 0.4), "bias_rates": (0.5, 0.1, 0.2)},
    4: {"weight_rates": (1.5, 0.3, 0.4, 0.4), "bias_rates": (0.5, 0.1, 0.2, 0.2)},
}


def theory(layers, steps):
    """n times the order 1/n of the mean and covariance beyond a fixed NTK, that NTK's response, and eta."""
    network = MLP(layers - 1, SHIFTED, weight_variances=1.1, bias_variances=0.1)
    initial = Initial.of(network, X, 1, **RATES[layers])
    tensors = initial.tensors[0]
    h, modes = np.linalg.eigh(tensors.H[:2, :2])
    eta = 1 / h[-1]
    basis = np.eye(3)
    basis[:2, :2] = modes
    found = Trained(rotated(tensors, basis), Descent.of(h, eta, steps), modes.T @ Y[:, None])
    forms = found.forms()
    own = forms._replace(linear={name: part for name, part in forms.linear.items() if name != "ntk"})
    mean = basis @ sum(found.mean(own).values())[:, 0]
    covariance = found.covariance(own)
    used = sum(covariance[name] for name in ("ntk_scatter", "mean_response", "output_dntk"))[:, 0, :, 0]
    return tensors, found, basis, eta, mean, basis @ used @ basis.T


def measured(layers, width, steps, seeds, seed):
    """n times what remains of mean and covariance after the response of a fixed NTK to the first outputs and NTK."""
    tensors, found, basis, eta, *_ = theory(layers, steps)
    learned = basis @ found.learned @ basis[:2, :2].T
    modes = basis[:2, :2]
    rates = RATES[layers]["bias_rates"], RATES[layers]["weight_rates"]
    rng, limit, rows = np.random.default_rng(seed), learned @ Y, []
    for _ in range(0, seeds, 1000):
        drawn, pair = networks.draw(rng, 1000, (3, *(width,) * (layers - 1), 1), 0.1, 1.1), []
        for sign in (1, -1):  # networks of opposite outputs have the same NTK, and most of the noise of the other sign
            drawn[-1] = tuple(sign * part for part in drawn[-1])
            features, slopes, z = networks.forward(drawn, X)
            H = networks.tangent_kernel(features, networks.chains(drawn, slopes, 3), *rates)
            errors = z[:, :2] - Y
            first = z - errors @ learned.T
            apart = np.einsum("yp,nyc,cb->npb", basis, H[:, :, :2] - tensors.H[:, :2], modes, optimize=True)
            answer = np.einsum("dpb,npb,nb->nd", found.spread, apart, errors @ modes, optimize=True)
            second = -answer @ basis.T
            last = networks.trained(drawn, X, Y, *rates, eta, 60 if steps is None else steps)
            rest = last - first - second
            products = last[:, :, None] * last[:, None] - first[:, :, None] * (first + second)[:, None]
            products -= second[:, :, None] * first[:, None] + limit[:, None] * rest[:, None] + rest[:, :, None] * limit
            pair.append(np.concatenate([rest, products.reshape(len(z), -1)], axis=1))
        rows.append((pair[0] + pair[1]) / 2)
    values = width * np.concatenate(rows)
    return values.mean(0), values.std(0) / np.sqrt(len(values))


CASES = {
    "one hidden layer, three steps": (2, 3, (32, 64, 128, 256), 100_000),
    "one hidden layer, to the end": (2, None, (64, 128), 30_000),
    "two hidden layers, three steps": (3, 3, (32, 64, 128), 60_000),
    "three hidden layers, two steps": (4, 2, (64, 128), 40_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_networks(case):
    """n (E[z] - limit) and n (Cov - limit) are lines in 1/n that end in the theory."""
    layers, steps, widths, seeds = CASES[case]
    *_, mean, covariance = theory(layers, steps)
    expected = np.concatenate([mean, covariance.ravel()])
    found = [measured(layers, width, steps, seeds, seed=width + layers) for width in widths]
    values, errors = (np.stack(part) for part in zip(*found, strict=True))
    # A line in 1/n through all widths: its value at 1/n = 0 is the theory, within 4 standard errors and its curvature.
    design = np.stack([np.ones(len(widths)), 1 / np.array(widths)], axis=1)
    for column, limit in enumerate(expected):
        weights = 1 / np.maximum(errors[:, column], 1e-12)
        solution, *_ = np.linalg.lstsq(design * weights[:, None], values[:, column] * weights, rcond=None)
        deviation = np.sqrt(np.linalg.inv(design.T @ np.diag(weights**2) @ design)[0, 0])
        curvature = (solution[1] / min(widths)) ** 2 / max(abs(limit), 0.1)
        assert abs(solution[0] - limit) < 4 * deviation + curvature, (column, solution, limit, deviation)


@pytest.mark.slow
def test_the_remainder_falls_like_the_second_power():
    """The exponent of what is left of the mean at the training samples, one hidden layer, three steps."""
    widths = (16, 32, 64)
    *_, mean, _ = theory(2, 3)
    left = [np.abs(measured(2, width, 3, 300_000, seed=width)[0][:2] - mean[:2]) / width for width in widths]
    slope = np.polyfit(np.log(widths), np.log([part.mean() for part in left]), 1)[0]
    assert -2.4 < slope < -1.6
