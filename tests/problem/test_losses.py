"""Losses: values by hand, errors by automatic differentiation, and losses that users write."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.base.errors import InvalidInput


@dataclass(frozen=True)
class Quartic(wf.Loss, kind="test-quartic"):
    """The example of the documentation, with a field of its own."""

    strength: float = 1.0

    def value(self, outputs, targets):
        return self.strength * jnp.sum((targets - outputs) ** 4, axis=-1)


LOSSES = [
    wf.SquaredError(),
    wf.Logistic(),
    wf.SoftmaxCrossEntropy(),
    wf.Huber(threshold=0.7),
    wf.Huber(threshold=3.0, reduction="mean"),
    Quartic(strength=0.3),
]


def targets_for(loss, values):
    """Targets that make sense for a loss, from any numbers."""
    if isinstance(loss, wf.Logistic):
        return np.where(values < 0, -1.0, 1.0)
    if isinstance(loss, wf.SoftmaxCrossEntropy):
        return np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    return values


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.kind} {loss.reduction}")
@given(numbers=st.lists(st.floats(-20, 20), min_size=12, max_size=12))
def test_error_is_minus_the_gradient_of_the_value(loss, numbers):
    with jax.enable_x64(True):
        outputs = jnp.asarray(np.reshape(numbers[:6], (2, 3)))
        targets = jnp.asarray(targets_for(loss, np.reshape(numbers[6:], (2, 3))))
        if isinstance(loss, wf.Huber):  # at the corners of the error both slopes are right
            distance = np.abs(np.abs(targets - outputs) - loss.threshold)
            outputs = jnp.where(distance < 1e-9, outputs + 1e-6, outputs)
        gradient = jax.grad(lambda f: jnp.sum(loss.value(f, targets)))(outputs)
        np.testing.assert_allclose(loss.error(outputs, targets), -gradient, rtol=1e-12, atol=1e-12)
        step = 1e-5  # and the value itself moves by the error
        for direction in np.eye(3):
            ahead, behind = (loss.value(outputs + s * jnp.asarray(direction)[None], targets) for s in (step, -step))
            slope = (ahead - behind) / (2 * step)
            expected = -loss.error(outputs, targets) @ jnp.asarray(direction)
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=2e-5)


def test_values_by_hand(double):
    f, y = jnp.array([[0.5, -2.0], [3.0, 1.0]]), jnp.array([[1.0, 1.0], [1.0, -1.0]])
    expected = {
        wf.SquaredError(): [0.5 * (0.25 + 9), 0.5 * (4 + 4)],
        wf.Huber(threshold=1.0): [0.125 + 2.5, 1.5 + 1.5],
        wf.Logistic(): [np.log1p(np.exp(-0.5)) + np.log1p(np.exp(2)), np.log1p(np.exp(-3)) + np.log1p(np.exp(1))],
    }
    for loss, values in expected.items():
        np.testing.assert_allclose(loss.value(f, y), values, rtol=1e-14)
    classes = jnp.array([[1.0, 0.0], [0.25, 0.75]])
    log_z = np.log(np.exp(f).sum(axis=1))
    entropy = [log_z[0] - 0.5, log_z[1] - 0.25 * 3 - 0.75]
    np.testing.assert_allclose(wf.SoftmaxCrossEntropy().value(f, classes), entropy, rtol=1e-14)


def test_large_outputs_neither_overflow_nor_lose_their_slope(double):
    f = jnp.array([[1e4], [-1e4]])
    np.testing.assert_allclose(wf.Logistic().value(f, jnp.ones((2, 1))), [0.0, 1e4])
    np.testing.assert_allclose(wf.Logistic().error(f, jnp.ones((2, 1)))[:, 0], [0.0, 1.0])
    wide = jnp.concatenate([f, -f], axis=1)
    first = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(wf.SoftmaxCrossEntropy().value(wide, first), [0.0, 2e4])
    np.testing.assert_allclose(wf.SoftmaxCrossEntropy().error(wide, first), [[0, 0], [1, -1]])


@given(threshold=st.floats(1e-3, 1e3), sign=st.sampled_from([-1.0, 1.0]))
def test_huber_is_continuous_and_bounded(threshold, sign):
    loss, gap = wf.Huber(threshold=threshold), 1e-9 * threshold
    with jax.enable_x64(True):
        at = jnp.asarray([[sign * (threshold - gap)], [sign * (threshold + gap)], [sign * 1e6]])
        value, error = loss.value(at, jnp.zeros((3, 1))), loss.error(at, jnp.zeros((3, 1)))[:, 0]
    np.testing.assert_allclose(value[:2], 0.5 * threshold**2, rtol=1e-8)
    np.testing.assert_allclose(error, [-sign * threshold] * 3, rtol=1e-8)
    np.testing.assert_allclose(value[2], threshold * (1e6 - 0.5 * threshold), rtol=1e-12)


def test_a_huge_threshold_makes_huber_the_squared_error(double):
    f, y = jnp.array([[0.5, -2.0]]), jnp.array([[1.0, 40.0]])
    np.testing.assert_array_equal(wf.Huber(threshold=1e9).error(f, y), wf.SquaredError().error(f, y))
    np.testing.assert_allclose(wf.Huber(threshold=1e9).value(f, y), wf.SquaredError().value(f, y), rtol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.kind} {loss.reduction}")
def test_the_total_is_a_sum_or_a_mean_over_samples(loss, double):
    f = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)
    y = jnp.asarray(targets_for(loss, np.linspace(1.0, -2.0, 12).reshape(4, 3)))
    values = loss.value(f, y)
    assert values.shape == (4,)
    expected = np.mean(values) if loss.reduction == "mean" else np.sum(values)
    np.testing.assert_allclose(loss.total(f, y), expected, rtol=1e-14)
    assert loss.weight(4) == (0.25 if loss.reduction == "mean" else 1.0)


def test_a_loss_of_ones_own_is_trained_and_written_to_files(tmp_path):
    problem = wf.Problem(
        wf.MLP(hidden_layers=1, activation="tanh", outputs=2),
        wf.data.gaussian(samples=3, dimension=4, outputs=2, seed=2),
        Quartic(strength=0.3, reduction="mean"),
        optimiser=wf.SGD(learning_rate=(1e-6, 0.1, 0.1), steps=3),
        record=wf.Record(every=1, neurons=0),
    )
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    trajectory = wf.solve(problem, wf.FiniteWidth(8))
    y, f, ntk = problem.samples.y, trajectory.data.outputs.values[0], trajectory.data.ntk.values[0]
    loss = 0.3 * np.mean(np.sum((y - f) ** 4, axis=-1), axis=-1)
    np.testing.assert_allclose(trajectory.data.loss.values[0], loss, rtol=1e-12)
    assert loss[-1] < 0.9 * loss[0]
    # the first step is tiny, so f moves by eta K Delta with Delta = 4 strength (y - f)^3 / P
    expected = 1e-6 * np.einsum("pcqd,qd->pc", ntk[0], 4 * 0.3 / 3 * (y - f[0]) ** 3)
    np.testing.assert_allclose(f[1] - f[0], expected, rtol=1e-4)
    trajectory.save(tmp_path / "run.nc")
    loaded = wf.Trajectory.load(tmp_path / "run.nc")
    assert loaded.problem == problem
    assert loaded.data.attrs["loss"] == f"mean over samples of {Quartic.kind}"


def test_what_a_loss_adds_up_is_told():
    assert wf.SquaredError().convention == "sum over samples of 1/2 sum_c (y_c - f_c)^2"
    assert wf.Logistic(reduction="mean").convention == "mean over samples of sum_c log(1 + exp(-y_c f_c))"
    ours = [member for member in wf.Loss.members.values() if member.__module__.startswith("widefield.")]
    assert all(member.formula for member in ours)
    assert len({member.formula for member in ours}) == len(ours) == 4


def test_a_loss_without_a_value_says_so(double):
    class Empty(wf.Loss):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define value"):
        Empty().error(jnp.ones((1, 1)), jnp.ones((1, 1)))


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (wf.Logistic(), [[0.0]]),
        (wf.Logistic(), [[1.0, 0.999]]),
        (wf.SoftmaxCrossEntropy(), [[1.0]]),
        (wf.SoftmaxCrossEntropy(), [[0.5, 0.6]]),
        (wf.SoftmaxCrossEntropy(), [[1.5, -0.5]]),
    ],
)
def test_targets_that_make_no_sense_are_refused(loss, targets):
    with pytest.raises(InvalidInput, match="targets"):
        loss.check_targets(np.array(targets))


def test_a_field_of_ones_own_comes_first():
    assert wf.Huber(0.5) == wf.Huber(threshold=0.5)
    with pytest.raises(TypeError):
        wf.Huber(0.5, "mean")


def test_a_reduction_by_position_still_works():
    for old, new in (
        (lambda: wf.SquaredError("mean"), wf.SquaredError(reduction="mean")),
        (lambda: wf.Huber("mean", 0.5), wf.Huber(threshold=0.5, reduction="mean")),
    ):
        with pytest.warns(DeprecationWarning, match="write reduction='mean'"):
            assert old() == new


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.kind} {loss.reduction}")
def test_hopeless_is_far_beyond_an_output_of_zero(loss):
    with jax.enable_x64(True):
        targets = jnp.asarray(targets_for(loss, np.linspace(-2, 2, 6).reshape(2, 3)))
        limit = 1e12 * (1 + float(loss.total(jnp.zeros_like(targets), targets)))
        losses = np.array([0.0, 0.9 * limit, 1.1 * limit, np.inf, np.nan])
        np.testing.assert_array_equal(loss.hopeless(losses, targets), [False, False, True, True, True])


@pytest.mark.parametrize(
    ("family", "word", "kind"),
    [(family, word, kind) for family in (wf.Loss, wf.LearningRule) for word, kind in family.synonyms.items()],
)
def test_synonyms_in_files(family, word, kind):
    """Case, "_" and "-" do not matter; what is written is the kind."""
    for spelling in (word, word.upper(), word.replace("-", "_"), kind.replace("-", " ").title()):
        found = family.from_table({"kind": spelling})
        assert found.to_table()["kind"] == kind
    with pytest.raises(wf.UnknownName, match=f"unknown kind of {family.family}"):
        family.from_table({"kind": f"{word}x"})
