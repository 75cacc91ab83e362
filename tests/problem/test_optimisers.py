"""Optimisers: learning rates, batches, the recurrence of a weight, and Langevin noise."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.matrices.dense import Dense


def test_a_number_and_a_list_of_rates():
    np.testing.assert_array_equal(wf.SGD(0.3, 4).rates(), [0.3] * 4)
    np.testing.assert_array_equal(wf.SGD((0.3, 0.0, 2.0), 3).rates(), [0.3, 0.0, 2.0])


def test_cosine_warms_up_peaks_and_ends():
    rates = wf.SGD(wf.Cosine(peak=2.0, final=0.5, warmup=3), 12).rates()
    np.testing.assert_allclose(rates[:4], [0.5, 1.0, 1.5, 2.0], rtol=1e-15)
    assert rates[-1] == 0.5
    np.testing.assert_allclose(rates[7], 0.5 + 1.5 * 0.5 * (1 + np.cos(np.pi * 4 / 8)), rtol=1e-15)
    assert np.all(np.diff(rates[3:]) < 0)
    np.testing.assert_allclose(wf.Cosine(peak=1.0).rates(3), [1.0, 0.5, 0.0], atol=1e-16)
    np.testing.assert_array_equal(wf.Cosine(peak=1.0, warmup=9).rates(2), [0.1, 0.2])


def test_power_decay():
    rates = wf.PowerDecay(initial=3.0, delay=2.0, exponent=1.5).rates(7)
    np.testing.assert_allclose(rates[[0, 2, 6]], [3.0, 3 / 2**1.5, 3 / 8], rtol=1e-15)


def test_piecewise_changes_at_its_boundaries():
    rates = wf.Piecewise(values=(1.0, 0.1, 0.0), boundaries=(2, 5)).rates(7)
    np.testing.assert_array_equal(rates, [1.0, 1.0, 0.1, 0.1, 0.1, 0.0, 0.0])


sizes = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@given(sizes=sizes, steps=st.integers(1, 60), seed=st.integers(0, 2**40))
def test_an_epoch_visits_no_sample_twice(sizes, steps, seed):
    samples, batch = sizes
    batches = wf.SGD(0.1, steps, batch_size=batch, seed=seed).batches(samples)
    assert batches.shape == (steps, batch)
    assert batches.min() >= 0
    assert batches.max() < samples
    per_epoch = samples // batch
    for start in range(0, steps, per_epoch):
        epoch = batches[start : start + per_epoch].ravel()
        assert len(set(epoch.tolist())) == len(epoch)


@given(sizes=sizes, steps=st.integers(1, 20), more=st.integers(1, 20))
def test_batches_follow_from_the_seed_and_not_from_the_length_of_the_run(sizes, steps, more):
    samples, batch = sizes
    short, long = (wf.SGD(0.1, n, batch_size=batch, seed=5).batches(samples) for n in (steps, steps + more))
    np.testing.assert_array_equal(long[:steps], short)


def test_another_seed_gives_another_order_and_epochs_differ():
    one, other = (wf.SGD(0.1, 20, batch_size=2, seed=seed).batches(20) for seed in (0, 1))
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[:10], one[10:])
    assert sorted(one[:10].ravel()) == list(range(20))


def test_one_pass_takes_the_samples_in_order():
    batches = wf.SGD(0.1, 3, batch_size=2, one_pass=True).batches(7)
    np.testing.assert_array_equal(batches, [[0, 1], [2, 3], [4, 5]])


def test_the_full_batch_has_no_batches():
    assert wf.SGD(0.1, 3).batches(7) is None


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (0.7, 0.3)])
def test_a_step_follows_the_recurrence(momentum, decay, double):
    """Q <- m Q + (1 - m) (G - lambda W), W <- W + eta Q, written out in plain NumPy."""
    rng = np.random.default_rng(0)
    optimiser = wf.SGD(0.1, 5, momentum=momentum, weight_decay=decay)
    start, gradients, rates = rng.normal(size=(3, 2)), rng.normal(size=(5, 3, 2)), rng.uniform(size=5)
    value, velocity = jnp.asarray(start), optimiser.rest(jnp.asarray(start))
    w, q = start.copy(), np.zeros((3, 2))
    assert (velocity is None) == (momentum == 0)
    for gradient, rate in zip(gradients, rates, strict=True):
        value, velocity = optimiser.advance(value, velocity, jnp.asarray(gradient), jnp.asarray(rate))
        for i, j in np.ndindex(3, 2):
            q[i, j] = momentum * q[i, j] + (1 - momentum) * (gradient[i, j] - decay * w[i, j])
            w[i, j] += rate * q[i, j]
    np.testing.assert_allclose(value, w, rtol=0, atol=1e-14)


def test_momentum_remembers_as_the_theory_says(double):
    """W(t) - W(0) = eta sum_{s<t} (1 - m^{t-s}) G(s)."""
    optimiser, gradients = wf.SGD(0.1, 6, momentum=0.6), np.random.default_rng(1).normal(size=(6, 4))
    value, velocity = jnp.zeros(4), jnp.zeros(4)
    for gradient in gradients:
        value, velocity = optimiser.advance(value, velocity, jnp.asarray(gradient), jnp.asarray(0.1))
    memory = 1 - 0.6 ** (6 - np.arange(6))
    np.testing.assert_allclose(value, 0.1 * memory @ gradients, rtol=0, atol=1e-14)


def free_weights(optimiser, steps, size=200):
    """A matrix without gradient after so many steps of Langevin noise, and its start."""
    dense = Dense(jnp.asarray(7), (size, size)).with_matrix("w", 0, 1, 1.0)
    start, rate = dense.values["w"], jnp.asarray(0.03)
    for step in range(steps):
        moved, _ = optimiser.advance(dense.values, None, {"w": jnp.zeros((size, size))}, rate)
        dense = dense.with_values(moved).shaken("w", optimiser.noise(rate), jnp.asarray(step))
    return np.asarray(start), np.asarray(dense.values["w"])


def test_free_weights_diffuse(double):
    """Without gradient the variance of a weight grows by 2 eta T a step, independently for every weight."""
    start, end = free_weights(wf.SGD(0.03, 10, temperature=0.8), 10)
    moved = end - start
    expected, count = 2 * 0.03 * 0.8 * 10, moved.size
    assert abs(np.var(moved) - expected) < 4 * expected * np.sqrt(2 / count)
    assert abs(np.mean(moved)) < 4 * np.sqrt(expected / count)
    assert abs(np.mean(moved * start)) < 4 * np.sqrt(expected / count)
    neighbours = moved[1:] * moved[:-1]
    assert abs(neighbours.mean()) < 4 * expected / np.sqrt(neighbours.size)


def test_free_weights_with_decay_have_the_variance_of_the_recurrence(double):
    """Q(t, t) = al^{2t} + 2 eta T sum_k al^{2(t-1-k)}, al = 1 - eta lambda."""
    optimiser = wf.SGD(0.03, 12, temperature=0.5, weight_decay=2.0)
    _, end = free_weights(optimiser, 12)
    al = 1 - 0.03 * 2.0
    expected = al**24 + 2 * 0.03 * 0.5 * sum(al ** (2 * k) for k in range(12))
    assert abs(np.var(end) - expected) < 4 * expected * np.sqrt(2 / end.size)


def test_langevin_training_reaches_the_stationary_variance():
    """With zero targets and little richness weights are free: <h^2> -> K^x T/lambda, up to the step size.

    eta lambda = 0.1, so the variance of a weight is 2 eta T / (1 - (1 - eta lambda)^2) = (T/lambda) / 0.95.
    """
    optimiser = wf.SGD(0.05, 60, temperature=3.0, weight_decay=2.0)
    problem = wf.Problem(
        wf.MLP(1, "linear", richness=1e-4, weight_variances=4.0),
        wf.data.whitened(samples=2, dimension=2),
        wf.Huber(threshold=1e-9),
        optimiser=optimiser,
        record=wf.Record(steps=[0], neurons=2000),
    )
    h = wf.solve(problem, wf.FiniteWidth(2000, seeds=3)).data.preactivation.isel(layer=0)
    for time, expected in ((0, 4.0), (-1, 4.0 * 0.9**120 + 1.5 / 0.95 * (1 - 0.9**120))):
        values = h.isel(time=time).values
        assert abs(np.var(values) - expected) < 4 * expected * np.sqrt(2 / values.size)
    correlation = np.corrcoef(h.isel(time=0).values.ravel(), h.isel(time=-1).values.ravel())[0, 1]
    assert abs(correlation - 0.9**60 * 2 / np.sqrt(1.5 / 0.95)) < 4 / np.sqrt(h.isel(time=0).size)
