"""Random splits: shares, classes, scale, and that nothing of the test samples is used."""

import numpy as np
import pytest

import widefield as wf

RNG = np.random.default_rng(0)
X = 3.0 + 2.0 * RNG.standard_normal((50, 4))
Y = X[:, 0] - 5 * X[:, 1]


def rows_of(split, part):
    """Numbers of the samples in a part of a split, by their inputs."""
    raw = split.data
    x = raw.x if part == "train" else raw.x_test
    return [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in x]


def test_every_sample_is_in_one_part_and_divisions_differ():
    made = wf.data.splits((X, Y), 4, test_share=0.2, seed=3)
    parts = [(rows_of(split, "train"), rows_of(split, "test")) for split in made]
    for train, test in parts:
        assert (len(train), len(test)) == (40, 10)
        assert sorted(train + test) == list(range(50))
    assert len({frozenset(test) for _, test in parts}) == 4


def test_standardised_by_training_samples_alone():
    (split,) = wf.data.splits((X, Y), 1)
    samples = split.load()
    np.testing.assert_allclose(samples.x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(samples.x.std(axis=0), 1)
    moved = X.copy()
    moved[rows_of(split, "test")] += 100.0
    (other,) = wf.data.splits((moved, Y), 1)
    np.testing.assert_array_equal(other.load().x, samples.x)


def test_classes_keep_their_shares():
    labels = np.array(["a"] * 35 + ["b"] * 10 + ["c"] * 5)
    for split in wf.data.splits((X, labels), 6, test_share=0.2, seed=1):
        counts = split.load().y_test.sum(axis=0)
        assert counts.sum() == 10
        assert np.abs(counts - [7, 2, 1]).max() <= 1
        assert split.classes == ("a", "b", "c")


def test_some_of_the_rows_and_the_same_ones_in_all_splits():
    made = wf.data.splits((X, Y), 3, rows=20, seed=5)
    used = [sorted(rows_of(split, "train") + rows_of(split, "test")) for split in made]
    assert len(used[0]) == 20
    assert used[0] == used[1] == used[2]
    assert wf.data.splits((X, Y), 3, rows=20, seed=5) == made
    assert wf.data.splits((X, Y), 3, rows=20, seed=6) != made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "count = 0"),
        ({"test_share": 1.0}, "test_share"),
        ({"rows": 3}, "rows = 3"),
    ],
)
def test_what_cannot_be(given, message):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.data.splits((X, Y), **given)


def test_too_few_samples():
    with pytest.raises(wf.InvalidInput, match="5 samples"):
        wf.data.splits((X[:5], Y[:5]))
