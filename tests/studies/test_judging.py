"""Verdicts from synthetic numbers: differences that are there are found, those that are not are not."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from widefield.studies import scans, widths
from widefield.studies.baselines import simple_machines
from widefield.studies.judging import Estimate, critical, judged, over_splits, stopped
from widefield.studies.plan import Grid

SHARE = 0.2
NOISE = np.array([0.03, -0.02, 0.01, -0.04, 0.02])


def test_error_bars_are_those_of_overlapping_splits():
    values = np.array([0.5, 0.6, 0.4, 0.55, 0.45])
    found = over_splits(values, SHARE)
    assert found.mean == pytest.approx(0.5)
    assert found.error == pytest.approx(values.std(ddof=1) * np.sqrt(1 / 5 + 0.2 / 0.8))
    assert found.half() == pytest.approx(2.776445 * found.error, rel=1e-5)
    assert np.isnan(over_splits(values[:1], SHARE).error)
    assert over_splits(values[:1], SHARE).half() == np.inf


def test_what_all_splits_share_does_not_hide_a_difference():
    """Splits differ by 0.5, choices by 0.05: only paired differences see it."""
    hard = np.array([0.2, 0.7, 0.4, 0.6, 0.3])
    small = 0.001 * NOISE
    found = judged(np.stack([hard + 0.05 + small, hard, hard + 0.0001 * NOISE[::-1]]), SHARE)
    assert found.best in (1, 2)
    assert 0 not in found.alike
    assert {1, 2} == set(found.alike)
    assert not found.undecided
    assert found.simplest == 1


def overlapping(rng, count, choices, splits):
    """Losses of equal choices on splits that overlap as random ones do: their correlation is the share of tests."""
    common = rng.standard_normal((count, choices, 1)) * np.sqrt(SHARE)
    own = rng.standard_normal((count, choices, splits)) * np.sqrt(1 - SHARE)
    return common + own


@pytest.mark.parametrize(("choices", "splits"), [(2, 6), (4, 5), (6, 6), (6, 16)])
def test_false_alarms_are_rare(choices, splits):
    """Equal choices: fewer than 5% of studies see a difference."""
    cases = overlapping(np.random.default_rng(1), 2000, choices, splits)
    alarms = sum(not judged(one, SHARE).undecided for one in cases)
    assert 0.02 < alarms / len(cases) < 0.05


def test_false_alarms_are_rare_among_choices_of_unequal_scatter_and_beside_worse_ones():
    """Two choices are worse for sure, so that steps go on to the other four, which are equal but scatter unequally."""
    cases = overlapping(np.random.default_rng(2), 2000, 6, 8)
    cases *= np.array([1.0, 1.0, 1.0, 3.0, 0.5, 2.0])[:, None]
    cases[:, :2] += 100.0
    found = [judged(one, SHARE) for one in cases]
    assert not any({0, 1} & set(one.alike) for one in found)
    assert np.mean([len(one.alike) < 4 for one in found]) < 0.05


def by_all_pairs(losses):
    """Choices as good as the best by Student's t shared by all pairs (Bonferroni): the plain rule, for comparison."""
    choices, splits = losses.shape
    gaps = losses - losses[losses.mean(axis=1).argmin()]
    errors = gaps.std(axis=1, ddof=1) * np.sqrt(1 / splits + SHARE / (1 - SHARE))
    level = 1 - 0.05 / (choices * (choices - 1))
    return {
        place for place in range(choices) if gaps[place].mean() <= scipy.stats.t.ppf(level, splits - 1) * errors[place]
    }


def test_power_is_that_of_more_than_all_pairs():
    """Choices that are worse by about their error bars are found more often, the more so with more splits."""
    shift = np.array([3.0, 2.5, 2.0, 1.5, 0.0, 0.0])[:, None]
    share = {}
    for splits in (6, 16):
        cases = overlapping(np.random.default_rng(3), 400, 6, splits) + shift
        ours = np.mean([4 - len({0, 1, 2, 3} & set(judged(one, SHARE).alike)) for one in cases]) / 4
        plain = np.mean([4 - len({0, 1, 2, 3} & by_all_pairs(one)) for one in cases]) / 4
        share[splits] = (ours, plain)
    assert share[6][0] > 1.3 * share[6][1]
    assert share[16][0] > 1.1 * share[16][1]
    assert share[16][0] > 1.5 * share[6][0]


def test_the_critical_number_is_near_that_of_tukey():
    for choices in (3, 6):
        expected = scipy.stats.studentized_range.ppf(0.96, choices, 59) / np.sqrt(2)
        assert critical(choices, 60) == pytest.approx(expected, rel=0.03)
    assert critical(2, 8) == pytest.approx(scipy.stats.t.ppf(0.98, 7))
    assert critical(1, 8) == 0
    assert critical(4, 1) == np.inf


