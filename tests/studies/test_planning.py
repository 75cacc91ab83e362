"""What fits into how many minutes."""

import pytest

from widefield.studies import plan
from widefield.studies.plan import LEVELS, QUESTIONS, Clock, Costs, Grid, Pilot

PILOT = Pilot(samples=120, step=1e-3, compiling=2.0)


def made(minutes, rows=1000, grid=Grid()):  # noqa: B008
    return plan.planned(PILOT, rows, 60 * minutes, width=128, layers=2, grid=grid)


def test_more_time_is_larger_runs_and_never_more_than_the_time():
    sizes = []
    for minutes in (3, 5, 20, 120):
        found = made(minutes)
        assert found.total <= 60 * minutes
        assert not found.left_out
        sizes.append(LEVELS.index(found.sizes))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_little_time_leaves_out_the_last_questions():
    found = made(0.6)
    assert found.sizes == LEVELS[0]
    assert found.left_out
    assert (*found.seconds, *found.left_out) == QUESTIONS[:-1]  # no rules were asked for
    assert found.total <= 36


def test_rules_only_if_asked():
    assert "rule" not in made(60).seconds
    assert "rule" in made(60, grid=Grid(rules=("hebb",))).seconds


def test_no_more_rows_than_there_are():
    assert made(120, rows=77).sizes.rows == 77


def test_costs_grow_with_what_is_run():
    small, large = (Costs(PILOT, sizes, 128, 2, Grid()) for sizes in (LEVELS[1], LEVELS[3]))
    for name in QUESTIONS[1:-1]:
        assert 0 < small.question(name) < large.question(name)
    assert small.widened(256) > small.widened(32)
    assert small.depth(4) > small.depth(1)


def test_the_clock_learns_from_what_parts_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(plan.time, "monotonic", lambda: now[0])
    clock = Clock(1.0)
    assert clock.allows(50)
    now[0] = 20.0
    clock.learn(10.0, 20.0)
    assert clock.ratio == pytest.approx(2.0)
    assert clock.allows(19)
    assert not clock.allows(21)


def test_the_plan_comes_back_from_files():
    table = plan.to_table(PILOT, LEVELS[2])
    assert plan.from_table(table) == (PILOT, LEVELS[2])
