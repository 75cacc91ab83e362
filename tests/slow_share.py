"""Pytest options that run one eighth of the slow tests, for as long as there is time: see `.ci/run`."""

import hashlib
import time

import pytest

SHARES = 8
NOT_RUN = "not run: the minutes of --slow-minutes were over"
_deadline = pytest.StashKey[float]()


def number(*words):
    """The same number for the same words on every machine (Python's own hash differs from run to run)."""
    return int.from_bytes(hashlib.sha256("\n".join(words).encode()).digest()[:8], "big")


def chosen(test, seed):
    """Whether the share of this seed holds the test; each is in one of eight, whatever other tests there are."""
    return (number(test) + number(seed)) % SHARES == 0


def turn(test, seed):
    """Place of the test's module, another with every seed, so that time does not always run out for the same tests."""
    return number(seed, test.partition("::")[0])


def pytest_addoption(parser):
    group = parser.getgroup("slow tests")
    group.addoption("--slow-share", metavar="SEED", help="only an eighth of the slow tests, chosen by this word")
    group.addoption("--slow-minutes", metavar="M", type=float, help="begin no test after so many minutes; say how many")


def pytest_configure(config):
    minutes = config.getoption("slow_minutes")
    config.stash[_deadline] = float("inf") if minutes is None else time.monotonic() + 60 * minutes


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    seed = config.getoption("slow_share")
    if seed is None:
        return
    if not seed.strip():
        raise pytest.UsageError(f"--slow-share={seed!r} is empty: give the hash of a commit")
    share = [item for item in items if item.get_closest_marker("slow") and chosen(item.nodeid, seed)]
    kept = set(share)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(share, key=lambda item: turn(item.nodeid, seed))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.monotonic() > item.config.stash[_deadline]:
        pytest.skip(NOT_RUN)


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("slow_minutes") is None:
        return
    stats = terminalreporter.stats
    left = sum(NOT_RUN in str(report.longrepr) for report in stats.get("skipped", []))
    begun = sum(len(stats.get(kind, [])) for kind in ("passed", "failed", "skipped")) - left
    terminalreporter.write_line(
        f"{config.getoption('slow_minutes'):g} minutes: {begun} tests were run, {left} were not for lack of time"
    )
