"""Folded fields: coordinates in few directions have the inner products of the fields, wherever a run is cut."""

import numpy as np
import pytest

from widefield.training.folding import FINEST, FREE, Folding, folding_tolerance, strong_directions

NAMES = ("features 1", "images 1", "gradients 1", "pseudo_gradients 1", "gradients 2")
FAMILIES = (("features 1", "images 1"), ("gradients 1", "pseudo_gradients 1"), ("gradients 2",))


def made(rank=12, seeds=2, times=9, samples=3, neurons=200, decay=1.0):
    """Fields of a few directions, each weaker than the one before, and of different sizes."""
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((seeds, rank, neurons))
    found = {}
    for number, name in enumerate(NAMES):
        weights = rng.standard_normal((seeds, times, samples, rank)) * decay ** np.arange(rank)
        field = 10.0 ** (2 * number - 4) * np.einsum("ztpr,zrn->ztpn", weights, vectors)
        found[name] = field if name.startswith("features") else field[:, :, :, None]
    return found


def folded(fields, tolerance, cuts=()):
    folding = Folding(tolerance)
    times = fields["features 1"].shape[1]
    for start, stop in zip((0, *cuts), (*cuts, times), strict=True):
        rest = folding.take({"loss": np.zeros((2, stop - start))} | {k: v[:, start:stop] for k, v in fields.items()})
        assert list(rest) == ["loss"]
    return folding


def products(fields, family, seed):
    """<f(t) f'(s)> of all fields of a family, and the sizes of the rows."""
    rows = [fields[name][seed].reshape(-1, fields[name].shape[-1]) for name in family]
    sizes = np.concatenate([np.full(len(part), np.sqrt(np.mean(part**2))) for part in rows])
    together = np.concatenate(rows)
    return together @ together.T / together.shape[1], sizes


def assert_products(folding, fields, atol):
    for seed in range(2):
        found = {name: value[0][None] for name, value in folding.fields(seed).items()}
        for family in FAMILIES:
            expected, sizes = products(fields, family, seed)
            ours, _ = products(found, family, 0)
            np.testing.assert_allclose(ours / np.outer(sizes, sizes), expected / np.outer(sizes, sizes), atol=atol)


def test_fields_of_few_directions_are_exact():
    fields = made()
    folding = folded(fields, 1e-2)
    assert {len(span.directions) for spans in folding.spans for span in spans.values()} == {12}
    assert folding.fields(1)["gradients 2"].shape == (1, 9, 3, 1, 12)
    assert_products(folding, fields, 1e-12)


def test_directions_stay_orthonormal_although_they_are_weak():
    fields = made(rank=40, times=30, decay=0.7)  # down to 1e-6
    span = folded(fields, FINEST).spans[0]["features 1"]
    assert len(span.directions) > 36
    np.testing.assert_allclose(span.directions @ span.directions.T, np.eye(len(span.directions)), atol=1e-13)


def test_weak_directions_are_dropped_when_there_are_many(monkeypatch):
    fields = made(rank=40, times=30, decay=0.7)
    exact = folded(fields, 1e-2)
    assert_products(exact, fields, 1e-12)  # at most FREE directions
    assert FREE > 40
    monkeypatch.setattr("widefield.training.folding.FREE", 0)
    coarse = folded(fields, 1e-2)
    ranks = [[len(span.directions) for span in folding.spans[0].values()] for folding in (coarse, exact)]
    assert max(ranks[0]) < 25 < min(ranks[1])
    assert_products(coarse, fields, 2e-2)
    with pytest.raises(AssertionError):
        assert_products(coarse, fields, 1e-6)


def test_it_makes_no_difference_where_a_run_is_cut():
    fields = made(rank=40, decay=0.7)
    whole, cut = (folded(fields, 1e-3, cuts) for cuts in ((), (1, 4, 5)))
    resumed = folded({name: value[:, :4] for name, value in fields.items()}, 1e-3)
    kept = resumed.arrays()
    resumed = Folding(1e-3)
    resumed.restore(kept)
    resumed.take({name: value[:, 4:] for name, value in fields.items()})
    for other in (cut, resumed):
        assert other.arrays().keys() == whole.arrays().keys()
        for name, value in whole.arrays().items():
            np.testing.assert_array_equal(value, other.arrays()[name], err_msg=name)


def test_fields_that_vanish_or_explode():
    fields = made()
    fields["gradients 2"] = np.zeros_like(fields["gradients 2"])
    assert not folded(fields, 1e-2).fields(0)["gradients 2"].any()
    assert len(strong_directions(np.full((2, 5), np.nan), np.zeros((0, 5)), 0.1)) == 0


def test_the_tolerance_follows_that_of_the_solver():
    assert [folding_tolerance(t) for t in (1.0, 0.05, 1e-4, 1e-7)] == pytest.approx([1e-2, 5e-3, 1e-5, 1e-7])