def test_a_single_split_never_shows_a_difference():
    found = judged(np.array([[0.1], [0.9]]), SHARE)
    assert found.undecided
    assert found.halves[1] == np.inf


def test_choices_that_failed_are_never_as_good():
    found = judged(np.array([[np.nan] * 3, [0.5, 0.6, 0.7], [0.5, 0.61, 0.7]]), SHARE)
    assert 0 not in found.alike
    assert found.best == 1


def test_no_split_decides_when_its_own_training_ends():
    curves = np.array([[1.0, 0.5, 0.1], [1.0, 0.4, 0.9], [1.0, 0.4, 0.9]])
    losses, steps = stopped(curves)
    assert steps.tolist() == [1, 2, 2] or steps.tolist() == [1, 1, 1]
    others = [(curves.sum(axis=0) - row) / 2 for row in curves]
    assert steps.tolist() == [int(np.argmin(mean)) for mean in others]
    np.testing.assert_array_equal(losses, curves[np.arange(3), steps])
    assert stopped(curves[:1])[1].tolist() == [2]


def of(means):
    """Choices that differ by these means, with a scatter of a few hundredths of their own."""
    rng = np.random.default_rng(0)
    return judged(np.array(means)[:, None] + 0.01 * rng.standard_normal((len(means), 5)), SHARE)


def test_lazy_or_rich_in_words():
    values = [0.0, 0.3, 1.0, 3.0]
    same = scans.lazy_or_rich(values, of([0.5, 0.5, 0.5, 0.5]))
    assert same.startswith("Lazy or rich makes no difference within error bars")
    rich = scans.lazy_or_rich(values, of([0.9, 0.7, 0.5, 0.2]))
    assert rich.startswith("Rich is better: richness 3")
    assert "0.7 ±" in rich
    worse = scans.lazy_or_rich(values, of([0.5, 0.5, 0.5, 0.9]))
    assert "no difference within error bars between the lazy end" in worse
    assert "worse than that: 3 (0.8997" in worse
    slightly = scans.lazy_or_rich([0.0, 0.1, 1.0], of([0.9, 0.2, 0.9]))
    assert slightly.startswith("Lazy is better, but not the limit: richness 0.1 has test loss 0.2")
    assert "As good within error bars: 3." in scans.lazy_or_rich(values, of([0.9, 0.9, 0.2, 0.2]))


def test_who_stands_for_the_lazy_limit_is_said():
    desk = SimpleNamespace(grid=Grid(richness=(0.0, 0.2, 3.0)))
    said = scans._stand_in(desk, [0.0, 0.2, 3.0], of([0.2, 0.5, 0.9]))
    assert said.endswith("questions that need networks are asked at richness 0.2.")
    assert scans._stand_in(desk, [0.0, 0.2, 3.0], of([0.5, 0.2, 0.9])) == ""


def test_depth_in_words_takes_the_fewest_layers_that_do():
    depths = [1, 2, 3]
    assert scans.how_deep(depths, of([0.5, 0.5, 0.5])).endswith("Take 1 hidden layer.")
    assert scans.how_deep(depths, of([0.9, 0.3, 0.3])).startswith("Take 2 hidden layers")
    assert "Worse: 1 hidden layer" in scans.how_deep(depths, of([0.9, 0.3, 0.3]))


def test_rules_and_machines_in_words():
    names = ["gradient-descent", "feedback-alignment"]
    assert "no difference within error bars" in scans.which_rule(names, of([0.5, 0.5]))
    assert "Worse: feedback-alignment" in scans.which_rule(names, of([0.2, 0.9]))
    machines = ["linear model", "kernel machine (NNGP)"]
    better = simple_machines(machines, of([0.9, 0.2]), np.array([-1.4, -0.3]))
    assert "kernel machine (NNGP) is better than a linear model by 0.7" in better
    assert "largest for the kernel machine" in better
    equal = of([0.5, 0.5])
    said = ("the linear model has the lowest", "there is no difference within error bars between the linear model and")
    assert said[equal.best] in simple_machines(machines, equal, np.array([-1.0, -1.3]))
    rows = np.array([[0.5, 0.51, 0.49], [0.49, 0.52, 0.47]])
    for order in ([0, 1], [1, 0]):
        found = judged(rows[order], SHARE)
        assert found.undecided
        assert said[found.best] in simple_machines(machines, found, np.array([-1.0, -1.3]))
    failed = of([0.9, 0.2, 0.3])
    third = [*machines, "kernel machine (NTK)"]
    broken = judged(np.vstack([np.full(5, np.nan), np.array([[0.2], [0.3]]) + 0.01 * NOISE]), SHARE)
    said = simple_machines(third, broken, np.array([np.nan, -0.3, -0.4]))
    assert "the lowest is that of the kernel machine (NNGP)" in said
    assert said.endswith("Not fitted on all splits, since the kernel is singular: linear model.")
    assert "nan" not in said
    assert "singular" not in simple_machines(third, failed, np.array([-1.4, -0.3, -0.4]))
    none = judged(np.full((2, 5), np.nan), SHARE)
    assert simple_machines(machines, none, np.full(2, np.nan)).startswith("Not fitted on all splits")


