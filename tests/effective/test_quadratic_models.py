"""Nearly-kernel machines: the four solutions, by hand and against models that are trained."""

import numpy as np
import pytest

from widefield.base.errors import InvalidInput
from widefield.effective import QuadraticModel, effective_kernel, nearly_kernel_prediction

HAND = (
    [[1.0, 1.0], [1.0, 0.0]],
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]],
)


def polynomials(x):
    """x^j and cos((j+1)(k+1) x), j, k = 0 .. 3."""
    x, order = np.asarray(x), np.arange(1, 5)
    return x[:, None] ** np.arange(4), np.cos(order[:, None] * order * x[:, None, None])


def drawn(features, samples, seed, strength=1.0):
    generator = np.random.default_rng(seed)
    psi = generator.normal(size=(samples, features, features)) / features
    return QuadraticModel.of(generator.normal(size=(samples, features)), psi + psi.transpose(0, 2, 1), strength)


def predicted(model, y, algorithm, rate=0.0):
    return nearly_kernel_prediction(model.kernel, model.meta_kernel, y, algorithm=algorithm, learning_rate=rate)


def first_order(features, meta_features, y, algorithm, rate=0.0):
    """What the order eps adds to the linear value."""
    one, none = (QuadraticModel.of(features, meta_features, strength) for strength in (1.0, 0.0))
    return (predicted(one, y, algorithm, rate) - predicted(none, y, algorithm, rate)).item()


def test_by_hand():
    table = {
        ("direct", 0.0): 0.75,
        ("trained kernel", 0.0): 1.0,
        ("ridge", 0.0): 1.25,
        ("descent", 0.0): 1.0,
        ("descent", 0.1): 0.9722222222,
        ("descent", 0.25): 0.9166666667,
    }
    for (algorithm, rate), expected in table.items():
        assert first_order(*HAND, [2.0], algorithm, rate) == pytest.approx(expected, abs=1e-10)
    none = QuadraticModel.of(*HAND, 0.0)
    assert predicted(none, [2.0], "direct").item() == pytest.approx(1.0)


def test_polynomial_features():
    features = polynomials([0.0, 1.0, 0.5])
    table = {
        ("direct", 0.0): -1.0515306175,
        ("trained kernel", 0.0): -1.0639036527,
        ("ridge", 0.0): -1.0762766879,
        ("descent", 0.0): -1.0575543494,
        ("descent", 0.1): -1.0570393945,
        ("descent", 0.3): -1.0570717489,
    }
    for (algorithm, rate), expected in table.items():
        assert first_order(*features, [1.0, -1.0], algorithm, rate) == pytest.approx(expected, abs=6e-11)
    none = QuadraticModel.of(*features, 0.0)
    assert predicted(none, [1.0, -1.0], "ridge").item() == pytest.approx(0.4166666667, abs=1e-10)


def test_direct_optimisation_in_the_space_of_features():
    """W* of PDLT eq. (11.115) predicts the same; what is left falls like eps^2."""
    y, left = np.array([[1.0, -0.4], [0.3, 0.8], [-0.9, 0.2]]), []
    for strength in (0.02, 0.01):
        model = drawn(6, 5, 0, strength)
        left.append(np.abs(model.outputs(model.direct(y))[3:] - predicted(model, y, "direct")).max())
        np.testing.assert_allclose(model.outputs(model.direct(y))[:3], y, atol=30 * strength**2)
    assert left[0] / left[1] == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize("rate", [0.02, 0.08])
def test_gradient_descent(rate):
    """A model that is trained from W = 0 with these steps: what is left falls like eps^2."""
    y, left = np.array([[1.0], [0.3], [-0.9]]), []
    for strength in (0.02, 0.01):
        model = drawn(6, 5, 1, strength)
        W = np.zeros((1, 6))
        for _ in range(6000):
            errors = model.outputs(W)[:3] - y
            W = W - rate * np.einsum("xi,xij->ij", errors, model.effective_features(W)[:3])
        left.append(np.abs(model.outputs(W)[3:] - predicted(model, y, "descent", rate)).max())
    assert left[0] / left[1] == pytest.approx(4, abs=0.4)


def test_the_smallest_weights():
    """Newton's method with a penalty of 1e-7: the ridge limit, and not direct optimisation."""
    strength, y = 0.01, np.array([[1.0], [0.3], [-0.9]])
    model = drawn(6, 5, 2, strength)
    W = model.direct(y)
    for _ in range(50):
        J = model.effective_features(W)[:3, 0]
        errors = model.outputs(W)[:3] - y
        step = J.T @ np.linalg.solve(J @ J.T, errors - J @ W.T) + W.T
        W = W - step.T
    away = np.abs(model.outputs(W)[3:] - predicted(model, y, "ridge")).max()
    other = np.abs(model.outputs(W)[3:] - predicted(model, y, "direct")).max()
    assert away < 0.1 * other


def test_trained_kernel():
    """Prediction with (k + k^E) / 2 is the second solution; the effective kernel is that of the features."""
    y, left = np.array([[1.0], [0.3], [-0.9]]), []
    for strength in (0.02, 0.01):
        model = drawn(6, 5, 3, strength)
        half = (model.kernel + effective_kernel(model.kernel, model.meta_kernel, y)[0]) / 2
        direct = half[3:, :3] @ np.linalg.solve(half[:3, :3], y)
        left.append(np.abs(direct - predicted(model, y, "trained kernel")).max())
        moved = model.effective_features(model.direct(y))[:, 0]
        np.testing.assert_allclose(
            moved @ moved.T, effective_kernel(model.kernel, model.meta_kernel, y)[0], atol=60 * strength**2
        )
    assert left[0] / left[1] == pytest.approx(4, abs=0.4)


def test_one_training_sample_has_one_flow():
    """A path in one dimension has no area: flow is the trained kernel, but steps are not."""
    model = drawn(6, 3, 4)
    flow = predicted(model, [0.7], "descent")
    np.testing.assert_allclose(flow, predicted(model, [0.7], "trained kernel"), rtol=1e-12)
    assert not np.allclose(flow, predicted(model, [0.7], "descent", 0.1))


def test_training_samples_keep_their_targets():
    model = drawn(6, 4, 5)
    again = QuadraticModel.of(
        np.concatenate([model.features[:3], model.features[:3]]),
        np.concatenate([model.meta_features[:3], model.meta_features[:3]]),
    )
    for algorithm in ("direct", "trained kernel", "ridge", "descent"):
        np.testing.assert_allclose(predicted(again, [1.0, 0.2, -0.5], algorithm)[:, 0], [1.0, 0.2, -0.5], atol=1e-10)


def test_wrong_questions():
    with pytest.raises(InvalidInput, match="symmetric"):
        QuadraticModel.of([[1.0, 2.0]], [[[0.0, 1.0], [0.0, 0.0]]])
    with pytest.raises(InvalidInput, match="it must be"):
        QuadraticModel.of([[1.0, 2.0]], [[[0.0]]])
    model = drawn(2, 3, 0)
    with pytest.raises(InvalidInput, match="at most d"):
        predicted(model, [1.0] * 5, "ridge")
    with pytest.raises(InvalidInput, match="algorithm"):
        predicted(model, [1.0], "newton")
