"""The NTK at the end of training: closed forms of linear networks, deep tanh networks, real ones."""

import jax.numpy as jnp
import numpy as np
import pytest

from references import trained_at_finite_width as networks
from widefield.activations import Activation
from widefield.base.errors import InvalidInput
from widefield.effective import single_differentials, stability_limit, trained_ntk
from widefield.problem.network import MLP

UNIT = [[np.sqrt(2.0), 0.0]]
"""|x|^2 / n_0 = 1."""


@pytest.mark.parametrize("v", [0.0, 0.5, 1.0, 1.3, 1.6, 1.9])
def test_linear_networks(v):
    """One hidden layer, centred: n [H(end) - 2] = (y^2/2) (4-3v)/(2-v), v = eta H."""
    rate = {"learning_rate": v / 2} if v else {}
    found = trained_ntk(MLP(1, "linear"), UNIT, [0.7], widths=10, centred=True, **rate)
    assert found.infinite.item() == pytest.approx(2, rel=1e-12)
    assert 10 * found.learned.item() == pytest.approx(0.245 * (4 - 3 * v) / (2 - v), abs=1e-12)


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_deep_linear_networks(layers):
    """n [H(end) - H(0)] = y^2 (L^2-1)/3 for flow, y^2 (L^2-1)/6 (4-3v)/(2-v) for steps."""
    own = MLP(layers - 1, "linear")
    flow = trained_ntk(own, UNIT, [0.7], widths=10, centred=True)
    assert 10 * flow.learned.item() == pytest.approx(0.49 * (layers**2 - 1) / 3, rel=1e-10)
    steps = trained_ntk(own, UNIT, [0.7], widths=10, centred=True, learning_rate=0.8 / layers)
    expected = 0.49 * (layers**2 - 1) / 6 * (4 - 2.4) / 1.2
    assert 10 * steps.learned.item() == pytest.approx(expected, rel=1e-10)


def test_linear_networks_from_random_outputs():
    """n [E H(end) - 2] = y^2 - 1."""
    found = trained_ntk(MLP(1, "linear"), UNIT, [0.7], widths=10)
    assert 10 * (found.mean - found.infinite).item() == pytest.approx(-0.51, abs=1e-12)


def test_deep_critical_networks():
    """tanh, lambda_b = 1/l: the learning of the NTK over (L/n) H is 1/3 - (1 + y^2/K)/8 at large depth."""
    depth = 1000
    one = single_differentials("tanh", 1.0, depth, bias_rates=[1 / layer for layer in range(1, depth + 1)]).isel(
        layer=-1, sample=0
    )
    H, K = float(one.ntk), float(one.kernel)
    P, Q, R, S, T, U = (float(one[name]) for name in "PQRSTU")
    shares = -2 * (P + 2 * Q) / H**2 / depth, K / H**3 * (3 * R + 2 * (S + T + U)) / depth
    assert shares == pytest.approx((1 / 3, -1 / 8), rel=0.02)
    shallow = 4
    rates = {"bias_rates": tuple(1 / layer for layer in range(1, shallow + 1))}
    found = trained_ntk(MLP(shallow - 1, "tanh"), UNIT, [0.4], widths=7, **rates)
    own = single_differentials("tanh", 1.0, shallow, mean_square=1.0, bias_rates=rates["bias_rates"]).isel(
        layer=-1, sample=0
    )
    H, K = float(own.ntk), float(own.kernel)
    P, Q, R, S, T, U = (float(own[name]) for name in "PQRSTU")
    expected = -2 * (P + 2 * Q) / H + (K + 0.16) / H**2 * (3 * R + 2 * (S + T + U))
    assert 7 * found.learned.item() == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_real_networks():
    """One hidden layer of sines, two training samples and a test sample, eta h_max = 1, to the end, two widths."""
    s = Activation("shifted sine", lambda z: jnp.sin(z + networks.PHASE))
    x, y = np.array([(1.2, 0.3, -0.5), (-0.7, 1.3, 0.4), (0.3, -0.4, 1.5)]), np.array([1.0, -0.6])
    rates = {"weight_rates": (1.5, 0.3), "bias_rates": (0.5, 0.1)}
    own = MLP(1, s, weight_variances=1.1, bias_variances=0.1)
    eta = 0.7262808673
    found = trained_ntk(own, x[:2], y, x[2:], widths=1, learning_rate=eta, **rates)
    values, errors = [], []
    for width in (64, 128):
        rng, rows = np.random.default_rng(width), []
        for _ in range(20):
            drawn = networks.draw(rng, 1000, (3, width, 1), 0.1, 1.1)
            kernels = []
            for steps in (0, 40):
                layers = networks.moved(drawn, x, y, rates["bias_rates"], rates["weight_rates"], eta, steps)
                features, slopes, _ = networks.forward(layers, x)
                backward = networks.chains(layers, slopes, 3)
                kernels.append(networks.tangent_kernel(features, backward, rates["bias_rates"], rates["weight_rates"]))
            rows.append(kernels[1] - kernels[0])
        change = width * np.concatenate(rows)
        values.append(change.mean(0))
        errors.append(change.std(0) / np.sqrt(len(change)))
    limit, error = 2 * values[1] - values[0], np.hypot(2 * errors[1], errors[0])
    curvature = 2 * (values[1] - values[0]) ** 2 / np.abs(found.learned).max()
    assert np.all(np.abs(limit - found.learned) < 4 * error + curvature)
    assert error.max() < 0.15 * np.abs(found.learned).max()


def test_stability_limit():
    """Two and three outputs, L = 2, sin(z + 0.3), B = 1.0910675: sqrt(n) (E h_max - H) = 1.3091, 2.1653."""
    H, B = 1.7, 1.09106750
    for outputs, expected in ((1, 0.0), (2, 1.3091), (3, 2.1653)):
        limit = stability_limit(H, B, 1024, outputs)
        assert np.sqrt(1024) * (1 - limit * H / 2) * H == pytest.approx(expected, abs=6e-5)
    with pytest.raises(InvalidInput, match="tabulated"):
        stability_limit(H, B, 1024, 7)


def test_more_outputs_are_refused():
    with pytest.raises(InvalidInput, match="known for one"):
        trained_ntk(MLP(1, "tanh"), UNIT, [[1.0, 2.0]], widths=10)
