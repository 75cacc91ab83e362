"""The share of the slow tests that every commit runs: an eighth each, all of them in turn, no longer than allowed."""

import itertools

import pytest

from slow_share import SHARES, chosen, turn

TESTS = [f"tests/room_{k % 7}/test_{k % 40}.py::test[{k}]" for k in range(800)]
SEEDS = [f"{k:040x}" for k in range(60)]


def test_shares_are_equal_and_every_test_is_in_one():
    shares = {frozenset(test for test in TESTS if chosen(test, seed)) for seed in SEEDS}
    assert len(shares) == SHARES
    assert sorted(test for share in shares for test in share) == sorted(TESTS)
    # 100 tests are expected in each, with a standard deviation of 9.4.
    assert all(abs(len(share) - 100) < 4 * 9.4 for share in shares)


def test_modules_take_turns_and_keep_their_tests_together():
    orders = {tuple(dict.fromkeys(sorted(TESTS, key=lambda test: turn(test, seed)))) for seed in SEEDS}
    assert len(orders) == len(SEEDS)
    for order in orders:
        modules = [test.partition("::")[0] for test in order]
        changes = sum(one != next_one for one, next_one in itertools.pairwise(modules))
        assert changes == len(set(modules)) - 1
    assert len({order[0].partition("::")[0] for order in orders}) > 20


FILE = """
import time
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("k", range(40))
def test_slow(k):
    assert k < LIMIT

def test_fast():
    assert False, "not asked for"
"""


@pytest.fixture
def suite(pytester):
    """A suite of 40 slow tests with the options of this one."""
    pytester.makeini("[pytest]\nmarkers = slow: long")
    pytester.makeconftest("from slow_share import *  # noqa: F403")
    return lambda limit: pytester.makepyfile(FILE.replace("LIMIT", str(limit)))


def run(pytester, *arguments):
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *arguments)


def test_only_the_share_is_run(pytester, suite):
    suite(limit=40)
    found = [run(pytester, f"--slow-share={seed}").parseoutcomes()["passed"] for seed in SEEDS[:3]]
    ids = [f"test_only_the_share_is_run.py::test_slow[{k}]" for k in range(40)]
    assert found == [sum(chosen(test, seed) for test in ids) for seed in SEEDS[:3]]
    assert min(found) > 0
    assert max(found) < 20


def test_failures_in_the_share_fail(pytester, suite):
    suite(limit=0)
    assert run(pytester, f"--slow-share={SEEDS[0]}").ret == pytest.ExitCode.TESTS_FAILED


def test_what_there_is_no_time_for_is_counted_and_does_not_fail(pytester, suite):
    suite(limit=0)
    result = run(pytester, f"--slow-share={SEEDS[0]}", "--slow-minutes=0")
    assert result.ret == pytest.ExitCode.OK
    left = result.parseoutcomes()["skipped"]
    assert left > 0
    result.stdout.fnmatch_lines([f"0 minutes: 0 tests were run, {left} were not for lack of time"])


def test_a_share_without_a_seed_is_refused(pytester, suite):
    suite(limit=40)
    result = run(pytester, "--slow-share=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--slow-share='' is empty: give the hash of a commit*"])
