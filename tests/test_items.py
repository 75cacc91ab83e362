"""Every item of the effective theory's chapters has a function and a test, or a word why not, in tables of the docs."""

import re

import pytest

import pages

PAGES = ("docs/effective.md", "docs/bayes.md", "docs/kernel-learning.md")
LAST = {"B": 22, "G": 7, "N": 12, "T": 7, "K": 23, "O": 12}
ALL = {f"{letter}{number}" for letter, last in LAST.items() for number in range(1, last + 1)}
_RANGE = re.compile(r"\b([BGNTKO])(\d+) to \1(\d+)")
_ONE = re.compile(r"\b([BGNTKO])(\d+)\b")


def rows():
    """(item, function, test) of all tables with these headings."""
    for page in PAGES:
        inside = False
        for line in pages.text(page).splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            inside = cells == ["item", "function", "test"] or (inside and bool(cells))
            if inside and len(cells) == 3 and cells[0] not in ("item", "---"):
                yield cells


def items(cell):
    """Those that a first column names: "N1, N3", "N5 to N8", "B15 Hebb"."""
    found = {f"{letter}{number}" for letter, number in _ONE.findall(cell)}
    for letter, first, last in _RANGE.findall(cell):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found & ALL


def test_none_is_missing():
    assert not ALL - set().union(*(items(cell) for cell, _, _ in rows()))


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row[0])
def test_each_has_a_function_and_a_test_or_a_reason(row):
    """`tests/test_docs.py` looks whether the tests exist."""
    _, function, test = row
    reason = re.search(r"\b(no function|none)\b[:,]? \w", function)
    assert reason or "`" in function
    assert reason or "`tests/" in test


def test_what_is_missing_would_be_noticed():
    assert items("N5 to N8: D, F") == {"N5", "N6", "N7", "N8"}
    assert items("O10 noise, B3") == {"O10", "B3"}
    assert items("B30, X1, networks") == set()