def test_width_from_the_two_laws():
    """Scatter c / sqrt(N) and loss a + b / N are found back."""
    tried = np.array([32.0, 64.0, 128.0, 256.0])
    scatters = 0.8 / np.sqrt(tried)[:, None] * np.ones(3)
    assert widths.wide_enough(tried, scatters).mean == pytest.approx((0.8 / 0.05) ** 2)
    limit, near = widths.excess(tried, (0.4 + 2.0 / tried)[:, None] * np.array([1.0, 1.1, 0.9]))
    assert limit.mean == pytest.approx(0.4)
    assert near.mean == pytest.approx(2.0 / (0.05 * 0.4))
    assert near.error == pytest.approx(0, abs=1e-9)  # all splits have the same law, up to a factor
    assert widths.enough(tried, near) == 128
    said = widths.how_wide(
        tried, near, Estimate(256.0, 20.0, 3), widths.Few(8, 300.0, 280.0, 30.0), Estimate(0.05, 0.001, 3)
    )
    assert "from about width 100" in said
    assert "from about width 260 ± 20" in said
    assert "gives 300 and networks give 280 ± 30" in said


def test_the_width_of_the_loss_has_the_error_of_its_splits():
    """The ratio of two means, by linearised errors, against many draws of the same splits."""
    rng, tried = np.random.default_rng(5), np.array([32.0, 64.0, 128.0, 256.0])

    def drawn():
        a, b = 0.4 + 0.04 * rng.standard_normal(6), 2.0 + 0.6 * rng.standard_normal(6)
        return widths.excess(tried, a + b / tried[:, None])[1]

    found = [drawn() for _ in range(600)]
    scatter = np.std([one.mean for one in found])
    spread = np.sqrt(1 + 6 * SHARE / (1 - SHARE))  # error bars allow for splits that overlap, and these do not
    assert np.sqrt(np.mean([one.error**2 for one in found])) == pytest.approx(spread * scatter, rel=0.15)


def test_a_loss_that_falls_to_nothing_has_no_width():
    tried = np.array([32.0, 64.0, 128.0])
    limit, near = widths.excess(tried, (3.0 / tried - 0.01)[:, None] * np.ones(3))
    assert limit.mean == pytest.approx(-0.01)
    assert near.mean == np.inf
    assert widths.enough(tried, near) == 128
    few, last = widths.Few(8, 300.0, np.inf, np.inf), Estimate(0.4, 0.1, 3)
    said = widths.how_wide(tried, near, Estimate(np.inf, np.nan, 3), few, last)
    assert "cannot be told where it is within 5%: take the widest" in said
    assert "Outputs of single networks are mostly scatter" in said
    assert "networks give no width that can be told" in said


@pytest.mark.parametrize(
    ("scatter", "law", "words"),
    [
        (
            0.047,
            226.0,
            "single networks are within 5% of the mean over networks too: by 4.7% of their size at width 256",
        ),
        (0.05, 256.0, "single networks are within 5% of the mean over networks too: by 5% of their size at width 256"),
        (0.0501, 257.0, "single networks differ for longer: by 5% of their size at width 256"),
        (0.08, 655.0, "single networks differ for longer: by 8% of their size at width 256"),
        (0.047, 300.0, "by 4.7% of their size at width 256, which is within 5%; by the law through all widths"),
    ],
)
def test_whether_single_networks_are_within_five_percent(scatter, law, words):
    tried = np.array([64.0, 256.0])
    said = widths.how_wide(
        tried, Estimate(10.0, 1.0, 3), Estimate(law, 20.0, 3), widths.Few(), Estimate(scatter, 0.01, 3)
    )
    assert words in said
    assert ("differ for longer" in said) == (scatter > 0.05)


def test_scatter_of_known_networks():
    rng = np.random.default_rng(2)
    mean = rng.standard_normal((400, 1))
    outputs = mean + 0.3 * rng.standard_normal((6, 400, 1))
    expected = 0.3 / np.sqrt((mean**2).mean())
    assert widths.scatter(outputs) == pytest.approx(expected, rel=0.05)


def test_the_scatter_of_few_networks_has_an_error():
    """By leaving out networks, against many draws."""
    rng, mean = np.random.default_rng(3), np.ones((4, 1))
    found = [widths.with_jackknife(mean + 0.3 * rng.standard_normal((16, 1, 1))) for _ in range(500)]
    values, errors = np.transpose(found)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.15)
    assert widths.with_jackknife(rng.standard_normal((4, 3, 1)) * [[[1e-3]]] + 0.0)[1] > 0
    assert widths.with_jackknife(np.array([1.0, -1.0, 1.0, -1.0])[:, None, None])[0] == np.inf
